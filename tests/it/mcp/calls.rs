//! Calls of a server's tool: what comes back, who permits them, how they are followed and stopped.

use bridle_model_server::{Answer, Script};
use bridle_tests::{Permission, Trace};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::Imported;
use super::configured::{launch, table};
use crate::scene::Scene;

/// M02: the first request has the tools of a server that is started meanwhile; its results come back as
/// they are meant.
#[tokio::test]
async fn a_server_s_tools_are_called_like_any_other() {
    let mut it = Imported::new(Script::new(), &[]).await;
    let result = it.call("mcp__s__echo", json!({"text": "hello"})).await;
    assert!(result.contains("hello"), "{result}");
    let offered = it.offered();
    for name in ["mcp__s__echo", "mcp__s__bash", "find_tools", "call_tool"] {
        assert!(offered.iter().any(|offered| offered == name), "{name} in {offered:?}");
    }
    for (tool, told, untold) in [
        ("fail", "it broke", "none"),
        ("both", "as text", "as\\\\\\\"data"),
        ("data", "only", "none"),
        ("aside", "for everybody", "for you alone"),
        ("link", "[resource x: file:///x (text/plain)]", "UklGRg"),
        ("link", "[resource mem://y]\\ninside", "UklGRg"),
        ("link", "[audio (audio/wav, 4 bytes) is kept in ", "UklGRg"),
        ("odd", "hologram", "none"),
        ("refuse", "not so (-32602)", "none"),
    ] {
        let result = it.call(&format!("mcp__s__{tool}"), json!({})).await;
        assert!(result.contains(told), "{tool}: {result}");
        assert!(!result.contains(untold), "{tool}: {result}");
    }
    let result = it.call("mcp__s__image", json!({})).await;
    assert!(result.contains("\"type\":\"image\""), "{result}");
    assert!(!result.contains("picture as data"), "{result}");
    it.scene.assert_lawful();
    it.client.finish(&it.scene.place).await;
}

/// Arguments of another type come back with the field, what was expected and what was found, be the tool a
/// server's or an own one; no server hears of them.
#[tokio::test]
async fn arguments_of_another_type_are_told_by_their_field() {
    let mut it = Imported::new(Script::new(), &[]).await;
    for (tool, arguments, told) in [
        ("mcp__s__echo", json!({"text": 7}), "at `text`: expected a string, found the number 7"),
        ("mcp__s__echo", json!(["x"]), "as a whole: expected an object, found an array"),
        (
            "call_tool",
            json!({"name": "mcp__s__echo", "arguments": {"text": {}}}),
            "at `text`: expected a string, found an object",
        ),
        ("read", json!({"path": ["a"]}), "at `path`: expected a string, found an array"),
        (
            "read",
            json!({"path": "a", "start_line": "first"}),
            "at `start_line`: expected an integer, found the string \\\"first\\\"",
        ),
    ] {
        let result = it.call(tool, arguments.clone()).await;
        assert!(result.contains(told), "{tool} {arguments}: {result}");
        assert!(result.contains("Nothing was done."), "{result}");
    }
    assert!(!it.heard().contains("call "), "{}", it.heard());
    it.client.finish(&it.scene.place).await;
}

/// B029: every call asks, a no reaches no server, and a mode that changes nothing lets none through.
#[tokio::test]
async fn a_call_needs_permission() {
    let mut it = Imported::new(Script::new(), &[]).await;
    it.client.set_permission(Permission::Reject);
    it.call("mcp__s__echo", json!({"text": "no"})).await;
    let late = json!({"name": "mcp__s__echo", "arguments": {"text": "no"}});
    it.call("call_tool", late).await;
    it.client.set_permission(Permission::Allow);
    it.call("mcp__s__echo", json!({"text": "yes"})).await;
    let mode = json!({"sessionId": it.session, "modeId": "read-only"});
    it.client.request("session/set_mode", mode).await.ok();
    let result = it.call("mcp__s__echo", json!({"text": "no"})).await;
    assert!(result.contains("tools of MCP servers may not be used"), "{result}");
    let heard = it.heard();
    let calls: Vec<_> = heard.lines().filter(|line| line.starts_with("call")).collect();
    assert_eq!(calls, ["call echo yes"]);
    let questions = it.client.trace().calls("session/request_permission");
    assert_eq!(questions.len(), 3);
    assert!(questions[0].to_string().contains("uses the MCP server s"), "{}", questions[0]);
    it.client.finish(&it.scene.place).await;
}

/// What a server says of its tools is shown as that, and changes nothing about who is asked.
#[tokio::test]
async fn what_a_tool_is_said_to_do_is_a_label() {
    let mut it = Imported::new(Script::new(), &["hints"]).await;
    for (tool, label) in [
        ("echo", "says of this tool that it changes nothing, which nobody has checked"),
        ("fail", "says of this tool that it may destroy something"),
        ("image", ""),
    ] {
        it.call(&format!("mcp__s__{tool}"), json!({"text": "hello"})).await;
        let question = it.client.trace().calls("session/request_permission").pop().unwrap();
        let shown = question.to_string();
        assert!(shown.contains(label), "{tool}: {question}");
        assert_eq!(shown.contains("says of this tool"), !label.is_empty(), "{question}");
    }
    assert_eq!(it.client.trace().calls("session/request_permission").len(), 3);
    it.client.finish(&it.scene.place).await;
}

/// Calls of a server overlap where its configuration says that they may, and nowhere else.
#[tokio::test]
async fn calls_overlap_where_they_may() {
    // Where they do not, the first is given up before the second comes, which then finds it waiting.
    for (more, met) in [("parallel = true", 2), ("", 1)] {
        let scene = Scene::new(Script::new()).await;
        let limits = format!("idle_timeout_s = 1\n{more}");
        scene.place.configure("config.toml", table(&scene, "s", &["tool=meet"], &limits));
        let launch = launch(&scene);
        let mut it = Imported::launched(scene, &launch, json!([])).await;
        let two = Answer::new().tool_call("mcp__s__meet", json!({"text": "one"}));
        it.scene.model.push(two.tool_call("mcp__s__meet", json!({"text": "other"})));
        it.scene.model.push(Answer::new().text("done"));
        assert_eq!(it.client.prompt(&it.session, "go").await.stop_reason(), "end_turn");
        let results = it.scene.last_results();
        assert_eq!(results.matches("\"met\"").count(), met, "{more}: {results}");
        it.client.finish(&it.scene.place).await;
    }
}

/// M12, M18: what would wait for ever is an error, and the server goes on.
#[tokio::test]
async fn a_call_that_cannot_be_answered_fails_at_once() {
    let mut it = Imported::new(Script::new(), &[]).await;
    let result = it.call("mcp__s__huge", json!({})).await;
    assert!(result.contains("16777216 are the most"), "{result}");
    let result = it.call("mcp__s__idless", json!({})).await;
    assert!(result.contains("what?"), "{result}");
    let result = it.call("mcp__s__none", json!({})).await;
    assert!(result.contains("is no result of a tool: \\\"no result\\\""), "{result}");
    let result = it.call("mcp__s__echo", json!({"text": "still here"})).await;
    assert!(result.contains("still here"), "{result}");
    it.client.finish(&it.scene.place).await;
}

/// M11: a cancel reaches the server, and the turn does not wait for it.
#[tokio::test]
async fn a_cancel_reaches_the_server() {
    let mut it = Imported::new(Script::new(), &[]).await;
    it.scene.model.push(Answer::new().tool_call("mcp__s__slow", json!({})));
    let turn = it.client.begin_prompt(&it.session, "go").await;
    it.scene.place.appears("heard-s.call-slow.1").await;
    it.client.cancel(&it.session).await;
    assert_eq!(it.client.reply(&turn).await.stop_reason(), "cancelled");
    it.scene.place.appears("heard-s.notifications-cancelled.1").await;
    it.client.finish(&it.scene.place).await;
}

/// M10: progress is shown.
#[tokio::test]
async fn progress_is_shown_while_a_call_runs() {
    let mut it = Imported::new(Script::new(), &[]).await;
    let gate = it.scene.place.workspace().join("gate");
    mknodat(CWD, &gate, FileType::Fifo, Mode::RWXU, 0).unwrap();
    it.scene.model.push(Answer::new().tool_call("mcp__s__work", json!({})));
    it.scene.model.push(Answer::new().text("done"));
    let turn = it.client.begin_prompt(&it.session, "go").await;
    let session = it.session.clone();
    let is_shown =
        |update: &Value| update["content"].to_string().contains("step 5 [secret] (5 of 5)");
    let shown = |trace: &Trace| {
        trace.updates_of(&session, "tool_call_update").iter().any(is_shown).then_some(())
    };
    it.client.wait_for("progress", shown).await;
    tokio::task::spawn_blocking(move || fs_err::write(gate, "go").unwrap()).await.unwrap();
    assert_eq!(it.client.reply(&turn).await.stop_reason(), "end_turn");
    assert!(it.scene.last_results().contains("worked"));
    it.client.finish(&it.scene.place).await;
}
