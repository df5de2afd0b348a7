//! kill -9 in every window of a turn: the session opens again, and the strict model server takes
//! the next prompt. `tests/README.md` has the table.

use std::time::Duration;

use bridle_model_server::{Answer, Gate, Reply, Script};
use bridle_tests::{Client, Permission};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::scene::{Scene, endless, reached};

/// Where the process dies.
#[derive(Clone, Copy, Debug)]
enum Window {
    Preparing,
    Silent,
    Streaming,
    Arguments,
    Asking,
    Running,
    Committing,
    Retrying,
    Queued,
}

const WINDOWS: [Window; 9] = [
    Window::Preparing,
    Window::Silent,
    Window::Streaming,
    Window::Arguments,
    Window::Asking,
    Window::Running,
    Window::Committing,
    Window::Retrying,
    Window::Queued,
];

#[tokio::test]
async fn kill_9_in_every_window() {
    for window in WINDOWS {
        let gate = Gate::new();
        // A prompt that was never answered goes out again with the next one, so the order matters.
        let script = Script::new().rule("and now?", [Answer::new().text("after")]);
        let scene = Scene::new(script.rule("go", replies(window, &gate))).await;
        if matches!(window, Window::Running) {
            scene.model.push(Answer::new().tool_call("shell", endless(&scene.place)));
        }
        let (mut client, session) = scene.session().await;
        client.set_permission(match window {
            Window::Asking => Permission::Hold,
            _ => Permission::Allow,
        });
        client.begin_prompt(&session, "go").await;
        come_to(window, &scene, &mut client, &session, &gate).await;
        client.signal(Signal::KILL);
        client.wait().await;

        let mut client = scene.client().await;
        let loaded = client.load(&scene.place, &session).await;
        if matches!(window, Window::Preparing) && loaded.result().is_none() {
            // The process died before anything of the session was on the disk.
            client.finish(&scene.place).await;
            continue;
        }
        loaded.ok();
        let stop = client.prompt(&session, "and now?").await.stop_reason();
        assert_eq!(stop, "end_turn", "{window:?}");
        let trace = client.finish(&scene.place).await;
        assert!(trace.text(&session).ends_with("after"), "{window:?}: {}", trace.text(&session));
        let open = |call: &Value| call["status"] != "completed" && call["status"] != "failed";
        assert!(!trace.tool_calls(&session).iter().any(open), "{window:?}: a call without an end");
        scene.assert_lawful();
    }
}

fn replies(window: Window, gate: &Gate) -> Vec<Reply> {
    let shell = |arguments: Value| Reply::from(Answer::new().tool_call("shell", arguments));
    let held = Reply::from(Answer::new().text("never")).held(gate);
    match window {
        Window::Preparing | Window::Silent | Window::Queued => vec![held],
        Window::Streaming => {
            vec![Answer::new().text_in(10, "0123456789").hold_after(5, gate).into()]
        }
        Window::Arguments => {
            let arguments = json!({"path": "never.txt", "content": "x"});
            let answer = Answer::new().text("I write. ").tool_call("write", arguments);
            vec![answer.hold_after(1, gate).into()]
        }
        Window::Asking => vec![shell(json!({"command": "touch never.txt"}))],
        // Its command carries the mark of the place.
        Window::Running => Vec::new(),
        Window::Committing => vec![shell(json!({"command": "echo done"})), held],
        // The next prompt waits for the rest of it.
        Window::Retrying => vec![Reply::rate_limited(Duration::from_secs(2)), held],
    }
}

async fn come_to(window: Window, scene: &Scene, client: &mut Client, session: &str, gate: &Gate) {
    match window {
        Window::Preparing => {}
        Window::Silent | Window::Committing => reached(gate).await,
        Window::Streaming | Window::Arguments => {
            let has_text =
                |trace: &bridle_tests::Trace| (!trace.text(session).is_empty()).then_some(());
            client.wait_for("text", has_text).await;
        }
        Window::Asking => drop(client.question().await),
        Window::Running => {
            scene.place.appears(&format!("started-{}", scene.place.mark())).await;
        }
        Window::Retrying => {
            let is_told = |trace: &bridle_tests::Trace| {
                let updates = trace.updates(session);
                updates.iter().any(|update| update.to_string().contains("again in")).then_some(())
            };
            client.wait_for("a notice of the wait", is_told).await;
        }
        Window::Queued => {
            reached(gate).await;
            client.begin_prompt(session, "queued").await;
            // Answered behind the prompt, so it is in the queue.
            client.request("session/list", json!({})).await.ok();
        }
    }
}
