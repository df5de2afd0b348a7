//! From a model's argument text to typed arguments, and from the types to the schema it is shown.

use bridle_agent::ToolFailure;
use bridle_model::ToolSpec;
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
    /// The arguments at a glance, repeated to a model that got them wrong.
    const SHAPE: &'static str;

    /// Reads the argument text of a call.
    ///
    /// # Errors
    /// `BadArguments`, naming the place in the arguments and the right shape.
    fn decode(text: &str) -> Result<Self, ToolFailure> {
        let mut json = serde_json::Deserializer::from_str(text);
        let decoded = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let path = error.path().to_string();
            let place = if path == "." { String::new() } else { format!(" at `{path}`") };
            (place, error.into_inner())
        });
        decoded
            .and_then(|arguments| match json.end() {
                Ok(()) => Ok(arguments),
                Err(error) => Err((String::new(), error)),
            })
            .map_err(|(place, error)| {
                let what = if error.is_data() { "do not fit" } else { "are not valid JSON" };
                ToolFailure::bad_arguments(format!(
                    "The arguments of `{}` {what}{place}: {error}. Expected {}. Nothing was done.",
                    Self::TOOL,
                    Self::SHAPE,
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
    use bridle_session::ToolErrorCode;
    use expect_test::{Expect, expect};

    use super::*;
    use crate::edit::EditArguments;

    fn check(text: &str, expected: Expect) {
        let failure = EditArguments::decode(text).err().unwrap();
        assert_eq!(failure.code, ToolErrorCode::BadArguments);
        expected.assert_eq(&failure.message);
    }

    #[test]
    fn wrong_arguments_name_their_place_and_the_right_shape() {
        check(
            "",
            expect![
                "The arguments of `edit` are not valid JSON: EOF while parsing a value at line 1 column 0. Expected {path, edits: [{old_text, new_text, replace_all?}]}. Nothing was done."
            ],
        );
        check(
            "{\"path\": \"a\", \"edits\": [{\"old_text\": \"x\"}]}",
            expect![
                "The arguments of `edit` do not fit at `edits[0]`: missing field `new_text` at line 1 column 41. Expected {path, edits: [{old_text, new_text, replace_all?}]}. Nothing was done."
            ],
        );
        check(
            "{\"path\": \"a\", \"edits\": [], \"force\": true}",
            expect![
                "The arguments of `edit` do not fit at `force`: unknown field `force`, expected `path` or `edits` at line 1 column 34. Expected {path, edits: [{old_text, new_text, replace_all?}]}. Nothing was done."
            ],
        );
        check(
            "{\"path\": 7, \"edits\": []}",
            expect![
                "The arguments of `edit` do not fit at `path`: invalid type: integer `7`, expected a string at line 1 column 10. Expected {path, edits: [{old_text, new_text, replace_all?}]}. Nothing was done."
            ],
        );
        check(
            "{\"path\": \"a\", \"edits\": []} and",
            expect![
                "The arguments of `edit` are not valid JSON: trailing characters at line 1 column 28. Expected {path, edits: [{old_text, new_text, replace_all?}]}. Nothing was done."
            ],
        );
    }

    #[test]
    fn a_peek_never_fails() {
        assert_eq!(peek("{\"path\": \"a\"}", "path").as_deref(), Some("a"));
        assert_eq!(peek("{\"path\": \"a", "path"), None);
        assert_eq!(peek("{\"path\": 3}", "path"), None);
    }
}
