//! A list is what the folded logs say: for any log, however it was damaged, grew or was replaced,
//! with an index and without.

use std::collections::HashSet;

use bridle_session::{Header, Parent, Seq, Session, UnixMillis};
use fastrand::Rng;

use super::sample::{folded, forged, frame, grown, header, id, quick_folder, turn, without_index};
use crate::index::{Look, Row, Stamp};
use crate::{FileStore, LogWriter, SessionStore as _};

/// Rows, and which sessions are unreadable.
fn assert_true(store: &FileStore, context: &str) {
    let (truth, said) = (folded(store), store.list().unwrap());
    assert_eq!(said.sessions, truth.sessions, "{context}");
    let ids = |listing: &crate::Listing| -> Vec<_> {
        listing.unreadable.iter().map(|(id, error)| (id.clone(), error.to_string())).collect()
    };
    assert_eq!(ids(&said), ids(&truth), "{context}");
}

/// One change that a log may undergo.
fn change(bytes: &mut Vec<u8>, session: &mut Session, rng: &mut Rng) {
    match rng.usize(..8) {
        0..3 => bytes.extend(frame(&grown(session, rng))),
        3 => bytes.truncate(rng.usize(..bytes.len())),
        4 => bytes.extend_from_slice(b"torn"),
        5 => {
            let at = rng.usize(..bytes.len());
            bytes[at] ^= 1 << rng.u32(..8);
        }
        6 => {
            let from = rng.usize(..bytes.len());
            let to = rng.usize(from..bytes.len()).min(from + 300);
            bytes[from..to].fill(0);
        }
        _ => {
            let from = rng.usize(..bytes.len());
            let to = rng.usize(from..bytes.len()).min(from + 300);
            drop(bytes.drain(from..to));
        }
    }
}

#[test]
fn a_list_is_what_the_logs_fold_to_through_any_changes() {
    const CASES: usize = 120;
    let seed = Rng::new().u64(..);
    let mut rng = Rng::with_seed(seed);
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let (mut listed, mut unreadable) = (0, 0);
    for case in 0..CASES {
        let context = format!("seed {seed}, case {case}");
        let turns = rng.usize(..4);
        let mut session = forged(&store, rng.u64(1..4), turns, &mut rng);
        let log = store.log_path(&session.header().id).unwrap();
        let mut bytes = fs_err::read(&log).unwrap();
        for _ in 0..3 {
            change(&mut bytes, &mut session, &mut rng);
            if bytes.is_empty() {
                break;
            }
            fs_err::write(&log, &bytes).unwrap();
            assert_true(&store, &context);
            assert_true(&without_index(&store), &context);
            let listing = store.list().unwrap();
            listed += listing.sessions.len();
            unreadable += listing.unreadable.len();
        }
    }
    println!(
        "seed {seed}: {CASES} logs changed three times; {listed} rows, {unreadable} unreadable"
    );
    assert!(listed > CASES && unreadable > CASES / 4, "{listed} {unreadable}");
}

/// Makes every row of the index one that can be relied on, and marks it.
fn mark_rows(store: &FileStore, mark: &str) {
    let (mut index, rows) = store.index.as_ref().unwrap().open().unwrap();
    let marked: Vec<Row> = rows
        .into_values()
        .map(|mut row| {
            row.summary.first_line = Some(mark.to_owned());
            let log = store.log_path(&row.header.id).unwrap();
            row.stamp = Some(Stamp::take(Look::at(log.parent().unwrap()).unwrap(), &log).unwrap());
            row
        })
        .collect();
    index.keep(&marked, &[]).unwrap();
}

fn marked(store: &FileStore, mark: &str) -> HashSet<bridle_session::SessionId> {
    let rows = store.list().unwrap().sessions.into_iter();
    let rows = rows.filter(|row| row.summary.first_line.as_deref() == Some(mark));
    rows.map(|row| row.header.id.clone()).collect()
}

#[test]
fn only_changed_logs_are_read_and_only_what_was_added() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let mut rng = Rng::with_seed(1);
    let mut sessions: Vec<_> = (1..=5).map(|n| forged(&store, n, 2, &mut rng)).collect();
    store.list().unwrap();
    mark_rows(&store, "from the index");
    assert_eq!(marked(&store, "from the index").len(), 5);

    // One grows: what is known of its beginning stays. One is replaced, one gets a newer file
    // beside it, one goes.
    let log = store.log_path(&id(1)).unwrap();
    let mut bytes = fs_err::read(&log).unwrap();
    bytes.extend(frame(&grown(&mut sessions[0], &mut rng)));
    fs_err::write(&log, bytes).unwrap();
    forged(&store, 2, 3, &mut rng);
    let beside = store.log_path(&id(3)).unwrap().with_file_name("events.v2.jsonl.zst");
    fs_err::write(beside, "").unwrap();
    fs_err::remove_dir_all(store.log_path(&id(4)).unwrap().parent().unwrap()).unwrap();
    let listing = store.list().unwrap();
    assert_eq!((listing.sessions.len(), listing.unreadable.len()), (3, 1));
    assert_eq!(marked(&store, "from the index"), HashSet::from([id(1), id(5)]));
    let grown = listing.sessions.iter().find(|row| row.header.id == id(1)).unwrap();
    assert_eq!(grown.summary.events, sessions[0].len());
    let (_, rows) = store.index.as_ref().unwrap().open().unwrap();
    assert!(!rows.contains_key(&id(4)), "a removed session stays in the index");
}

/// Adds a turn through the writer of an open log.
async fn grow(writer: &LogWriter, session: &mut Session, rng: &mut Rng) {
    for draft in turn(session, rng) {
        let time = UnixMillis(session.last_time().0 + 1);
        writer.append(session.append(draft, time).unwrap()).unwrap();
    }
    writer.flush().await.unwrap();
}

#[tokio::test]
async fn a_log_that_is_open_here_is_listed_from_its_writer() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let mut rng = Rng::with_seed(3);
    let born = Session::new(header(1));
    let parent = forged(&store, 9, 2, &mut rng);
    let whole = Some(Parent { id: id(9), inherited: parent.len() });
    let last = Seq(parent.len().0 - 1);
    let copied = parent.fork(Header { parent: whole, ..header(2) }, last).unwrap();
    forged(&store, 3, 2, &mut rng);
    // A list before knows what is opened now; one that nobody has opened stays what it was.
    assert_true(&store, "before");
    let opened = store.open(&id(3)).unwrap();
    let mut open = [
        (store.create(&header(1)).unwrap(), born),
        (store.seed(&copied).unwrap(), copied),
        (opened.writer, opened.session),
    ];
    for round in 0..4 {
        for (writer, session) in &mut open {
            grow(writer, session, &mut rng).await;
            assert_true(&store, &format!("round {round}"));
        }
    }
    let (_, rows) = store.index.as_ref().unwrap().open().unwrap();
    let indexed: HashSet<_> = rows.into_keys().collect();
    assert_eq!(indexed, HashSet::from([id(3), id(9)]), "the index holds what grows");

    // None of them is read as long as it is open; after that, whatever is there counts.
    for n in 1..=3 {
        fs_err::write(store.log_path(&id(n)).unwrap(), "no log").unwrap();
    }
    let listed = store.list().unwrap();
    assert_eq!((listed.sessions.len(), listed.unreadable.len()), (4, 0));
    drop(open);
    assert_true(&store, "closed");
    assert_eq!(store.list().unwrap().unreadable.len(), 3);
    // Nor is one that is gone, whoever has it open.
    let kept = store.open(&id(9)).unwrap();
    fs_err::remove_dir_all(store.log_path(&id(9)).unwrap().parent().unwrap()).unwrap();
    assert!(store.list().unwrap().sessions.is_empty());
    drop(kept);
}

#[test]
fn a_log_of_the_same_length_and_time_with_other_content_is_noticed() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let log = store.log_path(&id(1)).unwrap();
    fs_err::create_dir_all(log.parent().unwrap()).unwrap();
    let with = |text: &str| {
        let mut session = Session::new(header(1));
        let event = super::sample::say(&mut session, text).to_line().unwrap() + "\n";
        let head = frame(&crate::log::encode_header(session.header()).unwrap());
        [head, frame(event.as_bytes())].concat()
    };
    let first = with("one thing");
    let others = (0..100).map(|n| format!("{n} things"));
    let (text, second) = others
        .map(|text| (text.clone(), with(&text)))
        .find(|(_, bytes)| bytes.len() == first.len())
        .unwrap();
    fs_err::write(&log, first).unwrap();
    let file = fs_err::File::options().write(true).open(&log).unwrap();
    let before = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    file.set_modified(before).unwrap();
    let line = |store: &FileStore| store.list().unwrap().sessions[0].summary.first_line.clone();
    assert_eq!(line(&store).as_deref(), Some("one thing"));
    fs_err::write(&log, second).unwrap();
    file.set_modified(before).unwrap();
    assert_eq!(line(&store).as_deref(), Some(&*text));
}

#[test]
fn a_log_that_has_just_changed_is_not_known_by_its_times() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    forged(&store, 1, 1, &mut Rng::with_seed(1));
    let log = store.log_path(&id(1)).unwrap();
    let stamp = Stamp::take(Look::at(log.parent().unwrap()).unwrap(), &log).unwrap();
    let now = std::time::SystemTime::now();
    let in_a_moment = now + std::time::Duration::from_secs(5);
    assert!(stamp.clone().settled(now).is_none());
    assert!(stamp.settled(in_a_moment).is_some_and(|stamp| stamp.holds(log.parent().unwrap())));
}

#[test]
fn two_thousand_sessions_are_listed_as_they_are() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let mut rng = Rng::with_seed(2);
    for n in 0..2_000 {
        forged(&store, n, rng.usize(..2), &mut rng);
    }
    assert_true(&store, "first");
    mark_rows(&store, "from the index");
    let listing = store.list().unwrap();
    assert_eq!(marked(&store, "from the index").len(), listing.sessions.len());
    assert!(listing.sessions.len() > 500 && listing.unreadable.is_empty());
}

#[test]
fn writers_and_readers_of_the_index_at_once_agree_with_the_logs() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let seed = Rng::new().u64(..);
    std::thread::scope(|scope| {
        for n in 1..=4 {
            let state = folder.path();
            let store = FileStore::new(state);
            scope.spawn(move || {
                let mut rng = Rng::with_seed(seed.wrapping_add(n));
                for turns in 1..12 {
                    forged(&store, n, turns, &mut rng);
                    store.list().unwrap();
                    if turns % 5 == 4 {
                        drop(fs_err::remove_file(state.join("index.sqlite")));
                    }
                    let text = "a".to_owned();
                    let query = crate::SearchQuery { text, limit: 10, ..Default::default() };
                    store.search(&query).unwrap();
                }
            });
        }
    });
    assert_true(&store, &format!("seed {seed}"));
}
