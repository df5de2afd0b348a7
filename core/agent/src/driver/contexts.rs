//! Runtime context: each source is asked before each step, and the model is told what has changed
//! since it was told last.
//!
//! What it was told last is read from the surface, so whatever takes a message off the surface
//! makes the source speak again.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use bridle_session::{Content, Message, MessageId, StepNumber, UserMessage, UserSource};
use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

use super::Driver;
use super::halt::Halt;
use crate::context::{ContextInput, ContextSource};
use crate::update::NoticeLevel;

/// How long one source may take.
const PATIENCE: Duration = Duration::from_secs(30);

impl Driver {
    /// What the sources have to say that the model has not read yet.
    pub(super) async fn changed_contexts(
        &mut self,
        step: StepNumber,
        token: &CancellationToken,
    ) -> Result<Vec<UserMessage>, Halt> {
        let now = ContextInput { turn: self.turn, step, mode: self.mode };
        let mut messages = Vec::new();
        for source in self.scope.all::<dyn ContextSource>() {
            let patience = self.clock.sleep(PATIENCE);
            let collected = async {
                tokio::select! {
                    biased;
                    text = AssertUnwindSafe(source.collect(&now)).catch_unwind() => text.ok(),
                    () = patience => None,
                }
            };
            let Some(text) = self.unless_cancelled(collected, token).await? else {
                let title = format!("The context \"{}\" could not be read", source.name());
                self.notice(NoticeLevel::Warning, title, None).await;
                continue;
            };
            let known = self.told_last(source.name());
            let text = match (text, known) {
                (Some(text), Some(known)) if text == known => continue,
                (Some(text), _) => text,
                (None, Some(known)) if known != withdrawn(source.name()) => {
                    withdrawn(source.name())
                }
                (None, _) => continue,
            };
            messages.push(UserMessage {
                id: MessageId::new(format!("context-{}-{step}-{}", self.turn, source.name())),
                content: vec![Content::text(text)],
                source: UserSource::Context { name: source.name().to_owned() },
            });
        }
        Ok(messages)
    }

    /// What a source said last of what the model reads.
    fn told_last(&self, source: &str) -> Option<String> {
        let surface = self.recorder.session().projection();
        surface.messages().rev().find_map(|message| match message {
            Message::User(message) => match (&message.source, message.content.as_slice()) {
                (UserSource::Context { name }, [Content::Text { text }]) if name == source => {
                    Some(text.clone())
                }
                _ => None,
            },
            _ => None,
        })
    }
}

fn withdrawn(source: &str) -> String {
    format!("[{source}: what was said under this name does not hold any more.]")
}
