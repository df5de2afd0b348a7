//! An event's line keeps every byte that matters: texts, numbers, raw JSON, unknown events.

use serde_json::value::RawValue;

use super::sample::*;
use crate::*;

/// Raw JSON that a parser which understood it would change.
const EXACT: [&str; 9] = [
    "123456789012345678901234567890.000100",
    "1e400",
    "-0",
    "1.0",
    "0.1e+05",
    r#"{"b":1,"a":2,"a":3}"#,
    r#""\ud800 \u0041 \/""#,
    r#"{ "spaced" : [ 1 , 2 ] }"#,
    "null",
];

/// Texts that break careless writers.
const TEXTS: [&str; 7] = [
    "",
    "line\nline\r\n\ttab",
    "\u{0}\u{1}\u{7f}\u{2028}\u{2029}\u{feff}",
    "\"quoted\" \\ back",
    r#"{"path":"\ud83d","n":1e999,"half":"#,
    "👩‍👩‍👧 e\u{301} \u{202e}rtl",
    "$serde_json::private::RawValue",
];

fn event(data: impl Into<EventData>) -> Event {
    let Draft { data, surface } = Draft::new(data);
    let ignorable = data.is_ignorable();
    Event { seq: Seq(u64::MAX), time: UnixMillis(9_007_199_254_740_993), data, surface, ignorable }
}

/// Writes, reads and writes again; returns the event as read.
fn through_a_line(event: &Event) -> Event {
    let line = event.to_line().unwrap();
    assert!(!line.contains(['\n', '\r']), "{line}");
    let read = Event::from_line(&line).unwrap();
    assert_eq!(read.to_line().unwrap(), line);
    read
}

#[test]
fn an_answer_keeps_every_text() {
    for text in TEXTS {
        let text = text.to_owned();
        let blocks = [
            Block::Text { text: text.clone() },
            Block::Thinking { text: String::new(), signature: Some(text.clone()) },
            Block::Thinking { text: text.clone(), signature: None },
            Block::RedactedThinking { data: text.clone() },
            Block::ToolCall { id: ToolCallId::new(&*text), name: text.clone(), arguments: text },
        ];
        let answer = answer_message("a", blocks);
        match through_a_line(&event(answer.clone())).data {
            EventData::AssistantMessage(read) => assert_eq!(read, answer),
            other => panic!("read {other:?}"),
        }
    }
}

#[test]
fn a_user_message_keeps_every_text() {
    for text in TEXTS {
        let text = text.to_owned();
        let content = vec![
            Content::Text { text: text.clone() },
            Content::Resource {
                uri: text.clone(),
                mime_type: Some(text.clone()),
                text: text.clone(),
            },
            Content::Link { uri: text.clone(), name: text },
        ];
        let message = UserMessage { content, ..user_message("x") };
        match through_a_line(&event(message.clone())).data {
            EventData::UserMessage(read) => assert_eq!(read, message),
            other => panic!("read {other:?}"),
        }
    }
}

/// What each type that no other test writes looks like on the disk.
#[test]
fn every_type_has_its_line() {
    let blob = || BlobRef { hash: BlobHash::of_digest(&[171; 32]), bytes: u64::MAX };
    let blobs = UserMessage {
        content: vec![
            Content::Blob { blob: blob(), mime_type: "text/plain".into(), preview: "p".into() },
            Content::Image { blob: blob(), mime_type: "image/png".into() },
        ],
        ..user_message("x")
    };
    let done = TodoItem { text: "t".into(), status: TodoStatus::Completed };
    let events: Vec<EventData> = vec![
        blobs.into(),
        DeveloperMessage { added: vec!["a".into()], removed: vec!["b".into()] }.into(),
        SeedEnd { inherited: EventCount(u64::MAX) }.into(),
        SandboxMode { mode: "read-only".into() }.into(),
        PlanMode { active: true }.into(),
        offload(&[1], OffloadReason::Lost, None),
        offload(&[1, 2], OffloadReason::Room, Some(3)),
        ImageScaled {
            image: blob().hash,
            from: PixelSize { width: 4, height: 2 },
            blob: blob(),
            mime_type: "image/png".into(),
            to: PixelSize { width: 2, height: 1 },
            first_of_several: true,
        }
        .into(),
        TodoWrite { items: vec![done] }.into(),
        GoalChange { goal: None }.into(),
        JobStarted { id: JobId::new("j"), title: "make".into() }.into(),
        JobEnded { id: JobId::new("j"), outcome: JobOutcome::Exited { code: -1 } }.into(),
        JobEnded { id: JobId::new("j"), outcome: JobOutcome::Killed { signal: 9 } }.into(),
        FileObserved { path: "/a b".into(), hash: Some("ab".into()) }.into(),
        FileObserved { path: "/gone".into(), hash: None }.into(),
        FileKept { path: "/a".into(), before: FileBefore::Absent, left: None }.into(),
        FileKept {
            path: "/a".into(),
            before: FileBefore::File { blob: blob(), mode: 0o644 },
            left: Some("h".into()),
        }
        .into(),
        FileKept {
            path: "/a".into(),
            before: FileBefore::Unkept { reason: "r".into() },
            left: None,
        }
        .into(),
        FeedbackRecord { text: "good".into() }.into(),
    ];
    expect_test::expect![[r#"
        {"type":"user/message","data":{"id":"id of x","content":[{"type":"blob","blob":{"hash":"abababababababababababababababababababababababababababababababab","bytes":18446744073709551615},"mime_type":"text/plain","preview":"p"},{"type":"image","blob":{"hash":"abababababababababababababababababababababababababababababababab","bytes":18446744073709551615},"mime_type":"image/png"}],"source":{"kind":"human"}},"surface_op":"append"}
        {"type":"developer/message","data":{"added":["a"],"removed":["b"]},"surface_op":"append"}
        {"type":"session/seed-end","data":{"inherited":18446744073709551615}}
        {"type":"sandbox/mode","data":{"mode":"read-only"}}
        {"type":"plan/mode","data":{"active":true}}
        {"type":"image/offload","data":{"messages":[1]}}
        {"type":"image/offload","data":{"messages":[1,2],"reason":"room","of_last":3}}
        {"type":"image/scaled","data":{"image":"abababababababababababababababababababababababababababababababab","from":{"width":4,"height":2},"blob":{"hash":"abababababababababababababababababababababababababababababababab","bytes":18446744073709551615},"mime_type":"image/png","to":{"width":2,"height":1},"first_of_several":true}}
        {"type":"todo/write","data":{"items":[{"text":"t","status":"completed"}]}}
        {"type":"goal/change","data":{"goal":null}}
        {"type":"job/started","data":{"id":"j","title":"make"}}
        {"type":"job/ended","data":{"id":"j","outcome":{"kind":"exited","code":-1}}}
        {"type":"job/ended","data":{"id":"j","outcome":{"kind":"killed","signal":9}}}
        {"type":"file/observed","data":{"path":"/a b","hash":"ab"}}
        {"type":"file/observed","data":{"path":"/gone"}}
        {"type":"file/kept","data":{"path":"/a","before":{"kind":"absent"}},"ignorable":true}
        {"type":"file/kept","data":{"path":"/a","before":{"kind":"file","blob":{"hash":"abababababababababababababababababababababababababababababababab","bytes":18446744073709551615},"mode":420},"left":"h"},"ignorable":true}
        {"type":"file/kept","data":{"path":"/a","before":{"kind":"unkept","reason":"r"}},"ignorable":true}
        {"type":"feedback/record","data":{"text":"good"},"ignorable":true}"#]].assert_eq(&lines_of(events));
}

fn offload(seqs: &[u64], reason: OffloadReason, of_last: Option<u32>) -> EventData {
    let messages = seqs.iter().copied().map(Seq).collect();
    ImageOffload { messages, reason, of_last }.into()
}

fn lines_of(events: Vec<EventData>) -> String {
    let lines: Vec<_> = events
        .into_iter()
        .map(|data| through_a_line(&Event { seq: Seq(0), time: UnixMillis(0), ..event(data) }))
        .map(|event| event.to_line().unwrap().replace(r#""seq":0,"time":0,"#, ""))
        .collect();
    lines.join("\n")
}

#[test]
fn compactions_have_their_lines() {
    let omits = Some(Span { first: Seq(1), last: Seq(2) });
    let started = || compaction(CompactionTrigger::Pressure, "Summarise.");
    let failed = CompactionOutcome::Failed { message: "m".into() };
    let usage = Some(Usage { input: 1, output: 2, ..Usage::default() });
    let events: Vec<EventData> = vec![
        CompactionStart { omits, ..started() }.into(),
        CompactionStart { instruction: None, ..started() }.into(),
        CompactionEnd { outcome: failed, usage: None }.into(),
        CompactionEnd { usage, ..compacted(7) }.into(),
        CompactionEnd { outcome: CompactionOutcome::Cancelled, usage: None }.into(),
    ];
    expect_test::expect![[r#"
        {"type":"compaction/start","data":{"trigger":"pressure","tokens":9000,"instruction":{"id":"id of Summarise.","content":[{"type":"text","text":"Summarise."}],"source":{"kind":"context","name":"compaction"}},"omits":{"first":1,"last":2}}}
        {"type":"compaction/start","data":{"trigger":"pressure","tokens":9000}}
        {"type":"compaction/end","data":{"outcome":{"kind":"failed","message":"m"}}}
        {"type":"compaction/end","data":{"outcome":{"kind":"compacted","tokens":7},"usage":{"input":1,"output":2,"cache_read":0,"cache_write":0}}}
        {"type":"compaction/end","data":{"outcome":{"kind":"cancelled"}}}"#]]
    .assert_eq(&lines_of(events));
}

#[test]
fn a_block_that_is_not_understood_keeps_its_bytes() {
    for json in EXACT {
        let raw: &RawValue = serde_json::from_str(json).unwrap();
        let block = Block::Opaque { raw: Box::new(OpaqueBlock::new(raw)) };
        let EventData::AssistantMessage(read) =
            through_a_line(&event(answer_message("a", [block]))).data
        else {
            panic!("read another event");
        };
        match &read.blocks[0].block {
            Block::Opaque { raw } => assert_eq!(raw.json(), json),
            other => panic!("read {other:?}"),
        }
    }
}

#[test]
fn a_presentation_keeps_its_bytes() {
    for json in EXACT.into_iter().filter(|json| *json != "null") {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        let shown = ToolResult { presentation: Some(raw), ..tool_result("c", "x") };
        match through_a_line(&event(shown)).data {
            EventData::ToolResult(read) => assert_eq!(read.presentation.unwrap().get(), json),
            other => panic!("read {other:?}"),
        }
    }
}

#[test]
fn an_unknown_event_that_may_be_skipped_is_rewritten_untouched() {
    for json in EXACT {
        let line = format!(
            r#"{{"seq":18446744073709551615,"time":9007199254740993,"type":"weather/changed","data":{json},"ignorable":true}}"#
        );
        assert_eq!(Event::from_line(&line).unwrap().to_line().unwrap(), line);
    }
}

#[test]
fn deep_data_that_is_skipped_needs_no_stack() {
    let data = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let line = format!(r#"{{"seq":0,"time":0,"type":"x/y","data":{data},"ignorable":true}}"#);
    assert_eq!(Event::from_line(&line).unwrap().to_line().unwrap(), line);
}

#[test]
fn an_unknown_event_that_matters_is_refused_by_name() {
    let line = r#"{"seq":0,"time":0,"type":"roots/changed","data":{}}"#;
    let error = Event::from_line(line).unwrap_err();
    assert!(matches!(&error, DecodeError::UnknownRequired(name) if name == "roots/changed"));
}

#[test]
fn a_line_that_is_not_an_event_is_malformed() {
    let good = event(SystemMessage { text: "s".into() }).to_line().unwrap();
    let broken = [
        String::new(),
        "7".to_owned(),
        "[]".to_owned(),
        format!("{good}{good}"),
        good.replace("\"time\"", "\"tame\""),
        good.replace("18446744073709551615", "18446744073709551616"),
        good.replace("18446744073709551615", "1.5"),
        good.replace("18446744073709551615", "-1"),
        good.replace("append", "prepend"),
        good.replace("\"text\":\"s\"", "\"text\":1"),
        good.replace("\"text\":\"s\"", "\"text\":\"s\",\"text\":\"t\""),
        good.replace("\"seq\"", "\"extra\":1,\"seq\""),
        good.trim_end_matches('}').to_owned(),
    ];
    for line in broken {
        let read = Event::from_line(&line);
        assert!(matches!(read, Err(DecodeError::Malformed(_))), "{line}: {read:?}");
    }
}
