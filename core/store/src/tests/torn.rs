//! A log whose end is torn in any way loses its incomplete frames, or lines, and nothing else.

use fastrand::Rng;

use super::sample::{header, id, line_ends, lines, quick_folder, say, written};
use crate::{Compression, FileStore, SessionStore as _, StoreError};

const FRAME_CASES: usize = 3_000;
const LINE_CASES: usize = 1_000;

/// A log as it was written, and where each of its frames or lines ends.
struct Intact {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    lines: Vec<String>,
    /// How many events the frames up to each end hold.
    counts: Vec<usize>,
}

impl Intact {
    fn is_plain(&self) -> bool {
        self.bytes.starts_with(b"{")
    }
}

async fn intact(store: &FileStore, rng: &mut Rng) -> Intact {
    let text = |rng: &mut Rng| -> String {
        let len = rng.usize(1..400);
        std::iter::repeat_with(|| rng.char('\u{0}'..'\u{2fff}')).take(len).collect()
    };
    let batches: Vec<Vec<String>> =
        (0..6).map(|_| (0..rng.usize(1..4)).map(|_| text(rng)).collect()).collect();
    let (session, lens) = written(store, 1, &batches).await;
    let log = store.log_path(&id(1)).unwrap();
    let (bytes, lines) = (fs_err::read(&log).unwrap(), lines(&session));
    if log.extension().unwrap() == "jsonl" {
        let counts = (0..=lines.len()).collect();
        return Intact { ends: line_ends(&bytes), bytes, lines, counts };
    }
    let mut counts = vec![0];
    for batch in &batches {
        counts.push(counts[counts.len() - 1] + batch.len());
    }
    let ends = lens.iter().map(|len| usize::try_from(*len).unwrap()).collect();
    Intact { bytes, ends, lines, counts }
}

/// One way to tear: the bytes then, and where the first byte differs from the intact log.
fn tear(intact: &Intact, kind: usize, rng: &mut Rng) -> (Vec<u8>, usize) {
    let mut bytes = intact.bytes.clone();
    let last = intact.ends[intact.ends.len() - 2]..bytes.len();
    let cut = rng.usize(0..bytes.len());
    let extra = rng.usize(1..300);
    match kind {
        0 => bytes.truncate(cut),
        1 => {
            bytes.truncate(cut);
            bytes.resize(cut + extra, 0);
        }
        2 => {
            bytes.truncate(cut);
            bytes.extend(std::iter::repeat_with(|| rng.u8(..)).take(extra));
        }
        3 => bytes.extend(std::iter::repeat_with(|| rng.u8(..)).take(extra)),
        4 => {
            // In a text of a plain line nobody would see it.
            let at = if intact.is_plain() { last.start + rng.usize(0..7) } else { rng.usize(last) };
            bytes[at] ^= 1 << rng.u8(..8);
        }
        5 => {
            let at = rng.usize(last);
            bytes[at..].fill(0);
        }
        _ => {
            // The next frame had begun to reach the disk.
            let start = rng.usize(0..cut.max(1)).min(cut);
            bytes.extend_from_slice(&intact.bytes[start..cut]);
            let limit = intact.ends.iter().find(|end| **end > start).copied().unwrap_or(start);
            bytes.truncate(intact.bytes.len() + (cut - start).min(limit - start - 1));
        }
    }
    let same = intact.bytes.iter().zip(&bytes).take_while(|(a, b)| a == b).count();
    (bytes, same)
}

#[tokio::test]
async fn recovery_keeps_every_complete_frame() {
    recovery_keeps_what_is_whole(Compression::Zstd, FRAME_CASES).await;
}

#[tokio::test]
async fn recovery_keeps_every_complete_line() {
    recovery_keeps_what_is_whole(Compression::None, LINE_CASES).await;
}

async fn recovery_keeps_what_is_whole(compression: Compression, cases: usize) {
    let seed = Rng::new().u64(..);
    let mut rng = Rng::with_seed(seed);
    let folder = quick_folder();
    let store = FileStore::new(folder.path()).with_compression(compression);
    let mut intact_log = intact(&store, &mut rng).await;
    let log = store.log_path(&id(1)).unwrap();
    let (mut cut_back, mut without_header) = (0, 0);
    for case in 0..cases {
        if case % 500 == 499 {
            fs_err::remove_dir_all(folder.path().join("sessions")).unwrap();
            intact_log = intact(&store, &mut rng).await;
        }
        let (bytes, same) = tear(&intact_log, case % 7, &mut rng);
        fs_err::write(&log, &bytes).unwrap();
        let whole = intact_log.ends.iter().filter(|end| **end <= same).count();
        let context = format!("{compression:?}, seed {seed}, case {case}");
        if whole == 0 {
            without_header += 1;
            refused(&store, &bytes, &context);
        } else {
            cut_back += usize::from(bytes.len() > intact_log.ends[whole - 1]);
            recovered(&store, &intact_log, &bytes, whole, &context).await;
        }
    }
    println!(
        "{compression:?}, seed {seed}: {cases} torn logs, {cut_back} cut back, \
         {without_header} without a header"
    );
    assert!(cut_back > cases / 2 && without_header > 0);
}

/// Without a header there is nothing to recover, and nothing is changed.
fn refused(store: &FileStore, bytes: &[u8], context: &str) {
    let opened = store.open(&id(1));
    assert!(matches!(opened, Err(StoreError::Unreadable { .. })), "{context}: {opened:?}");
    assert_eq!(fs_err::read(store.log_path(&id(1)).unwrap()).unwrap(), bytes, "{context}");
}

async fn recovered(
    store: &FileStore,
    intact: &Intact,
    bytes: &[u8],
    mut whole: usize,
    context: &str,
) {
    let read = store.read(&id(1)).unwrap_or_else(|error| panic!("{context}: {error}"));
    // One bit of a frame's header has no meaning; a frame with it flipped is still complete.
    if whole + 1 == intact.ends.len() && lines(&read.session) == intact.lines {
        whole += 1;
    }
    let (expected, end) = (&intact.lines[..intact.counts[whole - 1]], intact.ends[whole - 1]);
    let torn = &bytes[end..];
    assert_eq!(lines(&read.session), expected, "{context}");
    assert_eq!(read.recovery.torn_bytes, torn.len() as u64, "{context}");
    assert_eq!(fs_err::read(store.log_path(&id(1)).unwrap()).unwrap(), bytes, "{context}");

    let mut opened = store.open(&id(1)).unwrap();
    assert_eq!(lines(&opened.session), expected, "{context}");
    assert_eq!(opened.recovery.torn_bytes, torn.len() as u64, "{context}");
    match &opened.recovery.kept_at {
        Some(copy) => {
            assert_eq!(fs_err::read(copy).unwrap(), torn, "{context}");
            fs_err::remove_file(copy).unwrap();
        }
        None => assert!(torn.is_empty(), "{context}: the torn bytes were not kept"),
    }
    opened.writer.append(say(&mut opened.session, "goes on")).unwrap();
    opened.writer.flush().await.unwrap();
    let after = store.read(&id(1)).unwrap();
    assert_eq!(lines(&after.session), lines(&opened.session), "{context}");
    assert_eq!(after.recovery.torn_bytes, 0, "{context}");
}

#[tokio::test]
async fn torn_bytes_of_the_same_moment_are_all_kept() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    written(&store, 1, &[vec!["one".to_owned()]]).await;
    let log = store.log_path(&id(1)).unwrap();
    let mut copies = std::collections::HashSet::new();
    for _ in 0..20 {
        let mut bytes = fs_err::read(&log).unwrap();
        bytes.extend_from_slice(b"torn");
        fs_err::write(&log, bytes).unwrap();
        copies.insert(store.open(&id(1)).unwrap().recovery.kept_at.unwrap());
    }
    assert_eq!(copies.len(), 20);
    assert!(copies.iter().all(|copy| fs_err::read(copy).unwrap() == b"torn"));
}

#[tokio::test]
async fn a_log_is_plain_lines_to_any_zstd_reader() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let (session, _) =
        written(&store, 1, &[vec!["one".into(), "two".into()], vec!["3".into()]]).await;
    let file = fs_err::File::open(store.log_path(&id(1)).unwrap()).unwrap();
    let text = String::from_utf8(zstd::stream::decode_all(file).unwrap()).unwrap();
    let mut expected = vec![serde_json::to_string(&header(1)).unwrap()];
    expected.extend(lines(&session));
    assert_eq!(text, expected.join("\n") + "\n");
}
