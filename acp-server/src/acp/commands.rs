//! The slash commands: those that are answered here, without a model, and the skills, which are prompts.
//! Any other `/word` is a prompt like any text.

use std::path::Path;

use agent_client_protocol::v1::schema::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, SessionUpdate,
    UnstructuredCommandInput,
};
use bridle_agent::{Fill, Meter};
use bridle_model::Effort;
use bridle_session::Content;
use bridle_toolkit::{Listing, Rank, Skill};

use super::options::Chosen;
use crate::{tally, text};

/// The most of a skill's description in a list of commands, in characters.
const MAX_DESCRIPTION: usize = 200;

/// A command of this list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LocalCommand {
    /// What can be typed.
    Help,
    /// What the session is set to.
    Status,
    /// How the MCP servers stand.
    Mcp,
    /// How the language servers stand.
    Lsp,
}

impl LocalCommand {
    const ALL: [Self; 4] = [Self::Help, Self::Status, Self::Mcp, Self::Lsp];

    fn name(self) -> &'static str {
        match self {
            Self::Help => "help",
            Self::Status => "status",
            Self::Mcp => "mcp",
            Self::Lsp => "lsp",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Help => "List the commands",
            Self::Status => "Show the mode, the model and the context of this session",
            Self::Mcp => "Show how the MCP servers of this session stand",
            Self::Lsp => "Show which language servers there are and how they stand",
        }
    }

    /// The command that a prompt consists of: the first word of its first text.
    pub(super) fn parse(prompt: &[Content]) -> Option<Self> {
        Self::named(Content::first_text(prompt)?.split_whitespace().next()?.strip_prefix('/')?)
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|command| command.name() == name)
    }

    /// Whether a command has this name, so that no skill is called by it.
    pub(super) fn is_name(name: &str) -> bool {
        Self::named(name).is_some() || name == "compact"
    }
}

/// What `/compact` does: it is the agent's, and has its place among the prompts.
const COMPACT: &str =
    "Shorten the conversation for the model: a summary takes the place of its beginning";

/// Of a prompt that is `/compact`, what the summary is to dwell on; empty for nothing in particular.
pub(super) fn compact(prompt: &[Content]) -> Option<String> {
    let focus = Content::first_text(prompt)?.trim().strip_prefix("/compact")?;
    (focus.is_empty() || focus.starts_with(char::is_whitespace)).then(|| focus.trim().to_owned())
}

/// The list for a client.
pub(super) fn available(skills: &Listing) -> SessionUpdate {
    let commands = LocalCommand::ALL
        .into_iter()
        .map(|command| AvailableCommand::new(command.name(), command.description()));
    let input = || UnstructuredCommandInput::new("what to do with it");
    let skills = called(skills).map(|skill| {
        AvailableCommand::new(skill.name.as_str(), about(skill))
            .input(AvailableCommandInput::Unstructured(input()))
    });
    let hint = UnstructuredCommandInput::new("what the summary is to dwell on");
    let compact =
        AvailableCommand::new("compact", COMPACT).input(AvailableCommandInput::Unstructured(hint));
    let commands = commands.chain([compact]).chain(skills).collect();
    SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(commands))
}

/// The skills that a person can call.
fn called(skills: &Listing) -> impl Iterator<Item = &Skill> {
    let all = skills.skills.iter();
    all.filter(|skill| skill.for_person && !LocalCommand::is_name(&skill.name))
}

/// What a skill is for and, since a project's may be anybody's, whose it is.
fn about(skill: &Skill) -> String {
    let text = text::unbroken(&skill.description);
    let mut short: String = text.chars().take(MAX_DESCRIPTION).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    match skill.rank {
        Rank::Project => format!("{short} (skill of this project)"),
        Rank::User | Rank::Bundled => format!("{short} (skill)"),
    }
}

/// The answer to `/help`.
pub(super) fn help(skills: &Listing) -> String {
    let mut text = "Everything you write goes to the model, except:\n\n".to_owned();
    for command in LocalCommand::ALL {
        text.push_str(&format!("- `/{}`: {}\n", command.name(), command.description()));
    }
    text.push_str(&format!("- `/compact [what to dwell on]`: {COMPACT}\n"));
    let mut skills = called(skills).peekable();
    if skills.peek().is_some() {
        text.push_str("\nWith one of these in front, the skill of that name goes with it:\n\n");
    }
    for skill in skills {
        text.push_str(&format!("- `/{}`: {}\n", skill.name, about(skill)));
    }
    text
}

/// What `/status` tells.
#[derive(Debug)]
pub(super) struct Status<'a> {
    pub(super) session: &'a str,
    pub(super) cwd: &'a Path,
    pub(super) chosen: &'a Chosen,
    pub(super) meter: &'a Meter,
    pub(super) fill: &'a Fill,
    /// What is wrong with the configuration.
    pub(super) problems: &'a [String],
}

/// The answer to `/status`.
pub(super) fn status(status: &Status<'_>) -> String {
    let Chosen { mode, route, effort, .. } = status.chosen;
    let thinking = effort.map_or("the model's own choice", Effort::id);
    let model = route
        .as_ref()
        .map_or_else(|| "none: no provider has a key".to_owned(), |route| format!("`{route}`"));
    let mut text = format!(
        "- Bridle {}\n- Session: `{}`\n- Folder: `{}`\n- Mode: {} ({})\n- Model: {model}\n\
         - Thinking: {thinking}\n- Context: {}\n",
        env!("CARGO_PKG_VERSION"),
        status.session,
        status.cwd.display(),
        mode.name(),
        mode.description(),
        context(status.meter),
    );
    for (name, tokens) in status.fill.named().into_iter().filter(|(_, tokens)| *tokens > 0) {
        text.push_str(&format!("  - {name}: about {}\n", tally::number(tokens)));
    }
    text.push_str(&format!("- Used: {}\n", tally::spent(status.meter.total, &status.meter.cost)));
    if status.meter.compaction.context() > 0 {
        let tokens = tally::number(status.meter.compaction.context());
        text.push_str(&format!("  - of it for summaries: {tokens} tokens\n"));
    }
    for problem in status.problems {
        text.push_str(&format!("- Configuration: {problem}\n"));
    }
    text
}

/// `12,345 of 1,000,000 tokens (1 %)`.
fn context(meter: &Meter) -> String {
    let used = tally::number(meter.used);
    match meter.used.saturating_mul(100).checked_div(meter.window) {
        Some(percent) => format!("{used} of {} tokens ({percent} %)", tally::number(meter.window)),
        None => format!("{used} tokens"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients put what is attached before the text as well as behind it.
    #[test]
    fn what_is_attached_may_stand_before_a_command() {
        let uri = "file:///q.txt".to_owned();
        let attached = Content::Resource { uri, mime_type: None, text: "/help".to_owned() };
        let prompt = |text: &str| [attached.clone(), Content::text(text), Content::text("/help")];
        assert_eq!(compact(&prompt("/compact the parser")).as_deref(), Some("the parser"));
        assert_eq!(LocalCommand::parse(&prompt("/status")), Some(LocalCommand::Status));
        assert_eq!(LocalCommand::parse(&prompt("go on")), None);
    }

    #[test]
    fn compact_has_a_focus_or_none() {
        let parse = |text: &str| compact(&[Content::text(text)]);
        assert_eq!(parse("/compact").as_deref(), Some(""));
        assert_eq!(parse(" /compact  the parser\n").as_deref(), Some("the parser"));
        assert_eq!(parse("/compactor"), None);
        assert_eq!(parse("please /compact"), None);
    }

    #[test]
    fn only_the_listed_words_are_commands() {
        let parse = |text: &str| LocalCommand::parse(&[Content::text(text)]);
        assert_eq!(parse("/help"), Some(LocalCommand::Help));
        assert_eq!(parse("  /status now\n"), Some(LocalCommand::Status));
        assert_eq!(parse("/mcp"), Some(LocalCommand::Mcp));
        assert_eq!(parse("/lsp"), Some(LocalCommand::Lsp));
        assert_eq!(parse("/helpless"), None);
        assert_eq!(parse("/unknown"), None);
        assert_eq!(parse("say /help"), None);
        assert_eq!(parse(""), None);
        assert_eq!(LocalCommand::parse(&[]), None);
    }
}
