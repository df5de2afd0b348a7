//! What survives the process: loading after an orderly end, after kill -9, and beside a second
//! process.

use std::time::Duration;

use bridle_model_server::{Answer, Gate, Script};
use bridle_tests::{Permission, wait_until_gone};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::scene::{Scene, endless, read_edit_then_done};

/// B046, B047: a new process replays what the old one showed, before the response.
#[tokio::test]
async fn load_replays_the_conversation_before_its_response() {
    let edits = json!([{"old_text": "two", "new_text": "zwei"}]);
    let scene = Scene::new(read_edit_then_done("a.txt", edits)).await;
    scene.place.write("a.txt", "one\ntwo\n");
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "please translate").await.ok();
    let live = client.finish(&scene.place).await;

    let mut client = scene.client().await;
    client.load(&scene.place, &session).await.ok();
    assert_eq!(client.prompt(&session, "more").await.stop_reason(), "end_turn");
    let again = client.finish(&scene.place).await;

    let user = again.updates_of(&session, "user_message_chunk");
    assert!(user[0]["content"]["text"].as_str().unwrap().contains("please translate"));
    assert!(again.text(&session).starts_with(&live.text(&session)));
    let (before, after) = (&live.tool_calls(&session)[1], &again.tool_calls(&session)[1]);
    for field in ["toolCallId", "kind", "title", "status", "content", "locations"] {
        assert_eq!(before[field], after[field], "{field}");
    }
    scene.assert_lawful();
}

/// B014: what is advertised works in a new process, and the model sees the old turn.
#[tokio::test]
async fn the_model_sees_the_old_turn_after_a_restart() {
    let scene = Scene::new(Script::new().reply(Answer::new().text("first-answer"))).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "first-question").await.ok();
    client.signal(Signal::KILL);
    client.wait().await;
    let mut client = scene.client().await;
    client.load(&scene.place, &session).await.ok();
    client.prompt(&session, "second-question").await.ok();
    client.finish(&scene.place).await;
    let sent = scene.requests()[1]["messages"].to_string();
    for part in ["first-question", "first-answer", "second-question"] {
        assert!(sent.contains(part), "{part}");
    }
    scene.assert_lawful();
}

/// B034, B041: kill -9 while a command runs. Every event that was acknowledged is there, the open
/// call is repaired, the strict model takes the next prompt, and no process is left.
#[tokio::test]
async fn kill_9_while_a_command_runs_loses_nothing_that_was_acknowledged() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "warm up").await.ok();
    let call = json!([{"name": "shell", "args": endless(&scene.place)}]);
    let directive = format!(
        "go [[mock {}]]",
        json!({"steps": [
            {"thinking": "hm", "text": "I run it.", "tool_calls": call}, {"text": "after all"}
        ]})
    );
    client.begin_prompt(&session, &directive).await;
    scene.place.appears(&format!("started-{}", scene.place.mark())).await;
    let acknowledged = scene.log(&session);
    let running = scene.place.processes();
    client.signal(Signal::KILL);
    let (_, trace) = client.wait().await;
    for process in &running {
        assert!(wait_until_gone(process, Duration::from_secs(10)), "{process:?} survives");
    }
    let types = |events: &[Value]| -> Vec<Value> {
        events.iter().map(|event| event["type"].clone()).collect()
    };
    assert!(types(&acknowledged).contains(&json!("tool/call")), "the intent is durable first");

    let mut client = scene.client().await;
    client.load(&scene.place, &session).await.ok();
    assert_eq!(client.prompt(&session, "and now?").await.stop_reason(), "end_turn");
    let again = client.finish(&scene.place).await;
    let log = scene.log(&session);
    assert_eq!(log[..acknowledged.len()], acknowledged, "an acknowledged event is lost");
    let results = scene.events(&session, "tool/result");
    assert_eq!(results[0]["data"]["error"], "TOOL_OUTCOME_UNKNOWN", "{results:?}");
    assert!(again.text(&session).starts_with(&trace.text(&session)));
    scene.assert_lawful();
}

/// kill -9 while a question is open: the command never ran, and the log says so.
#[tokio::test]
async fn kill_9_while_a_question_is_open_leaves_the_call_unstarted() {
    let scene = Scene::new(Script::new().rule(
        "go",
        [
            Answer::new().tool_call("shell", json!({"command": "touch never.txt"})),
            Answer::new().text("repaired"),
        ],
    ))
    .await;
    let (mut client, session) = scene.session().await;
    client.set_permission(Permission::Hold);
    client.begin_prompt(&session, "go").await;
    client.question().await;
    client.signal(Signal::KILL);
    client.wait().await;
    let mut client = scene.client().await;
    client.set_permission(Permission::Reject);
    client.load(&scene.place, &session).await.ok();
    assert_eq!(client.prompt(&session, "next").await.stop_reason(), "end_turn");
    let trace = client.finish(&scene.place).await;
    assert!(!scene.place.workspace().join("never.txt").exists());
    assert!(trace.tool_calls(&session).iter().all(|call| call["status"] == "failed"));
    scene.assert_lawful();
}

/// kill -9 in the middle of a stream, again and again, on the same session.
#[tokio::test]
async fn kill_9_in_mid_stream_again_and_again() {
    let gate = Gate::new();
    let answer = Answer::new().thinking("hm").text_in(10, "0123456789").hold_after(6, &gate);
    // A prompt that was never answered goes out again with the next one, so the order matters.
    let script = Script::new().rule("fine?", [Answer::new().text("fine")]).rule("go", [answer]);
    let scene = Scene::new(script).await;
    let (client, session) = scene.session().await;
    drop(client.finish(&scene.place).await);
    for _ in 0..bridle_tests::rounds(5, 150) {
        let mut client = scene.client().await;
        client.load(&scene.place, &session).await.ok();
        assert_eq!(client.prompt(&session, "fine?").await.stop_reason(), "end_turn");
        client.begin_prompt(&session, "go").await;
        client
            .wait_for("the fresh answer", |trace| {
                trace.text(&session).ends_with(['0', '1', '2', '3', '4']).then_some(())
            })
            .await;
        client.signal(Signal::KILL);
        client.wait().await;
    }
    scene.assert_lawful();
}

/// What a person saw of an answer outlives kill -9 in mid-stream, and the model sees it too.
#[tokio::test]
async fn kill_9_in_mid_stream_keeps_what_was_shown() {
    let gate = Gate::new();
    let answer = "shown text ".repeat(2_000);
    let script = Script::new()
        .rule("and?", [Answer::new().text("more")])
        .rule("go", [Answer::new().text_in(100, &answer).hold_after(90, &gate)]);
    let scene = Scene::new(script).await;
    let (mut client, session) = scene.session().await;
    client.begin_prompt(&session, "go").await;
    // Nobody asks for a flush: the pieces are recorded and made durable while nothing happens.
    let durable = async {
        loop {
            let output =
                scene.place.launch(["sessions", "show", "--json", &session]).output().await;
            let log = String::from_utf8(output.stdout).unwrap();
            let pieces = log.lines().filter(|line| line.contains(r#""type":"assistant/partial""#));
            if pieces.map(|piece| piece.matches("shown text").count()).sum::<usize>() >= 1_795 {
                return;
            }
        }
    };
    tokio::time::timeout(bridle_tests::DEADLINE, durable).await.expect("everything shown is kept");
    client.signal(Signal::KILL);
    let (_, before) = client.wait().await;
    let mut client = scene.client().await;
    client.load(&scene.place, &session).await.ok();
    assert_eq!(client.prompt(&session, "and?").await.stop_reason(), "end_turn");
    let again = client.finish(&scene.place).await;
    let rest = again.text(&session).split_off(before.text(&session).len());
    assert!(again.text(&session).starts_with(&before.text(&session)));
    assert_eq!(rest, "*Warning: This turn was broken off: Bridle was stopped.*\n\nmore");
    let sent = scene.requests().pop().unwrap()["messages"].to_string();
    assert!(sent.contains(&before.text(&session)));
    scene.assert_lawful();
}

/// B038: a session that is open elsewhere is refused with the holder's pid; nothing is lost.
#[tokio::test]
async fn a_session_open_elsewhere_is_refused_with_the_pid() {
    let scene = Scene::new(Script::new()).await;
    let (mut first, session) = scene.session().await;
    first.prompt(&session, "hi").await.ok();
    let mut second = scene.client().await;
    let error = second.load(&scene.place, &session).await.error();
    assert!(error["message"].as_str().unwrap().contains(&first.pid().to_string()), "{error}");
    assert_eq!(error["data"]["pid"], first.pid(), "{error}");
    second.finish_beside().await;
    assert_eq!(first.prompt(&session, "still there?").await.stop_reason(), "end_turn");
    first.finish(&scene.place).await;
    let mut third = scene.client().await;
    third.load(&scene.place, &session).await.ok();
    third.finish(&scene.place).await;
}

/// B049: the stored folder and the requested one must be the same; the error names the stored one.
#[tokio::test]
async fn loading_from_another_folder_is_refused() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "hi").await.ok();
    client.finish(&scene.place).await;
    let other = scene.place.user_home().join("other");
    fs_err::create_dir(&other).unwrap();
    let mut client = scene.client().await;
    let params = json!({"sessionId": session, "cwd": other, "mcpServers": []});
    let error = client.request("session/load", params).await.error();
    assert_eq!(error["code"], -32602);
    let text = error.to_string();
    assert!(text.contains("/workspace"), "{text}");
    client.finish(&scene.place).await;
}

/// B040: a torn tail is set aside and said, never fatal.
#[tokio::test]
async fn a_torn_tail_is_repaired() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "hi").await.ok();
    client.finish(&scene.place).await;
    let path = scene.place.sessions().join(&session).join("events.v1.jsonl.zst");
    let mut bytes = fs_err::read(&path).unwrap();
    bytes.extend_from_within(..9);
    fs_err::write(&path, bytes).unwrap();
    let mut client = scene.client().await;
    client.load(&scene.place, &session).await.ok();
    assert_eq!(client.prompt(&session, "again").await.stop_reason(), "end_turn");
    client.finish(&scene.place).await;
    assert!(scene.log(&session).len() > 5, "the log is whole again");
    scene.assert_lawful();
}

/// B040: damage in the middle takes one batch and nothing behind it. The person, the model and
/// `verify` are told, and the strict model takes the next prompt.
#[tokio::test]
async fn damage_in_the_middle_is_a_gap() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    for prompt in ["first", "second", "third"] {
        client.prompt(&session, prompt).await.ok();
    }
    client.finish(&scene.place).await;
    let path = scene.place.sessions().join(&session).join("events.v1.jsonl.zst");
    let mut bytes = fs_err::read(&path).unwrap();
    let magic = [0x28, 0xB5, 0x2F, 0xFD];
    let starts = bytes.windows(4).enumerate().filter(|(_, window)| *window == magic);
    let at = starts.map(|(at, _)| at).nth(2).unwrap();
    bytes[at + 8] ^= 0xFF;
    fs_err::write(&path, &bytes).unwrap();

    let told = async |action: &[&str]| {
        let words = [&["sessions"], action, &[session.as_str()]].concat();
        let output = scene.place.launch(words).output().await;
        String::from_utf8(output.stdout).unwrap()
    };
    let said = told(&["verify"]).await;
    assert!(said.contains(&format!("damaged from byte {at} for ")), "{said}");
    let mut client = scene.client().await;
    client.load(&scene.place, &session).await.ok();
    assert_eq!(client.prompt(&session, "fourth").await.stop_reason(), "end_turn");
    let again = client.finish(&scene.place).await;
    assert!(again.text(&session).contains("damaged on the disk"), "{}", again.text(&session));
    let log = told(&["show", "--json"]).await;
    assert_eq!(log.matches(r#""type":"log/gap""#).count(), 1, "{log}");
    assert!(log.contains(r#""reason":"damaged""#), "{log}");
    let sent = scene.requests().pop().unwrap()["messages"].to_string();
    for part in ["third", "damaged on the disk", "fourth"] {
        assert!(sent.contains(part), "{part}: {sent}");
    }
    assert!(fs_err::read(&path).unwrap().starts_with(&bytes), "the damaged place was written to");
    scene.assert_lawful();
}

#[tokio::test]
async fn sessions_are_listed_with_title_and_folder() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "Name of the first prompt").await.ok();
    client.finish(&scene.place).await;
    let mut client = scene.client().await;
    let result = client.request("session/list", json!({})).await.ok();
    let row = &result["sessions"][0];
    assert_eq!(row["sessionId"], session);
    assert_eq!(row["cwd"], json!(scene.place.workspace()));
    assert!(row["title"].as_str().unwrap().contains("Name of the first prompt"), "{row}");
    let elsewhere = client.request("session/list", json!({"cwd": "/no/such"})).await.ok();
    assert_eq!(elsewhere["sessions"], json!([]));
    client.finish(&scene.place).await;
}
