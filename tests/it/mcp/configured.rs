//! Servers that the user has configured, and what a person can see of servers.

use std::os::unix::fs::PermissionsExt as _;

use bridle_model_server::Script;
use bridle_tests::Launch;
use serde_json::json;

use super::{Imported, server};
use crate::scene::Scene;

fn configure(scene: &Scene, text: &str) {
    scene.place.configure("config.toml", text);
}

/// The scripted server as a table of the configuration.
pub(super) fn table(scene: &Scene, name: &str, modes: &[&str], more: &str) -> String {
    let heard = scene.place.workspace().join(format!("heard-{name}"));
    format!(
        "[mcp.{name}]\ncommand = {:?}\nargs = {modes:?}\nenv = {{ MCP_HEARD = {:?}, SERVER_TOKEN = \
         \"${{OUTER_TOKEN}}\" }}\n{more}\n",
        env!("CARGO_BIN_EXE_bridle-mcp-scripted"),
        heard.display().to_string(),
    )
}

pub(super) fn launch(scene: &Scene) -> Launch {
    scene.place.acp(&scene.model.url()).env("OUTER_TOKEN", "t0-from-outside")
}

/// Each session has them beside those of its client, which win where the names are the same; what
/// limits them holds; what cannot be used is told and costs no other.
#[tokio::test]
async fn every_session_has_the_configured_servers() {
    let scene = Scene::new(Script::new()).await;
    let tables = [
        table(&scene, "c", &[], "allow = [\"echo\", \"env\", \"fail\"]\ndeny = [\"fail\"]"),
        table(&scene, "s", &["exit"], ""),
        table(&scene, "off", &["exit"], "enabled = false"),
        "[mcp.needs]\nurl = \"https://127.0.0.1:1/\"\nheaders = { A = \"${NOT_SET}\" }\n"
            .to_owned(),
        "[mcp.both]\ncommand = \"x\"\nurl = \"y\"\n".to_owned(),
        "[mcp.odd]\ncommand = \"x\"\nenv = \"sk-secret\"\n".to_owned(),
        "[mcp.odder]\ncomand = \"x\"\n".to_owned(),
    ];
    configure(&scene, &tables.concat());
    let servers = json!([server(&scene, "s", &[])]);
    let launch = launch(&scene);
    let mut it = Imported::launched(scene, &launch, servers).await;
    let result = it.call("mcp__c__env", json!({})).await;
    assert!(result.contains("SERVER_TOKEN=t0-from-outside"), "{result}");
    assert!(!result.contains("OUTER_TOKEN"), "{result}");
    let mut offered = it.offered();
    offered.retain(|name| name.starts_with("mcp__"));
    let of_c: Vec<_> = offered.iter().filter(|name| name.starts_with("mcp__c__")).collect();
    assert_eq!(of_c, ["mcp__c__echo", "mcp__c__env"]);
    assert!(offered.contains(&"mcp__s__echo".to_owned()), "{offered:?}");
    it.client.prompt(&it.session, "/mcp").await.ok();
    let told = it.client.trace().text(&it.session);
    for part in ["- s (", "): ready: ", "- c (", "): ready: 2 tools"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("- off"), "{told}");
    for problem in [
        "mcp.needs: the variable NOT_SET is not set",
        "mcp.both: a server has either a `command` or a `url`",
        "mcp.odd: invalid type: string \"...\"",
        "mcp.odder: unknown field `comand`",
    ] {
        it.notice(problem).await;
    }
    assert!(!told.contains("sk-secret"));
    it.client.finish(&it.scene.place).await;
}

struct Ran {
    code: i32,
    out: String,
}

async fn mcp(scene: &Scene, arguments: &[&str]) -> Ran {
    let launch = scene.place.launch(["mcp"]).args(arguments).env("OUTER_TOKEN", "t0-from-outside");
    let output = launch.output().await;
    let out = String::from_utf8(output.stdout).unwrap();
    Ran { code: output.status.code().unwrap(), out }
}

/// `list`, `test` and `logs`: what there is, whether it works, what it said; nothing is left running.
#[tokio::test]
async fn servers_are_listed_tested_and_read() {
    let scene = Scene::new(Script::new()).await;
    assert!(mcp(&scene, &["list"]).await.out.starts_with("no servers; [mcp.NAME]"));
    let tables = [
        table(&scene, "good", &["resources", "bad-tools"], "deny = [\"fail\"]"),
        table(&scene, "gone", &["exit"], ""),
        table(&scene, "off", &[], "enabled = false"),
    ];
    configure(&scene, &tables.concat());
    let listed = mcp(&scene, &["list"]).await;
    assert_eq!(listed.code, 0);
    let lines: Vec<_> = listed.out.lines().collect();
    assert!(lines[0].starts_with("gone  /") && lines[1].starts_with("good  /"), "{lines:?}");
    assert!(lines[2].ends_with("(off)"), "{lines:?}");

    let tested = mcp(&scene, &["test", "--tools"]).await;
    assert_eq!(tested.code, 1);
    let told = &tested.out;
    assert!(told.contains("ok    good: scripted 1, protocol 2025-11-25"), "{told}");
    assert!(told.contains(", resources (") && told.contains("\n      echo\n"), "{told}");
    assert!(!told.contains("\n      fail\n") && told.contains("tool \"noschema\" was left out"));
    assert!(told.contains("FAIL  gone: it exited with code 3; it wrote: boom"), "{told}");
    assert!(!told.contains("off:"), "{told}");
    assert_eq!(mcp(&scene, &["test", "off"]).await.code, 0);
    assert_eq!(mcp(&scene, &["test", "nobody"]).await.code, 1);
    assert!(scene.place.processes().is_empty());

    let launch = launch(&scene);
    let mut it = Imported::launched(scene, &launch, json!([])).await;
    it.call("mcp__good__log", json!({"text": "as logged"})).await;
    it.notice("boom").await;
    it.client.finish(&it.scene.place).await;
    let logs = mcp(&it.scene, &["logs"]).await;
    assert!(logs.out.contains(" gone: boom: no configuration\n"), "{}", logs.out);
    assert!(logs.out.contains(" good: as logged\n"), "{}", logs.out);
    let logs = mcp(&it.scene, &["logs", &it.session, "--server", "good"]).await;
    assert!(!logs.out.contains("boom"), "{}", logs.out);
    let journal = it.scene.place.sessions().join(&it.session).join("mcp.log");
    let mode = fs_err::metadata(&journal).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
