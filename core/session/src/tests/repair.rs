//! A log whose process died is brought to rest by what repair adds, wherever it was cut.

use expect_test::expect;

use super::sample::*;
use crate::*;

/// Appends what repair says; the log must be at rest then.
pub(crate) fn repaired(session: &Session) -> Session {
    let mut repaired = session.clone();
    let time = session.last_time();
    for draft in session.repair() {
        repaired.append(draft, time).unwrap();
    }
    assert!(repaired.repair().is_empty());
    repaired
}

/// The lines that repair adds.
fn added(session: &Session) -> String {
    lines(&repaired(session)).split_off(session.events().len()).join("\n")
}

#[test]
fn a_log_at_rest_needs_nothing() {
    let at_rest = session([
        turn_start(1),
        step_start(1, 1),
        calls("a", &["c1"]),
        result("c1", "r"),
        step_end(1, 1),
        turn_end(1),
    ]);
    assert!(at_rest.repair().is_empty() && session([]).repair().is_empty());
}

#[test]
fn what_bridle_has_to_tell_the_model_waits_on() {
    let source = UserSource::Context { name: "job".to_owned() };
    let told = UserMessage { source, ..user_message("told") };
    let waiting =
        session([Draft::new(InboxSpliced::queued(told, InputQueue::NextStep)), queued(&["v"])]);
    let expected = expect![[
        r#"{"seq":2,"time":1002,"type":"agent/inbox/spliced","data":{"removed":["id of v"],"reason":"discarded: restart"}}"#
    ]];
    expected.assert_eq(&added(&waiting));
    assert!(repaired(&waiting).repair().is_empty());
}

#[test]
fn calls_get_results_in_order_then_step_turn_and_queue_end() {
    let session = session([
        turn_start(1),
        step_start(1, 1),
        user("u"),
        calls("a", &["c1", "c2", "c3", "c4"]),
        taken_up("c1"),
        taken_up("c3"),
        result("c1", "kept"),
        queued(&["v", "w"]),
    ]);
    let expected = expect![[r#"
        {"seq":8,"time":1008,"type":"tool/result","data":{"id":"c2","name":"read","content":[{"type":"text","text":"This call was not run: Bridle was stopped before it began. It has changed nothing. Call the tool again if the call is still needed."}],"error":"TOOL_NOT_STARTED"},"surface_op":"append"}
        {"seq":9,"time":1008,"type":"tool/result","data":{"id":"c3","name":"read","content":[{"type":"text","text":"The outcome of this call is unknown: Bridle was stopped while it was under way, so its effect may be complete, partial or absent. Look at the current state before you repeat it."}],"error":"TOOL_OUTCOME_UNKNOWN"},"surface_op":"append"}
        {"seq":10,"time":1008,"type":"tool/result","data":{"id":"c4","name":"read","content":[{"type":"text","text":"This call was not run: Bridle was stopped before it began. It has changed nothing. Call the tool again if the call is still needed."}],"error":"TOOL_NOT_STARTED"},"surface_op":"append"}
        {"seq":11,"time":1008,"type":"step/end","data":{"turn":1,"step":1}}
        {"seq":12,"time":1008,"type":"turn/end","data":{"turn":1,"reason":{"kind":"interrupted"}}}
        {"seq":13,"time":1008,"type":"agent/inbox/spliced","data":{"removed":["id of v","id of w"],"reason":"discarded: restart"}}"#]];
    expected.assert_eq(&added(&session));
    let surface = surface(&repaired(&session));
    assert_eq!(surface[..3], ["user:u", "answer:a", "result:c1:kept"]);
}

#[test]
fn a_turn_that_has_no_step_yet_is_ended() {
    let expected = expect![[
        r#"{"seq":1,"time":1001,"type":"turn/end","data":{"turn":1,"reason":{"kind":"interrupted"}}}"#
    ]];
    expected.assert_eq(&added(&session([turn_start(1)])));
}

fn text(text: &str) -> Block {
    Block::Text { text: text.to_owned() }
}

fn thinking() -> Block {
    Block::Thinking { text: "hm".into(), signature: Some("s".into()) }
}

/// A step whose answer is being streamed.
fn streaming(pieces: impl IntoIterator<Item = Draft>) -> Session {
    session([turn_start(1), step_start(1, 1), user("u")].into_iter().chain(pieces))
}

#[test]
fn an_answer_in_mid_stream_is_kept_as_interrupted() {
    let session = streaming([
        piece("m", thinking(), false),
        piece("m", text("One"), false),
        piece("m", text(" and"), true),
        piece("m", text("two"), false),
    ]);
    let expected = expect![[r#"
        {"seq":7,"time":1007,"type":"assistant/message","data":{"id":"m","blocks":[{"started_at":1,"ended_at":2,"block":{"type":"thinking","text":"hm","signature":"s"}},{"started_at":1,"ended_at":2,"block":{"type":"text","text":"One and"}},{"started_at":1,"ended_at":2,"block":{"type":"text","text":"two"}}],"route":{"provider":"demo","model":"scripted"},"stop":"interrupted","usage":{"input":3,"output":1,"cache_read":0,"cache_write":0},"interrupted":true},"surface_op":"append"}
        {"seq":8,"time":1007,"type":"step/end","data":{"turn":1,"step":1}}
        {"seq":9,"time":1007,"type":"turn/end","data":{"turn":1,"reason":{"kind":"interrupted"}}}"#]];
    expected.assert_eq(&added(&session));
}

#[test]
fn reasoning_alone_is_no_answer() {
    let session = streaming([piece("m", thinking(), false), piece("m", text(" "), false)]);
    assert_eq!(surface(&repaired(&session)), ["user:u"]);
}

#[test]
fn a_settled_or_failed_attempt_voids_its_pieces() {
    let half = || piece("m", text("half"), false);
    let settled = streaming([half(), answer("m")]);
    assert_eq!(surface(&repaired(&settled)), ["user:u", "answer:m"]);
    let failed = streaming([half(), failed_attempt(1, 1)]);
    assert_eq!(surface(&repaired(&failed)), ["user:u"]);
    // The next attempt has another id; its pieces replace what is there, whatever is missing.
    let again = streaming([half(), piece("n", text("other"), false)]);
    let state = again.state().partial.clone().unwrap();
    assert_eq!((state.id.as_str(), state.blocks.len()), ("n", 1));
}

#[test]
fn a_piece_belongs_to_the_open_step_and_holds_what_may_be_kept() {
    let call = Block::ToolCall { id: ToolCallId::new("c"), name: "n".into(), arguments: "".into() };
    let open = streaming([]);
    assert_eq!(
        refusal(&open, piece("m", call, false)),
        "assistant/partial: holds a block that is of use only in a whole answer"
    );
    let idle = session([]);
    assert_eq!(
        refusal(&idle, piece("m", text("x"), false)),
        "assistant/partial: is not of the open step"
    );
}
