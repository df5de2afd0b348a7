//! What servers say of themselves, written down: what they write to their standard error, what they log,
//! and how they stand. A file that only the user can read, begun anew when it gets too large.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use bridle_compose::{Clock, TaskSet};
use tokio::sync::mpsc;

use super::Secrets;

/// The size at which the file is begun anew, in bytes; the one before is kept beside it.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The longest line, in bytes.
const MAX_LINE: usize = 4 * 1024;

/// How many texts may wait to be written. What comes faster than the disk takes it is left out.
const QUEUE: usize = 256;

/// Where lines go. Cheap to clone.
#[derive(Clone)]
pub struct Journal {
    clock: Arc<dyn Clock>,
    /// `None` where nothing is written down.
    lines: Option<mpsc::Sender<String>>,
    /// Something was left out since what was written last.
    gap: Arc<AtomicBool>,
}

impl Journal {
    /// One that writes to the file at `path`, made with its folder when there is something to write; to
    /// none without a path. The last clone ends it.
    pub fn new(path: Option<PathBuf>, clock: Arc<dyn Clock>, tasks: &TaskSet) -> Self {
        let lines = path.map(|path| {
            let (sender, mut lines) = mpsc::channel::<String>(QUEUE);
            tasks.spawn(async move {
                while let Some(mut text) = lines.recv().await {
                    while let Ok(more) = lines.try_recv() {
                        text.push_str(&more);
                    }
                    let file = path.clone();
                    let written = tokio::task::spawn_blocking(move || append(&file, &text)).await;
                    if let Ok(Err(error)) = written {
                        tracing::warn!(%error, "what servers say is not written down");
                        return;
                    }
                }
            });
            sender
        });
        Self { clock, lines, gap: Arc::default() }
    }

    /// Writes down what `server` said, a line each.
    fn say(&self, server: &str, text: &str) {
        let Some(lines) = &self.lines else { return };
        let (now, mut told) = (stamp(self.clock.now()), String::new());
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let line = line.get(..line.floor_char_boundary(MAX_LINE)).unwrap_or_default();
            told.push_str(&format!("{now} {server}: {line}\n"));
        }
        if told.is_empty() {
            return;
        }
        if self.gap.swap(false, Ordering::Relaxed) {
            told.insert_str(0, "(lines are missing here)\n");
        }
        // Full, or its writer is gone because the disk is full.
        if lines.try_send(told).is_err() {
            self.gap.store(true, Ordering::Relaxed);
        }
    }
}

/// What one server says of itself goes here. Cheap to clone.
#[derive(Clone)]
pub struct Voice {
    name: Arc<str>,
    secrets: Secrets,
    journal: Journal,
}

impl Voice {
    /// That of the server which a person calls `name`, and which has these keys.
    pub fn new(name: &str, secrets: Secrets, journal: &Journal) -> Self {
        Self { name: name.into(), secrets, journal: journal.clone() }
    }

    /// What a person calls the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What nobody is to read of what the server says.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Writes down what the server said, without its keys.
    pub fn say(&self, text: &str) {
        self.journal.say(&self.name, &self.secrets.blank(text));
    }
}

fn stamp(now: SystemTime) -> String {
    jiff::Timestamp::try_from(now).map_or_else(|_| "?".to_owned(), |now| format!("{now:.3}"))
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

#[cfg(test)]
mod tests {
    use bridle_compose::SystemClock;

    use super::*;

    #[tokio::test]
    async fn what_is_kept_is_the_newest_and_not_more_than_there_is_room_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/mcp.log");
        let tasks = TaskSet::new();
        let journal = Journal::new(Some(path.clone()), Arc::new(SystemClock), &tasks);
        let long = "x".repeat(MAX_LINE + 10);
        for number in 0..4 * MAX_BYTES / MAX_LINE as u64 {
            journal.say("s", &format!("\n{number}: {long}\n"));
            // The writer has its turn.
            while journal.lines.as_ref().unwrap().capacity() < QUEUE / 2 {
                tokio::task::yield_now().await;
            }
        }
        journal.say("s", "the last");
        drop(journal);
        tasks.close().await;
        let text = fs_err::read_to_string(&path).unwrap();
        let old = fs_err::read_to_string(path.with_extension("log.old")).unwrap();
        // What waits is written at once.
        let most = MAX_BYTES as usize + QUEUE * (MAX_LINE + 100);
        assert!(text.len() <= most && old.len() <= most, "{} {}", text.len(), old.len());
        assert!(old.len() as u64 > MAX_BYTES, "{}", old.len());
        assert!(text.ends_with("s: the last\n"));
        assert_eq!(fs_err::read_dir(path.parent().unwrap()).unwrap().count(), 2);
        let longest = text.lines().map(str::len).max().unwrap();
        assert!(longest < MAX_LINE + 60, "{longest}");
    }
}
