//! An agent under load that dies at a random moment, again and again, on the same sessions.
//!
//! Whatever a client or the file system has seen is in the log: an answered `session/new`, an
//! answered prompt, the intent behind a tool's effect. The next process replays it, the strict
//! model takes the next prompt, and nothing that the dead one started is left. How it dies is the
//! caller's matter.

use std::collections::BTreeSet;
use std::time::Duration;

use bridle_model_server::Script;
use bridle_tests::{Client, RequestId, Trace, descendants, wait_until_gone};
use serde_json::{Value, json};

use crate::scene::Scene;

/// How many sessions work at once.
const SESSIONS: usize = 3;

/// How many prompts each has in its queue.
const PROMPTS: usize = 2;

/// The most messages that come before a death.
const MESSAGES: usize = 180;

/// A round in which fewer messages come than were to be waited for ends after this.
const PATIENCE: Duration = Duration::from_millis(700);

/// One session, as its client and its disk have seen it.
struct Known {
    id: String,
    /// Names of the prompts that were answered.
    answered: Vec<String>,
    /// The log when it was last looked at.
    log: Vec<Value>,
}

/// A prompt on its way.
struct Sent {
    session: String,
    name: String,
    request: RequestId,
}

/// What counts as acknowledged.
struct Seen {
    trace: Trace,
    /// The files that tools have made.
    effects: BTreeSet<String>,
}

/// How the agent dies.
pub(crate) trait Death {
    /// Whether what the agent says and does while it is struck is acknowledged as well.
    const COUNTS_LAST_WORDS: bool;

    /// Ends the agent at once.
    fn strike(&mut self, client: &Client);

    /// Makes the machine usable again, after everything has ended.
    fn afterwards(&mut self) {}
}

/// Sessions under load.
pub(crate) struct Load {
    pub(crate) scene: Scene,
    rng: fastrand::Rng,
    sessions: Vec<Known>,
    rounds: usize,
    /// Prompts that were answered.
    answered: usize,
    /// Turns, calls and streams that a death has cut open.
    cut: [usize; 3],
}

impl Load {
    pub(crate) async fn new(seed: u64) -> Self {
        let (scene, rng) = (Scene::new(Script::new()).await, fastrand::Rng::with_seed(seed));
        Self { scene, rng, sessions: Vec::new(), rounds: 0, answered: 0, cut: [0; 3] }
    }

    /// Looks once more after the last death, and says what the deaths have hit.
    pub(crate) async fn end(&mut self) {
        self.ready().await.finish(&self.scene.place).await;
        self.scene.assert_lawful();
        let ([turns, calls, streams], answered) = (self.cut, self.answered);
        println!(
            "{} deaths: {answered} prompts answered; cut open: {turns} turns, {calls} calls, \
             {streams} streams",
            self.rounds
        );
        assert!(turns > self.rounds / 2, "the deaths hit no work");
    }

    /// Loads the sessions, works on them, and dies.
    pub(crate) async fn round<D: Death>(&mut self, death: &mut D) {
        self.rounds += 1;
        if self.rng.usize(0..6) == 0 {
            self.die_while_loading(death).await;
        }
        let mut client = self.ready().await;
        while self.sessions.len() < SESSIONS {
            let id = client.new_session(&self.scene.place).await;
            self.sessions.push(Known { id, answered: Vec::new(), log: Vec::new() });
        }
        let sent = self.send(&mut client).await;
        let new = json!({"cwd": self.scene.place.workspace(), "mcpServers": []});
        let new = client.begin("session/new", new).await;
        let Seen { trace, effects } = self.die(client, MESSAGES, death).await;
        for Sent { session, name, request } in sent {
            let Some(response) = trace.response(&request) else { continue };
            assert_eq!(response["result"]["stopReason"], "end_turn", "{response}");
            let known = self.sessions.iter_mut().find(|known| known.id == session).unwrap();
            known.answered.push(name);
            self.answered += 1;
        }
        self.look_at_the_disk(&effects).await;
        let created = trace
            .response(&new)
            .and_then(|response| response["result"]["sessionId"].as_str().map(str::to_owned));
        if let Some(id) = created {
            // One leaves for each that comes, so that no log grows for ever.
            let log = stored(&self.scene, &id).await;
            self.sessions.remove(0);
            self.sessions.push(Known { id, answered: Vec::new(), log });
        }
    }

    /// A death that hits the repair after the one before it.
    async fn die_while_loading(&mut self, death: &mut impl Death) {
        let mut client = self.scene.client().await;
        for known in &self.sessions {
            client.begin("session/load", load(&self.scene, &known.id)).await;
        }
        let Seen { effects, .. } = self.die(client, MESSAGES / 5, death).await;
        self.look_at_the_disk(&effects).await;
    }

    /// A new process in which every session is loaded, has shown what it must, and has answered.
    async fn ready(&mut self) -> Client {
        let mut client = self.scene.client().await;
        let mut loads = Vec::new();
        for known in &self.sessions {
            loads.push(client.begin("session/load", load(&self.scene, &known.id)).await);
        }
        for request in &loads {
            client.reply(request).await.ok();
        }
        let trace = client.trace();
        for known in &self.sessions {
            let shown = trace.text(&known.id);
            let ends = known.answered.iter().map(|name| end_of(name));
            for part in ends.chain(open_stream(&known.log)) {
                assert!(shown.contains(&part), "{part:?} is not shown again\n{trace}");
            }
        }
        for known in &self.sessions {
            assert_eq!(client.prompt(&known.id, &quick("fine?")).await.stop_reason(), "end_turn");
        }
        client
    }

    /// Fills every session's queue with work of all kinds.
    async fn send(&mut self, client: &mut Client) -> Vec<Sent> {
        let mut sent = Vec::new();
        for number in 0..PROMPTS {
            for (at, known) in self.sessions.iter().enumerate() {
                let name = format!("r{}s{at}p{number}", self.rounds);
                let is_last = number + 1 == PROMPTS;
                let text = work(&name, self.rng.usize(0..if is_last { 4 } else { 3 }));
                let request = client.begin_prompt(&known.id, &text).await;
                sent.push(Sent { session: known.id.clone(), name, request });
            }
        }
        sent
    }

    /// Lets the agent die after a random number of messages.
    async fn die<D: Death>(&mut self, mut client: Client, messages: usize, death: &mut D) -> Seen {
        let heard = client.trace().from_agent().count();
        let enough = heard + self.rng.usize(0..messages);
        let wait = client.wait_for("so many messages", |trace| {
            (trace.from_agent().count() >= enough).then_some(())
        });
        // Too few came: every prompt is answered, or what is left would run for ever.
        drop(tokio::time::timeout(PATIENCE, wait).await);
        let before = Seen { trace: client.trace(), effects: self.effects() };
        // The helpers of commands do not work in the place, but may have files of it open.
        let helpers = descendants(client.pid());
        death.strike(&client);
        let (_, trace) = client.wait().await;
        for process in helpers {
            assert!(wait_until_gone(&process, Duration::from_secs(10)), "{process:?} survives");
        }
        while let Some(process) = self.scene.place.processes().pop() {
            assert!(wait_until_gone(&process, Duration::from_secs(10)), "{process:?} survives");
        }
        death.afterwards();
        if D::COUNTS_LAST_WORDS { Seen { trace, effects: self.effects() } } else { before }
    }

    /// The files that tools have made. What a killed write leaves is none: the next write in the
    /// folder removes it. Nor is what a killed command leaves, which are empty folders.
    fn effects(&self) -> BTreeSet<String> {
        let entries = fs_err::read_dir(self.scene.place.workspace()).unwrap();
        let files = entries.map(Result::unwrap).filter(|entry| entry.path().is_file());
        let names = files.map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| !name.starts_with(".bridle-")).collect()
    }

    /// Compares what is stored with what was acknowledged.
    async fn look_at_the_disk(&mut self, effects: &BTreeSet<String>) {
        let mut intents = BTreeSet::new();
        for known in &mut self.sessions {
            let log = stored(&self.scene, &known.id).await;
            assert!(log.starts_with(&known.log), "{}: what was stored is gone", known.id);
            for name in &known.answered {
                assert!(is_complete(&log, name), "{}: the turn of {name} is lost", known.id);
            }
            intents.extend(log.iter().filter(|event| event["type"] == "tool/call").flat_map(named));
            for (count, is_open) in self.cut.iter_mut().zip(open(&log)) {
                *count += usize::from(is_open);
            }
            known.log = log;
        }
        let unlogged: Vec<_> = effects.difference(&intents).collect();
        assert!(unlogged.is_empty(), "effects without their intents: {unlogged:?}");
        for name in self.effects() {
            fs_err::remove_file(self.scene.place.workspace().join(name)).unwrap();
        }
    }
}

fn load(scene: &Scene, session: &str) -> Value {
    json!({"sessionId": session, "cwd": scene.place.workspace(), "mcpServers": []})
}

/// The header and the events of a session, as a reader beside the agent gets them.
async fn stored(scene: &Scene, session: &str) -> Vec<Value> {
    let output = scene.place.launch(["sessions", "show", "--json", session]).output().await;
    assert!(output.status.success(), "{session}: {}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn end_of(name: &str) -> String {
    format!("<end of {name}>")
}

fn quick(text: &str) -> String {
    format!("{text} [[mock {}]]", json!({"text": "fine"}))
}

/// A prompt of one of four kinds. Every tool call makes a file whose name begins with `name`; the
/// last kind never ends by itself.
fn work(name: &str, kind: usize) -> String {
    let end = end_of(name);
    let long = format!("{} {end}", format!("{name} ").repeat(4_000));
    let write = |n: usize| {
        let path = format!("{name}-{n}.txt");
        json!({"name": "write", "args": {"path": path, "content": "written"}})
    };
    let shell = |n: usize, then: &str| {
        let command = format!("echo > {name}-{n}.txt; {then}");
        json!({"name": "shell", "args": {"command": command}})
    };
    let steps = match kind {
        0 => json!([{"thinking": "hm", "text": long, "deltas": 60, "delay_ms": 2}]),
        1 => json!([
            {"thinking": "hm", "text": "I write.", "deltas": 3, "tool_calls": [write(0)]},
            {"text": end, "deltas": 4, "delay_ms": 1}
        ]),
        2 => json!([
            {"tool_calls": [shell(0, "true"), write(1)]},
            {"text": "And now?", "tool_calls": [shell(2, "seq 3")]},
            {"text": end}
        ]),
        _ => json!([{"tool_calls": [shell(0, "exec sleep 86400")]}, {"text": end}]),
    };
    format!("{name} [[mock {}]]", json!({"steps": steps}))
}

/// Whether the log holds the prompt, its final answer behind it, and then the end of the turn.
fn is_complete(log: &[Value], name: &str) -> bool {
    let mut events = log.iter();
    let mut has = |kind: &str, text: &str| {
        events.any(|event| event["type"] == kind && event["data"].to_string().contains(text))
    };
    has("user/message", &format!("{name} [[mock"))
        && has("assistant/message", &end_of(name))
        && has("turn/end", "completed")
}

/// The file that a tool call is about to make.
fn named(call: &Value) -> Option<String> {
    let arguments = call["data"]["arguments"].as_str()?;
    let (head, _) = arguments.split_once(".txt")?;
    let name = head.rsplit(|next: char| !next.is_ascii_alphanumeric() && next != '-').next()?;
    Some(format!("{name}.txt"))
}

/// Whether the log ends in an open turn, in an open call, and in an open stream.
fn open(log: &[Value]) -> [bool; 3] {
    let count = |kind: &str| log.iter().filter(|event| event["type"] == kind).count();
    [
        count("turn/start") > count("turn/end"),
        count("tool/call") > count("tool/result"),
        open_stream(log).is_some(),
    ]
}

/// What of an unsettled answer is stored.
fn open_stream(log: &[Value]) -> Option<String> {
    let settles = |event: &&Value| {
        matches!(event["type"].as_str(), Some("assistant/message" | "assistant/attempt"))
    };
    let pieces = log.rsplit(|event| settles(&event)).next()?;
    let pieces = pieces.iter().filter(|event| event["type"] == "assistant/partial");
    let blocks = pieces.flat_map(|piece| piece["data"]["blocks"].as_array().unwrap());
    let texts = blocks.map(|timed| &timed["block"]).filter(|block| block["type"] == "text");
    let text: String = texts.filter_map(|block| block["text"].as_str()).collect();
    (!text.is_empty()).then_some(text)
}
