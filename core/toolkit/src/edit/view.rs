//! A text as it reads when small differences do not count, and the way back to the text itself.

use std::borrow::Cow;

use memchr::memmem;

/// What does not count, from nothing upwards; each step takes in those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// Everything counts.
    Exact,
    /// LF and CR LF are the same.
    LineEnds,
    /// Nor does white space at the ends of lines count.
    TrailingSpace,
    /// Quotes, dashes and spaces that look like the ones of ASCII are those.
    LookAlikes,
}

impl Step {
    /// What was taken as equal, for the model.
    pub(crate) fn note(self) -> &'static str {
        match self {
            Self::Exact => "exactly",
            Self::LineEnds => "with line ends taken as equal; the file keeps its own",
            Self::TrailingSpace => "without regard to white space at the ends of lines",
            Self::LookAlikes => {
                "with typographic quotes, dashes and spaces taken for the plain ones"
            }
        }
    }
}

/// A text in which some things are left out or replaced by something shorter.
pub(super) struct View<'a> {
    pub(super) text: Cow<'a, str>,
    /// Places in `text`, ascending, and how many bytes up to and with them are missing in it.
    missing: Vec<(usize, usize)>,
}

impl<'a> View<'a> {
    /// The view of a whole text at a step from `LineEnds` on.
    pub(super) fn of(body: &'a str, step: Step) -> Self {
        if step <= Step::LineEnds {
            let returns = memmem::find_iter(body.as_bytes(), "\r\n").enumerate();
            let missing: Vec<_> = returns.map(|(before, at)| (at - before, before + 1)).collect();
            let is_same = missing.is_empty();
            let text = if is_same { body.into() } else { body.replace("\r\n", "\n").into() };
            return Self { text, missing };
        }
        let mut view = View { text: Cow::Borrowed(""), missing: Vec::new() };
        let mut text = String::with_capacity(body.len());
        for line in body.split_inclusive('\n') {
            let content = line.strip_suffix('\n').unwrap_or(line);
            let kept = content.trim_end();
            for character in kept.chars() {
                let shown = if step == Step::LookAlikes { plain(character) } else { character };
                view.left_out(text.len(), character.len_utf8() - shown.len_utf8());
                text.push(shown);
            }
            view.left_out(text.len(), content.len() - kept.len());
            if content.len() < line.len() {
                text.push('\n');
            }
        }
        view.text = Cow::Owned(text);
        view
    }

    fn left_out(&mut self, at: usize, bytes: usize) {
        if bytes > 0 {
            let before = self.missing.last().map_or(0, |(_, sum)| *sum);
            self.missing.push((at, before + bytes));
        }
    }

    /// The offset in the text itself. Before a line end that lost something it is before what was
    /// lost, so a region never splits a line end.
    pub(super) fn original(&self, offset: usize) -> usize {
        let before = self.missing.partition_point(|(at, _)| *at < offset);
        let missing = before.checked_sub(1).and_then(|index| self.missing.get(index));
        offset + missing.map_or(0, |(_, sum)| *sum)
    }
}

/// A text that is looked for, as a view shows it. White space at its very end stays, because the
/// line may go on there.
pub(crate) fn sought(text: &str, step: Step) -> Cow<'_, str> {
    if step <= Step::LineEnds {
        return View::of(text, step).text;
    }
    let head = text.rfind('\n').map_or(0, |at| at + 1);
    let (lines, rest) = text.split_at(head);
    let mut shown = View::of(lines, step).text.into_owned();
    let as_shown = |c| if step == Step::LookAlikes { plain(c) } else { c };
    shown.extend(rest.chars().map(as_shown));
    Cow::Owned(shown)
}

/// The character of ASCII that this one looks like.
fn plain(character: char) -> char {
    match character {
        '\u{2018}'..='\u{201b}' | '\u{2032}' => '\'',
        '\u{201c}'..='\u{201f}' | '\u{2033}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_lead_back() {
        let body = "a \t\r\n“b”\u{a0}c\n d  ";
        let view = View::of(body, Step::LookAlikes);
        assert_eq!(view.text, "a\n\"b\" c\n d");
        let back: Vec<usize> = (0..=view.text.len()).map(|at| view.original(at)).collect();
        assert_eq!(back, [0, 1, 5, 8, 9, 12, 14, 15, 16, 17, 18]);
        assert_eq!(View::of("a\r\nb", Step::LineEnds).original(2), 3);
        assert_eq!(sought("a  \nb  ", Step::TrailingSpace), "a\nb  ");
    }
}
