//! What in a prompt may be a reference. Knows texts only; whether something is there is for others to say.

use std::num::NonZeroU32;

use bridle_model::file_of_uri;
use bridle_session::{Content, SessionId};

/// The longest word (bytes) that is looked at.
const MAX_WORD: usize = 4 * 1024;
/// The most words of one prompt that are looked at.
const MAX_MENTIONS: usize = 1_000;
/// The most readings of one word.
const MAX_READINGS: usize = 24;
/// What ends a sentence or a bracket and not the name of a file.
const PUNCTUATION: &[char] = &[
    '.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '\'', '"', '`', '*', '_', '…', '”', '“', '’',
    '‘', '»', '«', '。', '、', '，', '；', '：', '！', '？', '）', '］', '】', '」', '』', '》',
    '〉',
];
/// What may also stand between a name and the next one, without a space.
const SEPARATORS: &[char] = &[
    ',', ';', ')', ']', '}', '>', '\'', '"', '`', '|', '”', '“', '’', '‘', '»', '«', '。', '、',
    '，', '；', '：', '！', '？', '）', '］', '】', '」', '』', '》', '〉',
];
/// What a word may stand behind without a space.
const OPENING: &[char] = &[
    '(', '[', '{', '<', '"', '\'', '`', ',', ';', '|', '“', '”', '„', '‘', '’', '‚', '«', '»',
    '（', '［', '【', '「', '『', '《', '〈', '，', '、', '；', '：', '。',
];
/// How a reference to another session begins, and the fewest characters of an id that are one.
const SESSION: &str = "session:";
const MIN_ID: usize = 4;

/// Something that a prompt may mean.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mention {
    /// The first of these that is there.
    Path(Vec<Place>),
    /// The session with this id, or the only one whose id begins like that.
    Session(String),
    /// The session that changed last.
    LastSession,
    /// What is written like a reference to a session and can be none: its name and why.
    NoSession(String, &'static str),
}

/// A file or folder, and which of its lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// How the prompt names it.
    pub(super) name: String,
    pub(super) path: String,
    pub(super) lines: Option<Lines>,
    /// What stands behind the path where it says no lines.
    pub(super) rest: Option<String>,
}

/// A range of lines, from 1 and inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lines {
    pub(super) first: NonZeroU32,
    /// `None` for all behind it.
    pub(super) last: Option<NonZeroU32>,
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
    let lines = lines
        .and_then(|(first, last)| Some(Lines { first: number(first)?, last: Some(number(last)?) }));
    let name = format!("{path}{}", shown(lines));
    Some(Mention::Path(vec![Place { name, path, lines, rest: None }]))
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
    before.is_none_or(|it| it.is_whitespace() || OPENING.contains(&it))
}

fn mention(rest: &str) -> Option<Mention> {
    if let Some(quoted) = rest.strip_prefix('"') {
        return self::quoted(quoted);
    }
    let word = rest.split(char::is_whitespace).next()?;
    if word.len() > MAX_WORD {
        return None;
    }
    if let Some(named) = word.strip_prefix(SESSION) {
        return session(named);
    }
    let readings = readings(word);
    let shortest = readings.last().copied().unwrap_or_default();
    let places = readings.into_iter().flat_map(of_reading).chain(without_lines(shortest));
    let places: Vec<_> = places.collect();
    (!places.is_empty()).then_some(Mention::Path(places))
}

/// What of a word may be a name, the longest first.
fn readings(word: &str) -> Vec<&str> {
    let mut readings = Vec::new();
    let mut rest = Some(word);
    while let Some(reading) = rest.filter(|_| readings.len() < MAX_READINGS) {
        if is_name(reading) {
            readings.push(reading);
        }
        // Of dots alone none is the end of a sentence.
        let may_end = |shorter: &&str| {
            shorter.contains(char::is_alphanumeric) || !reading.ends_with('.') && is_name(shorter)
        };
        let shorter = reading.strip_suffix(PUNCTUATION).filter(may_end);
        rest = shorter.or_else(|| Some(reading.rsplit_once(SEPARATORS)?.0));
    }
    readings
}

/// Whether a word can name something: `.`, `..`, `/` and what is made of them, and all with a letter or digit.
fn is_name(word: &str) -> bool {
    word.contains(char::is_alphanumeric)
        || (!word.is_empty() && word.split('/').all(|part| matches!(part, "" | "." | "..")))
}

/// A reading as a whole name, and as a name with lines behind it.
fn of_reading(word: &str) -> Vec<Place> {
    let name = || format!("@{word}");
    let whole = Place { name: name(), path: word.to_owned(), lines: None, rest: None };
    let ranged = ranges(word).into_iter().map(|(path, lines)| Place {
        name: name(),
        path: path.to_owned(),
        lines: Some(lines),
        rest: None,
    });
    std::iter::once(whole).chain(ranged).collect()
}

/// A name with something behind it that looks like lines and is none, as in `f:12-10` or `f#x`: nothing of
/// the file is meant for sure, but the file is.
fn without_lines(word: &str) -> Vec<Place> {
    if !ranges(word).is_empty() {
        return Vec::new();
    }
    let splits = [word.rfind(':'), word.find(':'), word.find('#')].into_iter().flatten();
    let splits = splits.map(|at| word.split_at(at)).filter(|(path, _)| is_name(path));
    let place = |(path, rest): (&str, &str)| Place {
        name: format!("@{word}"),
        path: path.to_owned(),
        lines: None,
        rest: Some(rest.to_owned()),
    };
    splits.map(place).collect()
}

/// What a name with lines behind it may be: `f:10-40`, `f:10:5` (a line and a column), `f#L3-L9`.
fn ranges(word: &str) -> Vec<(&str, Lines)> {
    let colon = word.rsplit_once(':').and_then(|(path, range)| Some((path, lines(range)?)));
    let column = word.rsplit_once(':').and_then(|(path, column)| {
        column.parse::<NonZeroU32>().ok()?;
        let (path, line) = path.rsplit_once(':')?;
        let line: NonZeroU32 = line.parse().ok()?;
        Some((path, Lines { first: line, last: Some(line) }))
    });
    let hash = word.rsplit_once("#L").and_then(|(path, range)| Some((path, fragment(range)?)));
    // With a column the shorter name is the likelier one, but what is there decides.
    [colon, column, hash].into_iter().flatten().filter(|(path, _)| !path.is_empty()).collect()
}

/// `10`, `10-40` or `10-`, both ends inclusive.
fn lines(range: &str) -> Option<Lines> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let first: NonZeroU32 = first.parse().ok()?;
    let last: Option<NonZeroU32> = match last {
        "" => None,
        last => Some(last.parse().ok()?),
    };
    last.is_none_or(|last| first <= last).then_some(Lines { first, last })
}

/// What stands behind `#L`, as code hosts write it: `3`, `3-L9`, `3-9`, `3:9`, also with columns (`3C1-L9C2`).
fn fragment(range: &str) -> Option<Lines> {
    let line = |text: &str| -> Option<NonZeroU32> {
        let (line, column) = text.split_once('C').unwrap_or((text, "1"));
        column.parse::<u32>().ok()?;
        line.parse().ok()
    };
    let (first, last) = range.split_once(['-', ':']).unwrap_or((range, range));
    let (first, last) = (line(first)?, line(last.strip_prefix('L').unwrap_or(last))?);
    (first <= last).then_some(Lines { first, last: Some(last) })
}

fn quoted(rest: &str) -> Option<Mention> {
    let line = rest.lines().next()?;
    let (path, behind) = line.split_once('"')?;
    if path.is_empty() || path.len() > MAX_WORD {
        return None;
    }
    let behind = behind.split(char::is_whitespace).next().unwrap_or_default();
    let lines = readings_of_lines(behind);
    let name = format!("@\"{path}\"{}", shown(lines));
    Some(Mention::Path(vec![Place { name, path: path.to_owned(), lines, rest: None }]))
}

/// The lines that stand behind a quoted name, with the rest of a sentence or a bracket behind them.
fn readings_of_lines(behind: &str) -> Option<Lines> {
    let mut rest = Some(behind);
    while let Some(reading) = rest.filter(|reading| !reading.is_empty()) {
        // As if the name before it were one letter.
        let named = format!("x{reading}");
        if let Some((_, lines)) = ranges(&named).into_iter().find(|(path, _)| *path == "x") {
            return Some(lines);
        }
        rest = reading.strip_suffix(PUNCTUATION);
    }
    None
}

/// Lines as a name ends with them.
fn shown(lines: Option<Lines>) -> String {
    match lines {
        None => String::new(),
        Some(Lines { first, last: Some(last) }) => format!(":{first}-{last}"),
        Some(Lines { first, last: None }) => format!(":{first}-"),
    }
}

/// `last`, an id, or the beginning of one.
fn session(named: &str) -> Option<Mention> {
    let end = named.find(|it: char| !it.is_alphanumeric() && it != '-').unwrap_or(named.len());
    let id = named.get(..end)?.trim_end_matches('-');
    if id == "last" {
        return Some(Mention::LastSession);
    }
    let none = |why| Mention::NoSession(format!("@{SESSION}{id}"), why);
    match SessionId::beginning(id) {
        _ if id.is_empty() => None,
        Some(id) if id.len() >= MIN_ID => Some(Mention::Session(id)),
        Some(_) => Some(none("4 characters of an id are the fewest")),
        None => Some(none("no id of a session is written so")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let name = |mention: Mention| match mention {
            Mention::Path(places) => {
                places.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(" | ")
            }
            Mention::Session(id) => format!("session {id}"),
            Mention::LastSession => "the last session".to_owned(),
            Mention::NoSession(name, _) => format!("none: {name}"),
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
        assert_eq!(
            names("@session:last, @session:01890A5D-"),
            ["the last session", "session 01890a5d"]
        );
    }

    /// The first reading with lines, or the last one: a path, the first and the last line.
    fn read_as(text: &str) -> (String, u32, u32) {
        let found = mentions(&[Content::text(text)]);
        let Some(Mention::Path(places)) = found.first() else { panic!("{text}: {found:?}") };
        let place = places.iter().rfind(|place| place.lines.is_some()).or(places.last()).unwrap();
        let first = place.lines.map_or(0, |it| it.first.get());
        let last = place.lines.and_then(|it| it.last).map_or(0, NonZeroU32::get);
        (place.path.clone(), first, last)
    }

    #[test]
    fn lines_are_written_in_many_ways() {
        for (text, path, first, last) in [
            ("@f:5", "f", 5, 5),
            ("@f:1:5", "f", 1, 1),
            ("@f:10-", "f", 10, 0),
            ("@f:10-.", "f", 10, 0),
            ("@f#L3", "f", 3, 3),
            ("@f#L3-L9", "f", 3, 9),
            ("@f#L3-9,", "f", 3, 9),
            ("@f#L3:9", "f", 3, 9),
            ("(@f#L3C1-L9C12).", "f", 3, 9),
            ("@\"a b\":10-", "a b", 10, 0),
            ("(@\"a b\"#L3-L9).", "a b", 3, 9),
            ("@\"a b\":3:9", "a b", 3, 3),
            ("@\"a b\"s", "a b", 0, 0),
        ] {
            assert_eq!(read_as(text), (path.to_owned(), first, last), "{text}");
        }
        for none in ["@f:0", "@f:9-3", "@f#L", "@f#L0", "@f#L9-L3", "@f:-3", "@f:1-2-3", "@f#L3-x"]
        {
            assert_eq!(read_as(none).1, 0, "{none}");
        }
    }

    #[test]
    fn names_without_a_space_between_them_are_several() {
        assert_eq!(names("@a,@b"), ["@a,@b | @a", "@b"]);
        assert_eq!(names("(@a.rs:3),then"), ["@a.rs:3),then | @a.rs:3) | @a.rs:3 | @a.rs:3"]);
        assert_eq!(names("|@a|@b|"), ["@a|@b| | @a|@b | @a", "@b| | @b"]);
        assert_eq!(names("@a@b"), ["@a@b"], "no name is cut at an @");
        let many = names(&"@x,".repeat(1_000));
        assert!(many.iter().all(|readings| readings.matches('|').count() < MAX_READINGS));
    }

    #[test]
    fn what_says_no_lines_is_said_of_its_file() {
        let rest = |text: &str| {
            let found = mentions(&[Content::text(text)]);
            let Some(Mention::Path(places)) = found.first() else { panic!("{text}: {found:?}") };
            places.last().and_then(|it| Some((it.path.clone(), it.rest.clone()?)))
        };
        for (text, said) in [
            ("@f:0", ":0"),
            ("@f:12-10.", ":12-10"),
            ("@f:-5", ":-5"),
            ("@f:10-12-14", ":10-12-14"),
            ("@f:L5", ":L5"),
            ("@f:99999999999999999999", ":99999999999999999999"),
            ("@f#L9-L3", "#L9-L3"),
        ] {
            assert_eq!(rest(text), Some(("f".to_owned(), said.to_owned())), "{text}");
        }
        for none in ["@f", "@f:3", "@f:3-5)", "@f#L3", "@pytest.fixture"] {
            assert_eq!(rest(none), None, "{none}");
        }
    }

    #[test]
    fn marks_of_other_scripts_are_no_part_of_a_name() {
        for text in [
            "“@a.txt”",
            "„@a.txt“",
            "«@a.txt»",
            "@a.txt！",
            "（@a.txt）。",
            "「@a.txt」",
            "@a.txt’s",
        ] {
            let found = names(text);
            assert!(found[0].ends_with("| @a.txt"), "{text}: {found:?}");
        }
        assert_eq!(names("“@session:zzzz”"), ["none: @session:zzzz"]);
        assert_eq!(names("@session:1"), ["none: @session:1"]);
    }

    #[test]
    fn folders_by_their_dots() {
        assert_eq!(names("@."), ["@."]);
        assert_eq!(names("@./"), ["@./"]);
        assert_eq!(names("(@./)."), ["@./"]);
        assert_eq!(names("@.. and @../.."), ["@..", "@../.."]);
        assert_eq!(names("@/, (@/..) and `@/`."), ["@/", "@/..", "@/"]);
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
            "@...",
            "@,",
            "@session:",
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
