//! When a conversation is shortened and how far: the row `compaction`, its settings and the sizes
//! that follow from them for a route. The driver does it (`driver/compaction.rs` when, `driver/compaction/job.rs` how).
//!
//! Everything here is arithmetic over a projection. Design: compaction.

mod checkpoint;
mod fill;
mod prune;
mod records;
mod span;

use std::sync::Arc;

use async_trait::async_trait;
use bridle_compose::{ActivateError, Plugin, ServiceKey, Setup};
use bridle_model::RouteLimits;
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) use self::checkpoint::{Checkpoint, instruction};
pub use self::fill::Fill;
pub(crate) use self::fill::tokens_of;
pub(crate) use self::prune::{Pruned, prunable};
pub(crate) use self::records::{Outliving, text_of};
pub(crate) use self::span::{Plan, Unread, omission};

/// The source of the message that stands for what was summarised, and of what asks for it.
pub(crate) const SOURCE: &str = "compaction";

/// A window has at least so many times the headroom, so that small windows have room for work, too.
const WINDOW_PER_HEADROOM: u64 = 8;

/// Lets conversations be shortened.
pub struct CompactionPlugin;

/// How a conversation that nears its window is shortened.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CompactionConfig {
    /// Whether it happens by itself: before a request that would come too near to the window, and
    /// when a provider refuses one as too long. `/compact` works in any case.
    pub auto: bool,
    /// How full the window may become first, as a share of it, above 0 and at most 1. Room for the
    /// longest answer and for a summary is kept free in any case.
    pub trigger: f64,
    /// How much of the newest stays word for word, as a share of the window without the longest
    /// answer.
    pub tail: f64,
    /// The most tokens of a summary; in small windows an eighth of the window.
    pub headroom: u64,
}

impl Default for CompactionConfig {
    fn default() -> Self {
        Self { auto: true, trigger: 0.8, tail: 0.16, headroom: 16_384 }
    }
}

#[async_trait]
impl Plugin for CompactionPlugin {
    const NAME: &'static str = "compaction";
    type Config = CompactionConfig;
    type Needs = ();

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<CompactionConfig>()]
    }

    async fn activate(
        &self,
        config: CompactionConfig,
        (): (),
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let is_share = |share: f64| share > 0.0 && share <= 1.0;
        if !(is_share(config.trigger) && is_share(config.tail)) {
            let why = "trigger and tail are shares of the window, above 0 and at most 1";
            return Err(ActivateError::Unable(why.to_owned()));
        }
        Ok(setup.provide(Arc::new(config))?)
    }
}

/// The sizes that hold for a route, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// The context may grow to this.
    pub(crate) trigger: u64,
    /// So much of its end stays.
    pub(crate) tail: u64,
    /// The most of a summary.
    pub(crate) headroom: u64,
    /// What a request may be, so that there is room for the longest answer.
    pub(crate) request: u64,
    /// What a route takes at all.
    pub(crate) window: u64,
}

impl Sizes {
    /// The sizes where so many tokens were refused as too many, which were fewer than the window was
    /// thought to have: by how much nobody knows.
    pub(crate) fn below(self, refused: u64) -> Self {
        let part = |most: u64, eighths: u64| most.min(refused.saturating_mul(eighths) / 8);
        Self {
            trigger: part(self.trigger, 5),
            tail: part(self.tail, 1),
            headroom: part(self.headroom, 1),
            request: part(self.request, 6),
            window: self.window,
        }
    }

    /// Whether there is room to work in beside so many tokens that are in every request.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn beside(self, fixed: u64) -> Result<Self, String> {
        if fixed.saturating_add(self.tail) < self.trigger {
            return Ok(self);
        }
        let Self { window, trigger, .. } = self;
        Err(format!(
            "a window of {window} tokens, of which {trigger} may be used, has no room to work in beside \
             the system prompt and the tools (about {fixed}); choose a model with a larger window, or set \
             a smaller max_output for this one in config.toml, or fewer tools"
        ))
    }
}

impl CompactionConfig {
    /// The sizes for a route with these limits; `None` where its window is not known.
    ///
    /// # Errors
    /// A sentence, where what stays is as much as what may be there: shortening would change nothing.
    pub(crate) fn sizes(&self, limits: RouteLimits) -> Option<Result<Sizes, String>> {
        let RouteLimits { window, max_output } = limits;
        if window == 0 {
            return None;
        }
        let headroom = self.headroom.min(window / WINDOW_PER_HEADROOM);
        let room = window.saturating_sub(max_output);
        let trigger = share(window, self.trigger).min(room.saturating_sub(headroom));
        let tail = share(room, self.tail);
        Some(if tail < trigger {
            Ok(Sizes { trigger, tail, headroom, request: room, window })
        } else {
            Err(format!(
                "a window of {window} tokens has no room to work in beside answers of {max_output} \
                 tokens and a summary of {headroom}; set a smaller max_output for the model, or other \
                 values of trigger, tail and headroom under [compaction] in config.toml"
            ))
        })
    }
}

/// A part of so many tokens.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "windows are far below 2^52 tokens and shares between 0 and 1"
)]
fn share(tokens: u64, share: f64) -> u64 {
    (tokens as f64 * share) as u64
}

#[cfg(test)]
mod tests;
