//! What files held when the model saw them last, so that it can be told what has changed since.
//!
//! Only the log says what was seen; this is a memory of it, which may forget.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bridle_compose::{ActivateError, Plugin, ServiceKey, Setup};
use bytes::Bytes;

/// Larger contents (bytes) are not remembered.
const MAX_BYTES: usize = 1024 * 1024;
/// How many bytes are remembered in all; the oldest are forgotten.
const MAX_TOTAL: usize = 32 * 1024 * 1024;

/// Contents by their hash.
#[derive(Default)]
pub(crate) struct SeenTexts {
    kept: Mutex<VecDeque<(String, Bytes)>>,
}

impl SeenTexts {
    /// Remembers a content.
    pub(crate) fn keep(&self, hash: &str, content: Vec<u8>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if content.len() > MAX_BYTES || kept.iter().any(|(known, _)| known == hash) {
            return;
        }
        kept.push_back((hash.to_owned(), content.into()));
        let mut total: usize = kept.iter().map(|(_, content)| content.len()).sum();
        while total > MAX_TOTAL
            && let Some((_, forgotten)) = kept.pop_front()
        {
            total -= forgotten.len();
        }
    }

    /// The content with this hash, if it is remembered.
    pub(crate) fn get(&self, hash: &str) -> Option<Bytes> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(known, _)| known == hash).map(|(_, content)| content.clone())
    }
}

/// Provides [`SeenTexts`] to a session.
pub(crate) struct SeenTextsPlugin;

#[async_trait]
impl Plugin for SeenTextsPlugin {
    const NAME: &'static str = "seen-texts";
    type Config = ();
    type Needs = ();

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<SeenTexts>()]
    }

    async fn activate(&self, (): (), (): (), setup: &Setup) -> Result<(), ActivateError> {
        Ok(setup.provide(Arc::new(SeenTexts::default()))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first_and_what_is_large_at_once() {
        let seen = SeenTexts::default();
        seen.keep("large", vec![0; MAX_BYTES + 1]);
        for number in 0..=MAX_TOTAL / MAX_BYTES {
            seen.keep(&number.to_string(), vec![0; MAX_BYTES]);
        }
        assert!(seen.get("large").is_none() && seen.get("0").is_none());
        assert_eq!(seen.get("1").unwrap().len(), MAX_BYTES);
    }
}
