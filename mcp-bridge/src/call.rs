//! One request to a server in the name of the model: sent, followed as long as there are signs of life,
//! and told as what it is when nothing comes of it.

use std::sync::Arc;

use bridle_agent::{ToolContext, ToolFailure};
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
    let asked = connection.ask(method, params).await;
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
    let why = loop {
        let (begun, decides) = (clock.now(), *questions.borrow_and_update() > 0);
        let limit = async |limit| match decides {
            true => std::future::pending().await,
            false => clock.sleep(limit).await,
        };
        tokio::select! {
            biased;
            () = context.token.cancelled() => break "was cancelled".to_owned(),
            reply = asked.reply() => {
                asked.done();
                return match reply {
                    Reply::Result(result) => Ok(result),
                    Reply::Refused(why) => Err(ToolFailure::failed(format!(
                        "The MCP server {} refused the call: {why}", config.name
                    ))),
                    Reply::Fault(fault, why) => Err(failure(server, fault, &why)),
                };
            }
            Ok(()) = signs.changed() => {
                let sign = signs.borrow_and_update().clone();
                context.progress.show(sign.told());
            }
            Ok(()) = questions.changed() => {
                if !decides {
                    context.progress.show("waits for your answer".to_owned());
                }
            }
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
