//! Sees when a provider reads a prompt anew that it had cached, and why.
//!
//! A miss costs ten times what a hit does, and most misses are of our own making: a prefix that
//! changed. It judges by the provider's own counts alone and does nothing about them.

use std::fmt;
use std::time::Duration;

use bridle_session::{UnixMillis, Usage};

use crate::PrefixStep;

/// How long a provider keeps what it cached and nobody read.
const KEPT_FOR: Duration = Duration::from_secs(5 * 60);

/// What the last answer of a session left in the provider's cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheWatch {
    tokens: u64,
    at: UnixMillis,
}

/// A prompt was read anew although it had been cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheMiss {
    /// How many tokens were cached and not read from the cache.
    pub tokens: u64,
    /// How the request stood to the one before it. `Grown` means that we changed nothing that we
    /// know of.
    pub step: PrefixStep,
}

impl CacheWatch {
    /// Takes the counts of an answer that is complete at `time`, whose request stood to the one
    /// before it as `step` says. `None` when the cache did what it could, or may have been dropped
    /// because it was not used for five minutes.
    pub fn answered(
        &mut self,
        step: PrefixStep,
        usage: &Usage,
        time: UnixMillis,
    ) -> Option<CacheMiss> {
        let before = std::mem::replace(
            self,
            Self { tokens: usage.cache_read.saturating_add(usage.cache_write), at: time },
        );
        let age = Duration::from_millis(time.0.saturating_sub(before.at.0));
        let missed = before.tokens.saturating_sub(usage.cache_read);
        // Providers round, and a part may be found under an older breakpoint.
        let is_miss = missed > before.tokens / 2;
        (is_miss && age < KEPT_FOR && step != PrefixStep::First)
            .then_some(CacheMiss { tokens: missed, step })
    }
}

impl fmt::Display for CacheMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.step {
            PrefixStep::ToolsChanged => "the tools changed",
            PrefixStep::SeriesChanged => "a new series began",
            PrefixStep::MessagesChanged => "an earlier message changed",
            PrefixStep::TailCut => "the last messages were taken back",
            PrefixStep::First | PrefixStep::Grown => "the provider did not find it",
        };
        write!(f, "{} tokens were read anew and not from the provider's cache: {why}", self.tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(cache_read: u64, cache_write: u64) -> Usage {
        Usage { cache_read, cache_write, ..Usage::default() }
    }

    #[test]
    fn a_cached_prompt_that_is_read_anew_is_a_miss_with_its_cause() {
        let mut watch = CacheWatch::default();
        let mut answered = |step, read, written, time| {
            watch.answered(step, &usage(read, written), UnixMillis(time))
        };
        assert_eq!(answered(PrefixStep::First, 0, 1000, 0), None);
        assert_eq!(answered(PrefixStep::Grown, 1000, 50, 1_000), None, "all of it was read");
        assert_eq!(answered(PrefixStep::Grown, 900, 200, 2_000), None, "most of it was read");
        let miss = answered(PrefixStep::ToolsChanged, 100, 1_000, 3_000).unwrap();
        assert_eq!(miss, CacheMiss { tokens: 1000, step: PrefixStep::ToolsChanged });
        assert_eq!(
            miss.to_string(),
            "1000 tokens were read anew and not from the provider's cache: the tools changed"
        );
        assert_eq!(answered(PrefixStep::Grown, 0, 1_200, 304_000), None, "it may be gone by then");
        let miss = answered(PrefixStep::Grown, 0, 1_300, 305_000).unwrap();
        assert_eq!(miss.tokens, 1_200);
    }

    #[test]
    fn a_provider_that_counts_no_cache_misses_none() {
        let mut watch = CacheWatch::default();
        for time in 0..3 {
            assert_eq!(watch.answered(PrefixStep::Grown, &usage(0, 0), UnixMillis(time)), None);
        }
    }
}
