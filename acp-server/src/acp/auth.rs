//! Logging in and out. No method here asks a provider anything, so each answers at once.
//!
//! Keys are the user's: from the environment, from files, or kept by `bridle login`. The one method
//! that every client can call looks for them again; a client that has a terminal is also offered
//! `bridle login` in it.

use std::collections::HashMap;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    AuthMethod, AuthMethodAgent, AuthMethodTerminal, AuthenticateRequest, AuthenticateResponse,
    LogoutResponse, Meta,
};
use serde_json::json;

use super::clients::{ClientTraits, Login};
use super::errors;
use crate::composition::App;

/// The id of the method that looks for a key again.
const CONFIGURED: &str = "configured-key";

/// The id of the method that runs `bridle login`. A client may call it once the command has ended.
const LOGIN: &str = "bridle-login";

/// What makes `bridle` and `bridle acp` a login: clients differ in whether the arguments of a
/// method take the place of the configured ones or follow them.
const LOGIN_ARGUMENTS: [&str; 1] = ["login"];

/// The ways to log in that this client can offer to a person.
pub(super) fn methods(app: &App, client: ClientTraits) -> Vec<AuthMethod> {
    let configured = AuthMethodAgent::new(CONFIGURED, "Use the configured key")
        .description("Reads the keys again from the environment and from Bridle's files");
    let name = "Log in with a key";
    let description = "Runs `bridle login`, which keeps the key of a model provider";
    let login = match client.login {
        Login::Elsewhere => None,
        Login::Terminal => {
            let arguments = LOGIN_ARGUMENTS.map(str::to_owned).to_vec();
            let method = AuthMethodTerminal::new(LOGIN, name).args(arguments);
            Some(AuthMethod::Terminal(method.description(description.to_owned())))
        }
        Login::OwnCommand => own_command(app).map(|meta| {
            let method = AuthMethodAgent::new(LOGIN, name).meta(meta);
            AuthMethod::Agent(method.description(description.to_owned()))
        }),
    };
    [AuthMethod::Agent(configured)].into_iter().chain(login).collect()
}

/// The whole command of a login; `None` when this program does not know where it is.
fn own_command(app: &App) -> Option<Meta> {
    let program = std::env::current_exe().ok()?;
    let home = app.home().map(|home| ("BRIDLE_HOME", home));
    let command = json!({
        "label": "bridle login",
        "command": program.to_str()?,
        "args": LOGIN_ARGUMENTS,
        "env": HashMap::<_, _>::from_iter(home),
    });
    Some(Meta::from_iter([("terminal-auth".to_owned(), command)]))
}

/// Looks for a key. Blocks on a few small files.
///
/// # Errors
/// When there is no such method, and when no provider has a key that may be used.
pub(super) fn authenticate(
    app: &App,
    request: &AuthenticateRequest,
) -> Result<AuthenticateResponse, Error> {
    if ![CONFIGURED, LOGIN].contains(&&*request.method_id.0) {
        let reason = format!("authenticate: there is no such method; use `{CONFIGURED}`");
        return Err(errors::invalid_params(&reason));
    }
    app.reload();
    match app.has_credentials() {
        true => Ok(AuthenticateResponse::new()),
        false => Err(errors::auth_required(&app.credentials_hint())),
    }
}

/// Removes what `bridle login` kept, and uses no key until somebody authenticates. Blocks on a
/// small file.
///
/// # Errors
/// When the file of keys cannot be changed; no key is used all the same.
pub(super) fn log_out(app: &App) -> Result<LogoutResponse, Error> {
    match app.log_out() {
        Ok(()) => Ok(LogoutResponse::new()),
        Err(failure) => Err(errors::not_logged_out(&failure)),
    }
}
