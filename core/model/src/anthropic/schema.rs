//! The schema of a tool's arguments, without what the provider refuses.
//!
//! A legal schema is sent byte for byte. From any other the parts that a provider refuses are
//! taken, so that one odd tool (they come from anywhere) does not spoil every request. The model
//! may then be told less than the tool demands; arguments are checked against the tool's own schema
//! when it is called, so nothing wrong runs.

use std::borrow::Cow;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// How deep a schema may be nested, and every other value in it.
const MAX_DEPTH: usize = 48;

/// How often the root may refer to another part of the schema.
const MAX_HOPS: usize = 8;

const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];

/// Keywords that stand for alternatives or parts of one schema.
const COMBINATORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// The schema of `tool` as it is sent.
pub(super) fn legal<'a>(tool: &str, raw: &'a RawValue) -> Cow<'a, RawValue> {
    let given: Option<Value> = serde_json::from_str(raw.get()).ok();
    let cleaned = match &given {
        Some(given) => clean(given),
        None => Value::Object(root(Map::new())),
    };
    if given.as_ref() == Some(&cleaned) {
        return Cow::Borrowed(raw);
    }
    tracing::debug!(tool, "the schema is sent without what providers refuse");
    serde_json::value::to_raw_value(&cleaned).map_or(Cow::Borrowed(RawValue::NULL), Cow::Owned)
}

fn clean(schema: &Value) -> Value {
    let fields = match schema {
        Value::Object(fields) => root(resolved(fields, schema)),
        _ => root(Map::new()),
    };
    let mut cleaned = Value::Object(fields);
    clean_part(&mut cleaned, 0);
    // What was taken away may have been referred to.
    let whole = cleaned.clone();
    drop_dangling(&mut cleaned, &whole);
    cleaned
}

/// A root that refers elsewhere becomes what it refers to, with its own fields before those.
fn resolved(fields: &Map<String, Value>, schema: &Value) -> Map<String, Value> {
    let mut fields = fields.clone();
    for _ in 0..MAX_HOPS {
        let Some(reference) = fields.remove("$ref") else { break };
        let Some(Value::Object(target)) = target(&reference, schema) else { break };
        for (key, value) in target {
            fields.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    fields.remove("$ref");
    for keyword in COMBINATORS {
        let Some(Value::Array(parts)) = fields.remove(keyword) else { continue };
        for part in &parts {
            merge(&mut fields, part, keyword == "allOf", schema);
        }
    }
    fields
}

/// Adds the properties of one part of a combined root; `binding` parts hold at all times.
fn merge(fields: &mut Map<String, Value>, part: &Value, binding: bool, schema: &Value) {
    let part = part.get("$ref").and_then(|reference| target(reference, schema)).unwrap_or(part);
    for keyword in ["properties", "$defs", "definitions"] {
        let Some(Value::Object(more)) = part.get(keyword) else { continue };
        let known = fields.entry(keyword).or_insert_with(|| Value::Object(Map::new()));
        let Some(known) = known.as_object_mut() else { continue };
        for (name, value) in more {
            known.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    if let (true, Some(Value::Array(more))) = (binding, part.get("required")) {
        let required = fields.entry("required").or_insert_with(|| Value::Array(Vec::new()));
        if let Some(required) = required.as_array_mut() {
            required.extend(more.iter().cloned());
        }
    }
}

/// What a provider demands of the root: an object with properties.
fn root(mut fields: Map<String, Value>) -> Map<String, Value> {
    fields.insert("type".to_owned(), Value::from("object"));
    if !fields.get("properties").is_some_and(Value::is_object) {
        fields.insert("properties".to_owned(), Value::Object(Map::new()));
    }
    fields
}

/// Makes a schema legal, with everything in it.
fn clean_part(schema: &mut Value, depth: usize) {
    let Value::Object(fields) = schema else {
        if !schema.is_boolean() {
            *schema = Value::Bool(true);
        }
        return;
    };
    if depth >= MAX_DEPTH {
        *schema = Value::Bool(true);
        return;
    }
    fields.retain(|keyword, value| keep(keyword, value, depth));
    let properties = fields.get("properties").cloned();
    if let Some(Value::Array(required)) = fields.get_mut("required") {
        let is_known = |name: &Value| {
            let name = name.as_str().unwrap_or_default();
            properties.as_ref().is_some_and(|properties| properties.get(name).is_some())
        };
        required.retain(is_known);
    }
}

/// Whether a keyword may stay; cleans what is in it.
fn keep(keyword: &str, value: &mut Value, depth: usize) -> bool {
    let below = depth.saturating_add(1);
    match keyword {
        "type" => is_type(value),
        "$ref" => value.is_string(),
        "required" => value.is_array(),
        "items"
        | "additionalProperties"
        | "not"
        | "if"
        | "then"
        | "else"
        | "contains"
        | "propertyNames"
        | "unevaluatedProperties"
        | "unevaluatedItems" => {
            clean_part(value, below);
            true
        }
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => match value {
            Value::Array(parts) => {
                parts.iter_mut().for_each(|part| clean_part(part, below));
                !parts.is_empty()
            }
            _ => false,
        },
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
            match value {
                Value::Object(parts) => {
                    parts.values_mut().for_each(|part| clean_part(part, below));
                    true
                }
                _ => false,
            }
        }
        _ => is_shallow(value, MAX_DEPTH),
    }
}

fn is_type(value: &Value) -> bool {
    let is_known = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
    match value {
        Value::Array(kinds) => !kinds.is_empty() && kinds.iter().all(is_known),
        kind => is_known(kind),
    }
}

fn is_shallow(value: &Value, left: usize) -> bool {
    let Some(left) = left.checked_sub(1) else { return false };
    match value {
        Value::Array(items) => items.iter().all(|item| is_shallow(item, left)),
        Value::Object(fields) => fields.values().all(|field| is_shallow(field, left)),
        _ => true,
    }
}

/// Removes references to what is not in the schema; a provider fetches nothing.
fn drop_dangling(part: &mut Value, whole: &Value) {
    match part {
        Value::Object(fields) => {
            fields.retain(|keyword, value| {
                keyword != "$ref" || !value.is_string() || target(value, whole).is_some()
            });
            fields.values_mut().for_each(|value| drop_dangling(value, whole));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| drop_dangling(item, whole)),
        _ => {}
    }
}

fn target<'a>(reference: &Value, schema: &'a Value) -> Option<&'a Value> {
    schema.pointer(reference.as_str()?.strip_prefix('#')?)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(schema: &str, expected: Expect) {
        let raw = RawValue::from_string(schema.to_owned()).unwrap();
        expected.assert_eq(legal("tool", &raw).get());
    }

    #[test]
    fn a_legal_schema_keeps_its_bytes() {
        for schema in [
            r#"{"type":"object", "properties": {"n":{"maximum":1.0}}}"#,
            r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"anyOf":[{"type":"string"},{"$ref":"#"}]}},"required":["a"]}"##,
            r#"{"type":"object","properties":{"a":true,"b":{"type":["string","null"],"default":{"x":[1]}}}}"#,
        ] {
            let raw = RawValue::from_string(schema.to_owned()).unwrap();
            assert_eq!(legal("tool", &raw).get(), schema);
        }
    }

    #[test]
    fn a_root_becomes_an_object() {
        let empty = || expect![[r#"{"type":"object","properties":{}}"#]];
        check("{}", empty());
        check("true", empty());
        check("3", empty());
        check(r#"{"type":"string"}"#, empty());
        check(r#"{"type":"object","properties":[]}"#, empty());
        check(&format!("{}1{}", "[".repeat(200), "]".repeat(200)), empty());
    }

    #[test]
    fn a_combined_or_referring_root_keeps_its_properties() {
        check(
            r#"{"type":"object","properties":{"a":{}},"oneOf":[{"properties":{"b":{}},"required":["b"]},{"properties":{"c":{}}}],"allOf":[{"properties":{"d":{}},"required":["d"]}]}"#,
            expect![[
                r#"{"type":"object","properties":{"a":{},"d":{},"b":{},"c":{}},"required":["d"]}"#
            ]],
        );
        check(
            r##"{"$ref":"#/definitions/in","definitions":{"in":{"type":"object","properties":{"p":{"$ref":"#/definitions/in"}},"required":["p"]}}}"##,
            expect![[
                r##"{"definitions":{"in":{"type":"object","properties":{"p":{"$ref":"#/definitions/in"}},"required":["p"]}},"type":"object","properties":{"p":{"$ref":"#/definitions/in"}},"required":["p"]}"##
            ]],
        );
        check(r##"{"$ref":"#"}"##, expect![[r#"{"type":"object","properties":{}}"#]]);
    }

    #[test]
    fn illegal_parts_are_taken_away() {
        check(
            r##"{"type":"object","properties":{"a":{"type":"strin"},"b":{"$ref":"http://x/y"},"c":7,"d":{"type":"array","items":[{"type":"string"}]},"e":{"anyOf":{}},"f":{"$ref":"#/nowhere"}},"required":["a","z"]}"##,
            expect![[
                r#"{"type":"object","properties":{"a":{},"b":{},"c":true,"d":{"type":"array","items":true},"e":{},"f":{}},"required":["a"]}"#
            ]],
        );
        let deep = format!(
            r#"{{"type":"object","properties":{{"a":{}true{}}}}}"#,
            r#"{"items":"#.repeat(60),
            "}".repeat(60)
        );
        let raw = RawValue::from_string(deep).unwrap();
        assert_eq!(legal("tool", &raw).get().matches("items").count(), MAX_DEPTH - 1);
    }
}
