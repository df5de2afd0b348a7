//! The row that gives a session its MCP servers and keeps its tools as the servers define them.

use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{AgentHandle, Asker, ContextSource, Tool, Warmup};
use bridle_compose::{
    ActivateError, Activation, Clock, Plugin, Plugins, ServiceKey, Setup, UndoError,
};
use bridle_session::Header;
use bridle_store::BlobStore;
use bridle_world::process::Processes;
use bridle_world::servers::Journal;
use tokio::sync::{Mutex, Semaphore, mpsc};

use crate::asking::{Person, Unshown};
use crate::config::{ServerConfig, SessionServers};
use crate::connection::Host;
use crate::imports::Imports;
use crate::late::{CallTool, FindTools};
use crate::memory::Memory;
use crate::report::{self, ServerContext};
use crate::server::Server;

type Servers = Arc<[Arc<Server>]>;

/// The servers of a session, as they run.
#[derive(Default)]
pub struct Running {
    servers: Servers,
    /// What their person was not shown, for whoever tells them.
    unshown: Option<Arc<Mutex<mpsc::Receiver<Unshown>>>>,
}

impl Running {
    /// How each one stands now, a line each in Markdown, for a person.
    pub fn standing(&self) -> String {
        match self.servers.is_empty() {
            true => "This session has no MCP servers.\n".to_owned(),
            false => self.servers.iter().map(|server| report::standing(server)).collect(),
        }
    }
}

/// Adds the plugins of this crate.
#[must_use]
pub fn plugins(plugins: Plugins) -> Plugins {
    plugins.with(StartsPlugin).with(McpPlugin).with(ReportPlugin)
}

/// How many servers of a process may start at once: as many as there are processors, and those that take
/// long.
struct Starts(Arc<Semaphore>);

struct StartsPlugin;

#[async_trait]
impl Plugin for StartsPlugin {
    const NAME: &'static str = "mcp-starts";
    type Config = ();
    type Needs = ();

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<Starts>()]
    }

    async fn activate(&self, (): (), (): (), setup: &Setup) -> Result<(), ActivateError> {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        Ok(setup.provide(Arc::new(Starts(Arc::new(Semaphore::new(processors)))))?)
    }
}

struct McpPlugin;

#[async_trait]
impl Plugin for McpPlugin {
    const NAME: &'static str = "mcp";
    type Config = ();
    type Needs = (
        Arc<SessionServers>,
        Arc<Starts>,
        Arc<Processes>,
        Arc<dyn Clock>,
        Arc<dyn BlobStore>,
        Arc<Header>,
        Arc<dyn Asker>,
    );

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<Running>()]
    }

    async fn activate(
        &self,
        (): (),
        (servers, starts, processes, clock, blobs, header, asker): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let tasks = setup.scope().tasks().clone();
        let folders = std::iter::once(&header.cwd).chain(&header.extra_roots).cloned().collect();
        let journal = Journal::new(servers.journal.clone(), Arc::clone(&clock), &tasks);
        let ca_file = servers.ca_file.clone();
        let (person, unshown) = Person::new(Some(asker), Arc::clone(&clock));
        let host =
            Host { processes, clock, tasks: tasks.clone(), journal, person, ca_file, folders };
        let folder = servers.memory.clone();
        let server = |config: &ServerConfig| {
            let memory = Memory::new(folder.as_deref(), config);
            Arc::new(Server::new(config.clone(), host.clone(), Arc::clone(&starts.0), memory))
        };
        let servers: Servers = servers.servers.iter().map(server).collect();
        let unshown = Some(Arc::new(Mutex::new(unshown)));
        setup.provide(Arc::new(Running { servers: Arc::clone(&servers), unshown }))?;
        if servers.is_empty() {
            return Ok(());
        }
        let closing = setup.token();
        let run = |server: &Arc<Server>| tasks.spawn(Arc::clone(server).run(closing.clone()));
        let runs: Vec<_> = servers.iter().map(run).collect();
        setup.on_retract("the MCP servers", move || async move {
            for run in runs {
                run.await.map_err(|error| UndoError::from(error.to_string()))?;
            }
            Ok(())
        })?;
        let imports = Arc::<Imports>::default();
        setup.add::<dyn Tool>("find_tools", Arc::new(FindTools::new(Arc::clone(&imports))))?;
        setup.add::<dyn Tool>("call_tool", Arc::new(CallTool::new(Arc::clone(&imports))))?;
        setup.add::<dyn ContextSource>("mcp", Arc::new(ServerContext(Arc::clone(&servers))))?;
        setup.add::<dyn Warmup>("mcp", Arc::new(FirstStarts(Arc::clone(&servers))))?;
        let activation = Activation::clone(setup);
        tasks.spawn(imports.follow(servers, blobs, activation, closing.clone()));
        Ok(())
    }
}

/// The first request of a session waits for servers that have not said yet what they offer.
struct FirstStarts(Servers);

#[async_trait]
impl Warmup for FirstStarts {
    async fn ready(&self) {
        for server in &*self.0 {
            server.first_heard().await;
        }
    }
}

/// Tells the person how the servers stand.
struct ReportPlugin;

#[async_trait]
impl Plugin for ReportPlugin {
    const NAME: &'static str = "mcp-report";
    type Config = ();
    type Needs = (Arc<Running>, Arc<AgentHandle>);

    async fn activate(
        &self,
        (): (),
        (running, agent): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let tasks = setup.scope().tasks();
        for server in &*running.servers {
            let told = report::tell(Arc::clone(&agent), Arc::clone(server), setup.token().clone());
            tasks.spawn(told);
        }
        if let Some(unshown) = running.unshown.clone() {
            tasks.spawn(report::tell_unshown(agent, unshown, setup.token().clone()));
        }
        Ok(())
    }
}
