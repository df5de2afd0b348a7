//! Keys leave the environment before anything else runs.
//!
//! Removing a variable is not enough: `/proc/PID/environ` shows the memory that the process was
//! started with, to root whatever the process does. The bytes themselves are overwritten: those of
//! every variable, because nobody knows all names that secrets have.

#![expect(unsafe_code, reason = "the environment block is reached through raw pointers only")]

use std::ffi::{CStr, OsStr, OsString, c_char};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// The environment may be changed, and the process split, only while it has one thread.
#[derive(Debug, thiserror::Error)]
#[error("this is safe only while the process has one thread: {0}")]
pub struct NotSingleThreaded(String);

/// Reads every variable whose name `is_secret` and removes it from the environment. Of the others the
/// process keeps a copy, and where it was given them only their names are left. Call it first in
/// `main`, before any thread exists. A value of a secret that is not UTF-8 is taken lossily.
///
/// # Errors
/// [`NotSingleThreaded`] when another thread runs or that cannot be told; nothing is changed.
#[expect(clippy::disallowed_methods, reason = "what was overwritten is put back, before all else")]
pub fn take_secrets(
    is_secret: impl Fn(&str) -> bool,
) -> Result<Vec<(String, String)>, NotSingleThreaded> {
    check_single_threaded()?;
    // SAFETY: this process has one thread, as checked, so nothing reads or changes the
    // environment while this runs.
    let given = unsafe { overwrite() };
    let mut taken = Vec::new();
    // Of several variables with one name the first is the one that counts.
    for (name, value) in given.into_iter().rev() {
        match name.to_str().filter(|name| is_secret(name)) {
            Some(name) => {
                // SAFETY: as above.
                unsafe { std::env::remove_var(name) };
                taken.push((name.to_owned(), value.to_string_lossy().into_owned()));
            }
            // SAFETY: as above.
            None => unsafe { std::env::set_var(name, value) },
        }
    }
    taken.reverse();
    Ok(taken)
}

/// Refuses when another thread runs or that cannot be told.
pub(super) fn check_single_threaded() -> Result<(), NotSingleThreaded> {
    // A folder for each of them is linked from here, besides the two links that each folder has. To
    // list them takes ten times as long, and each command waits for it.
    let links = fs_err::metadata("/proc/self/task")
        .map_err(|error| NotSingleThreaded(error.to_string()))?
        .nlink();
    match links {
        3 => Ok(()),
        _ => Err(NotSingleThreaded(format!("{} threads are running", links.saturating_sub(2)))),
    }
}

unsafe extern "C" {
    /// The C library's list of `NAME=VALUE` strings, ended by a null pointer.
    static environ: *const *mut c_char;
}

/// Copies the variables, and zeroes their values in place.
///
/// # Safety
/// No other thread may run.
unsafe fn overwrite() -> Vec<(OsString, OsString)> {
    let mut given = Vec::new();
    // SAFETY: `environ` is set by the C library before `main`; the caller excludes other threads.
    let mut entry = unsafe { environ };
    // SAFETY: `entry` is null or points into the list, which ends with a null pointer; the loop
    // stops there.
    while !entry.is_null() && !unsafe { *entry }.is_null() {
        // SAFETY: as above; each pointer in the list is a C string that stays where it is.
        let text = unsafe { *entry };
        // SAFETY: as above; the bytes are copied before they are overwritten.
        let bytes = unsafe { CStr::from_ptr(text) }.to_bytes().to_vec();
        let split = bytes.iter().position(|byte| *byte == b'=');
        if let Some((name, value)) = split.and_then(|at| bytes.split_at_checked(at))
            && !name.is_empty()
        {
            let value = value.get(1..).unwrap_or_default();
            // SAFETY: the value starts behind the name and its `=` and has `value.len()` bytes
            // before the terminator. The kernel (or the C library) gave it to us writable.
            unsafe { text.add(name.len() + 1).write_bytes(0, value.len()) };
            let [name, value] = [name, value].map(|it| OsStr::from_bytes(it).to_owned());
            given.push((name, value));
        }
        // SAFETY: the entry was not the null pointer at the end, so there is one behind it.
        entry = unsafe { entry.add(1) };
    }
    given
}

/// Makes this process's memory unreadable for other processes of the same user, and keeps it out
/// of core dumps. Root can still read it.
///
/// # Errors
/// When the kernel refuses.
pub fn set_not_dumpable() -> std::io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}
