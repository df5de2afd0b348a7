//! Tools whose bodies are closures, and an approver that answers from a list.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bridle_agent::{
    Access, Answer, Approver, Concurrency, Display, Grant, PlannedCall, Question, Tool,
    ToolContext, ToolFailure, ToolKind, ToolOutcome,
};
use bridle_model::ToolSpec;
use bridle_session::Content;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::Notify;

/// Answers questions from a list; when it is empty it never answers.
#[derive(Clone, Default)]
pub(crate) struct ScriptedApprover {
    pub(crate) answers: Arc<Mutex<VecDeque<Answer>>>,
    pub(crate) questions: Arc<Mutex<Vec<Question>>>,
    pub(crate) asked: Arc<Notify>,
}

#[async_trait]
impl Approver for ScriptedApprover {
    async fn ask(&self, question: Question) -> Answer {
        self.questions.lock().unwrap().push(question);
        self.asked.notify_one();
        let answer = self.answers.lock().unwrap().pop_front();
        match answer {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

type Body = Arc<
    dyn Fn(ToolContext) -> futures::future::BoxFuture<'static, Result<String, ToolFailure>>
        + Send
        + Sync,
>;

/// A tool whose body is a closure.
#[derive(Clone)]
pub(crate) struct TestTool {
    spec: ToolSpec,
    values: Option<Box<RawValue>>,
    deadline: Option<Duration>,
    access: Vec<Access>,
    concurrency: Concurrency,
    body: Body,
    finish: Finish,
}

/// Completes the outcome of a body.
type Finish = Arc<dyn Fn(&mut ToolOutcome) + Send + Sync>;

impl TestTool {
    pub(crate) fn new<F, R>(name: &str, access: Access, body: F) -> Arc<Self>
    where
        F: Fn(ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, ToolFailure>> + Send + 'static,
    {
        Self::with_outcome(name, access, body, |_| ())
    }

    /// A tool whose outcome is more than its text.
    pub(crate) fn with_outcome<F, R>(
        name: &str,
        access: Access,
        body: F,
        finish: impl Fn(&mut ToolOutcome) + Send + Sync + 'static,
    ) -> Arc<Self>
    where
        F: Fn(ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, ToolFailure>> + Send + 'static,
    {
        let concurrency = match access {
            Access::ReadInside(_) => Concurrency::Parallel,
            _ => Concurrency::Exclusive,
        };
        Arc::new(Self {
            spec: ToolSpec {
                name: name.to_owned(),
                description: String::new(),
                input_schema: serde_json::value::to_raw_value(
                    &serde_json::json!({"type": "object"}),
                )
                .unwrap(),
            },
            values: None,
            deadline: None,
            access: vec![access],
            concurrency,
            body: Arc::new(move |context| Box::pin(body(context))),
            finish: Arc::new(finish),
        })
    }
}

/// What else a tool may promise.
impl TestTool {
    /// Its arguments fit this schema.
    pub(crate) fn taking(mut self: Arc<Self>, schema: &Value) -> Arc<Self> {
        Arc::make_mut(&mut self).spec.input_schema = to_raw_value(schema).unwrap();
        self
    }

    /// Its values fit this schema.
    pub(crate) fn yielding(mut self: Arc<Self>, schema: &Value) -> Arc<Self> {
        Arc::make_mut(&mut self).values = Some(to_raw_value(schema).unwrap());
        self
    }

    /// Its bodies have this long.
    pub(crate) fn within(mut self: Arc<Self>, deadline: Duration) -> Arc<Self> {
        Arc::make_mut(&mut self).deadline = Some(deadline);
        self
    }
}

#[async_trait]
impl Tool for TestTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn value_schema(&self) -> Option<&RawValue> {
        self.values.as_deref()
    }

    fn render(&self, value: &Value) -> Vec<Content> {
        assert_ne!(value, "panic", "as planned");
        vec![Content::text(value.as_str().unwrap())]
    }

    async fn plan(
        &self,
        _arguments: serde_json::Value,
        _context: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        Ok(Box::new(TestCall {
            name: self.spec.name.clone(),
            deadline: self.deadline,
            access: self.access.clone(),
            concurrency: self.concurrency,
            body: Arc::clone(&self.body),
            finish: Arc::clone(&self.finish),
        }))
    }

    fn outline(&self, _arguments: &str) -> Display {
        Display::new(self.spec.name.clone(), ToolKind::Other)
    }
}

struct TestCall {
    name: String,
    deadline: Option<Duration>,
    access: Vec<Access>,
    concurrency: Concurrency,
    body: Body,
    finish: Finish,
}

#[async_trait]
impl PlannedCall for TestCall {
    fn display(&self) -> Display {
        Display::new(format!("plan of {}", self.name), ToolKind::Other)
    }

    fn access(&self) -> Vec<Access> {
        self.access.clone()
    }

    fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    fn concurrency(&self) -> Concurrency {
        self.concurrency
    }

    async fn run(
        self: Box<Self>,
        _grant: Grant,
        context: ToolContext,
    ) -> Result<ToolOutcome, ToolFailure> {
        let text = (self.body)(context).await?;
        let display = Display::new(format!("done {}", self.name), ToolKind::Other);
        let mut outcome = ToolOutcome::new(text, display);
        (self.finish)(&mut outcome);
        Ok(outcome)
    }
}

pub(crate) async fn ok(_context: ToolContext) -> Result<String, ToolFailure> {
    Ok("fine".to_owned())
}
