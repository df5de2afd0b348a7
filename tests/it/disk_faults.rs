//! The disk fails under the real programs: the kernel's answers to the n-th sync, rename or mkdir
//! of each thread are replaced by an error. Whoever asked gets a precise error, nothing hangs, and
//! a later start finds everything that was acknowledged.

use bridle_model_server::Script;
use bridle_tests::{Client, Launch, rounds, skip};
use serde_json::json;

use crate::scene::Scene;
use crate::store_process::{StoreProcess, lost};

/// The calls that fail, and how.
const FAULTS: [(&str, &str, &str); 5] = [
    ("fdatasync", "EIO", "Input/output error"),
    ("fsync", "EIO", "Input/output error"),
    ("rename", "ENOSPC", "No space left on device"),
    ("renameat2", "ENOSPC", "No space left on device"),
    ("mkdir", "ENOSPC", "No space left on device"),
];

/// The front that makes the `nth` such call of each thread fail.
fn failing(call: &str, errno: &str, nth: usize) -> [String; 9] {
    let (trace, inject) =
        (format!("trace={call}"), format!("inject={call}:error={errno}:when={nth}"));
    // With -D the program itself is our child, and strace stands beside it.
    ["strace", "-D", "-f", "--seccomp-bpf", "-o/dev/null", "-e", &trace, "-e", &inject]
        .map(str::to_owned)
}

async fn can_trace(scene: &Scene) -> bool {
    let launch = scene.place.launch(["--version"]).through(failing("fsync", "EIO", 1));
    launch.output().await.status.success()
}

/// The agent answers everything, and ends in order. What it has answered well is there afterwards.
#[tokio::test]
async fn a_failing_disk_is_an_error_and_what_was_acknowledged_stays() {
    let scene = Scene::new(Script::new()).await;
    if !can_trace(&scene).await {
        return skip("fault-injection", "strace does not work here");
    }
    let (mut runs, mut refusals) = (0, 0);
    for (call, errno, said) in FAULTS {
        for nth in 1..=rounds(3, 12) {
            let launch = scene.place.acp(&scene.model.url()).through(failing(call, errno, nth));
            refusals += under_fault(&scene, &launch, said).await;
            runs += 1;
        }
    }
    scene.assert_lawful();
    println!("{runs} runs with a failing call, {refusals} requests refused");
    assert!(refusals > FAULTS.len(), "the faults were not met");
}

/// Works under a fault, then without; returns how many requests were refused.
async fn under_fault(scene: &Scene, launch: &Launch, said: &str) -> usize {
    let mut client = Client::ready(launch).await;
    let (mut created, mut answered, mut refusals) = (Vec::new(), Vec::new(), 0);
    let mut refused = |error: serde_json::Value| {
        let text = error["message"].as_str().unwrap_or_default();
        assert!(text.contains(said) || text.contains("reopen"), "{launch:?}: {error}");
        refusals += 1;
    };
    for name in ["first", "second"] {
        let params = json!({"cwd": scene.place.workspace(), "mcpServers": []});
        let new = client.request("session/new", params).await;
        let Some(id) = new.result().map(|new| new["sessionId"].as_str().unwrap().to_owned()) else {
            refused(new.error());
            continue;
        };
        for number in 0..3 {
            let prompt = client.prompt(&id, &format!("{name} {number}")).await;
            match prompt.result() {
                Some(_) => answered.push((id.clone(), format!("{name} {number}"))),
                None => refused(prompt.error()),
            }
        }
        created.push(id);
    }
    let trace = client.finish(&scene.place).await;
    assert!(!trace.stderr().contains("panicked"), "{trace}");

    let mut client = scene.client().await;
    for id in &created {
        client.load(&scene.place, id).await.ok();
        assert_eq!(client.prompt(id, "and now?").await.stop_reason(), "end_turn");
    }
    let trace = client.finish(&scene.place).await;
    for (id, prompt) in answered {
        let shown = trace.updates_of(&id, "user_message_chunk");
        assert!(shown.iter().any(|chunk| chunk["content"]["text"] == *prompt), "{prompt} is lost");
    }
    refusals
}

/// What was recorded behind the last turn is still to be kept when the session closes.
#[tokio::test]
async fn a_disk_that_fails_at_the_end_is_told_by_the_close() {
    let scene = Scene::new(Script::new()).await;
    if !can_trace(&scene).await {
        return skip("fault-injection", "strace does not work here");
    }
    let mut told = 0;
    for nth in 1..=4 {
        let front = failing("fdatasync", "EIO", nth);
        let mut client = Client::ready(&scene.place.acp(&scene.model.url()).through(front)).await;
        let params = json!({"cwd": scene.place.workspace(), "mcpServers": []});
        let new = client.request("session/new", params).await;
        let id = new.result().map(|new| new["sessionId"].clone());
        if let Some(id) = id
            && client.prompt(id.as_str().unwrap(), "go").await.result().is_some()
        {
            let mode = json!({"sessionId": id, "modeId": "plan"});
            client.request("session/set_mode", mode).await;
            let closed = client.request("session/close", json!({"sessionId": id})).await;
            if closed.result().is_none() {
                let error = closed.error();
                assert!(error["message"].as_str().unwrap().contains("Input/output"), "{error}");
                told += 1;
            }
        }
        client.finish(&scene.place).await;
    }
    assert_eq!(told, 1, "the fault was not met at the close, or not told");
}

/// The same under the store alone, with every acknowledged event counted.
#[tokio::test]
async fn a_failing_disk_costs_the_store_nothing_acknowledged() {
    let scene = Scene::new(Script::new()).await;
    if !can_trace(&scene).await {
        return skip("fault-injection", "strace does not work here");
    }
    let (mut failures, mut events) = (0, 0);
    for (call, errno, said) in FAULTS {
        for nth in 1..=rounds(4, 20) {
            let state = tempfile::tempdir().unwrap();
            let front = failing(call, errno, nth);
            let mut process = StoreProcess::start_through(&front, state.path(), nth as u64);
            // A call that never comes so often leaves the process writing for ever.
            for _ in 0..60 {
                if !process.hears() {
                    break;
                }
            }
            process.kill();
            for failure in &process.failures {
                assert!(failure.contains(said) || failure.contains("reopen"), "{failure}");
            }
            failures += process.failures.len();
            events += process.acknowledged.events();
            assert_eq!(lost(state.path(), &process.acknowledged), 0, "{call} {nth}");
        }
    }
    println!("{failures} failures told, {events} events acknowledged, none lost");
    assert!(failures > FAULTS.len(), "the faults were not met");
}
