//! One request to a server in the name of the model: sent, followed as long as there are signs of life,
//! and told as what it is when nothing comes of it.

use std::sync::Arc;

use bridle_agent::{ToolContext, ToolFailure};
use rmcp::model::ElicitRequestParams;
use serde_json::Value;

use crate::connection::{Connection, Unavailable};
use crate::request::{Asked, Fault, Reply};
use crate::server::Server;

/// Asks a server and waits for its result. A server that does not run is started.
///
/// # Errors
/// Why there is no result, and whether the server may have done something, for the model.
pub(crate) async fn call(
    server: &Server,
    method: &str,
    params: Value,
    context: &ToolContext,
) -> Result<Value, ToolFailure> {
    let _in_use = server.in_use();
    let connection = connected(server, context).await?;
    let mut asked = connection.ask(method, params.clone()).await;
    if asked.is_err() {
        // It ended in this very moment and did not get the request. The next one may.
        asked = connected(server, context).await?.ask(method, params).await;
    }
    follow(server, asked.map_err(|why| not_sent(server, &why))?, context).await
}

/// The connection to a server that is in use. One that does not run is started.
///
/// # Errors
/// Why there is none, for the model.
pub(crate) async fn connected(
    server: &Server,
    context: &ToolContext,
) -> Result<Arc<Connection>, ToolFailure> {
    tokio::select! {
        biased;
        () = context.token.cancelled() => {
            Err(ToolFailure::aborted("Cancelled before it was sent."))
        }
        connection = server.connection() => connection.map_err(|why| not_sent(server, &why)),
    }
}

fn not_sent(server: &Server, why: &Unavailable) -> ToolFailure {
    failure(server, Fault::Unsent, &why.text)
}

/// Waits for the answer, as long as there are signs of life. While a person decides about something that
/// the server has asked, no clock runs.
async fn follow(
    server: &Server,
    mut asked: Asked,
    context: &ToolContext,
) -> Result<Value, ToolFailure> {
    let config = &server.config;
    let clock = server.clock();
    let mut left = config.call_limit;
    let (mut signs, mut questions) = (asked.signs.clone(), asked.questions.clone());
    let mut decided = false;
    let why = loop {
        let (begun, decides) = (clock.now(), *questions.borrow_and_update() > 0);
        // Also of a call that begins while a question is open.
        if decides && !decided {
            context.progress.show("waits for your answer".to_owned());
        }
        decided = decides;
        let limit = async |limit| match decides {
            true => std::future::pending().await,
            false => clock.sleep(limit).await,
        };
        tokio::select! {
            biased;
            () = context.token.cancelled() => break "was cancelled".to_owned(),
            reply = asked.reply() => {
                return settled(server, asked, reply, context).await;
            }
            Ok(()) = signs.changed() => {
                let sign = signs.borrow_and_update().clone();
                context.progress.show(sign.told());
            }
            Ok(()) = questions.changed() => {}
            () = limit(config.idle_limit) => {
                break format!("gave no sign of life for {} s", config.idle_limit.as_secs_f64());
            }
            () = limit(left) => {
                break format!("took longer than {} s", config.call_limit.as_secs_f64());
            }
        }
        if !decides {
            left = left.saturating_sub(clock.now().duration_since(begun).unwrap_or_default());
        }
    };
    asked.withdraw(&why).await;
    match context.token.is_cancelled() {
        true => Err(ToolFailure::aborted(format!(
            "The call was cancelled, which the MCP server {} was told. What it did of it is unknown.",
            config.name
        ))),
        false => Err(failure(server, Fault::Lost, &format!("it {why}"))),
    }
}

/// What comes of the answer.
async fn settled(
    server: &Server,
    asked: Asked,
    reply: Reply,
    context: &ToolContext,
) -> Result<Value, ToolFailure> {
    let name = &server.config.name;
    let refused =
        |why: &str| ToolFailure::failed(format!("The MCP server {name} refused the call: {why}"));
    let result = match reply {
        Reply::Result(result) => Ok(result),
        Reply::Refused(why) => Err(refused(&why)),
        Reply::Visits(wanted, why) => {
            context.progress.show("waits for your answer".to_owned());
            let shown = tokio::select! {
                biased;
                () = context.token.cancelled() => {
                    Err(ToolFailure::aborted(format!("Cancelled after {}", refused(&why).message)))
                }
                shown = visited(&asked, wanted) => Ok(shown),
            };
            Err(shown.map_or_else(
                |failure| failure,
                |shown| ToolFailure::failed(format!("{}. {shown}", refused(&why).message)),
            ))
        }
        Reply::Fault(fault, why) => Err(failure(server, fault, &why)),
    };
    // Until here the call is under way, so that the person can be asked.
    asked.done();
    result
}

/// Shows the person what the server wants them to open, up to the first no. What came of it, for the
/// model: only it calls again, as nobody knows here when they have done what the address asks of them.
async fn visited(asked: &Asked, wanted: Vec<ElicitRequestParams>) -> &'static str {
    for one in wanted {
        match asked.visit(one).await {
            Some(true) => {}
            Some(false) => {
                return "The user was shown the address that the server wants them to open, and did not \
                        agree. Do not repeat the call unless they say so.";
            }
            None => {
                return "The server wants the user to open an address, which cannot be shown in this \
                        client. Tell the user.";
            }
        }
    }
    "The user was shown the address that the server wants them to open first, and agreed to open it. \
     Nothing was done yet: repeat the call once they have finished there; ask them if you do not know."
}

/// What the model reads when a call came to nothing.
fn failure(server: &Server, fault: Fault, why: &str) -> ToolFailure {
    let name = &server.config.name;
    match fault {
        Fault::Unsent => ToolFailure::failed(format!(
            "The MCP server {name} cannot be used: {why}. The call was not made."
        )),
        Fault::LogIn => ToolFailure::failed(format!(
            "The MCP server {name} cannot be used before the user has logged in: {why}. The call was not \
             made."
        )),
        Fault::Forbidden => ToolFailure::failed(format!(
            "The MCP server {name} does not permit this call: {why}. The call was not made. Another log-in \
             or key may have the rights for it: tell the user."
        )),
        Fault::Unreadable => ToolFailure::outcome_unknown(format!(
            "The MCP server {name} was called, but its answer cannot be used: {why}. Look at what it did \
             before you repeat the call."
        )),
        Fault::Lost => ToolFailure::outcome_unknown(format!(
            "The call was lost: {why}. What the MCP server {name} did of it is unknown; it is not sent \
             again by itself. Look before you repeat it."
        )),
    }
}
