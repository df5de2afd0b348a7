//! What servers hold besides tools.

use bridle_model_server::Script;
use serde_json::json;

use super::Imported;

/// Both tools are there when a server has resources and not otherwise; reading asks, as a call does.
#[tokio::test]
async fn resources_are_listed_and_read() {
    for mode in ["resources", "no-templates"] {
        let servers: &[(&str, &[&str])] = &[("s", &["resources", mode]), ("t", &[])];
        let mut it = Imported::with(Script::new(), servers).await;
        let list = it.call("list_resources", json!({})).await;
        assert!(list.contains("- mem://note (note; text/plain)"), "{list}");
        assert_eq!(
            list.contains("- mem://day/{day} (day; One day.)"),
            mode == "resources",
            "{list}"
        );
        assert!(!list.contains("t:"), "{list}");
        assert!(it.client.trace().calls("session/request_permission").is_empty());
        let read = |uri: &str| json!({"server": "s", "uri": uri});
        let text = it.call("read_resource", read("mem://note")).await;
        assert!(text.contains("what mem://note holds"), "{text}");
        let bytes = it.call("read_resource", read("mem://bytes")).await;
        assert!(bytes.contains("(application/x-odd, 3 bytes) is kept in"), "{bytes}");
        let gone = it.call("read_resource", read("mem://gone")).await;
        assert!(gone.contains("no such resource (-32002)"), "{gone}");
        let wrong = it.call("read_resource", json!({"server": "u", "uri": "mem://note"})).await;
        assert!(wrong.contains("There is no MCP server `u`") && wrong.contains("s, t"), "{wrong}");
        assert_eq!(it.client.trace().calls("session/request_permission").len(), 3);
        it.client.finish(&it.scene.place).await;
    }
    let mut it = Imported::new(Script::new(), &[]).await;
    it.say().await;
    assert!(!it.offered().iter().any(|name| name.contains("resource")), "{:?}", it.offered());
    it.client.finish(&it.scene.place).await;
}

/// A server may ask which folders the session has.
#[tokio::test]
async fn a_server_learns_the_folders_of_its_session() {
    let mut it = Imported::new(Script::new(), &[]).await;
    let result = it.call("mcp__s__ask", json!({"text": "roots/list"})).await;
    let folder = format!("file://{}", it.scene.place.workspace().display());
    assert!(result.contains(&folder), "{result}");
    it.client.finish(&it.scene.place).await;
}

/// B094: what a server asks for and nobody has offered it is refused at once; whether we are there is not.
#[tokio::test]
async fn what_is_not_offered_is_refused_at_once() {
    let mut it = Imported::new(Script::new(), &[]).await;
    for method in ["sampling/createMessage", "elicitation/create", "no/such/thing"] {
        let result = it.call("mcp__s__ask", json!({"text": method})).await;
        assert!(result.contains("-32601"), "{method}: {result}");
    }
    let result = it.call("mcp__s__ask", json!({"text": "ping"})).await;
    assert!(!result.contains("code") && result.contains("{}"), "{result}");
    it.client.finish(&it.scene.place).await;
}

/// A server that does not answer holds up nobody who asks for what there is.
#[tokio::test]
async fn a_silent_server_holds_up_no_list() {
    let servers: &[(&str, &[&str])] = &[("quiet", &["silent"]), ("s", &["resources"])];
    let mut it = Imported::with(Script::new(), servers).await;
    let list = it.call("list_resources", json!({})).await;
    assert!(list.contains("mem://note"), "{list}");
    assert!(list.contains("Not asked, because they do not run now: quiet"), "{list}");
    it.client.finish(&it.scene.place).await;
}
