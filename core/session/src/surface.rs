//! The surface: the ordered events that produce model messages now.
//!
//! [`Surface::plan`] checks an operation against the surface as it is; [`Surface::apply`] carries
//! out a checked plan and cannot fail. Live appends and replays both go through this pair, so a
//! log that was written can always be read again.

use std::ops::Range;
use std::sync::Arc;

use crate::content::Block;
use crate::event::{Event, SurfaceOp};
use crate::id::{Seq, ToolCallId};
use crate::projection::Projection;
use crate::vocabulary::{EventData, ToolResult};

/// The nodes are shared with projections: taking one copies nothing, and the first change after
/// it copies the list of pointers once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surface {
    nodes: Arc<Vec<Arc<Event>>>,
}

/// A checked change, valid for the surface that made it.
#[derive(Debug)]
pub(crate) enum Plan {
    /// The event is not on the surface.
    Stay,
    /// The event goes to the end.
    Append,
    /// The event takes the place of these nodes.
    Replace(Range<usize>),
}

impl Surface {
    /// The messages now.
    pub(crate) fn projection(&self) -> Projection {
        Projection::new(Arc::clone(&self.nodes))
    }

    /// Checks what an event would do to the surface.
    pub(crate) fn plan(
        &self,
        data: &EventData,
        op: Option<&SurfaceOp>,
    ) -> Result<Plan, &'static str> {
        match op {
            None if data.is_message() => Err("a message must be on the surface"),
            None => Ok(Plan::Stay),
            Some(_) if !data.is_message() => Err("only a message can be on the surface"),
            Some(SurfaceOp::Append) => self.plan_append(data),
            Some(SurfaceOp::Replace { first, last, covers }) => {
                self.plan_replace(data, *first, *last, covers)
            }
        }
    }

    /// Carries out a plan of this surface.
    pub(crate) fn apply(&mut self, plan: Plan, event: &Arc<Event>) {
        match plan {
            Plan::Stay => (),
            Plan::Append => Arc::make_mut(&mut self.nodes).push(Arc::clone(event)),
            Plan::Replace(span) => {
                Arc::make_mut(&mut self.nodes).splice(span, [Arc::clone(event)]);
            }
        }
    }

    fn plan_append(&self, data: &EventData) -> Result<Plan, &'static str> {
        if matches!(data, EventData::SystemMessage(_)) && !self.nodes.is_empty() {
            return Err("the system message is the first node; a later one replaces it");
        }
        Ok(Plan::Append)
    }

    fn plan_replace(
        &self,
        data: &EventData,
        first: Seq,
        last: Seq,
        covers: &[Seq],
    ) -> Result<Plan, &'static str> {
        let start =
            self.position(first).ok_or("the first node to replace is not on the surface")?;
        let end = self.position(last).ok_or("the last node to replace is not on the surface")?;
        let span = start..end.saturating_add(1);
        let nodes = self.nodes.get(span.clone()).unwrap_or_default();
        if nodes.is_empty() {
            return Err("the nodes to replace are in the wrong order");
        }
        if !nodes.iter().map(|node| node.seq).eq(covers.iter().copied()) {
            return Err("the covered nodes are not named exactly");
        }
        check_replacement(data, nodes)?;
        if !matches!(data, EventData::ToolResult(_)) {
            self.check_pairs(&span)?;
        }
        Ok(Plan::Replace(span))
    }

    fn position(&self, seq: Seq) -> Option<usize> {
        self.nodes.iter().position(|node| node.seq == seq)
    }

    /// A call and its result go together or stay together.
    fn check_pairs(&self, span: &Range<usize>) -> Result<(), &'static str> {
        let mut call_inside = std::collections::HashMap::<&ToolCallId, bool>::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let inside = span.contains(&index);
            match &node.data {
                EventData::AssistantMessage(answer) => {
                    let ids = answer.tool_calls().map(|(id, ..)| (id, inside));
                    call_inside.extend(ids);
                }
                EventData::ToolResult(result) if call_inside.get(&result.id) != Some(&inside) => {
                    return Err("a tool call and its result cannot be separated");
                }
                _ => (),
            }
        }
        Ok(())
    }
}

/// What may stand in the place of `nodes`, which is not empty.
fn check_replacement(data: &EventData, nodes: &[Arc<Event>]) -> Result<(), &'static str> {
    let system = |node: &Arc<Event>| matches!(node.data, EventData::SystemMessage(_));
    match (data, nodes) {
        (EventData::SystemMessage(_), [node]) if system(node) => Ok(()),
        (EventData::SystemMessage(_), _) => Err("a system message replaces the system message"),
        (_, nodes) if nodes.iter().any(system) => {
            Err("the system message is replaced only by another one")
        }
        (EventData::ToolResult(new), [node]) => match &node.data {
            EventData::ToolResult(old) if same_but_content(old, new) => Ok(()),
            EventData::ToolResult(_) => Err("of a tool result only the content may change"),
            _ => Err("a tool result replaces only its earlier form"),
        },
        (EventData::ToolResult(_), _) => Err("a tool result replaces only its earlier form"),
        (EventData::AssistantMessage(_), _) => Err("an answer is never put in another's place"),
        _ => Ok(()),
    }
}

fn same_but_content(old: &ToolResult, new: &ToolResult) -> bool {
    let shown = |result: &ToolResult| result.presentation.as_ref().map(|raw| raw.get().to_owned());
    (&old.id, &old.name, old.error, shown(old)) == (&new.id, &new.name, new.error, shown(new))
}

impl crate::vocabulary::AssistantMessage {
    /// The tool calls of the answer in the model's order: id, name and raw argument text.
    pub fn tool_calls(&self) -> impl Iterator<Item = (&ToolCallId, &str, &str)> {
        self.blocks.iter().filter_map(|timed| match &timed.block {
            Block::ToolCall { id, name, arguments } => {
                Some((id, name.as_str(), arguments.as_str()))
            }
            _ => None,
        })
    }
}
