//! Whole conversations against the strict model server, which signs reasoning over the exact bytes
//! before it and refuses what the provider would refuse.

use bridle_model_server::{Answer, ModelServer, Script};
use bridle_session::{
    AssistantMessage, BlobHash, BlobRef, Block, DeveloperMessage, EventData, ToolErrorCode,
    ToolResult,
};
use serde_json::json;
use serde_json::value::RawValue;

use super::*;
use crate::{Assembled, Image, ImageShelf, Images, RequestCache, ToolSpec};

/// A session that asks one server, the way a driver does.
struct Talk {
    session: Session,
    http: HttpClient,
    reasoning_since: Seq,
    tools: Vec<&'static str>,
    cache: RequestCache,
    shelf: ImageShelf,
}

impl Talk {
    fn new() -> Self {
        let mut talk = Self {
            session: session(),
            http: HttpClient::default(),
            reasoning_since: Seq(0),
            tools: vec!["read"],
            cache: RequestCache::default(),
            shelf: ImageShelf::default(),
        };
        talk.append(TurnStart { turn: TurnNumber(1) });
        talk.append(SystemMessage { text: "Be brief.".to_owned() });
        talk
    }

    fn append(&mut self, data: impl Into<EventData>) {
        self.session.append(Draft::new(data), UnixMillis(1)).unwrap();
    }

    fn say(&mut self, text: &str) {
        let content = vec![Content::text(text)];
        let source = UserSource::Human;
        self.append(UserMessage { id: MessageId::new("u"), content, source });
    }

    /// Sends the conversation and logs the answer; stops reading after `most` chunks.
    async fn ask_for(&mut self, most: usize, url: &str, route: &str) -> Result<(), ModelFailure> {
        let adapter =
            AnthropicAdapter::new(self.http.clone(), url, Secret::new(KEY), model(route))?;
        let tool = |name: &&str| ToolSpec {
            name: (*name).to_owned(),
            description: "Reads.".to_owned(),
            input_schema: RawValue::from_string(r#"{"type":"object","properties":{}}"#.to_owned())
                .unwrap(),
        };
        let tools = self.tools.iter().map(tool).collect();
        let projection = self.session.projection();
        let limits = model(route).image_limits();
        let images =
            Images::select(&projection, self.reasoning_since, limits.as_ref(), &self.shelf);
        assert_eq!(images.missing(), [], "the test has read all files");
        let request = ModelRequest::new(projection, tools, None, self.reasoning_since)
            .with_images(images)
            .with_cache(&self.cache);
        let mut stream = adapter.stream(request, CancellationToken::new()).take(most);
        let mut assembler = Assembler::new();
        let mut is_whole = false;
        while let Some(chunk) = stream.next().await {
            let chunk = chunk?;
            is_whole |= matches!(chunk, Chunk::Stop(_));
            assembler.push(&chunk, UnixMillis(1));
        }
        let Assembled { blocks, stop, usage, .. } =
            if is_whole { assembler.finish() } else { assembler.finish_interrupted(UnixMillis(1)) };
        self.append(AssistantMessage {
            id: MessageId::new("a"),
            blocks,
            route: Route::parse(route).unwrap(),
            stop: stop.map_or("interrupted", StopReason::as_str).to_owned(),
            usage,
            interrupted: !is_whole,
        });
        Ok(())
    }

    async fn ask(&mut self, url: &str, route: &str) {
        self.ask_for(usize::MAX, url, route).await.unwrap();
    }

    /// Logs a result for every call of the last answer.
    fn run_calls(&mut self) {
        let last = self.session.events().last().cloned().unwrap();
        let EventData::AssistantMessage(answer) = &last.data else { panic!("{last:?}") };
        for timed in &answer.blocks {
            let Block::ToolCall { id, name, arguments } = &timed.block else { continue };
            let is_broken = serde_json::from_str::<serde_json::Value>(arguments).is_err();
            self.append(ToolResult {
                id: id.clone(),
                name: name.clone(),
                content: vec![Content::text(if is_broken { "" } else { "content" })],
                error: is_broken.then_some(ToolErrorCode::BadArguments),
                presentation: None,
            });
        }
    }
}

/// Reasoning of every kind, parallel and broken calls, blank texts, a cut and plain answers.
fn script() -> Script {
    let read = |path: &str| json!({ "path": path });
    Script::new()
        .reply(
            Answer::new()
                .thinking_in(3, "Let me look – über alles.")
                .text("\n\n")
                .tool_call("read", read("a"))
                .tool_call("read", read("b"))
                .in_pieces_of(7),
        )
        .reply(Answer::new().redacted_thinking().tool_call_raw("read", "{\"path\": "))
        .reply(Answer::new().thinking("").tool_call_raw("no such tool", "{}").ping())
        .reply(Answer::new().thinking("Hm.").text("Done."))
        .reply(Answer::new().thinking("Long.").text_in(9, "one two three four five six"))
        .reply(Answer::new().text("After the cut."))
}

async fn talk_to(server: &ModelServer, url: &str, route: &str) -> Talk {
    let mut talk = Talk::new();
    talk.say("go");
    for _ in 0..3 {
        talk.ask(url, route).await;
        talk.run_calls();
    }
    talk.ask(url, route).await;
    talk.say("at length");
    talk.ask_for(8, url, route).await.unwrap();
    talk.say("and again");
    talk.ask(url, route).await;
    assert_eq!(server.violations(), []);
    talk
}

#[tokio::test]
async fn a_long_conversation_breaks_no_rule_of_either_provider() {
    let server = ModelServer::start(script()).await.unwrap();
    talk_to(&server, &server.url(), "anthropic/claude-opus-5-5").await;
    let server = ModelServer::start(script()).await.unwrap();
    talk_to(&server, &server.deepseek_url(), "deepseek/deepseek-flash").await;
}

#[tokio::test]
async fn a_session_may_change_its_model_and_change_back() {
    let server = ModelServer::start(script()).await.unwrap();
    let mut talk = talk_to(&server, &server.url(), "anthropic/claude-opus-5-5").await;
    for route in
        ["anthropic/claude-sonnet-5-5", "deepseek/deepseek-v4-pro", "anthropic/claude-opus-5-5"]
    {
        let url = if route.starts_with("deepseek") { server.deepseek_url() } else { server.url() };
        talk.reasoning_since = Seq(talk.session.len().0);
        for _ in 0..2 {
            server.push(Answer::new().thinking("Anew.").tool_call("read", json!({})));
            talk.say("go on");
            talk.ask(&url, route).await;
            talk.run_calls();
        }
        server.push(Answer::new().thinking("Enough.").text("Done."));
        talk.ask(&url, route).await;
    }
    assert_eq!(server.violations(), []);
}

#[tokio::test]
async fn images_are_shown_to_those_who_see_and_told_to_the_others() {
    const GIF: &[u8] = b"GIF89a\x02\0\x03\0\0\0\0";
    let mut server_script = Script::new();
    for _ in 0..4 {
        server_script =
            server_script.reply(Answer::new().thinking("Hm.").tool_call("read", json!({})));
    }
    let server = ModelServer::start(server_script).await.unwrap();
    let mut talk = Talk::new();
    let blob = BlobRef { hash: BlobHash::of_digest(&[1; 32]), bytes: GIF.len() as u64 };
    talk.shelf.put(blob.hash.clone(), Image::read(GIF));
    let image = || Content::Image { blob: blob.clone(), mime_type: "image/gif".to_owned() };
    let source = UserSource::Human;
    let content = vec![Content::text("look"), image()];
    talk.append(UserMessage { id: MessageId::new("u"), content, source });
    let opus = "anthropic/claude-opus-5-5";
    talk.ask(&server.url(), opus).await;
    for (route, error) in
        [(opus, None), (opus, Some(ToolErrorCode::Failed)), ("deepseek/deepseek-flash", None)]
    {
        let id = talk.session.state().open_calls[0].id.clone();
        let (name, content) = ("read".to_owned(), vec![image()]);
        talk.append(ToolResult { id, name, content, error, presentation: None });
        let url = if route == opus { server.url() } else { server.deepseek_url() };
        if route != opus {
            talk.reasoning_since = Seq(talk.session.len().0);
        }
        talk.ask(&url, route).await;
    }
    talk.run_calls();
    talk.reasoning_since = Seq(talk.session.len().0);
    talk.ask(&server.deepseek_url(), "deepseek/deepseek-v4-pro").await;
    assert_eq!(server.violations(), []);
    let sent: Vec<_> =
        server.requests().iter().map(|request| request.body["messages"].to_string()).collect();
    let count = |text: &str| sent.iter().map(|body| body.matches(text).count()).collect::<Vec<_>>();
    let shown = r#"{"type":"image","source":{"type":"base64","media_type":"image/gif","data":"R0lGODlhAgADAAAAAA=="}"#;
    assert_eq!(count(shown), [1, 2, 2, 3, 0]);
    assert_eq!(count("that you cannot be shown.]"), [0, 0, 1, 1, 1], "of a call that failed");
    assert_eq!(count("that you cannot be shown: the model reads none.]"), [0, 0, 0, 0, 3]);
}

#[tokio::test]
async fn large_results_and_changed_tools_are_read_as_text() {
    let script = Script::new()
        .reply(Answer::new().thinking("Hm.").tool_call("read", json!({})))
        .reply(Answer::new().text("Done."))
        .reply(Answer::new().text("Fine."));
    let server = ModelServer::start(script).await.unwrap();
    let (url, route) = (server.url(), "anthropic/claude-opus-5-5");
    let mut talk = Talk::new();
    talk.say("go");
    talk.ask(&url, route).await;
    let blob = BlobRef { hash: BlobHash::of_digest(&[1; 32]), bytes: 1_000_000 };
    let preview = "the two ends".to_owned();
    let id = talk.session.state().open_calls[0].id.clone();
    talk.append(ToolResult {
        id,
        name: "read".to_owned(),
        content: vec![Content::Blob { blob, mime_type: "text/plain".to_owned(), preview }],
        error: None,
        presentation: None,
    });
    talk.ask(&url, route).await;
    talk.append(DeveloperMessage { added: vec!["deploy".to_owned()], removed: Vec::new() });
    talk.ask(&url, route).await;
    assert_eq!(server.violations(), []);
    let messages = server.requests().pop().unwrap().body["messages"].to_string();
    for part in ["the two ends", "can be called from here on: deploy."] {
        assert!(messages.contains(part), "{part}: {messages}");
    }
}

#[tokio::test]
async fn what_an_answer_has_beyond_its_text_goes_back_as_it_came() {
    let search = json!({ "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": { "q": 1.0 } });
    let found =
        json!({ "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [] });
    let script = Script::new()
        .reply(
            Answer::new()
                .thinking("Hm.")
                .block(search.clone())
                .stop_reason(bridle_model_server::StopReason::PauseTurn),
        )
        .reply(
            Answer::new()
                .block(search)
                .block(found)
                .cited_text("So it is.", json!({ "url": "u", "n": 1.0 }))
                .thinking("And on.")
                .tool_call("read", json!({})),
        )
        .reply(Answer::new().thinking("Enough.").text("Done."))
        .reply(Answer::new().text("Fine."));
    let server = ModelServer::start(script).await.unwrap();
    let (url, route) = (server.url(), "anthropic/claude-opus-5-5");
    let mut talk = Talk::new();
    talk.say("go");
    talk.ask(&url, route).await;
    talk.ask(&url, route).await;
    talk.run_calls();
    talk.ask(&url, route).await;
    talk.say("thanks");
    // The paused search has no result in its own answer, so it can only end a conversation.
    let refused = talk.ask_for(usize::MAX, &url, route).await;
    assert_eq!((refused, server.violations()), (Ok(()), Vec::new()));
    let sent = server.requests().pop().unwrap().body.to_string();
    assert!(sent.contains(r#""citations":[{"url":"u","n":1.0}]"#), "{sent}");
}

#[tokio::test]
async fn tools_with_names_that_the_provider_refuses_are_called_by_their_own() {
    let script = Script::new().reply(Answer::new().text("Which?"));
    let server = ModelServer::start(script).await.unwrap();
    let (url, route) = (server.url(), "anthropic/claude-opus-5-5");
    let mut talk = Talk::new();
    talk.tools = vec!["fs.read", "fs/read", "read"];
    talk.say("go");
    talk.ask(&url, route).await;
    let body = server.requests().pop().unwrap().body;
    for (index, own) in ["fs.read", "fs/read", "read"].into_iter().enumerate() {
        let wire = body["tools"][index]["name"].as_str().unwrap();
        server.push(Answer::new().thinking("Hm.").tool_call(wire, json!({ "n": index })));
        talk.say("go on");
        talk.ask(&url, route).await;
        assert_eq!(talk.session.state().open_calls[0].name, own);
        talk.run_calls();
        server.push(Answer::new().thinking("Hm.").text("Done."));
        talk.ask(&url, route).await;
    }
    assert_eq!(server.violations(), []);
}

#[tokio::test]
async fn a_changed_setting_is_told_in_a_system_message_where_the_model_takes_one() {
    for (route, role) in [
        ("anthropic/claude-opus-5-5", "system"),
        ("anthropic/claude-sonnet-5", "user"),
        ("deepseek/deepseek-flash", "user"),
    ] {
        let server = ModelServer::start(Script::new()).await.unwrap();
        let url = if route.starts_with("deepseek") { server.deepseek_url() } else { server.url() };
        let mut talk = Talk::new();
        talk.say("go");
        talk.ask(&url, route).await;
        talk.append(DeveloperMessage { added: vec!["deploy".to_owned()], removed: Vec::new() });
        talk.say("on");
        talk.ask(&url, route).await;
        talk.say("and on");
        talk.ask(&url, route).await;
        assert_eq!(server.violations(), [], "{route}");
        let body = server.requests().pop().unwrap().body;
        let messages = body["messages"].as_array().unwrap();
        let told = messages.iter().find(|message| message.to_string().contains("deploy")).unwrap();
        assert_eq!(told["role"], role, "{route}");
    }
}

#[tokio::test]
async fn every_request_finds_what_the_last_one_cached_however_much_came_between() {
    let server = ModelServer::start(Script::new().caching()).await.unwrap();
    let (url, route) = (server.url(), "anthropic/claude-opus-5-5");
    let mut talk = Talk::new();
    let mut cached = 0;
    for calls in [1, 0, 60, 3, 0, 200, 1] {
        talk.say("go on");
        let many = (0..calls).fold(Answer::new().thinking("Hm."), |answer, call| {
            answer.tool_call("read", json!({ "call": call }))
        });
        server.push(many.text("So."));
        if calls > 0 {
            server.push(Answer::new().text("Done."));
        }
        for _ in 0..(1 + usize::from(calls > 0)) {
            talk.ask(&url, route).await;
            let EventData::AssistantMessage(answer) = &talk.session.events().last().unwrap().data
            else {
                panic!("no answer");
            };
            assert!(answer.usage.cache_read >= cached, "{calls} calls: {:?}", answer.usage);
            assert_eq!(answer.usage.input, 0, "the whole prompt is cached");
            cached = answer.usage.cache_read + answer.usage.cache_write;
            talk.run_calls();
        }
    }
    assert_eq!(server.violations(), []);
}

#[tokio::test]
async fn the_server_would_see_a_changed_prefix() {
    let server = ModelServer::start(script()).await.unwrap();
    let mut talk = Talk::new();
    talk.say("go");
    talk.ask(&server.url(), "anthropic/claude-opus-5-5").await;
    talk.run_calls();
    talk.reasoning_since = Seq(talk.session.len().0);
    let refused = talk.ask_for(1, &server.url(), "anthropic/claude-opus-5-5").await.unwrap_err();
    assert_eq!(refused.code, FailureCode::InvalidRequest);
    assert_eq!(server.violations()[0].rule, "thinking-dropped");
}
