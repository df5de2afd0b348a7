//! A server over all its lives: asleep until it is wanted, shared by everybody who asks, ended when nobody
//! does, started again when it is lost, given up when that happens too often.
//!
//! A task of its own does that ([`Server::run`]); everybody else looks at the state. So there is never more
//! than one process for one project, also while one ends and the next is wanted.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bridle_world::servers::Voice;
use futures::FutureExt as _;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::connection::NoAnswer;
use crate::definition::ServerDefinition;
use crate::heard::Readiness;
use crate::life::{Host, Life};
use crate::locate::Located;
use crate::losses::{Losses, Next};
use crate::servers::{Stage, Standing};
use crate::settings::{LspSettings, MIB};
use crate::untold::{Change, Untold};

/// How often it is looked at what a server holds in memory while it is asked.
const ASKED_INTERVAL: Duration = Duration::from_secs(1);

/// And otherwise.
const IDLE_INTERVAL: Duration = Duration::from_secs(5);

/// One server for one project.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) root: PathBuf,
    /// What is known of it now; a life keeps what it began with.
    definition: Mutex<Arc<ServerDefinition>>,
    /// Where its program was when it was looked for last.
    located: Mutex<Located>,
    host: Host,
    settings: watch::Receiver<Arc<LspSettings>>,
    /// Why the last life ended that was lost.
    loss: Mutex<Option<String>>,
    state: watch::Sender<State>,
    /// Somebody wants it while it does not run.
    wanted: watch::Sender<bool>,
    /// It is to end although it works: another one needs its place, or it is broken.
    retired: Notify,
    /// Somebody has begun to use it.
    asked: Notify,
    uses: AtomicUsize,
    used: Mutex<SystemTime>,
    untold: Untold,
}

/// How a server stands.
#[derive(Clone)]
enum State {
    /// It was not wanted yet, or for a long time.
    Asleep,
    Starting,
    Ready(Arc<Life>),
    /// What is left of it is being ended.
    Ending,
    /// It was lost; it may be started again soon.
    Pausing(String),
    /// It was lost too often.
    Failed(String),
    Closed,
}

/// A server that is being used. It is not ended for being idle meanwhile.
pub(crate) struct Use {
    pub(crate) life: Arc<Life>,
    server: Arc<Server>,
}

impl Drop for Use {
    fn drop(&mut self) {
        *lock(&self.server.used) = self.server.host.clock.now();
        self.server.uses.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a life is over.
enum Over {
    Idle,
    /// It held too much memory.
    TooLarge(String),
    Lost(String),
    Closing,
}

impl Server {
    pub(crate) fn new(
        definition: ServerDefinition,
        root: PathBuf,
        located: Located,
        host: Host,
        settings: watch::Receiver<Arc<LspSettings>>,
    ) -> Self {
        let now = host.clock.now();
        Self {
            name: definition.name.clone(),
            root,
            definition: Mutex::new(Arc::new(definition)),
            located: Mutex::new(located),
            host,
            settings,
            loss: Mutex::default(),
            state: watch::Sender::new(State::Asleep),
            wanted: watch::Sender::new(false),
            retired: Notify::new(),
            asked: Notify::new(),
            uses: AtomicUsize::new(0),
            used: Mutex::new(now),
            untold: Untold::default(),
        }
    }

    pub(crate) fn located(&self, located: Located) {
        *lock(&self.located) = located;
    }

    /// What is known of it now.
    pub(crate) fn definition(&self) -> Arc<ServerDefinition> {
        Arc::clone(&lock(&self.definition))
    }

    /// From now on this is known of it. A life that began with something else ends.
    pub(crate) fn define(&self, definition: &ServerDefinition) {
        let mut known = lock(&self.definition);
        if **known != *definition {
            *known = Arc::new(definition.clone());
            drop(known);
            self.dismiss();
        }
    }

    /// Its life ends, if it has one.
    pub(crate) fn dismiss(&self) {
        if self.runs() {
            self.retired.notify_one();
        }
    }

    /// Why it was lost, if it was since it last ended otherwise.
    pub(crate) fn loss(&self) -> Option<String> {
        lock(&self.loss).clone()
    }

    /// It is to be started, unless it runs. Takes its place at once.
    pub(crate) fn want(&self) {
        self.state.send_if_modified(|state| {
            let rests = matches!(state, State::Asleep);
            if rests {
                *state = State::Starting;
            }
            rests
        });
        self.wanted.send_replace(true);
    }

    /// The server, started if it does not run.
    ///
    /// # Errors
    /// Why it cannot be used, for the model.
    ///
    /// # Cancel safety
    /// Cancel safe: the start goes on.
    pub(crate) async fn wake(self: &Arc<Self>) -> Result<Use, String> {
        let mut states = self.state.subscribe();
        let mut woken = false;
        loop {
            let state = states.borrow_and_update().clone();
            match state {
                State::Ready(life) if !life.has_ended() => return Ok(self.use_of(life)),
                State::Closed => return Err("the program is about to end".to_owned()),
                State::Failed(why) => return Err(why),
                State::Pausing(why) if woken => return Err(why),
                State::Asleep | State::Pausing(_) => {
                    woken = true;
                    self.wanted.send_replace(true);
                }
                State::Starting => woken = true,
                State::Ready(_) | State::Ending => {}
            }
            if states.changed().await.is_err() {
                return Err("the program is about to end".to_owned());
            }
        }
    }

    /// The server, if it answers already.
    pub(crate) fn warm(self: &Arc<Self>) -> Option<Use> {
        self.life().map(|life| self.use_of(life))
    }

    fn life(&self) -> Option<Arc<Life>> {
        match &*self.state.borrow() {
            State::Ready(life) if !life.has_ended() => Some(Arc::clone(life)),
            _ => None,
        }
    }

    fn use_of(self: &Arc<Self>, life: Arc<Life>) -> Use {
        self.uses.fetch_add(1, Ordering::Relaxed);
        self.asked.notify_one();
        Use { life, server: Arc::clone(self) }
    }

    /// Since when nobody uses it; `None` while somebody does, or when it does not run.
    pub(crate) fn idle_since(&self) -> Option<SystemTime> {
        let runs = matches!(*self.state.borrow(), State::Ready(_));
        (runs && self.uses.load(Ordering::Relaxed) == 0).then(|| *lock(&self.used))
    }

    /// Whether it has a process.
    pub(crate) fn runs(&self) -> bool {
        matches!(*self.state.borrow(), State::Starting | State::Ready(_) | State::Ending)
    }

    /// Ends it, whoever uses it, and waits for that. The next one who wants it has it started again.
    ///
    /// # Cancel safety
    /// Cancel safe: it ends all the same.
    pub(crate) async fn retire(&self) {
        let mut states = self.state.subscribe();
        let alive = |state: &State| matches!(state, State::Ready(life) if !life.has_ended());
        if alive(&states.borrow_and_update()) {
            self.retired.notify_one();
        }
        // The sender lives as long as this.
        let ended = |state: &State| !matches!(state, State::Ready(_) | State::Ending);
        states.wait_for(ended).await.ok();
    }

    /// A file has changed. The server hears of it soon, and before the next question.
    pub(crate) fn file_changed(&self, path: &Path, change: Change) {
        if path.starts_with(&self.root) && self.runs() {
            self.untold.add(path, change, self.life().as_deref());
        }
    }

    /// Looks which files have changed since it was last looked, whoever changed them; the server hears of them
    /// as of any other. One that would have to hear of too many is ended: a new life reads what is there.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn look(&self) {
        if self.untold.look(&self.root, || self.life()).await.is_err() {
            self.retire().await;
        }
    }

    /// Tells the server of the files that have changed.
    ///
    /// # Errors
    /// [`NoAnswer::Gone`].
    pub(crate) async fn tell_changes(&self, life: &Life) -> Result<(), NoAnswer> {
        self.untold.tell(life).await
    }

    /// How it stands, for a person; `None` where it was never wanted.
    pub(crate) fn standing(&self) -> Option<Standing> {
        let (stage, detail) = match &*self.state.borrow() {
            State::Asleep => {
                let lost = self.loss().map(|why| format!("it was lost: {why}"));
                (Stage::Stopped, lost.unwrap_or_default())
            }
            State::Starting => (Stage::Starting, String::new()),
            State::Ready(life) => match life.readiness() {
                Readiness::Loading(what) => (Stage::Loading, format!("{}; {what}", life.who)),
                Readiness::Sick(why) => (Stage::Failed, format!("{} says: {why}", life.who)),
                Readiness::Ready | Readiness::Young => (Stage::Ready, life.who.clone()),
            },
            State::Ending => (Stage::Stopped, "it is being ended".to_owned()),
            State::Pausing(why) | State::Failed(why) => (Stage::Failed, why.clone()),
            State::Closed => return None,
        };
        let (server, root) = (self.name.clone(), self.root.clone());
        Some(Standing { server, root, stage, detail })
    }

    /// Runs it whenever it is wanted until `closing` is cancelled.
    pub(crate) async fn run(self: Arc<Self>, closing: CancellationToken) {
        let mut losses = Losses::default();
        let mut wanted = self.wanted.subscribe();
        loop {
            tokio::select! {
                biased;
                () = closing.cancelled() => break,
                _ = wanted.wait_for(|wanted| *wanted) => {}
            }
            match self.live(&closing).await {
                Over::Closing => break,
                Over::Idle => {
                    lock(&self.loss).take();
                    self.rest(State::Asleep);
                }
                Over::Lost(why) | Over::TooLarge(why) => {
                    tracing::warn!(server = self.name, why, "a language server was lost");
                    self.say(&format!("it was lost: {why}"));
                    let pause = self.lost(&mut losses, why);
                    tokio::select! {
                        () = closing.cancelled() => break,
                        () = self.host.clock.sleep(pause) => {}
                    }
                    // Whoever wanted it in the pause wants it still.
                    self.state.send_replace(State::Asleep);
                }
            }
        }
        self.state.send_replace(State::Closed);
    }

    /// Writes down what became of it.
    fn say(&self, text: &str) {
        let secrets = self.definition().environment.secrets.clone();
        let name = format!("{} ({})", self.name, self.root.display());
        Voice::new(&name, secrets, &self.host.journal).say(text);
    }

    /// Whatever was wanted before is settled.
    fn rest(&self, state: State) {
        self.wanted.send_replace(false);
        self.state.send_replace(state);
    }

    /// Takes note of a loss; how long to wait until the next start.
    fn lost(&self, losses: &mut Losses, why: String) -> Duration {
        *lock(&self.loss) = Some(why.clone());
        let (state, pause) = match losses.add(self.host.clock.now()) {
            Next::Pause(pause) => (State::Pausing(why), pause),
            Next::GiveUp { times, pause } => {
                let why = format!("it was lost {times} times in a short while; {why}");
                (State::Failed(why), pause)
            }
        };
        self.rest(state);
        pause
    }

    /// One life of it; why it is over.
    async fn live(self: &Arc<Self>, closing: &CancellationToken) -> Over {
        self.rest(State::Starting);
        // Whoever wanted the last life to end has nothing against this one.
        self.retired.notified().now_or_never();
        self.untold.begin().await;
        let server = Arc::clone(self);
        self.host.tasks.spawn(async move { server.look().await });
        let located = lock(&self.located).clone();
        let definition = self.definition();
        let begun = Life::begin(&definition, &located, &self.root, &self.host, closing).await;
        let life = match begun {
            Ok(life) => Arc::new(life),
            Err(_) if closing.is_cancelled() => return Over::Closing,
            Err(why) => return Over::Lost(why),
        };
        *lock(&self.used) = self.host.clock.now();
        self.state.send_replace(State::Ready(Arc::clone(&life)));
        let over = self.until_over(&life, closing).await;
        self.state.send_replace(State::Ending);
        if let Over::TooLarge(_) = over {
            // It is not waited for while it takes the rest.
            life.kill().await;
            return over;
        }
        let how = life.end().await;
        match over {
            Over::Lost(_) if life.is_broken() => {
                Over::Lost("it answered with internal errors".to_owned())
            }
            Over::Lost(_) => Over::Lost(how),
            over => over,
        }
    }

    async fn until_over(&self, life: &Life, closing: &CancellationToken) -> Over {
        let mut settings = self.settings.clone();
        let (mut measured, mut asked) = (None::<SystemTime>, true);
        loop {
            let limits = Arc::clone(&settings.borrow_and_update());
            let now = self.host.clock.now();
            let age = |time: SystemTime| now.duration_since(time).unwrap_or_default();
            let interval = if asked { ASKED_INTERVAL } else { IDLE_INTERVAL };
            let mut due =
                measured.map_or(Duration::ZERO, |time| interval.saturating_sub(age(time)));
            if due.is_zero() {
                (measured, asked, due) = (Some(now), false, IDLE_INTERVAL);
                if let Some(why) = too_large(life, limits.memory_limit).await {
                    return Over::TooLarge(why);
                }
            }
            let idle = age(*lock(&self.used));
            let uses = self.uses.load(Ordering::Relaxed);
            if uses == 0 && idle >= limits.idle_limit {
                return Over::Idle;
            }
            let left = if uses == 0 { limits.idle_limit - idle } else { limits.idle_limit };
            tokio::select! {
                biased;
                () = closing.cancelled() => return Over::Closing,
                () = life.ended() => return Over::Lost(String::new()),
                () = self.retired.notified() => {
                    return if life.is_broken() { Over::Lost(String::new()) } else { Over::Idle };
                }
                () = self.untold.added() => {
                    // Should it be gone, that is seen above.
                    self.untold.tell(life).await.ok();
                }
                () = self.asked.notified(), if !asked => asked = true,
                Ok(()) = settings.changed() => {}
                () = self.host.clock.sleep(left.min(due)) => {}
            }
        }
    }
}

/// What a server holds that holds more memory than it may.
async fn too_large(life: &Life, limit: u64) -> Option<String> {
    let held = life.memory().await.filter(|held| *held > limit)?;
    let (held, limit) = (held / MIB, limit / MIB);
    Some(format!(
        "it held {held} MiB of memory, more than the {limit} that `max_memory_mib` allows"
    ))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
