//! What another program asks the person, as a question of the client: in its own words, said to be so, and
//! its answer held against what was asked for.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    CreateElicitationRequest, CreateElicitationResponse, ElicitationAction, ElicitationFormMode,
    ElicitationSchema, ElicitationSessionScope, ElicitationUrlMode, SessionId,
};
use bridle_agent::{ForeignQuestion, ForeignReply, Wanted, read_arguments};
use bridle_model::ToolSpec;
use serde_json::Value;

use crate::text;

/// The longest message that is shown, in characters.
const MAX_MESSAGE: usize = 4_000;

/// The request to the client; `None` for fields that no client can show.
pub(super) fn request(
    session: SessionId,
    question: &ForeignQuestion,
) -> Option<CreateElicitationRequest> {
    let scope = ElicitationSessionScope::new(session);
    let (who, said) = (text::visible(&question.who), text::visible_block(&question.message));
    let said = text::shorten(&said, MAX_MESSAGE);
    Some(match &question.wants {
        Wanted::Fields(schema) => {
            let mut schema = schema.clone();
            make_visible(&mut schema);
            let schema: ElicitationSchema = serde_json::from_value(schema).ok()?;
            let message = format!("{who} asks (its own words, checked by nobody): {said}");
            CreateElicitationRequest::new(ElicitationFormMode::new(scope, schema), message)
        }
        Wanted::Visit { url, id } => {
            let message = format!(
                "{who} asks you to open an address (its own words, checked by nobody): {said}"
            );
            let mode = ElicitationUrlMode::new(scope, id.clone(), url.clone());
            CreateElicitationRequest::new(mode, message)
        }
    })
}

/// Titles and descriptions with all that they hold to be seen.
fn make_visible(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(words) if matches!(name.as_str(), "title" | "description") => {
                        *words = text::visible_block(words).into_owned();
                    }
                    other => make_visible(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_visible),
        _ => {}
    }
}

/// What came of it.
pub(super) fn reply(
    wanted: &Wanted,
    response: Result<CreateElicitationResponse, Error>,
) -> ForeignReply {
    match response.map(|response| response.action) {
        Ok(ElicitationAction::Accept(accepted)) => match wanted {
            Wanted::Visit { .. } => ForeignReply::Accepted(Value::Null),
            Wanted::Fields(schema) => {
                let content = serde_json::to_value(accepted.content.unwrap_or_default());
                match content.ok().and_then(|content| fitting(schema, &content)) {
                    Some(content) => ForeignReply::Accepted(content),
                    None => {
                        tracing::warn!("the client sent back a form that does not fit its fields");
                        ForeignReply::Dismissed
                    }
                }
            }
        },
        Ok(ElicitationAction::Decline) => ForeignReply::Declined,
        Ok(_) => ForeignReply::Dismissed,
        Err(error) => {
            tracing::warn!(code = i32::from(error.code), "the client failed to show a question");
            ForeignReply::Dismissed
        }
    }
}

/// The content, if all of it was asked for and fits.
fn fitting(schema: &Value, content: &Value) -> Option<Value> {
    let fields = schema.get("properties").and_then(Value::as_object);
    let is_asked = |name: &String| fields.is_some_and(|fields| fields.contains_key(name));
    if !content.as_object()?.keys().all(is_asked) {
        return None;
    }
    let spec = ToolSpec {
        name: String::new(),
        description: String::new(),
        input_schema: serde_json::value::to_raw_value(schema).ok()?,
    };
    read_arguments(&spec, &content.to_string()).ok()
}
