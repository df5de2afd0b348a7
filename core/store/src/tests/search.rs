//! A search finds what was said, wherever it looks it up.

use bridle_session::{Session, TitleSet, UnixMillis};
use fastrand::Rng;

use super::sample::{frame, header, id, quick_folder, said, turn, without_index};
use crate::{
    FileStore, HitKind, MemoryStore, SearchQuery, SearchResults, SessionFilter, SessionStore,
    StoreError,
};

fn ask(store: &dyn SessionStore, text: &str) -> SearchResults {
    let query = SearchQuery { text: text.to_owned(), limit: 100, ..SearchQuery::default() };
    store.search(&query).unwrap()
}

/// Where the hits are: the last number of the session's id, and the position.
fn places(results: &SearchResults) -> Vec<(String, u64)> {
    let last = |id: &str| id.rsplit('0').next().unwrap().to_owned();
    results.hits.iter().map(|hit| (last(hit.session.header.id.as_str()), hit.seq.0)).collect()
}

async fn put(store: &dyn SessionStore, n: u64, folder: &str, texts: &[&str]) {
    let mut head = header(n);
    head.cwd = folder.into();
    let mut session = Session::new(head);
    let writer = store.create(session.header()).unwrap();
    for (place, text) in texts.iter().enumerate() {
        let time = UnixMillis(1_000 * n + place as u64);
        writer.append(session.append(said(text), time).unwrap()).unwrap();
    }
    writer.flush().await.unwrap();
}

const TEXTS: [&str; 8] = [
    "Please read the file src/main.rs, and then RUN cargo test",
    "the reader reads",
    "call read_file for Größe and Straße",
    "日本語の会話を検索する",
    "NEAR(a b) OR \"unclosed * -minus col:umn ^ {x}",
    "\u{1b}[31mred\u{7}\r\nsecond line",
    "x",
    "test cargo",
];

/// Checks every store: with an index, without, in memory.
async fn on_all(check: impl Fn(&dyn SessionStore)) {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let memory = MemoryStore::new();
    for store in [&store as &dyn SessionStore, &memory] {
        put(store, 1, "/work/one", &TEXTS).await;
        put(store, 2, "/work/one/below", &["read me", "nothing"]).await;
        put(store, 3, "/work/one-more", &["Read!"]).await;
    }
    check(&store);
    check(&store);
    check(&without_index(&store));
    check(&memory);
}

#[tokio::test]
async fn words_phrases_and_beginnings() {
    on_all(|store| {
        let of_first = |text: &str| -> Vec<u64> {
            let found = places(&ask(store, text));
            found.iter().filter(|(session, _)| session == "1").map(|(_, seq)| *seq).collect()
        };
        assert_eq!(of_first("read"), [0, 1, 2]);
        assert_eq!(of_first("read file"), [0, 2]);
        assert_eq!(of_first("read_file"), [2]);
        assert_eq!(of_first("read the"), [0]);
        assert_eq!(of_first("rea the"), [] as [u64; 0], "only the last word may go on");
        assert_eq!(of_first("cargo te"), [0, 7]);
        assert_eq!(of_first("cargo-te"), [0]);
        assert_eq!(of_first("GRÖSSE"), [] as [u64; 0]);
        assert_eq!(of_first("GRÖßE"), [2]);
        assert_eq!(of_first("会話"), [3]);
        assert_eq!(of_first("src/main.rs"), [0]);
        assert_eq!(places(&ask(store, "read")).first().unwrap().0, "3", "the newest first");
    })
    .await;
}

#[tokio::test]
async fn nothing_that_is_typed_is_syntax() {
    on_all(|store| {
        for (text, expected) in [
            ("NEAR(a b)", vec![4]),
            ("\"unclosed", vec![4]),
            ("col:umn *", vec![4]),
            ("-minus", vec![4]),
            ("a OR b", vec![4]),
            ("a AND b", vec![]),
            ("x'; DROP TABLE session --", vec![]),
            ("* \" ^ ()", vec![]),
            ("", vec![]),
            ("\0", vec![]),
        ] {
            let found: Vec<_> = places(&ask(store, text)).into_iter().map(|(_, seq)| seq).collect();
            assert_eq!(found, expected, "{text:?}");
        }
        assert!(ask(store, &"word ".repeat(10_000)).hits.is_empty());
        assert!(ask(store, &"w".repeat(100_000)).hits.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_snippet_marks_its_hits_by_place() {
    on_all(|store| {
        let marked = |text: &str| {
            let hit = ask(store, text).hits.remove(0);
            assert!(!hit.snippet.text.contains(char::is_control));
            let marks = hit.snippet.marks.iter();
            let marked: Vec<String> =
                marks.map(|mark| hit.snippet.text.get(mark.clone()).unwrap().to_owned()).collect();
            marked
        };
        assert_eq!(marked("cargo te"), ["cargo", "test"]);
        assert_eq!(marked("the RUN"), ["the", "RUN"]);
        assert_eq!(marked("second"), ["second"]);
        assert_eq!(marked("検索"), ["検索"]);
    })
    .await;
}

#[tokio::test]
async fn filters_and_the_limit_hold() {
    on_all(|store| {
        let sessions = |filter: SessionFilter| -> Vec<String> {
            let query = SearchQuery { text: "read".to_owned(), filter, limit: 100 };
            let mut found: Vec<_> =
                places(&store.search(&query).unwrap()).into_iter().map(|(id, _)| id).collect();
            found.dedup();
            found
        };
        let folder = |path: &str| SessionFilter { folder: Some(path.into()), ..Default::default() };
        assert_eq!(sessions(folder("/work/one")), ["2", "1"]);
        assert_eq!(sessions(folder("/work/one/below")), ["2"]);
        assert_eq!(sessions(folder("/work")), ["3", "2", "1"]);
        let since = |time| SessionFilter { since: Some(UnixMillis(time)), ..Default::default() };
        let before = |time| SessionFilter { before: Some(UnixMillis(time)), ..Default::default() };
        assert_eq!(sessions(since(2_001)), ["3", "2"]);
        assert_eq!(sessions(before(2_001)), ["1"]);
        for (limit, more) in [(0, true), (1, true), (4, true), (5, false), (6, false)] {
            let text = "read".to_owned();
            let found = store.search(&SearchQuery { text, limit, ..Default::default() }).unwrap();
            assert_eq!((found.hits.len(), found.more), (limit.min(5), more));
        }
    })
    .await;
}

#[test]
fn titles_answers_and_results_are_found_and_what_is_not_said_is_not() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let mut rng = Rng::with_seed(3);
    let mut session = super::sample::forged(&store, 1, 1, &mut rng);
    let title = TitleSet { title: "Zebra crossing".to_owned() };
    let event = session.append(bridle_session::Draft::new(title), UnixMillis(1)).unwrap();
    let log = store.log_path(&id(1)).unwrap();
    let mut bytes = fs_err::read(&log).unwrap();
    bytes.extend(frame(format!("{}\n", event.to_line().unwrap()).as_bytes()));
    fs_err::write(&log, bytes).unwrap();
    let kinds = |text: &str| -> Vec<HitKind> {
        ask(&store, text).hits.iter().map(|hit| hit.kind).collect()
    };
    assert_eq!(kinds("zebra"), [HitKind::Title]);
    assert!(kinds("read").iter().all(|kind| *kind == HitKind::Tool));
    for word in ["scripted", "end_turn", "call_0", "AGENTS"] {
        assert_eq!(kinds(word), [], "{word}");
    }
}

#[test]
fn the_index_finds_what_the_logs_hold_through_any_growth() {
    const ROUNDS: usize = 24;
    let seed = Rng::new().u64(..);
    let mut rng = Rng::with_seed(seed);
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let mut sessions: Vec<_> = (1..=4).map(|n| Session::new(header(n))).collect();
    let words = ["alpha", "alphabet", "Beta", "be_ta", "x-ray", "δέλτα", "日本", "e\u{301}te"];
    let sentence = |rng: &mut Rng| -> String {
        let word = |rng: &mut Rng| words[rng.usize(..words.len())];
        (0..rng.usize(1..6))
            .map(|_| word(rng).to_owned() + [" ", "", "\n", "."][rng.usize(..4)])
            .collect()
    };
    let mut hits = 0;
    for round in 0..ROUNDS {
        let session = &mut sessions[rng.usize(..4)];
        let log = store.log_path(&session.header().id).unwrap();
        let mut bytes = fs_err::read(&log).unwrap_or_else(|_| {
            fs_err::create_dir_all(log.parent().unwrap()).unwrap();
            frame(&crate::log::encode_header(session.header()).unwrap())
        });
        let mut lines = String::new();
        let drafts = [said(&sentence(&mut rng)), said(&sentence(&mut rng))].into_iter();
        for draft in drafts.chain(turn(session, &mut rng)) {
            let time = session.last_time();
            lines += &(session.append(draft, time).unwrap().to_line().unwrap() + "\n");
        }
        bytes.extend(frame(lines.as_bytes()));
        if rng.usize(..8) == 0 {
            // Damage in the middle: what is behind it is still found.
            let at = bytes.len() / 2;
            bytes[at] ^= 1;
        }
        fs_err::write(&log, &bytes).unwrap();
        for _ in 0..4 {
            let text = sentence(&mut rng);
            let limit = rng.usize(1..40);
            let query = SearchQuery { text, limit, ..SearchQuery::default() };
            let (truth, found) =
                (without_index(&store).search(&query).unwrap(), store.search(&query).unwrap());
            assert_eq!(found.hits, truth.hits, "seed {seed}, round {round}, {query:?}");
            assert_eq!(found.more, truth.more, "seed {seed}, round {round}, {query:?}");
            hits += found.hits.len();
        }
        let (index, rows) = store.index.as_ref().unwrap().open().unwrap();
        let indexed = index.indexed().unwrap();
        for row in store.list().unwrap().sessions {
            let id = &row.header.id;
            assert_eq!(indexed.get(id), Some(&rows[id].seen), "seed {seed}, round {round}");
        }
    }
    println!("seed {seed}: {ROUNDS} rounds, {hits} hits");
    assert!(hits > ROUNDS);
}

#[test]
fn a_session_that_cannot_be_read_is_named_and_hides_no_other() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let mut rng = Rng::with_seed(4);
    for n in 1..=3 {
        super::sample::forged(&store, n, 2, &mut rng);
    }
    let expected =
        ask(&store, "read").hits.iter().filter(|hit| hit.session.header.id != id(2)).count();
    fs_err::write(store.log_path(&id(2)).unwrap(), "not a log").unwrap();
    let found = ask(&store, "read");
    assert_eq!(found.hits.len(), expected);
    assert!(
        matches!(&found.unreadable[..], [(bad, StoreError::Unreadable { .. })] if *bad == id(2))
    );
}
