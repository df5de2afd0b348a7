//! What the tools over files share: from argument text to a call, and around the call's body.
//!
//! A tool is its arguments ([`FileArguments`]) and the calls that they plan ([`FileCall`]);
//! `FileTool` and `Planned` make a [`Tool`] and a [`PlannedCall`] of them, and [`FilePlugin`]
//! puts the tool into a scope.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{
    Access, Concurrency, Display, Grant, Observed, PlannedCall, SessionChange, Tool, ToolContext,
    ToolFailure, ToolKind, ToolOutcome,
};
use bridle_compose::{ActivateError, Plugin, Setup};
use bridle_model::ToolSpec;
use bridle_session::Content;
use bridle_store::BlobStore;
use bridle_world::Roots;
use bridle_world::files::Files;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::arguments::{Arguments, peek, value_schema};
use crate::blocking::blocking;
use crate::seen::SeenTexts;
use crate::target::{Target, locations, one_line};

/// What file tools work on.
#[derive(Clone)]
pub(crate) struct FileWorld {
    pub(crate) roots: Arc<Roots>,
    pub(crate) files: Arc<dyn Files>,
    /// What the model has seen of them.
    pub(crate) observed: Observed,
    /// What that was, as far as it is remembered.
    pub(crate) texts: Arc<SeenTexts>,
    /// Where what is no text is kept, for the tools that need it.
    pub(crate) blobs: Option<Arc<dyn BlobStore>>,
}

impl FileWorld {
    /// A world of which nothing has been seen.
    pub(crate) fn new(roots: Arc<Roots>, files: Arc<dyn Files>) -> Self {
        Self { roots, files, observed: Observed::default(), texts: Arc::default(), blobs: None }
    }
}

/// The arguments of a file tool, and with them all that is its own.
pub(crate) trait FileArguments: Arguments + Send + 'static {
    /// What a model is told.
    const DESCRIPTION: &'static str;
    /// What a call does, as the first word of its title.
    const VERB: &'static str;
    /// `Edit` for a tool that changes files; every other only looks.
    const KIND: ToolKind;

    /// What a body yields.
    type Value: Serialize + DeserializeOwned + JsonSchema;

    /// What the model reads of a value.
    fn render(value: &Self::Value) -> String;

    /// The same with what is no text.
    fn contents(value: &Self::Value) -> Vec<Content> {
        vec![Content::text(Self::render(value))]
    }

    /// Checks the arguments and prepares the call. Blocks on the file system.
    ///
    /// # Errors
    /// As [`Tool::plan`].
    fn plan(self, world: &FileWorld) -> Result<Box<dyn FileCall<Self::Value>>, ToolFailure>;
}

/// A checked call of a file tool.
pub(crate) trait FileCall<V>: Send + Sync + 'static {
    /// The places it is about.
    fn targets(&self) -> Vec<&Target>;

    /// As [`PlannedCall::display`].
    fn display(&self) -> Display;

    /// What a client shows of a success below its title; `None` leaves the plan's display.
    fn shown(&self, _value: &V) -> Option<String> {
        None
    }

    /// What a success changes of the session.
    fn changes(&self, _value: &V) -> Vec<SessionChange> {
        Vec::new()
    }

    /// The body. Blocks on the file system.
    ///
    /// # Errors
    /// As [`PlannedCall::run`].
    fn run(&self, token: &CancellationToken) -> Result<V, ToolFailure>;
}

/// The tool of these arguments.
pub(crate) fn tool<A: FileArguments>(world: FileWorld) -> Arc<dyn Tool> {
    let (spec, values) = (A::spec(A::DESCRIPTION), value_schema::<A::Value>());
    Arc::new(FileTool::<A> { world, spec, values, arguments: PhantomData })
}

struct FileTool<A> {
    world: FileWorld,
    spec: ToolSpec,
    values: Box<RawValue>,
    arguments: PhantomData<fn() -> A>,
}

#[async_trait]
impl<A: FileArguments> Tool for FileTool<A> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn value_schema(&self) -> Option<&RawValue> {
        Some(&self.values)
    }

    fn render(&self, value: &Value) -> Vec<Content> {
        render(value, A::contents)
    }

    async fn plan(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        let arguments = A::decode(arguments)?;
        let world = FileWorld { observed: Arc::clone(&context.observed), ..self.world.clone() };
        let call = blocking(move || arguments.plan(&world)).await?;
        Ok(Box::new(Planned { changes: A::KIND.changes_files(), call }))
    }

    fn outline(&self, arguments: &str) -> Display {
        let searches = A::KIND == ToolKind::Search;
        let named = |name| peek(arguments, name).filter(|text| !text.is_empty());
        let title = match named(if searches { "pattern" } else { "path" }) {
            Some(subject) => format!("{} {}", A::VERB, one_line(&subject)),
            None => A::TOOL.to_owned(),
        };
        let mut display = Display::new(title, A::KIND);
        // A search that names no path is one of the working directory.
        if let Some(path) = named("path").or_else(|| searches.then(String::new)) {
            display.locations = locations(&self.world.roots.cwd().join(path), None);
        }
        display
    }
}

/// What the model reads of a value of this type.
pub(crate) fn render<V: DeserializeOwned>(
    value: &Value,
    contents: impl FnOnce(&V) -> Vec<Content>,
) -> Vec<Content> {
    // The driver has checked a value, so the second is only for what a schema cannot say.
    V::deserialize(value)
        .map_or_else(|_| vec![Content::text(value.to_string())], |value| contents(&value))
}

/// A value as the driver takes it.
pub(crate) fn to_value(value: &impl Serialize) -> Result<Value, ToolFailure> {
    serde_json::to_value(value).map_err(|error| {
        tracing::error!(%error, "a value is no JSON");
        ToolFailure::failed("The result cannot be put into JSON; what the call did stands.")
    })
}

/// A call of a file tool as the driver sees it.
struct Planned<V> {
    changes: bool,
    call: Box<dyn FileCall<V>>,
}

#[async_trait]
impl<V: Serialize + 'static> PlannedCall for Planned<V> {
    fn display(&self) -> Display {
        self.call.display()
    }

    fn access(&self) -> Vec<Access> {
        let access = if self.changes { Target::write_access } else { Target::read_access };
        self.call.targets().into_iter().flat_map(access).collect()
    }

    fn concurrency(&self) -> Concurrency {
        if self.changes { Concurrency::Exclusive } else { Concurrency::Parallel }
    }

    async fn run(
        self: Box<Self>,
        _: Grant,
        context: ToolContext,
    ) -> Result<ToolOutcome, ToolFailure> {
        if context.token.is_cancelled() {
            return Err(ToolFailure::aborted("The call was cancelled; nothing was done."));
        }
        blocking(move || {
            let value = self.call.run(&context.token)?;
            let mut display = self.call.display();
            if let Some(text) = self.call.shown(&value) {
                display.text = Some(text);
            }
            let mut outcome = ToolOutcome::new(to_value(&value)?, display);
            outcome.changes = self.call.changes(&value);
            Ok(outcome)
        })
        .await
    }
}

/// Puts the tool of these arguments into the scope of a session.
pub(crate) struct FilePlugin<A>(PhantomData<fn() -> A>);

impl<A> FilePlugin<A> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

#[async_trait]
impl<A: FileArguments> Plugin for FilePlugin<A> {
    const NAME: &'static str = A::TOOL;
    type Config = ();
    type Needs = (Arc<Roots>, Arc<dyn Files>, Arc<SeenTexts>);

    async fn activate(
        &self,
        (): (),
        (roots, files, texts): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let world = FileWorld { texts, ..FileWorld::new(roots, files) };
        Ok(setup.add(A::TOOL, tool::<A>(world))?)
    }
}
