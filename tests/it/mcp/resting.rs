//! Servers that do not run because nobody uses them.

use std::time::Duration;

use bridle_model_server::Script;
use bridle_tests::{Launch, Permission, Process, wait_until_gone};
use serde_json::json;

use super::configured::table;
use super::{Imported, server};
use crate::scene::Scene;

/// The running programs of servers.
pub(super) fn running(it: &Imported) -> Vec<Process> {
    let mut all = it.scene.place.processes();
    all.retain(|process| process.command.contains("bridle-mcp-scripted"));
    all
}

/// How often the server was started.
fn starts(it: &Imported) -> usize {
    it.heard().matches("initialize\n").count()
}

pub(super) async fn standing(it: &mut Imported) -> String {
    let before = it.client.trace().text(&it.session).len();
    it.client.prompt(&it.session, "/mcp").await.ok();
    it.client.trace().text(&it.session).split_off(before)
}

/// The session is over, and another one begins in a new process.
async fn again(it: Imported) -> Imported {
    let Imported { scene, client, .. } = it;
    client.finish(&scene.place).await;
    let servers = json!([server(&scene, "s", &[])]);
    Imported::open(scene, servers).await
}

/// M22, S16: what a server offered is known to later sessions, so that its first call starts it and no
/// prompt waits for it.
#[tokio::test]
async fn a_server_that_is_known_is_started_by_its_first_call() {
    let mut it = Imported::new(Script::new(), &["instructions=be brief"]).await;
    it.say().await;
    let offered = it.offered();
    assert_eq!(starts(&it), 1);
    let Imported { scene, client, .. } = it;
    client.finish(&scene.place).await;
    let servers = json!([server(&scene, "s", &["instructions=be brief"])]);
    let mut it = Imported::open(scene, servers).await;
    it.say().await;
    assert_eq!(it.offered(), offered);
    let told = it.scene.requests().last().unwrap().to_string();
    assert!(told.contains("- s: 32 tools. It says about itself"), "{told}");
    let standing = standing(&mut it).await;
    assert!(standing.contains("resting, a call starts it: 32 tools"), "{standing}");
    assert_eq!((starts(&it), running(&it).len()), (1, 0));
    let result = it.call("mcp__s__echo", json!({"text": "hello"})).await;
    assert!(result.contains("hello"), "{result}");
    assert_eq!((starts(&it), running(&it).len()), (2, 1));
    it.scene.assert_lawful();
    it.client.finish(&it.scene.place).await;
}

/// M25, S17, S31: a tool that became another one while its server did not run is not called as what it was,
/// and no rule permits what nobody has seen, in this session or a later one.
#[tokio::test]
async fn a_tool_that_changed_meanwhile_is_asked_about() {
    let scene = Scene::new(Script::new()).await;
    scene.place.configure("config.toml", "[permissions]\nallow = [\"tool mcp__s__echo\"]\n");
    let servers = json!([server(&scene, "s", &[])]);
    let mut it = Imported::open(scene, servers).await;
    it.client.set_permission(Permission::Reject);
    let result = it.call("mcp__s__echo", json!({"text": "first"})).await;
    assert!(result.contains("first"), "{result}");
    fs_err::write(it.scene.place.workspace().join("pulled"), "").unwrap();

    let mut it = again(it).await;
    it.client.set_permission(Permission::Reject);
    let result = it.call("mcp__s__echo", json!({"text": "as before"})).await;
    assert!(result.contains("says something else about this tool by now"), "{result}");
    it.ready(1).await;
    it.call("mcp__s__echo", json!({"text": "unseen"})).await;

    let mut it = again(it).await;
    it.client.set_permission(Permission::Reject);
    it.call("mcp__s__echo", json!({"text": "unseen, too"})).await;
    it.client.set_permission(Permission::Allow);
    let result = it.call("mcp__s__echo", json!({"text": "seen"})).await;
    assert!(result.contains("seen"), "{result}");

    let mut it = again(it).await;
    it.client.set_permission(Permission::Reject);
    let result = it.call("mcp__s__echo", json!({"text": "known"})).await;
    assert!(result.contains("known"), "{result}");

    // The same name, and something else behind it.
    let Imported { scene, client, .. } = it;
    client.finish(&scene.place).await;
    let servers = json!([server(&scene, "s", &["something-else"])]);
    let mut it = Imported::open(scene, servers).await;
    it.client.set_permission(Permission::Reject);
    it.call("mcp__s__echo", json!({"text": "another program"})).await;
    let question = it.client.trace().calls("session/request_permission")[0].to_string();
    assert!(question.contains("or the program behind it, is not what it was"), "{question}");
    let heard = it.heard();
    let calls: Vec<_> = heard.lines().filter(|line| line.starts_with("call echo")).collect();
    assert_eq!(calls, ["call echo first", "call echo seen", "call echo known"]);
    it.client.finish(&it.scene.place).await;
}

/// M22: a server that nobody uses is ended, one in the middle of a call is not, and the next call finds it
/// again; nobody is told, and the prompt stays as it is.
#[tokio::test]
async fn a_server_that_nobody_uses_rests() {
    let scene = Scene::new(Script::new()).await;
    scene.place.configure("config.toml", table(&scene, "s", &[], "rest_after_s = 1"));
    let launch: Launch = super::configured::launch(&scene);
    let mut it = Imported::launched(scene, &launch, json!([])).await;
    let result = it.call("mcp__s__beat", json!({"text": "25"})).await;
    assert!(result.contains("25 beats"), "{result}");
    assert_eq!(starts(&it), 1);
    for process in running(&it) {
        assert!(wait_until_gone(&process, Duration::from_secs(60)), "{process:?}");
    }
    while !standing(&mut it).await.contains("resting") {}
    let result = it.call("mcp__s__echo", json!({"text": "again"})).await;
    assert!(result.contains("again"), "{result}");
    assert_eq!(starts(&it), 2);
    let told = it.client.trace().text(&it.session);
    assert!(!told.contains("was lost") && !told.contains("used again"), "{told}");
    let systems: Vec<_> = it.scene.requests().iter().map(|one| one["system"].clone()).collect();
    assert!(systems.windows(2).all(|two| two[0] == two[1]));
    it.scene.assert_lawful();
    it.client.finish(&it.scene.place).await;
}
