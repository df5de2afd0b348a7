//! Servers that ask the person something in the middle of a call.

use bridle_model_server::{Answer, Script};
use bridle_tests::{Client, RequestId, Trace};
use serde_json::{Value, json};

use super::configured::{launch, table};
use super::{Imported, server};
use crate::scene::Scene;

/// A session of a client that shows what servers ask. Calls may take two seconds, one without a sign of
/// life.
async fn asked() -> Imported {
    let scene = Scene::new(Script::new()).await;
    let limits = "idle_timeout_s = 1\ncall_timeout_s = 2";
    scene.place.configure("config.toml", table(&scene, "s", &[], limits));
    opened(scene).await
}

/// A session of a client that shows what servers ask.
async fn opened(scene: Scene) -> Imported {
    let mut client = Client::start(&launch(&scene));
    let shows = json!({"elicitation": {"form": {}, "url": {}}});
    let initialize = json!({"protocolVersion": 1, "clientCapabilities": shows});
    client.request("initialize", initialize).await.ok();
    let session = client.new_session(&scene.place).await;
    Imported { scene, client, session }
}

fn form() -> Value {
    json!({"mode": "form", "message": "Which branch?\u{202e}", "requestedSchema": {
        "type": "object",
        "properties": {
            "branch": {"type": "string", "title": "Branch", "enum": ["main", "next"]},
            "depth": {"type": "integer", "minimum": 1},
        },
        "required": ["branch"],
    }})
}

/// Begins a prompt in which the server asks this.
async fn begin(it: &mut Imported, params: &Value) -> RequestId {
    let text = format!("elicitation/create {params}");
    it.scene.model.push(Answer::new().tool_call("mcp__s__ask", json!({"text": text})));
    it.client.begin_prompt(&it.session, "go").await
}

/// The question of this number that the client was asked.
async fn question(it: &Imported, number: usize) -> Value {
    let found = |trace: &Trace| trace.calls("elicitation/create").get(number).cloned();
    it.client.wait_for("the server's question", found).await
}

/// Answers it; the model goes on with what comes of it.
async fn answer(it: &Imported, question: &Value, result: Value) {
    it.scene.model.push(Answer::new().text("done"));
    it.client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result})).await;
}

async fn settled(it: &mut Imported, turn: &RequestId) -> String {
    let reply = it.client.reply(turn).await;
    assert_eq!(reply.stop_reason(), "end_turn");
    it.scene.last_results()
}

/// M20: what a server asks is shown as its own words, its answer comes back, and no clock of the call runs
/// while the person decides.
#[tokio::test]
async fn a_server_s_question_reaches_the_person_and_stops_the_clocks() {
    let mut it = asked().await;
    let turn = begin(&mut it, &form()).await;
    let asked = question(&it, 0).await;
    let message = asked["params"]["message"].as_str().unwrap();
    assert!(message.starts_with("The MCP server s asks (its own words"), "{message}");
    assert!(message.ends_with("Which branch?\\u{202e}"), "{message}");
    let fields = &asked["params"]["requestedSchema"]["properties"];
    assert_eq!(fields["branch"]["enum"], json!(["main", "next"]), "{asked}");
    assert_eq!(asked["params"]["sessionId"], it.session.as_str());
    let session = it.session.clone();
    let waits = |trace: &Trace| {
        let shown = json!(trace.updates_of(&session, "tool_call_update")).to_string();
        shown.contains("waits for your answer").then_some(())
    };
    it.client.wait_for("the call waits", waits).await;
    // Another call comes to its end by these clocks meanwhile.
    let other = it.client.new_session(&it.scene.place).await;
    let first = std::mem::replace(&mut it.session, other);
    let late = it.call("mcp__s__beat", json!({"text": "60"})).await;
    assert!(late.contains("took longer than 2 s"), "{late}");
    it.session = first;
    answer(&it, &asked, json!({"action": "accept", "content": {"branch": "next", "depth": 2}}))
        .await;
    let told = settled(&mut it, &turn).await;
    assert!(told.contains("accept") && told.contains("next"), "{told}");
    it.client.finish(&it.scene.place).await;
}

/// Only a clear yes with what was asked for is one, and the server learns which no it was.
#[tokio::test]
async fn a_no_is_a_no_and_what_does_not_fit_is_none() {
    let mut it = asked().await;
    let cases = [
        (json!({"action": "decline"}), "decline"),
        (json!({"action": "cancel"}), "cancel"),
        (json!({"action": "accept", "content": {"branch": "other"}}), "cancel"),
        (json!({"action": "accept", "content": {"depth": 2}}), "cancel"),
        (json!({"action": "accept", "content": {"branch": "main", "more": "x"}}), "cancel"),
    ];
    for (number, (result, told)) in cases.into_iter().enumerate() {
        let turn = begin(&mut it, &form()).await;
        let asked = question(&it, number).await;
        answer(&it, &asked, result.clone()).await;
        let read = settled(&mut it, &turn).await;
        assert!(read.contains(told) && !read.contains("accept"), "{result}: {read}");
    }
    it.client.finish(&it.scene.place).await;
}

/// What choices are called is shown, be it said in the way of old or in that of today.
#[tokio::test]
async fn the_names_of_choices_are_shown() {
    let mut it = asked().await;
    let old = json!({"type": "string", "enum": ["m", "n"], "enumNames": ["Main", "Next"]});
    let new = json!({"type": "string", "oneOf": [{"const": "m", "title": "Main"}, {"const": "n", "title": "Next"}]});
    let unequal = json!({"type": "string", "enum": ["m", "n"], "enumNames": ["Main"]});
    for (number, field) in [old, new, unequal].into_iter().enumerate() {
        let schema = json!({"type": "object", "properties": {"branch": field}});
        // Of old there was no mode either.
        let turn = begin(&mut it, &json!({"message": "Which?", "requestedSchema": schema})).await;
        let asked = question(&it, number).await;
        let shown = &asked["params"]["requestedSchema"]["properties"]["branch"];
        match number {
            2 => assert_eq!(shown["enum"], json!(["m", "n"]), "{asked}"),
            _ => {
                let titles = shown["oneOf"].as_array().unwrap_or_else(|| panic!("{asked}"));
                let titles: Vec<_> = titles.iter().map(|it| &it["title"]).collect();
                assert_eq!(titles, ["Main", "Next"], "{asked}");
                assert_eq!(shown["oneOf"][1]["const"], "n");
            }
        }
        let yes = json!({"action": "accept", "content": {"branch": "n"}});
        answer(&it, &asked, yes).await;
        let told = settled(&mut it, &turn).await;
        assert!(told.contains("accept") && told.contains("n"), "{told}");
    }
    it.client.finish(&it.scene.place).await;
}

/// B094: a question that cannot be read is said to be one, and not to be unknown.
#[tokio::test]
async fn a_question_that_is_none_is_refused_as_such() {
    let mut it = asked().await;
    for params in [
        json!({"mode": "form", "message": 7}),
        json!({"mode": "form", "message": "no fields"}),
        json!({"mode": "url", "message": "no address"}),
        json!({"mode": "dance", "message": "how?"}),
        json!([1]),
    ] {
        let text = format!("elicitation/create {params}");
        let told = it.call("mcp__s__ask", json!({"text": text})).await;
        assert!(told.contains("-32602"), "{params}: {told}");
    }
    let said = it.client.trace().text(&it.session);
    let declined = "The MCP server s asked you something, which was declined: it is none that can";
    assert_eq!(said.matches(declined).count(), 5, "{said}");
    assert!(said.contains("Its own words: no fields"), "{said}");
    let told = it.call("mcp__s__ask", json!({"text": "no/such/thing"})).await;
    assert!(told.contains("-32601"), "{told}");
    assert!(it.client.trace().calls("elicitation/create").is_empty());
    // One that goes on asking is told of no more.
    it.call("mcp__s__ask", json!({"text": "elicitation/create {\"message\": 7}"})).await;
    let said = it.client.finish(&it.scene.place).await.text(&it.session);
    assert_eq!(said.matches("asked you something").count(), 5, "{said}");
}

/// Questions of calls that run beside each other, of one server and of several, are shown one after the
/// other, and each answer goes to who asked.
#[tokio::test]
async fn questions_of_several_calls_come_one_after_the_other() {
    let scene = Scene::new(Script::new()).await;
    let more = "idle_timeout_s = 1\ncall_timeout_s = 2\nparallel = true";
    let tables = ["s", "t"].map(|name| table(&scene, name, &[], more));
    scene.place.configure("config.toml", tables.concat());
    let mut it = opened(scene).await;
    let ask = |word: &str| {
        let schema = json!({"type": "object", "properties": {"word": {"type": "string"}}});
        let form = json!({"mode": "form", "message": word, "requestedSchema": schema});
        json!({"text": format!("elicitation/create {form}")})
    };
    let calls = Answer::new()
        .tool_call("mcp__s__ask", ask("one"))
        .tool_call("mcp__s__ask", ask("two"))
        .tool_call("mcp__t__ask", ask("three"));
    it.scene.model.push(calls);
    it.scene.model.push(Answer::new().text("done"));
    let turn = it.client.begin_prompt(&it.session, "go").await;
    let session = it.session.clone();
    let wait = |trace: &Trace| {
        let updates = trace.updates_of(&session, "tool_call_update");
        let waiting =
            updates.iter().filter(|it| it["content"].to_string().contains("waits for your answer"));
        let ids: std::collections::HashSet<_> =
            waiting.map(|it| it["toolCallId"].to_string()).collect();
        (ids.len() == 3).then_some(())
    };
    it.client.wait_for("all three wait", wait).await;
    for number in 0..3 {
        let asked = question(&it, number).await;
        assert_eq!(it.client.trace().calls("elicitation/create").len(), number + 1);
        let message = asked["params"]["message"].as_str().unwrap();
        let (who, word) =
            (message.split(" asks").next().unwrap(), message.rsplit(' ').next().unwrap());
        let asker = if word == "three" { "The MCP server t" } else { "The MCP server s" };
        assert_eq!(who, asker, "{message}");
        let content = json!({"word": format!("answer to {word}")});
        let result = json!({"action": "accept", "content": content});
        it.client.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})).await;
    }
    let told = settled(&mut it, &turn).await;
    let told: Vec<_> = told.lines().collect();
    assert_eq!(told.len(), 3, "{told:#?}");
    for (result, word) in told.iter().zip(["one", "two", "three"]) {
        assert!(result.contains(&format!("answer to {word}")), "{told:#?}");
    }
    for (name, answers) in [("s", 2), ("t", 1)] {
        let heard = it.scene.place.read(&format!("heard-{name}"));
        assert_eq!(heard.matches("answer\n").count(), answers, "{name}: {heard}");
    }
    it.client.finish(&it.scene.place).await;
}

/// An address of the web is shown whole and opened by nobody but the person; another is not shown.
#[tokio::test]
async fn a_server_may_ask_for_a_visit() {
    let mut it = asked().await;
    let turn = begin(&mut it, &visit("https://127.0.0.1:1/log-in?state=7")).await;
    let asked = question(&it, 0).await;
    let params = &asked["params"];
    assert_eq!(params["url"], "https://127.0.0.1:1/log-in?state=7", "{asked}");
    assert_eq!((&params["mode"], &params["elicitationId"]), (&json!("url"), &json!("v-1")));
    answer(&it, &asked, json!({"action": "accept"})).await;
    let told = settled(&mut it, &turn).await;
    assert!(told.contains("accept"), "{told}");
    for url in ["javascript:alert(1)", "file:///etc/passwd", "no address"] {
        let text = format!("elicitation/create {}", visit(url));
        let told = it.call("mcp__s__ask", json!({"text": text})).await;
        assert!(told.contains("decline"), "{url}: {told}");
    }
    assert_eq!(it.client.trace().calls("elicitation/create").len(), 1);
    it.client.finish(&it.scene.place).await;
}

fn visit(url: &str) -> Value {
    json!({"mode": "url", "message": "Log in there.", "url": url, "elicitationId": "v-1"})
}

/// Begins a prompt in which the server wants these visits before it does what it is called for.
async fn require(it: &mut Imported, wanted: &Value) -> RequestId {
    let arguments = json!({"text": wanted.to_string()});
    it.scene.model.push(Answer::new().tool_call("mcp__s__visit", arguments));
    it.client.begin_prompt(&it.session, "go").await
}

/// M20: a server may answer that it wants a visit first. The person is shown it, and only the model calls
/// again.
#[tokio::test]
async fn a_server_may_require_a_visit_before_it_does_anything() {
    let mut it = asked().await;
    let both = json!([visit("https://127.0.0.1:1/one"), visit("https://127.0.0.1:1/two")]);
    let turn = require(&mut it, &both).await;
    let first = question(&it, 0).await;
    assert_eq!(first["params"]["url"], "https://127.0.0.1:1/one", "{first}");
    let message = first["params"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("The MCP server s asks you to open an address (its own words"),
        "{message}"
    );
    it.client
        .send(&json!({"jsonrpc": "2.0", "id": first["id"], "result": {"action": "accept"}}))
        .await;
    let second = question(&it, 1).await;
    assert_eq!(second["params"]["url"], "https://127.0.0.1:1/two", "{second}");
    answer(&it, &second, json!({"action": "accept"})).await;
    let told = settled(&mut it, &turn).await;
    assert!(
        told.contains("log in first (-32042)") && told.contains("repeat the call once"),
        "{told}"
    );
    assert_eq!(it.heard().matches("call visit").count(), 1, "{}", it.heard());
    let told = it.call("mcp__s__visit", json!({"text": "again"})).await;
    assert!(told.contains("been there"), "{told}");

    // The first no is one to all.
    let turn = require(&mut it, &both).await;
    let asked = question(&it, 2).await;
    answer(&it, &asked, json!({"action": "decline"})).await;
    let told = settled(&mut it, &turn).await;
    assert!(told.contains("did not agree"), "{told}");
    // What cannot be shown is not agreed to, and what is no visit is none.
    let form = json!({"mode": "form", "message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
    for (wanted, words) in [
        (json!([visit("javascript:alert(1)")]), "did not agree"),
        (json!([form, 7, {"mode": "url"}]), "refused the call: log in first (-32042)"),
        (json!(vec![visit("https://127.0.0.1:1/"); 5]), "refused the call: log in first (-32042)"),
        (json!("nowhere"), "refused the call: log in first (-32042)"),
    ] {
        let told = it.call("mcp__s__visit", json!({"text": wanted.to_string()})).await;
        assert!(told.contains(words), "{wanted}: {told}");
    }
    assert_eq!(it.client.trace().calls("elicitation/create").len(), 3);
    it.client.finish(&it.scene.place).await;
}

/// A cancelled turn takes away what a server requires, too.
#[tokio::test]
async fn a_cancel_takes_a_required_visit_away() {
    let mut it = asked().await;
    let turn = require(&mut it, &json!([visit("https://127.0.0.1:1/")])).await;
    let asked = question(&it, 0).await;
    it.client.cancel(&it.session).await;
    let withdrawn = |trace: &Trace| {
        let all = trace.calls("$/cancel_request");
        all.iter().any(|one| one["params"]["requestId"] == asked["id"]).then_some(())
    };
    it.client.wait_for("the question is taken away", withdrawn).await;
    assert_eq!(it.client.reply(&turn).await.stop_reason(), "cancelled");
    it.client.finish(&it.scene.place).await;
}

/// A cancelled turn takes the question away again, and the server is told.
#[tokio::test]
async fn a_cancel_takes_a_server_s_question_away() {
    let mut it = asked().await;
    let turn = begin(&mut it, &form()).await;
    let asked = question(&it, 0).await;
    it.client.cancel(&it.session).await;
    let withdrawn = |trace: &Trace| {
        let all = trace.calls("$/cancel_request");
        all.iter().any(|one| one["params"]["requestId"] == asked["id"]).then_some(())
    };
    it.client.wait_for("the question is taken away", withdrawn).await;
    assert_eq!(it.client.reply(&turn).await.stop_reason(), "cancelled");
    it.scene.place.appears("heard-s.notifications-cancelled.1").await;
    it.client.finish(&it.scene.place).await;
}

/// A client that shows no questions is asked none.
#[tokio::test]
async fn nobody_is_asked_who_cannot_be() {
    let scene = Scene::new(Script::new()).await;
    let servers = json!([server(&scene, "s", &[])]);
    let mut it = Imported::open(scene, servers).await;
    let text = format!("elicitation/create {}", form());
    let told = it.call("mcp__s__ask", json!({"text": text})).await;
    assert!(told.contains("-32601"), "{told}");
    let wanted = json!([visit("https://127.0.0.1:1/")]).to_string();
    let told = it.call("mcp__s__visit", json!({"text": wanted})).await;
    assert!(told.contains("cannot be shown in this client"), "{told}");
    assert!(it.client.trace().calls("elicitation/create").is_empty());
    for part in [
        "The MCP server s asked you something, which was declined: this client shows no questions",
        "Its own words: Which branch?\\u{202e}",
        "which was declined: this client shows no addresses to be opened",
        "Its own words: Log in there.",
    ] {
        it.notice(part).await;
    }
    it.client.finish(&it.scene.place).await;
}
