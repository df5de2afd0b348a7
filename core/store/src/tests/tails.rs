//! The end of a log, read without the rest of it.

use fastrand::Rng;

use super::sample::{id, line_ends, lines, quick_folder, written};
use crate::log::LogText;
use crate::{Compression, FileStore, SessionStore as _};

const FORMS: [Compression; 2] = [Compression::Zstd, Compression::None];

fn batches(count: usize) -> Vec<Vec<String>> {
    (0..count).map(|n| (0..3).map(|k| format!("text {n} {k}")).collect()).collect()
}

#[tokio::test]
async fn a_tail_is_the_end_and_unpacks_no_more_than_it_takes() {
    for form in FORMS {
        let folder = quick_folder();
        let store = FileStore::new(folder.path()).with_compression(form);
        let (session, _) = written(&store, 1, &batches(40)).await;
        let per_unit = if form == Compression::Zstd { 3 } else { 1 };
        for count in [0, 1, 3, 4, 50, 119, 120, 500] {
            let tail = store.tail(&id(1), count).unwrap();
            let found: Vec<_> = tail.events.iter().map(|event| event.to_line().unwrap()).collect();
            let all = lines(&session);
            assert_eq!(found, all[all.len().saturating_sub(count)..], "{form:?} {count}");
            assert_eq!(&tail.header, &**session.header());
            let folder = store.folder(&id(1)).unwrap();
            let generation = folder.find().unwrap();
            let bytes = folder.read(generation).unwrap();
            let text = LogText::new(&folder.id, &bytes, generation, &store.versions).unwrap();
            let unpacked = text.decode_ends(0, count).unwrap().unpacked;
            assert_eq!(unpacked, 1 + count.min(120).div_ceil(per_unit), "{form:?} {count}");
            let ends = text.decode_ends(4, count.min(50)).unwrap();
            let most = 1 + 4_usize.div_ceil(per_unit) + count.min(50).div_ceil(per_unit);
            assert!(ends.unpacked <= most, "{form:?} {count}: {}", ends.unpacked);
            assert_eq!(ends.head.len() + ends.tail.len(), 4 + count.min(50), "{form:?} {count}");
        }
    }
}

/// Any damage anywhere: the tail is what a reader of the whole log finds last.
#[tokio::test]
async fn a_tail_is_the_end_of_what_the_whole_log_says() {
    const CASES: usize = 600;
    let seed = Rng::new().u64(..);
    let mut rng = Rng::with_seed(seed);
    for form in FORMS {
        let folder = quick_folder();
        let store = FileStore::new(folder.path()).with_compression(form);
        written(&store, 1, &batches(8)).await;
        let log = store.log_path(&id(1)).unwrap();
        let intact = fs_err::read(&log).unwrap();
        let header = match form {
            Compression::Zstd => crate::frame::extent(&intact).unwrap(),
            Compression::None => line_ends(&intact)[0],
        };
        let (mut compared, mut shorter) = (0, 0);
        for case in 0..CASES {
            let mut bytes = intact.clone();
            for _ in 0..rng.usize(1..3) {
                let at = rng.usize(header..bytes.len());
                match rng.u8(..4) {
                    0 => bytes[at] = rng.u8(..),
                    1 => bytes.truncate(at),
                    2 => drop(bytes.drain(
                        at..(at + rng.usize(1..200)).min(intact.len() - 1).min(bytes.len()).max(at),
                    )),
                    _ => drop(bytes.splice(at..at, (0..rng.usize(1..60)).map(|n| n as u8))),
                }
                if bytes.len() <= header {
                    bytes = intact.clone();
                }
            }
            fs_err::write(&log, &bytes).unwrap();
            // A changed letter in a plain line can make it one that must be refused.
            let Ok((whole, _)) = store.decode(&id(1)) else { continue };
            let events = whole.records.iter().filter_map(|record| match record {
                bridle_session::Record::Event(event) => Some(event.to_line().unwrap()),
                bridle_session::Record::Damage { .. } => None,
            });
            let events: Vec<_> = events.collect();
            shorter += usize::from(events.len() < 24);
            for count in [1, 5, 100] {
                let tail = store.tail(&id(1), count).unwrap().events;
                let tail: Vec<_> = tail.iter().map(|event| event.to_line().unwrap()).collect();
                let expected = &events[events.len().saturating_sub(count)..];
                assert_eq!(tail, expected, "{form:?}, seed {seed}, case {case}, {count}");
                compared += 1;
            }
            let (head, tail) = (rng.usize(0..30), rng.usize(0..30));
            let ends = store.ends(&id(1), head, tail).unwrap().events;
            let ends: Vec<_> = ends.iter().map(|event| event.to_line().unwrap()).collect();
            let head = head.min(events.len());
            let expected =
                [&events[..head], &events[events.len().saturating_sub(tail).max(head)..]];
            assert_eq!(
                ends,
                expected.concat(),
                "{form:?}, seed {seed}, case {case}, {head}, {tail}"
            );
        }
        println!(
            "{form:?}, seed {seed}: {compared} tails, {shorter} of {CASES} logs had lost events"
        );
        assert!(compared > CASES && shorter > CASES / 2);
    }
}
