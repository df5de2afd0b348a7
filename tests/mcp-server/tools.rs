//! What the scripted server lists, good and bad.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::{GROWN, PULLED, SHRUNK, Wire, has, value};

fn tool(name: &str) -> Value {
    json!({
        "name": name,
        "description": format!("The scripted tool {name}."),
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    })
}

/// Its tools, each one way to answer. The last row is of use over HTTP alone.
const TOOLS: &[&str] = &[
    "echo",
    "fail",
    "env",
    "image",
    "both",
    "data",
    "aside",
    "link",
    "odd",
    "slow",
    "work",
    "crash",
    "huge",
    "idless",
    "refuse",
    "grow",
    "pull",
    "bash",
    "ask",
    "visit",
    "leak",
    "none",
    "mute",
    "log",
    "beat",
    "forget",
    "html",
    "status-429",
    "status-500",
    "status-401",
    "cut",
    "resume",
];

pub(crate) fn list(wire: &Wire, modes: &[String], id: &Value, params: &Value) {
    let mut tools: Vec<_> = TOOLS.iter().map(|name| tool(name)).collect();
    tools.extend(value(modes, "tool").map(tool));
    if GROWN.load(Ordering::SeqCst) {
        tools.push(tool("late"));
    }
    if has(modes, "bad-tools") {
        tools.extend(bad_tools());
    }
    if let Some(count) = value(modes, "many") {
        for number in 0..count.parse().unwrap() {
            let mut tool = tool(&format!("many-{number}"));
            tool["description"] =
                json!(format!("Tool {number}. {}", "All that it does. ".repeat(200)));
            tools.push(tool);
        }
    }
    if PULLED.load(Ordering::SeqCst) {
        tools[0]["description"] = json!("Something else by now.");
    }
    if has(modes, "hints") {
        tools[0]["annotations"] = json!({"readOnlyHint": true});
        tools[1]["annotations"] = json!({"readOnlyHint": true, "destructiveHint": true});
    }
    if SHRUNK.load(Ordering::SeqCst) {
        tools.retain(|tool| tool["name"] != "data");
    }
    if has(modes, "odd-schemas") {
        tools.extend(odd_schemas());
    }
    if let Some(count) = value(modes, "flood") {
        tools.extend(
            (0..count.parse().unwrap()).map(|number| json!({"name": format!("f{number}")})),
        );
    }
    if has(modes, "counting") {
        let page: u64 = params["cursor"].as_str().map_or(0, |it| it.parse().unwrap());
        let tools = if page == 0 { tools } else { Vec::new() };
        return wire.reply(id, json!({"tools": tools, "nextCursor": (page + 1).to_string()}));
    }
    if has(modes, "endless") {
        return wire.reply(id, json!({"tools": tools, "nextCursor": "again"}));
    }
    if has(modes, "pages") {
        // The first cursor is an empty one, which is one, too.
        let page: usize = params["cursor"].as_str().map_or(0, |it| it.len() + 1);
        let tools: Vec<_> = (0..40).map(|n| tool(&format!("t{page}-{n}"))).collect();
        let next = (page < 2).then(|| "p".repeat(page));
        return wire.reply(id, json!({"tools": tools, "nextCursor": next}));
    }
    wire.reply(id, json!({"tools": tools}));
}

fn bad_tools() -> Vec<Value> {
    vec![
        json!({"name": "noschema"}),
        json!({"name": "boolschema", "inputSchema": true}),
        json!({"name": "", "inputSchema": {}}),
        json!({"name": "x".repeat(300), "inputSchema": {}}),
        json!(7),
        tool("echo"),
        json!({"name": "badhints", "inputSchema": {}, "annotations": {"readOnlyHint": "no"}}),
    ]
}

/// Tools whose arguments are described as real servers do it.
fn odd_schemas() -> Vec<Value> {
    let text = json!({"text": {"$ref": "#/$defs/deep"}});
    let deep =
        json!({"deep": {"type": "object", "properties": {"again": {"$ref": "#/$defs/deep"}}}});
    let all = [
        ("ref", json!({"type": "object", "properties": text, "$defs": deep})),
        ("root-ref", json!({"$ref": "#/$defs/deep", "$defs": deep})),
        (
            "any",
            json!({"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "null"}]}),
        ),
        ("bare", json!({})),
        ("typeless", json!({"properties": {"a": true}, "required": ["a"]})),
        (
            "types",
            json!({"type": ["object", "null"], "properties": {"a": {"type": ["string", "null"]}}}),
        ),
        (
            "far",
            json!({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/schema.json"}}}),
        ),
        (
            "tuple",
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
            "properties": {"a": {"type": "array", "items": [{"type": "string"}, {"const": 7}]}}}),
        ),
    ];
    all.into_iter()
        .map(|(name, schema)| json!({"name": format!("odd-{name}"), "inputSchema": schema}))
        .collect()
}
