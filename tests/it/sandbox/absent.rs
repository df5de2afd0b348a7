//! What stands in a workspace so that a protected name stays absent while a command runs: nobody is shown
//! it, and nothing of it is left, whoever is killed.

use bridle_model_server::{Answer, Script};
use bridle_tests::{DEADLINE, descendants, wait_until_gone};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{commands, in_mode, launch, names, run};
use crate::scene::Scene;

/// A job that runs on holds names absent, which is nothing of the project for whoever looks; and when
/// the folder that this is on record in is lost, commands go on.
#[tokio::test]
async fn what_a_job_holds_absent_is_not_shown_and_its_records_may_be_lost() {
    let scene = Scene::new(
        Script::new()
            .reply(Answer::new().tool_call(
                "shell",
                json!({"command": "touch started; exec sleep 86400", "background": true}),
            ))
            .reply(Answer::new().text("done"))
            .reply(
                Answer::new()
                    .tool_call("list", json!({"path": "."}))
                    .tool_call("read", json!({"path": ".envrc"})),
            )
            .reply(Answer::new().text("done"))
            .reply(Answer::new().tool_call("shell", json!({"command": "echo went on"})))
            .reply(Answer::new().text("done")),
    )
    .await;
    let (mut client, session) = in_mode(&scene, "auto", launch(&scene)).await;
    run(&scene, &mut client, &session).await;
    scene.place.appears("started").await;
    assert!(scene.place.workspace().join(".vscode").is_dir(), "it is held absent");
    let told = run(&scene, &mut client, &session).await;
    assert!(told.contains("started  0") && !told.contains(".vscode/"), "{told}");
    assert!(told.contains("empty folders are left out"), "{told}");
    let requests = scene.requests();
    let messages = requests.last().unwrap()["messages"].to_string();
    assert!(messages.contains("only keeps that name from being taken"), "{told}");
    fs_err::remove_dir_all(scene.place.sessions().with_file_name("sandbox")).unwrap();
    let told = run(&scene, &mut client, &session).await;
    assert!(told.contains("went on\\n[exit code 0]"), "{told}");
    client.finish(&scene.place).await;
}

/// What is held absent while a command runs is gone again, at the latest with the next start.
#[tokio::test]
async fn nothing_is_left_in_the_workspace_when_everything_is_killed() {
    let mark = "started";
    let scene =
        Scene::new(commands([json!({"command": format!("touch {mark}; exec sleep 86400")})])).await;
    let (mut client, session) = in_mode(&scene, "auto", launch(&scene)).await;
    client.begin_prompt(&session, "go").await;
    scene.place.appears(mark).await;
    assert!(scene.place.workspace().join(".vscode").is_dir(), "it is held absent");
    // All at once, so that nobody is left who could tidy up. Nobody sees the end of another who is
    // stopped, and who made another go on is stopped by the second round.
    let tree = descendants(client.pid());
    for signal in [Signal::STOP, Signal::STOP, Signal::KILL] {
        client.signal(signal);
        for process in &tree {
            let pid = Pid::from_raw(i32::try_from(process.pid).unwrap()).unwrap();
            kill_process(pid, signal).ok();
        }
    }
    client.wait().await;
    // Who is about to end still holds the record of what stands there.
    tokio::task::spawn_blocking(move || {
        assert!(tree.iter().all(|process| wait_until_gone(process, DEADLINE)));
    })
    .await
    .unwrap();
    assert!(scene.place.workspace().join(".vscode").is_dir(), "nobody was left to remove it");
    let again = scene.client().await;
    again.finish(&scene.place).await;
    assert_eq!(names(&scene), [mark]);
}

/// Also of a command of which nobody is left who could say how it went, and while the agent goes on: what
/// was held absent is gone when the call is over.
#[tokio::test]
async fn nothing_is_left_in_the_workspace_when_those_are_killed_who_would_tidy_up() {
    // The supervisor, its guard, both, and the launcher with them. Each is followed by the command itself,
    // which goes on where one of the two is left.
    for killed in [
        &["supervisor"][..],
        &["guard"],
        &["guard", "supervisor"],
        &["launcher", "guard", "supervisor"],
    ] {
        let scene = Scene::new(commands([
            json!({"command": "touch started; exec sleep 86400"}),
            json!({"command": "echo went on"}),
        ]))
        .await;
        let (mut client, session) = in_mode(&scene, "auto", launch(&scene)).await;
        let turn = client.begin_prompt(&session, "go").await;
        scene.place.appears("started").await;
        assert!(scene.place.workspace().join(".vscode").is_dir(), "it is held absent");
        let tree = descendants(client.pid());
        let parent = |pid: u32| tree.iter().find(|one| one.pid == pid).unwrap().parent;
        let command = tree.iter().find(|one| one.command == "sleep 86400").unwrap().pid;
        let supervisor = parent(command);
        let guard = parent(supervisor);
        let launcher = parent(guard);
        assert_eq!(parent(launcher), client.pid());
        let number = |name: &str| match name {
            "supervisor" => supervisor,
            "guard" => guard,
            _ => launcher,
        };
        let all = killed.iter().map(|name| number(name)).chain([command]);
        for pid in all {
            // The last may be gone with the first.
            kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).ok();
        }
        client.reply(&turn).await.ok();
        assert_eq!(names(&scene), ["started"], "{killed:?} {}", scene.last_results());
        assert!(run(&scene, &mut client, &session).await.contains("went on"), "{killed:?}");
        client.finish(&scene.place).await;
        assert_eq!(names(&scene), ["started"], "{killed:?}");
    }
}

/// When the agent alone is killed, its commands end and what was held absent goes, without a next start.
#[tokio::test]
async fn nothing_is_left_in_the_workspace_when_the_agent_is_killed() {
    let scene = Scene::new(commands([json!({"command": "touch started; exec sleep 86400"})])).await;
    let (mut client, session) = in_mode(&scene, "auto", launch(&scene)).await;
    client.begin_prompt(&session, "go").await;
    scene.place.appears("started").await;
    assert!(scene.place.workspace().join(".vscode").is_dir(), "it is held absent");
    let tree = descendants(client.pid());
    client.signal(Signal::KILL);
    client.wait().await;
    tokio::task::spawn_blocking(move || {
        assert!(tree.iter().all(|process| wait_until_gone(process, DEADLINE)));
    })
    .await
    .unwrap();
    assert_eq!(names(&scene), ["started"]);
}
