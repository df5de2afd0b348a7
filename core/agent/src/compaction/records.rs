//! What a checkpoint takes from the log, so that it does not depend on how well a model summarises:
//! what the person said and answered, the plan they agreed to, and what was loaded and is gone.

use std::collections::HashMap;

use bridle_session::{
    Block, Content, EventData, Seq, Session, SurfaceOp, ToolCallId, ToolResult, TurnEndReason,
    UserMessage, UserSource,
};

use super::SOURCE;
use crate::reference;
use crate::tool::Outlives;

/// The most things that are named as loaded before.
const MOST_LOADED: usize = 20;

/// What a tool of this name lets outlive a summary, of a call with these arguments and this result.
pub(crate) type Outliving<'a> = &'a dyn Fn(&str, &str, &[Content]) -> Option<Outlives>;

/// What the log says of what was before a node.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Records {
    /// What the person said, in order, with what became of it where nothing did.
    pub(crate) said: Vec<String>,
    /// The plan that they agreed to last.
    pub(crate) plan: Option<String>,
    /// What came with the prompts or was loaded to be followed, by name.
    pub(crate) loaded: Vec<String>,
}

impl Records {
    /// Of what stands in `session` up to the last of `covers`. Of what was loaded, what is among them or
    /// of the last turn.
    pub(crate) fn of(session: &Session, covers: &[Seq], outlives: Outliving<'_>) -> Self {
        let last = covers.last().copied().unwrap_or_default();
        let mut reading = Reading {
            covers,
            last,
            outlives,
            said: Vec::new(),
            calls: HashMap::new(),
            plan: None,
            loaded: Vec::new(),
            turn: Seq(0),
        };
        session.events().iter().for_each(|event| {
            reading.read(event.seq, &event.data, event.surface.as_ref());
        });
        reading.records()
    }
}

struct Reading<'a> {
    covers: &'a [Seq],
    last: Seq,
    outlives: Outliving<'a>,
    said: Vec<Said>,
    /// The calls that have no result yet: their tools and arguments.
    calls: HashMap<&'a ToolCallId, (&'a str, &'a str)>,
    plan: Option<(Seq, String)>,
    loaded: Vec<(Seq, String)>,
    turn: Seq,
}

struct Said {
    seq: Seq,
    text: String,
}

impl<'a> Reading<'a> {
    fn read(&mut self, seq: Seq, data: &'a EventData, surface: Option<&SurfaceOp>) {
        match (data, surface) {
            (EventData::TurnStart(_), _) => self.turn = seq,
            (EventData::TurnEnd(end), _) if is_stopped(&end.reason) => self.stopped(),
            (EventData::UserMessage(message), Some(SurfaceOp::Append)) if seq <= self.last => {
                self.message(seq, message);
            }
            // What a model refused does not come back by this door.
            (EventData::UserMessage(message), Some(SurfaceOp::Replace { covers, .. }))
                if !is_checkpoint(message) =>
            {
                self.said.retain(|said| !covers.contains(&said.seq));
            }
            (EventData::AssistantMessage(answer), _) => {
                for timed in &answer.blocks {
                    if let Block::ToolCall { id, name, arguments } = &timed.block {
                        self.calls.insert(id, (name, arguments));
                    }
                }
            }
            (EventData::ToolResult(result), Some(SurfaceOp::Append)) => self.result(seq, result),
            _ => {}
        }
    }

    fn message(&mut self, seq: Seq, message: &UserMessage) {
        match &message.source {
            UserSource::Human => {
                let text = text_of(message);
                if !text.trim().is_empty() {
                    self.said.push(Said { seq, text: text.trim().to_owned() });
                }
            }
            UserSource::Context { name } if reference::came_with_prompt(name) => {
                let name = name.strip_prefix(reference::REFERENCE).unwrap_or(name);
                self.loaded.push((seq, name.to_owned()));
            }
            UserSource::Context { .. } => {}
        }
    }

    fn result(&mut self, seq: Seq, result: &'a ToolResult) {
        let Some((name, arguments)) = self.calls.remove(&result.id) else { return };
        if result.error.is_some() {
            return;
        }
        match (self.outlives)(name, arguments, &result.content) {
            // A later plan takes the place of an earlier one wherever it stands.
            Some(Outlives::Plan(plan)) => self.plan = Some((seq, plan)),
            Some(Outlives::Answer(text)) if seq <= self.last => {
                self.said.push(Said { seq, text: format!("(asked by you) {}", text.trim()) });
            }
            Some(Outlives::Loaded(name)) if seq <= self.last => self.loaded.push((seq, name)),
            _ => {}
        }
    }

    /// The person stopped the turn that has just ended: what they had asked for in it is not wanted
    /// as it was said.
    fn stopped(&mut self) {
        let turn = self.turn;
        for said in self.said.iter_mut().rev().take_while(|said| said.seq > turn) {
            said.text.push_str(" [the user stopped the work on this]");
        }
    }

    fn records(self) -> Records {
        let Self { covers, last, said, plan, loaded, turn, .. } = self;
        let is_gone = |seq: &Seq| *seq > turn || covers.contains(seq);
        let mut names: Vec<String> = Vec::new();
        for (_, name) in loaded.into_iter().rev().filter(|(seq, _)| is_gone(seq)) {
            if names.len() < MOST_LOADED && !names.contains(&name) {
                names.push(name);
            }
        }
        names.reverse();
        Records {
            said: said.into_iter().map(|said| said.text).collect(),
            plan: plan.filter(|(seq, _)| *seq <= last).map(|(_, plan)| plan),
            loaded: names,
        }
    }
}

/// Whether the person said stop; a client that goes away has said nothing.
fn is_stopped(reason: &TurnEndReason) -> bool {
    matches!(reason, TurnEndReason::Aborted { cause } if cause == "cancel" || cause == "client")
}

fn is_checkpoint(message: &UserMessage) -> bool {
    matches!(&message.source, UserSource::Context { name } if name == SOURCE)
}

/// What a message says in text.
pub(crate) fn text_of(message: &UserMessage) -> String {
    let texts = message.content.iter().filter_map(|part| match part {
        Content::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
