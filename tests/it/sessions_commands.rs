//! `bridle sessions …`: what each action prints, writes and refuses, on sessions that the real
//! program has made.

mod changing;
mod export;
mod page;
mod reading;

use bridle_model_server::{Answer, Script};
use bridle_tests::Permission;
use serde_json::{Value, json};

use crate::scene::Scene;

/// What a terminal or a browser must never act on.
const HOSTILE: &str = "<script>alert('x')</script> & \u{1b}]0;owned\u{7} \u{202e}gnp.exe";

/// What a command ended with.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    /// The lines of standard output as JSON.
    fn json(&self) -> Vec<Value> {
        let lines = self.out.lines();
        lines.map(|line| serde_json::from_str(line).expect("one JSON value a line")).collect()
    }

    /// Asserts that it failed in this way and said so in these words only.
    fn refused(&self, code: i32, words: &[&str]) {
        let Self { code: found, out, err } = self;
        assert_eq!((*found, out.as_str()), (code, ""), "{err}");
        assert!(words.iter().all(|word| err.contains(word)), "{words:?} in {err}");
    }
}

/// Runs `bridle sessions` with these words.
async fn sessions<S: AsRef<str>>(scene: &Scene, words: &[S]) -> Ran {
    let words = ["sessions"].into_iter().chain(words.iter().map(AsRef::as_ref));
    let output = scene.place.launch(words.collect::<Vec<_>>()).output().await;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let code = output.status.code().expect("no signal");
    Ran { code, out: text(output.stdout), err: text(output.stderr) }
}

/// A session for each prompt, oldest first.
async fn scene_with(prompts: &[&str]) -> (Scene, Vec<String>) {
    let scene = Scene::new(Script::new().otherwise(Answer::new().text("The answer."))).await;
    let mut client = scene.client().await;
    let mut ids = Vec::new();
    for prompt in prompts {
        let session = client.new_session(&scene.place).await;
        client.prompt(&session, prompt).await.ok();
        ids.push(session);
    }
    client.finish(&scene.place).await;
    (scene, ids)
}

/// A session with everything that a page shows, and hostile content wherever content can be.
async fn rich_scene() -> (Scene, String) {
    let markdown = format!(
        "# Result\n\nA **table** and <img src=x onerror=alert(1)> {HOSTILE}\n\n\
         | a | b |\n|:-:|--:|\n| 1 | `2` |\n\n[good](https://example.org/) \
         [bad](javascript:alert(1)) ![tracker](https://example.org/t.png)\n\n```rust\nfn <b>() {{}}\n```"
    );
    let edit = json!({"path": "<b>a.txt", "edits": [
        {"old_text": "second", "new_text": "<script>alert(2)</script>"}
    ]});
    let script = Script::new()
        .rule(
            "please edit",
            [
                Answer::new()
                    .thinking("I think <script>alert(3)</script>.")
                    .text("Reading first.")
                    .tool_call("read", json!({"path": "<b>a.txt"})),
                Answer::new().tool_call("edit", edit),
                Answer::new().tool_call("shell", json!({"command": "echo '<i>out</i>'; exit 3"})),
                Answer::new().tool_call("read", json!({"path": HOSTILE})),
                Answer::new().text(&markdown),
            ],
        )
        .otherwise(Answer::new().text("You are welcome."));
    let scene = Scene::new(script).await;
    scene.place.write("<b>a.txt", "first\nsecond\nthird\n");
    let (mut client, session) = scene.session().await;
    client.set_permission(Permission::Allow);
    client.prompt(&session, &format!("{HOSTILE}\nplease edit")).await.ok();
    client.prompt(&session, "thanks").await.ok();
    client.finish(&scene.place).await;
    assert!(scene.place.read("<b>a.txt").contains("alert(2)"));
    (scene, session)
}
