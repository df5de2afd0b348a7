//! A new session that begins with everything that another one has said and done, on the disk, up to
//! now. The other one is only read, so it may be open and busy, here or elsewhere.

use std::sync::Arc;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{ForkSessionRequest, LoadSessionRequest};
use bridle_session::{Seq, SessionId};

use super::live::{Live, Opening, Stored, blocking, folders, may_open, set_up};
use crate::acp::errors;
use crate::acp::handlers::Server;
use crate::acp::link::Link;
use crate::acp::terms::Asked;
use crate::composition::fork_header;

impl Live {
    /// The new session, with the parent's terms and what the request adds, as at a load.
    pub(super) async fn fork(
        server: &Arc<Server>,
        link: Link,
        request: ForkSessionRequest,
    ) -> Result<(Self, Opening), Error> {
        let asked_for = request.session_id.clone();
        let id = SessionId::parse(&asked_for.0);
        let id = id.ok_or_else(|| errors::no_such_session(&asked_for.0))?;
        let request = LoadSessionRequest::new(request.session_id, request.cwd)
            .additional_directories(request.additional_directories)
            .mcp_servers(request.mcp_servers)
            .system_prompt(request.system_prompt)
            .meta(request.meta);
        let mut asked = Asked::of_load(&server.app, &request)?;
        let (servers, notes) =
            set_up(server, request.mcp_servers, request.meta.as_ref(), &mut asked);
        let app = Arc::clone(&server.app);
        let stored = blocking(move || {
            let parent = app.store().read(&id).map_err(|failure| errors::store(&failure))?.session;
            may_open(&request.cwd, parent.header())?;
            let last = parent.len().0.checked_sub(1).map(Seq);
            let last = last.ok_or_else(|| {
                errors::invalid_params("session/fork: nothing has happened in this session yet")
            })?;
            let over = asked.over(parent.header(), folders(&asked.directories)?);
            let session = parent.fork(fork_header(&over, last), last);
            let session = session.map_err(|refused| errors::internal(&refused.to_string()))?;
            let writer = app.store().seed(&session).map_err(|failure| errors::store(&failure))?;
            Ok(Stored { header: Arc::clone(session.header()), session, writer, servers })
        });
        Self::start(server, link, stored.await?, notes).await
    }
}
