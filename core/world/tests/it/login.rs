//! The search path of commands: that of the user's login shell, asked once, never waited for.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use crate::rig::{GateReader, Rig, text};

/// A login shell that does `profile` before what it is asked, which stands in `$3`.
fn shell(folder: &Path, profile: &str) -> String {
    let path = folder.join("login-shell");
    let script = format!("#!/bin/sh\n[ \"$1 $2\" = '-l -c' ] || exit 9\n{profile}\neval \"$3\"\n");
    fs_err::write(&path, script).unwrap();
    fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn commands_have_the_path_of_the_login_shell_which_is_asked_once() {
    let home = tempfile::tempdir().unwrap();
    let profile = "echo asked >>\"$HOME/asked\"; env >\"$HOME/env\"; echo welcome\n\
                   PATH=/login/bin:/usr/bin:/bin";
    let shell = shell(home.path(), profile);
    let rig = Rig::of_user([
        ("HOME", home.path().to_str().unwrap()),
        ("SHELL", &shell),
        ("PATH", "/venv/bin:/usr/bin:/bin"),
        ("A_TOKEN", "marker-of-a-secret"),
    ]);
    let (one, two) = tokio::join!(rig.run("echo $PATH"), rig.run("echo $PATH"));
    for finished in [one.unwrap(), two.unwrap(), rig.run("echo $PATH").await.unwrap()] {
        assert_eq!(text(&finished), "/venv/bin:/login/bin:/usr/bin:/bin\n");
    }
    assert_eq!(fs_err::read_to_string(home.path().join("asked")).unwrap(), "asked\n");
    let env = fs_err::read_to_string(home.path().join("env")).unwrap();
    assert!(!env.contains("marker-of-a-secret") && env.contains("GIT_TERMINAL_PROMPT=0"), "{env}");
    let path = rig.processes.search_path(&CancellationToken::new()).await.unwrap();
    assert_eq!((path.shell, path.fault), (Some(shell.into()), None));
}

#[tokio::test]
async fn a_login_shell_that_does_not_answer_leaves_the_path_as_it_was_and_says_why() {
    for (shell, fault) in [
        (Some("/bin/true"), "it printed none"),
        (Some("/nonexistent"), "/nonexistent cannot be executed: No such file or directory"),
        (None, "the variable SHELL is not set"),
    ] {
        let mut variables = [("PATH", "/usr/bin:/bin"), ("TZ", "UTC")];
        if let Some(shell) = shell {
            variables[1] = ("SHELL", shell);
        }
        let rig = Rig::of_user(variables);
        assert_eq!(text(&rig.run("echo $PATH").await.unwrap()), "/usr/bin:/bin\n");
        let path = rig.processes.search_path(&CancellationToken::new()).await.unwrap();
        assert!(path.fault.unwrap().starts_with(fault));
    }
}

#[tokio::test]
async fn a_cancel_does_not_wait_for_a_profile_that_hangs() {
    let home = tempfile::tempdir().unwrap();
    let shell = shell(home.path(), "echo here >\"$HOME/gate\"; setsid sleep 600 & sleep 600");
    let rig = Rig::of_user([("HOME", home.path().to_str().unwrap()), ("SHELL", &shell)]);
    let gate = home.path().join("gate");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &gate,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let token = CancellationToken::new();
    let cancel = token.clone();
    // The profile goes on once its gate is read, and the reader cancels.
    std::thread::spawn(move || {
        GateReader::open(&gate).line();
        cancel.cancel();
    });
    let finished = rig.processes.run(rig.spec("touch made"), token, |_| ()).await.unwrap();
    assert!(finished.cancelled && finished.exit_code.is_none());
    assert!(!rig.folder.path().join("made").exists());
    assert_eq!(rig.marked(), Vec::<String>::new(), "the profile goes on");
}
