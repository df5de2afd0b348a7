//! Keys leave the environment: seen from outside, and from a command.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use crate::rig::probe;

const MARKERS: [(&str, &str); 3] = [
    ("ANTHROPIC_API_KEY", "sk-marker-aaaa-1111"),
    ("DEEPSEEK_API_KEY", "sk-marker-bbbb-2222"),
    ("EMPTY_API_KEY", ""),
];

#[test]
#[expect(clippy::disallowed_methods, reason = "the environment of a whole process is examined")]
fn taken_secrets_are_gone_from_the_process_and_from_its_commands() {
    let mut child = Command::new(probe())
        .arg("secrets")
        .envs(MARKERS)
        .env("BRIDLE_TEST_PLAIN", "plain-marker")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.as_mut().unwrap()).lines() {
        let line = line.unwrap();
        let ready = line == "ready";
        lines.push(line);
        if ready {
            break;
        }
    }
    let environ = fs_err::read(format!("/proc/{}/environ", child.id()));
    child.stdin.take().unwrap().flush().unwrap();
    assert!(child.wait().unwrap().success(), "{lines:?}");

    for (name, value) in MARKERS {
        assert!(lines.contains(&format!("taken: {name} {value} left: false")), "{lines:?}");
    }
    let (taken, shown): (Vec<_>, Vec<_>) =
        lines.iter().partition(|line| line.starts_with("taken: "));
    assert_eq!(taken.len(), MARKERS.len());
    assert!(shown.iter().any(|line| line.starts_with("PATH=")), "the command has no environment");
    assert!(!shown.iter().any(|line| line.contains("marker")), "a command saw one: {shown:?}");
    // Root may read it, and then finds names alone. Others may not even read.
    match environ {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            assert!(text.contains("BRIDLE_TEST_PLAIN=\0"), "{text}");
            assert!(!text.contains("marker-") && !text.contains("plain-marker"), "{text}");
        }
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied),
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the number of threads of a process is examined")]
fn nothing_is_taken_beside_another_thread() {
    let output = Command::new(probe()).arg("threads").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "refused: true path: true\n");
}
