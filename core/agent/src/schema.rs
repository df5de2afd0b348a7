//! What a tool's JSON Schema says of a call's arguments and of a body's value.
//!
//! Checked is what providers take in the schemas of tools: types, properties, items, alternatives,
//! enumerations, bounds and references within the schema. Anything else in a schema (a pattern, a
//! format, a conditional) is the tool's own to check. Only what is unambiguous is forgiven: no text
//! at all is `{}`, what was encoded twice (all, or a property that takes no text) is what it holds,
//! a whole number is one also as `1.0`, and `null` for an optional property is one that is missing.

use bridle_model::ToolSpec;
use serde_json::{Map, Value};

use crate::tool::ToolFailure;

/// How deep references and nested values are followed.
const MAX_DEPTH: usize = 64;

/// Reads the argument text of a call and checks it against the tool's schema.
///
/// # Errors
/// `BadArguments`, naming the place and what was expected there.
pub fn read_arguments(spec: &ToolSpec, text: &str) -> Result<Value, ToolFailure> {
    let bad = |what: String| {
        ToolFailure::bad_arguments(format!(
            "The arguments of `{}` {what}. Nothing was done.",
            spec.name
        ))
    };
    let text = if text.trim().is_empty() { "{}" } else { text };
    let parse = |text: &str| serde_json::from_str::<Value>(text);
    let mut arguments = parse(text).map_err(|error| bad(format!("are not valid JSON: {error}")))?;
    if let Some(inner @ Value::Object(_)) = arguments.as_str().and_then(|text| parse(text).ok()) {
        arguments = inner;
    }
    let schema: Value = parse(spec.input_schema.get()).unwrap_or(Value::Bool(true));
    forgive(&schema, &mut arguments);
    check(&schema, &arguments).map_err(|why| bad(format!("do not fit {why}")))?;
    Ok(arguments)
}

fn forgive(schema: &Value, arguments: &mut Value) {
    let (Some(arguments), Some(properties)) =
        (arguments.as_object_mut(), schema.get("properties").and_then(Value::as_object))
    else {
        return;
    };
    let fits = |property, value: &Value| at(schema, property, value, &mut Vec::new()).is_ok();
    arguments.retain(|name, value| {
        let takes_null = |property| fits(property, value);
        !value.is_null() || is_required(schema, name) || properties.get(name).is_none_or(takes_null)
    });
    for (name, value) in arguments {
        let Some(property) = properties.get(name) else { continue };
        let text = value.as_str().filter(|_| !fits(property, value));
        let inner = text.and_then(|text| serde_json::from_str(text).ok());
        if let Some(inner) = inner.filter(|inner| fits(property, inner)) {
            *value = inner;
        }
        if let Some(whole) = whole_number(value) {
            *value = whole.into();
        }
    }
}

/// What a number with a point says, where that is a whole number.
fn whole_number(value: &Value) -> Option<i64> {
    let number = value.as_f64().filter(|number| value.is_f64() && number.fract() == 0.0)?;
    // Beyond this a float has no units any more.
    (number.abs() < 9e15).then_some(number as i64)
}

fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|required| required == name))
}

/// Checks a value against a schema.
///
/// # Errors
/// The place of the first misfit and what was expected there: ``at `edits[0]`: …``.
pub(crate) fn check(schema: &Value, value: &Value) -> Result<(), String> {
    let mut path = Vec::new();
    at(schema, schema, value, &mut path).map_err(|expected| match path.is_empty() {
        true => format!("as a whole: {expected}"),
        false => format!("at `{}`: {expected}", path.concat().trim_start_matches('.')),
    })
}

/// Checks `value` at `path`, which is left at the misfit. `root` is what references are within.
fn at(root: &Value, schema: &Value, value: &Value, path: &mut Vec<String>) -> Result<(), String> {
    if path.len() > MAX_DEPTH {
        return Err("it is nested too deep".to_owned());
    }
    let Value::Object(rules) = schema else {
        return if *schema == Value::Bool(false) {
            Err("nothing fits here".into())
        } else {
            Ok(())
        };
    };
    if let Some(target) = rules.get("$ref").and_then(Value::as_str) {
        let target = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        // A step that is not shown, so that a reference to itself comes to an end.
        path.push(String::new());
        at(root, target.unwrap_or(&Value::Null), value, path)?;
        path.pop();
    }
    kind(rules, value)?;
    bounds(rules, value)?;
    alternatives(root, rules, value, path)?;
    match value {
        Value::Object(object) => properties(root, rules, object, path),
        Value::Array(items) => {
            let Some(schema) = rules.get("items") else { return Ok(()) };
            items.iter().enumerate().try_for_each(|(index, item)| {
                within(root, schema, item, path, format!("[{index}]"))
            })
        }
        _ => Ok(()),
    }
}

fn within(
    root: &Value,
    schema: &Value,
    value: &Value,
    path: &mut Vec<String>,
    step: String,
) -> Result<(), String> {
    path.push(step);
    at(root, schema, value, path)?;
    path.pop();
    Ok(())
}

fn kind(rules: &Map<String, Value>, value: &Value) -> Result<(), String> {
    let is = |name: &Value| is_kind(name, value);
    match rules.get("type") {
        Some(Value::Array(names)) if !names.iter().any(is) => {
            Err(format!("expected one of {}, found {}", list(names), found(value)))
        }
        Some(name @ Value::String(text)) if !is(name) => {
            Err(format!("expected {}, found {}", with_article(text), found(value)))
        }
        _ => Ok(()),
    }?;
    match (rules.get("enum"), rules.get("const")) {
        (Some(Value::Array(allowed)), _) if !allowed.contains(value) => {
            Err(format!("expected one of {}, found {}", list(allowed), found(value)))
        }
        (_, Some(only)) if only != value => Err(format!("expected {only}, found {}", found(value))),
        _ => Ok(()),
    }
}

fn is_kind(name: &Value, value: &Value) -> bool {
    match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("number") => value.is_number(),
        Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => true,
    }
}

fn bounds(rules: &Map<String, Value>, value: &Value) -> Result<(), String> {
    let (size, least, most, of) = match value {
        Value::Number(number) => (number.as_f64(), "minimum", "maximum", ""),
        Value::String(text) => {
            (Some(text.chars().count() as f64), "minLength", "maxLength", " characters")
        }
        Value::Array(items) => (Some(items.len() as f64), "minItems", "maxItems", " items"),
        Value::Object(object) => {
            (Some(object.len() as f64), "minProperties", "maxProperties", " properties")
        }
        _ => return Ok(()),
    };
    let Some(size) = size else { return Ok(()) };
    let limit = |name: &str| rules.get(name).and_then(Value::as_f64);
    if let Some(least) = limit(least).filter(|least| size < *least) {
        return Err(format!("expected at least {least}{of}, found {size}"));
    }
    if let Some(most) = limit(most).filter(|most| size > *most) {
        return Err(format!("expected at most {most}{of}, found {size}"));
    }
    if !value.is_number() {
        return Ok(());
    }
    match (limit("exclusiveMinimum"), limit("exclusiveMaximum")) {
        (Some(least), _) if size <= least => {
            Err(format!("expected more than {least}, found {size}"))
        }
        (_, Some(most)) if size >= most => Err(format!("expected less than {most}, found {size}")),
        _ => Ok(()),
    }
}

fn alternatives(
    root: &Value,
    rules: &Map<String, Value>,
    value: &Value,
    path: &mut Vec<String>,
) -> Result<(), String> {
    let schemas = |name: &str| rules.get(name).and_then(Value::as_array);
    for schema in schemas("allOf").into_iter().flatten() {
        at(root, schema, value, path)?;
    }
    // Each is tried from a path of its own; the depth is kept.
    let fits = |schema: &&Value| at(root, schema, value, &mut path.clone()).is_ok();
    let none = |all: &[Value]| match other_kinds(all, value) {
        Some(kinds) => format!("expected one of {kinds}, found {}", found(value)),
        None => format!("none of the alternatives takes {}", found(value)),
    };
    if let Some(any) = schemas("anyOf").filter(|any| !any.iter().any(|schema| fits(&schema))) {
        return Err(none(any));
    }
    if let Some(one) = schemas("oneOf") {
        match one.iter().filter(fits).count() {
            0 => return Err(none(one)),
            1 => {}
            _ => return Err("more than one of the alternatives fits".to_owned()),
        }
    }
    if rules.get("not").is_some_and(|not| fits(&not)) {
        return Err(format!("{} is excluded", found(value)));
    }
    Ok(())
}

fn properties(
    root: &Value,
    rules: &Map<String, Value>,
    object: &Map<String, Value>,
    path: &mut Vec<String>,
) -> Result<(), String> {
    let required = rules.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if !object.contains_key(name) {
            return Err(format!("the property `{name}` is missing"));
        }
    }
    let known = rules.get("properties").and_then(Value::as_object);
    // Which names a pattern takes is not decided here.
    let patterns = rules.contains_key("patternProperties");
    for (name, value) in object {
        let step = || format!(".{name}");
        match (known.and_then(|known| known.get(name)), rules.get("additionalProperties")) {
            (Some(schema), _) => within(root, schema, value, path, step())?,
            (None, Some(Value::Bool(false))) if !patterns => {
                path.push(step());
                let mut names: Vec<_> = known.into_iter().flat_map(Map::keys).cloned().collect();
                names.sort();
                return Err(match names.is_empty() {
                    true => "no properties are expected".to_owned(),
                    false => format!("no such property; expected are {}", names.join(", ")),
                });
            }
            (None, Some(schema)) if !patterns => within(root, schema, value, path, step())?,
            (None, _) => {}
        }
    }
    Ok(())
}

/// The kinds that alternatives take, where the value is of none of them.
fn other_kinds(all: &[Value], value: &Value) -> Option<String> {
    let kind = |schema: &Value| schema.get("type").filter(|it| !is_kind(it, value)).cloned();
    let kinds: Option<Vec<Value>> = all.iter().map(kind).collect();
    Some(list(&kinds?))
}

fn list(values: &[Value]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn with_article(name: &str) -> String {
    let article = if name.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {name}")
}

/// A value as an error names it: by its kind, short ones also as they are.
fn found(value: &Value) -> String {
    const LIMIT: usize = 40;
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::String(text) if text.len() > LIMIT => "a longer string".to_owned(),
        Value::String(_) => format!("the string {value}"),
        Value::Number(_) => format!("the number {value}"),
        Value::Bool(_) => format!("the boolean {value}"),
        Value::Null => "null".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::*;

    fn spec(schema: &Value) -> ToolSpec {
        let input_schema = to_raw_value(schema).unwrap();
        ToolSpec { name: "edit".into(), description: String::new(), input_schema }
    }

    fn edit() -> ToolSpec {
        spec(&json!({
            "type": "object", "required": ["path", "edits"], "additionalProperties": false,
            "properties": {
                "path": { "type": "string", "minLength": 1 },
                "edits": { "type": "array", "minItems": 1, "items": {
                    "type": "object", "required": ["old"],
                    "properties": { "old": { "type": "string" }, "how": { "enum": ["a", "b"] } },
                } },
                "line": { "type": "integer", "minimum": 1 },
            },
        }))
    }

    #[test]
    fn a_misfit_names_its_place_and_what_was_expected() {
        let mut said = String::new();
        for text in [
            r#"{"path": "#,
            "",
            "[]",
            r#"{"path":"a","edits":[]}"#,
            r#"{"path":7,"edits":[{"old":""}]}"#,
            r#"{"path":"a","edits":[{"old":""},{"how":"a"}]}"#,
            r#"{"path":"a","edits":[{"old":"","how":"c"}]}"#,
            r#"{"path":"a","edits":[{"old":""}],"force":true}"#,
            r#"{"path":"a","edits":[{"old":""}],"line":1.5}"#,
            r#"{"path":"a","edits":[{"old":""}],"line":0}"#,
            r#"{"path":null,"edits":[{"old":""}]}"#,
        ] {
            let failure = read_arguments(&edit(), text).unwrap_err();
            let message = failure.message.strip_prefix("The arguments of `edit` ").unwrap();
            said.push_str(message.strip_suffix(". Nothing was done.").unwrap());
            said.push('\n');
        }
        expect![[r#"
            are not valid JSON: EOF while parsing a value at line 1 column 9
            do not fit as a whole: the property `path` is missing
            do not fit as a whole: expected an object, found an array
            do not fit at `edits`: expected at least 1 items, found 0
            do not fit at `path`: expected a string, found the number 7
            do not fit at `edits[1]`: the property `old` is missing
            do not fit at `edits[0].how`: expected one of "a", "b", found the string "c"
            do not fit at `force`: no such property; expected are edits, line, path
            do not fit at `line`: expected an integer, found the number 1.5
            do not fit at `line`: expected at least 1, found 0
            do not fit at `path`: expected a string, found null
        "#]]
        .assert_eq(&said);
    }

    #[test]
    fn only_what_is_unambiguous_is_forgiven() {
        let good = json!({ "path": "a", "edits": [{ "old": "" }] });
        for text in [
            good.to_string(),
            json!(good.to_string()).to_string(),
            r#"{"path":"a","edits":[{"old":""}],"line":null}"#.to_owned(),
            r#"{"path":"a","edits":"[{\"old\":\"\"}]"}"#.to_owned(),
        ] {
            assert_eq!(read_arguments(&edit(), &text).unwrap(), good);
        }
        for line in ["2.0", "2", "\"2\""] {
            let text = format!(r#"{{"path":"1.0","edits":[{{"old":""}}],"line":{line}}}"#);
            let read = read_arguments(&edit(), &text).unwrap();
            assert_eq!((&read["line"], &read["path"]), (&json!(2), &json!("1.0")), "{line}");
        }
        let nothing = spec(&json!({ "type": "object" }));
        assert_eq!(read_arguments(&nothing, " \n").unwrap(), json!({}));
        assert!(read_arguments(&nothing, "{} {}").is_err());
        assert!(read_arguments(&nothing, "\"{\"").is_err());
        assert!(read_arguments(&nothing, "{,}").is_err());
    }

    #[test]
    fn alternatives_references_and_limits() {
        let tree = json!({
            "$defs": { "node": { "type": "object", "additionalProperties": { "$ref": "#/$defs/node" } } },
            "$ref": "#/$defs/node",
        });
        assert_eq!(check(&tree, &json!({ "a": { "b": {} } })), Ok(()));
        assert_eq!(
            check(&tree, &json!({ "a": { "b": 1 } })).unwrap_err(),
            "at `a.b`: expected an object, found the number 1"
        );
        let circle = json!({ "$ref": "#" });
        assert!(check(&circle, &json!(1)).unwrap_err().ends_with("it is nested too deep"));
        let either = json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] });
        assert!(check(&either, &json!(null)).is_ok());
        assert_eq!(
            check(&either, &json!(1)).unwrap_err(),
            r#"as a whole: expected one of "string", "null", found the number 1"#
        );
        let one = json!({ "oneOf": [{ "type": "number" }, { "type": "integer" }] });
        assert!(check(&one, &json!(1.5)).is_ok() && check(&one, &json!(1)).is_err());
        let no = json!({ "not": { "const": 1 }, "allOf": [{ "exclusiveMaximum": 3 }] });
        assert!(check(&no, &json!(2)).is_ok());
        assert!(check(&no, &json!(1)).is_err() && check(&no, &json!(3)).is_err());
        let patterns =
            json!({ "additionalProperties": false, "patternProperties": { "^x": true } });
        assert!(check(&patterns, &json!({ "x1": 1 })).is_ok());
    }
}
