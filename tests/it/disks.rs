//! A disk that is full, read-only or missing: an error, nothing lost, the process lives.

use bridle_model_server::{Answer, Script};
use bridle_tests::{Client, Place, rounds, skip};
use serde_json::json;

use crate::scene::Scene;

/// Starts the agent in its own mount namespace with a small file system for its state.
fn small_disk(place: &Place, kib: u32) -> [String; 6] {
    let state = place.bridle_home().join("state");
    fs_err::create_dir_all(&state).unwrap();
    let mount = format!(
        "mount -t tmpfs -o size={kib}k,mode=700 tmpfs '{}' && exec \"$@\"",
        state.display()
    );
    let own: &str = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
    ["unshare".into(), own.into(), "/bin/sh".into(), "-c".into(), mount, "sh".into()]
}

/// Whether a mount namespace can be made here.
async fn can_mount(place: &Place) -> bool {
    let launch = place.launch(["--version"]).through(small_disk(place, 64));
    launch.output().await.status.success()
}

/// A full disk ends the turn with an error, before any effect that could not be recorded; the
/// session and others live on.
#[tokio::test]
async fn a_full_disk_is_an_error_and_the_process_lives() {
    // Random letters do not compress, so the log of this answer cannot fit.
    let text: String =
        std::iter::repeat_with(|| char::from_digit(u32::from(rand_byte() % 36), 36).unwrap())
            .take(400_000)
            .collect();
    let script = Script::new()
        .rule(
            "fill",
            [
                Answer::new()
                    .text(&text)
                    .tool_call("write", json!({"path": "x.txt", "content": "x"})),
                Answer::new().text("unreachable"),
            ],
        )
        .otherwise(Answer::new().text("small"));
    let scene = Scene::new(script).await;
    if !can_mount(&scene.place).await {
        return skip("full_disk", "no mount namespace");
    }
    let launch = scene.place.acp(&scene.model.url()).through(small_disk(&scene.place, 128));
    let (mut client, session) = Client::in_session(&scene.place, &launch).await;
    assert_eq!(client.prompt(&session, "hi").await.stop_reason(), "end_turn");
    let error = client.prompt(&session, "fill").await.error();
    assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
    assert!(!scene.place.workspace().join("x.txt").exists(), "an effect without its record");
    client.request("session/list", json!({})).await.ok();
    client.finish(&scene.place).await;
}

/// Bytes that do not compress, the same in every run.
fn rand_byte() -> u8 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static STATE: AtomicU64 = AtomicU64::new(0x9E37_79B9_7F4A_7C15);
    let mut state = STATE.load(Ordering::Relaxed);
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    STATE.store(state, Ordering::Relaxed);
    (state >> 32) as u8
}

/// A home that cannot be written: the session is refused with the path, the process lives.
#[tokio::test]
async fn a_home_that_cannot_be_written_is_named() {
    let place = Place::new();
    fs_err::write(place.bridle_home(), "a file where the folder should be").unwrap();
    let mut client = Client::ready(&place.launch(["acp"])).await;
    let params = json!({"cwd": place.workspace(), "mcpServers": []});
    let error = client.request("session/new", params).await.error();
    assert!(error.to_string().contains("bridle"), "{error}");
    assert!(client.request("no/such", json!({})).await.code() == -32601);
    client.finish(&place).await;
}

/// B050: a long session takes as much of the disk as it has to say, and is not written again and again.
#[tokio::test]
async fn a_long_session_takes_what_it_has_to_say() {
    let turns = rounds(100, 1_000);
    let scene = Scene::new(Script::new().otherwise(Answer::new().text("Noted."))).await;
    let (mut client, session) = scene.session().await;
    let stored = || -> u64 {
        let files = scene.place.stored_files().into_iter();
        files.filter_map(|path| fs_err::metadata(path).ok()).map(|file| file.len()).sum()
    };
    client.prompt(&session, "first").await.ok();
    let (before, written_before) = (stored(), written(&client));
    for _ in 0..turns {
        let letters = std::iter::repeat_with(|| char::from(b'a' + rand_byte() % 26)).take(1_024);
        let text: String = letters.collect();
        assert_eq!(client.prompt(&session, &text).await.stop_reason(), "end_turn");
        client.take_entries();
    }
    let (grown, written) = (stored() - before, written(&client) - written_before);
    client.finish(&scene.place).await;
    scene.assert_lawful();
    println!("{turns} turns of 1 KiB: {grown} bytes on the disk, {written} bytes written");
    assert!(grown < 4_000 * turns as u64, "{grown} bytes for {turns} turns");
    // A page each time that something has to be on the disk: three or four times a turn.
    assert!(written < 5 * 4_096 * turns as u64, "{written} bytes written for {turns} turns");
}

/// What the agent has had written to the disk so far, in whole pages.
fn written(client: &Client) -> u64 {
    let counts = fs_err::read_to_string(format!("/proc/{}/io", client.pid())).unwrap();
    let line = counts.lines().find_map(|line| line.strip_prefix("write_bytes: ")).unwrap();
    line.parse().unwrap()
}
