//! What a part has set up, and how that is undone: newest first, one after the other, to the end.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use futures::future::BoxFuture;

/// Why something could not be undone.
pub type UndoError = Box<dyn std::error::Error + Send + Sync>;

type Undo = Box<dyn FnOnce() -> BoxFuture<'static, Result<(), UndoError>> + Send>;

/// One effect that could not be undone; the others were undone all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectFailure {
    /// The row that owned the effect.
    pub row: String,
    /// What it was, in its owner's words.
    pub effect: String,
    /// What went wrong.
    pub reason: String,
}

impl fmt::Display for EffectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} could not be undone: {}", self.row, self.effect, self.reason)
    }
}

/// One thing that was set up.
pub(crate) struct Effect {
    label: Cow<'static, str>,
    undo: Undo,
}

impl Effect {
    /// Undone by dropping `guard`.
    pub(crate) fn guard(label: Cow<'static, str>, guard: impl Send + 'static) -> Self {
        let undo = move || {
            drop(guard);
            futures::future::ready(Ok(())).boxed()
        };
        Self { label, undo: Box::new(undo) }
    }

    /// Undone by running `undo` to its end.
    pub(crate) fn call<F>(
        label: Cow<'static, str>,
        undo: impl FnOnce() -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), UndoError>> + Send + 'static,
    {
        Self { label, undo: Box::new(move || undo().boxed()) }
    }

    /// Undoes it; a panic is a failure like another.
    pub(crate) async fn undo(self, row: &str) -> Result<(), EffectFailure> {
        let Self { label, undo } = self;
        let undone = AssertUnwindSafe(async move { undo().await }).catch_unwind().await;
        let reason = match undone {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("panicked: {}", panic_text(&*panic)),
        };
        Err(EffectFailure { row: row.to_owned(), effect: label.into_owned(), reason })
    }
}

/// The effects of one owner, oldest first.
#[derive(Default)]
pub(crate) struct Effects(Vec<Effect>);

impl Effects {
    pub(crate) fn push(&mut self, effect: Effect) {
        self.0.push(effect);
    }

    /// Undoes everything, newest first.
    pub(crate) async fn undo(mut self, row: &str) -> Vec<EffectFailure> {
        let mut failures = Vec::new();
        while let Some(effect) = self.0.pop() {
            failures.extend(effect.undo(row).await.err());
        }
        failures
    }
}

/// The text of a panic, where it has one.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
