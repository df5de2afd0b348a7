//! Many sessions at once for many turns, with cancels and closes at random: nothing is out of
//! order, and nothing is left over. How long a control call takes meanwhile is printed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bridle_model_server::Script;
use bridle_tests::{Client, RequestId, Trace, rounds};
use fastrand::Rng;
use serde_json::json;

use crate::figures::{figure, resident};
use crate::outputs::MARGIN;
use crate::scene::Scene;

/// The second generation must need no more than the first.
const GENERATIONS: usize = 2;

/// What becomes of a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Ends,
    IsCancelled,
    IsClosed,
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
    /// How long each control call took.
    calls: BTreeMap<&'static str, Vec<Duration>>,
    turns: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_are_cancelled_and_closed_at_random_leave_nothing() {
    let seed = fastrand::u64(..);
    let (sessions, turns) = (rounds(5, 50), rounds(5, 50));
    println!("seed {seed}: {GENERATIONS} times {sessions} sessions of {turns} turns");
    let scene = Scene::new(Script::new()).await;
    let mut client = Client::start(&scene.place.acp(&scene.model.url()));
    // Else a slow machine's notices would be messages.
    let notices = json!({"session": {"notices": {}}});
    let params = json!({"protocolVersion": 1, "clientCapabilities": notices});
    client.request("initialize", params).await.ok();
    let rng = Rng::with_seed(seed);
    let mut soak =
        Soak { scene, client, rng, said: Trace::default(), calls: BTreeMap::new(), turns: 0 };
    let before = soak.files();
    let mut memory = Vec::new();
    for _ in 0..GENERATIONS {
        soak.generation(sessions, turns).await;
        assert_eq!(soak.files(), before, "files stay open");
        let left = soak.scene.place.processes();
        assert!(left.iter().all(|one| one.pid == soak.client.pid()), "{left:?}");
        memory.push(resident(&soak.client));
    }
    println!("{} turns; KiB after each generation: {memory:?}", soak.turns);
    assert!(memory[1] < memory[0] + MARGIN, "memory grows: {memory:?} KiB");
    soak.end().await;
}

impl Soak {
    /// As many sessions as are wanted, from their beginnings to their ends.
    async fn generation(&mut self, sessions: usize, turns: usize) {
        let mut open = Vec::new();
        for _ in 0..sessions {
            open.push(self.client.new_session(&self.scene.place).await);
        }
        for _ in 0..turns {
            self.round(&open).await;
        }
        for session in open {
            self.client.request("session/close", json!({"sessionId": session})).await.ok();
        }
        self.said.entries.extend(self.client.take_entries());
    }

    /// One turn of each session, all at once.
    async fn round(&mut self, sessions: &[String]) {
        let mut turns = Vec::new();
        for session in sessions {
            turns.push(self.begin(session).await);
        }
        for session in sessions.iter().take(3) {
            let mode = json!({"sessionId": session, "modeId": "ask"});
            for (method, params) in [("session/list", json!({})), ("session/set_mode", mode)] {
                let start = Instant::now();
                self.client.request(method, params).await.ok();
                self.calls.entry(method).or_default().push(start.elapsed());
            }
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
        for (method, mut times) in self.calls {
            times.sort_unstable();
            let at = |share: usize| times[(times.len() - 1) * share / 100];
            let value = format!("p50 {:?}, p99 {:?} of {}", at(50), at(99), times.len());
            figure(&format!("{method} while all are busy (goal: p99 50 ms)"), &value);
        }
    }
}
