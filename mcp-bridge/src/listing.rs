//! What a server offers, its tools each by itself, so that a bad one costs no other.

use bridle_world::servers::written_out;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::clip::clipped;
use crate::config::ServerConfig;
use crate::connection::{Connection, Unavailable};
use crate::pages::Pages;

/// The longest name of a tool, in bytes.
const MAX_NAME: usize = 256;

/// The longest description that a model is given, in bytes.
const MAX_DESCRIPTION: usize = 4 * 1024;

/// How many tools that are left out are told one by one.
const MAX_FAULTS: usize = 20;

/// A tool as its server defines it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Definition {
    /// The server's own name for it.
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: String,
    /// What the server says of its arguments.
    pub(crate) schema: Map<String, Value>,
    /// The server says that it changes nothing. Nobody has to believe it.
    pub(crate) read_only: bool,
    /// The server says that it may destroy something.
    #[serde(default)]
    pub(crate) destructive: bool,
}

/// What a server offers, and what of it could not be used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Listing {
    pub(crate) tools: Vec<Definition>,
    /// Whether it has resources.
    pub(crate) resources: bool,
    /// What it says about its own use.
    pub(crate) instructions: Option<String>,
    /// What was left out and why, and what is meant to be and is not there; for a person.
    pub(crate) faults: Vec<String>,
}

impl Listing {
    /// Asks for all of it.
    ///
    /// # Errors
    /// [`Unavailable`] when the server does not answer, or refuses.
    pub(crate) async fn ask(
        connection: &Connection,
        config: &ServerConfig,
    ) -> Result<Self, Unavailable> {
        let mut listing = Self {
            resources: connection.has_resources(),
            instructions: connection.instructions(),
            ..Self::default()
        };
        if !connection.has_tools() {
            return Ok(listing);
        }
        let pages = Pages::ask(connection, "tools/list", "tools").await?;
        pages.items.into_iter().for_each(|tool| listing.add(tool));
        listing.count_faults();
        listing.faults.extend(pages.fault);
        for (list, names) in [("allow", config.allow.as_ref()), ("deny", Some(&config.deny))] {
            let is_there = |name: &String| listing.tools.iter().any(|tool| tool.name == *name);
            let missing = names.into_iter().flatten().filter(|name| !is_there(name));
            let missing: Vec<_> = missing
                .map(|name| format!("`{list}` names a tool that it does not have: {name:?}"))
                .collect();
            listing.faults.extend(missing);
        }
        Ok(listing)
    }

    /// Has so many faults told, and the others counted.
    fn count_faults(&mut self) {
        if let Some(more) = self.faults.len().checked_sub(MAX_FAULTS).filter(|more| *more > 0) {
            self.faults.truncate(MAX_FAULTS);
            self.faults.push(format!("{more} more tools were left out"));
        }
    }

    fn add(&mut self, tool: Value) {
        match Definition::read(tool) {
            Ok(tool) if self.tools.iter().any(|known| known.name == tool.name) => {
                self.faults
                    .push(format!("tool {:?} is there twice; the second was left out", tool.name));
            }
            Ok(tool) => self.tools.push(tool),
            Err(fault) => self.faults.push(fault),
        }
    }
}

impl Definition {
    /// # Errors
    /// What is wrong, for a person.
    pub(crate) fn read(tool: Value) -> Result<Self, String> {
        let Value::Object(mut tool) = tool else { return Err("a tool is no object".to_owned()) };
        let name = match tool.remove("name") {
            Some(Value::String(name)) if !name.trim().is_empty() && name.len() <= MAX_NAME => name,
            Some(Value::String(name)) => {
                let head: String = name.chars().take(40).collect();
                return Err(format!(
                    "a tool with the name {head:?} was left out: it is empty or too long"
                ));
            }
            _ => return Err("a tool without a name was left out".to_owned()),
        };
        let Some(Value::Object(schema)) = tool.remove("inputSchema") else {
            return Err(format!("tool {name:?} was left out: it does not say what it takes"));
        };
        let text = |value: Option<&Value>| {
            value.and_then(Value::as_str).map(|text| written_out(text).into_owned())
        };
        let annotations = tool.get("annotations");
        let annotation = |name: &str| annotations.and_then(|it| it.get(name));
        let is = |name: &str| annotation(name).and_then(Value::as_bool).unwrap_or(false);
        Ok(Self {
            title: text(tool.get("title")).or_else(|| text(annotation("title"))),
            description: clipped(
                &text(tool.get("description")).unwrap_or_default(),
                MAX_DESCRIPTION,
            ),
            read_only: is("readOnlyHint"),
            destructive: is("destructiveHint"),
            schema: schema.into_iter().map(|(name, rule)| (name, described(rule))).collect(),
            name,
        })
    }
}

/// What a schema says, with the words in it that are for readers to be seen. Names and values stay: the
/// server knows them as they are.
fn described(schema: Value) -> Value {
    match schema {
        Value::Object(rules) => {
            let rules = rules.into_iter().map(|(name, rule)| match rule {
                Value::String(words) if matches!(name.as_str(), "title" | "description") => {
                    (name, written_out(&words).into())
                }
                rule => (name, described(rule)),
            });
            Value::Object(rules.collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(described).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
