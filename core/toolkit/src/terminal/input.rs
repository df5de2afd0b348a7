//! What a call may type, and when it makes sense.

use bridle_agent::ToolFailure;
use schemars::JsonSchema;
use serde::Deserialize;

use super::prompt::{COMMAND_LIMIT, LINE_LIMIT};
use super::shell::Shell;
use crate::arguments::Arguments;
use crate::shell::Need;

/// Arguments of `terminal`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TerminalArguments {
    /// What the shell is to do: one line or several.
    command: Option<String>,
    /// A line for the program that runs.
    text: Option<String>,
    /// Whether a line end is typed behind `text`. Without it: yes.
    enter: Option<bool>,
    /// A key for the program that runs.
    key: Option<Key>,
    /// What a new shell needs beyond writing in the workspace; a person is asked, then and for each
    /// line.
    #[serde(default)]
    pub(super) needs: Vec<Need>,
    /// Why it needs that, in one sentence for the person who is asked.
    pub(super) reason: Option<String>,
    /// Whether to end the shell with everything that runs in it.
    #[serde(default)]
    close: bool,
    /// Which terminal; one that is not there yet is opened by `command`. Without it: main.
    pub(super) name: Option<String>,
    /// How many seconds to wait at most, 1 to 600. Without it: 30.
    #[schemars(range(min = 1, max = 600))]
    pub(super) timeout_s: Option<u64>,
}

/// A key that ends or stops something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub(super) enum Key {
    #[serde(rename = "ctrl-c")]
    Interrupt,
    #[serde(rename = "ctrl-d")]
    EndOfInput,
    #[serde(rename = "ctrl-z")]
    Suspend,
    #[serde(rename = "ctrl-\\")]
    Quit,
}

impl Key {
    pub(super) fn byte(self) -> u8 {
        match self {
            Self::Interrupt => 0x03,
            Self::EndOfInput => 0x04,
            Self::Suspend => 0x1a,
            Self::Quit => 0x1c,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "ctrl-c",
            Self::EndOfInput => "ctrl-d",
            Self::Suspend => "ctrl-z",
            Self::Quit => "ctrl-\\",
        }
    }
}

impl Arguments for TerminalArguments {
    const TOOL: &'static str = "terminal";
}

/// What a call does.
#[derive(Debug)]
pub(super) enum Input {
    Command(String),
    /// With its line end, if it has one.
    Text(String),
    Key(Key),
    Look,
    Close,
}

impl Input {
    pub(super) fn of(arguments: &mut TerminalArguments) -> Result<Self, ToolFailure> {
        let bad =
            |what: &str| Err(ToolFailure::bad_arguments(format!("{what}; nothing was typed.")));
        let enter = arguments.enter.unwrap_or(true);
        let all = (arguments.command.take(), arguments.text.take(), arguments.key, arguments.close);
        let input = match all {
            (Some(command), None, None, false) => Self::Command(command),
            (None, Some(text), None, false) => Self::Text(text + if enter { "\n" } else { "" }),
            (None, None, Some(key), false) => Self::Key(key),
            (None, None, None, true) => Self::Close,
            (None, None, None, false) => Self::Look,
            _ => return bad("Only one of `command`, `text`, `key` and `close` can be given"),
        };
        match &input {
            Self::Command(command) if command.trim().is_empty() || command.contains('\0') => {
                bad("`command` is empty or holds a NUL character")
            }
            Self::Command(command) if command.len() > COMMAND_LIMIT => bad(&format!(
                "`command` is longer than {COMMAND_LIMIT} bytes: `write` it into a file and run that"
            )),
            Self::Text(text) if text.lines().any(|line| line.len() > LINE_LIMIT) => {
                bad(&format!("A line of `text` is longer than {LINE_LIMIT} bytes"))
            }
            _ => Ok(input),
        }
    }
}

/// Whether a call makes sense as the shell stands.
pub(super) fn admit(name: &str, input: &Input, shell: Option<&Shell>) -> Result<(), ToolFailure> {
    let live = shell.filter(|shell| shell.state().end.is_none());
    match (input, live.map(Shell::runs)) {
        (Input::Command(_), Some(Some(command))) => Err(ToolFailure::failed(format!(
            "`{command}` still runs in the terminal `{name}`; nothing was typed. Wait by a call \
             without input, answer it by `text`, end it by a `key`, or use another `name`."
        ))),
        (Input::Text(_) | Input::Key(_), Some(None)) if !input.ends_shell() => {
            Err(ToolFailure::failed(format!(
                "Nothing runs in the terminal `{name}`; nothing was typed. What the shell is to do \
                 is a `command`."
            )))
        }
        (Input::Command(_), _) | (_, Some(_)) => Ok(()),
        // The end of a shell is looked at once.
        (Input::Look, None) if shell.is_some() => Ok(()),
        (_, None) => Err(ToolFailure::failed(format!(
            "There is no terminal `{name}` open; a `command` opens it."
        ))),
    }
}

impl Input {
    /// Whether it ends a shell that is at its prompt.
    fn ends_shell(&self) -> bool {
        matches!(self, Self::Key(Key::EndOfInput))
    }
}
