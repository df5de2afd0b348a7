//! What is said to a server and what it is answered, on the wire.

use super::*;

/// L32, L33: whatever a server asks is answered, before and after it has introduced itself.
#[tokio::test]
async fn a_server_that_asks_before_it_answers_is_answered() {
    let items = json!({"items": [{"section": "toy.deep"}, {"section": "none"}, {"section": ""}]});
    let registered =
        json!({"registrations": [{"id": "r", "method": "workspace/didChangeWatchedFiles"}]});
    let script = json!({"rules": [{"on": "initialize", "do": [
        {"request": ["progress", "window/workDoneProgress/create", {"token": 1}]},
        {"request": [7, "workspace/configuration", items]},
        {"request": ["register", "client/registerCapability", registered]},
        {"request": ["folders", "workspace/workspaceFolders", null]},
        {"request": ["ask", "window/showMessageRequest", {"type": 1, "message": "?"}]},
        {"request": ["edit", "workspace/applyEdit", {"edit": {}}]},
        {"request": ["odd", "no/such", {}]},
        "good",
    ]}]});
    let own = "settings.toy.deep.value = 3";
    let mut it = Code::with(script, &[("main.toy", MAIN)], "", own).await;
    let result = it.nav("definition", "main.toy", 2, "area").await;
    assert!(result.contains("No definitions (confirmed by toy)"), "{result}");
    let answers = it.answers();
    let result = |id: &str| answers[id]["result"].clone();
    assert_eq!(result("7"), json!([{"value": 3}, null, {"toy": {"deep": {"value": 3}}}]));
    assert_eq!(result("\"edit\"")["applied"], false);
    assert_eq!(result("\"folders\"").as_array().unwrap().len(), 1);
    assert_eq!(answers["\"odd\""]["error"]["code"], -32601);
    for id in ["\"progress\"", "\"register\"", "\"ask\""] {
        assert!(answers[id].get("result").is_some_and(Value::is_null), "{id}");
    }
    let heard = &it.heard("initialize")[0]["params"];
    assert_eq!(heard["processId"], it.client.pid(), "the watchdog of a server watches us");
    it.finish().await;
}

/// L30: a server cannot change a file.
#[tokio::test]
async fn an_edit_that_a_server_wants_is_refused() {
    let edit = json!({"changes": {"ROOT/main.toy": [{"newText": "x", "range": {
        "start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 0}}}]}});
    let script = json!({"rules": [{"on": "textDocument/hover", "do": [
        {"request": ["edit", "workspace/applyEdit", {"edit": edit}]}, "good"]}]});
    let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
    let before = tree(&it.scene.place);
    it.nav("hover", "main.toy", 1, "main").await;
    it.nav("references", "main.toy", 1, "main").await;
    assert_eq!(it.answers()["\"edit\""]["result"]["applied"], false);
    assert_eq!(tree(&it.scene.place), before);
    assert_eq!(it.heard("workspace/executeCommand").len(), 0);
    it.finish().await;
}

/// No command of a server is ever executed, and nothing that leads to one is asked for: whatever it offers, it
/// hears what is listed here and nothing else.
#[tokio::test]
async fn no_command_of_a_server_is_executed() {
    let command = json!({"title": "Fix", "command": "toy.fix", "arguments": ["main.toy"]});
    let at = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 3}});
    let action =
        json!({"title": "Fix", "kind": "quickfix", "isPreferred": true, "command": command});
    let wrong = json!({"range": at, "severity": 1, "message": "bad", "code": "fixable",
        "data": {"actions": [action]}});
    let uri = json!("ROOT/main.toy");
    let filters = json!({"filters": [{"pattern": {"glob": "**/*"}}]});
    let files = ["willCreate", "didCreate", "willRename", "didRename", "willDelete", "didDelete"];
    let files: serde_json::Map<_, _> =
        files.iter().map(|name| ((*name).to_owned(), filters.clone())).collect();
    let capabilities = json!({
        "executeCommandProvider": {"commands": ["toy.fix", "editor.action.save"]},
        "codeActionProvider": {"resolveProvider": true}, "codeLensProvider": {"resolveProvider": true},
        "inlayHintProvider": {"resolveProvider": true}, "documentLinkProvider": {"resolveProvider": true},
        "completionProvider": {"resolveProvider": true}, "documentFormattingProvider": true,
        "documentOnTypeFormattingProvider": {"firstTriggerCharacter": "}"},
        "textDocumentSync": {"openClose": true, "change": 2, "save": true, "willSave": true,
            "willSaveWaitUntil": true},
        "workspace": {"fileOperations": files},
    });
    let registered = json!({"registrations": [
        {"id": "c", "method": "workspace/executeCommand", "registerOptions": {"commands": ["toy.more"]}},
        {"id": "a", "method": "textDocument/codeAction"},
    ]});
    let ask = json!({"type": 1, "message": "Run toy.fix?", "actions": [{"title": "Run"}]});
    let edit = json!({"label": "Fix", "edit": {"changes": {}}});
    let script = json!({
        "initialize": {"capabilities": capabilities},
        "rules": [
            {"on": "initialized", "do": [{"request": ["r", "client/registerCapability", registered]}]},
            {"on": "textDocument/didOpen", "do": [
                {"request": ["m", "window/showMessageRequest", ask]},
                {"request": ["e", "workspace/applyEdit", edit]},
                {"request": ["l", "workspace/codeLens/refresh", null]}, "good"]},
            {"on": "textDocument/diagnostic", "do": [{"reply": {"kind": "full", "items": [wrong]}}]},
            {"on": "textDocument/hover", "do": [{"reply": {"contents": {"kind": "markdown",
                "value": "[Fix](command:toy.fix?%5B%22main.toy%22%5D)"}, "range": at}}]},
            {"on": "textDocument/documentSymbol", "do": [{"reply": [{"name": "main", "kind": 12,
                "range": at, "selectionRange": at, "command": command}]}]},
            {"on": "workspace/symbol", "do": [{"reply": [{"name": "main", "kind": 12,
                "location": {"uri": uri, "range": at}, "command": command}]}]},
        ],
    });
    let mut it = Code::new(script, &[("main.toy", MAIN), ("area.toy", AREA)]).await;
    let mode = json!({"sessionId": it.session, "modeId": "auto"});
    it.client.request("session/set_mode", mode).await.ok();
    let ops = [
        "definition",
        "type_definition",
        "implementations",
        "references",
        "hover",
        "incoming_calls",
        "outgoing_calls",
    ];
    for op in ops {
        it.nav(op, "main.toy", 2, "area").await;
    }
    let rename = json!({"op": "rename_preview", "path": "main.toy", "line": 2, "symbol": "area",
        "new_name": "size"});
    it.call("code_nav", rename).await;
    it.call("code_symbols", json!({"op": "outline", "path": "main.toy"})).await;
    it.call("code_symbols", json!({"op": "search", "query": "main"})).await;
    let result = it.check("main.toy").await;
    assert!(result.contains("bad"), "{result}");
    it.call("read", json!({"path": "main.toy"})).await;
    let edits = json!([{"old_text": "def main", "new_text": "def major"}]);
    it.call("edit", json!({"path": "main.toy", "edits": edits})).await;
    it.call("write", json!({"path": "new.toy", "content": "def b\n"})).await;
    it.check("new.toy").await;
    it.call("shell", json!({"command": "mv new.toy moved.toy; rm area.toy"})).await;
    it.check("moved.toy").await;
    it.client.close_stdin().await;
    assert!(it.client.wait().await.0.success());
    let heard = it.scene.place.read("heard");
    let heard = heard.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let methods = heard.filter_map(|message| message["method"].as_str().map(str::to_owned));
    let expected = [
        "$/cancelRequest",
        "callHierarchy/incomingCalls",
        "callHierarchy/outgoingCalls",
        "exit",
        "initialize",
        "initialized",
        "shutdown",
        "started",
        "textDocument/definition",
        "textDocument/diagnostic",
        "textDocument/didChange",
        "textDocument/didClose",
        "textDocument/didOpen",
        "textDocument/didSave",
        "textDocument/documentSymbol",
        "textDocument/hover",
        "textDocument/implementation",
        "textDocument/prepareCallHierarchy",
        "textDocument/references",
        "textDocument/rename",
        "textDocument/typeDefinition",
        "workspace/didChangeWatchedFiles",
        "workspace/symbol",
    ];
    let methods: std::collections::BTreeSet<String> = methods.collect();
    let others: Vec<_> = methods.iter().filter(|it| !expected.contains(&it.as_str())).collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(methods.len() > 18, "{methods:?}");
}

/// L34: what a server prints beside its frames costs nothing.
#[tokio::test]
async fn noise_beside_frames_is_skipped() {
    let mut it = Code::new(json!({"noise": true}), &[("main.toy", MAIN)]).await;
    let result = it.nav("references", "main.toy", 2, "area").await;
    assert!(result.contains("3 references"), "{result}");
    it.finish().await;
}

/// L35: a server that writes before it reads is no deadlock.
#[tokio::test]
async fn a_server_that_writes_megabytes_before_it_reads_goes_on() {
    let script = json!({"rules": [
        {"on": "initialized", "do": [{"write": 4 << 20}]},
        {"on": "textDocument/didOpen", "do": [{"write": 1 << 20}]},
    ]});
    let large = format!("{MAIN}{}\n", "x".repeat(200 << 10));
    let names: Vec<_> = (0..6).map(|number| format!("f{number}.toy")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), large.as_str())).collect();
    let mut it = Code::new(script, &files).await;
    let ask = |name: &String| json!({"op": "hover", "path": name, "line": 1, "symbol": "main"});
    let calls: Vec<_> = names.iter().map(|name| ("code_nav", ask(name))).collect();
    let result = it.calls(&calls).await;
    assert_eq!(result.matches("def main").count(), 6, "{result}");
    it.finish().await;
}

/// L21: an answer without end becomes one that a model can read.
#[tokio::test]
async fn a_flood_is_cut_and_counted() {
    let at = |line: usize| {
        json!({"uri": "ROOT/main.toy", "range": {
        "start": {"line": line, "character": 0}, "end": {"line": line, "character": 1}}})
    };
    let many: Vec<_> = (0..50_000).map(at).collect();
    let script = json!({"rules": [
        {"on": "textDocument/references", "do": [{"reply": many}]},
        {"on": "textDocument/hover", "nth": 1, "do": [{"big": 5 << 20}]},
        {"on": "textDocument/hover", "nth": 2, "do": [{"big": 17 << 20}]},
    ]});
    let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
    let result = it.nav("references", "main.toy", 2, "area").await;
    assert!(result.contains("50000 references in 1 file"), "{result}");
    assert!(
        result.contains("49900 more are not shown (offset 100 goes on): main.toy (49900)"),
        "{result}"
    );
    assert!(result.len() < 17_000, "{}", result.len());
    let result = it.nav("hover", "main.toy", 2, "area").await;
    assert!(result.contains("more bytes are not shown"), "{result}");
    assert!(result.len() < 6_000, "{}", result.len());
    let result = it.nav("hover", "main.toy", 2, "area").await;
    assert!(result.contains("longer than 16 MiB"), "{result}");
    let result = it.nav("hover", "main.toy", 1, "main").await;
    assert!(result.contains("def main"), "{result}");
    it.finish().await;
}

/// What a server answers that cannot be read is unknown: never "none", never "complete".
#[tokio::test]
async fn what_cannot_be_read_is_told_as_unknown() {
    let nav = |op: &str| {
        let arguments = json!({"op": op, "path": "main.toy", "line": 1, "symbol": "main"});
        ("code_nav", arguments)
    };
    let search = ("code_symbols", json!({"op": "search", "query": "mai", "path": "main.toy"}));
    let outline = ("code_symbols", json!({"op": "outline", "path": "main.toy"}));
    let check = ("code_diagnostics", json!({"paths": ["main.toy"]}));
    let cases = [
        ("textDocument/references", json!("zzz"), nav("references")),
        ("textDocument/references", json!({"a": 1}), nav("references")),
        ("textDocument/hover", json!(5), nav("hover")),
        ("textDocument/hover", json!([1, 2, "x"]), nav("hover")),
        ("callHierarchy/incomingCalls", json!({"x": 1}), nav("incoming_calls")),
        ("workspace/symbol", json!({"a": 1}), search),
        ("textDocument/documentSymbol", json!({"a": 1}), outline.clone()),
        ("textDocument/documentSymbol", json!([{"a": 1}]), outline),
        ("textDocument/diagnostic", json!(5), check.clone()),
        ("textDocument/diagnostic", json!(null), check.clone()),
        ("textDocument/diagnostic", json!({"kind": "full"}), check.clone()),
        ("textDocument/diagnostic", json!({"kind": "unchanged", "resultId": "1"}), check),
    ];
    for (method, reply, (tool, arguments)) in cases {
        let script = json!({"rules": [{"on": method, "do": [{"reply": reply}]}]});
        let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
        let result = it.call(tool, arguments).await;
        let unknown = "what toy answered cannot be read; whether there is an answer is unknown";
        assert!(result.contains(unknown), "{method} {reply}: {result}");
        assert!(!result.contains("confirmed"), "{method} {reply}: {result}");
        it.finish().await;
    }
}

/// What can be read of an answer is told, and that it is not all; `null` is an answer.
#[tokio::test]
async fn what_can_be_read_of_an_answer_is_told() {
    let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
    let place = json!([{"uri": "ROOT/main.toy", "range": range}, 7, {"a": 1}]);
    let problem = json!([{"range": range, "severity": 1, "message": "bad"}, 7]);
    let script = json!({"rules": [
        {"on": "textDocument/references", "nth": 1, "do": [{"reply": place}]},
        {"on": "textDocument/references", "from": 2, "do": [{"reply": null}]},
        {"on": "textDocument/diagnostic", "do": [{"reply": {"kind": "full", "items": problem}}]},
    ]});
    let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
    let result = it.nav("references", "main.toy", 1, "main").await;
    let told = "1 reference in 1 file (toy, may be incomplete: 2 more that were answered";
    assert!(result.contains(told), "{result}");
    let result = it.nav("references", "main.toy", 1, "main").await;
    assert!(result.contains("No references (confirmed by toy)"), "{result}");
    let result = it.check("main.toy").await;
    assert!(result.contains("main.toy:1: error: bad"), "{result}");
    assert!(result.contains("main.toy: toy: may be incomplete: 1 more that were"), "{result}");
    it.finish().await;
}

/// L22: a server that does not answer one question answers another, and hears when nobody waits.
#[tokio::test]
async fn a_question_without_an_answer_holds_up_no_other() {
    let script = json!({"rules": [{"on": "textDocument/references", "do": []}]});
    let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
    let ask = |op: &str| json!({"op": op, "path": "main.toy", "line": 1, "symbol": "main"});
    let answer =
        Answer::new().tool_call("code_nav", ask("references")).tool_call("code_nav", ask("hover"));
    it.scene.model.push(answer);
    let turn = it.client.begin_prompt(&it.session, "go").await;
    it.scene.place.appears("heard.textDocument-hover.1").await;
    it.scene.place.appears("heard.textDocument-references.1").await;
    it.client.cancel(&it.session).await;
    assert_eq!(it.client.reply(&turn).await.stop_reason(), "cancelled");
    it.scene.place.appears("heard.--cancelRequest.1").await;
    it.client.finish(&it.scene.place).await;
}

/// L22: a server that does not answer is waited for once, and for a moment only until it answers; what it answers
/// otherwise has its time.
#[tokio::test]
async fn a_server_that_does_not_answer_is_waited_for_once() {
    let script = json!({"rules": [
        {"on": "textDocument/hover", "nth": 1, "do": []},
        {"on": "textDocument/hover", "nth": 2, "do": []},
        {"on": "textDocument/hover", "nth": 3, "do": []},
        {"on": "textDocument/hover", "nth": 5, "do": []},
    ]});
    let own = "start_timeout_s = 1";
    let mut it = Code::with(script, &[("main.toy", MAIN)], "", own).await;
    let unknown = "whether there is an answer is unknown";
    let waited = format!("toy did not answer within 10 s; {unknown}");
    let again = format!(
        "does not answer: it did not when it was asked before, and not within 0.5 s now; {unknown}"
    );
    let result = it.nav("hover", "main.toy", 1, "main").await;
    assert!(result.contains(&waited), "{result}");
    let result = it.nav("hover", "main.toy", 1, "main").await;
    assert!(result.contains(&again), "{result}");
    // That it answers something else says nothing of this.
    let result = it.nav("references", "main.toy", 2, "area").await;
    assert!(result.contains("3 references"), "{result}");
    let result = it.nav("hover", "main.toy", 1, "main").await;
    assert!(result.contains(&again), "{result}");
    let result = it.nav("hover", "main.toy", 1, "main").await;
    assert!(result.contains("def main"), "{result}");
    let result = it.nav("hover", "main.toy", 1, "main").await;
    assert!(result.contains(&waited), "{result}");
    it.finish().await;
}

/// L17: positions are counted as was agreed on, in both directions.
#[tokio::test]
async fn positions_are_counted_as_was_agreed_on() {
    for (encoding, column) in [("utf-8", 18), ("utf-16", 12), ("utf-32", 10), ("", 12)] {
        let mut script = json!({"initialize": {"capabilities": {"positionEncoding": encoding}}});
        if encoding.is_empty() {
            script = json!({});
        }
        let text = "def tótal\n\"𝒳𝒳é\" ; é tótal(1)\n";
        let mut it = Code::new(script, &[("a.toy", text)]).await;
        let result = it.nav("references", "a.toy", 2, "tótal").await;
        assert!(result.contains("2 references in 1 file"), "{encoding}: {result}");
        let asked = &it.heard("textDocument/references")[0]["params"]["position"];
        assert_eq!(*asked, json!({"line": 1, "character": column}), "{encoding}");
        // The change that follows has to have the right end.
        it.scene.place.write("a.toy", format!("{text}def \u{1d4b3}"));
        it.nav("references", "a.toy", 1, "tótal").await;
        let arguments = json!({
            "op": "rename_preview", "path": "a.toy", "line": 2, "symbol": "tótal", "new_name": "s",
        });
        let result = it.call("code_nav", arguments).await;
        assert!(result.contains("+ 2: \\\"𝒳𝒳é\\\" ; é s(1)"), "{encoding}: {result}");
        it.finish().await;
    }
}

/// L42: line ends, marks and tabs shift nothing.
#[tokio::test]
async fn line_ends_and_byte_order_marks_shift_nothing() {
    let text = "\u{feff}def one\r\n\tone() one()\rdef two\n\n\ttwo()";
    let mut it = Code::new(json!({}), &[("a.toy", text)]).await;
    let result = it.nav("references", "a.toy", 2, "one#2").await;
    assert!(result.contains("3 references"), "{result}");
    assert!(
        result.contains("a.toy:1: def one") && result.contains("a.toy:2: one() one()"),
        "{result}"
    );
    let result = it.nav("definition", "a.toy", 5, "two").await;
    assert!(result.contains("a.toy:3: def two"), "{result}");
    let opened = &it.heard("textDocument/didOpen")[0]["params"]["textDocument"]["text"];
    assert!(opened.as_str().unwrap().starts_with("def one\r\n"), "{opened}");
    it.scene.place.write("a.toy", "def one\r\n\tone()\r\n");
    let result = it.nav("references", "a.toy", 2, "one").await;
    assert!(result.contains("2 references"), "{result}");
    it.finish().await;
}

/// L19: a file is the same however its address is spelled.
#[tokio::test]
async fn addresses_are_compared_decoded() {
    let script = json!({"push": true});
    let name = "a (b) [é]%#+.toy";
    let mut it = Code::new(script, &[(name, "def one\nundefined two\n")]).await;
    let result = it.check(name).await;
    assert!(result.contains("two is undefined [toy 7]"), "{result}");
    let result = it.nav("definition", name, 1, "one").await;
    assert!(result.contains(&format!("{name}:1: def one")), "{result}");
    it.finish().await;
}

/// L20: a file behind a link is the file.
#[tokio::test]
async fn a_file_behind_a_link_is_the_file() {
    let mut it = Code::new(json!({}), &[("src/main.toy", MAIN)]).await;
    let workspace = it.scene.place.workspace();
    fs_err::os::unix::fs::symlink(workspace.join("src"), workspace.join("link")).unwrap();
    it.nav("references", "src/main.toy", 2, "area").await;
    let result = it.nav("references", "link/main.toy", 2, "area").await;
    assert!(result.contains("3 references in 1 file"), "{result}");
    assert_eq!(it.heard("textDocument/didOpen").len(), 1);
    it.finish().await;
}

/// L38: what ignore files leave out is counted, and what is elsewhere is marked.
#[tokio::test]
async fn ignored_files_are_counted_and_foreign_ones_marked() {
    let at = |uri: &str| {
        json!({"uri": uri, "range": {
        "start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}})
    };
    let found =
        [at("ROOT/main.toy"), at("ROOT/out/made.toy"), at("file:///etc/hostname"), at("jdt://x")];
    let script = json!({"rules": [{"on": "textDocument/references", "do": [{"reply": found}]}]});
    let files = [
        ("main.toy", MAIN),
        ("out/made.toy", "made"),
        (".gitignore", "out/\n"),
        (".git/HEAD", "x"),
    ];
    let mut it = Code::new(script, &files).await;
    let result = it.nav("references", "main.toy", 1, "main").await;
    assert!(
        result.contains("2 references in 2 files (toy, complete; 1 more is in no file)"),
        "{result}"
    );
    assert!(result.contains("/etc/hostname:1 (external)"), "{result}");
    assert!(result.contains("1 more in files that ignore files leave out"), "{result}");
    assert!(!result.contains("made.toy"), "{result}");
    it.finish().await;
}

/// L33: settings are told, except to a server that asks for them and would begin anew.
#[tokio::test]
async fn a_server_that_asks_for_its_settings_is_not_told_of_them_besides() {
    for (name, told) in [("vtsls", 1), ("pyright", 0)] {
        let items = json!({"items": [{"section": "python.analysis"}]});
        let script = json!({"rules": [
            {"on": "initialized", "do": [{"request": [7, "workspace/configuration", items]}]}]});
        let mut it = Code::known_as(name, script, &[("main.toy", MAIN)]).await;
        it.nav("hover", "main.toy", 1, "main").await;
        assert_eq!(it.heard("workspace/didChangeConfiguration").len(), told, "{name}");
        let answer = it.answers().remove("7").unwrap();
        let knows = answer["result"][0]["diagnosticMode"] == "openFilesOnly";
        assert_eq!(knows, name == "pyright", "{answer}");
        it.finish().await;
    }
}
