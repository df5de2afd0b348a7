//! Honest clients: long conversations that break no rule.

use serde_json::json;

use super::client::{Conversation, post_deepseek};
use crate::{Answer, ModelServer, Script, StopReason};

/// Thinking, two calls, a broken call, redacted thinking, a blank text, a system message, a remark
/// beside tool results: all of it comes back as it should and is accepted to the end.
#[tokio::test]
async fn an_honest_conversation_with_thinking_and_tools_is_accepted() {
    let script = Script::new()
        .reply(
            Answer::new()
                .thinking_in(4, "Let me look – über alles.")
                .text("Reading.")
                .tool_call("read", json!({ "path": "a.rs" }))
                .tool_call("read", json!({})),
        )
        .reply(Answer::new().redacted_thinking().tool_call_raw("read", "{\"path\": "))
        .reply(
            Answer::new()
                .text("Now.")
                .text(" ")
                .thinking("Again.")
                .tool_call("read", json!({"path": 1})),
        )
        .reply(Answer::new().thinking("").text("Done."));
    let server = ModelServer::start(script).await.unwrap();
    let mut conversation = Conversation::new("Fix it.");

    let first = conversation.round(&server).await;
    assert_eq!(first.stop_reason(), "tool_use");
    let blocks = first.blocks();
    assert_eq!(blocks[0]["thinking"], "Let me look – über alles.");
    assert_eq!(blocks[2]["input"], json!({ "path": "a.rs" }));
    assert_eq!(blocks[3]["input"], json!({}));
    conversation.round(&server).await;
    conversation.edit(4, |message| {
        let remark = json!({ "type": "text", "text": "Also the tests." });
        message["content"].as_array_mut().unwrap().push(remark);
    });
    conversation.round(&server).await;
    let last = conversation.round(&server).await;
    assert_eq!(last.stop_reason(), "end_turn");

    conversation.add("user", json!("Thanks."));
    conversation.add("system", json!("The mode is now auto."));
    conversation.round(&server).await;
    assert_eq!(server.violations(), []);
    assert_eq!(server.requests().len(), 5);
}

#[tokio::test]
async fn cache_breakpoints_may_move() {
    let script = Script::new()
        .reply(Answer::new().thinking("One.").tool_call("read", json!({ "path": "a" })))
        .reply(Answer::new().thinking("Two.").tool_call("read", json!({ "path": "b" })));
    let server = ModelServer::start(script).await.unwrap();
    let mut conversation = Conversation::new("Fix it.");
    let marker = json!({ "type": "ephemeral", "ttl": "1h" });

    let plain_system = conversation.system.clone();
    conversation.system =
        json!([{ "type": "text", "text": "Be brief.", "cache_control": marker }]).to_string();
    conversation.round(&server).await;
    conversation.edit(2, |message| message["content"][0]["cache_control"] = marker.clone());
    conversation.round(&server).await;
    conversation.edit(2, |message| {
        message["content"][0].as_object_mut().unwrap().remove("cache_control");
    });
    conversation.system = plain_system;
    conversation.round(&server).await;
    assert_eq!(server.violations(), []);
}

#[tokio::test]
async fn a_paused_answer_is_sent_back_to_continue() {
    let script = Script::new()
        .reply(Answer::new().thinking("Long.").text("So far.").stop_reason(StopReason::PauseTurn))
        .reply(Answer::new().thinking("Still.").text("The end."));
    let server = ModelServer::start(script).await.unwrap();
    let mut conversation = Conversation::new("Research.");
    assert_eq!(conversation.round(&server).await.stop_reason(), "pause_turn");
    assert_eq!(conversation.round(&server).await.stop_reason(), "end_turn");
    conversation.add("user", json!("And?"));
    conversation.round(&server).await;
    assert_eq!(server.violations(), []);
}

/// What was thought before a change of the prefix or the model is left out by an honest client,
/// and what was thought in an earlier turn may be.
#[tokio::test]
async fn unreadable_thinking_and_that_of_earlier_turns_may_be_left_out() {
    let script = Script::new()
        .reply(Answer::new().thinking("One.").tool_call("read", json!({ "path": "a" })));
    let server = ModelServer::start(script).await.unwrap();
    let mut conversation = Conversation::new("Fix it.");
    conversation.round(&server).await;
    conversation.edit(1, |message| {
        message["content"].as_array_mut().unwrap().remove(0);
    });
    let mut switched = conversation.clone();
    switched.model = "claude-opus-5-5".to_owned();
    let mut summarised = conversation.clone();
    summarised.edit(0, |message| message["content"] = json!("A summary instead."));
    let mut later = conversation.clone();
    later.add("assistant", json!("Fixed."));
    later.add("user", json!("And now?"));
    for accepted in [switched, summarised, later] {
        assert_eq!(accepted.send(&server).await.status, 200);
    }
    assert_eq!(conversation.send(&server).await.status, 400, "the running turn needs it");
}

#[tokio::test]
async fn thinking_is_shown_only_when_asked_for() {
    let script = Script::new().otherwise(Answer::new().thinking("Secret.").text("Hi."));
    let server = ModelServer::start(script).await.unwrap();
    let mut conversation = Conversation::new("Hello.");
    conversation.thinking = r#"{"type":"adaptive"}"#.to_owned();
    let blocks = conversation.round(&server).await.blocks();
    assert_eq!(blocks[0]["thinking"], "");
    assert_ne!(blocks[0]["signature"], "");
    conversation.add("user", json!("Again."));
    conversation.round(&server).await;

    conversation.thinking = r#"{"type":"disabled"}"#.to_owned();
    conversation.add("user", json!("And without."));
    assert_eq!(conversation.round(&server).await.blocks().len(), 1);
    assert_eq!(server.violations(), []);
}

#[tokio::test]
async fn an_honest_deepseek_conversation_is_accepted() {
    let script = Script::new()
        .reply(Answer::new().thinking("Look.").tool_call("read", json!({ "path": "a" })))
        .reply(Answer::new().tool_call("read", json!({ "path": "b" })));
    let server = ModelServer::start(script).await.unwrap();
    let mut conversation = Conversation::new("Fix it.");
    conversation.model = "deepseek-flash".to_owned();
    for _ in 0..3 {
        let response = post_deepseek(&server, &conversation.body()).await;
        assert_eq!(response.status, 200, "{response:?}");
        assert_eq!(response.blocks()[0]["type"], "thinking");
        conversation.add_answer(response.blocks());
    }
    assert_eq!(server.violations(), []);
}
