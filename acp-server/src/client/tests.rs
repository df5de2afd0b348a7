//! The client against a server that is written down line by line.

use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::*;

/// Remembers updates; answers every question with `verdict`.
struct Recorder {
    verdict: Verdict,
    updates: Vec<Value>,
}

impl Host for Recorder {
    fn update(&mut self, update: &Value) -> std::io::Result<()> {
        self.updates.push(update.clone());
        Ok(())
    }

    fn permission(&mut self, _: &Value) -> Verdict {
        self.verdict
    }
}

/// A server that answers the n-th line it reads with the n-th reply (several lines each), and
/// returns what it read.
async fn serve(stream: tokio::io::DuplexStream, replies: &[&str]) -> Vec<Value> {
    let (input, mut output) = tokio::io::split(stream);
    let mut lines = BufReader::new(input).lines();
    let mut seen = Vec::new();
    for reply in replies {
        let line = lines.next_line().await.unwrap().unwrap();
        seen.push(serde_json::from_str(&line).unwrap());
        output.write_all(reply.as_bytes()).await.unwrap();
    }
    seen
}

fn client(stream: tokio::io::DuplexStream) -> Client {
    let (input, output) = tokio::io::split(stream);
    Client::new(input, output)
}

const QUESTION: &str = concat!(
    r#"{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"options":["#,
    r#"{"optionId":"n","kind":"reject_once"},{"optionId":"y","kind":"allow_once"}]}}"#,
    "\n"
);

const DONE: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"stopReason\":\"end_turn\"}}\n";

#[tokio::test]
async fn a_question_is_answered_with_the_option_that_allows_or_not_at_all() {
    let selected = json!({"outcome": {"outcome": "selected", "optionId": "y"}});
    let no_method = json!({"code": -32601, "message": "Method not found"});
    for (verdict, answer, is) in
        [(Verdict::Allow, "result", selected), (Verdict::Nobody, "error", no_method)]
    {
        let (near, far) = tokio::io::duplex(4096);
        let mut host = Recorder { verdict, updates: Vec::new() };
        let mut client = client(near);
        let none = CancellationToken::new();
        let (reason, seen) =
            tokio::join!(client.prompt("s", "hi", &mut host, &none), serve(far, &[QUESTION, DONE]));
        assert_eq!(reason.unwrap(), "end_turn");
        assert_eq!(seen[1][answer], is);
    }
}

#[tokio::test]
async fn a_cancel_is_sent_once_and_the_answer_is_awaited() {
    let (near, far) = tokio::io::duplex(4096);
    let mut host = Recorder { verdict: Verdict::Allow, updates: Vec::new() };
    let mut client = client(near);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let (reason, seen) = tokio::join!(
        client.prompt("s", "hi", &mut host, &cancel),
        serve(far, &["", QUESTION, DONE])
    );
    assert_eq!(reason.unwrap(), "end_turn");
    assert_eq!(seen[1]["method"], "session/cancel");
    assert_eq!(seen[1]["params"]["sessionId"], "s");
    // Whoever has cancelled answers no question any more, whatever the host would say.
    assert_eq!(seen[2]["result"]["outcome"]["outcome"], "cancelled");
}

#[tokio::test]
async fn updates_reach_the_host_in_order_and_unknown_requests_are_refused() {
    let (near, far) = tokio::io::duplex(4096);
    let mut host = Recorder { verdict: Verdict::Nobody, updates: Vec::new() };
    let mut client = client(near);
    let none = CancellationToken::new();
    let first = concat!(
        r#"{"method":"session/update","params":{"update":{"n":1}}}"#,
        "\n",
        r#"{"method":"session/update","params":{"update":{"n":2}}}"#,
        "\n",
        r#"{"id":7,"method":"fs/read_text_file","params":{}}"#,
        "\n",
    );
    let error = "{\"id\":1,\"error\":{\"code\":-32000,\"message\":\"no key\"}}\n";
    let replies = [first, error];
    let (result, seen) =
        tokio::join!(client.prompt("s", "hi", &mut host, &none), serve(far, &replies));
    assert!(
        matches!(result, Err(ClientError::Rpc { code: -32000, message }) if message == "no key")
    );
    assert_eq!(host.updates, [json!({"n": 1}), json!({"n": 2})]);
    assert_eq!(seen[1]["error"]["code"], -32601);
}

#[tokio::test]
async fn a_server_that_goes_away_is_an_error_that_names_the_call() {
    let (near, far) = tokio::io::duplex(4096);
    let mut host = Recorder { verdict: Verdict::Nobody, updates: Vec::new() };
    let mut client = client(near);
    let none = CancellationToken::new();
    let (result, _) = tokio::join!(client.prompt("s", "hi", &mut host, &none), serve(far, &[""]));
    assert!(matches!(result, Err(ClientError::Ended(call)) if call == "session/prompt"));
}
