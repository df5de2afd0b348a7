//! The MCP servers that a client names for a session, as the bridge takes them.

use agent_client_protocol::v1::schema::McpServer;
use bridle_mcp::{Reach, ServerConfig, SessionServers};

use crate::text;

/// The servers, and what a person should know of those that are left out or called something else.
pub(super) fn from_client(servers: Vec<McpServer>) -> (SessionServers, Vec<String>) {
    let (mut taken, mut notes) = (Vec::<ServerConfig>::new(), Vec::new());
    for server in servers {
        let shown = |name: &str| text::shorten(&text::visible(name), 64);
        let (wanted, reach) = match server {
            McpServer::Stdio(server) => {
                let environment = server.env.into_iter().map(|it| (it.name, it.value)).collect();
                let (program, arguments) = (server.command, server.args);
                (server.name, Reach::Stdio { program, arguments, environment })
            }
            McpServer::Http(server) => {
                let headers = server.headers.into_iter().map(|it| (it.name, it.value)).collect();
                (server.name, Reach::Http { url: server.url, headers })
            }
            McpServer::Sse(server) => {
                let name = shown(&server.name);
                notes.push(format!(
                    "MCP server {name} was left out: HTTP with SSE is not supported; most such servers \
                     have streamable HTTP, too"
                ));
                continue;
            }
            _ => {
                notes.push("An MCP server of an unknown kind was left out".to_owned());
                continue;
            }
        };
        let name = free_name(&wanted, &taken);
        if name != wanted {
            let (old, new) = (shown(&wanted), shown(&name));
            notes.push(format!("Two MCP servers are called {old}; the second is {new} here"));
        }
        taken.push(ServerConfig::new(name, reach));
    }
    (SessionServers { servers: taken, ..SessionServers::default() }, notes)
}

/// The name, or the next one like it that no server has.
fn free_name(name: &str, taken: &[ServerConfig]) -> String {
    let is_free = |name: &str| taken.iter().all(|other| other.name != name);
    let mut free = name.to_owned();
    let mut number = 1;
    while !is_free(&free) {
        number += 1;
        free = format!("{name}-{number}");
    }
    free
}
