//! What a server is told that nobody else is to read: its keys. A server may say them again, in an error
//! or in what a tool tells of its environment; then they are blanked before anybody reads or keeps it.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value};

/// The shortest text (bytes) that is taken for a key. Shorter ones also stand for something else.
const SHORTEST: usize = 8;

/// What stands in the place of a key.
const BLANK: &str = "[secret]";

/// The keys of one server. Shows none of them. Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(Arc<[String]>);

impl Secrets {
    /// These keys; empty and very short ones are not taken for any.
    pub fn new(keys: impl IntoIterator<Item = String>) -> Self {
        let mut keys: Vec<_> = keys.into_iter().filter(|key| key.len() >= SHORTEST).collect();
        // One that another is a part of goes after it.
        keys.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        keys.dedup();
        Self(keys.into())
    }

    /// The text without them.
    pub fn blank<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = self.0.iter().filter(|key| text.contains(key.as_str()));
        known.fold(Cow::Borrowed(text), |text, key| Cow::Owned(text.replace(key.as_str(), BLANK)))
    }

    /// The value without them, in whatever text it has.
    pub fn blank_in(&self, value: &mut Value) {
        if self.0.is_empty() {
            return;
        }
        match value {
            Value::String(text) => {
                if let Cow::Owned(blanked) = self.blank(text) {
                    *text = blanked;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.blank_in(item)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|item| self.blank_in(item));
                let is_one = |name: &String| matches!(self.blank(name), Cow::Owned(_));
                if fields.keys().any(is_one) {
                    let named = std::mem::take(fields).into_iter();
                    let blanked = named.map(|(name, item)| (self.blank(&name).into_owned(), item));
                    *fields = blanked.collect::<Map<_, _>>();
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_blanked_wherever_they_stand() {
        let keys = ["abcdefgh", "Bearer abcdefgh", "short", "abcdefgh-and-more"];
        let secrets = Secrets::new(keys.map(str::to_owned));
        assert_eq!(secrets.blank("x Bearer abcdefgh, abcdefgh!"), "x [secret], [secret]!");
        assert_eq!(secrets.blank("abcdefgh-and-more"), "[secret]");
        assert_eq!(secrets.blank("a short text"), "a short text");
        let mut value = json!({"a": ["abcdefgh", 1], "abcdefgh": {"b": "..abcdefgh.."}});
        secrets.blank_in(&mut value);
        assert_eq!(value, json!({"a": ["[secret]", 1], "[secret]": {"b": "..[secret].."}}));
        assert_eq!(format!("{secrets:?}"), "3 keys");
    }
}
