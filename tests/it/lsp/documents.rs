//! What servers are shown of files, and that it is what the disk holds.

use super::*;

/// L36: a change comes in the form that the server wants.
#[tokio::test]
async fn a_change_comes_in_the_form_that_was_agreed_on() {
    for (flag, kind) in [("ranges_only", 2), ("full_only", 1)] {
        let sync = json!({"openClose": true, "change": kind, "save": {"includeText": true}});
        let script =
            json!({flag: true, "initialize": {"capabilities": {"textDocumentSync": sync}}});
        let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
        it.nav("references", "main.toy", 2, "area").await;
        it.scene.place.write("main.toy", "def area");
        let result = it.nav("references", "main.toy", 1, "area").await;
        assert!(result.contains("1 reference in 1 file"), "{result}");
        assert_eq!(it.heard("started").len(), 1, "{flag}");
        // L05: what is on the disk was saved.
        let saved = it.heard("textDocument/didSave");
        assert_eq!((saved.len(), &saved[0]["params"]["text"]), (1, &json!("def area")));
        it.finish().await;
    }
}

/// An open document that is not asked about is compared with the disk, too.
#[tokio::test]
async fn an_open_document_that_changes_on_the_disk_is_shown_again() {
    let files = [("area.toy", AREA), ("main.toy", MAIN)];
    let mut it = Code::new(json!({}), &files).await;
    it.nav("references", "main.toy", 2, "area").await;
    it.nav("references", "area.toy", 1, "area").await;
    it.scene.place.write("main.toy", "def main\n  area() area() area() area()\n");
    let result = it.nav("references", "area.toy", 1, "area").await;
    assert!(result.contains("5 references in 2 files"), "{result}");
    fs_err::remove_file(it.scene.place.workspace().join("main.toy")).unwrap();
    it.nav("references", "area.toy", 1, "area").await;
    assert_eq!(it.heard("textDocument/didClose").len(), 1);
    // The same text again says nothing.
    it.scene.place.write("area.toy", AREA);
    it.nav("references", "area.toy", 1, "area").await;
    assert_eq!(it.heard("textDocument/didChange").len(), 1);
    it.finish().await;
}

/// L03: files that commands and tools make, change and remove are known to the server.
#[tokio::test]
async fn what_commands_and_tools_change_is_known() {
    let files = [("area.toy", AREA), ("gone.toy", "area()\n")];
    let mut it = Code::new(json!({}), &files).await;
    let mode = json!({"sessionId": it.session, "modeId": "full-access"});
    let result = it.nav("references", "area.toy", 1, "area").await;
    assert!(result.contains("2 references in 2 files"), "{result}");
    drop(it.client.request("session/set_mode", mode).await);
    let command = "rm gone.toy; echo 'area() area() area()' > made.toy";
    it.call("shell", json!({"command": command})).await;
    let result = it.nav("references", "area.toy", 1, "area").await;
    assert!(result.contains("4 references in 2 files"), "{result}");
    it.call("write", json!({"path": "new/more.toy", "content": "area()\n"})).await;
    let result = it.nav("references", "area.toy", 1, "area").await;
    assert!(result.contains("5 references in 3 files"), "{result}");
    let told: Vec<_> = it
        .heard("workspace/didChangeWatchedFiles")
        .iter()
        .flat_map(|told| told["params"]["changes"].as_array().unwrap().clone())
        .filter(|change| change["uri"].as_str().unwrap().ends_with(".toy"))
        .map(|change| {
            let uri = change["uri"].as_str().unwrap();
            (uri.rsplit('/').next().unwrap().to_owned(), change["type"].as_u64().unwrap())
        })
        .collect();
    for expected in [("gone.toy", 3), ("made.toy", 1), ("more.toy", 1)] {
        assert!(told.iter().any(|(name, kind)| (name.as_str(), *kind) == expected), "{told:?}");
    }
    it.finish().await;
}

/// L37: documents are closed again.
#[tokio::test]
async fn no_more_than_fifty_documents_stay_open() {
    let names: Vec<_> = (0..60).map(|number| format!("f{number}.toy")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), MAIN)).collect();
    let mut it = Code::new(json!({}), &files).await;
    let ask = |name: &String| json!({"op": "outline", "path": name});
    let calls: Vec<_> = names.iter().map(|name| ("code_symbols", ask(name))).collect();
    it.calls(&calls).await;
    let text = it.scene.place.read("heard");
    let (mut open, mut most) = (0, 0);
    for line in text.lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        match message["method"].as_str() {
            Some("textDocument/didOpen") => open += 1,
            Some("textDocument/didClose") => open -= 1,
            _ => {}
        }
        most = most.max(open);
    }
    assert_eq!((it.heard("textDocument/didOpen").len(), open), (60, 50));
    assert!(most <= 51, "{most}");
    it.finish().await;
}

/// The changed files of the project that the server was told of, and what became of them.
fn told(it: &Code) -> Vec<(String, u64)> {
    let root =
        format!("file://{}/", fs_err::canonicalize(it.scene.place.workspace()).unwrap().display());
    let all = it.heard("workspace/didChangeWatchedFiles");
    let changes = all.iter().flat_map(|message| message["params"]["changes"].as_array().unwrap());
    let mut told: Vec<_> = changes
        .map(|change| {
            let path = change["uri"].as_str().unwrap().strip_prefix(&root).unwrap().to_owned();
            (path, change["type"].as_u64().unwrap())
        })
        // What the scripted server itself writes.
        .filter(|(path, _)| !path.starts_with("heard"))
        .collect();
    told.sort();
    told
}

/// L03: what the person changes between two turns, as by checking out another branch, is known with the next
/// question, open or not.
#[tokio::test]
async fn what_a_person_changes_between_turns_is_known() {
    let files = [("area.toy", AREA), ("gone.toy", "area()\n"), ("other.toy", "area()\n")];
    let mut it = Code::new(json!({}), &files).await;
    for _ in 0..2 {
        let result = it.nav("references", "area.toy", 1, "area").await;
        assert!(result.contains("3 references in 3 files"), "{result}");
    }
    assert_eq!(told(&it), []);
    fs_err::remove_file(it.scene.place.workspace().join("gone.toy")).unwrap();
    it.scene.place.write("other.toy", "area() area()\n");
    it.scene.place.write("new/made.toy", "area() area() area()\n");
    let result = it.nav("references", "area.toy", 1, "area").await;
    assert!(result.contains("6 references in 3 files"), "{result}");
    assert_eq!(
        told(&it),
        [("gone.toy".into(), 3), ("new/made.toy".into(), 1), ("other.toy".into(), 2)]
    );
    it.nav("references", "area.toy", 1, "area").await;
    assert_eq!(told(&it).len(), 3);
    it.finish().await;
}

/// L03: of a server that would have to hear of thousands of files nobody knows what it makes of that.
#[tokio::test]
async fn a_server_is_started_again_when_too_much_has_changed() {
    let mut it = Code::new(json!({}), &[("area.toy", AREA)]).await;
    it.nav("references", "area.toy", 1, "area").await;
    for number in 0..2_001 {
        it.scene.place.write(&format!("many/{number}.toy"), "area()\n");
    }
    let result = it.nav("definition", "area.toy", 1, "area").await;
    assert!(result.contains("area.toy:1: def area"), "{result}");
    assert_eq!(told(&it), []);
    it.scene.place.appears("heard.exit.1").await;
    it.finish().await;
}
