#![no_main]
//! Any bytes in the place of a log are either refused and left alone, or read, repaired and
//! continued, and then say the same to the next reader.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use bridle_session::{Content, Draft, MessageId, Session, SessionId, UserMessage, UserSource};
use bridle_store::{FileStore, SessionStore};

/// The session of the seeds.
const ID: &str = "01980000-0000-7000-8000-000000000001";

/// `fuzz/run` puts it into memory: nothing here is about durability.
static STATE: LazyLock<PathBuf> =
    LazyLock::new(|| std::env::temp_dir().join(format!("log-{}", std::process::id())));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let id = SessionId::parse(ID).expect("an id");
    let folder = STATE.join("sessions").join(ID);
    let form = if bytes.starts_with(&[0x28, 0xB5, 0x2F, 0xFD]) { "jsonl.zst" } else { "jsonl" };
    let log = folder.join(format!("events.v1.{form}"));
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(&log, bytes).expect("a log");

    let store = FileStore::new(&*STATE);
    let read = store.read(&id);
    let verified = store.verify(&id).is_ok_and(|report| report.fold.is_ok());
    assert_eq!(verified, read.is_ok(), "verify and read disagree");
    let Ok(read) = read else {
        assert!(store.open(&id).is_err(), "what cannot be read is not opened");
        assert_eq!(fs::read(&log).expect("the log"), bytes, "what was refused was changed");
        return;
    };
    let opened = store.open(&id).expect("what can be read is opened");
    assert_eq!(lines(&opened.session), lines(&read.session));
    let mut session = opened.session;
    let mut drafts = session.repair();
    drafts.push(said());
    for draft in drafts {
        let event = session.append(draft, session.last_time()).expect("a repaired log goes on");
        opened.writer.append(event).expect("queued");
    }
    // Dropping the writer writes what is queued.
    drop(opened.writer);
    let again = store.open(&id).expect("what was continued is opened");
    assert_eq!(lines(&again.session), lines(&session), "the log folds otherwise");
    assert!(again.session.repair().is_empty(), "it is not at rest");
});

fn said() -> Draft {
    Draft::new(UserMessage {
        id: MessageId::new("the next message"),
        content: vec![Content::text("goes on")],
        source: UserSource::Human,
    })
}

fn lines(session: &Session) -> Vec<String> {
    session.events().iter().map(|event| event.to_line().expect("an event")).collect()
}
