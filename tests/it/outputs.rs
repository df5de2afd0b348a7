//! Output that is too much, too long or no text: the agent's memory stays flat, the model gets the
//! two ends, and the beginning of the rest is in a file.

use bridle_model_server::Answer;
use bridle_tests::Client;
use serde_json::json;

use crate::scene::{Scene, call_then_done};

/// How much more memory a large output may take than a small one, in KiB.
pub(crate) const MARGIN: u64 = 24 * 1024;

/// The most memory that the agent has had, in KiB.
pub(crate) fn peak(client: &Client) -> u64 {
    let status = fs_err::read_to_string(format!("/proc/{}/status", client.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Runs a small command and then this one; the model's text of the result, and the blob's size.
async fn runs_flat(what: &str, command: &str) -> (String, u64) {
    let arguments = json!({"command": command, "timeout_s": 600});
    let script = call_then_done("shell", json!({"command": "yes | head -c 1000000"}))
        .reply(Answer::new().tool_call("shell", arguments))
        .reply(Answer::new().text("done"));
    let scene = Scene::new(script).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "small").await.ok();
    let before = peak(&client);
    client.prompt(&session, "large").await.ok();
    let after = peak(&client);
    println!("{what}: {before} KiB at most before, {after} KiB after");
    assert!(after < before + MARGIN, "{what}: memory grows from {before} to {after} KiB");
    let trace = client.finish(&scene.place).await;
    // B136: what a client is sent is bounded, too.
    let sent: usize = trace.updates(&session).iter().map(|update| update.to_string().len()).sum();
    assert!(sent < 1_000_000, "{sent} bytes were sent to the client");
    let result = scene.events(&session, "tool/result").pop().unwrap();
    let blob = &result["data"]["content"][0]["blob"];
    let hash = blob["hash"].as_str().unwrap_or_else(|| panic!("no blob: {result:.600}"));
    let path =
        scene.place.sessions().with_file_name("blobs").join(hash.get(..2).unwrap()).join(hash);
    assert_eq!(fs_err::metadata(path).unwrap().len(), blob["bytes"].as_u64().unwrap());
    (scene.last_results(), blob["bytes"].as_u64().unwrap())
}

const MIB: u64 = 1 << 20;

/// Two GiB in a long run, in a short one a little more than is kept.
#[tokio::test]
async fn endless_output_takes_no_memory() {
    let size = bridle_tests::rounds(96, 2048);
    let command = format!("head -c {size}M /dev/zero; echo; echo last");
    let (text, kept) = runs_flat(&format!("{size} MiB"), &command).await;
    assert_eq!(kept, 64 * MIB);
    assert!(text.contains("last") && text.contains("first 67108864"), "{text:.2000}");
}

#[tokio::test]
async fn a_line_of_64_mib_takes_no_memory() {
    let command = "head -c 67108863 /dev/zero | tr '\\0' 'x'; echo";
    let (text, kept) = runs_flat("a line of 64 MiB", command).await;
    assert_eq!(kept, 64 * MIB);
    assert!(text.contains("xxx") && !text.contains("first 67108864"), "{:.200}", text);
}

#[tokio::test]
async fn output_that_is_no_text_is_cut_between_characters() {
    let command = "yes $'\\xff\\xe2\\x82\\xac\\xf0\\x9f\\x98\\x80\\e[31m\\e]0;title\\a' | head -c 5M; printf '\\xe2\\x82'";
    let (text, kept) = runs_flat("5 MiB that are no text", command).await;
    assert_eq!(kept, 5 * MIB + 2);
    assert!(text.contains('€') && text.contains('😀'));
    assert!(!text.contains("\\u001b") && !text.contains("title"), "escape sequences pass");
}
