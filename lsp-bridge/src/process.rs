//! The process of a server: followed to its end, and ended.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bridle_compose::{Clock, TaskSet};
use bridle_world::process::{Capture, Finished, ProcessError, Running};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::log::Log;

/// How much of what a server wrote to its standard error a failure tells, in bytes.
const TOLD_TAIL: usize = 2_000;

/// The process of a server. Dropped, it is ended without waiting.
pub(crate) struct Process {
    /// Orders its end.
    token: CancellationToken,
    /// What it wrote to its standard error.
    errors: Arc<Mutex<Capture>>,
    /// `None` once it was waited for.
    follower: Mutex<Option<JoinHandle<Result<Finished, ProcessError>>>>,
    /// Cancelled when it has ended.
    pub(crate) ended: CancellationToken,
}

impl Process {
    /// Follows the process of the server of this name, and writes down what it says.
    pub(crate) fn follow(running: Running, name: &str, tasks: &TaskSet, log: &Log) -> Self {
        let token = CancellationToken::new();
        let (errors, ended) = (Arc::<Mutex<Capture>>::default(), CancellationToken::new());
        let (order, over, shown) = (token.clone(), ended.clone(), Arc::clone(&errors));
        let (name, log) = (name.to_owned(), log.clone());
        let follower = tasks.spawn(async move {
            let mut written = 0;
            let finished = running
                .finish(order, |output| {
                    let news = output.since(written);
                    // Up to its last whole line; the rest comes with what follows.
                    let end = news.text.rfind('\n').map_or(0, |end| end + 1);
                    let whole = news.text.get(..end).unwrap_or_default();
                    written = news.next - (news.text.len() - whole.len()) as u64;
                    log.say(&name, whole);
                    *shown.lock().unwrap_or_else(PoisonError::into_inner) = output.clone();
                })
                .await;
            if let Ok(finished) = &finished {
                log.say(&name, &finished.output.since(written).text);
                *shown.lock().unwrap_or_else(PoisonError::into_inner) = finished.output.clone();
            }
            over.cancel();
            finished
        });
        Self { token, errors, follower: Mutex::new(Some(follower)), ended }
    }

    /// Waits so long for its end, and then sees to it. How it had ended should that have been by itself,
    /// and the end of what it wrote to its standard error; nothing where there is nothing to say.
    pub(crate) async fn end(&self, patience: Duration, clock: &Arc<dyn Clock>) -> Option<String> {
        tokio::select! {
            () = self.ended.cancelled() => {}
            () = clock.sleep(patience) => {}
        }
        let by_itself = self.ended.is_cancelled();
        self.token.cancel();
        let follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner).take();
        let finished = match follower {
            Some(follower) => follower.await.ok(),
            None => None,
        };
        let how = match finished {
            Some(Ok(finished)) if by_itself => Some(how(&finished)),
            Some(Err(error)) => Some(error.to_string()),
            Some(Ok(_)) | None => None,
        };
        let wrote = tail(&self.errors.lock().unwrap_or_else(PoisonError::into_inner));
        let wrote = (!wrote.is_empty()).then(|| format!("it wrote: {wrote}"));
        let parts: Vec<_> = how.into_iter().chain(wrote).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.token.cancel();
    }
}

fn how(finished: &Finished) -> String {
    match (finished.exit_code, finished.signal) {
        (Some(code), _) => format!("it exited with code {code}"),
        (None, Some(signal)) => format!("signal {signal} ended it"),
        (None, None) => "it has ended".to_owned(),
    }
}

fn tail(errors: &Capture) -> String {
    errors.recent(TOLD_TAIL).trim().to_owned()
}
