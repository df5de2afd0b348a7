//! Where and when the session runs: told once, and again when it changes.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{ContextInput, ContextSource};
use bridle_compose::{ActivateError, Clock, Plugin, Setup};
use bridle_world::files::Files;
use bridle_world::{Roots, path_text};

use super::{add, wrap};
use crate::file_tool::FileWorld;

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
