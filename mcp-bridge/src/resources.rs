//! The two tools that reach what servers hold besides tools: resources, and templates for the addresses
//! of more. They are there once a server of the session has any.

use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{
    Access, Display, Grant, PlannedCall, Tool, ToolContext, ToolFailure, ToolKind, ToolOutcome,
};
use bridle_model::ToolSpec;
use bridle_session::Content;
use bridle_store::BlobStore;
use bridle_world::servers::written_out;
use serde_json::{Value, json};

use crate::call::call;
use crate::connection::{Connection, Unavailable};
use crate::late::spec;
use crate::outcome::{self, Outcome, fenced};
use crate::pages::Pages;
use crate::server::Server;

/// The most entries of each list of a server that an answer has.
const MAX_LISTED: usize = 200;

/// The longest description in a list, in bytes.
const MAX_DESCRIPTION: usize = 200;

type Servers = Arc<[Arc<Server>]>;

fn named(servers: &Servers, name: &str) -> Result<Arc<Server>, ToolFailure> {
    let found = servers.iter().find(|server| server.config.name == name);
    found.map(Arc::clone).ok_or_else(|| {
        let all: Vec<_> = servers.iter().map(|server| server.config.name.as_str()).collect();
        ToolFailure::bad_arguments(format!(
            "There is no MCP server `{name}` in this session; there are: {}.",
            all.join(", ")
        ))
    })
}

/// Lists resources.
pub(crate) struct ListResources {
    spec: ToolSpec,
    servers: Servers,
}

impl ListResources {
    pub(crate) const NAME: &str = "list_resources";

    pub(crate) fn new(servers: Servers) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "server": {"type": "string", "description": "Only this server's; all servers' without."}
            }
        });
        let description = "Lists what the MCP servers of this session hold to be read (not files of the \
                           workspace): addresses for `read_resource`, and templates for addresses.";
        Self { spec: spec(Self::NAME, description, &schema), servers }
    }
}

#[async_trait]
impl Tool for ListResources {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn plan(
        &self,
        arguments: Value,
        _: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        Ok(Box::new(match arguments.get("server").and_then(Value::as_str) {
            Some(name) => Listing { servers: vec![named(&self.servers, name)?], rest: Vec::new() },
            None => {
                // Nobody waits for a server that was not asked for.
                let (servers, rest): (Vec<_>, Vec<_>) =
                    self.servers.iter().cloned().partition(|server| server.is_ready());
                let rest = rest.iter().map(|server| server.config.name.clone()).collect();
                Listing { servers, rest }
            }
        }))
    }

    fn waits_for_series(&self) -> bool {
        true
    }

    fn outline(&self, _: &str) -> Display {
        list_display()
    }
}

fn list_display() -> Display {
    Display::new("List resources of MCP servers", ToolKind::Search)
}

struct Listing {
    servers: Vec<Arc<Server>>,
    /// The names of those that are not asked.
    rest: Vec<String>,
}

#[async_trait]
impl PlannedCall for Listing {
    fn display(&self) -> Display {
        list_display()
    }

    // It asks no more of a server than what is asked of it at its start.
    fn access(&self) -> Vec<Access> {
        Vec::new()
    }

    async fn run(
        self: Box<Self>,
        _: Grant,
        context: ToolContext,
    ) -> Result<ToolOutcome, ToolFailure> {
        let mut told = Vec::new();
        for server in &self.servers {
            let list = tokio::select! {
                biased;
                () = context.token.cancelled() => return Err(ToolFailure::aborted("Cancelled.")),
                list = list(server) => list,
                () = server.clock().sleep(server.config.idle_limit) => {
                    Err(Unavailable::new("it does not answer"))
                }
            };
            match list {
                Ok(Some(list)) => told.push(list),
                Ok(None) => {}
                Err(why) => {
                    told.push(format!("{}: cannot be asked: {}", server.config.name, why.text));
                }
            }
        }
        if !self.rest.is_empty() {
            told.push(format!("Not asked, because they do not run now: {}", self.rest.join(", ")));
        }
        let text = match told.is_empty() {
            true => "No MCP server of this session has resources.".to_owned(),
            false => told.join("\n\n"),
        };
        let display = Display { text: Some(fenced(&text)), ..list_display() };
        Ok(ToolOutcome::new(text, display))
    }
}

/// What a server holds; `None` when that is nothing by its own account.
async fn list(server: &Server) -> Result<Option<String>, Unavailable> {
    let _in_use = server.in_use();
    let connection = server.connection().await?;
    if !connection.has_resources() {
        return Ok(None);
    }
    let resources = section(&connection, "resources/list", "resources", "uri").await?;
    // Some have the one and refuse the other.
    let templates =
        section(&connection, "resources/templates/list", "resourceTemplates", "uriTemplate");
    let templates = templates.await.unwrap_or_default();
    let name = &server.config.name;
    Ok(Some(match (resources.as_str(), templates.as_str()) {
        ("", "") => format!("{name}: none"),
        (_, "") => format!("{name}:\n{resources}"),
        _ => format!("{name}:\n{resources}Templates (fill in what is in braces):\n{templates}"),
    }))
}

/// One list, a line an entry.
async fn section(
    connection: &Connection,
    method: &str,
    field: &str,
    address: &str,
) -> Result<String, Unavailable> {
    let Pages { items, fault } = Pages::ask(connection, method, field).await?;
    let mut lines = String::new();
    for item in items.iter().take(MAX_LISTED) {
        let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
        let uri = text(address);
        if uri.is_empty() {
            continue;
        }
        let about = [text("title"), text("name"), text("mimeType"), text("description")];
        let about =
            about.iter().filter(|it| !it.is_empty()).copied().collect::<Vec<_>>().join("; ");
        let about: String = about.split_whitespace().collect::<Vec<_>>().join(" ");
        let about = about.get(..about.floor_char_boundary(MAX_DESCRIPTION)).unwrap_or_default();
        lines.push_str(&written_out(&format!("- {uri} ({about})\n")));
    }
    if let Some(more) = items.len().checked_sub(MAX_LISTED).filter(|more| *more > 0) {
        lines.push_str(&format!("- {more} more\n"));
    }
    if let Some(fault) = fault {
        lines.push_str(&format!("- not all: {fault}\n"));
    }
    Ok(lines)
}

/// Reads a resource.
pub(crate) struct ReadResource {
    spec: ToolSpec,
    servers: Servers,
    blobs: Arc<dyn BlobStore>,
}

impl ReadResource {
    pub(crate) const NAME: &str = "read_resource";

    pub(crate) fn new(servers: Servers, blobs: Arc<dyn BlobStore>) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "server": {"type": "string", "description": "The server that holds it."},
                "uri": {"type": "string", "description": "Its address, as `list_resources` names it or \
                                                          made from a template."}
            },
            "required": ["server", "uri"]
        });
        let description = "Reads a resource of an MCP server.";
        Self { spec: spec(Self::NAME, description, &schema), servers, blobs }
    }
}

#[async_trait]
impl Tool for ReadResource {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn plan(
        &self,
        arguments: Value,
        _: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        let server = named(&self.servers, text("server"))?;
        let (uri, blobs) = (text("uri").to_owned(), Arc::clone(&self.blobs));
        Ok(Box::new(Reading { server, uri, blobs }))
    }

    fn waits_for_series(&self) -> bool {
        true
    }

    fn render(&self, value: &Value) -> Vec<Content> {
        Outcome::render(value)
    }

    fn outline(&self, arguments: &str) -> Display {
        let arguments = serde_json::from_str::<Value>(arguments).unwrap_or_default();
        let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
        read_display(text("server"), text("uri"))
    }
}

fn read_display(server: &str, uri: &str) -> Display {
    let line: String = uri.split_whitespace().collect::<Vec<_>>().join(" ");
    Display::new(format!("{server}: read {line}"), ToolKind::Read)
}

struct Reading {
    server: Arc<Server>,
    uri: String,
    blobs: Arc<dyn BlobStore>,
}

#[async_trait]
impl PlannedCall for Reading {
    fn display(&self) -> Display {
        read_display(&self.server.config.name, &self.uri)
    }

    fn access(&self) -> Vec<Access> {
        vec![Access::External { server: self.server.config.name.clone(), changed: false }]
    }

    async fn run(
        self: Box<Self>,
        _: Grant,
        context: ToolContext,
    ) -> Result<ToolOutcome, ToolFailure> {
        let params = json!({"uri": self.uri});
        let result = call(&self.server, "resources/read", params, &context).await?;
        // Its parts are those of a tool's result that embeds them.
        let contents = result.get("contents").and_then(Value::as_array);
        let parts = contents.into_iter().flatten();
        let parts: Vec<_> = parts.map(|it| json!({"type": "resource", "resource": it})).collect();
        let outcome = outcome::read(json!({"content": parts}), &self.blobs).await?;
        outcome.told(self.display())
    }
}
