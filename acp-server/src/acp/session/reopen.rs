//! A stored session that a client wants back: with what was said (`session/load`) or without
//! (`session/resume`). One that is open here keeps its driver and its running turn.

use std::sync::Arc;

use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    LoadSessionRequest, LoadSessionResponse, ResumeSessionRequest, ResumeSessionResponse,
};
use agent_client_protocol::{Error, RequestCancellation};

use serde_json::Value;

use super::Actor;
use super::live::{self, Live};
use crate::acp::clients::ClientTraits;
use crate::acp::errors;
use crate::acp::link::Link;
use crate::acp::opening;
use crate::acp::options::{self, Chosen};
use crate::acp::outbox::answer;
use crate::composition::App;

/// A session that is wanted back.
#[derive(Debug)]
pub(in crate::acp) struct Reopen {
    /// A resume asks for the same, except that nothing is replayed.
    pub(super) request: LoadSessionRequest,
    pub(super) wanted: Wanted,
    pub(super) link: Link,
}

/// What is wanted, and who waits for it.
#[derive(Debug)]
pub(in crate::acp) enum Wanted {
    /// What was said, before the answer.
    Replay(Responder<Value>),
    /// The answer alone.
    Resume(Responder<Value>),
}

impl Reopen {
    pub(in crate::acp) fn load(
        request: LoadSessionRequest,
        responder: Responder<Value>,
        link: Link,
    ) -> Self {
        Self { request, wanted: Wanted::Replay(responder), link }
    }

    pub(in crate::acp) fn resume(
        request: ResumeSessionRequest,
        responder: Responder<Value>,
        link: Link,
    ) -> Self {
        let ResumeSessionRequest { session_id, cwd, .. } = request;
        let request = LoadSessionRequest::new(session_id, cwd)
            .additional_directories(request.additional_directories)
            .mcp_servers(request.mcp_servers)
            .system_prompt(request.system_prompt)
            .meta(request.meta);
        Self { request, wanted: Wanted::Resume(responder), link }
    }
}

impl Wanted {
    /// Answers that the session is open, and what it is set to.
    pub(in crate::acp) fn opened(
        self,
        id: &str,
        (app, chosen, client): (&App, &Chosen, ClientTraits),
    ) {
        let about = (app, chosen, client);
        let (modes, all) = (options::modes(app, chosen), options::all(app, chosen));
        match self {
            Self::Replay(responder) => {
                let response = LoadSessionResponse::new().modes(modes).config_options(all);
                answer(opening::respond(responder, id, response, about));
            }
            Self::Resume(responder) => {
                let response = ResumeSessionResponse::new().modes(modes).config_options(all);
                answer(opening::respond(responder, id, response, about));
            }
        }
    }

    /// Tells when the client takes its request back.
    pub(in crate::acp) fn cancellation(&self) -> RequestCancellation {
        match self {
            Self::Replay(responder) | Self::Resume(responder) => responder.cancellation(),
        }
    }

    pub(in crate::acp) fn refuse(self, error: Error) {
        match self {
            Self::Replay(responder) => answer(responder.respond_with_error(error)),
            Self::Resume(responder) => answer(responder.respond_with_error(error)),
        }
    }
}

impl Actor {
    pub(super) async fn reopen(&mut self, reopen: Reopen) {
        let Reopen { request, wanted, link } = reopen;
        let cancellation = wanted.cancellation();
        if cancellation.is_cancelled() {
            return wanted.refuse(errors::request_cancelled());
        }
        if let Some(live) = &self.live {
            return match live.is_as(request).await {
                Err(error) => wanted.refuse(error),
                Ok(()) => self.show_again(live, wanted, link.client).await,
            };
        }
        let client = link.client;
        let replays = matches!(wanted, Wanted::Replay(_));
        match Live::load(&self.server, link, &self.id, request, replays, &cancellation).await {
            Err(error) => wanted.refuse(error),
            Ok((live, opening)) => {
                wanted.opened(self.id.as_str(), (&self.server.app, &opening.chosen, client));
                self.live = Some(live.announce(opening).await);
            }
        }
    }

    /// The outbox replays, between what it has sent of a running turn and what is to come.
    async fn show_again(&self, live: &Live, wanted: Wanted, client: ClientTraits) {
        let (app, agent, id) =
            (Arc::clone(&self.server.app), live.agent().clone(), self.id.clone());
        let ceiling = live.ceiling();
        if live.is_deaf() {
            return wanted.refuse(errors::agent_gone(bridle_agent::AgentGone::Closed));
        }
        let Wanted::Replay(responder) = wanted else {
            return self
                .begin(async move {
                    match live::chosen(&agent, ceiling).await {
                        Ok(chosen) => wanted.opened(id.as_str(), (&app, &chosen, client)),
                        Err(error) => wanted.refuse(error),
                    }
                })
                .await;
        };
        live.turns.open_replay(responder);
        if let Err(gone) = agent.replay()
            && let Some(responder) = live.turns.take_last_replay()
        {
            answer(responder.respond_with_error(errors::agent_gone(gone)));
        }
    }
}
