//! The process of a server that is spoken with over pipes: followed to its end, and ended.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bridle_compose::{Clock, TaskSet};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Voice, written_out};
use crate::process::{Capture, Finished, ProcessError, Running};
use crate::supervisor::tree::resident;

/// How much of what a server wrote to its standard error its end tells, in bytes.
const TOLD_TAIL: usize = 2_000;

/// How long a line without an end may be quiet before it is written down as it is: a question, or the last
/// words of what then hangs.
const QUIET: Duration = Duration::from_secs(1);

/// How long such a line may be, in bytes, before it is written down up to its last blank.
const MAX_UNENDED: usize = 4 * 1024;

/// The process of a server. Dropped, it is ended without waiting.
pub struct ServerProcess {
    /// Orders its end.
    token: CancellationToken,
    voice: Voice,
    /// What it wrote to its standard error.
    errors: Arc<Mutex<Errors>>,
    /// `None` once it was waited for.
    follower: Mutex<Option<JoinHandle<Result<Finished, ProcessError>>>>,
    ended: CancellationToken,
    /// The number of the process that all of its own descend from, once it runs.
    ancestor: Arc<OnceLock<i32>>,
}

/// What a server wrote to its standard error.
#[derive(Default)]
struct Errors {
    output: Capture,
    /// Up to where it was written down.
    told: u64,
}

/// How a server ended.
#[derive(Debug)]
pub struct End {
    /// The end of what it wrote to its standard error, without its keys and with all of it to be seen.
    pub errors: String,
    /// In words, or why nobody could follow it; `None` when it was ended, or waited for before.
    pub how: Option<Result<String, ProcessError>>,
}

impl ServerProcess {
    /// Follows the process of a server, and writes down what it says.
    pub fn follow(
        mut running: Running,
        voice: Voice,
        clock: Arc<dyn Clock>,
        tasks: &TaskSet,
    ) -> Self {
        let token = CancellationToken::new();
        let (errors, ended) = (Arc::<Mutex<Errors>>::default(), CancellationToken::new());
        let (order, over, shown) = (token.clone(), ended.clone(), Arc::clone(&errors));
        let (told, ancestor) = (voice.clone(), Arc::<OnceLock<i32>>::default());
        let known = Arc::clone(&ancestor);
        let follower = tasks.spawn(async move {
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
            let fresh = Notify::new();
            let finish = running.finish(order, |output| {
                lock(&shown).hear(output, &told, Errors::ended);
                fresh.notify_one();
            });
            tokio::pin!(finish);
            let finished = loop {
                tokio::select! {
                    biased;
                    finished = &mut finish => break finished,
                    () = quiet(&fresh, &clock) => {
                        let mut errors = lock(&shown);
                        let output = errors.output.clone();
                        errors.hear(&output, &told, str::len);
                    }
                }
            };
            if let Ok(finished) = &finished {
                lock(&shown).hear(&finished.output, &told, str::len);
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
        let text =
            lock(&self.errors).output.text(|text| self.voice.secrets().blank(text).into_owned());
        let start = text.ceil_char_boundary(text.len().saturating_sub(TOLD_TAIL));
        written_out(text.get(start..).unwrap_or_default().trim()).into_owned()
    }
}

impl Errors {
    /// Takes in what there is by now, and writes down of the news as many bytes as `part` says.
    fn hear(&mut self, output: &Capture, voice: &Voice, part: impl FnOnce(&str) -> usize) {
        let news = output.since(self.told);
        let part = news.text.get(..part(&news.text)).unwrap_or_default();
        self.told = news.next - (news.text.len() - part.len()) as u64;
        voice.say(part);
        self.output = output.clone();
    }

    /// Up to the last whole line: the rest comes with what follows, or when nothing does. A long one is
    /// broken between words only, as a part of a key would not be known for one.
    fn ended(news: &str) -> usize {
        let end = news.rfind('\n').map_or(0, |end| end + 1);
        match news.len() - end {
            ..=MAX_UNENDED => end,
            _ => news.rfind([' ', '\t']).map_or(end, |blank| blank + 1).max(end),
        }
    }
}

/// Waits until something was said and nothing more for a moment.
async fn quiet(fresh: &Notify, clock: &Arc<dyn Clock>) {
    fresh.notified().await;
    loop {
        tokio::select! {
            biased;
            () = fresh.notified() => {}
            () = clock.sleep(QUIET) => return,
        }
    }
}

fn lock(errors: &Mutex<Errors>) -> MutexGuard<'_, Errors> {
    errors.lock().unwrap_or_else(PoisonError::into_inner)
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
