//! Sessions to store.

use std::sync::Arc;

use bridle_session::{
    Content, Draft, Event, Header, MessageId, Session, SessionId, TurnNumber, TurnStart,
    UnixMillis, UserMessage, UserSource,
};

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

/// A folder in memory where there is one: syncs cost nothing there, and the tests that need
/// thousands of them test no disk.
pub(crate) fn quick_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}
