//! Short ways to write a history.

use crate::*;

pub(crate) fn header() -> Header {
    Header {
        format: Header::FORMAT,
        id: SessionId::new("01980000-0000-7000-8000-000000000001"),
        created_at: UnixMillis(1_000),
        cwd: "/work/project".into(),
        extra_roots: Vec::new(),
        parent: None,
        origin: "test".into(),
        delegation_depth: 0,
        terms: Default::default(),
    }
}

/// A session with this history; every event must be admissible.
pub(crate) fn session(drafts: impl IntoIterator<Item = Draft>) -> Session {
    let mut session = Session::new(header());
    for draft in drafts {
        append(&mut session, draft).unwrap();
    }
    session
}

/// Appends one millisecond after the last event.
pub(crate) fn append(
    session: &mut Session,
    draft: Draft,
) -> Result<std::sync::Arc<Event>, AppendError> {
    let time = UnixMillis(session.last_time().0 + 1);
    session.append(draft, time)
}

/// What a refused append says.
pub(crate) fn refusal(session: &Session, draft: Draft) -> String {
    let mut copy = session.clone();
    match append(&mut copy, draft) {
        Ok(event) => format!("admitted {}", event.data.type_name()),
        Err(error) => {
            assert_eq!(lines(&copy), lines(session), "a refused append changed the log");
            assert_eq!(copy.state(), session.state(), "a refused append changed the state");
            error.to_string()
        }
    }
}

pub(crate) fn lines(session: &Session) -> Vec<String> {
    session.events().iter().map(|event| event.to_line().unwrap()).collect()
}

/// The history as a model reads it, one word a message.
pub(crate) fn surface(session: &Session) -> Vec<String> {
    let text = |content: &[Content]| match content {
        [Content::Text { text }] => text.clone(),
        other => format!("{other:?}"),
    };
    let word = |message: Message<'_>| match message {
        Message::System(system) => format!("system:{}", system.text),
        Message::User(user) => format!("user:{}", text(&user.content)),
        Message::Developer(tools) => format!("developer:+{:?}-{:?}", tools.added, tools.removed),
        Message::Assistant(answer) => format!("answer:{}", answer.id),
        Message::ToolResult(result) => format!("result:{}:{}", result.id, text(&result.content)),
    };
    session.projection().messages().map(word).collect()
}

pub(crate) fn turn_start(turn: u64) -> Draft {
    Draft::new(TurnStart { turn: TurnNumber(turn) })
}

pub(crate) fn turn_end(turn: u64) -> Draft {
    Draft::new(TurnEnd { turn: TurnNumber(turn), reason: TurnEndReason::Completed })
}

pub(crate) fn step_start(turn: u64, step: u64) -> Draft {
    Draft::new(StepStart { turn: TurnNumber(turn), step: StepNumber(step) })
}

pub(crate) fn step_end(turn: u64, step: u64) -> Draft {
    Draft::new(StepEnd { turn: TurnNumber(turn), step: StepNumber(step) })
}

pub(crate) fn system(text: &str) -> Draft {
    Draft::new(SystemMessage { text: text.to_owned() })
}

pub(crate) fn user_message(text: &str) -> UserMessage {
    UserMessage {
        id: MessageId::new(format!("id of {text}")),
        content: vec![Content::text(text)],
        source: UserSource::Human,
    }
}

/// A compaction that asks for a summary in these words.
pub(crate) fn compaction(trigger: CompactionTrigger, text: &str) -> CompactionStart {
    let source = UserSource::Context { name: "compaction".into() };
    let instruction = Some(UserMessage { source, ..user_message(text) });
    CompactionStart { trigger, tokens: 9_000, instruction, omits: None }
}

/// The end of a compaction that has left so many tokens.
pub(crate) fn compacted(tokens: u64) -> CompactionEnd {
    CompactionEnd { outcome: CompactionOutcome::Compacted { tokens }, usage: None }
}

pub(crate) fn user(text: &str) -> Draft {
    Draft::new(user_message(text))
}

pub(crate) fn timed(block: Block) -> TimedBlock {
    TimedBlock { started_at: UnixMillis(1), ended_at: UnixMillis(2), block, raw: None }
}

pub(crate) fn answer_message(
    id: &str,
    blocks: impl IntoIterator<Item = Block>,
) -> AssistantMessage {
    AssistantMessage {
        id: MessageId::new(id),
        blocks: blocks.into_iter().map(timed).collect(),
        route: Route::parse("demo/scripted").unwrap(),
        stop: "end-turn".into(),
        usage: Usage { input: 3, output: 2, cache_read: 1, cache_write: 0 },
        interrupted: false,
    }
}

/// An answer that is only text.
pub(crate) fn answer(id: &str) -> Draft {
    Draft::new(answer_message(id, [Block::Text { text: "done".into() }]))
}

/// A piece of a streamed answer in the first step of the first turn.
pub(crate) fn piece(id: &str, block: Block, continues: bool) -> Draft {
    piece_of((1, 1), id, block, continues)
}

pub(crate) fn piece_of((turn, step): (u64, u64), id: &str, block: Block, continues: bool) -> Draft {
    Draft::new(AssistantPartial {
        turn: TurnNumber(turn),
        step: StepNumber(step),
        id: MessageId::new(id),
        continues,
        blocks: vec![timed(block)],
        route: Route::parse("demo/scripted").unwrap(),
        usage: Usage { input: 3, output: 1, ..Usage::default() },
    })
}

pub(crate) fn failed_attempt(turn: u64, step: u64) -> Draft {
    let failure =
        Failure { code: "transport".into(), message: "m".into(), status: None, request_id: None };
    let (turn, step) = (TurnNumber(turn), StepNumber(step));
    Draft::new(AssistantAttempt { turn, step, attempt: 1, failure, usage: None })
}

/// An answer that asks for the tool `read` once for each id.
pub(crate) fn calls(id: &str, ids: &[&str]) -> Draft {
    let call = |id: &&str| Block::ToolCall {
        id: ToolCallId::new(*id),
        name: "read".into(),
        arguments: "{}".into(),
    };
    Draft::new(answer_message(id, ids.iter().map(call)))
}

pub(crate) fn taken_up(id: &str) -> Draft {
    Draft::new(ToolCall { id: ToolCallId::new(id), name: "read".into(), arguments: "{}".into() })
}

pub(crate) fn tool_result(id: &str, text: &str) -> ToolResult {
    ToolResult {
        id: ToolCallId::new(id),
        name: "read".into(),
        content: vec![Content::text(text)],
        error: None,
        presentation: None,
    }
}

pub(crate) fn result(id: &str, text: &str) -> Draft {
    Draft::new(tool_result(id, text))
}

pub(crate) fn queued(texts: &[&str]) -> Draft {
    Draft::new(InboxSpliced {
        inserted: texts.iter().map(|text| user_message(text)).collect(),
        queue: InputQueue::default(),
        removed: Vec::new(),
        reason: String::new(),
    })
}

pub(crate) fn removed(texts: &[&str]) -> Draft {
    Draft::new(InboxSpliced::removed(
        texts.iter().map(|text| user_message(text).id).collect(),
        "claimed",
    ))
}

/// The draft in the place of the nodes that it covers.
pub(crate) fn replacing(draft: Draft, covers: &[u64]) -> Draft {
    let (first, last) = (Seq(covers[0]), Seq(covers[covers.len() - 1]));
    let covers = covers.iter().copied().map(Seq).collect();
    Draft { surface: Some(SurfaceOp::Replace { first, last, covers }), ..draft }
}

pub(crate) fn request_header(series: u64) -> Draft {
    Draft::new(RequestHeader {
        series: SeriesNumber(series),
        reason: "start".into(),
        route: Route::parse("demo/scripted").unwrap(),
        tools: vec!["read".into()],
    })
}
