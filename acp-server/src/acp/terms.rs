//! What a client asks of a session when it opens one: further folders, instructions for the model,
//! limits. Whatever restricts the session is kept or refused, never passed over.

use std::num::NonZeroU64;
use std::path::PathBuf;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    ContentBlock, LoadSessionRequest, Meta, NewSessionRequest, SystemPrompt as WirePrompt,
    SystemPromptMode,
};
use bridle_agent::{Mode, OfferedTools};
use bridle_session::{Header, Route, SystemPrompt, Terms};
use serde_json::Value;

use super::errors;
use crate::composition::{App, ceiling};
use crate::text;

/// The key of `_meta` that declares the ceiling of a session's permission modes.
const CEILING: &str = "bridle.dev/permissionCeiling";

/// The longest system prompt of a client, in bytes.
const MAX_PROMPT: usize = 256 * 1024;

/// The most further folders.
const MAX_DIRECTORIES: usize = 64;

/// What others call our tools.
const OTHER_NAMES: [(&str, &str); 7] = [
    ("askuserquestion", "ask_user"),
    ("bash", "shell"),
    ("exitplanmode", "exit_plan_mode"),
    ("grep", "search"),
    ("ls", "list"),
    ("multiedit", "edit"),
    ("todowrite", "todo"),
];

/// How the names of tools of MCP servers begin.
const IMPORTED: &str = "mcp__";

/// See the module.
#[derive(Debug)]
pub(super) struct Asked {
    /// The whole list of further folders.
    pub(super) directories: Vec<PathBuf>,
    pub(super) terms: Terms,
    /// What of it cannot be had, for the person.
    pub(super) notes: Vec<String>,
}

impl Asked {
    /// # Errors
    /// When what is asked for cannot be used.
    pub(super) fn of_new(app: &App, request: &NewSessionRequest) -> Result<Self, Error> {
        let NewSessionRequest { additional_directories, system_prompt, meta, .. } = request;
        Self::of(app, additional_directories, system_prompt.as_ref(), meta.as_ref())
    }

    /// # Errors
    /// As for [`Asked::of_new`].
    pub(super) fn of_load(app: &App, request: &LoadSessionRequest) -> Result<Self, Error> {
        let LoadSessionRequest { additional_directories, system_prompt, meta, .. } = request;
        Self::of(app, additional_directories, system_prompt.as_ref(), meta.as_ref())
    }

    fn of(
        app: &App,
        directories: &[PathBuf],
        prompt: Option<&WirePrompt>,
        meta: Option<&Meta>,
    ) -> Result<Self, Error> {
        if directories.len() > MAX_DIRECTORIES {
            let reason = format!("additionalDirectories: more than {MAX_DIRECTORIES}");
            return Err(errors::invalid_params(&reason));
        }
        let mut notes = Vec::new();
        // Null is how some languages write what is absent.
        let is_there = |value: &&Value| !value.is_null();
        let meta = |key: &str| meta.and_then(|meta| meta.get(key)).filter(is_there);
        let options = meta("claudeCode").and_then(|other| other.get("options"));
        let option = |name: &str| options.and_then(|options| options.get(name)).filter(is_there);
        let model = option("model").or_else(|| meta("model")).and_then(Value::as_str);
        let system_prompt = match (prompt, meta("systemPrompt")) {
            (Some(prompt), _) => Some(of_wire(prompt)?),
            (None, Some(prompt)) => Some(of_meta(prompt)?),
            (None, None) => None,
        };
        let terms = Terms {
            ceiling: meta(CEILING).map(declared_ceiling).transpose()?,
            system_prompt,
            model: model.and_then(|model| known_model(app, model, &mut notes)),
            tools: option("allowedTools").map(|tools| tool_names(tools, &mut notes)).transpose()?,
            turn_steps: option("maxTurns").map(whole_number).transpose()?,
        };
        Ok(Self { directories: directories.to_vec(), terms, notes })
    }

    /// The header that holds while a stored session is open: the folders are those asked for now,
    /// instructions are the newer ones, and limits are the stricter of both.
    pub(super) fn over(&self, stored: &Header, directories: Vec<PathBuf>) -> Header {
        let (old, new) = (stored.terms.clone(), self.terms.clone());
        let lower = ceiling(&old).min(ceiling(&new));
        let is_limited = old.ceiling.is_some() || new.ceiling.is_some();
        let terms = Terms {
            ceiling: is_limited.then(|| lower.id().to_owned()),
            system_prompt: new.system_prompt.or(old.system_prompt),
            model: old.model,
            tools: match (old.tools, new.tools) {
                (Some(old), Some(new)) => Some(in_both(OfferedTools(old), OfferedTools(new))),
                (old, new) => old.or(new),
            },
            turn_steps: old.turn_steps.into_iter().chain(new.turn_steps).min(),
        };
        Header { extra_roots: directories, terms, ..stored.clone() }
    }
}

/// What both lists offer.
fn in_both(old: OfferedTools, new: OfferedTools) -> Vec<String> {
    let narrower = new.0.iter().filter(|name| old.offers(name) && !old.0.contains(name)).cloned();
    let narrower: Vec<_> = narrower.collect();
    old.0.into_iter().filter(|name| new.offers(name)).chain(narrower).collect()
}

fn declared_ceiling(value: &Value) -> Result<String, Error> {
    let mode = value.as_str().and_then(Mode::from_id);
    mode.map(|mode| mode.id().to_owned()).ok_or_else(|| {
        let known = Mode::ALL.map(Mode::id).join(", ");
        errors::invalid_params(&format!("_meta[\"{CEILING}\"] must be one of {known}"))
    })
}

/// The protocol's own form.
fn of_wire(prompt: &WirePrompt) -> Result<SystemPrompt, Error> {
    let replaces = match prompt.mode {
        SystemPromptMode::Append => false,
        SystemPromptMode::Override => true,
        _ => {
            let reason = "systemPrompt: `mode` must be `append` or `override`";
            return Err(errors::invalid_params(reason));
        }
    };
    let texts = prompt.content.iter().map(|block| match block {
        ContentBlock::Text(text) => Ok(text.text.as_str()),
        _ => Err(errors::invalid_params("systemPrompt: `content` may hold text only")),
    });
    checked(texts.collect::<Result<Vec<_>, _>>()?.join("\n\n"), replaces)
}

/// The older form: a text instead of the agent's own, or one to append.
fn of_meta(prompt: &Value) -> Result<SystemPrompt, Error> {
    match (prompt.as_str(), prompt.get("append").and_then(Value::as_str)) {
        (Some(text), _) => checked(text.to_owned(), true),
        (None, Some(text)) => checked(text.to_owned(), false),
        (None, None) => {
            let reason = "_meta.systemPrompt must be a text, or an object with the text `append`";
            Err(errors::invalid_params(reason))
        }
    }
}

fn checked(text: String, replaces: bool) -> Result<SystemPrompt, Error> {
    let problem = match text.len() {
        _ if text.trim().is_empty() => "is empty".to_owned(),
        length if length > MAX_PROMPT => format!("is longer than {MAX_PROMPT} bytes"),
        _ => return Ok(SystemPrompt { text, replaces }),
    };
    Err(errors::invalid_params(&format!("the system prompt {problem}")))
}

/// A model by its whole name or that of its provider; the session begins with another one where
/// there is none.
fn known_model(app: &App, name: &str, notes: &mut Vec<String>) -> Option<String> {
    let models = app.models();
    let is = |route: &Route| route.to_string() == name || &*route.model == name;
    let known = models.iter().find(|choice| is(&choice.route));
    if known.is_none() {
        let name = text::shorten(&text::visible(name), 100);
        notes.push(format!("There is no model `{name}`; the session begins with another one"));
    }
    known.map(|choice| choice.route.to_string())
}

fn tool_names(value: &Value, notes: &mut Vec<String>) -> Result<Vec<String>, Error> {
    let wrong =
        || errors::invalid_params("claudeCode.options.allowedTools must be a list of names");
    let names = value.as_array().ok_or_else(wrong)?.iter();
    let names = names.map(|name| name.as_str().ok_or_else(wrong)).collect::<Result<Vec<_>, _>>()?;
    let (imported, own): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| name.starts_with(IMPORTED));
    let own = own.into_iter().map(|name| {
        let small = name.to_lowercase();
        let other = OTHER_NAMES.iter().find(|(other, _)| *other == small);
        other.map_or(small, |(_, own)| (*own).to_owned())
    });
    let (mut known, unknown): (Vec<_>, Vec<_>) = own.partition(|name| {
        let name = name.as_str();
        bridle_toolkit::TOOL_NAMES.contains(&name) || bridle_lsp::TOOL_NAMES.contains(&name)
    });
    known.extend(imported.into_iter().map(imported_tools));
    if !unknown.is_empty() {
        let unknown = text::shorten(&text::visible(&unknown.join(", ")), 200);
        notes.push(format!("These of the allowed tools are not known here: {unknown}"));
    }
    Ok(known)
}

/// A tool of an MCP server, or all of a server that is named alone.
fn imported_tools(name: &str) -> String {
    match name.strip_prefix(IMPORTED) {
        Some(server) if !server.contains("__") && !name.ends_with('*') => format!("{name}__*"),
        _ => name.to_owned(),
    }
}

fn whole_number(value: &Value) -> Result<NonZeroU64, Error> {
    value.as_u64().and_then(NonZeroU64::new).ok_or_else(|| {
        errors::invalid_params("claudeCode.options.maxTurns must be a whole number above 0")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lists_of_tools_allow_what_both_do() {
        let list = |names: &[&str]| OfferedTools(names.iter().map(ToString::to_string).collect());
        for (old, new, both) in [
            (vec!["read", "shell"], vec!["edit", "read"], vec!["read"]),
            (vec!["mcp__s__*", "read"], vec!["mcp__s__echo"], vec!["mcp__s__echo"]),
            (vec!["mcp__s__echo"], vec!["mcp__s__*", "read"], vec!["mcp__s__echo"]),
            (vec!["mcp__s__*"], vec!["mcp__s__*"], vec!["mcp__s__*"]),
            (vec!["mcp__s__*"], vec!["mcp__t__*"], vec![]),
        ] {
            assert_eq!(in_both(list(&old), list(&new)), both, "{old:?} and {new:?}");
        }
    }
}
