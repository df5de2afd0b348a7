//! Lists as bad servers write them.

use serde_json::json;

use super::*;

fn listing(tools: Value) -> Listing {
    let mut listing = Listing::default();
    for tool in tools.as_array().unwrap() {
        listing.add(tool.clone());
    }
    listing
}

#[test]
fn a_bad_tool_costs_no_other() {
    let good = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let listing = listing(json!([
        good("first"),
        {"name": "noschema"},
        {"name": "boolschema", "inputSchema": true},
        {"name": " ", "inputSchema": {}},
        {"name": "x".repeat(MAX_NAME + 1), "inputSchema": {}},
        {"inputSchema": {}},
        7,
        good("first"),
        {"name": "odd", "inputSchema": {}, "annotations": 7, "icons": "x", "description": 8},
        good("last"),
    ]));
    let names: Vec<_> = listing.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["first", "odd", "last"]);
    assert_eq!(listing.faults.len(), 7, "{:?}", listing.faults);
}

#[test]
fn a_schema_stays_as_it_was_and_a_description_is_cut() {
    let schema = json!({"$defs": {"a": {}}, "anyOf": [{"$ref": "#/$defs/a"}], "x-own": [1]});
    let text = "ä".repeat(MAX_DESCRIPTION);
    let listing = listing(json!([
        {"name": "n", "inputSchema": schema, "description": text,
         "annotations": {"title": "N", "readOnlyHint": true}},
    ]));
    let tool = &listing.tools[0];
    assert_eq!(Value::Object(tool.schema.clone()), schema);
    assert!(tool.description.len() <= MAX_DESCRIPTION + 6 && tool.description.ends_with("[...]"));
    assert_eq!((tool.title.as_deref(), tool.read_only), (Some("N"), true));
    assert!(!tool.destructive);
}
