//! Servers whose messages cannot be told from each other any more, or one of which cannot be read: noticed,
//! told with the reason, started again.

use super::*;

fn rules(nth: u32, what: &str) -> Value {
    json!({"rules": [{"on": "textDocument/references", "nth": nth, "do": [{"raw": what}]}]})
}

/// L34: a stream that holds no messages any more costs one server and no question.
#[tokio::test]
async fn a_server_that_loses_its_framing_is_started_again() {
    let endless = "x".repeat(2 << 20);
    for (kind, what) in [
        ("half a message", "Content-Length: 5000\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":2,"),
        ("one too long by far", "Content-Length: 999999999\r\n\r\n{\"jsonrpc\":\"2.0\","),
        ("a negative length", "Content-Length: -5\r\n\r\n{\"id\":2,\"result\":[]}"),
        ("no length", "Content-Length: soon\r\n\r\n{\"id\":2,\"result\":[]}"),
        ("no header", "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":[]}\n"),
        ("bytes", "\0\u{1}\u{2}\n"),
        ("a flood", &endless),
    ] {
        let mut it = Code::new(rules(1, what), &[("main.toy", MAIN)]).await;
        let result = it.nav("references", "main.toy", 2, "area").await;
        assert!(result.contains("3 references in 1 file (toy, complete"), "{kind}: {result}");
        assert_eq!(it.heard("initialize").len(), 2, "{kind}");
        assert_eq!(it.heard("textDocument/references").len(), 2, "{kind}");
        let log = it.scene.place.bridle_home().join("state/lsp.log");
        let log = fs_err::read_to_string(log).unwrap();
        let why = "it was lost: what it writes to its output cannot be read as messages any more";
        assert!(log.contains(why), "{kind}: {log}");
        it.finish().await;
    }
}

/// L10: one that does so again and again is given up, and whoever asks is told why.
#[tokio::test]
async fn a_server_that_loses_its_framing_again_and_again_is_given_up() {
    let flood = format!("drivel {}", "x".repeat(2 << 20));
    let script = json!({"rules": [{"on": "textDocument/references", "do": [{"raw": flood}]}]});
    let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
    let mut result = String::new();
    for _ in 0..4 {
        result = it.nav("references", "main.toy", 2, "area").await;
        assert!(result.contains("cannot be read as messages any more: drivel xxx"), "{result}");
    }
    assert!(result.contains("lost 4 times"), "{result}");
    assert!(result.len() < 3_000, "{}", result.len());
    assert_eq!(it.heard("started").len(), 4);
    it.finish().await;
}

/// A message that cannot be read costs itself: whoever waits for it is told at once, and the server stays.
#[tokio::test]
async fn an_answer_that_is_no_json_is_told_at_once() {
    // The first request is `initialize`.
    let body = "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":NaN}";
    for length in [body.len(), body.len() + 30, body.len() - 2] {
        let what = format!("Content-Length: {length}\r\n\r\n{body}");
        let message =
            json!({"jsonrpc": "2.0", "method": "telemetry/event", "params": 1}).to_string();
        let next = format!("Content-Length: {}\r\n\r\n{message}", message.len());
        let mut it = Code::new(rules(1, &(what + &next)), &[("main.toy", MAIN)]).await;
        let result = it.nav("references", "main.toy", 2, "area").await;
        assert!(result.contains("what toy answered cannot be read"), "{length}: {result}");
        let result = it.nav("references", "main.toy", 2, "area").await;
        assert!(result.contains("3 references"), "{length}: {result}");
        assert_eq!(it.heard("initialize").len(), 1);
        it.finish().await;
    }
}

/// An answer that holds neither a result nor an error says nothing, which is not "none".
#[tokio::test]
async fn an_answer_without_a_result_is_no_answer() {
    let body = "{\"jsonrpc\":\"2.0\",\"id\":2}";
    let what = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let mut it = Code::new(rules(1, &what), &[("main.toy", MAIN)]).await;
    let result = it.nav("references", "main.toy", 2, "area").await;
    assert!(result.contains("what toy answered cannot be read"), "{result}");
    let result = it.nav("references", "main.toy", 2, "area").await;
    assert!(result.contains("3 references"), "{result}");
    it.finish().await;
}

/// What a program that is no server says in the place of messages is told.
#[tokio::test]
async fn a_program_that_talks_in_the_place_of_messages_is_quoted() {
    let script = json!({"rules": [{"on": "initialize", "do": [
        {"raw": "usage: toy [--stdio]\n"}, {"exit": 2}]}]});
    let mut it = Code::new(script, &[("main.toy", MAIN)]).await;
    let result = it.nav("definition", "main.toy", 2, "area").await;
    assert!(result.contains("toy failed: it exited with code 2"), "{result}");
    assert!(result.contains("is no message: usage: toy [--stdio]"), "{result}");
    it.finish().await;
}
