//! What is wrong with files, and what an edit has made wrong: never of another text, never "clean" when
//! that is not known.

use super::*;

const PUSHED: &str = "textDocument/publishDiagnostics";

fn wrong(message: &str, version: Option<u64>) -> Value {
    let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
    let listed = json!([{"range": range, "severity": 1, "message": message}]);
    let mut params = json!({"uri": "ROOT/main.toy", "diagnostics": listed});
    if let Some(version) = version {
        params["version"] = json!(version);
    }
    json!({"notify": [PUSHED, params]})
}

/// L04: a server that is asked, and one that reports by itself.
#[tokio::test]
async fn what_is_wrong_is_told_however_a_server_reports() {
    for script in [json!({}), json!({"push": true})] {
        let text = "undefined one\ndoubtful two\n";
        let mut it = Code::new(script, &[("main.toy", text), ("good.toy", "def x\n")]).await;
        let result = it.check("main.toy").await;
        assert!(result.contains("1 error, 1 warning (toy)"), "{result}");
        assert!(
            result.contains("main.toy:1: error: one is undefined [toy 7]: undefined one"),
            "{result}"
        );
        assert!(result.contains("main.toy:2: warning: two is doubtful"), "{result}");
        let result = it.check("good.toy").await;
        assert!(result.contains("No errors or warnings: good.toy (toy)"), "{result}");
        it.scene.place.write("main.toy", "def fine\n");
        let result = it.check("main.toy").await;
        assert!(result.contains("No errors or warnings: main.toy (toy)"), "{result}");
        it.finish().await;
    }
}

/// L04: a server that says later that it can be asked is asked.
#[tokio::test]
async fn a_server_that_registers_later_is_asked() {
    let one = json!([{"id": "d", "method": "textDocument/diagnostic", "registerOptions": {}}]);
    let script = json!({
        "initialize": {"capabilities": {"diagnosticProvider": false}},
        "rules": [{"on": "textDocument/didOpen", "do": [
            {"request": ["r", "client/registerCapability", {"registrations": one}]}]}],
    });
    let mut it = Code::new(script, &[("main.toy", "undefined one\n")]).await;
    let result = it.check("main.toy").await;
    assert!(result.contains("one is undefined"), "{result}");
    it.finish().await;
}

/// Of several files, one that is not there costs itself; where none is there, that is told.
#[tokio::test]
async fn a_file_that_is_not_there_says_nothing_of_the_others() {
    let mut it = Code::new(json!({}), &[("main.toy", "undefined one\n")]).await;
    for paths in [["main.toy", "gone.toy"], ["gone.toy", "main.toy"]] {
        let result = it.call("code_diagnostics", json!({"paths": paths})).await;
        assert!(result.contains("main.toy:1: error: one is undefined"), "{result}");
        assert!(result.contains("gone.toy: unknown: "), "{result}");
        assert!(result.contains("gone.toy is no file."), "{result}");
    }
    let paths = json!({"paths": ["/etc/hostname", "main.toy"]});
    let result = it.call("code_diagnostics", paths).await;
    assert!(result.contains("one is undefined"), "{result}");
    assert!(result.contains("/etc/hostname is outside of the session's folders"), "{result}");
    let result = it.call("code_diagnostics", json!({"paths": ["gone.toy", "lost.toy"]})).await;
    assert!(result.contains("gone.toy is no file."), "{result}");
    assert!(!result.contains("No errors"), "{result}");
    it.finish().await;
}

/// L01: a report of an older text is not told.
#[tokio::test]
async fn a_report_of_an_older_text_is_not_told() {
    let script = json!({
        "initialize": {"capabilities": {"diagnosticProvider": false}},
        "rules": [
            {"on": "textDocument/didOpen", "do": [wrong("of the first text", Some(1))]},
            {"on": "textDocument/didChange", "do": [
                wrong("of the first text", Some(1)), wrong("of the second text", Some(1_000))]},
            {"on": "textDocument/didSave", "do": [wrong("of the first text, late", Some(1))]},
        ],
    });
    let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
    let result = it.check("main.toy").await;
    assert!(result.contains("of the first text"), "{result}");
    it.scene.place.write("main.toy", AREA);
    let result = it.check("main.toy").await;
    assert!(result.contains("of the second text"), "{result}");
    assert!(!result.contains("of the first text"), "{result}");
    it.finish().await;
}

/// L02: silence is not "clean".
#[tokio::test]
async fn a_server_that_reports_nothing_is_unknown() {
    let script = json!({
        "initialize": {"capabilities": {"diagnosticProvider": false}},
        "rules": [{"on": "textDocument/hover", "do": [wrong("late", Some(1)), "good"]}],
    });
    let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
    let result = it.check("main.toy").await;
    assert!(result.contains("main.toy: unknown: toy did not report within 5 s"), "{result}");
    assert!(!result.contains("No errors"), "{result}");
    // Nobody waits as long for it again before it says something.
    let result = it.check("main.toy").await;
    let still =
        "main.toy: unknown: toy does not report: it did not before, and not within 0.5 s now";
    assert!(result.contains(still), "{result}");
    it.nav("hover", "main.toy", 1, "main").await;
    let result = it.check("main.toy").await;
    assert!(result.contains("late"), "{result}");
    it.finish().await;
}

/// L21: thousands of problems are counted.
#[tokio::test]
async fn thousands_of_problems_are_counted() {
    let text = "undefined x\n".repeat(3_003);
    let mut it = Code::new(json!({}), &[("main.toy", &text)]).await;
    let result = it.check("main.toy").await;
    assert!(result.contains("3003 errors (toy)"), "{result}");
    assert!(result.contains("main.toy: 2983 more are not shown"), "{result}");
    assert!(result.len() < 5_000, "{}", result.len());
    it.finish().await;
}

fn change(old: &str, new: &str) -> Value {
    json!({"path": "main.toy", "edits": [{"old_text": old, "new_text": new}]})
}

/// What an edit made wrong is in its result, once the server runs; what was wrong before is not.
#[tokio::test]
async fn an_edit_tells_what_it_made_wrong() {
    for script in [json!({}), json!({"push": true})] {
        let mut it = Code::new(script, &[("main.toy", "def a\nundefined old\n")]).await;
        let mode = json!({"sessionId": it.session, "modeId": "auto"});
        it.client.request("session/set_mode", mode).await.ok();
        it.call("read", json!({"path": "main.toy"})).await;
        let result = it.call("edit", change("def a", "undefined early")).await;
        assert!(
            !result.contains("new error"),
            "a server that does not run is not started: {result}"
        );
        assert_eq!(it.heard("started").len(), 0);
        it.check("main.toy").await;
        let result =
            it.call("edit", change("undefined early", "undefined late\nundefined more")).await;
        assert!(result.contains("Since this change there are 2 new errors"), "{result}");
        assert!(result.contains("main.toy:1: error: late is undefined"), "{result}");
        assert!(result.contains("main.toy:2: error: more is undefined"), "{result}");
        assert!(!result.contains("old is undefined"), "{result}");
        let result = it.call("edit", change("undefined late\n", "")).await;
        assert!(!result.contains("Since this change"), "{result}");
        // Without paths: what was changed.
        let result = it.call("code_diagnostics", json!({})).await;
        assert!(result.contains("2 errors (toy)"), "{result}");
        it.finish().await;
    }
}

/// What an edit breaks elsewhere is told of the files that the server has open: what was wrong there before is not.
#[tokio::test]
async fn an_edit_tells_what_it_made_wrong_elsewhere() {
    for script in [json!({}), json!({"push": true})] {
        let files = [
            ("main.toy", "def a\n"),
            ("user.toy", "needs a\nneeds old\n"),
            ("unopened.toy", "needs a\n"),
        ];
        let mut it = Code::new(script, &files).await;
        let mode = json!({"sessionId": it.session, "modeId": "auto"});
        it.client.request("session/set_mode", mode).await.ok();
        it.check("main.toy").await;
        it.check("user.toy").await;
        it.call("read", json!({"path": "main.toy"})).await;
        let result = it.call("edit", change("def a", "def b")).await;
        assert!(result.contains("Since this change there is 1 new error:"), "{result}");
        let row = "user.toy:1: error: a is needed and not defined [toy 7]: needs a";
        assert!(result.contains(row), "{result}");
        assert!(!result.contains("old is needed") && !result.contains("unopened"), "{result}");
        let result = it.call("edit", change("def b", "def b\ndef c")).await;
        assert!(!result.contains("Since this change"), "{result}");
        let result = it.call("edit", change("def b", "def a\nundefined d")).await;
        assert!(result.contains("there is 1 new error"), "{result}");
        assert!(result.contains("main.toy:2: error: d is undefined"), "{result}");
        it.finish().await;
    }
}

/// A file that was not there had no errors: what is wrong with it from its beginning on is told.
#[tokio::test]
async fn a_new_file_tells_what_is_wrong_with_it() {
    for script in [json!({}), json!({"push": true})] {
        let mut it = Code::new(script, &[("main.toy", "def a\nundefined old\n")]).await;
        let mode = json!({"sessionId": it.session, "modeId": "auto"});
        it.client.request("session/set_mode", mode).await.ok();
        it.check("main.toy").await;
        let bad = json!({"path": "new.toy", "content": "def b\nundefined fresh\n"});
        let result = it.call("write", bad).await;
        assert!(result.contains("Since this change there is 1 new error"), "{result}");
        assert!(result.contains("new.toy:2: error: fresh is undefined"), "{result}");
        assert!(!result.contains("old is undefined"), "{result}");
        let good = json!({"path": "good.toy", "content": "def c\n"});
        let result = it.call("write", good).await;
        assert!(!result.contains("Since this change"), "{result}");
        it.finish().await;
    }
}

/// Where the user does not want it, nothing is added.
#[tokio::test]
async fn an_edit_tells_nothing_where_that_is_switched_off() {
    let mut it = Code::with(json!({}), &[("main.toy", "def a\n")], "after_edit = false", "").await;
    let mode = json!({"sessionId": it.session, "modeId": "auto"});
    it.client.request("session/set_mode", mode).await.ok();
    it.check("main.toy").await;
    it.call("read", json!({"path": "main.toy"})).await;
    let result = it.call("edit", change("def a", "undefined b")).await;
    assert!(!result.contains("Since this change"), "{result}");
    it.finish().await;
}

/// A server that does not report in time holds an edit up for a bounded while, and nothing is added.
#[tokio::test]
async fn an_edit_does_not_wait_for_a_server_that_is_silent() {
    let script = json!({"rules": [{"on": "textDocument/diagnostic", "from": 2, "do": []}]});
    let mut it = Code::new(script, &[("main.toy", "def a\n")]).await;
    let mode = json!({"sessionId": it.session, "modeId": "auto"});
    it.client.request("session/set_mode", mode).await.ok();
    it.nav("definition", "main.toy", 1, "a").await;
    it.call("read", json!({"path": "main.toy"})).await;
    let result = it.call("edit", change("def a", "undefined b")).await;
    assert!(!result.contains("Since this change"), "{result}");
    assert_eq!(it.scene.place.read("main.toy"), "undefined b\n");
    it.finish().await;
}

/// Imports that a wrong environment breaks do not hide what else an edit broke.
#[tokio::test]
async fn many_new_errors_of_one_kind_are_counted() {
    let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
    let one = |number: usize, code: &str| json!({"range": range, "severity": 1, "code": code, "message": format!("{code} {number}")});
    let mut items: Vec<_> = (0..20).map(|number| one(number, "missing-import")).collect();
    items.push(one(0, "wrong-type"));
    let push = |version: u64, items: &[Value]| json!({"notify": [PUSHED, {"uri": "ROOT/main.toy", "version": version, "diagnostics": items}]});
    let script = json!({
        "initialize": {"capabilities": {"diagnosticProvider": false}},
        "rules": [
            {"on": "textDocument/didOpen", "do": [push(1, &[])]},
            {"on": "textDocument/didChange", "do": [push(1_000, &items)]},
        ],
    });
    let mut it = Code::new(script, &[("main.toy", "def a\n")]).await;
    let mode = json!({"sessionId": it.session, "modeId": "auto"});
    it.client.request("session/set_mode", mode).await.ok();
    it.check("main.toy").await;
    it.call("read", json!({"path": "main.toy"})).await;
    let result = it.call("edit", change("def a", "def b")).await;
    assert!(result.contains("there are 21 new errors"), "{result}");
    assert!(result.contains("17 more of the kind missing-import (toy) are not shown"), "{result}");
    assert!(result.contains("wrong-type 0"), "{result}");
    assert!(!result.contains("missing-import 3 "), "{result}");
    it.finish().await;
}
