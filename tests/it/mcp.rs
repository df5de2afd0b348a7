//! Tools of MCP servers as a client and a model meet them. The server is scripted
//! (`tests/mcp-server`), with the defects of real ones.

use bridle_model_server::{Answer, Script};
use bridle_tests::{Client, DEADLINE, Launch, Permission, Trace, wait_until_gone};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::scene::Scene;

mod asking;
mod configured;
mod figures;
mod http;
mod keys;
mod limits;
mod real;
mod resources;
mod resting;

/// A session with scripted servers.
struct Imported {
    scene: Scene,
    client: Client,
    session: String,
}

/// The scripted server, as a client names it.
pub(crate) fn server(scene: &Scene, name: &str, modes: &[&str]) -> Value {
    let heard = scene.place.workspace().join(format!("heard-{name}"));
    json!({
        "name": name,
        "command": env!("CARGO_BIN_EXE_bridle-mcp-scripted"),
        "args": modes,
        "env": [
            {"name": "MCP_HEARD", "value": heard},
            {"name": "SERVER_TOKEN", "value": "given-by-the-client"},
        ],
    })
}

/// The names of the tools in the newest request.
fn offered(scene: &Scene) -> Vec<String> {
    let requests = scene.requests();
    let tools = requests.last().unwrap()["tools"].as_array().unwrap().clone();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

impl Imported {
    /// One server `s` in these modes.
    async fn new(script: Script, modes: &[&str]) -> Self {
        Self::with(script, &[("s", modes)]).await
    }

    async fn with(script: Script, servers: &[(&str, &[&str])]) -> Self {
        let scene = Scene::new(script).await;
        let servers: Value =
            servers.iter().map(|(name, modes)| server(&scene, name, modes)).collect();
        Self::open(scene, servers).await
    }

    /// A session with these servers.
    async fn open(scene: Scene, servers: Value) -> Self {
        let launch = scene.place.acp(&scene.model.url());
        Self::launched(scene, &launch, servers).await
    }

    /// A session of a process that is started like this.
    async fn launched(scene: Scene, launch: &Launch, servers: Value) -> Self {
        let mut client = Client::ready(launch).await;
        let new = json!({"cwd": scene.place.workspace(), "mcpServers": servers});
        let opened = client.request("session/new", new).await.ok();
        let session = opened["sessionId"].as_str().unwrap().to_owned();
        Self { scene, client, session }
    }

    /// One prompt, in which the model calls a tool; what it reads of it.
    async fn call(&mut self, tool: &str, arguments: Value) -> String {
        self.scene.model.push(Answer::new().tool_call(tool, arguments));
        self.scene.model.push(Answer::new().text("done"));
        let turn = self.client.prompt(&self.session, "go").await;
        assert_eq!(turn.stop_reason(), "end_turn");
        self.scene.last_results()
    }

    async fn say(&mut self) {
        self.scene.model.push(Answer::new().text("done"));
        self.client.prompt(&self.session, "go").await.ok();
    }

    /// The names of the tools in the newest request.
    fn offered(&self) -> Vec<String> {
        offered(&self.scene)
    }

    /// What the server `s` has heard.
    fn heard(&self) -> String {
        self.scene.place.read("heard-s")
    }

    /// Waits until so many servers are ready.
    async fn ready(&mut self, count: usize) {
        loop {
            let before = self.client.trace().text(&self.session).len();
            self.client.prompt(&self.session, "/mcp").await.ok();
            let told = self.client.trace().text(&self.session).split_off(before);
            if told.matches(": ready").count() == count {
                return;
            }
            assert!(!told.contains("failed") && !told.contains("resting"), "{told}");
        }
    }

    async fn notice(&self, text: &str) {
        let told = |trace: &Trace| trace.text(&self.session).contains(text).then_some(());
        self.client.wait_for(text, told).await;
    }
}

/// M02: the first request has the tools of a server that is started meanwhile; its results come back as
/// they are meant.
#[tokio::test]
async fn a_server_s_tools_are_called_like_any_other() {
    let mut it = Imported::new(Script::new(), &[]).await;
    let result = it.call("mcp__s__echo", json!({"text": "hello"})).await;
    assert!(result.contains("hello"), "{result}");
    let offered = it.offered();
    for name in ["mcp__s__echo", "mcp__s__bash", "find_tools", "call_tool"] {
        assert!(offered.iter().any(|offered| offered == name), "{name} in {offered:?}");
    }
    for (tool, told, untold) in [
        ("fail", "it broke", "none"),
        ("both", "as text", "as\\\\\\\"data"),
        ("data", "only", "none"),
        ("aside", "for everybody", "for you alone"),
        ("link", "[resource x: file:///x (text/plain)]", "UklGRg"),
        ("odd", "hologram", "none"),
        ("refuse", "not so (-32602)", "none"),
    ] {
        let result = it.call(&format!("mcp__s__{tool}"), json!({})).await;
        assert!(result.contains(told), "{tool}: {result}");
        assert!(!result.contains(untold), "{tool}: {result}");
    }
    let result = it.call("mcp__s__image", json!({})).await;
    assert!(result.contains("\"type\":\"image\""), "{result}");
    it.scene.assert_lawful();
    it.client.finish(&it.scene.place).await;
}

/// M14: a server gets what its configuration gives it and what every command has, and no key.
#[tokio::test]
async fn a_server_sees_its_own_environment_and_no_key() {
    let mut it = Imported::new(Script::new(), &[]).await;
    let result = it.call("mcp__s__env", json!({})).await;
    assert!(result.contains("SERVER_TOKEN=[secret]"), "{result}");
    assert!(result.contains("PATH=") && result.contains("HOME="), "{result}");
    assert!(!result.contains("API_KEY"), "{result}");
    let cwd = format!("CWD={}", it.scene.place.workspace().display());
    assert!(result.contains(&cwd), "{result}");
    it.client.finish(&it.scene.place).await;
}

/// S34, S16: a server's command is a program and its arguments, not a text for a shell, and only the editor
/// and the user's own configuration name any.
#[tokio::test]
async fn a_server_is_a_program_that_no_project_names() {
    let scene = Scene::new(Script::new()).await;
    let marker = scene.place.workspace().join("touched");
    let touch = format!("touch {}", marker.display());
    let project = json!({"mcpServers": {"p": {"command": "sh", "args": ["-c", touch]}}});
    for name in [".mcp.json", "mcp.json", ".cursor/mcp.json", ".vscode/mcp.json"] {
        let path = scene.place.workspace().join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, project.to_string()).unwrap();
    }
    let words = [format!("$({touch})"), format!("; {touch}"), "${HOME}".to_owned(), "*".to_owned()];
    let words = words.each_ref().map(String::as_str);
    let servers = json!([server(&scene, "s", &words)]);
    let mut it = Imported::open(scene, servers).await;
    let result = it.call("mcp__s__env", json!({})).await;
    for word in words {
        assert!(result.contains(word), "{word}: {result}");
    }
    it.client.prompt(&it.session, "/mcp").await.ok();
    let told = it.client.trace().text(&it.session);
    assert!(told.contains("- s (") && !told.contains("- p ("), "{told}");
    it.client.finish(&it.scene.place).await;
    assert!(!marker.exists());
}

/// What servers and models say to each other is in no log, whatever is asked for.
#[tokio::test]
async fn what_is_said_to_a_server_is_not_logged() {
    let scene = Scene::new(Script::new()).await;
    let launch = scene.place.acp(&scene.model.url()).env("BRIDLE_LOG", "info,rmcp=trace");
    let mut client = Client::ready(&launch).await;
    let servers = [server(&scene, "s", &["instructions=spoken-first"])];
    let new = json!({"cwd": scene.place.workspace(), "mcpServers": servers});
    let opened = client.request("session/new", new).await.ok();
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    let mut it = Imported { scene, client, session };
    let result = it.call("mcp__s__echo", json!({"text": "spoken-then"})).await;
    assert!(result.contains("spoken-then"), "{result}");
    let trace = it.client.finish(&it.scene.place).await;
    assert!(!trace.stderr().contains("spoken"), "{}", trace.stderr());
}

/// B029: every call asks, a no reaches no server, and a mode that changes nothing lets none through.
#[tokio::test]
async fn a_call_needs_permission() {
    let mut it = Imported::new(Script::new(), &[]).await;
    it.client.set_permission(Permission::Reject);
    it.call("mcp__s__echo", json!({"text": "no"})).await;
    let late = json!({"name": "mcp__s__echo", "arguments": {"text": "no"}});
    it.call("call_tool", late).await;
    it.client.set_permission(Permission::Allow);
    it.call("mcp__s__echo", json!({"text": "yes"})).await;
    let mode = json!({"sessionId": it.session, "modeId": "read-only"});
    it.client.request("session/set_mode", mode).await.ok();
    let result = it.call("mcp__s__echo", json!({"text": "no"})).await;
    assert!(result.contains("tools of MCP servers may not be used"), "{result}");
    let heard = it.heard();
    let calls: Vec<_> = heard.lines().filter(|line| line.starts_with("call")).collect();
    assert_eq!(calls, ["call echo yes"]);
    let questions = it.client.trace().calls("session/request_permission");
    assert_eq!(questions.len(), 3);
    assert!(questions[0].to_string().contains("uses the MCP server s"), "{}", questions[0]);
    it.client.finish(&it.scene.place).await;
}

/// M01, M21: a server that cannot be used costs its own tools and nothing else, and why is told.
#[tokio::test]
async fn a_bad_server_costs_nothing_but_itself() {
    let servers: &[(&str, &[&str])] = &[
        ("silent", &["silent"]),
        ("exits", &["exit"]),
        ("odd", &["version=2099-01-01"]),
        ("s", &["junk", "loud", "bad-tools"]),
    ];
    let mut it = Imported::with(Script::new(), servers).await;
    let result = it.call("mcp__s__echo", json!({"text": "well"})).await;
    assert!(result.contains("well"), "{result}");
    let offered = it.offered();
    assert!(offered.contains(&"mcp__s__badhints".to_owned()), "{offered:?}");
    assert!(!offered.iter().any(|name| name.contains("schema")), "{offered:?}");
    it.notice("boom: no configuration").await;
    it.notice("version 2099-01-01").await;
    it.notice("tool \"noschema\" was left out").await;
    it.scene.assert_lawful();
    it.client.finish(&it.scene.place).await;
}

/// M12, M18: what would wait for ever is an error, and the server goes on.
#[tokio::test]
async fn a_call_that_cannot_be_answered_fails_at_once() {
    let mut it = Imported::new(Script::new(), &[]).await;
    let result = it.call("mcp__s__huge", json!({})).await;
    assert!(result.contains("16777216 are the most"), "{result}");
    let result = it.call("mcp__s__idless", json!({})).await;
    assert!(result.contains("what?"), "{result}");
    let result = it.call("mcp__s__none", json!({})).await;
    assert!(result.contains("is no result of a tool: \\\"no result\\\""), "{result}");
    let result = it.call("mcp__s__echo", json!({"text": "still here"})).await;
    assert!(result.contains("still here"), "{result}");
    it.client.finish(&it.scene.place).await;
}

/// M16: a call that was under way when its server was lost is told as unknown and never repeated; the
/// next one finds the server again.
#[tokio::test]
async fn a_lost_server_comes_back_and_no_call_is_repeated() {
    let mut it = Imported::new(Script::new(), &[]).await;
    let result = it.call("mcp__s__crash", json!({"text": "once"})).await;
    assert!(result.contains("is unknown"), "{result}");
    let result = it.call("mcp__s__echo", json!({"text": "again"})).await;
    assert!(result.contains("again"), "{result}");
    let heard = it.heard();
    assert_eq!(heard.matches("call crash").count(), 1, "{heard}");
    assert_eq!(heard.matches("initialize\n").count(), 2, "{heard}");
    it.client.finish(&it.scene.place).await;
}

/// A server that can no more be heard is ended and started again, though it lives.
#[tokio::test]
async fn a_server_that_falls_silent_for_ever_is_started_again() {
    let mut it = Imported::new(Script::new(), &["deaf"]).await;
    let result = it.call("mcp__s__mute", json!({})).await;
    assert!(result.contains("is unknown"), "{result}");
    let result = it.call("mcp__s__echo", json!({"text": "again"})).await;
    assert!(result.contains("again"), "{result}");
    assert_eq!(it.heard().matches("initialize\n").count(), 2, "{}", it.heard());
    it.client.finish(&it.scene.place).await;
}

/// M11: a cancel reaches the server, and the turn does not wait for it.
#[tokio::test]
async fn a_cancel_reaches_the_server() {
    let mut it = Imported::new(Script::new(), &[]).await;
    it.scene.model.push(Answer::new().tool_call("mcp__s__slow", json!({})));
    let turn = it.client.begin_prompt(&it.session, "go").await;
    it.scene.place.appears("heard-s.call-slow.1").await;
    it.client.cancel(&it.session).await;
    assert_eq!(it.client.reply(&turn).await.stop_reason(), "cancelled");
    it.scene.place.appears("heard-s.notifications-cancelled.1").await;
    it.client.finish(&it.scene.place).await;
}

/// M10: progress is shown.
#[tokio::test]
async fn progress_is_shown_while_a_call_runs() {
    let mut it = Imported::new(Script::new(), &[]).await;
    let gate = it.scene.place.workspace().join("gate");
    mknodat(CWD, &gate, FileType::Fifo, Mode::RWXU, 0).unwrap();
    it.scene.model.push(Answer::new().tool_call("mcp__s__work", json!({})));
    it.scene.model.push(Answer::new().text("done"));
    let turn = it.client.begin_prompt(&it.session, "go").await;
    let session = it.session.clone();
    let is_shown =
        |update: &Value| update["content"].to_string().contains("step 5 [secret] (5 of 5)");
    let shown = |trace: &Trace| {
        trace.updates_of(&session, "tool_call_update").iter().any(is_shown).then_some(())
    };
    it.client.wait_for("progress", shown).await;
    tokio::task::spawn_blocking(move || fs_err::write(gate, "go").unwrap()).await.unwrap();
    assert_eq!(it.client.reply(&turn).await.stop_reason(), "end_turn");
    assert!(it.scene.last_results().contains("worked"));
    it.client.finish(&it.scene.place).await;
}

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

/// M19: all pages are read, and an endless list ends.
#[tokio::test]
async fn lists_are_read_to_their_end_and_no_further() {
    let mut it = Imported::new(Script::new(), &["pages"]).await;
    it.say().await;
    let pages = it.offered().iter().filter(|name| name.starts_with("mcp__s__t")).count();
    assert_eq!(pages, 120);
    it.client.finish(&it.scene.place).await;
    let mut it = Imported::new(Script::new(), &["endless"]).await;
    it.say().await;
    assert!(it.offered().contains(&"mcp__s__echo".to_owned()));
    it.notice("never ends").await;
    it.client.finish(&it.scene.place).await;
}

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

/// M03: nothing is left of a server and what it started, however its session or the agent ends.
#[tokio::test]
async fn nothing_is_left_of_a_server() {
    for end in ["close", "eof", "term", "kill"] {
        let mut it = Imported::new(Script::new(), &["tree"]).await;
        it.say().await;
        let agent = it.client.pid();
        let processes = it.scene.place.processes();
        let all: Vec<_> = processes.into_iter().filter(|process| process.pid != agent).collect();
        assert!(all.len() >= 3, "{end}: {all:?}");
        let servers: Vec<_> = bridle_tests::descendants(agent);
        match end {
            "close" => {
                let close = json!({"sessionId": it.session});
                it.client.request("session/close", close).await.ok();
                let left = bridle_tests::descendants(agent);
                let stubborn = left.iter().filter(|it| it.command.contains("sleep 60")).count();
                assert_eq!(stubborn, 0, "{left:?}");
                it.client.finish(&it.scene.place).await;
            }
            "eof" => {
                it.client.finish(&it.scene.place).await;
            }
            "term" => it.client.signal(rustix::process::Signal::TERM),
            _ => it.client.signal(rustix::process::Signal::KILL),
        }
        for process in &servers {
            assert!(wait_until_gone(process, DEADLINE), "{end}: {process:?}");
        }
    }
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
