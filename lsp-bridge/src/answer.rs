//! What servers answer, read element by element: a bad element costs itself and never the list. What is
//! nothing that the protocol has for an answer, or of which no element can be read, is no answer.

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

/// The elements of an answer, and how many more it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed<T> {
    pub(crate) list: Vec<T>,
    /// Those that are in no file of this machine.
    pub(crate) elsewhere: usize,
    /// Those that cannot be read.
    pub(crate) unread: usize,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { list: Vec::new(), elsewhere: 0, unread: 0 }
    }
}

/// Nothing of an answer can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

/// Why an element of an answer is not told.
enum Missed {
    Elsewhere,
    Unread,
}

/// An element that is read or is bad.
fn or_unread<T>(read: Option<T>) -> Result<T, Missed> {
    read.ok_or(Missed::Unread)
}

impl<T> Listed<T> {
    /// Of a list, of `null` for an empty one.
    fn of(result: &Value, read: impl Fn(&Value) -> Result<T, Missed>) -> Result<Self, Unreadable> {
        let items = match result {
            Value::Array(items) => items.as_slice(),
            Value::Null => &[],
            _ => return Err(Unreadable),
        };
        let mut listed = Self::default();
        for item in items {
            match read(item) {
                Ok(one) => listed.list.push(one),
                Err(Missed::Elsewhere) => listed.elsewhere += 1,
                Err(Missed::Unread) => listed.unread += 1,
            }
        }
        listed.checked()
    }

    fn checked(self) -> Result<Self, Unreadable> {
        match self.list.is_empty() && self.elsewhere == 0 && self.unread > 0 {
            true => Err(Unreadable),
            false => Ok(self),
        }
    }
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

/// What a refactoring does with a whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileChange {
    /// It is made, empty.
    Created(PathBuf),
    /// It gets another name.
    Renamed { from: PathBuf, to: PathBuf },
    /// It is gone, with what is in it.
    Deleted(PathBuf),
}

/// A part of a refactoring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// In a file.
    Edits(Edits),
    /// Of a file.
    File(FileChange),
}

/// The places of a location, of several, or of links to some.
pub(crate) fn places(result: &Value) -> Result<Listed<Place>, Unreadable> {
    let mut places = match result {
        Value::Object(_) => Listed::of(&Value::Array(vec![result.clone()]), place),
        several => Listed::of(several, place),
    }?;
    places.list.sort();
    places.list.dedup();
    Ok(places)
}

fn place(item: &Value) -> Result<Place, Missed> {
    let uri = item.get("targetUri").or_else(|| item.get("uri")).and_then(Value::as_str);
    let uri = or_unread(uri)?;
    let names = ["targetSelectionRange", "targetRange", "selectionRange", "range"];
    let mut ranges = names.iter().filter_map(|name| item.get(name)).peekable();
    // A symbol of a project may be in a file without a place in it.
    let range = match ranges.peek() {
        Some(_) => or_unread(ranges.find_map(Range::of))?,
        None => Range::default(),
    };
    Ok(Place { path: path_of(uri).ok_or(Missed::Elsewhere)?, range })
}

/// The texts of a hover, whatever form it has; without those that say nothing.
pub(crate) fn hover(result: &Value) -> Result<Listed<String>, Unreadable> {
    fn text(contents: &Value) -> Result<String, Missed> {
        let fields = match contents {
            Value::String(text) => return Ok(text.trim().to_owned()),
            contents => or_unread(contents.as_object())?,
        };
        let value = or_unread(fields.get("value").and_then(Value::as_str))?.trim();
        Ok(match fields.get("language").and_then(Value::as_str) {
            Some(language) if !value.is_empty() => format!("```{language}\n{value}\n```"),
            _ => value.to_owned(),
        })
    }
    let mut texts = match result {
        Value::Null => Ok(Listed::default()),
        result => match result.get("contents").ok_or(Unreadable)? {
            parts @ (Value::Array(_) | Value::Null) => Listed::of(parts, text),
            one => Listed::of(&Value::Array(vec![one.clone()]), text),
        },
    }?;
    texts.list.retain(|text| !text.is_empty());
    Ok(texts)
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
        let (Some(name), Some(range)) = (item.get("name").and_then(Value::as_str), range) else {
            entries.unread += 1;
            continue;
        };
        let named = item.get("containerName").and_then(Value::as_str);
        entries.list.push(Entry {
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
pub(crate) fn symbols(result: &Value) -> Result<Listed<Entry>, Unreadable> {
    Listed::of(result, |item| {
        let name = or_unread(item.get("name").and_then(Value::as_str))?;
        let container = item.get("containerName").and_then(Value::as_str);
        Ok(Entry {
            name: name.to_owned(),
            kind: kind(item),
            container: container.filter(|it| !it.is_empty()).map(str::to_owned),
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
        name: or_unread(item.get("name").and_then(Value::as_str))?.to_owned(),
        kind: kind(item),
        container: item.get("detail").and_then(Value::as_str).map(str::to_owned),
        depth: 0,
        place: place(item)?,
        whole: item.get("range").and_then(Range::of),
    })
}

/// The changes of an edit, in either of the two forms: those of files in their order, then those in files, by
/// file and each from the beginning of its file on.
pub(crate) fn edits(result: &Value) -> Result<Listed<Change>, Unreadable> {
    let fields = match result {
        Value::Null => return Ok(Listed::default()),
        result => result.as_object().ok_or(Unreadable)?,
    };
    let mut all: Listed<Change> = Listed::default();
    let documents = fields.get("documentChanges").filter(|it| !it.is_null());
    let changes = fields.get("changes").filter(|it| !it.is_null());
    match (documents, changes) {
        (Some(documents), _) => {
            for change in documents.as_array().ok_or(Unreadable)? {
                let uri = change.pointer("/textDocument/uri").and_then(Value::as_str);
                match (uri, change.get("edits")) {
                    (Some(uri), Some(list)) => add_edits(uri, list, &mut all),
                    _ => match file_change(change) {
                        Ok(change) => all.list.push(Change::File(change)),
                        Err(Missed::Elsewhere) => all.elsewhere += 1,
                        Err(Missed::Unread) => all.unread += 1,
                    },
                }
            }
        }
        (None, Some(changes)) => {
            for (uri, list) in changes.as_object().ok_or(Unreadable)? {
                add_edits(uri, list, &mut all);
            }
        }
        (None, None) if fields.is_empty() => {}
        (None, None) => return Err(Unreadable),
    }
    // What is done with files is in its order, which matters.
    all.list.sort_by(|a, b| place_of(a).cmp(&place_of(b)));
    all.checked()
}

fn place_of(change: &Change) -> Option<&PathBuf> {
    match change {
        Change::File(_) => None,
        Change::Edits(edits) => Some(&edits.path),
    }
}

/// A file that is created, renamed or deleted.
fn file_change(change: &Value) -> Result<FileChange, Missed> {
    let path = |name: &str| {
        let uri = or_unread(change.get(name).and_then(Value::as_str))?;
        path_of(uri).ok_or(Missed::Elsewhere)
    };
    match change.get("kind").and_then(Value::as_str) {
        Some("create") => Ok(FileChange::Created(path("uri")?)),
        Some("rename") => Ok(FileChange::Renamed { from: path("oldUri")?, to: path("newUri")? }),
        Some("delete") => Ok(FileChange::Deleted(path("uri")?)),
        _ => Err(Missed::Unread),
    }
}

fn add_edits(uri: &str, list: &Value, all: &mut Listed<Change>) {
    let edit = |item: &Value| {
        let text = item.get("newText").or_else(|| item.pointer("/snippet/value"));
        let text = or_unread(text.and_then(Value::as_str))?;
        let range = or_unread(item.get("range").and_then(Range::of))?;
        Ok((range, text.to_owned()))
    };
    match (path_of(uri), Listed::of(list, edit)) {
        (None, _) => all.elsewhere += 1,
        (_, Err(Unreadable)) => all.unread += list.as_array().map_or(1, Vec::len),
        (Some(path), Ok(Listed { list: mut edits, unread, .. })) => {
            edits.sort_by_key(|(range, _)| range.start);
            if !edits.is_empty() {
                all.list.push(Change::Edits(Edits { path, edits }));
            }
            all.unread += unread;
        }
    }
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

    /// How many of an answer's elements could be read, if it is one.
    type Reader<'a> = &'a dyn Fn(&Value) -> Option<usize>;

    #[test]
    fn places_are_read_in_every_form_and_a_bad_one_costs_itself() {
        let one = json!({"uri": "file:///w/a.rs", "range": range(1)});
        assert_eq!(places(&one).unwrap().list.len(), 1);
        assert_eq!(places(&Value::Null), Ok(Listed::default()));
        let many = json!([
            one, one, 7, null, {"uri": "jdt://x", "range": range(1)}, {"range": range(2)},
            {"targetUri": "file:///w/b%20c.rs", "targetRange": range(9), "targetSelectionRange": range(3)},
        ]);
        let places = places(&many).unwrap();
        let found: Vec<_> =
            places.list.iter().map(|it| (it.path.to_str().unwrap(), it.range.start.line)).collect();
        assert_eq!(found, [("/w/a.rs", 1), ("/w/b c.rs", 3)]);
        assert_eq!((places.elsewhere, places.unread), (1, 3));
    }

    #[test]
    fn a_hover_is_read_in_every_form() {
        let of = |contents: Value| hover(&json!({"contents": contents})).map(|it| it.list);
        assert_eq!(of(json!("x")).unwrap(), ["x"]);
        assert_eq!(of(json!({"kind": "markdown", "value": " x "})).unwrap(), ["x"]);
        let several = json!([{"language": "rust", "value": "fn x()"}, "", "more"]);
        assert_eq!(of(several).unwrap(), ["```rust\nfn x()\n```", "more"]);
        for nothing in [json!(null), json!(""), json!([]), json!([" "])] {
            assert_eq!(of(nothing), Ok(Vec::new()));
        }
        assert_eq!(hover(&Value::Null), Ok(Listed::default()));
        assert_eq!(hover(&json!({"contents": [1, "x"]})).map(|it| it.unread), Ok(1));
    }

    /// Whatever is no answer is one for nobody; `null` and an empty list are answers.
    #[test]
    fn what_cannot_be_read_is_not_nothing() {
        let file = PathBuf::from("/w/a");
        let file = &file;
        let readers: [(&str, Reader<'_>); 7] = [
            ("places", &|it| places(it).ok().map(|it| it.list.len())),
            ("hover", &|it| hover(it).ok().map(|it| it.list.len())),
            ("outline", &|it| outline(it, file).ok().map(|it| it.list.len())),
            ("symbols", &|it| symbols(it).ok().map(|it| it.list.len())),
            ("calls", &|it| calls(it, "from").ok().map(|it| it.list.len())),
            ("call items", &|it| call_items(it).ok().map(|it| it.list.len())),
            ("edits", &|it| edits(it).ok().map(|it| it.list.len())),
        ];
        for (name, read) in readers {
            let bad = [
                json!(5),
                json!("zzz"),
                json!(true),
                json!({"a": 1}),
                json!([{"a": 1}]),
                json!([1, 2, "x"]),
                json!([null]),
                json!({"contents": 5}),
                json!({"changes": 5}),
                json!({"contents": [7, {"a": 1}]}),
                json!({"changes": {"file:///a": [7]}}),
                json!({"documentChanges": [7]}),
            ];
            for bad in bad {
                assert_eq!(read(&bad), None, "{name}: {bad}");
            }
            assert_eq!(read(&Value::Null), Some(0), "{name}");
            if !["hover", "edits"].contains(&name) {
                assert_eq!(read(&json!([])), Some(0), "{name}");
            }
        }
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

    #[test]
    fn edits_are_read_in_both_forms() {
        let edit = |line: usize| json!({"range": range(line), "newText": "n"});
        let changes =
            json!({"changes": {"file:///w/b": [edit(2), edit(1)], "file:///w/a": [edit(1), 7]}});
        let document =
            |uri: &str| json!({"textDocument": {"uri": uri, "version": null}, "edits": [edit(1)]});
        let documents =
            json!({"documentChanges": [document("file:///w/b"), document("file:///w/a")]});
        for result in [changes, documents] {
            let all = edits(&result).unwrap().list;
            let paths = all.iter().map(|it| place_of(it).unwrap().to_str().unwrap());
            let paths: Vec<_> = paths.collect();
            assert_eq!(paths, ["/w/a", "/w/b"], "{result}");
            let Change::Edits(last) = &all[1] else { panic!("{result}") };
            assert!(last.edits.is_sorted_by_key(|(range, _)| range.start));
        }
    }

    #[test]
    fn what_is_done_with_files_is_read_in_its_order() {
        let edit = json!({"range": range(1), "newText": "n"});
        let result = json!({"documentChanges": [
            {"textDocument": {"uri": "file:///w/a", "version": null}, "edits": [edit]},
            {"kind": "rename", "oldUri": "file:///w/z", "newUri": "file:///w/y"},
            {"kind": "create", "uri": "file:///w/c"}, {"kind": "delete", "uri": "file:///w/b"},
            {"kind": "create", "uri": "jar:x"}, {"kind": "rename", "oldUri": "file:///w/z"}, {"kind": "x"},
        ]});
        let read = edits(&result).unwrap();
        let file = |change| Change::File(change);
        let expected = [
            file(FileChange::Renamed { from: "/w/z".into(), to: "/w/y".into() }),
            file(FileChange::Created("/w/c".into())),
            file(FileChange::Deleted("/w/b".into())),
        ];
        assert_eq!(read.list[..3], expected);
        assert!(matches!(&read.list[3..], [Change::Edits(_)]));
        assert_eq!((read.elsewhere, read.unread), (1, 2));
    }
}
