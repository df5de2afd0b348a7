//! What servers write, good and bad, through real pipes.

use std::io::Write as _;

use rmcp::model::{ClientRequest, CustomRequest, NumberOrString};
use rustix::pipe::{PipeFlags, pipe_with};
use serde_json::json;

use super::*;

/// Our end, what we write, and the server's output.
fn pipes() -> (Pipes, std::fs::File, std::fs::File) {
    let (heard, input) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let (output, said) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let dialogue = Dialogue {
        input: Sender::from_owned_fd(input).unwrap(),
        output: Receiver::from_owned_fd(output).unwrap(),
    };
    (Pipes::new("s".into(), dialogue), heard.into(), said.into())
}

/// Sends requests with these ids.
async fn ask(pipes: &mut Pipes, ids: &[i64]) {
    for id in ids {
        let request = ClientRequest::CustomRequest(CustomRequest::new("tools/call", None));
        let id = NumberOrString::Number(*id);
        pipes.send(JsonRpcMessage::request(request, id)).await.unwrap();
    }
}

/// The id and the text of what is received: a result as JSON, an error by its message.
async fn receive(pipes: &mut Pipes) -> (i64, String) {
    match pipes.receive().await.unwrap() {
        JsonRpcMessage::Response(answer) => {
            (number(&answer.id), serde_json::to_string(&answer.result).unwrap())
        }
        JsonRpcMessage::Error(error) => {
            (number(&error.id.unwrap()), error.error.message.into_owned())
        }
        other => panic!("{other:?}"),
    }
}

fn number(id: &RequestId) -> i64 {
    match id {
        NumberOrString::Number(number) => *number,
        NumberOrString::String(text) => panic!("{text}"),
    }
}

#[tokio::test]
async fn junk_is_skipped_and_results_come_as_they_were_written() {
    let (mut pipes, _heard, mut said) = pipes();
    ask(&mut pipes, &[1]).await;
    let result =
        json!({"content": [{"type": "hologram"}], "tools": "odd", "deep": {"a": [1, null]}});
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": result});
    writeln!(
        said,
        "starting…\n\nnull\n[]\n7\n{{\"half\": \n{{\"id\":99,\"result\":{{}}}}\n{answer}\r"
    )
    .unwrap();
    assert_eq!(receive(&mut pipes).await, (1, result.to_string()));
}

#[tokio::test]
async fn an_error_without_an_id_is_that_of_every_request_that_waits() {
    let (mut pipes, _heard, mut said) = pipes();
    ask(&mut pipes, &[1, 2, 3]).await;
    writeln!(said, "{{\"id\":2,\"result\":{{}}}}").unwrap();
    writeln!(
        said,
        "{{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{{\"code\":-32600,\"message\":\"what?\"}}}}"
    )
    .unwrap();
    assert_eq!(receive(&mut pipes).await, (2, "{}".to_owned()));
    assert_eq!(receive(&mut pipes).await, (1, "what?".to_owned()));
    assert_eq!(receive(&mut pipes).await, (3, "what?".to_owned()));
}

/// The id stands at either end, and what looks like one inside the text is none.
#[tokio::test]
async fn a_line_that_is_too_long_is_an_error_of_the_request_that_it_answers() {
    for (head, tail) in [
        ("{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"text\":\"", "\"}}"),
        ("{\"id\": 2, \"result\":{\"text\":\"", "\"}}"),
        ("{\"result\":{\"text\":\"", "\\\"id\\\":3}\"},\"jsonrpc\":\"2.0\",\"id\":2}"),
        ("{\"result\":{\"id\":3,\"text\":\"", "\"},\"id\":2}"),
    ] {
        let (mut pipes, _heard, mut said) = pipes();
        ask(&mut pipes, &[2, 3]).await;
        let line =
            format!("{head}{}{tail}\n{{\"id\":3,\"result\":\"next\"}}\n", "x".repeat(MAX_LINE));
        let len = line.find('\n').unwrap();
        let writer = std::thread::spawn(move || said.write_all(line.as_bytes()));
        let told = format!("it has {len} bytes, and {MAX_LINE} are the most");
        assert_eq!(receive(&mut pipes).await, (2, told), "{head}…{tail}");
        assert_eq!(receive(&mut pipes).await, (3, "\"next\"".to_owned()));
        writer.join().unwrap().unwrap();
        assert!(pipes.line.buffer.capacity() < MAX_LINE, "the memory is kept");
    }
}

/// Nobody can tell whose answer it is: none of those who wait may wait for ever.
#[tokio::test]
async fn a_long_line_that_names_nobody_ends_all_that_wait() {
    let (mut pipes, _heard, mut said) = pipes();
    ask(&mut pipes, &[4, 5]).await;
    let line = format!("{}\n", "x".repeat(MAX_LINE + 1));
    let writer = std::thread::spawn(move || said.write_all(line.as_bytes()));
    assert_eq!(receive(&mut pipes).await.0, 4);
    assert_eq!(receive(&mut pipes).await.0, 5);
    writer.join().unwrap().unwrap();
}

#[tokio::test]
async fn what_a_dropped_read_has_read_is_not_lost() {
    let (mut pipes, _heard, mut said) = pipes();
    ask(&mut pipes, &[1]).await;
    for piece in ["{\"id\":", "1,\"res", "ult\":7}", "\n"] {
        said.write_all(piece.as_bytes()).unwrap();
        let received = tokio::time::timeout(std::time::Duration::ZERO, receive(&mut pipes)).await;
        if piece == "\n" {
            let answer = match received {
                Ok(answer) => answer,
                Err(_) => receive(&mut pipes).await,
            };
            assert_eq!(answer, (1, "7".to_owned()));
        } else {
            assert!(received.is_err());
        }
    }
}

#[tokio::test]
async fn the_end_of_the_pipe_is_the_end() {
    let (mut pipes, heard, said) = pipes();
    drop(said);
    assert!(pipes.receive().await.is_none());
    pipes.close().await.unwrap();
    assert_eq!(std::io::read_to_string(heard).unwrap(), "", "its input has ended");
}
