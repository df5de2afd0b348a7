//! How texts and queries are compared: word by word, in lower case.
//!
//! A word is a run of letters and digits. An ideograph or a kana is a word of its own, because its
//! languages put no spaces. Accents count; the loose accents of decomposed text are passed over.
//! The index is given the words that are made here and splits at their spaces only, so it and a
//! reader of the logs agree on what a word is.

use std::ops::Range;

/// What counts of a word, in characters; the rest of a longer one (an encoded blob) is ignored.
const MAX_WORD: usize = 64;

/// The most phrases that the index is asked for. It proposes, the text itself decides.
const MAX_PHRASES: usize = 64;

/// The most places that are marked in one text.
const MAX_MARKS: usize = 1_000;

/// The words of a text.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// Each word with a space behind it.
    spaced: String,
    /// Where each word is: in `spaced`, and in the text.
    places: Vec<(Range<usize>, Range<usize>)>,
}

impl Words {
    pub(crate) fn of(text: &str) -> Self {
        let mut words = Self::default();
        let mut open: Option<Open> = None;
        for (at, c) in text.char_indices() {
            if is_loose_accent(c) {
                continue;
            }
            if !c.is_alphanumeric() || stands_alone(c) || open.as_ref().is_some_and(Open::alone) {
                words.close(open.take());
            }
            if c.is_alphanumeric() {
                let start = words.spaced.len();
                let alone = stands_alone(c);
                let word = open.get_or_insert(Open { start, from: at, to: at, chars: 0, alone });
                word.to = at.saturating_add(c.len_utf8());
                word.chars = word.chars.saturating_add(1);
                if word.chars <= MAX_WORD {
                    words.spaced.extend(c.to_lowercase());
                }
            }
        }
        words.close(open);
        words
    }

    fn close(&mut self, open: Option<Open>) {
        if let Some(word) = open {
            self.places.push((word.start..self.spaced.len(), word.from..word.to));
            self.spaced.push(' ');
        }
    }

    /// The words in one line, as the index takes them.
    pub(crate) fn into_spaced(self) -> String {
        self.spaced
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        self.places.iter().map(|(word, _)| self.spaced.get(word.clone()).unwrap_or_default())
    }
}

/// A word that may go on.
struct Open {
    start: usize,
    from: usize,
    to: usize,
    chars: usize,
    alone: bool,
}

impl Open {
    fn alone(&self) -> bool {
        self.alone
    }
}

fn is_loose_accent(c: char) -> bool {
    ('\u{300}'..='\u{36f}').contains(&c)
}

fn stands_alone(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

/// What is looked for: every phrase, anywhere in one text. The words that were typed without a
/// space between them are a phrase; the last word of all may go on.
#[derive(Debug)]
pub(crate) struct Query {
    phrases: Vec<Words>,
}

impl Query {
    /// `None` when nothing that was typed is a word.
    pub(crate) fn new(typed: &str) -> Option<Self> {
        let phrases = typed.split_whitespace().map(Words::of).filter(|words| !words.is_empty());
        let phrases: Vec<_> = phrases.collect();
        (!phrases.is_empty()).then_some(Self { phrases })
    }

    /// A query of the index whose answer holds every text that [`Query::find`] finds. Words are
    /// letters and digits in quotation marks, so nothing in them is syntax.
    pub(crate) fn to_match(&self) -> String {
        let asked = self.phrases.iter().take(MAX_PHRASES);
        let mut quoted: Vec<_> =
            asked.map(|words| format!("\"{}\"", words.spaced.trim_end())).collect();
        if self.phrases.len() <= MAX_PHRASES
            && let Some(last) = quoted.last_mut()
        {
            last.push('*');
        }
        quoted.join(" AND ")
    }

    /// Where the phrases are in the text, in its order and at most 1,000; `None` when one is
    /// missing.
    pub(crate) fn find(&self, text: &str) -> Option<Vec<Range<usize>>> {
        let words = Words::of(text);
        let mut marks = Vec::new();
        for (number, phrase) in self.phrases.iter().enumerate() {
            let goes_on = number.saturating_add(1) == self.phrases.len();
            let before = marks.len();
            marks.extend(occurrences(&words, phrase, goes_on).take(MAX_MARKS));
            if marks.len() == before {
                return None;
            }
        }
        marks.sort_by_key(|mark| (mark.start, mark.end));
        marks.dedup_by(|next, mark| {
            let inside = next.start < mark.end;
            mark.end = if inside { mark.end.max(next.end) } else { mark.end };
            inside
        });
        marks.truncate(MAX_MARKS);
        Some(marks)
    }
}

fn occurrences<'a>(
    words: &'a Words,
    phrase: &'a Words,
    goes_on: bool,
) -> impl Iterator<Item = Range<usize>> + 'a {
    let len = phrase.places.len();
    words.places.windows(len).filter_map(move |places| {
        let mut pairs = places.iter().zip(phrase.iter()).enumerate();
        let fits = pairs.all(|(number, ((word, _), asked))| {
            let word = words.spaced.get(word.clone()).unwrap_or_default();
            let may_go_on = goes_on && number.saturating_add(1) == len;
            word == asked || may_go_on && word.starts_with(asked)
        });
        let (_, first) = places.first().filter(|_| fits)?;
        let (_, last) = places.last()?;
        Some(first.start..last.end)
    })
}
