//! Server-sent events, incrementally, with caps.
//!
//! Takes bytes as the network cuts them (LF, CRLF and CR line ends, a byte-order mark, characters
//! split between reads) in linear time. Invalid UTF-8 becomes U+FFFD. Comments, unknown fields and
//! events without data are skipped. It refuses to buffer an event beyond [`MAX_EVENT_BYTES`] and
//! knows nothing of what the data means.

/// The most bytes that one event may have: its data and the line being read together.
pub(crate) const MAX_EVENT_BYTES: usize = 16 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One complete event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SseEvent<'a> {
    /// The `event` field; empty when there was none.
    pub(crate) name: &'a str,
    /// The `data` lines, joined by LF.
    pub(crate) data: &'a str,
}

/// An event went beyond [`MAX_EVENT_BYTES`]; the parser is of no further use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventTooLarge;

/// The state between two reads.
#[derive(Debug)]
pub(crate) struct SseParser {
    /// A line whose end has not arrived.
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The last read ended in CR, so that an LF at the start of the next belongs to it.
    after_cr: bool,
    at_start: bool,
    limit: usize,
}

/// For the fuzz target: the events of `bytes` when they arrive in pieces of `size`; `None` when one
/// is too large.
#[cfg(fuzzing)]
pub fn fuzz_sse(bytes: &[u8], size: usize) -> Option<Vec<(String, String)>> {
    let mut parser = SseParser::new();
    let mut events = Vec::new();
    for piece in bytes.chunks(size.max(1)) {
        let keep = |event: SseEvent<'_>| {
            events.push((event.name.to_owned(), event.data.to_owned()));
            Ok::<_, EventTooLarge>(())
        };
        parser.push(piece, keep).ok()?;
    }
    Some(events)
}

impl SseParser {
    pub(crate) fn new() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }

    fn with_limit(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_cr: false,
            at_start: true,
            limit,
        }
    }

    /// Takes the next bytes and hands over every event that they complete. The first error of
    /// `on_event` ends the call.
    pub(crate) fn push<E: From<EventTooLarge>>(
        &mut self,
        mut bytes: &[u8],
        mut on_event: impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, rest) = bytes.split_at(end);
            if self.line.is_empty() {
                self.take_line(line, &mut on_event)?;
            } else {
                self.keep(line)?;
                let mut whole = std::mem::take(&mut self.line);
                self.take_line(&whole, &mut on_event)?;
                whole.clear();
                self.line = whole;
            }
            bytes = match rest {
                [b'\r', b'\n', after @ ..] => after,
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [_, after @ ..] => after,
                [] => &[],
            };
        }
        self.keep(bytes)?;
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), EventTooLarge> {
        self.admit(self.line.len().saturating_add(bytes.len()))?;
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn admit(&self, line: usize) -> Result<(), EventTooLarge> {
        let size = self.data.len().saturating_add(line);
        if size > self.limit { Err(EventTooLarge) } else { Ok(()) }
    }

    fn take_line<E: From<EventTooLarge>>(
        &mut self,
        mut line: &[u8],
        on_event: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.at_start {
            self.at_start = false;
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(on_event);
        }
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let field = parts.next().unwrap_or_default();
        let value = parts.next().unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                self.admit(value.len().saturating_add(1))?;
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
                self.has_data = true;
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            // An empty field name is a comment; `id` and `retry` are for reconnecting readers.
            _ => {}
        }
        Ok(())
    }

    fn dispatch<E>(
        &mut self,
        on_event: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let result = if self.has_data {
            on_event(SseEvent {
                name: &String::from_utf8_lossy(&self.name),
                data: &String::from_utf8_lossy(&self.data),
            })
        } else {
            Ok(())
        };
        self.name.clear();
        self.data.clear();
        self.has_data = false;
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Events = Vec<(String, String)>;

    fn feed<'a>(
        parser: &mut SseParser,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Events, EventTooLarge> {
        let mut events = Events::new();
        for piece in pieces {
            parser.push(piece, |event| {
                events.push((event.name.to_owned(), event.data.to_owned()));
                Ok::<(), EventTooLarge>(())
            })?;
        }
        Ok(events)
    }

    fn parse(bytes: &[u8]) -> Events {
        feed(&mut SseParser::new(), [bytes]).unwrap()
    }

    fn pair(name: &str, data: &str) -> (String, String) {
        (name.to_owned(), data.to_owned())
    }

    #[test]
    fn all_line_ends_separate_lines_and_events() {
        for end in ["\n", "\r\n", "\r"] {
            let text = ["event: a", "data: 1", "data: 2", "", "data:3", "", ""].join(end);
            assert_eq!(parse(text.as_bytes()), [pair("a", "1\n2"), pair("", "3")], "{end:?}");
        }
    }

    #[test]
    fn comments_unknown_fields_and_events_without_data_are_skipped() {
        let text = b": hello\n\nevent: lonely\n\nid: 7\nretry: 5\nnonsense\ndata: x\n\n:\n\n";
        assert_eq!(parse(text), [pair("", "x")]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped_also_when_it_arrives_in_pieces() {
        let mut parser = SseParser::new();
        let pieces: [&[u8]; 4] = [b"\xEF", b"\xBB", b"\xBFdata: x\n", b"\n"];
        assert_eq!(feed(&mut parser, pieces).unwrap(), [pair("", "x")]);
    }

    #[test]
    fn a_split_character_is_joined_and_invalid_bytes_are_replaced() {
        let mut parser = SseParser::new();
        let pieces: [&[u8]; 3] = [b"data: \xE2\x82", b"\xAC and \xFF\n", b"\n"];
        assert_eq!(feed(&mut parser, pieces).unwrap(), [pair("", "\u{20AC} and \u{FFFD}")]);
    }

    #[test]
    fn an_event_without_its_blank_line_is_not_an_event() {
        assert_eq!(parse(b"data: whole\n\ndata: cut\n"), [pair("", "whole")]);
    }

    #[test]
    fn an_event_beyond_the_limit_is_refused_in_one_line_and_in_many() {
        let one = format!("data: {}\n\n", "x".repeat(100));
        let many = format!("{}\n", "data: 12345678\n".repeat(20));
        let endless = "y".repeat(200);
        for text in [one, many, endless] {
            let mut parser = SseParser::with_limit(64);
            assert_eq!(feed(&mut parser, [text.as_bytes()]), Err(EventTooLarge), "{text}");
        }
        let mut parser = SseParser::with_limit(64);
        let fits = format!("data: {}\n\n", "x".repeat(50)).repeat(10);
        assert_eq!(feed(&mut parser, [fits.as_bytes()]).unwrap().len(), 10);
    }

    #[test]
    fn any_cutting_of_the_bytes_gives_the_same_events() {
        const ROUNDS: usize = 10_000;
        let seed = fastrand::u64(..);
        println!("seed {seed}, {ROUNDS} cuttings");
        let mut random = fastrand::Rng::with_seed(seed);
        let alphabet: [&[u8]; 14] = [
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b"\r\n\r\n",
            b"data: ",
            b"data:",
            b"event: ",
            b":",
            b"x",
            b"\xEF\xBB\xBF",
            b"\xE2\x82\xAC",
            b"\xFF",
            b"{\"a\":1}",
        ];
        for round in 0..ROUNDS {
            let length = random.usize(0..40);
            let bytes: Vec<u8> = (0..length)
                .flat_map(|_| alphabet[random.usize(..alphabet.len())])
                .copied()
                .collect();
            let mut rest = bytes.as_slice();
            let mut pieces = Vec::new();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(random.usize(0..=rest.len().min(6)));
                pieces.push(piece);
                rest = after;
            }
            let cut = feed(&mut SseParser::new(), pieces.iter().copied()).unwrap();
            assert_eq!(cut, parse(&bytes), "seed {seed}, round {round}: {bytes:?} as {pieces:?}");
        }
    }
}
