//! From an older format version to the current one, one step after the other.

use bridle_session::{Header, Session};

use super::sample::{header, id, lines, quick_folder, say};
use crate::version::{Step, Versions};
use crate::{FileStore, SessionStore as _};

/// The header with another version number; what it was is not looked at.
fn renumber(line: &str, to: u32) -> Result<String, String> {
    let mut header: Header = serde_json::from_str(line).map_err(|error| error.to_string())?;
    header.format = to;
    serde_json::to_string(&header).map_err(|error| error.to_string())
}

/// Says in each text which steps it has gone through.
pub(super) const STEPS: [Step; 2] = [
    Step {
        from: 1,
        header: |line| renumber(line, 2),
        event: |line| Ok(line.replace("the first", "the second")),
    },
    Step {
        from: 2,
        header: |line| renumber(line, 3),
        event: |line| Ok(line.replace("the second", "the third")),
    },
];

pub(super) fn newer(store: &FileStore) -> FileStore {
    store.clone().with_versions(Versions { current: 3, steps: STEPS.to_vec() })
}

#[tokio::test]
async fn a_log_is_read_and_opened_in_the_current_version_and_the_older_files_stay() {
    let folder = quick_folder();
    let old = FileStore::new(folder.path());
    let mut session = Session::new(header(1));
    let writer = old.create(session.header()).unwrap();
    writer.append(say(&mut session, "in the first")).unwrap();
    writer.flush().await.unwrap();
    drop(writer);
    let first = old.log_path(&id(1)).unwrap();
    let before = fs_err::read(&first).unwrap();

    let new = newer(&old);
    let read = new.read(&id(1)).unwrap().session;
    assert_eq!(read.header().format, 3);
    assert!(lines(&read)[0].contains("in the third"));
    assert!(!first.with_file_name("events.v2.jsonl.zst").exists(), "reading changed something");

    let mut opened = new.open(&id(1)).unwrap();
    assert_eq!(lines(&opened.session), lines(&read));
    opened.writer.append(say(&mut opened.session, "goes on")).unwrap();
    opened.writer.flush().await.unwrap();
    for name in ["events.v2.jsonl.zst", "events.v3.jsonl.zst"] {
        assert!(first.with_file_name(name).exists(), "{name}");
    }
    assert_eq!(fs_err::read(&first).unwrap(), before);
    assert_eq!(lines(&new.read(&id(1)).unwrap().session), lines(&opened.session));
}
