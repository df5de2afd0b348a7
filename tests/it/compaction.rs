//! Conversations that outgrow their window: the real binary, a server that counts its own tokens and
//! refuses what is too long, and what the client and the disk see of it.
//!
//! What becomes of each single failure is in `core/agent/tests/it/compaction`.

mod carried;

use bridle_model_server::{Answer, Gate, ModelSpec, Reply, Script};
use bridle_tests::{Client, Launch, rounds};
use fastrand::Rng;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::scene::{Scene, reached};

/// The window of the models here, in tokens as the server counts them, and their longest answer.
const WINDOW: u64 = 24_000;
const MAX_OUTPUT: u64 = 4_000;

const SONNET: &str = "claude-sonnet-5-5";
const FLASH: &str = "deepseek-flash";

/// What every request for a summary says, and no other.
const ASKED: &str = "The conversation has become long and is shortened now";

/// A server with small windows that answers requests for a summary with `summary`.
fn small(summary: impl Into<Reply>) -> Script {
    Script::new()
        .model(ModelSpec::new(SONNET, WINDOW, MAX_OUTPUT))
        .model(deepseek())
        .rule(ASKED, [summary.into()])
}

fn deepseek() -> ModelSpec {
    ModelSpec { system_messages: false, ..ModelSpec::new(FLASH, WINDOW, MAX_OUTPUT) }
}

async fn scene(script: Script) -> Scene {
    let scene = Scene::new(script).await;
    let limits = format!("window = {WINDOW}\nmax_output = {MAX_OUTPUT}");
    let config = format!(
        "model = \"anthropic/{SONNET}\"\nmode = \"auto\"\n[lsp]\nenabled = false\n\
         [models.\"anthropic/{SONNET}\"]\n{limits}\n[models.\"deepseek/{FLASH}\"]\n{limits}\n"
    );
    scene.place.configure("config.toml", config);
    scene
}

fn launch(scene: &Scene) -> Launch {
    scene
        .place
        .acp(&scene.model.url())
        .env("DEEPSEEK_API_KEY", "key-of-deepseek")
        .env("DEEPSEEK_BASE_URL", scene.model.deepseek_url())
}

/// A client that shows compactions and notices.
async fn watching(scene: &Scene) -> Client {
    let mut client = Client::start(&launch(scene));
    let session = json!({"compaction": {}, "notices": {}});
    let params = json!({"protocolVersion": 1, "clientCapabilities": {"session": session}});
    client.request("initialize", params).await.ok();
    client
}

/// A file of so many lines of about 60 bytes.
fn listing(name: &str, lines: usize) -> String {
    (1..=lines).map(|line| format!("{name} {line}: {}\n", "lorem ipsum ".repeat(4))).collect()
}

fn read(path: &str, start: usize, end: usize) -> Value {
    json!({"path": path, "start_line": start, "end_line": end})
}

/// The last request that is not for a summary, as text.
fn last_request(scene: &Scene) -> String {
    let requests = scene.requests();
    let newest = requests.iter().rev().find(|request| !is_asked(request));
    newest.expect("a request")["messages"].to_string()
}

fn is_asked(request: &Value) -> bool {
    let last = request["messages"].as_array().and_then(|all| all.last());
    last.is_some_and(|last| last.to_string().contains(ASKED))
}

/// Prompts that read until the conversation was shortened once.
async fn until_compacted(client: &mut Client, session: &str, scene: &Scene) {
    for number in 0..20 {
        let reply = client.prompt(session, &format!("look {number}")).await;
        assert_eq!(reply.stop_reason(), "end_turn");
        if scene.requests().iter().any(is_asked) {
            return;
        }
    }
    panic!("never shortened: {}", last_request(scene).len());
}

fn looks() -> [Answer; 2] {
    [Answer::new().tool_call("read", read("big.txt", 1, 60)), Answer::new().text("seen")]
}

/// B116, B119, B046, B133: a client that shows compactions sees one begin and end with its sizes and the
/// summary, also after a load; the conversation it is shown is whole, and what it is told of the
/// window is never more than the window.
#[tokio::test]
async fn a_client_sees_what_became_of_the_conversation_live_and_after_a_load() {
    let script = small(Answer::new().text("SUMMARY: they look around.")).rule("look", looks());
    let scene = scene(script).await;
    scene.place.write("big.txt", listing("big", 80));
    let mut client = watching(&scene).await;
    let session = client.new_session(&scene.place).await;
    until_compacted(&mut client, &session, &scene).await;
    client.prompt(&session, "look once more").await.ok();
    let live = client.trace();
    let updates = live.updates_of(&session, "compaction_update");
    let statuses: Vec<_> = updates.iter().map(|update| update["status"].clone()).collect();
    assert_eq!(statuses[..2], ["in_progress", "completed"], "{updates:#?}");
    assert_eq!(updates[0]["compactionId"], updates[1]["compactionId"]);
    let sizes = &updates[1]["_meta"]["bridle.dev/compaction"];
    let (before, after) = (sizes["before"].as_u64().unwrap(), sizes["after"].as_u64().unwrap());
    assert!(after < before && before < WINDOW, "{sizes}");
    assert!(updates[1]["summary"].to_string().contains("SUMMARY: they look around."));
    for usage in live.updates_of(&session, "usage_update") {
        assert!(usage["used"].as_u64().unwrap() <= usage["size"].as_u64().unwrap(), "{usage}");
    }
    let request = last_request(&scene);
    assert!(request.contains("SUMMARY: they look around."), "{request}");
    assert!(!request.contains("big 30:") || request.matches("big 30:").count() < 5);
    let said = live.text(&session);
    client.finish(&scene.place).await;

    let mut client = watching(&scene).await;
    client.load(&scene.place, &session).await.ok();
    let loaded = client.trace();
    assert_eq!(loaded.text(&session), said, "what was said is all there");
    let updates = loaded.updates_of(&session, "compaction_update");
    assert_eq!(updates[0]["status"], "completed");
    assert_eq!(updates[0]["_meta"]["bridle.dev/compaction"], *sizes);
    client.prompt(&session, "look again").await.ok();
    assert!(last_request(&scene).contains("SUMMARY: they look around."));
    client.finish(&scene.place).await;
    scene.assert_lawful();
}

/// A client that shows messages only is told in words; `/compact` has a focus, and `/status` says what
/// fills the window.
#[tokio::test]
async fn a_person_asks_for_it_and_is_told_in_words() {
    let script = small(Answer::new().text("SUMMARY of the parser.")).rule("look", looks());
    let scene = scene(script).await;
    scene.place.write("big.txt", listing("big", 60));
    let (mut client, session) = Client::in_session(&scene.place, &launch(&scene)).await;
    let nothing = client.prompt(&session, "/compact").await;
    assert_eq!(nothing.stop_reason(), "end_turn");
    assert!(client.trace().text(&session).contains("There is nothing to shorten"));
    for _ in 0..2 {
        client.prompt(&session, "look").await.ok();
    }
    assert_eq!(client.prompt(&session, "/compact  the parser ").await.stop_reason(), "end_turn");
    let text = client.trace().text(&session);
    assert!(text.contains("The conversation is being shortened"), "{text}");
    assert!(text.contains("From here on the model reads a summary"), "{text}");
    assert!(text.contains("SUMMARY of the parser."), "{text}");
    let requests = scene.requests();
    let asked = requests.iter().find(|request| is_asked(request)).unwrap().to_string();
    assert!(asked.contains("The user asks you to dwell on this: the parser"), "{asked}");
    client.prompt(&session, "/status").await.ok();
    let status = client.trace().text(&session);
    for part in ["system prompt: about", "tools: about", "summary: about", "of it for summaries:"] {
        assert!(status.contains(part), "{part}: {status}");
    }
    let start = &scene.events(&session, "compaction/start")[0];
    assert_eq!(start["data"]["trigger"], "person");
    client.finish(&scene.place).await;
    let mut client = Client::ready(&launch(&scene)).await;
    client.load(&scene.place, &session).await.ok();
    let shown = client.trace().text(&session);
    assert!(shown.contains("From here on the model reads a summary"), "{shown}");
    client.finish(&scene.place).await;
    scene.assert_lawful();
}

/// B116: the process is killed while the summary is written; the log says so, and nothing is lost.
#[tokio::test]
async fn a_process_that_is_killed_in_the_middle_has_lost_nothing() {
    let gate = Gate::new();
    let held = Answer::new().text("never").hold_after(0, &gate);
    let scene = scene(small(held).rule("look", looks())).await;
    scene.place.write("big.txt", listing("big", 60));
    let (mut client, session) = Client::in_session(&scene.place, &launch(&scene)).await;
    for _ in 0..2 {
        client.prompt(&session, "look").await.ok();
    }
    let whole = last_request(&scene);
    client.begin_prompt(&session, "/compact").await;
    reached(&gate).await;
    client.signal(Signal::KILL);
    client.wait().await;
    gate.open();
    let mut client = Client::ready(&launch(&scene)).await;
    client.load(&scene.place, &session).await.ok();
    client.prompt(&session, "look").await.ok();
    let (whole, now) = (whole.trim_end_matches(']'), last_request(&scene));
    let begins = whole.get(..whole.len() / 2).unwrap();
    assert!(now.starts_with(begins), "the conversation is the same");
    let ends = scene.events(&session, "compaction/end");
    assert_eq!(ends[0]["data"]["outcome"]["kind"], "interrupted");
    client.finish(&scene.place).await;
    scene.assert_lawful();
}

/// B118: one result takes the conversation from well below the limit to far above it; it is shortened
/// before the next request, which the provider would refuse.
#[tokio::test]
async fn a_large_result_is_noticed_before_the_request_that_it_would_break() {
    let calls = Answer::new()
        .tool_call("read", read("big.txt", 1, 250))
        .tool_call("read", read("big.txt", 251, 500));
    let script = small(Answer::new().text("SUMMARY"))
        .rule("look", looks())
        .rule("jump", [calls, Answer::new().text("landed")]);
    let scene = scene(script).await;
    scene.place.write("big.txt", listing("big", 500));
    let (mut client, session) = Client::in_session(&scene.place, &launch(&scene)).await;
    for _ in 0..6 {
        client.prompt(&session, "look").await.ok();
    }
    assert_eq!(client.prompt(&session, "jump").await.stop_reason(), "end_turn");
    let compactions = scene.events(&session, "compaction/start");
    assert!(!compactions.is_empty(), "it was not shortened");
    assert!(last_request(&scene).contains("big 500:"), "what was not read yet is not summarised");
    client.finish(&scene.place).await;
    scene.assert_lawful();
}

/// B115: instructions that fill more than half of the window leave little that could be shortened, and
/// are told again behind each summary. No turn asks for summaries without end, turns do not each ask for one
/// because of what is told again, and one that comes to nothing says what fills the window.
#[tokio::test]
async fn instructions_that_fill_the_window_have_a_clear_end() {
    let useful = summaries_beside_long_instructions("SUMMARY: it looked. ").await;
    println!("a useful one is asked for so often in twenty turns: {useful:?}");
    assert!((1..=10).contains(&useful.iter().sum::<usize>()), "{useful:?}");
    let long = "A summary that is as long as all that it stands for. ".repeat(1_200);
    let useless = summaries_beside_long_instructions(&long).await;
    assert!(useless.iter().all(|asked| *asked <= 2), "{useless:?}");
}

/// How often each of twenty turns asks for a summary, which the model gives like this.
async fn summaries_beside_long_instructions(summary: &str) -> Vec<usize> {
    let scene = scene(small(Answer::new().text(summary)).rule("look", looks())).await;
    let config = fs_err::read_to_string(scene.place.bridle_home().join("config.toml")).unwrap();
    let limits = "[instructions]\nfile_bytes = 60000\ntotal_bytes = 60000\n";
    scene.place.configure("config.toml", format!("{config}{limits}"));
    scene.place.write("AGENTS.md", listing("rule", 700));
    scene.place.write("big.txt", listing("big", 80));
    let (mut client, session) = Client::in_session(&scene.place, &launch(&scene)).await;
    let asked = || scene.requests().iter().filter(|request| is_asked(request)).count();
    let mut counts = Vec::new();
    for _ in 0..20 {
        let before = asked();
        let turn = client.begin_prompt(&session, "look").await;
        let reply = client.reply(&turn).await;
        counts.push(asked() - before);
        if reply.result().is_none() {
            let error = reply.error().to_string();
            assert!(error.contains("Its parts in about so many tokens: "), "{error}");
        }
    }
    assert!(!scene.events(&session, "compaction/start").is_empty(), "it was never shortened");
    client.finish(&scene.place).await;
    counts
}

/// The step of the issue: thousands of steps in a small window, with interruptions, kills and changes
/// of the provider. No request is refused, nothing is orphaned, and what the person asked for at the
/// beginning is still there at the end.
#[tokio::test]
async fn a_session_of_thousands_of_steps_keeps_its_rules_and_its_open_work() {
    let seed = fastrand::u64(..);
    let turns = rounds(55, 560);
    println!("seed {seed}: {turns} turns");
    let mut rng = Rng::with_seed(seed);
    let open = json!({"items": [
        {"text": "OPEN-TASK: rename the parser", "status": "pending"},
    ]});
    let steps = (0..8).map(|step| {
        let answer = Answer::new()
            .thinking("hm")
            .tool_call("read", read("big.txt", 1 + step * 12, 12 + step * 12));
        if step % 2 == 0 { answer.redacted_thinking() } else { answer }
    });
    let work: Vec<Answer> = steps.chain([Answer::new().text("worked")]).collect();
    let script = small(Answer::new().thinking("brief").text("SUMMARY: reading goes on."))
        // A prompt that nobody answered, and what a summary quotes, stands beside the newest.
        .rule("WORK-", work)
        .rule("RULE-ONE", [Answer::new().tool_call("todo", open), Answer::new().text("noted")])
        .rule("HANG", [Answer::new().text("wait").stall_after(0)]);
    let scene = scene(script).await;
    scene.place.write("big.txt", listing("big", 120));
    let (mut client, session) = Client::in_session(&scene.place, &launch(&scene)).await;
    client.prompt(&session, "RULE-ONE: never touch generated files").await.ok();
    for turn in 0..turns {
        match rng.u8(..20) {
            0 => {
                let prompt = client.begin_prompt(&session, "HANG on").await;
                client.cancel(&session).await;
                assert_eq!(client.reply(&prompt).await.stop_reason(), "cancelled");
            }
            1 => {
                client.signal(Signal::KILL);
                client.wait().await;
                client = Client::ready(&launch(&scene)).await;
                client.load(&scene.place, &session).await.ok();
            }
            2 => {
                let model = if rng.bool() { ("anthropic", SONNET) } else { ("deepseek", FLASH) };
                let value = format!("{}/{}", model.0, model.1);
                let params = json!({"sessionId": session, "configId": "model", "value": value});
                client.request("session/set_config_option", params).await.ok();
            }
            _ => {}
        }
        let reply = client.prompt(&session, &format!("WORK-{turn}")).await;
        assert_eq!(reply.stop_reason(), "end_turn", "turn {turn}");
        client.take_entries();
    }
    scene.assert_lawful();
    let last = last_request(&scene);
    assert!(last.contains("RULE-ONE: never touch generated files"), "{last}");
    assert!(last.contains("[ ] OPEN-TASK: rename the parser"), "{last}");
    client.finish(&scene.place).await;
    let (starts, ends) =
        (scene.events(&session, "compaction/start"), scene.events(&session, "compaction/end"));
    let done = ends.iter().filter(|end| end["data"]["outcome"]["kind"] == "compacted").count();
    let cost: u64 = ends.iter().filter_map(|end| end["data"]["usage"]["input"].as_u64()).sum();
    let steps = scene.events(&session, "step/start").len();
    println!(
        "{steps} steps, {done} of {} compactions done, {cost} tokens read for them",
        starts.len()
    );
    assert!(steps >= turns * 9, "{steps} steps");
    assert!(done >= rounds(4, 40), "{done} compactions");
    let mut client = Client::ready(&launch(&scene)).await;
    client.load(&scene.place, &session).await.ok();
    client.prompt(&session, "WORK-after all").await.ok();
    assert!(last_request(&scene).contains("RULE-ONE"));
    client.finish(&scene.place).await;
    scene.assert_lawful();
}
