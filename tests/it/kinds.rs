//! The kind of every tool's calls, by which an editor chooses its picture and what it folds away: as
//! announced, asked about and ended. No tool can be added without its line here.

use std::collections::{BTreeMap, BTreeSet};

use bridle_model_server::{Answer, Script};
use bridle_tests::Client;
use serde_json::{Value, json};

use crate::lsp::configure;
use crate::mcp::server;
use crate::scene::Scene;

/// The tools that servers of a session bring along, besides their own.
const WITH_SERVERS: [&str; 4] = ["call_tool", "find_tools", "list_resources", "read_resource"];

/// The kind of each tool's calls, and calls that come to a good end, one after the other.
fn calls() -> Vec<(&'static str, &'static str, Value)> {
    let patch = "*** Begin Patch\n*** Add File: patched\n+x\n*** End Patch";
    let question = json!({"header": "Colour", "question": "Which colour?", "options": []});
    let at = json!({"op": "definition", "path": "main.toy", "line": 1, "symbol": "main"});
    vec![
        ("read", "read", json!({"path": "changed"})),
        ("read", "read", json!({"path": "moved"})),
        ("read", "read", json!({"path": "deleted"})),
        ("list", "read", json!({"path": "."})),
        ("glob", "search", json!({"pattern": "*"})),
        ("search", "search", json!({"pattern": "old"})),
        ("code_nav", "search", at),
        ("code_symbols", "search", json!({"op": "outline", "path": "main.toy"})),
        ("code_diagnostics", "read", json!({"paths": ["main.toy"]})),
        (
            "edit",
            "edit",
            json!({"path": "changed", "edits": [{"old_text": "old", "new_text": "new"}]}),
        ),
        ("write", "edit", json!({"path": "written", "content": "x"})),
        ("apply_patch", "edit", json!({"patch": patch})),
        ("move", "move", json!({"path": "moved", "to": "there"})),
        ("delete", "delete", json!({"path": "deleted"})),
        ("shell", "execute", json!({"command": "true"})),
        ("job", "execute", json!({"action": "list"})),
        ("terminal", "execute", json!({"command": "true"})),
        ("todo", "think", json!({"items": [{"text": "look", "status": "pending"}]})),
        ("skill", "read", json!({"name": "write-a-skill"})),
        ("ask_user", "other", json!({"questions": [question]})),
        ("find_tools", "search", json!({"words": "echo"})),
        ("call_tool", "other", json!({"name": "mcp__s__echo", "arguments": {"text": "x"}})),
        ("mcp__s__echo", "other", json!({"text": "x"})),
        ("list_resources", "search", json!({})),
        ("read_resource", "read", json!({"server": "s", "uri": "mem://note"})),
        ("exit_plan_mode", "switch_mode", json!({"plan": "1. Look."})),
    ]
}

#[tokio::test]
async fn every_call_of_every_tool_has_its_kind() {
    let scene = Scene::new(Script::new()).await;
    for name in ["changed", "moved", "deleted"] {
        scene.place.write(name, "old\n");
    }
    scene.place.write("main.toy", "def main\n");
    configure(&scene.place, &json!({}), "", "");
    let config = scene.place.bridle_home().join("config.toml");
    let config = fs_err::read_to_string(config).unwrap();
    scene.place.configure("config.toml", format!("apply_patch = true\nterminal = true\n{config}"));
    let mut client = Client::ready(&scene.place.acp(&scene.model.url())).await;
    let new = json!({
        "cwd": scene.place.workspace(), "mcpServers": [server(&scene, "s", &["resources"])],
    });
    let opened = client.request("session/new", new).await.ok();
    let session = opened["sessionId"].as_str().unwrap().to_owned();

    for (tool, _, arguments) in calls() {
        if tool == "exit_plan_mode" {
            let plan = json!({"sessionId": session, "modeId": "plan"});
            client.request("session/set_mode", plan).await.ok();
        }
        scene.model.push(Answer::new().tool_call(tool, arguments));
        // A question to the person ends its turn where there are no forms.
        if tool != "ask_user" {
            scene.model.push(Answer::new().text("done"));
        }
        let stop = client.prompt(&session, "go").await.stop_reason();
        assert_eq!(stop, "end_turn", "{tool}");
    }
    assert_eq!(offered(&scene), names(|name| !name.is_empty()), "a tool without a line here");
    let built_in: BTreeSet<_> = bridle_toolkit::TOOL_NAMES
        .into_iter()
        .chain(bridle_lsp::TOOL_NAMES)
        .chain(WITH_SERVERS)
        .map(str::to_owned)
        .collect();
    assert_eq!(names(|name| !name.starts_with("mcp__")), built_in);

    let trace = client.finish(&scene.place).await;
    let kinds: BTreeMap<_, _> = calls().into_iter().map(|(tool, kind, _)| (tool, kind)).collect();
    let shown = trace.tool_calls(&session);
    let called: Vec<_> = shown.iter().map(|call| call["name"].as_str().unwrap()).collect();
    assert_eq!(called, calls().iter().map(|(tool, ..)| *tool).collect::<Vec<_>>());
    let mut of: BTreeMap<&str, &str> = BTreeMap::new();
    for call in &shown {
        let name = call["name"].as_str().unwrap();
        assert_eq!(call["status"], "completed", "{call}");
        of.insert(call["toolCallId"].as_str().unwrap(), kinds[name]);
    }
    let asked = trace.calls("session/request_permission");
    let asked = asked.iter().map(|question| question["params"]["toolCall"].clone());
    for said in trace.updates(&session).into_iter().chain(asked) {
        let Some(id) = said["toolCallId"].as_str() else { continue };
        // What a message does not say stays as it was; a new call is of the kind `other` then.
        let kind = match (said["kind"].as_str(), said["sessionUpdate"].as_str()) {
            (Some(kind), _) => kind,
            (None, Some("tool_call")) => "other",
            (None, _) => continue,
        };
        assert_eq!(kind, of[id], "{said}");
    }
    scene.assert_lawful();
}

/// The names of tools that have a line here.
fn names(which: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let all = calls().into_iter().map(|(tool, ..)| tool.to_owned());
    all.filter(|name| which(name)).collect()
}

/// What the model was offered in any request, of the server only the tool that is called.
fn offered(scene: &Scene) -> BTreeSet<String> {
    let requests = scene.requests();
    let tools = requests.iter().flat_map(|body| body["tools"].as_array().unwrap());
    let names = tools.map(|tool| tool["name"].as_str().unwrap().to_owned());
    names.filter(|name| !name.starts_with("mcp__") || name == "mcp__s__echo").collect()
}
