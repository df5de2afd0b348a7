//! A workspace on disk and the way a driver puts a call through a tool.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bridle_agent::{
    Access, Grant, Observed, PlannedCall, Progress, SessionChange, Tool, ToolContext, ToolFailure,
    ToolOutcome, read_arguments,
};
use bridle_compose::{Plugins, Row, Scope, TaskSet};
use bridle_session::Content;
use bridle_store::{BlobStore, MemoryStore};
use bridle_world::Roots;
use bridle_world::files::{ContentHash, Files as _, LocalFiles};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::file_tool::FileWorld;
use crate::seen::SeenTexts;

/// `base/ws` is the workspace; `base/outside` and `base/ws-evil` are not.
pub(crate) struct Workspace {
    _dir: tempfile::TempDir,
    pub(crate) base: PathBuf,
    pub(crate) roots: Arc<Roots>,
    /// What the model of this workspace has seen, as a session's log would have it.
    observed: Mutex<Observed>,
    texts: Arc<SeenTexts>,
    /// Whether it has seen only that. Otherwise it has seen every file as it is when it is changed.
    pub(crate) forgets: bool,
}

impl Workspace {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = fs_err::canonicalize(dir.path()).unwrap();
        for folder in ["ws", "ws-evil", "outside"] {
            fs_err::create_dir(base.join(folder)).unwrap();
        }
        let roots = Arc::new(Roots::new(base.join("ws"), Vec::new()));
        let (observed, texts) = (Mutex::default(), Arc::default());
        let workspace = Self { _dir: dir, base, roots, observed, texts, forgets: false };
        for (path, text) in files {
            workspace.put(path, text);
        }
        workspace
    }

    pub(crate) fn world(&self) -> FileWorld {
        let texts = Arc::clone(&self.texts);
        FileWorld { texts, ..FileWorld::new(Arc::clone(&self.roots), Arc::new(LocalFiles)) }
    }

    /// A path below the workspace.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.roots.cwd().join(path)
    }

    pub(crate) fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, bytes).unwrap();
    }

    pub(crate) fn get(&self, path: &str) -> Vec<u8> {
        fs_err::read(self.path(path)).unwrap()
    }

    pub(crate) fn fifo(&self, path: &str) {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, self.path(path), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    /// Everything of the workspace's own folder, names only.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let mut names: Vec<String> = fs_err::read_dir(self.path(path))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    async fn tool(&self, name: &str) -> Arc<dyn Tool> {
        let tools = file_tools(Arc::clone(&self.roots), Arc::clone(&self.texts)).await;
        tools.into_iter().find(|tool| tool.spec().name == name).unwrap()
    }

    pub(crate) async fn plan(
        &self,
        tool: &str,
        arguments: Value,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        let tool = self.tool(tool).await;
        if let Some(path) = arguments["path"].as_str().filter(|_| !self.forgets) {
            self.see(path);
        }
        let context = ToolContext { observed: self.observed(), ..context() };
        tool.plan(read_arguments(tool.spec(), &arguments.to_string())?, &context).await
    }

    fn see(&self, path: &str) {
        let Ok(place) = self.roots.resolve(path) else { return };
        let Ok(bytes) = LocalFiles.read(place.path(), 1 << 24) else { return };
        let hash = ContentHash::of(&bytes).to_hex();
        let mut observed = self.observed.lock().unwrap();
        Arc::make_mut(&mut observed).insert(place.path().to_owned(), hash);
    }

    /// What the model has seen.
    pub(crate) fn observed(&self) -> Observed {
        Arc::clone(&self.observed.lock().unwrap())
    }

    pub(crate) async fn run(
        &self,
        tool: &str,
        arguments: Value,
    ) -> Result<ToolOutcome, ToolFailure> {
        let outcome = run(self.plan(tool, arguments).await?).await?;
        let mut observed = self.observed.lock().unwrap();
        for change in &outcome.changes {
            let SessionChange::Observed { path, hash } = change else { continue };
            match hash {
                Some(hash) => Arc::make_mut(&mut observed).insert(path.clone(), hash.clone()),
                None => Arc::make_mut(&mut observed).remove(path),
            };
        }
        drop(observed);
        Ok(outcome)
    }

    /// What the model reads of a call that succeeds.
    pub(crate) async fn text(&self, tool: &str, arguments: Value) -> String {
        let outcome = self.run(tool, arguments).await.unwrap();
        self.tool(tool).await.render(&outcome.value).iter().map(text_of).collect()
    }

    /// Everything that the model gets of a call that succeeds.
    pub(crate) async fn contents(&self, tool: &str, arguments: Value) -> Vec<Content> {
        let outcome = self.run(tool, arguments).await.unwrap();
        self.tool(tool).await.render(&outcome.value)
    }

    /// What the model reads of a call that fails, with the workspace's place taken out.
    pub(crate) async fn error(&self, tool: &str, arguments: Value) -> String {
        let failure = self.run(tool, arguments).await.unwrap_err();
        failure.message.replace(self.base.to_str().unwrap(), "/base")
    }

    pub(crate) async fn access(&self, tool: &str, arguments: Value) -> Vec<Access> {
        self.plan(tool, arguments).await.unwrap().access()
    }
}

/// The file tools, as the rows of a session contribute them.
pub(crate) async fn file_tools(roots: Arc<Roots>, texts: Arc<SeenTexts>) -> Vec<Arc<dyn Tool>> {
    let scope = Scope::root("session", crate::plugins(Plugins::new()), TaskSet::new());
    scope.provide("roots", roots).await;
    scope.provide("texts", texts).await;
    scope.provide::<dyn BlobStore>("blobs", Arc::new(MemoryStore::new())).await;
    let rows = [
        "local-files",
        "read",
        "list",
        "glob",
        "search",
        "edit",
        "write",
        "move",
        "delete",
        "apply_patch",
    ];
    scope.mount(rows.map(Row::new).into()).await;
    scope.all()
}

pub(crate) fn context() -> ToolContext {
    ToolContext {
        token: CancellationToken::new(),
        progress: Progress::none(),
        observed: Observed::default(),
    }
}

pub(crate) async fn run(planned: Box<dyn PlannedCall>) -> Result<ToolOutcome, ToolFailure> {
    planned.run(Grant::for_tests(), context()).await
}

fn text_of(content: &Content) -> &str {
    match content {
        Content::Text { text } => text,
        other => panic!("not a text: {other:?}"),
    }
}
