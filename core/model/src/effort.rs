//! Thinking levels: how hard a model is asked to think.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How hard the model should think, from not at all to as hard as it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// Not at all.
    Off,
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// Very much.
    XHigh,
    /// As much as the model can.
    Max,
}

impl Effort {
    /// All of them, in their order.
    pub const ALL: [Self; 6] =
        [Self::Off, Self::Low, Self::Medium, Self::High, Self::XHigh, Self::Max];

    /// The id: the word in configuration, in the log and, but for `off`, on the wire.
    pub fn id(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// The level with this id.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.id() == id)
    }

    /// Of `levels` the one that is nearest to this, the lower of two that are equally near; `None`
    /// when there are none. A model that is to think is not told to stop, unless it can do nothing
    /// else.
    pub fn nearest(self, levels: &[Self]) -> Option<Self> {
        let distance = |level: Self| {
            let stops = level == Self::Off && self != Self::Off;
            (stops, (level as i32).abs_diff(self as i32), level)
        };
        levels.iter().copied().min_by_key(|level| distance(*level))
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_that_a_model_lacks_becomes_the_nearest() {
        use Effort::{High, Low, Max, Medium, Off, XHigh};
        let deepseek = [Off, Low, High, Max];
        for (wanted, levels, expected) in [
            (Medium, &deepseek[..], Some(Low)),
            (XHigh, &deepseek, Some(High)),
            (Off, &deepseek, Some(Off)),
            (Off, &[Low, High], Some(Low)),
            (Low, &[Off, Max], Some(Max)),
            (Low, &[Off], Some(Off)),
            (Low, &[], None),
        ] {
            assert_eq!(wanted.nearest(levels), expected, "{wanted} of {levels:?}");
        }
    }

    #[test]
    fn ids_are_read_back() {
        for level in Effort::ALL {
            assert_eq!(Effort::from_id(level.id()), Some(level));
            let json = serde_json::to_string(&level).unwrap();
            assert_eq!(json, format!("\"{level}\""), "one word everywhere");
        }
        assert_eq!(Effort::from_id("HIGH"), None);
    }
}
