//! What stands before the prompts of a step: the contexts that have changed, and what each prompt
//! refers to, directly before it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bridle_session::{MessageId, StepNumber, UserMessage, UserSource};
use futures::FutureExt as _;
use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use super::Driver;
use super::contexts::told_last;
use super::halt::Halt;
use crate::context::ContextInput;
use crate::reference::{REFERENCE, Reference, ReferenceSource};
use crate::tool::{Observed, SessionChange};
use crate::update::NoticeLevel;

/// How long all that one prompt refers to may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a step begins with.
pub(super) struct StepStartInput {
    /// What the model is told, in order.
    pub(super) messages: Vec<UserMessage>,
    /// What it knows once it is told.
    pub(super) changes: Vec<SessionChange>,
}

impl Driver {
    /// What the model is told before a step that `input` came for.
    pub(super) async fn step_input(
        &mut self,
        step: StepNumber,
        input: Vec<UserMessage>,
        token: &CancellationToken,
    ) -> Result<StepStartInput, Halt> {
        let now = self.context_input(step);
        let mut prompts = Vec::new();
        let mut changes = Vec::new();
        for prompt in input {
            if prompt.source == UserSource::Human {
                for reference in self.references(&prompt, &now, token).await? {
                    let Reference { name, content, changes: known, notice } = reference;
                    let number = prompts.len();
                    prompts.push(UserMessage {
                        id: MessageId::new(format!("reference-{}-{step}-{number}", self.turn)),
                        content,
                        source: UserSource::Context { name: format!("{REFERENCE}{name}") },
                    });
                    changes.extend(known);
                    if let Some(title) = notice {
                        self.notice(NoticeLevel::Warning, title, None).await;
                    }
                }
            }
            prompts.push(prompt);
        }
        // Instructions of the folders that the prompts refer to come with them.
        let now = ContextInput { observed: known_with(&now.observed, &changes), ..now };
        let mut messages = self.changed_contexts(now, token).await?;
        messages.append(&mut prompts);
        Ok(StepStartInput { messages, changes })
    }

    pub(super) fn context_input(&self, step: StepNumber) -> ContextInput {
        let observed = Arc::clone(&self.recorder.session().state().observed);
        let told = Arc::new(told_last(&self.recorder.session().projection()));
        ContextInput { turn: self.turn, step, mode: self.mode, observed, told }
    }

    async fn references(
        &mut self,
        prompt: &UserMessage,
        now: &ContextInput,
        token: &CancellationToken,
    ) -> Result<Vec<Reference>, Halt> {
        let sources = self.scope.all::<dyn ReferenceSource>();
        if sources.is_empty() {
            return Ok(Vec::new());
        }
        let asked = sources.iter().map(|source| source.resolve(prompt, now));
        let asked = AssertUnwindSafe(join_all(asked)).catch_unwind();
        let patience = self.clock.sleep(PATIENCE);
        let found = async {
            tokio::select! {
                biased;
                found = asked => found.ok(),
                () = patience => None,
            }
        };
        let Some(found) = self.unless_cancelled(found, token).await? else {
            let title = "What the prompt refers to could not be read";
            self.notice(NoticeLevel::Warning, title, None).await;
            return Ok(Vec::new());
        };
        Ok(found.into_iter().flatten().collect())
    }
}

/// What the model has seen, with these changes.
fn known_with(observed: &Observed, changes: &[SessionChange]) -> Observed {
    let mut known = Arc::clone(observed);
    for change in changes {
        if let SessionChange::Observed { path, hash: Some(hash) } = change {
            Arc::make_mut(&mut known).insert(path.clone(), hash.clone());
        }
    }
    known
}
