//! The session store on a disk: `<state>/sessions/<id>/events.v1.jsonl.zst`.
//!
//! Reading takes no lock and changes nothing. Opening for writing takes the lock first, then
//! reads, and cuts a torn end only after the rest has been folded, so a log that cannot be read
//! is never changed.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bridle_session::{Header, Session, SessionId, Summary};

use crate::codec::Compression;
use crate::disk::{Disk, Open, RealDisk};
use crate::file_sink::FileSink;
use crate::index::IndexFile;
use crate::log::{DecodedEnds, DecodedLog, LogText, encode_header, missing_ends};
use crate::log_folder::LogFolder;
use crate::migrate::migrate;
use crate::open_logs::OpenLogs;
use crate::plant::Plant;
use crate::root::Root;
use crate::search::Asked;
use crate::seed::seed;
use crate::sink::LogFile;
use crate::version::{Generation, Versions};
use crate::{
    Ends, GcPolicy, GcReport, Listing, LogWriter, Opened, ReadLog, Recovery, SearchQuery,
    SearchResults, SessionRow, SessionStore, StoreError, VerifyReport,
};

/// Keeps each session in a folder of its own. Clones share it.
#[derive(Clone, Debug)]
pub struct FileStore {
    pub(crate) root: Arc<Root>,
    pub(crate) versions: Versions,
    compression: Compression,
    /// SQLite needs a real disk.
    pub(crate) index: Option<IndexFile>,
    pub(crate) open: OpenLogs,
}

impl FileStore {
    /// A store in `state` (the folder that holds `sessions/`); creates it with mode 0700 when the
    /// first session is flushed.
    pub fn new(state: impl Into<PathBuf>) -> Self {
        let state = state.into();
        let index = Some(IndexFile::new(&state));
        Self { index, ..Self::on(Arc::new(RealDisk), state) }
    }

    pub(crate) fn on(disk: Arc<dyn Disk>, state: impl Into<PathBuf>) -> Self {
        let root = Arc::new(Root::new(disk, state.into()));
        let (versions, compression) = (Versions::released(), Compression::default());
        Self { root, versions, compression, index: None, open: OpenLogs::default() }
    }

    /// The same store, which gives new logs this form. A log that is there keeps its own.
    #[must_use]
    pub fn with_compression(self, compression: Compression) -> Self {
        Self { compression, ..self }
    }

    #[cfg(test)]
    pub(crate) fn with_versions(self, versions: Versions) -> Self {
        Self { versions, ..self }
    }

    /// Where the log of a session is, readable or not, or would be if it were created now.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] for an id that Bridle does not give out;
    /// [`StoreError::Unreadable`] when the session's folder is none; [`StoreError::Io`].
    pub fn log_path(&self, id: &SessionId) -> Result<PathBuf, StoreError> {
        let folder = self.folder(id)?;
        let newest = folder.generations()?.first().copied();
        Ok(folder.file(newest.unwrap_or(self.newborn())))
    }

    /// The ids of all sessions in the order of their creation, also of those that cannot be read
    /// and of those that no list shows.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the folder cannot be listed; a missing one is empty.
    pub fn ids(&self) -> Result<Vec<SessionId>, StoreError> {
        let names = match self.root.disk.names(&self.root.sessions()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            names => names?,
        };
        let ids = names.iter().filter_map(|name| SessionId::parse(name.to_str()?));
        let mut ids: Vec<_> = ids.collect();
        ids.sort();
        Ok(ids)
    }

    /// The lines of a log exactly as they are stored, the header's first: every whole unit,
    /// whether or not its events can be read.
    ///
    /// # Errors
    /// As for [`SessionStore::read`]; `Unreadable` only when nothing of it is whole.
    pub fn lines(&self, id: &SessionId) -> Result<Vec<u8>, StoreError> {
        let (lines, _) = self.look(id, |log| log.stored_lines())?;
        Ok(lines)
    }

    pub(crate) fn folder(&self, id: &SessionId) -> Result<LogFolder, StoreError> {
        LogFolder::new(&self.root, id, &self.versions)
    }

    /// What a new log is.
    fn newborn(&self) -> Generation {
        Generation { version: self.versions.current, compression: self.compression }
    }

    /// The writer of a log that holds this session.
    fn writer(&self, sink: FileSink, session: &Session) -> Result<LogWriter, StoreError> {
        let SessionRow { header, summary } = SessionRow::of(session);
        self.open.start(Box::new(sink), header, summary, true)
    }

    /// Finds and reads a log, and looks at it.
    pub(crate) fn look<T>(
        &self,
        id: &SessionId,
        look: impl FnOnce(&LogText<'_>) -> Result<T, StoreError>,
    ) -> Result<(T, u64), StoreError> {
        let folder = self.folder(id)?;
        let generation = folder.find()?;
        self.look_at(&folder, generation, look)
    }

    /// Reads one file of a log, and looks at it.
    pub(crate) fn look_at<T>(
        &self,
        folder: &LogFolder,
        generation: Generation,
        look: impl FnOnce(&LogText<'_>) -> Result<T, StoreError>,
    ) -> Result<(T, u64), StoreError> {
        let bytes = folder.read(generation)?;
        let seen = look(&LogText::new(&folder.id, &bytes, generation, &self.versions)?)?;
        Ok((seen, bytes.len() as u64))
    }

    /// Every complete unit of a log, and how many bytes behind them are torn.
    pub(crate) fn decode(&self, id: &SessionId) -> Result<(DecodedLog, u64), StoreError> {
        let (log, len) = self.look(id, |log| log.decode())?;
        let torn = len.saturating_sub(log.valid_len as u64);
        Ok((log, torn))
    }
}

impl SessionStore for FileStore {
    fn prepare(&self) {
        let sessions = self.root.sessions();
        if self.root.disk.is_folder(&sessions)
            && let Err(error) = self.root.keep(&sessions)
        {
            tracing::debug!(%error, "the sessions folder is not durable yet");
        }
    }

    fn create(&self, header: &Header) -> Result<LogWriter, StoreError> {
        let folder = self.folder(&header.id)?;
        let sink = FileSink::unborn(folder, self.newborn(), encode_header(header)?);
        self.open.start(Box::new(sink), header.clone().into(), Summary::default(), false)
    }

    fn seed(&self, session: &Session) -> Result<LogWriter, StoreError> {
        let folder = self.folder(&session.header().id)?;
        let lock = folder.claim()?;
        let log = seed(&folder, self.newborn(), session)?;
        let sink = FileSink::open(folder, self.newborn(), log, lock);
        self.writer(sink, session)
    }

    fn open(&self, id: &SessionId) -> Result<Opened, StoreError> {
        let folder = self.folder(id)?;
        folder.find()?;
        let lock = folder.lock()?;
        let (generation, migrated) = migrate(&folder, folder.find()?, &self.versions)?;
        let bytes = folder.read(generation)?;
        let mut log = LogText::new(id, &bytes, generation, &self.versions)?.decode()?;
        if Plant::TrustedTail.is_in() {
            log.valid_len = bytes.len();
        }
        let (valid_len, damage) = (log.valid_len, std::mem::take(&mut log.damage));
        for damage in &damage {
            tracing::warn!(session = %id, "the log is {damage}");
        }
        let session = log.fold()?;
        let mut file = folder.disk().open(&folder.file(generation), Open::Existing)?;
        folder.make_durable(&mut *file)?;
        let torn = bytes.get(valid_len..).unwrap_or_default();
        let cut = folder.cut_torn(&mut *file, valid_len as u64, torn)?;
        let recovery = migrated.unwrap_or(Recovery { damage, ..cut });
        let log = LogFile::new(file, valid_len as u64);
        let sink = FileSink::open(folder, generation, log, lock);
        let writer = self.writer(sink, &session)?;
        Ok(Opened { writer, session, recovery })
    }

    fn read(&self, id: &SessionId) -> Result<ReadLog, StoreError> {
        let (mut log, torn_bytes) = self.decode(id)?;
        let damage = std::mem::take(&mut log.damage);
        let recovery = Recovery { damage, torn_bytes, kept_at: None };
        Ok(ReadLog { session: log.fold()?, recovery })
    }

    fn ends(&self, id: &SessionId, head: usize, tail: usize) -> Result<Ends, StoreError> {
        let (ends, _) = self.look(id, |log| log.decode_ends(head, tail))?;
        let DecodedEnds { header, head, tail, .. } = ends;
        Ok(Ends { header, events: head.into_iter().chain(tail).collect() })
    }

    fn verify(&self, id: &SessionId) -> Result<VerifyReport, StoreError> {
        let (mut log, torn_bytes) = self.decode(id)?;
        Ok(VerifyReport {
            events: log.events,
            frames: log.units,
            bytes: log.valid_len as u64,
            damage: std::mem::take(&mut log.damage),
            torn_bytes,
            fold: missing_ends(log.fold()),
        })
    }

    fn list(&self) -> Result<Listing, StoreError> {
        let open = self.open.rows();
        Ok(self.survey(open)?.into_listing())
    }

    fn search(&self, query: &SearchQuery) -> Result<SearchResults, StoreError> {
        Asked::new(query).map_or_else(|| Ok(SearchResults::default()), |asked| self.hits(&asked))
    }

    fn remove(&self, id: &SessionId) -> Result<(), StoreError> {
        let folder = self.folder(id)?;
        if folder.generations()?.is_empty() {
            return Err(StoreError::NotFound(id.clone()));
        }
        folder.remove(folder.lock()?)?;
        if let Some(index) = &self.index {
            index.forget();
        }
        Ok(())
    }

    fn collect(&self, policy: &GcPolicy) -> Result<GcReport, StoreError> {
        self.collect_files(policy)
    }
}
