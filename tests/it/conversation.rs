//! More than one message at a time, plans and questions, on the real program.

use bridle_model_server::{Answer, Gate, Script};
use bridle_tests::Permission;
use serde_json::{Value, json};

use crate::scene::{Scene, call_then_done, reached};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn message(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

#[tokio::test]
async fn many_prompts_at_once_are_answered_in_their_order_and_a_cancel_ends_them_all() {
    const PROMPTS: usize = 70;
    let gate = Gate::new();
    let held = Answer::new().text_in(2, "held").hold_after(1, &gate);
    let scene = Scene::new(Script::new().rule("p0", [held])).await;
    let (client, session) = scene.session().await;
    let lines: String = (0..=PROMPTS)
        .map(|number| {
            let params = message(&session, &format!("p{number}"));
            let line = json!({"jsonrpc": "2.0", "id": format!("p{number}"),
                "method": "session/prompt", "params": params});
            format!("{line}\n")
        })
        .collect();
    client.send_raw(lines.as_bytes()).await;
    reached(&gate).await;
    client.cancel(&session).await;
    let last = json!(format!("p{PROMPTS}"));
    assert_eq!(client.reply(&last).await.stop_reason(), "cancelled");
    let trace = client.finish(&scene.place).await;
    let answered: Vec<_> = trace
        .from_agent()
        .filter(|message| message["result"]["stopReason"] == "cancelled")
        .map(|message| message["id"].as_str().unwrap().to_owned())
        .collect();
    let sent: Vec<_> = (0..=PROMPTS).map(|number| format!("p{number}")).collect();
    assert_eq!(answered, sent);
    assert_eq!(scene.requests().len(), 1);
    scene.assert_lawful();
}

#[tokio::test]
async fn a_message_for_the_running_turn_is_on_the_log_where_the_model_got_it() {
    let write = Answer::new().tool_call("write", json!({"path": "a.txt", "content": "x"}));
    let script = Script::new().rule("go", [write]).rule("also b", [Answer::new().text("Both.")]);
    let scene = Scene::new(script).await;
    let (mut client, session) = scene.session().await;
    client.set_permission(Permission::Hold);
    let turn = client.begin_prompt(&session, "go").await;
    let question = client.question().await;
    let steering = client.begin("_session/steering", message(&session, "also b")).await;
    client.answer(&question, Permission::Allow).await;
    assert_eq!(client.reply(&steering).await.ok(), json!({"outcome": "injected"}));
    assert_eq!(client.reply(&turn).await.stop_reason(), "end_turn");
    client.finish(&scene.place).await;
    let order: Vec<_> = scene
        .log(&session)
        .iter()
        .filter_map(|event| match event["type"].as_str() {
            Some("user/message") if event["data"]["source"]["kind"] != "context" => {
                Some(event["data"]["content"][0]["text"].as_str().unwrap().to_owned())
            }
            Some(kind @ ("tool/result" | "assistant/message" | "turn/end")) => {
                Some(kind.to_owned())
            }
            _ => None,
        })
        .collect();
    let expected =
        ["go", "assistant/message", "tool/result", "also b", "assistant/message", "turn/end"];
    assert_eq!(order, expected);
    scene.assert_lawful();
}

/// Nobody can review a plan there: the model is told so, and the mode stays.
#[tokio::test]
async fn exec_in_plan_mode_gives_the_plan_and_changes_nothing() {
    let plan = Answer::new().tool_call("exit_plan_mode", json!({"plan": "1. Write."}));
    let write = Answer::new().tool_call("write", json!({"path": "a.txt", "content": "x"}));
    let script = Script::new().rule("go", [plan, write, Answer::new().text("The plan: write.")]);
    let scene = Scene::new(script).await;
    let launch = scene.place.launch(["exec", "--permissions", "plan", "go"]);
    let output = launch.model_at(&scene.model.url()).output().await;
    assert_eq!(text(&output.stdout), "The plan: write.\n");
    assert!(!scene.place.workspace().join("a.txt").exists());
    let told = scene.requests()[1]["messages"].to_string();
    assert!(told.contains("Nobody is there who could review the plan"), "{told}");
    scene.assert_lawful();
}

#[tokio::test]
async fn exec_ends_with_the_questions_that_nobody_can_answer() {
    let questions = json!({"questions": [{"header": "Colour", "question": "Which colour?",
        "options": [{"label": "Red"}, {"label": "Blue"}]}]});
    let scene = Scene::new(call_then_done("ask_user", questions)).await;
    let launch = scene.place.launch(["exec", "go"]).model_at(&scene.model.url());
    let output = launch.output().await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let answer = text(&output.stdout);
    assert!(answer.contains("Which colour?") && answer.contains("- Red"), "{answer}");
    assert_eq!(scene.requests().len(), 1);
    scene.assert_lawful();
}
