//! Commands in the background: what the model is told of them and when, and that nothing is lost.
//! `trees` has how they end with their session.

use bridle_model_server::{Answer, Script};
use bridle_tests::{Client, Trace};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::outputs::{MARGIN, peak};
use crate::scene::{Scene, call_then_done};

fn background(command: &str) -> Value {
    json!({"command": command, "background": true})
}

/// Makes a named pipe in the workspace, by which a command waits.
fn gate(scene: &Scene, name: &str) -> std::path::PathBuf {
    let gate = scene.place.workspace().join(name);
    mknodat(CWD, &gate, FileType::Fifo, Mode::RWXU, 0).unwrap();
    gate
}

async fn open(gate: std::path::PathBuf) {
    tokio::task::spawn_blocking(move || fs_err::write(gate, "go\n").unwrap()).await.unwrap();
}

async fn told(client: &Client, session: &str, text: &str) {
    let is_told = |trace: &Trace| trace.text(session).contains(text).then_some(());
    client.wait_for(text, is_told).await;
}

/// The ids of the jobs that the newest results name.
fn ids(results: &str) -> Vec<String> {
    let ids = results.split("background as ").skip(1);
    ids.map(|rest| rest.split('.').next().unwrap().to_owned()).collect()
}

/// One prompt with one call of `job`; what the model reads of it.
async fn job(scene: &Scene, client: &mut Client, session: &str, arguments: Value) -> String {
    scene.model.push(Answer::new().tool_call("job", arguments));
    scene.model.push(Answer::new().text("done"));
    assert_eq!(client.prompt(session, "look").await.stop_reason(), "end_turn");
    scene.last_results()
}

/// A job runs on while turns end; a later turn can wait for it, its end is told, and its facts are
/// on the log.
#[tokio::test]
async fn a_job_runs_beside_the_turns_and_its_end_is_told() {
    let start = Answer::new().tool_call("shell", background("echo begun; read x <gate; exit 7"));
    let wait = Answer::new().tool_call("job", json!({"action": "wait", "timeout_s": 600}));
    let script = Script::new().reply(start).reply(Answer::new().text("it runs"));
    let scene = Scene::new(script.reply(wait).reply(Answer::new().text("it has ended"))).await;
    let gate = gate(&scene, "gate");
    let (mut client, session) = scene.session().await;
    assert_eq!(client.prompt(&session, "go").await.stop_reason(), "end_turn");
    assert!(scene.last_results().contains("Runs in the background as job-"));
    let turn = client.begin_prompt(&session, "and now?").await;
    open(gate).await;
    assert_eq!(client.reply(&turn).await.stop_reason(), "end_turn");
    let results = scene.last_results();
    assert!(results.contains("begun\\n[exit code 7]"), "{results}");
    let trace = client.finish(&scene.place).await;
    assert!(trace.text(&session).contains("A background command ended with code 7."), "{trace}");
    let kinds = ["job/started", "job/ended"].map(|kind| scene.events(&session, kind).len());
    assert_eq!(kinds, [1, 1]);
    scene.assert_lawful();
}

#[tokio::test]
async fn jobs_are_listed_and_a_kill_ends_the_whole_tree() {
    let endless = background("setsid sleep 86400 & (setsid sleep 86400 &) ; touch up; sleep 86400");
    // One that ended within the turn would be told in it.
    let short = background("read x <gate; exit 3");
    let start = Answer::new().tool_call("shell", endless).tool_call("shell", short);
    let scene = Scene::new(Script::new().reply(start).reply(Answer::new().text("go"))).await;
    let gate = gate(&scene, "gate");
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "go").await.ok();
    let ids = ids(&scene.last_results());
    let (endless, short) = (ids[0].as_str(), ids[1].as_str());
    scene.place.appears("up").await;
    open(gate).await;
    job(&scene, &mut client, &session, json!({"action": "wait", "id": short})).await;
    let list = job(&scene, &mut client, &session, json!({"action": "list"})).await;
    assert!(list.contains(&format!("{endless}: runs, 0 bytes")), "{list}");
    assert!(list.contains(&format!("{short}: exit code 3, 0 bytes")), "{list}");
    let sleepers = || {
        let processes = scene.place.processes();
        processes.iter().filter(|process| process.command.starts_with("sleep")).count()
    };
    assert_eq!(sleepers(), 3);
    let kill = json!({"action": "kill", "id": endless});
    let killed = job(&scene, &mut client, &session, kill).await;
    assert!(killed.contains("[ended by signal 15]"), "{killed}");
    assert_eq!(sleepers(), 0, "survivors of a kill");
    let list = job(&scene, &mut client, &session, json!({"action": "list"})).await;
    assert!(list.contains(&format!("{endless}: cancelled and ended")), "{list}");
    client.finish(&scene.place).await;
    assert_eq!(scene.events(&session, "job/ended").len(), 2);
    scene.assert_lawful();
}

/// A turn that runs when a job ends is not left first: the model reads it before its next step.
#[tokio::test]
async fn the_end_of_a_job_reaches_the_turn_that_runs() {
    let start = Answer::new().tool_call("shell", background("read x <first; exit 7"));
    let wait = Answer::new()
        .tool_call("shell", json!({"command": "touch stands; read x <second; echo waited"}));
    let script = Script::new().reply(start).reply(wait).reply(Answer::new().text("it has ended"));
    let scene = Scene::new(script).await;
    let (first, second) = (gate(&scene, "first"), gate(&scene, "second"));
    let (mut client, session) = scene.session().await;
    let turn = client.begin_prompt(&session, "go").await;
    scene.place.appears("stands").await;
    open(first).await;
    told(&client, &session, "A background command ended with code 7.").await;
    open(second).await;
    assert_eq!(client.reply(&turn).await.stop_reason(), "end_turn");
    let request = scene.requests().pop().unwrap()["messages"].to_string();
    let (_, new) = request.split_once("waited").unwrap();
    assert!(new.contains("has ended: exit code 7."), "{request}");
    client.finish(&scene.place).await;
    scene.assert_lawful();
}

/// However often the session was opened since: the model reads it once, before the next prompt.
#[tokio::test]
async fn a_lost_job_is_told_whenever_the_next_prompt_comes() {
    let start = call_then_done("shell", background("touch up; sleep 86400"));
    let scene = Scene::new(start).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "go").await.ok();
    scene.place.appears("up").await;
    client.signal(Signal::KILL);
    client.wait().await;
    for _ in 0..2 {
        let mut client = scene.client().await;
        client.load(&scene.place, &session).await.ok();
        client.finish(&scene.place).await;
    }
    let mut client = scene.client().await;
    client.load(&scene.place, &session).await.ok();
    for _ in 0..2 {
        scene.model.push(Answer::new().text("I see"));
        client.prompt(&session, "and now?").await.ok();
        let request = scene.requests().pop().unwrap()["messages"].to_string();
        assert_eq!(request.matches("is lost: it ended with the process").count(), 1, "{request}");
    }
    client.finish(&scene.place).await;
    scene.assert_lawful();
}

/// A job that is ended with its session is no secret to the model either.
#[tokio::test]
async fn a_job_that_ended_with_its_session_is_told_when_that_is_loaded_again() {
    let scene = Scene::new(call_then_done("shell", background("touch up; sleep 86400"))).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "go").await.ok();
    scene.place.appears("up").await;
    client.request("session/close", json!({"sessionId": session})).await.ok();
    client.load(&scene.place, &session).await.ok();
    for _ in 0..2 {
        scene.model.push(Answer::new().text("I see"));
        client.prompt(&session, "and now?").await.ok();
        let request = scene.requests().pop().unwrap()["messages"].to_string();
        assert_eq!(
            request.matches("The session was closed, so its output").count(),
            1,
            "{request}"
        );
    }
    client.finish(&scene.place).await;
    scene.assert_lawful();
}

#[tokio::test]
async fn a_session_knows_its_own_jobs_only() {
    let scene = Scene::new(call_then_done("shell", background("sleep 86400"))).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "go").await.ok();
    let id = ids(&scene.last_results()).remove(0);
    let other = client.new_session(&scene.place).await;
    let list = job(&scene, &mut client, &other, json!({"action": "list"})).await;
    assert!(list.contains("There are no jobs."), "{list}");
    let kill = json!({"action": "kill", "id": id});
    let refused = job(&scene, &mut client, &other, kill).await;
    assert!(refused.contains("There is no job"), "{refused}");
    let list = job(&scene, &mut client, &session, json!({"action": "list"})).await;
    assert!(list.contains(&format!("{id}: runs")), "{list}");
    client.finish(&scene.place).await;
    scene.assert_lawful();
}

#[tokio::test]
async fn there_is_a_most_of_jobs_and_it_is_said() {
    let calls = (0..9)
        .fold(Answer::new(), |answer, _| answer.tool_call("shell", background("sleep 86400")));
    let scene = Scene::new(Script::new().reply(calls).reply(Answer::new().text("done"))).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "go").await.ok();
    let results = scene.last_results();
    assert_eq!(ids(&results).len(), 8, "{results}");
    assert!(
        results.contains("8 jobs are running, which is the most; nothing was run."),
        "{results}"
    );
    client.finish(&scene.place).await;
    scene.assert_lawful();
}

/// What a job wrote beyond what memory keeps is in a file that `read` takes.
#[tokio::test]
async fn the_model_reads_what_was_left_out_of_the_output_of_a_job() {
    let command = "read x <gate; echo first; seq 100000 | sed s/^/line-/";
    let scene = Scene::new(call_then_done("shell", background(command))).await;
    let gate = gate(&scene, "gate");
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "go").await.ok();
    open(gate).await;
    let ended = job(&scene, &mut client, &session, json!({"action": "wait"})).await;
    assert!(ended.contains("bytes omitted ...]") && ended.contains("line-100000"), "{ended:.2000}");
    let (_, place) = ended.split_once("bytes, is in ").unwrap();
    let (path, _) = place.split_once(". `read`").unwrap();
    let part = json!({"path": path, "start_line": 50_001, "end_line": 50_001});
    scene.model.push(Answer::new().tool_call("read", part));
    scene.model.push(Answer::new().text("done"));
    client.prompt(&session, "read it").await.ok();
    let results = scene.last_results();
    assert!(results.contains("line-50000"), "{results}");
    client.finish(&scene.place).await;
    scene.assert_lawful();
}

/// However much a job writes, memory stays flat, and what is kept of it ends at the limit.
#[tokio::test]
async fn endless_output_of_a_job_takes_no_memory() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    let mut ends = Vec::new();
    for bytes in [1_000_000, 100_000_000] {
        let gate = gate(&scene, &bytes.to_string());
        let command = format!("read x <{bytes}; head -c {bytes} /dev/zero | tr '\\0' x");
        scene.model.push(Answer::new().tool_call("shell", background(&command)));
        scene.model.push(Answer::new().text("done"));
        client.prompt(&session, "go").await.ok();
        let id = ids(&scene.last_results()).remove(0);
        open(gate).await;
        let wait = json!({"action": "wait", "timeout_s": 600, "id": id});
        let ended = job(&scene, &mut client, &session, wait).await;
        ends.push((ended, peak(&client)));
    }
    let [(_, before), (ended, after)] = ends.as_slice() else { unreachable!() };
    println!("100 MB of a job: {before} KiB at most before, {after} KiB after");
    assert!(*after < before + MARGIN, "memory grows from {before} to {after} KiB");
    let kept = "only the first 67108864 of 100000000 bytes are kept";
    assert!(ended.contains("[exit code 0]") && ended.contains(kept), "{ended:.2000}");
    client.finish(&scene.place).await;
    scene.assert_lawful();
}
