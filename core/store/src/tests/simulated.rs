//! A disk in memory that forgets. What was written and not synced may be on it after a crash or
//! not, each sector of 512 bytes and each name for itself; a failed sync of a file loses it for
//! good, while reads go on showing it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use fastrand::Rng;
use rustix::io::Errno;

use crate::disk::{Disk, DiskFile, Guard, Kind, Open};
use crate::lock::LockError;

const SECTOR: usize = 512;

/// What is left of unsynced changes after a crash.
#[derive(Debug)]
pub(crate) enum Left {
    Nothing,
    Everything,
    Some(Rng),
}

impl Left {
    fn keeps(&mut self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Some(rng) => rng.bool(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Node {
    Folder,
    File(usize),
}

#[derive(Clone, Debug)]
enum NameChange {
    Make(PathBuf, Node),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Cut(usize),
}

#[derive(Clone, Debug, Default)]
struct Content {
    seen: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<PathBuf, Node>,
    durable_names: BTreeMap<PathBuf, Node>,
    unsynced_names: Vec<NameChange>,
    files: Vec<Content>,
    /// What was done, one entry for each operation that changes something.
    done: Vec<&'static str>,
    crash_at: Option<usize>,
    fail_at: Option<(usize, Errno)>,
    /// From the nth operation on, as soon as the name is free and its folder is there, this file
    /// of somebody else has it.
    intruder: Option<(usize, PathBuf, Vec<u8>)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SimulatedDisk(Arc<Mutex<State>>);

fn crashed() -> io::Error {
    io::Error::other("the power is off")
}

impl State {
    /// Counts one operation that changes something; `Ok(Err)` when it is to fail.
    fn step(&mut self, what: &'static str) -> io::Result<io::Result<()>> {
        if self.is_off() {
            return Err(crashed());
        }
        self.done.push(what);
        self.intrude();
        Ok(match self.fail_at {
            Some((at, errno)) if at == self.done.len() => Err(errno.into()),
            _ => Ok(()),
        })
    }

    fn intrude(&mut self) {
        if let Some((_, path, bytes)) = self.intruder.take_if(|(at, path, _)| {
            let free = !self.names.contains_key(path);
            free && *at <= self.done.len() && self.names.contains_key(path.parent().unwrap())
        }) {
            let content = Content { seen: bytes.clone(), durable: bytes, unsynced: Vec::new() };
            self.files.push(content);
            let node = Node::File(self.files.len() - 1);
            self.names.insert(path.clone(), node);
            self.durable_names.insert(path, node);
        }
    }

    /// The crash comes behind the operation's effect and before its answer.
    fn is_off(&self) -> bool {
        self.crash_at.is_some_and(|at| self.done.len() >= at)
    }

    fn answer(&self) -> io::Result<()> {
        if self.is_off() { Err(crashed()) } else { Ok(()) }
    }

    fn change_name(&mut self, change: NameChange) -> io::Result<()> {
        apply(&mut self.names, &change);
        self.unsynced_names.push(change);
        self.answer()
    }
}

fn apply(names: &mut BTreeMap<PathBuf, Node>, change: &NameChange) {
    match change {
        NameChange::Make(path, node) => {
            let parent = path.parent().unwrap();
            if parent.parent().is_none() || names.contains_key(parent) {
                names.insert(path.clone(), *node);
            }
        }
        NameChange::Rename(from, to) => {
            for path in
                names.keys().filter(|path| path.starts_with(from)).cloned().collect::<Vec<_>>()
            {
                let node = names.remove(&path).unwrap();
                let inside = path.strip_prefix(from).unwrap();
                let path = if inside == Path::new("") { to.clone() } else { to.join(inside) };
                names.insert(path, node);
            }
        }
        NameChange::Remove(path) => names.retain(|name, _| !name.starts_with(path)),
    }
}

impl Content {
    fn after_crash(&self, left: &mut Left) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for change in &self.unsynced {
            match change {
                Change::Cut(len) if left.keeps() => bytes.truncate(*len),
                Change::Cut(_) => (),
                Change::Write(at, written) => {
                    let mut start = 0;
                    while start < written.len() {
                        let end = written.len().min(start + SECTOR - (at + start) % SECTOR);
                        if left.keeps() {
                            bytes.resize(bytes.len().max(at + end), 0);
                            bytes[at + start..at + end].copy_from_slice(&written[start..end]);
                        }
                        start = end;
                    }
                    // The length can get there before the bytes.
                    if left.keeps() {
                        bytes.resize(bytes.len().max(at + written.len()), 0);
                    }
                }
            }
        }
        bytes
    }
}

impl SimulatedDisk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Everything from the answer of the nth operation on fails.
    pub(crate) fn crash_at(self, step: usize) -> Self {
        self.state().crash_at = Some(step);
        self
    }

    /// The nth operation fails, a write halfway.
    pub(crate) fn fail_at(self, step: usize, errno: Errno) -> Self {
        self.state().fail_at = Some((step, errno));
        self
    }

    /// From the nth operation on somebody else's file has this name, if it is free then.
    pub(crate) fn intruder_at(self, step: usize, path: &Path, bytes: &[u8]) -> Self {
        self.state().intruder = Some((step, path.to_owned(), bytes.to_vec()));
        self
    }

    pub(crate) fn intruder_waits(&self) -> bool {
        self.state().intruder.is_some()
    }

    /// The power goes now.
    pub(crate) fn cut_power(&self) {
        let mut state = self.state();
        state.crash_at = Some(state.done.len());
    }

    /// How many operations there were.
    pub(crate) fn steps(&self) -> usize {
        self.state().done.len()
    }

    /// What was done since the nth operation.
    pub(crate) fn done_since(&self, step: usize) -> Vec<&'static str> {
        self.state().done[step..].to_vec()
    }

    /// The same disk, on which what happens next leaves this one alone.
    pub(crate) fn copy(&self) -> Self {
        let state = self.state();
        Self(Arc::new(Mutex::new(State {
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            unsynced_names: state.unsynced_names.clone(),
            files: state.files.clone(),
            ..State::default()
        })))
    }

    /// The disk as the next process finds it after a crash now.
    pub(crate) fn after_crash(&self, mut left: Left) -> Self {
        let state = self.state();
        let mut names = state.durable_names.clone();
        for change in &state.unsynced_names {
            if left.keeps() {
                apply(&mut names, change);
            }
        }
        let content = |file: &Content| {
            let bytes = file.after_crash(&mut left);
            Content { seen: bytes.clone(), durable: bytes, unsynced: Vec::new() }
        };
        let files = state.files.iter().map(content).collect();
        let durable_names = names.clone();
        Self(Arc::new(Mutex::new(State { names, durable_names, files, ..State::default() })))
    }

    /// The same disk for the next process of a machine that stayed up: what was not synced is
    /// still to be read, and still not durable.
    pub(crate) fn powered(self) -> Self {
        self.state().crash_at = None;
        self
    }

    /// Puts bytes behind a file, durable.
    pub(crate) fn tear(&self, path: &Path, torn: &[u8]) {
        let mut state = self.state();
        let Some(Node::File(file)) = state.names.get(path).copied() else { panic!("no file") };
        let content = &mut state.files[file];
        content.seen.extend_from_slice(torn);
        content.durable = content.seen.clone();
    }

    /// Every file that reads show, by its name.
    pub(crate) fn files(&self) -> Vec<(String, Vec<u8>)> {
        let name = |path: PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        self.files_at().into_iter().map(|(path, bytes)| (name(path), bytes)).collect()
    }

    /// Every file that reads show, by its path.
    pub(crate) fn files_at(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let state = self.state();
        let file = |(path, node): (&PathBuf, &Node)| match node {
            Node::File(file) => Some((path.clone(), state.files[*file].seen.clone())),
            Node::Folder => None,
        };
        state.names.iter().filter_map(file).collect()
    }
}

impl Disk for SimulatedDisk {
    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let state = self.state();
        state.answer()?;
        if !matches!(state.names.get(folder), Some(Node::Folder)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = state.names.keys().filter(|path| path.parent() == Some(folder));
        Ok(inside.map(|path| path.file_name().unwrap().to_owned()).collect())
    }

    fn kind(&self, path: &Path) -> io::Result<Kind> {
        let state = self.state();
        state.answer()?;
        match state.names.get(path) {
            Some(Node::Folder) => Ok(Kind::Folder),
            Some(Node::File(_)) => Ok(Kind::File),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn is_folder(&self, path: &Path) -> bool {
        path.parent().is_none() || matches!(self.state().names.get(path), Some(Node::Folder))
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step("make folder")??;
        state.change_name(NameChange::Make(path.to_owned(), Node::Folder))
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step("remove folder")??;
        let inside = state.names.keys().any(|name| name.parent() == Some(path));
        if inside {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        state.change_name(NameChange::Remove(path.to_owned()))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step("remove file")??;
        match state.names.get(path) {
            Some(Node::File(_)) => state.change_name(NameChange::Remove(path.to_owned())),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Times stand still.
    fn size(&self, _path: &Path) -> io::Result<u64> {
        Ok(0)
    }

    fn modified(&self, _path: &Path) -> io::Result<SystemTime> {
        Ok(SystemTime::UNIX_EPOCH)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        // When it fails: names are in the file system's journal, which does not drop them.
        state.step("sync folder")??;
        state.answer()?;
        let inside = |change: &NameChange| {
            let (NameChange::Make(name, _)
            | NameChange::Rename(name, _)
            | NameChange::Remove(name)) = change;
            name.parent() == Some(path)
        };
        let (synced, others) = std::mem::take(&mut state.unsynced_names)
            .into_iter()
            .partition::<Vec<_>, _>(|change| inside(change));
        state.unsynced_names = others;
        synced.iter().for_each(|change| apply(&mut state.durable_names, change));
        Ok(())
    }

    fn read(&self, path: &Path, _limit: u64) -> io::Result<Vec<u8>> {
        let state = self.state();
        state.answer()?;
        match state.names.get(path) {
            Some(Node::File(file)) => Ok(state.files[*file].seen.clone()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn read_range(&self, path: &Path, start: u64, len: usize) -> io::Result<Vec<u8>> {
        let start = usize::try_from(start).unwrap();
        let bytes = self.read(path, u64::MAX)?;
        bytes.get(start..start + len).map(<[u8]>::to_vec).ok_or(io::ErrorKind::UnexpectedEof.into())
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        let there = match state.names.get(path) {
            Some(Node::File(file)) => Some(*file),
            _ => None,
        };
        let file = match (there, how) {
            (Some(_), Open::New) => return Err(io::ErrorKind::AlreadyExists.into()),
            (None, Open::Existing) => return Err(io::ErrorKind::NotFound.into()),
            (Some(file), _) => file,
            (None, _) => {
                state.step("make file")??;
                state.files.push(Content::default());
                let file = state.files.len() - 1;
                state.change_name(NameChange::Make(path.to_owned(), Node::File(file)))?;
                file
            }
        };
        drop(state);
        let mut file = SimulatedFile { disk: self.clone(), file };
        if how == Open::Empty {
            file.set_len(0)?;
        }
        Ok(Box::new(file))
    }

    fn scratch(&self, _: &Path) -> io::Result<std::fs::File> {
        tempfile::tempfile()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step("rename")??;
        state.change_name(NameChange::Rename(from.to_owned(), to.to_owned()))
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.step("publish")??;
        if state.names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.change_name(NameChange::Rename(from.to_owned(), to.to_owned()))
    }

    fn lock(&self, _path: &Path) -> Result<Box<dyn Guard>, LockError> {
        Ok(Box::new(NoLock))
    }
}

/// The kernel's lock needs the kernel; other tests hold it.
#[derive(Debug)]
struct NoLock;

impl Guard for NoLock {}

struct SimulatedFile {
    disk: SimulatedDisk,
    file: usize,
}

impl DiskFile for SimulatedFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        let outcome = state.step("write")?;
        let bytes = if outcome.is_err() { &bytes[..bytes.len() / 2] } else { bytes };
        let content = &mut state.files[self.file];
        let at = content.seen.len();
        content.seen.extend_from_slice(bytes);
        content.unsynced.push(Change::Write(at, bytes.to_vec()));
        outcome.and_then(|()| state.answer())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.step("cut")??;
        let len = usize::try_from(len).unwrap();
        let content = &mut state.files[self.file];
        content.seen.truncate(len);
        content.unsynced.push(Change::Cut(len));
        state.answer()
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.state();
        let outcome = state.step("sync file")?;
        state.answer()?;
        let content = &mut state.files[self.file];
        let unsynced = std::mem::take(&mut content.unsynced);
        // When it fails, the kernel calls the pages clean; they are never written.
        outcome?;
        content.unsynced = unsynced;
        content.durable = content.after_crash(&mut Left::Everything);
        content.unsynced.clear();
        Ok(())
    }
}
