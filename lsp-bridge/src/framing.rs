//! The framing of the wire: `Content-Length` headers and JSON bodies, read from what real servers write.
//!
//! Lines that are no headers are skipped, before a header and in front of a body; a body that is too long
//! is passed over without being kept. What was no message is remembered until one comes: it tells noise
//! beside messages from a stream that holds none any more. It knows no protocol beyond that.

use serde_json::Value;

/// The most bytes between two messages that are searched for a header; what comes before is dropped.
const MAX_HEADER: usize = 64 * 1024;

/// The largest body that is read, in bytes.
pub(crate) const MAX_BODY: usize = 16 * 1024 * 1024;

/// How much of the beginning of a longer one is kept, to find out whose answer it is, in bytes.
const BEGINNING: usize = 512;

/// How many lines of noise in front of a body are looked behind.
const MAX_NOISE_LINES: usize = 4;

/// How much text between two messages is borne, in bytes.
const MAX_NOISE: usize = 1024 * 1024;

/// How much of what was no message is quoted, in bytes.
const QUOTED: usize = 400;

const LENGTH: &[u8] = b"content-length:";

/// What was read.
#[derive(Debug, PartialEq)]
pub(crate) enum Frame {
    /// A message.
    Message(Value),
    /// The beginning of one that was too long.
    TooLong(Vec<u8>),
    /// The beginning of one that was no JSON.
    Garbled(Vec<u8>),
}

/// Takes bytes as they come and gives frames.
#[derive(Default)]
pub(crate) struct Framing {
    buffer: Vec<u8>,
    state: State,
    /// What came since the last message and was none.
    noise: Noise,
}

/// What was no message.
#[derive(Default)]
struct Noise {
    /// How many bytes.
    count: usize,
    /// The first of them.
    beginning: Vec<u8>,
    /// Some of it was a message that could not be read: others may be lost.
    is_message: bool,
}

impl Noise {
    fn add(&mut self, bytes: &[u8]) {
        self.count += bytes.len();
        let room = QUOTED.saturating_sub(self.beginning.len());
        self.beginning.extend(bytes.iter().take(room));
        // A log is text, and messages are not what it is about. A header that has no length is one's all the same.
        let is_header = |line: &[u8]| line.to_ascii_lowercase().starts_with(LENGTH);
        self.is_message |= bytes.contains(&0)
            || find(bytes, b"\"jsonrpc\"").is_some()
            || bytes.split(|byte| *byte == b'\n').any(is_header);
    }
}

#[derive(Default)]
enum State {
    /// A header is looked for.
    #[default]
    Header,
    /// A body of so many bytes follows.
    Body(usize),
    /// So many bytes are passed over.
    Passing { left: usize, beginning: Vec<u8> },
}

impl Framing {
    /// Adds what was read and gives the frames that are whole now.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Frame> {
        self.buffer.extend_from_slice(bytes);
        let mut frames = Vec::new();
        while let Some(step) = self.step() {
            if let Some(Frame::Message(_)) = step {
                self.noise = Noise::default();
            }
            frames.extend(step);
        }
        frames
    }

    /// What came since the last message and was none, as far as it is quoted.
    pub(crate) fn noise(&self) -> &[u8] {
        &self.noise.beginning
    }

    /// Whether messages may not be told from each other any more: one was none, or has not come whole. Should
    /// nothing follow, they are not.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.noise.is_message || !matches!(self.state, State::Header)
    }

    /// Whether so much was no message that none is to be expected.
    pub(crate) fn is_lost(&self) -> bool {
        self.noise.count > MAX_NOISE
    }

    /// One step forward; `None` when more bytes are needed for it.
    fn step(&mut self) -> Option<Option<Frame>> {
        match &mut self.state {
            State::Header => self.header().map(|()| None),
            State::Body(length) => {
                let length = *length;
                let (used, frame) = self.body(length)?;
                let bytes: Vec<u8> = self.buffer.drain(..used).collect();
                self.state = State::Header;
                if let Frame::Garbled(_) = frame {
                    self.noise.add(&bytes);
                    self.noise.is_message = true;
                }
                Some(Some(frame))
            }
            State::Passing { left, beginning } => {
                let passed = (*left).min(self.buffer.len());
                let room = BEGINNING.saturating_sub(beginning.len()).min(passed);
                beginning.extend(self.buffer.iter().take(room));
                self.buffer.drain(..passed);
                *left -= passed;
                if *left > 0 {
                    return None;
                }
                let beginning = std::mem::take(beginning);
                self.state = State::Header;
                Some(Some(Frame::TooLong(beginning)))
            }
        }
    }

    /// Looks for a header and the empty line behind it.
    fn header(&mut self) -> Option<()> {
        let mut length = None;
        let mut from = 0;
        let mut skipped = 0;
        while let Some(end) = find(self.buffer.get(from..)?, b"\n") {
            let line = self.buffer.get(from..from + end).unwrap_or_default();
            from += end + 1;
            match length_of(line) {
                Some(found) => length = Some(found),
                // Other headers, and noise between them, are nobody's business.
                None if length.is_none() => skipped = from,
                None => {}
            }
            if let Some(length) = length
                && line.trim_ascii().is_empty()
            {
                let head: Vec<u8> = self.buffer.drain(..from).collect();
                self.noise.add(head.get(..skipped).unwrap_or_default());
                self.state = match length > MAX_BODY {
                    true => State::Passing { left: length, beginning: Vec::new() },
                    false => State::Body(length),
                };
                return Some(());
            }
        }
        let excess = match self.buffer.len() - skipped > MAX_HEADER {
            true => self.buffer.len() - LENGTH.len(),
            false => skipped,
        };
        let noise: Vec<u8> = self.buffer.drain(..excess).collect();
        self.noise.add(&noise);
        None
    }

    /// How many bytes the body took and what it is. Noise within the frame stands in front of the body,
    /// and its length is not in the header.
    fn body(&self, length: usize) -> Option<(usize, Frame)> {
        let body = self.buffer.get(..length)?;
        if let Ok(message) = serde_json::from_slice(body) {
            return Some((length, Frame::Message(message)));
        }
        let mut start = 0;
        for _ in 0..MAX_NOISE_LINES {
            let rest = self.buffer.get(start..).unwrap_or_default();
            let Some(end) = find(rest, b"\n") else { break };
            if rest.get(..end).and_then(length_of).is_some() {
                break;
            }
            start += end + 1;
            if self.buffer.get(start) != Some(&b'{') {
                continue;
            }
            let behind = self.buffer.get(start..start + length)?;
            if let Ok(message) = serde_json::from_slice(behind) {
                return Some((start + length, Frame::Message(message)));
            }
        }
        // A length that is too large reaches into the messages that follow.
        let end = self.buffer.len().min(length + LENGTH.len() - 1);
        let reach = self.buffer.get(..end).unwrap_or_default().to_ascii_lowercase();
        let next = find(&reach, LENGTH).filter(|next| *next > 0);
        let beginning = body.iter().copied().take(BEGINNING).collect();
        Some((next.unwrap_or(length), Frame::Garbled(beginning)))
    }
}

/// The length that a header line gives; noise may stand in front of it.
fn length_of(line: &[u8]) -> Option<usize> {
    let small = line.to_ascii_lowercase();
    let at = small.windows(LENGTH.len()).rposition(|window| window == LENGTH)?;
    let number = line.get(at + LENGTH.len()..)?.trim_ascii();
    str::from_utf8(number).ok()?.parse().ok()
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// A message as it goes over the wire.
pub(crate) fn framed(message: &Value) -> Vec<u8> {
    let body = message.to_string();
    format!("Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Whose answer a message is that was too long: the id stands near its beginning, if anywhere.
pub(crate) fn id_in(beginning: &[u8]) -> Option<i64> {
    let text = String::from_utf8_lossy(beginning);
    let (_, behind) = text.split_once("\"id\":")?;
    let digits: String =
        behind.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(frames: Vec<Frame>) -> Vec<Value> {
        let message = |frame| match frame {
            Frame::Message(message) => message,
            Frame::TooLong(beginning) => json!({"too long": id_in(&beginning)}),
            Frame::Garbled(beginning) => json!({"garbled": id_in(&beginning)}),
        };
        frames.into_iter().map(message).collect()
    }

    fn read(bytes: &[u8]) -> Vec<Value> {
        messages(Framing::default().push(bytes))
    }

    #[test]
    fn frames_come_in_any_pieces() {
        let (one, two) = (json!({"id": 1, "text": "é𝒳"}), json!({"id": 2}));
        let bytes = [framed(&one), framed(&two)].concat();
        assert_eq!(read(&bytes), [one.clone(), two.clone()]);
        for size in 1..9 {
            let mut framing = Framing::default();
            let frames = bytes.chunks(size).flat_map(|piece| framing.push(piece)).collect();
            assert_eq!(messages(frames), [one.clone(), two.clone()], "{size}");
        }
    }

    #[test]
    fn headers_are_read_as_servers_write_them() {
        for head in [
            "CONTENT-LENGTH:2\r\n\r\n",
            "Content-Type: x\r\ncontent-length: 2\r\nContent-Type: application/vscode-jsonrpc; charset=utf8\r\n\r\n",
            "Content-Length: 2\n\n",
        ] {
            assert_eq!(read(format!("{head}{{}}").as_bytes()), [json!({})], "{head}");
        }
    }

    #[test]
    fn noise_is_skipped_before_a_header_and_in_front_of_a_body() {
        let one = framed(&json!({"id": 1}));
        let length = json!({"id": 1}).to_string().len();
        for noise in
            ["starting\n", "a\n\nb\r\n\r\n", "no end of line: ", "Content-Length: soon\r\n\r\n"]
        {
            let bytes = [noise.as_bytes(), &one, noise.as_bytes(), &one].concat();
            assert_eq!(read(&bytes), [json!({"id": 1}), json!({"id": 1})], "{noise}");
        }
        let inside = format!("Content-Length: {length}\r\n\r\nlog: opened\n{{\"id\":1}}");
        let bytes = [inside.as_bytes(), &one].concat();
        assert_eq!(read(&bytes), [json!({"id": 1}), json!({"id": 1})]);
    }

    #[test]
    fn a_body_that_is_no_json_costs_itself_only() {
        let bytes =
            [b"Content-Length: 5\r\n\r\n{\"a\":".as_slice(), &framed(&json!({"id": 3}))].concat();
        assert_eq!(read(&bytes), [json!({"garbled": null}), json!({"id": 3})]);
    }

    #[test]
    fn a_length_that_is_wrong_costs_its_message_only() {
        let one = framed(&json!({"id": 3}));
        for length in [3, 20, 60] {
            let wrong = format!("Content-Length: {length}\r\n\r\n{{\"id\":2}}");
            let bytes = [wrong.as_bytes(), &one, &one, &one].concat();
            let read = read(&bytes);
            assert_eq!(read.first(), Some(&json!({"garbled": (length > 3).then_some(2)})));
            assert_eq!(read.iter().skip(1).collect::<Vec<_>>(), [&json!({"id": 3}); 3], "{length}");
        }
    }

    #[test]
    fn noise_is_told_from_messages_that_cannot_be_read() {
        let doubt = |bytes: &[u8]| {
            let mut framing = Framing::default();
            framing.push(bytes);
            let before = framing.is_in_doubt();
            // Whatever follows, a message ends the doubt.
            framing.push(&framed(&json!({})));
            (before, framing.is_in_doubt() || framing.is_lost(), framing.noise().to_vec())
        };
        for noise in ["a log\n", "half a line", "the Content-Length: soon\r\n\r\n"] {
            assert_eq!(doubt(noise.as_bytes()), (false, false, Vec::new()), "{noise}");
        }
        for garbage in [
            "{\"jsonrpc\":\"2.0\",\"id\":1}\n",
            "\0\x01\n",
            "Content-Length: 2\r\n\r\n{]",
            "content-length: -5\r\n\r\n{}",
            "Content-Length: 99999999999999999999\r\n\r\n{}",
        ] {
            assert_eq!(doubt(garbage.as_bytes()), (true, false, Vec::new()), "{garbage}");
        }
        let mut framing = Framing::default();
        framing.push(b"Content-Length: 90\r\n\r\n{\"id\":");
        assert!(framing.is_in_doubt());
        let mut framing = Framing::default();
        framing.push(b"usage: toy\n");
        assert_eq!(framing.noise(), b"usage: toy\n");
        while !framing.is_lost() {
            framing.push(&[b'x'; 4096]);
        }
        assert_eq!(framing.noise().len(), QUOTED);
    }

    #[test]
    fn what_is_too_long_is_not_kept_and_says_whose_it_was() {
        let mut framing = Framing::default();
        let length = MAX_BODY + 1;
        let mut frames =
            framing.push(format!("Content-Length: {length}\r\n\r\n{{\"id\": 7,\"r\":").as_bytes());
        let mut left = length - r#"{"id": 7,"r":"#.len();
        while left > 0 {
            let piece = left.min(1 << 20);
            frames.extend(framing.push(&vec![b'x'; piece]));
            assert!(framing.buffer.len() < MAX_HEADER);
            left -= piece;
        }
        frames.extend(framing.push(&framed(&json!({"id": 8}))));
        assert_eq!(messages(frames), [json!({"too long": 7}), json!({"id": 8})]);
    }

    #[test]
    fn noise_without_end_is_not_kept() {
        let mut framing = Framing::default();
        for _ in 0..64 {
            assert_eq!(framing.push(&[b'x'; 4096]), []);
            assert!(framing.buffer.len() <= MAX_HEADER + 4096);
        }
        assert_eq!(framing.push(&framed(&json!({}))), [Frame::Message(json!({}))]);
    }
}
