//! How servers begin: beside each other, a few at a time, and not for ever.

use std::time::{Duration, SystemTime};

use bridle_model_server::Script;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::configured::{launch, table};
use super::resting::standing;
use super::{Imported, server};
use crate::scene::Scene;

fn processors() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

/// M01: servers that have not begun yet, be they as many as may begin at once, hold up neither the session
/// nor the first prompt, which has the tools of the others.
#[tokio::test]
async fn servers_that_do_not_begin_hold_up_nobody() {
    let scene = Scene::new(Script::new()).await;
    let gate = scene.place.workspace().join("start-gate");
    mknodat(CWD, &gate, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let late = (0..processors()).map(|number| server(&scene, &format!("late{number}"), &["gated"]));
    let servers: Value = late.chain([server(&scene, "s", &[])]).collect();
    let mut it = Imported::open(scene, servers).await;
    it.say().await;
    let offered = it.offered();
    assert!(offered.contains(&"mcp__s__echo".to_owned()), "{offered:?}");
    assert!(!offered.iter().any(|name| name.starts_with("mcp__late")), "{offered:?}");
    let told = standing(&mut it).await;
    assert_eq!(told.matches("): starting").count(), processors(), "{told}");
    it.client.finish(&it.scene.place).await;
}

/// Servers that start take the processors, so not all do at once.
#[tokio::test]
async fn servers_begin_a_few_at_a_time() {
    let scene = Scene::new(Script::new()).await;
    let names: Vec<_> = (0..4 * processors()).map(|number| format!("n{number}")).collect();
    let servers = names.iter().map(|name| server(&scene, name, &[])).collect();
    let mut it = Imported::open(scene, servers).await;
    it.ready(names.len()).await;
    let at = |name: &str, what: &str| -> SystemTime {
        let mark = it.scene.place.workspace().join(format!("heard-{name}.{what}.1"));
        fs_err::metadata(mark).unwrap().modified().unwrap()
    };
    let begun = |name: &String| (at(name, "start"), at(name, "tools-list"));
    let begun: Vec<_> = names.iter().map(begun).collect();
    for (now, _) in &begun {
        // Who takes long has the others begin beside it.
        let is_short = |from: &SystemTime| {
            now.duration_since(*from).is_ok_and(|age| age < Duration::from_millis(800))
        };
        let beside = begun.iter().filter(|(from, to)| is_short(from) && now < to).count();
        assert!(beside <= processors(), "{beside} at once: {begun:?}");
    }
    it.client.finish(&it.scene.place).await;
}

/// A server that says nothing when it should is ended, and that is told.
#[tokio::test]
async fn a_server_that_says_nothing_in_time_is_ended() {
    for (mode, told) in [
        ("silent", "it did not answer within 1 s"),
        ("list-silent", "it did not list its tools in time"),
    ] {
        let scene = Scene::new(Script::new()).await;
        scene.place.configure("config.toml", table(&scene, "s", &[mode], "start_timeout_s = 1"));
        let launch = launch(&scene);
        let mut it = Imported::launched(scene, &launch, json!([])).await;
        it.say().await;
        it.notice("The MCP server s does not start; it is tried again").await;
        it.notice(told).await;
        // It was ended, and not only left alone.
        it.scene.place.appears("heard-s.end-of-input.1").await;
        it.client.finish(&it.scene.place).await;
    }
}

/// However long a server may take to begin, nobody who closes its session or ends the process waits for it.
#[tokio::test]
async fn a_server_that_says_nothing_holds_up_no_end() {
    for (mode, asked) in [("silent", "initialize"), ("list-silent", "tools-list")] {
        let scene = Scene::new(Script::new()).await;
        let table = table(&scene, "s", &[mode], "start_timeout_s = 900");
        scene.place.configure("config.toml", table);
        let launch = launch(&scene);
        let mut it = Imported::launched(scene, &launch, json!([])).await;
        it.scene.place.appears(&format!("heard-s.{asked}.1")).await;
        it.client.request("session/close", json!({"sessionId": it.session})).await.ok();
        it.scene.place.appears("heard-s.end-of-input.1").await;
        it.client.new_session(&it.scene.place).await;
        it.scene.place.appears(&format!("heard-s.{asked}.2")).await;
        it.client.finish(&it.scene.place).await;
    }
}

/// M21: what a server leaves behind, with its output still open, does not hold up that it failed.
#[tokio::test]
async fn a_failure_is_told_though_something_is_left_behind() {
    let mut it = Imported::new(Script::new(), &["leaves"]).await;
    it.say().await;
    it.notice("it exited with code 3; it wrote: boom: no configuration").await;
    it.client.finish(&it.scene.place).await;
}

/// The version that a server answers is one that is known, or the server is not used.
#[tokio::test]
async fn a_version_is_known_or_refused() {
    for (version, is_known) in
        [("2024-11-05", true), ("2025-06-18", true), ("2026-07-28", false), ("next", false)]
    {
        let mode = format!("version={version}");
        let mut it = Imported::new(Script::new(), &[&mode]).await;
        it.say().await;
        let offered = it.offered();
        assert_eq!(offered.contains(&"mcp__s__echo".to_owned()), is_known, "{version}");
        if !is_known {
            it.notice(&format!("it speaks version {version} of the protocol")).await;
        }
        it.client.finish(&it.scene.place).await;
    }
}

/// A session that is opened again has the servers that are named then; a kind that is not spoken is left
/// out, which is told.
#[tokio::test]
async fn a_session_that_goes_on_has_its_servers() {
    for method in ["session/load", "session/resume"] {
        let scene = Scene::new(Script::new()).await;
        let mut it = Imported::open(scene, json!([])).await;
        it.say().await;
        let Imported { scene, mut client, session } = it;
        client.request("session/close", json!({"sessionId": session})).await.ok();
        let old =
            json!({"type": "sse", "name": "old", "url": "http://127.0.0.1:1/", "headers": []});
        let servers = json!([server(&scene, "s", &[]), old]);
        let cwd = scene.place.workspace();
        let again = json!({"sessionId": session, "cwd": cwd, "mcpServers": servers});
        client.request(method, again).await.ok();
        let mut it = Imported { scene, client, session };
        it.ready(1).await;
        let late = json!({"name": "mcp__s__echo", "arguments": {"text": "there again"}});
        let result = it.call("call_tool", late).await;
        assert!(result.contains("there again"), "{method}: {result}");
        it.notice("MCP server old was left out: HTTP with SSE is not supported").await;
        it.client.finish(&it.scene.place).await;
    }
}
