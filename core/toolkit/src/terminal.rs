//! `terminal`: a shell that stays, for state that must live from call to call.
//!
//! Each line that is typed is a command, judged like one of `shell`; looking, the keys that end or
//! stop something, and closing need no permission. What a shell may do was granted to the call that
//! opened it and holds as long as it lives: later calls are judged as if they asked for that, and are
//! refused where less is granted. The tool is optional: a user's setting adds its row.

mod input;
mod prompt;
mod shell;
mod shells;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bridle_agent::{
    Access, Confinement, Display, Grant, PlannedCall, Sandboxing, Tool, ToolContext, ToolFailure,
    ToolKind, ToolOutcome,
};
use bridle_compose::{ActivateError, Clock, Plugin, Setup};
use bridle_model::ToolSpec;
use bridle_session::Content;
use bridle_world::Roots;
use bridle_world::process::{Capture, Processes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use self::input::{Input, TerminalArguments, admit};
use self::shell::{Shell, Stop, Wait, in_words};
use self::shells::Shells;
use crate::arguments::{Arguments as _, peek, value_schema};
use crate::file_tool::{render, to_value};
use crate::sandbox::CommandSandbox;
use crate::shell::clean::clean;
use crate::shell::{LIVE_LIMIT, Need, report};
use crate::target::{fenced, one_line};

/// The name of the terminal that is meant when none is named.
const DEFAULT_NAME: &str = "main";

/// The longest name of a terminal, in bytes.
const NAME_LIMIT: usize = 32;

/// How long a call waits when nobody said otherwise.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);

const DESCRIPTION: &str = "\
Types into a bash that stays open on a terminal of its own, so that the directory, variables, jobs \
and programs live on from call to call; use `shell` for everything else. Give one of `command` (for \
the shell, when nothing runs in it), `text` (for the program that runs), `key` and `close`, or \
nothing to look and wait on. Returns what was written since the last call, once the shell is at its \
prompt, once a program has written something and then nothing for 2 s, or after `timeout_s`: a \
program that still runs then goes on. Nothing that is typed is echoed. Of long output you get the \
two ends. A shell is confined as a command of `shell` is; what it needs beyond that goes into `needs` of \
the call that opens it.";

/// What a model can do about a shell that may do too little.
const OPEN_ANOTHER: &str = "`close` it and open it again";

/// Puts the tool into the scope of a session. Closing the row ends every shell and awaits it.
pub(crate) struct TerminalPlugin;

#[async_trait]
impl Plugin for TerminalPlugin {
    const NAME: &'static str = TerminalArguments::TOOL;
    type Config = ();
    type Needs = (Arc<Roots>, Arc<Processes>, Arc<CommandSandbox>, Arc<dyn Clock>);

    async fn activate(
        &self,
        (): (),
        (roots, processes, sandbox, clock): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let shells = Arc::new(Shells {
            roots,
            processes: Processes::clone(&processes),
            sandbox,
            clock,
            tasks: setup.scope().tasks().clone(),
            closing: setup.token().clone(),
            all: Mutex::default(),
        });
        let ending = Arc::clone(&shells);
        setup.on_retract("the terminals", move || async move {
            ending.end_all().await;
            Ok(())
        })?;
        let (spec, values) = (TerminalArguments::spec(DESCRIPTION), value_schema::<Look>());
        Ok(setup.add::<dyn Tool>(Self::NAME, Arc::new(TerminalTool { shells, spec, values }))?)
    }
}

/// What a call yields.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Look {
    /// What was written, as plain text.
    output: String,
    /// Where the shell stands, in words.
    end: Vec<String>,
    facts: Facts,
}

/// Where it stands, as data.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Facts {
    terminal: String,
    /// The exit code of what the call ran or waited for, if that has ended.
    exit_code: Option<i32>,
    running: bool,
    timed_out: bool,
    /// What runs has written something and then nothing for a while.
    quiet: bool,
    /// The shell itself has ended.
    ended: bool,
    new_shell: bool,
    output_bytes: u64,
    omitted_bytes: u64,
}

impl Look {
    fn text(&self) -> String {
        report::with_end(self.output.clone(), &self.end)
    }
}

struct TerminalTool {
    shells: Arc<Shells>,
    spec: ToolSpec,
    values: Box<RawValue>,
}

#[async_trait]
impl Tool for TerminalTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn value_schema(&self) -> Option<&RawValue> {
        Some(&self.values)
    }

    fn render(&self, value: &Value) -> Vec<Content> {
        render(value, |look: &Look| vec![Content::text(look.text())])
    }

    async fn plan(
        &self,
        arguments: Value,
        _: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        let mut arguments = TerminalArguments::decode(arguments)?;
        let input = Input::of(&mut arguments)?;
        let name = arguments.name.unwrap_or_else(|| DEFAULT_NAME.to_owned());
        if name.is_empty() || name.len() > NAME_LIMIT {
            return Err(ToolFailure::bad_arguments(format!(
                "`name` must have 1 to {NAME_LIMIT} bytes; nothing was typed."
            )));
        }
        let shell = self.shells.find(&name);
        admit(&name, &input, shell.as_deref())?;
        let shell = shell.filter(|shell| shell.state().end.is_none());
        let open = shell.as_ref().map(|shell| shell.confinement);
        let needed = arguments.needs.iter().map(|need| need.confinement()).max();
        if let (Some(open), Some(needed)) = (open, needed)
            && open < needed
        {
            return Err(ToolFailure::failed(format!(
                "The terminal `{name}` was opened without these `needs`; nothing was typed. \
                 {OPEN_ANOTHER} with them, or use another `name`."
            )));
        }
        Ok(Box::new(PlannedTyping {
            shells: Arc::clone(&self.shells),
            name,
            input,
            line: shell.as_ref().map(|shell| shell.line()).unwrap_or_default(),
            limit: arguments.timeout_s.map_or(DEFAULT_WAIT, Duration::from_secs),
            needs: arguments.needs,
            reason: arguments.reason,
            open,
            sandboxing: self.shells.sandbox.sandboxing().await,
        }))
    }

    fn outline(&self, arguments: &str) -> Display {
        let typed = ["command", "text", "key"].iter().find_map(|name| peek(arguments, name));
        display(typed.as_deref().unwrap_or_default())
    }
}

/// What is typed as a title, and whole below it where one short line does not do.
fn display(typed: &str) -> Display {
    let typed = typed.trim_end_matches('\n');
    let title = one_line(typed);
    let text = (title != typed).then(|| fenced("sh", typed));
    let title = format!("{}: {title}", TerminalArguments::TOOL);
    Display { text, ..Display::new(title.trim_end_matches(": "), ToolKind::Execute) }
}

struct PlannedTyping {
    shells: Arc<Shells>,
    name: String,
    input: Input,
    /// What was typed before of the same line.
    line: String,
    limit: Duration,
    needs: Vec<Need>,
    reason: Option<String>,
    /// What the shell may do, if it is open.
    open: Option<Confinement>,
    sandboxing: Sandboxing,
}

#[async_trait]
impl PlannedCall for PlannedTyping {
    fn display(&self) -> Display {
        match &self.input {
            Input::Command(command) => display(command),
            Input::Text(text) => display(&format!("{}{text}", self.line)),
            Input::Key(key) => display(key.name()),
            Input::Look => display("look"),
            Input::Close => display("close"),
        }
    }

    fn access(&self) -> Vec<Access> {
        let command = match &self.input {
            Input::Command(command) => command.clone(),
            // The whole line is what is read, in however many pieces it is typed.
            Input::Text(text) => format!("{}{}", self.line, text.trim_end_matches('\n')),
            Input::Key(_) | Input::Look | Input::Close => return Vec::new(),
        };
        let has = |need: Need| self.open == Some(need.confinement()) || self.needs.contains(&need);
        // Where there is no sandbox, every shell is out of it.
        let sandboxed = self.sandboxing != Sandboxing::Unavailable;
        vec![Access::Run {
            command,
            network: has(Need::Network),
            unconfined: sandboxed && has(Need::Unconfined),
            reason: self.reason.clone(),
            sandboxing: self.sandboxing,
        }]
    }

    async fn run(
        self: Box<Self>,
        grant: Grant,
        context: ToolContext,
    ) -> Result<ToolOutcome, ToolFailure> {
        let mut display = self.display();
        let mut news = None;
        let granted = grant.confinement();
        let shell = match (&self.input, self.shells.find(&self.name)) {
            (Input::Command(_), _) => {
                let (shell, new) = self.shells.open(&self.name, granted, &context.token).await?;
                news = new;
                Some(shell)
            }
            (_, shell) => shell,
        };
        admit(&self.name, &self.input, shell.as_deref())?;
        let Some(shell) = shell else { return Err(ToolFailure::failed("There is no terminal.")) };
        let types = matches!(self.input, Input::Command(_) | Input::Text(_));
        if types && shell.confinement > granted {
            return Err(ToolFailure::failed(format!(
                "The terminal `{}` was opened when more was allowed; nothing was typed. `close` it: \
                 the next `command` opens one for what is allowed now.",
                self.name
            )));
        }
        let (look, cancelled) = self.act(&shell, news, &context).await;
        let text = look.text();
        display.text = Some(fenced("", &text));
        display.raw_output = Some(to_value(&look.facts)?);
        let failure = match look.facts.exit_code {
            _ if cancelled => ToolFailure::aborted(text),
            Some(code) if code != 0 && !look.facts.ended => ToolFailure::failed(text),
            _ => return Ok(ToolOutcome::new(to_value(&look)?, display)),
        };
        Err(ToolFailure { display: Some(display), ..failure })
    }
}

impl PlannedTyping {
    /// Types and waits; where the shell stands then, and whether the call was cancelled.
    async fn act(
        &self,
        shell: &Shell,
        news: Option<String>,
        context: &ToolContext,
    ) -> (Look, bool) {
        let new_shell = news.is_some();
        let mut end: Vec<String> = news.into_iter().collect();
        let stop = self.type_and_wait(shell, context, &mut end).await;
        let cancelled = stop == Some(Stop::Cancelled);
        if cancelled {
            end.push(self.stop(shell).await);
        }
        let exit_code = shell.take_code();
        let (runs, state) = (shell.runs(), shell.state());
        let limit = self.limit.as_secs();
        match (&state.end, exit_code, &runs) {
            (Some(ended), ..) if matches!(self.input, Input::Close) => {
                end.push("closed".to_owned());
                end.extend(
                    ended.iter().flat_map(|finished| report::refusals(finished, shell.confinement)),
                );
            }
            (Some(ended), ..) => end.push(format!(
                "the shell has ended: {}; the next `command` opens a new one",
                in_words(ended, shell.confinement)
            )),
            (None, Some(code), _) => end.push(format!("exit code {code}")),
            (None, None, None) => end.push("nothing runs".to_owned()),
            (None, None, Some(command)) => end.push(match stop {
                Some(Stop::Quiet) => format!(
                    "`{command}` still runs and has written nothing for a while: it may wait for \
                     `text`; a call without input waits on"
                ),
                _ => {
                    format!("`{command}` still runs after {limit} s; a call without input waits on")
                }
            }),
        }
        let instead = report::wider(exit_code, shell.confinement, OPEN_ANOTHER);
        end.extend(report::refused(&shell.denials(), instead));
        let output = shell.unread();
        let facts = Facts {
            terminal: self.name.clone(),
            exit_code,
            running: state.end.is_none() && runs.is_some(),
            timed_out: stop == Some(Stop::TimedOut),
            quiet: stop == Some(Stop::Quiet),
            ended: state.end.is_some(),
            new_shell,
            output_bytes: output.total_bytes(),
            omitted_bytes: output.omitted_bytes(),
        };
        (Look { output: output.text(clean), end, facts }, cancelled)
    }

    /// Why the wait was over, if there was anything to wait for.
    async fn type_and_wait(
        &self,
        shell: &Shell,
        context: &ToolContext,
        end: &mut Vec<String>,
    ) -> Option<Stop> {
        let typed = match &self.input {
            Input::Command(command) => {
                shell.enter(&one_line(command));
                prompt::typed(command)
            }
            Input::Text(text) => {
                shell.add(text);
                text.as_bytes().to_vec()
            }
            Input::Key(key) => vec![key.byte()],
            Input::Look if shell.runs().is_none() => return None,
            Input::Look => Vec::new(),
            Input::Close => {
                self.shells.close(&self.name).await;
                return None;
            }
        };
        if let Err((count, stop)) = shell.write(&typed, self.limit, &context.token).await {
            end.push(format!("only {count} of {} bytes were taken", typed.len()));
            return Some(stop);
        }
        let live = |output: &Capture| {
            context.progress.show(fenced("", &clean(&output.recent(LIVE_LIMIT))));
        };
        let or_quiet = !typed.is_empty();
        let wait = Wait { prompts: shell.prompt(), or_quiet, limit: self.limit };
        Some(shell.wait(wait, &context.token, live).await)
    }

    /// What a cancel comes to.
    async fn stop(&self, shell: &Shell) -> String {
        if shell.interrupt().await {
            return "cancelled: what ran was interrupted, the shell stays".to_owned();
        }
        shell.end().await;
        "cancelled: what ran did not end when it was interrupted, so the shell was ended with \
         everything in it"
            .to_owned()
    }
}
