//! Sessions to store.

use std::sync::Arc;

use bridle_session::{
    AssistantMessage, Block, Content, Draft, Event, Header, Message, MessageId, RequestHeader,
    Route, Session, SessionId, StepEnd, StepNumber, StepStart, SystemMessage, TimedBlock, ToolCall,
    ToolCallId, ToolResult, TurnEnd, TurnEndReason, TurnNumber, TurnStart, UnixMillis, Usage,
    UserMessage, UserSource,
};
use fastrand::Rng;

/// The id of the nth session.
pub(crate) fn id(n: u64) -> SessionId {
    SessionId::parse(&format!("01980000-0000-7000-8000-{n:012x}")).unwrap()
}

pub(crate) fn header(n: u64) -> Header {
    Header {
        format: Header::FORMAT,
        id: id(n),
        created_at: UnixMillis(1_700_000_000_000),
        cwd: "/work/project".into(),
        extra_roots: Vec::new(),
        parent: None,
        origin: "test".into(),
        delegation_depth: 0,
        terms: Default::default(),
    }
}

/// A message of a person; the text makes it recognisable.
pub(crate) fn said(text: &str) -> Draft {
    Draft::new(UserMessage {
        id: MessageId::new(format!("m-{text:.20}")),
        content: vec![Content::text(text)],
        source: UserSource::Human,
    })
}

/// Appends to the session what then goes to a writer.
pub(crate) fn say(session: &mut Session, text: &str) -> Arc<Event> {
    let time = UnixMillis(session.last_time().0 + 1);
    session.append(said(text), time).unwrap()
}

pub(crate) fn turn_start(turn: u64) -> Draft {
    Draft::new(TurnStart { turn: TurnNumber(turn) })
}

/// The events as lines, to compare whole logs.
pub(crate) fn lines(session: &Session) -> Vec<String> {
    session.events().iter().map(|event| event.to_line().unwrap()).collect()
}

/// Writes a session with one flush for each list of texts; returns it and, for each flush, how
/// long the log was then. The first length is the header's alone.
pub(crate) async fn written(
    store: &crate::FileStore,
    n: u64,
    batches: &[Vec<String>],
) -> (Session, Vec<u64>) {
    use crate::SessionStore as _;
    let mut session = Session::new(header(n));
    let writer = store.create(session.header()).unwrap();
    let log = store.log_path(&id(n)).unwrap();
    let len = || fs_err::metadata(&log).unwrap().len();
    writer.flush().await.unwrap();
    let mut lens = vec![len()];
    for batch in batches {
        for text in batch {
            writer.append(say(&mut session, text)).unwrap();
        }
        writer.flush().await.unwrap();
        lens.push(len());
    }
    (session, lens)
}

/// Where each line of a plain log ends.
pub(crate) fn line_ends(bytes: &[u8]) -> Vec<usize> {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    ends.map(|(index, _)| index + 1).collect()
}

/// A folder in memory where there is one: syncs cost nothing there, and the tests that need
/// thousands of them test no disk.
pub(crate) fn quick_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// What one turn of a working agent adds: input, an answer with calls, their results, an answer.
pub(crate) fn turn(session: &Session, rng: &mut Rng) -> Vec<Draft> {
    let turn = session.state().turns.turn.next();
    let text = |rng: &mut Rng| -> String {
        let len = rng.usize(1..200);
        std::iter::repeat_with(|| rng.char('a'..'\u{2fff}')).take(len).collect()
    };
    let mut drafts = vec![turn_start(turn.0), said(&text(rng))];
    let has_system = |message| matches!(message, Message::System(_));
    if !session.projection().messages().any(has_system) {
        drafts.insert(1, Draft::new(SystemMessage { text: text(rng) }));
        let route = Route::parse("demo/scripted").unwrap();
        let series = session.state().series().next();
        let (reason, tools) = ("start".into(), Vec::new());
        drafts.push(Draft::new(RequestHeader { series, reason, route, tools }));
    }
    let steps = rng.u64(1..4);
    for step in (1..=steps).map(StepNumber) {
        drafts.push(Draft::new(StepStart { turn, step }));
        let calls = if step.0 < steps { rng.usize(1..4) } else { 0 };
        let ids: Vec<_> = (0..calls).map(|n| ToolCallId::new(format!("call_{n}"))).collect();
        drafts.push(answer(&ids, text(rng)));
        for id in ids {
            let name = "read".to_owned();
            let arguments = "{}".to_owned();
            drafts.push(Draft::new(ToolCall { id: id.clone(), name: name.clone(), arguments }));
            let content = vec![Content::text(text(rng))];
            let result = ToolResult { id, name, content, error: None, presentation: None };
            drafts.push(Draft::new(result));
        }
        drafts.push(Draft::new(StepEnd { turn, step }));
    }
    drafts.push(Draft::new(TurnEnd { turn, reason: TurnEndReason::Completed }));
    drafts
}

fn answer(calls: &[ToolCallId], text: String) -> Draft {
    let call = |id: &ToolCallId| Block::ToolCall {
        id: id.clone(),
        name: "read".to_owned(),
        arguments: "{}".to_owned(),
    };
    let time = UnixMillis(0);
    let blocks = [Block::Text { text }].into_iter().chain(calls.iter().map(call));
    Draft::new(AssistantMessage {
        id: MessageId::new("answer"),
        blocks: blocks
            .map(|block| TimedBlock { started_at: time, ended_at: time, block, raw: None })
            .collect(),
        route: Route::parse("demo/scripted").unwrap(),
        stop: "end_turn".to_owned(),
        usage: Usage::default(),
        interrupted: false,
    })
}

/// A log of whole turns, written as it stands: one frame for each turn.
pub(crate) fn forged(store: &crate::FileStore, n: u64, turns: usize, rng: &mut Rng) -> Session {
    let mut session = Session::new(header(n));
    let mut bytes = frame(&crate::log::encode_header(session.header()).unwrap());
    for _ in 0..turns {
        bytes.extend(frame(&grown(&mut session, rng)));
    }
    let log = store.log_path(&id(n)).unwrap();
    fs_err::create_dir_all(log.parent().unwrap()).unwrap();
    fs_err::write(log, bytes).unwrap();
    session
}

/// Adds a turn to the session; its lines.
pub(crate) fn grown(session: &mut Session, rng: &mut Rng) -> Vec<u8> {
    let mut lines = String::new();
    for draft in turn(session, rng) {
        let time = UnixMillis(session.last_time().0 + rng.u64(..1_000));
        lines.push_str(&session.append(draft, time).unwrap().to_line().unwrap());
        lines.push('\n');
    }
    lines.into_bytes()
}

pub(crate) fn frame(lines: &[u8]) -> Vec<u8> {
    crate::frame::encode(lines).unwrap()
}

/// What a list must be: every log folded.
pub(crate) fn folded(store: &crate::FileStore) -> crate::Listing {
    use crate::SessionStore as _;
    let mut listing = crate::Listing::default();
    for id in store.ids().unwrap() {
        match store.read(&id) {
            Err(crate::StoreError::NotFound(_)) => (),
            read => listing.add(&id, read.map(|log| log.session)),
        }
    }
    listing.sort();
    listing
}

/// The same store to one who has no index.
pub(crate) fn without_index(store: &crate::FileStore) -> crate::FileStore {
    let mut store = store.clone();
    store.index = None;
    store
}
