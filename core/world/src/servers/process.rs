//! The process of a server that is spoken with over pipes: followed to its end, and ended.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bridle_compose::{Clock, TaskSet};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Voice;
use crate::process::{Capture, Finished, ProcessError, Running};
use crate::supervisor::tree::resident;

/// How much of what a server wrote to its standard error its end tells, in bytes.
const TOLD_TAIL: usize = 2_000;

/// The process of a server. Dropped, it is ended without waiting.
pub struct ServerProcess {
    /// Orders its end.
    token: CancellationToken,
    voice: Voice,
    /// What it wrote to its standard error.
    errors: Arc<Mutex<Capture>>,
    /// `None` once it was waited for.
    follower: Mutex<Option<JoinHandle<Result<Finished, ProcessError>>>>,
    ended: CancellationToken,
    /// The number of the process that all of its own descend from, once it runs.
    ancestor: Arc<OnceLock<i32>>,
}

/// How a server ended.
#[derive(Debug)]
pub struct End {
    /// The end of what it wrote to its standard error, without its keys.
    pub errors: String,
    /// In words, or why nobody could follow it; `None` when it was ended, or waited for before.
    pub how: Option<Result<String, ProcessError>>,
}

impl ServerProcess {
    /// Follows the process of a server, and writes down what it says.
    pub fn follow(mut running: Running, voice: Voice, tasks: &TaskSet) -> Self {
        let token = CancellationToken::new();
        let (errors, ended) = (Arc::<Mutex<Capture>>::default(), CancellationToken::new());
        let (order, over, shown) = (token.clone(), ended.clone(), Arc::clone(&errors));
        let (told, ancestor) = (voice.clone(), Arc::<OnceLock<i32>>::default());
        let known = Arc::clone(&ancestor);
        let follower = tasks.spawn(async move {
            let mut written = 0;
            tokio::select! {
                biased;
                () = order.cancelled() => {}
                started = running.started() => match (started, running.ancestor()) {
                    (Ok(()), number) => drop(number.map(|number| known.set(number))),
                    (Err(error), _) => {
                        over.cancel();
                        return Err(error);
                    }
                }
            }
            let finished = running
                .finish(order, |output| {
                    let news = output.since(written);
                    // Up to its last whole line; the rest comes with what follows.
                    let end = news.text.rfind('\n').map_or(0, |end| end + 1);
                    let whole = news.text.get(..end).unwrap_or_default();
                    written = news.next - (news.text.len() - whole.len()) as u64;
                    told.say(whole);
                    *shown.lock().unwrap_or_else(PoisonError::into_inner) = output.clone();
                })
                .await;
            if let Ok(finished) = &finished {
                told.say(&finished.output.since(written).text);
                *shown.lock().unwrap_or_else(PoisonError::into_inner) = finished.output.clone();
            }
            over.cancel();
            finished
        });
        Self { token, voice, errors, follower: Mutex::new(Some(follower)), ended, ancestor }
    }

    /// Waits for its end.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// What it and all that it has started hold in memory now, in bytes; what they share is counted for each.
    /// `None` where that cannot be found out.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn memory(&self) -> Option<u64> {
        let ancestor = *self.ancestor.get()?;
        tokio::task::spawn_blocking(move || resident(ancestor)).await.ok()
    }

    /// Waits so long for its end, and then sees to it.
    ///
    /// # Cancel safety
    /// It ends all the same; how is not told again.
    pub async fn end(&self, patience: Duration, clock: &Arc<dyn Clock>) -> End {
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
            Some(Ok(finished)) if by_itself => Some(Ok(how(&finished))),
            Some(Err(error)) => Some(Err(error)),
            Some(Ok(_)) | None => None,
        };
        End { errors: self.tail(), how }
    }

    /// Keys are blanked before it is cut: a part of one would not be known again.
    fn tail(&self) -> String {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let text = errors.text(|text| self.voice.secrets().blank(text).into_owned());
        let start = text.ceil_char_boundary(text.len().saturating_sub(TOLD_TAIL));
        text.get(start..).unwrap_or_default().trim().to_owned()
    }
}

impl Drop for ServerProcess {
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
