//! Sessions: creating, loading, listing, closing, and what they are set to.

use std::sync::Arc;

use bridle_model_server::{Answer, Gate, Script};
use bridle_session::{Header, Seq, SessionId};
use serde_json::{Value, json};

use super::client::{Frozen, Place, TestClient, model};
use crate::composition::fork_header;

#[tokio::test]
async fn a_session_is_replayed_before_the_answer_and_goes_on() {
    let model = model(Script::new().otherwise(Answer::new().thinking("hm").text("hello"))).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, "first words").await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    let live_id = message_id(&client, &session, "agent_message_chunk");
    client.leave().await;

    let mut client = TestClient::ready(&place, Some(&model)).await;
    let params = json!({"sessionId": session, "cwd": place.workspace(), "mcpServers": []});
    let answer = client.call("session/load", params).await;
    assert_eq!(answer["result"]["modes"]["currentModeId"], "ask", "{answer}");
    assert_eq!(answer["result"]["configOptions"].as_array().unwrap().len(), 3);
    assert_eq!(client.text_of(&session, "user_message_chunk"), "first words");
    assert_eq!(client.text_of(&session, "agent_thought_chunk"), "hm");
    assert_eq!(client.text_of(&session, "agent_message_chunk"), "hello");
    assert_eq!(message_id(&client, &session, "agent_message_chunk"), live_id);
    assert_eq!(client.update().await["sessionUpdate"], "available_commands_update");
    let prompt = client.prompt(&session, "more words").await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    let last = model.requests().pop().unwrap();
    assert!(format!("{last:?}").contains("first words"));
    assert_eq!(model.violations(), []);
    client.leave().await;
}

fn message_id(client: &TestClient, session: &str, kind: &str) -> Value {
    let chunk = client.updates_of(session).find(|update| update["sessionUpdate"] == kind);
    chunk.unwrap()["messageId"].clone()
}

#[tokio::test]
async fn an_open_session_can_be_loaded_again_and_a_prompt_behind_the_load_waits_for_it() {
    let model = model(Script::new()).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, "words").await;
    client.stop(prompt).await;
    let params = json!({"sessionId": session, "cwd": place.workspace(), "mcpServers": []});
    let (load, line) = client.request("session/load", params);
    let (prompt, more) =
        client.request("session/prompt", super::client::prompt_params(&session, "more"));
    client.raw(line + &more).await;
    assert!(client.answer(load).await.get("result").is_some());
    assert_eq!(client.text_of(&session, "user_message_chunk"), "words");
    assert_eq!(client.stop(prompt).await, "end_turn");
    client.leave().await;
}

/// The turn goes on, and the new view misses no letter and gets none twice.
#[tokio::test]
async fn a_load_in_the_middle_of_an_answer_shows_it_so_far_and_leaves_it_running() {
    let gate = Gate::new();
    let answer = Answer::new().text_in(2, "first second").hold_after(1, &gate);
    let model = model(Script::new().reply(answer)).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, "go").await;
    while client.text_of(&session, "agent_message_chunk") != "first " {
        client.update().await;
    }
    client.trace.clear();
    let load = json!({"sessionId": session, "cwd": place.workspace(), "mcpServers": []});
    assert!(client.call("session/load", load.clone()).await.get("result").is_some());
    assert_eq!(client.text_of(&session, "user_message_chunk"), "go");
    assert_eq!(client.text_of(&session, "agent_message_chunk"), "first ");
    assert_eq!(client.update().await["sessionUpdate"], "available_commands_update");
    gate.open();
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert_eq!(client.text_of(&session, "agent_message_chunk"), "first second");
    client.trace.clear();
    client.call("session/load", load).await;
    assert_eq!(client.text_of(&session, "agent_message_chunk"), "first second");
    assert_eq!(model.requests().len(), 1);
    client.leave().await;
}

/// RESUME-001/002.
#[tokio::test]
async fn a_resumed_session_shows_nothing_again_and_remembers_everything() {
    let model = model(Script::new()).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, "first words").await;
    client.stop(prompt).await;
    let resume = json!({"sessionId": session, "cwd": place.workspace()});
    for closed_before in [false, true] {
        if closed_before {
            client.call("session/close", json!({"sessionId": session})).await;
        }
        client.trace.clear();
        let answer = client.call("session/resume", resume.clone()).await;
        assert_eq!(answer["result"]["configOptions"].as_array().unwrap().len(), 3, "{answer}");
        for kind in ["user_message_chunk", "agent_message_chunk"] {
            assert_eq!(client.text_of(&session, kind), "");
        }
    }
    let prompt = client.prompt(&session, "more words").await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert!(format!("{:?}", model.requests().pop()).contains("first words"));
    let elsewhere = json!({"sessionId": session, "cwd": "/"});
    assert_eq!(client.call("session/resume", elsewhere).await["error"]["code"], -32602);
    client.leave().await;
}

/// The parent is busy and stays so; the fork has what was on the disk, and goes its own way.
#[tokio::test]
async fn a_session_is_forked_also_while_it_is_busy() {
    let script = Script::new()
        .reply(Answer::new().text("first"))
        .reply(Answer::new().stall_after(0))
        .otherwise(Answer::new().text("second"));
    let model = model(script).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let fork = json!({"sessionId": session, "cwd": place.workspace(), "mcpServers": []});
    let error = client.call("session/fork", fork.clone()).await["error"].clone();
    assert_eq!(error["code"], -32602, "{error}");
    let prompt = client.prompt(&session, "remember me").await;
    client.stop(prompt).await;
    let busy = client.prompt(&session, "go on").await;
    model.wait_for_requests(2).await;
    let answer = client.call("session/fork", fork).await;
    let child = answer["result"]["sessionId"].as_str().expect("a session").to_owned();
    assert_ne!(child, session);
    assert_eq!(answer["result"]["configOptions"].as_array().unwrap().len(), 3);
    let prompt = client.prompt(&child, "and you?").await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert_eq!(client.text_of(&child, "agent_message_chunk"), "second");
    assert!(format!("{:?}", model.requests().pop()).contains("remember me"));
    client.cancel(&session).await;
    assert_eq!(client.stop(busy).await, "cancelled");
    for (id, cwd, code) in [
        ("00000000-0000-7000-8000-000000000000", place.workspace(), -32002),
        (&*session, "/".into(), -32602),
    ] {
        let params = json!({"sessionId": id, "cwd": cwd, "mcpServers": []});
        assert_eq!(client.call("session/fork", params).await["error"]["code"], code);
    }
    assert_eq!(model.violations(), []);
    client.leave().await;
}

/// DELETE-001/002.
#[tokio::test]
async fn a_deleted_session_is_gone_also_when_it_was_open_and_busy() {
    let model = model(Script::new().otherwise(Answer::new().stall_after(0))).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, "go").await;
    model.wait_for_requests(1).await;
    let delete = client.send("session/delete", json!({"sessionId": session})).await;
    assert_eq!(client.stop(prompt).await, "cancelled");
    assert_eq!(client.answer(delete).await["result"], json!({}));
    let list = client.call("session/list", json!({})).await;
    assert_eq!(list["result"]["sessions"], json!([]));
    for id in [session.as_str(), "00000000-0000-7000-8000-000000000000", "../x"] {
        let again = client.call("session/delete", json!({"sessionId": id})).await;
        assert_eq!(again["result"], json!({}), "{again}");
    }
    let load = json!({"sessionId": session, "cwd": place.workspace(), "mcpServers": []});
    assert_eq!(client.call("session/load", load).await["error"]["code"], -32002);
    client.leave().await;
}

#[tokio::test]
async fn a_session_that_is_open_elsewhere_is_refused_with_a_reason() {
    let model = model(Script::new()).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, "words").await;
    client.stop(prompt).await;
    // The holder never lets go and no time passes, so that nothing of this has waited.
    let mut other = TestClient::connect_at(Arc::new(Frozen), &place, Some(&model)).await;
    other.initialize().await;
    let params = json!({"sessionId": session, "cwd": place.workspace(), "mcpServers": []});
    for method in ["session/load", "session/resume", "session/delete"] {
        let error = other.call(method, params.clone()).await["error"].clone();
        assert_eq!(error["data"]["kind"], "locked", "{method}: {error}");
        assert_eq!(error["data"]["pid"], std::process::id(), "{method}: {error}");
    }
    other.leave().await;
    client.leave().await;
}

/// What another session has delegated is that session's own: a client neither sees nor opens it.
#[tokio::test]
async fn the_session_of_a_subagent_is_no_clients() {
    let model = model(Script::new()).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, "words").await;
    client.stop(prompt).await;
    let store = client.server.app.store();
    let parent = store.read(&SessionId::new(session.as_str())).unwrap().session;
    let last = Seq(parent.len().0 - 1);
    let header = Header { delegation_depth: 1, ..fork_header(parent.header(), last) };
    let child = parent.fork(header, last).unwrap();
    store.seed(&child).unwrap().flush().await.unwrap();
    let id = child.header().id.as_str();
    for method in ["session/load", "session/resume", "session/fork"] {
        let params = json!({"sessionId": id, "cwd": place.workspace(), "mcpServers": []});
        let error = client.call(method, params).await["error"].clone();
        assert_eq!(error["data"]["kind"], "subagent", "{method}: {error}");
    }
    let listed = client.call("session/list", json!({})).await["result"]["sessions"].clone();
    let ids: Vec<_> = listed.as_array().unwrap().iter().map(|row| &row["sessionId"]).collect();
    assert_eq!(ids, [&json!(session)]);
    client.leave().await;
}

/// B049. The folder is looked at first: nothing is opened or locked for a client that is wrong.
#[cfg(unix)]
#[tokio::test]
async fn a_session_is_loaded_from_its_own_folder_only_by_whatever_name() {
    let model = model(Script::new()).await;
    let place = Place::new();
    let (mut holder, session) = TestClient::with_session(&place, &model).await;
    let prompt = holder.prompt(&session, "words").await;
    holder.stop(prompt).await;
    let other = tempfile::tempdir().unwrap();
    let alias = other.path().join("alias");
    fs_err::os::unix::fs::symlink(place.workspace(), &alias).unwrap();
    let mut client = TestClient::ready(&place, Some(&model)).await;
    for method in ["session/load", "session/resume"] {
        let params = json!({"sessionId": session, "cwd": other.path(), "mcpServers": []});
        let error = client.call(method, params).await["error"].clone();
        // Not that it is locked, although it is.
        assert_eq!(error["code"], -32602, "{error}");
        let message = error["message"].as_str().unwrap();
        for folder in [other.path(), &place.workspace()] {
            assert!(message.contains(&*folder.to_string_lossy()), "{message}");
        }
        assert_eq!(error["data"]["sessionCwd"], json!(place.workspace()));
    }
    holder.leave().await;
    let params = json!({"sessionId": session, "cwd": alias, "mcpServers": []});
    let answer = client.call("session/load", params).await;
    assert!(answer.get("result").is_some(), "{answer}");
    client.leave().await;
}

#[tokio::test]
async fn unknown_sessions_and_wrong_folders_have_their_errors() {
    let model = model(Script::new()).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, "words").await;
    client.stop(prompt).await;
    let unknown = "00000000-0000-7000-8000-000000000000";
    for id in [unknown, "../../etc", ""] {
        let load = json!({"sessionId": id, "cwd": place.workspace(), "mcpServers": []});
        let answer = client.call("session/load", load).await;
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
        let answer = client.call("session/prompt", super::client::prompt_params(id, "x")).await;
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
        assert_eq!(answer["error"]["data"]["sessionId"], id);
    }
    for cwd in ["relative", "/no/such/folder"] {
        let new = json!({"cwd": cwd, "mcpServers": []});
        let answer = client.call("session/new", new).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        let load = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
        let answer = client.call("session/load", load).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    client.leave().await;
}

#[tokio::test]
async fn sessions_are_listed_with_title_and_time_and_closed_ones_can_be_loaded() {
    let model = model(Script::new()).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, "words").await;
    client.stop(prompt).await;
    let closed = client.call("session/close", json!({"sessionId": session})).await;
    assert_eq!(closed["result"], json!({}));
    let answer = client.call("session/prompt", super::client::prompt_params(&session, "x")).await;
    assert_eq!(answer["error"]["code"], -32002, "{answer}");

    let list = client.call("session/list", json!({"cwd": place.workspace()})).await;
    let row = &list["result"]["sessions"][0];
    assert_eq!(row["sessionId"], session.as_str(), "{list}");
    assert_eq!(row["cwd"], json!(place.workspace()));
    assert!(row["updatedAt"].as_str().unwrap().ends_with('Z'));
    let list = client.call("session/list", json!({"cwd": "/elsewhere"})).await;
    assert_eq!(list["result"]["sessions"], json!([]));
    let answer = client.call("session/list", json!({"cursor": "made up"})).await;
    assert_eq!(answer["error"]["code"], -32602);

    let params = json!({"sessionId": session, "cwd": place.workspace(), "mcpServers": []});
    assert!(client.call("session/load", params).await.get("result").is_some());
    client.leave().await;
}

#[tokio::test]
async fn closing_a_busy_session_answers_its_prompts_as_cancelled() {
    let model = model(Script::new().otherwise(Answer::new().stall_after(0))).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let first = client.prompt(&session, "go").await;
    let second = client.prompt(&session, "and on").await;
    model.wait_for_requests(1).await;
    let close = client.send("session/close", json!({"sessionId": session})).await;
    assert_eq!(client.answer(close).await["result"], json!({}));
    let answers: Vec<_> =
        client.trace.iter().filter(|message| message.get("method").is_none()).collect();
    let [.., one, two, _] = answers.as_slice() else { panic!("three answers: {answers:?}") };
    let mut ids = [one["id"].as_i64().unwrap(), two["id"].as_i64().unwrap()];
    ids.sort_unstable();
    assert_eq!(ids, [first, second]);
    assert_eq!(one["result"]["stopReason"], "cancelled");
    assert_eq!(two["result"]["stopReason"], "cancelled");
    client.leave().await;
}

#[tokio::test]
async fn modes_and_options_show_one_state_and_both_are_told() {
    let model = model(Script::new()).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    // Zed sends both at once right after new.
    let (mode, line) =
        client.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"}));
    let (option, more) = client.request(
        "session/set_config_option",
        json!({"sessionId": session, "configId": "mode", "value": "auto"}),
    );
    client.raw(line + &more).await;
    assert_eq!(client.answer(mode).await["result"], json!({}));
    let options = client.answer(option).await["result"]["configOptions"].clone();
    assert_eq!(options[0]["id"], "mode");
    assert_eq!(options[0]["currentValue"], "auto", "calls take effect in the order of the wire");
    assert_eq!(options[1]["category"], "model");
    let kinds = |kind: &str| {
        let updates = client.updates_of(&session).filter(|u| u["sessionUpdate"] == kind);
        updates.cloned().collect::<Vec<_>>()
    };
    let modes: Vec<_> =
        kinds("current_mode_update").iter().map(|u| u["currentModeId"].clone()).collect();
    assert_eq!(modes, ["plan", "auto"]);
    let options = kinds("config_option_update");
    assert_eq!(options.len(), 2);
    assert_eq!(options[1]["configOptions"][0]["currentValue"], "auto");

    for (method, params) in [
        ("session/set_mode", json!({"sessionId": session, "modeId": "yolo"})),
        ("session/set_mode", json!({"sessionId": session, "modeId": "full-access"})),
        (
            "session/set_config_option",
            json!({"sessionId": session, "configId": "x", "value": "auto"}),
        ),
        (
            "session/set_config_option",
            json!({"sessionId": session, "configId": "model", "value": "nobody/nothing"}),
        ),
        ("session/set_model", json!({"sessionId": session, "modelId": "nobody/nothing"})),
    ] {
        let answer = client.call(method, params).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    client.leave().await;
}

#[tokio::test]
async fn the_chosen_model_answers_the_next_prompt() {
    let model = model(Script::new()).await;
    let place = Place::new();
    let mut client = TestClient::ready(&place, Some(&model)).await;
    let new = json!({"cwd": place.workspace(), "mcpServers": []});
    let answer = client.call("session/new", new).await;
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    let option = &answer["result"]["configOptions"][1];
    let other = option["options"].as_array().unwrap().iter();
    let other =
        other.map(|option| &option["value"]).find(|value| **value != option["currentValue"]);
    let other = other.expect("more than one model").as_str().unwrap();
    // The older method that some clients still use.
    let answer =
        client.call("session/set_model", json!({"sessionId": session, "modelId": other})).await;
    assert_eq!(answer["result"], json!({}), "{answer}");
    let prompt = client.prompt(&session, "go").await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    let request = format!("{:?}", model.requests());
    assert!(request.contains(other.split_once('/').unwrap().1), "{request}");
    client.leave().await;
}

#[tokio::test]
async fn what_was_left_out_is_said_once_in_the_first_turn() {
    let gate = Gate::new();
    let held = Answer::new().text_in(2, "the answer").hold_after(1, &gate);
    let model = model(Script::new().reply(held)).await;
    let place = Place::new();
    let mut client = TestClient::ready(&place, Some(&model)).await;
    let servers = json!([
        {"type": "quantum", "name": "odd", "url": "x", "token": "SECRET"},
    ]);
    let new = json!({"cwd": place.workspace(), "mcpServers": servers});
    let answer = client.call("session/new", new).await;
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    gate.open();
    for _ in 0..2 {
        let prompt = client.prompt(&session, "go").await;
        assert_eq!(client.stop(prompt).await, "end_turn");
    }
    let text = client.text_of(&session, "agent_message_chunk");
    assert_eq!(text.matches("MCP server \"odd\" was left out").count(), 1, "{text}");
    assert!(text.find("MCP").unwrap() < text.find("the answer").unwrap());
    // A program can tell Bridle's words from the model's.
    for update in client.updates_of(&session) {
        let of_notice = update["content"]["text"].as_str().is_some_and(|text| text.contains("MCP"));
        let mark = of_notice.then_some("warning");
        assert_eq!(update.pointer("/_meta/bridle.dev~1notice").and_then(Value::as_str), mark);
    }
    let trace = format!("{:?}", client.leave().await);
    assert!(!trace.contains("SECRET"));
}

#[tokio::test]
async fn a_client_that_shows_notices_gets_one() {
    let place = Place::new();
    let mut client = TestClient::connect(&place, None).await;
    let capabilities = json!({"session": {"notices": {}}});
    let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
    client.call("initialize", params).await;
    let servers = json!([{"type": "quantum", "name": "odd", "url": "x"}]);
    client.call("session/new", json!({"cwd": place.workspace(), "mcpServers": servers})).await;
    assert_eq!(client.update().await["sessionUpdate"], "available_commands_update");
    let notice = client.update().await;
    assert_eq!(notice["sessionUpdate"], "notice");
    assert_eq!(notice["title"], "MCP server \"odd\" was left out: unknown type \"quantum\"");
    client.leave().await;
}

#[tokio::test]
async fn a_session_that_cannot_be_kept_says_what_to_set() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let folder = file.path().join("state").display().to_string();
    for (home, says) in [(None, "set HOME, or BRIDLE_HOME"), (Some(file.path()), &*folder)] {
        let place = Place::with_home(home.map(Into::into));
        let mut client = TestClient::ready(&place, None).await;
        let new = json!({"cwd": place.workspace(), "mcpServers": []});
        let answer = client.call("session/new", new).await;
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        assert_eq!(answer["error"]["data"]["kind"], "storage");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(says) && message.contains("BRIDLE_HOME"), "{message}");
        assert!(!message.contains("cwd"), "{message}");
        client.leave().await;
    }
}

#[tokio::test]
async fn an_unknown_session_is_not_said_to_be_loadable() {
    let place = Place::new();
    let mut client = TestClient::ready(&place, None).await;
    for id in ["019c0000-0000-7000-8000-000000000000", "../x"] {
        let load = json!({"sessionId": id, "cwd": place.workspace(), "mcpServers": []});
        let answer = client.call("session/load", load).await;
        assert_eq!(answer["error"]["code"], -32002);
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(!message.contains("session/load"), "{message}");
        let answer = client.call("session/prompt", super::client::prompt_params(id, "x")).await;
        assert_eq!(answer["error"]["code"], -32002);
        assert!(answer["error"]["message"].as_str().unwrap().contains("not open"), "{answer}");
    }
    client.leave().await;
}
