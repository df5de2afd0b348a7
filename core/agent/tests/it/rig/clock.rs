//! A clock that the script moves.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bridle_compose::{Clock, Sleep};
use tokio::sync::{Notify, Semaphore};

/// From here on a sleep watches over something and is no pause.
const WATCH: Duration = Duration::from_secs(30);

/// The driver's patience with a body that was told to end; it watches, too.
const GRACE: Duration = Duration::from_secs(10);

/// A clock that the script moves. Its sleeps end at once, or never when it is told to hold; those
/// that watch over something end as often as the test said before.
#[derive(Clone)]
pub(crate) struct TestClock {
    pub(crate) watches: Arc<Semaphore>,
    pub(super) passed: Arc<Mutex<Duration>>,
    pub(crate) slept: Arc<Mutex<Vec<Duration>>>,
    pub(crate) hold: Arc<Mutex<Option<Arc<Notify>>>>,
}

impl Default for TestClock {
    fn default() -> Self {
        Self {
            watches: Arc::new(Semaphore::new(0)),
            passed: Arc::default(),
            slept: Arc::default(),
            hold: Arc::default(),
        }
    }
}

impl TestClock {
    /// Lets this much time go by.
    pub(crate) fn pass(&self, time: Duration) {
        *self.passed.lock().unwrap() += time;
    }
}

impl Clock for TestClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + *self.passed.lock().unwrap()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        if duration >= WATCH || duration == GRACE {
            let watches = Arc::clone(&self.watches);
            return Box::pin(async move { watches.acquire().await.unwrap().forget() });
        }
        self.slept.lock().unwrap().push(duration);
        let hold = self.hold.lock().unwrap().clone();
        Box::pin(async move {
            if let Some(reached) = hold {
                reached.notify_one();
                std::future::pending::<()>().await;
            }
        })
    }
}
