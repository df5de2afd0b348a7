//! How full the context is: what the provider counted last, and an estimate of what came since,
//! corrected by how right the estimates of this session were.
//!
//! There is no tokenizer: the providers publish none for their models, and loading one would cost
//! more time than Bridle takes to start.

use serde::{Deserialize, Serialize};

use super::Fold;
use crate::content::{Block, Content};
use crate::event::{Event, SurfaceOp};
use crate::id::Seq;
use crate::projection::Message;
use crate::vocabulary::{CompactionEnd, CompactionOutcome, EventData, Usage};

/// Tenths of a byte of prose in a token, at the least; and the margin on top of it.
const PROSE: u64 = 35;
const PROSE_MARGIN: u64 = 115;

/// Tenths of a byte of JSON, code listings and program output in a token.
const DATA: u64 = 25;

/// An image costs this many tokens at most, whatever its size in bytes.
const IMAGE: u64 = 1_600;

/// The ratio of measured to estimated tokens is believed only between these percentages, so that
/// one odd count cannot turn every later estimate into nonsense.
const BELIEVED: std::ops::RangeInclusive<u64> = 40..=250;

/// The size of the context, in tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextSize {
    /// What the provider counted in the last request and its answer.
    measured: u64,
    /// The estimate of what came since, not corrected.
    since: u64,
    /// Of that, each message that no answer has followed yet.
    #[serde(default)]
    unread: Vec<(Seq, u64)>,
    /// The sums from which the ratio follows: growth of the prompt as estimated and as counted.
    estimated: u64,
    counted: u64,
    /// Whether `measured` is an estimate itself, because the context was shortened.
    #[serde(default)]
    rough: bool,
}

impl ContextSize {
    /// How many tokens the next request will have, as far as one can know. Where something on the
    /// surface was replaced and no compaction said how much is left, this is an upper bound until the
    /// next answer.
    pub fn tokens(&self) -> u64 {
        self.measured.saturating_add(self.since.saturating_mul(self.percent()) / 100)
    }

    /// How full a window of so many tokens is, in percent; may be over 100.
    pub fn pressure(&self, window: u64) -> u64 {
        self.tokens().saturating_mul(100).checked_div(window).unwrap_or(0)
    }

    /// What the provider counted for each 100 tokens that were estimated in this session; 100
    /// before anything is known.
    pub fn percent(&self) -> u64 {
        let percent = self.counted.saturating_mul(100).checked_div(self.estimated).unwrap_or(100);
        percent.clamp(*BELIEVED.start(), *BELIEVED.end())
    }

    fn answered(&mut self, usage: &Usage, blocks: u64) {
        self.unread.clear();
        if *usage == Usage::default() {
            // This provider counts nothing.
            self.since = self.since.saturating_add(blocks);
            return;
        }
        let prompt = usage.context().saturating_sub(usage.output);
        // The first request also holds the tools, which are not in the estimate.
        let is_sound = self.measured > 0 && !std::mem::take(&mut self.rough);
        if is_sound && prompt > self.measured && self.since > 0 {
            self.counted = self.counted.saturating_add(prompt - self.measured);
            self.estimated = self.estimated.saturating_add(self.since);
        }
        (self.measured, self.since) = (usage.context(), 0);
    }
}

impl Fold for ContextSize {
    const NAME: &'static str = "context-size";
    const VERSION: u32 = 2;

    fn apply(&mut self, event: &Event) {
        let estimate = match &event.data {
            EventData::AssistantMessage(answer) => {
                return self.answered(&answer.usage, estimate(Message::Assistant(answer)));
            }
            EventData::CompactionEnd(CompactionEnd {
                outcome: CompactionOutcome::Compacted { tokens },
                ..
            }) => {
                (self.measured, self.since, self.rough) = (*tokens, 0, true);
                self.unread.clear();
                return;
            }
            EventData::SystemMessage(message) => estimate(Message::System(message)),
            EventData::UserMessage(message) => estimate(Message::User(message)),
            EventData::ToolResult(result) => estimate(Message::ToolResult(result)),
            _ => return,
        };
        // What goes before an answer has counted it is known to be gone.
        if let Some(SurfaceOp::Replace { covers, .. }) = &event.surface {
            let gone = self.unread.extract_if(.., |(seq, _)| covers.contains(seq));
            let gone: u64 = gone.map(|(_, tokens)| tokens).sum();
            self.since = self.since.saturating_sub(gone);
        }
        self.unread.push((event.seq, estimate));
        self.since = self.since.saturating_add(estimate);
    }
}

/// About how many tokens a message is. [`ContextSize::percent`] says how right that was so far.
pub(crate) fn estimate(message: Message<'_>) -> u64 {
    match message {
        Message::System(message) => prose(message.text.len()),
        Message::User(message) => message.content.iter().map(part).sum(),
        Message::Developer(_) => 0,
        Message::Assistant(answer) => answer.blocks.iter().map(|timed| block(&timed.block)).sum(),
        Message::ToolResult(result) => result.content.iter().map(output).sum(),
    }
}

/// About how many tokens so many bytes of JSON, code or program output are.
pub fn estimate_data(bytes: usize) -> u64 {
    data(bytes)
}

/// About how many tokens so many bytes of prose are.
pub fn estimate_prose(bytes: usize) -> u64 {
    prose(bytes)
}

fn prose(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(10).saturating_mul(PROSE_MARGIN) / (PROSE * 100)
}

fn data(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(10) / DATA
}

fn part(content: &Content) -> u64 {
    match content {
        Content::Text { text } | Content::Resource { text, .. } => prose(text.len()),
        Content::Blob { preview, .. } => data(preview.len()),
        Content::Link { uri, name } => prose(uri.len() + name.len()),
        Content::Image { .. } => IMAGE,
    }
}

/// What a tool said is data even where it is text.
fn output(content: &Content) -> u64 {
    match content {
        Content::Text { text } => data(text.len()),
        other => part(other),
    }
}

fn block(block: &Block) -> u64 {
    match block {
        Block::Text { text } | Block::Thinking { text, .. } => prose(text.len()),
        Block::ToolCall { name, arguments, .. } => data(name.len() + arguments.len()),
        Block::RedactedThinking { data: hidden } => data(hidden.len()),
        Block::Opaque { raw } => data(raw.json().len()),
    }
}
