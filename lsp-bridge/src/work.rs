//! What a server is at, as far as its progress tells: work on the project, before whose end no answer is whole,
//! and checks of what was saved, which find more of what is wrong and say it by themselves.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use bridle_world::servers::written_out;
use serde_json::Value;

/// How long nothing may go on for a server to count as idle: one piece of its work follows another.
pub(crate) const QUIET: Duration = Duration::from_millis(300);

/// How soon a server begins with the work that a change makes for it, if it ever does.
const REACTION: Duration = Duration::from_secs(2);

/// Which progress says what, by how its token or its title begins. All other progress is work on the project.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kinds {
    /// It says nothing of whether answers are whole.
    pub(crate) background: Vec<String>,
    /// It is of a check.
    pub(crate) checks: Vec<String>,
}

/// What a server is at.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    kinds: Kinds,
    /// The titles of what goes on of the project, by token.
    project: BTreeMap<String, String>,
    /// The same of checks.
    checks: BTreeMap<String, String>,
    /// Since when it was busy with the project last; `None` if it never was.
    busy_since: Option<SystemTime>,
    /// Since when it is not.
    idle_since: SystemTime,
    /// How often it began with what may find that something is wrong.
    begun: u64,
    /// How often it had, when it heard last that something has changed.
    begun_before: u64,
    /// When it heard last that something was saved, and how often it had begun then.
    prompted: Option<(SystemTime, u64)>,
    /// Whether it is one that begins to work then, as far as is known.
    reacts: bool,
}

/// Whether the server has checked what it was told last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// It has; or it is not one that says when it does.
    Done,
    /// It is at it; what it calls that.
    Running(String),
    /// It is about to begin, within this time if at all.
    Expected(Duration),
    /// It has not, and nothing has made it do so.
    Not,
}

impl Work {
    pub(crate) fn new(kinds: Kinds, now: SystemTime) -> Self {
        let reacts = !kinds.checks.is_empty();
        Self {
            kinds,
            project: BTreeMap::new(),
            checks: BTreeMap::new(),
            busy_since: None,
            idle_since: now,
            begun: 0,
            begun_before: 0,
            prompted: None,
            reacts,
        }
    }

    /// Takes note of progress. Whether that changes anything.
    pub(crate) fn hear(&mut self, params: &Value, now: SystemTime) -> bool {
        let token = match params.get("token") {
            Some(Value::String(token)) => token.clone(),
            Some(token) => token.to_string(),
            None => return false,
        };
        let Some(value) = params.get("value") else { return false };
        match value.get("kind").and_then(Value::as_str) {
            Some("begin") => {
                let title = value.get("title").and_then(Value::as_str).unwrap_or_default();
                self.begin(token, title, now)
            }
            Some("end") => self.end(&token, now),
            // It knows more than before.
            Some("report") => self.project.contains_key(&token),
            _ => false,
        }
    }

    fn begin(&mut self, token: String, title: &str, now: SystemTime) -> bool {
        let is_one = |kinds: &[String]| {
            let begins = |with: &String| token.starts_with(&**with) || title.starts_with(&**with);
            kinds.iter().any(begins)
        };
        let is_check = is_one(&self.kinds.checks);
        if !is_check && is_one(&self.kinds.background) {
            return false;
        }
        // One that has checks tells by them that it has checked; any other by whatever it does.
        if is_check || !self.has_checks() {
            self.begun += 1;
            let is_reaction = |(at, _)| since(at, now) < REACTION;
            self.reacts |= self.prompted.is_some_and(is_reaction);
        }
        if !is_check && self.project.is_empty() {
            self.busy_since = Some(now);
        }
        let title = if title.is_empty() { &token } else { title };
        let title = written_out(title).into_owned();
        let of_kind = if is_check { &mut self.checks } else { &mut self.project };
        of_kind.insert(token, title);
        true
    }

    fn end(&mut self, token: &str, now: SystemTime) -> bool {
        let ended = self.project.remove(token).is_some();
        if ended && self.project.is_empty() {
            self.idle_since = now;
        }
        ended || self.checks.remove(token).is_some()
    }

    /// Whether it says when it checks.
    pub(crate) fn has_checks(&self) -> bool {
        !self.kinds.checks.is_empty()
    }

    /// What of the project it is busy with.
    pub(crate) fn busy_with(&self) -> Option<&str> {
        self.project.values().next().map(String::as_str)
    }

    /// Whether it was ever busy with the project.
    pub(crate) fn was_busy(&self) -> bool {
        self.busy_since.is_some()
    }

    /// Whether it has not been busy with the project for a moment.
    pub(crate) fn is_idle(&self, now: SystemTime) -> bool {
        self.project.is_empty() && since(self.idle_since, now) >= QUIET
    }

    /// Whether it began something of the project at this time or later, and is done with all of it.
    pub(crate) fn has_worked_since(&self, time: SystemTime) -> bool {
        self.project.is_empty() && self.busy_since.is_some_and(|since| since >= time)
    }

    /// It is told that something has changed: what it has checked before is old.
    pub(crate) fn changed(&mut self) {
        self.begun_before = self.begun;
    }

    /// It is told that something was saved. One that still loads forgets that.
    pub(crate) fn saved(&mut self, now: SystemTime) {
        if !self.is_idle(now) {
            return;
        }
        // It had its time, and did nothing.
        if let Some((at, begun)) = self.prompted
            && since(at, now) >= REACTION
        {
            self.reacts = self.begun > begun;
        }
        self.prompted = Some((now, self.begun));
    }

    /// Whether it has checked what it was told last.
    pub(crate) fn checked(&self, now: SystemTime) -> Checked {
        if let Some(title) = self.checks.values().next() {
            return Checked::Running(title.clone());
        }
        if self.begun > self.begun_before {
            return Checked::Done;
        }
        let left = |(at, _)| REACTION.saturating_sub(since(at, now));
        let left = self.prompted.filter(|_| self.reacts).map(left).unwrap_or_default();
        match (left.is_zero(), self.has_checks()) {
            (false, _) => Checked::Expected(left),
            (true, true) => Checked::Not,
            (true, false) => Checked::Done,
        }
    }
}

fn since(time: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const START: SystemTime = SystemTime::UNIX_EPOCH;

    fn at(millis: u64) -> SystemTime {
        START + Duration::from_millis(millis)
    }

    fn work(checks: &[&str]) -> Work {
        let checks = checks.iter().map(|it| (*it).to_owned()).collect();
        Work::new(Kinds { background: vec!["cache".to_owned()], checks }, START)
    }

    fn say(work: &mut Work, token: Value, kind: &str, title: &str, millis: u64) -> bool {
        let value = json!({"kind": kind, "title": title});
        work.hear(&json!({"token": token, "value": value}), at(millis))
    }

    #[test]
    fn progress_of_the_project_is_told_from_any_other() {
        let mut work = work(&["check/"]);
        assert!(!say(&mut work, json!("cache/1"), "begin", "", 0));
        assert!(!say(&mut work, json!(8), "begin", "cache it", 0));
        assert!(say(&mut work, json!("check/1"), "begin", "cargo check", 0));
        assert_eq!((work.busy_with(), work.was_busy()), (None, false));
        say(&mut work, json!(7), "begin", "Indexing", 10);
        say(&mut work, json!("x"), "begin", "", 20);
        assert_eq!(work.busy_with(), Some("Indexing"));
        // More of it is known; of what nobody waits for, nothing.
        assert!(say(&mut work, json!(7), "report", "", 20));
        assert!(!say(&mut work, json!("cache/1"), "report", "", 20));
        say(&mut work, json!(7), "end", "", 30);
        assert_eq!(work.busy_with(), Some("x"));
        assert!(!work.has_worked_since(at(5)));
        say(&mut work, json!("x"), "end", "", 40);
        assert_eq!(work.busy_with(), None);
        assert!(work.has_worked_since(at(10)) && !work.has_worked_since(at(11)));
        assert!(!work.is_idle(at(300)) && work.is_idle(at(340)));
    }

    #[test]
    fn a_change_is_checked_when_a_check_that_began_behind_it_is_over() {
        let mut work = work(&["check/"]);
        assert_eq!(work.checked(at(500)), Checked::Not);
        work.saved(at(500));
        assert_eq!(work.checked(at(600)), Checked::Expected(Duration::from_millis(1_900)));
        say(&mut work, json!("check/1"), "begin", "cargo check", 600);
        assert_eq!(work.checked(at(700)), Checked::Running("cargo check".to_owned()));
        // What changes while it runs is for the next one.
        work.changed();
        work.saved(at(700));
        say(&mut work, json!("check/1"), "end", "", 800);
        assert_eq!(work.checked(at(800)), Checked::Expected(Duration::from_millis(1_900)));
        say(&mut work, json!("check/1"), "begin", "cargo check", 900);
        say(&mut work, json!("check/1"), "end", "", 1_000);
        assert_eq!(work.checked(at(1_000)), Checked::Done);
        work.changed();
        assert_eq!(work.checked(at(4_000)), Checked::Not);
        // Work on the project is no check.
        say(&mut work, json!("x"), "begin", "Indexing", 4_000);
        say(&mut work, json!("x"), "end", "", 4_000);
        assert_eq!(work.checked(at(4_000)), Checked::Not);
    }

    #[test]
    fn a_server_that_never_checks_is_not_waited_for_again() {
        let mut work = work(&["check/"]);
        // While it loads it hears nothing.
        work.saved(at(100));
        assert_eq!(work.checked(at(100)), Checked::Not);
        work.saved(at(500));
        assert_eq!(work.checked(at(2_500)), Checked::Not);
        work.saved(at(3_000));
        assert_eq!(work.checked(at(3_000)), Checked::Not);
        say(&mut work, json!("check/1"), "begin", "", 3_100);
        say(&mut work, json!("check/1"), "end", "", 3_200);
        work.changed();
        work.saved(at(3_300));
        assert_eq!(work.checked(at(3_300)), Checked::Expected(REACTION));
    }

    #[test]
    fn a_server_that_began_to_work_at_a_change_is_expected_to_do_so_at_the_next() {
        let mut work = work(&[]);
        work.changed();
        work.saved(at(1_000));
        assert_eq!(work.checked(at(1_000)), Checked::Done);
        say(&mut work, json!(1), "begin", "Analysing", 1_100);
        say(&mut work, json!(1), "end", "", 1_200);
        work.changed();
        work.saved(at(2_000));
        assert_eq!(work.checked(at(2_500)), Checked::Expected(Duration::from_millis(1_500)));
        assert_eq!(work.checked(at(4_000)), Checked::Done);
        work.changed();
        work.saved(at(5_000));
        assert_eq!(work.checked(at(5_000)), Checked::Done);
    }
}
