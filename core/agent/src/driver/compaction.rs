//! When the conversation is shortened: before a request that would come too near to the window, after
//! one that was refused as too long, or because a person asks. How is [`job`]'s matter.
//!
//! Design: compaction.

mod job;
mod summary;

use std::sync::Arc;

use bridle_model::{FailureCode, ModelFailure, PreparedCall, RouteLimits};
use bridle_session::{
    CompactionTrigger, Message, StepNumber, UserMessage, UserSource, estimate_prose,
};
use tokio_util::sync::CancellationToken;

use self::job::{Job, Shortened};
use super::Driver;
use super::halt::Halt;
use crate::compaction::{CompactionConfig, Unread, tokens_of};
use crate::update::{NoticeLevel, TurnOutcome};

impl Driver {
    /// Shortens the conversation before a request on `call`'s route that would be too large with
    /// `input`, or behind an answer that filled the window. Says whether it did.
    pub(super) async fn relieve(
        &mut self,
        call: &PreparedCall,
        step: StepNumber,
        input: &[UserMessage],
        token: &CancellationToken,
    ) -> Result<bool, Halt> {
        let was_full = std::mem::take(&mut self.window_was_full);
        let Some(config) = self.automatic() else { return Ok(false) };
        let Some(sizes) = config.sizes(call.limits()) else { return Ok(false) };
        let sizes = sizes.and_then(|sizes| sizes.beside(self.fixed()));
        let sizes = sizes.map_err(|why| unfit(call, &why))?;
        if was_full {
            let full = ModelFailure::new(FailureCode::ContextOverflow, "The window is full.");
            return self.recover(call.limits(), step, &full, token).await;
        }
        let new = self.corrected(input.iter().map(|message| Message::User(message).tokens()).sum());
        let size = self.recorder.session().state().context_size.tokens().saturating_add(new);
        // What is too long by itself fits into no conversation, however short.
        if size <= sizes.trigger || new > sizes.window {
            return Ok(false);
        }
        let job = Job::before(size, step, sizes);
        // What could not be shortened may still fit.
        Ok(matches!(self.shorten(job, token).await?, Shortened::Yes))
    }

    /// Shortens the conversation after `failure` said that a request is too long. Says whether it
    /// did; it cannot where the window is not known.
    ///
    /// # Errors
    /// The failure and why nothing was done about it.
    pub(super) async fn recover(
        &mut self,
        limits: RouteLimits,
        step: StepNumber,
        failure: &ModelFailure,
        token: &CancellationToken,
    ) -> Result<bool, Halt> {
        let Some(config) = self.scope.get::<CompactionConfig>() else { return Ok(false) };
        let Some(Ok(sizes)) = config.sizes(limits) else { return Ok(false) };
        let unread = Unread::of(&self.recorder.session().projection());
        let input = unread.filter(|unread| unread.is_input);
        if let Some(input) = input.filter(|it| self.corrected(it.tokens) > sizes.window) {
            return Err(self.withdraw_too_long(input, failure)?);
        }
        if !config.auto {
            let message = format!(
                "{} `/compact` shortens the conversation; it does not happen by itself because \
                 `auto` is off under [compaction] in config.toml.",
                failure.message
            );
            return Err(ModelFailure { message, ..failure.clone() }.into());
        }
        let refused = self.recorder.session().state().context_size.tokens();
        let job = || Job::new(CompactionTrigger::Overflow, step, sizes.below(refused));
        let why = match self.shorten(job(), token).await? {
            Shortened::Yes => return Ok(true),
            _ if self.prune_all(&job()).await? => return Ok(true),
            Shortened::Nothing => match input {
                Some(input) => return Err(self.withdraw_too_long(input, failure)?),
                None => "nothing of it can be left out".to_owned(),
            },
            Shortened::No(failure) => failure.message,
        };
        let fill = self.fill().named().map(|(name, tokens)| format!("{name} {tokens}")).join(", ");
        let message = format!(
            "{} The conversation could not be shortened: {why}. Its parts in about so many tokens: \
             {fill}. `/compact` tries again; a new session begins without all of it.",
            failure.message
        );
        Err(ModelFailure { message, ..failure.clone() }.into())
    }

    /// The least that what is in every request may be: the system prompt, and the tools that are offered
    /// however small the window is; their definitions are up to a third smaller than their estimate.
    fn fixed(&self) -> u64 {
        let system = estimate_prose(self.assembly.system_prompt.len());
        let all = system.saturating_add(tokens_of(self.assembly.own_specs()));
        self.corrected(all.saturating_mul(2) / 3)
    }

    /// Whether something of the conversation can go on the route that answered last.
    pub(super) fn can_be_shortened(&self) -> bool {
        let context = self.recorder.session().state().context.as_ref();
        let limits = context.map(|it| RouteLimits { window: it.window, max_output: it.max_output });
        let sizes = self.automatic().zip(limits).and_then(|(config, limits)| config.sizes(limits));
        let Some(Ok(sizes)) = sizes else { return false };
        let job = Job::new(CompactionTrigger::Overflow, StepNumber::default(), sizes);
        self.worthwhile(&job).is_some()
    }

    /// The settings, where conversations are shortened by themselves.
    pub(super) fn automatic(&self) -> Option<Arc<CompactionConfig>> {
        self.scope.get::<CompactionConfig>().filter(|config| config.auto)
    }

    /// Shortens the conversation because a person asks, between the turns.
    pub(super) async fn compact(&mut self, focus: &str, token: &CancellationToken) -> TurnOutcome {
        match self.compact_between_turns(focus, token).await {
            Ok(()) => TurnOutcome::EndTurn,
            Err(Halt::Cancelled) => TurnOutcome::Cancelled,
            Err(Halt::Failed(failure)) => TurnOutcome::Failed(failure),
        }
    }

    async fn compact_between_turns(
        &mut self,
        focus: &str,
        token: &CancellationToken,
    ) -> Result<(), Halt> {
        let Some(config) = self.scope.get::<CompactionConfig>() else {
            let title = "The row `compaction` is not active; `bridle config show` says why.";
            self.notice(NoticeLevel::Warning, title, None).await;
            return Ok(());
        };
        self.assemble()?;
        let step = StepNumber::default();
        let call = self.resolve(step, 1, token).await?;
        let sizes =
            config.sizes(call.limits()).ok_or_else(|| unfit(&call, "its window is not known"))?;
        let sizes = sizes.and_then(|sizes| sizes.beside(self.fixed()));
        let mut sizes = sizes.map_err(|why| unfit(&call, &why))?;
        // Somebody who asks early wants it shorter than it is, not than it may become.
        let used = self.recorder.session().state().context_size.tokens();
        sizes.tail = sizes.tail.min(used.saturating_mul(sizes.tail) / sizes.trigger.max(1));
        let focus = Some(focus.trim()).filter(|focus| !focus.is_empty());
        let job = Job::new(CompactionTrigger::Person, step, sizes).dwelling_on(focus);
        match self.shorten(job, token).await? {
            Shortened::Yes => Ok(()),
            Shortened::Nothing => {
                let title = "There is nothing to shorten: the conversation is as short as it gets.";
                self.notice(NoticeLevel::Info, title, None).await;
                Ok(())
            }
            Shortened::No(failure) => Err(failure.into()),
        }
    }

    /// The input of a step whose conversation was shortened under it: what its context sources had
    /// said may be gone with it, and is said again.
    pub(super) async fn tell_again(
        &mut self,
        step: StepNumber,
        input: &mut Vec<UserMessage>,
        token: &CancellationToken,
    ) -> Result<(), Halt> {
        let mut said = self.changed_contexts(self.context_input(step), token).await?;
        said.retain(|message| !input.iter().any(|other| same_source(other, message)));
        input.splice(0..0, said);
        Ok(())
    }
}

fn same_source(one: &UserMessage, other: &UserMessage) -> bool {
    matches!(&one.source, UserSource::Context { .. }) && one.source == other.source
}

fn unfit(call: &PreparedCall, why: &str) -> ModelFailure {
    let message = format!("The conversation cannot be shortened for {}: {why}.", call.route());
    ModelFailure::new(FailureCode::InvalidRequest, message)
}
