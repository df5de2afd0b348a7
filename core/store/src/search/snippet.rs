//! The part of a text that shows a hit.

use std::ops::Range;

/// How much is shown before the first hit, in bytes.
const BEFORE: usize = 60;

/// How much is shown together, in bytes.
const LENGTH: usize = 240;

/// A few words around a hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snippet {
    /// The words, on one line: line ends and other control characters are spaces.
    pub text: String,
    /// Where the hits are in `text`, in bytes, in its order.
    pub marks: Vec<Range<usize>>,
    /// Whether something stands before it.
    pub cut_before: bool,
    /// Whether something stands behind it.
    pub cut_behind: bool,
}

impl Snippet {
    /// Cuts what is around the first of the marks out of `text`; `marks` are in its order.
    pub(crate) fn cut(text: &str, marks: &[Range<usize>]) -> Self {
        let first = marks.first().map_or(0, |mark| mark.start);
        let shown = window(text, first);
        let mut snippet = Self {
            text: String::new(),
            marks: Vec::new(),
            cut_before: shown.start > 0,
            cut_behind: shown.end < text.len(),
        };
        let mut at = shown.start;
        for mark in marks.iter().filter(|mark| mark.start < shown.end) {
            snippet.push(text, at..mark.start);
            let start = snippet.text.len();
            at = mark.end.min(shown.end);
            snippet.push(text, mark.start..at);
            snippet.marks.push(start..snippet.text.len());
        }
        snippet.push(text, at..shown.end);
        snippet
    }

    fn push(&mut self, text: &str, part: Range<usize>) {
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        self.text.extend(text.get(part).unwrap_or_default().chars().map(plain));
    }
}

/// Begins at a word, if one begins in the space before the hit.
fn window(text: &str, hit: usize) -> Range<usize> {
    let mut start = text.floor_char_boundary(hit.saturating_sub(BEFORE));
    if start > 0 {
        let before = text.get(start..hit).unwrap_or_default();
        let space = before.char_indices().find(|(_, c)| c.is_whitespace());
        start += space.map_or(0, |(at, c)| at.saturating_add(c.len_utf8()));
    }
    start..text.floor_char_boundary(start.saturating_add(LENGTH))
}
