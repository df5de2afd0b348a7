//! Changes how a whole tree of mounts may be used, in one call.

#![expect(unsafe_code, reason = "the call has no safe wrapper")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// What a tree of mounts is to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes {
    /// Nothing in it can be changed.
    pub(super) read_only: bool,
    /// What is mounted elsewhere does not appear in it.
    pub(super) private: bool,
    /// The mounts below are meant, too.
    pub(super) below: bool,
}

/// Sets `attributes` for the mount at `path`, relative to `folder`, and all that are below it. An
/// empty path means the mount that `folder` is itself.
pub(super) fn set_attributes(
    folder: BorrowedFd<'_>,
    path: &CStr,
    attributes: Attributes,
) -> io::Result<()> {
    let recursive = if attributes.below { libc::AT_RECURSIVE } else { 0 };
    let flags = recursive | libc::AT_EMPTY_PATH;
    let attributes = libc::mount_attr {
        attr_set: if attributes.read_only { libc::MOUNT_ATTR_RDONLY } else { 0 },
        attr_clr: 0,
        propagation: if attributes.private { libc::MS_PRIVATE } else { 0 },
        userns_fd: 0,
    };
    // SAFETY: both pointers are to initialised memory that lives through the call, the string ends
    // with a zero, and the size is that of the structure.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            folder.as_raw_fd(),
            path.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
