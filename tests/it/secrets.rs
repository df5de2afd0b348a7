//! Marker secrets: where they may never be found, and who may read what is stored.

use std::os::unix::fs::PermissionsExt as _;

use bridle_model_server::{Answer, Script};
use bridle_tests::{Client, skip};
use serde_json::json;

use crate::scene::{Scene, call_then_done};

const KEY: &str = "sk-marker-key-4711";
const TOKEN: &str = "marker-token-0815";

/// S26: keys reach the model's headers and nothing else: no child, log, error, argv or state.
#[tokio::test]
async fn keys_reach_the_model_and_nothing_else() {
    let spy = "env; cat /proc/self/environ; cat /proc/$PPID/environ; \
               cat /proc/$PPID/cmdline; for p in /proc/[0-9]*; do \
               grep -l bridle $p/cmdline 2>/dev/null | while read f; do \
               cat $(dirname $f)/environ 2>/dev/null; done; done; true";
    let scene = Scene::new(call_then_done("shell", json!({"command": spy}))).await;
    scene.model.push(Answer::new().text("ok"));
    let launch = scene
        .place
        .acp(&scene.model.url())
        .env("ANTHROPIC_API_KEY", KEY)
        .env("DEEPSEEK_API_KEY", format!("{KEY}-2"))
        .env("GITHUB_TOKEN", TOKEN)
        .env("AWS_SECRET_ACCESS_KEY", TOKEN)
        .env("RUST_LOG", "trace");
    let (mut client, session) = Client::in_session(&scene.place, &launch).await;
    let environment = fs_err::read(format!("/proc/{}/environ", client.pid())).unwrap_or_default();
    let arguments = fs_err::read(format!("/proc/{}/cmdline", client.pid())).unwrap();
    client.prompt(&session, "spy").await.ok();
    let trace = client.finish(&scene.place).await;

    let result = scene.last_results();
    assert!(result.contains("PATH="), "the spy ran: {result}");
    assert_eq!(scene.model.requests()[0].header("x-api-key"), Some(KEY));
    let bodies: Vec<Vec<u8>> =
        scene.model.requests().iter().map(|request| request.bytes.to_vec()).collect();
    let mut places = vec![
        ("the environment of the agent", environment),
        ("its arguments", arguments),
        ("its stderr", trace.stderr().as_bytes().to_vec()),
        ("the protocol", trace.to_string().into_bytes()),
        ("the requests", bodies.concat()),
        ("the log", serde_json::to_vec(&scene.log(&session)).unwrap()),
    ];
    for file in scene.place.stored_files() {
        places.push(("a stored file", fs_err::read(file).unwrap()));
    }
    for (place, bytes) in places {
        for secret in [KEY, TOKEN] {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{secret} is in {place}");
        }
    }
}

/// A model that repeats the key in its error does not put it before the client or on disk.
#[tokio::test]
async fn a_key_in_a_providers_error_is_not_passed_on() {
    let body = format!(
        "{{\"type\":\"error\",\"error\":{{\"type\":\"authentication_error\",\
                        \"message\":\"bad key {KEY}\"}}}}"
    );
    let reply = bridle_model_server::Reply::whole(401, "application/json", body);
    let scene = Scene::new(Script::new().reply(reply)).await;
    let launch = scene.place.acp(&scene.model.url()).env("ANTHROPIC_API_KEY", KEY);
    let (mut client, session) = Client::in_session(&scene.place, &launch).await;
    let error = client.prompt(&session, "hi").await.error();
    assert!(!error.to_string().contains(KEY), "{error}");
    let trace = client.finish(&scene.place).await;
    assert!(!trace.to_string().contains(KEY));
    assert!(!serde_json::to_string(&scene.log(&session)).unwrap().contains(KEY));
}

/// The agent cannot be dumped or read by other processes of the same user.
#[tokio::test]
async fn the_agent_is_not_dumpable() {
    let scene = Scene::new(Script::new()).await;
    let client = scene.client().await;
    let owner = fs_err::metadata(format!("/proc/{}/environ", client.pid())).unwrap();
    if rustix::process::geteuid().is_root() {
        // The files of an undumpable process belong to root, so root sees no difference.
        skip("undumpable", "the tests run as root");
    } else {
        use std::os::unix::fs::MetadataExt as _;
        assert_eq!(owner.uid(), 0, "the process is dumpable");
    }
    client.finish(&scene.place).await;
}

/// S28: whatever the umask, folders are 0700 and files 0600, outside the workspace.
#[tokio::test]
async fn stored_files_are_the_owners_alone() {
    let scene = Scene::new(call_then_done("list", json!({"path": "."}))).await;
    let open = ["/bin/sh", "-c", "umask 000; exec \"$@\"", "sh"];
    let launch = scene.place.acp(&scene.model.url()).through(open);
    let (mut client, session) = Client::in_session(&scene.place, &launch).await;
    client.prompt(&session, "look").await.ok();
    client.finish(&scene.place).await;
    let files = scene.place.stored_files();
    assert!(files.len() >= 2, "{files:?}");
    for file in files {
        let mode = fs_err::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", file.display());
        let folder = fs_err::metadata(file.parent().unwrap()).unwrap();
        assert_eq!(folder.permissions().mode() & 0o777, 0o700, "above {}", file.display());
    }
    let left: Vec<_> = fs_err::read_dir(scene.place.workspace()).unwrap().collect();
    assert!(left.is_empty(), "nothing of ours is in the workspace: {left:?}");
}

/// S23: no socket listens while the agent works.
#[tokio::test]
async fn no_socket_listens() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "hi").await.ok();
    let fds = fs_err::read_dir(format!("/proc/{}/fd", client.pid())).unwrap();
    let sockets: Vec<String> = fds
        .filter_map(|fd| fs_err::read_link(fd.ok()?.path()).ok())
        .filter_map(|link| link.to_str().map(str::to_owned))
        .filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let rows = fs_err::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        let listens = |row: &&str| {
            let fields: Vec<&str> = row.split_ascii_whitespace().collect();
            let own = fields.get(9).is_some_and(|inode| sockets.iter().any(|own| own == inode));
            own && (table.starts_with("udp") || fields.get(3) == Some(&"0A"))
        };
        assert_eq!(rows.lines().skip(1).find(listens), None, "{table}");
    }
    client.finish(&scene.place).await;
}
