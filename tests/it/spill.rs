//! Output of a tool that is too large for the log.

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
    assert!(read.contains(&format!("the end of {} bytes", whole.len())));

    let mut client = scene.client().await;
    client.load(&scene.place, &session).await.ok();
    client.prompt(&session, "more").await.ok();
    client.finish(&scene.place).await;
    assert!(scene.requests().last().unwrap()["messages"].to_string().contains(&read));
    scene.assert_lawful();
}
