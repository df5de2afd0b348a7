//! Logs that cannot be read are refused by name, never changed, and never hide from the list.

use bridle_session::{Header, SessionId};

use super::sample::{header, id, quick_folder, written};
use crate::codec::Compression;
use crate::frame::MAX_CONTENT;
use crate::{FileStore, SessionStore as _, StoreError};

async fn store_with_log() -> (tempfile::TempDir, FileStore, Vec<u64>) {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let batches: Vec<Vec<String>> = (0..5).map(|n| vec![format!("text {n}")]).collect();
    let (_, lens) = written(&store, 1, &batches).await;
    (folder, store, lens)
}

/// Everything in the session's folder.
fn snapshot(store: &FileStore, id: &SessionId) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let log = store.log_path(id).unwrap();
    let entries = fs_err::read_dir(log.parent().unwrap()).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap() != "session.lock")
        .map(|path| (path.clone(), fs_err::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// Every way in answers with the same kind of error, changes nothing, and the list says it too.
fn refused(store: &FileStore, kind: impl Fn(&StoreError) -> bool) -> String {
    let before = snapshot(store, &id(1));
    let errors = [
        store.open(&id(1)).map(drop).unwrap_err(),
        store.read(&id(1)).map(drop).unwrap_err(),
        store.verify(&id(1)).map(drop).unwrap_err(),
        store.list().unwrap().unreadable.remove(0).1,
    ];
    for error in &errors {
        assert!(kind(error), "{error:?}");
    }
    assert_eq!(snapshot(store, &id(1)), before);
    errors[0].to_string()
}

fn is_unreadable(error: &StoreError) -> bool {
    matches!(error, StoreError::Unreadable { .. })
}

#[tokio::test]
async fn a_newer_version_is_left_alone() {
    let (_folder, store, _) = store_with_log().await;
    let log = store.log_path(&id(1)).unwrap();
    let names = ["events.v2.jsonl.zst", "events.v10.jsonl", "events.v99999999999.jsonl.zst"];
    for (name, expected) in names.into_iter().zip([2, 10, u32::MAX]) {
        let newer = log.with_file_name(name);
        fs_err::write(&newer, b"from the future").unwrap();
        refused(
            &store,
            |error| matches!(error, StoreError::Newer { version, .. } if *version == expected),
        );
        fs_err::remove_file(newer).unwrap();
    }
    fs_err::write(log.with_file_name("events.v2.jsonl.zst"), b"only").unwrap();
    fs_err::remove_file(log).unwrap();
    refused(&store, |error| matches!(error, StoreError::Newer { version: 2, .. }));
}

/// Puts a log together by hand.
fn forge(store: &FileStore, frames: &[&str]) {
    let log = store.log_path(&id(1)).unwrap();
    fs_err::create_dir_all(log.parent().unwrap()).unwrap();
    let bytes: Vec<u8> = frames
        .iter()
        .flat_map(|frame| Compression::Zstd.encode(frame.as_bytes()).unwrap().into_owned())
        .collect();
    fs_err::write(log, bytes).unwrap();
}

#[test]
fn sound_frames_with_wrong_content_are_refused() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let line = |header: &Header| serde_json::to_string(header).unwrap() + "\n";
    let good = line(&header(1));
    let event = r#"{"seq":0,"time":0,"type":"turn/start","data":{"turn":1}}"#;
    let unknown = r#"{"seq":0,"time":0,"type":"roots/changed","data":{}}"#;
    let cases: [(&[&str], &str); 8] = [
        (&["not json\n"], "its header: "),
        (&[&line(&header(2))], "it holds session "),
        (&[&good, event], "the last line has no end"),
        (&[&good, &format!("{event}{event}\n")], "event line is malformed"),
        (&[&good, "\n"], "event line is malformed"),
        (&[&good, &format!("{unknown}\n")], "\"roots/changed\" is unknown to this version"),
        (&[&good, &format!("{good}{event}\n")], "event line is malformed"),
        (&[&format!("{good}{event}\n")], "its header: "),
    ];
    for (frames, expected) in cases {
        forge(&store, frames);
        let said = refused(&store, is_unreadable);
        assert!(said.contains(expected), "{said}");
    }
    let newer = Header { format: 7, ..header(1) };
    forge(&store, &[&line(&newer).replace("\"cwd\"", "\"place\"")]);
    refused(&store, |error| matches!(error, StoreError::Newer { version: 7, .. }));
}

#[test]
fn events_that_do_not_fold_are_refused_and_shown_by_verify() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let good = serde_json::to_string(&header(1)).unwrap() + "\n";
    let event = |seq: u64| {
        format!("{{\"seq\":{seq},\"time\":0,\"type\":\"turn/start\",\"data\":{{\"turn\":1}}}}\n")
    };
    for (second, expected) in [
        (event(0), "event 0 stands where 1 or a later one was due"),
        (event(1), "event 1: turn/start: the turn before it is open"),
    ] {
        forge(&store, &[&good, &event(0), &second]);
        let said = store.open(&id(1)).unwrap_err().to_string();
        assert!(said.ends_with(expected), "{said}");
        let report = store.verify(&id(1)).unwrap();
        assert_eq!((report.events.0, report.frames, report.torn_bytes), (2, 3, 0));
        assert!(report.fold.unwrap_err().ends_with(expected));
    }
}

#[tokio::test]
async fn verify_counts_what_is_there() {
    let (_folder, store, lens) = store_with_log().await;
    let log = store.log_path(&id(1)).unwrap();
    let mut bytes = fs_err::read(&log).unwrap();
    bytes.extend_from_slice(b"torn");
    fs_err::write(&log, bytes).unwrap();
    let report = store.verify(&id(1)).unwrap();
    assert_eq!((report.events.0, report.frames), (5, 6));
    assert_eq!((report.bytes, report.torn_bytes), (lens[5], 4));
    assert!(report.fold.is_ok());
}

#[tokio::test]
async fn a_frame_that_claims_too_much_is_not_unpacked() {
    let (_folder, store, lens) = store_with_log().await;
    let log = store.log_path(&id(1)).unwrap();
    let intact = fs_err::read(&log).unwrap();
    for claimed in [MAX_CONTENT as u64 + 1, u64::MAX / 4] {
        // A frame header with a checksum and an eight-byte content size, one empty last block,
        // and the checksum.
        let mut bytes = intact.clone();
        bytes.extend_from_slice(&[0x28, 0xB5, 0x2F, 0xFD, 0b1110_0100]);
        bytes.extend_from_slice(&claimed.to_le_bytes());
        bytes.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0]);
        fs_err::write(&log, &bytes).unwrap();
        let report = store.verify(&id(1)).unwrap();
        assert_eq!((report.events.0, report.bytes), (5, lens[5]));
        assert_eq!(report.torn_bytes, bytes.len() as u64 - lens[5]);
    }
}

#[tokio::test]
async fn what_is_not_a_session_is_not_listed() {
    let (folder, store, _) = store_with_log().await;
    let sessions = folder.path().join("sessions");
    fs_err::create_dir_all(sessions.join(id(2).as_str())).unwrap();
    fs_err::create_dir_all(sessions.join("not-an-id")).unwrap();
    fs_err::write(sessions.join(id(3).as_str()), b"a file").unwrap();
    let listing = store.list().unwrap();
    assert_eq!(listing.sessions.len(), 1);
    let unreadable: Vec<_> = listing.unreadable.iter().map(|(id, _)| id.clone()).collect();
    assert_eq!(unreadable, [id(3)]);
    assert!(matches!(store.open(&id(2)), Err(StoreError::NotFound(_))));
    assert!(!sessions.join(id(2).as_str()).join("session.lock").exists());
}
