//! What must hold in every schedule.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use bridle_agent::{Access, AgentUpdate, Mode, ToolStatus, TurnOutcome};
use bridle_model::ModelRequest;
use bridle_session::{
    Content, EventData, Failure, Message, Projection, Seq, Session, SurfaceOp, ToolCallId,
    TurnNumber, UserSource,
};
use bridle_store::SessionStore as _;

use super::scene::State;
use super::world::{Asked, Sent};
use crate::rig::header;

/// What a client saw, and what it may have missed.
pub(super) struct Seen<'a> {
    pub(super) updates: &'a [AgentUpdate],
    pub(super) sent: &'a [Sent],
    /// Nothing was dropped: the client's side had room all the time, or nobody closed.
    pub(super) whole: bool,
    /// Anything may have been cancelled.
    pub(super) cancels: bool,
}

fn seqs(projection: &Projection) -> Vec<Seq> {
    projection.entries().map(|(seq, _)| seq).collect()
}

/// A request is what the log says, lawful, durable, and goes on where the one before it ended.
pub(super) fn request(state: &mut State, request: &ModelRequest) {
    let sent = seqs(request.projection());
    if sent != seqs(&state.mirror.projection()) {
        state.break_law("a request is not what the log says");
    }
    let series = state.mirror.state().series();
    if let Some((last, before)) = &state.last_request
        && *last == series
        && !sent.starts_with(before)
        && !refused(&state.mirror)
    {
        state.break_law(format!("a request does not extend the one before it in series {series}"));
    }
    if let Err(law) = lawful(request.projection()) {
        state.break_law(format!("an unlawful request: {law}"));
    }
    if state.thorough && stored(state).is_none_or(|stored| seqs(&stored.projection()) != sent) {
        state.break_law("a request left before its log was durable");
    }
    state.last_request = Some((series, sent));
}

/// A refused input is taken off the surface: a series may be cut there.
fn refused(session: &Session) -> bool {
    let replaces = |surface: &Option<SurfaceOp>| matches!(surface, Some(SurfaceOp::Replace { .. }));
    session.events().iter().any(|event| replaces(&event.surface))
}

fn stored(state: &State) -> Option<Session> {
    state.store.read(&state.mirror.header().id).ok().map(|read| read.session)
}

/// Every call is answered, in order, before anything else is said; no id comes twice.
fn lawful(history: &Projection) -> Result<(), String> {
    let mut owed: VecDeque<&ToolCallId> = VecDeque::new();
    let mut ids = HashSet::new();
    let mut paused = false;
    let mut last_is_answer = false;
    for (place, message) in history.messages().enumerate() {
        last_is_answer = matches!(message, Message::Assistant(_));
        match message {
            Message::System(_) if place > 0 => return Err("a second system message".into()),
            Message::ToolResult(result) => match owed.pop_front() {
                Some(id) if *id == result.id => {}
                other => return Err(format!("result of {} where {other:?} is owed", result.id)),
            },
            _ if !owed.is_empty() => return Err(format!("{owed:?} stay without a result")),
            Message::Assistant(answer) => {
                paused = answer.stop == "pause";
                for (id, ..) in answer.tool_calls() {
                    owed.push_back(id);
                    if !ids.insert(id) {
                        return Err(format!("two calls are {id}"));
                    }
                }
            }
            Message::User(message) => {
                let said = matches!(message.content.as_slice(), [Content::Text { text }] if *text == message.id.as_str());
                if message.source == UserSource::Human && !said {
                    return Err(format!("{} does not say what was sent", message.id));
                }
            }
            Message::System(_) | Message::Developer(_) => {}
        }
    }
    match owed.is_empty() {
        false => Err(format!("{owed:?} stay without a result")),
        true if last_is_answer && !paused => Err("the model has the last word".into()),
        true => Ok(()),
    }
}

/// A body runs once, with a fresh yes where one is needed, and behind its durable intent.
pub(super) fn body(state: &mut State, arguments: &str, access: &Access) {
    if !state.ran.insert(arguments.to_owned()) {
        state.break_law(format!("a body ran twice: {arguments}"));
    }
    // The driver hands on what it read, not the text.
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    let ran = read(arguments);
    let taken = |event: &EventData| matches!(event, EventData::ToolCall(call) if read(&call.arguments) == ran);
    let events = state.mirror.events();
    let Some(at) = events.iter().position(|event| taken(&event.data)) else {
        return state.break_law(format!("a body ran whose call is not on the log: {arguments}"));
    };
    let EventData::ToolCall(call) = &events[at].data else { return };
    let id = call.id.clone();
    if matches!(access, Access::ReadInside(_)) {
        return;
    }
    let (before, since) = events.split_at(at);
    let allowed = since.iter().any(|event| match &event.data {
        EventData::ApprovalDecided(decided) => decided.call == id && decided.allowed,
        _ => false,
    });
    let mode = |data: &EventData| match data {
        EventData::PermissionMode(mode) => Mode::from_id(&mode.mode),
        _ => None,
    };
    let then = before.iter().rev().find_map(|event| mode(&event.data)).unwrap_or(state.mode);
    let mut modes = since.iter().filter_map(|event| mode(&event.data)).chain([then]);
    let may = |mode: Mode| match access {
        Access::Run { .. } => mode == Mode::FullAccess,
        _ => matches!(mode, Mode::Auto | Mode::FullAccess),
    };
    if !allowed && !modes.any(may) {
        state.break_law(format!("{id} ran without a yes"));
    }
    if state.thorough {
        let is_durable = stored(state)
            .is_some_and(|stored| stored.events().iter().any(|event| taken(&event.data)));
        if !is_durable {
            state.break_law(format!("{id} ran before its intent was durable"));
        }
    }
}

/// What the stored log of a closed session must be. Closing fails when something is not on the
/// disk, and only then; on a disk that is gone it may also fail with nothing left to write.
pub(super) fn log(state: &mut State, failures: &[Failure], disk_is_gone: bool) {
    let stored = stored(state).unwrap_or_else(|| Session::new(header()));
    let is_whole = stored.len() == state.mirror.len();
    if failures.is_empty() != is_whole && !(is_whole && disk_is_gone) {
        state.break_law(format!("closing said {failures:?}"));
    }
    if !is_whole {
        return;
    }
    if state.mirror.state() != stored.state() {
        state.break_law("the log does not fold to what lived");
    }
    if seqs(&state.mirror.projection()) != seqs(&stored.projection()) {
        state.break_law("the log does not project to what lived");
    }
    let rest = stored.repair();
    if !rest.is_empty() {
        state.break_law(format!("the log is not at rest: {rest:?}"));
    }
    let broken: Vec<String> = calls(&stored).into_iter().chain(queue(&stored)).collect();
    broken.into_iter().for_each(|law| state.break_law(law));
}

/// Every call has one result in the model's order, and was taken up and asked for at most once.
fn calls(log: &Session) -> Vec<String> {
    let (mut asked, mut results) = (Vec::new(), Vec::new());
    let mut counts: BTreeMap<(&str, &ToolCallId), u32> = BTreeMap::new();
    let mut count = |what, id| *counts.entry((what, id)).or_default() += 1;
    for event in log.events() {
        match &event.data {
            EventData::AssistantMessage(answer) => {
                asked.extend(answer.tool_calls().map(|(id, ..)| id));
            }
            EventData::ToolResult(result) => results.push(&result.id),
            EventData::ToolCall(call) => count("tool/call", &call.id),
            EventData::ApprovalAsked(asked) => count("approval/asked", &asked.call),
            EventData::ApprovalDecided(decided) => count("approval/decided", &decided.call),
            _ => {}
        }
    }
    let twice = counts.iter().filter(|(_, count)| **count > 1);
    let mut broken: Vec<String> =
        twice.map(|((what, id), _)| format!("{what} of {id} comes twice")).collect();
    if asked != results {
        broken.push(format!("the calls {asked:?} have the results {results:?}"));
    }
    broken
}

/// Whatever was queued left the queue once, unless it is context that still waits, and was read at
/// most once.
fn queue(log: &Session) -> Vec<String> {
    let mut balance: BTreeMap<&str, (u32, u32, u32)> = BTreeMap::new();
    let mut context = HashSet::new();
    for event in log.events() {
        match &event.data {
            EventData::InboxSpliced(splice) => {
                for message in &splice.inserted {
                    context
                        .extend((message.source != UserSource::Human).then(|| message.id.as_str()));
                    balance.entry(message.id.as_str()).or_default().0 += 1;
                }
                splice.removed.iter().for_each(|id| balance.entry(id.as_str()).or_default().1 += 1);
            }
            EventData::UserMessage(message) if message.source == UserSource::Human => {
                balance.entry(message.id.as_str()).or_default().2 += 1;
            }
            _ => {}
        }
    }
    let odd = balance.into_iter().filter(|(id, (came, left, read))| {
        let left_once = *left == 1 || (*left == 0 && context.contains(id));
        *came != 1 || !left_once || *read > 1
    });
    odd.map(|(id, counts)| format!("{id} came, left and was read {counts:?} times")).collect()
}

/// What a client saw of prompts and calls.
pub(super) fn updates(seen: &Seen<'_>, log: &Session) -> Vec<String> {
    let mut broken = ends(seen);
    broken.extend(tools(seen));
    let turns = Turns::of(log);
    let mut over: HashSet<TurnNumber> = HashSet::new();
    for update in seen.updates {
        match update {
            AgentUpdate::TurnEnded { prompt, .. } => over.extend(turns.took.get(prompt.as_str())),
            update => {
                if let Some(turn) = turns.of_update(update).filter(|turn| over.contains(turn)) {
                    broken.push(format!("turn {turn} was over before {update:?}"));
                }
            }
        }
    }
    broken
}

fn ends(seen: &Seen<'_>) -> Vec<String> {
    let mut broken = Vec::new();
    let mut counts: HashMap<&str, u32> = HashMap::new();
    for update in seen.updates {
        let AgentUpdate::TurnEnded { prompt, outcome } = update else { continue };
        *counts.entry(prompt.as_str()).or_default() += 1;
        let sent = seen.sent.iter().find(|sent| sent.id == prompt.as_str());
        let is_cancelled = *outcome == TurnOutcome::Cancelled && !seen.cancels;
        if sent.is_some_and(|sent| is_cancelled && !sent.cancelled) {
            broken.push(format!("{prompt} was cancelled by nobody"));
        }
    }
    for sent in seen.sent {
        let count = counts.remove(sent.id.as_str()).unwrap_or_default();
        let due = u32::from(sent.accepted && sent.asked != Asked::Inject);
        if count > due || (seen.whole && count < due) {
            broken.push(format!("{} ended {count} times instead of {due}", sent.id));
        }
    }
    broken.extend(counts.keys().map(|id| format!("{id} ended and was never sent")));
    broken
}

fn tools(seen: &Seen<'_>) -> Vec<String> {
    let mut broken = Vec::new();
    let mut calls: HashMap<&ToolCallId, Vec<ToolStatus>> = HashMap::new();
    for update in seen.updates {
        match update {
            AgentUpdate::ToolCall { id, status, .. } => {
                let before = calls.insert(id, vec![*status]);
                broken.extend(before.map(|_| format!("{id} is announced twice")));
            }
            AgentUpdate::ToolCallUpdate { id, status, .. } => match calls.get_mut(id) {
                Some(statuses) => statuses.push(*status),
                None if seen.whole => broken.push(format!("{id} was never announced")),
                None => {}
            },
            AgentUpdate::ToolProgress { id, .. } | AgentUpdate::ToolOutput { id, .. } => {
                let last = calls.get(id).and_then(|statuses| statuses.last());
                if seen.whole && last != Some(&ToolStatus::Running) {
                    broken.push(format!("{id} shows output while it is {last:?}"));
                }
            }
            _ => {}
        }
    }
    let is_end = |status: &ToolStatus| matches!(status, ToolStatus::Completed | ToolStatus::Failed);
    for (id, statuses) in calls {
        let ends = statuses.iter().filter(|status| is_end(status)).count();
        let ends_last = statuses.last().is_some_and(is_end);
        if ends > 1 || (ends == 1 && !ends_last) || (seen.whole && ends != 1) {
            broken.push(format!("{id} went through {statuses:?}"));
        }
    }
    broken
}

/// Which turn took which input, and made which calls.
struct Turns {
    took: HashMap<String, TurnNumber>,
    calls: HashMap<ToolCallId, TurnNumber>,
}

impl Turns {
    fn of(log: &Session) -> Self {
        let mut turns = Self { took: HashMap::new(), calls: HashMap::new() };
        let mut turn = TurnNumber::default();
        for event in log.events() {
            match &event.data {
                EventData::TurnStart(start) => turn = start.turn,
                EventData::InboxSpliced(splice) if splice.reason == "claimed" => {
                    turns.took.extend(splice.removed.iter().map(|id| (id.to_string(), turn)));
                }
                EventData::AssistantMessage(answer) => {
                    turns.calls.extend(answer.tool_calls().map(|(id, ..)| (id.clone(), turn)));
                }
                _ => {}
            }
        }
        turns
    }

    fn of_update(&self, update: &AgentUpdate) -> Option<TurnNumber> {
        match update {
            AgentUpdate::MessageChunk { id, .. } | AgentUpdate::ThoughtChunk { id, .. } => {
                let turn = id.as_str().strip_prefix("answer-")?.split('-').next()?;
                turn.parse().ok().map(TurnNumber)
            }
            AgentUpdate::ToolCall { id, .. }
            | AgentUpdate::ToolCallUpdate { id, .. }
            | AgentUpdate::ToolOutput { id, .. }
            | AgentUpdate::ToolProgress { id, .. } => self.calls.get(id).copied(),
            AgentUpdate::Joined { prompt } => self.took.get(prompt.as_str()).copied(),
            _ => None,
        }
    }
}
