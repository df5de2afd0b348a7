//! Conversations on the wire of two strict providers: one session that changes its model and its
//! process, answers of every shape, and answers that are cut anywhere.

use bridle_model_server::{Answer, Reply, Script};
use bridle_tests::{Client, Launch};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::scene::Scene;

const OPUS: &str = "anthropic/claude-opus-5-5";
const SONNET: &str = "anthropic/claude-sonnet-5-5";
const FLASH: &str = "deepseek/deepseek-flash";

/// Both providers at the scene's server.
fn launch(scene: &Scene) -> Launch {
    scene
        .place
        .acp(&scene.model.url())
        .env("DEEPSEEK_BASE_URL", scene.model.deepseek_url())
        .env("DEEPSEEK_API_KEY", "sk-test")
}

async fn choose(client: &mut Client, session: &str, model: &str) {
    let option = json!({ "sessionId": session, "configId": "model", "value": model });
    client.request("session/set_config_option", option).await.ok();
}

fn read(path: &str) -> Value {
    json!({ "path": path })
}

/// One turn with every kind of reasoning, parallel and unreadable calls, and five steps.
async fn work(scene: &Scene, client: &mut Client, session: &str) {
    for answer in [
        Answer::new()
            .thinking_in(3, "Über alles 🦀.")
            .text("\n\n")
            .tool_call("read", read("a.txt"))
            .tool_call("read", read("b.txt"))
            .in_pieces_of(5),
        Answer::new().thinking("").tool_call_raw("read", "{\"path\": "),
        Answer::new().redacted_thinking().tool_call_raw("no such tool", "{}"),
        Answer::new().tool_call("read", read("none.txt")),
        Answer::new().thinking("Done.").text("So it is."),
    ] {
        scene.model.push(answer);
    }
    assert_eq!(client.prompt(session, "go on").await.stop_reason(), "end_turn");
}

/// B044, B100, B101: tool loops with both providers, changed in both directions, each in a new
/// process after the old one was killed or ended: every request is one that its provider takes.
#[tokio::test]
async fn a_session_changes_its_provider_and_its_process_in_both_directions() {
    let scene = Scene::new(Script::new()).await;
    scene.place.write("a.txt", "one\n");
    scene.place.write("b.txt", "two\n");
    let (mut client, session) = Client::in_session(&scene.place, &launch(&scene)).await;
    for (round, model) in [OPUS, FLASH, OPUS, SONNET, FLASH, FLASH].into_iter().enumerate() {
        choose(&mut client, &session, model).await;
        work(&scene, &mut client, &session).await;
        work(&scene, &mut client, &session).await;
        if round % 2 == 0 {
            client.signal(Signal::KILL);
            client.wait().await;
        } else {
            client.finish(&scene.place).await;
        }
        client = Client::ready(&launch(&scene)).await;
        client.load(&scene.place, &session).await.ok();
        work(&scene, &mut client, &session).await;
    }
    client.finish(&scene.place).await;
    scene.assert_lawful();
    assert_eq!(scene.requests().len(), 6 * 3 * 5);
}

/// B110: each step of a long turn may fail once; no hiccup counts against a later one.
#[tokio::test]
async fn ten_steps_that_each_fail_once_are_one_turn() {
    let mut script = Script::new();
    for step in 0..9 {
        script = script
            .reply(Reply::error(529))
            .reply(Answer::new().tool_call("read", read(&format!("{step}.txt"))));
    }
    let script = script.reply(Reply::error(500)).reply(Answer::new().text("through"));
    let scene = Scene::new(script).await;
    let (mut client, session) = scene.session().await;
    assert_eq!(client.prompt(&session, "go").await.stop_reason(), "end_turn");
    let trace = client.finish(&scene.place).await;
    assert!(trace.text(&session).ends_with("through"));
    assert_eq!(scene.events(&session, "assistant/attempt").len(), 10);
    scene.assert_lawful();
}

/// B112: answers that say nothing end the turn, and the next request is one that the provider takes.
#[tokio::test]
async fn answers_that_say_nothing_do_no_harm() {
    for model in [OPUS, FLASH] {
        let scene = Scene::new(Script::new()).await;
        let (mut client, session) = Client::in_session(&scene.place, &launch(&scene)).await;
        choose(&mut client, &session, model).await;
        for empty in [
            Answer::new().thinking("only thought"),
            Answer::new(),
            Answer::new().thinking("a").text(" \n"),
        ] {
            scene.model.push(empty.clone());
            scene.model.push(empty);
            let reply = client.prompt(&session, "say something").await;
            assert_eq!(reply.stop_reason(), "end_turn", "{model}");
            scene.model.push(Answer::new().thinking("b").text("here"));
            assert_eq!(client.prompt(&session, "and now?").await.stop_reason(), "end_turn");
        }
        let trace = client.finish(&scene.place).await;
        assert!(trace.text(&session).ends_with("here"));
        scene.assert_lawful();
    }
}

/// B103, B104: counts without content, unknown events and blocks, comments, CRLF, a byte-order mark,
/// missing ids, and labels that the data contradicts.
#[tokio::test]
async fn odd_but_legal_streams_are_answers() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/model/fixtures/messages");
    let recorded = |name: &str| {
        let bytes = fs_err::read(format!("{folder}/{name}.sse")).unwrap();
        Reply::whole(200, "text/event-stream", bytes)
    };
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    for (name, text, stop) in [
        ("usage_only", "Hi", "end_turn"),
        ("unknown", "Still here", "end_turn"),
        ("unicode", "Grüße 🦀日本", "end_turn"),
        ("context_full", "So far", "max_tokens"),
    ] {
        scene.model.push(recorded(name));
        assert_eq!(client.prompt(&session, name).await.stop_reason(), stop, "{name}");
        assert!(client.trace().text(&session).ends_with(text), "{name}");
    }
    scene.model.push(recorded("missing_ids"));
    scene.model.push(Answer::new().text("both were asked for"));
    assert_eq!(client.prompt(&session, "missing_ids").await.stop_reason(), "end_turn");
    let usage = bridle_model_server::Usage { output: Some(128_000), ..Default::default() };
    let lie = Answer::new()
        .tool_call_raw("read", "{\"path\": \"a")
        .usage(usage)
        .stop_reason(bridle_model_server::StopReason::ToolUse);
    scene.model.push(lie);
    assert_eq!(client.prompt(&session, "lie").await.stop_reason(), "max_tokens", "it was cut off");
    client.finish(&scene.place).await;
    scene.assert_lawful();
}

/// B107, B109: wherever an answer is cut and however, the same request goes out again, and what it
/// asked for happens once.
#[tokio::test]
async fn an_answer_cut_anywhere_is_asked_for_again_and_acted_on_once() {
    let whole = || {
        Answer::new()
            .thinking("Über.")
            .text_in(3, "I write it.")
            .tool_call("write", json!({ "path": "out.txt", "content": "once\n" }))
    };
    let cuts: [Answer; 8] = [
        whole().cut_after(0),
        whole().cut_after(2),
        whole().cut_after(5),
        whole().close_after(3),
        whole().close_after(6),
        whole().error_after(1, "overloaded_error", "busy"),
        whole().error_after(6, "api_error", "oops"),
        whole().cut_after_bytes(1_500),
    ];
    for (number, cut) in cuts.into_iter().enumerate() {
        let script =
            Script::new().reply(cut).reply(whole()).reply(Answer::new().text("It is written."));
        let scene = Scene::new(script).await;
        let (mut client, session) = scene.session().await;
        assert_eq!(client.prompt(&session, "go").await.stop_reason(), "end_turn", "{number}");
        client.finish(&scene.place).await;
        let sent = scene.model.requests();
        assert_eq!(sent.len(), 3, "{number}");
        assert_eq!(sent[0].bytes, sent[1].bytes, "{number}: another request");
        assert_eq!(scene.events(&session, "tool/call").len(), 1, "{number}");
        assert_eq!(scene.place.read("out.txt"), "once\n");
        scene.assert_lawful();
    }
}

/// Asks the real providers for one word each; costs a few tokens.
/// A default that names no model costs no session: prompts say what is wrong.
#[tokio::test]
async fn a_default_model_without_a_provider_costs_no_session() {
    let scene = Scene::new(Script::new().reply(Answer::new().text("one"))).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "one").await.ok();
    client.finish(&scene.place).await;

    let launch = scene.place.acp(&scene.model.url()).env("BRIDLE_MODEL", "sonnet");
    let (mut client, new) = Client::in_session(&scene.place, &launch).await;
    client.load(&scene.place, &session).await.ok();
    for session in [&new, &session] {
        let error = client.prompt(session, "two").await.error();
        let told = error["message"].as_str().unwrap();
        assert!(told.contains("model `sonnet` names no provider; write provider/model"), "{told}");
    }
    let trace = client.finish(&scene.place).await;
    assert!(trace.text(&session).contains("one"), "what was said is shown");
}

#[tokio::test]
async fn real_providers_answer() {
    for (key, model) in [
        ("BRIDLE_SMOKE_ANTHROPIC_API_KEY", "anthropic/claude-haiku-5-5"),
        ("BRIDLE_SMOKE_DEEPSEEK_API_KEY", "deepseek/deepseek-flash"),
    ] {
        let Ok(secret) = std::env::var(key) else {
            println!("SKIP real-providers: {key} is not set");
            continue;
        };
        let scene = Scene::new(Script::new()).await;
        let variable = key.trim_start_matches("BRIDLE_SMOKE_");
        let launch = scene
            .place
            .acp("https://api.anthropic.com")
            .env(variable, secret)
            .env("BRIDLE_MODEL", model);
        let (mut client, session) = Client::in_session(&scene.place, &launch).await;
        scene.place.write("word.txt", "heron\n");
        let prompt = "Read word.txt and answer with the word in it, nothing else.";
        for _ in 0..2 {
            assert_eq!(client.prompt(&session, prompt).await.stop_reason(), "end_turn", "{model}");
        }
        let trace = client.finish(&scene.place).await;
        assert!(trace.text(&session).to_lowercase().contains("heron"), "{model}");
    }
}
