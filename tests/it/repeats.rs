//! A model that goes round in circles is told, and then its turn is ended.

use bridle_model_server::{Answer, Script};
use serde_json::json;

use crate::scene::Scene;

fn read(path: &str) -> Answer {
    Answer::new().tool_call("read", json!({ "path": path }))
}

/// B113: what the client is told, how often the model was asked, and what it read.
async fn goes_round(answers: impl IntoIterator<Item = Answer>, requests: usize) -> Vec<String> {
    let script = answers.into_iter().fold(Script::new(), Script::reply);
    let scene = Scene::new(script).await;
    scene.place.write("a.txt", "a");
    scene.place.write("b.txt", "b");
    let (mut client, session) = scene.session().await;
    let reply = client.prompt(&session, "go").await;
    assert_eq!(reply.stop_reason(), "max_turn_requests");
    let next = client.prompt(&session, "and now?").await;
    assert_eq!(next.stop_reason(), "end_turn", "the session goes on");
    let trace = client.finish(&scene.place).await;
    assert_eq!(scene.requests().len(), requests + 1);
    let notice = "The turn was ended: read was called with the same result six times.";
    assert_eq!(trace.to_string().matches(notice).count(), 1, "{trace}");
    scene.assert_lawful();
    let told = |body: &serde_json::Value| body["messages"].to_string();
    scene.requests().iter().map(told).collect()
}

#[tokio::test]
async fn the_same_call_with_the_same_result() {
    let requests = goes_round(std::iter::repeat_n((), 6).map(|()| read("a.txt")), 6).await;
    let told = "This call was made three times with the same result. Try something else.";
    let counts: Vec<_> = requests.iter().map(|request| request.matches(told).count()).collect();
    assert_eq!(counts, [0, 0, 0, 1, 1, 1, 1]);
}

#[tokio::test]
async fn two_calls_that_take_turns() {
    let turns = (0..11).map(|n| read(if n % 2 == 0 { "a.txt" } else { "b.txt" }));
    goes_round(turns, 11).await;
}

/// A test run between edits is no circle, however often it fails in the same way.
#[tokio::test]
async fn progress_between_the_same_calls_is_no_circle() {
    let answers = (0..7).flat_map(|n| {
        let edit = json!({ "path": "notes.txt", "content": format!("try {n}") });
        [read("a.txt"), Answer::new().tool_call("write", edit)]
    });
    let script = answers.fold(Script::new(), Script::reply).reply(Answer::new().text("done"));
    let scene = Scene::new(script).await;
    scene.place.write("a.txt", "a");
    let (mut client, session) = scene.session().await;
    assert_eq!(client.prompt(&session, "go").await.stop_reason(), "end_turn");
    client.finish(&scene.place).await;
    scene.assert_lawful();
}
