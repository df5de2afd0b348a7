//! Whole answers, answers that were cut off, and answers taken piece by piece.

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
        raw: None,
    };
    let blocks = ["a", "old", "a", "a-2", "a", "b"].map(call).to_vec();
    let mut answer = Assembled { blocks, stop: None, refusal: None, usage: Usage::default() };
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
    let taken =
        outline(&Assembled { blocks: first.blocks, stop: None, refusal: None, usage: first.usage });
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
    let last = assembler.take_fresh(UnixMillis(16)).blocks;
    assert!(last.is_empty(), "reasoning behind a call that is not kept: {last:?}");
}

/// What would be kept of `blocks`, all complete, at once and in two pieces.
fn kept(blocks: &[(Block, Option<&str>)]) -> Vec<Block> {
    let raw = |json: &str| OpaqueBlock::new(serde_json::from_str(json).unwrap());
    let mut assembler = Assembler::new();
    let mut taken = Vec::new();
    for (index, (block, own_form)) in (0..).zip(blocks) {
        let kind = match block {
            Block::Text { .. } => BlockKind::Text,
            Block::Opaque { .. } => BlockKind::Opaque,
            _ => BlockKind::Thinking,
        };
        assembler.push(&Chunk::BlockStart { index, kind }, UnixMillis(1));
        let own_form = own_form.map(|json| Chunk::OwnForm { index, raw: raw(json) });
        own_form.iter().for_each(|chunk| assembler.push(chunk, UnixMillis(1)));
        assembler.push(&Chunk::BlockEnd { index, block: block.clone() }, UnixMillis(1));
        taken.extend(assembler.take_fresh(UnixMillis(1)).blocks);
    }
    let whole = assembler.finish_interrupted(UnixMillis(1)).blocks;
    assert_eq!(taken, whole);
    whole.into_iter().map(|timed| timed.block).collect()
}

#[test]
fn reasoning_is_kept_only_behind_what_is_kept_whole() {
    let raw = Box::new(OpaqueBlock::new(serde_json::from_str("{\"type\":\"x\"}").unwrap()));
    let opaque = Block::Opaque { raw };
    assert_eq!(
        kept(&[(thinking(), None), (text("a"), Some("{\"type\":\"text\"}")), (thinking(), None)]),
        [thinking(), text("a"), thinking()]
    );
    for lost in [call(), opaque] {
        assert_eq!(
            kept(&[(thinking(), None), (lost, None), (thinking(), None), (text("a"), None)]),
            [thinking(), text("a")]
        );
    }
}

#[test]
fn a_text_taken_in_pieces_loses_its_own_form_and_so_the_reasoning_behind_it() {
    let raw = OpaqueBlock::new(serde_json::from_str("{\"type\":\"text\"}").unwrap());
    let mut assembler = Assembler::new();
    assembler.push(&Chunk::BlockStart { index: 0, kind: BlockKind::Text }, UnixMillis(1));
    let piece = Chunk::TextDelta { index: 0, text: "a".to_owned() };
    assembler.push(&piece, UnixMillis(1));
    assert_eq!(assembler.take_fresh(UnixMillis(1)).blocks.len(), 1);
    for chunk in [
        Chunk::OwnForm { index: 0, raw },
        Chunk::BlockEnd { index: 0, block: text("ab") },
        Chunk::BlockStart { index: 1, kind: BlockKind::Thinking },
        Chunk::BlockEnd { index: 1, block: thinking() },
    ] {
        assembler.push(&chunk, UnixMillis(2));
    }
    let rest = assembler.take_fresh(UnixMillis(2)).blocks;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!((&rest[0].block, &rest[0].raw), (&text("b"), &None));
    let whole = assembler.finish_interrupted(UnixMillis(2)).blocks;
    assert!(whole[0].raw.is_some() && whole.len() == 2, "{whole:?}");
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
