//! A disk that really is full: a small tmpfs, where this process may mount one.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bridle_session::Session;

use super::sample::{header, id, lines, say};
use crate::{FileStore, SessionStore as _, StoreError};

/// A mounted tmpfs, gone with its guard.
pub(super) struct SmallDisk {
    pub(super) at: PathBuf,
    _folder: tempfile::TempDir,
}

#[expect(clippy::disallowed_methods, reason = "a test's own tool, not a part of the product")]
fn run(program: &str, arguments: &[&str], path: &Path) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).arg(path).stdin(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl SmallDisk {
    pub(super) fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("disk");
        fs_err::create_dir_all(&at).unwrap();
        let arguments = ["-t", "tmpfs", "-o", "size=256k", "tmpfs"];
        run("mount", &arguments, &at).then_some(Self { at, _folder: folder })
    }

    /// Changes the options of the mount.
    pub(super) fn remount(&self, options: &str) {
        assert!(run("mount", &["-o", &format!("remount,{options}")], &self.at));
    }

    /// Takes all space that is left.
    pub(super) fn fill(&self) -> PathBuf {
        let path = self.at.join("filler");
        let mut file = fs_err::File::create(&path).unwrap();
        while io::Write::write_all(&mut file, &[7; 4096]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run("umount", &["-l"], &self.at);
    }
}

fn assert_full(result: Result<(), StoreError>) {
    match result {
        Err(StoreError::Io(error)) => assert_eq!(error.kind(), io::ErrorKind::StorageFull),
        other => panic!("a full disk gave {other:?}"),
    }
}

/// Text that does not compress.
fn noise(rng: &mut fastrand::Rng, len: usize) -> String {
    std::iter::repeat_with(|| rng.alphanumeric()).take(len).collect()
}

#[tokio::test]
async fn a_full_disk_costs_nothing_but_the_wait() {
    let Some(disk) = SmallDisk::mount() else {
        println!("SKIP store::full_disk: needs root and tmpfs");
        return;
    };
    let store = FileStore::new(disk.at.join("state"));
    let mut session = Session::new(header(1));
    let writer = store.create(session.header()).unwrap();

    let filler = disk.fill();
    assert_full(writer.flush().await);
    assert!(matches!(store.read(&id(1)), Err(StoreError::NotFound(_))));
    fs_err::remove_file(&filler).unwrap();
    writer.flush().await.unwrap();

    let mut rng = fastrand::Rng::with_seed(1);
    let mut flushed = Vec::new();
    for _ in 0..100 {
        writer.append(say(&mut session, &noise(&mut rng, 9_000))).unwrap();
        match writer.flush().await {
            Ok(()) => flushed = lines(&session),
            full => {
                assert_full(full);
                break;
            }
        }
    }
    assert!(flushed.len() > 5);
    let read = store.read(&id(1)).unwrap();
    assert_eq!(lines(&read.session), flushed);
    assert_eq!(read.recovery.torn_bytes, 0, "the half-written frame was not taken back");

    writer.append(say(&mut session, "said while the disk is full")).unwrap();
    assert_full(writer.flush().await);
    disk.remount("size=1m");
    writer.flush().await.unwrap();
    assert_eq!(lines(&store.read(&id(1)).unwrap().session), lines(&session));
    drop(writer);
    assert!(store.verify(&id(1)).unwrap().fold.is_ok());
}
