//! The readable forms of one session that has a little of everything, as snapshots.

mod sample;

use bridle_session::Session;
use bridle_store::MemoryStore;
use expect_test::expect_file;

use self::sample::{damaged, sample};
use super::report::Report;
use super::{export, show};

fn shown(session: &Session) -> String {
    let mut out = Vec::new();
    show::text(&mut out, &Report::of(session)).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_session_at_a_terminal() {
    expect_file!["tests/shown.txt"].assert_eq(&shown(&sample()));
}

#[test]
fn a_session_as_markdown() {
    let session = sample();
    let text = export::markdown::render(&Report::of(&session));
    expect_file!["tests/exported.md"].assert_eq(&text);
}

/// The main part only: style and script are files of their own.
#[test]
fn a_session_as_a_page() {
    let session = sample();
    let page = export::html::render(&Report::of(&session), &MemoryStore::new());
    let start = page.find("<main").unwrap();
    let end = page.find("</main>").unwrap();
    let main = page
        .get(start..end)
        .unwrap()
        .replace("<details", "\n<details")
        .replace("<section", "\n<section");
    expect_file!["tests/exported.html"].assert_eq(&format!("{main}\n"));
}

#[test]
fn only_the_last_turns_are_kept() {
    let session = sample();
    let kept = |turns| -> Vec<u64> {
        let mut report = Report::of(&session);
        report.keep_last(turns);
        report.sections.iter().filter_map(|section| section.turn).map(|turn| turn.0).collect()
    };
    let all = [1, 2];
    assert_eq!(kept(1), [2]);
    assert_eq!(kept(2), all);
    assert_eq!(kept(9), all);
}

/// What compaction put in the place of the first turn erases none of it, and has its own place in
/// what is exported.
#[test]
fn compaction_erases_nothing_that_was_shown() {
    let session = sample();
    let shown = shown(&session);
    assert!(shown.contains("I will **fix** it.") && !shown.contains("A summary"), "{shown}");
    let sent = format!("{:?}", session.projection().messages().collect::<Vec<_>>());
    assert!(!sent.contains("I will **fix** it.") && sent.contains("A summary"), "{sent}");
}

#[test]
fn lost_events_and_unsent_messages_are_shown() {
    let shown = shown(&damaged());
    let lost = "! Warning: Events 6–8 of this session were damaged on the disk and are lost.";
    assert!(shown.contains(lost), "{shown}");
    assert!(shown.contains("> Wait for me"), "{shown}");
    assert!(shown.contains("This message was not sent"), "{shown}");
    assert!(shown.contains("This turn was broken off"), "{shown}");
}
