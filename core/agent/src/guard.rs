//! Notices when a model goes round in circles.
//!
//! Three times the same call with the same result within one turn tells the model; six times end
//! the turn. A call or result not seen before in the turn is progress and starts the count anew,
//! so A-B-A-B counts and a test run between edits does not.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};

/// How often before the model is told.
const TELL_AT: u32 = 3;
/// How often before the turn ends.
const END_AT: u32 = 6;

/// What the guard says to a finished call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// Nothing special.
    Fine,
    /// The model should be told that it repeats itself.
    Tell,
    /// The turn should end.
    End,
}

/// Counts the calls of one turn.
#[derive(Debug, Default)]
pub(crate) struct RepeatGuard {
    seen: HashMap<u64, u32>,
}

impl RepeatGuard {
    /// Counts one finished call.
    pub(crate) fn count(&mut self, name: &str, arguments: &str, result: &str) -> Repeats {
        let mut hasher = DefaultHasher::new();
        (name, arguments, result).hash(&mut hasher);
        let key = hasher.finish();
        if !self.seen.contains_key(&key) {
            self.seen.values_mut().for_each(|count| *count = 1);
        }
        let count = self.seen.entry(key).or_default();
        *count += 1;
        match *count {
            END_AT.. => Repeats::End,
            TELL_AT => Repeats::Tell,
            _ => Repeats::Fine,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_is_told_and_the_sixth_ends() {
        let mut guard = RepeatGuard::default();
        let verdicts: Vec<_> = (0..6).map(|_| guard.count("read", "{}", "same")).collect();
        use Repeats::{End, Fine, Tell};
        assert_eq!(verdicts, [Fine, Fine, Tell, Fine, Fine, End]);
    }

    #[test]
    fn taking_turns_counts_too() {
        let mut guard = RepeatGuard::default();
        let last = (0..12).map(|i| guard.count("read", if i % 2 == 0 { "a" } else { "b" }, ""));
        assert!(last.into_iter().any(|verdict| verdict == Repeats::End));
    }

    #[test]
    fn progress_starts_the_count_anew() {
        let mut guard = RepeatGuard::default();
        for edit in 0..20 {
            assert_eq!(guard.count("shell", "cargo test", "1 failed"), Repeats::Fine);
            guard.count("edit", &edit.to_string(), "ok");
        }
    }
}
