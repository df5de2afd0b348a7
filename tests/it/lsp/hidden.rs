//! Letters that nobody sees in what servers say: the model reads them written out. Lines of a file stay as they
//! are, so that they can be edited.

use super::*;

/// Letters that colour a terminal, turn the direction of writing, have no width, and that nobody sees.
const HIDDEN: &str = "a\u{1b}[31mb\u{202e}c\u{200b}d\u{e0041}e";

/// The same as text in JSON, to be seen.
const SEEN: &str = r"a\\u{1b}[31mb\\u{202e}c\\u{200b}d\\u{e0041}e";

fn hides(text: &str) -> bool {
    let raw = |letter| HIDDEN.contains(letter) && !char::is_ascii(&letter);
    // An escape of JSON, which has no braces.
    text.contains(raw) || text.contains("\\u001b")
}

/// S10: every text of a server that is shown.
#[tokio::test]
async fn what_cannot_be_seen_in_what_a_server_says_is_written_out() {
    let range = json!({"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 8}});
    let uri = "ROOT/main.toy";
    let item = json!({"name": HIDDEN, "detail": format!("of {HIDDEN}"), "kind": 12, "uri": uri, "range": range,
        "selectionRange": range, "data": HIDDEN});
    let reply = |method: &str, result: Value| json!({"on": method, "do": [{"reply": result}]});
    let problem = json!({"range": range, "message": HIDDEN, "code": HIDDEN, "source": HIDDEN});
    let script = json!({
        "initialize": {"serverInfo": {"name": HIDDEN, "version": HIDDEN}},
        "rules": [
            reply("textDocument/hover", json!({"contents": [HIDDEN, {"language": "x", "value": HIDDEN}]})),
            reply("textDocument/documentSymbol", json!([item])),
            reply("workspace/symbol", json!([
                {"name": HIDDEN, "containerName": HIDDEN, "kind": 12, "location": {"uri": uri, "range": range}},
            ])),
            reply("textDocument/prepareCallHierarchy", json!([item])),
            reply("callHierarchy/incomingCalls", json!([{"from": item, "fromRanges": [range]}])),
            reply("textDocument/diagnostic", json!({"kind": "full", "items": [problem]})),
            reply("textDocument/rename", json!({"changes": {uri: [{"range": range, "newText": HIDDEN}]}})),
            {"on": "textDocument/references", "do": [{"error": [-32602, HIDDEN]}]},
        ],
    });
    let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
    for (tool, arguments, times) in [
        ("code_nav", json!({"op": "hover"}), 2),
        ("code_nav", json!({"op": "incoming_calls"}), 2),
        ("code_nav", json!({"op": "rename_preview", "new_name": "size"}), 1),
        ("code_nav", json!({"op": "references"}), 1),
        ("code_symbols", json!({"op": "outline"}), 1),
        ("code_symbols", json!({"op": "search", "query": "a"}), 2),
        ("code_diagnostics", json!({}), 3),
    ] {
        let about = match tool {
            "code_nav" => json!({"path": "main.toy", "line": 1, "symbol": "main"}),
            "code_symbols" => json!({"path": "main.toy"}),
            _ => json!({"paths": ["main.toy"]}),
        };
        let mut asked = about.as_object().unwrap().clone();
        asked.extend(arguments.as_object().unwrap().clone());
        let told = it.call(tool, Value::Object(asked)).await;
        assert_eq!(told.matches(SEEN).count(), times, "{arguments}: {told}");
        assert!(!hides(&told), "{arguments}: {told:?}");
    }
    // It gets back what it gave.
    assert_eq!(it.heard("callHierarchy/incomingCalls")[0]["params"]["item"]["data"], HIDDEN);
    it.client.prompt(&it.session, "/lsp").await;
    let shown = it.client.trace().text(&it.session);
    assert!(json!(shown).to_string().contains(&format!("{SEEN} {SEEN}")), "{shown}");
    it.finish().await;
}

/// What a server is busy with, why it cannot be relied on, and why it ended.
#[tokio::test]
async fn what_a_server_says_of_itself_hides_nothing() {
    let begin = json!({"token": "p", "value": {"kind": "begin", "title": HIDDEN}});
    let health = json!({"health": "error", "message": HIDDEN});
    for (notified, told) in [
        (json!(["$/progress", begin]), format!("(toy, still loading ({SEEN})")),
        (json!(["experimental/serverStatus", health]), format!("says that it failed: {SEEN};")),
    ] {
        let script = json!({"rules": [{"on": "initialized", "do": [{"notify": notified}]}]});
        let mut it = Code::new(script, &[("main.toy", MAIN), ("area.toy", AREA)]).await;
        let result = it.nav("definition", "main.toy", 2, "area").await;
        assert!(result.contains(&told) && !hides(&result), "{result:?}");
        it.finish().await;
    }
    for how in ["stderr", "raw"] {
        let last = [json!({how: format!("{HIDDEN}\n")}), json!({"exit": 3})];
        let script = json!({"rules": [{"on": "initialize", "do": last}]});
        let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
        let result = it.nav("definition", "main.toy", 2, "area").await;
        assert!(result.contains(SEEN) && !hides(&result), "{how}: {result:?}");
        it.finish().await;
    }
}

/// What is wrong since an edit.
#[tokio::test]
async fn new_errors_hide_nothing() {
    let range = json!({"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 8}});
    let problem = json!({"range": range, "message": HIDDEN});
    let report = json!({"uri": "ROOT/main.toy", "version": 1_000, "diagnostics": [problem]});
    let says = json!([{"notify": ["textDocument/publishDiagnostics", report]}]);
    let script = json!({"push": true, "rules": [
        {"on": "textDocument/didChange", "do": says}, {"on": "textDocument/didSave", "do": says},
    ]});
    let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
    it.check("main.toy").await;
    it.call("read", json!({"path": "main.toy"})).await;
    let edits = json!([{"old_text": "def main", "new_text": "def mine"}]);
    let told = it.call("edit", json!({"path": "main.toy", "edits": edits})).await;
    assert!(told.contains("1 new error") && told.contains(SEEN) && !hides(&told), "{told:?}");
    it.finish().await;
}

/// A line of a file is the file's, as `read` shows it: the model can edit what it was shown.
#[tokio::test]
async fn a_line_of_a_file_is_shown_as_it_can_be_edited() {
    let line = format!("  area() # {HIDDEN}");
    let text = format!("def main\n{line}\n");
    let mut it = Code::new(json!({}), &[("main.toy", &text), ("area.toy", AREA)]).await;
    let told = it.nav("references", "main.toy", 2, "area").await;
    let blocks: Value = serde_json::from_str(&told).unwrap();
    let (_, shown) = blocks[0]["text"].as_str().unwrap().split_once("main.toy:2: ").unwrap();
    let shown = shown.lines().next().unwrap();
    assert_eq!(shown, line.trim());
    it.call("read", json!({"path": "main.toy"})).await;
    let edits = json!([{"old_text": shown, "new_text": "area()"}]);
    it.call("edit", json!({"path": "main.toy", "edits": edits})).await;
    assert_eq!(it.scene.place.read("main.toy"), "def main\n  area()\n");
    it.finish().await;
}
