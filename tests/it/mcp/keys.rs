//! What a server is given to prove who asks is for that server alone, also when it says it again.

use bridle_model_server::Script;
use serde_json::json;

use super::Imported;

/// S26: a key that a server says, in whatever way, is read and kept by nobody.
#[tokio::test]
async fn a_key_that_a_server_says_again_is_blanked() {
    let mut it = Imported::new(Script::new(), &[]).await;
    let has_it = "tneilc-eht-yb-nevig";
    let result = it.call("mcp__s__leak", json!({})).await;
    assert!(result.contains(&format!("[secret] {has_it}")), "{result}");
    let result = it.call("mcp__s__leak", json!({"text": "refused"})).await;
    assert!(result.contains("[secret] may not (-32602)"), "{result}");
    let result = it.call("mcp__s__leak", json!({"text": "failed"})).await;
    assert!(result.contains("[secret] may not"), "{result}");
    it.client.prompt(&it.session, "/mcp").await.ok();
    let (log, asked) = (it.scene.log(&it.session), it.scene.requests());
    let trace = it.client.finish(&it.scene.place).await;
    let journal = it.scene.place.sessions().join(&it.session).join("mcp.log");
    let journal = fs_err::read_to_string(journal).unwrap();
    assert!(journal.contains("s: started with [secret]\n"), "{journal}");
    assert!(journal.contains("logged [secret]"), "{journal}");
    let shown = json!(trace.updates(&it.session)).to_string();
    for text in [journal.as_str(), trace.stderr(), &shown, &json!([log, asked]).to_string()] {
        assert!(!text.contains("given-by-the-client"), "{text}");
    }
}

/// Why a server does not start is told without its key.
#[tokio::test]
async fn a_key_in_last_words_is_blanked() {
    let mut it = Imported::new(Script::new(), &["exit=SERVER_TOKEN"]).await;
    it.say().await;
    it.notice("it wrote: no good: [secret]").await;
    let trace = it.client.finish(&it.scene.place).await;
    let shown = format!("{}{}", trace.text(&it.session), trace.stderr());
    assert!(!shown.contains("given-by-the-client"), "{shown}");
}
