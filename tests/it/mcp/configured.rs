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
    assert!(result.contains("SERVER_TOKEN=[secret]"), "{result}");
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
    error: String,
}

/// What cannot work is seen before anything is started, at once in a session and without a second try;
/// what is asked of one server is answered for that one.
#[tokio::test]
async fn a_server_that_never_can_be_used_is_told_at_once() {
    let scene = Scene::new(Script::new()).await;
    let tables = [
        table(&scene, "good", &[], "deny = [\"ecko\"]"),
        "[mcp.absent]\ncommand = \"no-such-program\"\n".to_owned(),
        "[mcp.odd]\nurl = \"ftp://127.0.0.1/\"\n".to_owned(),
        "[mcp.both]\ncommand = \"x\"\nurl = \"y\"\n".to_owned(),
    ];
    configure(&scene, &tables.concat());
    let listed = mcp(&scene, &["list"]).await;
    assert_eq!(listed.code, 1);
    assert!(
        listed.out.contains("there is no program no-such-program to be executed"),
        "{}",
        listed.out
    );
    assert!(listed.out.contains("its address begins with \"ftp\""), "{}", listed.out);
    let doctor = scene.place.launch(["doctor"]).env("OUTER_TOKEN", "t0-from-outside");
    let doctor = String::from_utf8(doctor.output().await.stdout).unwrap();
    assert!(doctor.contains("FAIL  MCP server absent: there is no program"), "{doctor}");
    assert!(doctor.contains("ok    MCP server good: "), "{doctor}");
    let good = mcp(&scene, &["test", "good"]).await;
    assert_eq!(good.code, 0, "{}", good.out);
    let told = "`deny` names a tool that it does not have: \"ecko\"";
    assert!(good.out.contains(told), "{}", good.out);
    let both = mcp(&scene, &["test", "both"]).await;
    assert!(
        both.code == 1 && both.error.contains("mcp.both: a server has either"),
        "{}",
        both.error
    );
    assert!(!both.error.contains("there is no server"), "{}", both.error);

    let launch = launch(&scene);
    let mut it = Imported::launched(scene, &launch, json!([])).await;
    it.say().await;
    for part in ["The MCP server absent cannot be used", "The MCP server odd cannot be used", told]
    {
        it.notice(part).await;
    }
    assert!(!it.client.trace().text(&it.session).contains("tried again"));
    it.client.finish(&it.scene.place).await;
    let logs = mcp(&it.scene, &["logs", "--server", "nosuch"]).await;
    assert!(logs.error.contains("no MCP server nosuch of session"), "{}", logs.error);
}

/// A rule about a tool that there is not does nothing, which nobody can mean.
#[tokio::test]
async fn a_rule_about_no_tool_is_told() {
    let scene = Scene::new(Script::new()).await;
    configure(&scene, "[permissions]\ndeny = [\"tool shel\"]\nallow = [\"tool find_*\"]\n");
    let doctor = scene.place.launch(["doctor"]).output().await;
    let told = String::from_utf8(doctor.stdout).unwrap();
    assert!(told.contains("`tool shel` is about no tool; did you mean `shell`?"), "{told}");
    assert!(!told.contains("find_*"), "{told}");
}

async fn mcp(scene: &Scene, arguments: &[&str]) -> Ran {
    let launch = scene.place.launch(["mcp"]).args(arguments).env("OUTER_TOKEN", "t0-from-outside");
    let output = launch.output().await;
    let out = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    Ran { code: output.status.code().unwrap(), out, error }
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
        "[mcp.old]\ncommand = \"/no/such/program\"\nenabled = false\n".to_owned(),
        "[permissions]\nallow = [\"tool mcp__good__ecko\", \"tool mcp__good__e*\"]\n".to_owned(),
    ];
    configure(&scene, &tables.concat());
    let listed = mcp(&scene, &["list"]).await;
    assert_eq!(listed.code, 0);
    let lines: Vec<_> = listed.out.lines().collect();
    assert!(lines[0].starts_with("gone  /") && lines[1].starts_with("good  /"), "{lines:?}");
    assert!(lines[2].ends_with("(off)"), "{lines:?}");
    assert!(
        lines[3].starts_with("old") && lines.len() == 4,
        "of what is off none is missed: {lines:?}"
    );

    let tested = mcp(&scene, &["test", "--tools"]).await;
    assert_eq!(tested.code, 1);
    let told = &tested.out;
    assert!(told.contains("ok    good: scripted 1, protocol 2025-11-25"), "{told}");
    assert!(told.contains(", resources (") && told.contains("\n      mcp__good__echo\n"), "{told}");
    assert!(!told.contains("__fail\n") && told.contains("tool \"noschema\" was left out"));
    assert!(told.contains("FAIL  gone: it exited with code 3; it wrote: boom"), "{told}");
    assert!(!told.contains("off:"), "{told}");
    assert!(
        told.contains("the rule `allow tool mcp__good__ecko` is about no tool of it"),
        "{told}"
    );
    assert!(!told.contains("mcp__good__e*"), "{told}");
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
