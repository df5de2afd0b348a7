//! Real servers at their locked versions (`tests/interop`), through a session.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bridle_model_server::Script;
use bridle_tests::{Client, Trace, descendants};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::Imported;
use super::figures::{Alone, spent};
use crate::figures::figure;
use crate::interop::installed;
use crate::scene::Scene;

/// A server that node runs; `None`, said once, when it is not installed.
fn node(name: &str, arguments: &[&str], environment: &Value) -> Option<Value> {
    let path = format!("node_modules/@modelcontextprotocol/server-{name}/dist/index.js");
    let program = installed(&format!("mcp-{name}"), &path)?.display().to_string();
    let arguments: Vec<_> = [program.as_str()].iter().chain(arguments).copied().collect();
    Some(json!({"name": name, "command": "node", "args": arguments, "env": environment}))
}

/// One that Python runs.
fn python(name: &str, arguments: &[&str]) -> Option<Value> {
    let path = format!(".venv/bin/mcp-server-{name}");
    let program = installed(&format!("mcp-{name}"), &path)?;
    Some(json!({"name": name, "command": program, "args": arguments, "env": []}))
}

#[expect(clippy::disallowed_methods, reason = "the other end of the protocol")]
fn git(folder: &Path, arguments: &[&str]) {
    let status = std::process::Command::new("git").arg("-C").arg(folder).args(arguments).status();
    assert!(status.unwrap().success());
}

/// All of them in one session: what they are for works, and nothing is left of them.
#[tokio::test]
async fn real_servers_do_what_they_are_for() {
    let scene = Scene::new(Script::new()).await;
    let workspace = scene.place.workspace();
    git(&workspace, &["init", "--quiet"]);
    fs_err::write(workspace.join("new.txt"), "untracked\n").unwrap();
    let folder = workspace.display().to_string();
    let memory = json!([{"name": "MEMORY_FILE_PATH", "value": workspace.join("memory.json")}]);
    let servers = [
        node("everything", &["stdio"], &json!([])),
        node("filesystem", &[&folder], &json!([])),
        node("memory", &[], &memory),
        python("git", &["-r", &folder]),
        python("time", &["--local-timezone", "UTC"]),
    ];
    let Some(servers) = servers.into_iter().collect::<Option<Vec<_>>>() else { return };
    let mut it = Imported::open(scene, json!(servers)).await;
    it.ready(5).await;
    let written = json!({"path": workspace.join("by-server.txt"), "content": "from a server\n"});
    let entity = json!({"name": "Bridle", "entityType": "agent", "observations": ["is in Rust"]});
    let noon = json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"});
    for (tool, arguments, told) in [
        ("everything__echo", json!({"message": "hello"}), "Echo: hello"),
        ("everything__get-sum", json!({"a": 2, "b": 40}), "42"),
        ("everything__get-tiny-image", json!({}), "\"type\":\"image\""),
        ("everything__get-structured-content", json!({"location": "New York"}), "temperature"),
        ("everything__trigger-long-running-operation", json!({"duration": 1, "steps": 4}), "4"),
        ("everything__get-roots-list", json!({}), folder.as_str()),
        ("filesystem__write_file", written, "Successfully wrote"),
        ("memory__create_entities", json!({"entities": [entity]}), "is in Rust"),
        ("memory__read_graph", json!({}), "is in Rust"),
        ("git__git_status", json!({"repo_path": folder}), "new.txt"),
        ("time__convert_time", noon, "21:00"),
    ] {
        let result = it.call(&format!("mcp__{tool}"), arguments).await;
        assert!(result.contains(told), "{tool}: {result}");
    }
    assert_eq!(it.scene.place.read("by-server.txt"), "from a server\n");
    let environment = it.call("mcp__everything__get-env", json!({})).await;
    assert!(environment.contains("PATH") && !environment.contains("API_KEY"), "{environment}");
    it.scene.assert_lawful();
    it.client.finish(&it.scene.place).await;
}

/// Eight servers of five kinds.
fn eight(scene: &Scene) -> Option<Vec<Value>> {
    let workspace = scene.place.workspace();
    git(&workspace, &["init", "--quiet"]);
    let folder = workspace.display().to_string();
    let memory = json!([{"name": "MEMORY_FILE_PATH", "value": workspace.join("memory.json")}]);
    let servers = [
        node("everything", &["stdio"], &json!([])),
        node("filesystem", &[&folder], &json!([])),
        node("memory", &[], &memory),
        node("everything", &["stdio"], &json!([])),
        node("filesystem", &[&folder], &json!([])),
        node("memory", &[], &memory),
        python("git", &["-r", &folder]),
        python("time", &["--local-timezone", "UTC"]),
    ];
    let mut servers = servers.into_iter().collect::<Option<Vec<_>>>()?;
    for (server, number) in servers.iter_mut().zip(1..) {
        server["name"] = json!(format!("s{number}"));
    }
    Some(servers)
}

/// How long they take when somebody else starts them, so many at a time.
fn without_us(servers: &[Value], scene: &Scene, at_a_time: usize) -> f64 {
    let begun = Instant::now();
    let next = AtomicUsize::new(0);
    // All live until the last one is there, as with us.
    std::thread::scope(|scope| {
        let start = || {
            let mut started = Vec::new();
            while let Some(server) = servers.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut alone = Alone::start(server, scene);
                assert!(alone.introduce() > 0);
                started.push(alone);
            }
            (begun.elapsed().as_secs_f64(), started)
        };
        let all: Vec<_> = (0..at_a_time).map(|_| scope.spawn(start)).collect();
        let all: Vec<_> = all.into_iter().map(|one| one.join().unwrap()).collect();
        all.iter().map(|(time, _)| *time).fold(0.0, f64::max)
    })
}

/// Eight of them beside each other, what each costs by itself, and how long they take without us. Nobody
/// asks meanwhile how they stand, which would cost as much as they do.
#[tokio::test]
async fn eight_real_servers_begin_beside_each_other() {
    const ROUNDS: usize = 3;
    let cores = std::thread::available_parallelism().unwrap().get();
    // The least of several, in turn: whatever else runs only adds.
    let [mut alone, mut directly, mut together, mut theirs, mut own] = [f64::MAX; 5];
    for _ in 0..ROUNDS {
        let scene = Scene::new(Script::new()).await;
        let Some(servers) = eight(&scene) else { return };
        let costs = servers.iter().map(|server| {
            let mut alone = Alone::start(server, &scene);
            assert!(alone.introduce() > 0);
            alone.processor_seconds()
        });
        alone = alone.min(costs.sum());
        directly = directly.min(without_us(&servers, &scene, cores));
        let launch = scene.place.acp(&scene.model.url()).env("BRIDLE_LOG", "bridle_mcp=debug");
        let client = Client::ready(&launch).await;
        let before = spent(client.pid());
        let begun = Instant::now();
        let it = Imported::continued(scene, client, json!(servers)).await;
        let all = |trace: &Trace| {
            (trace.stderr().matches("an MCP server is ready").count() == 8).then_some(())
        };
        it.client.wait_for("8 servers", all).await;
        together = together.min(begun.elapsed().as_secs_f64());
        let below = descendants(it.client.pid());
        let is_server = |command: &str| !command.contains("__supervise");
        let of = |servers: bool| -> f64 {
            let some = below.iter().filter(|it| is_server(&it.command) == servers);
            some.map(|it| spent(it.pid)).sum()
        };
        theirs = theirs.min(of(true));
        own = own.min(spent(it.client.pid()) - before + of(false));
        it.client.finish(&it.scene.place).await;
    }
    let ratio = |time: f64| time * cores as f64 / alone;
    figure(
        "8 real servers together until ready, to their processor time alone / cores (goal: 1.2)",
        &format!(
            "{:.2}, without us {:.2}; {together:.2} s together, {directly:.2} s without us; processor time \
             {alone:.2} s alone, {theirs:.2} s together, {own:.2} s our own; {cores} cores",
            ratio(together),
            ratio(directly)
        ),
    );
}

/// The same server over HTTP, also after it was started again behind the same address.
#[expect(clippy::disallowed_methods, reason = "the other end of the protocol")]
#[tokio::test]
async fn a_real_server_over_http_may_be_started_again() {
    let Some(program) = node("everything", &["streamableHttp"], &json!([])) else { return };
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let start = || {
        let arguments = program["args"].as_array().unwrap().iter();
        let mut process = Command::new("node")
            .args(arguments.map(|it| it.as_str().unwrap()))
            .env("PORT", free.port().to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap()).lines();
        async move {
            while let Some(line) = said.next_line().await.unwrap() {
                if line.contains("listening on port") {
                    return (process, said);
                }
            }
            panic!("it never listened");
        }
    };
    let (mut process, said) = start().await;
    let url = format!("http://{free}/mcp");
    let scene = Scene::new(Script::new()).await;
    let servers = json!([{"type": "http", "name": "h", "url": url, "headers": []}]);
    let mut it = Imported::open(scene, servers).await;
    let result = it.call("mcp__h__echo", json!({"message": "first"})).await;
    assert!(result.contains("Echo: first"), "{result}");
    process.kill().await.unwrap();
    drop(said);
    let result = it.call("mcp__h__echo", json!({"message": "nobody"})).await;
    assert!(result.contains("it cannot be reached"), "{result}");
    let _again = start().await;
    let result = it.call("mcp__h__echo", json!({"message": "second"})).await;
    assert!(result.contains("Echo: second"), "{result}");
    it.client.finish(&it.scene.place).await;
}
