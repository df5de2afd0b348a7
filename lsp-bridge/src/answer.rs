//! What servers answer, read element by element: a bad element costs itself and never the list. What is
//! nothing that the protocol has for an answer, or of which no element can be read, is no answer.

pub(crate) mod changes;
pub(crate) mod entries;

use std::path::PathBuf;

use bridle_world::servers::written_out;
use serde_json::Value;

use crate::position::Range;
use crate::uri::path_of;

/// A text that is shown, with all of it to be seen. Names of files, which are shown as paths are, and what goes
/// back to the server are none.
pub(crate) fn shown(value: Option<&Value>) -> Option<String> {
    value?.as_str().map(|text| written_out(text).into_owned())
}

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
        if let Some(text) = shown(Some(contents)) {
            return Ok(text.trim().to_owned());
        }
        let fields = or_unread(contents.as_object())?;
        let value = or_unread(shown(fields.get("value")))?;
        let value = value.trim();
        Ok(match shown(fields.get("language")) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::changes::edits;
    use super::entries::{call_items, calls, outline, symbols};
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
}
