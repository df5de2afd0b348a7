//! Starts the program of a command as a child of this process, which is locked in before.
//!
//! The child shares the memory of this process until its program is executed, and this process stands
//! still meanwhile. So nothing of it is copied, and the child tells what went wrong by writing it down.

#![expect(unsafe_code, reason = "the standard library copies a process that is to be locked in")]

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString, c_void};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::process::{Pid, WaitOptions};

use super::confine::Lock;
use super::listener::Listener;
use crate::plant::Plant;

/// How large the stack of the child is, in bytes, of which it uses a little.
const STACK: usize = 256 * 1024;

/// A program with all that it is given.
#[derive(Debug)]
pub(crate) struct Program {
    /// Where it may be. The first that can be executed is.
    places: Vec<CString>,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Program {
    /// `name` is a path, or a name on the `PATH` of `environment`.
    ///
    /// # Errors
    /// When something has a zero in it.
    pub(crate) fn new(
        name: &OsStr,
        arguments: &[OsString],
        environment: &[(OsString, OsString)],
    ) -> io::Result<Self> {
        let all = [name].into_iter().chain(arguments.iter().map(OsString::as_os_str));
        let variable = |(name, value): &(OsString, OsString)| {
            CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())
        };
        let search_path = environment.iter().find(|(name, _)| name == "PATH");
        let places = match search_path {
            Some((_, value)) if !name.as_bytes().contains(&b'/') => {
                std::env::split_paths(value).map(|folder| folder.join(name)).collect()
            }
            _ => vec![Path::new(name).to_owned()],
        };
        let places = places.iter().map(|place| CString::new(place.as_os_str().as_bytes()));
        Ok(Self {
            places: places.collect::<Result<_, _>>()?,
            arguments: all.map(|it| CString::new(it.as_bytes())).collect::<Result<_, _>>()?,
            environment: environment.iter().map(variable).collect::<Result<_, _>>()?,
        })
    }

    /// Returns only if it cannot be executed.
    fn execute(&self) -> io::Error {
        let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
            let all = strings.iter().map(|it| it.as_ptr());
            all.chain([std::ptr::null()]).collect()
        };
        let (arguments, environment) = (pointers(&self.arguments), pointers(&self.environment));
        let mut refused = None;
        for place in &self.places {
            // SAFETY: three pointers to what ends with a zero, all of it alive.
            unsafe { libc::execve(place.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) => {}
                // There may be another that is allowed.
                Some(libc::EACCES) => refused = Some(error),
                _ => return error,
            }
        }
        refused.unwrap_or_else(|| io::Error::from_raw_os_error(libc::ENOENT))
    }
}

/// What a command's process leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leads {
    /// A process group.
    Group,
    /// A session whose terminal is its standard input, so that keys become signals and a shell there
    /// has jobs.
    Session,
}

/// What came of starting a program.
pub(crate) struct Started {
    /// Its process.
    pub(crate) child: Pid,
    /// When it was locked in: who is asked on its behalf, if anybody is.
    pub(crate) locked: Option<Option<Listener>>,
    /// Why it was not executed. Then the child is gone.
    pub(crate) error: Option<io::Error>,
}

/// What both processes see.
struct Birth<'a> {
    program: &'a Program,
    streams: [BorrowedFd<'a>; 3],
    leads: Leads,
    lock: Option<&'a Lock>,
    locked: Option<Option<Listener>>,
    error: Option<io::Error>,
}

/// Starts `program` with `streams` as its standard input, output and errors, which must not be among
/// the standard ones of this process, and no other descriptor. With a `lock` nothing of it runs before
/// it is locked in.
///
/// # Errors
/// When there can be no child.
pub(crate) fn start(
    program: &Program,
    streams: [BorrowedFd<'_>; 3],
    leads: Leads,
    lock: Option<&Lock>,
) -> io::Result<Started> {
    let mut birth = Birth { program, streams, leads, lock, locked: None, error: None };
    let mut stack = Vec::<u128>::with_capacity(STACK / size_of::<u128>());
    // What the child is to be asked on comes into the descriptors of this process.
    let shared = if lock.is_some() { libc::CLONE_FILES } else { 0 };
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD | shared;
    // SAFETY: the child has the whole of a stack of its own, which is aligned, and `birth`, to which
    // nobody has access meanwhile: this thread goes on when the child has ended or executed its
    // program, and there is no other.
    let number = unsafe {
        let top = stack.as_mut_ptr().add(stack.capacity());
        libc::clone(be_born, top.cast(), flags, (&raw mut birth).cast())
    };
    let child = Pid::from_raw(number.max(0)).ok_or_else(io::Error::last_os_error)?;
    let Birth { locked, error, .. } = birth;
    if error.is_some() {
        rustix::process::waitpid(Some(child), WaitOptions::empty())?;
    }
    Ok(Started { child, locked, error })
}

/// The child.
extern "C" fn be_born(birth: *mut c_void) -> i32 {
    // SAFETY: it is the one of `start`, which waits.
    let birth = unsafe { &mut *birth.cast::<Birth<'_>>() };
    let Err(error) = birth.go_on();
    birth.error = Some(error);
    127
}

impl Birth<'_> {
    fn go_on(&mut self) -> io::Result<Infallible> {
        if let Some(lock) = self.lock {
            if !Plant::PolicyAfterExec.is_in() {
                self.locked = Some(lock.turn()?);
            }
            // From here on the descriptors are its own.
            let flags = (libc::CLOSE_RANGE_UNSHARE | libc::CLOSE_RANGE_CLOEXEC) as libc::c_int;
            // SAFETY: it closes nothing; what is marked is not passed on.
            checked(unsafe { libc::close_range(3, u32::MAX, flags) })?;
        }
        for (stream, number) in self.streams.iter().zip(0..) {
            // SAFETY: the standard descriptors of the child, which uses none of them.
            checked(unsafe { libc::dup2(stream.as_raw_fd(), number) })?;
        }
        match self.leads {
            Leads::Group => rustix::process::setpgid(None, None)?,
            Leads::Session => {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
            }
        }
        usual_signals()?;
        Err(self.program.execute())
    }
}

/// Undoes what the standard library does to signals, which would be passed on.
fn usual_signals() -> io::Result<()> {
    // SAFETY: sets of signals, for which zero is a value, and an action that runs no code.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        checked(libc::sigemptyset(&raw mut none))?;
        checked(libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut()))?;
        match libc::signal(libc::SIGPIPE, libc::SIG_DFL) {
            libc::SIG_ERR => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

fn checked(returned: i32) -> io::Result<()> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};
    use std::os::fd::AsFd as _;

    use super::*;

    /// Runs a program to its end and returns what it wrote.
    fn run(name: &str, arguments: &[&str], path: &str) -> Result<String, io::ErrorKind> {
        let arguments: Vec<OsString> = arguments.iter().map(Into::into).collect();
        let program = Program::new(name.as_ref(), &arguments, &[("PATH".into(), path.into())]);
        let mut file = tempfile::tempfile().unwrap();
        let started = start(&program.unwrap(), [file.as_fd(); 3], Leads::Group, None).unwrap();
        if let Some(error) = started.error {
            return Err(error.kind());
        }
        rustix::process::waitpid(Some(started.child), WaitOptions::empty()).unwrap();
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        Ok(text)
    }

    #[test]
    fn a_name_is_looked_for_where_its_path_says() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["closed", "open"] {
            fs_err::create_dir(folder.path().join(name)).unwrap();
        }
        fs_err::write(folder.path().join("closed/tool"), "").unwrap();
        std::os::unix::fs::symlink("/bin/sh", folder.path().join("open/tool")).unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let path = [at("missing"), at("closed"), at("open")].join(":");
        let say = ["-c", "echo $PATH"];
        assert_eq!(run("tool", &say, &path), Ok(format!("{path}\n")));
        assert_eq!(run(&at("open/tool"), &say, "/"), Ok("/\n".to_owned()));
        assert_eq!(run("tool", &[], &at("closed")), Err(io::ErrorKind::PermissionDenied));
        assert_eq!(run("tool", &[], &at("missing")), Err(io::ErrorKind::NotFound));
    }

    #[test]
    fn a_program_begins_with_the_usual_signals_in_a_group_of_its_own() {
        let script =
            "grep -E '^Sig(Blk|Ign)' /proc/self/status; cut -d' ' -f5 /proc/$$/stat; echo $$";
        let text = run("/bin/sh", &["-c", script], "/usr/bin:/bin").unwrap();
        let lines: Vec<&str> = text.split_whitespace().collect();
        let has = |place: usize, signal: i32| {
            u64::from_str_radix(lines[place], 16).unwrap() >> (signal - 1) & 1 == 1
        };
        // What whoever started this process ignores stays ignored.
        assert!(!has(3, libc::SIGPIPE) && !(1..32).any(|signal| has(1, signal)), "{text}");
        assert_eq!(lines.get(4), lines.get(5), "{text}");
    }
}
