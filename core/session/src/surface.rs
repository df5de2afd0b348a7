//! The surface: the ordered events that produce model messages now.
//!
//! [`Surface::plan`] checks an operation against the surface as it is; [`Surface::apply`] carries
//! out a checked plan and cannot fail. Live appends and replays both go through this pair, so a
//! log that was written can always be read again.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use crate::content::Block;
use crate::damage::Gap;
use crate::event::{Event, SurfaceOp};
use crate::id::{Seq, ToolCallId};
use crate::nodes::Nodes;
use crate::projection::Projection;
use crate::session::AppendError;
use crate::state::SessionState;
use crate::vocabulary::{AssistantMessage, EventData, Span, ToolResult};

/// The nodes are shared with projections: taking one copies nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surface {
    nodes: Nodes,
}

/// A checked change, valid for the surface that made it.
#[derive(Debug)]
pub(crate) enum Plan {
    /// The event is not on the surface.
    Stay,
    /// The event goes to the end.
    Append,
    /// The event takes the place of these nodes; of none, it goes between its neighbours.
    Replace(Range<usize>),
}

impl Surface {
    /// The messages now.
    pub(crate) fn projection(&self, state: &SessionState) -> Projection {
        Projection::new(self.nodes.clone(), state)
    }

    /// The surface without these nodes.
    pub(crate) fn without(&self, omitted: Option<Span>) -> Self {
        let Some(Span { first, last }) = omitted else { return self.clone() };
        let (Some(start), Some(end)) = (self.position(first), self.position(last)) else {
            return self.clone();
        };
        let mut nodes = Nodes::default();
        let stays = |(index, _): &(usize, _)| !(start..=end).contains(index);
        self.nodes
            .iter()
            .enumerate()
            .filter(stays)
            .for_each(|(_, node)| nodes.push(Arc::clone(node)));
        Self { nodes }
    }

    /// The surface with one more node, whatever it is.
    pub(crate) fn followed_by(mut self, event: Arc<Event>) -> Self {
        self.nodes.push(event);
        self
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
            Plan::Append => self.nodes.push(Arc::clone(event)),
            Plan::Replace(span) => self.nodes.replace(span, Arc::clone(event)),
        }
    }

    /// The system message is the head of every request, so it goes to the front also where the
    /// first one was lost and a user message stands there.
    fn plan_append(&self, data: &EventData) -> Result<Plan, &'static str> {
        if !matches!(data, EventData::SystemMessage(_)) {
            return Ok(Plan::Append);
        }
        if self.nodes.first().is_some_and(is_system) {
            return Err("the system message is the first node; a later one replaces it");
        }
        Ok(Plan::Replace(0..0))
    }

    /// Where a message belongs whose own place was lost.
    pub(crate) fn plan_behind_damage(
        &self,
        event: &Event,
        gaps: &[Gap],
    ) -> Result<Plan, AppendError> {
        let system = matches!(event.data, EventData::SystemMessage(_));
        if system {
            let head = usize::from(self.nodes.first().is_some_and(is_system));
            return Ok(Plan::Replace(0..head));
        }
        let Some(SurfaceOp::Replace { covers, .. }) = &event.surface else {
            return self.plan(&event.data, event.surface.as_ref()).map_err(AppendError::Surface);
        };
        let end = self.nodes.len()..self.nodes.len();
        Ok(Plan::Replace(self.whole_pairs(self.remaining(covers, gaps).unwrap_or(end))))
    }

    /// The span with the answers of its results and the results of its answers. Results stand
    /// right behind their answer.
    fn whole_pairs(&self, span: Range<usize>) -> Range<usize> {
        let is_result = |index: usize| {
            let node = self.nodes.get(index);
            node.is_some_and(|node| matches!(node.data, EventData::ToolResult(_)))
        };
        let Range { mut start, mut end } = span;
        while start > 0 && is_result(start) {
            start = start.saturating_sub(1);
        }
        while is_result(end) {
            end = end.saturating_add(1);
        }
        start..end
    }

    /// The nodes that remain of a span: those that it names, what stands between them, and the
    /// notes of the gaps that took the others. When notes are all that is left, the new node
    /// stands behind them, because it also says what was lost there.
    fn remaining(&self, covers: &[Seq], gaps: &[Gap]) -> Option<Range<usize>> {
        let named: HashSet<_> = covers.iter().copied().collect();
        let is_note = |node: &Event| {
            let gap = gaps.iter().find(|gap| gap.lost.first == node.seq);
            gap.is_some_and(|gap| covers.iter().any(|seq| gap.lost.contains(*seq)))
        };
        let mut span: Option<Range<usize>> = None;
        let mut only_notes = true;
        for (index, node) in self.nodes.iter().enumerate() {
            let note = is_note(node);
            if (note || named.contains(&node.seq)) && !is_system(node) {
                only_notes &= note;
                let start = span.as_ref().map_or(index, |span| span.start);
                span = Some(start..index.saturating_add(1));
            }
        }
        span.map(|span| if only_notes { span.end..span.end } else { span })
    }

    /// Changes the newest answer without changing its place.
    pub(crate) fn rewrite_last_answer(
        &mut self,
        rewrite: impl FnOnce(&AssistantMessage) -> AssistantMessage,
    ) {
        for index in (0..self.nodes.len()).rev() {
            if let Some(node) = self.nodes.get(index)
                && let EventData::AssistantMessage(answer) = &node.data
            {
                let node = Event { data: rewrite(answer).into(), ..(**node).clone() };
                self.nodes.set(index, Arc::new(node));
                return;
            }
        }
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
        let nodes: Vec<_> = self.nodes.iter().take(span.end).skip(span.start).collect();
        if nodes.is_empty() {
            return Err("the nodes to replace are in the wrong order");
        }
        if !nodes.iter().map(|node| node.seq).eq(covers.iter().copied()) {
            return Err("the covered nodes are not named exactly");
        }
        check_replacement(data, &nodes)?;
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
fn check_replacement(data: &EventData, nodes: &[&Arc<Event>]) -> Result<(), &'static str> {
    match (data, nodes) {
        (EventData::SystemMessage(_), [node]) if is_system(node) => Ok(()),
        (EventData::SystemMessage(_), _) => Err("a system message replaces the system message"),
        (_, nodes) if nodes.iter().any(|node| is_system(node)) => {
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

fn is_system(node: &Arc<Event>) -> bool {
    matches!(node.data, EventData::SystemMessage(_))
}

fn same_but_content(old: &ToolResult, new: &ToolResult) -> bool {
    let shown = |result: &ToolResult| result.presentation.as_ref().map(|raw| raw.get().to_owned());
    (&old.id, &old.name, old.error, shown(old)) == (&new.id, &new.name, new.error, shown(new))
}

impl AssistantMessage {
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
