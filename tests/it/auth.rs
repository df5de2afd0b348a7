//! Logging in as an editor lets a person do it: with the command line that the editor has.

use bridle_model_server::Script;
use bridle_tests::Client;
use serde_json::json;

use crate::scene::Scene;

const KEY: &str = "sk-marker-acp-login-7731";

/// Clients differ in whether `login` follows the configured arguments or takes their place; both
/// keep the key that the next process uses, and a logout over the wire removes it.
#[tokio::test]
async fn a_login_with_the_editors_command_line_lasts_until_a_logout() {
    for arguments in [&["acp", "login"][..], &["login"]] {
        let scene = Scene::new(Script::new().key(KEY)).await;
        let provider = format!("[providers.anthropic]\nbase_url = \"{}\"\n", scene.model.url());
        scene.place.configure("config.toml", provider);
        let output = scene.place.launch(arguments.iter().copied()).output_of(KEY).await;
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout.is_empty());

        let launch = scene.place.launch(["acp"]);
        let (mut client, session) = Client::in_session(&scene.place, &launch).await;
        client.request("authenticate", json!({"methodId": "configured-key"})).await.ok();
        assert_eq!(client.prompt(&session, "hi").await.stop_reason(), "end_turn");
        client.request("logout", json!({})).await.ok();
        assert_eq!(client.prompt(&session, "hi").await.code(), -32000);
        client.finish(&scene.place).await;
        let kept = scene.place.bridle_home().join("credentials.toml");
        assert!(!fs_err::read_to_string(kept).unwrap().contains(KEY));
        assert_eq!(scene.model.requests().len(), 1);
    }
}
