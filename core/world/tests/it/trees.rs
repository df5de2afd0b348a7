//! Whole process trees: nothing survives the end of a call, whatever it did to get away.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;

use bridle_world::process::{Finished, ProcessError};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio_util::sync::CancellationToken;

use crate::rig::{GateReader, MARK, Rig, probe, text};

/// Every way to get away from a parent. All members hold the gate `tree` open for writing and
/// say a line when they are in place.
const TREE: &str = r#"
exec 9>tree
sleep 600 &
setsid sleep 600 &
nohup sleep 600 >/dev/null 2>&1 &
( setsid bash -c 'echo grandchild >&9; sleep 600 & exec sleep 600' & )
bash -c 'trap "" TERM HUP INT; echo stubborn >&9; while :; do sleep 600; done' &
setsid bash -c 'trap "" TERM HUP INT; echo stubborn >&9; while :; do sleep 600; done' &
( ( trap "" TERM HUP; echo daemon >&9; exec setsid sleep 600 >/dev/null 2>&1 </dev/null ) & )
"#;

/// How many members say a line, and how many processes the tree has besides its shell at least.
const LINES: usize = 4;
const MEMBERS: usize = 8;

fn tree_then(last: &str) -> String {
    format!("{TREE}\n{last}")
}

/// Waits until the tree stands, and returns the reader that ends when all of it is gone.
async fn standing(rig: &Rig, gate: &Path) -> GateReader {
    let gate = gate.to_owned();
    let reader = apart(move || {
        let mut reader = GateReader::open(&gate);
        for _ in 0..LINES {
            reader.line().expect("the tree fell before it stood");
        }
        reader
    })
    .await;
    let marked = rig.marked();
    assert!(marked.len() >= MEMBERS, "the probe of the process table sees too little: {marked:?}");
    reader
}

/// A handle of the process with this number.
fn handle(number: &str) -> OwnedFd {
    let number = Pid::from_raw(number.parse().unwrap()).unwrap();
    pidfd_open(number, PidfdFlags::empty()).unwrap()
}

/// Waits for the end of a process.
fn ended(handle: &OwnedFd) {
    poll(&mut [PollFd::new(handle, PollFlags::IN)], None).unwrap();
}

/// Does what blocks on a thread of its own. A runtime's blocking thread would keep a test that
/// has failed from ending.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || done.send(work()).ok());
    result.await.unwrap()
}

/// Waits for `reader`'s gate to be let go by everybody.
async fn fallen(mut reader: GateReader) {
    assert_eq!(apart(move || reader.line()).await, None);
}

/// Follows a call that must not end before `act` is through.
async fn beside(
    call: impl Future<Output = Result<Finished, ProcessError>>,
    act: impl Future<Output = ()>,
) -> Finished {
    let (mut call, mut act) = (std::pin::pin!(call), std::pin::pin!(act));
    tokio::select! {
        early = &mut call => panic!("the call ended early: {early:?}"),
        () = &mut act => {}
    }
    call.await.unwrap()
}

#[tokio::test]
async fn a_cancel_leaves_nothing() {
    for rig in Rig::each() {
        let token = CancellationToken::new();
        let (gate, done) = (rig.gate("tree"), rig.gate("done"));
        let spec = rig.spec(&tree_then("echo up; echo >done; sleep 600"));
        let finished = beside(rig.processes.run(spec, token.clone(), |_| ()), async {
            standing(&rig, &gate).await;
            assert!(apart(move || GateReader::open(&done).line()).await.is_some());
            token.cancel();
        })
        .await;
        assert_eq!(rig.marked(), Vec::<String>::new());
        assert!(finished.cancelled && !finished.timed_out, "{finished:?}");
        assert_eq!((finished.signal, finished.left), (Some(15), 0));
        assert_eq!(text(&finished), "up\n");
    }
}

#[tokio::test]
async fn a_time_out_leaves_nothing() {
    for rig in Rig::each() {
        let gate = rig.gate("tree");
        let command = tree_then("trap '' TERM; echo up; while :; do sleep 600; done");
        let finished = beside(rig.run(&command), async {
            standing(&rig, &gate).await;
            rig.clock.time_out();
        })
        .await;
        assert_eq!(rig.marked(), Vec::<String>::new());
        assert!(finished.timed_out && !finished.cancelled, "{finished:?}");
    }
}

#[tokio::test]
async fn a_normal_end_leaves_nothing_and_counts_what_was_left() {
    for rig in Rig::each() {
        let (gate, go) = (rig.gate("tree"), rig.gate("go"));
        let command = tree_then("echo hi; read line <go; exit 3");
        let finished = beside(rig.run(&command), async {
            standing(&rig, &gate).await;
            std::thread::spawn(|| fs_err::write(go, "go\n").unwrap());
        })
        .await;
        assert_eq!(rig.marked(), Vec::<String>::new());
        assert_eq!((finished.exit_code, text(&finished).as_str()), (Some(3), "hi\n"));
        assert!(finished.survivors >= MEMBERS, "{finished:?}");
        assert!(!finished.timed_out && !finished.cancelled);
    }
}

#[tokio::test]
async fn a_dropped_call_leaves_nothing() {
    for rig in Rig::each() {
        let gate = rig.gate("tree");
        let command = tree_then("sleep 600");
        let reader = tokio::select! {
            finished = rig.run(&command) => panic!("it ended: {finished:?}"),
            reader = standing(&rig, &gate) => reader,
        };
        fallen(reader).await;
        assert_eq!(rig.marked(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_killed_host_leaves_nothing() {
    killed_host("read host <go; kill -9 $host; sleep 600").await;
}

/// A command that runs `script` with the rig's folder and mark, which a host's commands do not
/// inherit. The script is executed, so that whatever it forks has the mark from the first.
fn marked_script(rig: &Rig, script: &str) -> String {
    let (folder, mark) = (rig.folder.path(), &rig.mark);
    fs_err::write(folder.join("script"), script).unwrap();
    format!("cd {}; {MARK}={mark} exec bash script", folder.display())
}

/// The end of a host whose command stands as a tree and then does `last`, which reads the host's
/// number from the gate `go`.
#[expect(clippy::disallowed_methods, reason = "the host is killed, so it must be a process")]
async fn killed_host(last: &str) {
    let rig = Rig::new();
    let (gate, go) = (rig.gate("tree"), rig.gate("go"));
    let command = marked_script(&rig, &tree_then(last));
    let mut host = tokio::process::Command::new(probe())
        .args(["host", &command])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let number = host.id().unwrap();
    let reader = tokio::select! {
        status = host.wait() => panic!("the host ended: {status:?}"),
        reader = standing(&rig, &gate) => reader,
    };
    apart(move || fs_err::write(go, format!("{number}\n")).unwrap()).await;
    host.wait().await.unwrap();
    fallen(reader).await;
    assert_eq!(rig.marked(), Vec::<String>::new(), "{last}");
}

/// Processes that the command's own shell can reach: its supervisor, that one's guard, and the
/// launcher of all.
const SUPERVISOR: &str = "$PPID";
const GUARD: &str = "$(cut -d' ' -f4 /proc/$PPID/stat)";
const LAUNCHER: &str = "$(cut -d' ' -f4 /proc/$(cut -d' ' -f4 /proc/$PPID/stat)/stat)";

/// Sets `waiting` to the process beside the launcher that waits for the next command: the only child of it
/// that has none itself. The launcher may be about to split it off, or be gone.
const FIND_WAITING: &str = r#"
launcher=$(cut -d' ' -f4 /proc/$(cut -d' ' -f4 /proc/$PPID/stat)/stat)
children() { cat /proc/$1/task/$1/children 2>/dev/null; }
for i in {1..1000}; do
    waiting=
    for p in $(children $launcher); do [ "$(children $p)" ] || waiting="$waiting $p"; done
    [ "$waiting" ] && break
done
"#;

#[tokio::test]
async fn a_command_that_kills_its_supervisor_leaves_nothing() {
    for (victim, follows) in [(SUPERVISOR, false), (GUARD, true), (LAUNCHER, true)] {
        let rig = Rig::new();
        let token = CancellationToken::new();
        let (gate, go) = (rig.gate("tree"), rig.gate("go"));
        let spec = rig.spec(&tree_then(&format!("read line <go; kill -9 {victim}; sleep 600")));
        let act = async {
            let reader = standing(&rig, &gate).await;
            apart(move || fs_err::write(go, "go\n").unwrap()).await;
            if follows {
                token.cancel();
            }
            fallen(reader).await;
        };
        let (end, ()) = tokio::join!(rig.processes.run(spec, token.clone(), |_| ()), act);
        assert_eq!(rig.marked(), Vec::<String>::new(), "{victim}");
        match end {
            Ok(finished) => assert!(follows && finished.cancelled && finished.left == 0),
            Err(error) => {
                let text = error.to_string();
                assert!(!follows && text.contains("all processes of the command"), "{text}");
            }
        }
    }
}

#[tokio::test]
async fn a_command_that_stops_its_supervisor_is_still_ended() {
    for victims in [
        SUPERVISOR.to_owned(),
        GUARD.to_owned(),
        LAUNCHER.to_owned(),
        format!("{SUPERVISOR} {GUARD}"),
        format!("{LAUNCHER} {GUARD} {SUPERVISOR}"),
    ] {
        let rig = Rig::new();
        let token = CancellationToken::new();
        let (gate, done) = (rig.gate("tree"), rig.gate("done"));
        let command = tree_then(&format!("kill -STOP {victims}; echo stopped >done; sleep 600"));
        let finished =
            beside(rig.processes.run(rig.spec(&command), token.clone(), |_| ()), async {
                standing(&rig, &gate).await;
                assert!(apart(move || GateReader::open(&done).line()).await.is_some());
                token.cancel();
            })
            .await;
        assert_eq!(rig.marked(), Vec::<String>::new(), "{victims}");
        assert!(finished.cancelled && finished.left == 0, "{victims}: {finished:?}");
    }
}

#[tokio::test]
async fn a_stopped_supervisor_does_not_hold_the_end_of_a_call() {
    // No time-out can pass on this clock: what stays stopped would hang here.
    for victim in [SUPERVISOR, GUARD, LAUNCHER] {
        let finished = Rig::new().run(&format!("kill -STOP {victim}; echo hi")).await.unwrap();
        assert_eq!((finished.exit_code, text(&finished).as_str()), (Some(0), "hi\n"), "{victim}");
    }
}

/// The launcher is started again and nothing is said of it, nor of the process that waits beside it for
/// the next command; stopped ones are woken.
#[tokio::test]
async fn a_command_that_kills_or_stops_the_launcher_harms_no_other() {
    for act in [
        format!("kill -KILL {LAUNCHER}"),
        format!("kill -STOP {LAUNCHER}"),
        format!("{FIND_WAITING} kill -KILL $waiting"),
        format!("{FIND_WAITING} kill -STOP $waiting"),
        format!("{FIND_WAITING} kill -KILL {LAUNCHER} $waiting"),
        format!("{FIND_WAITING} kill -STOP {LAUNCHER} $waiting"),
    ] {
        let rig = Rig::new();
        let token = CancellationToken::new();
        let (gate, done) = (rig.gate("tree"), rig.gate("done"));
        let command = tree_then(&format!("{act}; echo >done; sleep 600"));
        let finished =
            beside(rig.processes.run(rig.spec(&command), token.clone(), |_| ()), async {
                standing(&rig, &gate).await;
                assert!(apart(move || GateReader::open(&done).line()).await.is_some());
                for round in 0..5 {
                    // As the last it does: the next one comes while the launcher is about to end.
                    let finished = rig.run(&format!("echo {round}; {act}")).await.unwrap();
                    assert_eq!(text(&finished), format!("{round}\n"), "{act}");
                }
                token.cancel();
            })
            .await;
        assert!(finished.cancelled && finished.left == 0, "{act}: {finished:?}");
        assert_eq!(rig.marked(), Vec::<String>::new(), "{act}");
        rig.processes.close().await;
    }
}

/// What waits for a command has nothing of those that ran before or run beside it, and takes nothing of
/// them along when it becomes the guard of one.
#[tokio::test]
async fn what_waits_for_a_command_has_nothing_of_another() {
    let rig = Rig::new();
    let token = CancellationToken::new();
    let gate = rig.gate("up");
    let spec = rig.spec("echo >up; exec sleep 600");
    beside(rig.processes.run(spec, token.clone(), |_| ()), async {
        assert!(apart(move || GateReader::open(&gate).line()).await.is_some());
        let look = format!(
            "{FIND_WAITING}
            for p in $launcher $waiting; do echo $(cd /proc/$p/fd; readlink *); done
            tr '\\0' ' ' </proc/${{waiting# }}/environ; readlink /proc/${{waiting# }}/cwd"
        );
        for _ in 0..3 {
            let output = text(&rig.run(&look).await.unwrap());
            let lines: Vec<&str> = output.lines().collect();
            let [launcher, waiting, cwd] = lines[..] else { panic!("{output}") };
            let (nothing, note) = ("/dev/null", "anon_inode:[eventfd]");
            let words: Vec<&str> = waiting.split_whitespace().collect();
            assert_eq!(words[1..], [nothing, nothing, note], "{output}");
            assert!(launcher.starts_with(&format!("{} {nothing} {nothing} {note}", words[0])));
            assert_eq!(cwd, "/", "{output}");
        }
        token.cancel();
    })
    .await;
}

/// A command gets away from both that watch over it: what it leaves ends with the agent at last.
#[tokio::test]
async fn what_lost_its_supervisor_and_its_guard_ends_with_the_host() {
    let rig = Rig::new();
    let (gate, go) = (rig.gate("tree"), rig.gate("go"));
    let command = tree_then(&format!("read line <go; kill -9 {GUARD} {SUPERVISOR}; sleep 600"));
    let (error, reader) = tokio::join!(rig.run(&command), async {
        let reader = standing(&rig, &gate).await;
        apart(move || fs_err::write(go, "go\n").unwrap()).await;
        reader
    });
    assert!(error.unwrap_err().to_string().contains("processes may be left"));
    assert!(rig.marked().len() >= MEMBERS);
    tokio::join!(rig.processes.close(), fallen(reader));
    assert_eq!(rig.marked(), Vec::<String>::new());
}

#[tokio::test]
async fn a_host_killed_together_with_a_supervisor_leaves_nothing() {
    for end in [
        format!("kill -9 $host {SUPERVISOR}"),
        format!("kill -9 $host {GUARD}"),
        format!("kill -9 $host {LAUNCHER}"),
        format!("kill -9 {LAUNCHER}; kill -9 $host {SUPERVISOR}"),
        format!("kill -STOP {SUPERVISOR} {GUARD}; kill -9 $host"),
        format!("kill -STOP {LAUNCHER} {GUARD} {SUPERVISOR}; kill -9 $host"),
    ] {
        killed_host(&format!("read host <go; {end}; sleep 600")).await;
    }
}

/// The launcher and what waits beside it for a command end with their host, also when both were stopped.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the host is killed, so it must be a process")]
async fn what_waits_for_a_command_ends_with_the_host() {
    for stopped in ["$waiting", "$waiting $launcher"] {
        let rig = Rig::new();
        let (gate, go) = (rig.gate("tree"), rig.gate("go"));
        let script = format!(
            "{FIND_WAITING} kill -STOP {stopped}; echo $launcher $waiting >tree; read host <go; \
             kill -9 $host"
        );
        let host = tokio::process::Command::new(probe())
            .args(["host", &marked_script(&rig, &script)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        let mut host = host.unwrap();
        let number = host.id().unwrap();
        let line = apart(move || GateReader::open(&gate).line()).await.unwrap();
        let handles: Vec<OwnedFd> = line.split(' ').map(handle).collect();
        assert_eq!(handles.len(), 2, "{line}");
        apart(move || fs_err::write(go, format!("{number}\n")).unwrap()).await;
        host.wait().await.unwrap();
        // One that does not end would hang here.
        apart(move || handles.iter().for_each(ended)).await;
    }
}

#[tokio::test]
async fn a_background_process_that_holds_the_pipe_does_not_hold_the_call() {
    let rig = Rig::new();
    for command in ["sleep 600 & echo hi", "setsid sleep 600 & echo hi", "(sleep 600 &) ; echo hi"]
    {
        // No time-out can pass on this clock: were the end of the pipe awaited, this would hang.
        let finished = rig.run(command).await.unwrap();
        assert_eq!(text(&finished), "hi\n", "{command}");
        assert_eq!((finished.exit_code, finished.survivors), (Some(0), 1), "{command}");
    }
    assert_eq!(rig.marked(), Vec::<String>::new());
}

#[tokio::test]
async fn output_that_trails_the_command_is_kept() {
    let finished = Rig::new().run("echo one > >(cat; echo two)").await.unwrap();
    assert_eq!(text(&finished), "one\ntwo\n");
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the host counts its own children")]
async fn many_commands_at_once_leave_no_zombie() {
    let output = tokio::process::Command::new(probe())
        .args(["crowd", "sleep 600 & (true &); echo here", "50"])
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.matches("here\n").count(), 50, "{text}");
    assert!(text.ends_with("children: 0\n"), "{text}");
}

/// A host is killed while its launcher starts one command after the other. The launcher is the last to end.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the host is killed, so it must be a process")]
async fn a_host_killed_while_commands_start_leaves_nothing() {
    for started in [1, 2, 5, 10] {
        let rig = Rig::new();
        let gate = rig.gate("tree");
        let script = format!("exec 9>tree; echo {LAUNCHER} >&9; exec sleep 600");
        let mut host = tokio::process::Command::new(probe())
            .args(["crowd", &marked_script(&rig, &script), "20"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (mut reader, launcher) = apart(move || {
            let mut reader = GateReader::open(&gate);
            let mut lines = (0..started).map(|_| reader.line().expect("one command is up"));
            let launcher = handle(&lines.next().unwrap());
            lines.for_each(drop);
            (reader, launcher)
        })
        .await;
        host.kill().await.unwrap();
        apart(move || {
            while reader.line().is_some() {}
            ended(&launcher);
        })
        .await;
        assert_eq!(rig.marked(), Vec::<String>::new(), "killed after {started}");
    }
}

/// No command has a descriptor of another, and nobody but the command has its output pipe.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the commands share a host")]
async fn commands_at_once_have_no_descriptor_in_common() {
    // A helper may be about to close what it has just handed on, so it is looked at again.
    let look = format!(
        "readlink /proc/$$/fd/1
        for p in {SUPERVISOR} {GUARD} {LAUNCHER}; do
            for i in {{1..200}}; do
                links=$(readlink /proc/$p/fd/*)
                case $links in *pipe*|*socket*socket*) ;; *) break ;; esac
            done
            echo $links
        done"
    );
    let mut host = tokio::process::Command::new(probe());
    let output = host.args(["crowd", &look, "20"]).output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut own = std::collections::HashSet::new();
    for look in text.split("\n\n").filter(|look| look.starts_with("pipe")) {
        let lines: Vec<&str> = look.lines().collect();
        let [pipe, supervisor, guard, launcher] = lines[..] else { panic!("{text}") };
        for helper in [supervisor, guard, launcher] {
            assert!(helper.starts_with("socket") && !helper.contains("pipe:"), "{look}");
            assert_eq!(helper.matches("socket").count(), 1, "{look}");
        }
        let socket = |helper: &str| helper.split_whitespace().next().unwrap().to_owned();
        assert_eq!(socket(supervisor), socket(guard), "{look}");
        assert_ne!(socket(guard), socket(launcher), "{look}");
        assert!(own.insert(socket(guard)) && own.insert(pipe.to_owned()), "{text}");
    }
    assert_eq!(own.len(), 2 * 20, "{text}");
}
