//! Which sessions are meant, by folder and age.

use std::path::{Path, PathBuf, absolute};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use bridle_session::UnixMillis;
use bridle_store::SessionFilter;
use clap::Args;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// The filters as a person gives them.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Filter {
    /// Only sessions of this folder or of one below it.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Only sessions that changed then or later: an age such as 12h, 7d or 2w, or a date (UTC).
    #[arg(long, value_name = "WHEN")]
    since: Option<When>,
    /// Only sessions that changed last before then.
    #[arg(long, value_name = "WHEN")]
    before: Option<When>,
}

/// A moment as a person gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// That long ago.
    Ago(Duration),
    At(UnixMillis),
}

impl Filter {
    /// The filters as they are meant now and here.
    pub(super) fn resolve(&self) -> anyhow::Result<SessionFilter> {
        let now = UnixMillis::from(SystemTime::now());
        let folder = self.folder.as_deref().map(canonical).transpose()?;
        let at = |when: When| when.resolve(now);
        Ok(SessionFilter { folder, since: self.since.map(at), before: self.before.map(at) })
    }

    /// Whether anything was given.
    pub(super) fn is_empty(&self) -> bool {
        self.folder.is_none() && self.since.is_none() && self.before.is_none()
    }
}

/// A folder that is gone can still be asked for.
fn canonical(folder: &Path) -> std::io::Result<PathBuf> {
    fs_err::canonicalize(folder).or_else(|_| absolute(folder))
}

impl When {
    fn resolve(self, now: UnixMillis) -> UnixMillis {
        match self {
            Self::Ago(age) => {
                let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
                UnixMillis(now.0.saturating_sub(age))
            }
            Self::At(at) => at,
        }
    }
}

impl FromStr for When {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        age(text).map(Self::Ago).or_else(|| moment(text).map(Self::At)).ok_or(
            "not a time; give an age (30m, 12h, 7d, 2w), a date (2026-11-30, which begins at \
             00:00 UTC) or a time (2026-11-30T18:00:00Z)",
        )
    }
}

fn age(text: &str) -> Option<Duration> {
    let unit = text.chars().last()?;
    let seconds = match unit {
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        'w' => 7 * 24 * 60 * 60,
        _ => return None,
    };
    let digits = text.strip_suffix(unit)?;
    let number: u32 = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())??;
    Some(Duration::from_secs(u64::from(number) * seconds))
}

/// Times before 1970 count as its beginning.
fn moment(text: &str) -> Option<UnixMillis> {
    let day = || TimeZone::UTC.to_timestamp(text.parse::<Date>().ok()?.at(0, 0, 0, 0)).ok();
    let at = match text.len() {
        10 => day()?,
        _ => text.parse::<Timestamp>().ok()?,
    };
    Some(UnixMillis(u64::try_from(at.as_millisecond()).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ages_dates_or_moments() {
        let parse = |text: &str| text.parse::<When>();
        assert_eq!(parse("7d"), Ok(When::Ago(Duration::from_secs(604_800))));
        assert_eq!(parse("90m"), Ok(When::Ago(Duration::from_secs(5_400))));
        assert_eq!(parse("2026-11-30"), Ok(When::At(UnixMillis(1_795_996_800_000))));
        let at = Ok(When::At(UnixMillis(1_796_061_600_000)));
        assert_eq!(parse("2026-11-30T18:00:00Z"), at);
        assert_eq!(parse("2026-11-30T19:00:00+01:00"), at);
        let bad = ["", "d", "7", "7 d", "-7d", "+7d", "1.5d", "7y", "2026-13-01", "yesterday", "é"];
        for text in bad {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("99999999999999999999d").is_err());
    }
}
