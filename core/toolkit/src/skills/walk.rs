//! Where the SKILL.md files are: the folders below a place, down to a depth and up to a number.
//!
//! A folder with a SKILL.md is a skill, and nothing below it is looked at. Links to folders are followed,
//! in the workspace only as far as they stay in it; no folder counts twice. Reads no file.

use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use bridle_world::{Placement, Roots, path_text};

use super::Rank;

/// The file that makes a folder a skill.
pub(super) const SKILL_FILE: &str = "SKILL.md";
/// How far below its place a skill may lie.
const MAX_DEPTH: usize = 4;
/// The most folders that are looked at, in all places together.
const MAX_FOLDERS: usize = 2_000;
/// The most entries of one folder that are looked at.
const MAX_ENTRIES: usize = 4_000;
/// The most skills, in all places together.
pub(super) const MAX_SKILLS: usize = 500;

/// A folder that may hold skills.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) rank: Rank,
    pub(super) folder: PathBuf,
}

/// A skill's folder.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) rank: Rank,
    /// Its SKILL.md, links resolved.
    pub(super) file: PathBuf,
    /// The folder's name, as the place has it.
    pub(super) folder_name: OsString,
}

/// One look at all places.
pub(super) struct Walk<'a> {
    roots: &'a Roots,
    seen: HashSet<(u64, u64)>,
    pub(super) found: Vec<Found>,
    pub(super) faults: Vec<String>,
    is_full: bool,
}

/// A folder on the way.
struct Stop {
    folder: PathBuf,
    name: OsString,
    depth: usize,
}

impl<'a> Walk<'a> {
    /// Looks below each place, the first first. Blocks on the file system.
    pub(super) fn through(places: &[Place], roots: &'a Roots) -> Self {
        let (found, faults) = (Vec::new(), Vec::new());
        let mut walk = Self { roots, seen: HashSet::new(), found, faults, is_full: false };
        for place in places {
            walk.place(place);
        }
        walk
    }

    fn place(&mut self, place: &Place) {
        if fs_err::symlink_metadata(&place.folder).is_err() {
            return;
        }
        let Some(folder) = self.real(place.rank, &place.folder) else { return };
        let mut stops = VecDeque::from([Stop { folder, name: OsString::new(), depth: 0 }]);
        while let Some(stop) = stops.pop_front() {
            let Ok(metadata) = fs_err::metadata(&stop.folder) else { continue };
            if !metadata.is_dir() || !self.seen.insert((metadata.dev(), metadata.ino())) {
                continue;
            }
            if self.seen.len() > MAX_FOLDERS || self.found.len() >= MAX_SKILLS {
                return self.full(&stop.folder);
            }
            if self.is_skill(place.rank, &stop) || stop.depth == MAX_DEPTH {
                continue;
            }
            stops.extend(self.below(place.rank, &stop));
        }
    }

    /// Takes the folder as a skill where it is one.
    fn is_skill(&mut self, rank: Rank, Stop { folder, name, depth }: &Stop) -> bool {
        let file = folder.join(SKILL_FILE);
        let Ok(metadata) = fs_err::symlink_metadata(&file) else { return false };
        if *depth == 0 {
            let why = "a skill lies in a folder of its own, below this one";
            self.faults.push(format!("{}: {why}; it is left out", path_text(&file)));
            return false;
        }
        let real = if metadata.is_symlink() { self.real(rank, &file) } else { Some(file) };
        let folder_name = name.clone();
        self.found.extend(real.map(|file| Found { rank, file, folder_name }));
        true
    }

    fn below(&mut self, rank: Rank, stop: &Stop) -> Vec<Stop> {
        let Ok(entries) = fs_err::read_dir(&stop.folder) else { return Vec::new() };
        let is_skipped =
            |name: &OsStr| name.as_encoded_bytes().starts_with(b".") || name == "node_modules";
        let entries = entries.take(MAX_ENTRIES).filter_map(Result::ok);
        let mut entries: Vec<_> = entries
            .filter_map(|entry| Some((entry.file_name(), entry.file_type().ok()?)))
            .filter(|(name, kind)| !is_skipped(name) && (kind.is_dir() || kind.is_symlink()))
            .collect();
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        let below = entries.into_iter().filter_map(|(name, kind)| {
            let path = stop.folder.join(&name);
            let folder = match kind.is_symlink() {
                true if !path.is_dir() => return None,
                true => self.real(rank, &path)?,
                false => path,
            };
            Some(Stop { folder, name, depth: stop.depth + 1 })
        });
        below.collect()
    }

    /// Where a path leads, unless it leads out of the workspace that it belongs to.
    fn real(&mut self, rank: Rank, path: &Path) -> Option<PathBuf> {
        let real = match fs_err::canonicalize(path) {
            Ok(real) => real,
            Err(error) => {
                self.faults.push(format!("{error}; it is left out"));
                return None;
            }
        };
        let is_out = || matches!(self.roots.place(real.clone()), Placement::Outside(_));
        if rank == Rank::Project && is_out() {
            let why = "is a link that leaves the workspace";
            self.faults.push(format!("{}: {why}; it is left out", path_text(path)));
            return None;
        }
        Some(real)
    }

    fn full(&mut self, at: &Path) {
        if !std::mem::replace(&mut self.is_full, true) {
            self.faults.push(format!(
                "No more than {MAX_SKILLS} skills are used, and no more than {MAX_FOLDERS} folders \
                 looked at; those from {} on are left out",
                path_text(at)
            ));
        }
    }
}
