//! What the requests of a series have in common: checked request by request, and fingerprinted.
//!
//! Models bind their reasoning to the exact bytes before it, so within a series every request must
//! be the one before it with more at the end. The wires keep that promise for what they are given
//! (a message always becomes the same bytes); this guard sees whether they are given it. It costs
//! what is new since the last request, plus a comparison of positions. It knows nothing of a wire,
//! and it refuses nothing: the driver decides what a changed prefix means.

use std::collections::HashSet;
use std::fmt;

use bridle_session::{Message, Seq};

use crate::{ModelRequest, ToolSpec};

/// A fingerprint of all that a request sends: the same in every process and on every platform.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PrefixHash([u8; 16]);

impl fmt::Display for PrefixHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PrefixHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrefixHash({self})")
    }
}

/// How a request stands to the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixStep {
    /// There was none before it.
    First,
    /// It is the one before it, with nothing or something more at its end.
    Grown,
    /// Other tools are offered, or the same ones in another shape or order.
    ToolsChanged,
    /// Reasoning of another part of the conversation is sent back: a new series.
    SeriesChanged,
    /// Messages at its end are gone, and what stands in their place is new. No answer that stays
    /// stood behind them, so none has lost its prefix.
    TailCut,
    /// A message that was sent is gone, moved or replaced, and one behind it is still sent.
    MessagesChanged,
}

/// Follows the requests of one session.
#[derive(Debug, Default)]
pub struct PrefixGuard {
    last: Option<Followed>,
}

#[derive(Debug)]
struct Followed {
    tools: PrefixHash,
    since: Seq,
    /// The events of the messages. An event never changes, so its position stands for it.
    entries: Vec<Seq>,
    /// Of tools, series and messages so far.
    hasher: blake3::Hasher,
}

impl PrefixGuard {
    /// One that has seen no request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next request of the session and says how it stands to the one before it.
    pub fn follow(&mut self, request: &ModelRequest) -> PrefixStep {
        let tools = hash_of_tools(request.tools());
        let step = match &self.last {
            None => PrefixStep::First,
            Some(last) if last.tools != tools => PrefixStep::ToolsChanged,
            Some(last) if last.since != request.reasoning_since() => PrefixStep::SeriesChanged,
            Some(last) => last.compare(request),
        };
        let last = match step {
            PrefixStep::Grown => self.last.take(),
            _ => None,
        };
        let mut followed = last.unwrap_or_else(|| Followed::new(tools, request.reasoning_since()));
        followed.grow(request);
        self.last = Some(followed);
        step
    }

    /// The fingerprint of the last request; `None` before the first.
    pub fn hash(&self) -> Option<PrefixHash> {
        self.last.as_ref().map(|last| shortened(&last.hasher))
    }
}

impl Followed {
    fn new(tools: PrefixHash, since: Seq) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&tools.0);
        hasher.update(&since.0.to_le_bytes());
        Self { tools, since, entries: Vec::new(), hasher }
    }

    fn compare(&self, request: &ModelRequest) -> PrefixStep {
        let mut sent = request.projection().entries().map(|(seq, _)| seq).peekable();
        let mut known = self.entries.iter().peekable();
        while known.next_if(|known| sent.next_if_eq(*known).is_some()).is_some() {}
        let gone: HashSet<&Seq> = known.collect();
        match gone.is_empty() {
            true => PrefixStep::Grown,
            false if sent.any(|seq| gone.contains(&seq)) => PrefixStep::MessagesChanged,
            false => PrefixStep::TailCut,
        }
    }

    fn grow(&mut self, request: &ModelRequest) {
        for (seq, message) in request.projection().entries().skip(self.entries.len()) {
            self.entries.push(seq);
            // Writing to a hasher cannot fail, and a stored message can be written as JSON.
            let written = match message {
                Message::System(message) => write(&mut self.hasher, 1, message),
                Message::User(message) => write(&mut self.hasher, 2, message),
                Message::Developer(message) => write(&mut self.hasher, 3, message),
                Message::Assistant(message) => write(&mut self.hasher, 4, message),
                Message::ToolResult(message) => write(&mut self.hasher, 5, message),
            };
            if let Err(error) = written {
                tracing::error!(%error, %seq, "a message has no fingerprint");
            }
        }
    }
}

/// Adds a value, with its kind before it and its length behind it, so that no two sequences of
/// values look alike.
fn write(
    hasher: &mut blake3::Hasher,
    kind: u8,
    value: &impl serde::Serialize,
) -> serde_json::Result<()> {
    let before = hasher.count();
    hasher.update(&[kind]);
    serde_json::to_writer(&mut *hasher, value)?;
    hasher.update(&hasher.count().saturating_sub(before).to_le_bytes());
    Ok(())
}

pub(crate) fn hash_of_tools(tools: &[ToolSpec]) -> PrefixHash {
    let mut hasher = blake3::Hasher::new();
    for tool in tools {
        for text in [&tool.name, &tool.description, tool.input_schema.get()] {
            hasher.update(&u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
            hasher.update(text.as_bytes());
        }
    }
    shortened(&hasher)
}

fn shortened(hasher: &blake3::Hasher) -> PrefixHash {
    let mut short = [0; 16];
    hasher.finalize_xof().fill(&mut short);
    PrefixHash(short)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bridle_session::{
        Content, Draft, EventData, Header, MessageId, Session, SessionId, SurfaceOp, SystemMessage,
        TurnNumber, TurnStart, UnixMillis, UserMessage, UserSource,
    };
    use serde_json::value::RawValue;

    use super::*;

    fn session() -> Session {
        let mut session = Session::new(Header {
            format: Header::FORMAT,
            id: SessionId::new("01234567-0123-7123-8123-0123456789ab"),
            created_at: UnixMillis(0),
            cwd: "/p".into(),
            extra_roots: Vec::new(),
            parent: None,
            origin: "test".to_owned(),
            delegation_depth: 0,
            terms: Default::default(),
        });
        append(&mut session, TurnStart { turn: TurnNumber(1) });
        append(&mut session, SystemMessage { text: "Be brief.".to_owned() });
        session
    }

    fn append(session: &mut Session, data: impl Into<EventData>) {
        session.append(Draft::new(data), UnixMillis(1)).unwrap();
    }

    fn say(session: &mut Session, text: &str) {
        let content = vec![Content::text(text)];
        let source = UserSource::Human;
        append(session, UserMessage { id: MessageId::new("u"), content, source });
    }

    fn request(session: &Session, schema: &str, since: u64) -> ModelRequest {
        let input_schema = RawValue::from_string(schema.to_owned()).unwrap();
        let (name, description) = ("read".to_owned(), "Reads.".to_owned());
        let tools = Arc::from([ToolSpec { name, description, input_schema }]);
        ModelRequest::new(session.projection(), tools, None, Seq(since))
    }

    #[test]
    fn a_request_that_goes_on_is_told_from_one_that_does_not() {
        let mut session = session();
        let mut guard = PrefixGuard::new();
        assert_eq!(guard.hash(), None);
        say(&mut session, "one");
        let mut follow = |session: &Session, schema, since| {
            let step = guard.follow(&request(session, schema, since));
            (step, guard.hash().unwrap())
        };
        let (step, first) = follow(&session, "{}", 0);
        assert_eq!(step, PrefixStep::First);
        assert_eq!(follow(&session, "{}", 0), (PrefixStep::Grown, first), "the same once more");
        say(&mut session, "two");
        let (step, second) = follow(&session, "{}", 0);
        assert_eq!(step, PrefixStep::Grown);
        assert_ne!(second, first);
        assert_eq!(follow(&session, "{ }", 0).0, PrefixStep::ToolsChanged);
        assert_eq!(follow(&session, "{ }", 1).0, PrefixStep::SeriesChanged);
        let system = SystemMessage { text: "Be long.".to_owned() };
        let at = session.projection().entries().next().unwrap().0;
        let surface = Some(SurfaceOp::Replace { first: at, last: at, covers: vec![at] });
        session.append(Draft { data: system.into(), surface }, UnixMillis(1)).unwrap();
        assert_eq!(follow(&session, "{ }", 1).0, PrefixStep::MessagesChanged);
    }

    #[test]
    fn a_cut_at_the_end_is_told_from_one_in_the_middle() {
        let mut session = session();
        let mut guard = PrefixGuard::new();
        say(&mut session, "one");
        say(&mut session, "two");
        say(&mut session, "three");
        guard.follow(&request(&session, "{}", 0));
        let entries: Vec<_> = session.projection().entries().map(|(seq, _)| seq).collect();
        let replace = |session: &mut Session, at: Seq| {
            let content = vec![Content::text("in its place")];
            let id = MessageId::new("r");
            let said = UserMessage { id, content, source: UserSource::Human };
            let surface = Some(SurfaceOp::Replace { first: at, last: at, covers: vec![at] });
            session.append(Draft { data: said.into(), surface }, UnixMillis(1)).unwrap();
        };
        replace(&mut session, entries[3]);
        assert_eq!(guard.follow(&request(&session, "{}", 0)), PrefixStep::TailCut);
        assert_eq!(guard.follow(&request(&session, "{}", 0)), PrefixStep::Grown);
        replace(&mut session, entries[1]);
        assert_eq!(guard.follow(&request(&session, "{}", 0)), PrefixStep::MessagesChanged);
    }

    #[test]
    fn the_fingerprint_says_what_is_sent_and_not_in_how_many_steps_it_grew() {
        let mut session = session();
        let mut guard = PrefixGuard::new();
        for text in ["one", "two", "three"] {
            say(&mut session, text);
            guard.follow(&request(&session, "{}", 0));
        }
        let mut at_once = PrefixGuard::new();
        at_once.follow(&request(&session, "{}", 0));
        assert_eq!(guard.hash(), at_once.hash());
        // Logged sessions may be compared with it, so it must not change by accident.
        expect_test::expect!["f31c4f809bd26e7401c75b4c0d282f84"]
            .assert_eq(&guard.hash().unwrap().to_string());
    }
}
