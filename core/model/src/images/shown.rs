//! The images that a request shows, and which of them are given up where its provider takes less than
//! was known of it: the oldest, and for a while enough, since each time begins a series.

use bridle_session::Seq;

use crate::RefusedImages;

/// The images that a request shows, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Shown(Vec<One>);

#[derive(Clone, Copy, Debug)]
struct One {
    message: Seq,
    /// Which of the images of the message it is, from 0.
    number: usize,
    /// Its size as Base64.
    bytes: u64,
}

impl Shown {
    /// Adds the next one.
    pub(super) fn add(&mut self, message: Seq, number: usize, bytes: u64) {
        self.0.push(One { message, number, bytes });
    }

    /// What all of them take up, in bytes.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|one| one.bytes).sum()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The messages of those that came behind the event `answered`.
    pub fn newer(&self, answered: Seq) -> Vec<Seq> {
        let mut messages: Vec<Seq> = self.0.iter().map(|one| one.message).collect();
        messages.retain(|message| *message > answered);
        messages.dedup();
        messages
    }

    /// The messages of the oldest images, which are to go where a provider has refused these, and how
    /// many images of the last of them; `None` where there is nothing to give up. `answered` is where the
    /// last answer stands: what no answer has seen yet goes last.
    ///
    /// At least one goes, and where more are left than half of what the provider takes, only for what is
    /// new. So whoever tries again comes to an end, and does not have to each time an image comes.
    pub fn oldest(&self, refused: RefusedImages, answered: Seq) -> Option<(Vec<Seq>, u32)> {
        let all = self.0.len();
        let new = self.0.iter().filter(|one| one.message > answered).count();
        let known = match refused {
            RefusedImages::Many { most: Some(most) } => Some(most as usize),
            RefusedImages::Many { most: None } | RefusedImages::One | RefusedImages::Bytes => None,
        };
        // One that takes more than there are means something else.
        let known = known.filter(|most| *most < all);
        let keep = match known {
            Some(most) => (most / 2).max(new.min(most)),
            None if refused == RefusedImages::Bytes => self.lighter_half(),
            None => all / 2,
        };
        // As long as there are others, what is new stays.
        let keep = if known.is_none() && new < all { keep.max(new) } else { keep };
        let gone = self.0.get(..all.saturating_sub(keep)).unwrap_or_default();
        let last = gone.last()?;
        let mut messages: Vec<Seq> = gone.iter().map(|one| one.message).collect();
        messages.dedup();
        Some((messages, u32::try_from(last.number).unwrap_or(u32::MAX).saturating_add(1)))
    }

    /// How many of the newest have no more than half of the bytes.
    fn lighter_half(&self) -> usize {
        let mut left = self.bytes() / 2;
        let fits = |one: &&One| {
            let rest = left.checked_sub(one.bytes);
            left = rest.unwrap_or(0);
            rest.is_some()
        };
        self.0.iter().rev().take_while(fits).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Images of these sizes, two to a message, the first in the message at 1.
    fn shown(sizes: &[u64]) -> Shown {
        let mut shown = Shown::default();
        for (index, bytes) in sizes.iter().enumerate() {
            shown.add(Seq(1 + index as u64 / 2), index % 2, *bytes);
        }
        shown
    }

    /// How many of so many go, in the last of how many messages how many.
    fn gone(all: usize, answered: u64, refused: RefusedImages) -> (usize, usize, u32) {
        let (messages, of_last) = shown(&vec![1; all]).oldest(refused, Seq(answered)).unwrap();
        (2 * (messages.len() - 1) + of_last as usize, messages.len(), of_last)
    }

    #[test]
    fn half_of_what_is_taken_stays_and_what_is_new() {
        let most = |most| RefusedImages::Many { most: Some(most) };
        assert_eq!(gone(21, 99, most(20)), (11, 6, 1));
        // Of 25, eight are new.
        assert_eq!(gone(25, 9, most(20)), (15, 8, 1));
        assert_eq!(gone(25, 9, most(10)), (18, 9, 2));
        // More is new than is taken.
        assert_eq!(gone(25, 0, most(10)), (15, 8, 1));
        assert_eq!(gone(3, 0, most(1)), (2, 1, 2));
        assert_eq!(gone(3, 0, most(0)), (3, 2, 1));
    }

    #[test]
    fn where_nothing_is_said_the_older_half_goes() {
        for refused in [
            RefusedImages::One,
            RefusedImages::Many { most: None },
            // It takes more than there are, by its own words.
            RefusedImages::Many { most: Some(90) },
        ] {
            assert_eq!(gone(8, 99, refused), (4, 2, 2));
            // Six are new, and then all.
            assert_eq!(gone(8, 1, refused), (2, 1, 2));
            assert_eq!(gone(8, 0, refused), (4, 2, 2));
            assert_eq!(gone(1, 0, refused), (1, 1, 1));
        }
        assert_eq!(Shown::default().oldest(RefusedImages::One, Seq(0)), None);
    }

    #[test]
    fn bytes_are_halved() {
        let of = |sizes: &[u64]| shown(sizes).oldest(RefusedImages::Bytes, Seq(99));
        assert_eq!(of(&[10, 10, 10, 10]), Some((vec![Seq(1)], 2)));
        assert_eq!(of(&[1, 1, 1, 10]), Some((vec![Seq(1), Seq(2)], 2)));
        assert_eq!(of(&[10, 1, 1, 1]), Some((vec![Seq(1)], 1)));
    }

    /// However a provider words it, in the end it is asked without images.
    #[test]
    fn it_comes_to_an_end() {
        for refused in [
            RefusedImages::One,
            RefusedImages::Bytes,
            RefusedImages::Many { most: None },
            RefusedImages::Many { most: Some(3) },
        ] {
            let (mut left, mut rounds) = (100, 0);
            while left > 0 {
                left -= gone(left, 20, refused).0;
                rounds += 1;
            }
            assert!(rounds <= 9, "{refused:?}: {rounds}");
        }
    }
}
