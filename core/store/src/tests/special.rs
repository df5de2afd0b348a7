//! What is no regular file or folder in the place of a session's: never waited for, never followed.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, mkfifoat};

use super::sample::{id, written};
use crate::lock::{Lock, LockError};
use crate::{FileStore, SessionStore as _, StoreError};

fn fifo(path: &Path) {
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
}

fn socket(path: &Path) {
    UnixListener::bind(path).unwrap();
}

fn dangling_link(path: &Path) {
    symlink("nowhere", path).unwrap();
}

fn link_to_a_device(path: &Path) {
    symlink("/dev/zero", path).unwrap();
}

fn folder(path: &Path) {
    fs_err::create_dir(path).unwrap();
}

fn remove(path: &Path) {
    if path.is_dir() {
        fs_err::remove_dir_all(path).unwrap();
    } else {
        fs_err::remove_file(path).unwrap();
    }
}

/// The log, the lock and the folder of the session.
fn places(store: &FileStore) -> [PathBuf; 3] {
    let log = store.log_path(&id(1)).unwrap();
    let folder = log.parent().unwrap().to_owned();
    [log, folder.join("session.lock"), folder]
}

#[tokio::test]
async fn what_is_no_file_or_folder_is_unreadable_and_waits_for_nobody() {
    let kinds: [fn(&Path); 5] = [fifo, socket, dangling_link, link_to_a_device, folder];
    for (place, what) in (0..3).flat_map(|place| kinds.map(|kind| (place, kind))) {
        let state = tempfile::tempdir().unwrap();
        let store = FileStore::new(state.path());
        drop(written(&store, 1, &[vec!["kept".to_owned()]]).await);
        drop(written(&store, 2, &[vec!["beside it".to_owned()]]).await);
        let path = &places(&store)[place];
        remove(path);
        what(path);
        if path.is_dir() && place == 2 {
            assert!(matches!(store.read(&id(1)), Err(StoreError::NotFound(_))));
            continue;
        }
        let listing = store.list().unwrap();
        assert_eq!(listing.sessions.len(), 1, "{path:?}");
        assert_eq!(listing.unreadable.len(), 1, "{path:?}");
        let answers = [
            store.read(&id(1)).map(drop),
            store.open(&id(1)).map(drop),
            store.verify(&id(1)).map(drop),
        ];
        for answer in answers {
            let Err(StoreError::Unreadable { reason, .. }) = answer else {
                panic!("{path:?}: {answer:?}")
            };
            assert!(reason.contains(path.to_str().unwrap()), "{reason}");
        }
        assert!(!path.with_file_name("nowhere").exists(), "a link was followed");
    }
}

#[tokio::test]
async fn a_name_that_changes_hands_after_it_was_looked_at_is_not_waited_for() {
    let state = tempfile::tempdir().unwrap();
    for (name, kind) in [("fifo", fifo as fn(&Path)), ("link", dangling_link)] {
        let path = state.path().join(name);
        kind(&path);
        assert!(matches!(Lock::acquire(&path), Err(LockError::Io(_))));
        let reading = crate::folder::open_regular(&path, fs_err::OpenOptions::new().read(true));
        assert!(reading.is_err(), "{name}");
        let writing = crate::folder::open_private(
            &path,
            fs_err::OpenOptions::new().append(true).create(true),
        );
        assert!(writing.is_err(), "{name}");
    }
    assert!(!state.path().join("nowhere").exists(), "a link was followed");
}
