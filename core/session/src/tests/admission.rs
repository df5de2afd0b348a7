//! What may enter a log and what may not.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use expect_test::{Expect, expect};
use serde_json::value::RawValue;

use super::sample::*;
use crate::*;

fn check(session: &Session, drafts: impl IntoIterator<Item = Draft>, expected: &Expect) {
    let said: Vec<_> = drafts.into_iter().map(|draft| refusal(session, draft)).collect();
    expected.assert_eq(&said.join("\n"));
}

#[test]
fn a_whole_turn_is_admitted() {
    let session = session([
        queued(&["u"]),
        turn_start(1),
        removed(&["u"]),
        step_start(1, 1),
        system("s"),
        user("u"),
        request_header(1),
        calls("a", &["c1", "c2"]),
        taken_up("c1"),
        result("c1", "r1"),
        taken_up("c2"),
        result("c2", "r2"),
        step_end(1, 1),
        step_start(1, 2),
        request_header(1),
        answer("b"),
        step_end(1, 2),
        turn_end(1),
        turn_start(2),
        step_start(2, 1),
        request_header(2),
    ]);
    let state = session.state();
    assert_eq!((state.turns.turn, state.turns.turn_open), (TurnNumber(2), true));
    assert_eq!((state.turns.step, state.turns.step_open), (StepNumber(1), true));
    assert_eq!(state.series(), SeriesNumber(2));
    assert!(
        state.open_calls.is_empty()
            && state.inbox.messages.is_empty()
            && state.summary.has_human_message
    );
    assert_eq!(state.summary.usage.last.unwrap().context(), 6);
}

#[test]
fn the_last_setting_counts() {
    let route = |text| ModelSelected { route: Route::parse(text).unwrap() };
    let session = session([
        Draft::new(PermissionMode { mode: "auto".into() }),
        Draft::new(PermissionMode { mode: "plan".into() }),
        Draft::new(route("a/b")),
        Draft::new(route("c/d/e")),
        Draft::new(TitleSet { title: "one".into() }),
        Draft::new(TitleSet { title: "two".into() }),
        Draft::new(RequestContext { window: 9, max_output: 3, ..RequestContext::default() }),
        Draft::new(SandboxMode { mode: "read-only".into() }),
        Draft::new(PlanMode { active: true }),
        Draft::new(GoalChange { goal: Some("ship".into()) }),
        queued(&["u", "v", "w"]),
        removed(&["v"]),
        queued(&["v"]),
    ]);
    let state = session.state();
    assert_eq!(state.modes.permission.as_deref(), Some("plan"));
    assert_eq!(state.route, Route::parse("c/d/e"));
    assert_eq!(state.summary.title.text.as_deref(), Some("two"));
    assert_eq!(
        state.context,
        Some(RequestContext { window: 9, max_output: 3, ..RequestContext::default() })
    );
    assert_eq!(state.modes.sandbox.as_deref(), Some("read-only"));
    assert!(state.plan.active && state.todo.items.is_empty());
    assert_eq!(state.goal.as_deref(), Some("ship"));
    let inbox: Vec<_> = state.inbox.messages.iter().map(|message| message.id.as_str()).collect();
    assert_eq!(inbox, ["id of u", "id of w", "id of v"]);
    assert!(!state.summary.has_human_message);
}

#[test]
fn turns_and_steps_are_counted_and_nested() {
    let idle = session([turn_start(1), turn_end(1)]);
    check(
        &idle,
        [turn_start(1), turn_start(3), turn_end(1), step_start(1, 1), step_end(1, 1)],
        &expect![[r#"
            turn/start: does not carry the next turn's number
            turn/start: does not carry the next turn's number
            turn/end: is not of the open turn
            step/start: is not of the open turn
            step/end: is not of the open step"#]],
    );
    let in_step = session([turn_start(1), step_start(1, 1)]);
    let failure =
        Failure { code: "transport".into(), message: "m".into(), status: None, request_id: None };
    let attempt = AssistantAttempt {
        turn: TurnNumber(1),
        step: StepNumber(2),
        attempt: 1,
        failure,
        usage: None,
    };
    check(
        &in_step,
        [
            turn_start(2),
            turn_end(1),
            step_start(1, 2),
            step_end(1, 2),
            step_end(2, 1),
            Draft::new(attempt),
        ],
        &expect![[r#"
            turn/start: the turn before it is open
            turn/end: a step of the turn is open
            step/start: the step before it is open
            step/end: is not of the open step
            step/end: is not of the open step
            assistant/attempt: is not of the open step"#]],
    );
}

#[test]
fn a_message_says_something() {
    let no_parts = UserMessage { content: Vec::new(), ..user_message("x") };
    let (newline, empty) = (TitleSet { title: "a\nb".into() }, TitleSet { title: String::new() });
    check(
        &session([]),
        [
            system(""),
            user(""),
            Draft::new(no_parts),
            Draft::new(answer_message("a", [])),
            Draft::new(PermissionMode { mode: String::new() }),
            Draft::new(newline),
            Draft::new(empty),
        ],
        &expect![[r#"
            system/message: has no text
            user/message: has no content
            user/message: has no content
            assistant/message: has no content
            permission/mode: names no mode
            title/set: is longer than one line
            title/set: has no text"#]],
    );
}

#[test]
fn a_result_belongs_to_an_open_call_once_and_in_order() {
    let open = session([calls("a", &["c1", "c2", "c3"]), taken_up("c1"), result("c1", "r")]);
    let renamed = ToolResult { name: "write".into(), ..tool_result("c2", "x") };
    let asked = ApprovalAsked { call: ToolCallId::new("c1"), title: "t".into() };
    let decided =
        ApprovalDecided { call: ToolCallId::new("c9"), allowed: true, by: "client".into() };
    check(
        &open,
        [
            result("c1", "again"),
            result("c9", "x"),
            result("c3", "x"),
            Draft::new(renamed),
            taken_up("c1"),
            taken_up("c9"),
            user("between"),
            answer("between"),
            replacing(user("between"), &[0]),
            Draft::new(asked),
            Draft::new(decided),
        ],
        &expect![[r#"
            tool/result: no open tool call has this id
            tool/result: no open tool call has this id
            tool/result: a call before it in the model's order has no result
            tool/result: the call has another name
            tool/call: no open tool call has this id
            tool/call: no open tool call has this id
            user/message: a tool call before it has no result
            assistant/message: a tool call before it has no result
            user/message: a tool call before it has no result
            approval/asked: no open tool call has this id
            approval/decided: no open tool call has this id"#]],
    );
    let in_step = session([turn_start(1), step_start(1, 1), calls("a", &["c1"]), taken_up("c1")]);
    check(
        &in_step,
        [taken_up("c1"), step_end(1, 1)],
        &expect![[r#"
        tool/call: the call was taken up before
        step/end: a tool call before it has no result"#]],
    );
    let no_calls = session([]);
    check(
        &no_calls,
        [calls("a", &["c1", "c1"])],
        &expect!["assistant/message: uses a tool call id twice"],
    );
}

#[test]
fn an_id_may_come_back_once_its_call_is_settled() {
    // Some providers count their calls from zero in each answer.
    session([calls("a", &["call_0"]), result("call_0", "r"), calls("b", &["call_0"])]);
}

#[test]
fn the_queue_gives_back_what_it_holds() {
    let holding = session([queued(&["u", "v"])]);
    let splice = |inserted: Vec<UserMessage>, removed: Vec<MessageId>, reason: &str| {
        Draft::new(InboxSpliced {
            inserted,
            queue: InputQueue::default(),
            removed,
            reason: reason.into(),
        })
    };
    let u = || user_message("u").id;
    check(
        &holding,
        [
            removed(&["w"]),
            removed(&["u", "u"]),
            queued(&["v"]),
            queued(&["w", "w"]),
            queued(&[""]),
            splice(Vec::new(), vec![u()], ""),
            splice(Vec::new(), Vec::new(), "claimed"),
        ],
        &expect![[r#"
            agent/inbox/spliced: removes what is not queued
            agent/inbox/spliced: removes a message twice
            agent/inbox/spliced: queues a message twice
            agent/inbox/spliced: queues a message twice
            agent/inbox/spliced: has no content
            agent/inbox/spliced: gives no reason
            agent/inbox/spliced: changes nothing"#]],
    );
}

#[test]
fn what_plugins_record_says_something() {
    let tools = |added: &[&str], removed: &[&str]| {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Draft::new(DeveloperMessage { added: names(added), removed: names(removed) })
    };
    let todo = |text: &str| {
        let item = TodoItem { text: text.into(), status: TodoStatus::Pending };
        Draft::new(TodoWrite { items: vec![item] })
    };
    let seen = |path: std::path::PathBuf| Draft::new(FileObserved { path, hash: None });
    check(
        &session([]),
        [
            tools(&[], &[]),
            tools(&["a", ""], &[]),
            tools(&["a"], &["a"]),
            tools(&["a"], &["b"]),
            todo(" "),
            todo("x"),
            Draft::new(TodoWrite { items: Vec::new() }),
            Draft::new(GoalChange { goal: Some(String::new()) }),
            Draft::new(GoalChange { goal: None }),
            Draft::new(PlanMode { active: false }),
            Draft::new(SandboxMode { mode: String::new() }),
            Draft::new(FeedbackRecord { text: "\n".into() }),
            seen("a/b".into()),
            seen(OsStr::from_bytes(b"/\xff").into()),
            seen("/a/b".into()),
        ],
        &expect![[r#"
            developer/message: changes nothing
            developer/message: names no tool
            developer/message: names a tool twice
            admitted developer/message
            todo/write: has no text
            admitted todo/write
            admitted todo/write
            goal/change: has no text
            admitted goal/change
            admitted plan/mode
            sandbox/mode: names no mode
            feedback/record: has no text
            file/observed: names no absolute path
            file/observed: its path is not UTF-8
            admitted file/observed"#]],
    );
    let open = session([calls("a", &["c1"])]);
    check(
        &open,
        [tools(&["a"], &[])],
        &expect!["developer/message: a tool call before it has no result"],
    );
}

#[test]
fn what_is_said_of_images_is_about_some() {
    let scaled = |width: u32| {
        let blob = BlobRef { hash: BlobHash::of_digest(&[1; 32]), bytes: 1 };
        let (from, to) = (PixelSize { width: 2, height: 2 }, PixelSize { width, height: 1 });
        let (image, mime_type) = (BlobHash::of_digest(&[2; 32]), "image/png".to_owned());
        Draft::new(ImageScaled { image, from, blob, mime_type, to, first_of_several: false })
    };
    let offload = |seqs: &[u64], of_last| {
        let messages = seqs.iter().copied().map(Seq).collect();
        Draft::new(ImageOffload { messages, reason: OffloadReason::Room, of_last })
    };
    check(
        &session([]),
        [
            offload(&[], None),
            offload(&[3, 3], None),
            offload(&[3, 4], Some(0)),
            offload(&[3, 4], Some(1)),
            scaled(0),
            scaled(1),
        ],
        &expect![[r#"
            image/offload: names no message
            image/offload: names a message twice
            image/offload: names no image of its last message
            admitted image/offload
            image/scaled: a side of it has no pixels
            admitted image/scaled"#]],
    );
}

#[test]
fn compactions_and_jobs_begin_and_end_once() {
    let start = || Draft::new(compaction(CompactionTrigger::Overflow, "Summarise."));
    let end = || Draft::new(compacted(1));
    let job =
        |id: &str, title: &str| Draft::new(JobStarted { id: JobId::new(id), title: title.into() });
    let ended = |id: &str| {
        let outcome = JobOutcome::Killed { signal: 9 };
        Draft::new(JobEnded { id: JobId::new(id), outcome })
    };
    let wordless = compaction(CompactionTrigger::Pressure, "");
    check(
        &session([start(), end(), job("j1", "make"), ended("j1")]),
        [end(), ended("j1"), Draft::new(wordless), job("j1", "a\nb"), job("j1", "")],
        &expect![[r#"
            compaction/end: no compaction is open
            job/ended: no such job is running
            compaction/start: has no content
            job/started: is longer than one line
            job/started: has no text"#]],
    );
    let busy = session([start(), job("j1", "make"), job("j2", "make")]);
    let running: Vec<_> = busy.state().jobs.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(busy.state().compacting, Some(Seq(0)));
    assert_eq!(running, ["j1", "j2"]);
    check(
        &busy,
        [start(), job("j1", "again"), ended("j3")],
        &expect![[r#"
        compaction/start: the compaction before it is open
        job/started: the job was started before
        job/ended: no such job is running"#]],
    );
}

#[test]
fn a_series_follows_the_one_before() {
    check(
        &session([]),
        [request_header(0), request_header(2)],
        &expect![[r#"
        request/header: skips a series
        request/header: skips a series"#]],
    );
    let second = session([request_header(1), request_header(2)]);
    check(
        &second,
        [request_header(1), request_header(4)],
        &expect![[r#"
        request/header: skips a series
        request/header: skips a series"#]],
    );
}

#[test]
fn raw_json_brings_no_line_ends() {
    let raw = || RawValue::from_string("{\n}".to_owned()).unwrap();
    let shown = ToolResult { presentation: Some(raw()), ..tool_result("c1", "x") };
    let unknown = UnknownEvent { type_name: "x/y".into(), data: raw() };
    check(
        &session([calls("a", &["c1"])]),
        [Draft::new(shown), Draft::new(EventData::Unknown(unknown))],
        &expect![[r#"
            tool/result: its raw JSON is longer than one line
            x/y: its raw JSON is longer than one line"#]],
    );
}
