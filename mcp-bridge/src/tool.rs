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

use crate::call::{call, connected};
use crate::late::no_schema;
use crate::listing::Definition;
use crate::outcome::{self, Outcome};
use crate::server::Server;

/// The longest name that every provider takes.
const MAX_NAME: usize = 64;

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
        let server = &self.server.config.name;
        let claims = match (self.definition.read_only, self.definition.destructive) {
            (_, true) => Some("may destroy something"),
            (true, false) => Some("changes nothing"),
            (false, false) => None,
        };
        let text = claims.map(|claim| {
            format!("The MCP server says of this tool that it {claim}, which nobody has checked.")
        });
        Display { text, ..Display::new(format!("{server}: {line}"), ToolKind::Other) }
    }
}

/// The name that the model calls a tool by, rules name it by and a person reads: the same in every
/// session, whatever other servers there are. Every provider takes it.
///
/// It is the server's own wherever that is a name; else its letters that are, and a part of its hash.
pub(crate) fn name_of(server: &str, tool: &str) -> String {
    let name = format!("mcp__{server}__{tool}");
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    // Where the server's name ends could not be told, so that another's tool could have this name.
    let is_ambiguous = server.contains("__") || server.ends_with('_') || looks_made(&name);
    if name.len() <= MAX_NAME && name.chars().all(is_letter) && !is_ambiguous {
        return name;
    }
    let hash = Sha256::digest(format!("{server}\0{tool}"));
    let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let digits = digits.get(..HASH_DIGITS).unwrap_or_default();
    let kept = name.chars().take(MAX_NAME - HASH_DIGITS - 1);
    let kept: String = kept.map(|letter| if is_letter(letter) { letter } else { '_' }).collect();
    format!("{kept}_{digits}")
}

/// Whether a name ends as one that is made here does: a server could otherwise choose the made name of
/// another's tool for its own.
fn looks_made(name: &str) -> bool {
    let end = name.rsplit('_').next().unwrap_or_default();
    end.len() == HASH_DIGITS && end.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
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
            definition: self.definition.clone(),
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
    definition: Definition,
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
        vec![Access::External {
            server: self.server.config.name.clone(),
            changed: !self.server.memory.is_permitted(&self.definition),
        }]
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
        // Whoever let it come here has seen what it says of itself now, or does not want to.
        self.server.memory.permit(&self.definition).await;
        let _in_use = self.server.in_use();
        let clock = self.server.clock();
        let begun = clock.now();
        self.is_as_planned(&context).await?;
        let params = json!({"name": self.definition.name, "arguments": self.arguments});
        let result = call(&self.server, "tools/call", params, &context).await?;
        let outcome = outcome::read(result, &self.blobs).await?;
        let micros = clock.now().duration_since(begun).unwrap_or_default().as_micros() as u64;
        tracing::debug!(tool = self.name, micros, "a call was answered");
        outcome.told(self.display)
    }
}

impl ServerCall {
    /// A server that rested, or was lost, may be another one now.
    async fn is_as_planned(&self, context: &ToolContext) -> Result<(), ToolFailure> {
        connected(&self.server, context).await?;
        let offer = self.server.offer();
        let known = offer.iter().flat_map(|listing| &listing.tools);
        match known.clone().any(|tool| *tool == self.definition) {
            true => Ok(()),
            false => Err(ToolFailure::failed(format!(
                "The MCP server {} says something else about this tool by now, so it was not called. See \
                 with `find_tools` what it is, and call it again if that is what you want.",
                self.server.config.name
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_name_of_its_own_that_every_provider_takes() {
        let (long, longer) = ("x".repeat(60), "x".repeat(61));
        let made = name_of("s", "a b");
        let own = made.strip_prefix("mcp__s__").unwrap();
        let all = [
            ("s", "read"),
            ("s", "a b"),
            ("s", "a_b"),
            ("s", "a.b"),
            ("s", own),
            ("my server", "read"),
            ("my_server", "read"),
            ("s__t", "u"),
            ("s", "t__u"),
            ("s_", "u"),
            ("日本", "語"),
            ("日木", "語"),
            ("s", &long),
            ("s", &longer),
            (&long, "read"),
        ];
        let names: Vec<_> = all.iter().map(|(server, tool)| name_of(server, tool)).collect();
        for name in &names {
            let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            assert!(name.len() <= MAX_NAME && name.bytes().all(legal), "{name}");
        }
        let different: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "{names:?}");
        assert_eq!(names[0], "mcp__s__read");
        assert_eq!(names[3], name_of("s", "a.b"));
    }
}
