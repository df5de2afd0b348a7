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
use crate::{Assembled, ToolSpec};

/// A session that asks one server, the way a driver does.
struct Talk {
    session: Session,
    http: HttpClient,
    reasoning_since: Seq,
}

impl Talk {
    fn new() -> Self {
        let mut talk =
            Self { session: session(), http: HttpClient::default(), reasoning_since: Seq(0) };
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
        let schema =
            RawValue::from_string(r#"{"type":"object","properties":{}}"#.to_owned()).unwrap();
        let (name, description) = ("read".to_owned(), "Reads.".to_owned());
        let tools = Arc::from([ToolSpec { name, description, input_schema: schema }]);
        let projection = self.session.projection();
        let request = ModelRequest::new(projection, tools, None, self.reasoning_since);
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
    for part in ["the two ends", "of 1000000 bytes", "can be called from here on: deploy."] {
        assert!(messages.contains(part), "{part}: {messages}");
    }
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
