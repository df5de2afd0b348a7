//! Keeps what was streamed of an answer that is not settled yet, so that a crash in mid-stream
//! loses at most the last second of it.
//!
//! The rate is bounded, each piece is recorded once, and nothing waits for the disk here: the
//! writer makes the pieces durable in its own time. Settling or failing the attempt voids them.

use std::time::Duration;

use bridle_compose::Sleep;
use bridle_model::Assembler;
use bridle_session::{AssistantPartial, MessageId, Route, StepNumber, UnixMillis};

use super::Driver;

/// How long text may have been shown before it is recorded.
const INTERVAL: Duration = Duration::from_secs(1);

/// How much text may have been shown before it is recorded, in bytes.
const PIECE: usize = 8 * 1024;

/// The attempt whose answer is kept, and what of it is not recorded yet.
pub(super) struct Keeper {
    step: StepNumber,
    id: MessageId,
    route: Route,
    recorded_at: UnixMillis,
    unrecorded: usize,
    /// Ends when text waits that no further chunk may come to announce.
    pub(super) pause: Option<Sleep>,
}

impl Keeper {
    pub(super) fn new(step: StepNumber, id: MessageId, route: Route, now: UnixMillis) -> Self {
        Self { step, id, route, recorded_at: now, unrecorded: 0, pause: None }
    }

    fn is_due(&self, now: UnixMillis) -> bool {
        let waited = Duration::from_millis(now.0.saturating_sub(self.recorded_at.0));
        self.unrecorded >= PIECE || (self.unrecorded > 0 && waited >= INTERVAL)
    }
}

impl Driver {
    /// Takes note that `text` more bytes were streamed, and records what is due.
    pub(super) fn keep_partial(
        &mut self,
        keeper: &mut Keeper,
        assembler: &mut Assembler,
        text: usize,
    ) {
        keeper.unrecorded = keeper.unrecorded.saturating_add(text);
        if keeper.is_due(self.recorder.now()) {
            self.record_partial(keeper, assembler);
        } else if keeper.unrecorded > 0 && keeper.pause.is_none() {
            keeper.pause = Some(self.clock.sleep(INTERVAL));
        }
    }

    /// Records what was streamed since the last time.
    pub(super) fn record_partial(&mut self, keeper: &mut Keeper, assembler: &mut Assembler) {
        let now = self.recorder.now();
        (keeper.recorded_at, keeper.unrecorded, keeper.pause) = (now, 0, None);
        let fresh = assembler.take_fresh(now);
        if fresh.blocks.is_empty() {
            return;
        }
        self.record(AssistantPartial {
            turn: self.turn,
            step: keeper.step,
            id: keeper.id.clone(),
            continues: fresh.continues,
            blocks: fresh.blocks,
            route: keeper.route.clone(),
            usage: fresh.usage,
        });
    }
}
