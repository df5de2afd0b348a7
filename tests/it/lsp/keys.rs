//! Keys that a server is given and says again: blanked before a model reads them or a log keeps them.

use super::*;

const KEY: &str = "lsp-key-0123456789-ABCDEFGH";

fn own() -> String {
    format!("env.SERVICE_TOKEN = \"{KEY}\"")
}

/// In results, in what is wrong, in errors, in what a server logs and in its progress.
#[tokio::test]
async fn a_key_that_a_server_says_again_is_blanked() {
    let at = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
    let wrong = json!({"uri": "ROOT/main.toy", "version": 1_000, "diagnostics": [
        {"range": at, "severity": 1, "message": format!("no access with {KEY}")}]});
    let log = json!({"type": 1, "message": format!("logged in with {KEY}")});
    let script = json!({
        "initialize": {"capabilities": {"diagnosticProvider": false},
            "serverInfo": {"name": format!("toy of {KEY}")}},
        "rules": [
            {"on": "initialized", "do": [
                {"stderr": format!("started with {KEY}")}, {"notify": ["window/logMessage", log]}]},
            {"on": "textDocument/didOpen", "do": [{"notify": ["textDocument/publishDiagnostics", wrong]}]},
            {"on": "textDocument/hover", "do": [
                {"reply": {"contents": {"kind": "markdown", "value": format!("the key is {KEY}.")}}}]},
            {"on": "textDocument/references", "do": [{"error": [-32000, format!("refused: {KEY}")]}]},
            {"on": "textDocument/implementation", "do": [
                {"stderr": format!("dying with {KEY}{}", "y".repeat(1_990))}, {"exit": 3}]},
        ],
    });
    let mut it = Code::with(script, &[("main.toy", MAIN)], "", &own()).await;
    let hover = it.nav("hover", "main.toy", 1, "main").await;
    assert!(hover.contains("the key is [secret]."), "{hover}");
    let wrong = it.check("main.toy").await;
    assert!(wrong.contains("no access with [secret]"), "{wrong}");
    let refused = it.nav("references", "main.toy", 1, "main").await;
    assert!(refused.contains("refused: [secret]"), "{refused}");
    // It ends whenever it is asked, and the end of what it wrote begins within the key.
    let mut died = String::new();
    for _ in 0..3 {
        died = it.nav("implementations", "main.toy", 1, "main").await;
    }
    assert!(died.contains("yyyy") && !died.contains("GH"), "{died}");
    let shown = it.client.prompt(&it.session, "/lsp").await;
    assert_eq!(shown.stop_reason(), "end_turn");
    let log = fs_err::read_to_string(it.scene.place.bridle_home().join("state/lsp.log")).unwrap();
    for text in ["started with [secret]", "logged in with [secret]", "dying with [secret]"] {
        assert!(log.contains(text), "{text}: {log}");
    }
    let session = it.session.clone();
    let trace = it.finish().await;
    assert!(!trace.text(&session).contains("ABCDEFGH"));
    assert!(!log.contains("ABCDEFGH") && !trace.stderr().contains("ABCDEFGH"));
}
