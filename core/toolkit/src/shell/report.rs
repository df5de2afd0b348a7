//! How a finished command reads: its output, then how it ended.

use std::time::Duration;

use bridle_agent::ToolFailure;
use bridle_world::process::{Finished, MAX_TIMEOUT, ProcessError};
use serde_json::{Value, json};

use super::clean::clean;

/// The output as plain text, then one line in brackets for each fact about the end.
pub(super) fn text(finished: &Finished, timeout: Duration) -> String {
    let mut text = finished.output.text(clean);
    if text.is_empty() {
        text.push_str("(no output)");
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    for fact in facts(finished, timeout) {
        text.push_str(&format!("[{fact}]\n"));
    }
    text
}

fn facts(finished: &Finished, timeout: Duration) -> Vec<String> {
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

/// The facts as data.
pub(super) fn value(finished: &Finished) -> Value {
    json!({
        "exit_code": finished.exit_code,
        "signal": finished.signal,
        "timed_out": finished.timed_out,
        "cancelled": finished.cancelled,
        "output_bytes": finished.output.total_bytes(),
        "output_lines": finished.output.total_lines(),
        "omitted_bytes": finished.output.omitted_bytes(),
        "ended_background_processes": finished.survivors,
        "left_processes": finished.left,
    })
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
