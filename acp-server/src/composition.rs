//! The composition root: the one place that names every provider and joins them to a session.

use std::sync::Arc;

use bridle_agent::{AgentParts, AgentUpdate, Approver, Mode};
use bridle_session::{Header, Route, Session};
use bridle_store::{LogWriter, SessionStore};
use tokio::sync::mpsc;

use crate::config::Settings;

/// The program's providers, shared by all sessions of the process.
pub struct App {
    _private: (),
}

/// A model that a client can choose.
#[derive(Clone, Debug)]
pub struct ModelChoice {
    /// Which.
    pub route: Route,
    /// The name a person reads.
    pub name: String,
}

/// A session to be started by [`App::agent_parts`].
pub struct SessionSeed {
    /// The new or loaded session.
    pub session: Session,
    /// Its log.
    pub writer: LogWriter,
    /// Who answers questions.
    pub approver: Arc<dyn Approver>,
    /// Where updates go.
    pub updates: mpsc::Sender<AgentUpdate>,
}

impl App {
    /// The settings now in force.
    pub fn settings(&self) -> Arc<Settings> {
        todo!()
    }

    /// Reads the configuration again (on `authenticate`). Running sessions keep their route; the
    /// keys they use are the new ones.
    pub fn reload(&self) {
        todo!()
    }

    /// Whether any provider could answer now.
    pub fn has_credentials(&self) -> bool {
        todo!()
    }

    /// The session store. Its methods block: call them off the async threads.
    pub fn store(&self) -> Arc<dyn SessionStore> {
        todo!()
    }

    /// The models a client may choose now, the default first. Never empty: without a key it lists
    /// the catalogue's defaults.
    pub fn models(&self) -> Vec<ModelChoice> {
        todo!()
    }

    /// The modes a client may choose.
    pub fn modes(&self) -> Vec<Mode> {
        todo!()
    }

    /// The header of a session that begins now in `cwd` (absolute, existing; made canonical).
    ///
    /// # Errors
    /// When `cwd` is relative, missing or not a folder; the message is for a person.
    pub fn new_header(
        &self,
        cwd: &std::path::Path,
        extra_roots: Vec<std::path::PathBuf>,
        origin: &str,
    ) -> Result<Header, String> {
        let _ = (cwd, extra_roots, origin);
        todo!()
    }

    /// Joins a session with tools, model source, prompt, contexts, clock and tasks.
    pub fn agent_parts(&self, seed: SessionSeed) -> AgentParts {
        let _ = seed;
        todo!()
    }
}
