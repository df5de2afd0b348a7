//! What the servers of a session say of themselves, written down beside its log: what they write to
//! their standard error, what they log, and how they stand. A file that only the user can read, and of
//! bounded size.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use bridle_compose::{Clock, TaskSet};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::config::ServerConfig;
use crate::secrets::Secrets;

/// The most bytes that one opening of a session writes.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The longest line, in bytes.
const MAX_LINE: usize = 4 * 1024;

/// How many texts may wait to be written. What comes faster than the disk takes it is left out.
const QUEUE: usize = 256;

/// Where lines go. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Journal {
    clock: Arc<dyn Clock>,
    /// `None` where nothing is written down.
    lines: Option<mpsc::Sender<String>>,
    /// How many bytes may still be written.
    room: Arc<AtomicU64>,
    /// Something was left out since what was written last.
    gap: Arc<AtomicBool>,
}

impl Journal {
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
                    let written = tokio::task::spawn_blocking(move || append(path, &text)).await;
                    if let Ok(Err(error)) = written {
                        tracing::warn!(%error, "what MCP servers say is not written down");
                        return;
                    }
                }
            });
            sender
        });
        Self { clock, lines, room: Arc::new(AtomicU64::new(MAX_BYTES)), gap: Arc::default() }
    }

    /// Writes down what `server` said, a line each.
    fn say(&self, server: &str, text: &str) {
        let Some(lines) = &self.lines else { return };
        let (now, mut told) = (stamp(self.clock.now()), String::new());
        if self.gap.swap(false, Ordering::Relaxed) {
            told.push_str("(lines are missing here)\n");
        }
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let line = line.get(..line.floor_char_boundary(MAX_LINE)).unwrap_or_default();
            told.push_str(&format!("{now} {server}: {line}\n"));
        }
        let take = |room: u64| room.checked_sub(told.len() as u64);
        match self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => {}
            Err(0) => return,
            Err(_) => {
                self.room.store(0, Ordering::Relaxed);
                "(more is not written down)\n".clone_into(&mut told);
            }
        }
        // The writer is gone when the disk is full.
        if let Err(TrySendError::Full(told)) = lines.try_send(told) {
            self.room.fetch_add(told.len() as u64, Ordering::Relaxed);
            self.gap.store(true, Ordering::Relaxed);
        }
    }
}

/// What one server says of itself goes here. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Voice {
    /// What a person calls the server.
    name: Arc<str>,
    secrets: Secrets,
    journal: Journal,
}

impl Voice {
    pub(crate) fn of(server: &ServerConfig, journal: &Journal) -> Self {
        let (name, secrets) = (server.name.as_str().into(), server.secrets.clone());
        Self { name, secrets, journal: journal.clone() }
    }

    /// What a person calls the server.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What nobody is to read of what the server says.
    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Writes down what the server said.
    pub(crate) fn say(&self, text: &str) {
        self.journal.say(&self.name, &self.secrets.blank(text));
    }
}

fn stamp(now: SystemTime) -> String {
    jiff::Timestamp::try_from(now).map_or_else(|_| "?".to_owned(), |now| format!("{now:.3}"))
}

fn append(path: PathBuf, text: &str) -> std::io::Result<()> {
    let mut options = fs_err::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use fs_err::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use bridle_compose::SystemClock;

    use super::*;

    #[tokio::test]
    async fn no_more_is_written_than_there_is_room_for() {
        let folder = std::env::temp_dir().join(format!("bridle-journal-{}", std::process::id()));
        fs_err::create_dir_all(&folder).unwrap();
        let path = folder.join("mcp.log");
        let tasks = TaskSet::new();
        let journal = Journal::new(Some(path.clone()), Arc::new(SystemClock), &tasks);
        let long = "x".repeat(MAX_LINE + 10);
        for _ in 0..2 * MAX_BYTES / MAX_LINE as u64 {
            journal.say("s", &format!("\n{long}\n"));
            // The writer has its turn.
            while journal.lines.as_ref().unwrap().capacity() == 0 {
                tokio::task::yield_now().await;
            }
        }
        drop(journal);
        tasks.close().await;
        let text = fs_err::read_to_string(&path).unwrap_or_default();
        fs_err::remove_dir_all(&folder).unwrap();
        assert!(text.len() as u64 <= MAX_BYTES + 100, "{}", text.len());
        assert!(text.len() as u64 > MAX_BYTES / 2, "{}", text.len());
        assert!(text.ends_with("(more is not written down)\n"));
        let longest = text.lines().map(str::len).max().unwrap();
        assert!(longest < MAX_LINE + 60, "{longest}");
    }
}
