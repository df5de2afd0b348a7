//! What servers answer, read element by element: a bad element costs itself and never the list.

use std::path::PathBuf;

use serde_json::Value;

use crate::position::Range;
use crate::uri::path_of;

/// A place that a server names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) range: Range,
}

/// Places, and how many more are in no file of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) list: Vec<Place>,
    pub(crate) elsewhere: usize,
}

/// A symbol of a file or of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    /// What it is in.
    pub(crate) container: Option<String>,
    /// How deep it is in others.
    pub(crate) depth: usize,
    pub(crate) place: Place,
    /// All of it, where that is known.
    pub(crate) whole: Option<Range>,
}

/// One end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Calls {
    /// The caller or what is called.
    pub(crate) entry: Entry,
    /// Where the calls are: in the caller.
    pub(crate) at: Vec<Range>,
}

/// A change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Edits {
    pub(crate) path: PathBuf,
    pub(crate) edits: Vec<(Range, String)>,
}

impl Places {
    /// Of a location, several, or links to some.
    pub(crate) fn of(result: &Value) -> Self {
        let mut places = Self::default();
        for item in items(result) {
            match place(item) {
                Some(place) => places.list.push(place),
                None if item.is_object() => places.elsewhere += 1,
                None => {}
            }
        }
        places.list.sort();
        places.list.dedup();
        places
    }
}

fn items(result: &Value) -> impl Iterator<Item = &Value> {
    match result {
        Value::Array(items) => items.as_slice(),
        Value::Null => &[],
        one => std::slice::from_ref(one),
    }
    .iter()
}

fn place(item: &Value) -> Option<Place> {
    let uri = item.get("targetUri").or_else(|| item.get("uri"))?.as_str()?;
    let range = ["targetSelectionRange", "targetRange", "selectionRange", "range"];
    let range = range.iter().find_map(|name| Range::of(item.get(name)?));
    Some(Place { path: path_of(uri)?, range: range.unwrap_or_default() })
}

/// The text of a hover: whatever form it has.
pub(crate) fn hover(result: &Value) -> Option<String> {
    fn text(contents: &Value) -> Option<String> {
        let text = match contents {
            Value::String(text) => text.clone(),
            Value::Array(parts) => parts.iter().filter_map(text).collect::<Vec<_>>().join("\n\n"),
            Value::Object(fields) => {
                let value = fields.get("value")?.as_str()?;
                match fields.get("language").and_then(Value::as_str) {
                    Some(language) => format!("```{language}\n{value}\n```"),
                    None => value.to_owned(),
                }
            }
            _ => return None,
        };
        (!text.trim().is_empty()).then(|| text.trim().to_owned())
    }
    text(result.get("contents")?)
}

/// The symbols of a file, nested or not, in their order.
pub(crate) fn outline(result: &Value, file: &PathBuf) -> Vec<Entry> {
    let mut entries = Vec::new();
    add_symbols(result, file, None, 0, &mut entries);
    if entries.iter().all(|entry| entry.depth == 0) {
        entries.sort_by_key(|entry| entry.place.range.start);
    }
    entries
}

/// How deep symbols may be in each other.
const MAX_DEPTH: usize = 32;

fn add_symbols(
    list: &Value,
    file: &PathBuf,
    container: Option<&str>,
    depth: usize,
    entries: &mut Vec<Entry>,
) {
    for item in items(list) {
        let Some(name) = item.get("name").and_then(Value::as_str) else { continue };
        let flat = item.get("location");
        let range = match flat {
            Some(location) => location.get("range").and_then(Range::of),
            None => item.get("selectionRange").or_else(|| item.get("range")).and_then(Range::of),
        };
        let Some(range) = range else { continue };
        let named = item.get("containerName").and_then(Value::as_str);
        entries.push(Entry {
            name: name.to_owned(),
            kind: kind(item),
            container: container.or(named).filter(|it| !it.is_empty()).map(str::to_owned),
            depth,
            place: Place { path: file.clone(), range },
            whole: item.get("range").and_then(Range::of),
        });
        if depth < MAX_DEPTH
            && let Some(children) = item.get("children")
        {
            add_symbols(children, file, Some(name), depth + 1, entries);
        }
    }
}

/// The symbols of a project that a search found.
pub(crate) fn symbols(result: &Value) -> Vec<Entry> {
    let entry = |item: &Value| {
        let name = item.get("name")?.as_str()?;
        let container = item.get("containerName").and_then(Value::as_str);
        Some(Entry {
            name: name.to_owned(),
            kind: kind(item),
            container: container.filter(|it| !it.is_empty()).map(str::to_owned),
            depth: 0,
            place: place(item.get("location")?)?,
            whole: None,
        })
    };
    items(result).filter_map(entry).collect()
}

/// The ends of calls, `end` being `from` or `to`. The places of calls are in the caller.
pub(crate) fn calls(result: &Value, end: &str) -> Vec<Calls> {
    let calls = |item: &Value| {
        let at = item.get("fromRanges").and_then(Value::as_array);
        let entry = call_item(item.get(end)?)?;
        Some(Calls { entry, at: at.into_iter().flatten().filter_map(Range::of).collect() })
    };
    items(result).filter_map(calls).collect()
}

/// Something that calls or is called.
pub(crate) fn call_item(item: &Value) -> Option<Entry> {
    Some(Entry {
        name: item.get("name")?.as_str()?.to_owned(),
        kind: kind(item),
        container: item.get("detail").and_then(Value::as_str).map(str::to_owned),
        depth: 0,
        place: place(item)?,
        whole: item.get("range").and_then(Range::of),
    })
}

/// The changes of an edit, by file, in either of the two forms; each from the beginning of its file on.
pub(crate) fn edits(result: &Value) -> Vec<Edits> {
    let edit = |item: &Value| {
        let text = item.get("newText").or_else(|| item.pointer("/snippet/value"))?.as_str()?;
        Some((Range::of(item.get("range")?)?, text.to_owned()))
    };
    let of = |uri: &str, list: &Value| {
        let mut edits: Vec<_> = items(list).filter_map(edit).collect();
        edits.sort_by_key(|(range, _)| range.start);
        Some(Edits { path: path_of(uri)?, edits })
    };
    let mut all: Vec<Edits> = Vec::new();
    let documents = result.get("documentChanges").map(items).into_iter().flatten();
    all.extend(documents.filter_map(|change| {
        of(change.pointer("/textDocument/uri")?.as_str()?, change.get("edits")?)
    }));
    if all.is_empty()
        && let Some(changes) = result.get("changes").and_then(Value::as_object)
    {
        all.extend(changes.iter().filter_map(|(uri, list)| of(uri, list)));
    }
    all.retain(|edits| !edits.edits.is_empty());
    all.sort_by(|a, b| a.path.cmp(&b.path));
    all
}

/// The protocol's kinds of symbols, from 1.
pub(crate) const KINDS: [&str; 26] = [
    "file",
    "module",
    "namespace",
    "package",
    "class",
    "method",
    "property",
    "field",
    "constructor",
    "enum",
    "interface",
    "function",
    "variable",
    "constant",
    "string",
    "number",
    "boolean",
    "array",
    "object",
    "key",
    "null",
    "enum member",
    "struct",
    "event",
    "operator",
    "type parameter",
];

fn kind(item: &Value) -> &'static str {
    let number = item.get("kind").and_then(Value::as_u64).and_then(|kind| kind.checked_sub(1));
    let index = number.and_then(|number| usize::try_from(number).ok());
    index.and_then(|index| KINDS.get(index)).copied().unwrap_or("symbol")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn range(line: usize) -> Value {
        json!({"start": {"line": line, "character": 1}, "end": {"line": line, "character": 4}})
    }

    #[test]
    fn places_are_read_in_every_form_and_a_bad_one_costs_itself() {
        let one = json!({"uri": "file:///w/a.rs", "range": range(1)});
        assert_eq!(Places::of(&one).list.len(), 1);
        assert_eq!(Places::of(&Value::Null), Places::default());
        let many = json!([
            one, one, 7, null, {"uri": "jdt://x", "range": range(1)}, {"range": range(2)},
            {"targetUri": "file:///w/b%20c.rs", "targetRange": range(9), "targetSelectionRange": range(3)},
        ]);
        let places = Places::of(&many);
        let found: Vec<_> =
            places.list.iter().map(|it| (it.path.to_str().unwrap(), it.range.start.line)).collect();
        assert_eq!(found, [("/w/a.rs", 1), ("/w/b c.rs", 3)]);
        assert_eq!(places.elsewhere, 2);
    }

    #[test]
    fn a_hover_is_read_in_every_form() {
        let of = |contents: Value| hover(&json!({"contents": contents}));
        assert_eq!(of(json!("x")).as_deref(), Some("x"));
        assert_eq!(of(json!({"kind": "markdown", "value": " x "})).as_deref(), Some("x"));
        let several = json!([{"language": "rust", "value": "fn x()"}, "", "more"]);
        assert_eq!(of(several).as_deref(), Some("```rust\nfn x()\n```\n\nmore"));
        assert_eq!(of(Value::Null), None);
        assert_eq!(hover(&Value::Null), None);
    }

    #[test]
    fn an_outline_is_read_nested_and_flat() {
        let nested = json!([
            {"name": "A", "kind": 5, "range": range(1), "selectionRange": range(1), "children": [
                {"name": "f", "kind": 6, "range": range(2), "selectionRange": range(2)}, {"kind": 1}]},
            {"name": "lost"},
        ]);
        let names: Vec<_> = outline(&nested, &"/w/a".into())
            .into_iter()
            .map(|it| (it.name, it.kind, it.depth, it.container))
            .collect();
        let expected = [
            ("A".to_owned(), "class", 0, None),
            ("f".to_owned(), "method", 1, Some("A".to_owned())),
        ];
        assert_eq!(names, expected);
        let flat = json!([
            {"name": "b", "kind": 99, "location": {"uri": "file:///w/a", "range": range(8)}},
            {"name": "a", "kind": 12, "location": {"uri": "file:///w/a", "range": range(2)}},
        ]);
        let names: Vec<_> = outline(&flat, &"/w/a".into()).into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn edits_are_read_in_both_forms() {
        let edit = |line: usize| json!({"range": range(line), "newText": "n"});
        let changes =
            json!({"changes": {"file:///w/b": [edit(2), edit(1)], "file:///w/a": [edit(1), 7]}});
        let document =
            |uri: &str| json!({"textDocument": {"uri": uri, "version": null}, "edits": [edit(1)]});
        let documents = json!({"documentChanges": [document("file:///w/b"), {"kind": "create"}, document("file:///w/a")]});
        for result in [changes, documents] {
            let all = edits(&result);
            let paths: Vec<_> = all.iter().map(|it| it.path.to_str().unwrap()).collect();
            assert_eq!(paths, ["/w/a", "/w/b"], "{result}");
            assert!(all[1].edits.is_sorted_by_key(|(range, _)| range.start));
        }
    }
}
