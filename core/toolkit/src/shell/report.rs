//! How a finished command reads: its output, then how it ended.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use bridle_agent::{Confinement, ToolFailure};
use bridle_session::{BlobRef, Content};
use bridle_world::path_text;
use bridle_world::process::{Finished, MAX_TIMEOUT, ProcessError};
use bridle_world::sandbox::{Denial, MAX_DENIALS, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::clean::clean;
use super::spool::Kept;

/// How many files of one kind are named.
const MAX_NAMED: usize = 20;

/// A command that has ended.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Report {
    /// What it wrote, as plain text.
    output: String,
    /// How it ended, in words.
    end: Vec<String>,
    pub(super) facts: Facts,
    /// All that it wrote, where `output` is only the two ends.
    #[schemars(with = "Option<Value>")]
    pub(super) whole: Option<BlobRef>,
}

/// How it ended, as data.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Facts {
    exit_code: Option<i32>,
    signal: Option<i32>,
    timed_out: bool,
    cancelled: bool,
    output_bytes: u64,
    output_lines: u64,
    omitted_bytes: u64,
    stored_bytes: u64,
    ended_background_processes: usize,
    left_processes: usize,
    /// It had so many processes and threads at once that no further could be started.
    process_limit_reached: bool,
    /// What its sandbox refused it: paths, or `network`.
    denied: Vec<String>,
    /// Protected files that are not as they were before.
    altered: Vec<String>,
    /// Where that is now which came meanwhile and that others would have executed or obeyed.
    put_aside: Vec<String>,
}

impl Report {
    /// `kept` is the blob of an output that memory has not kept whole, or why there is none.
    pub(super) fn of(
        finished: &Finished,
        timeout: Duration,
        granted: Confinement,
        kept: &Kept,
    ) -> Self {
        let mut end = end(finished, Some(timeout), granted);
        end.extend(not_kept(finished, kept));
        let whole = kept.clone().unwrap_or_default();
        Self { output: finished.output.text(clean), end, facts: Facts::of(finished), whole }
    }

    /// What the model reads of it.
    pub(super) fn content(&self) -> Content {
        content(self.text(), self.whole.as_ref())
    }

    /// The output, then how it ended.
    pub(super) fn text(&self) -> String {
        with_end(self.output.clone(), &self.end)
    }
}

impl Facts {
    pub(crate) fn of(finished: &Finished) -> Self {
        Self {
            exit_code: finished.exit_code,
            signal: finished.signal,
            timed_out: finished.timed_out,
            cancelled: finished.cancelled,
            output_bytes: finished.output.total_bytes(),
            output_lines: finished.output.total_lines(),
            omitted_bytes: finished.output.omitted_bytes(),
            stored_bytes: finished.spooled.bytes,
            ended_background_processes: finished.survivors,
            left_processes: finished.left,
            process_limit_reached: finished.crowded,
            denied: denied(&finished.denied).iter().map(ToString::to_string).collect(),
            altered: named(finished.altered.iter()),
            put_aside: named(finished.put_aside.iter().map(|it| &it.to)),
        }
    }
}

/// What of an output is not in the blob that should hold the whole of it.
pub(crate) fn not_kept(finished: &Finished, kept: &Kept) -> Option<String> {
    let total = finished.output.total_bytes();
    match kept {
        Err(why) => Some(format!("what is omitted is lost: it could not be stored, because {why}")),
        Ok(Some(blob)) if blob.bytes < total => {
            Some(format!("only the first {} of {total} bytes are kept", blob.bytes))
        }
        Ok(_) => None,
    }
}

/// A text for the model, and with it the whole of what it tells of.
pub(crate) fn content(text: String, whole: Option<&BlobRef>) -> Content {
    match whole.cloned() {
        Some(blob) => Content::Blob { blob, mime_type: "text/plain".to_owned(), preview: text },
        None => Content::text(text),
    }
}

/// An output, then one line in brackets for each fact about the end.
pub(crate) fn with_end(mut text: String, end: &[String]) -> String {
    if text.is_empty() {
        text.push_str("(no output)");
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    for fact in end {
        text.push_str(&format!("[{fact}]\n"));
    }
    text
}

/// How a command ended that was `granted` so much, in words.
pub(crate) fn end(
    finished: &Finished,
    timeout: Option<Duration>,
    granted: Confinement,
) -> Vec<String> {
    let mut facts = Vec::new();
    if finished.timed_out {
        let seconds = timeout.unwrap_or_default().as_secs();
        let most = MAX_TIMEOUT.as_secs();
        facts.push(format!("timed out after {seconds} s and was ended; timeout_s may be {most}"));
    }
    if finished.cancelled {
        facts.push("cancelled and ended; its effect may be partial".to_owned());
    }
    match (finished.exit_code, finished.signal) {
        (Some(code), _) => facts.push(format!("exit code {code}")),
        (None, Some(signal)) => facts.push(format!("ended by signal {signal}")),
        (None, None) => facts.push("it was not started".to_owned()),
    }
    let end_was_ordered = finished.timed_out || finished.cancelled;
    match finished.survivors {
        0 => {}
        _ if end_was_ordered => {}
        1 => facts.push("1 background process was still running and was ended".to_owned()),
        many => {
            facts.push(format!("{many} background processes were still running and were ended"))
        }
    }
    if finished.crowded {
        facts.push(
            "it had as many processes and threads at once as a command may have (`max_processes`), \
             and no further could be started"
                .to_owned(),
        );
    }
    if finished.left > 0 {
        facts.push(format!("{} of its processes could not be ended and may go on", finished.left));
    }
    facts.extend(refusals(finished, granted));
    facts
}

/// What stood in a command's way, in words that say what would help.
pub(crate) fn refusals(finished: &Finished, granted: Confinement) -> Vec<String> {
    let instead = wider(finished.exit_code, granted, "call again");
    let mut facts = refused(denied(&finished.denied), instead);
    if finished.denied == Verdict::Suspected {
        facts.push(
            "it ran in a sandbox that cannot tell what it refuses: that may be why it failed"
                .to_owned(),
        );
    }
    if !finished.altered.is_empty() {
        let paths = named(finished.altered.iter()).join(", ");
        facts.push(format!("protected files are not as they were before: {paths}"));
    }
    if !finished.put_aside.is_empty() {
        let from = named(finished.put_aside.iter().map(|it| &it.from)).join(", ");
        let to = named(finished.put_aside.iter().map(|it| &it.to)).join(", ");
        facts.push(format!(
            "while it ran, protected names appeared that other programs execute or obey: {from}; \
             they were put aside, nothing is lost: {to}"
        ));
    }
    facts
}

/// Paths as text, and how many more there are.
fn named<'a>(paths: impl ExactSizeIterator<Item = &'a PathBuf>) -> Vec<String> {
    let more = paths.len().saturating_sub(MAX_NAMED);
    let mut named: Vec<String> = paths.take(MAX_NAMED).map(|path| path_text(path)).collect();
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    named
}

/// What may have more than was `granted`, where that is worth it: what succeeded all the same is not
/// worth asking a person for, and where a command may change nothing nobody would be asked.
pub(crate) fn wider(exit_code: Option<i32>, granted: Confinement, instead: &str) -> Option<&str> {
    (exit_code != Some(0) && granted > Confinement::ReadOnly).then_some(instead)
}

/// What a sandbox refused; `instead` may have it, where it is worth it.
pub(crate) fn refused(denials: &[Denial], instead: Option<&str>) -> Vec<String> {
    let mut facts = Vec::new();
    let (network, paths): (Vec<_>, Vec<_>) =
        denials.iter().partition(|denial| matches!(denial, Denial::Network(_)));
    let wider = |needs: &str| match instead {
        None => String::new(),
        Some(instead) => format!(
            "; if the task needs that, {instead} with `needs`: [\"{needs}\"] and a `reason`"
        ),
    };
    if !network.is_empty() {
        let at = network.iter().filter_map(|denial| match denial {
            Denial::Network(Some(address)) => Some(address.to_string()),
            Denial::Network(None) | Denial::Path(_) => None,
        });
        let at = at.collect::<Vec<_>>().join(", ");
        let at = if at.is_empty() { at } else { format!(" ({at})") };
        facts.push(format!("its sandbox refused it the network{at}{}", wider("network")));
    }
    if !paths.is_empty() {
        let why = reasons(&paths);
        let mut paths: Vec<_> = paths.iter().map(ToString::to_string).collect();
        if denials.len() == MAX_DENIALS {
            paths.push("and perhaps more".to_owned());
        }
        let (paths, wider) = (paths.join(", "), wider("unconfined"));
        facts.push(format!("its sandbox refused it to change {paths}{why}{wider}"));
    }
    facts
}

/// Why git is refused what looks like daily work, and what can be done instead.
fn reasons(denials: &[&Denial]) -> String {
    let is_git = |name: &OsStr| name.eq_ignore_ascii_case(".git");
    let changed = denials.iter().filter_map(|denial| match denial {
        Denial::Path(path) => Some(path.as_path()),
        Denial::Network(_) => None,
    });
    let (mut configuration, mut repository) = (false, false);
    for path in changed {
        let name = path.file_name().unwrap_or_default();
        let within = path.parent().is_some_and(|folder| folder.iter().any(is_git));
        configuration |= within && name.to_string_lossy().starts_with("config");
        repository |= is_git(name);
    }
    let mut why = String::new();
    if configuration {
        why.push_str(
            "; git executes what its configuration names, so commands cannot change that: renaming or \
             deleting a branch or setting its upstream leaves it as it is",
        );
    }
    if repository {
        why.push_str(
            "; a repository brings a configuration, so commands cannot make one in the workspace: in \
             `$TMPDIR` they can clone, add a worktree and init",
        );
    }
    why
}

fn denied(verdict: &Verdict) -> &[Denial] {
    match verdict {
        Verdict::Confirmed { what } => what,
        Verdict::None | Verdict::Suspected => &[],
    }
}

/// A command that could not be run or followed, for the model.
pub(crate) fn not_run(error: ProcessError) -> ToolFailure {
    let what = match error {
        ProcessError::WorkingDirectory { .. } => {
            "The command was not run; create the folder first."
        }
        ProcessError::Program { .. } => {
            "The command was not run. A very long command belongs into a script file: `write` it, \
             then run it."
        }
        ProcessError::Sandbox { .. } => {
            "The command was not run, and it is not run without its sandbox."
        }
        ProcessError::Supervisor { .. } => {
            "Unless the command itself did this, it is a fault of Bridle; whether the command had \
             any effect is unknown."
        }
    };
    ToolFailure::failed(format!("{error}. {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_is_refused_says_why_and_what_to_do() {
        let told = |paths: &[&str]| {
            let denials: Vec<_> = paths.iter().map(|path| Denial::Path(path.into())).collect();
            refused(&denials, Some("call again")).join("\n")
        };
        let ask =
            "; if the task needs that, call again with `needs`: [\"unconfined\"] and a `reason`";
        assert_eq!(
            told(&["/ws/.git/config"]),
            format!(
                "its sandbox refused it to change /ws/.git/config; git executes what its configuration \
                 names, so commands cannot change that: renaming or deleting a branch or setting its \
                 upstream leaves it as it is{ask}"
            )
        );
        assert!(told(&["/ws/.git/modules/a/config.lock"]).contains("git executes"));
        let new = told(&["/ws/c/.git"]);
        assert!(new.contains("in `$TMPDIR` they can clone") && new.ends_with(ask), "{new}");
        for other in ["/ws/.vscode/tasks.json", "/etc/config", "/ws/.git/hooks/pre-commit"] {
            assert_eq!(told(&[other]), format!("its sandbox refused it to change {other}{ask}"));
        }
    }
}
