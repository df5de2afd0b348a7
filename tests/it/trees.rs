//! Process trees of the real binary: whatever a command started, and however its call ends, nothing
//! of it is left.

use std::io::{BufRead as _, BufReader};
use std::time::{Duration, Instant};

use bridle_model_server::{Answer, Script};
use bridle_tests::{Client, Place, Process, wait_until_gone};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::scene::{Scene, call_then_done};

/// Seven ways to get away from a parent, or not to hear of its end. Each says a line when it is in
/// place, and holds the gate.
const TREE: &str = r#"
exec 9>gate
member() { echo "$1" >&9; [ "$1" = stopped ] && kill -STOP $BASHPID; while :; do sleep 86400; done; }
export -f member
member plain-child &
setsid bash -c 'member own-session' &
( ( setsid bash -c 'member double-fork' >/dev/null 2>&1 </dev/null & ) & )
nohup bash -c 'member nohup' >/dev/null 2>&1 &
bash -c 'trap "" TERM HUP INT; member ignores-signals' &
bash -mc 'bash -c "member own-group" & wait' &
member stopped &
while :; do sleep 86400; done
"#;

/// The members of the tree.
const KINDS: [&str; 7] = [
    "double-fork",
    "ignores-signals",
    "nohup",
    "own-group",
    "own-session",
    "plain-child",
    "stopped",
];

/// A session whose command stands as a tree.
struct Standing {
    scene: Scene,
    client: Client,
    session: String,
    turn: Value,
    /// The agent, its helpers, and everything in the tree.
    processes: Vec<Process>,
}

impl Standing {
    async fn with(more: Value) -> Self {
        let scene = Scene::new(Script::new()).await;
        let mut arguments = json!({"command": TREE});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        scene.model.push(Answer::new().tool_call("shell", arguments));
        let gate = scene.place.workspace().join("gate");
        mknodat(CWD, &gate, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let (mut client, session) = scene.session().await;
        let turn = client.begin_prompt(&session, "go").await;
        let heard = tokio::task::spawn_blocking(move || {
            let lines = BufReader::new(fs_err::File::open(gate).unwrap()).lines();
            let mut kinds: Vec<_> = lines.take(KINDS.len()).map(Result::unwrap).collect();
            kinds.sort_unstable();
            kinds
        });
        assert_eq!(heard.await.unwrap(), KINDS, "the tree does not stand");
        let processes = scene.place.processes();
        assert!(processes.len() > 2 * KINDS.len(), "too little is seen: {processes:?}");
        Self { scene, client, session, turn, processes }
    }

    async fn new() -> Self {
        Self::with(json!({})).await
    }

    /// What of the tree is there now: all but the agent.
    fn left(&self) -> Vec<Process> {
        let mut left = self.scene.place.processes();
        left.retain(|process| process.pid != self.client.pid());
        left
    }

    /// Asserts that nothing is left although the agent goes on.
    async fn fell(self, by: &str) {
        assert_eq!(self.left(), [], "survivors of {by}");
        self.report(by);
        self.client.finish(&self.scene.place).await;
    }

    fn report(&self, by: &str) {
        let (kinds, count) = (KINDS.len(), self.processes.len());
        println!("tree kill by {by}: {kinds} kinds, {count} processes before, 0 after");
    }
}

#[tokio::test]
async fn a_cancel_leaves_no_descendant() {
    let standing = Standing::new().await;
    standing.client.cancel(&standing.session).await;
    assert_eq!(standing.client.reply(&standing.turn).await.stop_reason(), "cancelled");
    standing.fell("cancel").await;
}

#[tokio::test]
async fn a_time_out_leaves_no_descendant() {
    let standing = Standing::with(json!({"timeout_s": 8})).await;
    assert_eq!(standing.client.reply(&standing.turn).await.stop_reason(), "end_turn");
    let results = standing.scene.last_results();
    assert!(results.contains("timed out after 8 s"), "{results}");
    standing.fell("time-out").await;
}

#[tokio::test]
async fn closing_the_session_leaves_no_descendant() {
    let mut standing = Standing::new().await;
    let params = json!({"sessionId": standing.session});
    standing.client.request("session/close", params).await.ok();
    standing.fell("close").await;
}

#[tokio::test]
async fn the_end_of_input_leaves_no_descendant() {
    let mut standing = Standing::new().await;
    standing.client.close_stdin().await;
    standing.client.wait().await;
    assert_eq!(standing.scene.place.processes(), [], "survivors of the end of input");
    standing.report("end of input");
}

#[tokio::test]
async fn sigterm_leaves_no_descendant() {
    let mut standing = Standing::new().await;
    standing.client.signal(Signal::TERM);
    standing.client.wait().await;
    assert_eq!(standing.scene.place.processes(), [], "survivors of SIGTERM");
    standing.report("SIGTERM");
}

#[tokio::test]
async fn kill_9_leaves_no_descendant() {
    let mut standing = Standing::new().await;
    standing.client.signal(Signal::KILL);
    standing.client.wait().await;
    for process in &standing.processes {
        assert!(wait_until_gone(process, Duration::from_secs(10)), "{process:?} survives");
    }
    assert_eq!(standing.scene.place.processes(), [], "survivors of kill -9");
    standing.report("kill -9");
}

/// A job is ended with its session, however that ends, and not before.
#[tokio::test]
async fn a_job_ends_with_its_session() {
    for by in ["close", "end of input", "SIGTERM", "kill -9"] {
        let mut standing = Standing::with(json!({"background": true})).await;
        assert_eq!(standing.client.reply(&standing.turn).await.stop_reason(), "end_turn");
        standing.client.cancel(&standing.session).await;
        standing.client.prompt(&standing.session, "still there?").await.ok();
        assert!(standing.left().len() >= KINDS.len(), "the job ended with its turn");
        match by {
            "close" => {
                let params = json!({"sessionId": standing.session});
                standing.client.request("session/close", params).await.ok();
                assert_eq!(standing.left(), [], "survivors of {by}");
                standing.client.close_stdin().await;
            }
            "end of input" => standing.client.close_stdin().await,
            "SIGTERM" => standing.client.signal(Signal::TERM),
            _ => standing.client.signal(Signal::KILL),
        }
        standing.client.wait().await;
        if by == "kill -9" {
            for process in &standing.processes {
                assert!(wait_until_gone(process, Duration::from_secs(10)), "{process:?} survives");
            }
        }
        assert_eq!(standing.scene.place.processes(), [], "survivors of {by}");
        standing.report(&format!("{by} of the session of a job"));
        let outcomes: Vec<_> = standing.scene.events(&standing.session, "job/ended");
        let recorded = usize::from(by != "kill -9");
        assert_eq!(outcomes.len(), recorded, "{by}: {outcomes:?}");
    }
}

/// B068: the call is over when its own process is, whoever holds its output. The time is printed;
/// were the end of the output awaited, the turn would never end.
#[tokio::test]
async fn who_holds_the_output_does_not_hold_the_call() {
    for holder in [
        "sleep 86400 & echo hi",
        "setsid sleep 86400 & echo hi",
        "(setsid sleep 86400 &) & echo hi",
        "nohup sleep 86400 & echo hi",
    ] {
        let scene = Scene::new(call_then_done("shell", json!({"command": holder}))).await;
        let place: &Place = &scene.place;
        let (mut client, session) = scene.session().await;
        let turn = client.begin_prompt(&session, "go").await;
        let begun = status(&client, &session, "in_progress").await;
        let ended = status(&client, &session, "completed").await;
        println!("pipe holder: {:.0?} for {holder}", ended - begun);
        client.reply(&turn).await.ok();
        let results = scene.last_results();
        assert!(results.contains("hi") && results.contains("still running"), "{results}");
        assert!(place.processes().iter().all(|process| !process.command.contains("86400")));
        client.finish(place).await;
    }
}

/// Waits for a call's status, and says when it was seen.
async fn status(client: &Client, session: &str, status: &str) -> Instant {
    let has = |call: &Value| call["status"] == status;
    client.wait_for(status, |trace| trace.tool_calls(session).iter().any(has).then_some(())).await;
    Instant::now()
}
