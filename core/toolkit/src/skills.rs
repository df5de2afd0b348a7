//! Skills: folders with a SKILL.md that say how a kind of work is done (agentskills.io).
//!
//! [`Skills`] knows which there are (`shelf.rs`, `walk.rs`, `front_matter.rs`). The model reads one line
//! of each (`catalogue.rs`) and the body of the one that it loads with the tool (`tool.rs`) or that the
//! person calls by its name (`called.rs`). A skill is text and nothing else: what it allows itself is
//! not heard, and its scripts run as any command does, or not at all.

mod body;
mod bundled;
mod called;
mod catalogue;
mod front_matter;
mod plugin;
mod shelf;
mod tool;
mod walk;

use std::fmt;
use std::path::PathBuf;

#[cfg(fuzzing)]
pub use front_matter::fuzz_skill;
pub(crate) use plugin::SkillsPlugin;
pub use shelf::Skills;

/// Where a skill comes from. Of two with one name the one of the first rank counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// The workspace. Whoever writes that writes it.
    Project,
    /// The user's own folders.
    User,
    /// The program.
    Bundled,
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Project => "project",
            Self::User => "user",
            Self::Bundled => "bundled",
        })
    }
}

/// One skill, without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// What it is called by: lower-case letters, digits and single hyphens.
    pub name: String,
    /// What it is for: one line without what cannot be seen.
    pub description: String,
    /// Where it comes from.
    pub rank: Rank,
    /// Its SKILL.md, links resolved; `None` for one that is bundled.
    pub file: Option<PathBuf>,
    /// Whether the model is told of it and may load it by itself.
    pub for_model: bool,
    /// Whether the person can call it by its name.
    pub for_person: bool,
}

/// The skills that there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// One of each name, by rank and then by name.
    pub skills: Vec<Skill>,
    /// Those that are not reached, because another one has their name.
    pub shadowed: Vec<Skill>,
    /// What is wrong with which file, a sentence each, for the person.
    pub faults: Vec<String>,
}

impl Listing {
    /// The skill of this name.
    pub fn find(&self, name: &str) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.name == name)
    }
}

#[cfg(test)]
mod tests;
