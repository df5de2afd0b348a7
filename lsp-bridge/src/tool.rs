//! What the tools have in common: from a model's arguments to a call that only reads.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{
    Access, Concurrency, Display, Grant, Location, PlannedCall, Tool, ToolContext, ToolFailure,
    ToolKind, ToolOutcome,
};
use bridle_model::ToolSpec;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::to_raw_value;
use tokio_util::sync::CancellationToken;

use crate::desk::{Desk, NoResult};

/// The most places that an editor is told of.
const MAX_LOCATIONS: usize = 50;

/// A question of the model: the arguments of a tool.
#[async_trait]
pub(crate) trait Ask: DeserializeOwned + Send + Sync + 'static {
    const TOOL: &'static str;
    const DESCRIPTION: &'static str;
    const KIND: ToolKind;

    /// The schema of the arguments.
    fn schema() -> Value;

    /// The files that it names.
    fn paths(&self) -> Vec<&str>;

    /// One line for a person.
    fn title(&self) -> String;

    /// The answer; `files` are those that it names.
    async fn answer(
        &self,
        files: &[PathBuf],
        desk: &Desk,
        token: &CancellationToken,
    ) -> Result<Told, NoResult>;
}

/// An answer for the model.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) text: String,
    /// Where what it tells of is.
    pub(crate) locations: Vec<Location>,
}

/// A tool that asks servers.
pub(crate) struct CodeTool<A> {
    spec: ToolSpec,
    desk: Arc<Desk>,
    arguments: PhantomData<fn() -> A>,
}

impl<A: Ask> CodeTool<A> {
    pub(crate) fn new(desk: Arc<Desk>) -> Self {
        let schema = to_raw_value(&A::schema()).unwrap_or_default();
        let (name, description) = (A::TOOL.to_owned(), A::DESCRIPTION.to_owned());
        Self {
            spec: ToolSpec { name, description, input_schema: schema },
            desk,
            arguments: PhantomData,
        }
    }
}

#[async_trait]
impl<A: Ask> Tool for CodeTool<A> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn plan(
        &self,
        arguments: Value,
        _: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        let ask: A = serde_path_to_error::deserialize(arguments).map_err(|error| {
            let (path, why) = (error.path().to_string(), error.inner());
            ToolFailure::bad_arguments(format!(
                "The arguments of `{}` do not fit at `{path}`: {why}. Nothing was done.",
                A::TOOL
            ))
        })?;
        let (mut files, mut missed) = (Vec::new(), Vec::new());
        for path in ask.paths() {
            match self.desk.place(path).await {
                Ok(file) => files.push(file),
                Err(why) => missed.push((line(path), why)),
            }
        }
        // Of several files, one that cannot be asked about says nothing of the others.
        if files.is_empty() && !missed.is_empty() {
            let (_, why) = missed.swap_remove(0);
            return Err(why);
        }
        Ok(Box::new(CodeCall { ask, files, missed, desk: Arc::clone(&self.desk) }))
    }

    fn outline(&self, arguments: &str) -> Display {
        let ask = serde_json::from_str::<A>(arguments).ok();
        let title = ask.map_or_else(|| A::TOOL.to_owned(), |ask| line(&ask.title()));
        Display::new(title, A::KIND)
    }
}

struct CodeCall<A> {
    ask: A,
    files: Vec<PathBuf>,
    /// What it names besides that is no file to ask about, and why.
    missed: Vec<(String, ToolFailure)>,
    desk: Arc<Desk>,
}

impl<A: Ask> CodeCall<A> {
    fn locations(&self) -> Vec<Location> {
        let at = |path: &PathBuf| Location { path: path.clone(), line: None };
        self.files.iter().filter(|path| path.to_str().is_some()).map(at).collect()
    }
}

#[async_trait]
impl<A: Ask> PlannedCall for CodeCall<A> {
    fn display(&self) -> Display {
        let title = line(&self.ask.title());
        Display { locations: self.locations(), ..Display::new(title, A::KIND) }
    }

    fn access(&self) -> Vec<Access> {
        match self.files.is_empty() {
            true => vec![Access::ReadInside(self.desk.roots.cwd().to_owned())],
            false => self.files.iter().cloned().map(Access::ReadInside).collect(),
        }
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::Parallel
    }

    async fn run(
        self: Box<Self>,
        _: Grant,
        context: ToolContext,
    ) -> Result<ToolOutcome, ToolFailure> {
        self.desk.catch_up().await;
        let answer = self.ask.answer(&self.files, &self.desk, &context.token).await;
        let mut display = self.display();
        match answer {
            Ok(Told { mut text, mut locations }) => {
                for (path, why) in &self.missed {
                    text.push_str(&format!("{path}: unknown: {}\n", why.message));
                }
                locations.retain(|location| location.path.to_str().is_some());
                locations.truncate(MAX_LOCATIONS);
                if !locations.is_empty() {
                    display.locations = locations;
                }
                display.text = Some(fenced(&text));
                Ok(ToolOutcome::new(text, display))
            }
            Err(_) if context.token.is_cancelled() => {
                Err(ToolFailure::aborted("Cancelled while a language server was asked."))
            }
            Err(why) => {
                let mut message = format!("{why}.");
                for (path, why) in &self.missed {
                    message.push_str(&format!("\n{path}: unknown: {}", why.message));
                }
                let failure = ToolFailure::failed(message);
                display.text = Some(failure.message.clone());
                display.message = self.desk.told_once(&why);
                Err(ToolFailure { display: Some(display), ..failure })
            }
        }
    }
}

/// A code fence around a text, longer than any fence within it.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}", text.trim_end())
}

/// A title in one short line.
fn line(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.take(200).collect()
}
