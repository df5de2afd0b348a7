//! Tool calls and the question about one, as a client shows them.

use std::path::PathBuf;

use agent_client_protocol::v1::schema::{
    ContentBlock, Diff, PermissionOption, PermissionOptionKind, RequestPermissionRequest,
    SessionId, SessionUpdate, ToolCall, ToolCallContent, ToolCallLocation, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use bridle_agent::{Display, FileDiff, Location, Question, Subject, ToolStatus};
use bridle_session::ToolCallId;
use serde_json::Value;

use crate::acp::permission::{ALLOW_ONCE, REJECT_ONCE};
use crate::text;

/// The announcement of a call.
pub(super) fn call(
    id: &ToolCallId,
    name: String,
    arguments: &str,
    status: ToolStatus,
    display: Display,
) -> SessionUpdate {
    let shown = Shown::new(display);
    SessionUpdate::ToolCall(
        ToolCall::new(id.as_str().to_owned(), shown.title)
            .name(name)
            .kind(shown.kind)
            .status(self::status(status))
            .content(shown.content)
            .locations(shown.locations)
            .raw_input(raw_input(arguments))
            .raw_output(shown.raw_output),
    )
}

/// A step in the life of a call. What is not sent stays as it was.
pub(super) fn update(
    id: &ToolCallId,
    status: ToolStatus,
    display: Option<Display>,
) -> SessionUpdate {
    let mut fields = ToolCallUpdateFields::new().status(self::status(status));
    if let Some(display) = display {
        fields = Shown::new(display).into_fields(fields);
    }
    SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id.as_str().to_owned(), fields))
}

/// Live output of a running call, in the place of earlier output.
pub(super) fn progress(id: &ToolCallId, output: &str) -> SessionUpdate {
    let text = text::visible_block(output).into_owned();
    let content = vec![ToolCallContent::from(ContentBlock::from(text))];
    let fields = ToolCallUpdateFields::new().content(content);
    SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id.as_str().to_owned(), fields))
}

/// The question about one call. It repeats everything, because some clients decide from the
/// question alone, and offers one-time answers only: nothing here remembers more.
pub(in crate::acp) fn question(session: SessionId, question: Question) -> RequestPermissionRequest {
    let fields = ToolCallUpdateFields::new()
        .status(ToolCallStatus::Pending)
        .name(question.name)
        .raw_input(raw_input(&question.arguments));
    let fields = Shown::new(question.display).into_fields(fields);
    let call = ToolCallUpdate::new(question.call.as_str().to_owned(), fields);
    let (yes, no) = match question.subject {
        Subject::Call => ("Allow", "Reject"),
        Subject::Plan => ("Start with this plan", "Keep planning"),
    };
    let options = vec![
        PermissionOption::new(ALLOW_ONCE, yes, PermissionOptionKind::AllowOnce),
        PermissionOption::new(REJECT_ONCE, no, PermissionOptionKind::RejectOnce),
    ];
    RequestPermissionRequest::new(session, call, options)
}

/// A display in the protocol's terms.
struct Shown {
    title: String,
    kind: ToolKind,
    content: Vec<ToolCallContent>,
    locations: Vec<ToolCallLocation>,
    raw_output: Option<Value>,
}

impl Shown {
    fn new(display: Display) -> Self {
        let diffs = display.diffs.into_iter().map(|diff| ToolCallContent::Diff(self::diff(diff)));
        let text = display.text.map(|text| {
            ToolCallContent::from(ContentBlock::from(text::visible_block(&text).into_owned()))
        });
        Self {
            title: text::visible(&display.title).into_owned(),
            kind: kind(display.kind),
            content: diffs.chain(text).collect(),
            locations: display.locations.into_iter().map(location).collect(),
            raw_output: display.raw_output,
        }
    }

    fn into_fields(self, fields: ToolCallUpdateFields) -> ToolCallUpdateFields {
        fields
            .title(self.title)
            .kind(self.kind)
            .content(self.content)
            .locations(self.locations)
            .raw_output(self.raw_output)
    }
}

/// The arguments as data; as the model's own text when they are not JSON.
fn raw_input(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|_| Value::from(arguments))
}

fn status(status: ToolStatus) -> ToolCallStatus {
    match status {
        ToolStatus::Pending => ToolCallStatus::Pending,
        ToolStatus::Running => ToolCallStatus::InProgress,
        ToolStatus::Completed => ToolCallStatus::Completed,
        ToolStatus::Failed => ToolCallStatus::Failed,
    }
}

fn kind(kind: bridle_agent::ToolKind) -> ToolKind {
    match kind {
        bridle_agent::ToolKind::Read => ToolKind::Read,
        bridle_agent::ToolKind::Edit => ToolKind::Edit,
        bridle_agent::ToolKind::Delete => ToolKind::Delete,
        bridle_agent::ToolKind::Move => ToolKind::Move,
        bridle_agent::ToolKind::Search => ToolKind::Search,
        bridle_agent::ToolKind::Execute => ToolKind::Execute,
        bridle_agent::ToolKind::Think => ToolKind::Think,
        bridle_agent::ToolKind::SwitchMode => ToolKind::SwitchMode,
        bridle_agent::ToolKind::Other => ToolKind::Other,
    }
}

fn location(location: Location) -> ToolCallLocation {
    ToolCallLocation::new(location.path).line(location.line)
}

fn diff(diff: FileDiff) -> Diff {
    let path: PathBuf = diff.path;
    Diff::new(path, diff.new_text).old_text(diff.old_text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn display() -> Display {
        Display {
            locations: vec![Location { path: "/w/a.rs".into(), line: Some(3) }],
            diffs: vec![FileDiff {
                path: "/w/a.rs".into(),
                old_text: None,
                new_text: "x\u{1b}\n".into(),
            }],
            text: Some("out\u{1b}[31m\n".into()),
            ..Display::new("edit a\u{202e}.rs", bridle_agent::ToolKind::Edit)
        }
    }

    #[test]
    fn a_call_carries_everything_a_client_shows() {
        let id = ToolCallId::new("c1");
        let sent = call(&id, "edit".into(), r#"{"path":"a"}"#, ToolStatus::Running, display());
        assert_eq!(
            serde_json::to_value(sent).unwrap(),
            json!({
                "sessionUpdate": "tool_call", "toolCallId": "c1", "title": r"edit a\u{202e}.rs",
                "name": "edit", "kind": "edit", "status": "in_progress",
                "rawInput": {"path": "a"},
                "locations": [{"path": "/w/a.rs", "line": 3}],
                "content": [
                    {"type": "diff", "path": "/w/a.rs", "newText": "x\u{1b}\n"},
                    {"type": "content",
                        "content": {"type": "text", "text": "out\\u{1b}[31m\n"}},
                ],
            })
        );
    }

    #[test]
    fn arguments_that_are_no_json_are_shown_as_they_are() {
        assert_eq!(raw_input("{\"a\": tru"), json!("{\"a\": tru"));
    }

    #[test]
    fn a_question_stands_alone_and_offers_one_time_answers_only() {
        let asked = question(
            SessionId::new("s"),
            Question {
                call: ToolCallId::new("c1"),
                name: "edit".into(),
                arguments: r#"{"path":"a"}"#.into(),
                subject: Subject::Call,
                display: display(),
            },
        );
        let sent = serde_json::to_value(asked).unwrap();
        let call = &sent["toolCall"];
        assert_eq!(call["toolCallId"], "c1");
        assert_eq!(call["kind"], "edit");
        assert_eq!(call["status"], "pending");
        assert_eq!(call["title"], r"edit a\u{202e}.rs");
        assert_eq!(call["rawInput"], json!({"path": "a"}));
        assert_eq!(call["locations"][0]["path"], "/w/a.rs");
        assert_eq!(call["content"][0]["type"], "diff");
        assert_eq!(
            sent["options"],
            json!([
                {"optionId": "allow_once", "name": "Allow", "kind": "allow_once"},
                {"optionId": "reject_once", "name": "Reject", "kind": "reject_once"},
            ])
        );
    }
}
