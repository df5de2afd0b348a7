//! `[mcp.NAME]`: the MCP servers of every session.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeValue, ValueDeserializer};

use super::{Reader, Setting, values};

/// A server as it stands in the file; what its texts name of the environment is not filled in.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in crate::config) struct ServerTable {
    pub(in crate::config) command: Option<String>,
    pub(in crate::config) args: Vec<String>,
    pub(in crate::config) env: BTreeMap<String, String>,
    pub(in crate::config) url: Option<String>,
    pub(in crate::config) headers: BTreeMap<String, String>,
    pub(in crate::config) enabled: Option<bool>,
    pub(in crate::config) allow: Option<Vec<String>>,
    pub(in crate::config) deny: Vec<String>,
    pub(in crate::config) parallel: bool,
    pub(in crate::config) start_timeout_s: Option<NonZeroU32>,
    pub(in crate::config) idle_timeout_s: Option<NonZeroU32>,
    pub(in crate::config) call_timeout_s: Option<NonZeroU32>,
    pub(in crate::config) rest_after_s: Option<u32>,
}

impl Reader<'_> {
    pub(super) fn mcp(&mut self, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            return self.wrong_type("mcp", "a table", value);
        };
        for (key, value) in table {
            let (name, start) = (key.get_ref().trim(), key.span().start);
            let server = match value.get_ref().as_table() {
                Some(_) if !name.is_empty() => {
                    ServerTable::deserialize(ValueDeserializer::from(value.clone()))
                }
                Some(_) => {
                    self.problem(start, "an MCP server has a name; ignored");
                    continue;
                }
                None => {
                    self.wrong_type(&format!("mcp.{name}"), "a table", value);
                    continue;
                }
            };
            match server.map_err(|error| (error.span(), values::without_values(error.message()))) {
                Ok(server) if server.command.is_some() == server.url.is_some() => {
                    let text = format!(
                        "mcp.{name}: a server has either a `command` or a `url`; it is left out"
                    );
                    self.problem(start, &text);
                }
                Ok(server) => self.entry(start, Setting::McpServer(name.into(), Box::new(server))),
                Err((span, fault)) => {
                    let at = span.map_or(start, |span| span.start);
                    self.problem(at, &format!("mcp.{name}: {fault}; it is left out"));
                }
            }
        }
    }
}
