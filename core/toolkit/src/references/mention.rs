//! What in a prompt may be a reference. Knows texts only; whether something is there is for others to say.

use std::num::NonZeroU32;

use bridle_model::file_of_uri;
use bridle_session::{Content, SessionId};

/// The longest word (bytes) that is looked at.
const MAX_WORD: usize = 4 * 1024;
/// The most words of one prompt that are looked at.
const MAX_MENTIONS: usize = 1_000;
/// What ends a sentence or a bracket and not the name of a file.
const PUNCTUATION: [char; 15] =
    ['.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '\'', '"', '`', '*', '_'];

/// Something that a prompt may mean.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mention {
    /// The first of these that is there.
    Path(Vec<Place>),
    /// Another session.
    Session(SessionId),
}

/// A file or folder, and which of its lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// How the prompt names it.
    pub(super) name: String,
    pub(super) path: String,
    /// The first and the last line, from 1.
    pub(super) lines: Option<(NonZeroU32, NonZeroU32)>,
}

/// Everything in a prompt that may be a reference, in order.
pub(super) fn mentions(content: &[Content]) -> Vec<Mention> {
    let mut found = Vec::new();
    for (place, part) in content.iter().enumerate() {
        match part {
            Content::Text { text } => in_text(text, &mut found),
            // The name of an image that the prompt brings along itself.
            Content::Link { .. }
                if matches!(content.get(place + 1), Some(Content::Image { .. })) => {}
            Content::Link { uri, .. } => found.extend(linked(uri)),
            Content::Resource { .. } | Content::Blob { .. } | Content::Image { .. } => {}
        }
    }
    found.truncate(MAX_MENTIONS);
    found
}

fn linked(uri: &str) -> Option<Mention> {
    let (path, lines) = file_of_uri(uri)?;
    let number = |line: u64| u32::try_from(line).ok().and_then(NonZeroU32::new);
    let lines = lines.and_then(|(first, last)| Some((number(first)?, number(last)?)));
    let name = match lines {
        Some((first, last)) => format!("{path}:{first}-{last}"),
        None => path.clone(),
    };
    Some(Mention::Path(vec![Place { name, path, lines }]))
}

/// `@word` where a word begins, `@"several words"`, either with `:10-40` or `:10` behind it.
fn in_text(text: &str, found: &mut Vec<Mention>) {
    let mut before = None;
    for (at, character) in text.char_indices() {
        if character == '@' && begins_a_word(before) {
            let rest = text.get(at + 1..).unwrap_or_default();
            found.extend(mention(rest));
            if found.len() >= MAX_MENTIONS {
                return;
            }
        }
        before = Some(character);
    }
}

fn begins_a_word(before: Option<char>) -> bool {
    before.is_none_or(|it| {
        it.is_whitespace() || matches!(it, '(' | '[' | '{' | '<' | '"' | '\'' | '`' | ',' | ';')
    })
}

fn mention(rest: &str) -> Option<Mention> {
    if let Some(quoted) = rest.strip_prefix('"') {
        return self::quoted(quoted);
    }
    let word = rest.split(char::is_whitespace).next()?;
    if word.len() > MAX_WORD || !word.contains(char::is_alphanumeric) {
        return None;
    }
    if let Some(id) = word.strip_prefix("session:") {
        let (id, more) = id.split_at_checked(36)?;
        let ends = !more.starts_with(|it: char| it.is_alphanumeric() || it == '-');
        return SessionId::parse(id).filter(|_| ends).map(Mention::Session);
    }
    let mut places = Vec::new();
    let mut word = word;
    loop {
        places.push(Place { name: format!("@{word}"), path: word.to_owned(), lines: None });
        places.extend(with_lines(word));
        match word.strip_suffix(PUNCTUATION).filter(|word| !word.is_empty()) {
            Some(shorter) if places.len() < 12 => word = shorter,
            _ => break,
        }
    }
    Some(Mention::Path(places))
}

fn quoted(rest: &str) -> Option<Mention> {
    let line = rest.lines().next()?;
    let (path, behind) = line.split_once('"')?;
    if path.is_empty() || path.len() > MAX_WORD {
        return None;
    }
    let digits = |it: char| !(it.is_ascii_digit() || it == '-' || it == ':');
    let range = behind.split(digits).next().and_then(|range| lines(range.strip_prefix(':')?));
    let name = match range {
        Some((first, last)) => format!("@\"{path}\":{first}-{last}"),
        None => format!("@\"{path}\""),
    };
    Some(Mention::Path(vec![Place { name, path: path.to_owned(), lines: range }]))
}

fn with_lines(word: &str) -> Option<Place> {
    let (path, range) = word.rsplit_once(':')?;
    let lines = Some(lines(range)?);
    (!path.is_empty()).then(|| Place { name: format!("@{word}"), path: path.to_owned(), lines })
}

/// `10` or `10-40`, both ends inclusive.
fn lines(range: &str) -> Option<(NonZeroU32, NonZeroU32)> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let name = |mention: Mention| match mention {
            Mention::Path(places) => {
                places.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(" | ")
            }
            Mention::Session(id) => format!("session {}", id.as_str()),
        };
        mentions(&[Content::text(text)]).into_iter().map(name).collect()
    }

    #[test]
    fn what_may_be_a_reference() {
        assert_eq!(names("look at @a/b.rs"), ["@a/b.rs"]);
        assert_eq!(names("(@a.rs:10-40)"), ["@a.rs:10-40) | @a.rs:10-40 | @a.rs:10-40"]);
        assert_eq!(names("@a, @b."), ["@a, | @a", "@b. | @b"]);
        assert_eq!(names("@\"a b.rs\":3 and @\"c d\""), ["@\"a b.rs\":3-3", "@\"c d\""]);
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        assert_eq!(names(&format!("as in @session:{id}.")), [format!("session {id}")]);
    }

    #[test]
    fn what_is_none() {
        for text in [
            "mail me@example.com",
            "a@b",
            "@",
            "@ b",
            "@...",
            "@\"",
            "@\"a\nb\"",
            "@session:1",
            "@session:01890a5d-ac96-774b-bcce-b302099a8057f",
            "@\"\"",
            "@ä\u{0}".trim_end_matches('ä'),
        ] {
            assert!(names(text).is_empty() || text.contains('\0'), "{text}: {:?}", names(text));
        }
        assert_eq!(names(&"@x ".repeat(5_000)).len(), MAX_MENTIONS);
        assert!(names(&format!("@{}", "x".repeat(MAX_WORD + 1))).is_empty());
    }

    #[test]
    fn a_link_is_one_unless_its_image_comes_with_it() {
        let link = |uri: &str| Content::Link { uri: uri.to_owned(), name: "n".to_owned() };
        let found = mentions(&[link("file:///w/a%20b.rs#L3:9"), link("https://example.com/a")]);
        let [Mention::Path(places)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(
            (places[0].path.as_str(), places[0].name.as_str()),
            ("/w/a b.rs", "/w/a b.rs:3-9")
        );
    }
}
