//! Whatever a session may hold becomes a request that either provider takes, or fails here with a
//! cause that names itself: random sequences of admissible events against the strict rules.

use bridle_model_server::check_form;
use bridle_session::{
    AssistantMessage, BlobHash, BlobRef, Block, DeveloperMessage, EventData, Message, OpaqueBlock,
    SurfaceOp, TimedBlock, ToolCallId, ToolErrorCode, ToolResult, Usage,
};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::value::RawValue;

use super::*;
use crate::{RequestCache, ToolSpec};

const CASES: u32 = 200;

/// The routes that answer in a session, and the providers' paths.
const ROUTES: [(&str, &str); 4] = [
    ("anthropic/claude-opus-5-5", ""),
    ("anthropic/claude-sonnet-5", ""),
    ("deepseek/deepseek-flash", "/anthropic"),
    ("deepseek/deepseek-v4-pro", "/anthropic"),
];

/// What happens in a session; what it becomes depends on what is there.
#[derive(Clone, Debug)]
enum Happening {
    Event(EventData),
    /// Every open call gets a result.
    Results(Vec<Content>, bool),
    /// A summary takes the place of a part of the surface.
    Replaced(prop::sample::Index, prop::sample::Index, String),
    Requested,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec![
            "",
            " ",
            "\n\t ",
            "\0",
            "\u{FEFF}",
            "\u{2028}",
            "x",
            "é\u{FFFD}🦀",
            "</system>"
        ])
        .prop_map(str::to_owned),
        any::<String>(),
        (0_usize..100).prop_map(|length| "long ".repeat(length)),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec!["read", "write", "fs.read", "fs/read", "", " ", "日本", "no_tools"])
            .prop_map(str::to_owned),
        any::<String>(),
        (60_usize..300).prop_map(|length| "n".repeat(length)),
    ]
}

fn id() -> impl Strategy<Value = ToolCallId> {
    prop_oneof![
        select(vec!["a", "b", "call_0", "call_1", "", "toolu 1", "s1"]).prop_map(str::to_owned),
        any::<String>(),
        (60_usize..200).prop_map(|length| "i".repeat(length)),
    ]
    .prop_map(ToolCallId::new)
}

fn arguments() -> impl Strategy<Value = String> {
    let deep = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    prop_oneof![
        select(vec![
            "{}",
            "",
            " ",
            "{",
            "[1]",
            "null",
            "{\"a\":1e999}",
            "{\"a\":1,\"a\":2}",
            "{\"lone\":\"\\ud800\"}",
            "{}{}",
            "{\"cache_control\":{\"type\":\"x\"}}",
            "{\"n\":123456789012345678901234567890}",
            "{\"a\": \"\\u0000\" }",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
        (1_usize..200).prop_map(deep),
    ]
}

fn opaque() -> impl Strategy<Value = OpaqueBlock> {
    let json = select(vec![
        r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}"#,
        r#"{"type":"server_tool_use","id":"s 2","name":"web_search","input":{}}"#,
        r#"{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}"#,
        r#"{"type":"web_search_tool_result","content":[]}"#,
        r#"{"type":"container_upload","file_id":"f"}"#,
        r#"{"type":"future","n":1.0}"#,
        r#"{"type":"tool_use","id":"a","name":"read","input":{}}"#,
        r#"{"type":"tool_result","tool_use_id":"a","content":"x"}"#,
        r#"{"type":"text","text":""}"#,
        r#"{"type":"text","text":"x","citations":[{"type":"web"}]}"#,
        r#"{"type":"thinking","thinking":"x","signature":"s"}"#,
        r#"{"type":"thinking","thinking":"x","signature":"s","cache_control":1}"#,
        r#"{"type":"image"}"#,
        r#"{"n":"\ud800","type":"container_upload"}"#,
        r#"{"type":7}"#,
        "[]",
        "null",
        "\"server_tool_use\"",
    ]);
    json.prop_map(|json| OpaqueBlock::new(serde_json::from_str(json).unwrap()))
}

fn block() -> impl Strategy<Value = TimedBlock> {
    let signature = || prop::option::of(select(vec!["", "s"]).prop_map(str::to_owned));
    let block = prop_oneof![
        text().prop_map(|text| Block::Text { text }),
        (text(), signature()).prop_map(|(text, signature)| Block::Thinking { text, signature }),
        text().prop_map(|data| Block::RedactedThinking { data }),
        (id(), name(), arguments()).prop_map(|(id, name, arguments)| Block::ToolCall {
            id,
            name,
            arguments
        }),
        opaque().prop_map(|raw| Block::Opaque { raw: Box::new(raw) }),
    ];
    let raw = prop::option::weighted(0.2, opaque().prop_map(Box::new));
    (block, raw).prop_map(|(block, raw)| TimedBlock {
        started_at: UnixMillis(0),
        ended_at: UnixMillis(0),
        block,
        raw,
    })
}

fn answer() -> impl Strategy<Value = EventData> {
    // Not "pause": only the server that paused knows where an answer may be the last message.
    let stop = select(vec!["end-turn", "tool-use", "refusal", "interrupted", "odd"]);
    let route = select(ROUTES.map(|(route, _)| route).to_vec());
    (prop::collection::vec(block(), 0..6), route, stop, any::<bool>()).prop_map(
        |(blocks, route, stop, interrupted)| {
            EventData::from(AssistantMessage {
                id: MessageId::new("a"),
                blocks,
                route: Route::parse(route).unwrap(),
                stop: stop.to_owned(),
                usage: Usage::default(),
                interrupted,
            })
        },
    )
}

fn content() -> impl Strategy<Value = Vec<Content>> {
    let blob = || BlobRef { hash: BlobHash::of_digest(&[1; 32]), bytes: u64::MAX };
    let part = prop_oneof![
        4 => text().prop_map(Content::text),
        1 => (text(), text()).prop_map(|(uri, name)| Content::Link { uri, name }),
        1 => (text(), text())
            .prop_map(|(uri, text)| Content::Resource { uri, mime_type: None, text }),
        1 => text().prop_map(move |preview| Content::Blob {
            blob: blob(),
            mime_type: "text/plain".to_owned(),
            preview,
        }),
        1 => text().prop_map(move |mime_type| Content::Image { blob: blob(), mime_type }),
    ];
    prop::collection::vec(part, 0..4)
}

fn happening() -> impl Strategy<Value = Happening> {
    let user = || {
        (content(), any::<bool>()).prop_map(|(content, is_human)| {
            let name = "AGENTS.md".to_owned();
            let source = if is_human { UserSource::Human } else { UserSource::Context { name } };
            EventData::from(UserMessage { id: MessageId::new("u"), content, source })
        })
    };
    let names = || prop::collection::vec(name(), 0..3);
    let developer = (names(), names())
        .prop_map(|(added, removed)| EventData::from(DeveloperMessage { added, removed }));
    let system = text().prop_map(|text| EventData::from(SystemMessage { text }));
    prop_oneof![
        6 => answer().prop_map(Happening::Event),
        5 => (content(), any::<bool>()).prop_map(|(content, bad)| Happening::Results(content, bad)),
        4 => user().prop_map(Happening::Event),
        1 => developer.prop_map(Happening::Event),
        1 => system.prop_map(Happening::Event),
        1 => (any::<prop::sample::Index>(), any::<prop::sample::Index>(), text())
            .prop_map(|(from, to, text)| Happening::Replaced(from, to, text)),
        5 => Just(Happening::Requested),
    ]
}

fn tools() -> impl Strategy<Value = Vec<ToolSpec>> {
    let schema = select(vec![
        r#"{"type":"object","properties":{}}"#,
        "{}",
        "null",
        r#"{"type":"object","properties":{"a":{"$ref":"x"}},"required":["b"],"oneOf":[{}]}"#,
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","properties":{"a":{"$ref":"#"}}}}}"##,
        r#"{"type":["object","null"],"properties":{"a":{"items":[{}]}}}"#,
    ]);
    let spec = (name(), text(), schema).prop_map(|(name, description, schema)| ToolSpec {
        name,
        description,
        input_schema: RawValue::from_string(schema.to_owned()).unwrap(),
    });
    prop::collection::vec(spec, 0..4)
}

/// Does what happens; what the session refuses does not happen.
fn happen(session: &mut Session, happening: &Happening) {
    match happening {
        Happening::Event(data) => drop(session.append(Draft::new(data.clone()), UnixMillis(1))),
        Happening::Results(content, bad) => {
            for call in session.state().open_calls.clone() {
                let result = ToolResult {
                    id: call.id,
                    name: call.name,
                    content: content.clone(),
                    error: bad.then_some(ToolErrorCode::Failed),
                    presentation: None,
                };
                session.append(Draft::new(result), UnixMillis(1)).unwrap();
            }
        }
        Happening::Replaced(from, to, text) => {
            let seqs: Vec<Seq> = session.projection().entries().map(|(seq, _)| seq).collect();
            if seqs.is_empty() {
                return;
            }
            let (from, to) = (from.index(seqs.len()), to.index(seqs.len()));
            let covers = seqs[from.min(to)..=from.max(to)].to_vec();
            let summary = UserMessage {
                id: MessageId::new("s"),
                content: vec![Content::text(text)],
                source: UserSource::Human,
            };
            let (first, last) = (covers[0], covers[covers.len() - 1]);
            let surface = Some(SurfaceOp::Replace { first, last, covers });
            drop(session.append(Draft { data: summary.into(), surface }, UnixMillis(1)));
        }
        Happening::Requested => {}
    }
}

/// Builds the request that the session now is; says what became of it.
fn request(
    session: &Session,
    adapter: &AnthropicAdapter,
    base: &str,
    request: ModelRequest,
    cache: &RequestCache,
) -> &'static str {
    let built = adapter.body(&request.clone().with_cache(cache));
    assert_eq!(built, adapter.body(&request), "a request from where the last one ended");
    match built {
        Ok(body) => {
            let json = String::from_utf8_lossy(&body);
            assert_eq!(check_form(base, &body), Ok(()), "{json}");
            "accepted"
        }
        Err(failure) => {
            assert_eq!(failure.code, FailureCode::InvalidRequest);
            if failure.message.starts_with("two tools are named") {
                return "ambiguous";
            }
            assert!(failure.message.starts_with("there is nothing to answer"), "{failure}");
            let projection = session.projection();
            let mut messages = projection.messages().rev();
            let is_said = |message: &Message<'_>| match message {
                Message::User(user) => {
                    user.content.iter().any(|part| !crate::content::text_of(part).trim().is_empty())
                }
                Message::ToolResult(_) => true,
                _ => false,
            };
            let last = messages.find(|message| !matches!(message, Message::Developer(_)));
            assert!(!last.as_ref().is_some_and(is_said), "{last:?} is something to answer");
            "nothing to answer"
        }
    }
}

#[test]
fn whatever_a_session_holds_becomes_a_request_that_the_provider_takes() {
    use std::hash::{BuildHasher as _, RandomState};
    let seed = RandomState::new().hash_one("seed");
    let config = Config {
        cases: if std::env::var_os("BRIDLE_LONG").is_some() { CASES * 50 } else { CASES },
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    };
    let cases = config.cases;
    let counts = std::cell::RefCell::new(std::collections::BTreeMap::new());
    let input = (prop::collection::vec(happening(), 1..30), tools(), any::<u8>(), select(&ROUTES));
    let outcome = TestRunner::new(config).run(&input, |(happenings, tools, since, target)| {
        let (route, base) = target;
        let adapter = AnthropicAdapter::new(
            HttpClient::default(),
            "http://127.0.0.1:1",
            Secret::new(KEY),
            model(route),
        )
        .unwrap();
        let tools: Arc<[ToolSpec]> = tools.into();
        let cache = RequestCache::default();
        let mut session = session();
        let turn = TurnStart { turn: TurnNumber(1) };
        session.append(Draft::new(turn), UnixMillis(1)).unwrap();
        for happening in happenings.iter().chain([&Happening::Requested]) {
            happen(&mut session, happening);
            if matches!(happening, Happening::Requested) {
                let since = Seq(u64::from(since).saturating_sub(200));
                let projection = session.projection();
                let built = ModelRequest::new(projection, Arc::clone(&tools), None, since);
                let outcome = request(&session, &adapter, base, built, &cache);
                *counts.borrow_mut().entry(outcome).or_insert(0) += 1;
            }
        }
        Ok(())
    });
    println!("seed {seed}, {cases} sessions: {:?}", counts.borrow());
    assert!(outcome.is_ok(), "seed {seed}: {}", outcome.unwrap_err());
    assert!(counts.borrow()["accepted"] > cases / 2, "most are worth something");
}
