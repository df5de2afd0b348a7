//! The rows of the toolkit: what each needs, and what a scope has of them.

use std::ffi::OsString;
use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{Asker, ContextSource, FormQuestion, FormReply, PromptSection, Tool};
use bridle_compose::{Clock, Plugins, Row, RowState, Scope, SystemClock, TaskSet};
use bridle_session::{Header, SessionId, UnixMillis};
use bridle_store::{BlobStore, MemoryStore};
use bridle_toolkit::plugins;
use bridle_world::Roots;
use bridle_world::process::{Environment, Processes};
use expect_test::expect;

use crate::rig::agent_in;

#[test]
fn what_each_plugin_needs_and_provides() {
    let plugins = plugins(Plugins::new());
    let table: String = plugins
        .infos()
        .map(|info| format!("{}: {:?} -> {:?}\n", info.name, info.needs, info.provides))
        .collect();
    expect![[r#"
        apply_patch: [Roots, Files, SeenTexts] -> []
        ask_user: [Header, Asker] -> []
        checkpoints: [Roots, Files] -> [FileKeeper]
        delete: [Roots, Files, SeenTexts] -> []
        edit: [Roots, Files, SeenTexts] -> []
        environment: [Roots, Files, Clock, Processes] -> []
        exit_plan_mode: [] -> []
        file-changes: [Roots, Files, SeenTexts] -> []
        glob: [Roots, Files, SeenTexts] -> []
        instructions: [Roots, Files] -> [InstructionFiles]
        jobs: [AgentHandle, Clock, BlobStore] -> [Jobs]
        list: [Roots, Files, SeenTexts] -> []
        local-files: [] -> [Files]
        move: [Roots, Files, SeenTexts] -> []
        read: [Roots, Files, BlobStore] -> []
        references: [Roots, Files, BlobStore, SessionStore, Header] -> []
        sandbox: [Roots, Processes] -> [CommandSandbox]
        search: [Roots, Files, SeenTexts] -> []
        seen-texts: [] -> [SeenTexts]
        shell: [Roots, Processes, BlobStore, Jobs, CommandSandbox] -> []
        skills: [Roots, Files] -> [Skills]
        system-prompt: [] -> []
        terminal: [Roots, Processes, CommandSandbox, Clock] -> []
        todo: [] -> []
        write: [Roots, Files, SeenTexts] -> []
    "#]]
    .assert_eq(&table);
}

#[tokio::test]
async fn every_row_is_active_where_its_needs_are_and_contributes_one_thing() {
    let process = Scope::root("process", plugins(Plugins::new()), TaskSet::new());
    let environment = Environment::from_variables(std::iter::empty::<(OsString, OsString)>());
    process.provide::<dyn Clock>("clock", Arc::new(SystemClock)).await;
    process
        .provide("processes", Arc::new(Processes::new("/no-supervisor".into(), environment)))
        .await;
    process.provide::<dyn BlobStore>("blobs", Arc::new(MemoryStore::new())).await;
    process.mount(["local-files", "system-prompt"].map(Row::new).into()).await;
    let session = process.child("session");
    let rows = [
        "seen-texts",
        "read",
        "list",
        "glob",
        "search",
        "edit",
        "write",
        "sandbox",
        "jobs",
        "shell",
        "environment",
        "instructions",
    ];
    let (agent, _updates) = agent_in(&session, &MemoryStore::new(), Arc::new(SystemClock));
    session.provide("agent", agent).await;
    session.mount(rows.map(Row::new).into()).await;
    let tools = session.all::<dyn Tool>();
    let [job] = tools.as_slice() else { panic!("there are no roots yet") };
    assert_eq!(job.spec().name, "job");
    session.provide("roots", Arc::new(Roots::new("/ws".into(), Vec::new()))).await;
    assert!(session.rows().await.iter().all(|row| row.state == RowState::Active));

    let tools: Vec<_> =
        session.all::<dyn Tool>().iter().map(|tool| tool.spec().name.clone()).collect();
    assert_eq!(tools, ["job", "read", "list", "glob", "search", "edit", "write", "shell"]);
    let sources = session.all::<dyn ContextSource>();
    let sources: Vec<_> = sources.iter().map(|source| source.name()).collect();
    assert_eq!(sources, ["environment", "instructions"]);
    let sections = session.all::<PromptSection>();
    let [section] = sections.as_slice() else { panic!("{sections:?}") };
    assert!(section.text.starts_with("You are Bridle") && !section.text.ends_with('\n'));

    process.unmount("local-files").await;
    let left: Vec<_> =
        session.all::<dyn Tool>().iter().map(|tool| tool.spec().name.clone()).collect();
    assert_eq!(left, ["job", "shell"], "all the others work on files");
}

struct Nobody;

#[async_trait]
impl Asker for Nobody {
    async fn ask(&self, _: Vec<FormQuestion>) -> FormReply {
        FormReply::NoForms
    }
}

#[tokio::test]
async fn only_the_session_of_a_person_can_ask_one() {
    let process = Scope::root("process", plugins(Plugins::new()), TaskSet::new());
    for (depth, offered) in [(0, 1), (1, 0)] {
        let session = process.child("session");
        session.provide("header", Arc::new(header(depth))).await;
        session.provide::<dyn Asker>("asker", Arc::new(Nobody)).await;
        session.mount(vec![Row::new("ask_user")]).await;
        assert!(session.rows().await.iter().all(|row| row.state == RowState::Active));
        assert_eq!(session.all::<dyn Tool>().len(), offered, "at depth {depth}");
    }
}

fn header(delegation_depth: u32) -> Header {
    Header {
        format: Header::FORMAT,
        id: SessionId::new("00000000-0000-7000-8000-000000000000"),
        created_at: UnixMillis(0),
        cwd: "/ws".into(),
        extra_roots: Vec::new(),
        parent: None,
        origin: "test".to_owned(),
        delegation_depth,
        terms: Default::default(),
    }
}
