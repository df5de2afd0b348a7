//! Input that does not stay before the model: what it refused, and what is too long for its window.
//! Sent again it would be refused again, with everything after it. The log keeps it.
//!
//! What a provider says of a refusal is told and logged, also where there is no answer that could
//! carry it.

use bridle_model::{Assembled, FailureCode, ModelFailure, Refusal, StopReason};
use bridle_session::{
    Content, Draft, Message, MessageId, Seq, StepNumber, SurfaceOp, Usage, UserMessage, UserSource,
};

use super::Driver;
use super::halt::Halt;
use crate::compaction::Unread;
use crate::update::NoticeLevel;

impl Driver {
    /// Takes everything from `first` on off the surface, the system prompt apart; `note` stands in its
    /// place, under the name `why`.
    pub(super) fn withdraw(&mut self, first: Seq, why: &str, note: &str) -> Result<(), Halt> {
        let projection = self.recorder.session().projection();
        let input = projection
            .entries()
            .filter(|(seq, message)| *seq >= first && !matches!(message, Message::System(_)))
            .map(|(seq, _)| seq)
            .collect::<Vec<_>>();
        let (Some(first), Some(last)) = (input.first(), input.last()) else {
            return Ok(());
        };
        let note = UserMessage {
            id: MessageId::new(format!("{why}-{}", self.turn)),
            content: vec![Content::text(note)],
            source: UserSource::Context { name: why.to_owned() },
        };
        let op = SurfaceOp::Replace { first: *first, last: *last, covers: input.clone() };
        self.recorder.append_draft(Draft { data: note.into(), surface: Some(op) })?;
        Ok(())
    }

    /// Takes input off the surface that is too long for the window: it would make every later request
    /// too long, too. What the turn ends with.
    pub(super) fn withdraw_too_long(
        &mut self,
        input: Unread,
        failure: &ModelFailure,
    ) -> Result<Halt, Halt> {
        let tokens = self.corrected(input.tokens);
        let note = format!(
            "[What the user sent here was too long for the window (about {tokens} tokens) and was \
             removed before anybody read it; they have been told.]"
        );
        self.withdraw(input.span.first, "too-long", &note)?;
        let message = format!(
            "{} What you sent last (about {tokens} tokens, with what it refers to) does not fit, and \
             is withdrawn: the model does not read it, and the conversation goes on without it. Send \
             less of it, or name files and let the model read what it needs.",
            failure.message
        );
        Ok(ModelFailure { message, ..failure.clone() }.into())
    }

    /// Tells why the model refuses, if it does. What a refusal without a block has cost is logged
    /// here, because no message will say it.
    pub(super) async fn explain_refusal(
        &mut self,
        step: StepNumber,
        attempt: u32,
        answer: &Assembled,
    ) -> Result<(), Halt> {
        if answer.stop != Some(StopReason::Refusal) {
            return Ok(());
        }
        let detail = answer.refusal.as_ref().and_then(reason);
        let message = detail.as_deref().unwrap_or("the provider gave no reason");
        let failure = ModelFailure::new(FailureCode::ContentRefused, message);
        let usage = if answer.blocks.is_empty() { answer.usage } else { Usage::default() };
        self.record_attempt(step, attempt, &failure, usage)?;
        self.notice(NoticeLevel::Warning, "The model refused.", detail).await;
        Ok(())
    }
}

/// The provider's sentence and its word for the kind, as far as it gave them.
fn reason(refusal: &Refusal) -> Option<String> {
    match (&refusal.explanation, &refusal.category) {
        (Some(sentence), Some(word)) => Some(format!("{sentence} ({word})")),
        (Some(text), None) | (None, Some(text)) => Some(text.clone()),
        (None, None) => None,
    }
}
