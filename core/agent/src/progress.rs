//! Live output of running calls on its way to the driver: of each call the newest text, which takes
//! the place of the one before, and the lines since they were last taken.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bridle_session::ToolCallId;
use tokio::sync::Notify;

use crate::tool::Progress;

/// How many bytes of lines of one call wait; the oldest lines make room.
const LINES_LIMIT: usize = 64 * 1024;

/// Where tool bodies put live output and the driver picks it up. It holds a bounded amount for each
/// call, so a loud command costs no more memory than a quiet one.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgressBoard {
    calls: Arc<Mutex<BTreeMap<ToolCallId, Live>>>,
    changed: Arc<Notify>,
}

/// What a call has to show.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// What should be visible now.
    pub(crate) text: Option<String>,
    /// What has been written since the last look; may be empty.
    pub(crate) lines: String,
}

impl ProgressBoard {
    /// The sink of one call.
    pub(crate) fn sink(&self, call: ToolCallId) -> Progress {
        let (shown, written, same) = (self.clone(), self.clone(), call.clone());
        Progress::new(move |text| shown.put(&call, |live| live.text = Some(text)))
            .with_lines(move |lines| written.put(&same, |live| live.add(&lines)))
    }

    fn put(&self, call: &ToolCallId, change: impl FnOnce(&mut Live)) {
        change(self.lock().entry(call.clone()).or_default());
        self.changed.notify_one();
    }

    /// Completes when there is something to take.
    ///
    /// # Cancel safety
    /// Cancel safe: a change is remembered for the next call.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Takes what every call has to show.
    pub(crate) fn take(&self) -> BTreeMap<ToolCallId, Live> {
        std::mem::take(&mut *self.lock())
    }

    /// Takes the lines that are left of `call`. Its text is dropped: its result says more.
    pub(crate) fn rest(&self, call: &ToolCallId) -> String {
        self.lock().remove(call).unwrap_or_default().lines
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<ToolCallId, Live>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    fn add(&mut self, lines: &str) {
        self.lines.push_str(lines);
        let excess = self.lines.len().saturating_sub(LINES_LIMIT);
        if excess > 0 {
            // From the first whole line that fits.
            let bytes = self.lines.bytes().enumerate().skip(excess.saturating_sub(1));
            let from = bytes.filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1).next();
            self.lines.drain(..from.unwrap_or(self.lines.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_nobody_takes_make_room_for_newer_ones() {
        let board = ProgressBoard::default();
        let call = ToolCallId::new("c");
        let sink = board.sink(call.clone());
        for number in 0..20_000 {
            sink.write(format!("line é {number}\n"));
        }
        sink.show("text".to_owned());
        let live = board.take().remove(&call).unwrap();
        assert!(live.lines.len() <= LINES_LIMIT && live.lines.len() > LINES_LIMIT - 20);
        assert!(live.lines.starts_with("line") && live.lines.ends_with("line é 19999\n"));
        assert_eq!(live.text.as_deref(), Some("text"));
        sink.write("x".to_owned());
        assert_eq!(board.rest(&call), "x");
        assert_eq!(board.rest(&call), "");
    }
}
