//! Which model answers and how hard it thinks: what a client chooses is what the provider is asked.

use bridle_model_server::{Answer, ModelSpec, Reply, Script};
use bridle_tests::Client;
use serde_json::{Value, json};
use std::time::Duration;

use crate::scene::Scene;

async fn choose(client: &mut Client, session: &str, option: &str, value: &str) -> Value {
    let set = json!({"sessionId": session, "configId": option, "value": value});
    client.request("session/set_config_option", set).await.ok()
}

/// The value of an option in an answer that holds all of them.
fn current<'a>(answer: &'a Value, option: &str) -> Option<&'a Value> {
    let options = answer["configOptions"].as_array().unwrap();
    options.iter().find(|known| known["id"] == option).map(|option| &option["currentValue"])
}

/// B019: model and thinking level reach the next request; what is unknown is refused and the old
/// value stays.
#[tokio::test]
async fn model_and_thinking_level_reach_the_next_request() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "one").await.ok();
    assert_eq!(scene.requests()[0].get("output_config"), None, "the model's own choice");

    let all = choose(&mut client, &session, "thinking", "low").await;
    assert_eq!(current(&all, "thinking").unwrap(), "low");
    for value in ["hard", "", "LOW"] {
        let set = json!({"sessionId": session, "configId": "thinking", "value": value});
        let refused = client.request("session/set_config_option", set).await;
        assert_eq!(refused.code(), -32602, "{value}");
    }
    client.prompt(&session, "two").await.ok();
    assert_eq!(scene.requests()[1]["output_config"]["effort"], "low", "the old value stays");

    // Opus always thinks, and is not told to stop.
    let all = choose(&mut client, &session, "model", "anthropic/claude-opus-5-5").await;
    assert_eq!(current(&all, "thinking").unwrap(), "low");
    let set = json!({"sessionId": session, "configId": "thinking", "value": "off"});
    assert_eq!(client.request("session/set_config_option", set).await.code(), -32602);
    client.prompt(&session, "three").await.ok();
    let request = &scene.requests()[2];
    assert_eq!(
        (&request["model"], &request["output_config"]["effort"]),
        (&json!("claude-opus-5-5"), &json!("low"))
    );

    choose(&mut client, &session, "model", "anthropic/claude-sonnet-5-5").await;
    choose(&mut client, &session, "thinking", "off").await;
    client.prompt(&session, "four").await.ok();
    let request = &scene.requests()[3];
    assert_eq!(request["thinking"], json!({"type": "disabled"}));
    assert_eq!(request.get("output_config"), None);
    let trace = client.finish(&scene.place).await;
    let levels: Vec<_> = scene.events(&session, "thinking/selected");
    let levels: Vec<_> = levels.iter().map(|event| event["data"]["level"].clone()).collect();
    assert_eq!(levels, ["low", "off"], "what was chosen is on the log");
    let told = trace.text(&session);
    assert!(told.contains("From here on anthropic/claude-opus-5-5 answers."), "{told}");
    scene.assert_lawful();
}

/// What is set survives a restart, and a client that loads the session sees it.
#[tokio::test]
async fn the_thinking_level_of_a_session_is_there_after_a_restart() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "one").await.ok();
    choose(&mut client, &session, "thinking", "max").await;
    client.finish(&scene.place).await;
    let mut client = scene.client().await;
    let load = json!({"sessionId": session, "cwd": scene.place.workspace(), "mcpServers": []});
    let loaded = client.request("session/load", load).await.ok();
    assert_eq!(current(&loaded, "thinking").unwrap(), "max");
    client.prompt(&session, "two").await.ok();
    assert_eq!(scene.requests()[1]["output_config"]["effort"], "max");
    client.finish(&scene.place).await;
}

/// B127: two sessions at once, each with its own model, switched between turns.
#[tokio::test]
async fn each_session_is_answered_by_the_model_that_it_shows() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, first) = scene.session().await;
    let second = client.new_session(&scene.place).await;
    for (session, model) in [
        (&first, "claude-opus-5-5"),
        (&second, "claude-haiku-5-5"),
        (&first, "claude-sonnet-5"),
        (&second, "claude-opus-5-5"),
    ] {
        let shown = choose(&mut client, session, "model", &format!("anthropic/{model}")).await;
        assert_eq!(current(&shown, "model").unwrap(), &json!(format!("anthropic/{model}")));
        client.prompt(session, "who are you?").await.ok();
        assert_eq!(scene.requests().last().unwrap()["model"], model);
    }
    client.finish(&scene.place).await;
    scene.assert_lawful();
}

#[tokio::test]
async fn exec_takes_a_thinking_level_and_config_a_default() {
    let scene = Scene::new(Script::new()).await;
    scene.place.configure("config.toml", "thinking = \"medium\"\n");
    let launch = scene.place.launch(["exec", "go"]).model_at(&scene.model.url());
    assert_eq!(launch.output().await.status.code(), Some(0));
    let launch = scene.place.launch(["exec", "--thinking", "xhigh", "go"]);
    assert_eq!(launch.model_at(&scene.model.url()).output().await.status.code(), Some(0));
    let levels: Vec<_> =
        scene.requests().iter().map(|request| request["output_config"]["effort"].clone()).collect();
    assert_eq!(levels, ["medium", "xhigh"]);
    let wrong = scene.place.launch(["exec", "--thinking", "hard", "go"]).output().await;
    assert_eq!(wrong.status.code(), Some(2));
}

/// DeepSeek takes three levels; another one becomes the nearest, and the person is told.
#[tokio::test]
async fn a_level_that_a_model_does_not_take_becomes_the_nearest() {
    let scene = Scene::new(Script::new()).await;
    scene
        .place
        .configure("config.toml", "thinking = \"medium\"\nmodel = \"deepseek/deepseek-flash\"\n");
    let launch = scene
        .place
        .launch(["acp"])
        .env("DEEPSEEK_BASE_URL", scene.model.deepseek_url())
        .env("DEEPSEEK_API_KEY", "k");
    let (mut client, session) = Client::in_session(&scene.place, &launch).await;
    client.prompt(&session, "hi").await.ok();
    assert_eq!(scene.requests()[0]["output_config"]["effort"], "low");
    let told = client.finish(&scene.place).await.text(&session);
    assert!(told.contains("does not take the thinking level medium; low is asked for"), "{told}");
    scene.assert_lawful();
}

/// The other route answers only when the user configured one, and it is said.
#[tokio::test]
async fn a_fallback_answers_for_the_rest_of_the_turn_and_says_so() {
    let hour = Duration::from_secs(3_600);
    for (configured, code) in [(true, None), (false, Some(-32603))] {
        let script = Script::new()
            .reply(Reply::rate_limited(hour))
            .reply(Answer::new().tool_call("list", json!({"path": "."})))
            .reply(Answer::new().text("from the other"))
            .reply(Answer::new().text("from the first"));
        let scene = Scene::new(script).await;
        if configured {
            scene.place.configure("config.toml", "fallback = \"deepseek/deepseek-flash\"\n");
        }
        let launch = scene
            .place
            .acp(&scene.model.url())
            .env("DEEPSEEK_BASE_URL", scene.model.deepseek_url())
            .env("DEEPSEEK_API_KEY", "k");
        let (mut client, session) = Client::in_session(&scene.place, &launch).await;
        let reply = client.prompt(&session, "one").await;
        if let Some(code) = code {
            assert_eq!(reply.code(), code, "without a fallback the turn fails");
            client.finish(&scene.place).await;
            continue;
        }
        assert_eq!(reply.stop_reason(), "end_turn");
        assert_eq!(client.prompt(&session, "two").await.stop_reason(), "end_turn");
        let models: Vec<_> =
            scene.requests().iter().map(|request| request["model"].clone()).collect();
        let (first, other) = ("claude-sonnet-5-5", "deepseek-flash");
        assert_eq!(models, [first, other, other, first], "the next turn begins with the first");
        let told = client.finish(&scene.place).await.text(&session);
        let notice = "anthropic/claude-sonnet-5-5 does not answer; deepseek/deepseek-flash answers";
        assert!(told.contains(notice), "{told}");
        let headers = scene.events(&session, "request/header");
        let routes: Vec<_> =
            headers.iter().map(|event| event["data"]["route"]["model"].clone()).collect();
        assert_eq!(routes, [first, other, first], "each change of the route is on the log");
        scene.assert_lawful();
    }
}

/// A refused key is never covered up.
#[tokio::test]
async fn a_fallback_does_not_hide_a_refused_key() {
    let scene = Scene::new(Script::new().key("the-right-one")).await;
    scene.place.configure("config.toml", "fallback = \"deepseek/deepseek-flash\"\n");
    let launch = scene
        .place
        .acp(&scene.model.url())
        .env("DEEPSEEK_BASE_URL", scene.model.deepseek_url())
        .env("DEEPSEEK_API_KEY", "the-right-one");
    let (mut client, session) = Client::in_session(&scene.place, &launch).await;
    assert_eq!(client.prompt(&session, "hi").await.code(), -32000);
    assert_eq!(scene.requests().len(), 1);
    client.finish(&scene.place).await;
}

/// The table, what an endpoint adds to it on demand, and what the user says differently.
#[tokio::test]
async fn models_are_listed_refreshed_and_overridden() {
    let script = Script::new().model(ModelSpec::new("claude-next", 500_000, 64_000));
    let scene = Scene::new(script).await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let list = |arguments: &[&str]| {
        let arguments = ["models"].into_iter().chain(arguments.iter().copied());
        scene.place.launch(arguments).model_at(&scene.model.url())
    };
    let before = text(&list(&[]).output().await.stdout);
    let row = before.lines().find(|line| line.starts_with("anthropic/claude-opus-5-5"));
    let row = row.unwrap_or_else(|| panic!("{before}"));
    for part in ["1,000,000", "128,000", "[medium]", "USD 4 / 20 / 0.2", "yes"] {
        assert!(row.contains(part), "{part} in {row}");
    }
    assert!(!before.contains("claude-next"));
    assert_eq!(scene.requests().len(), 0, "nobody is asked without --refresh");

    let refreshed = list(&["--refresh", "--json"]).output().await;
    assert_eq!(refreshed.status.code(), Some(0), "{}", text(&refreshed.stderr));
    let rows: Vec<Value> =
        text(&refreshed.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let next = rows.iter().find(|row| row["id"] == "claude-next").expect("it was listed");
    assert_eq!((&next["window"], &next["assumed"]), (&json!(500_000), &json!(false)));
    let opus = rows.iter().find(|row| row["id"] == "claude-opus-5-5").unwrap();
    assert_eq!(opus["name"], "Claude Opus 5.5", "what is built in stays");
    scene.place.configure("config.toml", "[models.\"anthropic/claude-next\"]\nname = \"Mine\"\n");
    let kept = text(&list(&[]).output().await.stdout);
    assert!(kept.contains("Mine"), "{kept}");
    assert_eq!(scene.requests().len(), 1, "the list is kept");
}

/// An endpoint that fails takes nothing away.
#[tokio::test]
async fn a_refresh_that_fails_says_why_and_keeps_what_is_known() {
    let scene = Scene::new(Script::new().key("the-right-one")).await;
    let launch = scene.place.launch(["models", "--refresh"]).model_at(&scene.model.url());
    let output = launch.output().await;
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("anthropic: ") && told.contains("what was known before stays"), "{told}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("claude-sonnet-5-5"));
}
