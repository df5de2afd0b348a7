//! What can be read of a message that cannot be read as a whole: a line that was cut, is nested
//! too deeply or breaks off. Who waits for its outcome can then still be told.

use std::fmt;

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// See the module.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Head {
    /// The id, if it is a legal one.
    pub(super) id: Option<Value>,
    /// Whether there is a whole `method`.
    pub(super) asks: bool,
    /// Whether a `result` or an `error` has begun.
    pub(super) answers: bool,
}

impl Head {
    /// Reads as far as the line is JSON. Values are skipped without recursion and without a look
    /// at what their strings hold.
    pub(super) fn of(line: &[u8]) -> Self {
        let mut head = Self::default();
        // The error is why this is called; what was read before it stays in the head.
        if serde_json::Deserializer::from_slice(line).deserialize_map(&mut head).is_err() {
            tracing::debug!(?head, "a line that cannot be read as a whole");
        }
        head
    }
}

impl<'de> Visitor<'de> for &mut Head {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut number = None;
        loop {
            let key = map.next_key::<String>()?;
            // A number at the end of what there is may have lost digits.
            if let Some(number) = number.take() {
                self.id = Some(number);
            }
            match key.as_deref() {
                None => return Ok(()),
                Some("id") => match map.next_value()? {
                    id @ Value::Number(_) if is_legal_id(&id) => number = Some(id),
                    id => self.id = Some(id).filter(is_legal_id),
                },
                Some(name) => {
                    self.answers |= matches!(name, "result" | "error");
                    map.next_value::<IgnoredAny>()?;
                    self.asks |= name == "method";
                }
            }
        }
    }
}

/// Whether JSON-RPC and the SDK take it as an id.
pub(super) fn is_legal_id(id: &Value) -> bool {
    id.is_null() || id.is_string() || id.is_i64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_id_is_found_wherever_the_line_breaks_off_behind_it() {
        let deep = "[".repeat(100_000);
        let nested = format!("{deep}{}", "]".repeat(100_000));
        let id = |id: &str, asks, answers| Head { id: Some(json!(id)), asks, answers };
        let cases = [
            (format!(r#"{{"id":"7","method":"x","params":{deep}"#), id("7", true, false)),
            (format!(r#"{{"method":"x","params":{nested},"id":"7"}}"#), id("7", true, false)),
            (r#"{"id":"7","params":"\ud83d \q"#.to_owned(), id("7", false, false)),
            (r#"{"jsonrpc":"2.0","id":"7","resu"#.to_owned(), id("7", false, false)),
            (r#"{"id":"7","error":{"mess"#.to_owned(), id("7", false, true)),
            (r#"{"id":"7","method":"ini"#.to_owned(), id("7", false, false)),
            // Perhaps 12 or 123.
            (r#"{"method":"x","id":1"#.to_owned(), Head { asks: true, ..Head::default() }),
            (r#"{"id":1.5,"method":"x""#.to_owned(), Head { asks: true, ..Head::default() }),
            (r#"{"params":{"id":1,"result":2}"#.to_owned(), Head::default()),
            ("garbage".to_owned(), Head::default()),
        ];
        for (line, head) in cases {
            let shown = line.get(..60).unwrap_or(&line);
            assert_eq!(Head::of(line.as_bytes()), head, "{shown}");
        }
    }
}
