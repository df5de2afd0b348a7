//! Many sessions, at once for many turns with cancels and closes at random, and one after the other:
//! nothing is out of order, and nothing is left over, neither files and threads nor memory. How long a
//! control call takes meanwhile is printed beside how long it takes when nothing goes on.

use std::collections::BTreeMap;
use std::future::pending;
use std::time::{Duration, Instant};

use bridle_model_server::{Answer, ModelServer, Script};
use bridle_tests::{Client, DEADLINE, Place, RequestId, Trace, rounds};
use fastrand::Rng;
use serde_json::json;

use crate::figures::{figure, resident};
use crate::scene::Scene;

/// The second generation must leave no more than the first.
const GENERATIONS: usize = 2;

/// What the process may keep when all of many sessions are closed, above what it had when the first one
/// was, in KiB: the heap gives back whole pages only, and threads for what blocks wait for more of it.
const KEPT: u64 = 16 * 1024;

/// As [`KEPT`], of sessions that were closed one after the other.
const KEPT_OF_ONE: u64 = 4 * 1024;

/// How long a control call may take while all are busy. Whether it did is said and not judged: others
/// work on the machine, too.
const LONGEST: Duration = Duration::from_millis(50);

/// What becomes of a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Ends,
    IsCancelled,
    IsClosed,
}

/// What goes on around a control call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Now {
    Idle,
    Busy,
}

/// A turn on its way.
struct Turn {
    session: String,
    request: RequestId,
    text: String,
    fate: Fate,
}

struct Soak {
    scene: Scene,
    client: Client,
    rng: Rng,
    /// Everything but what is still in the client.
    said: Trace,
    /// How long each control call took while all were busy, and while none was.
    busy: BTreeMap<&'static str, Vec<Duration>>,
    idle: BTreeMap<&'static str, Vec<Duration>>,
    turns: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_are_cancelled_and_closed_at_random_leave_nothing() {
    let seed = fastrand::u64(..);
    let (sessions, turns) = (rounds(5, 50), rounds(5, 50));
    println!("seed {seed}: {GENERATIONS} times {sessions} sessions of {turns} turns");
    let scene = Scene { place: Place::new(), model: model_apart().await };
    let mut client = Client::start(&scene.place.acp(&scene.model.url()));
    // Else a slow machine's notices would be messages.
    let notices = json!({"session": {"notices": {}}});
    let params = json!({"protocolVersion": 1, "clientCapabilities": notices});
    client.request("initialize", params).await.ok();
    let rng = Rng::with_seed(seed);
    let (said, busy, idle) = Default::default();
    let mut soak = Soak { scene, client, rng, said, busy, idle, turns: 0 };
    let before = soak.files();
    // What the first session brings along stays for all.
    soak.generation(1, 2).await;
    let mut memory = vec![resident(&soak.client)];
    for _ in 0..GENERATIONS {
        soak.generation(sessions, turns).await;
        assert_eq!(soak.files(), before, "files stay open");
        let left = soak.scene.place.processes();
        assert!(left.iter().all(|one| one.pid == soak.client.pid()), "{left:?}");
        memory.push(left_of(&soak.client, memory[0] + KEPT).await);
    }
    figure(
        &format!("memory before and after {} turns in {sessions} sessions, twice", soak.turns),
        &format!("{memory:?} KiB (goal: at most {KEPT} more)"),
    );
    soak.end().await;
}

/// A model on a thread of its own. To look at the long requests of many sessions takes it so long that a
/// client on the same threads would not read what the agent has answered.
async fn model_apart() -> ModelServer {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    // It cannot be dropped where others wait, and ends with the tests.
    let runtime = Box::leak(Box::new(runtime));
    runtime.spawn(ModelServer::start(Script::new())).await.unwrap().expect("loopback is there")
}

/// A session that is closed is gone: its memory, the thread that writes its log, and its files.
#[tokio::test]
async fn sessions_that_are_closed_leave_no_memory() {
    let scene = Scene::new(Script::new().otherwise(Answer::new().text("done"))).await;
    let mut client = scene.client().await;
    // Much of what a session holds is what was said in it, and what its next request is made of.
    let text = "what was said ".repeat(20_000);
    let mut before = 0;
    for number in 0..32 {
        let session = client.new_session(&scene.place).await;
        assert_eq!(client.prompt(&session, &text).await.stop_reason(), "end_turn");
        client.request("session/close", json!({"sessionId": session})).await.ok();
        no_log_is_open(&mut client).await;
        if number == 7 {
            before = resident(&client);
        }
        // The client itself must not be slowed down by all that it has heard.
        client.take_entries();
    }
    let after = left_of(&client, before + KEPT_OF_ONE).await;
    println!("KiB after 8 and 32 sessions, one after the other: {before}, {after}");

    let mut turns = Vec::new();
    for _ in 0..32 {
        let session = client.new_session(&scene.place).await;
        turns.push((client.begin_prompt(&session, &text).await, session));
    }
    for (turn, _) in &turns {
        assert_eq!(client.reply(turn).await.stop_reason(), "end_turn");
    }
    let open = resident(&client);
    for (_, session) in turns {
        client.request("session/close", json!({"sessionId": session})).await.ok();
    }
    no_log_is_open(&mut client).await;
    let after = left_of(&client, before + KEPT).await;
    println!("KiB with 32 more at once, and after them: {open}, {after}");
    client.finish(&scene.place).await;
}

/// What the agent has in memory, in KiB, as soon as it is no more than `most`: what was freed goes back
/// a moment after a session was closed.
async fn left_of(client: &Client, most: u64) -> u64 {
    let end = Instant::now() + DEADLINE;
    loop {
        let now = resident(client);
        if now <= most {
            return now;
        }
        assert!(Instant::now() < end, "closed sessions keep {now} KiB, at most {most} expected");
        // Nothing tells of memory, and a request would keep the threads busy that are to end.
        drop(tokio::time::timeout(Duration::from_millis(100), pending::<()>()).await);
    }
}

/// Waits until no log is open: the thread that writes one may still be told of for a moment when it has
/// ended.
async fn no_log_is_open(client: &mut Client) {
    let end = Instant::now() + DEADLINE;
    while threads(client, "session-log") > 0 {
        assert!(Instant::now() < end, "a closed session's log is still open");
        client.request("session/list", json!({})).await.ok();
    }
}

/// How many threads of the agent have this name.
fn threads(client: &Client, name: &str) -> usize {
    let folder = format!("/proc/{}/task", client.pid());
    let tasks = fs_err::read_dir(folder).unwrap().flatten();
    let names = tasks.filter_map(|task| fs_err::read_to_string(task.path().join("comm")).ok());
    names.filter(|comm| comm.trim() == name).count()
}

impl Soak {
    /// As many sessions as are wanted, from their beginnings to their ends.
    async fn generation(&mut self, sessions: usize, turns: usize) {
        let mut open = Vec::new();
        for _ in 0..sessions {
            open.push(self.client.new_session(&self.scene.place).await);
        }
        for session in open.iter().take(3).cycle().take(99) {
            self.control(session, Now::Idle).await;
        }
        for _ in 0..turns {
            self.round(&open).await;
        }
        for session in open {
            self.client.request("session/close", json!({"sessionId": session})).await.ok();
        }
        no_log_is_open(&mut self.client).await;
        self.said.entries.extend(self.client.take_entries());
    }

    /// One turn of each session, all at once.
    async fn round(&mut self, sessions: &[String]) {
        let mut turns = Vec::new();
        for session in sessions {
            turns.push(self.begin(session).await);
        }
        for session in sessions.iter().take(3) {
            self.control(session, Now::Busy).await;
        }
        let mut closes = Vec::new();
        for Turn { session, fate, .. } in &turns {
            match fate {
                Fate::Ends => {}
                Fate::IsCancelled => self.client.cancel(session).await,
                Fate::IsClosed => {
                    let params = json!({"sessionId": session});
                    closes.push(self.client.begin("session/close", params).await);
                }
            }
        }
        for turn in &turns {
            self.ends(turn).await;
        }
        for close in closes {
            self.client.reply(&close).await.ok();
        }
        self.said.entries.extend(self.client.take_entries());
        for turn in turns.iter().filter(|turn| turn.fate == Fate::IsClosed) {
            self.client.load(&self.scene.place, &turn.session).await.ok();
        }
        self.said.entries.extend(self.client.take_entries());
    }

    /// Each control call once.
    async fn control(&mut self, session: &str, now: Now) {
        let mode = json!({"sessionId": session, "modeId": "ask"});
        for (method, params) in [("session/list", json!({})), ("session/set_mode", mode)] {
            let start = Instant::now();
            let reply = self.client.request(method, params).await;
            reply.ok();
            let calls = if now == Now::Busy { &mut self.busy } else { &mut self.idle };
            calls.entry(method).or_default().push(reply.read_at() - start);
        }
    }

    async fn begin(&mut self, session: &str) -> Turn {
        self.turns += 1;
        let name = format!("turn-{}", self.turns);
        let fate = match self.rng.usize(0..10) {
            0..=5 => Fate::Ends,
            6..=7 => Fate::IsCancelled,
            _ => Fate::IsClosed,
        };
        let text: String = (0..400).map(|n| format!("{name}.{n} ")).collect();
        let write = json!({"name": "write", "args": {"path": name, "content": "written"}});
        let kinds = if fate == Fate::Ends { 2 } else { 3 };
        let steps = match self.rng.usize(0..kinds) {
            0 => json!([{"thinking": "hm", "text": text, "deltas": 40, "delay_ms": 1}]),
            1 => json!([{"thinking": "hm", "tool_calls": [write]}, {"text": text, "deltas": 9}]),
            _ => json!([{"text": text, "deltas": 10, "stall_after": 5}]),
        };
        let prompt = format!("{name} [[mock {}]]", json!({"steps": steps}));
        let request = self.client.begin_prompt(session, &prompt).await;
        Turn { session: session.to_owned(), request, text, fate }
    }

    /// What was said in the turn is its text, or the beginning of that.
    async fn ends(&self, turn: &Turn) {
        let reason = self.client.reply(&turn.request).await.stop_reason();
        let said = self.client.wait_for("text", |trace| Some(trace.text(&turn.session))).await;
        match reason.as_str() {
            "end_turn" => assert_eq!(said, turn.text),
            "cancelled" if turn.fate != Fate::Ends => {
                assert!(turn.text.starts_with(&said), "{said:?} is not of {:?}", turn.text);
            }
            _ => panic!("a turn ended with {reason}\n{}", self.client.trace()),
        }
    }

    /// Open files that are no connections, which are kept for the next request.
    fn files(&self) -> Vec<String> {
        let folder = format!("/proc/{}/fd", self.client.pid());
        let entries = fs_err::read_dir(folder).unwrap().flatten();
        let targets = entries.filter_map(|entry| fs_err::read_link(entry.path()).ok());
        let mut names: Vec<String> =
            targets.map(|target| target.to_string_lossy().into_owned()).collect();
        names.retain(|name| !name.starts_with("socket:"));
        names.sort_unstable();
        names
    }

    async fn end(mut self) {
        self.client.close_stdin().await;
        let (status, trace) = self.client.wait().await;
        assert!(status.success(), "{status}\n{}", trace.stderr());
        assert_eq!(self.scene.place.processes(), []);
        self.said.entries.extend(self.client.take_entries());
        let breaches = [self.said.breaches(), self.said.schema_breaches()].concat();
        assert!(breaches.is_empty(), "{}", breaches.join("\n"));
        // A request that is cancelled on its way arrives in part.
        let mut violations = self.scene.model.violations();
        violations.retain(|violation| violation.rule != "body-size");
        assert_eq!(violations, []);
        for (method, busy) in &mut self.busy {
            let idle = self.idle.get_mut(method).unwrap();
            let [quiet, usual, longest] = [share(idle, 99), share(busy, 50), share(busy, 99)];
            let value = format!("p50 {usual:?}, p99 {longest:?} of {}", busy.len());
            let beside = format!("{value}; when nothing goes on, p99 {quiet:?}");
            let verdict = if longest <= LONGEST { "met" } else { "missed" };
            let what = format!("{method} while all are busy (goal: p99 {LONGEST:?}, {verdict})");
            figure(&what, &beside);
        }
    }
}

/// The time that so many of a hundred do not exceed.
fn share(times: &mut [Duration], of_hundred: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * of_hundred / 100]
}
