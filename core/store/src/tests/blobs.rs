//! Blobs, and collecting what nobody needs.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, SystemTime};

use bridle_session::{Content, Draft, MessageId, Session, UserMessage, UserSource};

use super::sample::{header, id, lines, quick_folder, say, written};
use crate::{BlobStore, FileStore, GcPolicy, MemoryStore, SessionStore, StoreError};

#[test]
fn a_blob_is_what_was_put_in_or_it_is_said_which_is_damaged() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let blob = store.put(b"a large text").unwrap();
    assert_eq!((store.put(b"a large text").unwrap(), blob.bytes), (blob.clone(), 12));
    let path = store.blob_path(&blob.hash);
    let digits = blob.hash.as_str();
    assert_eq!(path, folder.path().join("blobs").join(digits.get(..2).unwrap()).join(digits));
    let mode = |path: &std::path::Path| fs_err::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&path) & 0o7777, 0o600);
    assert_eq!(mode(path.parent().unwrap()) & 0o7777, 0o700);
    for damaged in ["", "a large texT", "a large text and more"] {
        fs_err::write(&path, damaged).unwrap();
        let said = store.get(&blob).unwrap_err().to_string();
        assert!(said.starts_with(&format!("blob {digits} is damaged: it")), "{said}");
        store.put(b"a large text").unwrap();
        assert_eq!(store.get(&blob).unwrap(), b"a large text");
    }
    fs_err::remove_file(&path).unwrap();
    assert!(matches!(store.get(&blob), Err(StoreError::NoBlob(hash)) if hash == blob.hash));
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    assert!(store.get(&blob).is_err(), "a link was followed");
    store.put(b"a large text").unwrap();
    assert_eq!(store.get(&blob).unwrap(), b"a large text");
}

#[test]
fn a_blob_has_a_largest_size() {
    for store in [&FileStore::new("/nowhere") as &dyn BlobStore, &MemoryStore::new()] {
        match store.put(&vec![0; 64 * 1024 * 1024 + 1]) {
            Err(StoreError::Io(error)) => assert_eq!(error.kind(), io::ErrorKind::FileTooLarge),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_file_that_has_grown_becomes_the_blob_of_its_content_and_has_no_name_before() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    for store in [&store as &dyn BlobStore, &MemoryStore::new()] {
        let file = store.scratch().unwrap();
        let bytes: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
        for piece in bytes.chunks(70_000) {
            io::Write::write_all(&mut &file, piece).unwrap();
        }
        let blob = store.put_file(&file).unwrap();
        assert_eq!(blob, store.put(&bytes).unwrap());
        assert_eq!(store.get(&blob).unwrap(), bytes);
        file.set_len(64 * 1024 * 1024 + 1).unwrap();
        match store.put_file(&file) {
            Err(StoreError::Io(error)) => assert_eq!(error.kind(), io::ErrorKind::FileTooLarge),
            other => panic!("{other:?}"),
        }
    }
    let file = store.scratch().unwrap();
    let mode = file.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    let names = fs_err::read_dir(folder.path().join("blobs")).unwrap();
    assert_eq!(names.count(), 1, "a scratch file has a name");
}

fn later() -> GcPolicy {
    GcPolicy::at(SystemTime::now() + GcPolicy::DAY + Duration::from_secs(60))
}

/// A session with something said, which names a blob; an empty one; and a blob that nobody names.
async fn collected<S: SessionStore + BlobStore>(store: S) {
    let (named, unnamed) = (store.put(b"named").unwrap(), store.put(b"unnamed").unwrap());
    let mut session = Session::new(header(1));
    let writer = store.create(session.header()).unwrap();
    let image = Content::Image { blob: named.clone(), mime_type: "image/png".into() };
    let draft = Draft::new(UserMessage {
        id: MessageId::new("m"),
        content: vec![Content::text("look"), image],
        source: UserSource::Human,
    });
    writer.append(session.append(draft, session.last_time()).unwrap()).unwrap();
    writer.flush().await.unwrap();
    store.create(&header(2)).unwrap().flush().await.unwrap();
    let open = store.create(&header(3)).unwrap();
    open.flush().await.unwrap();

    // The headers are years old; what has just been put is not.
    let report = store.collect(&GcPolicy::at(SystemTime::now())).unwrap();
    assert_eq!((report.sessions, report.blobs), (vec![id(2)], Vec::new()));
    assert!(matches!(store.read(&id(2)), Err(StoreError::NotFound(_))));
    assert!(store.get(&unnamed).is_ok(), "whoever has put it may be about to name it");

    let report = store.collect(&later()).unwrap();
    assert_eq!((report.sessions, report.blobs), (Vec::new(), vec![unnamed.hash.clone()]));
    assert!(report.unreadable.is_empty());
    assert!(matches!(store.get(&unnamed), Err(StoreError::NoBlob(_))));
    assert_eq!(store.get(&named).unwrap(), b"named");
    assert!(store.read(&id(3)).is_ok(), "an open session was collected");
    drop((writer, open));
    store.remove(&id(1)).unwrap();
    assert_eq!(store.collect(&later()).unwrap().blobs, [named.hash]);
}

#[tokio::test]
async fn what_nobody_needs_is_collected_and_nothing_else() {
    let folder = quick_folder();
    collected(FileStore::new(folder.path())).await;
    collected(MemoryStore::new()).await;
}

#[tokio::test]
async fn a_log_that_cannot_be_read_keeps_all_blobs() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let blob = store.put(b"may be named").unwrap();
    written(&store, 1, &[vec!["one".to_owned()]]).await;
    let log = store.log_path(&id(1)).unwrap();
    let newer = log.with_file_name("events.v2.jsonl.zst");
    fs_err::write(&newer, b"from the future").unwrap();
    let report = store.collect(&later()).unwrap();
    assert!(matches!(report.unreadable.as_slice(), [(_, StoreError::Newer { .. })]));
    assert_eq!((report.blobs.len(), store.get(&blob).unwrap()), (0, b"may be named".to_vec()));
    fs_err::remove_file(newer).unwrap();
    assert_eq!(store.collect(&later()).unwrap().blobs, [blob.hash]);
}

#[tokio::test]
async fn what_killed_processes_left_is_collected_and_foreign_files_are_not() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let (session, _) = written(&store, 1, &[vec!["one".to_owned()]]).await;
    let sessions = folder.path().join("sessions");
    let unborn = sessions.join(id(2).as_str());
    fs_err::create_dir_all(&unborn).unwrap();
    fs_err::write(unborn.join("events.v1.jsonl.zst.new"), b"draft").unwrap();
    let foreign = sessions.join(id(3).as_str());
    fs_err::create_dir_all(&foreign).unwrap();
    fs_err::write(foreign.join("notes.txt"), b"mine").unwrap();
    let gone = sessions.join(format!("removed-{}", id(4)));
    fs_err::create_dir_all(&gone).unwrap();
    fs_err::write(gone.join("events.v1.jsonl.zst"), b"removed").unwrap();
    let blob = store.put(b"put again while it was collected").unwrap();
    let path = store.blob_path(&blob.hash);
    fs_err::rename(&path, path.with_extension("leaving")).unwrap();
    fs_err::write(path.with_extension("1-0.new"), b"draft").unwrap();

    store.collect(&GcPolicy::at(SystemTime::now())).unwrap();
    assert!(unborn.exists() && foreign.exists() && !gone.exists());
    assert!(store.get(&blob).is_ok() && path.with_extension("1-0.new").exists());
    let report = store.collect(&later()).unwrap();
    assert!(!unborn.exists() && foreign.join("notes.txt").exists());
    assert_eq!((report.drafts, report.blobs), (2, vec![blob.hash]));
    assert_eq!(lines(&store.read(&id(1)).unwrap().session), lines(&session));
}

#[tokio::test]
async fn a_session_is_removed_whole_unless_it_is_open() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    written(&store, 1, &[vec!["one".to_owned()]]).await;
    let opened = store.open(&id(1)).unwrap();
    assert!(matches!(store.remove(&id(1)), Err(StoreError::Locked { .. })));
    drop(opened);
    fs_err::write(store.log_path(&id(1)).unwrap(), b"damaged").unwrap();
    store.remove(&id(1)).unwrap();
    assert!(matches!(store.remove(&id(1)), Err(StoreError::NotFound(_))));
    assert_eq!(fs_err::read_dir(folder.path().join("sessions")).unwrap().count(), 0);
    let mut again = Session::new(header(1));
    let writer = store.create(again.header()).unwrap();
    writer.append(say(&mut again, "a new one")).unwrap();
    writer.flush().await.unwrap();
}
