//! What a replacement and a creation leave on the disk.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use rustix::fs::XattrFlags;

use super::*;
use crate::files::read::read_for_change;
use crate::files::steps;

const LIMIT: u64 = 1 << 20;

fn stamp(path: &Path) -> Stamp {
    read_for_change(path, LIMIT).unwrap()
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let base = fs_err::canonicalize(dir.path()).unwrap();
    (dir, base)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs_err::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn set_mode(path: &Path, mode: u32) {
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_replacement_keeps_mode_and_attributes_and_leaves_no_neighbour() {
    let (_dir, base) = folder();
    let path = base.join("file");
    fs_err::write(&path, "old").unwrap();
    set_mode(&path, 0o751);
    let attribute = rustix::fs::setxattr(&path, "user.note", b"v", XattrFlags::empty()).is_ok();
    let before = stamp(&path);
    replace(&path, &before, b"new").unwrap();
    assert_eq!(fs_err::read(&path).unwrap(), b"new");
    assert_eq!(fs_err::metadata(&path).unwrap().mode() & 0o7777, 0o751);
    assert_ne!(stamp(&path).identity, before.identity, "renamed, not written in place");
    assert_eq!(names(&base), ["file"]);
    if attribute {
        let mut value = [0_u8; 8];
        let len = rustix::fs::getxattr(&path, "user.note", &mut value[..]).unwrap();
        assert_eq!(&value[..len], b"v");
    }
}

#[test]
fn hard_links_stay_one_file() {
    let (_dir, base) = folder();
    let (path, other) = (base.join("file"), base.join("other"));
    fs_err::write(&path, "a longer old text").unwrap();
    fs_err::hard_link(&path, &other).unwrap();
    let before = stamp(&path);
    replace(&path, &before, b"new").unwrap();
    assert_eq!(fs_err::read(&other).unwrap(), b"new");
    assert_eq!(fs_err::metadata(&other).unwrap().nlink(), 2);
}

#[test]
fn changed_content_is_not_overwritten_either_way_of_writing() {
    for links in [1, 2] {
        let (_dir, base) = folder();
        let path = base.join("file");
        fs_err::write(&path, "old").unwrap();
        if links == 2 {
            fs_err::hard_link(&path, base.join("other")).unwrap();
        }
        let before = stamp(&path);
        for theirs in ["ole", "something longer"] {
            fs_err::write(&path, theirs).unwrap();
            let error = replace(&path, &before, b"new").unwrap_err();
            assert!(matches!(error, FileError::Stale(_)), "{error}");
            assert_eq!(fs_err::read_to_string(&path).unwrap(), theirs);
        }
        assert_eq!(names(&base).len(), links);
    }
}

/// A mark proves nothing: a mapped file is written without one, and times are coarse.
#[test]
fn a_change_that_the_mark_does_not_tell_is_seen_in_the_content() {
    use crate::files::relocate;

    type Op = fn(&Path, &Stamp, &Path) -> Result<(), FileError>;
    let (_dir, base) = folder();
    let (path, to) = (base.join("file"), base.join("to"));
    let changes: [Op; 3] = [
        |path, stamp, _| replace(path, stamp, b"new"),
        |path, stamp, _| relocate::remove(path, stamp),
        |path, stamp, to| relocate::rename(path, stamp, to, &anchor(to).unwrap()),
    ];
    fs_err::write(&path, "").unwrap();
    for links in [1, 2] {
        if links == 2 {
            fs_err::hard_link(&path, base.join("other")).unwrap();
        }
        for change in changes {
            fs_err::write(&path, "old").unwrap();
            let before = stamp(&path);
            fs_err::write(&path, "ole").unwrap();
            let now = stamp(&path);
            let forged = Stamp { mark: now.mark, ..before };
            let error = change(&path, &forged, &to).unwrap_err();
            assert!(matches!(error, FileError::Stale(_)), "{error}");
            assert_eq!(fs_err::read(&path).unwrap(), b"ole");
            assert_eq!(stamp(&path).identity, now.identity);
            assert_eq!(names(&base).len(), links);
        }
    }
}

/// The content is compared piece by piece.
#[test]
fn a_change_of_a_long_content_is_seen_wherever_it_is() {
    let (_dir, base) = folder();
    let path = base.join("file");
    let piece = crate::files::target::COMPARED_BYTES;
    for len in [piece - 1, piece, piece + 1, 2 * piece] {
        let old = vec![b'a'; len];
        let changed = |at: usize| [&old[..at], b"b", &old[at + 1..]].concat();
        for theirs in [
            changed(0),
            changed(len - 1),
            old[1..].to_vec(),
            [&old[..], b"a"].concat(),
            Vec::new(),
            old.clone(),
        ] {
            fs_err::write(&path, &old).unwrap();
            let before = stamp(&path);
            fs_err::write(&path, &theirs).unwrap();
            let result = replace(&path, &before, b"new");
            assert_eq!(result.is_ok(), theirs == old, "{len}: {result:?}");
            let left = if theirs == old { b"new".to_vec() } else { theirs };
            assert!(fs_err::read(&path).unwrap() == left, "{len}");
        }
    }
}

#[test]
fn another_file_or_a_link_in_its_place_is_refused() {
    let (_dir, base) = folder();
    let (path, secret) = (base.join("file"), base.join("secret"));
    fs_err::write(&path, "old").unwrap();
    fs_err::write(&secret, "old").unwrap();
    let before = stamp(&path);
    fs_err::remove_file(&path).unwrap();
    symlink(&secret, &path).unwrap();
    let error = replace(&path, &before, b"new").unwrap_err();
    assert!(matches!(error, FileError::Moved(_)), "{error}");
    fs_err::remove_file(&path).unwrap();
    fs_err::rename(&secret, &path).unwrap();
    let error = replace(&path, &before, b"new").unwrap_err();
    assert!(matches!(error, FileError::Moved(_)), "{error}");
    assert_eq!(fs_err::read(&path).unwrap(), b"old");
}

#[test]
fn a_folder_on_the_way_that_became_a_link_is_refused() {
    let (_dir, base) = folder();
    fs_err::create_dir(base.join("sub")).unwrap();
    fs_err::create_dir(base.join("outside")).unwrap();
    let (file, new) = (base.join("sub/file"), base.join("sub/deep/new"));
    fs_err::write(&file, "old").unwrap();
    let before = stamp(&file);
    let place = anchor(&new).unwrap();
    fs_err::rename(base.join("sub"), base.join("moved")).unwrap();
    symlink("moved", base.join("sub")).unwrap();
    let error = replace(&file, &before, b"new").unwrap_err();
    assert!(matches!(error, FileError::Moved(_)), "{error}");
    let error = create(&new, &place, b"new").unwrap_err();
    assert!(matches!(error, FileError::Moved(_)), "{error}");
    assert_eq!(names(&base.join("moved")), ["file"]);
    assert_eq!(fs_err::read(base.join("moved/file")).unwrap(), b"old");
}

#[test]
fn a_name_that_the_file_got_since_is_not_written_through() {
    let (_dir, base) = folder();
    let path = base.join("file");
    fs_err::write(&path, "old").unwrap();
    let before = stamp(&path);
    assert_eq!(before.links, 1);
    fs_err::hard_link(&path, base.join("other")).unwrap();
    let error = replace(&path, &before, b"new").unwrap_err();
    assert!(matches!(error, FileError::Linked(_)), "{error}");
    assert_eq!(fs_err::read(base.join("other")).unwrap(), b"old");
}

#[test]
fn a_write_protected_file_stays() {
    let (_dir, base) = folder();
    let path = base.join("file");
    fs_err::write(&path, "old").unwrap();
    let before = stamp(&path);
    set_mode(&path, 0o444);
    let error = replace(&path, &before, b"new").unwrap_err();
    assert!(matches!(error, FileError::WriteProtected { mode: 0o444, .. }), "{error}");
    assert_eq!(fs_err::read(&path).unwrap(), b"old");
}

#[test]
fn creating_makes_folders_and_never_replaces() {
    let (_dir, base) = folder();
    let path = base.join("a/b/file");
    let place = anchor(&path).unwrap();
    create(&path, &place, b"one").unwrap();
    assert_eq!(fs_err::read(&path).unwrap(), b"one");
    assert_eq!(names(&base.join("a/b")), ["file"]);
    assert!(matches!(anchor(&path), Err(FileError::Exists(_))));
    let error = create(&path, &place, b"two").unwrap_err();
    assert!(matches!(error, FileError::Exists(_)), "{error}");
    assert_eq!(fs_err::read(&path).unwrap(), b"one");
    assert_eq!(names(&base.join("a/b")), ["file"]);
}

#[test]
fn a_name_of_the_longest_length_can_be_replaced() {
    let (_dir, base) = folder();
    let path = base.join("n".repeat(255));
    fs_err::write(&path, "old").unwrap();
    let before = stamp(&path);
    replace(&path, &before, b"new").unwrap();
    assert_eq!(fs_err::read(&path).unwrap(), b"new");
}

/// A power cut after a step must find what the steps before it have made durable.
#[test]
fn content_is_durable_before_its_name_and_the_name_before_the_answer() {
    let (_dir, base) = folder();
    let path = base.join("new/file");
    let place = anchor(&path).unwrap();
    steps::taken();
    create(&path, &place, b"old").unwrap();
    assert_eq!(steps::taken(), ["sync folder", "sync file", "publish", "sync folder"]);
    let before = stamp(&path);
    replace(&path, &before, b"new").unwrap();
    assert_eq!(steps::taken(), ["sync file", "check", "publish", "sync folder"]);
}

/// Somebody saves the file in the moment between the last look at it and the exchange, in the two
/// ways in which editors save.
#[test]
fn what_an_editor_saves_at_the_last_moment_is_not_lost() {
    for by_rename in [true, false] {
        let (_dir, base) = folder();
        let (path, aside) = (base.join("file"), base.join("aside"));
        fs_err::write(&path, "old").unwrap();
        let before = stamp(&path);
        let theirs = path.clone();
        steps::at("check", move || {
            let at = if by_rename { &aside } else { &theirs };
            fs_err::write(at, "theirs").unwrap();
            fs_err::rename(at, &theirs).unwrap();
        });
        let error = replace(&path, &before, b"new").unwrap_err();
        assert!(matches!(error, FileError::Moved(_) | FileError::Stale(_)), "{error}");
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "theirs");
        assert_eq!(names(&base), ["file"]);
    }
}
