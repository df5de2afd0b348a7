//! A server that plays what a test tells it, one connection after the other, on its own thread.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

/// The head of an answer that streams; the connection's end is the body's end.
pub(crate) const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nrequest-id: req_1\r\n\r\n";

/// A running server.
pub(crate) struct Server<T> {
    pub(crate) url: String,
    thread: JoinHandle<T>,
}

impl<T: Send + 'static> Server<T> {
    /// Runs `play` with a way to accept connections.
    pub(crate) fn start(play: impl FnOnce(&TcpListener) -> T + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        Self { url, thread: std::thread::spawn(move || play(&listener)) }
    }

    /// What `play` returned.
    pub(crate) async fn join(self) -> T {
        tokio::task::spawn_blocking(|| self.thread.join().unwrap()).await.unwrap()
    }
}

/// A server that answers one request with `answer` and closes; returns the request.
pub(crate) fn answering(answer: impl Into<Vec<u8>>) -> Server<Request> {
    let answer = answer.into();
    Server::start(move |listener| {
        let mut stream = accept(listener);
        let request = read_request(&mut stream);
        stream.write_all(&answer).unwrap();
        request
    })
}

/// One request as it came.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) head: String,
    pub(crate) body: String,
}

pub(crate) fn accept(listener: &TcpListener) -> TcpStream {
    listener.accept().unwrap().0
}

pub(crate) fn read_request(stream: &mut TcpStream) -> Request {
    let mut bytes = Vec::new();
    let end = loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).unwrap();
        assert_ne!(count, 0, "the client closed before its request was whole");
        bytes.extend_from_slice(&piece[..count]);
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
    let length = head.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
    let mut body = bytes.split_off(end + 4);
    let missing = length.parse::<usize>().unwrap() - body.len();
    let mut rest = vec![0; missing];
    stream.read_exact(&mut rest).unwrap();
    body.append(&mut rest);
    Request { head, body: String::from_utf8(body).unwrap() }
}

/// Blocks until the client has closed its side.
pub(crate) fn wait_closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset is as good as an orderly end.
    stream.read_to_end(&mut rest).unwrap_or_default();
}
