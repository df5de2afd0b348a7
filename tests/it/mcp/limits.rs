//! How long calls may take, and what a session's servers have to do with those of another.

use bridle_model_server::{Reply, Script};
use bridle_tests::Permission;
use serde_json::{Value, json};

use super::{Imported, configured, server};
use crate::scene::Scene;

/// M10: signs of life keep a call going, but not for ever; without any it ends sooner. The server is told.
#[tokio::test]
async fn a_call_has_two_limits() {
    let scene = Scene::new(Script::new()).await;
    let limits = "idle_timeout_s = 1\ncall_timeout_s = 3";
    scene.place.configure("config.toml", configured::table(&scene, "s", &[], limits));
    let launch = configured::launch(&scene);
    let mut it = Imported::launched(scene, &launch, json!([])).await;
    // Twice as long as a call without a sign of life.
    let result = it.call("mcp__s__beat", json!({"text": "20"})).await;
    assert!(result.contains("20 beats"), "{result}");
    let result = it.call("mcp__s__slow", json!({})).await;
    assert!(result.contains("it gave no sign of life for 1 s"), "{result}");
    it.scene.place.appears("heard-s.notifications-cancelled.1").await;
    let result = it.call("mcp__s__beat", json!({"text": "1000000"})).await;
    assert!(result.contains("it took longer than 3 s"), "{result}");
    it.scene.place.appears("heard-s.notifications-cancelled.2").await;
    let result = it.call("mcp__s__echo", json!({"text": "still here"})).await;
    assert!(result.contains("still here"), "{result}");
    it.client.finish(&it.scene.place).await;
}

/// M23: each session has its own servers, which know of no other session.
#[tokio::test]
async fn sessions_share_no_server() {
    let scene = Scene::new(Script::new()).await;
    let servers = json!([server(&scene, "s", &[])]);
    let mut it = Imported::open(scene, servers).await;
    let other = it.scene.place.workspace().join("other");
    fs_err::create_dir(&other).unwrap();
    let servers = json!([server(&it.scene, "t", &[])]);
    let new = json!({"cwd": other, "mcpServers": servers});
    let opened = it.client.request("session/new", new).await.ok();
    let second = opened["sessionId"].as_str().unwrap().to_owned();
    let first = std::mem::replace(&mut it.session, second.clone());
    let folders = it.call("mcp__t__ask", json!({"text": "roots/list"})).await;
    assert!(folders.contains(&format!("file://{}", other.display())), "{folders}");
    assert!(!it.offered().iter().any(|name| name.starts_with("mcp__s__")), "{:?}", it.offered());
    it.session = first;
    let folders = it.call("mcp__s__ask", json!({"text": "roots/list"})).await;
    assert!(!folders.contains("/other"), "{folders}");
    assert!(!it.offered().iter().any(|name| name.starts_with("mcp__t__")), "{:?}", it.offered());
    // The end of one is none of the other's.
    it.client.request("session/close", json!({"sessionId": second})).await.ok();
    let mut left = it.scene.place.processes();
    left.retain(|process| process.command.contains("bridle-mcp-scripted"));
    assert_eq!(left.len(), 1, "{left:?}");
    it.call("mcp__s__echo", json!({"text": "still here"})).await;
    assert_eq!(it.heard().matches("start\n").count(), 1, "{}", it.heard());
    it.client.finish(&it.scene.place).await;
}

/// M08: whatever schemas a server has, the request is one that a provider takes, and its other tools are
/// there.
#[tokio::test]
async fn odd_schemas_cost_no_request() {
    let mut it = Imported::new(Script::new(), &["odd-schemas"]).await;
    let result = it.call("mcp__s__echo", json!({"text": "well"})).await;
    assert!(result.contains("well"), "{result}");
    it.scene.assert_lawful();
    let requests = it.scene.requests();
    let tools = requests.last().unwrap()["tools"].as_array().unwrap().clone();
    let odd: Vec<_> =
        tools.iter().filter(|tool| tool["name"].as_str().unwrap().contains("odd-")).collect();
    assert_eq!(odd.len(), 8, "{odd:?}");
    for tool in odd {
        let schema = &tool["input_schema"];
        assert_eq!(schema["type"], "object", "{tool}");
        for key in ["$ref", "anyOf", "oneOf", "allOf"] {
            assert_eq!(schema.get(key), None, "{key} in {tool}");
        }
    }
    let result = it.call("mcp__s__odd-ref", json!({"text": {"deep": "as given"}})).await;
    assert!(!result.contains("error"), "{result}");
    let is_call = |line: &&str| line.starts_with("call odd-ref");
    assert_eq!(it.heard().lines().filter(is_call).count(), 1);
    it.client.finish(&it.scene.place).await;
}

/// M08, B091: a tool that the provider refuses all the same costs one request and itself.
#[tokio::test]
async fn a_tool_that_the_provider_refuses_is_left_out() {
    let scene = Scene::new(Script::new()).await;
    let servers = json!([server(&scene, "s", &[])]);
    let mut it = Imported::open(scene, servers).await;
    it.say().await;
    let before = it.offered();
    let (bad, other) = ("mcp__s__both", "mcp__s__data");
    for (name, form) in [(bad, "tools.N.custom.input_schema: no"), (other, "no good: tools[N]")] {
        let place = it.offered().iter().position(|offered| offered == name).unwrap();
        let said = form.replace('N', &place.to_string());
        it.scene.model.push(Reply::error(400).saying(&said));
        it.say().await;
        it.notice(&format!("The provider refuses the tool {name}, which is left out")).await;
    }
    let left: Vec<_> = before.into_iter().filter(|name| name != bad && name != other).collect();
    assert_eq!(it.offered(), left);
    let late = json!({"name": bad, "arguments": {}});
    let result = it.call("call_tool", late).await;
    assert!(result.contains("as text"), "{result}");
    assert_eq!(it.offered(), left, "it stays out");
    // One of Bridle's own is no server's fault: the turn fails as with any other refusal.
    let place = left.iter().position(|name| name == "read").unwrap();
    let refusal = format!("tools.{place}.custom.name: no");
    it.scene.model.push(Reply::error(400).saying(&refusal));
    let turn = it.client.prompt(&it.session, "go").await;
    assert!(turn.error()["message"].as_str().unwrap().contains(&refusal));
    it.scene.assert_lawful();
    it.client.finish(&it.scene.place).await;
}

/// M25: tools take up no more than a tenth of the window, the same ones in every request; the others are
/// reached all the same.
#[tokio::test]
async fn many_tools_leave_room_for_the_work() {
    let mut it = Imported::new(Script::new(), &["many=200"]).await;
    it.say().await;
    let tools = |it: &Imported| it.scene.requests().last().unwrap()["tools"].clone();
    let first = tools(&it);
    let of_server = |tool: &&Value| tool["name"].as_str().unwrap().starts_with("mcp__");
    let (all, own): (Vec<_>, usize) = {
        let all: Vec<_> = first.as_array().unwrap().iter().filter(of_server).collect();
        let own = all.iter().map(|tool| tool.to_string().len()).sum();
        (all.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect(), own)
    };
    // The window has a million tokens, of about four bytes each.
    assert!((300_000..450_000).contains(&own), "{own} bytes of {} tools", all.len());
    let left_out = (0..200).map(|number| format!("mcp__s__many-{number}"));
    let left_out = left_out.rev().find(|name| !all.contains(name)).unwrap();
    let arguments = json!({"name": left_out, "arguments": {"text": "reached"}});
    let result = it.call("call_tool", arguments).await;
    assert!(result.contains("reached"), "{result}");
    let found = it.call("find_tools", json!({"words": "Tool 199."})).await;
    assert!(found.contains("mcp__s__many-199"), "{found}");
    assert_eq!(tools(&it), first);
    assert_eq!(it.scene.events(&it.session, "request/header").len(), 1);
    it.client.finish(&it.scene.place).await;
}

/// M25: a rule that allows a tool was made for what the tool was then.
#[tokio::test]
async fn a_tool_that_has_changed_is_asked_about_again() {
    let scene = Scene::new(Script::new()).await;
    let rule = "[permissions]\nallow = [\"tool mcp__s__echo\"]\n";
    scene.place.configure("config.toml", rule);
    let servers = json!([server(&scene, "s", &[])]);
    let mut it = Imported::open(scene, servers).await;
    let asked = |it: &Imported| it.client.trace().calls("session/request_permission").len();
    it.call("mcp__s__echo", json!({"text": "one"})).await;
    assert_eq!(asked(&it), 0);
    it.call("mcp__s__pull", json!({})).await;
    assert_eq!(asked(&it), 1);
    // It is listed anew in the background.
    let changed = json!({"words": "Something else by now"});
    while it.call("find_tools", changed.clone()).await.contains("No tool") {}
    it.client.set_permission(Permission::Reject);
    it.call("mcp__s__echo", json!({"text": "two"})).await;
    it.call("mcp__s__echo", json!({"text": "three"})).await;
    assert_eq!(asked(&it), 3);
    let question = it.client.trace().calls("session/request_permission")[2].to_string();
    assert!(question.contains("is not what it was when it was permitted"), "{question}");
    it.client.set_permission(Permission::Allow);
    it.call("mcp__s__echo", json!({"text": "four"})).await;
    it.call("mcp__s__echo", json!({"text": "five"})).await;
    assert_eq!(asked(&it), 4);
    let heard = it.heard();
    let calls: Vec<_> = heard.lines().filter(|line| line.starts_with("call echo")).collect();
    assert_eq!(calls, ["call echo one", "call echo four", "call echo five"]);
    it.client.finish(&it.scene.place).await;
}
