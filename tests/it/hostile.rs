//! A client that keeps no rule: it stops reading, or closes its side at any point of the talk.

use std::time::Duration;

use bridle_model_server::{Answer, Gate, Script};
use bridle_tests::{Client, DEADLINE, Permission, Process, RequestId, wait_until_gone};
use serde_json::json;

use crate::outputs::peak;
use crate::scene::{Scene, endless, reached};

/// How long the agent has to do what it must not: to take in all of an answer that nobody reads.
const PATIENCE: Duration = Duration::from_secs(2);

/// What it may hold of such an answer in its queues, in KiB.
const HELD: u64 = 40 * 1024;

/// More than the agent may hold, in pieces of 8 KiB.
const PIECES: usize = 4096;
const PIECE: usize = 8 * 1024;

/// See [`stuck`].
struct Stuck {
    scene: Scene,
    client: Client,
    session: String,
    turn: RequestId,
    last: Gate,
    /// The most memory before the answer, in KiB.
    idle: u64,
}

/// An agent with a client that has stopped reading in the middle of an answer of 32 MiB; the gate
/// stands before its last piece.
async fn stuck() -> Stuck {
    let last = Gate::new();
    let answer = Answer::new().burst(PIECES, PIECE).hold_after(PIECES - 1, &last);
    let scene = Scene::new(Script::new().reply(Answer::new().text("small")).reply(answer)).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "small").await.ok();
    let idle = peak(&client);
    let turn = client.begin_prompt(&session, "large").await;
    client
        .wait_for("a piece", |trace| trace.text(&session).get("small".len() + 1..).map(drop))
        .await;
    client.set_reading(false);
    Stuck { scene, client, session, turn, last, idle }
}

/// B137: what is not read is not taken from the model either, and nothing of it is lost.
#[tokio::test]
async fn a_reader_that_stops_costs_no_memory_and_loses_nothing() {
    let Stuck { scene, client, session, turn, last, idle } = stuck().await;
    let taken = tokio::time::timeout(PATIENCE, last.reached()).await;
    assert!(taken.is_err(), "the agent has taken in all that its client does not read");
    let after = peak(&client);
    println!("{idle} KiB at most before, {after} KiB with a reader that has stopped");
    assert!(after < idle + HELD, "memory grows from {idle} to {after} KiB");
    last.open();
    client.set_reading(true);
    assert_eq!(client.reply(&turn).await.stop_reason(), "end_turn");
    let trace = client.finish(&scene.place).await;
    let text = trace.text(&session);
    let text = text.strip_prefix("small").unwrap().as_bytes();
    assert_eq!(text.len(), PIECES * PIECE);
    for (number, piece) in text.chunks(PIECE).enumerate() {
        assert!(piece.starts_with(format!("{number:07}").as_bytes()), "piece {number}");
    }
}

/// B137: a cancel passes what is not read, and the turn ends without the rest of its answer.
#[tokio::test]
async fn a_cancel_reaches_an_agent_whose_reader_has_stopped() {
    let Stuck { scene, client, session, turn, last: _last, .. } = stuck().await;
    client.cancel(&session).await;
    client.set_reading(true);
    assert_eq!(client.reply(&turn).await.stop_reason(), "cancelled");
    client.finish(&scene.place).await;
}

/// A client that closes its side and reads nothing more holds nobody up.
#[tokio::test]
async fn a_reader_that_has_stopped_and_closes_is_left() {
    let Stuck { scene, mut client, last, .. } = stuck().await;
    let taken = tokio::time::timeout(PATIENCE, last.reached()).await;
    assert!(taken.is_err(), "the agent has taken in all that its client does not read");
    let agent = Process { pid: client.pid(), parent: 0, command: "bridle".into() };
    client.close_stdin().await;
    assert!(wait_until_gone(&agent, DEADLINE), "the agent waits for its reader");
    client.set_reading(true);
    let (status, trace) = client.wait().await;
    assert!(status.success(), "{status}\n{}", trace.stderr());
    assert_eq!(scene.place.processes(), []);
}

/// An answer in pieces so large that few of them are all that a session may hold, and the piece at which
/// more is under way than that and what the sockets take.
const LARGE: usize = 512 * 1024;
const LARGE_PIECES: usize = 64;
const TOO_MANY: usize = 48;

/// B137: what waits for a reader is bounded in bytes for each session, however few pieces that are.
#[tokio::test]
async fn a_reader_that_stops_costs_no_memory_however_large_the_pieces_are() {
    let gates = [Gate::new(), Gate::new()];
    let script = gates.iter().fold(Script::new().reply(Answer::new().text("small")), |it, gate| {
        it.reply(Answer::new().burst(LARGE_PIECES, LARGE).hold_after(TOO_MANY, gate))
    });
    let scene = Scene::new(script).await;
    let (mut client, first) = scene.session().await;
    client.prompt(&first, "small").await.ok();
    let second = client.new_session(&scene.place).await;
    let idle = peak(&client);
    client.set_reading(false);
    let turns = [
        (client.begin_prompt(&first, "large").await, first),
        (client.begin_prompt(&second, "large").await, second),
    ];
    let taken = tokio::time::timeout(3 * PATIENCE, gates[0].reached()).await;
    assert!(taken.is_err(), "the agent has taken in all that its client does not read");
    let after = peak(&client);
    println!("{idle} KiB at most before, {after} KiB with two sessions that nobody reads");
    assert!(after < idle + 2 * HELD, "memory grows from {idle} to {after} KiB");
    gates.iter().for_each(Gate::open);
    client.set_reading(true);
    for (turn, session) in turns {
        assert_eq!(client.reply(&turn).await.stop_reason(), "end_turn");
        client
            .wait_for("all of it", |trace| {
                (trace.text(&session).len() >= LARGE * LARGE_PIECES).then_some(())
            })
            .await;
    }
    client.finish(&scene.place).await;
}

/// The same when there is still room in the agent's queues, so that no session has to wait.
#[tokio::test]
async fn a_reader_that_has_stopped_early_and_closes_is_left() {
    let gate = Gate::new();
    // One piece is more than the pipe and the client's own buffer hold.
    let answer = Answer::new().burst(4, 32 * PIECE).hold_after(3, &gate);
    let scene = Scene::new(Script::new().reply(answer)).await;
    let (mut client, session) = scene.session().await;
    let agent = Process { pid: client.pid(), parent: 0, command: "bridle".into() };
    client.read_until("agent_message_chunk");
    client.begin_prompt(&session, "go").await;
    client.wait_for("a piece", |trace| (!trace.text(&session).is_empty()).then_some(())).await;
    reached(&gate).await;
    client.unread().await;
    client.close_stdin().await;
    let gone = tokio::task::spawn_blocking(move || wait_until_gone(&agent, DEADLINE));
    assert!(gone.await.unwrap(), "the agent waits for its reader");
    client.set_reading(true);
    let (status, trace) = client.wait().await;
    assert!(status.success(), "{status}\n{}", trace.stderr());
    assert_eq!(scene.place.processes(), []);
}

/// A question that nobody ever answers holds up its own turn and nothing else, and goes with its
/// session.
#[tokio::test]
async fn a_question_without_an_answer_holds_up_nobody_else() {
    let asks = Answer::new()
        .tool_call("shell", json!({"command": "touch asked", "needs": ["unconfined"]}));
    let scene = Scene::new(Script::new().reply(asks)).await;
    let (mut client, silent) = scene.session().await;
    client.set_permission(Permission::Hold);
    let turn = client.begin_prompt(&silent, "ask").await;
    client.question().await;
    let other = client.new_session(&scene.place).await;
    assert_eq!(client.prompt(&other, "hi").await.stop_reason(), "end_turn");
    client.request("session/close", json!({"sessionId": silent})).await.ok();
    assert_eq!(client.reply(&turn).await.stop_reason(), "cancelled");
    client.finish(&scene.place).await;
    assert!(!scene.place.workspace().join("asked").exists());
}

/// Whatever is open when the input ends is given up, and the next process finds all sessions.
#[tokio::test]
async fn the_input_may_end_behind_any_message() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "hi").await.ok();
    client.finish(&scene.place).await;
    let cwd = scene.place.workspace();
    let at = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
    let calls = [
        ("initialize", json!({"protocolVersion": 1})),
        ("session/new", json!({"cwd": cwd, "mcpServers": []})),
        ("session/list", json!({})),
        ("session/load", at.clone()),
        ("session/resume", at.clone()),
        ("session/close", json!({"sessionId": session})),
        ("session/delete", json!({"sessionId": session})),
    ];
    for (method, params) in calls {
        let mut client = match method {
            "initialize" => Client::start(&scene.place.acp(&scene.model.url())),
            _ => scene.client().await,
        };
        if matches!(method, "session/close" | "session/delete") {
            client.load(&scene.place, &session).await.ok();
        }
        client.begin(method, params).await;
        client.finish(&scene.place).await;
    }
    // Whether the last call was still carried out is open; the session is whole, or gone.
    let mut client = scene.client().await;
    let listed = client.request("session/list", json!({})).await.ok();
    match listed["sessions"].as_array().map(Vec::len) {
        Some(1) => drop(client.load(&scene.place, &session).await.ok()),
        other => assert_eq!(other, Some(0), "{listed}"),
    }
    client.finish(&scene.place).await;
}

/// The same in the middle of a turn: before the model has heard of it, while it answers, while a
/// question is open, while a tool runs, and in the middle of a line.
#[tokio::test]
async fn the_input_may_end_in_any_part_of_a_turn() {
    for part in ["begin", "stream", "question", "tool", "line"] {
        let gate = Gate::new();
        let scene = Scene::new(Script::new()).await;
        match part {
            "begin" => {}
            "stream" => {
                scene.model.push(Answer::new().text_in(2, "half of it").hold_after(1, &gate));
            }
            _ => scene.model.push(Answer::new().tool_call("shell", endless(&scene.place))),
        }
        let (mut client, session) = scene.session().await;
        if part == "question" {
            client.set_permission(Permission::Hold);
        }
        client.begin_prompt(&session, "go").await;
        match part {
            "stream" => reached(&gate).await,
            "question" => drop(client.question().await),
            "tool" | "line" => {
                scene.place.appears(&format!("started-{}", scene.place.mark())).await;
            }
            _ => {}
        }
        if part == "line" {
            client.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":9,\"meth").await;
        }
        client.finish(&scene.place).await;
        let mut client = scene.client().await;
        client.load(&scene.place, &session).await.ok();
        assert_eq!(client.prompt(&session, "again").await.stop_reason(), "end_turn", "{part}");
        client.finish(&scene.place).await;
        scene.assert_lawful();
    }
}
