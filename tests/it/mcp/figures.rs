//! What servers cost, printed beside its goals (issue 10). Only what was shown is judged.

use std::path::Path;
use std::time::Instant;

use bridle_model_server::{Answer, Script};
use bridle_tests::{binary, descendants};
use serde_json::{Value, json};

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
    const CALLS: u32 = 40;
    let scene = Scene::new(Script::new()).await;
    scene.place.configure("config.toml", "[permissions]\nallow = [\"tool mcp__s__echo\"]\n");
    let servers = json!([server(&scene, "s", &[])]);
    let mut it = Imported::open(scene, servers).await;
    it.ready(1).await;
    it.say().await;
    let mut times = Vec::new();
    for (tool, argument) in [("find_tools", "words"), ("mcp__s__echo", "text")] {
        let call = |answer: Answer, number: u32| {
            answer.tool_call(tool, json!({argument: format!("nothing like this {number}")}))
        };
        it.scene.model.push((0..CALLS).fold(Answer::new(), call));
        it.scene.model.push(Answer::new().text("done"));
        let begun = Instant::now();
        let turn = it.client.prompt(&it.session, "go").await;
        assert_eq!(turn.stop_reason(), "end_turn");
        times.push(begun.elapsed());
    }
    assert_eq!(it.heard().matches("call echo nothing like this").count(), CALLS as usize);
    let (here, there) = (times[0] / CALLS, times[1] / CALLS);
    figure(
        "a call of a server's tool, with the server's time and what is flushed before it",
        &format!("{there:?}; of a tool that only looks something up here {here:?}"),
    );
    it.client.finish(&it.scene.place).await;
}
