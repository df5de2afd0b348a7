//! A model's refusal: what its provider says of it is told and logged, also where there is no
//! answer that could carry it.

use bridle_model::{Assembled, FailureCode, ModelFailure, Refusal, StopReason};
use bridle_session::{StepNumber, Usage};

use super::Driver;
use super::halt::Halt;
use crate::update::NoticeLevel;

impl Driver {
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
