//! One problem in a file, as a server reports it.

use serde_json::Value;

use crate::answer::shown;
use crate::position::Range;

/// How bad a problem is, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Error,
    Warning,
    Information,
    Hint,
}

impl Severity {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Information => "information",
            Self::Hint => "hint",
        }
    }
}

/// A problem in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Diagnostic {
    pub(crate) range: Range,
    pub(crate) severity: Severity,
    pub(crate) message: String,
    pub(crate) code: Option<String>,
    pub(crate) source: Option<String>,
}

/// The problems of a list, and how many of its elements are none; `None` where no element can be read, or
/// it is no list.
pub(crate) fn diagnostics(listed: Option<&Value>) -> Option<(Vec<Diagnostic>, usize)> {
    let listed = listed?.as_array()?;
    let read: Vec<_> = listed.iter().filter_map(Diagnostic::of).collect();
    let unread = listed.len() - read.len();
    (listed.is_empty() || !read.is_empty()).then_some((read, unread))
}

impl Diagnostic {
    /// Reads one; `None` for what has no place or says nothing.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        let message = value.get("message")?;
        let text = |value: &Value| match value {
            Value::Number(number) => Some(number.to_string()),
            value => shown(Some(value)),
        };
        Some(Self {
            range: Range::of(value.get("range")?)?,
            // One without says no less than one with.
            severity: match value.get("severity").and_then(Value::as_u64) {
                Some(2) => Severity::Warning,
                Some(3) => Severity::Information,
                Some(4) => Severity::Hint,
                _ => Severity::Error,
            },
            message: shown(Some(message)).or_else(|| shown(message.get("value")))?,
            code: value.get("code").and_then(|code| match code {
                Value::Object(code) => code.get("value").and_then(text),
                code => text(code),
            }),
            source: value.get("source").and_then(text),
        })
    }

    /// Whether both say the same, wherever: an edit above it moves a problem.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        (&self.message, &self.code, &self.source) == (&other.message, &other.code, &other.source)
            && self.severity == other.severity
    }

    /// Whether both are of one problem, which two that look for it call by one code.
    pub(crate) fn is_of(&self, other: &Self) -> bool {
        self.code.is_some() && self.code == other.code && self.range.start == other.range.start
    }
}
