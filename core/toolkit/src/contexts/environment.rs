//! Where, when and under which rules the session works: told once, and again, whole, when it changes.
//!
//! Nothing is waited for. What takes a process to find out (whether git sees changes) is asked in the
//! background when a turn begins and told before the step behind the answer; how far commands can be
//! confined is told once that is known.

mod git;
mod status;

use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{ContextInput, ContextSource, Mode};
use bridle_compose::{ActivateError, Clock, Plugin, Setup};
use bridle_session::StepNumber;
use bridle_world::files::Files;
use bridle_world::process::Processes;
use bridle_world::sandbox::Tier;
use bridle_world::{Roots, path_text};

use super::{add, wrap};
use crate::file_tool::FileWorld;
use crate::target::one_line;
use git::Head;
use status::{Status, Statuses};

/// Tells where the session works.
#[derive(Clone)]
pub(super) struct Environment {
    world: FileWorld,
    clock: Arc<dyn Clock>,
    /// Who runs git, and what it said; `None` where nobody does.
    git: Option<Statuses>,
}

impl Environment {
    pub(super) fn new(world: FileWorld, clock: Arc<dyn Clock>, git: Option<Statuses>) -> Self {
        Self { world, clock, git }
    }

    fn text(&self, mode: Mode) -> String {
        let roots = &self.world.roots;
        let mut text = format!("Working directory: {}\n", path_text(roots.cwd()));
        for root in roots.all().skip(1) {
            text.push_str(&format!("Further workspace folder: {}\n", path_text(root)));
        }
        text.push_str(&format!("Git repository: {}\n", self.repository()));
        text.push_str(&format!("Permission mode: {}\n", mode.id()));
        let tier = self.git.as_ref().and_then(|git| git.processes().known_tier());
        text.push_str(&match tier {
            Some(Tier::Full) => {
                format!("Sandbox of commands: full{}\n", self.masked(mode, "see nothing of"))
            }
            Some(Tier::Landlock) => {
                format!("Sandbox of commands: partial{}\n", self.masked(mode, "may not read"))
            }
            Some(Tier::None) => "Sandbox of commands: none\n".to_owned(),
            None => String::new(),
        });
        text.push_str(&format!("Platform: {} {}\n", std::env::consts::OS, std::env::consts::ARCH));
        if let Ok(now) = jiff::Timestamp::try_from(self.clock.now()) {
            text.push_str(&format!("Date (UTC): {}\n", now.strftime("%F")));
        }
        text
    }

    /// What commands have to do without, told here because to them it looks as if it were not there.
    fn masked(&self, mode: Mode, how: &str) -> String {
        let excluded: Vec<_> = self.world.roots.excluded().iter().map(|it| path_text(it)).collect();
        match excluded.is_empty() || mode == Mode::FullAccess {
            true => String::new(),
            false => format!("; they {how} what is in {}", excluded.join(", ")),
        }
    }

    fn repository(&self) -> String {
        let head = git::head(&*self.world.files, self.world.roots.cwd());
        let head = match head {
            None => return "no".to_owned(),
            Some(Head::Branch(name)) => format!("yes, on branch {}", one_line(&name)),
            Some(Head::Detached) => "yes, not on a branch".to_owned(),
            Some(Head::Unknown) => "yes".to_owned(),
        };
        match self.git.as_ref().and_then(Statuses::last) {
            None => head,
            Some(Status::Clean) => format!("{head}, without uncommitted changes"),
            Some(Status::Changed) => format!("{head}, with uncommitted changes"),
        }
    }
}

#[async_trait]
impl ContextSource for Environment {
    fn name(&self) -> &str {
        "environment"
    }

    async fn collect(&self, now: &ContextInput) -> Option<String> {
        if now.step <= StepNumber(1)
            && let Some(git) = &self.git
        {
            git.ask(&self.world);
        }
        let (this, mode) = (self.clone(), now.mode);
        let text = tokio::task::spawn_blocking(move || this.text(mode)).await.ok()?;
        Some(wrap("environment", &text))
    }
}

/// Puts [`Environment`] into a session.
pub(crate) struct EnvironmentPlugin;

#[async_trait]
impl Plugin for EnvironmentPlugin {
    const NAME: &'static str = "environment";
    type Config = ();
    type Needs = (Arc<Roots>, Arc<dyn Files>, Arc<dyn Clock>, Arc<Processes>);

    async fn activate(
        &self,
        (): (),
        (roots, files, clock, processes): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let statuses = Statuses::new(Processes::clone(&processes), setup)?;
        add(setup, Environment::new(FileWorld::new(roots, files), clock, Some(statuses)))
    }
}
