//! Where a symbol stands that a model names by its text: models miscount columns, and lines a little.

use crate::position::{Encoding, Position, lines};
use crate::source::Source;

/// How far from the line that was named a symbol is looked for.
const DRIFT: usize = 2;

/// How much of a line is quoted, in characters.
const QUOTED: usize = 200;

/// The text of a symbol as a model gives it: `name`, `a.b.name`, `name#2` for the second on its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// As it was given, without its number.
    text: String,
    /// Its last part.
    pub(crate) name: String,
    /// Which one on the line, from 1.
    number: Option<usize>,
}

/// Where a symbol was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) position: Position,
    /// What the model should know of how it was found.
    pub(crate) note: Option<String>,
}

impl Symbol {
    pub(crate) fn parse(text: &str) -> Self {
        let text = text.trim().trim_matches('`');
        let numbered = text.rsplit_once('#').and_then(|(name, number)| {
            let number = number.parse().ok().filter(|number| *number > 0)?;
            (!name.is_empty()).then_some((name, number))
        });
        let (text, number) = match numbered {
            Some((text, number)) => (text, Some(number)),
            None => (text, None),
        };
        let text = text.strip_suffix("()").unwrap_or(text);
        let name = text.rsplit(['.', ':', '>', '/', '\\']).next().filter(|name| !name.is_empty());
        Self { text: text.to_owned(), name: name.unwrap_or(text).to_owned(), number }
    }

    /// Finds it on a line (from 0), or near it.
    ///
    /// # Errors
    /// Why it is not there, for the model.
    pub(crate) fn find_on(
        &self,
        source: &Source,
        line: usize,
        encoding: Encoding,
    ) -> Result<Found, String> {
        let text = source.line(line).unwrap_or_default();
        let found = |line: usize, text: &str, at: usize, note: Option<String>| Found {
            position: Position { line, column: encoding.column(text, at) },
            note,
        };
        for (places, note) in [
            (self.words(text), None),
            (substrings(text, &self.name), Some("as a part of a word")),
            (without_case(text, &self.name), Some("in another case")),
        ] {
            if places.is_empty() {
                continue;
            }
            let at = self.chosen(&places, line)?;
            let several = (places.len() > 1 && self.number.is_none()).then(|| {
                format!(
                    "`{0}` stands {1} times on line {2}; this is of the first, `{0}#2` is the next",
                    self.name,
                    places.len(),
                    line + 1
                )
            });
            let note = note.map(|how| format!("`{}` was found {how}", self.name)).or(several);
            return Ok(found(line, text, at, note));
        }
        for distance in 1..=DRIFT {
            for near in [line.checked_sub(distance), Some(line + distance)].into_iter().flatten() {
                let Some(text) = source.line(near) else { continue };
                if let Some(at) = self.words(text).first() {
                    let note = format!("`{}` stands on line {}", self.name, near + 1);
                    return Ok(found(near, text, *at, Some(note)));
                }
            }
        }
        let count = source.count_lines();
        if line >= count {
            let lines = if count == 1 { "1 line".to_owned() } else { format!("{count} lines") };
            return Err(format!("there is no line {}: the file has {lines}", line + 1));
        }
        Err(format!("`{}` is not on line {}: \"{}\"", self.name, line + 1, quoted(text)))
    }

    /// Where it stands as a word in the whole file: line (from 0) and position.
    pub(crate) fn everywhere(&self, source: &Source, encoding: Encoding) -> Vec<Position> {
        lines(&source.text)
            .enumerate()
            .flat_map(|(line, text)| {
                let places = self.words(text).into_iter();
                places.map(move |at| Position { line, column: encoding.column(text, at) })
            })
            .collect()
    }

    fn chosen(&self, places: &[usize], line: usize) -> Result<usize, String> {
        let number = self.number.unwrap_or(1);
        places.get(number - 1).copied().ok_or_else(|| {
            format!("`{}` stands only {} times on line {}", self.name, places.len(), line + 1)
        })
    }

    /// Where it stands as a whole word, in bytes; where all of its text does, if that is more.
    fn words(&self, line: &str) -> Vec<usize> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let whole = |text: &str| {
            let mut places = substrings(line, text);
            places.retain(|at| {
                let (before, rest) = line.split_at_checked(*at).unwrap_or_default();
                let behind = rest.get(text.len()..).unwrap_or_default();
                let joined_before = before.chars().next_back().is_some_and(is_word)
                    && text.chars().next().is_some_and(is_word);
                let joined_behind = behind.chars().next().is_some_and(is_word)
                    && text.chars().next_back().is_some_and(is_word);
                !joined_before && !joined_behind
            });
            places
        };
        if self.text != self.name {
            let skip = self.text.len() - self.name.len();
            let full: Vec<_> = whole(&self.text).into_iter().map(|at| at + skip).collect();
            if !full.is_empty() {
                return full;
            }
        }
        whole(&self.name)
    }
}

fn substrings(line: &str, text: &str) -> Vec<usize> {
    if text.is_empty() {
        return Vec::new();
    }
    line.match_indices(text).map(|(at, _)| at).collect()
}

fn without_case(line: &str, text: &str) -> Vec<usize> {
    let same = |at: &usize| {
        let there = line.get(*at..).and_then(|rest| rest.get(..text.len()));
        there.is_some_and(|there| there.eq_ignore_ascii_case(text))
    };
    line.char_indices().map(|(at, _)| at).filter(|at| !text.is_empty() && same(at)).collect()
}

/// A line as it is shown: without its indentation, not too long.
pub(crate) fn quoted(line: &str) -> String {
    let line = line.trim();
    match line.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use bridle_world::files::ContentHash;

    use super::*;

    fn source(text: &str) -> Source {
        let (path, hash) = ("/w/a".into(), ContentHash::of(text.as_bytes()));
        Source { path, text: text.into(), hash, mark: None }
    }

    fn find(
        text: &str,
        line: usize,
        symbol: &str,
    ) -> Result<(usize, usize, Option<String>), String> {
        let found = Symbol::parse(symbol).find_on(&source(text), line - 1, Encoding::Utf8)?;
        Ok((found.position.line + 1, found.position.column, found.note))
    }

    /// L18: a word goes before a part of one, and a number says which.
    #[test]
    fn a_symbol_is_found_by_its_text() {
        let text = "let width = id(id, x.id);\n";
        assert_eq!(find(text, 1, "x.id").unwrap(), (1, 21, None));
        assert_eq!(find(text, 1, "id#2").unwrap(), (1, 15, None));
        assert_eq!(find(text, 1, "width").unwrap(), (1, 4, None));
        let (_, column, note) = find(text, 1, "`id`").unwrap();
        assert_eq!(column, 12);
        assert!(note.unwrap().contains("3 times"));
        assert!(find(text, 1, "id#4").unwrap_err().contains("only 3 times"));
        assert_eq!(find(text, 1, "a::b::width()").unwrap().1, 4);
    }

    #[test]
    fn what_is_nearly_there_is_found_and_said() {
        let text = "fn Total() {}\n\nmy_total(1)\n";
        let (line, column, note) = find(text, 3, "tota").unwrap();
        assert_eq!((line, column), (3, 3));
        assert!(note.unwrap().contains("part of a word"));
        let (line, _, note) = find(text, 1, "total").unwrap();
        assert_eq!(line, 1);
        assert!(note.unwrap().contains("another case"));
        let (line, _, note) = find(text, 3, "Total").unwrap_or_else(|why| panic!("{why}"));
        assert_eq!((line, note.unwrap().contains("another case")), (3, true));
        let (line, _, note) = find("a\nb\nc\n", 1, "c").unwrap();
        assert_eq!((line, note), (3, Some("`c` stands on line 3".into())));
        let why = find("  let a = 1;\n", 1, "zzz").unwrap_err();
        assert_eq!(why, "`zzz` is not on line 1: \"let a = 1;\"");
    }

    /// What stands behind the last end of a line is no line.
    #[test]
    fn a_line_that_there_is_not_is_told_with_how_many_there_are() {
        let why = |text: &str, line: usize| find(text, line, "zzz").unwrap_err();
        for (text, line, told) in [
            ("a", 9, "there is no line 9: the file has 1 line"),
            ("a\nb\n", 3, "there is no line 3: the file has 2 lines"),
            ("a\r\nb\r\n", 4, "there is no line 4: the file has 2 lines"),
            ("a\n\n", 3, "there is no line 3: the file has 2 lines"),
            ("", 1, "there is no line 1: the file has 0 lines"),
            ("a\n\n", 2, "`zzz` is not on line 2: \"\""),
        ] {
            assert_eq!(why(text, line), told);
        }
        // Miscounted by a little.
        let (line, _, note) = find("a\nb\n", 3, "b").unwrap();
        assert_eq!((line, note), (2, Some("`b` stands on line 2".into())));
    }

    #[test]
    fn columns_behind_wide_characters_are_of_the_agreed_encoding() {
        let source = source("\"𝒳𝒳é\"; total");
        let column = |encoding| {
            Symbol::parse("total").find_on(&source, 0, encoding).unwrap().position.column
        };
        assert_eq!(column(Encoding::Utf8), 14);
        assert_eq!(column(Encoding::Utf16), 9);
        assert_eq!(column(Encoding::Utf32), 7);
    }
}
