//! One shell on a terminal: what it wrote since somebody looked, and whether it is at its prompt.
//!
//! A task of the session follows it ([`Shell::follow`]); calls type to it and wait for what it tells.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bridle_agent::{Confinement, ToolFailure};
use bridle_compose::{Clock, Sleep, TaskSet};
use bridle_world::process::{Capture, Finished, Running, Terminal};
use bridle_world::sandbox::{Denial, Verdict};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::prompt::{Piece, Scanner, first_line};
use crate::shell::report;

/// How long a shell may take to its first prompt.
const START_LIMIT: Duration = Duration::from_secs(10);

/// How long nothing must have been written, behind something that was, for a program to be taken for
/// one that waits for an answer.
const QUIET: Duration = Duration::from_secs(2);

/// How long what was interrupted may take to end.
const INTERRUPT_GRACE: Duration = Duration::from_secs(2);

/// How often it is looked whether something else runs then.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(50);

/// How long the last output of a shell that has ended is waited for.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// The shortest time between two looks at live output.
const LIVE_INTERVAL: Duration = Duration::from_millis(100);

/// The size of one read, in bytes.
const READ_SIZE: usize = 64 * 1024;

pub(super) struct Shell {
    /// What it may do as long as it lives.
    pub(super) confinement: Confinement,
    terminal: Terminal,
    clock: Arc<dyn Clock>,
    /// Ends it with everything that it started.
    token: CancellationToken,
    state: watch::Sender<State>,
    /// What was written since the last look.
    unread: Mutex<Capture>,
    /// What its sandbox refused since then.
    denials: Arc<Mutex<Vec<Denial>>>,
    typed: Mutex<Typed>,
}

/// How far it is.
#[derive(Clone, Default)]
pub(super) struct State {
    /// How often it was at its prompt.
    prompts: u64,
    /// The exit code of what ran before the last one.
    code: i32,
    /// How many bytes were written.
    written: u64,
    pub(super) end: Option<End>,
}

/// How a shell ended; why that is not known.
pub(super) type End = Result<Arc<Finished>, String>;

#[derive(Default)]
struct Typed {
    /// What was typed at the prompt with this number, until its end is told: it runs until there is
    /// another prompt.
    command: Option<(u64, String)>,
    /// What was typed since of a line that has no end yet.
    line: String,
}

/// What a call waits for, besides the end of the shell.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    /// A prompt behind this many.
    pub(super) prompts: u64,
    /// Whether a program that seems to wait for an answer is enough.
    pub(super) or_quiet: bool,
    pub(super) limit: Duration,
}

/// Why a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Prompt,
    Ended,
    Quiet,
    TimedOut,
    Cancelled,
}

impl Shell {
    /// Begins to follow a shell that was started, and waits for its first prompt. `closing` ends it
    /// whenever it is cancelled, `token` until it has begun.
    pub(super) async fn begin(
        (mut running, terminal): (Running, Terminal),
        confinement: Confinement,
        clock: Arc<dyn Clock>,
        tasks: &TaskSet,
        closing: &CancellationToken,
        token: &CancellationToken,
    ) -> Result<Arc<Self>, ToolFailure> {
        let nonce = uuid::Uuid::new_v4().simple().to_string();
        let shell = Arc::new(Self {
            confinement,
            terminal,
            clock,
            token: closing.child_token(),
            state: watch::Sender::default(),
            unread: Mutex::default(),
            denials: Arc::default(),
            typed: Mutex::default(),
        });
        let denials = Arc::clone(&shell.denials);
        running.on_denial(move |denial| lock(&denials).push(denial.clone()));
        tasks.spawn(Arc::clone(&shell).follow(running, Scanner::new(&nonce)));
        let wait = Wait { prompts: 0, or_quiet: false, limit: START_LIMIT };
        let stop = match shell.write(&first_line(&nonce), START_LIMIT, token).await {
            Ok(()) => shell.wait(wait, token, |_| ()).await,
            Err((_, stop)) => stop,
        };
        let failure = match (stop, shell.state().end) {
            (Stop::Prompt, _) => return Ok(shell),
            (Stop::Ended, Some(Err(error))) => ToolFailure::failed(error),
            (Stop::Cancelled, _) => began_not(),
            _ => ToolFailure::failed("The shell did not come to its prompt and was ended."),
        };
        shell.end().await;
        Err(failure)
    }

    /// Follows it to its end.
    async fn follow(self: Arc<Self>, running: Running, mut scanner: Scanner) {
        let mut finish = std::pin::pin!(running.finish(self.token.clone(), |_| ()));
        let mut buffer = Vec::with_capacity(READ_SIZE);
        let mut open = true;
        let end = loop {
            tokio::select! {
                biased;
                end = &mut finish => break end,
                more = self.read(&mut buffer, &mut scanner), if open => open = more,
            }
        };
        let patience = self.clock.sleep(LAST_WORDS);
        let last_words = async { while open && self.read(&mut buffer, &mut scanner).await {} };
        tokio::select! {
            biased;
            () = last_words => {}
            () = patience => {}
        }
        // What was refused, calls tell.
        let told = |finished| Arc::new(Finished { denied: Verdict::None, ..finished });
        let end = end.map(told).map_err(|error| report::not_run(error).message);
        self.state.send_modify(|state| state.end = Some(end));
    }

    /// Reads once; whether more can come. Cancel safe.
    async fn read(&self, buffer: &mut Vec<u8>, scanner: &mut Scanner) -> bool {
        let more = self.terminal.read(buffer).await.is_ok_and(|count| count > 0);
        for piece in scanner.take(buffer) {
            match piece {
                // What a shell says before it was told to say nothing.
                Piece::Output(_) if self.state.borrow().prompts == 0 => {}
                Piece::Output(bytes) => {
                    lock(&self.unread).push(&bytes);
                    self.state.send_modify(|state| state.written += bytes.len() as u64);
                }
                Piece::Prompt(code) => self.state.send_modify(|state| {
                    state.prompts += 1;
                    state.code = code;
                }),
            }
        }
        buffer.clear();
        more
    }

    pub(super) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// What was typed at the prompt and has not ended.
    pub(super) fn runs(&self) -> Option<String> {
        let prompts = self.state.borrow().prompts;
        let typed = lock(&self.typed);
        typed.command.as_ref().filter(|(at, _)| *at == prompts).map(|(_, command)| command.clone())
    }

    /// The prompt behind which what runs was typed.
    pub(super) fn prompt(&self) -> u64 {
        let at = lock(&self.typed).command.as_ref().map(|(at, _)| *at);
        at.unwrap_or_else(|| self.state.borrow().prompts)
    }

    /// The exit code of what has ended, once.
    pub(super) fn take_code(&self) -> Option<i32> {
        let State { prompts, code, .. } = self.state();
        let ended = lock(&self.typed).command.take_if(|(at, _)| *at < prompts);
        ended.map(|_| code)
    }

    /// What was typed of a line that has no end yet.
    pub(super) fn line(&self) -> String {
        lock(&self.typed).line.clone()
    }

    /// A command is about to be typed: the shell is at its prompt.
    pub(super) fn enter(&self, command: &str) {
        let command = Some((self.state.borrow().prompts, command.to_owned()));
        *lock(&self.typed) = Typed { command, line: String::new() };
        if let Err(error) = self.terminal.calm() {
            tracing::debug!(%error, "the modes of a terminal stay as they are");
        }
    }

    /// Text is about to be typed for what runs.
    pub(super) fn add(&self, text: &str) {
        let line = &mut lock(&self.typed).line;
        line.push_str(text);
        if let Some((_, rest)) = line.rsplit_once('\n') {
            *line = rest.to_owned();
        }
    }

    /// Types all of `bytes`; otherwise how many were typed, and why it was given up.
    pub(super) async fn write(
        &self,
        bytes: &[u8],
        limit: Duration,
        token: &CancellationToken,
    ) -> Result<(), (usize, Stop)> {
        let mut typed = 0;
        let mut limit = self.clock.sleep(limit);
        while let Some(rest) = bytes.get(typed..).filter(|rest| !rest.is_empty()) {
            let written = tokio::select! {
                biased;
                () = token.cancelled() => return Err((typed, Stop::Cancelled)),
                written = self.terminal.write(rest) => written,
                () = &mut limit => return Err((typed, Stop::TimedOut)),
            };
            // A terminal that is gone is one whose shell has ended, which its follower tells.
            typed += written.map_err(|_| (typed, Stop::Ended))?;
        }
        Ok(())
    }

    /// Waits; `live` gets what was captured since the last look.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(super) async fn wait(
        &self,
        wait: Wait,
        token: &CancellationToken,
        mut live: impl FnMut(&Capture),
    ) -> Stop {
        let mut states = self.state.subscribe();
        let mut limit = self.clock.sleep(wait.limit);
        let (mut quiet, mut pause) = (None, None);
        let begun = states.borrow().written;
        let (mut seen, mut shown) = (begun, begun);
        loop {
            let written = {
                let state = states.borrow_and_update();
                match () {
                    () if state.prompts > wait.prompts => return Stop::Prompt,
                    () if state.end.is_some() => return Stop::Ended,
                    () => state.written,
                }
            };
            if wait.or_quiet && written > seen {
                seen = written;
                quiet = Some(self.clock.sleep(QUIET));
            }
            if written > shown && pause.is_none() {
                shown = written;
                pause = Some(self.clock.sleep(LIVE_INTERVAL));
                live(&lock(&self.unread));
            }
            tokio::select! {
                biased;
                () = token.cancelled() => return Stop::Cancelled,
                // The sender lives as long as `self`.
                _ = states.changed() => {}
                () = &mut limit => return Stop::TimedOut,
                () = expired(&mut quiet) => return Stop::Quiet,
                () = expired(&mut pause) => {}
            }
        }
    }

    /// Interrupts what runs. Whether the shell is at its prompt then.
    pub(super) async fn interrupt(&self) -> bool {
        // One that comes while the shell is between two commands reaches neither, so the next is
        // interrupted, too.
        let mut interrupted = self.terminal.interrupt();
        let mut left = INTERRUPT_GRACE;
        loop {
            let limit = left.min(INTERRUPT_INTERVAL);
            let wait = Wait { prompts: self.prompt(), or_quiet: false, limit };
            match self.wait(wait, &CancellationToken::new(), |_| ()).await {
                Stop::TimedOut if left > limit => {
                    left = left.saturating_sub(limit);
                    interrupted = self.terminal.interrupt_next(interrupted);
                }
                stop => return stop == Stop::Prompt,
            }
        }
    }

    /// Ends it with everything that it started, and waits for that.
    pub(super) async fn end(&self) {
        self.token.cancel();
        // The sender lives as long as `self`, so the wait ends only with the end.
        self.state.subscribe().wait_for(|state| state.end.is_some()).await.ok();
    }

    /// What was written since the last look.
    pub(super) fn unread(&self) -> Capture {
        std::mem::take(&mut lock(&self.unread))
    }

    /// What was refused since the last look.
    pub(super) fn denials(&self) -> Vec<Denial> {
        std::mem::take(&mut lock(&self.denials))
    }
}

/// The failure of a call that was cancelled too early.
pub(super) fn began_not() -> ToolFailure {
    ToolFailure::aborted("Cancelled while the shell began; it was ended.")
}

/// How a shell ended, in words.
pub(super) fn in_words(end: &End, granted: Confinement) -> String {
    match end {
        Ok(finished) => report::end(finished, None, granted).join("; "),
        Err(error) => error.clone(),
    }
}

/// Completes once the timer does, and clears it; never when there is none. Cancel safe.
async fn expired(timer: &mut Option<Sleep>) {
    match timer {
        Some(running) => running.await,
        None => std::future::pending().await,
    }
    *timer = None;
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
