//! The head of a SKILL.md: YAML between two lines of three hyphens, read event by event.
//!
//! Only the keys that mean something here are kept; no alias is followed and nothing nested is built.
//! Knows nothing of folders.

use bridle_model::is_unseen;
use saphyr_parser::{Event, Parser, ScalarStyle};

/// The largest front matter that is read, in bytes.
const MAX_BYTES: usize = 16 * 1024;
/// The longest name, in characters (specification).
const MAX_NAME: usize = 64;
/// The longest description, in bytes; the specification says 1,024 characters. What is longer is cut.
const MAX_DESCRIPTION: usize = 4 * 1024;

/// What the front matter of a skill says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrontMatter {
    pub(super) name: Option<String>,
    /// One line, not empty.
    pub(super) description: String,
    pub(super) for_model: bool,
    pub(super) for_person: bool,
}

impl FrontMatter {
    /// Reads the head of a SKILL.md.
    ///
    /// # Errors
    /// Why it cannot be used, as the end of a sentence about the file.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let (head, _) = split(text)?;
        if head.len() > MAX_BYTES {
            return Err(format!("has a front matter of more than {MAX_BYTES} bytes"));
        }
        let entries = entries(head).or_else(|why| match quoted(head) {
            Some(head) => entries(&head).map_err(|_| why),
            None => Err(why),
        })?;
        let text = |key: &str| {
            let entry = entries.iter().find(|(name, _)| name == key);
            entry.and_then(|(_, value)| value.as_deref()).map(str::trim)
        };
        let flag = |key: &str| text(key).map(|value| value.eq_ignore_ascii_case("true"));
        let description = line(text("description").unwrap_or_default());
        if description.is_empty() {
            return Err("has no description".to_owned());
        }
        Ok(Self {
            name: text("name").filter(|name| !name.is_empty()).map(str::to_owned),
            description: shortened(&description, MAX_DESCRIPTION),
            for_model: !flag("disable-model-invocation").unwrap_or(false),
            for_person: flag("user-invocable").unwrap_or(true),
        })
    }
}

/// Whether a skill can have this name: it stands in lists and behind a slash.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= MAX_NAME
        && name.split('-').all(|part| !part.is_empty() && part.chars().all(plain))
}

/// A text as one line, without what cannot be seen or turns others around.
pub(super) fn line(text: &str) -> String {
    let words = text.split_whitespace().map(|word| word.replace(is_unseen, ""));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A text of at most `most` bytes; a cut one ends with `…`.
pub(super) fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most.saturating_sub('…'.len_utf8()));
    format!("{}…", text.get(..end).unwrap_or_default().trim_end())
}

/// The front matter and what stands behind it.
///
/// # Errors
/// As [`FrontMatter::read`].
pub(super) fn split(text: &str) -> Result<(&str, &str), String> {
    let is_fence = |line: &str| line.trim_end() == "---";
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| is_fence(line)) else {
        return Err("has no front matter: its first line is not `---`".to_owned());
    };
    let mut at = first.len();
    for line in lines {
        if is_fence(line) {
            let head = text.get(first.len()..at).unwrap_or_default();
            return Ok((head, text.get(at + line.len()..).unwrap_or_default()));
        }
        at += line.len();
    }
    Err("has a front matter without an end: a second line `---` is missing".to_owned())
}

/// For the fuzz target: the name and the description that a SKILL.md gives, or `None` when it is refused.
#[cfg(fuzzing)]
pub fn fuzz_skill(text: &str) -> Option<(Option<String>, String)> {
    FrontMatter::read(text).ok().map(|said| (said.name, said.description))
}

/// The keys of the top level, with their texts where they are texts.
fn entries(head: &str) -> Result<Vec<(String, Option<String>)>, String> {
    let mut entries: Vec<(String, Option<String>)> = Vec::new();
    let mut key: Option<String> = None;
    let mut depth = 0_usize;
    for event in Parser::new_from_str(head) {
        let (event, _) = event.map_err(|error| bad(error.marker().line(), error.info()))?;
        let value = match event {
            Event::MappingStart(..) if depth == 0 => {
                depth = 1;
                continue;
            }
            Event::MappingStart(..) | Event::SequenceStart(..) => {
                depth += 1;
                if depth != 2 {
                    continue;
                }
                None
            }
            Event::MappingEnd | Event::SequenceEnd => {
                depth = depth.saturating_sub(1);
                continue;
            }
            Event::Scalar(text, style, ..) if depth == 1 => {
                let is_null = matches!(&*text, "" | "~" | "null");
                (style != ScalarStyle::Plain || !is_null).then(|| text.into_owned())
            }
            Event::Alias(_) if depth == 1 => None,
            Event::Scalar(text, ..) if depth == 0 && !text.is_empty() && text != "~" => {
                return Err("has a front matter that is no list of `key: value`".to_owned());
            }
            _ => continue,
        };
        match (key.take(), value) {
            (Some(name), value) => {
                if entries.iter().any(|(known, _)| *known == name) {
                    return Err(format!("has `{}` twice in its front matter", line(&name)));
                }
                entries.push((name, value));
            }
            (None, Some(name)) => key = Some(name),
            (None, None) => return Err("has a front matter with a key that is no text".to_owned()),
        }
    }
    Ok(entries)
}

/// A fault of the YAML; `at` counts from 1 behind the first line of the file.
fn bad(at: usize, why: &str) -> String {
    format!("has a front matter that is no YAML: line {}: {}", at + 1, line(why))
}

/// The front matter with quotes around values that hold `: `, which others write without and which are
/// no YAML then; `None` where there are none.
fn quoted(head: &str) -> Option<String> {
    let mut changed = false;
    let lines = head.lines().map(|line| {
        let plain = |value: &str| {
            value.contains(": ")
                && !value.starts_with(['"', '\'', '|', '>', '[', '{', '&', '*', '!'])
        };
        match line.split_once(": ") {
            Some((key, value)) if !key.starts_with([' ', '#', '-']) && plain(value.trim()) => {
                changed = true;
                format!("{key}: '{}'", value.trim().replace('\'', "''"))
            }
            _ => line.to_owned(),
        }
    });
    let lines: Vec<_> = lines.collect();
    changed.then(|| lines.join("\n"))
}
