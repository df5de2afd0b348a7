//! Landlock: which files a process may open and change, whatever mounts it sees.
//!
//! The three calls of the kernel, made directly: what a kernel does not know is left out by hand
//! and nothing is left out silently, except for what [`Rights`] says came later than [`REQUIRED`].

#![expect(unsafe_code, reason = "the calls have no safe wrapper")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, open, openat};

/// The oldest version that is enough: the one that knows truncation.
pub(super) const REQUIRED: u32 = 3;

/// From this version on, TCP is covered.
const KNOWS_TCP: u32 = 4;

/// From this version on, the control of devices is covered.
const KNOWS_DEVICES: u32 = 5;

/// From this version on, signals and abstract sockets can be kept within.
pub(super) const KNOWS_SCOPES: u32 = 6;

const EXECUTE: u64 = 1 << 0;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_FOLDER: u64 = 1 << 3;
const MAKE_DEVICES: u64 = 1 << 6 | 1 << 11;
const TRUNCATE: u64 = 1 << 14;
const CONTROL_DEVICE: u64 = 1 << 15;

/// Every right that version [`REQUIRED`] knows.
const FIRST_RIGHTS: u64 = (1 << 15) - 1;

/// What a rule allows below a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    /// The names in folders.
    List,
    /// Reading and executing.
    Read,
    /// Everything but making devices.
    Change,
    /// Using a device that exists.
    UseDevice,
}

impl Rights {
    fn bits(self) -> u64 {
        match self {
            Self::List => READ_FOLDER,
            Self::Read => READ_FOLDER | READ_FILE | EXECUTE,
            Self::Change => FIRST_RIGHTS & !MAKE_DEVICES,
            Self::UseDevice => READ_FOLDER | READ_FILE | WRITE_FILE | CONTROL_DEVICE,
        }
    }
}

/// What is kept within the processes that are restricted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Signals, abstract sockets and TCP.
    Everything,
    /// Signals and abstract sockets.
    AllButTcp,
}

/// `struct landlock_ruleset_attr`
#[repr(C)]
struct RulesetAttributes {
    files: u64,
    tcp: u64,
    scopes: u64,
}

/// `struct landlock_path_beneath_attr`
#[repr(C, packed)]
struct PathAttributes {
    allowed: u64,
    parent: i32,
}

/// The version that the kernel has; none when it has none or it is switched off.
pub(super) fn version() -> Option<u32> {
    // SAFETY: with a null pointer and this flag the call only returns a number.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, 1_u32)
    };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// Rules that are being put together. They restrict nobody yet.
#[derive(Debug)]
pub(super) struct Ruleset {
    descriptor: OwnedFd,
    /// Every right that the rules decide over.
    handled: u64,
}

impl Ruleset {
    /// Rules under which nothing is allowed yet.
    pub(super) fn new(version: u32, scope: Scope) -> io::Result<Self> {
        let devices = if version >= KNOWS_DEVICES { CONTROL_DEVICE } else { 0 };
        let handled = FIRST_RIGHTS | devices;
        let tcp = if version >= KNOWS_TCP && scope == Scope::Everything { 0b11 } else { 0 };
        let scopes = if version >= KNOWS_SCOPES { 0b11 } else { 0 };
        let attributes = RulesetAttributes { files: handled, tcp, scopes };
        // Older kernels take a shorter structure, and a longer one if its rest is zero.
        let size = size_of::<RulesetAttributes>();
        // SAFETY: the pointer is to `size` initialised bytes that live through the call.
        let number = unsafe {
            libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attributes, size, 0_u32)
        };
        let number = i32::try_from(number).map_err(io::Error::other)?;
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just made this descriptor, and nobody else knows it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
        Ok(Self { descriptor, handled })
    }

    /// Allows `rights` at and below `path`, links in it followed. What does not exist needs no rule.
    pub(super) fn allow(&self, path: &Path, rights: Rights) -> io::Result<()> {
        match open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => self.allow_at(file.as_fd(), rights),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(()),
            // Who may not even look at it needs no rule either.
            Err(rustix::io::Errno::ACCESS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Allows `rights` at and below an open file or folder.
    pub(super) fn allow_at(&self, file: BorrowedFd<'_>, rights: Rights) -> io::Result<()> {
        let is_folder = FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode).is_dir();
        self.add(file, is_folder, rights)
    }

    /// Allows `rights` at and below `name` in an open folder, which the folder says is of this kind.
    pub(super) fn allow_in(
        &self,
        folder: BorrowedFd<'_>,
        name: &CStr,
        kind: FileType,
        rights: Rights,
    ) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(folder, name, flags, Mode::empty()) {
            Ok(file) => self.add(file.as_fd(), kind.is_dir(), rights),
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::ACCESS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// A wrong kind is refused by the kernel.
    fn add(&self, file: BorrowedFd<'_>, is_folder: bool, rights: Rights) -> io::Result<()> {
        let of_files = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | CONTROL_DEVICE;
        let possible = if is_folder { self.handled } else { self.handled & of_files };
        let allowed = rights.bits() & possible;
        if allowed == 0 {
            return Ok(());
        }
        let attributes = PathAttributes { allowed, parent: file.as_raw_fd() };
        // SAFETY: the pointer is to an initialised structure of the kind that rule type 1 has; the
        // descriptor in it is open, because `file` borrows it.
        let done = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.descriptor.as_raw_fd(),
                1_u32,
                &raw const attributes,
                0_u32,
            )
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Restricts this thread, and whatever it starts, for good. It must not be able to gain
    /// privileges any more.
    pub(super) fn restrict(&self) -> io::Result<()> {
        // SAFETY: the call takes numbers only.
        let done = unsafe {
            libc::syscall(libc::SYS_landlock_restrict_self, self.descriptor.as_raw_fd(), 0_u32)
        };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
