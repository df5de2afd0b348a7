//! What tools are called, and which are allowed by name.

use bridle_model_server::{Answer, Script};
use bridle_tests::Permission;
use serde_json::json;

use super::{Imported, offered, server};
use crate::scene::Scene;

/// M04: two servers with names that a provider takes for one, and the same tool.
#[tokio::test]
async fn tools_of_two_servers_never_meet() {
    let mut it = Imported::with(Script::new(), &[("a.b", &[]), ("a_b", &[]), ("a.b", &[])]).await;
    it.say().await;
    let offered = it.offered();
    let echoes: Vec<_> = offered.iter().filter(|name| name.contains("echo")).collect();
    assert_eq!(echoes.len(), 3, "{offered:?}");
    for (name, file) in [("mcp__a_b__echo", "heard-a_b"), ("mcp__a.b__echo", "heard-a.b")] {
        let wire = echoes.iter().find(|it| match name {
            "mcp__a_b__echo" => **it == name,
            _ => it.starts_with("mcp__a_b__echo") && **it != "mcp__a_b__echo" && !it.contains("-2"),
        });
        let wire = wire.unwrap_or_else(|| panic!("{name} in {echoes:?}")).to_string();
        it.call(&wire, json!({"text": "to me"})).await;
        let heard = fs_err::read_to_string(it.scene.place.workspace().join(file)).unwrap();
        assert!(heard.contains("call echo to me"), "{name}: {heard}");
    }
    it.client.finish(&it.scene.place).await;
}

/// M04: where the name of a server ends cannot be told from that of its tool.
#[tokio::test]
async fn names_that_run_into_each_other_are_told_apart() {
    let servers: &[(&str, &[&str])] = &[("a", &["tool=b__c"]), ("a__b", &["tool=c"])];
    let mut it = Imported::with(Script::new(), servers).await;
    it.say().await;
    let offered = it.offered();
    let own = |name: &&String| name.starts_with("mcp__a__b__c_");
    assert!(offered.contains(&"mcp__a__b__c".to_owned()), "{offered:?}");
    let other = offered.iter().find(own).unwrap_or_else(|| panic!("{offered:?}")).clone();
    for (name, file) in [("mcp__a__b__c", "heard-a"), (other.as_str(), "heard-a__b")] {
        it.call(name, json!({"text": "to me"})).await;
        assert!(it.scene.place.read(file).contains(" to me\n"), "{name}");
    }
    it.client.finish(&it.scene.place).await;
}

/// M05: a server's tool with the name of one of Bridle's own is another one.
#[tokio::test]
async fn no_server_s_tool_takes_the_place_of_an_own_one() {
    let mut it = Imported::new(Script::new(), &["tool=read"]).await;
    fs_err::write(it.scene.place.workspace().join("note.txt"), "from the disk\n").unwrap();
    let result = it.call("read", json!({"path": "note.txt"})).await;
    assert!(result.contains("from the disk"), "{result}");
    let offered = it.offered();
    let read = offered.iter().filter(|name| name.ends_with("read"));
    assert_eq!(read.collect::<Vec<_>>(), ["mcp__s__read", "read"], "{offered:?}");
    assert!(!it.heard().contains("call"), "{}", it.heard());
    it.call("mcp__s__read", json!({"text": "theirs"})).await;
    assert!(it.heard().contains("call read theirs"), "{}", it.heard());
    it.client.finish(&it.scene.place).await;
}

/// M04, M14: a name that no provider takes is the same to the model, to a rule and to the tools that find
/// and call it.
#[tokio::test]
async fn a_tool_has_one_name_for_everybody() {
    let scene = Scene::new(Script::new()).await;
    let server = |name: &str| server(&scene, name, &["tool=fetch it/now"]);
    let servers = json!([server("my server"), server(&"long ".repeat(20)), server(" \n ")]);
    let rule = "[permissions]\nallow = [\"tool mcp__my_server__fetch_it_now_*\"]\n";
    scene.place.configure("config.toml", rule);
    let mut it = Imported::open(scene, servers).await;
    it.ready(3).await;
    it.client.set_permission(Permission::Reject);
    it.say().await;
    let offered = it.offered();
    let one = |start: &str| {
        let found: Vec<_> = offered.iter().filter(|name| name.starts_with(start)).collect();
        assert_eq!(found.len(), 1, "{start}: {offered:?}");
        found[0].clone()
    };
    let name = one("mcp__my_server__fetch_it_now_");
    let found = it.call("find_tools", json!({"words": "my_server fetch"})).await;
    assert!(found.contains(&name), "{found}");
    let result = it.call(&name, json!({"text": "permitted"})).await;
    assert!(result.contains("permitted"), "{result}");
    let late = json!({"name": name, "arguments": {"text": "again"}});
    let result = it.call("call_tool", late).await;
    assert!(result.contains("again"), "{result}");
    let other = it.call(&one("mcp__server__fetch_it_now_"), json!({"text": "no"})).await;
    assert!(!other.contains("\"no\""), "{other}");
    let told = it.client.trace().text(&it.session);
    let long = "long ".repeat(8);
    for part in [format!("- {} (", long.trim_end()), "- server (".to_owned()] {
        assert!(told.contains(&part), "{part}: {told}");
    }
    it.scene.assert_lawful();
    it.client.finish(&it.scene.place).await;
}

/// A client that lists the tools which it allows allows none of a server that it does not name.
#[tokio::test]
async fn a_list_of_allowed_tools_holds_for_those_of_servers() {
    let scene = Scene::new(Script::new().otherwise(Answer::new().text("done"))).await;
    let mut client = scene.client().await;
    for (allowed, of_servers) in [
        (json!(["Read"]), Vec::new()),
        (json!(["Read", "mcp__s__echo"]), vec!["mcp__s__echo"]),
        (json!(["mcp__t__fail", "mcp__nobody"]), vec!["mcp__t__fail"]),
        (json!(["mcp__t"]), vec!["mcp__t__*"]),
    ] {
        let options = json!({"claudeCode": {"options": {"allowedTools": allowed}}});
        let new = json!({
            "cwd": scene.place.workspace(), "_meta": options,
            "mcpServers": [server(&scene, "s", &[]), server(&scene, "t", &[])],
        });
        let opened = client.request("session/new", new).await.ok();
        let session = opened["sessionId"].as_str().unwrap();
        assert_eq!(client.prompt(session, "go").await.stop_reason(), "end_turn");
        let offered = offered(&scene);
        let imported: Vec<_> = offered.iter().filter(|name| name.contains("__")).collect();
        match of_servers.as_slice() {
            ["mcp__t__*"] => {
                assert!(imported.len() > 5, "{offered:?}");
                assert!(imported.iter().all(|name| name.starts_with("mcp__t__")), "{offered:?}");
            }
            names => assert_eq!(imported, names, "{allowed}"),
        }
        assert!(!offered.iter().any(|name| name == "call_tool"), "{offered:?}");
        assert!(!client.trace().text(session).contains("not known"), "{allowed}");
    }
    scene.assert_lawful();
    client.finish(&scene.place).await;
}
