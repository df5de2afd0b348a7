//! A model that plays a script and keeps what it was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bridle_model::{
    BlockKind, Chunk, FailureCode, ModelAdapter, ModelFailure, ModelRequest, ModelSource,
    PreparedCall, RetryPolicy, RouteLimits, StopReason,
};
use bridle_session::{Block, Content, Message, Route, ToolCallId, Usage};
use futures::stream::{BoxStream, StreamExt as _};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::clock::TestClock;

/// What a scripted answer does next.
#[derive(Clone)]
pub(crate) enum Play {
    Chunk(Chunk),
    /// The chunk comes this much later.
    Later(Duration, Chunk),
    Fail(ModelFailure),
    /// Says that it got here, then is silent until the request is cancelled.
    Hang(Arc<Notify>),
    Panic,
    /// Says that it got here ([`ScriptedModel::held`]), then waits to be let on.
    Hold(Arc<Notify>),
}

pub(crate) fn text(text: &str) -> Vec<Play> {
    let mut plays =
        vec![Play::Chunk(Chunk::Start { usage: Usage { input: 10, ..Usage::default() } })];
    plays.extend(text_block(0, text));
    plays.push(Play::Chunk(Chunk::Usage(Usage { input: 10, output: 5, ..Usage::default() })));
    plays.push(Play::Chunk(Chunk::Stop(StopReason::EndTurn)));
    plays
}

pub(crate) fn text_block(index: u32, text: &str) -> Vec<Play> {
    vec![
        Play::Chunk(Chunk::BlockStart { index, kind: BlockKind::Text }),
        Play::Chunk(Chunk::TextDelta { index, text: text.to_owned() }),
        Play::Chunk(Chunk::BlockEnd { index, block: Block::Text { text: text.to_owned() } }),
    ]
}

/// An answer that asks for these tools: (id, name, arguments).
pub(crate) fn calls(calls: &[(&str, &str, &str)]) -> Vec<Play> {
    let mut plays = vec![Play::Chunk(Chunk::Start { usage: Usage::default() })];
    for (index, (id, name, arguments)) in calls.iter().enumerate() {
        let index = index as u32;
        let id = ToolCallId::new(*id);
        plays.push(Play::Chunk(Chunk::BlockStart {
            index,
            kind: BlockKind::ToolCall { id: id.clone(), name: (*name).to_owned() },
        }));
        let arguments = (*arguments).to_owned();
        let block = Block::ToolCall { id, name: (*name).to_owned(), arguments };
        plays.push(Play::Chunk(Chunk::BlockEnd { index, block }));
    }
    plays.push(Play::Chunk(Chunk::Stop(StopReason::ToolUse)));
    plays
}

pub(crate) fn failure(code: FailureCode) -> ModelFailure {
    ModelFailure::new(code, format!("scripted {}", code.as_str()))
}

/// A model that plays its answers in order and keeps what it was asked.
#[derive(Clone)]
pub(crate) struct ScriptedModel {
    clock: TestClock,
    answers: Arc<Mutex<VecDeque<Vec<Play>>>>,
    requests: Arc<Mutex<Vec<String>>>,
    /// Told when an answer is held.
    pub(crate) held: Arc<Notify>,
}

impl ScriptedModel {
    pub(crate) fn new(clock: TestClock) -> Self {
        Self { clock, answers: Arc::default(), requests: Arc::default(), held: Arc::default() }
    }

    pub(crate) fn push(&self, answer: Vec<Play>) {
        self.answers.lock().unwrap().push_back(answer);
    }

    /// Each request as one line per message.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl ModelAdapter for ScriptedModel {
    fn stream(
        &self,
        request: ModelRequest,
        token: CancellationToken,
    ) -> BoxStream<'static, Result<Chunk, ModelFailure>> {
        self.requests.lock().unwrap().push(outline(&request));
        let answer = self.answers.lock().unwrap().pop_front().expect("an answer is scripted");
        let (clock, held) = (self.clock.clone(), Arc::clone(&self.held));
        futures::stream::iter(answer)
            .filter_map(move |play| {
                let held = Arc::clone(&held);
                async move {
                    let Play::Hold(on) = &play else { return Some(play) };
                    held.notify_one();
                    on.notified().await;
                    None
                }
            })
            .then(move |play| {
                let (token, clock) = (token.clone(), clock.clone());
                async move {
                    if token.is_cancelled() {
                        return Err(failure(FailureCode::Cancelled));
                    }
                    match play {
                        Play::Chunk(chunk) => Ok(chunk),
                        Play::Later(time, chunk) => {
                            *clock.passed.lock().unwrap() += time;
                            Ok(chunk)
                        }
                        Play::Fail(failure) => Err(failure),
                        Play::Panic => panic!("scripted"),
                        Play::Hold(_) => unreachable!("filtered above"),
                        Play::Hang(reached) => {
                            reached.notify_one();
                            token.cancelled().await;
                            Err(failure(FailureCode::Cancelled))
                        }
                    }
                }
            })
            .boxed()
    }
}

fn outline(request: &ModelRequest) -> String {
    let lines = request.projection().messages().map(|message| match message {
        Message::System(_) => "system".to_owned(),
        Message::User(message) => format!("user: {}", flat(&message.content)),
        Message::Assistant(message) => {
            let blocks = message.blocks.iter().map(|timed| match &timed.block {
                Block::Text { text } => text.clone(),
                Block::ToolCall { id, name, .. } => format!("<{name} {id}>"),
                other => format!("{other:?}"),
            });
            format!("assistant: {}", blocks.collect::<Vec<_>>().join(" "))
        }
        Message::Developer(message) => format!("developer: {message:?}"),
        Message::ToolResult(result) => {
            format!("result {}: {}", result.id, flat(&result.content))
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) fn flat(content: &[Content]) -> String {
    let texts = content.iter().map(|part| match part {
        Content::Text { text } => text.clone(),
        other => format!("{other:?}"),
    });
    texts.collect::<Vec<_>>().join("|")
}

pub(crate) fn route(model: &str) -> Route {
    Route { provider: "scripted".into(), model: model.into() }
}

#[async_trait]
impl ModelSource for ScriptedModel {
    async fn prepare(&self, route: &Route) -> Result<PreparedCall, ModelFailure> {
        let limits = RouteLimits { window: 1000, max_output: 100 };
        let retry = RetryPolicy {
            max_attempts: 3,
            first_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(30),
        };
        Ok(PreparedCall::new(route.clone(), limits, retry, Box::new(self.clone())))
    }

    fn default_route(&self) -> Result<Route, ModelFailure> {
        Err(failure(FailureCode::Auth))
    }
}
