//! The tools of a request: names that the provider takes, and the way back to ours.
//!
//! A legal name stays as it is. Any other becomes its legal letters and a part of its hash, so that
//! two names never meet by being cut or cleaned, and a stored call gets the same name for ever,
//! whatever else is offered. Answers carry the original name again before anyone sees them.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::value::RawValue;

use super::{schema, wire};
use crate::{FailureCode, ModelFailure, ToolSpec};

/// The longest name of a tool and the longest id of a call.
const MAX_NAME: usize = 64;

/// How many letters of an illegal name are kept before its hash.
const KEPT: usize = 51;

/// The tools as the wire has them.
#[derive(Debug)]
pub(super) struct ToolTable {
    /// The `tools` of a request; `None` when there are none.
    json: Option<Box<RawValue>>,
    /// Names on the wire by our names, where they differ.
    wire: HashMap<String, String>,
    /// Our names by those on the wire, where they differ.
    own: HashMap<String, String>,
}

impl ToolTable {
    /// # Errors
    /// `InvalidRequest` when two tools have the same name.
    pub(super) fn new(specs: &[ToolSpec]) -> Result<Self, ModelFailure> {
        let mut table = Self { json: None, wire: HashMap::new(), own: HashMap::new() };
        let mut owners: HashMap<String, &str> = HashMap::with_capacity(specs.len());
        // Legal names first: they cannot give way.
        let (legal, illegal): (Vec<_>, Vec<_>) =
            specs.iter().map(|spec| spec.name.as_str()).partition(|name| is_legal(name));
        for name in legal {
            if owners.insert(name.to_owned(), name).is_some() {
                return Err(twice(name));
            }
        }
        for name in illegal {
            let mut candidate = projected(name, 0);
            let mut round = 0;
            while let Some(owner) = owners.get(&candidate) {
                if *owner == name {
                    return Err(twice(name));
                }
                round += 1;
                candidate = projected(name, round);
            }
            owners.insert(candidate.clone(), name);
            table.own.insert(candidate.clone(), name.to_owned());
            table.wire.insert(name.to_owned(), candidate);
        }
        table.json = table.written(specs)?;
        Ok(table)
    }

    /// The `tools` of a request. Providers want some wherever there are calls in a conversation,
    /// so that one of whose tools none is left gets one that does nothing.
    pub(super) fn json(&self, has_calls: bool) -> Option<&RawValue> {
        const NONE_LEFT: &str = "[{\"name\":\"no_tools\",\"description\":\"Does nothing: no tool \
            can be called any more.\",\"input_schema\":{\"type\":\"object\",\"properties\":{}}}]";
        match &self.json {
            Some(json) => Some(json),
            None => has_calls.then(|| serde_json::from_str(NONE_LEFT).ok()).flatten(),
        }
    }

    /// The name on the wire of a tool, offered or not.
    pub(super) fn wire_name<'a>(&'a self, name: &'a str) -> Cow<'a, str> {
        match self.wire.get(name) {
            Some(wire) => Cow::Borrowed(wire),
            None if is_legal(name) => Cow::Borrowed(name),
            None => Cow::Owned(projected(name, 0)),
        }
    }

    /// Our names by those on the wire, where they differ.
    pub(super) fn own_names(&self) -> &HashMap<String, String> {
        &self.own
    }

    fn written(&self, specs: &[ToolSpec]) -> Result<Option<Box<RawValue>>, ModelFailure> {
        if specs.is_empty() {
            return Ok(None);
        }
        let names: Vec<_> = specs.iter().map(|spec| self.wire_name(&spec.name)).collect();
        let tool = |(spec, name): (&'_ ToolSpec, &Cow<'_, str>)| {
            serde_json::value::to_raw_value(&wire::Tool {
                name,
                description: &spec.description,
                input_schema: schema::legal(&spec.name, &spec.input_schema),
            })
        };
        let tools: Result<Vec<_>, _> = specs.iter().zip(&names).map(tool).collect();
        tools.and_then(|tools| serde_json::value::to_raw_value(&tools)).map(Some).map_err(|error| {
            let message = format!("the tools cannot be written as JSON: {error}");
            ModelFailure::new(FailureCode::InvalidRequest, message)
        })
    }
}

fn twice(name: &str) -> ModelFailure {
    let message = format!("two tools are named {name:?}");
    ModelFailure::new(FailureCode::InvalidRequest, message)
}

/// Whether a provider takes it as the name of a tool or the id of a call.
pub(super) fn is_legal(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(is_legal_byte)
}

fn is_legal_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// A legal name for an illegal one; another for each `round`.
fn projected(name: &str, round: u64) -> String {
    let legal = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let kept: String = name.chars().take(KEPT).map(legal).collect();
    let mut hasher = blake3::Hasher::new();
    hasher.update(name.as_bytes());
    if round > 0 {
        hasher.update(&round.to_le_bytes());
    }
    let hash: String = hasher.finalize().to_hex().chars().take(MAX_NAME - KEPT - 1).collect();
    format!("{kept}_{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(names: &[&str]) -> ToolTable {
        ToolTable::new(&specs(names)).unwrap()
    }

    fn specs(names: &[&str]) -> Vec<ToolSpec> {
        let spec = |name: &&str| ToolSpec {
            name: (*name).to_owned(),
            description: String::new(),
            input_schema: RawValue::from_string(r#"{"type":"object","properties":{}}"#.to_owned())
                .unwrap(),
        };
        names.iter().map(spec).collect()
    }

    #[test]
    fn a_legal_name_stays_and_any_other_is_told_from_every_other() {
        let long = "x".repeat(200);
        let longer = format!("{long}y");
        let names = ["read", "fs.read", "fs/read", "", "Ж", "日", "a b", long.as_str(), &longer];
        let table = table(&names);
        let wire: Vec<_> = names.iter().map(|name| table.wire_name(name)).collect();
        assert_eq!(wire[0], "read");
        for (name, wire) in names.iter().zip(&wire) {
            assert!(is_legal(wire), "{name:?} became {wire:?}");
            if wire != name {
                assert_eq!(table.own_names()[&**wire], *name);
            }
        }
        let distinct: std::collections::HashSet<_> = wire.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{wire:?}");
        let other = ToolTable::new(&[]).unwrap();
        for name in names {
            assert_eq!(other.wire_name(name), table.wire_name(name), "depends on what is offered");
        }
    }

    #[test]
    fn a_tool_that_takes_the_others_name_away_does_not_get_its_calls() {
        let taken = projected("fs.read", 0);
        let table = table(&["fs.read", &taken]);
        assert_eq!(table.wire_name(&taken), taken.as_str());
        let moved = table.wire_name("fs.read").into_owned();
        assert!(is_legal(&moved) && moved != taken, "{moved}");
        assert_eq!(table.own_names().get(&moved).map(String::as_str), Some("fs.read"));
        assert_eq!(table.own_names().get(&taken), None);
    }

    #[test]
    fn two_tools_of_one_name_are_refused_here() {
        for name in ["read", "fs.read"] {
            let failure = ToolTable::new(&specs(&[name, "other", name])).unwrap_err();
            assert_eq!(failure.code, FailureCode::InvalidRequest);
            assert!(failure.message.contains(name), "{failure}");
        }
    }

    #[test]
    fn a_conversation_with_calls_is_never_without_tools() {
        let none = ToolTable::new(&[]).unwrap();
        assert!(none.json(false).is_none());
        assert!(none.json(true).unwrap().get().contains("no_tools"));
    }
}
