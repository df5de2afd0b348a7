//! A session whose files come from somewhere else than the disk, as from an editor with unsaved
//! buffers: its tools read and write there, and the other sessions of the process notice nothing.

use std::collections::HashMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bridle_agent::{
    Access, Grant, Observed, PlannedCall, Progress, Tool, ToolContext, ToolFailure,
};
use bridle_compose::{Plugins, Row, Scope, TaskSet};
use bridle_session::Content;
use bridle_store::{BlobStore, MemoryStore};
use bridle_toolkit::plugins;
use bridle_world::Roots;
use bridle_world::files::{
    ContentHash, FileError, Files, LineWindow, Lines, Listing, LocalFiles, NotText, Snapshot,
    Version,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// Holds buffers over the disk. Whatever is written becomes a buffer.
#[derive(Default)]
struct Editor(Mutex<HashMap<PathBuf, Vec<u8>>>);

/// The buffer that a change was computed on; `None` where there was none.
#[derive(PartialEq)]
struct Seen(Option<Vec<u8>>);

impl Editor {
    fn open(&self, path: &Path, text: &str) {
        self.0.lock().unwrap().insert(path.to_owned(), text.into());
    }

    fn buffer(&self, path: &Path) -> Option<Vec<u8>> {
        self.0.lock().unwrap().get(path).cloned()
    }
}

impl Files for Editor {
    fn list(&self, folder: &Path, limit: usize) -> Result<Listing, FileError> {
        LocalFiles.list(folder, limit)
    }

    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
        self.buffer(path).map_or_else(|| LocalFiles.read(path, limit), Ok)
    }

    fn read_lines(
        &self,
        path: &Path,
        window: &LineWindow,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Result<Lines, NotText>, FileError> {
        match self.buffer(path) {
            Some(bytes) => Ok(Lines::read(Cursor::new(bytes), window, cancelled).unwrap()),
            None => LocalFiles.read_lines(path, window, cancelled),
        }
    }

    fn read_for_change(&self, path: &Path, limit: u64) -> Result<Snapshot, FileError> {
        let buffer = self.buffer(path);
        let bytes = match buffer.clone() {
            Some(bytes) => bytes.into(),
            None => LocalFiles.read_for_change(path, limit)?.bytes,
        };
        let hash = ContentHash::of(&bytes);
        Ok(Snapshot { bytes, hash, version: Version::new(Seen(buffer)), further_names: 0 })
    }

    fn anchor(&self, _: &Path) -> Result<Version, FileError> {
        Ok(Version::new(Seen(None)))
    }

    fn write(&self, path: &Path, version: &Version, bytes: &[u8]) -> Result<(), FileError> {
        let mut buffers = self.0.lock().unwrap();
        if version.mark() != Some(&Seen(buffers.get(path).cloned())) {
            return Err(FileError::Stale(path.to_owned()));
        }
        buffers.insert(path.to_owned(), bytes.to_owned());
        Ok(())
    }

    fn remove(&self, path: &Path, version: &Version) -> Result<(), FileError> {
        LocalFiles.remove(path, version)
    }

    fn rename(
        &self,
        path: &Path,
        version: &Version,
        to: &Path,
        place: &Version,
    ) -> Result<(), FileError> {
        LocalFiles.rename(path, version, to, place)
    }
}

struct Process {
    dir: tempfile::TempDir,
    scope: Scope,
}

impl Process {
    async fn new() -> Self {
        let scope = Scope::root("process", plugins(Plugins::new()), TaskSet::new());
        scope.provide::<dyn BlobStore>("blobs", Arc::new(MemoryStore::new())).await;
        scope.mount(vec![Row::new("local-files")]).await;
        Self { dir: tempfile::tempdir().unwrap(), scope }
    }

    fn path(&self, name: &str) -> PathBuf {
        fs_err::canonicalize(self.dir.path()).unwrap().join(name)
    }

    fn on_disk(&self, name: &str) -> Option<String> {
        fs_err::read_to_string(self.path(name)).ok()
    }

    /// A session in the folder, with the rows that every session has.
    async fn session(&self, name: &str) -> Scope {
        let session = self.scope.child(name);
        let roots = Roots::new(self.path(""), Vec::new());
        session.provide("roots", Arc::new(roots)).await;
        session.mount(["seen-texts", "read", "edit", "write"].map(Row::new).into()).await;
        session
    }
}

fn context() -> ToolContext {
    ToolContext {
        token: CancellationToken::new(),
        progress: Progress::none(),
        observed: Observed::default(),
    }
}

fn named(session: &Scope, name: &str) -> Arc<dyn Tool> {
    let tools = session.all::<dyn Tool>();
    tools.into_iter().find(|tool| tool.spec().name == name).unwrap()
}

async fn plan(session: &Scope, tool: &str, arguments: Value) -> Box<dyn PlannedCall> {
    let tool = named(session, tool);
    // The model has seen what the session's files hold.
    let (roots, files) = (session.get::<Roots>().unwrap(), session.get::<dyn Files>().unwrap());
    let path = roots.cwd().join(arguments.get("path").and_then(Value::as_str).unwrap());
    let mut context = context();
    if let Ok(bytes) = files.read(&path, 1_000) {
        let hash = ContentHash::of(&bytes).to_hex();
        context.observed = Observed::new([(path, hash)].into());
    }
    tool.plan(arguments, &context).await.unwrap()
}

async fn call(session: &Scope, tool: &str, arguments: Value) -> Result<String, ToolFailure> {
    let planned = plan(session, tool, arguments).await;
    let outcome = planned.run(Grant::for_tests(), context()).await?;
    match named(session, tool).render(&outcome.value).as_slice() {
        [Content::Text { text }] => Ok(text.clone()),
        other => panic!("not one text: {other:?}"),
    }
}

fn replacing(path: &str, old: &str, new: &str) -> Value {
    json!({ "path": path, "edits": [{ "old_text": old, "new_text": new }] })
}

#[tokio::test]
async fn a_session_with_other_files_reads_and_writes_there_and_only_there() {
    let process = Process::new().await;
    fs_err::write(process.path("f"), "saved\n").unwrap();
    let (session, other) = (process.session("session").await, process.session("other").await);
    let read = json!({ "path": "f" });
    assert_eq!(call(&session, "read", read.clone()).await.unwrap(), "     1\tsaved\n");

    let editor = Arc::new(Editor::default());
    editor.open(&process.path("f"), "unsaved\n");
    session.provide::<dyn Files>("editor", editor.clone()).await;
    assert_eq!(call(&session, "read", read.clone()).await.unwrap(), "     1\tunsaved\n");
    assert_eq!(call(&other, "read", read.clone()).await.unwrap(), "     1\tsaved\n");

    call(&session, "edit", replacing("f", "unsaved", "edited")).await.unwrap();
    call(&session, "write", json!({ "path": "new", "content": "new\n" })).await.unwrap();
    assert_eq!(editor.buffer(&process.path("f")).unwrap(), b"edited\n");
    assert_eq!(editor.buffer(&process.path("new")).unwrap(), b"new\n");
    assert_eq!(process.on_disk("f").unwrap(), "saved\n");
    assert_eq!(process.on_disk("new"), None);

    call(&other, "edit", replacing("f", "saved", "theirs")).await.unwrap();
    assert_eq!(process.on_disk("f").unwrap(), "theirs\n");
    assert_eq!(editor.buffer(&process.path("f")).unwrap(), b"edited\n");

    session.unmount("editor").await;
    assert_eq!(call(&session, "read", read).await.unwrap(), "     1\ttheirs\n");
}

#[tokio::test]
async fn what_the_person_typed_since_the_plan_is_not_overwritten() {
    let process = Process::new().await;
    let session = process.session("session").await;
    let editor = Arc::new(Editor::default());
    let path = process.path("f");
    fs_err::write(&path, "saved\n").unwrap();
    session.provide::<dyn Files>("editor", editor.clone()).await;
    let planned = plan(&session, "edit", replacing("f", "saved", "edited")).await;
    assert_eq!(planned.access(), [Access::WriteInside(path.clone())]);
    editor.open(&path, "typed\n");
    let failure = planned.run(Grant::for_tests(), context()).await.unwrap_err();
    assert!(failure.message.contains("changed since this call was prepared"), "{failure}");
    assert_eq!(editor.buffer(&path).unwrap(), b"typed\n");
    assert_eq!(process.on_disk("f").unwrap(), "saved\n");
}

/// A call that was planned on one provider runs on it, whatever its session has got since.
#[tokio::test]
async fn a_planned_call_keeps_its_provider() {
    let process = Process::new().await;
    let session = process.session("session").await;
    let path = process.path("f");
    fs_err::write(&path, "saved\n").unwrap();
    let planned = plan(&session, "edit", replacing("f", "saved", "edited")).await;
    let editor = Arc::new(Editor::default());
    session.provide::<dyn Files>("editor", editor.clone()).await;
    planned.run(Grant::for_tests(), context()).await.unwrap();
    assert_eq!(process.on_disk("f").unwrap(), "edited\n");
    assert_eq!(editor.buffer(&path), None);

    let foreign = editor.read_for_change(&path, 100).unwrap().version;
    let error = LocalFiles.write(&path, &foreign, b"x").unwrap_err();
    assert!(matches!(error, FileError::Stale(_)), "{error}");
    assert_eq!(process.on_disk("f").unwrap(), "edited\n");
}
