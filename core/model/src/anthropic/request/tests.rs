//! What is stored, and the request that it becomes.

use std::sync::Arc;

use bridle_session::{
    AssistantMessage, Block, Content, Draft, EventData, Header, Message, MessageId, OpaqueBlock,
    Route, Session, SessionId, SystemMessage, TimedBlock, ToolCallId, ToolErrorCode, ToolResult,
    TurnNumber, TurnStart, UnixMillis, Usage, UserMessage, UserSource,
};
use expect_test::{Expect, expect};
use serde_json::value::RawValue;

use super::*;
use crate::anthropic::answer::input;
use crate::{Catalogue, Images, RequestCache, ToolSpec};

const SONNET: &str = "anthropic/claude-sonnet-5-5";
const OPUS: &str = "anthropic/claude-opus-5-5";
const FLASH: &str = "deepseek/deepseek-flash";

fn model(route: &str) -> CatalogueModel {
    let route = Route::parse(route).unwrap();
    let catalogue = Catalogue::builtin();
    catalogue.find(&route).cloned().or_else(|| catalogue.assume(&route)).unwrap()
}

fn user(text: &str) -> EventData {
    user_parts(vec![Content::text(text)])
}

fn user_parts(content: Vec<Content>) -> EventData {
    UserMessage { id: MessageId::new("u"), content, source: UserSource::Human }.into()
}

fn answer(route: &str, blocks: Vec<Block>) -> AssistantMessage {
    let timed =
        |block| TimedBlock { started_at: UnixMillis(0), ended_at: UnixMillis(0), block, raw: None };
    AssistantMessage {
        id: MessageId::new("a"),
        blocks: blocks.into_iter().map(timed).collect(),
        route: Route::parse(route).unwrap(),
        stop: "end-turn".to_owned(),
        usage: Usage::default(),
        interrupted: false,
    }
}

fn text(text: &str) -> Block {
    Block::Text { text: text.to_owned() }
}

fn thinking(text: &str, signature: Option<&str>) -> Block {
    Block::Thinking { text: text.to_owned(), signature: signature.map(str::to_owned) }
}

/// A block that only the provider knows.
fn own(json: &str) -> Block {
    Block::Opaque { raw: Box::new(OpaqueBlock::new(serde_json::from_str(json).unwrap())) }
}

fn call(id: &str, name: &str, arguments: &str) -> Block {
    let (name, arguments) = (name.to_owned(), arguments.to_owned());
    Block::ToolCall { id: ToolCallId::new(id), name, arguments }
}

fn result(id: &str, text: &str, error: Option<ToolErrorCode>) -> EventData {
    ToolResult {
        id: ToolCallId::new(id),
        name: "read".to_owned(),
        content: vec![Content::text(text)],
        error,
        presentation: None,
    }
    .into()
}

#[derive(serde::Deserialize)]
struct Messages<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

/// The messages that `events` become for `route`, one a line. Goes around the session, which
/// would not take everything that an old or foreign log may hold.
fn lines(route: &str, since: u64, events: &[EventData]) -> Result<String, ModelFailure> {
    let model = model(route);
    let tools = ToolTable::new(&[]).unwrap();
    let mut settled = Settled::default();
    let images = Images::default();
    let mut conversation = Conversation::new(&model, &tools, &images, Seq(since), &mut settled);
    for (seq, event) in (0..).zip(events) {
        let message = match event {
            EventData::SystemMessage(message) => Message::System(message),
            EventData::UserMessage(message) => Message::User(message),
            EventData::DeveloperMessage(message) => Message::Developer(message),
            EventData::AssistantMessage(message) => Message::Assistant(message),
            EventData::ToolResult(message) => Message::ToolResult(message),
            other => panic!("{} is no message", other.type_name()),
        };
        conversation.push(Seq(seq), message);
    }
    let history = conversation.finish()?;
    let body = assemble(br#"{"a":1}"#.to_vec(), &history, false);
    let all: Messages<'_> = serde_json::from_slice(&body).unwrap();
    let lines: Vec<_> = all.messages.iter().map(|message| message.get()).collect();
    Ok(lines.join("\n"))
}

fn check(route: &str, events: &[EventData], expected: Expect) {
    expected.assert_eq(&lines(route, 0, events).unwrap());
}

#[test]
fn results_come_first_in_the_models_order_and_without_a_gap() {
    check(
        SONNET,
        &[
            user("go"),
            answer(
                SONNET,
                vec![
                    text("Reading."),
                    call("a", "read", "{}"),
                    call("b", "read", "{}"),
                    call("c", "read", "{}"),
                ],
            )
            .into(),
            user("and hurry"),
            result("c", "third", Some(ToolErrorCode::Failed)),
            result("a", "first", None),
            result("stray", "nobody asked", None),
            user("please"),
        ],
        expect![[r#"
            {"role":"user","content":[{"type":"text","text":"go"}]}
            {"role":"assistant","content":[{"type":"text","text":"Reading."},{"type":"tool_use","id":"a","name":"read","input":{}},{"type":"tool_use","id":"b","name":"read","input":{}},{"type":"tool_use","id":"c","name":"read","input":{}}]}
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"first"}]},{"type":"tool_result","tool_use_id":"b","content":[{"type":"text","text":"No result of this call was recorded."}],"is_error":true},{"type":"tool_result","tool_use_id":"c","content":[{"type":"text","text":"third"}],"is_error":true},{"type":"text","text":"and hurry"},{"type":"text","text":"please"}]}"#]],
    );
}

#[test]
fn illegal_ids_and_names_are_replaced_and_results_still_find_their_calls() {
    check(
        SONNET,
        &[
            user("go"),
            answer(
                SONNET,
                vec![
                    call("same", "read", "{}"),
                    call("same", "rm -rf /", "{}"),
                    call("", "", "{}"),
                ],
            )
            .into(),
            result("same", "one", None),
            result("same", "two", None),
            result("", "", None),
            answer(SONNET, vec![call("same", "read", "{}")]).into(),
            result("same", "three", None),
        ],
        expect![[r#"
            {"role":"user","content":[{"type":"text","text":"go"}]}
            {"role":"assistant","content":[{"type":"tool_use","id":"same","name":"read","input":{}},{"type":"tool_use","id":"call_1","name":"rm__rf___c5aa94058516","input":{}},{"type":"tool_use","id":"call_2","name":"_af1349b9f5f9","input":{}}]}
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"same","content":[{"type":"text","text":"one"}]},{"type":"tool_result","tool_use_id":"call_1","content":[{"type":"text","text":"two"}]},{"type":"tool_result","tool_use_id":"call_2","content":[{"type":"text","text":"(no output)"}]}]}
            {"role":"assistant","content":[{"type":"tool_use","id":"call_3","name":"read","input":{}}]}
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"call_3","content":[{"type":"text","text":"three"}]}]}"#]],
    );
}

#[test]
fn arguments_keep_their_bytes_and_broken_ones_are_contained() {
    for (arguments, expected) in [
        (r#"{"a": 1.0,  "b":12345678901234567890}"#, r#"{"a": 1.0,  "b":12345678901234567890}"#),
        ("", "{}"),
        (" \n", "{}"),
        (r#"{"cut": "#, r#"{"_invalid":"{\"cut\": "}"#),
        ("[1]", r#"{"_invalid":"[1]"}"#),
        ("null", r#"{"_invalid":"null"}"#),
        (r#"{"lone":"\ud800"}"#, r#"{"_invalid":"{\"lone\":\"\\ud800\"}"}"#),
        ("{}{}", r#"{"_invalid":"{}{}"}"#),
    ] {
        assert_eq!(input(arguments).get(), expected, "{arguments}");
    }
    let deep = format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200));
    assert!(input(&deep).get().starts_with(r#"{"_invalid":"#));
}

/// Breakpoints are ours to set: a provider's own form that holds one is not repeated.
#[test]
fn a_breakpoint_in_a_providers_own_form_does_not_go_back() {
    let raw = r#"{"type":"thinking","thinking":"x","signature":"s","cache_control":1}"#;
    let opaque = own(r#"{"type":"container_upload","file_id":"f","cache_control":1}"#);
    let mut said = answer(SONNET, vec![thinking("x", Some("s")), opaque, text("Hi")]);
    let raw = OpaqueBlock::new(serde_json::from_str(raw).unwrap());
    said.blocks[0].raw = Some(Box::new(raw));
    check(
        SONNET,
        &[user("go"), said.into(), user("on")],
        expect![[r#"
        {"role":"user","content":[{"type":"text","text":"go"}]}
        {"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"s"},{"type":"text","text":"Hi"}]}
        {"role":"user","content":[{"type":"text","text":"on"}]}"#]],
    );
}

/// A call of the provider's own tools and its result go back together, in their order, or not at all.
#[test]
fn a_providers_own_call_goes_back_with_its_result_behind_it() {
    let call = || own(r#"{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}"#);
    let result = || own(r#"{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}"#);
    for blocks in [
        vec![result(), call(), text("Hi")],
        vec![call(), thinking("unsigned", None), result(), text("Hi")],
        vec![call(), call(), result(), text("Hi")],
        vec![call(), text("Hi")],
    ] {
        check(
            SONNET,
            &[user("go"), answer(SONNET, blocks).into(), user("on")],
            expect![[r#"
                {"role":"user","content":[{"type":"text","text":"go"}]}
                {"role":"assistant","content":[{"type":"text","text":"Hi"}]}
                {"role":"user","content":[{"type":"text","text":"on"}]}"#]],
        );
    }
    check(
        SONNET,
        &[user("go"), answer(SONNET, vec![call(), result(), text("Hi")]).into(), user("on")],
        expect![[r#"
            {"role":"user","content":[{"type":"text","text":"go"}]}
            {"role":"assistant","content":[{"type":"server_tool_use","id":"s1","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"s1","content":[]},{"type":"text","text":"Hi"}]}
            {"role":"user","content":[{"type":"text","text":"on"}]}"#]],
    );
}

#[test]
fn reasoning_goes_back_whole_to_the_model_that_made_it() {
    let events = [
        user("go"),
        answer(
            SONNET,
            vec![
                thinking("", Some("empty but signed")),
                thinking(" \n", Some("blank")),
                Block::RedactedThinking { data: "b3BhcXVl".to_owned() },
                own(r#"{"type":"container_upload", "n":1.0}"#),
                thinking("no signature", None),
                thinking("behind one that does not go back", Some("s")),
                text("Hi"),
            ],
        )
        .into(),
        user("on"),
    ];
    check(
        SONNET,
        &events,
        expect![[r#"
            {"role":"user","content":[{"type":"text","text":"go"}]}
            {"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"empty but signed"},{"type":"thinking","thinking":" \n","signature":"blank"},{"type":"redacted_thinking","data":"b3BhcXVl"},{"type":"container_upload", "n":1.0},{"type":"text","text":"Hi"}]}
            {"role":"user","content":[{"type":"text","text":"on"}]}"#]],
    );
    let without = expect![[r#"
        {"role":"user","content":[{"type":"text","text":"go"}]}
        {"role":"assistant","content":[{"type":"text","text":"Hi"}]}
        {"role":"user","content":[{"type":"text","text":"on"}]}"#]];
    without.assert_eq(&lines(OPUS, 0, &events).unwrap());
    without.assert_eq(&lines(SONNET, 2, &events).unwrap());
}

#[test]
fn deepseek_gets_its_reasoning_field_back_on_every_answer() {
    let events = [
        user("go"),
        answer(FLASH, vec![thinking("", None), call("a", "read", "{}")]).into(),
        result("a", "x", None),
        answer(FLASH, vec![thinking("Hm", Some("id")), text("Hi")]).into(),
        user("on"),
        answer(SONNET, vec![thinking("other", Some("s")), text("Hello")]).into(),
        user("on"),
    ];
    check(
        FLASH,
        &events,
        expect![[r#"
        {"role":"user","content":[{"type":"text","text":"go"}]}
        {"role":"assistant","content":[{"type":"thinking","thinking":""},{"type":"tool_use","id":"a","name":"read","input":{}}]}
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"x"}]}]}
        {"role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":"id"},{"type":"text","text":"Hi"}]}
        {"role":"user","content":[{"type":"text","text":"on"}]}
        {"role":"assistant","content":[{"type":"thinking","thinking":""},{"type":"text","text":"Hello"}]}
        {"role":"user","content":[{"type":"text","text":"on"}]}"#]],
    );
}

#[test]
fn a_cut_off_answer_keeps_only_what_a_provider_takes_back() {
    let cut = |blocks| AssistantMessage { interrupted: true, ..answer(SONNET, blocks) };
    check(
        SONNET,
        &[
            user("one"),
            cut(vec![thinking("Hm", Some("s"))]).into(),
            user("two"),
            cut(vec![thinking("Hm", Some("s")), text("Hal"), call("a", "read", "{")]).into(),
            user("three"),
        ],
        expect![[r#"
            {"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}
            {"role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":"s"},{"type":"text","text":"Hal"},{"type":"tool_use","id":"a","name":"read","input":{"_invalid":"{"}}]}
            {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"No result of this call was recorded."}],"is_error":true},{"type":"text","text":"three"}]}"#]],
    );
}

#[test]
fn texts_without_a_visible_character_are_left_out() {
    let link = Content::Link { uri: "file:///p/a#L1:2".to_owned(), name: "a".to_owned() };
    check(
        SONNET,
        &[
            user_parts(vec![Content::text(""), Content::text(" \n"), link]),
            answer(SONNET, vec![text("\n\n"), text("Hi")]).into(),
            user("on"),
        ],
        expect![[r#"
            {"role":"user","content":[{"type":"text","text":"<link name=\"a\" path=\"/p/a\" lines=\"1-2\"/>"}]}
            {"role":"assistant","content":[{"type":"text","text":"Hi"}]}
            {"role":"user","content":[{"type":"text","text":"on"}]}"#]],
    );
}

#[test]
fn a_conversation_begins_and_ends_with_the_user() {
    check(
        SONNET,
        &[answer(SONNET, vec![text("Hi")]).into(), user("on")],
        expect![[r#"
            {"role":"user","content":[{"type":"text","text":"(The conversation continues.)"}]}
            {"role":"assistant","content":[{"type":"text","text":"Hi"}]}
            {"role":"user","content":[{"type":"text","text":"on"}]}"#]],
    );
    let ended = [user("go"), answer(SONNET, vec![text("Hi")]).into()];
    for events in [&ended[..], &[], &[user(" ")]] {
        assert_eq!(lines(SONNET, 0, events).unwrap_err().code, FailureCode::InvalidRequest);
    }
    let paused = AssistantMessage { stop: "pause".to_owned(), ..answer(SONNET, vec![text("Hi")]) };
    assert!(lines(SONNET, 0, &[user("go"), paused.into()]).is_ok());
}

fn session() -> Session {
    let header = Header {
        format: Header::FORMAT,
        id: SessionId::new("01234567-0123-7123-8123-0123456789ab"),
        created_at: UnixMillis(0),
        cwd: "/p".into(),
        extra_roots: Vec::new(),
        parent: None,
        origin: "test".to_owned(),
        delegation_depth: 0,
        terms: Default::default(),
    };
    let mut session = Session::new(header);
    append(&mut session, TurnStart { turn: TurnNumber(1) });
    append(&mut session, SystemMessage { text: "Be brief.".to_owned() });
    session
}

fn append(session: &mut Session, data: impl Into<EventData>) {
    session.append(Draft::new(data), UnixMillis(1)).unwrap();
}

fn spec(name: &str, schema: &str) -> ToolSpec {
    let input_schema = RawValue::from_string(schema.to_owned()).unwrap();
    ToolSpec { name: name.to_owned(), description: "Reads.".to_owned(), input_schema }
}

fn body_of(
    session: &Session,
    route: &str,
    tools: Vec<ToolSpec>,
    effort: Option<Effort>,
) -> Result<String, ModelFailure> {
    let request = ModelRequest::new(session.projection(), Arc::from(tools), effort, Seq(0));
    body_with(route, &request)
}

fn body_with(route: &str, request: &ModelRequest) -> Result<String, ModelFailure> {
    let model = model(route);
    let mut series = series(request.cache().take(), &model, request)?;
    let body = series.body(&model, request);
    request.cache().put(series);
    body.map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn each_request_of_a_growing_session_begins_with_the_one_before_it() {
    let schema = r#"{"type":"object", "properties":{}}"#;
    for route in [SONNET, FLASH] {
        let mut session = session();
        let mut previous = String::new();
        let cache = RequestCache::default();
        let mut request = |session: &Session| {
            let tools = Arc::from([spec("read", schema)]);
            let request = ModelRequest::new(session.projection(), tools, None, Seq(0));
            let body = body_with(route, &request.clone().with_cache(&cache)).unwrap();
            assert_eq!(body, body_with(route, &request).unwrap(), "built from where it ended");
            let body = body.replace(&String::from_utf8_lossy(BREAKPOINT).into_owned(), "");
            assert!(body.starts_with(&previous), "{previous}\n{body}");
            // Everything but the brackets that close the list and the body.
            previous = body.strip_suffix("]}").unwrap().to_owned();
        };
        for round in 0..20 {
            append(&mut session, user(&format!("prompt {round}")));
            request(&session);
            let blocks = vec![
                thinking(if round % 2 == 0 { "" } else { "Hm" }, Some("sig")),
                text(if round % 3 == 0 { "" } else { "Let me see." }),
                call("c", "read", if round % 5 == 0 { "{\"cut" } else { "{\"path\": 1.0}" }),
            ];
            append(&mut session, answer(if round % 7 == 0 { OPUS } else { route }, blocks));
            append(&mut session, result("c", if round % 4 == 0 { "" } else { "content" }, None));
            request(&session);
            append(&mut session, answer(route, vec![thinking("", None), text("Done.")]));
        }
    }
}

#[test]
fn what_a_model_does_not_take_is_not_sent() {
    let mut session = session();
    append(&mut session, user("Hi"));
    let head = |route, effort| {
        let body = body_of(&session, route, Vec::new(), effort).unwrap();
        body.split_once(",\"system\"").unwrap().0.to_owned()
    };
    expect![[r#"{"model":"claude-sonnet-5-5","max_tokens":128000,"stream":true,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"},"cache_control":{"type":"ephemeral"}"#]]
        .assert_eq(&head(SONNET, Some(Effort::Low)));
    expect![[r#"{"model":"deepseek-flash","max_tokens":384000,"stream":true,"output_config":{"effort":"high"}"#]]
        .assert_eq(&head(FLASH, Some(Effort::High)));
    expect![[r#"{"model":"unlisted","max_tokens":8000,"stream":true,"cache_control":{"type":"ephemeral"}"#]]
        .assert_eq(&head("anthropic/unlisted", Some(Effort::High)));
}

#[test]
fn tools_are_sent_as_given_and_illegal_ones_in_a_legal_form() {
    let mut session = session();
    append(&mut session, user("Hi"));
    let schema = r#"{"type":"object", "properties": {"n":{"maximum":1.0}}}"#;
    let body = body_of(&session, SONNET, vec![spec("read", schema)], None).unwrap();
    let expected =
        format!(r#""tools":[{{"name":"read","description":"Reads.","input_schema":{schema}}}]"#);
    assert!(body.contains(&expected), "{body}");
    for (name, schema) in [("two words", schema), ("read", r#"{"type":"string"}"#)] {
        let body = body_of(&session, SONNET, vec![spec(name, schema)], None).unwrap();
        assert!(!body.contains("two words") && !body.contains(r#""type":"string""#), "{body}");
    }
}

#[test]
fn a_request_that_the_front_door_would_refuse_is_an_overflow() {
    assert!(within_size(vec![0; MAX_REQUEST_BYTES]).is_ok());
    let failure = within_size(vec![0; MAX_REQUEST_BYTES + 1]).unwrap_err();
    assert_eq!(failure.code, FailureCode::ContextOverflow);
}
