//! What a server is started with, how it fails, comes back and ends, and that nothing is left of it.

use bridle_model_server::Script;
use bridle_tests::{Client, DEADLINE, wait_until_gone};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::resting::{running, standing};
use super::{Imported, server};
use crate::scene::Scene;

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
    let table = format!("[mcp.p]\ncommand = \"sh\"\nargs = [\"-c\", {touch:?}]\n");
    for name in ["config.toml", ".bridle/config.toml", "bridle.toml"] {
        scene.place.write(name, &table);
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

/// M16: a server that was ended between two calls is there for the next one.
#[tokio::test]
async fn a_server_that_was_killed_is_there_for_the_next_call() {
    let mut it = Imported::new(Script::new(), &[]).await;
    it.call("mcp__s__echo", json!({"text": "one"})).await;
    for process in running(&it) {
        let pid = Pid::from_raw(process.pid as i32).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        assert!(wait_until_gone(&process, DEADLINE), "{process:?}");
    }
    let result = it.call("mcp__s__echo", json!({"text": "two"})).await;
    // Where it was sent before that was noticed it is lost. What could not be sent waits for the next life.
    if !result.contains("two") {
        assert!(result.contains("is unknown"), "{result}");
        let result = it.call("mcp__s__echo", json!({"text": "three"})).await;
        assert!(result.contains("three"), "{result}");
    }
    assert_eq!(it.heard().matches("start\n").count(), 2, "{}", it.heard());
    for said in ["one", "two", "three"] {
        assert!(it.heard().matches(&format!("call echo {said}\n")).count() <= 1);
    }
    it.client.finish(&it.scene.place).await;
}

/// M16: a server that ends again and again is not started for ever, and a call tries it once more.
#[tokio::test]
async fn a_server_that_does_not_stay_is_given_up() {
    let mut it = Imported::new(Script::new(), &[]).await;
    it.say().await;
    let doom = it.scene.place.workspace().join("doomed");
    fs_err::write(&doom, "").unwrap();
    it.call("mcp__s__crash", json!({})).await;
    let starts = |it: &Imported| it.heard().matches("start\n").count();
    // Its first life, and four that came to nothing. A call does not wait for the pauses between.
    while !standing(&mut it).await.contains("): failed; a call tries it again") {
        let result = it.call("mcp__s__echo", json!({"text": "no"})).await;
        assert!(result.contains("The call was not made"), "{result}");
    }
    let tried = starts(&it);
    it.notice("The MCP server s cannot be used").await;
    let result = it.call("mcp__s__echo", json!({"text": "no"})).await;
    assert!(result.contains("it wrote: doomed"), "{result}");
    fs_err::remove_file(&doom).unwrap();
    let result = it.call("mcp__s__echo", json!({"text": "yes"})).await;
    assert!(result.contains("yes"), "{result}");
    it.notice("The MCP server s can be used again").await;
    assert!((5..=6).contains(&tried), "{}", it.heard());
    assert_eq!(starts(&it), tried + 2, "{}", it.heard());
    it.client.finish(&it.scene.place).await;
}

/// Session close first lets a server hear that nobody speaks any more.
#[tokio::test]
async fn a_server_may_end_by_itself() {
    let mut it = Imported::new(Script::new(), &["deaf"]).await;
    it.say().await;
    it.client.request("session/close", json!({"sessionId": it.session})).await.ok();
    assert!(it.heard().ends_with("end of input\n"), "{}", it.heard());
    assert_eq!(running(&it), []);
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

/// M03: nothing is left of a server and what it started, however its session or the agent ends.
#[tokio::test]
async fn nothing_is_left_of_a_server() {
    for end in ["close", "eof", "term", "kill"] {
        let trees: &[(&str, &[&str])] = &[("s", &["tree"]), ("t", &["tree"]), ("u", &["tree"])];
        let mut it = Imported::with(Script::new(), trees).await;
        it.say().await;
        let agent = it.client.pid();
        let processes = it.scene.place.processes();
        let all: Vec<_> = processes.into_iter().filter(|process| process.pid != agent).collect();
        let stubborn = all.iter().filter(|it| it.command.contains("sleep 60")).count();
        assert!(stubborn >= 3, "{end}: {all:?}");
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

/// M03: the agent takes note of every end, so that the process table keeps none.
#[tokio::test]
async fn no_end_of_a_server_is_left_in_the_process_table() {
    let servers: &[(&str, &[&str])] = &[
        ("exits", &["exit"]),
        ("odd", &["version=2099-01-01"]),
        ("leaves", &["leaves"]),
        ("m", &["deaf"]),
        ("s", &["tree"]),
    ];
    let mut it = Imported::with(Script::new(), servers).await;
    it.call("mcp__m__mute", json!({})).await;
    it.call("mcp__s__crash", json!({})).await;
    it.call("mcp__s__echo", json!({"text": "again"})).await;
    for process in running(&it) {
        kill_process(Pid::from_raw(process.pid as i32).unwrap(), Signal::KILL).unwrap();
        assert!(wait_until_gone(&process, DEADLINE), "{process:?}");
    }
    it.call("mcp__s__echo", json!({"text": "again"})).await;
    let close = json!({"sessionId": it.session});
    it.client.request("session/close", close).await.ok();
    // Between an end and its note there is a moment.
    let mut left = Vec::<u32>::new();
    for _ in 0..1_000 {
        it.client.request("session/list", json!({})).await.ok();
        left = bridle_tests::unnoticed_ends(it.client.pid());
        if left.is_empty() {
            break;
        }
    }
    assert_eq!(left, Vec::<u32>::new());
    it.client.finish(&it.scene.place).await;
}

/// While a server is started again, `/mcp` says why.
#[tokio::test]
async fn why_a_server_is_started_again_is_said_meanwhile() {
    let scene = Scene::new(Script::new()).await;
    let gate = scene.place.workspace().join("start-gate");
    mknodat(CWD, &gate, FileType::Fifo, Mode::RWXU, 0).unwrap();
    scene.place.write("doomed", "");
    let servers = json!([server(&scene, "s", &["gated"])]);
    let mut it = Imported::open(scene, servers).await;
    it.say().await;
    it.notice("The MCP server s does not start; it is tried again").await;
    let told = standing(&mut it).await;
    assert!(told.contains("doomed"), "{told}");
    fs_err::remove_file(it.scene.place.workspace().join("doomed")).unwrap();
    let mut told = String::new();
    while !told.contains("starting") {
        told = standing(&mut it).await;
        assert!(!told.contains("failed"), "{told}");
    }
    assert!(told.contains("): starting again\n") && told.contains("it wrote: doomed"), "{told}");
    tokio::task::spawn_blocking(move || fs_err::write(gate, "go").unwrap()).await.unwrap();
    it.ready(1).await;
    let told = standing(&mut it).await;
    assert!(!told.contains("doomed"), "{told}");
    it.client.finish(&it.scene.place).await;
}

/// A question, or the last words of what then hangs, are written down while the line has no end yet.
#[tokio::test]
async fn a_line_without_an_end_is_written_down_while_the_server_lives() {
    let mut it = Imported::new(Script::new(), &["unended"]).await;
    it.say().await;
    let journal = it.scene.place.sessions().join(&it.session).join("mcp.log");
    let told = || fs_err::read_to_string(&journal).is_ok_and(|it| it.contains("s: Which key? \n"));
    while !told() {
        it.client.prompt(&it.session, "/mcp").await.ok();
    }
    it.client.finish(&it.scene.place).await;
    assert_eq!(fs_err::read_to_string(&journal).unwrap().matches("Which key?").count(), 1);
}
