//! What a command sees of the machine's files: the same tree, in which all is read-only but what
//! its policy lets it change, and in which sockets of the host, other people's temporary files and
//! keys are not.
//!
//! Made once, in mounts of its own, before the command exists. Paths are opened without following
//! links and then used through their descriptors, so that nobody can swap what lies at a path
//! between the look and the mount.

use std::collections::HashSet;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MoveMountFlags, OpenTreeFlags, mount, move_mount, open_tree};

use super::attributes::{Attributes, set_attributes};
use super::policy::{Access, Policy};
use crate::plant::Plant;

/// How much of memory the files of one command's own `/dev/shm`, or `/tmp` if the session has no
/// folder for it, may take.
const MEMORY_LIMIT: &CStr = c"mode=1777,size=25%";

/// A terminal device of its own for each that is opened.
const TERMINALS: &CStr = c"newinstance,ptmxmode=0666,mode=0620";

/// Where sockets of the host are. Emptied, except for what is [`KEPT_OF_RUN`].
const RUN: [&str; 2] = ["/run", "/var/run"];

/// What programs need of `/run` to be found, and to find out where names are asked for.
const KEPT_OF_RUN: [&str; 5] = [
    "/run/current-system",
    "/run/booted-system",
    "/run/opengl-driver",
    "/run/systemd/resolve/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
];

/// Where everybody's temporary files are.
const TEMPORARY: [&str; 2] = ["/tmp", "/var/tmp"];

/// What is put at a path.
enum Cover {
    /// A tree that was picked up before.
    Tree(OwnedFd),
    /// A new folder in memory that may be written to.
    Memory,
    /// A new folder in which nothing can be.
    Empty,
}

/// Makes the view of `policy` for this process, which must have mounts of its own.
pub(super) fn make(policy: &Policy, own_processes: bool) -> io::Result<()> {
    let covers = pick_up(policy)?;
    let everything = Attributes { read_only: true, private: true, below: true };
    set_attributes(CWD, c"/", everything).map_err(named("making the machine read-only"))?;
    if own_processes {
        let flags =
            MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("proc", "/proc", "proc", flags, None).map_err(named("showing own processes only"))?;
    }
    terminals()?;
    let mut emptied = Vec::new();
    for (path, cover) in covers {
        let empty = matches!(cover, Cover::Empty);
        put(&path, cover).map_err(|error| named(&crate::path_text(&path))(error))?;
        emptied.extend(empty.then_some(path));
    }
    // Only now, because places for roots and kept files had to be made in them.
    for path in &emptied {
        let place = look(path)?;
        let alone = Attributes { read_only: true, private: false, below: false };
        set_attributes(place.as_fd(), c"", alone).map_err(named("emptying a folder"))?;
    }
    if policy.access == Access::WorkspaceWrite && !Plant::NoPins.is_in() {
        let mut pins = HashSet::new();
        for path in &policy.masked {
            let way = path.parent().unwrap_or(path);
            hold(policy, way, &mut pins).map_err(|error| named(&crate::path_text(path))(error))?;
        }
        let protected = &policy.protected;
        for path in &protected.kept {
            hold(policy, path, &mut pins).map_err(|error| named(&crate::path_text(path))(error))?;
        }
        for path in protected.present.iter().chain(&protected.absent) {
            pin(policy, path, &mut pins).map_err(|error| named(&crate::path_text(path))(error))?;
        }
    }
    Ok(())
}

/// Picks up what is to be shown as it is now, and lists what comes where, outer folders first.
fn pick_up(policy: &Policy) -> io::Result<Vec<(PathBuf, Cover)>> {
    let mut covers = Vec::new();
    for path in TEMPORARY.map(Path::new).into_iter().filter(|path| is_folder(path)) {
        let cover = match &policy.temporary {
            Some(folder) => Cover::Tree(tree(folder).map_err(named("the temporary folder"))?),
            None => Cover::Memory,
        };
        covers.push((path.to_owned(), cover));
    }
    covers.extend(
        RUN.map(PathBuf::from)
            .into_iter()
            .filter(|path| is_folder(path))
            .map(|path| (path, Cover::Empty)),
    );
    for path in KEPT_OF_RUN.map(Path::new) {
        covers.extend(tree(path).ok().map(|tree| (path.to_owned(), Cover::Tree(tree))));
    }
    if is_folder(Path::new("/dev/shm")) {
        covers.push(("/dev/shm".into(), Cover::Memory));
    }
    for path in &policy.masked {
        covers.extend(mask(path)?.map(|cover| (path.clone(), cover)));
    }
    for path in &policy.roots {
        let tree = tree(path).map_err(|error| named(&crate::path_text(path))(error))?;
        if policy.access == Access::ReadOnly {
            read_only(&tree)?;
        }
        covers.push((path.clone(), Cover::Tree(tree)));
    }
    if policy.access == Access::WorkspaceWrite {
        for path in &policy.writable {
            covers.extend(found(tree(path))?.map(|tree| (path.clone(), Cover::Tree(tree))));
        }
    }
    covers.sort_by_key(|(path, _)| path.components().count());
    Ok(covers)
}

/// What hides a path; nothing when there is nothing to hide.
fn mask(path: &Path) -> io::Result<Option<Cover>> {
    Ok(match fs_err::symlink_metadata(path) {
        Ok(kind) if kind.is_dir() => Some(Cover::Empty),
        Ok(kind) if kind.is_file() => {
            let nothing = tree(Path::new("/dev/null"))?;
            read_only(&nothing)?;
            Some(Cover::Tree(nothing))
        }
        _ => None,
    })
}

/// A new instance of terminals, so that those of the user are out of reach.
fn terminals() -> io::Result<()> {
    if !is_folder(Path::new("/dev/pts")) {
        return Ok(());
    }
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("devpts", "/dev/pts", "devpts", flags, Some(TERMINALS))
        .map_err(named("own terminals"))?;
    if fs_err::symlink_metadata("/dev/ptmx").is_ok_and(|it| !it.is_symlink()) {
        attach(&tree(Path::new("/dev/pts/ptmx"))?, &look(Path::new("/dev/ptmx"))?)?;
    }
    Ok(())
}

/// Puts a cover at a path. In a folder that was just hidden, the path is made first.
fn put(path: &Path, cover: Cover) -> io::Result<()> {
    let place = match look(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            match &cover {
                Cover::Tree(tree) if !is_folder_at(tree)? => {
                    path.parent().map_or(Ok(()), fs_err::create_dir_all)?;
                    drop(fs_err::File::create(path)?);
                }
                _ => fs_err::create_dir_all(path)?,
            }
            look(path)?
        }
        place => place?,
    };
    match cover {
        Cover::Tree(tree) => attach(&tree, &place),
        Cover::Memory | Cover::Empty => {
            let flags = MountFlags::NOSUID | MountFlags::NODEV;
            Ok(mount("tmpfs", path, "tmpfs", flags, Some(MEMORY_LIMIT))?)
        }
    }
}

/// Makes a path read-only, and every folder on the way to it impossible to move.
fn pin(policy: &Policy, path: &Path, pins: &mut HashSet<PathBuf>) -> io::Result<()> {
    let Some(way) = path.parent() else { return Ok(()) };
    if !hold(policy, way, pins)? {
        return Ok(());
    }
    let Some(place) = there(look(path))? else { return Ok(()) };
    let tree = tree_at(&place)?;
    read_only(&tree)?;
    attach(&tree, &place)
}

/// Makes a folder and every one on the way to it impossible to move: otherwise it could be moved
/// away, and another one put in its place. False when it is not there, or cannot be written.
fn hold(policy: &Policy, folder: &Path, pins: &mut HashSet<PathBuf>) -> io::Result<bool> {
    let writable = policy.roots.iter().chain(&policy.writable);
    // The innermost one is where the path is writable at all.
    let roots = writable.filter(|root| folder.starts_with(root));
    let Some(root) = roots.max_by_key(|root| root.components().count()) else {
        return Ok(false);
    };
    let mut between: Vec<&Path> = folder.ancestors().take_while(|it| it != root).collect();
    between.reverse();
    for folder in between {
        if pins.insert(folder.to_owned()) {
            let Some(place) = there(look(folder))? else { return Ok(false) };
            attach(&tree_at(&place)?, &place)?;
        }
    }
    Ok(true)
}

/// Opens a path just to name it, without following a link anywhere in it.
fn look(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat2(
        CWD,
        path,
        flags,
        Mode::empty(),
        ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS,
    )
    .or_else(|error| match error {
        // A link may be the last part, then it is named itself.
        Errno::LOOP => last_link(path),
        error => Err(error),
    })?)
}

/// Opens a link itself, whose folder has no link on its way.
fn last_link(path: &Path) -> rustix::io::Result<OwnedFd> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::LOOP);
    };
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let no_links = ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    let folder = openat2(CWD, folder, flags | OFlags::DIRECTORY, Mode::empty(), no_links)?;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

fn tree(path: &Path) -> io::Result<OwnedFd> {
    tree_at(&look(path)?)
}

/// The tree below an open place with the mounts in it, to be put somewhere.
fn tree_at(place: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(place, c"", flags)?)
}

fn attach(tree: &OwnedFd, place: &OwnedFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree, c"", place, c"", flags)?)
}

fn read_only(tree: &OwnedFd) -> io::Result<()> {
    set_attributes(tree.as_fd(), c"", Attributes { read_only: true, private: false, below: true })
}

fn is_folder(path: &Path) -> bool {
    fs_err::symlink_metadata(path).is_ok_and(|it| it.is_dir())
}

fn is_folder_at(place: &OwnedFd) -> io::Result<bool> {
    Ok(rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(place)?.st_mode).is_dir())
}

/// What does not exist cannot be held; whatever may not be looked at might be opened again.
fn there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        result => found(result),
    }
}

/// What does not exist, or may not even be looked at, needs no cover.
fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::PermissionDenied => Ok(None),
            _ => Err(error),
        },
    }
}

/// Says what was being done when an error came.
fn named<E: Into<io::Error>>(what: &str) -> impl FnOnce(E) -> io::Error {
    move |error| {
        let error = error.into();
        io::Error::new(error.kind(), format!("{what}: {error}"))
    }
}
