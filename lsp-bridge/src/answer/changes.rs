//! Changes that servers propose, as those of a rename: in files and of files. They are shown, never made.

use std::path::PathBuf;

use serde_json::Value;

use super::{Listed, Missed, Unreadable, or_unread, shown};
use crate::position::Range;
use crate::uri::path_of;

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
        Ok((or_unread(item.get("range").and_then(Range::of))?, or_unread(shown(text))?))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn range(line: usize) -> Value {
        json!({"start": {"line": line, "character": 1}, "end": {"line": line, "character": 4}})
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
