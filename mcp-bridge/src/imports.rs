//! The tools of a session's servers, kept as the servers define them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bridle_agent::Tool;
use bridle_compose::{Activation, Registration};
use bridle_store::BlobStore;
use futures::future::select_all;
use tokio_util::sync::CancellationToken;

use crate::listing::Definition;
use crate::resources::{ListResources, ReadResource};
use crate::server::Server;
use crate::tool::{Imported, name_of};

/// The imported tools of one session.
#[derive(Default)]
pub(crate) struct Imports {
    /// By the names that the model uses.
    rows: Mutex<BTreeMap<String, Row>>,
    /// The tools for resources, once a server has any.
    resources: Mutex<Vec<(Arc<dyn Tool>, Registration)>>,
}

/// One imported tool.
struct Row {
    /// The place of its server.
    server: usize,
    tool: Arc<Imported>,
    _registration: Registration,
}

impl Imports {
    /// Keeps the tools as the servers define them, until `closing` is cancelled.
    pub(crate) async fn follow(
        self: Arc<Self>,
        servers: Arc<[Arc<Server>]>,
        blobs: Arc<dyn BlobStore>,
        setup: Activation,
        closing: CancellationToken,
    ) {
        let mut watches: Vec<_> = servers.iter().map(|server| server.watch()).collect();
        loop {
            for (index, (server, watch)) in servers.iter().zip(&mut watches).enumerate() {
                watch.mark_unchanged();
                if let Some(listing) = server.offer() {
                    if listing.resources {
                        self.offer_resources(&servers, &blobs, &setup);
                    }
                    let offers = |tool: &&Definition| server.config.offers(&tool.name);
                    let offered: Vec<_> = listing.tools.iter().filter(offers).collect();
                    self.replace(index, server, &offered, &blobs, &setup);
                }
                server.imported();
            }
            let changes = watches.iter_mut().map(|watch| Box::pin(watch.changed()));
            tokio::select! {
                () = closing.cancelled() => return,
                _ = select_all(changes) => {}
            }
        }
    }

    /// The tool of this name.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.all().into_iter().find(|tool| tool.spec().name == name)
    }

    /// All of them, by name, and those for resources.
    pub(crate) fn all(&self) -> Vec<Arc<dyn Tool>> {
        let rows = self.lock();
        let imported = rows.values().map(|row| Arc::clone(&row.tool) as Arc<dyn Tool>);
        let resources = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        imported.chain(resources.iter().map(|(tool, _)| Arc::clone(tool))).collect()
    }

    /// Has the tools for resources from now on: a server that is lost has them again.
    fn offer_resources(
        &self,
        servers: &Arc<[Arc<Server>]>,
        blobs: &Arc<dyn BlobStore>,
        setup: &Activation,
    ) {
        let mut resources = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        if !resources.is_empty() {
            return;
        }
        let list: Arc<dyn Tool> = Arc::new(ListResources::new(Arc::clone(servers)));
        let read: Arc<dyn Tool> =
            Arc::new(ReadResource::new(Arc::clone(servers), Arc::clone(blobs)));
        for (name, tool) in [(ListResources::NAME, list), (ReadResource::NAME, read)] {
            match setup.register::<dyn Tool>(name, Arc::clone(&tool)) {
                Ok(registration) => resources.push((tool, registration)),
                Err(error) => tracing::warn!(%error, name, "a tool is left out"),
            }
        }
    }

    /// Has exactly these tools of a server. Those of one that is lost stay as they were: a call starts
    /// it again.
    fn replace(
        &self,
        index: usize,
        server: &Arc<Server>,
        offered: &[&Definition],
        blobs: &Arc<dyn BlobStore>,
        setup: &Activation,
    ) {
        let mut rows = self.lock();
        rows.retain(|_, row| row.server != index || offered.contains(&row.tool.definition()));
        for definition in offered {
            let is_known = |row: &Row| row.server == index && row.tool.definition() == *definition;
            if rows.values().any(is_known) {
                continue;
            }
            let name = name_of(&server.config.name, &definition.name);
            let definition = Definition::clone(definition);
            let (server, blobs) = (Arc::clone(server), Arc::clone(blobs));
            let tool = Arc::new(Imported::new(&name, definition, server, blobs));
            match setup.register::<dyn Tool>(&name, Arc::clone(&tool) as _) {
                Ok(registration) => {
                    rows.insert(name, Row { server: index, tool, _registration: registration });
                }
                Err(error) => tracing::warn!(%error, name, "a tool is left out"),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Row>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
