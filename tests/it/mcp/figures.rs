//! What servers cost, printed beside its goals (issue 10). Only what was shown is judged.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use bridle_model_server::{Answer, Script};
use bridle_tests::{binary, descendants};
use serde_json::{Value, json};

use super::configured::table;
use super::{Imported, server};
use crate::figures::figure;
use crate::scene::Scene;

/// The memory of a process, in KiB; what several share is divided among them.
fn memory(pid: u32) -> u64 {
    // It may have ended.
    let text = fs_err::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.map_or(0, |line| line.trim().trim_end_matches(" kB").parse().unwrap())
}

/// The seconds that processors spent on a process, and on those of its children that have ended.
pub(super) fn spent(pid: u32) -> f64 {
    // It may have ended.
    let text = fs_err::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
    // In user and kernel, its own and theirs, in hundredths of a second.
    let ticks = fields.split_whitespace().skip(11).take(4);
    ticks.map(|field| field.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

/// The memory of an agent and of all its supervisors.
fn own_memory(agent: u32) -> u64 {
    let own = fs_err::canonicalize(binary()).unwrap();
    let is_own = |pid: &u32| {
        fs_err::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == Path::new(&own))
    };
    let below = descendants(agent).into_iter().map(|process| process.pid).filter(is_own);
    [agent].into_iter().chain(below).map(memory).sum()
}

#[tokio::test]
async fn many_servers_of_many_sessions() {
    let scene = Scene::new(Script::new()).await;
    let names = ["a", "b", "c", "d"];
    // Servers that are known from another session would rest.
    let servers = |scene: &Scene, session: usize| -> Value {
        let mode = format!("of-session={session}");
        names.iter().map(|name| server(scene, name, &[&mode])).collect()
    };
    let begun = Instant::now();
    let first = servers(&scene, 0);
    let mut it = Imported::open(scene, first).await;
    let mut sessions = vec![it.session.clone()];
    for number in 1..8 {
        let servers = servers(&it.scene, number);
        let new = json!({"cwd": it.scene.place.workspace(), "mcpServers": servers});
        let opened = it.client.request("session/new", new).await.ok();
        sessions.push(opened["sessionId"].as_str().unwrap().to_owned());
    }
    for session in sessions {
        it.session = session;
        it.ready(names.len()).await;
    }
    figure(
        "8 sessions with 4 servers each, until all are ready",
        &format!("{:?}", begun.elapsed()),
    );
    let own = own_memory(it.client.pid());
    figure("our own memory for them, supervisors included (goal: 60 MB)", &format!("{own} KiB"));
    it.client.finish(&it.scene.place).await;
}

/// Calls of a server's tool beside calls of a tool that only looks something up here.
#[tokio::test]
async fn what_a_call_costs() {
    const CALLS: u32 = 20;
    const ROUNDS: u32 = 5;
    let scene = Scene::new(Script::new()).await;
    scene.place.configure("config.toml", "[permissions]\nallow = [\"tool mcp__s__echo\"]\n");
    // What the disk costs is not asked here: the log is flushed before each call of a server.
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    fs_err::os::unix::fs::symlink(memory.path(), scene.place.bridle_home().join("state")).unwrap();
    let servers = json!([server(&scene, "s", &[])]);
    let launch = scene.place.acp(&scene.model.url()).env("BRIDLE_LOG", "bridle_mcp=debug");
    let mut it = Imported::launched(scene, &launch, servers).await;
    it.ready(1).await;
    it.say().await;
    // The least of several, in turn: whatever else runs only adds.
    let mut least = [Duration::MAX; 2];
    for round in 0..ROUNDS {
        let tools = [("find_tools", "words"), ("mcp__s__echo", "text")];
        for ((tool, argument), least) in tools.into_iter().zip(&mut least) {
            let call = |answer: Answer, number: u32| {
                let said = format!("nothing like this {round} {number}");
                answer.tool_call(tool, json!({argument: said}))
            };
            it.scene.model.push((0..CALLS).fold(Answer::new(), call));
            it.scene.model.push(Answer::new().text("done"));
            let begun = Instant::now();
            let turn = it.client.prompt(&it.session, "go").await;
            assert_eq!(turn.stop_reason(), "end_turn");
            *least = begun.elapsed().min(*least);
        }
    }
    let heard = it.heard().matches("call echo nothing like this").count();
    assert_eq!(heard, (ROUNDS * CALLS) as usize);
    let (here, there) = (least[0] / CALLS, least[1] / CALLS);
    let mut alone = Alone::start(&server(&it.scene, "alone", &[]), &it.scene);
    alone.introduce();
    let direct = (0..ROUNDS * CALLS).map(|number| {
        let begun = Instant::now();
        let text = number.to_string();
        alone.ask("tools/call", json!({"name": "echo", "arguments": {"text": text}}));
        begun.elapsed()
    });
    let direct = middle(direct.collect());
    drop(alone);
    let trace = it.client.finish(&it.scene.place).await;
    let in_the_bridge = middle(trace.stderr().lines().filter_map(answered).collect());
    figure(
        "a call in the bridge beyond the server's own time, medians (goal: 0.3 ms)",
        &format!(
            "{:?}; in the bridge {in_the_bridge:?}, the server alone {direct:?}",
            in_the_bridge.saturating_sub(direct)
        ),
    );
    figure(
        "the same with permission, flush and log, beyond any call",
        &format!(
            "{:?}; a call {there:?}, one that looks something up here {here:?}",
            there.saturating_sub(here).saturating_sub(direct)
        ),
    );
}

/// How long a call was in the bridge, as its log says.
fn answered(line: &str) -> Option<Duration> {
    let (_, rest) = line.split_once("a call was answered")?;
    let (_, micros) = rest.split_once("micros=")?;
    Some(Duration::from_micros(micros.split_whitespace().next()?.parse().ok()?))
}

fn middle(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() / 2]
}

/// From the start of a server until its tools are known, beside what that takes who speaks with it directly.
#[tokio::test]
async fn what_an_import_costs() {
    const TIMES: u32 = 5;
    let scene = Scene::new(Script::new()).await;
    // The first one waits for the search path of the login shell.
    let tables: String =
        (0..=TIMES).map(|number| table(&scene, &format!("s{number}"), &[], "")).collect();
    scene.place.configure("config.toml", &tables);
    let tested = scene.place.launch(["mcp", "test"]).env("OUTER_TOKEN", "t0-from-outside");
    let tested = String::from_utf8(tested.output().await.stdout).unwrap();
    let milliseconds = |line: &str| -> f64 {
        line.rsplit_once('(').unwrap().1.strip_suffix(" ms)").unwrap().parse().unwrap()
    };
    let all: Vec<_> = tested.lines().map(milliseconds).collect();
    assert_eq!(all.len(), TIMES as usize + 1, "{tested}");
    let median = |mut all: Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let directly = (0..TIMES).map(|_| {
        let begun = Instant::now();
        assert!(Alone::start(&server(&scene, "alone", &[]), &scene).introduce() > 17);
        begun.elapsed().as_secs_f64() * 1000.0
    });
    let (alone, ours) = (median(directly.collect()), median(all[1..].to_vec()));
    figure(
        "the import of a server's 32 tools beyond its own time (goal for 17: 5 ms)",
        &format!("{:.1} ms; with us {ours:.1} ms, directly {alone:.1} ms", ours - alone),
    );
}

/// A server without anybody between.
pub(super) struct Alone {
    child: Child,
    answers: BufReader<ChildStdout>,
    asked: u64,
}

impl Alone {
    #[expect(clippy::disallowed_methods, reason = "what it costs without us")]
    pub(super) fn start(server: &Value, scene: &Scene) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let arguments = server["args"].as_array().unwrap();
        let variables = server["env"].as_array().unwrap();
        let mut child = Command::new(text(&server["command"]))
            .args(arguments.iter().map(text))
            .envs(variables.iter().map(|one| (text(&one["name"]), text(&one["value"]))))
            .current_dir(scene.place.workspace())
            .stderr(Stdio::null())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers, asked: 0 }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params});
        writeln!(self.child.stdin.as_mut().unwrap(), "{request}").unwrap();
        loop {
            let mut line = String::new();
            self.answers.read_line(&mut line).unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            // Anything else is a notification.
            if answer["id"] == self.asked && answer.get("method").is_none() {
                return answer["result"].clone();
            }
        }
    }

    /// How many tools it has.
    pub(super) fn introduce(&mut self) -> usize {
        let client = json!({"name": "alone", "version": "1"});
        let introduction =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        self.ask("initialize", introduction);
        let known = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        writeln!(self.child.stdin.as_mut().unwrap(), "{known}").unwrap();
        self.ask("tools/list", json!({}))["tools"].as_array().map_or(0, Vec::len)
    }

    /// The seconds that processors spent on it and what it started.
    pub(super) fn processor_seconds(&self) -> f64 {
        let below = descendants(self.child.id()).into_iter().map(|process| process.pid);
        [self.child.id()].into_iter().chain(below).map(spent).sum()
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}
