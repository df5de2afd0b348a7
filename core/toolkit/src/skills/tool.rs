//! `skill`: loads a skill, or a file of its folder. It reads and does nothing else.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{
    Access, Concurrency, Display, Grant, Outlives, PlannedCall, SKILL, Tool, ToolContext,
    ToolFailure, ToolKind, ToolOutcome,
};
use bridle_model::ToolSpec;
use bridle_session::Content;
use bridle_world::path_text;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Listing, Skill, Skills, body, catalogue};
use crate::arguments::{Arguments, peek, text_of};
use crate::blocking::blocking;
use crate::target::{Target, locations, one_line};

/// The most of a list of all skills, in bytes.
const MAX_LIST: usize = 48 * 1024;

const DESCRIPTION: &str = "\
Loads a skill: instructions for a particular kind of work. Load the one that fits before you begin such \
work. The result names the skill's folder; paths in its text are relative to that. Scripts in it are run \
with `shell`, under the same rules as every command.";

/// Arguments of `skill`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SkillArguments {
    /// The skill's name. Left out: all skills are listed.
    name: Option<String>,
    /// A text file of the skill's folder, relative to it, in the place of its instructions.
    file: Option<String>,
}

impl Arguments for SkillArguments {
    const TOOL: &'static str = "skill";
}

/// The tool of these skills.
pub(super) struct SkillTool {
    spec: ToolSpec,
    skills: Arc<Skills>,
}

impl SkillTool {
    pub(super) fn new(skills: Arc<Skills>) -> Self {
        Self { spec: SkillArguments::spec(DESCRIPTION), skills }
    }
}

#[async_trait]
impl Tool for SkillTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn render(&self, value: &Value) -> Vec<Content> {
        text_of(value)
    }

    async fn plan(
        &self,
        arguments: Value,
        _: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        let arguments = SkillArguments::decode(arguments)?;
        let skills = Arc::clone(&self.skills);
        blocking(move || Ok(Box::new(plan(skills, arguments)?) as Box<dyn PlannedCall>)).await
    }

    fn outlives(&self, arguments: &str, _: &[Content]) -> Option<Outlives> {
        let name = peek(arguments, "name").filter(|name| !name.is_empty())?;
        Some(Outlives::Loaded(format!("{SKILL}{}", name.trim_start_matches('/'))))
    }

    fn outline(&self, arguments: &str) -> Display {
        let title = match peek(arguments, "name") {
            Some(name) if !name.is_empty() => format!("Skill {}", one_line(&name)),
            _ => SkillArguments::TOOL.to_owned(),
        };
        Display::new(title, ToolKind::Read)
    }
}

fn plan(skills: Arc<Skills>, arguments: SkillArguments) -> Result<Load, ToolFailure> {
    let listing = skills.look();
    let Some(name) = arguments.name.filter(|name| !name.is_empty()) else {
        if arguments.file.is_some() {
            let message = "`file` is a file of a skill: give its `name`. Nothing was read.";
            return Err(ToolFailure::bad_arguments(message));
        }
        return Ok(Load { skills, what: What::List(listing) });
    };
    let name = name.trim_start_matches('/');
    let Some(skill) = listing.find(name).cloned() else {
        return Err(ToolFailure::failed(unknown(name, &listing)));
    };
    let what = match (arguments.file, &skill.file) {
        (Some(file), Some(own)) => What::File(target(&skills, own, &file)?, skill),
        (Some(_), None) => {
            let message = format!("The skill `{name}` has no further files.");
            return Err(ToolFailure::failed(message));
        }
        (None, _) if !skill.for_model => {
            let message = format!("Only the user starts the skill `{name}`, by typing /{name}.");
            return Err(ToolFailure::failed(message));
        }
        (None, Some(own)) => {
            let target = Target::resolve(&skills.world, &path_text(own))?;
            What::Body(Some(target), skill)
        }
        (None, None) => What::Body(None, skill),
    };
    Ok(Load { skills, what })
}

/// A file of the skill whose SKILL.md is `own`.
fn target(skills: &Skills, own: &Path, file: &str) -> Result<Target, ToolFailure> {
    let folder = own.parent().unwrap_or(own);
    let target = Target::resolve(&skills.world, &path_text(&folder.join(file)))?;
    if !target.path.starts_with(folder) {
        return Err(ToolFailure::failed(format!(
            "{file} is not in the skill's folder, {}. Use `read` for files elsewhere.",
            path_text(folder)
        )));
    }
    target.require_present()?;
    Ok(target)
}

fn unknown(name: &str, listing: &Listing) -> String {
    let known: Vec<_> = listing.skills.iter().filter(|skill| skill.for_model).collect();
    let list = catalogue::lines(&known, MAX_LIST / 8);
    format!("There is no skill `{}`. There is:\n{list}", one_line(name))
}

struct Load {
    skills: Arc<Skills>,
    what: What,
}

enum What {
    List(Arc<Listing>),
    Body(Option<Target>, Skill),
    File(Target, Skill),
}

impl Load {
    fn target(&self) -> Option<&Target> {
        match &self.what {
            What::List(_) => None,
            What::Body(target, _) => target.as_ref(),
            What::File(target, _) => Some(target),
        }
    }

    fn text(&self) -> Result<String, String> {
        let world = &self.skills.world;
        match &self.what {
            What::List(listing) => {
                let known: Vec<_> = listing.skills.iter().filter(|skill| skill.for_model).collect();
                Ok(catalogue::lines(&known, MAX_LIST))
            }
            What::Body(_, skill) => body::body(world, skill),
            What::File(target, skill) => body::file(world, skill, &target.path),
        }
    }
}

#[async_trait]
impl PlannedCall for Load {
    fn display(&self) -> Display {
        let title = match &self.what {
            What::List(_) => "All skills".to_owned(),
            What::Body(_, skill) => format!("Skill {} ({})", skill.name, skill.rank),
            What::File(target, skill) => {
                format!("Skill {}: {}", skill.name, one_line(&target.shown))
            }
        };
        let mut display = Display::new(title, ToolKind::Read);
        if let Some(target) = self.target() {
            display.locations = locations(&target.path, None);
        }
        display
    }

    fn access(&self) -> Vec<Access> {
        self.target().map(Target::read_access).unwrap_or_default()
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::Parallel
    }

    async fn run(self: Box<Self>, _: Grant, _: ToolContext) -> Result<ToolOutcome, ToolFailure> {
        blocking(move || {
            let text = self.text().map_err(ToolFailure::failed)?;
            let shown = format!("Loaded, {} bytes.", text.len());
            let display = Display { text: Some(shown), ..self.display() };
            Ok(ToolOutcome::new(json!({ "text": text }), display))
        })
        .await
    }
}
