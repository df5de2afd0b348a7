//! The JSON Schema of a tool's input, as far as a provider refuses it.

use serde_json::Value;

use super::{Refusal, text};

/// How deep schemas may be nested.
const MAX_DEPTH: usize = 64;

const TYPES: [&str; 7] = ["object", "array", "string", "number", "integer", "boolean", "null"];

/// Keywords whose value is one schema.
const ONE: [&str; 10] = [
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
];
/// Keywords whose value is an array of schemas.
const MANY: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
/// Keywords whose value maps names to schemas.
const NAMED: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

pub(super) fn check(schema: &Value, at: &str) -> Result<(), Refusal> {
    if text(schema, "type") != Some("object") {
        return Err(invalid(at, "type: must be \"object\""));
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        if schema.get(keyword).is_some() {
            return Err(invalid(at, &format!("{keyword}: not supported at the top level")));
        }
    }
    if schema.get("properties").is_none() {
        return Err(invalid(at, "properties: Field required"));
    }
    walk(schema, schema, at, 0)
}

fn walk(schema: &Value, root: &Value, at: &str, depth: usize) -> Result<(), Refusal> {
    if depth > MAX_DEPTH {
        return Err(invalid(at, "is nested too deeply"));
    }
    if schema.is_boolean() {
        return Ok(());
    }
    let fields = schema.as_object().ok_or_else(|| invalid(at, "is no schema"))?;
    check_type(fields.get("type"), at)?;
    check_ref(fields.get("$ref"), root, at)?;
    check_required(schema, at)?;
    for keyword in ONE {
        if let Some(child) = fields.get(keyword) {
            walk(child, root, &format!("{at}.{keyword}"), depth + 1)?;
        }
    }
    for keyword in MANY {
        let Some(children) = fields.get(keyword) else { continue };
        let children = children
            .as_array()
            .ok_or_else(|| invalid(at, &format!("{keyword}: must be an array")))?;
        for child in children {
            walk(child, root, &format!("{at}.{keyword}"), depth + 1)?;
        }
    }
    for keyword in NAMED {
        let Some(children) = fields.get(keyword) else { continue };
        let children = children
            .as_object()
            .ok_or_else(|| invalid(at, &format!("{keyword}: must be an object")))?;
        for (name, child) in children {
            walk(child, root, &format!("{at}.{keyword}.{name}"), depth + 1)?;
        }
    }
    Ok(())
}

fn check_type(kind: Option<&Value>, at: &str) -> Result<(), Refusal> {
    let is_known = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
    match kind {
        None => Ok(()),
        Some(Value::Array(kinds)) if !kinds.is_empty() && kinds.iter().all(is_known) => Ok(()),
        Some(kind) if is_known(kind) => Ok(()),
        Some(kind) => Err(invalid(at, &format!("type: {kind} is unknown"))),
    }
}

/// References must resolve within the schema; a provider fetches nothing.
fn check_ref(reference: Option<&Value>, root: &Value, at: &str) -> Result<(), Refusal> {
    let Some(reference) = reference else { return Ok(()) };
    let pointer = reference.as_str().and_then(|target| target.strip_prefix('#'));
    match pointer.and_then(|pointer| root.pointer(pointer)) {
        Some(_) => Ok(()),
        None => Err(invalid(at, &format!("$ref: {reference} does not resolve inside the schema"))),
    }
}

fn check_required(schema: &Value, at: &str) -> Result<(), Refusal> {
    let Some(required) = schema.get("required") else { return Ok(()) };
    let names = required.as_array().ok_or_else(|| invalid(at, "required: must be an array"))?;
    for name in names {
        let property = name.as_str().and_then(|name| schema.get("properties")?.get(name));
        if property.is_none() {
            return Err(invalid(at, &format!("required: {name} is not in properties")));
        }
    }
    Ok(())
}

fn invalid(at: &str, message: &str) -> Refusal {
    Refusal::invalid("tool-schema", format!("{at}: {message}"))
}
