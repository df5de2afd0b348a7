//! Where notes come from: the seam, one provider with notes in its configuration, and one that
//! reads them from a file.
//!
//! Both hold a snapshot that is checked before anybody sees it, so that a whole turn works with the
//! same notes, and the path of a file is never an argument of a model.

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bridle_compose::{ActivateError, Plugin, ServiceKey, Setup};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const MAX_NOTES: usize = 100;
const MAX_ID_CHARS: usize = 64;
const MAX_TEXT_CHARS: usize = 8192;
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// One note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Note {
    pub(super) id: String,
    pub(super) text: String,
}

/// The notes of a scope.
#[async_trait]
pub(super) trait NoteStore: Send + Sync {
    /// The notes that contain `query`, whatever its case, in their own order.
    async fn search(&self, query: &str) -> Vec<Note>;

    /// The note with this id.
    async fn read(&self, id: &str) -> Option<Note>;
}

/// Whether a text can be the id of a note.
pub(super) fn is_id(text: &str) -> bool {
    let fits = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    (1..=MAX_ID_CHARS).contains(&text.len()) && text.bytes().all(fits)
}

/// Notes that are checked and never change.
struct Snapshot(Vec<Note>);

impl Snapshot {
    fn new(notes: Vec<Note>) -> Result<Self, String> {
        if notes.len() > MAX_NOTES {
            return Err(format!("there are {} notes; the limit is {MAX_NOTES}", notes.len()));
        }
        let mut ids = BTreeSet::new();
        for Note { id, text } in &notes {
            if !is_id(id) {
                return Err(format!(
                    "{id:?} is no id: 1 to {MAX_ID_CHARS} lower-case letters, digits and hyphens"
                ));
            }
            let chars = text.chars().count();
            if chars > MAX_TEXT_CHARS {
                return Err(format!(
                    "{id:?} has {chars} characters; the limit is {MAX_TEXT_CHARS}"
                ));
            }
            if !ids.insert(id) {
                return Err(format!("{id:?} is there twice"));
            }
        }
        Ok(Self(notes))
    }
}

#[async_trait]
impl NoteStore for Snapshot {
    async fn search(&self, query: &str) -> Vec<Note> {
        let query = query.to_lowercase();
        let found = |note: &&Note| note.text.to_lowercase().contains(&query);
        self.0.iter().filter(found).cloned().collect()
    }

    async fn read(&self, id: &str) -> Option<Note> {
        self.0.iter().find(|note| note.id == id).cloned()
    }
}

fn provide(setup: &Setup, checked: Result<Snapshot, String>) -> Result<(), ActivateError> {
    let store: Arc<dyn NoteStore> = Arc::new(checked.map_err(ActivateError::Unable)?);
    Ok(setup.provide(store)?)
}

/// Notes that are part of the configuration.
pub(super) struct MemoryNotes;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MemoryNotesConfig {
    notes: Vec<Note>,
}

#[async_trait]
impl Plugin for MemoryNotes {
    const NAME: &'static str = "memory-notes";
    type Config = MemoryNotesConfig;
    type Needs = ();

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn NoteStore>()]
    }

    async fn activate(
        &self,
        config: MemoryNotesConfig,
        (): (),
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        provide(setup, Snapshot::new(config.notes))
    }
}

/// Notes that a JSON file held when the row was activated.
pub(super) struct FileNotes;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FileNotesConfig {
    path: PathBuf,
}

#[async_trait]
impl Plugin for FileNotes {
    const NAME: &'static str = "file-notes";
    type Config = FileNotesConfig;
    type Needs = ();

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn NoteStore>()]
    }

    async fn activate(
        &self,
        config: FileNotesConfig,
        (): (),
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let read = tokio::task::spawn_blocking(move || load(&config.path)).await;
        provide(setup, read.unwrap_or_else(|error| Err(error.to_string())))
    }
}

fn load(path: &Path) -> Result<Snapshot, String> {
    let bytes = read_regular(path).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("{} is larger than {MAX_FILE_BYTES} bytes", path.display()));
    }
    let notes = serde_json::from_slice(&bytes).map_err(|error| error.to_string());
    notes.and_then(Snapshot::new).map_err(|why| format!("{}: {why}", path.display()))
}

/// What a regular file holds, up to one byte more than the limit.
fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    if !fs_err::symlink_metadata(path)?.is_file() {
        return Err(io::Error::other(format!("{} is not a regular file", path.display())));
    }
    let mut bytes = Vec::new();
    fs_err::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
