//! Folds chunks into the answer that is stored.

use std::collections::HashSet;

use bridle_session::{Block, OpaqueBlock, TimedBlock, ToolCallId, UnixMillis, Usage};

use crate::{BlockKind, Chunk, Refusal, StopReason};

/// Collects the chunks of one attempt.
#[derive(Debug, Default)]
pub struct Assembler {
    slots: Vec<Slot>,
    stop: Option<StopReason>,
    refusal: Option<Refusal>,
    usage: Usage,
}

/// A collected answer.
#[derive(Debug)]
pub struct Assembled {
    /// The blocks in the order they began.
    pub blocks: Vec<TimedBlock>,
    /// Why it ended; `None` when it was cut off.
    pub stop: Option<StopReason>,
    /// What the provider says of a refusal.
    pub refusal: Option<Refusal>,
    /// What it cost, as far as known.
    pub usage: Usage,
}

impl Assembled {
    /// Gives each tool call an id of its own where the model used one twice, in this answer or
    /// before: calls and results are told apart by nothing else. Both go back under the new id.
    pub fn make_call_ids_unique(&mut self, is_taken: impl Fn(&ToolCallId) -> bool) {
        let mut own: HashSet<ToolCallId> = HashSet::new();
        for timed in &mut self.blocks {
            let Block::ToolCall { id, .. } = &mut timed.block else { continue };
            let given = id.clone();
            let mut number = 2_u64;
            while is_taken(id) || own.contains(id) {
                *id = ToolCallId::new(format!("{given}-{number}"));
                number = number.saturating_add(1);
            }
            own.insert(id.clone());
        }
    }
}

/// What may be kept of an answer so far and was not taken before.
#[derive(Debug)]
pub struct Fresh {
    /// Whether the first block's text goes on where the last taken text ended.
    pub continues: bool,
    /// The blocks, of text only the fresh part.
    pub blocks: Vec<TimedBlock>,
    /// What the answer cost so far.
    pub usage: Usage,
}

/// One block between its start and the end of the answer.
#[derive(Debug)]
struct Slot {
    index: u32,
    started_at: UnixMillis,
    content: SlotContent,
    /// The provider's own form, where it says more.
    raw: Option<Box<OpaqueBlock>>,
    /// How many bytes of its text were taken; 1 for another block that was.
    taken: usize,
    /// Whether a part of its text was taken before it was complete.
    is_in_pieces: bool,
}

#[derive(Debug)]
enum SlotContent {
    /// Text that may be kept as it stands.
    PartialText(String),
    /// Anything else is of use only when complete.
    Partial,
    Complete {
        block: Block,
        ended_at: UnixMillis,
    },
}

impl Assembler {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// What the request has cost so far, as far as the provider said.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Takes one chunk that arrived at `time`.
    pub fn push(&mut self, chunk: &Chunk, time: UnixMillis) {
        match chunk {
            Chunk::Start { usage } | Chunk::Usage(usage) => self.usage = *usage,
            Chunk::BlockStart { index, kind } => {
                let content = match kind {
                    BlockKind::Text => SlotContent::PartialText(String::new()),
                    _ => SlotContent::Partial,
                };
                self.slots.push(Slot {
                    index: *index,
                    started_at: time,
                    content,
                    raw: None,
                    taken: 0,
                    is_in_pieces: false,
                });
            }
            Chunk::TextDelta { index, text } => {
                if let Some(Slot { content: SlotContent::PartialText(so_far), .. }) =
                    self.slot(*index)
                {
                    so_far.push_str(text);
                }
            }
            Chunk::ThinkingDelta { .. } | Chunk::ArgumentsDelta { .. } => {}
            Chunk::OwnForm { index, raw } => {
                if let Some(slot) = self.slot(*index) {
                    slot.raw = Some(Box::new(raw.clone()));
                }
            }
            Chunk::BlockEnd { index, block } => {
                if let Some(slot) = self.slot(*index) {
                    slot.content = SlotContent::Complete { block: block.clone(), ended_at: time };
                }
            }
            Chunk::Refusal(refusal) => self.refusal = Some(refusal.clone()),
            Chunk::Stop(reason) => self.stop = Some(*reason),
        }
    }

    /// The whole answer, after `Chunk::Stop`.
    pub fn finish(self) -> Assembled {
        let blocks = self.slots.into_iter().filter_map(Slot::complete).collect();
        Assembled { blocks, stop: self.stop, refusal: self.refusal, usage: self.usage }
    }

    /// What may be kept of an answer that was cut off: text as it stands, no tool calls, reasoning
    /// only in complete blocks and only while everything before it is kept, because a model binds
    /// it to that.
    pub fn finish_interrupted(self, time: UnixMillis) -> Assembled {
        let mut is_whole = true;
        let mut safe = |slot: Slot| {
            let may_keep = is_whole || !slot.is_reasoning();
            is_whole &= slot.is_kept_whole();
            if may_keep { slot.safe_part(time) } else { None }
        };
        let blocks = self.slots.into_iter().filter_map(&mut safe).collect();
        Assembled { blocks, stop: None, refusal: None, usage: self.usage }
    }

    /// Takes what [`Assembler::finish_interrupted`] would keep now and was not taken before. It
    /// goes no further than a block that is not complete, so that pieces taken one after the
    /// other are the answer's beginning.
    pub fn take_fresh(&mut self, time: UnixMillis) -> Fresh {
        let mut fresh = Fresh { continues: false, blocks: Vec::new(), usage: self.usage };
        let mut is_whole = true;
        for slot in &mut self.slots {
            let continues = slot.taken > 0;
            if (is_whole || !slot.is_reasoning())
                && let Some(block) = slot.take_fresh(time)
            {
                fresh.continues |= continues;
                fresh.blocks.push(block);
            }
            // The provider's form of a text that went in pieces was not taken.
            is_whole &= slot.is_kept_whole() && (slot.raw.is_none() || !slot.is_in_pieces);
            if !matches!(slot.content, SlotContent::Complete { .. }) {
                break;
            }
        }
        fresh
    }

    /// The block that chunks with `index` belong to. The newest one is nearly always meant.
    fn slot(&mut self, index: u32) -> Option<&mut Slot> {
        self.slots.iter_mut().rev().find(|slot| slot.index == index)
    }
}

impl Slot {
    fn is_reasoning(&self) -> bool {
        matches!(
            self.content,
            SlotContent::Complete {
                block: Block::Thinking { .. } | Block::RedactedThinking { .. },
                ..
            }
        )
    }

    /// Whether an interruption would keep all of it. A block that this build does not understand
    /// may need a partner that never came.
    fn is_kept_whole(&self) -> bool {
        match &self.content {
            SlotContent::Complete { block, .. } => {
                !matches!(block, Block::ToolCall { .. } | Block::Opaque { .. })
            }
            SlotContent::PartialText(_) | SlotContent::Partial => false,
        }
    }

    fn take_fresh(&mut self, time: UnixMillis) -> Option<TimedBlock> {
        let is_first = self.taken == 0;
        let (block, ended_at, raw) = match &self.content {
            SlotContent::PartialText(text) => {
                self.is_in_pieces |= !text.is_empty();
                (self.fresh_text(text)?, time, None)
            }
            SlotContent::Complete { block: Block::Text { text }, ended_at } => {
                let raw = self.raw.clone().filter(|_| is_first);
                (self.fresh_text(text)?, *ended_at, raw)
            }
            SlotContent::Complete { block, ended_at } if is_first && self.is_reasoning() => {
                (block.clone(), *ended_at, self.raw.clone())
            }
            _ => return None,
        };
        let more = if let Block::Text { text } = &block { text.len() } else { 1 };
        self.taken = self.taken.saturating_add(more);
        Some(TimedBlock { started_at: self.started_at, ended_at, block, raw })
    }

    fn fresh_text(&self, text: &str) -> Option<Block> {
        let text = text.get(self.taken..).filter(|text| !text.is_empty())?.to_owned();
        Some(Block::Text { text })
    }

    fn complete(self) -> Option<TimedBlock> {
        let Self { started_at, content, raw, .. } = self;
        match content {
            SlotContent::Complete { block, ended_at } => {
                Some(TimedBlock { started_at, ended_at, block, raw })
            }
            SlotContent::PartialText(_) | SlotContent::Partial => None,
        }
    }

    fn safe_part(self, time: UnixMillis) -> Option<TimedBlock> {
        if self.is_kept_whole() {
            return self.complete();
        }
        match self.content {
            SlotContent::PartialText(text) if !text.is_empty() => Some(TimedBlock {
                started_at: self.started_at,
                ended_at: time,
                block: Block::Text { text },
                raw: None,
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
