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
use status::{Answer, Status, Statuses};

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

    /// What is not known yet is as `told`, the last of these texts that the model has.
    fn text(&self, mode: Mode, told: Option<&str>) -> String {
        let roots = &self.world.roots;
        let mut text = format!("Working directory: {}\n", path_text(roots.cwd()));
        for root in roots.all().skip(1) {
            text.push_str(&format!("Further workspace folder: {}\n", path_text(root)));
        }
        text.push_str(&format!("{REPOSITORY}{}\n", self.repository(told)));
        text.push_str(&format!("Permission mode: {}\n", mode.id()));
        let tier = self.git.as_ref().and_then(|git| git.processes().known_tier());
        if let Some(tier) = tier.or_else(|| told.and_then(told_tier)) {
            let masked = match tier {
                Tier::Full => self.masked(mode, "see nothing of"),
                Tier::Landlock => self.masked(mode, "may not read"),
                Tier::None => String::new(),
            };
            text.push_str(&format!("{SANDBOX}{}{masked}\n", tier_word(tier)));
        }
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

    fn repository(&self, told: Option<&str>) -> String {
        let head = git::head(&*self.world.files, self.world.roots.cwd());
        let head = match head {
            None => return "no".to_owned(),
            Some(Head::Branch(name)) => format!("yes, on branch {}", one_line(&name)),
            Some(Head::Detached) => "yes, not on a branch".to_owned(),
            Some(Head::Unknown) => "yes".to_owned(),
        };
        let status = match self.git.as_ref().map(Statuses::answer) {
            None => None,
            Some(Answer::Outstanding) => told.and_then(told_status),
            Some(Answer::Nothing) => None,
            Some(Answer::Is(status)) => Some(status),
        };
        match status {
            None => head,
            Some(status) => format!("{head}{}", status_words(status)),
        }
    }
}

/// How the lines begin that say what may not be known yet.
const REPOSITORY: &str = "Git repository: ";
const SANDBOX: &str = "Sandbox of commands: ";

fn tier_word(tier: Tier) -> &'static str {
    match tier {
        Tier::Full => "full",
        Tier::Landlock => "partial",
        Tier::None => "none",
    }
}

fn status_words(status: Status) -> &'static str {
    match status {
        Status::Clean => ", without uncommitted changes",
        Status::Changed => ", with uncommitted changes",
    }
}

fn told_tier(told: &str) -> Option<Tier> {
    let line = told.lines().find_map(|line| line.strip_prefix(SANDBOX))?;
    let word = line.split(';').next()?;
    [Tier::Full, Tier::Landlock, Tier::None].into_iter().find(|tier| tier_word(*tier) == word)
}

fn told_status(told: &str) -> Option<Status> {
    let line = told.lines().find_map(|line| line.strip_prefix(REPOSITORY))?;
    [Status::Clean, Status::Changed]
        .into_iter()
        .find(|status| line.ends_with(status_words(*status)))
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
        let (this, mode, told) = (self.clone(), now.mode, Arc::clone(&now.told));
        let text = tokio::task::spawn_blocking(move || {
            this.text(mode, told.get(this.name()).map(String::as_str))
        });
        let text = text.await.ok()?;
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
