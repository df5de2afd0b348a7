//! What of a conversation a summary takes the place of: everything between the system prompt and
//! the tail. A tool call and its result stay together on one side.

use std::collections::BTreeSet;
use std::ops::Range;

use bridle_session::{Message, Projection, Seq, Span, UserMessage, UserSource};

use super::SOURCE;

/// The cut of a conversation. Sizes are estimates before correction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The nodes that go, in surface order; never empty.
    pub(crate) covers: Vec<Seq>,
    /// Their size.
    pub(crate) tokens: u64,
    /// Of that, the size of what context sources say again as soon as it is gone.
    pub(crate) said_again: u64,
}

impl Plan {
    /// The cut that leaves at most `tail` tokens at the end, or what no answer has followed yet where
    /// that is longer: it is not summarised unread. `speaks` tells whether a source still stands behind
    /// what is on the surface under a name. `None` when nothing would go but an earlier summary.
    pub(crate) fn of(
        surface: &Projection,
        tail: u64,
        speaks: impl Fn(&str) -> bool,
    ) -> Option<Self> {
        let nodes = Nodes::of(surface);
        let span = nodes.head..nodes.cut(tail).min(nodes.unanswered());
        let covered = nodes.all.get(span.clone())?;
        if covered.iter().all(|node| node.is_summary) {
            return None;
        }
        let tokens = covered.iter().map(|node| node.tokens).sum();
        let covers = covered.iter().map(|node| node.seq).collect();
        Some(Self { covers, tokens, said_again: said_again(surface, span.end, speaks) })
    }

    /// How much shorter the conversation gets, but for what takes the place of this.
    pub(crate) fn gain(&self) -> u64 {
        self.tokens.saturating_sub(self.said_again)
    }
}

/// The size of what is said again when all that stands before `end` is gone: the newest under each name.
fn said_again(surface: &Projection, end: usize, speaks: impl Fn(&str) -> bool) -> u64 {
    let messages: Vec<_> = surface.messages().collect();
    let mut heard = BTreeSet::new();
    let newest = messages.iter().enumerate().rev().filter_map(|(index, message)| match message {
        Message::User(UserMessage { source: UserSource::Context { name }, .. }) => {
            (heard.insert(name) && index < end && speaks(name)).then(|| message.tokens())
        }
        _ => None,
    });
    newest.sum()
}

/// What no answer has followed yet at the end of a conversation that has something before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unread {
    /// Where it stands.
    pub(crate) span: Span,
    /// Its size: an estimate before correction.
    pub(crate) tokens: u64,
    /// Whether it is input alone, no results of an answer's calls.
    pub(crate) is_input: bool,
}

impl Unread {
    /// `None` where the last thing said is an answer.
    pub(crate) fn of(surface: &Projection) -> Option<Self> {
        let nodes = Nodes::of(surface);
        let unread = nodes.all.get(nodes.unanswered()..)?;
        let span = Span { first: unread.first()?.seq, last: unread.last()?.seq };
        let tokens = unread.iter().map(|node| node.tokens).sum();
        let is_input = !unread.iter().any(|node| node.is_answer || node.is_result);
        Some(Self { span, tokens, is_input })
    }
}

/// What a summary request leaves out so that at most `room` tokens remain: the oldest part behind an
/// earlier summary. `None` when nothing need go, or all would.
pub(crate) fn omission(surface: &Projection, room: u64) -> Option<Span> {
    let nodes = Nodes::of(surface);
    let is_summary = |index: &usize| nodes.all.get(*index).is_some_and(|node| node.is_summary);
    let start = (nodes.head..).find(|index| !is_summary(index))?;
    let end = nodes.cut(room);
    let gone: Range<usize> = start..end;
    if end >= nodes.all.len() {
        return None;
    }
    let gone = nodes.all.get(gone)?;
    Some(Span { first: gone.first()?.seq, last: gone.last()?.seq })
}

struct Nodes {
    /// How many stand before the conversation: the system prompt, or nothing.
    head: usize,
    all: Vec<Node>,
}

struct Node {
    seq: Seq,
    tokens: u64,
    is_answer: bool,
    is_result: bool,
    is_summary: bool,
}

impl Nodes {
    fn of(surface: &Projection) -> Self {
        let all = surface.entries().map(|(seq, message)| Node {
            seq,
            tokens: message.tokens(),
            is_answer: matches!(message, Message::Assistant(_)),
            is_result: matches!(message, Message::ToolResult(_)),
            is_summary: is_summary(&message),
        });
        let head = surface.messages().next();
        let head = usize::from(matches!(head, Some(Message::System(_))));
        Self { head, all: all.collect() }
    }

    /// Where the longest end of at most `room` tokens begins that begins with no result.
    fn cut(&self, room: u64) -> usize {
        let mut left = room;
        let mut cut = self.all.len();
        for (index, node) in self.all.iter().enumerate().skip(self.head).rev() {
            let Some(rest) = left.checked_sub(node.tokens) else { break };
            (left, cut) = (rest, index);
        }
        while self.all.get(cut).is_some_and(|node| node.is_result) {
            cut = cut.saturating_add(1);
        }
        cut
    }

    /// Where what no answer has followed yet begins: input, or the answer whose results were not
    /// read yet.
    fn unanswered(&self) -> usize {
        let answer = self.all.iter().rposition(|node| node.is_answer);
        let Some(answer) = answer else { return self.head };
        let behind = answer.saturating_add(1);
        if self.all.get(behind).is_some_and(|node| node.is_result) { answer } else { behind }
    }
}

fn is_summary(message: &Message<'_>) -> bool {
    matches!(message, Message::User(user)
        if matches!(&user.source, UserSource::Context { name } if name == SOURCE))
}
