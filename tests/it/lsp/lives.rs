//! Servers that do not start, die, hang and stay: one at a time for a project, and none left behind.

use std::time::Duration;

use bridle_tests::wait_until_gone;
use rustix::process::Signal;

use super::*;

/// L08: a program that is no server is told at once, in its own words.
#[tokio::test]
async fn a_program_that_is_no_server_is_told_in_its_own_words() {
    let script = json!({"rules": [{"on": "started", "do": []}, {"on": "initialize", "do": [
        {"stderr": "error: Unknown binary 'toy' in the toolchain"}, {"exit": 1}]}]});
    let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
    let result = it.nav("definition", "main.toy", 2, "area").await;
    assert!(result.contains("toy failed: it exited with code 1"), "{result}");
    assert!(result.contains("Unknown binary 'toy' in the toolchain"), "{result}");
    it.finish().await;
}

/// L07: a server that fails twice is tried a third time.
#[tokio::test]
async fn a_server_that_fails_twice_is_tried_again() {
    let exit = json!([{"exit": 1}]);
    let rules = json!([
        {"on": "initialize", "nth": 1, "do": exit}, {"on": "initialize", "nth": 2, "do": exit}]);
    let mut it = Code::new(json!({"rules": rules}), &[("main.toy", MAIN)]).await;
    for _ in 0..2 {
        let result = it.nav("references", "main.toy", 2, "area").await;
        assert!(result.contains("toy failed"), "{result}");
    }
    let result = it.nav("references", "main.toy", 2, "area").await;
    assert!(result.contains("3 references"), "{result}");
    it.finish().await;
}

/// L09: a server that dies while it is asked is started again, and the question is answered.
#[tokio::test]
async fn a_server_that_dies_is_started_again_and_asked_again() {
    let rules = json!([{"on": "textDocument/references", "nth": 2, "do": [{"exit": 139}]}]);
    let mut it = Code::new(json!({"rules": rules}), &[("main.toy", MAIN)]).await;
    for _ in 0..3 {
        let result = it.nav("references", "main.toy", 2, "area").await;
        assert!(result.contains("3 references"), "{result}");
    }
    assert_eq!(it.heard("initialize").len(), 2);
    assert_eq!(it.heard("textDocument/didOpen").len(), 2);
    it.finish().await;
}

/// L10: a server that dies at every document is started again after pauses that grow, and then given up.
#[tokio::test]
async fn a_server_that_dies_again_and_again_is_given_up() {
    let rules = json!([{"on": "textDocument/didOpen", "do": [{"stderr": "panic"}, {"exit": 101}]}]);
    let mut it = Code::new(json!({"rules": rules}), &[("main.toy", MAIN)]).await;
    let mut result = String::new();
    for _ in 0..4 {
        result = it.nav("references", "main.toy", 2, "area").await;
        assert!(result.contains("failed"), "{result}");
    }
    assert!(result.contains("lost 4 times") && result.contains("panic"), "{result}");
    assert_eq!(it.heard("started").len(), 4);
    // From the end of one life to the beginning of the next: none, half a second, twice that.
    let at = |method: &str, nth: usize| {
        let marker = format!("heard.{method}.{nth}");
        fs_err::metadata(it.scene.place.workspace().join(marker)).unwrap().modified().unwrap()
    };
    let pause = |life: usize| {
        let (ended, begun) = (at("textDocument-didOpen", life), at("started", life + 1));
        begun.duration_since(ended).unwrap_or_default()
    };
    let pauses = [1, 2, 3].map(pause);
    // The system's clock for files is a coarse one.
    let coarse = Duration::from_millis(20);
    assert!(pauses[1] + coarse >= Duration::from_millis(500), "{pauses:?}");
    assert!(pauses[2] + coarse >= Duration::from_millis(1_000), "{pauses:?}");
    assert!(pauses[0] < pauses[2], "{pauses:?}");
    it.finish().await;
}

/// L13, L12: however many ask at once, from however many sessions, there is one server.
#[tokio::test]
async fn twenty_questions_at_once_start_one_server() {
    let mut it = Code::new(json!({}), &[("main.toy", MAIN)]).await;
    let other = it.client.new_session(&it.scene.place).await;
    let ask = json!({"op": "hover", "path": "main.toy", "line": 1, "symbol": "main"});
    let many = (0..10).fold(Answer::new(), |answer, number| {
        let mut ask = ask.clone();
        ask["offset"] = json!(number);
        answer.tool_call("code_nav", ask)
    });
    for _ in 0..2 {
        it.scene.model.push(many.clone());
    }
    for _ in 0..2 {
        it.scene.model.push(Answer::new().text("done"));
    }
    let one = it.client.begin_prompt(&it.session, "go").await;
    let two = it.client.begin_prompt(&other, "go").await;
    assert_eq!(it.client.reply(&one).await.stop_reason(), "end_turn");
    assert_eq!(it.client.reply(&two).await.stop_reason(), "end_turn");
    assert_eq!(it.heard("textDocument/hover").len(), 20);
    assert_eq!((it.heard("started").len(), it.heard("initialize").len()), (1, 1));
    it.finish().await;
}

/// L12: where there is room for one, the one that is idle gives way.
#[tokio::test]
async fn a_server_that_is_idle_gives_way_to_another() {
    let files = [
        ("one/toy.root", ""),
        ("one/main.toy", MAIN),
        ("two/toy.root", ""),
        ("two/main.toy", MAIN),
    ];
    let mut it = Code::with(json!({}), &files, "max_servers = 1", "").await;
    for (path, count) in
        [("one/main.toy", 1), ("two/main.toy", 2), ("two/main.toy", 2), ("one/main.toy", 3)]
    {
        let result = it.nav("references", path, 2, "area").await;
        assert!(result.contains("3 references"), "{result}");
        assert_eq!(it.heard("started").len(), count);
        assert_eq!(it.heard("exit").len(), count - 1);
    }
    it.finish().await;
}

/// L06: a server that is slow to start holds nothing else up, and a turn that waits for it can be
/// cancelled.
#[tokio::test]
async fn a_slow_start_holds_up_nothing_else() {
    let scene = Scene::new(Script::new()).await;
    let gate = scene.place.workspace().join("gate");
    let script = json!({"rules": [{"on": "initialize", "do": [{"wait": gate}, "good"]}]});
    scene.place.write("main.toy", MAIN);
    configure(&scene.place, &script, "", "");
    let mut it = Code::open(scene).await;
    let ask = json!({"op": "definition", "path": "main.toy", "line": 1, "symbol": "main"});
    it.scene.model.push(Answer::new().tool_call("code_nav", ask));
    let turn = it.client.begin_prompt(&it.session, "go").await;
    it.scene.place.appears("heard.initialize.1").await;
    let other = it.client.new_session(&it.scene.place).await;
    it.scene.model.push(Answer::new().tool_call("read", json!({"path": "main.toy"})));
    it.scene.model.push(Answer::new().text("done"));
    assert_eq!(it.client.prompt(&other, "read").await.stop_reason(), "end_turn");
    it.client.cancel(&it.session).await;
    assert_eq!(it.client.reply(&turn).await.stop_reason(), "cancelled");
    fs_err::write(&gate, "").unwrap();
    let result = it.nav("definition", "main.toy", 1, "main").await;
    assert!(result.contains("main.toy:1: def main"), "{result}");
    assert_eq!(it.heard("initialize").len(), 1);
    it.client.finish(&it.scene.place).await;
}

/// L11: whatever becomes of the agent, no server and no child of one is left.
#[tokio::test]
async fn no_server_outlives_the_agent() {
    for signal in [None, Some(Signal::TERM), Some(Signal::KILL)] {
        let script = json!({"tree": true, "deaf": true});
        let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
        it.nav("definition", "main.toy", 1, "main").await;
        let all = it.scene.place.processes();
        assert!(all.len() >= 3, "{all:?}");
        match signal {
            None => it.client.close_stdin().await,
            Some(signal) => it.client.signal(signal),
        }
        it.client.wait().await;
        for process in &all {
            assert!(wait_until_gone(process, Duration::from_secs(10)), "{signal:?}: {process:?}");
        }
    }
}

/// L41: a server that ends as it was told to is no loss, whatever it exits with.
#[tokio::test]
async fn an_end_that_was_asked_for_is_no_loss() {
    let mut it = Code::new(json!({}), &[("main.toy", MAIN)]).await;
    it.nav("definition", "main.toy", 1, "main").await;
    it.client.close_stdin().await;
    let (status, trace) = it.client.wait().await;
    assert!(status.success());
    assert!(!trace.stderr().contains("was lost"), "{}", trace.stderr());
    let told: Vec<_> = ["shutdown", "exit"].map(|method| it.heard(method).len()).into();
    assert_eq!(told, [1, 1]);
    assert!(it.heard("shutdown")[0].get("params").is_none());
}

/// L23: a server that answers nothing but internal errors any more is replaced.
#[tokio::test]
async fn a_server_that_broke_inside_is_replaced() {
    let broken = json!([{"error": [-32603, "this._token.cancel is not a function"]}]);
    let rules: Vec<_> = (2..=3)
        .map(|nth| json!({"on": "textDocument/references", "nth": nth, "do": broken}))
        .collect();
    let mut it = Code::new(json!({"rules": rules}), &[("main.toy", MAIN)]).await;
    it.nav("references", "main.toy", 2, "area").await;
    // The first such answer may be the server's youth.
    it.nav("references", "main.toy", 2, "area").await;
    let result = it.nav("references", "main.toy", 2, "area").await;
    assert!(result.contains("3 references"), "{result}");
    assert_eq!(it.heard("initialize").len(), 2);
    it.finish().await;
}
