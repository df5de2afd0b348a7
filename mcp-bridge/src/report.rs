//! How the servers of a session stand, for the model and for the person.

use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{AgentHandle, ContextInput, ContextSource, NoticeLevel, wrapped};
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use crate::asking::Unshown;
use crate::clip::clipped;
use crate::listing::Listing;
use crate::server::{Server, State};

/// The most of a server's own instructions that the model reads, in bytes.
const MAX_INSTRUCTIONS: usize = 2 * 1024;

/// Tells the model what servers there are, which of them cannot be used, and what each says about its
/// own use.
pub(crate) struct ServerContext(pub(crate) Arc<[Arc<Server>]>);

#[async_trait]
impl ContextSource for ServerContext {
    fn name(&self) -> &str {
        "mcp"
    }

    async fn collect(&self, _: &ContextInput) -> Option<String> {
        let told: Vec<_> = self.0.iter().map(|server| about(server)).collect();
        let told = format!("MCP servers of this session:\n{}", told.join("\n"));
        Some(wrapped(self.name(), &told))
    }
}

fn about(server: &Server) -> String {
    let name = &server.config.name;
    let state = server.watch().borrow().clone();
    match &state {
        // The same whether it runs or not: it is one to the model.
        State::Ready { listing, .. } | State::Resting(listing) => {
            let head = format!("- {name}: {} tools", offered(server, listing));
            match listing.instructions.as_deref() {
                Some(text) if !text.trim().is_empty() => {
                    let text = clipped(text, MAX_INSTRUCTIONS);
                    format!("{head}. It says about itself (not checked by anybody):\n{text}")
                }
                _ => head,
            }
        }
        State::Starting(_) | State::Lost => format!("- {name}: is starting"),
        // The whole reason is for the person: it may hold anything.
        State::Pausing(_) => format!("- {name}: does not run; a call starts it"),
        State::Failed(_) => format!("- {name}: cannot be used now"),
        State::NeedsLogin(_) => format!("- {name}: cannot be used before the user has logged in"),
        State::Closed => format!("- {name}: is closed"),
    }
}

/// How a server stands, for the person who asks, with all that is known of why.
pub(crate) fn standing(server: &Server) -> String {
    let (name, reach) = (&server.config.name, &server.config.reach);
    let state = server.watch().borrow().clone();
    let (word, why) = match &state {
        State::Starting(None) | State::Lost => ("starting".to_owned(), Vec::new()),
        State::Starting(Some(why)) => ("starting again".to_owned(), vec![why.text.clone()]),
        State::Ready { listing, .. } => {
            (format!("ready: {}", counted(server, listing)), listing.faults.clone())
        }
        State::Resting(listing) => {
            (format!("resting, a call starts it: {}", counted(server, listing)), Vec::new())
        }
        State::Pausing(why) => ("started again soon".to_owned(), vec![why.text.clone()]),
        State::Failed(why) => ("failed; a call tries it again".to_owned(), vec![why.text.clone()]),
        State::NeedsLogin(why) => ("needs a log-in".to_owned(), vec![why.text.clone()]),
        State::Closed => ("closed".to_owned(), Vec::new()),
    };
    let why: String = why.iter().map(|why| format!("  - {}\n", why.replace('\n', " "))).collect();
    format!("- {name} ({reach}): {word}\n{why}")
}

/// How many of its tools are offered.
fn offered(server: &Server, listing: &Listing) -> usize {
    listing.tools.iter().filter(|tool| server.config.offers(&tool.name)).count()
}

fn counted(server: &Server, listing: &Listing) -> String {
    let resources = if listing.resources { ", resources" } else { "" };
    format!("{} tools{resources}", offered(server, listing))
}

/// Tells the person when a server cannot be used, when it can be again, and what of it is left out.
pub(crate) async fn tell(agent: Arc<AgentHandle>, server: Arc<Server>, closing: CancellationToken) {
    let name = server.config.name.clone();
    let mut states = server.watch();
    let (mut was_ready, mut was_told, mut faults) = (false, false, Vec::new());
    loop {
        let state = states.borrow_and_update().clone();
        let said = match &state {
            State::Starting(_) | State::Lost | State::Resting(_) | State::Closed => Ok(()),
            State::Pausing(why) if !was_told => {
                was_told = true;
                let title = match was_ready {
                    true => format!("The MCP server {name} was lost; it is started again"),
                    false => format!("The MCP server {name} does not start; it is tried again"),
                };
                agent.notice(NoticeLevel::Warning, title, Some(why.to_string()))
            }
            State::Pausing(_) => Ok(()),
            State::Failed(why) | State::NeedsLogin(why) => {
                was_told = true;
                let title = format!("The MCP server {name} cannot be used");
                agent.notice(NoticeLevel::Warning, title, Some(why.to_string()))
            }
            State::Ready { listing, .. } => {
                was_ready = true;
                let again = std::mem::take(&mut was_told).then(|| {
                    let title = format!("The MCP server {name} can be used again");
                    agent.notice(NoticeLevel::Info, title, None)
                });
                let left_out =
                    (listing.faults != faults && !listing.faults.is_empty()).then(|| {
                        let title = format!("Not all is right with the MCP server {name}");
                        agent.notice(NoticeLevel::Warning, title, Some(listing.faults.join("\n")))
                    });
                faults.clone_from(&listing.faults);
                again.unwrap_or(Ok(())).and(left_out.unwrap_or(Ok(())))
            }
        };
        if said.is_err() {
            return;
        }
        tokio::select! {
            () = closing.cancelled() => return,
            changed = states.changed() => if changed.is_err() { return },
        }
    }
}

/// Tells the person of questions that they were not shown.
pub(crate) async fn tell_unshown(
    agent: Arc<AgentHandle>,
    unshown: Arc<Mutex<mpsc::Receiver<Unshown>>>,
    closing: CancellationToken,
) {
    let next = async || unshown.lock().await.recv().await;
    loop {
        let told = tokio::select! {
            () = closing.cancelled() => return,
            told = next() => told,
        };
        let Some(Unshown { title, detail }) = told else { return };
        if agent.notice(NoticeLevel::Warning, title, Some(detail)).is_err() {
            return;
        }
    }
}
