//! Runtime context: every source is asked before each step, all at once, and the model is told
//! what has changed since it was told last.
//!
//! What it was told last is read from the surface, so whatever takes a message off the surface
//! makes the source speak again.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bridle_session::{
    Content, Message, MessageId, Projection, StepNumber, UserMessage, UserSource,
};
use futures::FutureExt as _;
use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use super::Driver;
use super::halt::Halt;
use crate::context::{ContextInput, ContextSource};
use crate::update::NoticeLevel;

/// How long one source may take.
const PATIENCE: Duration = Duration::from_secs(30);

impl Driver {
    /// What the sources have to say that the model has not read yet, in the order of the sources.
    pub(super) async fn changed_contexts(
        &mut self,
        step: StepNumber,
        token: &CancellationToken,
    ) -> Result<Vec<UserMessage>, Halt> {
        let observed = Arc::clone(&self.recorder.session().state().observed);
        let now = ContextInput { turn: self.turn, step, mode: self.mode, observed };
        let sources = self.scope.all::<dyn ContextSource>();
        let clock = Arc::clone(&self.clock);
        let asked = join_all(sources.iter().map(|source| {
            let patience = clock.sleep(PATIENCE);
            async {
                tokio::select! {
                    biased;
                    text = AssertUnwindSafe(source.collect(&now)).catch_unwind() => text.ok(),
                    () = patience => None,
                }
            }
        }));
        let answers = self.unless_cancelled(asked, token).await?;
        let mut messages = Vec::new();
        let mut unread = Vec::new();
        let surface = self.recorder.session().projection();
        let told = told_last(&surface);
        for (source, answer) in sources.iter().zip(answers) {
            let name = source.name();
            let Some(text) = answer else {
                unread.push(name);
                continue;
            };
            let text = match (text, told.get(name)) {
                (Some(text), Some(told)) if text == *told => continue,
                (Some(text), _) => text,
                (None, Some(told)) if *told != withdrawn(name) => withdrawn(name),
                (None, _) => continue,
            };
            messages.push(UserMessage {
                id: MessageId::new(format!("context-{}-{step}-{name}", self.turn)),
                content: vec![Content::text(text)],
                source: UserSource::Context { name: name.to_owned() },
            });
        }
        for name in unread {
            let title = format!("The context \"{name}\" could not be read");
            self.notice(NoticeLevel::Warning, title, None).await;
        }
        Ok(messages)
    }
}

/// What each source said last of what the model reads.
fn told_last(surface: &Projection) -> HashMap<&str, &str> {
    let said = surface.messages().filter_map(|message| match message {
        Message::User(message) => match (&message.source, message.content.as_slice()) {
            (UserSource::Context { name }, [Content::Text { text }]) => {
                Some((name.as_str(), text.as_str()))
            }
            _ => None,
        },
        _ => None,
    });
    said.collect()
}

fn withdrawn(source: &str) -> String {
    format!("[{source}: what was said under this name does not hold any more.]")
}
