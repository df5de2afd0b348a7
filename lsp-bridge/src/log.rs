//! What servers say of themselves, written down: what they write to their standard error, what they log,
//! and how they stand. A file that only the user can read, begun anew when it gets too large.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bridle_compose::{Clock, TaskSet};
use tokio::sync::mpsc;

/// The size at which the file is begun anew, in bytes; the one before is kept beside it.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The longest line, in bytes.
const MAX_LINE: usize = 4 * 1024;

/// How many texts may wait to be written. What comes faster than the disk takes it is left out.
const QUEUE: usize = 256;

/// Where lines go. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Log {
    clock: Arc<dyn Clock>,
    /// `None` where nothing is written down.
    lines: Option<mpsc::Sender<String>>,
}

impl Log {
    /// One that writes to the file at `path`, made when there is something to write. The last clone ends
    /// it.
    pub(crate) fn new(path: Option<PathBuf>, clock: Arc<dyn Clock>, tasks: &TaskSet) -> Self {
        let lines = path.map(|path| {
            let (sender, mut lines) = mpsc::channel::<String>(QUEUE);
            tasks.spawn(async move {
                while let Some(mut text) = lines.recv().await {
                    while let Ok(more) = lines.try_recv() {
                        text.push_str(&more);
                    }
                    let path = path.clone();
                    let written = tokio::task::spawn_blocking(move || append(&path, &text)).await;
                    if let Ok(Err(error)) = written {
                        tracing::warn!(%error, "what language servers say is not written down");
                        return;
                    }
                }
            });
            sender
        });
        Self { clock, lines }
    }

    /// Writes down what `server` said, a line each.
    pub(crate) fn say(&self, server: &str, text: &str) {
        let Some(lines) = &self.lines else { return };
        let now = jiff::Timestamp::try_from(self.clock.now())
            .map_or_else(|_| "?".to_owned(), |now| format!("{now:.3}"));
        let mut told = String::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let line = line.get(..line.floor_char_boundary(MAX_LINE)).unwrap_or_default();
            told.push_str(&format!("{now} {server}: {line}\n"));
        }
        if !told.is_empty() {
            // What does not fit is left out.
            lines.try_send(told).ok();
        }
    }
}

fn append(path: &Path, text: &str) -> std::io::Result<()> {
    use fs_err::os::unix::fs::OpenOptionsExt as _;
    if fs_err::metadata(path).is_ok_and(|file| file.len() > MAX_BYTES) {
        fs_err::rename(path, path.with_extension("log.old"))?;
    }
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder)?;
    }
    let mut options = fs_err::OpenOptions::new();
    options.create(true).append(true).mode(0o600);
    options.open(path)?.write_all(text.as_bytes())
}
