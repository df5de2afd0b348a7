//! Requests that a client takes back with `$/cancel_request`, at any moment: each has one answer, what
//! was taken back has left nothing, and what was done is there. Prompts: see the tests of the queue in
//! `acp-server`.

use bridle_model_server::{Answer, Script};
use bridle_tests::{Client, rounds};
use fastrand::Rng;
use serde_json::{Value, json};

use crate::mcp::server;
use crate::scene::Scene;

/// More than a reader that has stopped leaves room for, in answers of a MiB each.
const LONG: usize = 3;

/// A client with a session that is stored and not open, and an answer to `more` for as often as is
/// wanted.
async fn stored(answer: Answer, prompts: usize) -> (Scene, Client, String) {
    let scene = Scene::new(Script::new().otherwise(answer)).await;
    let (mut client, session) = scene.session().await;
    for _ in 0..prompts {
        assert_eq!(client.prompt(&session, "go").await.stop_reason(), "end_turn");
    }
    close(&mut client, &session).await;
    (scene, client, session)
}

async fn close(client: &mut Client, session: &str) {
    client.request("session/close", json!({"sessionId": session})).await.ok();
}

/// The parameters of a load, a resume or a fork, and of a new session.
fn opening(scene: &Scene, session: &str) -> Value {
    json!({
        "sessionId": session,
        "cwd": scene.place.workspace(),
        "mcpServers": [server(scene, "s", &[])],
    })
}

fn cancel(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}})
}

/// The ids of all stored sessions, newest first.
async fn listed(client: &mut Client) -> Vec<String> {
    let list = client.request("session/list", json!({})).await.ok();
    let rows = list["sessions"].as_array().unwrap().clone();
    rows.iter().map(|row| row["sessionId"].as_str().unwrap().to_owned()).collect()
}

async fn is_open(client: &mut Client, session: &str) -> bool {
    client.request("session/close", json!({"sessionId": session})).await.result().is_some()
}

fn servers(scene: &Scene) -> usize {
    let all = scene.place.processes();
    all.iter().filter(|process| process.command.contains("bridle-mcp-scripted")).count()
}

/// Whenever a request is taken back, it is either done or as if it had never been made.
#[tokio::test]
async fn a_request_is_done_or_leaves_nothing() {
    let seed = fastrand::u64(..);
    let count = rounds(60, 1_000);
    println!("seed {seed}, {count} requests");
    let mut rng = Rng::with_seed(seed);
    let (scene, mut client, base) = stored(Answer::new().text("said"), 1).await;
    let methods = ["session/new", "session/load", "session/resume", "session/fork", "session/list"];
    let (mut done, mut taken_back) = (0, 0);
    for round in 0..count {
        let method = *rng.choice(methods.as_slice()).unwrap();
        let id = json!(format!("round-{round}"));
        let request = json!({
            "jsonrpc": "2.0", "id": id, "method": method,
            "params": match method {
                "session/list" => json!({}),
                _ => opening(&scene, &base),
            },
        });
        // What stands between the two decides how far the request gets.
        let between = match rng.usize(0..4) {
            0 => 0,
            share => rng.usize(0..100) * share.pow(4),
        };
        let between = "{\"jsonrpc\":\"2.0\",\"method\":\"_nothing\"}\n".repeat(between);
        client.send_raw(format!("{request}\n{between}{}\n", cancel(&id)).as_bytes()).await;
        let reply = client.reply(&id).await;
        let result = reply.result();
        match &result {
            Some(_) => done += 1,
            None => {
                assert_eq!(reply.code(), -32800, "{method}");
                assert_eq!(servers(&scene), 0, "a server outlives {method}");
                taken_back += 1;
            }
        }
        if let Some(result) = result.as_ref().filter(|_| method != "session/list") {
            let id = result.get("sessionId").unwrap_or(&json!(base)).clone();
            assert_eq!(result["_meta"]["agentSessionId"], id, "{method}");
        }
        let opened = match (method, &result) {
            ("session/list", _) => None,
            ("session/new" | "session/fork", None) => None,
            ("session/new" | "session/fork", Some(new)) => new["sessionId"].as_str(),
            _ => Some(base.as_str()),
        };
        if let Some(opened) = opened {
            assert_eq!(is_open(&mut client, opened).await, result.is_some(), "{method}");
            if opened != base {
                client.request("session/delete", json!({"sessionId": opened})).await.ok();
            }
        }
        assert_eq!(listed(&mut client).await, [base.as_str()], "after {method}");
    }
    println!("{done} done, {taken_back} taken back");
    assert!(taken_back > 0);
    // Nothing holds the session: another process opens it.
    let mut other = scene.client().await;
    other.load(&scene.place, &base).await.ok();
    other.finish_beside().await;
    client.finish(&scene.place).await;
}

/// Whoever cancels an id that no open request has cancels nothing.
#[tokio::test]
async fn too_early_or_too_late_is_ignored() {
    let (scene, mut client, base) = stored(Answer::new().text("said"), 1).await;
    let calls = [
        ("authenticate", json!({"methodId": "configured-key"})),
        ("session/list", json!({})),
        ("session/new", opening(&scene, &base)),
        ("session/load", opening(&scene, &base)),
    ];
    for (method, params) in calls {
        let id = json!(format!("of {method}"));
        client.send(&cancel(&id)).await;
        client.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        let result = client.reply(&id).await.ok();
        client.send(&cancel(&id)).await;
        match method {
            "session/new" => {
                let session = result["sessionId"].as_str().unwrap().to_owned();
                assert_eq!(client.prompt(&session, "go").await.stop_reason(), "end_turn");
                close(&mut client, &session).await;
            }
            "session/load" => {
                assert_eq!(client.prompt(&base, "go").await.stop_reason(), "end_turn");
            }
            _ => {}
        }
    }
    client.finish(&scene.place).await;
}

/// A load whose replay nobody reads ends, and the session is as closed as it was.
#[tokio::test]
async fn a_load_is_taken_back_in_the_middle_of_its_replay() {
    let (scene, mut client, session) = stored(Answer::new().burst(8, 128 * 1024), LONG).await;
    client.take_entries();
    client.read_until("user_message_chunk");
    let load = client.begin("session/load", opening(&scene, &session)).await;
    client
        .wait_for("the replay", |trace| trace.updates_of(&session, "user_message_chunk").pop())
        .await;
    client.unread().await;
    client.send(&cancel(&load)).await;
    // Behind the cancel: it is heard of when this is answered.
    let list = client.begin("session/list", json!({})).await;
    client.set_reading(true);
    assert_eq!(client.reply(&load).await.code(), -32800);
    client.reply(&list).await.ok();
    let sent = client.trace().text(&session).len();
    assert!(sent < LONG * 1024 * 1024, "all of it was sent");
    assert_eq!(servers(&scene), 0);
    assert!(!is_open(&mut client, &session).await);
    client.load(&scene.place, &session).await.ok();
    assert_eq!(client.prompt(&session, "go").await.stop_reason(), "end_turn");
    client.finish(&scene.place).await;
}

/// The same for a session that is open: it stays so.
#[tokio::test]
async fn a_load_of_an_open_session_is_taken_back_alone() {
    let (scene, mut client, session) = stored(Answer::new().burst(8, 128 * 1024), LONG).await;
    client.load(&scene.place, &session).await.ok();
    client.take_entries();
    client.read_until("user_message_chunk");
    let load = client
        .begin(
            "session/load",
            json!({
                "sessionId": session, "cwd": scene.place.workspace(), "mcpServers": [],
            }),
        )
        .await;
    client
        .wait_for("the replay", |trace| trace.updates_of(&session, "user_message_chunk").pop())
        .await;
    client.unread().await;
    client.send(&cancel(&load)).await;
    client.set_reading(true);
    assert_eq!(client.reply(&load).await.code(), -32800);
    assert_eq!(client.prompt(&session, "go").await.stop_reason(), "end_turn");
    client.finish(&scene.place).await;
}
