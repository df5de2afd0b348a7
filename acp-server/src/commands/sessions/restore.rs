//! `bridle sessions restore`: what the tools of a turn did to files, and the way back.
//!
//! Without `--yes` it only shows. Files are written as the tools write them: durably, and only over
//! what is known; a file that is not as the session left it stays, unless `--force` says
//! otherwise. What a turn made is removed last, and only when everything else can be put back: it may
//! be where that has gone. It knows nothing of git and touches none of it.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use bridle_session::{EventData, FileBefore, Session, TurnNumber};
use bridle_store::{BlobStore as _, FileStore};
use bridle_world::files::{ContentHash, FileError, Files as _, LocalFiles};
use clap::Args;

use super::reference::Reference;
use super::{Exit, failure, read, say};
use crate::text::visible;

/// The largest file (bytes) that is compared and replaced.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Why a file stays that somebody else has changed.
const FOREIGN: &str = "changed since by somebody else; --force overwrites that";

/// Why a file stays that the turn made.
const MAY_BE_IT: &str =
    "not everything can be put back, and this may be where it has gone; --force removes it";

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The session: its id, the beginning of it, or `last`.
    #[arg(value_name = "ID")]
    session: Reference,
    /// The turn to undo, and with it all later ones; without it, the last turn that changed files.
    #[arg(long, value_name = "N")]
    turn: Option<u64>,
    /// Undo it. Without this it is only shown.
    #[arg(long)]
    yes: bool,
    /// Undo also what was changed by somebody else since.
    #[arg(long)]
    force: bool,
}

/// What a file is to be again.
struct Undo<'a> {
    path: &'a Path,
    before: &'a FileBefore,
    /// The hash of what the session left there; `None` when it left nothing, or nothing is known.
    left: Option<&'a str>,
}

/// What the session left in files under any of their names: what is written through one hard link is in
/// the others as well.
struct Names<'a>(HashMap<(u64, u64), Vec<&'a str>>);

impl<'a> Names<'a> {
    fn of(undos: &[Undo<'a>]) -> Self {
        let mut names: HashMap<_, Vec<_>> = HashMap::new();
        for undo in undos {
            if let (Some(file), Some(left)) = (linked(undo.path), undo.left) {
                names.entry(file).or_default().push(left);
            }
        }
        Self(names)
    }

    /// Whether the session left a file with this hash under another of its names.
    fn left(&self, path: &Path, hash: Option<&str>) -> bool {
        let left = linked(path).and_then(|file| self.0.get(&file));
        left.is_some_and(|left| left.iter().any(|left| Some(*left) == hash))
    }
}

/// Which file it is that has more names than this.
fn linked(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;

    let found = fs_err::symlink_metadata(path).ok()?;
    (found.is_file() && found.nlink() > 1).then(|| (found.dev(), found.ino()))
}

/// What undoing comes to.
enum Step {
    /// It is so already.
    Nothing,
    Remove,
    Write(Vec<u8>),
    /// It must not be: somebody else has changed it.
    Foreign,
    /// It cannot be.
    Lost(String),
}

pub(super) fn run(store: &FileStore, arguments: &Arguments) -> anyhow::Result<Exit> {
    let id = arguments.session.resolve(store)?;
    let session = read(store, &id)?.session;
    let turn = match arguments.turn {
        Some(turn) => TurnNumber(turn),
        None => last_change(&session).ok_or_else(|| {
            anyhow!(
                "no turn of {id} changed the content of files, as far as it was looked at; changes of \
                 modes, links and folders by commands are not seen"
            )
        })?,
    };
    let (undos, commands) = since(&session, turn);
    let mut out = io::stdout().lock();
    if undos.is_empty() {
        writeln!(out, "no tool changed files in turn {} or later", turn.0)?;
    }
    let names = Names::of(&undos);
    let (made, others): (Vec<_>, Vec<_>) =
        undos.iter().partition(|undo| *undo.before == FileBefore::Absent);
    let (mut exit, mut is_lost) = (Exit::Done, false);
    for undo in others.into_iter().chain(made) {
        let step = match undo.step(store, &names, arguments.force)? {
            Step::Remove if is_lost && !arguments.force => Step::Lost(MAY_BE_IT.to_owned()),
            step => step,
        };
        let shown = undo.path.display().to_string();
        let shown = visible(&shown);
        match &step {
            Step::Nothing => writeln!(out, "as before  {shown}")?,
            Step::Remove => writeln!(out, "remove     {shown}")?,
            Step::Write(bytes) => writeln!(out, "restore    {shown}  ({} bytes)", bytes.len())?,
            Step::Foreign => writeln!(out, "left alone {shown}  ({FOREIGN})")?,
            Step::Lost(why) => writeln!(out, "left alone {shown}  ({why})")?,
        }
        is_lost |= matches!(step, Step::Lost(_));
        if matches!(step, Step::Foreign | Step::Lost(_)) {
            exit = Exit::Failed;
        }
        if arguments.yes {
            undo.make(step).with_context(|| format!("{shown} was not restored"))?;
        }
    }
    if commands > 0 {
        say(format_args!(
            "bridle: commands ran in these turns ({commands}); what they changed outside of the \
             workspace, in ignored files, or in the background is neither shown nor undone"
        ));
    }
    if !arguments.yes && !undos.is_empty() {
        say(format_args!("bridle: nothing was changed; add --yes to do this"));
    }
    Ok(exit)
}

fn last_change(session: &Session) -> Option<TurnNumber> {
    let (mut turn, mut found) = (None, None);
    for event in session.events() {
        match &event.data {
            EventData::TurnStart(start) => turn = Some(start.turn),
            EventData::FileKept(_) => found = turn,
            _ => {}
        }
    }
    found
}

/// What the files were before a turn, and how many commands ran from then on.
fn since(session: &Session, first: TurnNumber) -> (Vec<Undo<'_>>, usize) {
    let (mut due, mut commands) = (false, 0);
    let mut undos: BTreeMap<&PathBuf, Undo<'_>> = BTreeMap::new();
    for event in session.events() {
        match &event.data {
            EventData::TurnStart(start) => due = start.turn >= first,
            EventData::FileKept(kept) if due => {
                let undo = Undo { path: &kept.path, before: &kept.before, left: None };
                undos.entry(&kept.path).or_insert(undo).left = kept.left.as_deref();
            }
            EventData::FileObserved(seen) => {
                if let Some(undo) = undos.get_mut(&seen.path) {
                    undo.left = seen.hash.as_deref();
                }
            }
            EventData::ToolCall(call) if due && call.name == "shell" => commands += 1,
            _ => {}
        }
    }
    (undos.into_values().collect(), commands)
}

impl Undo<'_> {
    fn step(&self, store: &FileStore, names: &Names<'_>, force: bool) -> anyhow::Result<Step> {
        let wanted = match self.before {
            FileBefore::Absent => None,
            FileBefore::Unkept { reason } => {
                return Ok(Step::Lost(format!("not kept: {reason}")));
            }
            FileBefore::File { blob, .. } => Some(store.get(blob).map_err(failure)?),
        };
        let now = match LocalFiles.read(self.path, MAX_FILE_BYTES) {
            Ok(bytes) => Some(bytes),
            Err(FileError::NotFound(_)) => None,
            Err(error) => return Ok(Step::Lost(error.to_string())),
        };
        if now == wanted {
            return Ok(Step::Nothing);
        }
        let hash = now.as_deref().map(|bytes| ContentHash::of(bytes).to_hex());
        let is_ours = hash.as_deref() == self.left || names.left(self.path, hash.as_deref());
        if !is_ours && !force {
            return Ok(Step::Foreign);
        }
        Ok(wanted.map_or(Step::Remove, Step::Write))
    }

    fn make(&self, step: Step) -> anyhow::Result<()> {
        let files = LocalFiles;
        match step {
            Step::Nothing | Step::Foreign | Step::Lost(_) => {}
            Step::Remove => {
                let now = files.read_for_change(self.path, MAX_FILE_BYTES)?;
                files.remove(self.path, &now.version)?;
            }
            Step::Write(bytes) => match files.read_for_change(self.path, MAX_FILE_BYTES) {
                Ok(now) => files.write(self.path, &now.version, &bytes)?,
                Err(FileError::NotFound(_)) => {
                    files.write(self.path, &files.anchor(self.path)?, &bytes)?;
                    self.give_mode()?;
                }
                Err(error) => return Err(error.into()),
            },
        }
        Ok(())
    }

    /// A file that is made anew gets the permissions that the old one had.
    fn give_mode(&self) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;

        let FileBefore::File { mode, .. } = self.before else { return Ok(()) };
        fs_err::set_permissions(self.path, std::fs::Permissions::from_mode(*mode))
    }
}
