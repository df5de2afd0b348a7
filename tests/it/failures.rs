//! Models that fail: what the client is told, how often the model is asked, and that nothing of
//! a failed answer stays in the history.

use std::time::Duration;

use bridle_model_server::{Answer, Reply, Script};
use serde_json::json;

use crate::scene::Scene;

/// Everything a client was shown of a session, as text.
fn shown(trace: &bridle_tests::Trace, session: &str) -> String {
    serde_json::to_string(&trace.updates(session)).unwrap()
}

/// 401: one call, then the authentication error; the session works once the key does.
#[tokio::test]
async fn a_refused_key_is_one_call_and_the_authentication_error() {
    let scene = Scene::new(Script::new().reply(Reply::error(401))).await;
    let (mut client, session) = scene.session().await;
    let error = client.prompt(&session, "hi").await.error();
    assert_eq!(error["code"], -32000, "{error}");
    assert_eq!(scene.requests().len(), 1);
    assert_eq!(client.prompt(&session, "again").await.stop_reason(), "end_turn");
    client.finish(&scene.place).await;
    scene.assert_lawful();
}

/// Without a key everything but the prompt works, and the error says what to set.
#[tokio::test]
async fn without_a_key_the_prompt_says_what_to_set() {
    let scene = Scene::new(Script::new()).await;
    let launch = scene.place.acp(&scene.model.url()).without("ANTHROPIC_API_KEY");
    let (mut client, session) = bridle_tests::Client::in_session(&scene.place, &launch).await;
    let error = client.prompt(&session, "hi").await.error();
    assert_eq!(error["code"], -32000);
    assert!(error.to_string().contains("ANTHROPIC_API_KEY"), "{error}");
    assert_eq!(scene.requests().len(), 0);
    client.finish(&scene.place).await;
}

/// B106: 429 is waited for and told.
#[tokio::test]
async fn a_rate_limit_is_waited_for_and_told() {
    let limited = Reply::rate_limited(Duration::from_secs(1));
    let script = Script::new().reply(limited).reply(Answer::new().text("at last"));
    let scene = Scene::new(script).await;
    let (mut client, session) = scene.session().await;
    assert_eq!(client.prompt(&session, "hi").await.stop_reason(), "end_turn");
    let trace = client.finish(&scene.place).await;
    assert!(trace.text(&session).ends_with("at last"));
    assert_ne!(trace.text(&session), "at last", "the wait is told: {}", shown(&trace, &session));
    assert_eq!(scene.events(&session, "llm/retry").len(), 1);
    assert_eq!(scene.requests().len(), 2);
}

/// B106: where no header says it, the words of the error do.
#[tokio::test]
async fn a_wait_that_is_only_in_words_is_kept() {
    let error = r#"{"type":"error","error":{"type":"rate_limit_error","message":"Too many. Please try again in 0.7s."}}"#;
    let limited = Reply::whole(429, "application/json", error);
    let in_stream = Answer::new().error_after(0, "overloaded_error", "Busy, retry after 300 ms.");
    let script = Script::new().reply(limited).reply(in_stream).reply(Answer::new().text("there"));
    let scene = Scene::new(script).await;
    let (mut client, session) = scene.session().await;
    assert_eq!(client.prompt(&session, "hi").await.stop_reason(), "end_turn");
    client.finish(&scene.place).await;
    let waits = scene.events(&session, "llm/retry");
    let waits: Vec<_> = waits.iter().map(|wait| wait["data"]["delay_ms"].clone()).collect();
    assert_eq!(waits, [700, 300]);
}

#[tokio::test]
async fn an_overloaded_or_failing_server_is_asked_again() {
    for status in [500, 529] {
        let script = Script::new().reply(Reply::error(status)).reply(Answer::new().text("second"));
        let scene = Scene::new(script).await;
        let (mut client, session) = scene.session().await;
        assert_eq!(client.prompt(&session, "hi").await.stop_reason(), "end_turn", "{status}");
        let trace = client.finish(&scene.place).await;
        assert!(trace.text(&session).ends_with("second"), "{status}");
        assert_eq!(scene.events(&session, "assistant/attempt").len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_refused_request_is_an_error_and_never_an_end_of_turn() {
    let scene = Scene::new(Script::new().reply(Reply::error(400))).await;
    let (mut client, session) = scene.session().await;
    let error = client.prompt(&session, "hi").await.error();
    assert!(error["code"].as_i64().unwrap() < 0 && error["code"] != -32000, "{error}");
    assert_eq!(scene.requests().len(), 1, "a 400 is not asked again");
    assert_eq!(client.prompt(&session, "again").await.stop_reason(), "end_turn");
    client.finish(&scene.place).await;
    scene.assert_lawful();
}

/// B107, B109: what a failed answer had shown is told to be void and is not in the history.
async fn leaves_no_dead_half(broken: Answer) {
    let script = Script::new().reply(broken).reply(Answer::new().text("whole answer"));
    let scene = Scene::new(script).await;
    let (mut client, session) = scene.session().await;
    assert_eq!(client.prompt(&session, "hi").await.stop_reason(), "end_turn");
    client.prompt(&session, "and?").await.ok();
    let trace = client.finish(&scene.place).await;
    let history = scene.requests().last().unwrap()["messages"].to_string();
    assert!(history.contains("whole answer") && !history.contains("dead half"), "{history}");
    let chunks = trace.updates_of(&session, "agent_message_chunk");
    let id_of = |text: &str| {
        let chunk = chunks.iter().find(|chunk| chunk.to_string().contains(text));
        chunk.unwrap_or_else(|| panic!("{text} is not shown"))["messageId"].clone()
    };
    assert_ne!(id_of("dead"), id_of("whole"), "the new answer is a new message");
    scene.assert_lawful();
}

#[tokio::test]
async fn a_cut_stream_leaves_no_dead_half() {
    leaves_no_dead_half(Answer::new().text_in(4, "dead half of it").cut_after(2)).await;
}

#[tokio::test]
async fn a_stream_without_its_end_leaves_no_dead_half() {
    leaves_no_dead_half(Answer::new().text_in(4, "dead half of it").close_after(2)).await;
}

#[tokio::test]
async fn an_error_inside_a_stream_leaves_no_dead_half() {
    let answer = Answer::new().text_in(4, "dead half of it");
    leaves_no_dead_half(answer.error_after(2, "overloaded_error", "busy")).await;
}

#[tokio::test]
async fn garbage_is_asked_again() {
    let page = Reply::whole(200, "text/html", "<html>proxy says hello</html>");
    let script = Script::new()
        .reply(page)
        .reply(Answer::new().raw("event: nonsense\ndata: {not json\n\n"))
        .reply(Answer::new().text("fine"));
    let scene = Scene::new(script).await;
    let (mut client, session) = scene.session().await;
    assert_eq!(client.prompt(&session, "hi").await.stop_reason(), "end_turn");
    let trace = client.finish(&scene.place).await;
    assert!(trace.text(&session).ends_with("fine"), "{}", shown(&trace, &session));
}

/// An answer cut by the output limit says so; its broken tool call is not run.
#[tokio::test]
async fn an_answer_at_the_output_limit_says_so() {
    let answer = Answer::new().text("half").stop_reason(bridle_model_server::StopReason::MaxTokens);
    let scene = Scene::new(Script::new().reply(answer)).await;
    let (mut client, session) = scene.session().await;
    assert_eq!(client.prompt(&session, "hi").await.stop_reason(), "max_tokens");
    client.finish(&scene.place).await;
}

#[tokio::test]
async fn a_refusal_is_a_refusal_and_leaves_the_history() {
    let refusal = Answer::new().stop_reason(bridle_model_server::StopReason::Refusal {
        category: "general_harms".into(),
        explanation: "no".into(),
    });
    let scene = Scene::new(Script::new().reply(refusal)).await;
    let (mut client, session) = scene.session().await;
    assert_eq!(client.prompt(&session, "forbidden-words").await.stop_reason(), "refusal");
    client.prompt(&session, "something else").await.ok();
    client.finish(&scene.place).await;
    assert!(!scene.requests()[1]["messages"].to_string().contains("forbidden-words"));
    scene.assert_lawful();
}

/// A model that cannot be reached is an error with its address, after a few tries.
#[tokio::test]
async fn an_unreachable_model_is_an_error() {
    let scene = Scene::new(Script::new()).await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let launch = scene.place.acp(&format!("http://{closed}"));
    let (mut client, session) = bridle_tests::Client::in_session(&scene.place, &launch).await;
    let reply = client.prompt(&session, "hi").await;
    assert!(reply.code() < 0);
    client.request("session/list", json!({})).await.ok();
    client.finish(&scene.place).await;
}
