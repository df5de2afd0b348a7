//! The agent starts whatever it finds: in any home, by any path, for any client, beside any git.

use bridle_model_server::Script;
use bridle_tests::{Client, Launch, Place, binary};
use serde_json::{Value, json};

use crate::scene::Scene;

/// What `initialize` answers a client with these capabilities.
async fn initialized(launch: &Launch, capabilities: &Value) -> Value {
    let mut client = Client::start(launch);
    let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
    let result = client.request("initialize", params).await.ok();
    client.close_stdin().await;
    let (status, trace) = client.wait().await;
    assert!(status.success(), "{status}\n{}", trace.stderr());
    result
}

/// B130: what is wrong is said where it matters, and never by a death before `initialize`.
#[tokio::test]
async fn initialize_needs_nothing_but_the_binary() {
    let place = Place::new();
    let broken = Place::new();
    broken.configure("config.toml", "model = [");
    broken.configure("credentials.toml", "providers = 1");
    let file = place.write("file", "");
    let launches = [
        place.launch(["acp"]).without("HOME").without("BRIDLE_HOME").without("PATH"),
        place.launch(["acp"]).env("HOME", "/proc/1/no").without("BRIDLE_HOME"),
        place.launch(["acp"]).env("HOME", &file).env("BRIDLE_HOME", file.join("below")),
        place.launch(["acp"]).env("HOME", "relative").env("BRIDLE_HOME", ""),
        place.launch(["acp"]).cwd("/proc"),
        broken.launch(["acp"]),
    ];
    for launch in &launches {
        let result = initialized(launch, &json!({})).await;
        assert_eq!(result["protocolVersion"], 1, "{launch:?}");
    }
}

/// B121: neither the way it was started nor what the client can do decides whether a login is
/// offered.
#[tokio::test]
async fn every_client_is_offered_a_login_however_it_starts_the_agent() {
    let place = Place::new();
    let link = place.workspace().join("a-link");
    std::os::unix::fs::symlink(binary(), &link).unwrap();
    let ways = [
        place.launch(["acp"]),
        place.launch(["acp"]).replacing_program(&link),
        place.launch(["acp"]).replacing_program("./a-link"),
        place.launch(["acp"]).through(["/bin/sh", "-c", "exec \"$0\" \"$@\""]),
    ];
    let both = json!({"readTextFile": true, "writeTextFile": true});
    let zed = json!({
        "fs": both, "terminal": true, "auth": {"terminal": true},
        "session": {"configOptions": {"boolean": {}}}, "elicitation": {"form": {}, "url": {}},
        "_meta": {"terminal_output": true, "terminal-auth": true},
    });
    let clients = [
        zed,
        json!({"fs": both, "terminal": false, "_meta": {"jetbrains.air": {"version": 1}}}),
        json!({"fs": both}),
        json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": true}),
        json!({}),
        Value::Null,
    ];
    for capabilities in &clients {
        for launch in &ways {
            let result = initialized(launch, capabilities).await;
            let methods = result["authMethods"].as_array().unwrap();
            assert!(!methods.is_empty(), "{capabilities} {launch:?}");
        }
    }
}

/// B134: a git that never answers does not keep a prompt from the model.
#[tokio::test]
async fn a_prompt_does_not_wait_for_git() {
    use std::os::unix::fs::PermissionsExt as _;
    let scene = Scene::new(Script::new()).await;
    let folder = scene.place.user_home().join("bin");
    fs_err::create_dir_all(&folder).unwrap();
    let git = folder.join("git");
    fs_err::write(&git, "#!/bin/sh\nexec sleep 86400\n").unwrap();
    fs_err::set_permissions(&git, std::fs::Permissions::from_mode(0o700)).unwrap();
    scene.place.write(".git/HEAD", "ref: refs/heads/main\n");
    fs_err::create_dir(scene.place.workspace().join(".git/objects")).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.display());
    let launch = scene.place.acp(&scene.model.url()).env("PATH", path);
    let (mut client, session) = Client::in_session(&scene.place, &launch).await;
    assert_eq!(client.prompt(&session, "hi").await.stop_reason(), "end_turn");
    client.finish(&scene.place).await;
}
