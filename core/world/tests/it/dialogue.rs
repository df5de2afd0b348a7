//! Programs that are spoken with: their input, their answers, their errors, their end.

use bridle_compose::TaskSet;
use bridle_world::process::{ProcessError, ServerSpec};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use crate::rig::{Rig, text};

fn server(rig: &Rig, script: &str) -> ServerSpec {
    ServerSpec {
        program: "sh".into(),
        arguments: vec!["-c".into(), script.into()],
        environment: vec![("OWN".into(), "given".into()), ("PATH".into(), "/usr/bin:/bin".into())],
        cwd: rig.folder.path().to_owned(),
        confinement: None,
    }
}

/// What it writes to its standard error is told apart from its answers, and the end of its input is
/// the end.
#[tokio::test]
async fn a_program_is_spoken_with() {
    let rig = Rig::new();
    let script =
        "echo begun >&2; while read line; do echo \"$OWN $line\"; done; echo over >&2; exit 4";
    let token = CancellationToken::new();
    let (running, mut dialogue) =
        rig.processes.server(server(&rig, script), &token).await.unwrap().unwrap();
    let finished = TaskSet::new().spawn(running.finish(token, |_| ()));
    for word in ["one", "two"] {
        dialogue.input.write_all(format!("{word}\n").as_bytes()).await.unwrap();
        let mut answer = vec![0; "given one\n".len()];
        dialogue.output.read_exact(&mut answer).await.unwrap();
        assert_eq!(String::from_utf8(answer).unwrap(), format!("given {word}\n"));
    }
    drop(dialogue.input);
    let finished = finished.await.unwrap().unwrap();
    assert_eq!((text(&finished).as_str(), finished.exit_code), ("begun\nover\n", Some(4)));
    let mut rest = Vec::new();
    dialogue.output.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"", "nobody has its output any more");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_an_error_and_its_streams_end() {
    let rig = Rig::new();
    let spec = ServerSpec { program: "no-such-program".into(), ..server(&rig, "") };
    let token = CancellationToken::new();
    let (mut running, mut dialogue) = rig.processes.server(spec, &token).await.unwrap().unwrap();
    let error = running.started().await.unwrap_err();
    assert!(matches!(&error, ProcessError::Program { .. }), "{error}");
    drop(running);
    assert_eq!(dialogue.output.read(&mut [0]).await.unwrap(), 0);
}
