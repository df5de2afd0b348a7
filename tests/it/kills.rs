//! kill -9 of `bridle acp` under load, at a random moment, again and again on the same sessions.
//!
//! Whatever a client or the file system has seen is in the log: an answered `session/new`, an
//! answered prompt, the intent behind a tool's effect. The next process replays it, the strict
//! model takes the next prompt, and nothing that the killed one started is left.

use std::collections::BTreeSet;
use std::time::Duration;

use bridle_model_server::Script;
use bridle_tests::{Client, RequestId, Trace, rounds, wait_until_gone};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::scene::Scene;

/// How many sessions work at once.
const SESSIONS: usize = 3;

/// How many prompts each has in its queue.
const PROMPTS: usize = 2;

/// The most messages that come before a kill.
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

struct Rig {
    scene: Scene,
    rng: fastrand::Rng,
    sessions: Vec<Known>,
    /// Prompts that were answered.
    answered: usize,
    /// Turns, calls and streams that a kill has cut open.
    cut: [usize; 3],
}

#[tokio::test]
async fn kill_9_under_load_loses_nothing_that_was_acknowledged() {
    let (kills, seed) = (rounds(50, 150), fastrand::u64(..));
    println!("seed {seed}");
    let (scene, rng) = (Scene::new(Script::new()).await, fastrand::Rng::with_seed(seed));
    let mut rig = Rig { scene, rng, sessions: Vec::new(), answered: 0, cut: [0; 3] };
    for round in 0..kills {
        rig.round(round).await;
    }
    rig.ready().await.finish(&rig.scene.place).await;
    rig.scene.assert_lawful();
    let ([turns, calls, streams], answered) = (rig.cut, rig.answered);
    println!(
        "{kills} kills: {answered} prompts answered; cut open: {turns} turns, {calls} calls, \
         {streams} streams"
    );
    assert!(turns > kills / 2 && calls > 0 && streams > 0, "the kills hit no work");
}

impl Rig {
    async fn round(&mut self, round: usize) {
        if self.rng.usize(0..6) == 0 {
            self.killed_while_loading().await;
        }
        let mut client = self.ready().await;
        while self.sessions.len() < SESSIONS {
            let id = client.new_session(&self.scene.place).await;
            self.sessions.push(Known { id, answered: Vec::new(), log: Vec::new() });
        }
        let sent = self.send(&mut client, round).await;
        let new = json!({"cwd": self.scene.place.workspace(), "mcpServers": []});
        let new = client.begin("session/new", new).await;
        let trace = self.kill(client, MESSAGES).await;
        for Sent { session, name, request } in sent {
            let Some(response) = trace.response(&request) else { continue };
            assert_eq!(response["result"]["stopReason"], "end_turn", "{response}");
            let known = self.sessions.iter_mut().find(|known| known.id == session).unwrap();
            known.answered.push(name);
            self.answered += 1;
        }
        self.look_at_the_disk().await;
        if let Some(response) = trace.response(&new) {
            let id = response["result"]["sessionId"].as_str().expect("a session").to_owned();
            // One leaves for each that comes, so that no log grows for ever.
            let log = stored(&self.scene, &id).await;
            self.sessions.remove(0);
            self.sessions.push(Known { id, answered: Vec::new(), log });
        }
    }

    /// A kill that hits the repair of the kill before it.
    async fn killed_while_loading(&mut self) {
        let mut client = self.scene.client().await;
        for known in &self.sessions {
            client.begin("session/load", load(&self.scene, &known.id)).await;
        }
        self.kill(client, MESSAGES / 5).await;
        self.look_at_the_disk().await;
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
    async fn send(&mut self, client: &mut Client, round: usize) -> Vec<Sent> {
        let mut sent = Vec::new();
        for number in 0..PROMPTS {
            for (at, known) in self.sessions.iter().enumerate() {
                let name = format!("r{round}s{at}p{number}");
                let is_last = number + 1 == PROMPTS;
                let text = work(&name, self.rng.usize(0..if is_last { 4 } else { 3 }));
                let request = client.begin_prompt(&known.id, &text).await;
                sent.push(Sent { session: known.id.clone(), name, request });
            }
        }
        sent
    }

    /// Kills the agent after a random number of messages and returns all that it said.
    async fn kill(&mut self, mut client: Client, messages: usize) -> Trace {
        let heard = client.trace().from_agent().count();
        let enough = heard + self.rng.usize(0..messages);
        let wait = client.wait_for("so many messages", |trace| {
            (trace.from_agent().count() >= enough).then_some(())
        });
        // Too few came: every prompt is answered, or what is left would run for ever.
        drop(tokio::time::timeout(PATIENCE, wait).await);
        client.signal(Signal::KILL);
        let (_, trace) = client.wait().await;
        while let Some(process) = self.scene.place.processes().pop() {
            assert!(wait_until_gone(&process, Duration::from_secs(10)), "{process:?} survives");
        }
        trace
    }

    /// Compares what is stored with what was acknowledged.
    async fn look_at_the_disk(&mut self) {
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
        for entry in fs_err::read_dir(self.scene.place.workspace()).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            // What a killed write leaves is no effect; the next write in the folder removes it.
            let is_draft = name.starts_with(".bridle-");
            assert!(is_draft || intents.contains(&name), "{name}: an effect without its intent");
            fs_err::remove_file(path).unwrap();
        }
    }
}

fn load(scene: &Scene, session: &str) -> Value {
    json!({"sessionId": session, "cwd": scene.place.workspace(), "mcpServers": []})
}

/// The header and the events of a session, as a reader beside the agent gets them.
async fn stored(scene: &Scene, session: &str) -> Vec<Value> {
    let output = scene.place.launch(["sessions", "show", session]).output().await;
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
