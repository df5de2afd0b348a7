//! A trace as text that is the same in every run: one line a message, with what differs between
//! runs replaced by names.
//!
//! Pieces of one message are joined, because how a stream is cut is a matter of timing.

use std::collections::HashMap;

use serde_json::Value;

use crate::place::Place;
use crate::trace::{Direction, Trace};

impl Trace {
    /// The trace for a snapshot: `>` is the client, `<` is the agent. The folders of `place`
    /// become `$WORKSPACE` and `$HOME`, ids become `$ID1`, `$ID2` … in the order in which they
    /// appear, token counts and what they cost `$N`, and times `$TIME`.
    pub fn transcript(&self, place: &Place) -> String {
        let mut names = Names::new(place);
        let mut lines: Vec<(Direction, Value)> = Vec::new();
        for entry in &self.entries {
            let mut message = entry.message.clone();
            names.replace_in(&mut message);
            if !lines.last_mut().is_some_and(|(_, last)| join(last, &message)) {
                lines.push((entry.direction, message));
            }
        }
        let lines = lines.into_iter().map(|(direction, message)| match direction {
            Direction::ToAgent => format!("> {message}\n"),
            Direction::FromAgent => format!("< {message}\n"),
        });
        lines.collect()
    }
}

/// Appends `next` to `last` when both are pieces of the same message.
fn join(last: &mut Value, next: &Value) -> bool {
    let [(kind, id), (next_kind, next_id)] = [&*last, next].map(|message| {
        let update = &message["params"]["update"];
        (update["sessionUpdate"].clone(), update["messageId"].clone())
    });
    let is_piece = kind.as_str().is_some_and(|kind| kind.starts_with("agent_"));
    if !is_piece || id.is_null() || (kind, id) != (next_kind, next_id) {
        return false;
    }
    let piece = next["params"]["update"]["content"]["text"].as_str().unwrap_or_default();
    if let Value::String(text) = &mut last["params"]["update"]["content"]["text"] {
        text.push_str(piece);
    }
    true
}

/// What stands for what.
struct Names {
    folders: [(String, &'static str); 2],
    ids: HashMap<String, usize>,
}

impl Names {
    fn new(place: &Place) -> Self {
        let folders = [
            (place.workspace().display().to_string(), "$WORKSPACE"),
            (place.bridle_home().display().to_string(), "$HOME"),
        ];
        Self { folders, ids: HashMap::new() }
    }

    fn replace_in(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.replaced(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace_in(item)),
            Value::Object(members) => {
                for (key, member) in members.iter_mut() {
                    match key.as_str() {
                        "used" | "totalTokens" | "inputTokens" | "outputTokens"
                            if member.is_u64() =>
                        {
                            *member = "$N".into()
                        }
                        "amount" if member.is_f64() => *member = "$N".into(),
                        "version" => *member = "$VERSION".into(),
                        "updatedAt" => *member = "$TIME".into(),
                        _ => self.replace_in(member),
                    }
                }
            }
            _ => {}
        }
    }

    fn replaced(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (folder, name) in &self.folders {
            text = text.replace(folder, name);
        }
        let known = self.ids.len();
        match is_id(&text) {
            true => format!("$ID{}", self.ids.entry(text).or_insert(known + 1)),
            false => text,
        }
    }
}

/// Whether a text is a UUID in its usual form.
fn is_id(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}
