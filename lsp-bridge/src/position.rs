//! Places in a text as the protocol counts them: lines from 0, and in a line code units of an encoding.

use serde_json::{Value, json};

/// How positions in a line are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// In bytes.
    Utf8,
    /// In units of UTF-16, which is what holds when nothing was agreed on.
    #[default]
    Utf16,
    /// In characters.
    Utf32,
}

impl Encoding {
    /// The one of this name; the usual one for any other.
    pub(crate) fn of(name: Option<&str>) -> Self {
        match name {
            Some("utf-8") => Self::Utf8,
            Some("utf-32") => Self::Utf32,
            _ => Self::Utf16,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Utf16 => "utf-16",
            Self::Utf32 => "utf-32",
        }
    }

    fn width(self, c: char) -> usize {
        match self {
            Self::Utf8 => c.len_utf8(),
            Self::Utf16 => c.len_utf16(),
            Self::Utf32 => 1,
        }
    }

    /// How many units the first `bytes` bytes of a line are.
    pub(crate) fn column(self, line: &str, bytes: usize) -> usize {
        line.char_indices().take_while(|(at, _)| *at < bytes).map(|(_, c)| self.width(c)).sum()
    }

    /// Where in a line a column is, in bytes; its end for one behind it.
    pub(crate) fn offset(self, line: &str, column: usize) -> usize {
        let mut units = 0;
        for (at, c) in line.char_indices() {
            if units >= column {
                return at;
            }
            units += self.width(c);
        }
        line.len()
    }
}

/// A position, as the wire has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Position {
    /// From 0.
    pub(crate) line: usize,
    /// In units of the encoding, from 0.
    pub(crate) column: usize,
}

impl Position {
    pub(crate) fn to_wire(self) -> Value {
        json!({"line": self.line, "character": self.column})
    }

    /// Reads one; a number that is none, or negative, is the beginning.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        let number = |name: &str| {
            let number = value.get(name)?;
            let number = number.as_u64().or_else(|| number.as_f64().map(|it| it.max(0.0) as u64));
            usize::try_from(number?).ok()
        };
        Some(Self { line: number("line")?, column: number("character").unwrap_or(0) })
    }
}

/// A range, as the wire has it; its end is not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Range {
    pub(crate) start: Position,
    pub(crate) end: Position,
}

impl Range {
    pub(crate) fn to_wire(self) -> Value {
        json!({"start": self.start.to_wire(), "end": self.end.to_wire()})
    }

    /// Reads one. One without an end is its beginning.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        let start = Position::of(value.get("start")?)?;
        Some(Self { start, end: value.get("end").and_then(Position::of).unwrap_or(start) })
    }
}

/// The lines of a text without their ends, which are `\n`, `\r\n` and `\r` alone; behind the last one is
/// another line, which may be empty.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.find(['\n', '\r']) else {
            rest = None;
            return Some(text);
        };
        let (line, behind) = text.split_at_checked(end)?;
        rest = behind
            .strip_prefix("\r\n")
            .or_else(|| behind.strip_prefix('\n'))
            .or_else(|| behind.strip_prefix('\r'));
        Some(line)
    })
}

/// The range of a whole text.
pub(crate) fn whole(text: &str, encoding: Encoding) -> Range {
    let (line, last) = lines(text).enumerate().last().unwrap_or_default();
    let end = Position { line, column: encoding.column(last, last.len()) };
    Range { start: Position::default(), end }
}

/// The byte at which a position is; the end of its line, or of the text, for one behind it.
pub(crate) fn byte_at(text: &str, position: Position, encoding: Encoding) -> usize {
    let Some(line) = lines(text).nth(position.line) else { return text.len() };
    let begin = line.as_ptr() as usize - text.as_ptr() as usize;
    begin + encoding.offset(line, position.column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_counted_in_the_units_that_were_agreed_on() {
        let line = "let é = \"𝒳𝒳é\"; total";
        let at = line.find("total").unwrap();
        for (encoding, column) in
            [(Encoding::Utf8, 23), (Encoding::Utf16, 17), (Encoding::Utf32, 15)]
        {
            assert_eq!(encoding.column(line, at), column, "{}", encoding.name());
            assert_eq!(encoding.offset(line, column), at, "{}", encoding.name());
            assert_eq!(encoding.offset(line, 1000), line.len());
        }
        // The middle of a pair belongs to the character.
        assert_eq!(Encoding::Utf16.offset("𝒳x", 1), 4);
        assert_eq!(Encoding::of(None), Encoding::Utf16);
    }

    #[test]
    fn lines_end_as_the_protocol_says() {
        let split = |text| lines(text).collect::<Vec<_>>();
        assert_eq!(split("a\r\nb\rc\nd"), ["a", "b", "c", "d"]);
        assert_eq!(split("a\n"), ["a", ""]);
        assert_eq!(split(""), [""]);
        assert_eq!(split("\r\r\n\u{2028}x"), ["", "", "\u{2028}x"]);
        let end = whole("a\r\n\té𝒳", Encoding::Utf16).end;
        assert_eq!(end, Position { line: 1, column: 4 });
    }

    #[test]
    fn a_position_leads_to_its_byte() {
        let text = "ab\r\n𝒳c\n";
        let at = |line, column| byte_at(text, Position { line, column }, Encoding::Utf16);
        assert_eq!((at(0, 1), at(0, 9), at(1, 2), at(2, 0), at(9, 9)), (1, 2, 8, 10, 10));
    }

    #[test]
    fn numbers_that_are_none_are_the_beginning() {
        let of = |column: Value| Position::of(&json!({"line": 3, "character": column}));
        for column in [json!(-1), json!(null), json!("x")] {
            assert_eq!(of(column), Some(Position { line: 3, column: 0 }));
        }
        assert_eq!(of(json!(2.0)), Some(Position { line: 3, column: 2 }));
        assert_eq!(Position::of(&json!({"character": 1})), None);
    }
}
