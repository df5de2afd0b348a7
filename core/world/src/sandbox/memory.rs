//! Reads the memory of a process whose call waits for an answer.
//!
//! It may write there meanwhile, so what is read serves to tell and decides nothing.

#![expect(unsafe_code, reason = "memory of another process is read by one raw call")]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

/// The longest path that the kernel takes, in bytes.
const MAX_PATH: usize = 4096;

/// A string in the memory of another process.
pub(super) fn text(pid: u32, address: u64) -> Option<OsString> {
    let mut bytes = vec![0_u8; MAX_PATH];
    let mut length = 0;
    // Page by page, because the one behind the string may not exist.
    while length < MAX_PATH {
        let from = address.checked_add(length as u64)?;
        let page = (MAX_PATH as u64 - from % MAX_PATH as u64) as usize;
        let part = bytes.get_mut(length..MAX_PATH.min(length + page))?;
        let count = copy(pid, from, part)?;
        if let Some(end) = part.get(..count)?.iter().position(|byte| *byte == 0) {
            bytes.truncate(length + end);
            return Some(OsString::from_vec(bytes));
        }
        length += count;
    }
    None
}

/// Copies memory of another process; how much, or nothing when it cannot be read.
pub(super) fn copy(pid: u32, from: u64, to: &mut [u8]) -> Option<usize> {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: from as *mut libc::c_void, iov_len: to.len() };
    // SAFETY: the kernel writes at most the bytes of `to`, which this function alone can reach,
    // and checks the other address itself.
    let count =
        unsafe { libc::process_vm_readv(pid as i32, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(count).ok().filter(|count| *count > 0)
}
