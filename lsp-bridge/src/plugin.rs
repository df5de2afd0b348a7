//! The rows of language servers: one of the process that owns them, one of each session that asks them.

use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{SessionEvent, Tool, ToolPost, ToolRun};
use bridle_compose::{
    ActivateError, Clock, Plugin, Plugins, ServiceKey, Setup, TaskSet, UndoError,
};
use bridle_world::Roots;
use bridle_world::files::Files;
use bridle_world::process::Processes;
use bridle_world::servers::Journal;

use crate::after_edit::AfterEdit;
use crate::ask::Project;
use crate::check::Check;
use crate::desk::Desk;
use crate::life::Host;
use crate::nav::Nav;
use crate::servers::Servers;
use crate::settings::LspSettings;
use crate::symbols::Symbols;
use crate::tool::CodeTool;

/// The name of every tool of this crate.
pub const TOOL_NAMES: [&str; 3] = ["code_diagnostics", "code_nav", "code_symbols"];

/// Adds the plugins of this crate.
#[must_use]
pub fn plugins(plugins: Plugins) -> Plugins {
    plugins.with(ServersPlugin).with(CodePlugin)
}

/// The servers of the process, which are ended with it.
struct ServersPlugin;

#[async_trait]
impl Plugin for ServersPlugin {
    const NAME: &'static str = "language-servers";
    type Config = ();
    type Needs = (Arc<LspSettings>, Arc<Processes>, Arc<dyn Clock>);

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<Servers>()]
    }

    async fn activate(
        &self,
        (): (),
        (settings, processes, clock): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let tasks = TaskSet::new();
        let journal = Journal::new(settings.log.clone(), Arc::clone(&clock), setup.scope().tasks());
        let host = Host { processes, clock, tasks: tasks.clone(), journal };
        let closing = setup.token().clone();
        setup.on_retract("the language servers", || async move {
            // Each of their tasks ends with its server.
            tasks.close().await;
            Ok::<_, UndoError>(())
        })?;
        Ok(setup.provide(Arc::new(Servers::new(settings, host, closing)))?)
    }
}

/// The tools of a session.
struct CodePlugin;

#[async_trait]
impl Plugin for CodePlugin {
    const NAME: &'static str = "code";
    type Config = ();
    type Needs = (Arc<Servers>, Arc<Roots>, Arc<dyn Files>);

    async fn activate(
        &self,
        (): (),
        (servers, roots, files): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let folders = roots.all().map(std::path::Path::to_owned).collect();
        let desk = Arc::new(Desk::new(Project { servers, files, roots: folders }, roots));
        let nav = CodeTool::<Nav>::new(Arc::clone(&desk));
        setup.add::<dyn Tool>("code_nav", Arc::new(nav))?;
        let symbols = CodeTool::<Symbols>::new(Arc::clone(&desk));
        setup.add::<dyn Tool>("code_symbols", Arc::new(symbols))?;
        let check = CodeTool::<Check>::new(Arc::clone(&desk));
        setup.add::<dyn Tool>("code_diagnostics", Arc::new(check))?;
        let after_edit = Arc::new(AfterEdit::new(desk));
        setup.hook::<ToolRun>(Arc::clone(&after_edit) as _)?;
        setup.hook::<ToolPost>(Arc::clone(&after_edit) as _)?;
        Ok(setup.observe::<SessionEvent>(after_edit)?)
    }
}
