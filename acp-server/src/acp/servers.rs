//! The MCP servers that a client names for a session, as the bridge takes them.

use agent_client_protocol::v1::schema::McpServer;
use bridle_mcp::{Reach, ServerConfig, SessionServers};

use crate::text;

/// The servers, and what a person should know of those that are left out or called something else.
pub(super) fn from_client(servers: Vec<McpServer>) -> (SessionServers, Vec<String>) {
    let (mut taken, mut notes) = (Vec::<ServerConfig>::new(), Vec::new());
    for server in servers {
        let shown = |name: &str| text::shorten(&text::visible(name), 64);
        let server = match server {
            McpServer::Stdio(server) => server,
            McpServer::Http(server) => {
                let name = shown(&server.name);
                notes.push(format!("MCP server {name} was left out: HTTP is not supported yet"));
                continue;
            }
            McpServer::Sse(server) => {
                let name = shown(&server.name);
                notes.push(format!("MCP server {name} was left out: SSE is not supported"));
                continue;
            }
            _ => {
                notes.push("An MCP server of an unknown kind was left out".to_owned());
                continue;
            }
        };
        let name = free_name(&server.name, &taken);
        if name != server.name {
            let (old, new) = (shown(&server.name), shown(&name));
            notes.push(format!("Two MCP servers are called {old}; the second is {new} here"));
        }
        let environment = server.env.into_iter().map(|it| (it.name, it.value)).collect();
        let reach = Reach::Stdio { program: server.command, arguments: server.args, environment };
        taken.push(ServerConfig::new(name, reach));
    }
    (SessionServers(taken), notes)
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
