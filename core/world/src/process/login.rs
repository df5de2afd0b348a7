//! The search path of the user's login shell: an editor started from a desktop has a shorter one
//! than a terminal.
//!
//! The shell is asked once, under a supervisor and with the environment of a command, so that it
//! has no secret and its end is certain.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Access, access};
use tokio_util::sync::CancellationToken;

use super::call::Call;
use super::spool::Spool;
use super::{Capture, Shared};
use crate::supervisor::protocol::Request;

/// How long the user's profile may take.
const LIMIT: Duration = Duration::from_secs(5);

/// What stands around the answer: a profile may print what it likes.
const MARK: &str = "\u{1}bridle\u{1}";

/// The `PATH` of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPath {
    /// The whole value: what this process was given besides the login shell's, then that.
    pub value: OsString,
    /// The login shell that was asked, if there is one.
    pub shell: Option<PathBuf>,
    /// Why the value is only what this process was given.
    pub fault: Option<String>,
}

impl SearchPath {
    /// The program of this name, or at this absolute path, that a command of this name would execute.
    /// Looks at the disk.
    pub fn find(&self, program: &OsStr) -> Option<PathBuf> {
        let is_program = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
        let folders = match program.as_bytes().contains(&b'/') {
            true => vec![PathBuf::new()],
            false => std::env::split_paths(&self.value).collect(),
        };
        let absolute = folders.into_iter().map(|folder| folder.join(program));
        absolute.filter(|path| path.is_absolute()).find(is_program)
    }
}

/// The call was cancelled before the answer came.
pub(super) struct Cancelled;

/// Asks the login shell. A shell without an answer is asked no more.
///
/// # Cancel safety
/// Cancel safe: the shell is ended and the next one to ask starts it again.
pub(super) async fn ask(
    shared: &Shared,
    token: &CancellationToken,
) -> Result<SearchPath, Cancelled> {
    if token.is_cancelled() {
        return Err(Cancelled);
    }
    let own = shared.environment.value("PATH").unwrap_or_default().to_owned();
    let Some(shell) = shared.environment.value("SHELL").map(PathBuf::from) else {
        let fault = Some("the variable SHELL is not set".to_owned());
        return Ok(SearchPath { value: own, shell: None, fault });
    };
    let answer = answer_of(&shell, shared, token).await;
    if token.is_cancelled() {
        return Err(Cancelled);
    }
    let (value, fault) = match answer {
        Ok(theirs) => (joined(&own, &theirs), None),
        Err(fault) => (own, Some(fault)),
    };
    if let Some(fault) = &fault {
        tracing::warn!(shell = %shell.display(), fault, "the login shell does not tell its PATH");
    }
    Ok(SearchPath { value, shell: Some(shell), fault })
}

async fn answer_of(
    shell: &Path,
    shared: &Shared,
    token: &CancellationToken,
) -> Result<OsString, String> {
    let script = format!("printf '%s%s%s' '{MARK}' \"$PATH\" '{MARK}'");
    let request = Request {
        program: shell.into(),
        arguments: vec!["-l".into(), "-c".into(), script.into()],
        cwd: shared.environment.value("HOME").unwrap_or(OsStr::new("/")).to_owned(),
        environment: shared.environment.variables().to_vec(),
        confinement: None,
        terminal: None,
    };
    let clock = Arc::clone(&shared.clock);
    let call = Call::start(&shared.launcher, request, None, clock).await;
    let call = call.map_err(|error| error.to_string())?;
    let finished = call.finish(Some(LIMIT), Spool::new(None), token.clone(), |_| ()).await;
    let finished = finished.map_err(|error| error.to_string())?;
    match marked(&finished.output) {
        Some(path) => Ok(path),
        None if finished.timed_out => Err(format!("its profile took over {LIMIT:?}")),
        None => Err("it printed none".to_owned()),
    }
}

/// What stands between the last two marks.
fn marked(output: &Capture) -> Option<OsString> {
    let (head, tail) = output.ends();
    let output = [head, &tail].concat();
    let mark = MARK.as_bytes();
    let at = |bytes: &[u8]| bytes.windows(mark.len()).rposition(|window| window == mark);
    let before = output.get(..at(&output)?)?;
    let path = before.get(at(before)? + mark.len()..)?;
    (!path.is_empty()).then(|| OsString::from_vec(path.to_vec()))
}

/// The folders of `own` that are not in `theirs`, then `theirs`: what somebody put in front of
/// this process (a virtual environment) goes before, and the order of the login shell holds.
fn joined(own: &OsStr, theirs: &OsStr) -> OsString {
    let folders = |path: &OsStr| -> Vec<Vec<u8>> {
        let folders = path.as_bytes().split(|byte| *byte == b':');
        folders.filter(|folder| !folder.is_empty()).map(<[u8]>::to_vec).collect()
    };
    let known = folders(theirs);
    let mut all = folders(own);
    all.retain(|folder| !known.contains(folder));
    all.extend(known);
    OsString::from_vec(all.join(&b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_only_ours_comes_first_and_the_order_of_the_login_shell_holds() {
        let join = |own: &str, theirs: &str| {
            joined(OsStr::new(own), OsStr::new(theirs)).into_string().unwrap()
        };
        assert_eq!(
            join("/venv/bin:/usr/bin:/bin", "/shims:/bin:/usr/bin"),
            "/venv/bin:/shims:/bin:/usr/bin"
        );
        assert_eq!(join("/usr/bin", "/usr/bin::/opt"), "/usr/bin:/opt");
        assert_eq!(join("", "/bin"), "/bin");
    }

    #[test]
    fn a_program_is_what_a_command_would_execute() {
        let path = |value: &str| SearchPath { value: value.into(), shell: None, fault: None };
        let find = |value: &str, name: &str| path(value).find(OsStr::new(name));
        assert_eq!(find("/nowhere:/bin", "sh"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find("/nowhere", "/bin/sh"), Some(PathBuf::from("/bin/sh")));
        for (value, name) in [("/nowhere", "sh"), ("/", "bin"), ("/etc", "passwd"), ("", "./sh")] {
            assert_eq!(find(value, name), None, "{value} {name}");
        }
    }

    #[test]
    fn only_what_stands_between_the_marks_is_the_answer() {
        let answer = |printed: &str| {
            let mut capture = Capture::default();
            capture.push(printed.as_bytes());
            marked(&capture).map(|path| path.into_string().unwrap())
        };
        assert_eq!(answer(&format!("hello\n{MARK}/bin{MARK}\nbye")).as_deref(), Some("/bin"));
        assert_eq!(answer(&format!("{MARK}{MARK}")), None);
        assert_eq!(answer(&format!("{MARK}/bin")), None);
        assert_eq!(answer(""), None);
    }
}
