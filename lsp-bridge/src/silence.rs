//! What a server did not answer: whoever waited for it in vain does not do so for long again, until it answers.

use std::collections::BTreeMap;
use std::time::Duration;

/// How long it is waited for a server that did not answer before.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);

/// How long it must have been waited for one to count as silent: not everybody waits as long as a slow one takes.
pub(crate) const LONG: Duration = Duration::from_secs(3);

/// How many questions without an answer are remembered, the last ones.
const MAX_GIVEN_UP: usize = 100;

/// The questions that a server did not answer in time.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// Their methods, by number.
    given_up: BTreeMap<i64, String>,
    /// Nothing at all was answered since the last of them.
    is_total: bool,
}

impl Silence {
    /// How long it is waited for the answer to such a question, where that is not as long as for any.
    pub(crate) fn patience(&self, method: &str) -> Option<Duration> {
        let is_silent = self.is_total || self.given_up.values().any(|known| known == method);
        is_silent.then_some(PATIENCE)
    }

    /// A question was not answered within this time.
    pub(crate) fn gave_up(&mut self, id: i64, method: &str, after: Duration) {
        if after < LONG {
            return;
        }
        self.is_total = true;
        self.given_up.insert(id, method.to_owned());
        if self.given_up.len() > MAX_GIVEN_UP {
            self.given_up.pop_first();
        }
    }

    /// A question of this method is answered: it is as any again.
    pub(crate) fn answered(&mut self, method: &str) {
        self.is_total = false;
        self.given_up.retain(|_, known| known != method);
    }

    /// A question is answered for which nobody waits any more.
    pub(crate) fn answered_late(&mut self, id: i64) {
        self.is_total = false;
        if let Some(method) = self.given_up.remove(&id) {
            self.answered(&method);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_did_not_answer_is_given_less_time_until_it_does() {
        let mut silence = Silence::default();
        silence.gave_up(0, "hover", PATIENCE);
        assert_eq!(silence.patience("hover"), None);
        silence.gave_up(1, "hover", LONG);
        assert_eq!([silence.patience("hover"), silence.patience("rename")], [Some(PATIENCE); 2]);
        // It answers, but not this.
        silence.answered("rename");
        assert_eq!([silence.patience("hover"), silence.patience("rename")], [Some(PATIENCE), None]);
        silence.gave_up(2, "hover", LONG);
        silence.answered_late(1);
        assert_eq!([silence.patience("hover"), silence.patience("rename")], [None; 2]);
        silence.gave_up(3, "hover", LONG);
        // Nobody waited for that any more, for other reasons.
        silence.answered_late(99);
        assert_eq!([silence.patience("hover"), silence.patience("rename")], [Some(PATIENCE), None]);
        silence.answered("hover");
        assert_eq!(silence.patience("hover"), None);
    }

    #[test]
    fn no_more_than_some_are_remembered() {
        let mut silence = Silence::default();
        (0..1_000).for_each(|id| silence.gave_up(id, "hover", LONG));
        assert_eq!(silence.given_up.len(), MAX_GIVEN_UP);
    }
}
