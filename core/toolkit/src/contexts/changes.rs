//! Which of the files that the model has seen are not as it saw them: changed by a person, a
//! command, or another session.
//!
//! Before each step the files are looked at, and only one whose metadata differs from the last
//! look is read again. What the model has seen is the log's to say.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bridle_agent::{ContextInput, ContextSource, Observed};
use bridle_compose::{ActivateError, Plugin, Setup};
use bridle_world::Roots;
use bridle_world::files::{ContentHash, FileError, Files, LineLimits, LineWindow};

use super::signature::Signature;
use super::{add, wrap};
use crate::edit::MAX_FILE_BYTES;
use crate::file_tool::FileWorld;
use crate::seen::SeenTexts;
use crate::target::shown;

/// The most files that are looked at before one step.
const MAX_LOOKED_AT: usize = 1_000;
/// The most files that are named.
const MAX_NAMED: usize = 50;

/// A file as it was looked at last; `None` for one that cannot be read whole.
#[derive(Clone)]
struct Look {
    signature: Signature,
    hash: Option<String>,
}

/// Watches what the model has seen.
pub(super) struct FileChanges {
    world: FileWorld,
    looks: Arc<Mutex<HashMap<PathBuf, Look>>>,
}

impl FileChanges {
    pub(super) fn new(world: FileWorld) -> Self {
        Self { world, looks: Arc::default() }
    }
}

#[async_trait]
impl ContextSource for FileChanges {
    fn name(&self) -> &str {
        "file-changes"
    }

    async fn collect(&self, now: &ContextInput) -> Option<String> {
        let (world, looks) = (self.world.clone(), Arc::clone(&self.looks));
        let observed = Arc::clone(&now.observed);
        tokio::task::spawn_blocking(move || {
            let mut looks = looks.lock().unwrap_or_else(PoisonError::into_inner);
            describe(&world, &observed, &mut looks)
        })
        .await
        .ok()?
    }
}

fn describe(
    world: &FileWorld,
    observed: &Observed,
    looks: &mut HashMap<PathBuf, Look>,
) -> Option<String> {
    looks.retain(|path, _| observed.contains_key(path));
    let mut changed = Vec::new();
    for (path, seen) in observed.iter().take(MAX_LOOKED_AT) {
        match look(world, path, looks, seen) {
            Some(Look { hash: Some(now), .. }) if now == *seen => {}
            Some(_) => changed.push((path, "changed")),
            None => changed.push((path, "not there any more")),
        }
    }
    if changed.is_empty() {
        return None;
    }
    let mut text = "Not as you last read or changed them; read one again before you change it or \
                    rely on what it said:\n"
        .to_owned();
    for (path, how) in changed.iter().take(MAX_NAMED) {
        let _infallible = writeln!(text, "{} ({how})", shown(&world.roots, path));
    }
    if let Some(more) = changed.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
        let _infallible = writeln!(text, "and {more} more");
    }
    Some(wrap("file changes", &text))
}

/// `None` when nothing is there. What still is as it was `seen` is remembered.
fn look(
    world: &FileWorld,
    path: &Path,
    looks: &mut HashMap<PathBuf, Look>,
    seen: &str,
) -> Option<Look> {
    let signature = Signature::of(path);
    let known = looks.get(path).filter(|look| Some(look.signature) == signature);
    if let Some(known) = known {
        return Some(known.clone());
    }
    let hash = match world.files.read(path, MAX_FILE_BYTES) {
        Ok(bytes) => {
            let hash = ContentHash::of(&bytes).to_hex();
            if hash == seen {
                world.texts.keep(seen, bytes);
            }
            Some(hash)
        }
        Err(FileError::NotFound(_)) => return None,
        Err(FileError::TooLarge { .. }) => hash_of_large(&*world.files, path),
        Err(_) => None,
    };
    // What has no file yet is looked at every time.
    let Some(signature) = signature else {
        return Some(Look { signature: Signature::NONE, hash });
    };
    let look = Look { signature, hash };
    looks.insert(path.to_owned(), look.clone());
    Some(look)
}

/// The hash of a file that `read` goes through and nobody holds whole.
fn hash_of_large(files: &dyn Files, path: &Path) -> Option<String> {
    let limits = LineLimits { lines: 0, bytes: 0, line_bytes: 0 };
    let window = LineWindow { first: 1, last: None, limits };
    let lines = files.read_lines(path, &window, &|| false).ok()?.ok()?;
    lines.hash.map(ContentHash::to_hex)
}

/// Puts [`FileChanges`] into a session.
pub(crate) struct FileChangesPlugin;

#[async_trait]
impl Plugin for FileChangesPlugin {
    const NAME: &'static str = "file-changes";
    type Config = ();
    type Needs = (Arc<Roots>, Arc<dyn Files>, Arc<SeenTexts>);

    async fn activate(
        &self,
        (): (),
        (roots, files, texts): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        add(setup, FileChanges::new(FileWorld { texts, ..FileWorld::new(roots, files) }))
    }
}
