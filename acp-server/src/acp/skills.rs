//! The skills of a session, as its client knows them: as commands, and what the person has been told of
//! them. Looks at no file itself.

use std::collections::HashSet;
use std::sync::Arc;

use bridle_toolkit::{Listing, Rank, Skills};
use tokio::sync::watch;

use super::commands::LocalCommand;

/// The most that is told at once.
const MAX_TOLD: usize = 20;

/// See the module.
pub(super) struct KnownSkills {
    /// `None` in a session without skills.
    watch: Option<watch::Receiver<Arc<Listing>>>,
    told: HashSet<String>,
}

impl KnownSkills {
    /// The skills that there are now.
    pub(super) async fn of(skills: Option<Arc<Skills>>) -> Self {
        let mut watch = skills.as_ref().map(|skills| skills.watch());
        if let Some(skills) = skills {
            drop(skills.refresh().await);
        }
        if let Some(watch) = &mut watch {
            watch.mark_unchanged();
        }
        Self { watch, told: HashSet::new() }
    }

    /// Waits until there are others.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(super) async fn changed(&mut self) {
        let changed = match &mut self.watch {
            Some(watch) => watch.changed().await.is_ok(),
            None => false,
        };
        if !changed {
            self.watch = None;
            std::future::pending::<()>().await;
        }
    }

    /// Those that there are.
    pub(super) fn listing(&self) -> Arc<Listing> {
        self.watch.as_ref().map(|watch| Arc::clone(&watch.borrow())).unwrap_or_default()
    }

    /// What the person should know and has not been told yet.
    pub(super) fn news(&mut self) -> Vec<String> {
        let listing = self.listing();
        let hidden = listing.skills.iter().filter(|skill| LocalCommand::is_name(&skill.name));
        let hidden = hidden.map(|skill| {
            let name = &skill.name;
            format!("The skill `{name}` is not called by /{name}, which is Bridle's own command")
        });
        let replaced = listing.shadowed.iter().filter_map(|skill| {
            let whose = match skill.rank {
                Rank::Project => return None,
                Rank::User => "yours",
                Rank::Bundled => "Bridle's own",
            };
            let other = listing.find(&skill.name).filter(|other| other.rank == Rank::Project)?;
            let file = other.file.as_ref()?.display();
            let name = &skill.name;
            Some(format!("The skill `{name}` of this project counts, not {whose}: {file}"))
        });
        let news = listing.faults.iter().cloned().chain(hidden).chain(replaced);
        let mut news: Vec<_> = news.filter(|text| self.told.insert(text.clone())).collect();
        let more = news.len().saturating_sub(MAX_TOLD);
        if more > 0 {
            news.truncate(MAX_TOLD);
            news.push(format!("and {more} more; `bridle config show` names all"));
        }
        news
    }
}
