//! Files of a project that have changed and of which its server was not told yet: somebody says so, or a look
//! at the project finds it.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::connection::NoAnswer;
use crate::life::Life;
use crate::seen::Seen;
use crate::uri::uri_of;

/// Of how many files that a look finds a server is told.
const MAX_FOUND: usize = 2_000;

/// What happened to a file, by the protocol's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    Created = 1,
    Changed = 2,
    Deleted = 3,
}

/// What one server was not told yet.
#[derive(Default)]
pub(crate) struct Untold {
    changes: Mutex<BTreeMap<PathBuf, Change>>,
    added: Notify,
    /// The files of the project when it was last looked at them, in this life.
    seen: tokio::sync::Mutex<Option<Seen>>,
}

/// A look finds more than a server is told of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooMany;

impl Untold {
    /// A life begins. What changed before is on the disk.
    pub(crate) async fn begin(&self) {
        self.lock().clear();
        self.seen.lock().await.take();
    }

    /// A file has changed; the server that runs is to hear of it.
    pub(crate) fn add(&self, path: &Path, change: Change, life: Option<&Life>) {
        // Before anybody can ask what that has made wrong.
        if let Some(life) = life.filter(|life| life.definition.reads(path)) {
            life.heard.changes();
        }
        self.add_known(path, change);
    }

    /// The same of one that the server has read as it is now.
    fn add_known(&self, path: &Path, change: Change) {
        self.lock().insert(path.to_owned(), change);
        self.added.notify_one();
    }

    /// Waits until something was added.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn added(&self) {
        self.added.notified().await;
    }

    /// Adds what has changed in the project since the last look. Whoever looks meanwhile waits for that.
    ///
    /// # Errors
    /// Nothing was added: it is too much.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn look(
        &self,
        root: &Path,
        life: impl FnOnce() -> Option<Arc<Life>>,
    ) -> Result<(), TooMany> {
        let mut seen = self.seen.lock().await;
        let root = root.to_owned();
        let Ok(now) = tokio::task::spawn_blocking(move || Seen::look(&root)).await else {
            return Ok(());
        };
        let before = seen.replace(now);
        let changes = before.zip(seen.as_ref()).map(|(before, now)| before.changes(now));
        let changes = changes.unwrap_or_default();
        if changes.len() > MAX_FOUND {
            return Err(TooMany);
        }
        let life = life();
        let shown = match &life {
            Some(life) => life.shown_as_they_are().await,
            None => HashSet::new(),
        };
        for (path, change) in changes {
            match shown.contains(&path) {
                // It knows what is in it, and may have checked that.
                true => self.add_known(&path, change),
                false => self.add(&path, change, life.as_deref()),
            }
        }
        Ok(())
    }

    /// Tells the server.
    ///
    /// # Errors
    /// [`NoAnswer::Gone`].
    pub(crate) async fn tell(&self, life: &Life) -> Result<(), NoAnswer> {
        let changes = std::mem::take(&mut *self.lock());
        if changes.is_empty() {
            return Ok(());
        }
        let told = |(path, change): (&PathBuf, &Change)| -> Value {
            json!({"uri": uri_of(path), "type": *change as u8})
        };
        life.files_changed(changes.iter().map(told).collect()).await
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<PathBuf, Change>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
