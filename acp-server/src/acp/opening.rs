//! The requests that open a session, whose answers hold more than the protocol's types where a
//! client looks for it.

use agent_client_protocol::v1::Responder;
use agent_client_protocol::{Error, JsonRpcMessage, JsonRpcRequest, UntypedMessage};
use serde::Serialize;
use serde_json::{Value, json};

use super::clients::ClientTraits;
use super::errors;
use super::options::{self, Chosen};
use crate::composition::App;

/// A request that opens a session.
#[derive(Clone, Debug)]
pub(super) struct Opening<R>(pub(super) R);

impl<R: JsonRpcRequest> JsonRpcMessage for Opening<R> {
    fn matches_method(method: &str) -> bool {
        R::matches_method(method)
    }

    fn method(&self) -> &str {
        self.0.method()
    }

    fn to_untyped_message(&self) -> Result<UntypedMessage, Error> {
        self.0.to_untyped_message()
    }

    fn parse_message(method: &str, params: &Value) -> Result<Self, Error> {
        R::parse_message(method, params).map(Self)
    }
}

impl<R: JsonRpcRequest> JsonRpcRequest for Opening<R> {
    type Response = Value;
}

/// Answers it. acpx looks in `_meta` for the id that the agent's own commands take, which here is that
/// of the session. A client that knows no options gets the models beside the modes, where they were
/// before there were options.
pub(super) fn respond(
    responder: Responder<Value>,
    id: &str,
    response: impl Serialize,
    (app, chosen, client): (&App, &Chosen, ClientTraits),
) -> Result<(), Error> {
    let Ok(mut response) = serde_json::to_value(response) else {
        return responder.respond_with_error(errors::internal("the answer could not be written"));
    };
    if let Value::Object(members) = &mut response {
        members.insert("_meta".to_owned(), json!({ "agentSessionId": id }));
        let models = options::models_as_before(app, chosen).filter(|_| client.root_models);
        members.extend(models.map(|all| ("models".to_owned(), all)));
    }
    responder.respond(response)
}
