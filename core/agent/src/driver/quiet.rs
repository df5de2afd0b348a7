//! Tells the person when the model sends nothing for long, while it lasts.
//!
//! It ends nothing: how long a provider may be silent is the adapter's matter.

use std::time::Duration;

use bridle_compose::{Clock, Sleep};
use tokio_util::sync::CancellationToken;

use super::Driver;
use crate::update::NoticeLevel;

/// How long a model may send nothing before the person is told; told again after each doubling.
const QUIET: Duration = Duration::from_secs(30);

/// The time since the model last sent something.
pub(super) struct Quiet {
    /// Rings when it is to be told.
    pub(super) alarm: Sleep,
    /// How long it will have been then.
    lasted: Duration,
}

impl Quiet {
    /// Begins now.
    pub(super) fn new(clock: &dyn Clock) -> Self {
        Self { alarm: clock.sleep(QUIET), lasted: QUIET }
    }
}

impl Driver {
    /// Tells the person that the model still sends nothing.
    pub(super) async fn tell_quiet(&self, quiet: &mut Quiet, token: &CancellationToken) {
        let title = format!("The model has sent nothing for {} s", quiet.lasted.as_secs());
        // As for text: a client that reads slowly never holds its cancel back.
        tokio::select! {
            biased;
            () = self.notice(NoticeLevel::Warning, title, None) => {}
            () = token.cancelled() => {}
        }
        quiet.alarm = self.clock.sleep(quiet.lasted);
        quiet.lasted = quiet.lasted.saturating_mul(2);
    }
}
