//! How often a server was lost lately, and what follows: another start after a pause that grows, or none for a
//! while.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

/// How often it may be lost within [`WINDOW`] before it is given up.
const MAX_LOSSES: usize = 4;

/// For how long a loss counts.
const WINDOW: Duration = Duration::from_secs(300);

/// The pause after the second loss; each next one is twice as long. After the first there is none.
const PAUSE: Duration = Duration::from_millis(500);

/// When a server was lost lately.
#[derive(Debug, Default)]
pub(crate) struct Losses(VecDeque<SystemTime>);

/// What follows a loss.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It may be started again after this time.
    Pause(Duration),
    /// It was lost too often to be started before this time is over.
    GiveUp { times: usize, pause: Duration },
}

impl Losses {
    /// Takes note of a loss.
    pub(crate) fn add(&mut self, now: SystemTime) -> Next {
        let age = |loss: &SystemTime| now.duration_since(*loss).unwrap_or_default();
        self.0.push_back(now);
        self.0.retain(|loss| age(loss) < WINDOW);
        let times = self.0.len();
        if times >= MAX_LOSSES {
            let left = |first| WINDOW.saturating_sub(age(first));
            return Next::GiveUp { times, pause: self.0.front().map_or(WINDOW, left) };
        }
        let doubled = u32::try_from(times).unwrap_or_default().checked_sub(2);
        Next::Pause(doubled.map_or(Duration::ZERO, |doubled| PAUSE.saturating_mul(1 << doubled)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_it_is_given_up_and_old_losses_do_not_count() {
        let mut losses = Losses::default();
        let mut at = |seconds| losses.add(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let pause = |millis| Next::Pause(Duration::from_millis(millis));
        assert_eq!([at(0), at(10), at(20)], [pause(0), pause(500), pause(1_000)]);
        assert_eq!(at(30), Next::GiveUp { times: 4, pause: Duration::from_secs(270) });
        // The first one is over by then.
        assert_eq!(at(300), Next::GiveUp { times: 4, pause: Duration::from_secs(10) });
        assert_eq!([at(700), at(701)], [pause(0), pause(500)]);
    }
}
