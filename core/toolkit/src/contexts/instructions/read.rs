//! One file of instructions: read with a limit, once for each version of it, and never if reading it
//! could wait for somebody or start something.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bridle_world::files::{ContentHash, FileError, Text};
use bridle_world::{Placement, path_text};

use super::super::signature::Signature;
use crate::file_tool::FileWorld;
use crate::read_rules::ReadRules;
use crate::target::why_outside;

/// Larger files (bytes) are not read at all.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// What is kept of a text (bytes); no more is ever told.
const MAX_KEPT: usize = 1024 * 1024;

/// The text of a file, or why there is none.
pub(super) type Read = Result<Arc<Instruction>, String>;

/// The text of a file.
pub(super) struct Instruction {
    /// Its beginning.
    pub(super) body: String,
    /// The length of all of it.
    pub(super) bytes: usize,
    /// The hash of all of it.
    pub(super) hash: ContentHash,
    /// Whether marks stand for bytes that are not UTF-8.
    pub(super) is_lossy: bool,
}

/// Reads files, and remembers what it has read.
#[derive(Default)]
pub(super) struct Reader(HashMap<PathBuf, (PathBuf, Signature, Read)>);

impl Reader {
    /// A file of a workspace, which must lie in the roots; `None` when nothing is there.
    pub(super) fn of_project(
        &mut self,
        world: &FileWorld,
        rules: &ReadRules,
        path: &Path,
    ) -> Option<Read> {
        fs_err::symlink_metadata(path).ok()?;
        let real = match world.roots.resolve(&path_text(path)) {
            Ok(Placement::Inside(real)) => real,
            Ok(Placement::Outside(real)) => {
                return Some(Err(why_outside(&world.roots, &real).to_owned()));
            }
            Err(error) => return Some(Err(error.to_string())),
        };
        Some(self.permitted(world, rules, path, real))
    }

    /// A file of the user's own folder, which may be a link to wherever the user keeps it.
    pub(super) fn of_user(
        &mut self,
        world: &FileWorld,
        rules: &ReadRules,
        path: &Path,
    ) -> Option<Read> {
        fs_err::symlink_metadata(path).ok()?;
        match fs_err::canonicalize(path) {
            Ok(real) => Some(self.permitted(world, rules, path, real)),
            Err(error) => Some(Err(error.to_string())),
        }
    }

    /// Forgets every other file.
    pub(super) fn keep_only(&mut self, paths: &BTreeSet<PathBuf>) {
        self.0.retain(|path, _| paths.contains(path));
    }

    fn permitted(
        &mut self,
        world: &FileWorld,
        rules: &ReadRules,
        path: &Path,
        real: PathBuf,
    ) -> Read {
        match rules.refusal(path, &real) {
            Some(why) => Err(why),
            None => self.read(world, path, real),
        }
    }

    fn read(&mut self, world: &FileWorld, path: &Path, real: PathBuf) -> Read {
        let signature = Signature::of(&real).unwrap_or(Signature::NONE);
        if let Some((_, _, known)) =
            self.0.get(path).filter(|(at, then, _)| *at == real && *then == signature)
        {
            return known.clone();
        }
        let read = text(world, &real);
        self.0.insert(path.to_owned(), (real, signature, read.clone()));
        read
    }
}

fn text(world: &FileWorld, real: &Path) -> Read {
    let bytes = world.files.read(real, MAX_BYTES).map_err(|error| match error {
        FileError::Folder(_) => "it is a folder".to_owned(),
        FileError::Special { kind, .. } => format!("it is {kind}, not a regular file"),
        FileError::TooLarge { len, limit, .. } => {
            format!("it has {len} bytes; {limit} are the most that are read")
        }
        error => error.to_string(),
    })?;
    let (text, is_lossy) = Text::readable(&bytes).map_err(|why| why.to_string())?;
    let end = text.floor_char_boundary(MAX_KEPT);
    let body = text.get(..end).unwrap_or_default().to_owned();
    let hash = ContentHash::of(&bytes);
    Ok(Arc::new(Instruction { body, bytes: text.len(), hash, is_lossy }))
}
