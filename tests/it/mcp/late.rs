//! Tools and resources that come after a conversation has begun, and lists without an end.

use bridle_model_server::Script;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use super::{Imported, server};
use crate::scene::Scene;

/// B082, B083: a server that starts slowly holds nothing up and is not given up; what comes with it late is
/// found, be it a tool of its own or one for what it holds.
#[tokio::test]
async fn late_resources_are_reached_like_late_tools() {
    let scene = Scene::new(Script::new()).await;
    let mut it = Imported::open(scene, json!([])).await;
    it.say().await;
    let Imported { scene, mut client, session } = it;
    client.request("session/close", json!({"sessionId": session})).await.ok();
    let gate = scene.place.workspace().join("start-gate");
    mknodat(CWD, &gate, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let servers = json!([server(&scene, "s", &["resources", "gated"])]);
    let load = json!({"sessionId": session, "cwd": scene.place.workspace(), "mcpServers": servers});
    client.request("session/load", load).await.ok();
    let mut it = Imported { scene, client, session };
    it.say().await;
    tokio::task::spawn_blocking(move || fs_err::write(gate, "go").unwrap()).await.unwrap();
    it.ready(1).await;
    let found = it.call("find_tools", json!({"words": "addresses"})).await;
    assert!(found.contains("list_resources") && found.contains("read_resource"), "{found}");
    let late = json!({"name": "read_resource", "arguments": {"server": "s", "uri": "mem://note"}});
    let result = it.call("call_tool", late).await;
    assert!(result.contains("what mem://note holds"), "{result}");
    it.scene.assert_lawful();
    it.client.finish(&it.scene.place).await;
}

/// M06: a tool that comes later joins no conversation that has begun, is announced and can be reached;
/// fifty messages about it cost few questions.
#[tokio::test]
async fn a_late_tool_is_reached_without_a_change_of_the_prompt() {
    let mut it = Imported::new(Script::new(), &[]).await;
    it.call("mcp__s__grow", json!({})).await;
    let before = it.offered();
    it.scene.place.appears("heard-s.tools-list.2").await;
    let found = loop {
        let found = it.call("find_tools", json!({"words": "LATE scripted"})).await;
        if !found.contains("No tool") {
            break found;
        }
    };
    assert!(found.contains("mcp__s__late"), "{found}");
    let late = json!({"name": "mcp__s__late", "arguments": {"text": "reached"}});
    let result = it.call("call_tool", late).await;
    assert!(result.contains("reached"), "{result}");
    assert_eq!(it.offered(), before);
    assert!(it.heard().matches("tools/list\n").count() <= 3, "{}", it.heard());
    let series = it.scene.events(&it.session, "request/header").len();
    assert_eq!(series, 1);
    it.client.finish(&it.scene.place).await;
}

/// M06: a tool that is gone is one no more to whoever still knows it, and the prompt stays as it is.
#[tokio::test]
async fn a_tool_that_is_gone_is_told_to_be() {
    let mut it = Imported::new(Script::new(), &["tool=shrink"]).await;
    it.call("mcp__s__shrink", json!({})).await;
    let before = it.offered();
    assert!(before.contains(&"mcp__s__data".to_owned()));
    while it.call("find_tools", json!({"words": "mcp__s__data"})).await.contains("scripted tool") {}
    let late = json!({"name": "mcp__s__data", "arguments": {}});
    let result = it.call("call_tool", late).await;
    assert!(result.contains("No MCP server of this session has a tool `mcp__s__data`"), "{result}");
    let result = it.call("mcp__s__data", json!({})).await;
    assert!(result.contains("mcp__s__data") && !result.contains("only"), "{result}");
    assert!(!it.heard().contains("call data"), "{}", it.heard());
    it.client.finish(&it.scene.place).await;
}

/// M19: all pages are read, and an endless list ends.
#[tokio::test]
async fn lists_are_read_to_their_end_and_no_further() {
    let mut it = Imported::new(Script::new(), &["pages"]).await;
    it.say().await;
    let pages = it.offered().iter().filter(|name| name.starts_with("mcp__s__t")).count();
    assert_eq!(pages, 120);
    it.client.finish(&it.scene.place).await;
    for (mode, told) in [
        ("endless", "its list of tools never ends; a page came again"),
        ("counting", "its list of tools has more than 50 pages"),
        ("many=2100", "it lists more than 2000 tools"),
    ] {
        let mut it = Imported::new(Script::new(), &[mode]).await;
        it.ready(1).await;
        it.say().await;
        assert!(it.offered().contains(&"mcp__s__echo".to_owned()), "{mode}");
        it.notice(told).await;
        it.client.finish(&it.scene.place).await;
    }
}

/// What is no list is told as such, and not as a server without tools.
#[tokio::test]
async fn a_list_that_is_none_is_told() {
    let mut it = Imported::new(Script::new(), &["list-odd"]).await;
    it.say().await;
    it.notice("its list of tools is none").await;
    it.client.finish(&it.scene.place).await;
}

/// A flood of tools that are none is told by its first ones and by how many there are.
#[tokio::test]
async fn a_flood_of_bad_tools_is_counted() {
    let mut it = Imported::new(Script::new(), &["flood=500"]).await;
    it.say().await;
    assert!(it.offered().contains(&"mcp__s__echo".to_owned()));
    it.notice("480 more tools were left out").await;
    let told = it.client.trace().text(&it.session);
    assert_eq!(told.matches("it does not say what it takes").count(), 20, "{told}");
    it.client.finish(&it.scene.place).await;
}
