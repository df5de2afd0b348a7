//! Which sessions are meant, by folder and age.

use std::path::{Path, PathBuf, absolute};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use bridle_session::UnixMillis;
use bridle_store::SessionRow;
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

/// The filters as they are applied.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    /// An absolute folder; canonical where it exists, as the stored ones are.
    pub(super) folder: Option<PathBuf>,
    /// Inclusive.
    pub(super) since: Option<UnixMillis>,
    /// Exclusive.
    pub(super) before: Option<UnixMillis>,
}

impl Filter {
    /// The filters as they are meant now and here.
    pub(super) fn resolve(&self) -> anyhow::Result<Selection> {
        let now = UnixMillis::from(SystemTime::now());
        let folder = self.folder.as_deref().map(canonical).transpose()?;
        let at = |when: When| when.resolve(now);
        Ok(Selection { folder, since: self.since.map(at), before: self.before.map(at) })
    }

    /// Whether anything was given.
    pub(super) fn is_empty(&self) -> bool {
        self.folder.is_none() && self.since.is_none() && self.before.is_none()
    }
}

impl Selection {
    /// Whether the session is one of those that are meant.
    pub(super) fn admits(&self, row: &SessionRow) -> bool {
        self.folder.as_ref().is_none_or(|folder| row.header.cwd.starts_with(folder))
            && self.since.is_none_or(|since| row.updated_at() >= since)
            && self.before.is_none_or(|before| row.updated_at() < before)
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
    use std::sync::Arc;

    use bridle_session::{Header, SessionId};

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

    #[test]
    fn a_folder_means_what_is_below_it_too() {
        let row = |cwd: &str| SessionRow {
            header: Arc::new(Header {
                format: Header::FORMAT,
                id: SessionId::new("01a2313b-6f57-74ab-a469-e7b658bf25e8"),
                created_at: UnixMillis(0),
                cwd: cwd.into(),
                extra_roots: Vec::new(),
                parent: None,
                origin: "acp".into(),
                delegation_depth: 0,
            }),
            summary: bridle_session::Summary {
                last_time: Some(UnixMillis(1_000)),
                ..Default::default()
            },
        };
        let folder = Some("/no/such".into());
        let at_folder = Selection { folder, ..Selection::default() };
        assert!(at_folder.admits(&row("/no/such")) && at_folder.admits(&row("/no/such/below")));
        assert!(!at_folder.admits(&row("/no/suchlike")) && !at_folder.admits(&row("/no")));
        let between = |since, before| Selection {
            since: Some(UnixMillis(since)),
            before: Some(UnixMillis(before)),
            folder: None,
        };
        assert!(between(1_000, 1_001).admits(&row("/w")));
        assert!(!between(1_001, 2_000).admits(&row("/w")));
        assert!(!between(0, 1_000).admits(&row("/w")));
    }
}
