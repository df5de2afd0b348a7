//! What a turn costs beside its model: the harness of one turn with its flushes, each piece of a
//! long answer, and the beginning of a turn in a long session.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bridle_agent::{
    AgentHandle, AgentUpdate, Compaction, Seated, SessionSeat, UpdateReceiver, update_queue,
};
use bridle_compose::{Clock, Plugins, Row, Scope, SystemClock, TaskSet};
use bridle_model::{
    BlockKind, Chunk, ModelAdapter, ModelFailure, ModelRequest, ModelSource, PreparedCall,
    RetryPolicy, RouteLimits, StopReason,
};
use bridle_session::{
    AssistantMessage, Block, Content, Draft, Header, MessageId, Route, Session, SessionId, StepEnd,
    StepNumber, StepStart, TimedBlock, TurnEnd, TurnEndReason, TurnNumber, TurnStart, UnixMillis,
    Usage, UserMessage, UserSource,
};
use bridle_store::{FileStore, MemoryStore, SessionStore};
use futures::stream::{BoxStream, StreamExt as _};
use tokio_util::sync::CancellationToken;

use crate::figures::{median, millis, say};

/// The deltas of a long answer.
const DELTAS: usize = 20_000;

pub(crate) fn run(quick: bool) {
    let rounds = if quick { 30 } else { 300 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let empty = Session::new(header());
        let on_disk = turns(&FileStore::new(folder.path()), &empty, 10, rounds).await;
        let in_memory = turns(&MemoryStore::new(), &empty, 10, rounds).await;
        say("a turn of one request, on the disk", millis(on_disk), "<= 3 ms");
        let flushes = 1.0 - in_memory.as_secs_f64() / on_disk.as_secs_f64();
        say("of it, flushes", format!("{:.0} %", flushes * 100.0), "");

        let short = turns(&MemoryStore::new(), &empty, 0, 10).await;
        let long = turns(&MemoryStore::new(), &empty, DELTAS, if quick { 2 } else { 10 }).await;
        let each = long.saturating_sub(short).as_secs_f64() * 1e6 / DELTAS as f64;
        say("one of 20,000 deltas, model and client included", format!("{each:.2} us"), "< 5 us");

        let other = tempfile::tempdir().unwrap();
        let on_disk = ends(&FileStore::new(other.path()), DELTAS, rounds.min(100)).await;
        let in_memory = ends(&MemoryStore::new(), DELTAS, rounds.min(100)).await;
        let what = "from the last of 20,000 deltas to the end of the turn";
        say(&format!("{what}, on the disk"), millis(on_disk), "<= 2 ms and the flush");
        say(&format!("{what}, in memory"), millis(in_memory), "<= 2 ms");

        let old = turns(&MemoryStore::new(), &filled(10_000), 0, rounds.min(100)).await;
        let new = turns(&MemoryStore::new(), &empty, 0, rounds.min(100)).await;
        let more = old.saturating_sub(new);
        let ratio = old.as_secs_f64() / new.as_secs_f64();
        let figure = format!("{} more ({ratio:.2} times)", millis(more));
        say("a turn behind 10,000 events", figure, "<= 2 ms more");

        for events in [10_000, 50_000] {
            let shortened = shortenings(&filled(events), if quick { 3 } else { 20 }).await;
            let what = format!("shortening {events} events, beside the model");
            say(&what, millis(shortened), "<= 5 ms");
        }
    });
}

/// The median time that `/compact` takes in sessions like this one, whose model answers at once.
async fn shortenings(session: &Session, rounds: usize) -> Duration {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let model = Instantly { deltas: 20, last: Arc::default() };
        let mut stage = Stage::new(&MemoryStore::new(), session, model).await;
        // One turn first: what the first request of a process costs is not of the shortening.
        stage.agent.prompt(MessageId::new("before"), vec![Content::text("go")]).unwrap();
        while !matches!(stage.updates.recv().await.unwrap(), AgentUpdate::TurnEnded { .. }) {}
        stage.agent.idle().await;
        let begun = Instant::now();
        stage.agent.compact(MessageId::new("compact"), String::new()).unwrap();
        let mut is_done = false;
        loop {
            match stage.updates.recv().await.unwrap() {
                AgentUpdate::Compaction(_, Compaction::Done { .. }) => is_done = true,
                AgentUpdate::TurnEnded { .. } => break,
                _ => {}
            }
        }
        times.push(begun.elapsed());
        assert!(is_done, "nothing was shortened");
        stage.process.close().await;
    }
    median(times)
}

fn header() -> Header {
    Header {
        format: Header::FORMAT,
        id: SessionId::new("00000000-0000-7000-8000-000000000000"),
        created_at: UnixMillis(0),
        cwd: "/ws".into(),
        extra_roots: Vec::new(),
        parent: None,
        origin: "bench".to_owned(),
        delegation_depth: 0,
        terms: Default::default(),
    }
}

/// The median time from a prompt to its end, over so many turns of a session like this one.
async fn turns(
    store: &dyn SessionStore,
    session: &Session,
    deltas: usize,
    rounds: usize,
) -> Duration {
    let model = Instantly { deltas, last: Arc::default() };
    median(rounds_of(store, session, model, rounds).await.into_iter().map(|it| it.whole).collect())
}

/// The median time from the model's last piece to the end of the turn, as one sees it who reads along.
async fn ends(store: &dyn SessionStore, deltas: usize, rounds: usize) -> Duration {
    let model = Instantly { deltas, last: Arc::default() };
    let session = Session::new(header());
    let all = rounds_of(store, &session, model, rounds).await;
    median(all.into_iter().map(|it| it.end).collect())
}

/// The driver of a session.
struct Stage {
    process: Scope,
    agent: Arc<AgentHandle>,
    updates: UpdateReceiver,
}

impl Stage {
    async fn new(store: &dyn SessionStore, session: &Session, model: Instantly) -> Self {
        let writer = match session.is_empty() {
            true => store.create(session.header()),
            false => store.seed(session),
        };
        let (sender, updates) = update_queue(256, u32::MAX);
        let plugins = bridle_agent::plugins(Plugins::new());
        let process = Scope::root("process", plugins, TaskSet::new());
        process.provide::<dyn Clock>("clock", Arc::new(SystemClock)).await;
        process.provide::<dyn ModelSource>("models", Arc::new(model)).await;
        let scope = process.child("session");
        let seated = Seated { session: session.clone(), writer: writer.unwrap(), updates: sender };
        scope.provide("session", Arc::new(SessionSeat::new(seated))).await;
        let driver = serde_json::json!({"mode": "ask", "modes": ["ask"], "model": "bench/one"});
        let rows = ["permission-modes", "compaction"].map(Row::new);
        let driver = Row::new("driver").with(driver);
        scope.mount(rows.into_iter().chain([driver]).collect()).await;
        let agent = scope.get::<AgentHandle>().unwrap();
        Self { process, agent, updates }
    }
}

/// How long one turn took.
struct Round {
    whole: Duration,
    /// Of it, what came behind the model's last piece.
    end: Duration,
}

async fn rounds_of(
    store: &dyn SessionStore,
    session: &Session,
    model: Instantly,
    rounds: usize,
) -> Vec<Round> {
    let last = Arc::clone(&model.last);
    let Stage { process, agent, mut updates } = Stage::new(store, session, model).await;
    let mut times = Vec::with_capacity(rounds);
    for round in 0..=rounds {
        let begun = Instant::now();
        let id = MessageId::new(format!("prompt-{round}"));
        agent.prompt(id, vec![Content::text("go")]).unwrap();
        while !matches!(updates.recv().await.unwrap(), AgentUpdate::TurnEnded { .. }) {}
        let end = last.lock().unwrap().map(|at| at.elapsed()).unwrap_or_default();
        times.push(Round { whole: begun.elapsed(), end });
    }
    process.close().await;
    // The first one creates the log.
    times.split_off(1)
}

/// A session of so many events.
fn filled(events: u64) -> Session {
    let mut session = Session::new(header());
    for number in 1..=events / 6 {
        let (turn, step) = (TurnNumber(number), StepNumber(1));
        let said = |text: String| TimedBlock {
            started_at: UnixMillis(number),
            ended_at: UnixMillis(number),
            block: Block::Text { text },
            raw: None,
        };
        let drafts = [
            Draft::new(TurnStart { turn }),
            Draft::new(StepStart { turn, step }),
            Draft::new(UserMessage {
                id: MessageId::new(format!("old-{number}")),
                content: vec![Content::text(format!("question {number}"))],
                source: UserSource::Human,
            }),
            Draft::new(AssistantMessage {
                id: MessageId::new(format!("answer-{number}-1-1")),
                blocks: vec![said(format!("answer {number}"))],
                route: route(),
                stop: "end-turn".to_owned(),
                usage: Usage::default(),
                interrupted: false,
            }),
            Draft::new(StepEnd { turn, step }),
            Draft::new(TurnEnd { turn, reason: TurnEndReason::Completed }),
        ];
        for draft in drafts {
            session.append(draft, UnixMillis(number)).unwrap();
        }
    }
    session
}

fn route() -> Route {
    Route { provider: "bench".into(), model: "one".into() }
}

/// A model that answers at once, in so many pieces.
#[derive(Clone)]
struct Instantly {
    deltas: usize,
    /// When the last of them was taken.
    last: Arc<Mutex<Option<Instant>>>,
}

#[async_trait::async_trait]
impl ModelSource for Instantly {
    async fn prepare(&self, route: &Route) -> Result<PreparedCall, ModelFailure> {
        let limits = RouteLimits { window: 200_000, max_output: 10_000 };
        let adapter = Box::new(self.clone());
        Ok(PreparedCall::new(route.clone(), limits, RetryPolicy::standard(), adapter))
    }

    fn default_route(&self) -> Result<Route, ModelFailure> {
        Ok(route())
    }
}

impl ModelAdapter for Instantly {
    fn stream(
        &self,
        _request: ModelRequest,
        _token: CancellationToken,
    ) -> BoxStream<'static, Result<Chunk, ModelFailure>> {
        let piece = "a few words ";
        let text = piece.repeat(self.deltas.max(1));
        let begin = Chunk::BlockStart { index: 0, kind: BlockKind::Text };
        let delta = || Chunk::TextDelta { index: 0, text: piece.to_owned() };
        let (last, count) = (Arc::clone(&self.last), self.deltas);
        let deltas = (1..=count).map(move |number| {
            if number == count {
                *last.lock().unwrap() = Some(Instant::now());
            }
            delta()
        });
        let end = Chunk::BlockEnd { index: 0, block: Block::Text { text } };
        let chunks =
            [begin].into_iter().chain(deltas).chain([end, Chunk::Stop(StopReason::EndTurn)]);
        futures::stream::iter(chunks.map(Ok)).boxed()
    }
}
