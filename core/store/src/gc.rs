//! Collecting what nobody needs.
//!
//! A blob may be put before the event that names it is in its log, and a session may have been
//! created by a process that is about to use it; age is what keeps both safe.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use bridle_session::{BlobHash, Record, Session, SessionId};

use crate::disk::Disk;
use crate::log_folder::{GONE, LOCK, LogFolder, clear};
use crate::version::DRAFT;
use crate::{FileStore, StoreError};

/// What may be collected.
#[derive(Clone, Copy, Debug)]
pub struct GcPolicy {
    /// The time now.
    pub now: SystemTime,
    /// What has changed within this time stays.
    pub min_age: Duration,
    /// Whether nothing is removed and the report says what would be.
    pub dry_run: bool,
}

impl GcPolicy {
    /// A day: longer than any process waits between putting a blob and naming it.
    pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// Removes what is older than a day.
    pub fn at(now: SystemTime) -> Self {
        Self { now, min_age: Self::DAY, dry_run: false }
    }

    pub(crate) fn is_old(&self, changed: SystemTime) -> bool {
        self.now.duration_since(changed).is_ok_and(|age| age >= self.min_age)
    }

    /// Whether nobody has said anything in the session, and long ago.
    pub(crate) fn is_abandoned(&self, session: &Session) -> bool {
        let changed = Duration::from_millis(session.last_time().0);
        let changed = SystemTime::UNIX_EPOCH.checked_add(changed);
        !session.state().summary.has_human_message
            && changed.is_some_and(|changed| self.is_old(changed))
    }
}

/// What was collected, or would be.
#[derive(Debug, Default)]
pub struct GcReport {
    /// The empty sessions that were removed.
    pub sessions: Vec<SessionId>,
    /// The blobs that were removed.
    pub blobs: Vec<BlobHash>,
    /// How many unfinished files and folders of killed processes were removed.
    pub drafts: u64,
    /// How many bytes all of it had.
    pub bytes: u64,
    /// Logs that could not be read. While there are any, all blobs are kept, as they may name them.
    pub unreadable: Vec<(SessionId, StoreError)>,
}

impl GcReport {
    fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn draft(&mut self, bytes: u64) {
        self.add(bytes);
        self.drafts = self.drafts.saturating_add(1);
    }
}

/// How many bytes the files of a folder have.
fn folder_size(disk: &dyn Disk, folder: &Path) -> io::Result<u64> {
    let sizes = names(disk, folder)?.into_iter().map(|name| disk.size(&folder.join(name)));
    sizes.sum()
}

/// The blobs that the records of a log name.
pub(crate) fn named(records: &[Record]) -> impl Iterator<Item = BlobHash> + '_ {
    records.iter().flat_map(|record| match record {
        Record::Event(event) => event.blobs(),
        Record::Damage { .. } => BTreeSet::new(),
    })
}

/// How the name of a blob ends while its age is looked at for the last time: a writer that puts
/// the same content meanwhile does so under the free name.
const LEAVING: &str = "leaving";

impl FileStore {
    pub(crate) fn collect_files(&self, policy: &GcPolicy) -> Result<GcReport, StoreError> {
        let mut report = GcReport::default();
        let sessions = self.root.sessions();
        for name in names(&*self.root.disk, &sessions)? {
            if name.starts_with(GONE) {
                let gone = sessions.join(name);
                report.draft(folder_size(&*self.root.disk, &gone)?);
                if !policy.dry_run {
                    clear(&*self.root.disk, &gone)?;
                }
            }
        }
        let mut needed = BTreeSet::new();
        for id in self.ids()? {
            match self.collect_session(&id, policy, &mut needed, &mut report) {
                Ok(()) | Err(StoreError::Locked { .. }) => (),
                Err(StoreError::Io(error)) => return Err(error.into()),
                // Also one that has just been removed: the fork that shares its blobs may be new.
                Err(error) => report.unreadable.push((id, error)),
            }
        }
        if report.unreadable.is_empty() {
            self.collect_blobs(policy, &needed, &mut report)?;
        }
        Ok(report)
    }

    /// Takes down which blobs the session needs, and removes it if it is abandoned.
    fn collect_session(
        &self,
        id: &SessionId,
        policy: &GcPolicy,
        needed: &mut BTreeSet<BlobHash>,
        report: &mut GcReport,
    ) -> Result<(), StoreError> {
        let folder = self.folder(id)?;
        let (log, _) = match self.decode(id) {
            Err(StoreError::NotFound(_)) if folder.disk().is_folder(folder.path()) => {
                return self.collect_unborn(&folder, policy, report);
            }
            log => log?,
        };
        needed.extend(named(&log.records));
        if policy.is_abandoned(&log.fold()?) {
            let lock = folder.lock()?;
            // Someone may have come back to it before the lock was taken.
            if policy.is_abandoned(&self.decode(id)?.0.fold()?) {
                report.add(folder_size(folder.disk(), folder.path())?);
                report.sessions.push(id.clone());
                if !policy.dry_run {
                    folder.remove(lock)?;
                }
            }
        }
        Ok(())
    }

    /// Removes a folder whose log never came to be; nobody was told of it.
    fn collect_unborn(
        &self,
        folder: &LogFolder,
        policy: &GcPolicy,
        report: &mut GcReport,
    ) -> Result<(), StoreError> {
        let unfinished = |name: &String| name == LOCK || name.ends_with(DRAFT);
        let inside = names(folder.disk(), folder.path())?;
        let changed = folder.disk().modified(folder.path())?;
        if inside.iter().all(unfinished) && policy.is_old(changed) {
            let lock = folder.lock()?;
            report.draft(folder_size(folder.disk(), folder.path())?);
            if !policy.dry_run {
                folder.remove(lock)?;
            }
        }
        Ok(())
    }

    fn collect_blobs(
        &self,
        policy: &GcPolicy,
        needed: &BTreeSet<BlobHash>,
        report: &mut GcReport,
    ) -> Result<(), StoreError> {
        let (disk, blobs) = (&*self.root.disk, self.root.blobs());
        for folder in names(disk, &blobs)?.into_iter().map(|name| blobs.join(name)) {
            for name in names(disk, &folder)? {
                let path = folder.join(&name);
                let old = || Ok::<_, StoreError>(policy.is_old(disk.modified(&path)?));
                if name.ends_with(DRAFT) {
                    if old()? {
                        report.draft(disk.size(&path)?);
                        if !policy.dry_run {
                            disk.remove_file(&path)?;
                        }
                    }
                } else if let Some(hash) = name
                    .strip_suffix(LEAVING)
                    .and_then(|name| BlobHash::parse(name.strip_suffix('.')?))
                {
                    // Its collector was killed before it had decided.
                    if !policy.dry_run {
                        come_back(disk, &path, &self.blob_path(&hash))?;
                    }
                } else if let Some(hash) = BlobHash::parse(&name)
                    && !needed.contains(&hash)
                    && old()?
                {
                    let bytes = disk.size(&path)?;
                    if policy.dry_run || leaves(disk, &path, policy)? {
                        report.add(bytes);
                        report.blobs.push(hash);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Removes a blob unless it has been put again since its age was looked at.
fn leaves(disk: &dyn Disk, path: &Path, policy: &GcPolicy) -> io::Result<bool> {
    let leaving = path.with_extension(LEAVING);
    disk.rename(path, &leaving)?;
    let old = policy.is_old(disk.modified(&leaving)?);
    if old { disk.remove_file(&leaving) } else { come_back(disk, &leaving, path) }?;
    Ok(old)
}

fn come_back(disk: &dyn Disk, leaving: &Path, path: &Path) -> io::Result<()> {
    match disk.publish(leaving, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => disk.remove_file(leaving),
        published => published,
    }
}

/// The names in a folder that are text; none where there is no folder.
fn names(disk: &dyn Disk, folder: &Path) -> io::Result<Vec<String>> {
    let names = match disk.names(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        // Somebody else's file among ours.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Vec::new(),
        names => names?,
    };
    Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
}
