//! The two tools that reach what a conversation has no tools of its own for: those of a server that
//! came, or changed, after it had begun. They are there from the start, so that nothing before them in
//! a request ever changes (design: request series).

use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{
    Access, Display, Grant, PlannedCall, Tool, ToolContext, ToolFailure, ToolKind, ToolOutcome,
    read_arguments,
};
use bridle_model::ToolSpec;
use bridle_session::Content;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::imports::Imports;
use crate::outcome::Outcome;

/// How many tools an answer describes.
const MAX_FOUND: usize = 20;

/// Finds tools of servers.
pub(crate) struct FindTools {
    spec: ToolSpec,
    imports: Arc<Imports>,
}

/// Calls one of them.
pub(crate) struct CallTool {
    spec: ToolSpec,
    imports: Arc<Imports>,
}

pub(crate) fn spec(name: &str, description: &str, schema: &Value) -> ToolSpec {
    let input_schema = serde_json::value::to_raw_value(schema).unwrap_or_else(|_| no_schema());
    ToolSpec { name: name.to_owned(), description: description.to_owned(), input_schema }
}

/// Takes anything. Stands where a schema cannot be written as JSON, which does not happen.
pub(crate) fn no_schema() -> Box<RawValue> {
    Box::default()
}

impl FindTools {
    pub(crate) fn new(imports: Arc<Imports>) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "words": {
                    "type": "string",
                    "description": "Words that the name or the description must contain; all tools \
                                    without any."
                }
            }
        });
        let description = "Lists tools of this session's MCP servers with what they take. Use it for \
                           tools that you have not been given yourself; call those with `call_tool`.";
        Self { spec: spec("find_tools", description, &schema), imports }
    }
}

#[async_trait]
impl Tool for FindTools {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn plan(
        &self,
        arguments: Value,
        _: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        let words = arguments.get("words").and_then(Value::as_str).unwrap_or_default();
        let words = words.split_whitespace().map(str::to_lowercase).collect();
        Ok(Box::new(Finding { words, imports: Arc::clone(&self.imports) }))
    }

    fn outline(&self, _: &str) -> Display {
        Display::new("Find tools of MCP servers", ToolKind::Search)
    }
}

struct Finding {
    words: Vec<String>,
    imports: Arc<Imports>,
}

#[async_trait]
impl PlannedCall for Finding {
    fn display(&self) -> Display {
        Display::new("Find tools of MCP servers", ToolKind::Search)
    }

    fn access(&self) -> Vec<Access> {
        Vec::new()
    }

    async fn run(self: Box<Self>, _: Grant, _: ToolContext) -> Result<ToolOutcome, ToolFailure> {
        let mut found = self.imports.all();
        found.retain(|tool| {
            let ToolSpec { name, description, .. } = tool.spec();
            let text = format!("{name} {description}").to_lowercase();
            self.words.iter().all(|word| text.contains(word.as_str()))
        });
        let described: Vec<_> =
            found.iter().take(MAX_FOUND).map(|tool| described(tool.as_ref())).collect();
        let rest = match found.len().saturating_sub(MAX_FOUND) {
            0 => String::new(),
            more => format!("\n\n{more} more; other words find fewer."),
        };
        let text = match described.is_empty() {
            true => "No tool of an MCP server fits.".to_owned(),
            false => format!("{}{rest}", described.join("\n\n")),
        };
        Ok(ToolOutcome::new(text, self.display()))
    }
}

fn described(tool: &dyn Tool) -> String {
    let ToolSpec { name, description, input_schema } = tool.spec();
    format!("{name}\n{description}\nArguments: {input_schema}")
}

impl CallTool {
    pub(crate) fn new(imports: Arc<Imports>) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The tool, as `find_tools` names it."},
                "arguments": {"type": "object", "description": "What that tool takes."}
            },
            "required": ["name", "arguments"]
        });
        let description = "Calls a tool of an MCP server that `find_tools` has shown.";
        Self { spec: spec("call_tool", description, &schema), imports }
    }
}

#[async_trait]
impl Tool for CallTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn plan(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        let name = arguments.get("name").and_then(Value::as_str).unwrap_or_default();
        let tool = self.imports.get(name).ok_or_else(|| {
            ToolFailure::bad_arguments(format!(
                "No MCP server of this session has a tool `{name}`. `find_tools` shows what there is."
            ))
        })?;
        let own = arguments.get("arguments").map_or_else(|| "{}".to_owned(), Value::to_string);
        tool.plan(read_arguments(tool.spec(), &own)?, context).await
    }

    fn render(&self, value: &Value) -> Vec<Content> {
        Outcome::render(value)
    }

    fn outline(&self, arguments: &str) -> Display {
        let arguments = serde_json::from_str::<Value>(arguments).unwrap_or_default();
        let tool =
            arguments.get("name").and_then(Value::as_str).and_then(|it| self.imports.get(it));
        match tool {
            Some(tool) => tool.outline("{}"),
            None => Display::new("Call a tool of an MCP server", ToolKind::Other),
        }
    }
}
