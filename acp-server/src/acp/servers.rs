//! The MCP servers that a client names for a session, as the bridge takes them.

use agent_client_protocol::v1::schema::McpServer;
use bridle_mcp::{Reach, ServerConfig, SessionServers};
use bridle_world::servers::Secrets;

use crate::config::keys_in;
use crate::text;

/// The longest name of a server, in characters.
const MAX_NAME: usize = 40;

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
        let plain = plain_name(&wanted);
        let name = free_name(&plain, &taken);
        if name != plain {
            let (old, new) = (shown(&plain), shown(&name));
            notes.push(format!("Two MCP servers are called {old}; the second is {new} here"));
        } else if plain != wanted {
            notes.push(format!("The MCP server {:?} is called {plain} here", shown(&wanted)));
        }
        let secrets = Secrets::new(keys_in(&reach));
        taken.push(ServerConfig::new(name, reach, secrets));
    }
    (SessionServers { servers: taken, ..SessionServers::default() }, notes)
}

/// The name in one line that a person can read, `server` where it is none. Rules, tools and the log name
/// the server by it.
fn plain_name(name: &str) -> String {
    let words: Vec<_> = name.split(|it: char| it.is_whitespace() || it.is_control()).collect();
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    match words.is_empty() {
        true => "server".to_owned(),
        false => {
            let head: String = words.join(" ").chars().take(MAX_NAME).collect();
            head.trim_end().to_owned()
        }
    }
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
