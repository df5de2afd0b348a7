//! What is remembered of a server from session to session: what it offered when it was last heard, so
//! that it need not be started before it is used, and what its tools were when they were permitted, so that
//! a change of them, or of the program behind the server's name, is noticed.
//!
//! One file for each name. A name may stand for several servers, as where each project has other arguments:
//! they are told apart by how they are reached, without what may be a key. A file that is missing or cannot
//! be read is a server never seen before.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::config::{Reach, ServerConfig};
use crate::listing::{Definition, Listing};

/// How long it is believed that a server offers what it did.
const BELIEVED: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The largest file, in bytes. What is larger is not kept.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// How many names are remembered; the one that was used the longest ago goes.
const MAX_FILES: usize = 200;

/// How many servers of one name are; the one that was heard the longest ago goes.
const MAX_HEARD: usize = 8;

/// In how many forms a tool is known as permitted.
const MAX_FORMS: usize = 32;

/// The memory of one server.
pub(crate) struct Memory {
    /// `None` where nothing is kept longer than the session.
    path: Option<PathBuf>,
    /// What tells the server from others of its name.
    identity: String,
    known: Mutex<Known>,
    /// One writes at a time, and the newest last.
    writing: tokio::sync::Mutex<()>,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Known {
    /// By identity.
    heard: BTreeMap<String, Heard>,
    /// What each tool was when it was permitted, or first seen: hashes, by the server's own name for it.
    permitted: BTreeMap<String, BTreeSet<String>>,
}

/// What a server offered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Heard {
    at: SystemTime,
    listing: Arc<Listing>,
}

impl Memory {
    /// Of this server, in a file of this folder.
    pub(crate) fn new(folder: Option<&Path>, config: &ServerConfig) -> Self {
        let file = format!("{}.json", hex(&config.name));
        Self {
            path: folder.map(|folder| folder.join(file)),
            identity: identity(&config.reach),
            known: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
        }
    }

    /// Remembers, and says what the server offers, where that is believed still.
    pub(crate) async fn recall(&self, now: SystemTime) -> Option<Arc<Listing>> {
        let path = self.path.clone()?;
        let read = tokio::task::spawn_blocking(move || read(&path)).await.ok()??;
        let mut known = self.known();
        known.add(read);
        let heard = known.heard.get(&self.identity)?;
        // One from the future is from a clock that was wrong.
        let age = now.duration_since(heard.at).ok()?;
        (age <= BELIEVED).then(|| Arc::clone(&heard.listing))
    }

    /// The server offers this now.
    pub(crate) async fn learn(&self, listing: &Arc<Listing>, now: SystemTime) {
        {
            let mut known = self.known();
            for tool in &listing.tools {
                let print = || BTreeSet::from([self.fingerprint(tool)]);
                known.permitted.entry(tool.name.clone()).or_insert_with(print);
            }
            let heard = Heard { at: now, listing: Arc::clone(listing) };
            known.heard.insert(self.identity.clone(), heard);
        }
        self.save().await;
    }

    /// Whether the tool is what it was once when it was permitted, or when it was first seen.
    pub(crate) fn is_permitted(&self, tool: &Definition) -> bool {
        let known = self.known();
        let prints = known.permitted.get(&tool.name);
        prints.is_none_or(|prints| prints.contains(&self.fingerprint(tool)))
    }

    /// Whoever permits tools has seen what this one says of itself.
    pub(crate) async fn permit(&self, tool: &Definition) {
        let print = self.fingerprint(tool);
        let is_new = {
            let mut known = self.known();
            let prints = known.permitted.entry(tool.name.clone()).or_default();
            if prints.len() >= MAX_FORMS {
                prints.clear();
            }
            prints.insert(print)
        };
        if is_new {
            self.save().await;
        }
    }

    /// Of all that a tool says of itself, and of whose it is.
    fn fingerprint(&self, tool: &Definition) -> String {
        let tool = serde_json::to_string(tool).unwrap_or_default();
        hex(&format!("{}{tool}", self.identity))
    }

    async fn save(&self) {
        let Some(path) = self.path.clone() else { return };
        let _one = self.writing.lock().await;
        let known = self.known().clone();
        let written = tokio::task::spawn_blocking(move || write(&path, known)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(%error, "what an MCP server offers is not remembered");
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// This, and what others of the same name know besides.
    fn add(&mut self, others: Self) {
        for (identity, heard) in others.heard {
            let own = self.heard.entry(identity).or_insert_with(|| heard.clone());
            if own.at < heard.at {
                *own = heard;
            }
        }
        while self.heard.len() > MAX_HEARD {
            let oldest = self.heard.iter().min_by_key(|(_, heard)| heard.at);
            let Some(oldest) = oldest.map(|(identity, _)| identity.clone()) else { return };
            self.heard.remove(&oldest);
        }
        for (tool, prints) in others.permitted {
            let own = self.permitted.entry(tool).or_default();
            own.extend(prints.into_iter().take(MAX_FORMS.saturating_sub(own.len())));
        }
    }
}

/// What tells servers of one name apart, without what may be a key.
fn identity(reach: &Reach) -> String {
    let names = |pairs: &[(String, String)]| -> Vec<String> {
        pairs.iter().map(|(name, _)| name.clone()).collect()
    };
    let what = match reach {
        Reach::Stdio { program, arguments, environment } => {
            (program.display().to_string(), arguments.clone(), names(environment))
        }
        Reach::Http { url, headers } => {
            let place = url.split('?').next().unwrap_or_default();
            (place.to_owned(), Vec::new(), names(headers))
        }
    };
    hex(&format!("{what:?}"))
}

fn hex(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(path: &Path) -> Option<Known> {
    serde_json::from_slice(&fs_err::read(path).ok()?).ok()
}

fn write(path: &Path, mut known: Known) -> io::Result<()> {
    known.add(read(path).unwrap_or_default());
    let text = serde_json::to_vec(&known)?;
    let Some(folder) = path.parent() else { return Ok(()) };
    if text.len() > MAX_BYTES {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.recursive(true).create(folder)?;
    let file = tempfile::NamedTempFile::new_in(folder)?;
    fs_err::write(file.path(), text)?;
    file.persist(path)?;
    forget(folder)
}

/// Takes the oldest files away where there are too many.
fn forget(folder: &Path) -> io::Result<()> {
    let entries = fs_err::read_dir(folder)?.filter_map(Result::ok);
    let aged = |entry: fs_err::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry));
    let mut files: Vec<_> = entries.filter_map(aged).collect();
    files.sort_by_key(|(age, _)| *age);
    let over = files.len().saturating_sub(MAX_FILES);
    files.iter().take(over).try_for_each(|(_, entry)| fs_err::remove_file(entry.path()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use bridle_world::servers::Secrets;

    fn config(name: &str, url: &str, key: &str) -> ServerConfig {
        let headers = vec![("Authorization".to_owned(), key.to_owned())];
        let reach = Reach::Http { url: url.to_owned(), headers };
        ServerConfig::new(name, reach, Secrets::default())
    }

    fn listing(description: &str) -> Arc<Listing> {
        let tool = json!({"name": "t", "description": description, "inputSchema": {}});
        Arc::new(Listing { tools: vec![Definition::read(tool).unwrap()], ..Listing::default() })
    }

    #[test]
    fn a_server_is_known_again_by_all_but_its_keys() {
        let one = |url: &str, key: &str| identity(&config("s", url, key).reach);
        assert_eq!(one("http://h/?key=1", "a"), one("http://h/?key=2", "b"));
        assert_ne!(one("http://h/", "a"), one("http://h/x", "a"));
    }

    #[tokio::test]
    async fn another_program_behind_a_name_is_another_server() {
        let folder = tempfile::tempdir().unwrap();
        let memory = |url: &str| Memory::new(Some(folder.path()), &config("s", url, "a"));
        let (now, tools) = (SystemTime::UNIX_EPOCH, listing("same"));
        let tool = &tools.tools[0];
        memory("http://a/").learn(&tools, now).await;
        let other = memory("http://b/");
        assert_eq!(other.recall(now).await, None);
        assert!(!other.is_permitted(tool));
        other.learn(&tools, now).await;
        assert!(!other.is_permitted(tool));
        other.permit(tool).await;
        // Neither forgets what the other one is.
        for url in ["http://a/", "http://b/"] {
            let memory = memory(url);
            assert_eq!(memory.recall(now).await.as_ref(), Some(&tools), "{url}");
            assert!(memory.is_permitted(tool), "{url}");
        }
        for number in 0..2 * MAX_HEARD {
            memory(&format!("http://{number}/")).learn(&tools, now).await;
        }
        let path = folder.path().join(format!("{}.json", hex("s")));
        assert_eq!(read(&path).unwrap().heard.len(), MAX_HEARD);
    }

    #[tokio::test]
    async fn what_was_heard_is_believed_for_a_week_and_changes_are_seen_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let config = config("s", "http://h/", "a");
        let memory = || Memory::new(Some(folder.path()), &config);
        let (then, day) = (SystemTime::UNIX_EPOCH, Duration::from_secs(24 * 60 * 60));
        assert_eq!(memory().recall(then).await, None);
        let (old, new) = (listing("old"), listing("new"));
        memory().learn(&old, then + day).await;
        let later = memory();
        assert_eq!(later.recall(then).await, None, "from the future");
        assert_eq!(later.recall(then + 8 * day).await, Some(Arc::clone(&old)));
        assert_eq!(later.recall(then + 9 * day).await, None, "too old");
        assert!(later.is_permitted(&old.tools[0]) && !later.is_permitted(&new.tools[0]));
        // Hearing it is not permitting it.
        later.learn(&new, then + 9 * day).await;
        let last = memory();
        assert_eq!(last.recall(then + 9 * day).await, Some(Arc::clone(&new)));
        assert!(!last.is_permitted(&new.tools[0]));
        last.permit(&new.tools[0]).await;
        let last = memory();
        last.recall(then + 9 * day).await;
        assert!(last.is_permitted(&new.tools[0]) && last.is_permitted(&old.tools[0]));
    }

    #[tokio::test]
    async fn no_more_servers_are_remembered_than_there_is_room_for() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..MAX_FILES + 3 {
            let config = config(&format!("s{number}"), "http://h/", "a");
            let memory = Memory::new(Some(folder.path()), &config);
            memory.learn(&listing("x"), SystemTime::UNIX_EPOCH).await;
        }
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), MAX_FILES);
        let broken = config("s202", "http://h/", "a");
        let path = folder.path().join(format!("{}.json", hex("s202")));
        fs_err::write(path, "{").unwrap();
        let memory = Memory::new(Some(folder.path()), &broken);
        assert_eq!(memory.recall(SystemTime::UNIX_EPOCH).await, None);
    }
}
