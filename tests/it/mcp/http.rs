//! Servers that are spoken with over HTTP.

use std::process::Stdio;

use bridle_model_server::{Answer, Script};
use bridle_tests::Place;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::Imported;
use super::resting::standing;
use crate::scene::Scene;

/// A server somewhere else, which ends with this.
struct Remote {
    _process: Child,
    place: Place,
    url: String,
}

impl Remote {
    #[expect(clippy::disallowed_methods, reason = "the other end of the protocol")]
    async fn start(modes: &[&str]) -> Self {
        let place = Place::new();
        let heard = place.workspace().join("heard");
        let process = Command::new(env!("CARGO_BIN_EXE_bridle-mcp-scripted"))
            .arg("http")
            .args(modes)
            .env("MCP_HEARD", heard)
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        place.appears("heard.url").await;
        let url = place.read("heard.url");
        Self { _process: process, place, url }
    }

    /// What it has heard.
    fn heard(&self) -> String {
        self.place.read("heard")
    }

    fn named(&self, headers: &Value) -> Value {
        json!({"type": "http", "name": "s", "url": self.url, "headers": headers})
    }
}

/// A session with the server `s` in these modes.
async fn with(modes: &[&str], headers: Value) -> (Imported, Remote) {
    let scene = Scene::new(Script::new()).await;
    let remote = Remote::start(modes).await;
    let servers = json!([remote.named(&headers)]);
    (Imported::open(scene, servers).await, remote)
}

/// Answers as one text and as events; the session is ended with a goodbye.
#[tokio::test]
async fn a_server_over_http_is_called_like_any_other() {
    for modes in [&[][..], &["events"], &["moved", "events"]] {
        let (mut it, remote) = with(modes, json!([])).await;
        for (tool, told) in [
            ("echo", "hello"),
            ("fail", "it broke"),
            ("both", "as text"),
            ("odd", "hologram"),
            ("link", "[resource x: file:///x (text/plain)]"),
            ("refuse", "not so (-32602)"),
            ("idless", "what?"),
            ("image", "\"type\":\"image\""),
        ] {
            // To `image` it would be one.
            let said = if tool == "image" { "" } else { "hello" };
            let result = it.call(&format!("mcp__s__{tool}"), json!({"text": said})).await;
            assert!(result.contains(told), "{modes:?} {tool}: {result}");
        }
        it.scene.assert_lawful();
        it.client.finish(&it.scene.place).await;
        remote.place.appears("heard.delete.1").await;
    }
}

/// M17: a session that the server has forgotten is begun again, and no call is lost or repeated. One
/// that is never known costs one more try.
#[tokio::test]
async fn a_forgotten_session_is_begun_again() {
    for mode in ["stale-400", "stale-404"] {
        let (mut it, remote) = with(&[mode], json!([])).await;
        it.call("mcp__s__forget", json!({})).await;
        let result = it.call("mcp__s__echo", json!({"text": "found again"})).await;
        assert!(result.contains("found again"), "{mode}: {result}");
        let heard = remote.heard();
        assert_eq!(heard.matches("initialize\n").count(), 2, "{mode}: {heard}");
        assert_eq!(heard.matches("call echo").count(), 1, "{mode}: {heard}");
        // Another server may stand behind the address now.
        remote.place.appears("heard.tools-list.2").await;
        it.client.finish(&it.scene.place).await;
    }
    let (mut it, _remote) = with(&["always-404"], json!([])).await;
    it.say().await;
    it.notice("The MCP server s does not start").await;
    it.client.finish(&it.scene.place).await;
}

/// M18: whatever comes instead of an answer is told as what it is, at once; the server goes on.
#[tokio::test]
async fn what_is_no_answer_is_told_as_what_it_is() {
    let (mut it, _remote) = with(&["tool=status-403"], json!([])).await;
    for (tool, told, known) in [
        ("status-403", "does not permit this call: it forbids this: HTTP 403", true),
        ("html", "it answered text/html, which no MCP server does", false),
        ("status-429", "it answered HTTP 429; try again after 7. The call was not made.", true),
        ("status-500", "it answered HTTP 500", false),
        ("status-401", "before the user has logged in", true),
        ("cut", "The call was lost", false),
        ("huge", "its answer cannot be used", false),
    ] {
        let result = it.call(&format!("mcp__s__{tool}"), json!({})).await;
        assert!(result.contains(told), "{tool}: {result}");
        assert_eq!(result.contains("was not made"), known, "{tool}: {result}");
        // What comes with an error may be anything, the key that was sent too.
        assert!(!result.contains("who are you") && !result.contains("not you"), "{tool}: {result}");
        assert_eq!(result.contains("logged in"), tool == "status-401", "{tool}: {result}");
    }
    let result = it.call("mcp__s__echo", json!({"text": "still here"})).await;
    assert!(result.contains("still here"), "{result}");
    it.client.finish(&it.scene.place).await;
}

/// An answer whose stream breaks off goes on where it was.
#[tokio::test]
async fn an_answer_in_two_parts_is_one() {
    let (mut it, _remote) = with(&[], json!([])).await;
    let result = it.call("mcp__s__resume", json!({})).await;
    assert!(result.contains("in two parts"), "{result}");
    it.client.finish(&it.scene.place).await;
}

/// M15: a stream that does not last is opened again at a pace.
#[tokio::test]
async fn streams_are_opened_again_without_a_storm() {
    for mode in ["get-resets", "get-closes"] {
        let (mut it, remote) = with(&[mode], json!([])).await;
        let begun = std::time::Instant::now();
        remote.place.appears("heard.get.3").await;
        let result = it.call("mcp__s__echo", json!({"text": "undisturbed"})).await;
        assert!(result.contains("undisturbed"), "{mode}: {result}");
        let times = remote.heard().matches("get\n").count();
        // 250 ms, then twice as long each time.
        let seconds = begun.elapsed().as_secs_f64();
        let most = 3.0 + (1.0 + seconds * 4.0).log2().ceil();
        assert!((times as f64) <= most, "{mode}: {times} in {seconds} s");
        it.client.finish(&it.scene.place).await;
    }
}

/// M11 over HTTP.
#[tokio::test]
async fn a_cancel_reaches_a_server_over_http() {
    let (mut it, remote) = with(&[], json!([])).await;
    it.scene.model.push(Answer::new().tool_call("mcp__s__slow", json!({})));
    let turn = it.client.begin_prompt(&it.session, "go").await;
    remote.place.appears("heard.call-slow.1").await;
    it.client.cancel(&it.session).await;
    assert_eq!(it.client.reply(&turn).await.stop_reason(), "cancelled");
    remote.place.appears("heard.notifications-cancelled.1").await;
    it.client.finish(&it.scene.place).await;
}

/// Keys go to the server that they are for and nowhere else: into no other server, log, event or notice.
#[tokio::test]
async fn a_key_goes_to_its_server_alone() {
    let bearer = json!([{"name": "Authorization", "value": "Bearer k-secret"}]);
    let (mut it, _remote) = with(&["key=k-secret"], bearer.clone()).await;
    let result = it.call("mcp__s__echo", json!({"text": "let in"})).await;
    assert!(result.contains("let in"), "{result}");
    let (log, asked) = (it.scene.log(&it.session), it.scene.requests());
    assert!(!json!([log, asked]).to_string().contains("k-secret"));
    let trace = it.client.finish(&it.scene.place).await;
    assert!(!trace.stderr().contains("k-secret"));
    assert!(!trace.text(&it.session).contains("k-secret"));

    let (mut it, remote) = with(&["key=other"], bearer.clone()).await;
    it.say().await;
    // Not "is tried again", which would only knock at the door.
    it.notice("The MCP server s cannot be used").await;
    it.notice("it wants a log-in (HTTP 401)").await;
    let tried = remote.heard().matches("no key").count();
    assert_eq!(tried, 1, "it is not tried again by itself");
    it.client.finish(&it.scene.place).await;

    let (mut it, _remote) = with(&["elsewhere"], bearer).await;
    it.say().await;
    it.notice("it sends its callers to another place").await;
    it.client.finish(&it.scene.place).await;
}

/// Who is known and may not is not told to log in; the server is not asked again and again.
#[tokio::test]
async fn what_a_server_forbids_is_no_matter_of_logging_in() {
    let (mut it, remote) = with(&["forbidden"], json!([])).await;
    it.say().await;
    it.notice("The MCP server s cannot be used").await;
    it.notice("it forbids this: HTTP 403").await;
    let told = standing(&mut it).await;
    assert!(told.contains("): failed; a call tries it again"), "{told}");
    let told = it.client.finish(&it.scene.place).await.text(&it.session);
    assert!(!told.contains("log-in") && !told.contains("logged in"), "{told}");
    assert_eq!(remote.heard().matches("forbidden\n").count(), 1, "{}", remote.heard());
}

/// An address that is none, or behind which nobody is, costs nothing but itself.
#[tokio::test]
async fn a_server_that_cannot_be_reached_is_told() {
    let bad_header = json!([{"name": "X Y", "value": "v"}]);
    let bad_value = json!([{"name": "X-Key", "value": "se\ncret"}]);
    for (url, headers, told) in [
        ("http://127.0.0.1:1/mcp", json!([]), "it cannot be reached"),
        ("ftp://127.0.0.1/", json!([]), "its address begins with \"ftp\""),
        ("no address", json!([]), "its address is none"),
        ("http://127.0.0.1:1/mcp", bad_header, "\"X Y\" cannot be the name of a header"),
        ("http://127.0.0.1:1/mcp", bad_value, "the value of the header X-Key has bytes"),
    ] {
        let scene = Scene::new(Script::new()).await;
        let server = json!({"type": "http", "name": "s", "url": url, "headers": headers});
        let mut it = Imported::open(scene, json!([server])).await;
        it.say().await;
        it.notice(told).await;
        let trace = it.client.finish(&it.scene.place).await;
        assert!(!trace.text(&it.session).contains("cret"), "{url}");
    }
}
