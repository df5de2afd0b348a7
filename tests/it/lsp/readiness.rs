//! Servers that do not know the project yet, or never will: "unknown" is not "none".

use super::*;

fn progress(token: &str, kind: &str) -> Value {
    json!({"notify": ["$/progress", {"token": token, "value": {"kind": kind, "title": "Indexing"}}]})
}

fn references(count: usize) -> Value {
    let at = |line: usize| {
        json!({"uri": "ROOT/main.toy", "range": {
        "start": {"line": line, "character": 0}, "end": {"line": line, "character": 1}}})
    };
    json!({"reply": (0..count).map(at).collect::<Vec<_>>()})
}

/// L25: what a server finds while it loads is not taken for all.
#[tokio::test]
async fn a_part_of_the_truth_is_not_taken_for_all_of_it() {
    let script = json!({"rules": [
        {"on": "initialized", "do": [progress("p", "begin")]},
        {"on": "textDocument/references", "nth": 1, "do": [references(1)]},
        {"on": "textDocument/references", "nth": 2, "do": [references(1)]},
        {"on": "textDocument/references", "nth": 3, "do": [references(2), progress("p", "end")]},
        {"on": "textDocument/references", "do": [references(3)]},
    ]});
    let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
    let result = it.nav("references", "main.toy", 1, "main").await;
    assert!(result.contains("3 references in 1 file (toy, complete)"), "{result}");
    it.finish().await;
}

/// L25: nothing yet, from a server that never gets ready, is not nothing.
#[tokio::test]
async fn nothing_from_a_server_that_loads_for_ever_is_unknown() {
    let script = json!({"rules": [
        {"on": "initialized", "do": [progress("p", "begin")]},
        {"on": "textDocument/references", "do": [{"reply": []}]},
    ]});
    let own = "start_timeout_s = 1";
    let mut it = Code::with(script, &[("main.toy", MAIN)], "", own).await;
    let result = it.nav("references", "main.toy", 1, "main").await;
    assert!(result.contains("No references yet: toy is still loading (Indexing)"), "{result}");
    assert!(result.contains("Whether there are any is unknown"), "{result}");
    it.finish().await;
}

/// L25: a server that lacks what it knows the project by is never believed to know all of it; what one file
/// tells it knows.
#[tokio::test]
async fn a_server_that_knows_a_part_of_the_project_says_so() {
    let script = json!({"rules": [
        {"on": "textDocument/references", "do": [references(1)]},
        {"on": "textDocument/implementation", "do": [{"reply": []}]},
        {"on": "workspace/symbol", "do": [{"reply": []}]},
    ]});
    let own = "whole_with = [\"toy.db\"]";
    let mut it = Code::with(script, &[("main.toy", MAIN)], "", own).await;
    let why = "without toy.db it knows only the files that it was shown";
    let result = it.nav("references", "main.toy", 1, "main").await;
    assert!(
        result.contains(&format!("1 reference in 1 file (toy, may be incomplete: {why})")),
        "{result}"
    );
    let result = it.nav("implementations", "main.toy", 1, "main").await;
    assert!(result.contains(&format!("No implementations that toy knows; {why}.")), "{result}");
    let search = json!({"op": "search", "query": "nothing"});
    let result = it.call("code_symbols", search).await;
    assert!(result.contains("Whether there are any is unknown"), "{result}");
    let result = it.nav("hover", "main.toy", 1, "main").await;
    assert!(result.contains("(toy, complete"), "{result}");
    it.finish().await;

    let files = [("main.toy", MAIN), ("toy.db", ""), ("toy.root", "")];
    let mut it = Code::with(json!({}), &files, "", own).await;
    let result = it.nav("references", "main.toy", 2, "area").await;
    assert!(result.contains("(toy, complete"), "{result}");
    it.finish().await;
}

/// An empty answer of a server that has just been started is asked again.
#[tokio::test]
async fn an_empty_first_answer_is_not_believed_at_once() {
    let script =
        json!({"rules": [{"on": "textDocument/definition", "nth": 1, "do": [{"reply": null}]}]});
    let mut it = Code::new(script, &[("main.toy", MAIN), ("area.toy", AREA)]).await;
    let result = it.nav("definition", "main.toy", 2, "area").await;
    assert!(result.contains("area.toy:1: def area"), "{result}");
    it.finish().await;
}

/// L25: one thing that is found is told at once, and that the server still loads; a list waits, and nothing
/// is not believed.
#[tokio::test]
async fn what_is_found_while_a_server_loads_is_told_at_once() {
    let script = json!({"rules": [
        {"on": "initialized", "do": [progress("p", "begin")]},
        {"on": "textDocument/definition", "nth": 2, "do": [{"reply": []}]},
        {"on": "textDocument/definition", "nth": 3, "do": [{"reply": null}]},
        {"on": "textDocument/references", "nth": 1, "do": [references(1)]},
        {"on": "textDocument/references", "nth": 2, "do": [references(1)]},
        {"on": "textDocument/references", "nth": 3, "do": [references(2), progress("p", "end")]},
        {"on": "textDocument/references", "do": [references(3)]},
    ]});
    let mut it = Code::new(script, &[("main.toy", MAIN), ("area.toy", AREA)]).await;
    let found = "(toy, still loading (Indexing): there may be more";
    for (round, asked) in [(1, 1), (2, 4)] {
        let result = it.nav("definition", "main.toy", 2, "area").await;
        assert!(result.contains("area.toy:1: def area"), "{round}: {result}");
        assert!(result.contains(found), "{round}: {result}");
        assert_eq!(it.heard("textDocument/definition").len(), asked, "{round}");
    }
    for op in ["hover", "type_definition"] {
        let result = it.nav(op, "main.toy", 2, "area").await;
        assert!(result.contains("def area") && result.contains(found), "{op}: {result}");
    }
    let result = it.nav("references", "main.toy", 2, "area").await;
    assert!(result.contains("3 references in 1 file (toy, complete"), "{result}");
    it.finish().await;
}

/// L25: a server that is known to find the wrong thing first is waited for, but only until it has done what it
/// says that it does.
#[tokio::test]
async fn a_hasty_server_is_waited_for_until_it_says_that_it_is_done() {
    let wrong = json!({"reply": [{"uri": "ROOT/main.toy", "range": {
        "start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 8}}}]});
    let script = json!({"rules": [
        {"on": "textDocument/didOpen", "nth": 1, "do": [progress("p", "begin")]},
        {"on": "textDocument/definition", "nth": 1, "do": [wrong]},
        {"on": "textDocument/definition", "nth": 2, "do": [wrong, progress("p", "end")]},
    ]});
    let mut it = Code::known_as("vtsls", script, &[("main.toy", MAIN), ("area.toy", AREA)]).await;
    let result = it.nav("definition", "main.toy", 2, "area").await;
    assert!(result.contains("area.toy:1: def area"), "{result}");
    assert!(!result.contains("main.toy:1"), "{result}");
    assert_eq!(it.heard("textDocument/definition").len(), 3);
    it.finish().await;
}

/// L25: a server that is known to find out more for a while and never says so is asked again behind that while.
#[tokio::test]
async fn a_server_that_says_nothing_of_its_work_is_given_the_time_for_it() {
    let script = json!({"rules": [
        {"on": "textDocument/references", "nth": 1, "do": [references(1)]},
        {"on": "textDocument/implementation", "nth": 1, "do": [{"reply": []}]},
    ]});
    let mut it = Code::known_as("pyright", script, &[("main.toy", MAIN), ("area.toy", AREA)]).await;
    let result = it.nav("references", "main.toy", 2, "area").await;
    assert!(result.contains("4 references in 2 files (pyright, complete"), "{result}");
    // It has had its time by now.
    let result = it.nav("implementations", "main.toy", 2, "area").await;
    assert!(result.contains("No implementations (confirmed by pyright)"), "{result}");
    assert_eq!(it.heard("textDocument/implementation").len(), 1);
    it.finish().await;
}

/// What a server says of a place, a name in a line from 0.
fn place(file: &str, line: usize, start: usize, end: usize) -> Value {
    json!({"uri": format!("ROOT/{file}"), "range": {
        "start": {"line": line, "character": start}, "end": {"line": line, "character": end}}})
}

/// What a server answers that loads for ever, begins with `rules`, and takes `impl area` for a declaration.
fn declares(rules: Value) -> Value {
    let declared = json!({"reply": [place("main.toy", 2, 5, 9)]});
    let mut all = rules.as_array().unwrap().clone();
    all.extend([
        json!({"on": "textDocument/didOpen", "nth": 1, "do": [progress("p", "begin")]}),
        json!({"on": "textDocument/declaration", "do": [declared]}),
    ]);
    json!({"initialize": {"capabilities": {"declarationProvider": true}}, "rules": all})
}

/// L25: a definition that is no declaration is one, whatever the server learns yet; a declaration alone is asked
/// about again.
#[tokio::test]
async fn a_definition_that_is_no_declaration_is_told_while_a_server_loads() {
    let declared = json!({"reply": [place("main.toy", 2, 5, 9)]});
    let more = json!({"notify": ["$/progress", {"token": "p", "value": {"kind": "report"}}]});
    let script = declares(json!([
        {"on": "textDocument/definition", "nth": 1, "do": [declared]},
        {"on": "textDocument/definition", "nth": 2, "do": [declared, more]},
    ]));
    let mut it = Code::known_as("clangd", script, &[("main.toy", MAIN), ("area.toy", AREA)]).await;
    let result = it.nav("definition", "main.toy", 2, "area").await;
    assert!(result.contains("area.toy:1: def area"), "{result}");
    assert!(!result.contains("main.toy:3"), "{result}");
    assert!(result.contains("still loading (Indexing): there may be more"), "{result}");
    assert_eq!(it.heard("textDocument/definition").len(), 3);
    it.finish().await;
}

/// L25: what a server remembers of a file from another day is no proof where the file has another name there.
#[tokio::test]
async fn a_definition_that_has_moved_is_waited_for() {
    let moved = json!({"reply": [place("area.toy", 2, 4, 8)]});
    let script = declares(json!([
        {"on": "textDocument/definition", "nth": 1, "do": [moved]},
        {"on": "textDocument/definition", "nth": 2, "do": [moved, progress("p", "end")]},
    ]));
    let mut it = Code::known_as("clangd", script, &[("main.toy", MAIN), ("area.toy", AREA)]).await;
    let result = it.nav("definition", "main.toy", 2, "area").await;
    assert!(result.contains("area.toy:1: def area"), "{result}");
    assert_eq!(it.heard("textDocument/definition").len(), 3);
    it.finish().await;
}

/// L25: what is declared where it is defined has no other place, as the server says itself; where it does not say
/// so, the end of its work is waited for.
#[tokio::test]
async fn a_declaration_is_a_definition_where_its_server_says_so() {
    let declared = place("main.toy", 2, 5, 9);
    let info = |defined: Value| json!({"name": "area", "definitionRange": defined});
    for (known, asked) in [(info(declared.clone()), 1), (info(Value::Null), 3), (json!(7), 3)] {
        let reply = json!({"reply": [declared]});
        let script = declares(json!([
            {"on": "textDocument/definition", "nth": 2, "do": [reply, progress("p", "end")]},
            {"on": "textDocument/definition", "do": [reply]},
            {"on": "textDocument/symbolInfo", "do": [{"reply": [known]}]},
        ]));
        let files = [("main.toy", MAIN), ("area.toy", AREA)];
        let mut it = Code::known_as("clangd", script, &files).await;
        let result = it.nav("definition", "main.toy", 2, "area").await;
        assert!(result.contains("main.toy:3: impl area"), "{result}");
        assert_eq!(it.heard("textDocument/definition").len(), asked, "{known}");
        it.finish().await;
    }
}

/// L26: a server that says it is done and dies has not answered.
#[tokio::test]
async fn a_server_that_ends_its_progress_by_dying_has_not_answered() {
    let script = json!({"rules": [
        {"on": "initialized", "nth": 1, "do": [progress("p", "begin")]},
        {"on": "textDocument/references", "nth": 1, "do": [
            {"reply": []}, progress("p", "end"), {"stderr": "out of memory"}, {"exit": 134}]},
    ]});
    let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
    let result = it.nav("references", "main.toy", 2, "area").await;
    assert!(result.contains("3 references in 1 file (toy, complete"), "{result}");
    assert_eq!(it.heard("started").len(), 2);
    it.finish().await;
}

/// L27: a server that says it failed is quoted.
#[tokio::test]
async fn a_server_that_says_it_failed_is_not_relied_on() {
    let status = json!({"health": "error", "quiescent": true, "message": "no toolchain `x`"});
    let script = json!({"rules": [
        {"on": "initialized", "do": [{"notify": ["experimental/serverStatus", status]}]},
        {"on": "textDocument/definition", "do": [{"reply": []}]},
    ]});
    let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
    let result = it.nav("definition", "main.toy", 2, "area").await;
    assert!(result.contains("the server says that it failed: no toolchain `x`"), "{result}");
    it.finish().await;
}

/// L24: what a change overtook is asked again, but not for ever.
#[tokio::test]
async fn a_question_that_a_change_overtook_is_asked_again() {
    let modified = json!([{"error": [-32801, "content modified"]}]);
    let rules: Vec<_> = (1..=3)
        .map(|nth| json!({"on": "textDocument/references", "nth": nth, "do": modified}))
        .chain([json!({"on": "textDocument/hover", "do": [{"error": [-32800, "cancelled"]}]})])
        .collect();
    let mut it = Code::new(json!({"rules": rules}), &[("main.toy", MAIN)]).await;
    let result = it.nav("references", "main.toy", 2, "area").await;
    assert!(result.contains("3 references"), "{result}");
    let result = it.nav("hover", "main.toy", 2, "area").await;
    assert!(result.contains("the files changed again and again"), "{result}");
    assert_eq!(it.heard("textDocument/hover").len(), 6);
    it.finish().await;
}

/// What a server does not have is told from what there is not.
#[tokio::test]
async fn what_a_server_does_not_have_is_told_as_that() {
    let capabilities = json!({"implementationProvider": false});
    let script = json!({"initialize": {"capabilities": capabilities}, "rules": [
        {"on": "textDocument/typeDefinition", "do": [{"error": [-32601, "no"]}]}]});
    let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
    for op in ["implementations", "type_definition", "type_definition"] {
        let result = it.nav(op, "main.toy", 2, "area").await;
        assert!(result.contains("toy does not support this"), "{op}: {result}");
    }
    assert_eq!(it.heard("textDocument/typeDefinition").len(), 1);
    it.finish().await;
}
