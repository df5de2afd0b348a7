//! Hooks: typed around-middleware at named points, and observers.
//!
//! A listener gets the input and what comes [`Next`]. It may change the input, change what comes
//! out, or decide itself and call nothing; it cannot call `next` twice, because that consumes it.
//! Listeners of outer scopes stand around those of inner ones; within a scope the earlier stands
//! around the later, unless it was put first.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::effects::panic_text;

/// A point of a loop at which plugins may stand around what happens.
pub trait HookPoint: Send + Sync + 'static {
    /// What a person calls it.
    const NAME: &'static str;
    /// What goes in.
    type Input: Send;
    /// What comes out.
    type Output: Send;
}

/// A listener at a hook point.
#[async_trait]
pub trait Around<P: HookPoint>: Send + Sync + 'static {
    /// Handles one passage, usually by `next.run(input)` with something before or after it.
    async fn around(&self, input: P::Input, next: Next<'_, P>) -> P::Output;
}

type Inner<'a, P> =
    Box<dyn FnOnce(<P as HookPoint>::Input) -> BoxFuture<'a, <P as HookPoint>::Output> + Send + 'a>;

/// What a listener stands around.
pub struct Next<'a, P: HookPoint> {
    rest: &'a [Arc<dyn Around<P>>],
    inner: Inner<'a, P>,
}

impl<P: HookPoint> Next<'_, P> {
    /// Goes on with `input`.
    pub async fn run(self, input: P::Input) -> P::Output {
        let Self { rest, inner } = self;
        match rest.split_first() {
            Some((listener, rest)) => listener.around(input, Next { rest, inner }).await,
            None => inner(input).await,
        }
    }
}

/// The listeners at one point as they are now.
pub struct Hooks<P: HookPoint>(Vec<Arc<dyn Around<P>>>);

impl<P: HookPoint> Hooks<P> {
    pub(crate) fn new(listeners: Vec<Arc<dyn Around<P>>>) -> Self {
        Self(listeners)
    }

    /// Whether nobody listens.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Passes `input` through the listeners to `inner`. Without listeners this is `inner(input)`.
    /// A panic of a listener goes through to the caller.
    pub async fn run<'a, F, Fut>(&'a self, input: P::Input, inner: F) -> P::Output
    where
        F: FnOnce(P::Input) -> Fut + Send + 'a,
        Fut: Future<Output = P::Output> + Send + 'a,
    {
        if self.0.is_empty() {
            return inner(input).await;
        }
        let inner: Inner<'a, P> = Box::new(move |input| inner(input).boxed());
        Next { rest: &self.0, inner }.run(input).await
    }
}

/// Is told what has happened, and changes nothing of it.
pub trait Observer<E>: Send + Sync + 'static {
    /// Takes note. Returns soon: whoever tells it waits.
    fn observe(&self, event: &E);
}

/// Tells each observer; what one of them breaks stays with it.
pub(crate) fn tell<E: 'static>(observers: &[Arc<dyn Observer<E>>], event: &E) {
    for observer in observers {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| observer.observe(event))) {
            tracing::error!(panic = panic_text(&*panic), "an observer failed");
        }
    }
}
