//! Folds chunks into the answer that is stored.

use std::collections::HashSet;

use bridle_session::{Block, TimedBlock, ToolCallId, UnixMillis, Usage};

use crate::{BlockKind, Chunk, StopReason};

/// Collects the chunks of one attempt.
#[derive(Debug, Default)]
pub struct Assembler {
    slots: Vec<Slot>,
    stop: Option<StopReason>,
    usage: Usage,
}

/// A collected answer.
#[derive(Debug)]
pub struct Assembled {
    /// The blocks in the order they began.
    pub blocks: Vec<TimedBlock>,
    /// Why it ended; `None` when it was cut off.
    pub stop: Option<StopReason>,
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
    /// How many bytes of its text were taken; 1 for another block that was.
    taken: usize,
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

    /// Takes one chunk that arrived at `time`.
    pub fn push(&mut self, chunk: &Chunk, time: UnixMillis) {
        match chunk {
            Chunk::Start { usage } | Chunk::Usage(usage) => self.usage = *usage,
            Chunk::BlockStart { index, kind } => {
                let content = match kind {
                    BlockKind::Text => SlotContent::PartialText(String::new()),
                    _ => SlotContent::Partial,
                };
                self.slots.push(Slot { index: *index, started_at: time, content, taken: 0 });
            }
            Chunk::TextDelta { index, text } => {
                if let Some(Slot { content: SlotContent::PartialText(so_far), .. }) =
                    self.slot(*index)
                {
                    so_far.push_str(text);
                }
            }
            Chunk::ThinkingDelta { .. } | Chunk::ArgumentsDelta { .. } => {}
            Chunk::BlockEnd { index, block } => {
                if let Some(slot) = self.slot(*index) {
                    slot.content = SlotContent::Complete { block: block.clone(), ended_at: time };
                }
            }
            Chunk::Stop(reason) => self.stop = Some(*reason),
        }
    }

    /// The whole answer, after `Chunk::Stop`.
    pub fn finish(self) -> Assembled {
        let blocks = self.slots.into_iter().filter_map(Slot::complete).collect();
        Assembled { blocks, stop: self.stop, usage: self.usage }
    }

    /// What may be kept of an answer that was cut off: text as it stands, reasoning only in
    /// complete blocks, no tool calls.
    pub fn finish_interrupted(self, time: UnixMillis) -> Assembled {
        let blocks = self.slots.into_iter().filter_map(|slot| slot.safe_part(time)).collect();
        Assembled { blocks, stop: None, usage: self.usage }
    }

    /// Takes what [`Assembler::finish_interrupted`] would keep now and was not taken before. It
    /// goes no further than a block that is not complete, so that pieces taken one after the
    /// other are the answer's beginning.
    pub fn take_fresh(&mut self, time: UnixMillis) -> Fresh {
        let mut fresh = Fresh { continues: false, blocks: Vec::new(), usage: self.usage };
        for slot in &mut self.slots {
            let continues = slot.taken > 0;
            if let Some(block) = slot.take_fresh(time) {
                fresh.continues |= continues;
                fresh.blocks.push(block);
            }
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
    fn take_fresh(&mut self, time: UnixMillis) -> Option<TimedBlock> {
        let (text, ended_at) = match &self.content {
            SlotContent::PartialText(text) => (text, time),
            SlotContent::Complete { block: Block::Text { text }, ended_at } => (text, *ended_at),
            SlotContent::Complete {
                block: block @ (Block::Thinking { .. } | Block::RedactedThinking { .. }),
                ended_at,
            } if self.taken == 0 => {
                self.taken = 1;
                let (started_at, ended_at, block) = (self.started_at, *ended_at, block.clone());
                return Some(TimedBlock { started_at, ended_at, block });
            }
            _ => return None,
        };
        let text = text.get(self.taken..).filter(|text| !text.is_empty())?.to_owned();
        self.taken = self.taken.saturating_add(text.len());
        Some(TimedBlock { started_at: self.started_at, ended_at, block: Block::Text { text } })
    }

    fn complete(self) -> Option<TimedBlock> {
        match self.content {
            SlotContent::Complete { block, ended_at } => {
                Some(TimedBlock { started_at: self.started_at, ended_at, block })
            }
            _ => None,
        }
    }

    fn safe_part(self, time: UnixMillis) -> Option<TimedBlock> {
        match self.content {
            SlotContent::PartialText(text) if !text.is_empty() => Some(TimedBlock {
                started_at: self.started_at,
                ended_at: time,
                block: Block::Text { text },
            }),
            // A block that this build does not understand may need a partner that never came.
            SlotContent::Complete {
                block: Block::ToolCall { .. } | Block::Opaque { .. }, ..
            } => None,
            _ => self.complete(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Block {
        Block::Text { text: text.to_owned() }
    }

    fn thinking() -> Block {
        Block::Thinking { text: String::new(), signature: Some("s".to_owned()) }
    }

    fn call() -> Block {
        Block::ToolCall {
            id: ToolCallId::new("c"),
            name: "read".to_owned(),
            arguments: "{}".to_owned(),
        }
    }

    /// Thinking and a call complete, then text of which the end is missing.
    fn cut_off() -> Assembler {
        let call_kind = BlockKind::ToolCall { id: ToolCallId::new("c"), name: "read".to_owned() };
        let chunks = [
            Chunk::Start { usage: Usage { input: 5, ..Usage::default() } },
            Chunk::BlockStart { index: 0, kind: BlockKind::Thinking },
            Chunk::BlockEnd { index: 0, block: thinking() },
            Chunk::BlockStart { index: 1, kind: call_kind },
            Chunk::ArgumentsDelta { index: 1, json: "{}".to_owned() },
            Chunk::BlockEnd { index: 1, block: call() },
            Chunk::BlockStart { index: 2, kind: BlockKind::Text },
            Chunk::TextDelta { index: 2, text: "Hal".to_owned() },
            Chunk::TextDelta { index: 2, text: "f".to_owned() },
            Chunk::Usage(Usage { input: 5, output: 9, ..Usage::default() }),
        ];
        let mut assembler = Assembler::new();
        for (time, chunk) in (0..).zip(&chunks) {
            assembler.push(chunk, UnixMillis(time));
        }
        assembler
    }

    fn outline(assembled: &Assembled) -> Vec<String> {
        let one = |timed: &TimedBlock| {
            let json = serde_json::to_string(&timed.block).unwrap();
            format!("{}-{} {json}", timed.started_at.0, timed.ended_at.0)
        };
        assembled.blocks.iter().map(one).collect()
    }

    #[test]
    fn an_id_that_is_used_twice_gets_a_number_and_the_first_use_keeps_it() {
        let call = |id: &str| TimedBlock {
            started_at: UnixMillis(0),
            ended_at: UnixMillis(0),
            block: Block::ToolCall {
                id: ToolCallId::new(id),
                name: "read".to_owned(),
                arguments: "{}".to_owned(),
            },
        };
        let blocks = ["a", "old", "a", "a-2", "a", "b"].map(call).to_vec();
        let mut answer = Assembled { blocks, stop: None, usage: Usage::default() };
        answer.make_call_ids_unique(|id| id.as_str() == "old");
        let ids = answer.blocks.iter().map(|timed| match &timed.block {
            Block::ToolCall { id, .. } => id.as_str(),
            other => panic!("{other:?}"),
        });
        assert_eq!(ids.collect::<Vec<_>>(), ["a", "old-2", "a-2", "a-2-2", "a-3", "b"]);
    }

    #[test]
    fn what_is_taken_piece_by_piece_is_what_an_interruption_keeps() {
        let mut assembler = cut_off();
        let first = assembler.take_fresh(UnixMillis(10));
        assert!(!first.continues);
        let taken = outline(&Assembled { blocks: first.blocks, stop: None, usage: first.usage });
        assert_eq!(taken, outline(&cut_off().finish_interrupted(UnixMillis(10))));
        assert!(assembler.take_fresh(UnixMillis(11)).blocks.is_empty());
        assembler.push(&Chunk::TextDelta { index: 2, text: " and".to_owned() }, UnixMillis(12));
        assembler.push(&Chunk::BlockStart { index: 3, kind: BlockKind::Thinking }, UnixMillis(12));
        let next = assembler.take_fresh(UnixMillis(13));
        assert!(next.continues);
        let blocks: Vec<_> = next.blocks.into_iter().map(|timed| timed.block).collect();
        assert_eq!(blocks, [text(" and")]);
        assembler.push(&Chunk::BlockEnd { index: 2, block: text("Half and") }, UnixMillis(14));
        assembler.push(&Chunk::BlockEnd { index: 3, block: thinking() }, UnixMillis(15));
        let last = assembler.take_fresh(UnixMillis(16));
        assert!(!last.continues, "a new block begins");
        let blocks: Vec<_> = last.blocks.into_iter().map(|timed| timed.block).collect();
        assert_eq!(blocks, [thinking()]);
    }

    #[test]
    fn a_whole_answer_keeps_every_block_with_its_times() {
        let mut assembler = cut_off();
        assembler.push(&Chunk::BlockEnd { index: 2, block: text("Half and half") }, UnixMillis(10));
        assembler.push(&Chunk::Stop(StopReason::ToolUse), UnixMillis(11));
        let answer = assembler.finish();
        assert_eq!(
            outline(&answer),
            [
                r#"1-2 {"type":"thinking","text":"","signature":"s"}"#,
                r#"3-5 {"type":"tool_call","id":"c","name":"read","arguments":"{}"}"#,
                r#"6-10 {"type":"text","text":"Half and half"}"#,
            ]
        );
        assert_eq!(answer.stop, Some(StopReason::ToolUse));
        assert_eq!(answer.usage, Usage { input: 5, output: 9, ..Usage::default() });
    }

    #[test]
    fn a_cut_answer_keeps_text_and_complete_reasoning_but_no_call() {
        let mut assembler = cut_off();
        assembler.push(&Chunk::BlockStart { index: 3, kind: BlockKind::Thinking }, UnixMillis(12));
        let half = Chunk::ThinkingDelta { index: 3, text: "hm".to_owned() };
        assembler.push(&half, UnixMillis(13));
        assembler.push(&Chunk::BlockStart { index: 4, kind: BlockKind::Text }, UnixMillis(14));
        let answer = assembler.finish_interrupted(UnixMillis(20));
        assert_eq!(
            outline(&answer),
            [
                r#"1-2 {"type":"thinking","text":"","signature":"s"}"#,
                r#"6-20 {"type":"text","text":"Half"}"#,
            ]
        );
        assert_eq!(answer.stop, None);
    }
}
