//! A session with a little of everything, one second between two events.

use bridle_agent::{Display, FileDiff, Location, ToolKind};
use bridle_session::{
    ApprovalAsked, ApprovalDecided, AssistantAttempt, AssistantMessage, AssistantPartial, Block,
    CompactionEnd, CompactionOutcome, CompactionStart, CompactionTrigger, Content, Draft, Event,
    EventData, Failure, Header, InboxSpliced, InputQueue, LlmRetry, MessageId, PermissionMode,
    Route, Seq, Session, SessionId, StepEnd, StepNumber, StepStart, SurfaceOp, TimedBlock,
    TitleSet, TodoItem, TodoStatus, TodoWrite, ToolCall, ToolCallId, ToolResult, TurnEnd,
    TurnEndReason, TurnNumber, TurnStart, UnixMillis, Usage, UserMessage, UserSource,
};

/// 2026-12-01T10:00:00Z.
const START: u64 = 1_796_119_200_000;

struct Writing(Session);

impl Writing {
    fn say(&mut self, data: impl Into<EventData>) -> Seq {
        self.draft(Draft::new(data))
    }

    fn draft(&mut self, draft: Draft) -> Seq {
        let time = UnixMillis(START + self.0.len().0 * 1_000);
        self.0.append(draft, time).unwrap().seq
    }
}

fn user(id: &str, text: &str, source: UserSource) -> UserMessage {
    UserMessage { id: MessageId::new(id), content: vec![Content::text(text)], source }
}

fn route() -> Route {
    Route::parse("anthropic/claude-sonnet-5-5").unwrap()
}

fn timed(block: Block, millis: u64) -> TimedBlock {
    TimedBlock {
        started_at: UnixMillis(START),
        ended_at: UnixMillis(START + millis),
        block,
        raw: None,
    }
}

/// Two turns: one with a retry, a question, an edit, a list and a compaction behind it; one that is
/// still open, with a message waiting.
pub(super) fn sample() -> Session {
    let mut log = Writing(Session::new(Header {
        format: Header::FORMAT,
        id: SessionId::new("01a2313b-6f57-74ab-a469-e7b658bf25e8"),
        created_at: UnixMillis(START),
        cwd: "/work/greeting".into(),
        extra_roots: Vec::new(),
        parent: None,
        origin: "acp".into(),
        delegation_depth: 0,
        terms: Default::default(),
    }));
    let (turn, step) = (TurnNumber(1), StepNumber(1));
    log.say(TurnStart { turn });
    log.say(TitleSet { title: "Fix the typo".into() });
    let first = log.say(user("u1", "Fix the typo\nin `greet.sh`, please.", UserSource::Human));
    log.say(StepStart { turn, step });
    let failure = Failure {
        code: "overloaded".into(),
        message: "The model is overloaded.".into(),
        status: Some(529),
        request_id: None,
    };
    log.say(AssistantAttempt { turn, step, attempt: 1, failure, usage: None });
    log.say(LlmRetry { turn, step, attempt: 2, delay_ms: 1_500, code: "overloaded".into() });
    let last = edit(&mut log);
    log.say(StepEnd { turn, step });
    log.say(TodoWrite {
        items: vec![
            TodoItem { text: "Fix the typo".into(), status: TodoStatus::Completed },
            TodoItem { text: "Run the *test*".into(), status: TodoStatus::InProgress },
            TodoItem { text: "Tell".into(), status: TodoStatus::Pending },
        ],
    });
    log.say(TurnEnd { turn, reason: TurnEndReason::Completed });
    log.say(PermissionMode { mode: "auto".into() });
    compact(&mut log, first, last);
    unfinished(&mut log);
    log.0
}

/// An answer with a call, and what came of it; the position of the result.
fn edit(log: &mut Writing) -> Seq {
    let id = ToolCallId::new("c1");
    let arguments = r#"{"path":"greet.sh","edits":[{"old_text":"Helo","new_text":"Hello"}]}"#;
    let call = Block::ToolCall { id: id.clone(), name: "edit".into(), arguments: arguments.into() };
    log.say(AssistantMessage {
        id: MessageId::new("a1"),
        blocks: vec![
            timed(Block::Thinking { text: "Look first.".into(), signature: None }, 2_300),
            timed(Block::Text { text: "I will **fix** it.\n\n```sh\necho <b>".into() }, 0),
            timed(call, 0),
        ],
        route: route(),
        stop: "tool_use".into(),
        usage: Usage { input: 1_200, output: 85, cache_read: 900, cache_write: 0 },
        interrupted: false,
    });
    log.say(ToolCall { id: id.clone(), name: "edit".into(), arguments: arguments.into() });
    log.say(ApprovalAsked { call: id.clone(), title: "Edit greet.sh".into() });
    log.say(ApprovalDecided { call: id.clone(), allowed: true, by: "client".into() });
    let display = Display {
        locations: vec![Location { path: "/work/greeting/greet.sh".into(), line: Some(2) }],
        diffs: vec![FileDiff {
            path: "/work/greeting/greet.sh".into(),
            old_text: Some("#!/bin/sh\necho \"Helo\"\n".into()),
            new_text: "#!/bin/sh\necho \"Hello\"\n".into(),
        }],
        ..Display::new("Edit greet.sh", ToolKind::Edit)
    };
    log.say(ToolResult {
        id,
        name: "edit".into(),
        content: vec![Content::text("Edited greet.sh.")],
        error: None,
        presentation: Some(serde_json::value::to_raw_value(&display).unwrap()),
    })
}

fn compact(log: &mut Writing, first: Seq, last: Seq) {
    let context = UserSource::Context { name: "compaction".into() };
    log.say(CompactionStart {
        trigger: CompactionTrigger::Person,
        tokens: 900,
        instruction: Some(user("i1", "Summarise.", context.clone())),
        omits: None,
    });
    let answer = Seq(last.0 - 4);
    log.draft(Draft {
        data: user("s1", "A summary", context).into(),
        surface: Some(SurfaceOp::Replace { first, last, covers: vec![first, answer, last] }),
    });
    let outcome = CompactionOutcome::Compacted { tokens: 90 };
    log.say(CompactionEnd { outcome, usage: None });
}

fn unfinished(log: &mut Writing) {
    let (turn, step) = (TurnNumber(2), StepNumber(1));
    log.say(TurnStart { turn });
    log.say(user("u2", "Now run the test", UserSource::Human));
    log.say(StepStart { turn, step });
    log.say(AssistantPartial {
        turn,
        step,
        id: MessageId::new("a2"),
        continues: false,
        blocks: vec![timed(Block::Text { text: "I was just say".into() }, 0)],
        route: route(),
        usage: Usage::default(),
    });
    log.say(InboxSpliced::queued(
        user("u3", "Wait for me", UserSource::Human),
        InputQueue::NextTurn,
    ));
}

/// The sample with its answer and what led to it lost, brought to rest as a restart does.
pub(super) fn damaged() -> Session {
    let sample = sample();
    let kept = sample.events().iter().filter(|event| !(6..=8).contains(&event.seq.0));
    let kept: Vec<Event> = kept.map(|event| (**event).clone()).collect();
    let mut session = Session::replay((**sample.header()).clone(), kept).unwrap();
    for draft in session.repair() {
        session.append(draft, session.last_time()).unwrap();
    }
    session
}
