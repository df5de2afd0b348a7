//! One command from start to end: its facts, its output, its surroundings.

use bridle_world::process::{CommandSpec, HEAD_LIMIT, ProcessError, TAIL_LIMIT};
use tokio_util::sync::CancellationToken;

use crate::rig::{Rig, probe, text};

#[tokio::test]
async fn both_streams_arrive_in_the_order_in_which_they_were_written() {
    let finished = Rig::new().run("echo 1; echo 2 >&2; echo 3; echo 4 >&2").await.unwrap();
    assert_eq!(text(&finished), "1\n2\n3\n4\n");
    assert_eq!((finished.exit_code, finished.signal), (Some(0), None));
    assert!(!finished.timed_out && !finished.cancelled && finished.survivors == 0);
}

#[tokio::test]
async fn exit_code_and_signal_are_separate_facts() {
    let rig = Rig::new();
    for code in [1, 125, 126, 127, 137] {
        let finished = rig.run(&format!("exit {code}")).await.unwrap();
        assert_eq!((finished.exit_code, finished.signal), (Some(code), None));
    }
    let finished = rig.run("kill -KILL $$").await.unwrap();
    assert_eq!((finished.exit_code, finished.signal), (None, Some(9)));
}

#[tokio::test]
async fn a_command_has_no_input_and_no_terminal() {
    let rig = Rig::new();
    let finished = rig.run("read line; echo read $?; cat; test -t 0; echo tty $?").await.unwrap();
    assert_eq!(text(&finished), "read 1\ntty 1\n");
    let finished = rig.run("exec 3</dev/tty").await.unwrap();
    assert_ne!(finished.exit_code, Some(0), "there is a controlling terminal");
}

#[tokio::test]
async fn a_command_runs_where_it_should() {
    let rig = Rig::new();
    let finished = rig.run("pwd -P").await.unwrap();
    let folder = fs_err::canonicalize(rig.folder.path()).unwrap();
    assert_eq!(text(&finished), format!("{}\n", folder.display()));
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the host is given a descriptor by its parent")]
async fn a_descriptor_that_the_host_inherited_does_not_reach_its_commands() {
    let output = tokio::process::Command::new("/bin/bash")
        .args(["-c", "exec 7</etc/passwd; exec \"$0\" host 'echo /proc/$$/fd/*'"])
        .arg(probe())
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<_> =
        text.split_whitespace().filter_map(|path| path.rsplit('/').next()).collect();
    // The shell's own handle of the folder that it lists comes fourth.
    assert_eq!(numbers, ["0", "1", "2", "3"], "{text}");
}

#[tokio::test]
async fn a_missing_working_directory_is_named() {
    let rig = Rig::new();
    let path = rig.folder.path().join("gone");
    let spec = CommandSpec { cwd: path.clone(), ..rig.spec("true") };
    let error = rig.processes.run(spec, CancellationToken::new(), |_| ()).await.unwrap_err();
    assert!(error.to_string().contains("gone"), "{error}");
    assert!(matches!(error, ProcessError::WorkingDirectory { path: named, .. } if named == path));
}

#[tokio::test]
async fn a_command_too_long_for_the_system_is_not_a_failure_of_the_supervisor() {
    let error = Rig::new().run(&format!(": {}", "x".repeat(200_000))).await.unwrap_err();
    assert!(matches!(error, ProcessError::Program { .. }), "{error:?}");
}

#[tokio::test]
async fn a_failing_supervisor_is_never_taken_for_the_command() {
    for supervisor in ["/bin/true", "/bin/false", "/nonexistent"] {
        let error = Rig::supervised_by(supervisor.into()).run("true").await.unwrap_err();
        assert!(matches!(error, ProcessError::Supervisor { .. }), "{supervisor}: {error:?}");
    }
    let error = Rig::new().run("kill -KILL $PPID").await.unwrap_err();
    assert!(matches!(error, ProcessError::Supervisor { .. }), "{error:?}");
}

#[tokio::test]
async fn endless_output_is_counted_and_its_two_ends_are_kept() {
    let command = "echo first; head -c 100000000 /dev/zero | tr '\\0' 'x'; echo; echo last";
    let finished = Rig::new().run(command).await.unwrap();
    assert_eq!(finished.output.total_bytes(), 100_000_000 + 12);
    assert_eq!(finished.output.total_lines(), 3);
    let omitted = 100_000_012 - HEAD_LIMIT - TAIL_LIMIT;
    assert_eq!(finished.output.omitted_bytes(), omitted as u64);
    let text = text(&finished);
    assert!(text.starts_with("first\n") && text.ends_with("x\nlast\n"));
    assert!(text.contains(&format!("[... {omitted} bytes, 0 lines omitted ...]")));
}

#[tokio::test]
async fn output_is_seen_while_the_command_runs() {
    let rig = Rig::new();
    let gate = rig.gate("go");
    // The command goes on only after its first line has been seen here.
    let mut seen = 0;
    let on_output = |output: &bridle_world::process::Capture| {
        seen += 1;
        if seen == 1 {
            assert_eq!(output.recent(100), "one\n");
            let gate = gate.clone();
            std::thread::spawn(move || fs_err::write(gate, "go\n").unwrap());
        }
    };
    let spec = rig.spec("echo one; read line <go; echo two");
    let finished = rig.processes.run(spec, CancellationToken::new(), on_output).await.unwrap();
    assert_eq!(text(&finished), "one\ntwo\n");
    assert_eq!(seen, 2, "the last output was not shown");
}

#[tokio::test]
async fn a_cancelled_token_starts_nothing() {
    let rig = Rig::new();
    let token = CancellationToken::new();
    token.cancel();
    let finished = rig.processes.run(rig.spec("touch made"), token, |_| ()).await.unwrap();
    assert!(finished.cancelled && finished.exit_code.is_none() && finished.signal.is_none());
    assert!(!rig.folder.path().join("made").exists());
}
