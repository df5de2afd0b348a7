//! The words and numbers that all readable forms share.

use std::time::Duration;

use bridle_agent::{Asked, Call, Display, Notice, NoticeLevel, ToolKind, ToolStatus};
use bridle_session::{TodoStatus, ToolErrorCode};

use super::report::Report;
use crate::tally::number;

/// How a call stands, in one word or two.
pub(super) fn status(call: &Call<'_>) -> &'static str {
    match (call.status, call.result.and_then(|result| result.error)) {
        (ToolStatus::Pending, _) => "waiting",
        (ToolStatus::Running, _) => "running",
        (ToolStatus::Completed, _) => "done",
        (ToolStatus::Failed, None) => "result lost",
        (ToolStatus::Failed, Some(error)) => match error {
            ToolErrorCode::UnknownTool => "unknown tool",
            ToolErrorCode::BadArguments => "bad arguments",
            ToolErrorCode::Denied => "not permitted",
            ToolErrorCode::AbortedBeforeDispatch => "cancelled before it ran",
            ToolErrorCode::Aborted => "cancelled",
            ToolErrorCode::Failed => "failed",
            ToolErrorCode::ToolNotStarted => "not started",
            ToolErrorCode::ToolOutcomeUnknown => "outcome unknown",
        },
    }
}

/// What sort of call it is, where its title does not begin with that.
pub(super) fn kind(display: &Display) -> Option<&'static str> {
    let kind = match display.kind {
        ToolKind::Read => "Read",
        ToolKind::Edit => "Edit",
        ToolKind::Delete => "Delete",
        ToolKind::Move => "Move",
        ToolKind::Search => "Search",
        ToolKind::Execute => "Run",
        ToolKind::Think | ToolKind::SwitchMode | ToolKind::Other => "Tool",
    };
    (!display.title.starts_with(kind)).then_some(kind)
}

/// What came of a question.
pub(super) fn decision(asked: &Asked<'_>) -> &'static str {
    match asked.decision {
        None => "not answered",
        Some(decision) if decision.allowed => "allowed once",
        Some(decision) => match decision.by.as_str() {
            "client" => "refused",
            "cancelled" => "refused: the turn was cancelled",
            "no-approver" => "refused: there was nobody to ask",
            _ => "refused: no valid answer came",
        },
    }
}

/// A notice as a sentence, its weight included.
pub(super) fn sentence(notice: &Notice) -> String {
    let head = match notice.level {
        NoticeLevel::Info => "",
        NoticeLevel::Warning => "Warning: ",
        NoticeLevel::Error => "Error: ",
    };
    match &notice.detail {
        None => format!("{head}{}", notice.title),
        Some(detail) => format!("{head}{} {detail}", notice.title),
    }
}

/// `<0.1 s`, `0.3 s`, `12 s`, `3 min 5 s`, `2 h 4 min`.
pub(super) fn duration(took: Duration) -> String {
    let seconds = took.as_secs();
    match seconds {
        0 if took.as_millis() < 50 => "<0.1 s".to_owned(),
        0..10 => format!("{:.1} s", took.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// `1 turn`, `2 turns`.
pub(super) fn count(amount: usize, one: &str) -> String {
    let plural = if amount == 1 { "" } else { "s" };
    format!("{} {one}{plural}", number(amount as u64))
}

/// `1 MB`, for people.
pub(super) fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// Argument text for reading; as the model wrote it when it is not JSON.
pub(super) fn pretty(arguments: &str) -> String {
    let value = serde_json::from_str::<serde_json::Value>(arguments);
    let pretty = value.and_then(|value| serde_json::to_string_pretty(&value));
    pretty.unwrap_or_else(|_| arguments.to_owned())
}

/// How far a thing to be done is, as a mark.
pub(super) fn mark(status: TodoStatus) -> &'static str {
    match status {
        TodoStatus::Pending => "☐",
        TodoStatus::InProgress => "▶",
        TodoStatus::Completed => "☑",
    }
}

/// The models of a session, in the order in which they first answered.
pub(super) fn models(report: &Report<'_>) -> String {
    let names: Vec<_> = report.usage.routes.iter().map(|used| used.route.to_string()).collect();
    if names.is_empty() { "no answer yet".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_for_people() {
        assert_eq!(count(1, "turn"), "1 turn");
        assert_eq!(count(0, "turn"), "0 turns");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1_250_000), "1.2 MB");
        let shown = [0, 9_940, 59_000, 185_000, 7_440_000]
            .map(|millis| duration(Duration::from_millis(millis)));
        assert_eq!(shown, ["<0.1 s", "9.9 s", "59 s", "3 min 5 s", "2 h 4 min"]);
    }
}
