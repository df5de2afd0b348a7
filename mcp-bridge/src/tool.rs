//! A tool of a server as the model and the pipeline know it, and one call of it.

use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{
    Access, Concurrency, Display, Grant, PlannedCall, Tool, ToolContext, ToolFailure, ToolKind,
    ToolOutcome,
};
use bridle_model::ToolSpec;
use bridle_session::Content;
use bridle_store::BlobStore;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::connection::{Asked, Reply};
use crate::late::no_schema;
use crate::listing::Definition;
use crate::outcome::{self, Outcome};
use crate::server::Server;

/// How many digits of a hash tell two names apart.
const HASH_DIGITS: usize = 12;

/// A tool of a server.
pub(crate) struct Imported {
    spec: ToolSpec,
    definition: Definition,
    server: Arc<Server>,
    blobs: Arc<dyn BlobStore>,
}

impl Imported {
    /// Called `name` by the model.
    pub(crate) fn new(
        name: &str,
        definition: Definition,
        server: Arc<Server>,
        blobs: Arc<dyn BlobStore>,
    ) -> Self {
        let schema = serde_json::value::to_raw_value(&definition.schema);
        let described = &definition.description;
        let server_name = &server.config.name;
        let description = match definition.title.as_deref().filter(|_| described.is_empty()) {
            Some(title) => format!("{title} (a tool of the MCP server {server_name})"),
            None => format!("{described}\n(A tool of the MCP server {server_name}.)"),
        };
        let input_schema = schema.unwrap_or_else(|_| no_schema());
        let spec = ToolSpec { name: name.to_owned(), description, input_schema };
        Self { spec, definition, server, blobs }
    }

    pub(crate) fn definition(&self) -> &Definition {
        &self.definition
    }

    fn look(&self) -> Display {
        let shown = self.definition.title.as_deref().unwrap_or(&self.definition.name);
        let line: String = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        let title = format!("{}: {line}", self.server.config.name);
        Display::new(title, ToolKind::Other)
    }
}

/// The name that the model calls a tool by: the same in every session, whatever other servers there
/// are. Which letters a provider takes is the concern of its wire.
pub(crate) fn name_of(server: &str, tool: &str) -> String {
    let name = format!("mcp__{server}__{tool}");
    // Where the server's name ends could not be told, so that another's tool could have this name.
    if !server.contains("__") && !server.ends_with('_') {
        return name;
    }
    let hash = Sha256::digest(format!("{server}\0{tool}"));
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let digits = digits.get(..HASH_DIGITS).unwrap_or_default();
    format!("{name}_{digits}")
}

#[async_trait]
impl Tool for Imported {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn plan(
        &self,
        arguments: Value,
        _: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        Ok(Box::new(ServerCall {
            server: Arc::clone(&self.server),
            name: self.spec.name.clone(),
            tool: self.definition.name.clone(),
            arguments,
            display: self.look(),
            blobs: Arc::clone(&self.blobs),
        }))
    }

    fn waits_for_series(&self) -> bool {
        true
    }

    fn render(&self, value: &Value) -> Vec<Content> {
        Outcome::render(value)
    }

    fn outline(&self, _: &str) -> Display {
        self.look()
    }
}

/// One call of a server's tool.
struct ServerCall {
    server: Arc<Server>,
    /// The model's name for the tool.
    name: String,
    /// The server's own name for it.
    tool: String,
    arguments: Value,
    display: Display,
    blobs: Arc<dyn BlobStore>,
}

#[async_trait]
impl PlannedCall for ServerCall {
    fn display(&self) -> Display {
        self.display.clone()
    }

    fn access(&self) -> Vec<Access> {
        vec![Access::External { server: self.server.config.name.clone() }]
    }

    fn tool(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn concurrency(&self) -> Concurrency {
        match self.server.config.parallel {
            true => Concurrency::Parallel,
            false => Concurrency::Exclusive,
        }
    }

    async fn run(
        self: Box<Self>,
        _: Grant,
        context: ToolContext,
    ) -> Result<ToolOutcome, ToolFailure> {
        let name = &self.server.config.name;
        let not_sent = |why: &dyn std::fmt::Display| {
            ToolFailure::failed(format!(
                "The MCP server {name} cannot be used: {why}. The call was not sent."
            ))
        };
        let cancelled = || ToolFailure::aborted("Cancelled before it was sent.");
        let connection = tokio::select! {
            biased;
            () = context.token.cancelled() => return Err(cancelled()),
            connection = self.server.connection() => connection.map_err(|why| not_sent(&why))?,
        };
        let params = json!({"name": self.tool, "arguments": self.arguments});
        let asked = connection.ask("tools/call", params).await.map_err(|why| not_sent(&why))?;
        let result = self.follow(asked, &context).await?;
        let outcome = outcome::read(result, &self.blobs).await?;
        let display = Display { text: Some(fenced(&outcome.text())), ..self.display };
        let value = serde_json::to_value(outcome);
        let value = value.map_err(|error| ToolFailure::failed(error.to_string()))?;
        Ok(ToolOutcome::new(value, display))
    }
}

impl ServerCall {
    /// Waits for the answer, as long as there are signs of life.
    async fn follow(&self, mut asked: Asked, context: &ToolContext) -> Result<Value, ToolFailure> {
        let config = &self.server.config;
        let mut at_most = self.server.clock().sleep(config.call_limit);
        let mut signs = asked.signs.clone();
        let unknown = |why: String| {
            ToolFailure::outcome_unknown(format!(
                "The call {why}. What the MCP server {} did of it is unknown; it is not sent again by \
                 itself. Look before you repeat it.",
                config.name
            ))
        };
        let why = loop {
            let idle = self.server.clock().sleep(config.idle_limit);
            tokio::select! {
                biased;
                () = context.token.cancelled() => break "was cancelled".to_owned(),
                reply = asked.reply() => {
                    asked.done();
                    return match reply {
                        Reply::Result(result) => Ok(result),
                        Reply::Refused(why) => Err(ToolFailure::failed(format!(
                            "The MCP server {} refused the call: {why}", config.name
                        ))),
                        Reply::Lost => Err(unknown("was under way when the server was lost".into())),
                    };
                }
                Ok(()) = signs.changed() => {
                    let sign = signs.borrow_and_update().clone();
                    context.progress.show(sign.told());
                }
                () = idle => {
                    break format!("gave no sign of life for {} s", config.idle_limit.as_secs_f64());
                }
                () = &mut at_most => {
                    break format!("took longer than {} s", config.call_limit.as_secs_f64());
                }
            }
        };
        asked.withdraw(&why).await;
        match context.token.is_cancelled() {
            true => Err(ToolFailure::aborted(format!(
                "The call was cancelled, which the MCP server {} was told. What it did of it is unknown.",
                config.name
            ))),
            false => Err(unknown(why)),
        }
    }
}

/// As a block that shows any text as it is.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}
