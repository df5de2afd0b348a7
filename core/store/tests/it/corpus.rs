//! Every file of the corpus is read, verified, listed, opened for writing and continued.
//!
//! `corpus/v1*` are logs as they were when their format was released: they prove that old files
//! stay readable, so they are never made again. `v1.jsonl.zst` was written by `bridle acp` with a
//! scripted model: tools, questions, a failed request, a cancel, two kills, one damaged batch. The
//! other files are damaged in one way each, by `damaged.rs`; `UPDATE_EXPECT=1` writes them and the
//! table of what comes of each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bridle_session::{Content, Draft, MessageId, Session, SessionId, UserMessage, UserSource};
use bridle_store::{FileStore, Opened, Recovery, SessionStore as _, StoreError};
use expect_test::{expect, expect_file};
use sha2::{Digest as _, Sha256};

use crate::damaged;

/// The session of each released file, and what the file hashes to.
const RELEASED: [(&str, &str, &str); 2] = [
    (
        "v1.jsonl.zst",
        "01a231fe-b639-756a-b720-935ead4a0bfd",
        "83eca6ef6ffb0919e12de626af63452a878bf75bffd862295ecf4843d287ca65",
    ),
    (
        "v1.jsonl",
        "01980000-0000-7000-8000-000000000001",
        "962afa7797ac2fa452c70c27eed056cb68b01a1310c72f62df51314bebf0a2d2",
    ),
];

/// The most bytes of all files.
const MAX_BYTES: usize = 200 << 10;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn file(name: &str) -> Vec<u8> {
    fs_err::read(folder().join(name)).unwrap()
}

/// A store that holds one file of the corpus as the log of a session.
struct Stored {
    store: FileStore,
    id: SessionId,
    log: PathBuf,
    bytes: Vec<u8>,
    _state: tempfile::TempDir,
}

impl Stored {
    fn new(name: &str) -> Self {
        let released = RELEASED.iter().find(|(file, ..)| *file == name);
        let id = released.map_or(damaged::ID, |(_, id, _)| *id);
        let state = tempfile::tempdir().unwrap();
        let version = if name.starts_with("newer-name") { 2 } else { 1 };
        let (_, suffix) = name.split_once('.').unwrap();
        let log = state.path().join(format!("sessions/{id}/events.v{version}.{suffix}"));
        fs_err::create_dir_all(log.parent().unwrap()).unwrap();
        let bytes = file(name);
        fs_err::write(&log, &bytes).unwrap();
        let (store, id) = (FileStore::new(state.path()), SessionId::parse(id).unwrap());
        Self { store, id, log, bytes, _state: state }
    }

    /// What a reader gets. Reading, verifying, listing and the tail agree, and change nothing.
    fn read(&self) -> Result<(Vec<String>, Recovery), StoreError> {
        let read = self.store.read(&self.id);
        let (verified, listed) = (self.store.verify(&self.id), self.store.list().unwrap());
        assert_eq!(fs_err::read(&self.log).unwrap(), self.bytes);
        let read = match read {
            Ok(read) => read,
            Err(error) => {
                let said = verified.map(|report| report.fold.unwrap_err());
                let said = said.unwrap_or_else(|error| error.to_string());
                assert!(error.to_string().contains(&said), "verify says {said}, read {error}");
                // A list looks at the two ends of a log only, but leaves out none.
                assert_eq!(listed.sessions.len() + listed.unreadable.len(), 1);
                return Err(error);
            }
        };
        let report = verified.unwrap();
        assert_eq!(report.events.0, read.session.events().len() as u64);
        assert_eq!(report.damage, read.recovery.damage);
        assert_eq!(report.bytes + report.torn_bytes, self.bytes.len() as u64);
        assert_eq!(report.torn_bytes, read.recovery.torn_bytes);
        assert_eq!(report.fold, Ok(read.session.repair().len()));
        assert_eq!((listed.sessions.len(), listed.unreadable.len()), (1, 0));
        let tail = self.store.tail(&self.id, 2).unwrap();
        let all = lines(&read.session);
        let tail: Vec<_> = tail.events.iter().map(|event| event.to_line().unwrap()).collect();
        assert!(all.ends_with(&tail) && tail.len() == 2, "{tail:?}");
        Ok((all, read.recovery))
    }

    /// Opens it for writing, repairs it and says something.
    async fn continued(&self) -> Result<(), StoreError> {
        let Opened { writer, mut session, recovery } = self.store.open(&self.id)?;
        let before = lines(&session);
        let valid = self.bytes.len() - usize::try_from(recovery.torn_bytes).unwrap();
        let kept = recovery.kept_at.map(|copy| fs_err::read(copy).unwrap()).unwrap_or_default();
        assert_eq!(kept, self.bytes[valid..], "the torn bytes were not kept");
        let mut drafts = session.repair();
        drafts.push(said());
        for draft in drafts {
            let time = session.last_time();
            writer.append(session.append(draft, time).unwrap()).unwrap();
        }
        writer.flush().await.unwrap();
        drop(writer);
        let log = fs_err::read(&self.log).unwrap();
        assert!(log.starts_with(&self.bytes[..valid]), "what was there was changed");
        let again = self.store.open(&self.id)?;
        assert_eq!(lines(&again.session), lines(&session));
        assert!(lines(&session).starts_with(&before));
        assert_eq!((again.recovery.torn_bytes, again.session.repair().len()), (0, 0));
        assert_eq!(self.store.verify(&self.id).unwrap().fold, Ok(0));
        Ok(())
    }
}

fn said() -> Draft {
    Draft::new(UserMessage {
        id: MessageId::new("the next message"),
        content: vec![Content::text("goes on")],
        source: UserSource::Human,
    })
}

fn lines(session: &Session) -> Vec<String> {
    session.events().iter().map(|event| event.to_line().unwrap()).collect()
}

/// One row of the table.
async fn outcome(name: &str) -> String {
    let stored = Stored::new(name);
    let outcome = match stored.read() {
        Ok((events, recovery)) => {
            stored.continued().await.unwrap_or_else(|error| panic!("{name}: {error}"));
            let mut parts = vec![format!("{} events", events.len())];
            parts.extend(recovery.damage.iter().map(ToString::to_string));
            if recovery.torn_bytes > 0 {
                parts.push(format!("{} bytes behind them torn", recovery.torn_bytes));
            }
            parts.join("; ")
        }
        Err(error) => {
            let opened = stored.continued().await.unwrap_err();
            assert_eq!(opened.to_string(), error.to_string(), "{name}");
            assert_eq!(fs_err::read(&stored.log).unwrap(), stored.bytes, "{name} was changed");
            error.to_string()
        }
    };
    format!("| {name} | {} | {outcome} |\n", stored.bytes.len())
}

#[tokio::test]
async fn every_file_has_its_outcome() {
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        for (name, bytes) in damaged::files().await {
            fs_err::write(folder().join(name), bytes).unwrap();
        }
    }
    let names = fs_err::read_dir(folder()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: BTreeSet<_> = names.filter(|name| name.contains(".jsonl")).collect();
    assert!(names.len() > 20);
    assert!(names.iter().map(|name| file(name).len()).sum::<usize>() < MAX_BYTES);
    let mut table = String::from("| file | bytes | what comes of it |\n|---|---|---|\n");
    for name in &names {
        table += &outcome(name).await;
    }
    expect_file!["../corpus/outcomes.md"].assert_eq(&table);
}

/// A released file is never made again.
#[test]
fn released_files_are_what_they_were() {
    for (name, _, hash) in RELEASED {
        let now: String =
            Sha256::digest(file(name)).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(now, hash, "{name} was changed: take the old one back");
    }
}

/// The event types in the stored session of version 1.
#[test]
fn the_first_version_holds_what_the_program_wrote() {
    let stored = Stored::new(RELEASED[0].0);
    let session = stored.store.read(&stored.id).unwrap().session;
    let types: BTreeSet<_> = session.events().iter().map(|event| event.data.type_name()).collect();
    expect![[r#"
        agent/inbox/spliced
        approval/asked
        approval/decided
        assistant/attempt
        assistant/message
        assistant/partial
        llm/retry
        log/gap
        model/selected
        permission/mode
        request/context
        request/header
        step/end
        step/start
        system/message
        title/set
        tool/call
        tool/result
        turn/end
        turn/start
        user/message"#]]
    .assert_eq(&types.into_iter().collect::<Vec<_>>().join("\n"));
}
