//! The wire against the other end of two pipes in memory.

use bridle_compose::SystemClock;
use tokio::io::{AsyncReadExt as _, DuplexStream, ReadHalf, WriteHalf, duplex, split};

use super::*;
use crate::framing::{Frame, Framing};

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Listener for Heard {
    fn heard(&self, method: &str, params: Value) {
        lock(&self.0).push(format!("{method} {params}"));
    }

    fn asked(&self, method: &str, _: Value) -> Option<Value> {
        (method == "known").then(|| json!("yes"))
    }
}

/// The server's end.
struct Server {
    input: ReadHalf<DuplexStream>,
    output: WriteHalf<DuplexStream>,
    framing: Framing,
    read: std::collections::VecDeque<Value>,
}

impl Server {
    async fn next(&mut self) -> Value {
        loop {
            if let Some(message) = self.read.pop_front() {
                return message;
            }
            let mut bytes = [0; 4096];
            let count = self.input.read(&mut bytes).await.unwrap();
            assert!(count > 0, "the end of the input");
            for frame in self.framing.push(&bytes[..count]) {
                let Frame::Message(message) = frame else { panic!("too long") };
                self.read.push_back(message);
            }
        }
    }

    async fn say(&mut self, message: Value) {
        self.output.write_all(&framed(&message)).await.unwrap();
    }
}

const LONG: Duration = Duration::from_secs(3600);

fn begin(room: usize, cancels: bool) -> (Arc<Connection>, Server, Arc<Heard>) {
    let (ours, theirs) = duplex(room);
    let (output, input) = split(ours);
    let heard = Arc::<Heard>::default();
    let (clock, tasks) = (Arc::new(SystemClock), TaskSet::new());
    let listener = Arc::clone(&heard) as _;
    let manners = Manners { cancels, secrets: Secrets::default() };
    let connection = Connection::new(input, output, listener, manners, clock, &tasks);
    let (input, output) = split(theirs);
    let server = Server {
        input,
        output,
        framing: Framing::default(),
        read: std::collections::VecDeque::new(),
    };
    (Arc::new(connection), server, heard)
}

async fn ask(connection: &Connection, method: &str) -> Answer {
    connection.ask(method, None, LONG, &CancellationToken::new()).await
}

#[tokio::test]
async fn answers_find_whoever_asked_in_any_order() {
    let (connection, mut server, _) = begin(1 << 16, true);
    let served = async {
        let (one, two) = (server.next().await, server.next().await);
        assert!(one.get("params").is_none(), "{one}");
        server.say(json!({"id": two["id"], "result": two["method"]})).await;
        server.say(json!({"id": 999, "result": "nobody asked"})).await;
        let error = json!({"code": -32801, "message": "modified", "data": 1});
        server.say(json!({"id": one["id"].to_string(), "result": null, "error": error})).await;
    };
    let (one, two, ()) = tokio::join!(ask(&connection, "one"), ask(&connection, "two"), served);
    assert_eq!(two, Ok(json!("two")));
    let refused = NoAnswer::Refused { code: -32801, message: "modified".into(), data: json!(1) };
    assert_eq!(one, Err(refused));
}

/// L32: whatever a server asks has an answer, with the id as it was.
#[tokio::test]
async fn every_request_of_a_server_is_answered() {
    let (_connection, mut server, heard) = begin(1 << 16, true);
    server.say(json!({"id": "a-1", "method": "known", "params": [1]})).await;
    server.say(json!({"method": "told", "params": {"x": 1}})).await;
    server.say(json!({"id": 1.5, "method": "unknown"})).await;
    assert_eq!(server.next().await, json!({"jsonrpc": "2.0", "id": "a-1", "result": "yes"}));
    let refused = server.next().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(1.5), &json!(-32601)));
    assert_eq!(*lock(&heard.0), ["told {\"x\":1}"]);
}

#[tokio::test]
async fn whoever_gives_up_says_so_where_the_server_bears_it() {
    for bears in [true, false] {
        let (connection, mut server, _) = begin(1 << 16, bears);
        let token = CancellationToken::new();
        let asked = connection.ask("slow", None, LONG, &token);
        let served = async {
            let id = server.next().await["id"].clone();
            token.cancel();
            id
        };
        let (answer, id) = tokio::join!(asked, served);
        assert_eq!(answer, Err(NoAnswer::Cancelled));
        connection.tell("next", None).await.unwrap();
        let next = server.next().await;
        if bears {
            assert_eq!((&next["method"], &next["params"]["id"]), (&json!("$/cancelRequest"), &id));
        } else {
            assert_eq!(next["method"], "next");
        }
        // A late answer is nobody's.
        server.say(json!({"id": id, "result": 1})).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_holds_nobody_for_ever() {
    let (connection, mut server, _) = begin(1 << 16, true);
    let limit = Duration::from_secs(10);
    let token = CancellationToken::new();
    let answer = connection.ask("slow", None, limit, &token).await;
    assert_eq!(answer, Err(NoAnswer::TimedOut(limit)));
    assert_eq!(server.next().await["method"], "slow");
    assert_eq!(server.next().await["method"], "$/cancelRequest");
}

#[tokio::test]
async fn the_end_of_the_pipes_fails_whoever_waits_and_whoever_comes() {
    let (connection, mut server, _) = begin(1 << 16, true);
    let served = async {
        server.next().await;
        drop(server);
    };
    let (answer, ()) = tokio::join!(ask(&connection, "one"), served);
    assert_eq!(answer, Err(NoAnswer::Gone));
    connection.over.cancelled().await;
    assert_eq!(ask(&connection, "two").await, Err(NoAnswer::Gone));
    assert_eq!(connection.tell("three", None).await, Err(NoAnswer::Gone));
}

#[tokio::test]
async fn what_was_said_is_written_before_the_input_ends() {
    let (connection, mut server, _) = begin(64, true);
    let said = async {
        connection.tell("last", Some(json!({"text": "x".repeat(1000)}))).await.unwrap();
        connection.hang_up();
    };
    let ((), last) = tokio::join!(said, server.next());
    assert_eq!(last["method"], "last");
}

/// L35: a server that writes before it reads, while we write before it reads.
#[tokio::test]
async fn full_pipes_in_both_directions_are_no_deadlock() {
    let (connection, mut server, heard) = begin(4096, true);
    let text = "x".repeat(200 << 10);
    let told = async {
        for _ in 0..6 {
            connection.tell("open", Some(json!({"text": text}))).await.unwrap();
        }
        ask(&connection, "end").await
    };
    let served = async {
        for number in 0..100 {
            server.say(json!({"method": "log", "params": "y".repeat(40 << 10)})).await;
            server.say(json!({"id": number, "method": "known"})).await;
        }
        loop {
            let message = server.next().await;
            if message["method"] == "end" {
                server.say(json!({"id": message["id"], "result": "done"})).await;
                return;
            }
        }
    };
    let (end, ()) = tokio::join!(told, served);
    assert_eq!(end, Ok(json!("done")));
    assert_eq!(lock(&heard.0).len(), 100);
}

/// A server that asks and never reads is given up, and what we hold of it has a limit.
#[tokio::test]
async fn a_server_that_asks_faster_than_it_reads_is_given_up() {
    let (connection, server, _) = begin(1 << 16, true);
    let (mut output, _input) = (server.output, server.input);
    let message = framed(&json!({"id": 1, "method": "known"}));
    while !connection.over.is_cancelled() {
        if output.write_all(&message).await.is_err() {
            break;
        }
    }
    connection.over.cancelled().await;
}

/// L21: an answer that is too long is an error at once, and the next one is read.
#[tokio::test]
async fn an_answer_that_is_too_long_is_an_error() {
    let (connection, mut server, _) = begin(1 << 20, true);
    let served = async {
        for result in [json!("x".repeat(crate::framing::MAX_BODY)), json!("short")] {
            let id = server.next().await["id"].clone();
            server.say(json!({"id": id, "result": result})).await;
        }
    };
    let asked = async { (ask(&connection, "one").await, ask(&connection, "two").await) };
    let ((one, two), ()) = tokio::join!(asked, served);
    assert_eq!((one, two), (Err(NoAnswer::TooLong), Ok(json!("short"))));
}
