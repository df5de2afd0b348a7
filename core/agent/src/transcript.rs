//! What a person saw of a session, read from its log: the one model behind a replay to a client,
//! `sessions show` and every export.
//!
//! It reads events, never the surface, so that what compaction puts in their place erases
//! nothing. It borrows from the session and decides nothing about how an entry looks.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use bridle_session::{
    ApprovalAsked, ApprovalDecided, AssistantMessage, AssistantPartial, Block, Content, Event,
    EventData, Fold as _, Gap, InboxSpliced, MessageId, Seq, Session, SurfaceOp, TimedBlock,
    TodoWrite, ToolCallId, ToolResult, TurnEndReason, TurnNumber, UnixMillis, UsageTotals,
    UserMessage, UserSource,
};

use crate::compaction::text_of;
use crate::display::{Display, ToolKind};
use crate::update::{Compaction, Meter, ToolStatus};

/// One thing that a person saw, with its place in the log.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The event that says it.
    pub seq: Seq,
    /// When that was appended.
    pub time: UnixMillis,
    /// What was seen.
    pub shown: Shown<'a>,
}

/// What was seen.
#[derive(Clone, Debug)]
pub enum Shown<'a> {
    /// A turn began.
    TurnStarted(TurnNumber),
    /// A turn ended.
    TurnEnded(&'a TurnEndReason),
    /// What a person said and the model was sent.
    Prompt(&'a UserMessage),
    /// What a person said and no model read.
    NotSent(&'a UserMessage, Unsent),
    /// What a person said and that still waits for its turn. At the end only.
    Queued(&'a UserMessage),
    /// What Bridle itself told the model; `name` is the context source.
    Context {
        /// Which source.
        name: &'a str,
        /// What it said.
        message: &'a UserMessage,
    },
    /// Reasoning of an answer.
    Thought {
        /// The answer's id.
        id: &'a MessageId,
        /// The reasoning; not empty.
        text: &'a str,
        /// How long it took to arrive.
        took: Duration,
    },
    /// Text of an answer.
    Text {
        /// The answer's id.
        id: &'a MessageId,
        /// The text; not empty.
        text: &'a str,
    },
    /// A tool call of an answer, with all that came of it.
    Call(Call<'a>),
    /// The end of an answer; its blocks stand before it.
    Answered {
        /// The whole answer.
        message: &'a AssistantMessage,
        /// How full the context was with it, and what the session had cost.
        meter: Meter,
    },
    /// An answer that is not settled: still streamed, or broken off by a crash that nothing has
    /// repaired yet. At the end only.
    Unsettled(&'a AssistantPartial),
    /// The session got a title.
    Title(&'a str),
    /// The list of what is to be done, as it is from here on.
    Todo(&'a TodoWrite),
    /// A compaction that is over: where it began, and what came of it.
    Compacted(Seq, Compaction),
    /// Something that [`Shown::notice`] says in a line: a retry, a mode, a job …
    Told(&'a EventData),
    /// Events are lost here.
    Lost(&'a Gap),
}

/// Why no model read what a person said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsent {
    /// The process died, or a fork cut the log, before its turn came.
    Discarded,
    /// It was cancelled before its turn came.
    Cancelled,
    /// Its turn ended before any request.
    TurnEnded,
}

/// A tool call with all that came of it.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// The call's id.
    pub id: &'a ToolCallId,
    /// The tool's name as the model wrote it.
    pub name: &'a str,
    /// The argument text as the model wrote it.
    pub arguments: &'a str,
    /// Where it stands. Failed, when its result is lost.
    pub status: ToolStatus,
    /// Whether a person was asked, and what came of it.
    pub questions: Vec<Asked<'a>>,
    /// What came of the call.
    pub result: Option<&'a ToolResult>,
    /// From the moment nothing stood in its way until its result, where both are known.
    pub took: Option<Duration>,
}

/// A question about one call.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// The question as shown.
    pub question: &'a ApprovalAsked,
    /// The answer, if there is one.
    pub decision: Option<&'a ApprovalDecided>,
}

impl Call<'_> {
    /// What was shown of it: the stored display, or for a result without one (such as repair
    /// writes) its text.
    pub fn display(&self) -> Display {
        let stored = self
            .result
            .and_then(|result| result.presentation.as_ref())
            .and_then(|raw| serde_json::from_str(raw.get()).ok());
        stored.unwrap_or_else(|| {
            let text = self.result.map(|result| {
                let texts = result.content.iter().filter_map(|part| match part {
                    Content::Text { text } | Content::Blob { preview: text, .. } => {
                        Some(text.as_str())
                    }
                    _ => None,
                });
                texts.collect::<Vec<_>>().join("\n")
            });
            Display { text, ..Display::new(self.name, ToolKind::Other) }
        })
    }
}

/// Everything a person saw, in order. A log that is not at rest ends with what is unsettled.
pub fn transcript(session: &Session) -> Vec<Entry<'_>> {
    let mut reading = Reading::of(session);
    let mut gaps = session.state().gaps.iter().peekable();
    for event in session.events() {
        while let Some(gap) = gaps.next_if(|gap| gap.lost.first < event.seq) {
            reading.push_at(gap.lost.first, event.time, Shown::Lost(gap));
        }
        // What replaces something was never shown itself.
        match event.surface {
            Some(SurfaceOp::Replace { .. }) => reading.summarised(event),
            _ => reading.take(event),
        }
    }
    let (end, time) = (Seq(session.len().0), session.last_time());
    if let Some(partial) = &session.state().partial {
        reading.push_at(end, time, Shown::Unsettled(partial));
    }
    let waiting = session.state().inbox.messages.iter();
    for message in waiting.filter(|message| message.source == UserSource::Human) {
        reading.push_at(end, time, Shown::Queued(message));
    }
    reading.entries
}

/// The entries so far, and what the rest of the log says about them.
struct Reading<'a> {
    session: &'a Session,
    entries: Vec<Entry<'a>>,
    window: u64,
    usage: UsageTotals,
    calls: HashMap<&'a ToolCallId, CallFacts<'a>>,
    /// Input that was queued, by its id.
    queued: HashMap<&'a MessageId, &'a UserMessage>,
    /// Input that a model was sent.
    sent: HashSet<&'a MessageId>,
    /// Input that the open turn has taken.
    claimed: Vec<&'a MessageId>,
    /// Where the open compaction began, and the size of the context then.
    compaction: Option<(Seq, u64)>,
    /// What it has put in the place of what it covers.
    summary: Option<String>,
}

/// What the events behind an answer say about one of its calls.
#[derive(Default)]
struct CallFacts<'a> {
    /// The last moment at which something stood in its way: its being taken up, or an answer.
    free_at: Option<UnixMillis>,
    questions: Vec<Asked<'a>>,
    result: Option<(&'a ToolResult, UnixMillis)>,
}

impl<'a> Reading<'a> {
    fn of(session: &'a Session) -> Self {
        let mut reading = Self {
            session,
            entries: Vec::new(),
            window: 0,
            usage: UsageTotals::default(),
            calls: HashMap::new(),
            queued: HashMap::new(),
            sent: HashSet::new(),
            claimed: Vec::new(),
            compaction: None,
            summary: None,
        };
        for event in session.events() {
            reading.look_ahead(event);
        }
        reading
    }

    fn look_ahead(&mut self, event: &'a Event) {
        match &event.data {
            EventData::ToolCall(call) => {
                self.calls.entry(&call.id).or_default().free_at = Some(event.time);
            }
            EventData::ApprovalAsked(question) => {
                let asked = Asked { question, decision: None };
                self.calls.entry(&question.call).or_default().questions.push(asked);
            }
            EventData::ApprovalDecided(decision) => {
                let facts = self.calls.entry(&decision.call).or_default();
                facts.free_at = Some(event.time);
                if let Some(asked) = facts.questions.last_mut() {
                    asked.decision = Some(decision);
                }
            }
            EventData::ToolResult(result) if event.surface == Some(SurfaceOp::Append) => {
                self.calls.entry(&result.id).or_default().result = Some((result, event.time));
            }
            EventData::InboxSpliced(splice) => {
                self.queued.extend(splice.inserted.iter().map(|input| (&input.id, input)));
            }
            EventData::UserMessage(message) => drop(self.sent.insert(&message.id)),
            _ => {}
        }
    }

    fn push_at(&mut self, seq: Seq, time: UnixMillis, shown: Shown<'a>) {
        self.entries.push(Entry { seq, time, shown });
    }

    fn take(&mut self, event: &'a Event) {
        self.usage.apply(event);
        let shown = match &event.data {
            EventData::TurnStart(start) => Shown::TurnStarted(start.turn),
            EventData::TurnEnd(end) => {
                for id in std::mem::take(&mut self.claimed) {
                    self.take_unsent(id, Unsent::TurnEnded, event);
                }
                Shown::TurnEnded(&end.reason)
            }
            EventData::UserMessage(message) => match &message.source {
                UserSource::Human => Shown::Prompt(message),
                UserSource::Context { name } => Shown::Context { name, message },
            },
            EventData::AssistantMessage(message) => {
                self.take_answer(message, event);
                let meter = Meter {
                    used: message.usage.context(),
                    window: self.window,
                    total: self.usage.total,
                    compaction: self.usage.compaction,
                    cost: self.usage.cost.clone(),
                };
                Shown::Answered { message, meter }
            }
            EventData::InboxSpliced(splice) => {
                self.take_splice(splice, event);
                return;
            }
            EventData::RequestContext(context) => {
                self.window = context.window;
                return;
            }
            EventData::CompactionStart(start) => {
                self.compaction = Some((event.seq, start.tokens));
                return;
            }
            EventData::CompactionEnd(end) => {
                let (start, before) = self.compaction.take().unwrap_or_default();
                let summary = self.summary.take();
                Shown::Compacted(start, Compaction::ended(&end.outcome, before, summary))
            }
            EventData::TitleSet(title) => Shown::Title(&title.title),
            EventData::TodoWrite(todo) => Shown::Todo(todo),
            EventData::AssistantAttempt(_)
            | EventData::LlmRetry(_)
            | EventData::PermissionMode(_)
            | EventData::SandboxMode(_)
            | EventData::PlanMode(_)
            | EventData::ModelSelected(_)
            | EventData::ThinkingSelected(_)
            | EventData::GoalChange(_)
            | EventData::JobStarted(_)
            | EventData::JobEnded(_)
            | EventData::FeedbackRecord(_)
            | EventData::SeedEnd(_) => Shown::Told(&event.data),
            _ => return,
        };
        self.push_at(event.seq, event.time, shown);
    }

    /// Takes note of what a compaction puts in the place of what it covers.
    fn summarised(&mut self, event: &'a Event) {
        if let (Some(_), EventData::UserMessage(message)) = (&self.compaction, &event.data) {
            self.summary = Some(text_of(message));
        }
    }

    fn take_splice(&mut self, splice: &'a InboxSpliced, event: &Event) {
        let why = match splice.reason.as_str() {
            InboxSpliced::CLAIMED => return self.claimed.extend(&splice.removed),
            _ if splice.is_discarded() => Unsent::Discarded,
            _ => Unsent::Cancelled,
        };
        splice.removed.iter().for_each(|id| self.take_unsent(id, why, event));
    }

    fn take_unsent(&mut self, id: &MessageId, why: Unsent, event: &Event) {
        // Where events are lost, the removal that says that it was read can be among them.
        let said = self.queued.get(id).filter(|_| !self.sent.contains(id));
        if let Some(message) = said.filter(|message| message.source == UserSource::Human) {
            self.push_at(event.seq, event.time, Shown::NotSent(message, why));
        }
    }

    fn take_answer(&mut self, message: &'a AssistantMessage, event: &Event) {
        let id = &message.id;
        for timed in &message.blocks {
            let shown = match &timed.block {
                Block::Text { text } if !text.is_empty() => Shown::Text { id, text },
                Block::Thinking { text, .. } if !text.is_empty() => {
                    Shown::Thought { id, text, took: duration(timed) }
                }
                Block::ToolCall { id, name, arguments } => {
                    Shown::Call(self.call(id, name, arguments))
                }
                _ => continue,
            };
            self.push_at(event.seq, event.time, shown);
        }
    }

    fn call(&mut self, id: &'a ToolCallId, name: &'a str, arguments: &'a str) -> Call<'a> {
        let CallFacts { free_at, questions, result } = self.calls.remove(id).unwrap_or_default();
        let open = self.session.state().open_call(id);
        let status = match (result, open) {
            (Some((result, _)), _) if result.error.is_none() => ToolStatus::Completed,
            (None, Some(call)) if call.started => ToolStatus::Running,
            (None, Some(_)) => ToolStatus::Pending,
            _ => ToolStatus::Failed,
        };
        let took = free_at.zip(result).map(|(free_at, (_, settled_at))| {
            Duration::from_millis(settled_at.0.saturating_sub(free_at.0))
        });
        let result = result.map(|(result, _)| result);
        Call { id, name, arguments, status, questions, result, took }
    }
}

fn duration(timed: &TimedBlock) -> Duration {
    Duration::from_millis(timed.ended_at.0.saturating_sub(timed.started_at.0))
}
