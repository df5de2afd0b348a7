//! What is left out of an answer, and that this is said.

use super::*;

fn range(line: u32) -> Value {
    json!({"start": {"line": line, "character": 4}, "end": {"line": line, "character": 8}})
}

/// A limit of none is for the counts; an offset behind the end says so.
#[tokio::test]
async fn pages_say_what_they_leave_out() {
    let mut it = Code::new(json!({}), &[("area.toy", AREA), ("main.toy", MAIN)]).await;
    let references = |limit: u32, offset: u32| json!({"op": "references", "path": "main.toy", "line": 2, "symbol": "area", "limit": limit, "offset": offset});
    let result = it.call("code_nav", references(0, 0)).await;
    assert!(result.contains("4 references in 2 files"), "{result}");
    assert!(
        result.contains("4 more are not shown (offset 0 goes on): area.toy (1), main.toy (3)"),
        "{result}"
    );
    assert!(!result.contains("def area"), "{result}");
    let result = it.call("code_nav", references(2, 3)).await;
    assert!(result.contains("main.toy:3: impl area") && !result.contains("not shown"), "{result}");
    let result = it.call("code_nav", references(2, 4)).await;
    assert!(result.contains("None is shown: offset 4 is behind the last of 4"), "{result}");
    let outline = |limit: u32, offset: u32| json!({"op": "outline", "path": "area.toy", "limit": limit, "offset": offset});
    let result = it.call("code_symbols", outline(0, 0)).await;
    assert!(result.contains("2 symbols"), "{result}");
    assert!(result.contains("2 more are not shown (offset 0 goes on)"), "{result}");
    let result = it.call("code_symbols", outline(9, 2)).await;
    assert!(result.contains("None is shown: offset 2 is behind the last of 2"), "{result}");
    let search = json!({"op": "search", "query": "area", "offset": 7});
    let result = it.call("code_symbols", search).await;
    assert!(result.contains("offset 7 is behind the last of 1"), "{result}");
    it.finish().await;
}

/// A line behind the last is none, and how many there are is counted as editors do.
#[tokio::test]
async fn a_line_behind_the_last_is_told_with_how_many_there_are() {
    let text = "def one\n".repeat(10);
    let mut it = Code::new(json!({}), &[("a.toy", &text)]).await;
    let result = it.nav("definition", "a.toy", 14, "one").await;
    assert!(result.contains("there is no line 14: the file has 10 lines"), "{result}");
    let result = it.nav("definition", "a.toy", 11, "two").await;
    assert!(result.contains("there is no line 11: the file has 10 lines"), "{result}");
    let result = it.nav("hover", "a.toy", 11, "one").await;
    assert!(result.contains("`one` stands on line 10"), "{result}");
    it.finish().await;
}

/// What is in no file of this machine is counted, and is not nothing.
#[tokio::test]
async fn what_is_in_no_file_is_counted() {
    let item = |uri: &str| json!({"name": "far", "kind": 12, "uri": uri, "range": range(0), "selectionRange": range(0)});
    let symbol =
        |uri: &str| json!({"name": "far", "kind": 12, "location": {"uri": uri, "range": range(0)}});
    let call = |uri: &str| json!({"from": item(uri), "fromRanges": [range(0)]});
    let change = json!({"textDocument": {"uri": "jdt://x", "version": null}, "edits": [{"range": range(0), "newText": "n"}]});
    let both = |one: Value, other: Value| json!({"reply": [one, other]});
    let script = json!({"rules": [
        {"on": "workspace/symbol", "nth": 1, "do": [both(symbol("ROOT/main.toy"), symbol("jdt://x"))]},
        {"on": "workspace/symbol", "do": [both(symbol("jdt://x"), symbol("jar:y"))]},
        {"on": "callHierarchy/incomingCalls", "nth": 1, "do": [both(call("ROOT/main.toy"), call("jdt://x"))]},
        {"on": "callHierarchy/incomingCalls", "do": [{"reply": [call("jdt://x")]}]},
        {"on": "textDocument/rename", "do": [{"reply": {"documentChanges": [change]}}]},
    ]});
    let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
    let search = json!({"op": "search", "query": "far", "path": "main.toy"});
    let result = it.call("code_symbols", search.clone()).await;
    assert!(
        result.contains("1 symbol in 1 file (toy, complete; 1 more is in no file)"),
        "{result}"
    );
    let result = it.call("code_symbols", search).await;
    assert!(result.contains("0 symbols in 0 files (toy, complete; 2 more are in no"), "{result}");
    let result = it.call("code_nav", json!({"op": "hover", "symbol": "far"})).await;
    assert!(result.contains("2 more are in no file"), "{result}");
    let result = it.nav("incoming_calls", "main.toy", 1, "main").await;
    assert!(result.contains("1 incoming call in 1 file (toy, complete; 1 more is in"), "{result}");
    let result = it.nav("incoming_calls", "main.toy", 1, "main").await;
    assert!(result.contains("0 incoming calls in 0 files"), "{result}");
    let arguments = json!({
        "op": "rename_preview", "path": "main.toy", "line": 1, "symbol": "main", "new_name": "n",
    });
    let result = it.call("code_nav", arguments).await;
    assert!(result.contains("0 edits in 0 files; nothing was changed"), "{result}");
    assert!(result.contains("1 more is in no file"), "{result}");
    it.finish().await;
}

/// L31: a rename that moves files shows that, and the lines of a file under its new name.
#[tokio::test]
async fn a_rename_that_changes_files_shows_them() {
    let edits = |uri: &str| json!({"textDocument": {"uri": uri, "version": null}, "edits": [{"range": range(0), "newText": "size"}]});
    let changes = json!([
        edits("ROOT/main.toy"),
        {"kind": "rename", "oldUri": "ROOT/area.toy", "newUri": "ROOT/size.toy"},
        edits("ROOT/size.toy"),
        {"kind": "create", "uri": "ROOT/new.toy"},
        {"textDocument": {"uri": "ROOT/new.toy", "version": null}, "edits": [
            {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}, "newText": "def size\n"}]},
        {"kind": "delete", "uri": "ROOT/old.toy"},
    ]);
    let script = json!({"rules": [
        {"on": "textDocument/rename", "do": [{"reply": {"documentChanges": changes}}]}]});
    let files = [("area.toy", AREA), ("main.toy", MAIN), ("old.toy", "")];
    let mut it = Code::new(script, &files).await;
    let before = tree(&it.scene.place);
    let arguments = json!({
        "op": "rename_preview", "path": "main.toy", "line": 2, "symbol": "area", "new_name": "size",
    });
    let result = it.call("code_nav", arguments).await;
    let head = "3 edits in 3 files and create, rename or delete 3 files; nothing was changed";
    assert!(result.contains(head), "{result}");
    for row in [
        "rename area.toy to size.toy\\n",
        "create new.toy\\n",
        "delete old.toy\\n",
        "- 1: def area\\n+ 1: def size",
        "+ 1: def size",
    ] {
        assert!(result.contains(row), "{row}: {result}");
    }
    assert!(!result.contains("cannot be read"), "{result}");
    assert_eq!(tree(&it.scene.place), before);
    it.finish().await;
}
