//! The derived index of a store: an SQLite file with one row per session and the words of what was
//! said. It holds nothing that the logs do not say, so it may be deleted at any time, and whoever
//! cannot use it reads the logs. It is opened by a list or a search, never by a writer.
//!
//! SQLite does not check what it reads, so this does: each row carries a digest, and the text has a
//! seal. What is not ours (another application's database, any other file, a link) is left alone.

mod row;
mod text;

use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bridle_session::SessionId;
use fs_err::OpenOptions;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, params};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use sha2::{Digest as _, Sha256};

pub(crate) use self::row::{Look, Mark, Row, Stamp};
pub(crate) use self::text::{Texts, TextsOf};
use crate::folder::open_private;
use crate::lock::{Lock, LockError};

/// `BRDL`: who the database belongs to.
const APPLICATION: i32 = 0x4252_444C;

/// Raised with every change of the tables, of what a row holds, or of what a word is. An older
/// index is made anew, a newer one is left alone.
const VERSION: i32 = 2;

/// How long one statement waits for another process.
const BUSY: Duration = Duration::from_millis(200);

/// What SQLite may leave beside an index, and beside one that was not published.
const BESIDE: [&str; 7] =
    ["-wal", "-shm", "-journal", ".new", ".new-wal", ".new-shm", ".new-journal"];

const TABLES: &str = "
    CREATE TABLE session (
        key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, row TEXT NOT NULL, digest BLOB NOT NULL
    ) STRICT;
    CREATE TABLE indexed (key INTEGER PRIMARY KEY, mark TEXT NOT NULL) STRICT;
    CREATE TABLE seal (key INTEGER PRIMARY KEY, digest BLOB NOT NULL) STRICT;
    CREATE VIRTUAL TABLE text USING
        fts5(words, content = '', contentless_delete = 1, tokenize = 'ascii');
";

/// Why the index gives no answer.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It is ours and not sound, or of an older version: it is made anew.
    Unsound(String),
    /// It is not ours, or cannot be used now: it is left alone.
    Unusable(String),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(
                ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::ReadOnly
                | ErrorCode::DiskFull
                | ErrorCode::CannotOpen
                | ErrorCode::SystemIoFailure
                | ErrorCode::PermissionDenied
                | ErrorCode::OutOfMemory
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::NoLargeFileSupport,
            ) => Self::Unusable(error.to_string()),
            _ => Self::Unsound(error.to_string()),
        }
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Unusable(error.to_string())
    }
}

/// Where the index of a store is or would be.
#[derive(Clone, Debug)]
pub(crate) struct IndexFile {
    path: PathBuf,
}

impl IndexFile {
    pub(crate) fn new(state: &Path) -> Self {
        Self { path: state.join("index.sqlite") }
    }

    /// The index with its rows, made if there is none or an unsound one. `None`, with a warning,
    /// when there is none to be had.
    pub(crate) fn open(&self) -> Option<(Index, HashMap<SessionId, Row>)> {
        let opened = match self.connect() {
            Err(Trouble::Unsound(reason)) => {
                let index = self.path.display();
                tracing::warn!(%index, %reason, "the session index is made anew");
                self.remake().and_then(|()| self.connect())
            }
            opened => opened,
        };
        opened.map_err(|trouble| self.warn(&trouble)).ok()
    }

    /// Says that an answer comes from the logs; an unsound index is made anew for the next one.
    pub(crate) fn distrust(&self, trouble: &Trouble) {
        self.warn(trouble);
        if matches!(trouble, Trouble::Unsound(_))
            && let Err(trouble) = self.remake()
        {
            self.warn(&trouble);
        }
    }

    fn warn(&self, trouble: &Trouble) {
        let (Trouble::Unsound(reason) | Trouble::Unusable(reason)) = trouble;
        tracing::warn!(index = %self.path.display(), %reason, "the session index is not used");
    }

    fn connect(&self) -> Result<(Index, HashMap<SessionId, Row>), Trouble> {
        let file = match self.look()? {
            Some(file) => file,
            None => {
                self.make()?;
                self.look()?.ok_or_else(|| Trouble::Unusable("it is gone again".to_owned()))?
            }
        };
        self.check_owner()?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(BUSY)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.execute_batch("PRAGMA synchronous = NORMAL; PRAGMA cell_size_check = ON")?;
        let index = Index { connection };
        index.check_version()?;
        let rows = index.rows()?;
        // Whoever deletes or replaces the file while it is opened leaves us with half of each.
        if self.look()? != Some(file) {
            return Err(Trouble::Unusable("it was replaced".to_owned()));
        }
        Ok((index, rows))
    }

    /// Which file is there. It is not opened: closing it would release the locks that SQLite holds
    /// on it elsewhere in this process.
    fn look(&self) -> Result<Option<FileId>, Trouble> {
        let found = match fs_err::symlink_metadata(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match (found.is_file(), found.len()) {
            (false, _) => Err(Trouble::Unusable("it is not a regular file".to_owned())),
            (true, 0) => Err(unsound("it is empty")),
            (true, _) => Ok(Some(FileId { device: found.dev(), inode: found.ino() })),
        }
    }

    /// Refuses what another program has put there, without a lock on it, a recovery of it or a
    /// file beside it.
    fn check_owner(&self) -> Result<(), Trouble> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let owner = Connection::open_with_flags(self.immutable_uri(), flags).and_then(|there| {
            there.query_row("PRAGMA application_id", [], |row| row.get::<_, i32>(0))
        });
        match owner {
            Ok(APPLICATION) => Ok(()),
            _ => Err(Trouble::Unusable("it belongs to another program".to_owned())),
        }
    }

    fn immutable_uri(&self) -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte);
        let path = self.path.as_os_str().as_bytes().iter().map(|byte| match *byte {
            byte if plain(byte) => char::from(byte).to_string(),
            byte => format!("%{byte:02x}"),
        });
        format!("file:{}?immutable=1", path.collect::<String>())
    }

    /// Publishes an empty index where none is.
    fn make(&self) -> Result<(), Trouble> {
        let _lock = self.lock()?;
        match self.look()? {
            None => self.publish(),
            Some(_) => Ok(()),
        }
    }

    /// Removes an unsound index and publishes an empty one. A process that has the old one open
    /// goes on with the old file, whose name is gone.
    fn remake(&self) -> Result<(), Trouble> {
        let _lock = self.lock()?;
        self.clear()?;
        self.publish()
    }

    /// Removes the index, because SQLite keeps deleted words in it for long; the next list makes
    /// another. One that cannot be removed now is told of, and loses the words with that list.
    pub(crate) fn forget(&self) {
        let forgotten = self.lock().and_then(|_lock| self.clear());
        if let Err(trouble) = forgotten {
            self.warn(&trouble);
        }
    }

    /// Removes an index that is ours.
    fn clear(&self) -> Result<(), Trouble> {
        match self.look() {
            Ok(None) => (),
            Ok(Some(_)) | Err(Trouble::Unsound(_)) => remove(&self.path)?,
            Err(unusable) => return Err(unusable),
        }
        BESIDE.iter().try_for_each(|suffix| remove(&self.beside(suffix)))
    }

    /// One process at a time makes an index; the others read the logs meanwhile.
    fn lock(&self) -> Result<Lock, Trouble> {
        Lock::acquire(&self.path.with_file_name("index.lock")).map_err(|error| match error {
            LockError::Held(_) => Trouble::Unusable("another process is making it".to_owned()),
            LockError::Io(error) => error.into(),
        })
    }

    /// The name appears with a whole index or not at all, and never takes another file's place.
    fn publish(&self) -> Result<(), Trouble> {
        BESIDE.iter().try_for_each(|suffix| remove(&self.beside(suffix)))?;
        let draft = self.beside(".new");
        drop(open_private(&draft, OpenOptions::new().write(true).create_new(true))?);
        let made = self.fill(&draft);
        made.and_then(|()| {
            let moved = renameat_with(CWD, &draft, CWD, &self.path, RenameFlags::NOREPLACE);
            Ok(moved.map_err(io::Error::from)?)
        })
        .inspect_err(|_| drop(fs_err::remove_file(&draft)))
    }

    fn fill(&self, draft: &Path) -> Result<(), Trouble> {
        let mut connection = Connection::open_with_flags(draft, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let change = connection.transaction()?;
        change.pragma_update(None, "application_id", APPLICATION)?;
        change.pragma_update(None, "user_version", VERSION)?;
        change.execute_batch(TABLES)?;
        text::seal(&change)?;
        change.commit()?;
        let mode: String =
            connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if mode != "wal" {
            return Err(Trouble::Unusable("the disk cannot share it between processes".to_owned()));
        }
        connection.close().map_err(|(_, error)| error.into())
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

fn remove(path: &Path) -> Result<(), Trouble> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// An open index.
#[derive(Debug)]
pub(crate) struct Index {
    connection: Connection,
}

impl Index {
    fn check_version(&self) -> Result<(), Trouble> {
        match self.connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i32>(0))? {
            VERSION => Ok(()),
            newer if newer > VERSION => {
                Err(Trouble::Unusable("a newer version of this program keeps it".to_owned()))
            }
            _ => Err(Trouble::Unsound("it is of an older version".to_owned())),
        }
    }

    fn rows(&self) -> Result<HashMap<SessionId, Row>, Trouble> {
        let mut select = self.connection.prepare("SELECT key, id, row, digest FROM session")?;
        let mut found = select.query([])?;
        let mut rows = HashMap::new();
        while let Some(columns) = found.next()? {
            let (key, id) = (columns.get(0)?, columns.get_ref(1)?.as_str().map_err(unsound)?);
            let row = columns.get_ref(2)?.as_str().map_err(unsound)?;
            if columns.get_ref(3)?.as_blob() != Ok(&digest(key, id, row)) {
                return Err(unsound("a row is not what was written"));
            }
            let row: Row = serde_json::from_str(row).map_err(unsound)?;
            rows.insert(row.header.id.clone(), row);
        }
        Ok(rows)
    }

    /// Takes in what changed, all or nothing.
    pub(crate) fn keep(&mut self, changed: &[Row], gone: &[SessionId]) -> Result<(), Trouble> {
        if changed.is_empty() && gone.is_empty() {
            return Ok(());
        }
        let change = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        put(&change, changed)?;
        text::forget(&change, gone)?;
        change.commit()?;
        Ok(())
    }
}

fn put(change: &Transaction<'_>, rows: &[Row]) -> Result<(), Trouble> {
    let mut insert = change.prepare(
        "INSERT INTO session (id, row, digest) VALUES (?1, '', x'')
         ON CONFLICT (id) DO UPDATE SET row = '' RETURNING key",
    )?;
    let mut update = change.prepare("UPDATE session SET row = ?2, digest = ?3 WHERE key = ?1")?;
    for row in rows {
        let id = row.header.id.as_str();
        let key = insert.query_row([id], |columns| columns.get(0))?;
        let row = serde_json::to_string(row).map_err(unsound)?;
        update.execute(params![key, row, digest(key, id, &row)])?;
    }
    Ok(())
}

/// Over everything that a row of the table says.
fn digest(key: i64, id: &str, row: &str) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(key.to_le_bytes());
    hasher.update(id);
    hasher.update(row);
    hasher.finalize().into()
}

fn unsound(reason: impl ToString) -> Trouble {
    Trouble::Unsound(reason.to_string())
}
