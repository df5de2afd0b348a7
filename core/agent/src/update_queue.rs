//! The way of updates from a driver to whoever shows them: bounded by their number and by their bytes,
//! so that what is not read costs a session the same, however large each of them is.

use std::io;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::display::Display;
use crate::update::{AgentUpdate, Compaction};

/// A queue of at most `updates`, which together hold at most `bytes`. One that is larger by itself has
/// all of the queue.
pub fn update_queue(updates: usize, bytes: u32) -> (UpdateSender, UpdateReceiver) {
    let (sender, receiver) = mpsc::channel(updates);
    let room = Arc::new(Semaphore::new(bytes as usize));
    (UpdateSender { queue: sender, room, bytes }, UpdateReceiver(receiver))
}

/// The driver's end.
#[derive(Debug)]
pub struct UpdateSender {
    queue: mpsc::Sender<(AgentUpdate, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
    bytes: u32,
}

/// The end of whoever shows them. What is dropped with it, nobody sees.
#[derive(Debug)]
pub struct UpdateReceiver(mpsc::Receiver<(AgentUpdate, OwnedSemaphorePermit)>);

/// Nobody takes updates any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody takes the updates of this session any more")]
pub struct NobodyListens;

impl UpdateSender {
    /// Waits until there is room.
    ///
    /// # Errors
    /// When nobody takes it.
    ///
    /// # Cancel safety
    /// When it is dropped, the update is lost.
    pub async fn send(&self, update: AgentUpdate) -> Result<(), NobodyListens> {
        let weight = u32::try_from(weight(&update)).unwrap_or(u32::MAX).min(self.bytes);
        let room = Arc::clone(&self.room).acquire_many_owned(weight);
        // What waits in a queue that is dropped gives its room back.
        let room = room.await.map_err(|_| NobodyListens)?;
        self.queue.send((update, room)).await.map_err(|_| NobodyListens)
    }
}

impl UpdateReceiver {
    /// The next update; `None` when the driver has ended.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn recv(&mut self) -> Option<AgentUpdate> {
        self.0.recv().await.map(|(update, _)| update)
    }

    /// How many wait.
    #[expect(clippy::len_without_is_empty, reason = "whether any waits, `try_recv` tells")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The next update, if it is there.
    ///
    /// # Errors
    /// When none is there, or the driver has ended.
    pub fn try_recv(&mut self) -> Result<AgentUpdate, mpsc::error::TryRecvError> {
        self.0.try_recv().map(|(update, _)| update)
    }
}

/// About how many bytes an update holds, without those that each has.
fn weight(update: &AgentUpdate) -> usize {
    match update {
        AgentUpdate::UserMessage { content, .. } => json_size(content),
        AgentUpdate::MessageChunk { text, .. }
        | AgentUpdate::ThoughtChunk { text, .. }
        | AgentUpdate::ToolProgress { text, .. }
        | AgentUpdate::ToolOutput { lines: text, .. } => text.len(),
        AgentUpdate::ToolCall { arguments, display, .. } => {
            arguments.len().saturating_add(of_display(display))
        }
        AgentUpdate::ToolCallUpdate { display, .. } => display.as_ref().map_or(0, of_display),
        AgentUpdate::Todo(items) => json_size(items),
        AgentUpdate::Notice { title, detail, .. } => {
            title.len().saturating_add(detail.as_ref().map_or(0, String::len))
        }
        AgentUpdate::Replay(updates) => updates.iter().map(weight).fold(0, usize::saturating_add),
        AgentUpdate::Compaction(_, Compaction::Done { summary: Some(text), .. })
        | AgentUpdate::Compaction(_, Compaction::Failed { message: text }) => text.len(),
        AgentUpdate::BlockEnded
        | AgentUpdate::Compaction(..)
        | AgentUpdate::Fill(_)
        | AgentUpdate::Usage(_)
        | AgentUpdate::Title(_)
        | AgentUpdate::Mode(_)
        | AgentUpdate::Model(_)
        | AgentUpdate::Effort(_)
        | AgentUpdate::Joined { .. }
        | AgentUpdate::TurnEnded { .. } => 0,
    }
}

fn of_display(display: &Display) -> usize {
    let diffs = display
        .diffs
        .iter()
        .map(|it| it.new_text.len().saturating_add(it.old_text.as_ref().map_or(0, String::len)));
    let texts = [&display.text, &display.message];
    let texts = texts.into_iter().flatten().map(String::len);
    diffs.chain(texts).fold(display.raw_output.as_ref().map_or(0, json_size), usize::saturating_add)
}

/// How long something is as JSON, in bytes, without writing it anywhere. 0 for what cannot be JSON.
pub fn json_size(value: &impl serde::Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).map_or(0, |()| count.0)
}

#[cfg(test)]
mod tests {
    use bridle_session::{MessageId, ToolCallId};
    use futures::FutureExt as _;

    use super::*;
    use crate::display::{FileDiff, ToolKind};
    use crate::update::ToolStatus;

    fn chunk(bytes: usize) -> AgentUpdate {
        AgentUpdate::MessageChunk { id: MessageId::new("m"), text: "x".repeat(bytes) }
    }

    #[test]
    fn large_updates_wait_for_room_and_none_waits_for_ever() {
        let (sender, mut receiver) = update_queue(8, 100);
        for _ in 0..2 {
            assert!(sender.send(chunk(50)).now_or_never().is_some());
        }
        assert!(sender.send(chunk(1)).now_or_never().is_none(), "there is no room");
        assert!(sender.send(AgentUpdate::BlockEnded).now_or_never().is_some());
        receiver.try_recv().unwrap();
        assert!(sender.send(chunk(50)).now_or_never().is_some());
        while receiver.try_recv().is_ok() {}
        assert!(sender.send(chunk(1000)).now_or_never().is_some(), "larger than all the room");
        assert!(sender.send(chunk(1)).now_or_never().is_none());
    }

    #[test]
    fn many_updates_wait_as_well_and_nobody_waits_for_a_reader_that_is_gone() {
        let (sender, receiver) = update_queue(2, 100);
        for _ in 0..2 {
            assert!(sender.send(chunk(50)).now_or_never().is_some());
        }
        let mut waiting = Box::pin(sender.send(chunk(1)));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(receiver);
        assert_eq!(waiting.now_or_never(), Some(Err(NobodyListens)));
    }

    #[test]
    fn what_is_shown_of_a_call_counts_with_all_its_parts() {
        let mut display = Display::new("edit", ToolKind::Edit);
        let text = || "x".repeat(100);
        display.text = Some(text());
        display.raw_output = Some(text().into());
        let (path, old_text) = ("/a".into(), Some(text()));
        display.diffs = vec![FileDiff { path, old_text, new_text: text() }];
        let id = ToolCallId::new("c");
        let status = ToolStatus::Completed;
        let update = AgentUpdate::ToolCallUpdate { id, status, display: Some(display) };
        assert_eq!(weight(&update), 402);
        assert_eq!(weight(&AgentUpdate::Replay(vec![update.clone(), update])), 804);
    }
}
