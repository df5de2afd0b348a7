//! What the C library keeps of memory that was freed. Left to itself, glibc keeps nearly all of what
//! many sessions once held: in an arena for each thread that allocated beside others, and in blocks that
//! it stops to map one by one as soon as one of them was freed. Where another library allocates, all of
//! this does nothing.

#![cfg_attr(
    all(target_os = "linux", target_env = "gnu"),
    expect(unsafe_code, reason = "the calls of the C library have no safe wrapper")
)]

/// As many threads as do most of the work: those of the runtime.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS: i32 = 2;

/// From this size on a block is mapped by itself, so that it goes back when it is freed. In bytes; the
/// value that glibc starts with. To say it keeps it there.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED: i32 = 128 * 1024;

/// What may stay free at the end of the heap, in bytes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const SPARE: i32 = 1024 * 1024;

/// Bounds what is kept. To be called while the process has one thread; what other threads got before
/// stays theirs.
pub fn bound() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let bounds = [
            (libc::M_ARENA_MAX, ARENAS),
            (libc::M_MMAP_THRESHOLD, MAPPED),
            (libc::M_TRIM_THRESHOLD, SPARE),
        ];
        for (bound, value) in bounds {
            // SAFETY: it takes two numbers, touches nothing of ours, and may be called at any time.
            // A bound that it refuses stays as it was, and nothing depends on it.
            let _is_set = unsafe { libc::mallopt(bound, value) };
        }
    }
}

/// Gives back every page that holds nothing in use. Takes milliseconds, in which threads that allocate
/// wait: to be called off the async threads, and seldom.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: it moves nothing that is in use, and locks what it looks at.
        let _was_anything = unsafe { libc::malloc_trim(0) };
    }
}
