//! Format versions: the names of a log's files, and the steps from one version to the next.

use std::borrow::Cow;

use bridle_session::Header;

use crate::Compression;

/// One file of a log: its format version and its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    pub(crate) version: u32,
    pub(crate) compression: Compression,
}

impl Generation {
    pub(crate) fn file_name(self) -> String {
        format!("events.v{}.{}", self.version, suffix(self.compression))
    }

    /// Under which name it is written before it appears. A newer version does not take it for
    /// a log either.
    pub(crate) fn draft_name(self) -> String {
        format!("{}{DRAFT}", self.file_name())
    }

    /// What a file name says; a number too large to hold is newer than anything.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("events.v")?;
        let (compression, digits) = [Compression::Zstd, Compression::None]
            .into_iter()
            .find_map(|form| Some((form, rest.strip_suffix(suffix(form))?.strip_suffix('.')?)))?;
        let numeric = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        numeric.then(|| Self { version: digits.parse().unwrap_or(u32::MAX), compression })
    }
}

/// How the name of every unfinished file ends.
pub(crate) const DRAFT: &str = ".new";

const fn suffix(compression: Compression) -> &'static str {
    match compression {
        Compression::Zstd => "jsonl.zst",
        Compression::None => "jsonl",
    }
}

/// What happens to one line.
pub(crate) type Rewrite = fn(&str) -> Result<String, String>;

/// How the lines of one version become those of the next. Positions stay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The version it starts from.
    pub(crate) from: u32,
    /// What becomes of the header's line.
    pub(crate) header: Rewrite,
    /// What becomes of an event's line.
    pub(crate) event: Rewrite,
}

/// The version that is written, and the steps that lead to it from older ones.
#[derive(Clone, Debug)]
pub(crate) struct Versions {
    pub(crate) current: u32,
    pub(crate) steps: Vec<Step>,
}

impl Versions {
    /// Those of this program. Version 1 is the first, so there is no step yet.
    pub(crate) fn released() -> Self {
        Self { current: Header::FORMAT, steps: Vec::new() }
    }

    /// The steps from `version` to the current one; the error says which is missing.
    pub(crate) fn steps_from(&self, version: u32) -> Result<Vec<Step>, String> {
        let step = |from: u32| {
            let step = self.steps.iter().find(|step| step.from == from).copied();
            let next = from.saturating_add(1);
            step.ok_or_else(|| {
                format!("it has format version {version}, and nothing leads from {from} to {next}")
            })
        };
        (version..self.current).map(step).collect()
    }
}

/// A line after all `steps`.
pub(crate) fn rewrite<'a>(
    line: &'a str,
    steps: &[Step],
    of: impl Fn(&Step) -> Rewrite,
) -> Result<Cow<'a, str>, String> {
    let mut line = Cow::Borrowed(line);
    for step in steps {
        line = of(step)(&line)?.into();
    }
    Ok(line)
}
