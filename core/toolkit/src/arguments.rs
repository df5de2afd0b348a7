//! From a model's arguments to typed ones, and from types to schemas.

use bridle_agent::ToolFailure;
use bridle_model::ToolSpec;
use bridle_session::Content;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// The arguments of a tool. Implementations deny unknown fields; the comments on their fields are
/// what a model reads.
pub(crate) trait Arguments: DeserializeOwned + JsonSchema {
    /// The tool's name.
    const TOOL: &'static str;

    /// Takes arguments that fit the schema.
    ///
    /// # Errors
    /// `BadArguments` where the type knows more than the schema says, naming the place.
    fn decode(arguments: Value) -> Result<Self, ToolFailure> {
        serde_path_to_error::deserialize(arguments).map_err(|error| {
            let (tool, path) = (Self::TOOL, error.path());
            let why = error.inner();
            ToolFailure::bad_arguments(format!(
                "The arguments of `{tool}` do not fit at `{path}`: {why}. Nothing was done."
            ))
        })
    }

    /// How a model is told of the tool.
    fn spec(description: &str) -> ToolSpec {
        ToolSpec {
            name: Self::TOOL.to_owned(),
            description: description.to_owned(),
            input_schema: schema::<Self>(),
        }
    }
}

/// What the model reads of a value that has it under `text`, beside what programs read.
pub(crate) fn text_of(value: &Value) -> Vec<Content> {
    let text = value.get("text").and_then(Value::as_str);
    vec![Content::text(text.map_or_else(|| value.to_string(), str::to_owned))]
}

/// A text argument out of an argument text that may be incomplete or wrong otherwise.
pub(crate) fn peek(text: &str, name: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    value.get(name)?.as_str().map(str::to_owned)
}

/// A compact schema that every provider accepts: an object with `properties` and `required`,
/// without references, meta data or alternatives of types. The same bytes every time.
fn schema<T: JsonSchema>() -> Box<RawValue> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    if let Some(object) = schema.as_object_mut() {
        // The comment on the type repeats the tool's description.
        object.remove("description");
        object.entry("required").or_insert_with(|| Value::Array(Vec::new()));
        object.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    to_raw_value(&schema).unwrap_or_else(|error| {
        tracing::error!(%error, "a schema could not be written");
        RawValue::NULL.to_owned()
    })
}

/// The schema of the values that a body yields. No provider sees it.
pub(crate) fn value_schema<T: JsonSchema>() -> Box<RawValue> {
    to_raw_value(&schemars::schema_for!(T)).unwrap_or_else(|error| {
        tracing::error!(%error, "a schema could not be written");
        RawValue::NULL.to_owned()
    })
}

fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for noise in ["title", "$schema", "format"] {
                // A property of that name has a schema, not a text.
                if object.get(noise).is_some_and(Value::is_string) {
                    object.remove(noise);
                }
            }
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            // An optional argument is one that may be missing; `null` is still accepted.
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            object.values_mut().for_each(simplify);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peek_never_fails() {
        assert_eq!(peek("{\"path\": \"a\"}", "path").as_deref(), Some("a"));
        assert_eq!(peek("{\"path\": \"a", "path"), None);
        assert_eq!(peek("{\"path\": 3}", "path"), None);
    }
}
