//! What a summary takes away and must not: what the person decided, and that something they handed in is
//! gone. And a window that is smaller than was thought.

use bridle_model_server::{Answer, Gate, Script};
use bridle_tests::{Client, Permission, Trace};
use serde_json::json;

use super::{launch, listing, looks, read, scene, small};
use crate::compaction::last_request;
use crate::scene::reached;

/// Answers to forms and an agreed plan are the person's words as much as a prompt; what they stopped
/// is not what they want.
#[tokio::test]
async fn what_the_person_decided_outlives_the_summary() {
    let plan = |text: &str| Answer::new().tool_call("exit_plan_mode", json!({"plan": text}));
    let question = json!({"questions": [{"header": "Style", "question": "Tabs or spaces?",
        "options": [{"label": "TABS"}, {"label": "SPACES"}]}]});
    let gate = Gate::new();
    let script = small(Answer::new().text("SUMMARY"))
        .rule("plan first", [plan("OLD-PLAN 1. look"), Answer::new().text("planned")])
        .rule("plan again", [plan("NEW-PLAN 1. write"), Answer::new().text("planned")])
        .rule("ask me", [Answer::new().tool_call("ask_user", question), Answer::new().text("so")])
        .rule("look", looks())
        .rule("drop the database", [Answer::new().text("dropping").hold_after(0, &gate)]);
    let scene = scene(script).await;
    scene.place.write("big.txt", listing("big", 80));
    let mut client = Client::start(&launch(&scene));
    let capabilities = json!({"elicitation": {"form": {}}});
    let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
    client.request("initialize", params).await.ok();
    client.set_permission(Permission::Allow);
    let session = client.new_session(&scene.place).await;
    for prompt in ["plan first", "plan again"] {
        let mode = json!({"sessionId": session, "modeId": "plan"});
        client.request("session/set_mode", mode).await.ok();
        assert_eq!(client.prompt(&session, prompt).await.stop_reason(), "end_turn");
    }
    let turn = client.begin_prompt(&session, "ask me").await;
    let asked = |trace: &Trace| trace.calls("elicitation/create").first().cloned();
    let asked = client.wait_for("the form", asked).await;
    let result = json!({"action": "accept", "content": {"question_0": "TABS"}});
    client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})).await;
    assert_eq!(client.reply(&turn).await.stop_reason(), "end_turn");
    let turn = client.begin_prompt(&session, "drop the database").await;
    reached(&gate).await;
    client.cancel(&session).await;
    assert_eq!(client.reply(&turn).await.stop_reason(), "cancelled");
    gate.open();
    for _ in 0..3 {
        client.prompt(&session, "look").await.ok();
    }
    client.prompt(&session, "/compact").await.ok();
    client.prompt(&session, "next").await.ok();
    let told = last_request(&scene);
    assert!(told.contains("SUMMARY"), "{told}");
    assert!(told.contains("agreed to last; it may be done or given up since\\nNEW-PLAN"), "{told}");
    assert!(!told.contains("OLD-PLAN"), "an old plan is revived: {told}");
    assert!(told.contains("(asked by you)") && told.contains("TABS"), "{told}");
    assert!(told.contains("- drop the database [the user stopped the work on this]"), "{told}");
    client.finish(&scene.place).await;
}

/// A skill that is still followed and a file that came with the prompt go with the rest within their own
/// turn: the model is told that they are gone, by the names under which it can load them again.
#[tokio::test]
async fn what_came_with_the_prompt_is_named_when_it_is_gone() {
    let calls = (0..6).map(|n| read("big.txt", n * 150 + 1, n * 150 + 150));
    let mut steps: Vec<_> = calls.map(|call| Answer::new().tool_call("read", call)).collect();
    steps.insert(0, Answer::new().tool_call("skill", json!({"name": "other"})));
    steps.push(Answer::new().text("done"));
    let script = small(Answer::new().text("SUMMARY")).rule("SUMMARY", [Answer::new().text("done")]);
    let scene = scene(script.rule("/good", steps)).await;
    scene.place.write("big.txt", listing("big", 1_000));
    scene.place.write("small.txt", "REFERENCE-MARK");
    for name in ["good", "other"] {
        let skill = format!("---\nname: {name}\ndescription: d\n---\nBODY-OF-{name}\n");
        scene.place.write(&format!(".agents/skills/{name}/SKILL.md"), skill);
    }
    let mut client = Client::ready(&launch(&scene)).await;
    let session = client.new_session(&scene.place).await;
    let reply = client.prompt(&session, "/good with @small.txt please").await;
    assert_eq!(reply.stop_reason(), "end_turn");
    let told = last_request(&scene);
    assert!(told.contains("SUMMARY") && !told.contains("BODY-OF-good"), "{told}");
    for name in ["skill good", "skill other", "@small.txt"] {
        assert!(told.contains(&format!("- {name}\\n")), "{name}: {told}");
    }
    client.finish(&scene.place).await;
    scene.assert_lawful();
}

/// A gateway takes less than the catalogue says: what stays word for word of the window that was believed
/// in is then all there is, and the conversation is shortened all the same.
#[tokio::test]
async fn a_window_that_is_smaller_than_was_thought() {
    let scene = scene(small(Answer::new().text("SUMMARY")).rule("look", looks())).await;
    let config = fs_err::read_to_string(scene.place.bridle_home().join("config.toml")).unwrap();
    let config = config.replace("window = 24000", "window = 400000");
    scene.place.configure("config.toml", config);
    scene.place.write("big.txt", listing("big", 80));
    let (mut client, session) = Client::in_session(&scene.place, &launch(&scene)).await;
    for number in 0..30 {
        let reply = client.prompt(&session, &format!("look {number}")).await;
        assert_eq!(reply.stop_reason(), "end_turn", "{}", client.trace());
    }
    let ends = scene.events(&session, "compaction/end");
    let kinds: Vec<_> = ends.iter().map(|end| &end["data"]["outcome"]["kind"]).collect();
    assert!(kinds.len() >= 2 && kinds.iter().all(|kind| *kind == "compacted"), "{kinds:?}");
    client.finish(&scene.place).await;
}

/// A window in which there is no room beside the system prompt and the tools is refused before anything is
/// sent, with what to set.
#[tokio::test]
async fn a_window_that_the_tools_alone_fill_is_refused_at_the_first_request() {
    let scene = scene(Script::new()).await;
    let config = fs_err::read_to_string(scene.place.bridle_home().join("config.toml")).unwrap();
    let config =
        config.replace("window = 24000\nmax_output = 4000", "window = 3000\nmax_output = 500");
    scene.place.configure("config.toml", config);
    let (mut client, session) = Client::in_session(&scene.place, &launch(&scene)).await;
    let error = client.prompt(&session, "hello").await.error();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("no room to work in beside the system prompt"), "{message}");
    assert!(message.contains("choose a model with a larger window"), "{message}");
    assert!(scene.requests().is_empty());
    client.finish(&scene.place).await;
}
