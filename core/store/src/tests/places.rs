//! Folders that are missing, not writable or not yet durable, and logs of odd sizes and names.

use std::io;
use std::sync::Arc;

use bridle_session::Session;

use super::migration::{STEPS, newer};
use super::sample::{header, id, lines, quick_folder, say, written};
use super::simulated::{Left, SimulatedDisk};
use crate::version::Versions;
use crate::{Compression, FileStore, SessionStore as _, StoreError};

fn on(disk: &SimulatedDisk) -> FileStore {
    FileStore::on(Arc::new(disk.clone()), "/home/user/state")
}

/// The first process makes folders and is killed before it has synced them; the second relies on
/// them; then the power goes.
#[tokio::test]
async fn folders_that_a_killed_process_made_are_made_durable_by_the_next() {
    for step in 1.. {
        let disk = SimulatedDisk::default().crash_at(step);
        let first = on(&disk).create(&header(1)).unwrap().flush().await;
        let disk = disk.powered();
        on(&disk).create(&header(2)).unwrap().flush().await.unwrap();
        let after = on(&disk.after_crash(Left::Nothing));
        assert!(after.read(&id(2)).is_ok(), "killed at {step}: the second session is lost");
        if first.is_ok() {
            return assert!(step > 10, "only {step} points");
        }
    }
}

/// Three syncs are the least: the log's content, its name, and the name of its folder; a file
/// system promises none of them with another. The folders above are synced once per process.
#[tokio::test]
async fn a_session_costs_three_syncs() {
    let disk = SimulatedDisk::default();
    let store = on(&disk);
    let syncs = async |n| {
        let before = disk.steps();
        store.create(&header(n)).unwrap().flush().await.unwrap();
        let done = disk.done_since(before);
        done.into_iter().filter(|what| what.starts_with("sync")).collect::<Vec<_>>()
    };
    let first = syncs(1).await;
    assert_eq!(first.len(), 3 + "/ home user state".split(' ').count(), "{first:?}");
    assert_eq!(syncs(2).await, ["sync folder", "sync file", "sync folder"]);
}

/// A process that is going to have sessions makes the folders above them durable beforehand, where
/// they are there already, and makes none.
#[tokio::test]
async fn a_prepared_store_has_only_the_syncs_of_the_session_left() {
    let disk = SimulatedDisk::default();
    on(&disk).prepare();
    assert_eq!(disk.steps(), 0, "nothing to prepare for");
    on(&disk).create(&header(1)).unwrap().flush().await.unwrap();
    let next = on(&disk);
    next.prepare();
    let before = disk.steps();
    next.create(&header(2)).unwrap().flush().await.unwrap();
    let syncs = disk.done_since(before).into_iter().filter(|what| what.starts_with("sync"));
    assert_eq!(syncs.count(), 3);
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_named() {
    let folder = quick_folder();
    let state = folder.path().join("state");
    fs_err::write(&state, b"a file").unwrap();
    let store = FileStore::new(&state);
    let said = store.create(&header(1)).unwrap().flush().await.unwrap_err().to_string();
    assert!(said.contains(state.to_str().unwrap()), "{said}");
    assert!(store.list().is_err() || store.list().unwrap().sessions.is_empty());
    // Nobody may make a folder there, root neither.
    let store = FileStore::new("/sys/kernel/bridle/state");
    match store.create(&header(1)).unwrap().flush().await {
        Err(StoreError::Io(error)) => assert!(error.to_string().contains("/sys/kernel"), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_large_event_comes_back_in_both_forms() {
    for compression in [Compression::Zstd, Compression::None] {
        let folder = quick_folder();
        let store = FileStore::new(folder.path()).with_compression(compression);
        let large = "12 MB ".repeat(2 * 1024 * 1024);
        let (session, _) = written(&store, 1, &[vec![large], vec!["after".to_owned()]]).await;
        let opened = store.open(&id(1)).unwrap();
        assert_eq!(lines(&opened.session), lines(&session));
        assert_eq!(store.tail(&id(1), 1).unwrap().events.len(), 1);
    }
}

#[tokio::test]
async fn a_log_keeps_its_form_and_two_forms_are_refused_by_name() {
    let folder = quick_folder();
    let frames = FileStore::new(folder.path());
    let plain = frames.clone().with_compression(Compression::None);
    let (_, _) = written(&plain, 1, &[vec!["one".to_owned()]]).await;
    let mut opened = frames.open(&id(1)).unwrap();
    opened.writer.append(say(&mut opened.session, "two")).unwrap();
    opened.writer.flush().await.unwrap();
    let log = plain.log_path(&id(1)).unwrap();
    assert!(log.ends_with("events.v1.jsonl"));
    let mut expected = vec![serde_json::to_string(&header(1)).unwrap()];
    expected.extend(lines(&opened.session));
    assert_eq!(fs_err::read_to_string(&log).unwrap(), expected.join("\n") + "\n");
    drop(opened);
    fs_err::write(log.with_file_name("events.v1.jsonl.zst"), b"another").unwrap();
    for error in [frames.read(&id(1)).map(drop), plain.open(&id(1)).map(drop)] {
        let said = error.unwrap_err().to_string();
        assert!(said.contains("events.v1.jsonl.zst and events.v1.jsonl;"), "{said}");
    }
    assert!(fs_err::read(log.with_file_name("events.v1.jsonl.zst")).unwrap() == b"another");
}

#[tokio::test]
async fn a_damaged_header_is_named_with_its_bytes_and_left_alone() {
    for compression in [Compression::Zstd, Compression::None] {
        let folder = quick_folder();
        let store = FileStore::new(folder.path()).with_compression(compression);
        let (_, ends) = written(&store, 1, &[vec!["one".to_owned()]]).await;
        let log = store.log_path(&id(1)).unwrap();
        let mut bytes = fs_err::read(&log).unwrap();
        bytes[..4].fill(0xff);
        fs_err::write(&log, &bytes).unwrap();
        let said = store.verify(&id(1)).unwrap_err().to_string();
        let expected = format!("its header is damaged: bytes 0 to {} are not whole", ends[0]);
        assert!(said.ends_with(&expected), "{compression:?}: {said}");
        assert!(store.open(&id(1)).is_err());
        assert_eq!(fs_err::read(&log).unwrap(), bytes);
    }
}

#[tokio::test]
async fn a_missing_step_a_lying_header_and_a_newer_log_are_told_and_untouched() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    written(&store, 1, &[vec!["one".to_owned()]]).await;
    let log = store.log_path(&id(1)).unwrap();
    let before = fs_err::read(&log).unwrap();
    let gap = Versions { current: 3, steps: STEPS[..1].to_vec() };
    let said = store.clone().with_versions(gap).open(&id(1)).unwrap_err().to_string();
    assert!(said.ends_with("it has format version 1, and nothing leads from 2 to 3"), "{said}");
    assert_eq!(fs_err::read(&log).unwrap(), before);
    fs_err::copy(&log, log.with_file_name("events.v2.jsonl.zst")).unwrap();
    let said = newer(&store).read(&id(1)).unwrap_err().to_string();
    assert!(said.ends_with("its header: it says version 1, its name says 2"), "{said}");
    assert!(matches!(store.open(&id(1)), Err(StoreError::Newer { version: 2, .. })));
    assert_eq!(fs_err::read(&log).unwrap(), before);
}

/// What was damaged or torn in the older file is told; the file itself stays as it is.
#[tokio::test]
async fn a_damaged_log_migrates_with_its_gap() {
    for compression in [Compression::Zstd, Compression::None] {
        let folder = quick_folder();
        let store = FileStore::new(folder.path()).with_compression(compression);
        let batches: Vec<Vec<String>> = (0..4).map(|n| vec![format!("text {n}")]).collect();
        let (_, ends) = written(&store, 1, &batches).await;
        let log = store.log_path(&id(1)).unwrap();
        let mut bytes = fs_err::read(&log).unwrap();
        let at = |n: usize| usize::try_from(ends[n]).unwrap();
        bytes[at(1)..at(2)].fill(0);
        bytes.extend_from_slice(b"torn");
        fs_err::write(&log, &bytes).unwrap();
        let old = store.read(&id(1)).unwrap();
        let opened = newer(&store).open(&id(1)).unwrap();
        assert_eq!(lines(&opened.session), lines(&old.session));
        assert_eq!((opened.session.len().0, opened.session.events().len()), (4, 3));
        assert_eq!(opened.recovery.damage, old.recovery.damage);
        assert_eq!((opened.recovery.torn_bytes, opened.recovery.kept_at.as_ref()), (4, Some(&log)));
        assert_eq!(fs_err::read(&log).unwrap(), bytes);
    }
}

/// A fork of a session that has lost events has the same hole.
#[tokio::test]
async fn a_session_with_a_gap_can_be_seeded() {
    let mut session = Session::new(header(1));
    for n in 0..600 {
        say(&mut session, &format!("{n} {}", "x".repeat(1_000)));
    }
    let kept = session.events().iter().filter(|event| event.seq.0 != 3);
    let kept: Vec<_> = kept.map(|event| (**event).clone()).collect();
    let holed = Session::replay(header(1), kept).unwrap();
    for compression in [Compression::Zstd, Compression::None] {
        let folder = quick_folder();
        let store = FileStore::new(folder.path()).with_compression(compression);
        let mut child = holed.clone();
        let writer = store.seed(&child).unwrap();
        writer.append(say(&mut child, "goes on")).unwrap();
        writer.flush().await.unwrap();
        assert!(store.verify(&id(1)).unwrap().frames > 3, "more than one batch");
        let read = store.read(&id(1)).unwrap().session;
        assert_eq!(lines(&read), lines(&child));
        drop(writer);
        let taken = store.seed(&holed).unwrap_err();
        assert!(matches!(taken, StoreError::Io(e) if e.kind() == io::ErrorKind::AlreadyExists));
    }
}
