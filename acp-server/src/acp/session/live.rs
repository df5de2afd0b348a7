//! An open session: its agent, its outbox and its waiting prompts; how it is opened and closed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    LoadSessionRequest, McpServer, Meta, NewSessionRequest, SessionId as WireId, SessionUpdate,
};
use agent_client_protocol::{Error, RequestCancellation};
use bridle_agent::{
    AgentHandle, AgentStatus, AgentUpdate, Fill, Meter, Mode, NoticeLevel, Shows, UpdateReceiver,
    update_queue,
};
use bridle_compose::EffectFailure;
use bridle_mcp::SessionServers;
use bridle_session::{Header, Session, SessionId};
use bridle_store::{LogWriter, Opened, StoreError};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::acp::elicitation::ClientAsker;
use crate::acp::handlers::Server;
use crate::acp::inbound::notes_in;
use crate::acp::link::Link;
use crate::acp::options::Chosen;
use crate::acp::outbox::{Ask, Outbox, QUESTION_QUEUE, UPDATE_BYTES, UPDATE_QUEUE};
use crate::acp::permission::ClientApprover;
use crate::acp::pieces::Pieces;
use crate::acp::servers;
use crate::acp::skills::KnownSkills;
use crate::acp::speaking::Speaking;
use crate::acp::terminals::Terminals;
use crate::acp::terms::Asked;
use crate::acp::to_acp::Pictures;
use crate::acp::turns::Turns;
use crate::acp::{commands, errors, to_acp};
use crate::composition::{App, OpenSession, SessionSeed, canonical_folder, ceiling, fault};

/// See the module.
pub(super) struct Live {
    id: SessionId,
    session: OpenSession,
    pub(super) turns: Arc<Turns>,
    /// What holds while it is open.
    header: Arc<Header>,
    server: Arc<Server>,
    /// `None` until the session is announced.
    outbox: Option<JoinHandle<()>>,
}

/// A session and its log, before there is a driver.
pub(super) struct Stored {
    pub(super) session: Session,
    /// What is to hold while it is open.
    pub(super) header: Arc<Header>,
    pub(super) writer: LogWriter,
    /// The MCP servers that it is to have.
    pub(super) servers: SessionServers,
}

/// What is still to be done once the client has been told that the session is open.
pub(super) struct Opening {
    pub(super) chosen: Chosen,
    meter: Meter,
    link: Link,
    updates: UpdateReceiver,
    questions: mpsc::Receiver<Ask>,
    /// What the person should know about how the session was set up.
    notes: Vec<String>,
}

impl Live {
    /// A new session whose header is on the disk.
    pub(super) async fn create(
        server: &Arc<Server>,
        link: Link,
        request: NewSessionRequest,
    ) -> Result<(Self, Opening), Error> {
        let mut asked = Asked::of_new(&server.app, &request)?;
        let (servers, notes) =
            set_up(server, request.mcp_servers, request.meta.as_ref(), &mut asked);
        let app = server.app.clone();
        let Some(state) = app.settings().state.clone() else {
            return Err(errors::no_state());
        };
        let not_created = move |failure: StoreError| errors::not_created(&state, &failure);
        let refused = not_created.clone();
        let (header, writer) = blocking(move || {
            let directories = folders(&asked.directories)?;
            let header = app
                .new_header(&request.cwd, directories, "acp")
                .map_err(|reason| errors::invalid_params(&format!("cwd: {reason}")))?;
            let header = Header { terms: asked.terms, ..header };
            let writer = app.store().create(&header).map_err(refused)?;
            Ok((header, writer))
        })
        .await?;
        // An id that a client knows must still be there after a crash.
        writer.flush().await.map_err(not_created)?;
        let session = Session::new(header);
        let header = Arc::clone(session.header());
        Self::start(server, link, Stored { session, header, writer, servers }, notes).await
    }

    /// A stored session, replayed to the client before this returns if it `replays`.
    ///
    /// # Errors
    /// Why it is not open, and that the client took its request back; nothing is open then.
    pub(super) async fn load(
        server: &Arc<Server>,
        link: Link,
        id: &SessionId,
        request: LoadSessionRequest,
        replays: bool,
        cancellation: &RequestCancellation,
    ) -> Result<(Self, Opening), Error> {
        let mut asked = Asked::of_load(&server.app, &request)?;
        let (servers, mut notes) =
            set_up(server, request.mcp_servers, request.meta.as_ref(), &mut asked);
        let (app, stored, cwd) = (server.app.clone(), id.clone(), request.cwd);
        let (Opened { writer, session, recovery }, header) = blocking(move || {
            let store = app.store();
            let header = store.tail(&stored, 0).map_err(|failure| errors::store(&failure))?.header;
            may_open(&cwd, &header)?;
            let directories = folders(&asked.directories)?;
            let opened = store.open(&stored).map_err(|failure| errors::store(&failure))?;
            Ok((opened, Arc::new(asked.over(&header, directories))))
        })
        .await?;
        if recovery.torn_bytes > 0 {
            notes.push(format!(
                "The end of this session's log was torn: {} bytes were set aside",
                recovery.torn_bytes
            ));
        }
        let replay = if replays { bridle_agent::replay(&session) } else { Vec::new() };
        let stored = Stored { session, header, writer, servers };
        let (live, opening) = Self::start(server, link.clone(), stored, notes).await?;
        let shown = match show(&server.app, &link, &live.wire_id(), replay, cancellation).await {
            Ok(()) if cancellation.is_cancelled() => Err(errors::request_cancelled()),
            shown => shown,
        };
        match shown {
            Ok(()) => Ok((live, opening)),
            Err(error) => {
                // Nobody takes its updates, so that it need not wait for that.
                drop(opening);
                drop(live.close().await);
                Err(error)
            }
        }
    }

    /// Whether the session, as it is open, is what a request to load it asks for.
    ///
    /// # Errors
    /// When it belongs to another folder than the request's `cwd`, and when the request asks for
    /// what it is not open with.
    pub(super) async fn is_as(&self, request: LoadSessionRequest) -> Result<(), Error> {
        let asked = Asked::of_load(&self.server.app, &request)?;
        let header = Arc::clone(&self.header);
        blocking(move || {
            same_folder(&request.cwd, &header.cwd)?;
            let directories = match folders(&asked.directories)? {
                none if none.is_empty() => header.extra_roots.clone(),
                some => some,
            };
            if asked.over(&header, directories) == *header {
                Ok(())
            } else {
                Err(errors::open_otherwise())
            }
        })
        .await
    }

    pub(super) async fn start(
        server: &Arc<Server>,
        link: Link,
        Stored { session, header, writer, servers }: Stored,
        mut notes: Vec<String>,
    ) -> Result<(Self, Opening), Error> {
        let (update_sender, updates) = update_queue(UPDATE_QUEUE, UPDATE_BYTES);
        let (asking, questions) = mpsc::channel(QUESTION_QUEUE);
        let shows = Shows { forms: link.client.forms, visits: link.client.visits };
        let wire_id = WireId::new(header.id.as_str());
        let seed = SessionSeed {
            session,
            header: Arc::clone(&header),
            writer,
            servers,
            approver: Arc::new(ClientApprover::new(wire_id.clone(), asking.clone())),
            asker: Arc::new(ClientAsker::new(wire_id, shows, asking)),
            updates: update_sender,
        };
        let session = server.app.open(seed).await.map_err(|reason| errors::internal(&reason))?;
        notes.extend(session.parts.iter().filter_map(fault));
        let ceiling = ceiling(&header.terms);
        let live = Self {
            id: header.id.clone(),
            session,
            turns: Arc::default(),
            header,
            server: server.clone(),
            outbox: None,
        };
        let AgentStatus { mode, route, effort, meter, .. } = match live.agent().status().await {
            Ok(status) => status,
            Err(gone) => {
                drop(live.close().await);
                return Err(errors::agent_gone(gone));
            }
        };
        let chosen = Chosen { mode, ceiling, route, effort };
        notes.extend(chosen.route.as_ref().and_then(|route| server.app.assumption(route)));
        Ok((live, Opening { chosen, meter, link, updates, questions, notes }))
    }

    /// Sends what follows the answer that opened the session, and starts the outbox.
    pub(super) async fn announce(mut self, opening: Opening) -> Self {
        let Opening { chosen, meter, link, updates, questions, mut notes } = opening;
        let session = self.wire_id();
        let send = async |update: SessionUpdate| {
            link.room().await;
            link.update(&session, update);
        };
        let mut skills = KnownSkills::of(self.session.skills()).await;
        send(commands::available(&skills.listing())).await;
        notes.extend(skills.news());
        if let Some((title, rest)) = notes.split_first() {
            let detail = (!rest.is_empty()).then(|| rest.join("\n\n"));
            if link.client.notices {
                let notice = to_acp::notice(NoticeLevel::Warning, title, detail.as_deref());
                send(notice).await;
            } else {
                let level = NoticeLevel::Warning;
                self.turns.note(to_acp::notice_message(level, title, detail.as_deref()));
            }
        }
        let turns = self.turns.clone();
        let app = self.server.app.clone();
        let cwd = self.header.cwd.clone();
        let terminals = link.client.terminal_output.then(|| Terminals::new(cwd.clone()));
        let servers = self.session.servers();
        let outbox = Outbox {
            servers,
            skills,
            settled: meter.total,
            app,
            link,
            session,
            turns,
            cwd,
            chosen,
            meter,
            fill: Fill::default(),
            updates,
            questions,
            pieces: Pieces::new(Arc::clone(&self.server.clock)),
            speaking: Speaking::default(),
            terminals,
        };
        self.outbox = Some(self.server.tasks.spawn(outbox.run()));
        self
    }

    /// Cancels what runs, waits until nothing is left, answers the waiting prompts and releases
    /// the session's log. Says what of it failed.
    pub(super) async fn close(self) -> Vec<EffectFailure> {
        self.turns.close();
        let failures = self.session.close().await;
        if let Some(outbox) = self.outbox
            && let Err(error) = outbox.await
        {
            tracing::error!(session = %self.id, %error, "the outbox of a session failed");
        }
        self.server.closed.notify_one();
        failures
    }

    /// Closes a session that nobody has been told of, and removes it from the disk.
    pub(super) async fn discard(self) {
        let (app, id) = (Arc::clone(&self.server.app), self.id.clone());
        drop(self.close().await);
        if let Err(error) = remove(&app, &id).await {
            tracing::warn!(session = %id, error = error.message, "a session that nobody wants stays");
        }
    }

    /// Whether the outbox has ended, so that nobody would answer a prompt.
    pub(super) fn is_deaf(&self) -> bool {
        self.outbox.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The mode that nothing can raise it above.
    pub(super) fn ceiling(&self) -> Mode {
        ceiling(&self.header.terms)
    }

    /// Talks to the session's driver.
    pub(super) fn agent(&self) -> &AgentHandle {
        &self.session.agent
    }

    pub(super) fn id(&self) -> &SessionId {
        &self.id
    }

    fn wire_id(&self) -> WireId {
        WireId::new(self.id.as_str())
    }
}

/// Removes a session from the disk; one that is not there is no error.
pub(super) async fn remove(app: &Arc<App>, id: &SessionId) -> Result<(), Error> {
    let (app, id) = (Arc::clone(app), id.clone());
    blocking(move || match app.store().remove(&id) {
        Ok(()) | Err(StoreError::NotFound(_)) => Ok(()),
        Err(failure) => Err(errors::store(&failure)),
    })
    .await
}

/// Shows the client what was said and done in a session.
///
/// # Errors
/// When its request is cancelled: then in part.
pub(in crate::acp) async fn show(
    app: &App,
    link: &Link,
    session: &WireId,
    replay: Vec<AgentUpdate>,
    cancellation: &RequestCancellation,
) -> Result<(), Error> {
    let blobs = app.blobs();
    let (replay, pictures) = blocking(move || {
        let pictures = Pictures::of(&replay, blobs.as_ref());
        Ok((replay, pictures))
    })
    .await?;
    let shown = |update| to_acp::replayed(update, &link.client, &pictures);
    let sent = async {
        for update in replay.into_iter().flat_map(shown) {
            link.room().await;
            link.update(session, update);
        }
        Ok(())
    };
    cancellation.run_until_cancelled(sent).await
}

/// What the agent is set to now.
pub(super) async fn chosen(agent: &AgentHandle, ceiling: Mode) -> Result<Chosen, Error> {
    let status = agent.status().await.map_err(errors::agent_gone)?;
    Ok(Chosen { mode: status.mode, ceiling, route: status.route, effort: status.effort })
}

/// Runs what blocks on the disk off the async threads.
pub(in crate::acp) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a blocking call failed");
        Err(errors::internal("the call failed; the log has the details"))
    })
}

/// Whether a client may open a stored session, or a fork of it, with this `cwd`.
pub(super) fn may_open(asked: &Path, stored: &Header) -> Result<(), Error> {
    match stored.delegation_depth {
        0 => same_folder(asked, &stored.cwd),
        _ => Err(errors::of_a_subagent()),
    }
}

/// A session belongs to its folder: in another one its paths and permissions would mean something
/// else.
fn same_folder(asked: &Path, home: &Path) -> Result<(), Error> {
    if !asked.is_absolute() {
        return Err(errors::invalid_params("cwd: the path must be absolute"));
    }
    if asked == home || fs_err::canonicalize(asked).is_ok_and(|asked| asked == home) {
        return Ok(());
    }
    Err(errors::other_folder(asked, home))
}

/// The canonical names of further folders.
pub(super) fn folders(asked: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let canonical = asked.iter().map(|folder| canonical_folder(folder)).collect::<Result<_, _>>();
    canonical.map_err(|reason| errors::invalid_params(&format!("additionalDirectories: {reason}")))
}

/// The MCP servers that a request names, and everything that the person should know of how the request
/// was taken.
pub(super) fn set_up(
    server: &Server,
    servers: Vec<McpServer>,
    meta: Option<&Meta>,
    asked: &mut Asked,
) -> (SessionServers, Vec<String>) {
    let (servers, mut notes) = servers::from_client(servers);
    notes.extend(notes_in(meta));
    notes.extend(server.app.settings().problems.iter().cloned());
    notes.append(&mut asked.notes);
    (servers, notes)
}
