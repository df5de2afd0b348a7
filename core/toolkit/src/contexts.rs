//! What a session is told before it begins and when it changes: where it runs, and the project's AGENTS.md.
//!
//! Each text is wrapped in a tag that names its source, so that a model can tell it from what the
//! user says; the wrapped text cannot close the tag.

mod changes;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{ContextInput, ContextSource};
use bridle_compose::{ActivateError, Clock, Plugin, Setup};
use bridle_world::files::{Files, Text};
use bridle_world::{Placement, Roots, path_text};

use crate::file_tool::FileWorld;
use crate::target::shown;
pub(crate) use changes::FileChangesPlugin;

/// The instructions file of a folder.
const INSTRUCTIONS_FILE: &str = "AGENTS.md";
/// At most this much of one instructions file is passed on (bytes).
const INSTRUCTIONS_BYTES: usize = 64 * 1024;
/// Larger instructions files (bytes) are not read at all.
const MAX_INSTRUCTIONS_BYTES: u64 = 16 * 1024 * 1024;
/// The most bytes of git's own small files that are read.
const GIT_FILE_BYTES: u64 = 4 * 1024;

/// Where and when the session runs.
#[derive(Clone)]
pub(crate) struct Environment {
    world: FileWorld,
    clock: Arc<dyn Clock>,
}

impl Environment {
    pub(crate) fn new(world: FileWorld, clock: Arc<dyn Clock>) -> Self {
        Self { world, clock }
    }

    fn text(&self) -> String {
        let FileWorld { roots, files, .. } = &self.world;
        let mut text = format!("Working directory: {}\n", path_text(roots.cwd()));
        for root in roots.all().skip(1) {
            text.push_str(&format!("Further workspace folder: {}\n", path_text(root)));
        }
        text.push_str(&match git_head(&**files, roots.cwd()) {
            None => "Git repository: no\n".to_owned(),
            Some(Head::Branch(name)) => format!("Git repository: yes, on branch {name}\n"),
            Some(Head::Detached) => "Git repository: yes, not on a branch\n".to_owned(),
        });
        text.push_str(&format!("Platform: {} {}\n", std::env::consts::OS, std::env::consts::ARCH));
        if let Ok(now) = jiff::Timestamp::try_from(self.clock.now()) {
            text.push_str(&format!("Date (UTC): {}\n", now.strftime("%F")));
        }
        text
    }
}

#[async_trait]
impl ContextSource for Environment {
    fn name(&self) -> &str {
        "environment"
    }

    async fn collect(&self, _: &ContextInput) -> Option<String> {
        let this = self.clone();
        let text = tokio::task::spawn_blocking(move || this.text()).await.ok()?;
        Some(wrap("environment", &text))
    }
}

/// Puts [`Environment`] into a session.
pub(crate) struct EnvironmentPlugin;

#[async_trait]
impl Plugin for EnvironmentPlugin {
    const NAME: &'static str = "environment";
    type Config = ();
    type Needs = (Arc<Roots>, Arc<dyn Files>, Arc<dyn Clock>);

    async fn activate(
        &self,
        (): (),
        (roots, files, clock): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        add(setup, Environment::new(FileWorld::new(roots, files), clock))
    }
}

enum Head {
    Branch(String),
    Detached,
}

/// What git has checked out, read from its files: git itself would obey the repository's
/// configuration.
fn git_head(files: &dyn Files, cwd: &Path) -> Option<Head> {
    let git = cwd
        .ancestors()
        .map(|folder| folder.join(".git"))
        .find_map(|git| fs_err::canonicalize(git).ok())?;
    let folder = match small_file(files, &git) {
        // A worktree or submodule: the file points to the folder.
        Some(text) => {
            let target = text.strip_prefix("gitdir:")?.trim().to_owned();
            fs_err::canonicalize(git.parent()?.join(target)).ok()?
        }
        None => git,
    };
    let head = small_file(files, &folder.join("HEAD"))?;
    match head.trim().strip_prefix("ref: refs/heads/") {
        Some(branch) => Some(Head::Branch(branch.lines().next()?.to_owned())),
        None => Some(Head::Detached),
    }
}

fn small_file(files: &dyn Files, path: &Path) -> Option<String> {
    String::from_utf8(files.read(path, GIT_FILE_BYTES).ok()?).ok()
}

/// The project's instructions: AGENTS.md of each root, the working directory's last, because what
/// is nearest to the work should have the last word.
pub(crate) struct Instructions {
    world: FileWorld,
}

impl Instructions {
    pub(crate) fn new(world: FileWorld) -> Self {
        Self { world }
    }
}

#[async_trait]
impl ContextSource for Instructions {
    fn name(&self) -> &str {
        INSTRUCTIONS_FILE
    }

    async fn collect(&self, _: &ContextInput) -> Option<String> {
        let world = self.world.clone();
        tokio::task::spawn_blocking(move || instructions(&world)).await.ok()?
    }
}

/// Puts [`Instructions`] into a session.
pub(crate) struct InstructionsPlugin;

#[async_trait]
impl Plugin for InstructionsPlugin {
    const NAME: &'static str = "instructions";
    type Config = ();
    type Needs = (Arc<Roots>, Arc<dyn Files>);

    async fn activate(
        &self,
        (): (),
        (roots, files): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        add(setup, Instructions::new(FileWorld::new(roots, files)))
    }
}

/// Contributes a source under its name.
fn add(setup: &Setup, source: impl ContextSource) -> Result<(), ActivateError> {
    let source: Arc<dyn ContextSource> = Arc::new(source);
    Ok(setup.add(source.name(), Arc::clone(&source))?)
}

fn instructions(world: &FileWorld) -> Option<String> {
    let mut folders: Vec<&Path> = world.roots.all().collect();
    folders.reverse();
    let texts: Vec<String> =
        folders.into_iter().filter_map(|folder| instructions_of(world, folder)).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn instructions_of(world: &FileWorld, folder: &Path) -> Option<String> {
    let path = folder.join(INSTRUCTIONS_FILE);
    fs_err::symlink_metadata(&path).ok()?;
    let source = shown(&world.roots, &path);
    let text = match readable(world, &path) {
        Ok(text) if text.trim().is_empty() => return None,
        Ok(text) => text,
        Err(why) => format!("[{INSTRUCTIONS_FILE} was not read: {why}]\n"),
    };
    Some(wrap(&source, &text))
}

/// The instructions, cut at their limit, or why there are none.
fn readable(world: &FileWorld, path: &Path) -> Result<String, String> {
    let placement = world.roots.resolve(&path_text(path)).map_err(|error| error.to_string())?;
    let real: PathBuf = match placement {
        Placement::Inside(real) => real,
        Placement::Outside(_) => return Err("it is a link that leaves the workspace".to_owned()),
    };
    let read = world.files.read(&real, MAX_INSTRUCTIONS_BYTES);
    let bytes = read.map_err(|error| error.to_string())?;
    let text = Text::parse(&bytes).map_err(|why| why.to_string())?;
    let end = text.body.floor_char_boundary(INSTRUCTIONS_BYTES);
    let kept = text.body.get(..end).unwrap_or_default();
    let cut = text.body.len() - kept.len();
    if cut == 0 {
        return Ok(kept.to_owned());
    }
    Ok(format!("{kept}\n[Cut here: {cut} more bytes. Read the file for the rest.]\n"))
}

fn wrap(source: &str, text: &str) -> String {
    let source = source.replace(['"', '<', '>', '\n'], "_");
    let text = text.replace("</context", "<\\/context");
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("<context source=\"{source}\">\n{text}{end}</context>")
}

#[cfg(test)]
mod tests;
