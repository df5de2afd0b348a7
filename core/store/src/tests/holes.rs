//! Damage in the middle of a log takes the frames, or lines, that it touches and no others: what is behind
//! it is read, the place stays as it is, and the session goes on.

use bridle_session::{Message, Session, ToolCallId};
use fastrand::Rng;

use super::sample::{header, id, line_ends, lines, quick_folder, say, turn};
use crate::{Compression, Damage, FileStore, SessionStore as _};

const CASES: usize = 1_000;

/// A log as it was written: its bytes, where each frame ends, and how many events stand before
/// that end.
struct Intact {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    counts: Vec<usize>,
    lines: Vec<String>,
}

async fn intact(store: &FileStore, rng: &mut Rng) -> Intact {
    let mut session = Session::new(header(1));
    let writer = store.create(session.header()).unwrap();
    let log = store.log_path(&id(1)).unwrap();
    writer.flush().await.unwrap();
    let (mut ends, mut counts) = (Vec::new(), Vec::new());
    let mut mark = |session: &Session| {
        ends.push(usize::try_from(fs_err::metadata(&log).unwrap().len()).unwrap());
        counts.push(session.events().len());
    };
    mark(&session);
    for _ in 0..rng.usize(2..5) {
        for draft in turn(&session, rng) {
            let time = session.last_time();
            writer.append(session.append(draft, time).unwrap()).unwrap();
            if rng.usize(0..4) == 0 {
                writer.flush().await.unwrap();
                mark(&session);
            }
        }
    }
    writer.append(say(&mut session, "the end")).unwrap();
    writer.flush().await.unwrap();
    mark(&session);
    drop(writer);
    let (bytes, lines) = (fs_err::read(&log).unwrap(), lines(&session));
    if log.extension().unwrap() == "jsonl" {
        (ends, counts) = (line_ends(&bytes), (0..=lines.len()).collect());
    }
    Intact { bytes, ends, counts, lines }
}

/// One way to damage the frames from `first` to `last`; the bytes then.
fn damage(intact: &Intact, first: usize, last: usize, kind: usize, rng: &mut Rng) -> Vec<u8> {
    let (start, end) = (intact.ends[first - 1], intact.ends[last]);
    let mut bytes = intact.bytes.clone();
    match kind {
        0 => bytes[start..end].fill(0),
        1 => bytes[start..end].fill_with(|| rng.u8(..)),
        // One changed byte in each frame; in its first part, where every bit counts.
        2 => (first..=last).for_each(|frame| bytes[intact.ends[frame - 1] + rng.usize(0..4)] ^= 1),
        3 => drop(bytes.splice(start + rng.usize(0..2)..end - rng.usize(0..4), [])),
        4 => drop(bytes.drain(start..end)),
        _ => {
            let mut garbage = vec![0; rng.usize(1..900)];
            rng.fill(&mut garbage);
            bytes.splice(start..end, garbage);
        }
    }
    bytes
}

#[tokio::test]
async fn what_is_behind_the_damage_is_kept() {
    what_is_whole_is_kept(Compression::Zstd).await;
}

#[tokio::test]
async fn whole_lines_behind_the_damage_are_kept() {
    what_is_whole_is_kept(Compression::None).await;
}

async fn what_is_whole_is_kept(compression: Compression) {
    let seed = Rng::new().u64(..);
    let mut rng = Rng::with_seed(seed);
    let folder = quick_folder();
    let store = FileStore::new(folder.path()).with_compression(compression);
    let mut log = intact(&store, &mut rng).await;
    let mut lost = 0;
    for case in 0..CASES {
        if case % 50 == 49 {
            fs_err::remove_dir_all(folder.path().join("sessions")).unwrap();
            log = intact(&store, &mut rng).await;
        }
        // Neither the header nor the last frame, behind which nothing would be.
        let first = rng.usize(1..log.ends.len() - 1);
        let last = rng.usize(first..log.ends.len() - 1).min(first + 2);
        let bytes = damage(&log, first, last, case % 6, &mut rng);
        let context = format!("{compression:?}, seed {seed}, case {case}, {first} to {last}");
        let gone = log.counts[first - 1]..log.counts[last];
        lost += gone.len();
        let kept: Vec<_> = log.lines[..gone.start].iter().chain(&log.lines[gone.end..]).collect();
        fs_err::write(store.log_path(&id(1)).unwrap(), &bytes).unwrap();
        let place = store.verify(&id(1)).unwrap().damage;
        assert_eq!(place.len(), 1, "{context}: {place:?}");
        assert_eq!(place[0].offset, log.ends[first - 1] as u64, "{context}");
        let said = place[0].lost.as_ref().map(|lost| lost.first.0..lost.last.0 + 1);
        assert_eq!(said, Some(gone.start as u64..gone.end as u64), "{context}");
        goes_on(&store, &bytes, &place, &kept, &mut rng, &context).await;
    }
    println!(
        "{compression:?}, seed {seed}: {CASES} damaged logs, {lost} events lost, all others kept"
    );
}

/// Reads, opens, repairs, continues and reads again.
async fn goes_on(
    store: &FileStore,
    bytes: &[u8],
    place: &[Damage],
    kept: &[&String],
    rng: &mut Rng,
    context: &str,
) {
    let read = store.read(&id(1)).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!(lines(&read.session).iter().collect::<Vec<_>>(), kept, "{context}");
    assert_eq!((read.recovery.damage.as_slice(), read.recovery.torn_bytes), (place, 0));
    assert_eq!(store.list().unwrap().sessions.len(), 1, "{context}");

    let mut opened = store.open(&id(1)).unwrap();
    assert_eq!(opened.recovery, read.recovery, "{context}");
    let repair = opened.session.repair();
    assert_eq!(repair[0].data.type_name(), "log/gap", "{context}");
    let next = repair.into_iter().map(|draft| (draft, opened.session.last_time()));
    for (draft, time) in next.collect::<Vec<_>>() {
        opened.writer.append(opened.session.append(draft, time).unwrap()).unwrap();
    }
    for draft in turn(&opened.session, rng) {
        let time = opened.session.last_time();
        opened.writer.append(opened.session.append(draft, time).unwrap()).unwrap();
    }
    opened.writer.flush().await.unwrap();
    assert_paired(&opened.session, context);
    let after = store.read(&id(1)).unwrap();
    assert_eq!(lines(&after.session), lines(&opened.session), "{context}");
    assert_eq!(after.session.state(), opened.session.state(), "{context}");
    assert_eq!(after.session.repair().len(), 0, "{context}");
    let log = fs_err::read(store.log_path(&id(1)).unwrap()).unwrap();
    assert!(log.starts_with(bytes), "{context}: the damaged place was written to");
}

/// What a provider demands: each call has its result right behind it.
fn assert_paired(session: &Session, context: &str) {
    let mut open: Vec<ToolCallId> = Vec::new();
    for message in session.projection().messages() {
        match message {
            Message::ToolResult(result) => {
                assert_eq!(open.first(), Some(&result.id), "{context}");
                open.remove(0);
            }
            _ => assert!(open.is_empty(), "{context}: {open:?}"),
        }
        if let Message::Assistant(answer) = message {
            open.extend(answer.tool_calls().map(|(id, ..)| id.clone()));
        }
    }
    assert!(open.is_empty(), "{context}: {open:?}");
}

#[tokio::test]
async fn several_places_are_named_each_and_a_torn_end_too() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let batches: Vec<Vec<String>> = (0..6).map(|n| vec![format!("text {n}")]).collect();
    let (_, ends) = super::sample::written(&store, 1, &batches).await;
    let log = store.log_path(&id(1)).unwrap();
    let mut bytes = fs_err::read(&log).unwrap();
    let at = |frame: usize| usize::try_from(ends[frame]).unwrap();
    bytes[at(0)..at(1)].fill(0);
    bytes[at(3)] ^= 1;
    bytes.truncate(at(6) - 1);
    fs_err::write(&log, &bytes).unwrap();
    let report = store.verify(&id(1)).unwrap();
    let said: Vec<_> = report.damage.iter().map(ToString::to_string).collect();
    let expected = [(0, "events 0 to 0 are lost"), (3, "events 3 to 3 are lost")];
    let expected = expected.map(|(frame, lost)| {
        format!("damaged from byte {} for {} bytes, {lost}", at(frame), at(frame + 1) - at(frame))
    });
    assert_eq!(said, expected);
    assert_eq!((report.events.0, report.frames, report.bytes), (3, 4, ends[5]));
    assert_eq!(report.torn_bytes, (at(6) - 1 - at(5)) as u64);
    assert!(report.fold.is_ok());
    let opened = store.open(&id(1)).unwrap();
    assert_eq!((opened.session.len().0, opened.session.events().len()), (5, 3));
    assert_eq!(fs_err::read(&log).unwrap(), bytes[..at(5)]);
}

#[tokio::test]
async fn bytes_that_took_no_event_are_named_and_cost_nothing() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let batches = [vec!["one".to_owned()], vec!["two".to_owned()]];
    let (session, ends) = super::sample::written(&store, 1, &batches).await;
    let log = store.log_path(&id(1)).unwrap();
    let mut bytes = fs_err::read(&log).unwrap();
    let at = usize::try_from(ends[1]).unwrap();
    bytes.splice(at..at, *b"junk");
    fs_err::write(&log, &bytes).unwrap();
    let read = store.read(&id(1)).unwrap();
    assert_eq!(read.recovery.damage, [Damage { offset: ends[1], bytes: 4, lost: None }]);
    assert_eq!(lines(&read.session), lines(&session));
    assert!(read.session.state().gaps.is_empty() && read.session.repair().is_empty());
}
