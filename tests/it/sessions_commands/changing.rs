//! What changes the store: `fork`, `rename`, `rm`, `gc`.

use bridle_model_server::{Answer, Script};
use bridle_tests::Permission;
use serde_json::json;

use super::{HOSTILE, scene_with, sessions};
use crate::scene::Scene;

#[tokio::test]
async fn a_fork_goes_on_by_itself() {
    let (scene, ids) = scene_with(&["one"]).await;
    let parent = scene.log(&ids[0]);
    let ran = sessions(&scene, &["fork", ids[0].as_str()]).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    let fork = ran.out.trim().to_owned();
    let log = scene.log(&fork);
    assert_eq!(log[0]["parent"], json!({"id": ids[0], "inherited": parent.len() - 1}));
    assert_eq!(log[1..parent.len()], parent[1..]);
    assert_eq!(log[parent.len()]["type"], "session/seed-end");
    assert_eq!(scene.log(&ids[0]), parent, "the parent is not touched");

    // Cut in the middle of the turn: repaired, titled, and taken up by the strict server.
    let at = parent.iter().position(|event| event["type"] == "user/message").unwrap() - 1;
    let cut = ["fork", &ids[0], "--at", &at.to_string(), "--title", "The other way", "--json"];
    let ran = sessions(&scene, &cut).await;
    let row = ran.json().pop().unwrap();
    assert_eq!(row["parent"], json!({"id": ids[0], "inherited": at + 1}));
    let ran = sessions(&scene, &["rm", &ids[0], "--yes"]).await;
    assert_eq!(ran.code, 0, "a parent may go: {}", ran.err);
    let second = row["id"].as_str().unwrap();
    let mut client = scene.client().await;
    for id in [&fork, second] {
        client.load(&scene.place, id).await.ok();
        assert_eq!(client.prompt(id, "and now?").await.stop_reason(), "end_turn");
    }
    client.finish(&scene.place).await;
    scene.assert_lawful();
    let listed = sessions(&scene, &["list"]).await.out;
    assert!(listed.contains("The other way") && listed.lines().count() == 2, "{listed}");

    let beyond = ["fork", second, "--at", "9999"];
    sessions(&scene, &beyond).await.refused(1, &["9999 is beyond the end", "show --json"]);
    sessions(&scene, &["fork", second, "--at", "x"]).await.refused(2, &["--at"]);
}

#[tokio::test]
async fn a_new_title_is_one_more_event() {
    let (scene, ids) = scene_with(&["one"]).await;
    let before = scene.log(&ids[0]);
    let ran = sessions(&scene, &["rename", "last", HOSTILE]).await;
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
    let after = scene.log(&ids[0]);
    assert_eq!(after[..before.len()], before);
    let last = &after[before.len()..];
    assert_eq!(last.len(), 1);
    assert_eq!(
        (&last[0]["type"], &last[0]["data"]),
        (&json!("title/set"), &json!({"title": HOSTILE}))
    );
    let listed = sessions(&scene, &["list"]).await.out;
    assert!(listed.contains(r"\u{1b}]0;owned") && !listed.contains('\u{1b}'), "{listed}");
    for bad in ["", "  ", "two\nlines"] {
        sessions(&scene, &["rename", "last", bad]).await.refused(2, &["a title"]);
    }
}

/// Whoever has a session open keeps it; everybody else is told who that is.
#[tokio::test]
async fn an_open_session_is_neither_renamed_nor_removed() {
    let (scene, ids) = scene_with(&["one", "two"]).await;
    let mut client = scene.client().await;
    client.load(&scene.place, &ids[0]).await.ok();
    let pid = client.pid().to_string();
    let open = ["already open", &pid, "close it there first"];
    sessions(&scene, &["rename", &ids[0], "x"]).await.refused(1, &open);
    let ran = sessions(&scene, &["rm", &ids[0], &ids[1], "--yes"]).await;
    assert!(ran.code == 1 && open.iter().all(|word| ran.err.contains(word)), "{}", ran.err);
    assert_eq!(ran.out, format!("removed {}\n", ids[1]), "the other one goes");
    assert_eq!(client.prompt(&ids[0], "still there?").await.stop_reason(), "end_turn");
    // What only reads leaves the owner alone.
    for words in [vec!["show", "last"], vec!["verify", "--all"], vec!["fork", "last"]] {
        assert_eq!(sessions(&scene, &words).await.code, 0, "{words:?}");
    }
    client.finish(&scene.place).await;
}

#[tokio::test]
async fn nothing_is_removed_without_a_yes() {
    let (scene, ids) = scene_with(&["one"]).await;
    sessions(&scene, &["rm", "last"]).await.refused(2, &["--yes"]);
    assert_eq!(sessions(&scene, &["show", &ids[0]]).await.code, 0);
    let ran = sessions(&scene, &["rm", "last", &ids[0], "--yes"]).await;
    assert_eq!((ran.code, ran.out), (0, format!("removed {}\n", ids[0])));
    assert!(!scene.place.sessions().join(&ids[0]).exists());
    sessions(&scene, &["rm", &ids[0], "--yes"]).await.refused(1, &["does not exist"]);
}

#[tokio::test]
async fn gc_removes_what_nobody_needs_and_says_how_much() {
    let (scene, ids) = scene_with(&["one"]).await;
    let state = scene.place.sessions().parent().unwrap().to_owned();
    let empty = "00000000-0000-7000-8000-000000000001";
    let folder = state.join("sessions").join(empty);
    fs_err::create_dir(&folder).unwrap();
    let header =
        json!({"format": 1, "id": empty, "created_at": 1_000, "cwd": "/", "origin": "acp"});
    let header = format!("{header}\n");
    fs_err::write(folder.join("events.v1.jsonl"), &header).unwrap();

    let dry = sessions(&scene, &["gc", "--dry-run", "--json"]).await;
    let said = dry.json().pop().unwrap();
    assert_eq!((dry.code, &said["dryRun"], &said["sessions"]), (0, &json!(true), &json!([empty])));
    assert_eq!((&said["blobs"], &said["unreadable"]), (&json!([]), &json!([])));
    assert!(said["bytes"].as_u64().unwrap() >= header.len() as u64, "{said}");
    assert!(folder.exists());
    let ran = sessions(&scene, &["gc"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(ran.out.starts_with("removed 1 empty session, 0 blobs"), "{}", ran.out);
    assert!(!folder.exists());
    assert_eq!(sessions(&scene, &["verify", &ids[0]]).await.code, 0);
    let ran = sessions(&scene, &["gc"]).await;
    assert!(ran.out.starts_with("removed 0 empty sessions"), "{}", ran.out);
}

/// What a turn's tools did to files is shown, and undone where nobody has changed it since.
#[tokio::test]
async fn a_turn_is_undone() {
    use std::os::unix::fs::PermissionsExt as _;

    let edit = |path: &str, old: &str, new: &str| json!({"path": path, "edits": [{"old_text": old, "new_text": new}]});
    let work = Answer::new()
        .tool_call("read", json!({"path": "a.txt"}))
        .tool_call("edit", edit("a.txt", "one", "1"))
        .tool_call("edit", edit("a.txt", "two", "2"))
        .tool_call("write", json!({"path": "new/c.txt", "content": "made"}))
        .tool_call("move", json!({"path": "d.txt", "to": "e.txt"}))
        .tool_call("delete", json!({"path": "b.sh"}));
    let script = Script::new().rule("please change", [work, Answer::new().text("done")]);
    let scene = Scene::new(script.otherwise(Answer::new().text("nothing"))).await;
    scene.place.write("a.txt", "one\r\ntwo\r\n");
    scene.place.write("d.txt", "d");
    let program = scene.place.write("b.sh", "#!/bin/sh\n");
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    fs_err::set_permissions(&program, mode(0o750)).unwrap();
    let (mut client, session) = scene.session().await;
    client.set_permission(Permission::Allow);
    client.prompt(&session, "first").await.ok();
    client.prompt(&session, "please change").await.ok();
    client.prompt(&session, "last").await.ok();
    client.finish(&scene.place).await;
    scene.assert_lawful();
    assert_eq!(scene.place.read("a.txt"), "1\r\n2\r\n");
    let kept = scene.events(&session, "file/kept");
    let kept: Vec<_> = kept.iter().map(|event| event["data"]["path"].as_str().unwrap()).collect();
    let names = ["a.txt", "new/c.txt", "d.txt", "e.txt", "b.sh"];
    let paths = names.map(|name| scene.place.workspace().join(name).display().to_string());
    assert_eq!(kept, paths, "one for each file");

    let shown = sessions(&scene, &["restore", &session]).await;
    assert_eq!(shown.code, 0, "{}", shown.out);
    assert_eq!(shown.out.matches("restore    ").count(), 3, "{}", shown.out);
    assert_eq!(shown.out.matches("remove     ").count(), 2, "{}", shown.out);
    assert!(shown.err.contains("nothing was changed; add --yes"), "{}", shown.err);
    assert_eq!(scene.place.read("a.txt"), "1\r\n2\r\n", "it was only shown");

    scene.place.write("a.txt", "1\r\n2\r\nby hand\r\n");
    let undone = sessions(&scene, &["restore", &session, "--yes"]).await;
    assert_eq!(undone.code, 1, "{}", undone.out);
    assert!(undone.out.contains("(changed since by somebody else;"), "{}", undone.out);
    assert_eq!(scene.place.read("a.txt"), "1\r\n2\r\nby hand\r\n");
    assert!(!scene.place.workspace().join("new/c.txt").exists());
    assert_eq!(
        (scene.place.read("d.txt").as_str(), scene.place.workspace().join("e.txt").exists()),
        ("d", false)
    );
    assert_eq!(scene.place.read("b.sh"), "#!/bin/sh\n");
    assert_eq!(fs_err::metadata(&program).unwrap().permissions().mode() & 0o7777, 0o750);

    let forced = ["restore", &session, "--turn", "2", "--yes", "--force"];
    assert_eq!(sessions(&scene, &forced).await.code, 0);
    assert_eq!(scene.place.read("a.txt"), "one\r\ntwo\r\n");
    let later = sessions(&scene, &["restore", &session, "--turn", "3"]).await;
    assert_eq!((later.code, later.out.as_str()), (0, "no tool changed files in turn 3 or later\n"));
}

/// A file that a command moved and put a link or a folder in the place of: nothing is lost by undoing
/// that, and what cannot be put back is named.
#[tokio::test]
async fn what_was_moved_away_is_never_removed_when_it_cannot_come_back() {
    for (command, old, new) in [
        ("mkdir dot; mv f dot/f; ln -s dot/f f", "f", "dot/f"),
        ("mv d e; ln -s e d", "d/x", "e/x"),
        ("mv f tmp; mkdir f; mv tmp f/index", "f", "f/index"),
        ("mv large g; mkfifo large", "large", "g"),
        ("mv large g", "large", "g"),
    ] {
        let work = Answer::new().tool_call("shell", json!({ "command": command }));
        let script = Script::new().rule("please change", [work, Answer::new().text("done")]);
        let scene = Scene::new(script).await;
        let large = "l".repeat(300_000);
        for (name, text) in [("f", "precious"), ("d/x", "precious"), ("large", large.as_str())] {
            scene.place.write(name, text);
        }
        let (mut client, session) = scene.session().await;
        client.set_permission(Permission::Allow);
        client.prompt(&session, "please change").await.ok();
        client.finish(&scene.place).await;
        let held = scene.place.read(new);
        assert!(held == "precious" || held == large, "{command}");
        let undone = sessions(&scene, &["restore", &session, "--yes"]).await;
        assert_eq!(undone.code, 1, "{command}: {}", undone.out);
        let named = |name: &str| {
            let path = scene.place.workspace().join(name).display().to_string();
            undone.out.lines().any(|line| line.starts_with(&format!("left alone {path} ")))
        };
        assert!(named(old) && named(new), "{command}: {}", undone.out);
        assert_eq!(scene.place.read(new), held, "{command}");
    }
}

/// What was written through one name of a file is the session's own under its other names.
#[tokio::test]
async fn a_file_with_two_names_is_undone_under_both() {
    let edits = json!([{ "old_text": "new", "new_text": "newest" }]);
    let work = [
        Answer::new().tool_call("shell", json!({ "command": "echo new > a.txt" })),
        Answer::new().tool_call("read", json!({ "path": "a.txt" })),
        Answer::new().tool_call("edit", json!({ "path": "a.txt", "edits": edits })),
        Answer::new().text("done"),
    ];
    let scene = Scene::new(Script::new().rule("please change", work)).await;
    let first = scene.place.write("a.txt", "old\n");
    fs_err::hard_link(&first, first.with_file_name("b.txt")).unwrap();
    let (mut client, session) = scene.session().await;
    client.set_permission(Permission::Allow);
    client.prompt(&session, "please change").await.ok();
    client.finish(&scene.place).await;
    assert_eq!(scene.place.read("b.txt"), "newest\n");
    let shown = sessions(&scene, &["restore", &session]).await;
    assert_eq!(shown.code, 0, "{}", shown.out);
    assert_eq!(shown.out.matches("restore    ").count(), 2, "{}", shown.out);
    let undone = sessions(&scene, &["restore", &session, "--yes"]).await;
    assert_eq!(undone.code, 0, "{}", undone.out);
    let texts = ["a.txt", "b.txt"].map(|name| scene.place.read(name));
    assert_eq!(texts, ["old\n", "old\n"]);
}

/// What a command changed in the workspace is shown and undone like what a tool changed.
#[tokio::test]
async fn what_commands_of_a_turn_changed_is_undone() {
    let command = "echo new > a.txt; rm b.txt; mkdir deep; echo made > deep/c.txt; touch d.txt";
    let work = Answer::new()
        .tool_call("shell", json!({ "command": command }))
        .tool_call("shell", json!({ "command": "echo newer >> a.txt" }));
    let script = Script::new().rule("please change", [work, Answer::new().text("done")]);
    let scene = Scene::new(script).await;
    for name in ["a.txt", "b.txt", "d.txt"] {
        scene.place.write(name, "old\n");
    }
    let (mut client, session) = scene.session().await;
    client.set_permission(Permission::Allow);
    client.prompt(&session, "please change").await.ok();
    client.finish(&scene.place).await;
    assert_eq!(scene.place.read("a.txt"), "new\nnewer\n");
    let shown = sessions(&scene, &["restore", &session]).await;
    assert_eq!(shown.code, 0, "{}", shown.out);
    assert_eq!(shown.out.matches("restore    ").count(), 2, "{}", shown.out);
    assert_eq!(shown.out.matches("remove     ").count(), 1, "{}", shown.out);
    assert!(!shown.out.contains("d.txt"), "it has the same content: {}", shown.out);
    assert!(shown.err.contains("commands ran in these turns (2)"), "{}", shown.err);
    assert_eq!(sessions(&scene, &["restore", &session, "--yes"]).await.code, 0);
    assert_eq!(scene.place.read("a.txt"), "old\n");
    assert_eq!(scene.place.read("b.txt"), "old\n");
    assert!(!scene.place.workspace().join("deep/c.txt").exists());
}
