//! The process of a server that is spoken with over pipes: followed to its end, and ended.

use std::sync::{Arc, Mutex, PoisonError};

use bridle_compose::{Clock, TaskSet};
use bridle_world::process::{Capture, Finished, ProcessError, Running};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::connection::{POLITE_LIMIT, Unavailable};
use crate::journal::Voice;

/// How much of what a server wrote to its standard error a failure tells, in bytes.
const TOLD_TAIL: usize = 2_000;

/// The process of a server.
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

/// How a server ended.
pub(crate) struct End {
    /// The end of what it wrote to its standard error.
    errors: String,
    /// `None` when it was ended.
    how: Option<Unavailable>,
}

impl Process {
    /// Follows the process of a server, and writes down what it says.
    pub(crate) fn follow(running: Running, voice: Voice, tasks: &TaskSet) -> Self {
        let token = CancellationToken::new();
        let (errors, ended) = (Arc::<Mutex<Capture>>::default(), CancellationToken::new());
        let (order, over, shown) = (token.clone(), ended.clone(), Arc::clone(&errors));
        let follower = tasks.spawn(async move {
            let mut written = 0;
            let finished = running
                .finish(order, |output| {
                    let news = output.since(written);
                    // Up to its last whole line; the rest comes with what follows.
                    let end = news.text.rfind('\n').map_or(0, |end| end + 1);
                    let whole = news.text.get(..end).unwrap_or_default();
                    written = news.next - (news.text.len() - whole.len()) as u64;
                    voice.say(whole);
                    *shown.lock().unwrap_or_else(PoisonError::into_inner) = output.clone();
                })
                .await;
            if let Ok(finished) = &finished {
                voice.say(&finished.output.since(written).text);
            }
            over.cancel();
            finished
        });
        Self { token, errors, follower: Mutex::new(Some(follower)), ended }
    }

    /// Waits for its end for a moment, and then sees to it.
    pub(crate) async fn end(&self, clock: &Arc<dyn Clock>) -> End {
        tokio::select! {
            () = self.ended.cancelled() => {}
            () = clock.sleep(POLITE_LIMIT) => {}
        }
        let by_itself = self.ended.is_cancelled();
        self.token.cancel();
        let follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner).take();
        let finished = match follower {
            Some(follower) => follower.await.ok(),
            None => None,
        };
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        End {
            errors: tail(&errors),
            how: match finished {
                Some(Ok(finished)) if by_itself => Some(Unavailable::new(how(&finished))),
                Some(Err(error)) => Some(error.into()),
                Some(Ok(_)) | None => None,
            },
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.token.cancel();
    }
}

impl End {
    /// The whole reason, for a person.
    pub(crate) fn explain(self, why: Unavailable) -> Unavailable {
        let why = self.how.unwrap_or(why);
        match self.errors.is_empty() {
            true => why,
            false => Unavailable { text: format!("{why}; it wrote: {}", self.errors), ..why },
        }
    }
}

impl From<ProcessError> for Unavailable {
    fn from(error: ProcessError) -> Self {
        let text = error.to_string();
        match error {
            // A program that is not there does not come by itself.
            ProcessError::Program { .. } | ProcessError::WorkingDirectory { .. } => {
                Self::misconfigured(text)
            }
            ProcessError::Sandbox { .. } | ProcessError::Supervisor { .. } => Self::new(text),
        }
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
    let text = errors.text(str::to_owned);
    let start = text.ceil_char_boundary(text.len().saturating_sub(TOLD_TAIL));
    text.get(start..).unwrap_or_default().trim().to_owned()
}
