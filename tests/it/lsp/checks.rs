//! Servers that check what was saved and say by themselves what they find, as rust-analyzer does with what
//! `cargo check` says: as long as they are at it, nothing is clean.

use super::*;

const ASKED: &str = "textDocument/diagnostic";
const SAVED: &str = "textDocument/didSave";

/// How the progress of a check of rust-analyzer is called; and one that nobody knows.
const KNOWN: &str = "rust-analyzer/flycheck/0";
const UNKNOWN: &str = "41";

fn begin(token: &str) -> Value {
    let value = json!({"kind": "begin", "title": "cargo check"});
    json!({"notify": ["$/progress", {"token": token, "value": value}]})
}

fn end(token: &str) -> Value {
    json!({"notify": ["$/progress", {"token": token, "value": {"kind": "end"}}]})
}

/// What the server says by itself of `main.toy`: one error, or that there is none.
fn found(message: Option<&str>) -> Value {
    let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
    let one = |message| json!({"range": range, "severity": 1, "message": message});
    let listed: Vec<_> = message.map(one).into_iter().collect();
    let params = json!({"uri": "ROOT/main.toy", "diagnostics": listed});
    json!({"notify": ["textDocument/publishDiagnostics", params]})
}

fn behind_the_next_answer(actions: &[Value]) -> Value {
    json!({"behind": [ASKED, actions]})
}

fn at_save(nth: usize, actions: &[Value]) -> Value {
    json!({"on": SAVED, "nth": nth, "do": actions})
}

fn change(old: &str, new: &str) -> Value {
    json!({"path": "main.toy", "edits": [{"old_text": old, "new_text": new}]})
}

/// A session with a server of this name for `main.toy`, which has no errors that the server finds when it is
/// asked, and which may be edited.
async fn with(name: &str, rules: Value) -> Code {
    let files = [("main.toy", "def a\n"), ("other.toy", "def o\n")];
    let mut it = Code::known_as(name, json!({"rules": rules}), &files).await;
    let mode = json!({"sessionId": it.session, "modeId": "auto"});
    it.client.request("session/set_mode", mode).await.ok();
    it.call("read", json!({"path": "main.toy"})).await;
    it
}

/// A check that does not end in time: not clean. What it finds is told when it is over, and gone when the next
/// one does not find it.
#[tokio::test]
async fn a_file_is_not_clean_while_a_check_of_it_goes_on() {
    for (name, token, is) in [
        ("rust-analyzer", KNOWN, "is still checking (cargo check)"),
        ("toy", UNKNOWN, "is still loading (cargo check)"),
    ] {
        let rules = json!([
            {"on": ASKED, "nth": 1, "do": [begin(token), "good"]},
            {"on": "textDocument/hover", "do": [found(Some("moved before")), end(token), "good"]},
            {"on": "textDocument/didChange", "do": [begin(token), found(None), end(token)]},
        ]);
        let mut it = with(name, rules).await;
        let result = it.check("main.toy").await;
        assert!(result.contains(&format!("main.toy: {name} {is}")), "{name}: {result}");
        assert!(!result.contains("No errors"), "{name}: {result}");
        it.nav("hover", "main.toy", 1, "a").await;
        let result = it.check("main.toy").await;
        assert!(result.contains("main.toy:1: error: moved before"), "{name}: {result}");
        it.scene.place.write("main.toy", "def b\n");
        let result = it.check("main.toy").await;
        assert!(result.contains("No errors or warnings: main.toy"), "{name}: {result}");
        it.finish().await;
    }
}

/// What a check finds after an edit is waited for and told with its result, also where it is over long after the
/// server was asked what is wrong.
#[tokio::test]
async fn an_edit_waits_for_the_check_of_what_was_saved() {
    for (name, token) in [("rust-analyzer", KNOWN), ("toy", UNKNOWN)] {
        let of_edit = behind_the_next_answer(&[found(Some("moved before")), end(token)]);
        // A server that says when it checks is told that what it opened was saved.
        let opened = usize::from(name == "rust-analyzer");
        let rules = json!([
            {"on": "initialized", "do": []},
            at_save(opened, &[begin(token), end(token)]),
            at_save(opened + 1, &[begin(token), of_edit]),
            at_save(opened + 2, &[begin(token), behind_the_next_answer(&[found(None), end(token)])]),
        ]);
        let mut it = with(name, rules).await;
        let result = it.check("main.toy").await;
        assert!(result.contains("No errors or warnings: main.toy"), "{name}: {result}");
        let result = it.call("edit", change("def a", "def b")).await;
        assert!(result.contains("Since this change there is 1 new error"), "{name}: {result}");
        assert!(result.contains("main.toy:1: error: moved before"), "{name}: {result}");
        let result = it.call("edit", change("def b", "def c")).await;
        assert!(!result.contains("Since this change"), "{name}: {result}");
        let result = it.check("main.toy").await;
        assert!(result.contains("No errors or warnings: main.toy"), "{name}: {result}");
        assert_eq!(it.heard(SAVED).len(), opened + 2, "{name}");
        it.finish().await;
    }
}

/// What a check found before a file was opened is true of it until another check is over.
#[tokio::test]
async fn what_a_check_found_before_a_file_was_opened_is_told() {
    let found = [begin(KNOWN), found(Some("moved before")), end(KNOWN)];
    let rules = json!([{"on": "initialized", "do": found}]);
    let mut it = with("rust-analyzer", rules).await;
    it.nav("hover", "other.toy", 1, "o").await;
    let result = it.check("main.toy").await;
    assert!(result.contains("main.toy:1: error: moved before"), "{result}");
    assert_eq!(it.heard(SAVED).len(), 0);
    it.finish().await;
}

/// A server that is known to check, and did not, knows only a part of what is wrong. It is waited for once.
#[tokio::test]
async fn a_file_that_was_not_checked_is_not_clean() {
    let mut it = with("rust-analyzer", json!([])).await;
    for saved in 1..=2 {
        let result = it.check("main.toy").await;
        let told = "main.toy: rust-analyzer: may be incomplete: it has not checked what was saved";
        assert!(result.contains(told), "{result}");
        assert!(!result.contains("No errors"), "{result}");
        assert_eq!(it.heard(SAVED).len(), saved);
    }
    // What it finds when it is asked is told all the same.
    let result = it.call("edit", change("def a", "undefined b")).await;
    assert!(result.contains("Since this change there is 1 new error"), "{result}");
    it.finish().await;
}

/// A server of which nobody knows that it checks, and which begins with that when it has answered: what it did
/// after one change it is expected to do after the next.
#[tokio::test]
async fn what_a_server_did_after_a_change_is_waited_for_after_the_next() {
    let created = json!({"request": ["r", "window/workDoneProgress/create", {"token": UNKNOWN}]});
    let rules = json!([
        {"on": SAVED, "do": [behind_the_next_answer(&[created])]},
        {"on": "answer", "nth": 1, "do": [begin(UNKNOWN), end(UNKNOWN)]},
        {"on": "answer", "nth": 2, "do": [
            begin(UNKNOWN), found(Some("moved before")), end(UNKNOWN)]},
    ]);
    let mut it = with("toy", rules).await;
    it.check("main.toy").await;
    it.call("edit", change("def a", "def b")).await;
    let result = it.call("edit", change("def b", "def c")).await;
    assert!(result.contains("main.toy:1: error: moved before"), "{result}");
    it.finish().await;
}
