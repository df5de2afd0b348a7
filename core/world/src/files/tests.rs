//! The whole service on real disks: what a change leaves as it was, and the ways out of the roots;
//! as the user who runs the tests and, where that is root, as a plain one, too.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Gid, Mode, Uid, XattrFlags, chown, mknodat};

use super::*;
use crate::{Placement, Roots};

const LIMIT: u64 = 1 << 20;
const NOBODY: u32 = 65_534;

/// Runs a body in an empty folder of its own. A thread of root's can become somebody else alone.
fn as_each_user(body: impl Fn(&Path) + Sync) {
    let run = |uid: Option<u32>| {
        let dir = tempfile::tempdir().unwrap();
        let base = fs_err::canonicalize(dir.path()).unwrap();
        let body = &body;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                if let Some(uid) = uid {
                    chown(&base, Some(Uid::from_raw(uid)), Some(Gid::from_raw(uid))).unwrap();
                    let (gid, uid) = (Gid::from_raw(uid), Uid::from_raw(uid));
                    rustix::thread::set_thread_groups(&[]).unwrap();
                    rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
                    rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
                }
                body(&base);
            });
        });
    };
    run(None);
    if is_root() {
        run(Some(NOBODY));
    } else {
        println!("SKIP files-as-root: these tests do not run as root");
    }
}

fn is_root() -> bool {
    // The kernel answers for this thread.
    rustix::process::geteuid().is_root()
}

/// Everything about a file but its content and its place on the disk.
fn attributes(path: &Path) -> (u32, u32, u32, u64, Vec<u8>) {
    let metadata = fs_err::metadata(path).unwrap();
    let mut value = vec![0; 64];
    let len = rustix::fs::getxattr(path, "user.note", &mut value[..]).unwrap_or(0);
    value.truncate(len);
    (metadata.mode(), metadata.uid(), metadata.gid(), metadata.nlink(), value)
}

#[test]
fn the_publish_matrix() {
    as_each_user(|base| {
        let mut cases = 0;
        for mode in [0o644, 0o600, 0o755, 0o640, 0o4755, 0o2770, 0o200] {
            for folder_mode in [0o755, 0o555] {
                for twin in [false, true] {
                    for (name, by_link) in [(&b"f"[..], false), (b"f", true), (b"\xff\xfe", false)]
                    {
                        if mode == 0o200 && !is_root() {
                            continue; // Nobody but root reads it.
                        }
                        let folder = base.join(format!("case{cases}"));
                        fs_err::create_dir(&folder).unwrap();
                        let path = folder.join(OsStr::from_bytes(name));
                        publish(base, &folder, &path, (mode, folder_mode), twin, by_link);
                        cases += 1;
                    }
                }
            }
        }
        println!("{cases} cases, root: {}", is_root());
    });
}

fn publish(
    base: &Path,
    folder: &Path,
    path: &Path,
    (mode, folder_mode): (u32, u32),
    twin: bool,
    by_link: bool,
) {
    let set = |path: &Path, mode| {
        fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    fs_err::write(path, "old content\r\n").unwrap();
    let noted = rustix::fs::setxattr(path, "user.note", b"v", XattrFlags::empty());
    if is_root() {
        chown(path, Some(Uid::from_raw(1234)), Some(Gid::from_raw(567))).unwrap();
    }
    set(path, mode);
    if twin {
        fs_err::hard_link(path, folder.join("twin")).unwrap();
    }
    let link = base.join("link");
    symlink(path, &link).unwrap();
    set(folder, folder_mode);
    let before = (attributes(path), names(folder));
    assert_eq!(before.0.4.is_empty(), noted.is_err());
    let roots = Roots::new(base.to_owned(), Vec::new());
    let reached = if by_link { link.clone() } else { path.to_owned() };
    let text = crate::path_text(&reached);
    let Placement::Inside(target) = roots.resolve(&text).unwrap() else { panic!("{text}") };
    for content in ["", "short", &"long ".repeat(30_000)] {
        let snapshot = LocalFiles.read_for_change(&target, LIMIT).unwrap();
        LocalFiles.write(&target, &snapshot.version, content.as_bytes()).unwrap();
        let case =
            format!("mode {mode:o}, folder {folder_mode:o}, twin {twin}, root {}", is_root());
        assert_eq!(fs_err::read_to_string(path).unwrap_or_else(|_| content.into()), content);
        // A set-id bit goes with a write in place by a plain user, as the kernel has it.
        let kept = (attributes(path), names(folder));
        let in_place = twin || folder_mode == 0o555;
        if is_root() || !in_place || mode & 0o6000 == 0 {
            assert_eq!(kept, before, "{case}");
        }
        assert!(fs_err::symlink_metadata(&link).unwrap().is_symlink(), "{case}");
    }
    set(folder, 0o755);
    fs_err::remove_file(link).unwrap();
}

fn names(folder: &Path) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> =
        fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

/// Every way out, with every operation: the roots say that it is outside, and what becomes a way
/// out only after they were asked leads nowhere.
#[test]
fn the_path_escape_matrix() {
    as_each_user(|base| {
        for folder in ["ws/sub", "ws-evil", "outside"] {
            fs_err::create_dir_all(base.join(folder)).unwrap();
        }
        for file in ["ws/sub/f", "ws/f", "ws-evil/f", "outside/f"] {
            fs_err::write(base.join(file), "content").unwrap();
        }
        let (ws, outside) = (base.join("ws"), base.join("outside"));
        symlink("../outside", ws.join("relative")).unwrap();
        symlink(&outside, ws.join("absolute")).unwrap();
        symlink("absolute", ws.join("chained")).unwrap();
        symlink(outside.join("f"), ws.join("file")).unwrap();
        symlink("../outside/new", ws.join("dangling")).unwrap();
        symlink(format!("/proc/self/root{}", outside.display()), ws.join("proc")).unwrap();
        symlink("..", ws.join("sub/up")).unwrap();
        let roots = Roots::new(ws.clone(), Vec::new());
        for text in [
            "../outside/f",
            "../ws-evil/f",
            "sub/../../outside/f",
            "relative/f",
            "absolute/f",
            "chained/f",
            "file",
            "dangling",
            "proc/f",
            "sub/up/../outside/f",
            "relative/../ws-evil/f",
            "/proc/self/root/etc/passwd",
            "/etc/passwd",
            "absolute/new/deep",
        ] {
            match roots.resolve(text) {
                Ok(Placement::Outside(_)) | Err(_) => {}
                Ok(Placement::Inside(path)) => panic!("{text} is taken for {}", path.display()),
            }
        }
        let target = ws.join("sub/f");
        let new = ws.join("sub/new");
        let snapshot = LocalFiles.read_for_change(&target, LIMIT).unwrap();
        let place = LocalFiles.anchor(&new).unwrap();
        fs_err::rename(ws.join("sub"), base.join("moved")).unwrap();
        symlink(&outside, ws.join("sub")).unwrap();
        let window = LineWindow {
            first: 1,
            last: None,
            limits: LineLimits { lines: 1, bytes: 100, line_bytes: 100 },
        };
        let version = &snapshot.version;
        let results = [
            LocalFiles.read(&target, LIMIT).map(drop),
            LocalFiles.read_lines(&target, &window, &|| false).map(drop),
            LocalFiles.read_for_change(&target, LIMIT).map(drop),
            LocalFiles.list(&ws.join("sub"), 10).map(drop),
            LocalFiles.anchor(&ws.join("sub/other")).map(drop),
            LocalFiles.write(&target, version, b"x"),
            LocalFiles.write(&new, &place, b"x"),
            LocalFiles.remove(&target, version),
            LocalFiles.rename(&target, version, &ws.join("sub/new"), &place),
        ];
        for (index, result) in results.iter().enumerate() {
            assert!(result.is_err(), "operation {index} went through the link");
        }
        assert_eq!(names(&outside), ["f"]);
        assert_eq!(fs_err::read_to_string(outside.join("f")).unwrap(), "content");
    });
}

/// One thread flips a folder between itself and a link to the outside; whatever the changes of the
/// other come to, they come to nothing outside.
#[test]
fn a_racing_link_leads_no_change_outside() {
    use std::sync::atomic::{AtomicBool, Ordering};

    const ROUNDS: usize = 150;
    let dir = tempfile::tempdir().unwrap();
    let base = fs_err::canonicalize(dir.path()).unwrap();
    for folder in ["at", "outside"] {
        fs_err::create_dir(base.join(folder)).unwrap();
        fs_err::write(base.join(folder).join("f"), "content").unwrap();
    }
    let (at, link) = (base.join("at"), base.join("link"));
    symlink("outside", &link).unwrap();
    let outside = || fs_err::metadata(base.join("outside/f")).unwrap().ino();
    let before = outside();
    let stop = AtomicBool::new(false);
    let change = |round: usize| -> Result<(), FileError> {
        let (file, new) = (at.join("f"), at.join(format!("n{round}")));
        let place = LocalFiles.anchor(&new)?;
        LocalFiles.write(&new, &place, b"new")?;
        let snapshot = LocalFiles.read_for_change(&file, LIMIT)?;
        LocalFiles.write(&file, &snapshot.version, b"content")?;
        let snapshot = LocalFiles.read_for_change(&new, LIMIT)?;
        LocalFiles.remove(&new, &snapshot.version)
    };
    let mut whole = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(CWD, &at, CWD, &link, exchange).unwrap();
            }
        });
        whole = (0..ROUNDS).filter(|round| change(*round).is_ok()).count();
        stop.store(true, Ordering::Relaxed);
    });
    println!("{whole} of {ROUNDS} rounds were not disturbed");
    assert_eq!(names(&base.join("outside")), ["f"]);
    assert_eq!(outside(), before, "it was replaced");
}

/// What is no regular file is refused at once; nothing waits for a writer or an end.
#[test]
fn special_files_and_huge_folders() {
    let dir = tempfile::tempdir().unwrap();
    let base = fs_err::canonicalize(dir.path()).unwrap();
    mknodat(CWD, base.join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(base.join("socket")).unwrap();
    symlink("loop", base.join("loop")).unwrap();
    symlink("/dev/zero", base.join("zero")).unwrap();
    let special: [PathBuf; 3] = [base.join("fifo"), base.join("socket"), "/dev/zero".into()];
    for path in special {
        for result in [
            LocalFiles.read(&path, LIMIT).map(drop),
            LocalFiles.read_for_change(&path, LIMIT).map(drop),
        ] {
            assert!(matches!(result, Err(FileError::Special { .. })), "{result:?}");
        }
        assert!(matches!(LocalFiles.anchor(&path), Err(FileError::Exists(_))));
    }
    let roots = Roots::new(base, Vec::new());
    assert!(roots.resolve("loop").is_err());
    assert_eq!(roots.resolve("zero").unwrap(), Placement::Outside("/dev/zero".into()));

    const FILES: usize = 100_000;
    // In memory, where there is such a place: so many names take a disk half a minute.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let many = fs_err::canonicalize(dir.path()).unwrap();
    let first = many.join("f0");
    fs_err::write(&first, "x").unwrap();
    for n in 1..=FILES {
        fs_err::hard_link(&first, many.join(format!("f{n}"))).unwrap_or_else(|_| {
            // Some file systems have few names for one file.
            fs_err::write(many.join(format!("f{n}")), "x").unwrap();
        });
    }
    let listing = LocalFiles.list(&many, 10).unwrap();
    assert_eq!((listing.entries.len(), listing.total, listing.more), (10, FILES, true));
}
