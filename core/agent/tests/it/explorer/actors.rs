//! Everybody around the driver: the model, tools, approver, hooks, clock and an observer, each of
//! which does what the next move says. They check what only they can see.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bridle_agent::{
    Access, Answer, Approver, Concurrency, Display, Grant, OnRequest, OnRequestError, OnStream,
    PlannedCall, PreStep, Question, RequestFailed, RequestInput, Ruling, Sandboxing, SessionChange,
    SessionEvent, StepDecision, StepInput, StoppingTurn, StreamInput, Tool, ToolContext,
    ToolFailure, ToolKind, ToolOutcome, ToolPost, ToolPre, ToolRun, TurnStopping, Verdict,
};
use bridle_compose::{Around, Clock, Duplicate, Next, Observer, Setup, Sleep};
use bridle_model::{
    Chunk, FailureCode, ModelAdapter, ModelFailure, ModelRequest, ModelSource, PreparedCall,
    RetryPolicy, RouteLimits, ToolSpec,
};
use bridle_session::{Content, Draft, MessageId, Route, UserMessage, UserSource};
use futures::stream::{BoxStream, StreamExt as _};
use tokio_util::sync::CancellationToken;

use super::laws;
use super::scene::{Item, PLANNED, Scene};
use super::schedule::{Kind, Point, Reply};
use crate::rig::failure;

impl Clock for Scene {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.lock().now
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        let scene = self.clone();
        Box::pin(async move { Scene::sleep(&scene, duration).await })
    }
}

#[async_trait]
impl ModelSource for Scene {
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

impl ModelAdapter for Scene {
    fn stream(
        &self,
        request: ModelRequest,
        token: CancellationToken,
    ) -> BoxStream<'static, Result<Chunk, ModelFailure>> {
        let mut state = self.lock();
        laws::request(&mut state, &request);
        let (listened, deaf) = (state.listen(), state.deaf);
        let token = if deaf { CancellationToken::new() } else { token };
        let says = futures::stream::unfold((listened, token), |(mut listened, token)| async move {
            let item = tokio::select! {
                biased;
                () = token.cancelled() => Item::Fail(failure(FailureCode::Cancelled)),
                Some(item) = listened.recv() => item,
            };
            match item {
                Item::Chunk(chunk) => Some((Ok(chunk), (listened, token))),
                Item::Fail(failure) => Some((Err(failure), (listened, token))),
                Item::Panic => panic!("{PLANNED}"),
                Item::Break => None,
            }
        });
        says.boxed()
    }
}

#[async_trait]
impl Approver for Scene {
    async fn ask(&self, question: Question) -> Answer {
        {
            let mut state = self.lock();
            let times = state.asked.entry(question.call.clone()).or_default();
            *times += 1;
            if *times > 1 {
                state.break_law(format!("{} was asked for twice", question.call));
            }
        }
        match self.gate(Kind::Question).await {
            Reply::Yes | Reply::Change => Answer::AllowOnce,
            Reply::No | Reply::Wait => Answer::Reject,
            Reply::Cancelled => Answer::Cancelled,
            Reply::Error => Answer::ClientError,
            Reply::Nobody => Answer::NoApprover,
            Reply::Panic => panic!("{PLANNED}"),
        }
    }
}

impl Observer<SessionEvent> for Scene {
    fn observe(&self, told: &SessionEvent) {
        let mut state = self.lock();
        let draft = Draft { data: told.event.data.clone(), surface: told.event.surface.clone() };
        match state.mirror.append(draft, told.event.time) {
            Ok(event) if event.seq == told.event.seq => {}
            other => state.break_law(format!("an event does not fit: {other:?}")),
        }
    }
}

struct SceneTool {
    scene: Scene,
    spec: ToolSpec,
    access: Access,
}

struct SceneCall {
    scene: Scene,
    name: String,
    access: Access,
    arguments: String,
    body: String,
}

pub(super) fn tools(scene: &Scene) -> Vec<Arc<dyn Tool>> {
    let run = Access::Run {
        command: "run".into(),
        network: false,
        unconfined: false,
        reason: None,
        sandboxing: Sandboxing::Unavailable,
    };
    let put = Access::WriteInside("/ws/x".into());
    [("look", Access::ReadInside("/ws".into())), ("put", put), ("run", run)]
        .map(|(name, access)| {
            let schema = serde_json::value::to_raw_value(&serde_json::json!({"type": "object"}));
            let spec = ToolSpec {
                name: name.to_owned(),
                description: String::new(),
                input_schema: schema.unwrap(),
            };
            Arc::new(SceneTool { scene: scene.clone(), spec, access }) as Arc<dyn Tool>
        })
        .to_vec()
}

#[async_trait]
impl Tool for SceneTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn plan(
        &self,
        parsed: serde_json::Value,
        context: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        let says = match parsed["plan"].as_str() {
            None => Reply::Yes,
            Some("fail") => Reply::No,
            Some("panic") => Reply::Panic,
            Some(_) => tokio::select! {
                biased;
                () = context.token.cancelled() => Reply::No,
                reply = self.scene.gate(Kind::Plan) => reply,
            },
        };
        match says {
            Reply::Panic => panic!("{PLANNED}"),
            Reply::No => Err(ToolFailure::failed("it cannot be done")),
            _ => Ok(Box::new(SceneCall {
                scene: self.scene.clone(),
                name: self.spec.name.clone(),
                access: self.access.clone(),
                arguments: parsed.to_string(),
                body: parsed["body"].as_str().unwrap_or_default().to_owned(),
            })),
        }
    }

    fn outline(&self, _arguments: &str) -> Display {
        Display::new(self.spec.name.clone(), ToolKind::Other)
    }
}

#[async_trait]
impl PlannedCall for SceneCall {
    fn display(&self) -> Display {
        Display::new(self.name.clone(), ToolKind::Other)
    }

    fn access(&self) -> Vec<Access> {
        vec![self.access.clone()]
    }

    fn concurrency(&self) -> Concurrency {
        match self.access {
            Access::ReadInside(_) => Concurrency::Parallel,
            _ => Concurrency::Exclusive,
        }
    }

    async fn run(
        self: Box<Self>,
        _grant: Grant,
        context: ToolContext,
    ) -> Result<ToolOutcome, ToolFailure> {
        laws::body(&mut self.scene.lock(), &self.arguments, &self.access);
        if self.body == "loud" {
            context.progress.show("half way".to_owned());
        }
        let reply = match self.body.as_str() {
            "now" | "last" | "leave" => Reply::Yes,
            "fail" => Reply::No,
            "panic" => Reply::Panic,
            "deaf" => self.scene.gate(Kind::Body).await,
            _ => tokio::select! {
                biased;
                () = context.token.cancelled() => Reply::Cancelled,
                reply = self.scene.gate(Kind::Body) => reply,
            },
        };
        match reply {
            Reply::Panic => panic!("{PLANNED}"),
            Reply::No => Err(ToolFailure::failed("it failed")),
            Reply::Cancelled => Err(ToolFailure::aborted("it was stopped")),
            reply => {
                let text = if reply == Reply::Change { String::new() } else { self.arguments };
                let display = Display::new(self.name, ToolKind::Other);
                let mut outcome = ToolOutcome::new(text, display);
                outcome.conclude = self.body == "last";
                if self.body == "leave" {
                    outcome.changes.push(SessionChange::LeavePlan);
                }
                Ok(outcome)
            }
        }
    }
}

fn told(id: String) -> UserMessage {
    let source = UserSource::Context { name: "hook".to_owned() };
    UserMessage { content: vec![Content::text(id.as_str())], id: MessageId::new(id), source }
}

#[async_trait]
impl Around<PreStep> for Scene {
    async fn around(&self, mut input: StepInput, next: Next<'_, PreStep>) -> StepDecision {
        match self.passage(Point::PreStep).await {
            Reply::No => StepDecision::Reject { message: "not now".to_owned(), limit: false },
            Reply::Cancelled => {
                input.messages.clear();
                next.run(input).await
            }
            Reply::Change => {
                input.messages.push(told(format!("pre-{}-{}", input.turn, input.step)));
                next.run(input).await
            }
            _ => next.run(input).await,
        }
    }
}

#[async_trait]
impl Around<OnRequest> for Scene {
    async fn around(
        &self,
        input: RequestInput,
        next: Next<'_, OnRequest>,
    ) -> Result<PreparedCall, ModelFailure> {
        match self.passage(Point::Request).await {
            Reply::No => Err(failure(FailureCode::Billing)),
            _ => next.run(input).await,
        }
    }
}

#[async_trait]
impl Around<OnStream> for Scene {
    async fn around(
        &self,
        input: StreamInput,
        next: Next<'_, OnStream>,
    ) -> BoxStream<'static, Result<Chunk, ModelFailure>> {
        match self.passage(Point::Stream).await {
            Reply::No => {
                let failed = Err(failure(FailureCode::Transport));
                futures::stream::iter([failed]).boxed()
            }
            _ => next.run(input).await,
        }
    }
}

#[async_trait]
impl Around<OnRequestError> for Scene {
    async fn around(
        &self,
        input: RequestFailed,
        next: Next<'_, OnRequestError>,
    ) -> Option<Duration> {
        match self.passage(Point::RequestError).await {
            Reply::No => None,
            Reply::Change => Some(Duration::from_millis(7)),
            _ => next.run(input).await,
        }
    }
}

#[async_trait]
impl Around<TurnStopping> for Scene {
    async fn around(
        &self,
        input: StoppingTurn,
        next: Next<'_, TurnStopping>,
    ) -> Option<UserMessage> {
        match self.passage(Point::Stopping).await {
            Reply::Change => Some(told(format!("more-{}-{}", input.turn, input.step))),
            _ => next.run(input).await,
        }
    }
}

#[async_trait]
impl Around<ToolPre> for Scene {
    async fn around(&self, input: Arc<bridle_agent::CallInfo>, next: Next<'_, ToolPre>) -> Ruling {
        match self.passage(Point::ToolPre).await {
            Reply::No => Ruling::Deny("no".to_owned()),
            Reply::Change => Ruling::Ask(vec!["looks odd".to_owned()]),
            Reply::Cancelled => Ruling::Cancel,
            _ => next.run(input).await,
        }
    }
}

#[async_trait]
impl Around<ToolRun> for Scene {
    async fn around(
        &self,
        input: bridle_agent::Body,
        next: Next<'_, ToolRun>,
    ) -> Result<ToolOutcome, ToolFailure> {
        match self.passage(Point::ToolRun).await {
            Reply::No => Err(ToolFailure::failed("kept from running")),
            _ => next.run(input).await,
        }
    }
}

#[async_trait]
impl Around<ToolPost> for Scene {
    async fn around(&self, input: Arc<bridle_agent::Ran>, next: Next<'_, ToolPost>) -> Verdict {
        match self.passage(Point::ToolPost).await {
            Reply::No => Verdict::block("that may not be shown"),
            Reply::Change => {
                let verdict = next.run(input).await;
                Verdict { context: vec!["mind the rules".to_owned()], ..verdict }
            }
            _ => next.run(input).await,
        }
    }
}

/// Puts everybody in their places.
pub(super) fn seat(scene: &Scene, setup: &Setup) -> Result<(), Duplicate> {
    let scene = Arc::new(scene.clone());
    setup.hook::<PreStep>(Arc::clone(&scene) as _)?;
    setup.hook::<OnRequest>(Arc::clone(&scene) as _)?;
    setup.hook::<OnStream>(Arc::clone(&scene) as _)?;
    setup.hook::<OnRequestError>(Arc::clone(&scene) as _)?;
    setup.hook::<TurnStopping>(Arc::clone(&scene) as _)?;
    setup.hook::<ToolPre>(Arc::clone(&scene) as _)?;
    setup.hook::<ToolRun>(Arc::clone(&scene) as _)?;
    setup.hook::<ToolPost>(Arc::clone(&scene) as _)?;
    for tool in tools(&scene) {
        setup.add::<dyn Tool>(&tool.spec().name, Arc::clone(&tool))?;
    }
    setup.observe::<SessionEvent>(scene)
}
