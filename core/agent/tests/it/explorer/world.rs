//! One session with everybody around it, and the moves made on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bridle_agent::{
    AgentHandle, AgentUpdate, Approver, Mode, Phase, Seated, SessionSeat, UpdateReceiver,
    update_queue,
};
use bridle_compose::{Clock, Plugins, Row, Scope, TaskSet};
use bridle_model::ModelSource;
use bridle_session::{Content, EventCount, Failure, MessageId, Session, UserMessage, UserSource};
use bridle_store::{BlobStore, MemoryStore, SessionStore as _};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::scene::Scene;
use super::schedule::{Kind, Menu, Op, Reply, Say, Setup, Step};
use super::{actors, laws};
use crate::rig::{Extra, header, kinds, line, route};

/// Enough permits for every flush of a schedule.
const FREE: usize = 1_000_000;

/// How often everybody may go on until the rest of a schedule is over. A session that has not
/// come to rest by then is stuck.
const PATIENCE: usize = 400;

/// Something that a person or a plugin sent.
pub(super) struct Sent {
    pub(super) id: String,
    pub(super) asked: Asked,
    pub(super) accepted: bool,
    /// Whether something happened since then that may have cancelled it.
    pub(super) cancelled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Prompt,
    Steer,
    Inject,
}

struct World {
    scene: Scene,
    pace: Arc<Semaphore>,
    process: Scope,
    scope: Scope,
    agent: Arc<AgentHandle>,
    updates: UpdateReceiver,
    seen: Vec<AgentUpdate>,
    sent: Vec<Sent>,
    tasks: TaskSet,
    /// Calls on the handle that have not been answered.
    unanswered: Arc<AtomicU32>,
    closing: Option<JoinHandle<Vec<Failure>>>,
    setup: Setup,
    /// The client had no room when the session was closed.
    dropped: bool,
    disk_is_gone: bool,
}

/// Plays the steps that `next` names until there is none, then the rest of the session; which laws
/// were broken.
pub(super) async fn play(
    setup: &Setup,
    mut next: impl FnMut(&Menu) -> Option<Step>,
) -> Vec<String> {
    fastrand::seed(setup.seed);
    let mut world = World::new(setup).await;
    while let Some(Step(op, turns)) = next(&world.menu()) {
        world.apply(op);
        for _ in 0..turns {
            tokio::task::yield_now().await;
            world.read_along();
        }
    }
    world.finish().await
}

impl World {
    async fn new(setup: &Setup) -> Self {
        let pace = Arc::new(Semaphore::new(if setup.paced { 0 } else { FREE }));
        let store = MemoryStore::paced(Arc::clone(&pace));
        let scene = Scene::new(store.clone(), setup.thorough);
        let mode = Mode::ALL[usize::from(setup.mode) % Mode::ALL.len()];
        scene.lock().mode = mode;
        let (sender, updates) = update_queue(setup.room, u32::MAX);
        let seated = scene.clone();
        let extra = Extra::new(move |setup| actors::seat(&seated, setup));
        let plugins = bridle_agent::plugins(Plugins::new()).with(extra);
        let process = Scope::root("process", plugins, TaskSet::new());
        process.provide::<dyn Clock>("clock", Arc::new(scene.clone())).await;
        process.provide::<dyn ModelSource>("models", Arc::new(scene.clone())).await;
        process.provide::<dyn BlobStore>("blobs", Arc::new(store.clone())).await;
        let scope = process.child("session");
        scope.provide::<dyn Approver>("approver", Arc::new(scene.clone())).await;
        let writer = store.create(&header()).unwrap();
        let session = Session::new(header());
        let seat = SessionSeat::new(Seated { session, writer, updates: sender });
        scope.provide("session", Arc::new(seat)).await;
        let driver = serde_json::json!({"mode": mode, "modes": Mode::ALL, "model": "scripted/one"});
        let budget = serde_json::json!({"turn_steps": 5});
        let rows = vec![
            Row::new("permission-modes"),
            Row::new("budget").with(budget),
            Row::new("extra"),
            Row::new("driver").with(driver),
        ];
        scope.mount(rows).await;
        let agent = scope.get::<AgentHandle>().expect("the driver runs");
        Self {
            scene,
            pace,
            process,
            scope,
            agent,
            updates,
            seen: Vec::new(),
            sent: Vec::new(),
            tasks: TaskSet::new(),
            unanswered: Arc::default(),
            closing: None,
            setup: setup.clone(),
            dropped: false,
            disk_is_gone: false,
        }
    }

    fn menu(&mut self) -> Menu {
        let mut state = self.scene.lock();
        let streams = state.live_streams();
        Menu {
            open: self.sent.iter().filter(|sent| sent.accepted).count() - self.ended(),
            streams,
            calls_said: state.streams.last().map_or(0, |stream| stream.calls),
            plans: state.waiting(Kind::Plan),
            bodies: state.waiting(Kind::Body),
            questions: state.waiting(Kind::Question),
            hooks: state.waiting(Kind::Hook),
            sleeps: state.sleeping(),
            flush_waits: self.setup.paced && self.pace.available_permits() == 0,
            unread: if self.setup.reads { 0 } else { self.updates.len() },
            closing: self.closing.is_some(),
        }
    }

    fn ended(&self) -> usize {
        let is_end = |update: &&AgentUpdate| matches!(update, AgentUpdate::TurnEnded { .. });
        let injected = self.sent.iter().filter(|sent| sent.accepted && sent.asked == Asked::Inject);
        self.seen.iter().filter(is_end).count() + injected.count()
    }

    fn read_along(&mut self) {
        if self.setup.reads {
            self.read(usize::MAX);
        }
    }

    fn read(&mut self, most: usize) {
        // Whoever drops an update does so because there was no room for it.
        self.dropped |= self.closing.is_some() && self.updates.len() == self.setup.room;
        for _ in 0..most {
            let Ok(update) = self.updates.try_recv() else { return };
            self.seen.push(update);
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Prompt => self.send(Asked::Prompt),
            Op::Steer => self.send(Asked::Steer),
            Op::Inject => self.send(Asked::Inject),
            Op::Withdraw(n) => self.withdraw(usize::from(n)),
            Op::Cancel => {
                self.cancelled();
                self.agent.cancel();
            }
            Op::CancelTurn => {
                self.cancelled();
                self.agent.cancel_turn();
            }
            Op::Mode(n) => {
                let mode = Mode::ALL[usize::from(n) % Mode::ALL.len()];
                self.ask(async move |agent| agent.set_mode(mode).await.is_ok());
            }
            Op::Route(n) => {
                let route = route(["one", "two"][usize::from(n) % 2]);
                self.ask(async move |agent| agent.set_route(route).await.is_ok());
            }
            Op::Status => self.ask(async |agent| agent.status().await.is_ok()),
            Op::Close => self.close(),
            Op::Model(say) => self.scene.lock().say(say),
            Op::Go(kind, n, reply) => self.scene.lock().go(kind, usize::from(n), reply),
            Op::Arm(point, reply) => self.scene.lock().arm(point, reply),
            Op::Deaf(deaf) => self.scene.lock().deaf = deaf,
            Op::Flush => self.pace.add_permits(1),
            Op::DiskGone => {
                self.disk_is_gone = true;
                self.pace.close();
            }
            Op::Pass(time) => self.scene.lock().pass(Duration::from_millis(time.into())),
            Op::Read(most) => self.read(usize::from(most)),
        }
    }

    fn send(&mut self, asked: Asked) {
        let id = format!("{}-{}", format!("{asked:?}").to_lowercase(), self.sent.len() + 1);
        let (message, content) = (MessageId::new(id.as_str()), vec![Content::text(id.as_str())]);
        let sent = match asked {
            Asked::Prompt => self.agent.prompt(message, content),
            Asked::Steer => self.agent.steer(message, content),
            Asked::Inject => {
                let source = UserSource::Context { name: "test".to_owned() };
                self.agent.inject(UserMessage { id: message, content, source })
            }
        };
        let cancelled = self.closing.is_some();
        self.sent.push(Sent { id, asked, accepted: sent.is_ok(), cancelled });
    }

    fn withdraw(&mut self, n: usize) {
        let ended: Vec<&str> = self
            .seen
            .iter()
            .filter_map(|update| match update {
                AgentUpdate::TurnEnded { prompt, .. } => Some(prompt.as_str()),
                _ => None,
            })
            .collect();
        let open = |sent: &&mut Sent| !ended.contains(&sent.id.as_str());
        let began = self.sent.iter_mut().filter(open);
        let mut open: Vec<_> = began.collect();
        if open.is_empty() {
            return;
        }
        let n = n % open.len();
        let id = MessageId::new(open[n].id.as_str());
        // What joined the turn that it began ends with it.
        open.iter_mut().for_each(|sent| sent.cancelled = true);
        self.agent.withdraw(&id);
    }

    /// From here on whatever was sent before may end as cancelled.
    fn cancelled(&mut self) {
        self.sent.iter_mut().for_each(|sent| sent.cancelled = true);
    }

    fn ask<F>(&self, call: impl FnOnce(Arc<AgentHandle>) -> F)
    where
        F: Future<Output = bool> + Send + 'static,
    {
        let unanswered = Arc::clone(&self.unanswered);
        unanswered.fetch_add(1, Ordering::Relaxed);
        let call = call(Arc::clone(&self.agent));
        self.tasks.spawn(async move {
            call.await;
            unanswered.fetch_sub(1, Ordering::Relaxed);
        });
    }

    fn close(&mut self) {
        self.cancelled();
        self.dropped |= self.updates.len() == self.setup.room;
        if self.closing.is_none() {
            let agent = Arc::clone(&self.agent);
            self.closing = Some(self.tasks.spawn(async move { agent.close().await }));
        }
    }

    /// Everybody does what lets the session come to rest: first alone, then closed.
    async fn finish(mut self) -> Vec<String> {
        if !self.disk_is_gone {
            self.pace.add_permits(FREE);
        }
        if self.closing.is_none() {
            let rests = |world: &mut Self| world.menu().open == 0 && world.is_answered();
            self.settle("to rest", rests).await;
            self.check_status().await;
            self.scene.lock().disarm();
            self.check_next_prompt().await;
            self.close();
        }
        let is_closed = |world: &Self| world.closing.as_ref().is_some_and(JoinHandle::is_finished);
        self.settle("to its end", move |world| is_closed(world)).await;
        let at_close = self.scene.lock().mirror.len();
        self.settle("to answer every call", |world| world.is_answered()).await;
        let mut said = Vec::new();
        // What came behind the last update that had room was dropped.
        self.dropped |= self.updates.len() == self.setup.room;
        if self.scene.lock().broken.is_empty() {
            said = self.closing.take().unwrap().await.unwrap();
            let failures = self.scope.close().await;
            if !failures.is_empty() && !self.disk_is_gone {
                self.scene.lock().break_law(format!("the scope said {failures:?}"));
            }
        }
        self.read(usize::MAX);
        self.process.close().await;
        self.judge(at_close, &said)
    }

    fn is_answered(&self) -> bool {
        self.unanswered.load(Ordering::Relaxed) == 0
    }

    fn judge(self, at_close: EventCount, said: &[Failure]) -> Vec<String> {
        let mut state = self.scene.lock();
        if state.mirror.len() != at_close {
            state.break_law("something was recorded after close had returned");
        }
        let cancels = state.cancels;
        if state.broken.is_empty() {
            laws::log(&mut state, said, self.disk_is_gone);
            let whole = !self.dropped;
            let seen = laws::Seen { updates: &self.seen, sent: &self.sent, whole, cancels };
            laws::updates(&seen, &state.mirror).into_iter().for_each(|law| state.break_law(law));
        }
        if !state.broken.is_empty() {
            let told = kinds(&state.mirror).into_iter().chain(self.seen.iter().map(line));
            let told: Vec<_> = told.collect();
            state.broken.extend(told);
        }
        std::mem::take(&mut state.broken)
    }

    /// What the handle says is what the log says.
    async fn check_status(&mut self) {
        let status = self.agent.status();
        let Some(Ok(status)) = self.served(status).await else {
            return self.scene.lock().break_law("an idle agent does not say its status");
        };
        let mut state = self.scene.lock();
        let kept = state.mirror.state().clone();
        let mode = kept.modes.permission.as_deref().and_then(Mode::from_id).unwrap_or(state.mode);
        let route = kept.route.unwrap_or_else(|| route("one"));
        let is_kept = (status.mode, status.route, status.title)
            == (mode, Some(route), kept.summary.title.text)
            || self.disk_is_gone;
        if !is_kept || status.phase != Phase::Idle {
            state.break_law("the status is not what the log says");
        }
    }

    /// The next prompt works.
    async fn check_next_prompt(&mut self) {
        if self.disk_is_gone || !self.scene.lock().broken.is_empty() {
            return;
        }
        self.send(Asked::Prompt);
        let id = self.sent.last().unwrap().id.clone();
        self.settle("to answer the next prompt", |world| world.menu().open == 0).await;
        let is_answer = |update: &AgentUpdate| {
            matches!(update, AgentUpdate::TurnEnded { prompt, outcome }
                if prompt.as_str() == id && *outcome == bridle_agent::TurnOutcome::EndTurn)
        };
        if !self.seen.iter().any(is_answer) {
            self.scene.lock().break_law("the next prompt is not answered");
        }
    }

    /// What a call comes to while everybody goes on.
    async fn served<F: Future>(&self, call: F) -> Option<F::Output> {
        let mut call = std::pin::pin!(call);
        for _ in 0..PATIENCE {
            if let std::task::Poll::Ready(output) = futures::poll!(call.as_mut()) {
                return Some(output);
            }
            tokio::task::yield_now().await;
        }
        None
    }

    /// Lets everybody go on until it is so.
    async fn settle(&mut self, what: &str, is_so: impl Fn(&mut Self) -> bool) {
        for _ in 0..PATIENCE {
            if is_so(self) || !self.scene.lock().broken.is_empty() {
                return;
            }
            self.let_go();
            for _ in 0..4 {
                tokio::task::yield_now().await;
                self.read(usize::MAX);
            }
        }
        if !is_so(self) {
            self.scene.lock().break_law(format!("the session does not come {what}"));
        }
    }

    fn let_go(&mut self) {
        let mut state = self.scene.lock();
        for (kind, reply) in [
            (Kind::Plan, Reply::Yes),
            (Kind::Body, Reply::Yes),
            (Kind::Question, Reply::No),
            (Kind::Hook, Reply::Yes),
        ] {
            for _ in 0..state.waiting(kind) {
                state.go(kind, 0, reply);
            }
        }
        state.pass(Duration::from_millis(700));
        if state.live_streams() > 0 {
            state.say(Say::Text);
            state.say(Say::Stop(0));
        }
    }
}
