//! Symbols that servers name: those of a file or a project, and the ends of calls.

use std::path::PathBuf;

use serde_json::Value;

use super::{Listed, Missed, Place, Unreadable, or_unread, place, shown};
use crate::position::Range;

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

/// The symbols of a file, nested or not, in their order.
pub(crate) fn outline(result: &Value, file: &PathBuf) -> Result<Listed<Entry>, Unreadable> {
    if !(result.is_array() || result.is_null()) {
        return Err(Unreadable);
    }
    let mut entries = Listed::default();
    add_symbols(result, file, None, 0, &mut entries);
    if entries.list.iter().all(|entry| entry.depth == 0) {
        entries.list.sort_by_key(|entry| entry.place.range.start);
    }
    entries.checked()
}

/// How deep symbols may be in each other.
const MAX_DEPTH: usize = 32;

fn add_symbols(
    list: &Value,
    file: &PathBuf,
    container: Option<&str>,
    depth: usize,
    entries: &mut Listed<Entry>,
) {
    let items = match list {
        Value::Array(items) => items.as_slice(),
        Value::Null => &[],
        _ => {
            entries.unread += 1;
            return;
        }
    };
    for item in items {
        let flat = item.get("location");
        let range = match flat {
            Some(location) => location.get("range").and_then(Range::of),
            None => item.get("selectionRange").or_else(|| item.get("range")).and_then(Range::of),
        };
        let (Some(name), Some(range)) = (shown(item.get("name")), range) else {
            entries.unread += 1;
            continue;
        };
        let container = container.map(str::to_owned).or_else(|| shown(item.get("containerName")));
        entries.list.push(Entry {
            name: name.clone(),
            kind: kind(item),
            container: container.filter(|it| !it.is_empty()),
            depth,
            place: Place { path: file.clone(), range },
            whole: item.get("range").and_then(Range::of),
        });
        if depth < MAX_DEPTH
            && let Some(children) = item.get("children")
        {
            add_symbols(children, file, Some(&name), depth + 1, entries);
        }
    }
}

/// The symbols of a project that a search found.
pub(crate) fn symbols(result: &Value) -> Result<Listed<Entry>, Unreadable> {
    Listed::of(result, |item| {
        Ok(Entry {
            name: or_unread(shown(item.get("name")))?,
            kind: kind(item),
            container: shown(item.get("containerName")).filter(|it| !it.is_empty()),
            depth: 0,
            place: place(or_unread(item.get("location"))?)?,
            whole: None,
        })
    })
}

/// The ends of calls, `end` being `from` or `to`. The places of calls are in the caller.
pub(crate) fn calls(result: &Value, end: &str) -> Result<Listed<Calls>, Unreadable> {
    Listed::of(result, |item| {
        let at = item.get("fromRanges").and_then(Value::as_array);
        let entry = call_item(or_unread(item.get(end))?)?;
        Ok(Calls { entry, at: at.into_iter().flatten().filter_map(Range::of).collect() })
    })
}

/// What calls can be asked of: each as it is to be given back, and its file where it is in one.
pub(crate) fn call_items(result: &Value) -> Result<Listed<(Value, Option<PathBuf>)>, Unreadable> {
    Listed::of(result, |item| match call_item(item) {
        Ok(entry) => Ok((item.clone(), Some(entry.place.path))),
        Err(Missed::Elsewhere) => Ok((item.clone(), None)),
        Err(unread) => Err(unread),
    })
}

/// Something that calls or is called.
fn call_item(item: &Value) -> Result<Entry, Missed> {
    Ok(Entry {
        name: or_unread(shown(item.get("name")))?,
        kind: kind(item),
        container: shown(item.get("detail")),
        depth: 0,
        place: place(item)?,
        whole: item.get("range").and_then(Range::of),
    })
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
    fn an_outline_is_read_nested_and_flat() {
        let nested = json!([
            {"name": "A", "kind": 5, "range": range(1), "selectionRange": range(1), "children": [
                {"name": "f", "kind": 6, "range": range(2), "selectionRange": range(2)}, {"kind": 1}]},
            {"name": "lost"},
        ]);
        let read = outline(&nested, &"/w/a".into()).unwrap();
        assert_eq!(read.unread, 2);
        let names: Vec<_> =
            read.list.into_iter().map(|it| (it.name, it.kind, it.depth, it.container)).collect();
        let expected = [
            ("A".to_owned(), "class", 0, None),
            ("f".to_owned(), "method", 1, Some("A".to_owned())),
        ];
        assert_eq!(names, expected);
        let flat = json!([
            {"name": "b", "kind": 99, "location": {"uri": "file:///w/a", "range": range(8)}},
            {"name": "a", "kind": 12, "location": {"uri": "file:///w/a", "range": range(2)}},
        ]);
        let flat = outline(&flat, &"/w/a".into()).unwrap();
        let names: Vec<_> = flat.list.into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
