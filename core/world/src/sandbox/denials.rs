//! Tells what a policy refuses a command, from the calls that the listener hears of.
//!
//! A path is read from the memory of whoever asks, and judged by asking the kernel whether it could
//! be changed there. That is only for telling: the caller may change its memory afterwards, and what
//! then happens is decided by mounts and Landlock. The one decision made here is that names which
//! other programs obey are not created, which holds for programs that do not fight it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use libc::seccomp_notif;
use rustix::fs::{
    Access as Ask, AtFlags, CWD, FileType, Mode, OFlags, StatxAttributes, StatxFlags,
};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use super::confine::Confinement;
use super::filter::{Change, PathArgument, REACHES, ToldBy};
use super::listener::{Answer, Listener};
use super::memory::{copy, text};
use super::network;
use super::placeholders::is_empty_folder;
use super::policy::{Access, Denial, MAX_DENIALS};
use super::protected::matters;
use super::reach::addresses_of;
use super::ways::Ways;
use crate::protected_names::protected_name;

/// Listens for one command.
pub(crate) struct Watcher<'a, Tell> {
    confinement: &'a Confinement,
    /// Folders that the command may still make, although they stand.
    ways: Option<Ways>,
    told: Vec<Denial>,
    tell: Tell,
}

impl<'a, Tell: FnMut(&Denial)> Watcher<'a, Tell> {
    /// Tells each thing that is refused once, before the call that it is refused to ends.
    pub(crate) fn new(confinement: &'a Confinement, ways: Option<Ways>, tell: Tell) -> Self {
        Self { confinement, ways, told: Vec::new(), tell }
    }

    /// Answers until the command and all it started are gone.
    pub(crate) fn serve(mut self, listener: &Listener) {
        listener.serve(|listener, call| self.judge(listener, call));
    }

    fn judge(&mut self, listener: &Listener, call: &seccomp_notif) -> Answer {
        if i64::from(call.data.nr) == libc::SYS_socket {
            self.tell(Denial::Network(None));
            return Answer::Refuse(Errno::PERM);
        }
        if let Some(reach) = REACHES.iter().find(|it| it.number == i64::from(call.data.nr)) {
            let mut addresses = addresses_of(call, reach.by);
            // Where it leads is not decided here: the command's network has no way out.
            addresses.retain(|address| {
                !self.told.contains(&Denial::Network(Some(*address)))
                    && network::leads_out(*address)
            });
            if !addresses.is_empty() && listener.is_waiting(call) {
                let denials = addresses.into_iter().map(|address| Denial::Network(Some(address)));
                denials.for_each(|denial| self.tell(denial));
            }
            return Answer::GoOn;
        }
        let Some(change) = Change::by(i64::from(call.data.nr)) else { return Answer::GoOn };
        // Landlock knows nothing of what is noted of a file.
        if change.is_of_metadata() && self.confinement.namespaces().is_none() {
            return Answer::GoOn;
        }
        // What is not there cannot be moved, wherever it was to go.
        if let [from, _] = change.paths
            && path_of(call, *from).is_ok_and(|from| !exists(&from))
        {
            return Answer::GoOn;
        }
        let removes_folder = removes_folder(call);
        for argument in change.paths {
            let path = match path_of(call, *argument) {
                Ok(path) if listener.is_waiting(call) => path,
                // What it would be called there cannot be told.
                Err(Errno::NAMETOOLONG) if creates(change, call, *argument) => {
                    return Answer::Refuse(Errno::NAMETOOLONG);
                }
                Ok(_) | Err(_) => continue,
            };
            let creates = creates(change, call, *argument);
            if creates && let Some(ways) = self.ways.as_mut().filter(|it| it.has(&path)) {
                if let Some(mode) = mode_of_new_folder(call) {
                    let given = ways.give(&path, mode);
                    return if given.is_ok() { Answer::Pretend } else { Answer::GoOn };
                }
                self.tell(Denial::Path(path));
                return Answer::Refuse(Errno::ROFS);
            }
            if creates && self.is_kept_name(&path) {
                self.tell(Denial::Path(path));
                return Answer::Refuse(Errno::ROFS);
            }
            if removes_folder && self.passes_for_own(&path) {
                return Answer::Pretend;
            }
            let in_vain = match needs(change, *argument) {
                _ if change.is_of_metadata() && path.starts_with(PROC) => true,
                _ if removes_folder => !is_empty_folder(&path),
                Needs::Something => !exists(&path),
                Needs::Nothing => exists(&path),
                Needs::Either => false,
            };
            if !in_vain && self.refuses(&path, *argument) {
                self.tell(Denial::Path(as_called_by(call.pid, path)));
            }
        }
        Answer::GoOn
    }

    fn tell(&mut self, denial: Denial) {
        if self.told.len() < MAX_DENIALS && !self.told.contains(&denial) {
            (self.tell)(&denial);
            self.told.push(denial);
        }
    }

    /// Whether a path would get a protected name, or lie below one: where nothing is, or a placeholder.
    /// Of the latter a program would hear that what it wants to make is there, and it would be gone after.
    fn is_kept_name(&self, path: &Path) -> bool {
        let policy = &self.confinement.policy;
        if policy.access == Access::ReadOnly {
            return false;
        }
        if exists(path) {
            return self.is_placeholder(path);
        }
        if policy.protected.watched.iter().any(|it| it == path) {
            return true;
        }
        let Some(below) = policy.roots.iter().find_map(|root| path.strip_prefix(root).ok()) else {
            return false;
        };
        let mut folder = PathBuf::new();
        for part in below.components() {
            let is_protected = protected_name(&folder, part.as_os_str()).is_some();
            folder.push(part);
            if is_protected && matters(&folder) {
                // What git itself writes below is judged by mounts; the folder must exist for it.
                return part.as_os_str() != ".git" || below.file_name() == Some(OsStr::new(".git"));
            }
        }
        false
    }

    /// Whether a folder only keeps its name from being taken.
    fn is_placeholder(&self, path: &Path) -> bool {
        self.confinement.has_placeholders()
            && self.confinement.policy.protected.absent.iter().any(|it| it == path)
            && is_empty_folder(path)
    }

    /// Whether programs that clean up take a placeholder for one of their own folders: it is directly in a
    /// root.
    fn passes_for_own(&self, path: &Path) -> bool {
        let mut roots = self.confinement.policy.roots.iter();
        roots.any(|root| path.parent() == Some(root)) && self.is_placeholder(path)
    }

    /// Whether the policy, and not what the file system says anyway, is in the way of a change.
    fn refuses(&self, path: &Path, argument: PathArgument) -> bool {
        let own = if argument.name_itself { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() };
        if path.starts_with(PROC) {
            return !argument.name_itself && refuses_setting(path);
        }
        if argument.name_itself && is_pinned(path) {
            return true;
        }
        // What is named itself, or does not exist, is a matter of its folder.
        let place = match rustix::fs::statx(CWD, path, own, StatxFlags::TYPE) {
            Ok(_) if !argument.name_itself => path,
            Ok(_) | Err(Errno::NOENT) => path.parent().unwrap_or(path),
            Err(_) => return false,
        };
        match rustix::fs::accessat(CWD, place, Ask::WRITE_OK, AtFlags::EACCESS) {
            Err(Errno::ROFS) => true,
            Ok(()) => !self.lies_in_writable(place),
            Err(_) => false,
        }
    }

    /// Whether Landlock lets a place be changed.
    fn lies_in_writable(&self, place: &Path) -> bool {
        let Ok(place) = real(place) else { return true };
        self.confinement.writable().any(|folder| place.starts_with(folder))
            || place.starts_with("/dev")
            || place.starts_with(PROC)
    }
}

/// Where the kernel shows its settings and those of processes.
const PROC: &str = "/proc";

/// Whether the policy, and not the kernel in any case, is in the way of changing a setting of the kernel or
/// of a process: mounts and Landlock let none be changed. What a process has open is reached there, too,
/// and is no setting.
fn refuses_setting(path: &Path) -> bool {
    let below = path.strip_prefix(PROC).unwrap_or(path);
    if !below.starts_with("sys") && below.components().count() > 2 {
        return false;
    }
    let all = StatxFlags::BASIC_STATS;
    let Ok(found) = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, all) else {
        return false;
    };
    // The kernel would say first that all of it is mounted read-only, whoever asks.
    let writable = match (found.stx_uid, found.stx_gid) {
        (user, _) if user == geteuid().as_raw() => Mode::WUSR,
        (_, group) if group == getegid().as_raw() => Mode::WGRP,
        _ => Mode::WOTH,
    };
    let mode = found.stx_mode.into();
    FileType::from_raw_mode(mode).is_file() && Mode::from_raw_mode(mode).contains(writable)
}

/// The names below [`PROC`] of whoever asks.
const ITSELF: [&str; 2] = ["/proc/self", "/proc/thread-self"];

/// A path that begins with one of [`ITSELF`], which is another one here.
fn of_process(pid: u32, path: &Path) -> Option<PathBuf> {
    let below = ITSELF.iter().find_map(|own| path.strip_prefix(own).ok())?;
    Some(Path::new(PROC).join(pid.to_string()).join(below))
}

/// A path as whoever asks calls it.
fn as_called_by(pid: u32, path: PathBuf) -> PathBuf {
    match path.strip_prefix(Path::new(PROC).join(pid.to_string())) {
        Ok(below) => Path::new("/proc/self").join(below),
        Err(_) => path,
    }
}

/// What a call needs to be at one of its paths; without it, it fails in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    Something,
    Nothing,
    Either,
}

fn needs(change: &Change, argument: PathArgument) -> Needs {
    /// The calls that only make something new.
    const MAKING: &[i64] = &[
        libc::SYS_mkdirat,
        libc::SYS_mknodat,
        libc::SYS_linkat,
        libc::SYS_symlinkat,
        libc::SYS_bind,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mkdir,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mknod,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_link,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_symlink,
    ];
    #[cfg(target_arch = "x86_64")]
    if change.number == libc::SYS_creat {
        return Needs::Either;
    }
    // An open may make a file; the second path of a rename may be there or not.
    if change.flags.is_some() || change.paths.get(1) == Some(&argument) {
        return Needs::Either;
    }
    if MAKING.contains(&change.number) { Needs::Nothing } else { Needs::Something }
}

/// Whether a call removes a folder, which fails in any case when something is in it.
fn removes_folder(call: &seccomp_notif) -> bool {
    #[cfg(target_arch = "x86_64")]
    if i64::from(call.data.nr) == libc::SYS_rmdir {
        return true;
    }
    let [_, _, flags, ..] = call.data.args;
    i64::from(call.data.nr) == libc::SYS_unlinkat && flags as i32 & libc::AT_REMOVEDIR != 0
}

/// The mode of the folder that a call makes; none when it makes something else.
fn mode_of_new_folder(call: &seccomp_notif) -> Option<Mode> {
    let [_, second, third, ..] = call.data.args;
    let asked = match i64::from(call.data.nr) {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mkdir => second,
        libc::SYS_mkdirat => third,
        _ => return None,
    };
    let status = fs_err::read_to_string(format!("{PROC}/{}/status", call.pid)).ok()?;
    let masked = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    let masked = Mode::from_raw_mode(u32::from_str_radix(masked.trim(), 8).ok()?);
    let kept = Mode::RWXU | Mode::RWXG | Mode::RWXO | Mode::SVTX;
    Some(Mode::from_raw_mode(asked as u32) & (kept - masked))
}

/// Whether a call may make a name that was not there.
fn creates(change: &Change, call: &seccomp_notif, argument: PathArgument) -> bool {
    let flags = change.flags.and_then(|place| call.data.args.get(place as usize));
    match flags {
        Some(flags) => *flags as u32 & libc::O_CREAT as u32 != 0,
        None => needs(change, argument) != Needs::Something,
    }
}

/// The place that an argument means: absolute, with its folder resolved and its last part as it is.
fn path_of(call: &seccomp_notif, argument: PathArgument) -> Result<PathBuf, Errno> {
    let value = *call.data.args.get(argument.path).ok_or(Errno::INVAL)?;
    let told = match argument.told_by {
        ToldBy::Text => text(call.pid, value).ok_or(Errno::FAULT)?,
        ToldBy::Descriptor => {
            let path = link(&format!("/proc/{}/fd/{}", call.pid, value as i32))?;
            // What has no place in the file system is called otherwise.
            return if path.is_absolute() { Ok(path) } else { Err(Errno::BADF) };
        }
        ToldBy::Address => socket_path(call, argument).ok_or(Errno::INVAL)?,
    };
    let mut path = PathBuf::from(told);
    if path.is_relative() {
        let folder = match argument.folder.and_then(|place| call.data.args.get(place)) {
            Some(number) if *number as i32 != libc::AT_FDCWD => {
                format!("/proc/{}/fd/{}", call.pid, *number as i32)
            }
            _ => format!("/proc/{}/cwd", call.pid),
        };
        path = link(&folder)?.join(path);
    }
    if let Some(path) = of_process(call.pid, &path) {
        return Ok(path);
    }
    let Some(name) = path.file_name() else { return real(&path) };
    match path.parent().map(real) {
        Some(Ok(folder)) => Ok(folder.join(name)),
        Some(Err(Errno::NAMETOOLONG)) => Err(Errno::NAMETOOLONG),
        _ => Ok(path),
    }
}

/// Where a socket of this machine is to be, unless that is no place in the file system.
fn socket_path(call: &seccomp_notif, argument: PathArgument) -> Option<OsString> {
    let address = *call.data.args.get(argument.path)?;
    let length = usize::try_from(*call.data.args.get(argument.path + 1)?).ok()?;
    let mut structure = [0; size_of::<libc::sockaddr_un>()];
    let length = length.min(structure.len());
    let count = copy(call.pid, address, structure.get_mut(..length)?)?;
    let (family, path) = structure.get(..count)?.split_first_chunk()?;
    let path = path.split(|byte| *byte == 0).next().filter(|path| !path.is_empty())?;
    let is_local = i32::from(u16::from_ne_bytes(*family)) == libc::AF_UNIX;
    is_local.then(|| OsString::from_vec(path.to_vec()))
}

fn exists(path: &Path) -> bool {
    rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE).is_ok()
}

/// Whether something is mounted at a path, so that it can be neither moved nor removed.
fn is_pinned(path: &Path) -> bool {
    let found = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE);
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Where a path leads, links followed.
fn real(path: &Path) -> Result<PathBuf, Errno> {
    use std::os::fd::AsRawFd as _;
    let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    link(&format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn link(path: &str) -> Result<PathBuf, Errno> {
    let target = rustix::fs::readlink(path, Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()).into())
}
