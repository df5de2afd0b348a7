//! Descriptors that a process got from whoever started it.

/// Closes every descriptor above the standard three. An agent started by an editor may hold some
/// that were never meant for a command. Call it before this process has opened any.
///
/// # Errors
/// When the list of descriptors cannot be read.
#[expect(unsafe_code, reason = "only a raw close reaches descriptors that nobody owns")]
pub(crate) fn close_inherited() -> std::io::Result<()> {
    let mut open: Vec<i32> = Vec::new();
    for entry in fs_err::read_dir("/proc/self/fd")? {
        open.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    for number in open.into_iter().filter(|number| *number > 2) {
        // SAFETY: the supervisor calls this first of all, so no descriptor above 2 is owned by
        // anything in this process. The one that read the list is in the list, but is closed by
        // now, and closing a closed number is an error without effect.
        unsafe { rustix::io::try_close(number).ok() };
    }
    Ok(())
}
