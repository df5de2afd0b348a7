//! Signed thinking that comes back altered, moved, to another model, or not at all.

use serde_json::json;

use super::client::{Conversation, post_deepseek};
use crate::{Answer, ModelServer, Script};

/// A conversation after one round with thinking, redacted thinking, text and a call.
async fn after_a_round(server: &ModelServer) -> Conversation {
    server.push(
        Answer::new()
            .thinking("Look first.")
            .redacted_thinking()
            .text("Reading.")
            .thinking("Then read.")
            .tool_call("read", json!({ "path": "a" })),
    );
    let mut conversation = Conversation::new("Fix it.");
    conversation.round(server).await;
    conversation
}

async fn check(rule: &str, change: impl FnOnce(&mut Conversation)) {
    let server = ModelServer::start(Script::new()).await.unwrap();
    let mut conversation = after_a_round(&server).await;
    change(&mut conversation);
    let response = conversation.send(&server).await;
    let violations = server.violations();
    let rules: Vec<&str> = violations.iter().map(|violation| violation.rule).collect();
    assert_eq!((response.status, rules.as_slice()), (400, [rule].as_slice()), "{response:?}");
    assert_eq!(response.json()["error"]["message"], violations[0].message);
}

#[tokio::test]
async fn an_altered_text_is_refused() {
    check("thinking-altered", |conversation| {
        conversation.edit(1, |message| message["content"][0]["thinking"] = json!("Look first"));
    })
    .await;
}

#[tokio::test]
async fn an_altered_or_missing_signature_is_refused() {
    check("thinking-signature", |conversation| {
        conversation.edit(1, |message| message["content"][0]["signature"] = json!("bW9jaw=="));
    })
    .await;
    check("thinking-signature", |conversation| {
        conversation.edit(1, |message| {
            message["content"][0].as_object_mut().unwrap().remove("signature");
        });
    })
    .await;
    check("thinking-signature", |conversation| {
        conversation.edit(1, |message| message["content"][1]["data"] = json!("bW9jaw=="));
    })
    .await;
}

#[tokio::test]
async fn a_changed_prefix_is_refused() {
    check("thinking-prefix", |c| c.system = c.system.replace("brief", "brisk")).await;
    check("thinking-prefix", |c| c.tools = c.tools.replace("Reads.", "Reads a file.")).await;
    check("thinking-prefix", |c| {
        c.messages[0] = c.messages[0].replace("Fix it.", "Fix it!");
    })
    .await;
}

/// The same JSON in other bytes is another prefix.
#[tokio::test]
async fn a_prefix_serialised_anew_is_refused() {
    check("thinking-prefix", |c| c.messages[0] = c.messages[0].replace(':', ": ")).await;
    check("thinking-prefix", |c| c.messages[0] = c.messages[0].replace('F', "\\u0046")).await;
}

#[tokio::test]
async fn a_changed_block_before_thinking_in_the_same_answer_is_refused() {
    check("thinking-prefix", |conversation| {
        conversation.edit(1, |message| message["content"][2]["text"] = json!("Reading!"));
    })
    .await;
    check("thinking-prefix", |conversation| {
        conversation.edit(1, |message| message["content"].as_array_mut().unwrap().swap(0, 1));
    })
    .await;
}

#[tokio::test]
async fn another_models_thinking_is_refused() {
    check("thinking-model", |c| c.model = "claude-opus-5-5".to_owned()).await;
}

#[tokio::test]
async fn thinking_left_out_before_its_call_is_refused() {
    for position in [1, 3] {
        check(if position == 3 { "thinking-dropped" } else { "thinking-prefix" }, |conversation| {
            conversation.edit(1, |message| {
                message["content"].as_array_mut().unwrap().remove(position);
            });
        })
        .await;
    }
    check("thinking-dropped", |conversation| {
        conversation.edit(1, |message| {
            let blocks = message["content"].as_array_mut().unwrap();
            blocks.retain(|block| block["type"] == "tool_use");
        });
    })
    .await;
}

/// A later change is found by the later thinking, although the first block still fits.
#[tokio::test]
async fn a_change_between_two_rounds_is_refused() {
    let server = ModelServer::start(Script::new()).await.unwrap();
    let mut conversation = after_a_round(&server).await;
    server.push(Answer::new().thinking("More.").text("Done."));
    conversation.round(&server).await;
    conversation.add("user", json!("And now?"));
    conversation.edit(2, |message| message["content"][0]["content"] = json!("trimmed"));
    let response = conversation.send(&server).await;
    assert_eq!(response.status, 400);
    let message = response.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("messages.3.content.0:"), "{message}");
    assert!(message.ends_with("bound to a different conversation"), "{message}");
}

#[tokio::test]
async fn an_answer_that_ends_in_thinking_is_refused() {
    let server = ModelServer::start(Script::new()).await.unwrap();
    server.push(Answer::new().thinking("Hm."));
    let mut conversation = Conversation::new("Hello.");
    conversation.round(&server).await;
    conversation.add("user", json!("And?"));
    assert_eq!(conversation.send(&server).await.status, 400);
    assert_eq!(server.violations()[0].rule, "thinking-last");
}

#[tokio::test]
async fn deepseek_wants_all_thinking_back_once_tools_were_called() {
    let server = ModelServer::start(Script::new()).await.unwrap();
    let mut conversation = Conversation::new("Hello.");
    conversation.model = "deepseek-v4-pro".to_owned();
    conversation.add("assistant", json!("Hi."));
    conversation.add("user", json!("Read a."));
    let plain = post_deepseek(&server, &conversation.body()).await;
    assert_eq!(plain.status, 200, "without tool calls thinking may be left out");

    let empty = json!({ "type": "thinking", "thinking": "" });
    let call = json!({ "type": "tool_use", "id": "t1", "name": "read", "input": {} });
    conversation.add_answer(vec![empty.clone(), call]);
    let refused = post_deepseek(&server, &conversation.body()).await;
    assert_eq!((refused.status, server.violations()[0].rule), (400, "thinking-passed-back"));

    let mut off = conversation.clone();
    off.thinking = r#"{"type":"disabled"}"#.to_owned();
    assert_eq!(post_deepseek(&server, &off.body()).await.status, 200);

    conversation.edit(1, |message| {
        message["content"] = json!([empty, { "type": "text", "text": "Hi." }]);
    });
    assert_eq!(post_deepseek(&server, &conversation.body()).await.status, 200);
}
