//! The clock as a value. The only place that may call `tokio::time::sleep`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use crate::{ActivateError, Plugin, ServiceKey, Setup};

/// A wait that can be stored anywhere.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// Tells the time and waits.
pub trait Clock: Send + Sync + 'static {
    /// The wall-clock time.
    fn now(&self) -> SystemTime;

    /// Completes after `duration`.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait; nothing else happens.
    fn sleep(&self, duration: Duration) -> Sleep;
}

/// The real clock. Its sleeps follow tokio's, which a test can pause.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the place the rule points to")]
    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration))
    }
}

#[async_trait]
impl Plugin for SystemClock {
    const NAME: &'static str = "system-clock";
    type Config = ();
    type Needs = ();

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Clock>()]
    }

    async fn activate(&self, (): (), (): (), setup: &Setup) -> Result<(), ActivateError> {
        Ok(setup.provide::<dyn Clock>(Arc::new(Self))?)
    }
}
