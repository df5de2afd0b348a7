//! How a finished command reads: its output, then how it ended.

use std::time::Duration;

use bridle_agent::ToolFailure;
use bridle_world::process::{Finished, MAX_TIMEOUT, ProcessError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::clean::clean;

/// A command that has ended.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Report {
    /// What it wrote, as plain text.
    output: String,
    /// How it ended, in words.
    end: Vec<String>,
    pub(super) facts: Facts,
}

/// How it ended, as data.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Facts {
    exit_code: Option<i32>,
    signal: Option<i32>,
    timed_out: bool,
    cancelled: bool,
    output_bytes: u64,
    output_lines: u64,
    omitted_bytes: u64,
    ended_background_processes: usize,
    left_processes: usize,
}

impl Report {
    pub(super) fn of(finished: &Finished, timeout: Duration) -> Self {
        let facts = Facts {
            exit_code: finished.exit_code,
            signal: finished.signal,
            timed_out: finished.timed_out,
            cancelled: finished.cancelled,
            output_bytes: finished.output.total_bytes(),
            output_lines: finished.output.total_lines(),
            omitted_bytes: finished.output.omitted_bytes(),
            ended_background_processes: finished.survivors,
            left_processes: finished.left,
        };
        Self { output: finished.output.text(clean), end: end(finished, timeout), facts }
    }

    /// The output, then one line in brackets for each fact about the end.
    pub(super) fn text(&self) -> String {
        let mut text = self.output.clone();
        if text.is_empty() {
            text.push_str("(no output)");
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        for fact in &self.end {
            text.push_str(&format!("[{fact}]\n"));
        }
        text
    }
}

fn end(finished: &Finished, timeout: Duration) -> Vec<String> {
    let mut facts = Vec::new();
    if finished.timed_out {
        let (seconds, most) = (timeout.as_secs(), MAX_TIMEOUT.as_secs());
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
    if finished.left > 0 {
        facts.push(format!("{} of its processes could not be ended and may go on", finished.left));
    }
    facts
}

/// A command that could not be run or followed, for the model.
pub(super) fn not_run(error: ProcessError) -> ToolFailure {
    let what = match error {
        ProcessError::WorkingDirectory { .. } => {
            "The command was not run; create the folder first."
        }
        ProcessError::Program { .. } => {
            "The command was not run. A very long command belongs into a script file: `write` it, \
             then run it."
        }
        ProcessError::Supervisor { .. } => {
            "Unless the command itself did this, it is a fault of Bridle; whether the command had \
             any effect is unknown."
        }
    };
    ToolFailure::failed(format!("{error}. {what}"))
}
