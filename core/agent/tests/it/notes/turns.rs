//! Whole turns over the notes: the same question, with one row changed at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bridle_agent::{Access, SessionEvent, Tool, TurnOutcome};
use bridle_compose::{ActivateError, Observer, Plugin, Row, ServiceKey, Setup};
use bridle_session::{Event, EventData, Session};
use bridle_store::{FileStore, SessionStore as _};
use expect_test::expect;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::contract::{consumer, memory, providers, some_notes};
use super::policy::DenyNotes;
use super::store::{FileNotes, MemoryNotes, Note, NoteStore};
use super::tools::NoteTools;
use crate::rig::{Extra, Rig, Setting, TestTool, calls, header, kinds, text};

/// What only the whole note says, and no preview.
const EVIDENCE: &str = "Failed attempts stay in it.";

/// A session with these rows, in a process that knows the plugins of the notes.
fn setting(rows: Vec<Row>) -> Setting {
    Setting {
        plugins: Box::new(|plugins| {
            plugins.with(MemoryNotes).with(FileNotes).with(NoteTools).with(DenyNotes)
        }),
        rows,
        max_steps: 8,
        ..Setting::default()
    }
}

/// A model that searches, reads what it found, and answers.
fn script(rig: &Rig) {
    rig.model.push(calls(&[("call-1", "search_notes", r#"{"query":"session"}"#)]));
    rig.model.push(calls(&[("call-2", "read_note", r#"{"id":"session"}"#)]));
    rig.model.push(text("They stay in the log [session]."));
}

/// Asks the question; what the model was sent, and the log.
async fn ask(setting: Setting) -> (Vec<String>, TurnOutcome, Session) {
    let mut rig = Rig::start(setting).await;
    script(&rig);
    let (_, outcome) = rig.run("What of failed attempts?").await;
    let log = rig.log().await;
    (rig.model.requests(), outcome, log)
}

/// What the model read of a call: the last line of the request that followed it.
fn result(requests: &[String], call: usize) -> &str {
    let line = requests[call].lines().last().unwrap();
    line.strip_prefix(&format!("result call-{call}: ")).unwrap()
}

fn last(log: &Session) -> String {
    kinds(log).pop().unwrap()
}

#[tokio::test]
async fn checkpoint_0_an_agent_without_notes_answers() {
    let mut rig = Rig::start(setting(Vec::new())).await;
    rig.model.push(text("Question received."));
    assert_eq!(rig.run("Hello").await.1, TurnOutcome::EndTurn);
    assert_eq!(rig.model.requests().len(), 1);
    let log = rig.log().await;
    assert_eq!(last(&log), "turn/end completed");
    assert_eq!(series(&log), ["1 start: "]);
}

#[tokio::test]
async fn checkpoint_1_a_search_shows_candidates_and_a_read_gives_the_evidence() {
    let (requests, outcome, log) = ask(setting(vec![memory(&some_notes()), consumer()])).await;
    assert_eq!((requests.len(), outcome), (3, TurnOutcome::EndTurn));
    assert!(!requests[1].contains(EVIDENCE) && requests[2].contains(EVIDENCE), "{requests:#?}");
    expect![[r#"{"matches":[{"id":"session","preview":"A session is a log of ev"}]}"#]]
        .assert_eq(result(&requests, 1));
    expect!["[session] A session is a log of events. Failed attempts stay in it."]
        .assert_eq(result(&requests, 2));
    assert_eq!(series(&log), ["1 start: read_note, search_notes"]);
    assert_eq!(last(&log), "turn/end completed");
}

#[tokio::test]
async fn checkpoint_2_another_provider_changes_nothing_else() {
    let (_folder, [memory, file]) = providers(&some_notes());
    let (requests, _, log) = ask(setting(vec![memory, consumer()])).await;
    let (requests_2, _, log_2) = ask(setting(vec![file, consumer()])).await;
    assert_eq!(requests_2, requests);
    assert_eq!(events(log_2.events()), events(log.events()));
}

/// Stands before the notes of the scope above and counts the reads that get through to them.
struct CountReads(Arc<AtomicUsize>);

struct Counted(Arc<AtomicUsize>, Arc<dyn NoteStore>);

#[async_trait]
impl NoteStore for Counted {
    async fn search(&self, query: &str) -> Vec<Note> {
        self.1.search(query).await
    }

    async fn read(&self, id: &str) -> Option<Note> {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.1.read(id).await
    }
}

#[async_trait]
impl Plugin for CountReads {
    const NAME: &'static str = "count-reads";
    type Config = ();
    type Needs = (Arc<dyn NoteStore>,);

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn NoteStore>()]
    }

    async fn activate(
        &self,
        (): (),
        (store,): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let counted: Arc<dyn NoteStore> = Arc::new(Counted(Arc::clone(&self.0), store));
        Ok(setup.provide(counted)?)
    }
}

#[tokio::test]
async fn checkpoint_3_a_denied_read_never_reaches_the_provider() {
    let reads = Arc::new(AtomicUsize::new(0));
    let count = CountReads(Arc::clone(&reads));
    let deny = Row::new("deny-notes").with(json!({ "ids": ["session"] }));
    let mut rig = Rig::start(Setting {
        plugins: Box::new(|plugins| {
            plugins.with(MemoryNotes).with(NoteTools).with(DenyNotes).with(count)
        }),
        ..setting(vec![Row::new("count-reads"), consumer(), deny])
    })
    .await;
    rig.process.mount(vec![memory(&some_notes())]).await;
    script(&rig);
    assert_eq!(rig.run("What of failed attempts?").await.1, TurnOutcome::EndTurn);
    let requests = rig.model.requests();
    assert!(result(&requests, 1).contains("session"), "a search still shows it");
    assert_eq!(result(&requests, 2), "The host does not let note session be read.");
    assert!(!requests[2].contains(EVIDENCE));
    assert_eq!(reads.load(Ordering::Relaxed), 0);

    rig.model.push(calls(&[("call-3", "read_note", r#"{"id":"scope-2"}"#)]));
    rig.model.push(text("Scopes hold services [scope-2]."));
    rig.run("And scopes?").await;
    assert_eq!(reads.load(Ordering::Relaxed), 1, "another note is not meant");

    rig.scope.unmount("deny-notes").await;
    rig.model.push(calls(&[("call-4", "read_note", r#"{"id":"session"}"#)]));
    rig.model.push(text("They stay in the log [session]."));
    rig.run("And now?").await;
    assert_eq!(reads.load(Ordering::Relaxed), 2);
    assert!(rig.model.requests().last().unwrap().contains(EVIDENCE));
    let log = rig.log().await;
    let results: Vec<_> =
        kinds(&log).into_iter().filter(|kind| kind.starts_with("tool/result")).collect();
    expect![[r#"
        [
            "tool/result call-1",
            "tool/result call-2 Denied",
            "tool/result call-3",
            "tool/result call-4",
        ]
    "#]]
    .assert_debug_eq(&results);
    assert_eq!(series(&log).len(), 1, "a policy changes nothing that the model is offered");
}

#[tokio::test]
async fn checkpoint_4_a_budget_of_two_ends_the_turn_after_two_requests() {
    let rows = vec![memory(&some_notes()), consumer()];
    let (requests, outcome, log) = ask(Setting { max_steps: 2, ..setting(rows) }).await;
    assert_eq!((requests.len(), outcome), (2, TurnOutcome::MaxTurnRequests));
    let kinds = kinds(&log);
    assert!(kinds.contains(&"tool/result call-2".to_owned()), "the evidence was read: {kinds:#?}");
    assert_eq!(last(&log), "turn/end blocked");
}

/// Keeps what it is told, as it is told.
#[derive(Default)]
struct Live(Mutex<Vec<Arc<Event>>>);

impl Observer<SessionEvent> for Live {
    fn observe(&self, told: &SessionEvent) {
        self.0.lock().unwrap().push(Arc::clone(&told.event));
    }
}

#[tokio::test]
async fn checkpoint_5_a_cold_read_equals_the_live_events() {
    let folder = tempfile::tempdir().unwrap();
    let live = Arc::new(Live::default());
    let observer = Arc::clone(&live);
    let rows = vec![memory(&some_notes()), consumer()];
    let mut rig = Rig::start(Setting {
        store: Arc::new(FileStore::new(folder.path())),
        extra: Extra::new(move |setup| setup.observe::<SessionEvent>(Arc::clone(&observer) as _)),
        ..setting(rows)
    })
    .await;
    script(&rig);
    rig.run("What of failed attempts?").await;
    rig.scope.close().await;

    // Another store on the same folder, without an agent or a model.
    let cold = FileStore::new(folder.path()).read(&header().id).unwrap().session;
    let live = events(&live.0.lock().unwrap());
    assert_eq!(events(cold.events()), live);
    assert!(live.iter().any(|event| event.to_string().contains(EVIDENCE)));
}

#[tokio::test]
async fn an_unloaded_tool_is_refused_at_the_gate_then_gone_and_back_when_it_is_mounted_again() {
    let (paused, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (reached, wait) = (Arc::clone(&paused), Arc::clone(&go_on));
    let pause: Arc<dyn Tool> =
        TestTool::new("pause", Access::ReadInside("/ws".into()), move |_| {
            let (reached, wait) = (Arc::clone(&reached), Arc::clone(&wait));
            async move {
                reached.notify_one();
                wait.notified().await;
                Ok("on".to_owned())
            }
        });
    let rows = vec![memory(&some_notes()), consumer()];
    let mut rig = Rig::start(Setting { tools: vec![pause], ..setting(rows) }).await;
    let read = |call| calls(&[(call, "read_note", r#"{"id":"session"}"#)]);

    rig.model.push(calls(&[("call-1", "pause", "{}")]));
    rig.model.push(read("call-2"));
    rig.model.push(text("It was switched off."));
    rig.prompt("one");
    paused.notified().await;
    rig.scope.unmount("memory-notes").await;
    go_on.notify_one();
    assert_eq!(rig.until_end("one").await.1, TurnOutcome::EndTurn);
    expect!["The tool read_note has been switched off since the turn began. Go on without it."]
        .assert_eq(result(&rig.model.requests(), 2));

    rig.model.push(read("call-3"));
    rig.model.push(text("It is gone."));
    rig.run("two").await;
    let requests = rig.model.requests();
    expect![[r#"result call-3: There is no tool named "read_note". The tools are: pause."#]]
        .assert_eq(requests.last().unwrap().lines().last().unwrap());

    let changed = json!([{ "id": "session", "text": "Rewritten." }]);
    rig.scope.mount(vec![memory(&changed)]).await;
    rig.model.push(read("call-4"));
    rig.model.push(text("It is back."));
    rig.run("three").await;
    let requests = rig.model.requests();
    assert!(requests.last().unwrap().ends_with("result call-4: [session] Rewritten."));

    let log = rig.log().await;
    expect![[r#"
        [
            "1 start: pause, read_note, search_notes",
            "2 system-changed: pause",
            "3 system-changed: pause, read_note, search_notes",
        ]
    "#]]
    .assert_debug_eq(&series(&log));
    let told_of_notes: Vec<_> = prompts(&log).iter().map(|text| text.contains("Notes:")).collect();
    assert_eq!(told_of_notes, [true, false, true]);
}

/// Each series of requests: its number, why it began, and the tools that were offered.
fn series(log: &Session) -> Vec<String> {
    let lines = log.events().iter().filter_map(|event| match &event.data {
        EventData::RequestHeader(header) => {
            Some(format!("{} {}: {}", header.series, header.reason, header.tools.join(", ")))
        }
        _ => None,
    });
    lines.collect()
}

/// Each system prompt that the log holds.
fn prompts(log: &Session) -> Vec<&str> {
    let texts = log.events().iter().filter_map(|event| match &event.data {
        EventData::SystemMessage(message) => Some(message.text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn events(events: &[Arc<Event>]) -> Vec<Value> {
    events.iter().map(|event| serde_json::from_str(&event.to_line().unwrap()).unwrap()).collect()
}
