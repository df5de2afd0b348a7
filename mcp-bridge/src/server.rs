//! A server of a session, over all its lives: started in the background, asked for its tools, started
//! again when it is lost, ended when nobody has used it for a while and with the session. One of which it is
//! remembered what it offers is not started before it is used.
//!
//! A task of its own does that ([`Server::run`]); everybody else looks at the state. What was under way
//! when a server was lost is never sent again.

use std::sync::Arc;
use std::time::Duration;

use bridle_compose::Clock;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::config::ServerConfig;
use crate::connection::{Connection, Host, Remedy, Unavailable};
use crate::listing::Listing;
use crate::memory::Memory;

/// The first pause before a server that was lost is started again; each next one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long a server that starts has one of the few places for that. One that takes longer most likely waits
/// for something, and is not to hold up the others.
const START_SHARE: Duration = Duration::from_secs(1);

/// How often in a row a server is started by itself. After that a call starts it.
const MAX_STARTS: u32 = 5;

/// How long a server must have lived for its earlier losses to be forgotten.
const SOUND_LIFE: Duration = Duration::from_secs(30);

/// How long changes of the tools are gathered before they are asked for: some servers tell of each one.
const SETTLE: Duration = Duration::from_millis(150);

/// One server of one session.
pub(crate) struct Server {
    pub(crate) config: ServerConfig,
    host: Host,
    /// How many servers of this process may start at once.
    starts: Arc<Semaphore>,
    state: watch::Sender<State>,
    /// Somebody wants to use a server that does not run.
    wanted: Notify,
    /// Whether it is known what it offers, or that this will not be known soon.
    heard: watch::Sender<bool>,
    /// How many use it now.
    users: watch::Sender<usize>,
    pub(crate) memory: Memory,
}

/// Somebody uses a server, which therefore is not ended.
pub(crate) struct InUse<'a>(&'a Server);

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.0.users.send_modify(|users| *users -= 1);
    }
}

/// How a life of a server ended.
enum End {
    /// Why it is not there.
    Lost(Unavailable),
    /// Nobody had used it for a while; what it offered.
    Resting(Arc<Listing>),
}

/// How a server stands.
#[derive(Clone)]
pub(crate) enum State {
    /// It is being started; why it was lost, or did not start, where it is started again.
    Starting(Option<Unavailable>),
    /// It answers.
    Ready {
        /// Until it ends.
        connection: Arc<Connection>,
        /// What it offers.
        listing: Arc<Listing>,
    },
    /// It was there; what is left of it is being ended.
    Lost,
    /// It does not run, and offered this when it last did. It is started when it is wanted.
    Resting(Arc<Listing>),
    /// It is started again after a pause.
    Pausing(Unavailable),
    /// It is started again when it is wanted.
    Failed(Unavailable),
    /// It wants to know who asks. It is tried again when it is wanted.
    NeedsLogin(Unavailable),
    /// The session is over.
    Closed,
}

impl Default for State {
    fn default() -> Self {
        Self::Starting(None)
    }
}

impl Server {
    pub(crate) fn new(
        config: ServerConfig,
        host: Host,
        starts: Arc<Semaphore>,
        memory: Memory,
    ) -> Self {
        Self {
            config,
            host,
            starts,
            state: watch::Sender::default(),
            wanted: Notify::new(),
            heard: watch::Sender::default(),
            users: watch::Sender::default(),
            memory,
        }
    }

    /// The clock that its calls are measured by.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.host.clock
    }

    /// How it stands, now and from now on.
    pub(crate) fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Whether it answers now.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(*self.state.borrow(), State::Ready { .. })
    }

    /// Waits until it is known for the first time what it offers and the tools are there, or it is known
    /// that it does not start.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn first_heard(&self) {
        // The sender lives as long as this.
        self.heard.subscribe().wait_for(|heard| *heard).await.ok();
    }

    /// Its tools are as its state says.
    pub(crate) fn imported(&self) {
        if !matches!(*self.state.borrow(), State::Starting(_)) {
            self.heard.send_replace(true);
        }
    }

    /// Keeps it from being ended because nobody uses it.
    pub(crate) fn in_use(&self) -> InUse<'_> {
        self.users.send_modify(|users| *users += 1);
        InUse(self)
    }

    /// What it offers as far as that is known; nothing while it was never heard.
    pub(crate) fn offer(&self) -> Option<Arc<Listing>> {
        match &*self.state.borrow() {
            State::Ready { listing, .. } | State::Resting(listing) => Some(Arc::clone(listing)),
            _ => None,
        }
    }

    /// The connection, once there is one, for somebody who uses it ([`Server::in_use`]). A server that does
    /// not run is started.
    ///
    /// # Errors
    /// Why there is none.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, Unavailable> {
        let mut states = self.watch();
        let mut woken = false;
        loop {
            let state = states.borrow_and_update().clone();
            match state {
                State::Ready { connection, .. } if connection.is_open() => return Ok(connection),
                // Its end is about to be noticed.
                State::Ready { .. } => {}
                State::Closed => return Err(Unavailable::new("the session is being closed")),
                State::Failed(why) | State::NeedsLogin(why) | State::Pausing(why) if woken => {
                    return Err(why);
                }
                State::Failed(_) | State::NeedsLogin(_) | State::Pausing(_) | State::Resting(_) => {
                    woken = true;
                    self.wanted.notify_one();
                }
                State::Lost => {}
                State::Starting(_) => woken = true,
            }
            if states.changed().await.is_err() {
                return Err(Unavailable::new("the session is being closed"));
            }
        }
    }

    /// Keeps it running until `closing` is cancelled, and then ends it.
    pub(crate) async fn run(self: Arc<Self>, closing: CancellationToken) {
        let (mut losses, mut last) = (0, None);
        if let Some(listing) = self.memory.recall(self.host.clock.now()).await {
            self.rest(listing, &closing).await;
        }
        while !closing.is_cancelled() {
            self.state.send_replace(State::Starting(last.take()));
            let begun = self.host.clock.now();
            let mut why = match self.live(&closing).await {
                End::Resting(listing) => {
                    losses = 0;
                    self.rest(listing, &closing).await;
                    continue;
                }
                End::Lost(why) => why,
            };
            why.text = self.config.secrets.blank(&why.text).into_owned();
            if closing.is_cancelled() {
                break;
            }
            let lived = self.host.clock.now().duration_since(begun).unwrap_or_default();
            losses = if lived >= SOUND_LIFE { 1 } else { losses + 1 };
            tracing::warn!(server = self.config.name, %why, "an MCP server is not there");
            let needs_login = why.remedy == Remedy::LogIn;
            last = Some(why.clone());
            let gives_up = needs_login || why.remedy == Remedy::Configure || losses >= MAX_STARTS;
            self.state.send_replace(match gives_up {
                true if needs_login => State::NeedsLogin(why),
                true => State::Failed(why),
                false => State::Pausing(why),
            });
            let pause = FIRST_PAUSE.saturating_mul(1 << losses.min(16)).min(LONGEST_PAUSE);
            let pause = async {
                match gives_up {
                    true => std::future::pending().await,
                    false => self.host.clock.sleep(pause).await,
                }
            };
            tokio::select! {
                () = closing.cancelled() => {}
                () = self.wanted.notified() => {}
                () = pause => {}
            }
        }
        self.state.send_replace(State::Closed);
    }

    /// Does not run until it is wanted.
    async fn rest(&self, listing: Arc<Listing>, closing: &CancellationToken) {
        self.state.send_replace(State::Resting(listing));
        tokio::select! {
            () = closing.cancelled() => {}
            () = self.wanted.notified() => {}
        }
    }

    /// One life of the server; how it ended.
    async fn live(&self, closing: &CancellationToken) -> End {
        let (connection, listing) = match self.start(closing).await {
            Ok(started) => started,
            Err(why) => return End::Lost(why),
        };
        tracing::debug!(server = self.config.name, "an MCP server is ready");
        let connection = Arc::new(connection);
        let changed = connection.tools_changed();
        let mut listing = Arc::new(listing);
        loop {
            let ready =
                State::Ready { connection: Arc::clone(&connection), listing: Arc::clone(&listing) };
            self.state.send_replace(ready);
            self.memory.learn(&listing, self.host.clock.now()).await;
            tokio::select! {
                () = closing.cancelled() => break,
                () = connection.ended() => break,
                () = self.unused() => {
                    self.state.send_replace(State::Lost);
                    // Whoever uses it by now may have seen it ready; whoever comes later has not.
                    if *self.users.borrow() == 0 {
                        connection.close().await;
                        return End::Resting(listing);
                    }
                }
                () = changed.notified() => {
                    if let Some(next) = self.list_again(&connection, closing).await {
                        listing = Arc::new(next);
                    }
                }
            }
        }
        self.state.send_replace(match closing.is_cancelled() {
            true => State::Closed,
            false => State::Lost,
        });
        End::Lost(connection.close().await)
    }

    /// Waits until nobody has used it for a while.
    async fn unused(&self) {
        let Some(limit) = self.config.rest_after else { return std::future::pending().await };
        let mut users = self.users.subscribe();
        loop {
            // The sender lives as long as this.
            users.wait_for(|users| *users == 0).await.ok();
            tokio::select! {
                _ = users.changed() => {}
                () = self.host.clock.sleep(limit) => return,
            }
        }
    }

    /// Starts it and learns what it offers.
    async fn start(
        &self,
        closing: &CancellationToken,
    ) -> Result<(Connection, Listing), Unavailable> {
        let permit = tokio::select! {
            permit = self.starts.acquire() => permit,
            () = closing.cancelled() => return Err(Unavailable::cancelled()),
        };
        let starting = self.begin(closing);
        tokio::pin!(starting);
        tokio::select! {
            biased;
            started = &mut starting => return started,
            () = self.host.clock.sleep(START_SHARE) => {}
        }
        drop(permit);
        starting.await
    }

    async fn begin(
        &self,
        closing: &CancellationToken,
    ) -> Result<(Connection, Listing), Unavailable> {
        let connection = Connection::open(&self.config, &self.host, closing).await?;
        match self.list(&connection, closing).await {
            Ok(listing) => Ok((connection, listing)),
            Err(why) => {
                let end = connection.close().await;
                Err(Unavailable::new(format!("{why}; {end}")))
            }
        }
    }

    async fn list(
        &self,
        connection: &Connection,
        closing: &CancellationToken,
    ) -> Result<Listing, Unavailable> {
        tokio::select! {
            () = closing.cancelled() => Err(Unavailable::cancelled()),
            listing = Listing::ask(connection, &self.config) => listing,
            () = self.host.clock.sleep(self.config.start_limit) => {
                Err(Unavailable::new("it did not list its tools in time"))
            }
        }
    }

    /// What it offers now; `None` when that cannot be found out, and what it offered before stays.
    async fn list_again(
        &self,
        connection: &Connection,
        closing: &CancellationToken,
    ) -> Option<Listing> {
        self.host.clock.sleep(SETTLE).await;
        match self.list(connection, closing).await {
            Ok(listing) => Some(listing),
            Err(_) if closing.is_cancelled() => None,
            Err(why) => {
                tracing::warn!(server = self.config.name, %why, "its tools are not known anew");
                None
            }
        }
    }
}
