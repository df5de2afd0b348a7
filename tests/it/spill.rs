//! Output of a tool that is too large for the log.

use bridle_model_server::{Answer, ModelServer, Script};
use bridle_tests::{Client, Permission};
use serde_json::json;

use crate::scene::{Scene, call_then_done};

/// The log and the model get the two ends, a file beside the logs has the whole, and a new process
/// sends the same bytes.
#[tokio::test]
async fn large_output_is_kept_whole_beside_the_log() {
    // Each byte that is not UTF-8 becomes three, so what the tool keeps is more than the limit.
    let command = "head -c 50000 /dev/zero | tr '\\0' '\\377'; echo; echo the end";
    let scene = Scene::new(call_then_done("shell", json!({ "command": command }))).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "go").await.ok();
    client.finish(&scene.place).await;

    let result = scene.events(&session, "tool/result").remove(0);
    let part = result["data"]["content"][0].clone();
    assert_eq!(part["type"], "blob", "{result:.300}");
    let hash = part["blob"]["hash"].as_str().unwrap();
    let folder: String = hash.chars().take(2).collect();
    let blobs = scene.place.sessions().with_file_name("blobs");
    let whole = fs_err::read_to_string(blobs.join(folder).join(hash)).unwrap();
    assert_eq!(whole.len() as u64, part["blob"]["bytes"].as_u64().unwrap());
    assert!(whole.len() > 150_000 && whole.ends_with("the end\n[exit code 0]\n"));
    let read = scene.last_results();
    assert!(read.len() < 30_000 && read.contains("the end"), "{}", read.len());
    assert!(read.contains(&format!("[The whole of it, {} bytes, is in ", whole.len())));
    // `read` by lines gets nothing more of one line.
    assert!(read.contains("`search` in it") && !read.contains("with start_line"), "{read:.300}");

    let mut client = scene.client().await;
    client.load(&scene.place, &session).await.ok();
    client.prompt(&session, "more").await.ok();
    client.finish(&scene.place).await;
    assert!(scene.requests().last().unwrap()["messages"].to_string().contains(&read));
    scene.assert_lawful();
}

/// The model is told where the whole output is, and reads a range in its middle without a question;
/// nothing else of Bridle's own folders can be read so.
#[tokio::test]
async fn the_model_reads_a_range_of_an_output_that_it_was_not_shown() {
    let command = json!({ "command": "seq 200000" });
    let scene = Scene::new(call_then_done("shell", command)).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "count").await.ok();
    client.finish(&scene.place).await;
    let told = scene.last_results();
    assert!(!told.contains("100000"), "not shown: {told:.300}");
    let (_, path) = told.split_once(", is in ").expect("a path");
    let (path, _) = path.split_once(". `read`").expect("what to do with it");

    let log = scene.place.sessions().join(&session).join("events.v1.jsonl.zst");
    let reads = Answer::new()
        .tool_call("read", json!({ "path": path, "start_line": 100_000, "end_line": 100_001 }))
        .tool_call("search", json!({ "path": path, "pattern": "^100000$" }))
        .tool_call("read", json!({ "path": log.to_str().unwrap() }));
    let script = Script::new().reply(reads).reply(Answer::new().text("done"));
    let second = ModelServer::start(script).await.unwrap();
    let mut client = Client::ready(&scene.place.acp(&second.url())).await;
    client.set_permission(Permission::Reject);
    client.load(&scene.place, &session).await.ok();
    client.prompt(&session, "and in the middle?").await.ok();
    let trace = client.finish(&scene.place).await;
    let asked: Vec<_> = trace
        .calls("session/request_permission")
        .iter()
        .map(|ask| ask["params"]["toolCall"]["title"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(asked.len(), 1, "only the log: {asked:?}");
    assert!(asked[0].contains("events.v1.jsonl.zst"), "{asked:?}");
    let messages = second.requests().pop().unwrap().body["messages"].to_string();
    assert!(messages.contains("100000\\t100000\\n100001\\t100001"), "{messages:.2000}");
    assert_eq!(second.violations(), []);
    scene.assert_lawful();
}
