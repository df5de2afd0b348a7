//! What a path argument means: its real place, how it is shown, what access to it counts as.

use std::path::{Path, PathBuf};
use std::thread;

use bridle_agent::{Access, Display, Location, SessionChange, ToolFailure, ToolKind};
use bridle_store::BlobStore;
use bridle_world::files::{ContentHash, FileError, Files, Snapshot, Text, Unencodable, Version};
use bridle_world::{Placement, Roots, name_text, path_text};
use tokio_util::sync::CancellationToken;

use crate::diff::Change;
use crate::file_tool::{FileArguments, FileCall, FileWorld};

/// The most characters of a path or pattern in a title.
const TITLE_CHARS: usize = 120;
/// Entries of a folder that are compared with a name that does not exist.
const MAX_COMPARED: usize = 2_000;
/// How much larger (bytes) than it was a file may be for its change to be shown.
const MAX_GROWN_BYTES: u64 = 1024 * 1024;
/// Names that are offered in place of one that does not exist.
const MAX_OFFERED: usize = 3;

/// Hashing this many bytes takes as long as starting a thread many times.
const SLOWLY_HASHED_BYTES: usize = 1024 * 1024;

/// A resolved path argument.
#[derive(Clone)]
pub(crate) struct Target {
    world: FileWorld,
    /// The real place, links resolved.
    pub(crate) path: PathBuf,
    /// The place relative to the working directory where it lies below it.
    pub(crate) shown: String,
    inside: bool,
    protected: Option<&'static str>,
    /// How many further names the file has, which may lie anywhere.
    further_names: u64,
}

impl Target {
    /// Resolves a path as the model wrote it. Blocks on the file system.
    ///
    /// # Errors
    /// `Failed` for a path that cannot be resolved.
    pub(crate) fn resolve(world: &FileWorld, text: &str) -> Result<Self, ToolFailure> {
        let roots = &world.roots;
        let placement =
            roots.resolve(text).map_err(|error| ToolFailure::failed(sentence(&error)))?;
        let inside = matches!(placement, Placement::Inside(_));
        let path = placement.path().to_owned();
        let protected = roots.protected(&path);
        Ok(Self {
            world: world.clone(),
            shown: shown(roots, &path),
            path,
            inside,
            protected,
            further_names: 0,
        })
    }

    /// Resolves the path of a file that gets another name or none: a link is not followed then.
    ///
    /// # Errors
    /// As [`Target::resolve`], and `Failed` for a link.
    pub(crate) fn resolve_entry(world: &FileWorld, text: &str) -> Result<Self, ToolFailure> {
        let named = world.roots.cwd().join(text);
        if fs_err::symlink_metadata(&named).is_ok_and(|metadata| metadata.is_symlink()) {
            return Err(ToolFailure::failed(format!(
                "{text} is a link. It is neither followed nor changed; use a command for it."
            )));
        }
        Self::resolve(world, text)
    }

    /// Checks that the model has seen this content of the file.
    ///
    /// # Errors
    /// `Failed` when it has not, or when the file has changed since: with what has, as far as what
    /// it saw is remembered.
    pub(crate) fn require_seen(&self, now: &Snapshot) -> Result<(), ToolFailure> {
        // The log can only name a path that is UTF-8.
        if self.path.to_str().is_none() {
            return Ok(());
        }
        let (why, seen) = match self.world.observed.get(&self.path) {
            Some(seen) if *seen == now.hash.to_hex() => return Ok(()),
            Some(seen) => {
                ("has changed since you last read or changed it", self.world.texts.get(seen))
            }
            None => ("has not been read in this session", None),
        };
        let mut message =
            format!("{} {why}. Read it before you change it. The file is unchanged.", self.shown);
        message
            .push_str(&seen.and_then(|seen| self.changed(&seen, &now.bytes)).unwrap_or_default());
        Err(ToolFailure::failed(message))
    }

    /// What has changed between two contents of the file, in words and as a diff that has a limit.
    fn changed(&self, before: &[u8], now: &[u8]) -> Option<String> {
        if before == now {
            return None;
        }
        let (before, now) = (Text::parse(before).ok()?, Text::parse(now).ok()?);
        let change = Change::between(&self.path, &before.body, &now.body);
        Some(format!(" What has changed in it:\n{}", fenced("diff", &change.unified)))
    }

    /// The model knows this content of the file from here on.
    pub(crate) fn seen(&self, hash: Option<ContentHash>) -> SessionChange {
        let hash = hash.map(ContentHash::to_hex);
        SessionChange::Observed { path: self.path.clone(), hash }
    }

    pub(crate) fn roots(&self) -> &Roots {
        &self.world.roots
    }

    pub(crate) fn files(&self) -> &dyn Files {
        &*self.world.files
    }

    /// The store of a session, for a tool that needs one.
    pub(crate) fn blobs(&self) -> Option<&dyn BlobStore> {
        self.world.blobs.as_deref()
    }

    pub(crate) fn read_access(&self) -> Vec<Access> {
        let roots = self.roots();
        if self.inside || roots.is_result(&self.path) || roots.is_readable(&self.path) {
            vec![Access::ReadInside(self.path.clone())]
        } else if roots.is_excluded(&self.path) {
            vec![Access::ReadMasked(self.path.clone())]
        } else {
            vec![Access::ReadOutside(self.path.clone())]
        }
    }

    /// The content that a change will be computed on; from here on the target knows of hard links.
    ///
    /// # Errors
    /// [`FileError`], also for a file that nobody may write.
    pub(crate) fn read_for_change(&mut self, limit: u64) -> Result<Snapshot, FileError> {
        let snapshot = self.files().read_for_change(&self.path, limit)?;
        self.further_names = snapshot.further_names;
        Ok(snapshot)
    }

    /// Writes what was computed on this version, which held `base`; the hash of what is there now.
    ///
    /// # Errors
    /// `Failed`, with what has changed where that is why; nothing was written then.
    pub(crate) fn write(
        &self,
        version: &Version,
        base: &[u8],
        bytes: &[u8],
    ) -> Result<ContentHash, ToolFailure> {
        let write = || self.files().write(&self.path, version, bytes);
        // A large content is hashed while the disk takes it.
        let (written, hash) = if bytes.len() < SLOWLY_HASHED_BYTES {
            (write(), ContentHash::of(bytes))
        } else {
            thread::scope(|scope| {
                let hash = scope.spawn(|| ContentHash::of(bytes));
                (write(), hash.join().unwrap_or_else(|_| ContentHash::of(bytes)))
            })
        };
        written.map(|()| hash).map_err(|error| self.outdated(&error, base))
    }

    /// What an error of a change that was computed on `base` means to the model, with what has changed
    /// since where that is why.
    pub(crate) fn outdated(&self, error: &FileError, base: &[u8]) -> ToolFailure {
        let mut failure = self.failure(error);
        if matches!(error, FileError::Stale(_) | FileError::Moved(_))
            && let Ok(now) = self.files().read(&self.path, base.len() as u64 + MAX_GROWN_BYTES)
            && let Some(changed) = self.changed(base, &now)
        {
            failure.message.push_str(&changed);
        }
        failure
    }

    /// Protected names count as outside: what is written there is executed or obeyed later. So
    /// does a file with further names, because nobody can say where those are.
    pub(crate) fn write_access(&self) -> Vec<Access> {
        if self.inside && self.protected.is_none() && self.further_names == 0 {
            vec![Access::WriteInside(self.path.clone())]
        } else {
            vec![Access::WriteOutside(self.path.clone())]
        }
    }

    /// The head of a display: one line with the verb and the path.
    pub(crate) fn display(&self, verb: &str, kind: ToolKind, line: Option<u32>) -> Display {
        let note = if kind.changes_files() { self.write_note() } else { String::new() };
        let mut display = Display::new(format!("{verb} {}{note}", one_line(&self.shown)), kind);
        display.locations = locations(&self.path, line);
        display
    }

    /// Why a write here is more than a write in the workspace.
    fn write_note(&self) -> String {
        let mut note = String::new();
        if let Some(name) = self.protected {
            note.push_str(&format!(
                " (protected: other programs execute or obey `{name}`, or it holds keys)"
            ));
        }
        match self.further_names {
            0 => {}
            1 => note.push_str(" (hard link: the file has another name, maybe outside)"),
            n => {
                note.push_str(&format!(" (hard link: the file has {n} other names, maybe outside)"))
            }
        }
        note
    }

    /// The display of a change of this file.
    pub(crate) fn display_change(&self, verb: &str, kind: ToolKind, change: &Change) -> Display {
        let mut display = self.display(verb, kind, Some(change.first_line));
        if change.note.is_some() {
            display.title.push_str(" (not all of the change is shown)");
        }
        display.diffs.clone_from(&change.diffs);
        display.text.clone_from(&change.note);
        display
    }

    /// Checks that something is there.
    ///
    /// # Errors
    /// `Failed` with similar names when nothing is.
    pub(crate) fn require_present(&self) -> Result<(), ToolFailure> {
        match fs_err::symlink_metadata(&self.path) {
            Ok(_) => Ok(()),
            Err(_) => Err(self.failure(&FileError::NotFound(self.path.clone()))),
        }
    }

    /// Checks that a folder is there.
    ///
    /// # Errors
    /// `Failed` when nothing is, or something else.
    pub(crate) fn require_folder(&self) -> Result<(), ToolFailure> {
        self.require_present()?;
        if self.path.is_dir() { Ok(()) } else { Err(self.no_folder()) }
    }

    /// What it means that something else than a folder is there.
    pub(crate) fn no_folder(&self) -> ToolFailure {
        ToolFailure::failed(format!("{} is not a folder. Use `read` for a file.", self.shown))
    }

    /// What a file error means to the model.
    pub(crate) fn failure(&self, error: &FileError) -> ToolFailure {
        let hint = match error {
            FileError::NotFound(_) => self.similar_names(),
            FileError::Folder(path) if self.roots().placeholders().contains(path) => {
                " It only keeps that name from being taken while a confined command runs, and goes \
                 with the last one."
                    .to_owned()
            }
            FileError::Folder(_) => " Use `list` to see what is in it.".to_owned(),
            FileError::Stale(_)
            | FileError::Exists(_)
            | FileError::Moved(_)
            | FileError::Linked(_) => " Look again before you go on.".to_owned(),
            FileError::WriteProtected { .. } => {
                " Change its mode first if it really has to be changed.".to_owned()
            }
            FileError::TooLarge { .. } => {
                " Use `search`, or a command, on the part that matters.".to_owned()
            }
            FileError::Special { .. } | FileError::Io { .. } => String::new(),
        };
        ToolFailure::failed(format!("{}{hint}", sentence(error)))
    }

    /// What a text that does not fit the file's encoding means to the model.
    pub(crate) fn unencodable(&self, why: &Unencodable) -> ToolFailure {
        ToolFailure::failed(format!("{}: {why}. The file is unchanged.", self.shown))
    }

    /// What to say of names beside one that does not exist.
    fn similar_names(&self) -> String {
        let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return String::new();
        };
        let Ok(listing) = self.files().list(folder, MAX_COMPARED) else {
            return format!(" The folder {} does not exist either.", path_text(folder));
        };
        let name = name_text(name).to_lowercase();
        let mut ranked: Vec<(f32, String)> = listing
            .entries
            .iter()
            .map(|entry| {
                let candidate = name_text(&entry.name);
                let folded = candidate.to_lowercase();
                let likeness =
                    similar::TextDiff::from_chars(name.as_str(), folded.as_str()).ratio();
                (likeness, candidate)
            })
            .filter(|(likeness, _)| *likeness >= 0.6)
            .collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let offered: Vec<String> =
            ranked.into_iter().take(MAX_OFFERED).map(|(_, name)| format!("`{name}`")).collect();
        if offered.is_empty() {
            return String::new();
        }
        format!(" There is {}.", offered.join(", "))
    }
}

/// Ends the plan of a change that cannot succeed. The reason may quote the file, so for a file
/// outside the roots it is only told after the call was approved.
///
/// # Errors
/// The failure itself, inside the roots.
pub(crate) fn plan_failed<A: FileArguments>(
    target: Target,
    failure: ToolFailure,
) -> Result<Box<dyn FileCall<A::Value>>, ToolFailure> {
    if target.inside {
        return Err(failure);
    }
    Ok(Box::new(DoomedCall { display: target.display(A::VERB, A::KIND, None), target, failure }))
}

/// A call that will fail once it is allowed to.
struct DoomedCall {
    target: Target,
    display: Display,
    failure: ToolFailure,
}

impl<V> FileCall<V> for DoomedCall {
    fn targets(&self) -> Vec<&Target> {
        vec![&self.target]
    }

    fn display(&self) -> Display {
        self.display.clone()
    }

    fn run(&self, _: &CancellationToken) -> Result<V, ToolFailure> {
        Err(self.failure.clone())
    }
}

/// The place of a display. The protocol can only name a path that is UTF-8; another one is told by
/// the title alone.
pub(crate) fn locations(path: &Path, line: Option<u32>) -> Vec<Location> {
    path.to_str().map(|_| Location { path: path.to_owned(), line }).into_iter().collect()
}

/// Why a resolved path outside the roots is not one of theirs.
pub(crate) fn why_outside(roots: &Roots, resolved: &Path) -> &'static str {
    match roots.is_excluded(resolved) {
        true => "it is, or leads, where keys or Bridle's own files are",
        false => "it lies, or leads, outside the workspace",
    }
}

/// A path relative to the working directory, or absolute elsewhere.
pub(crate) fn shown(roots: &Roots, path: &Path) -> String {
    match path.strip_prefix(roots.cwd()) {
        Ok(relative) if relative.as_os_str().is_empty() => ".".to_owned(),
        Ok(relative) => path_text(relative),
        Err(_) => path_text(path),
    }
}

/// A text as part of a title: short, without control characters; cut in the middle, because the
/// ends of a path say most.
pub(crate) fn one_line(text: &str) -> String {
    let escaped: Vec<char> = text
        .chars()
        .flat_map(|c| {
            let escape = if c.is_control() { Some(c.escape_default()) } else { None };
            let plain = if c.is_control() { None } else { Some(c) };
            escape.into_iter().flatten().chain(plain)
        })
        .collect();
    if escaped.len() <= TITLE_CHARS {
        return escaped.into_iter().collect();
    }
    let half = TITLE_CHARS / 2;
    let head = escaped.iter().take(half);
    let tail = escaped.iter().skip(escaped.len() - half);
    head.chain(&['…']).chain(tail).collect()
}

/// An error as a sentence.
pub(crate) fn sentence(error: &dyn std::error::Error) -> String {
    format!("{error}.")
}

/// A code fence around a text, longer than any fence within it.
pub(crate) fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_one_short_line() {
        assert_eq!(one_line("a\nb\u{1b}[0m"), "a\\nb\\u{1b}[0m");
        let long = one_line(&"ä".repeat(500));
        assert_eq!(long.chars().count(), TITLE_CHARS + 1);
    }

    #[test]
    fn a_fence_is_longer_than_any_in_the_text() {
        assert_eq!(fenced("", "a"), "```\na\n```");
        assert_eq!(fenced("md", "````\n"), "`````md\n````\n`````");
    }
}
