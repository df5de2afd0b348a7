//! How the scripted client answers `session/request_permission`.

use serde_json::{Value, json};

/// What the client does with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Selects the option of kind `allow_once`.
    Allow,
    /// Selects the option of kind `reject_once`.
    Reject,
    /// Answers the outcome `cancelled`.
    Cancelled,
    /// Answers an option id that was not offered.
    UnknownOption,
    /// Answers with a JSON-RPC error.
    Error,
    /// Does not answer until the test does.
    Hold,
}

impl Permission {
    /// The response to a question, or `None` to let it wait.
    pub(crate) fn answer(self, request: &Value) -> Option<Value> {
        let id = &request["id"];
        let selected =
            |option: Value| json!({"outcome": {"outcome": "selected", "optionId": option}});
        let result = match self {
            Self::Allow => selected(option(request, "allow_once")),
            Self::Reject => selected(option(request, "reject_once")),
            Self::UnknownOption => selected(json!("no-such-option")),
            Self::Cancelled => json!({"outcome": {"outcome": "cancelled"}}),
            Self::Error => {
                let error = json!({"code": -32603, "message": "the client cannot ask"});
                return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
            Self::Hold => return None,
        };
        Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }
}

fn option(request: &Value, kind: &str) -> Value {
    let options = request["params"]["options"].as_array().cloned().unwrap_or_default();
    let found = options.iter().find(|option| option["kind"] == kind);
    found.map(|option| option["optionId"].clone()).unwrap_or(Value::Null)
}
