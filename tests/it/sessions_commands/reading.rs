//! What only reads: `list`, `show`, `verify`, `path`.

use std::process::Stdio;

use bridle_model_server::Script;
use serde_json::json;

use super::{HOSTILE, rich_scene, scene_with, sessions};
use crate::scene::Scene;

#[tokio::test]
async fn a_list_is_filtered_by_folder_and_age() {
    let (scene, ids) = scene_with(&["one", HOSTILE]).await;
    let workspace = scene.place.workspace();
    let here = workspace.to_str().unwrap();
    let parent = workspace.parent().unwrap().to_str().unwrap();
    let home = scene.place.user_home();
    for (words, rows) in [
        (vec![], 2),
        (vec!["--folder", here], 2),
        (vec!["--folder", "."], 2),
        (vec!["--folder", parent], 2),
        (vec!["--folder", home.to_str().unwrap()], 0),
        (vec!["--folder", "/no/such"], 0),
        (vec!["--since", "1h"], 2),
        (vec!["--before", "1h"], 0),
        (vec!["--since", "2001-02-03", "--before", "2001-02-04"], 0),
    ] {
        let ran = sessions(&scene, &[&["list"], words.as_slice()].concat()).await;
        assert_eq!((ran.code, ran.out.lines().count()), (0, rows), "{words:?}: {}", ran.err);
        assert!(!ran.out.contains(['\u{1b}', '\u{202e}']), "{}", ran.out);
    }
    let ran = sessions(&scene, &["list", "--json"]).await;
    assert!(!ran.out.contains(['\u{1b}', '\u{202e}']), "{}", ran.out);
    let rows = ran.json();
    let keys: Vec<_> = rows[0].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["id", "title", "folder", "createdAt", "updatedAt", "turns", "origin"]);
    assert_eq!(
        rows.iter().map(|row| row["id"].as_str().unwrap()).collect::<Vec<_>>(),
        [ids[1].as_str(), ids[0].as_str()]
    );
    assert!(rows[0]["title"].as_str().unwrap().contains("<script>"), "{rows:?}");
    assert_eq!(rows[1]["folder"], json!(workspace));
}

#[tokio::test]
async fn an_id_may_be_short_as_long_as_it_is_the_only_one() {
    let (scene, ids) = scene_with(&["one", "two"]).await;
    let shared = ids[0].bytes().zip(ids[1].bytes()).take_while(|(a, b)| a == b).count();
    let ran = sessions(&scene, &["path", ids[0].get(..shared).unwrap()]).await;
    ran.refused(1, &["2 sessions begin with", &ids[0], &ids[1], "one", "two"]);
    let ran = sessions(&scene, &["path", ids[0].get(..=shared).unwrap()]).await;
    assert!(ran.code == 0 && ran.out.contains(&ids[0]), "{}", ran.err);
    let ran = sessions(&scene, &["path", "last"]).await;
    assert!(ran.code == 0 && ran.out.contains(&ids[1]), "{}", ran.err);
    sessions(&scene, &["show", "0000"]).await.refused(1, &["no session begins with 0000"]);
    sessions(&scene, &["show", "../x"]).await.refused(2, &["not a session id"]);
    let unknown = "01a2313b-6f57-74ab-a469-e7b658bf25e8";
    for action in ["show", "fork", "path"] {
        sessions(&scene, &[action, unknown]).await.refused(1, &[unknown, "sessions list"]);
    }
    let empty = Scene::new(Script::new()).await;
    sessions(&empty, &["show", "last"]).await.refused(1, &["no session yet"]);
}

#[tokio::test]
async fn a_session_is_shown_in_turns() {
    let (scene, session) = rich_scene().await;
    let ran = sessions(&scene, &["show", "last"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    assert!(!ran.out.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{}", ran.out);
    for part in [
        session.as_str(),
        "── turn 1 ──",
        "> please edit",
        "  · I think <script>alert(3)</script>.",
        "  * Edit <b>a.txt (done",
        "asked:",
        "allowed once",
        "+1 -1",
        "(failed",
        "── turn 2 ──",
        "You are welcome.",
    ] {
        assert!(ran.out.contains(part), "{part} in {}", ran.out);
    }
    let last = sessions(&scene, &["show", "last", "--last", "1"]).await.out;
    assert!(last.contains("── turn 2 ──") && !last.contains("── turn 1 ──"), "{last}");
}

#[tokio::test]
async fn a_session_is_shown_as_its_events() {
    let (scene, ids) = scene_with(&["one"]).await;
    let ran = sessions(&scene, &["show", &ids[0], "--json"]).await;
    assert_eq!(ran.json(), scene.log(&ids[0]));
    let mut client = scene.client().await;
    client.load(&scene.place, &ids[0]).await.ok();
    client.prompt(&ids[0], "two").await.ok();
    client.finish(&scene.place).await;
    let last = sessions(&scene, &["show", &ids[0], "--json", "--last", "1"]).await.json();
    let all = scene.log(&ids[0]);
    let start = all.iter().rposition(|event| event["type"] == "turn/start").unwrap();
    assert_eq!(last[0], all[0], "the header comes first");
    assert_eq!(last[1..], all[start..]);
}

/// `bridle sessions show … | head -1` ends without a word.
#[tokio::test]
async fn a_reader_that_goes_away_is_no_news() {
    let (scene, _) = scene_with(&["one"]).await;
    for words in
        [vec!["show", "last", "--json"], vec!["list"], vec!["export", "last", "--format", "html"]]
    {
        let launch = scene.place.launch([&["sessions"], words.as_slice()].concat());
        let mut child = launch.command().stdin(Stdio::null()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().await.unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
    }
}

#[tokio::test]
async fn verify_names_the_byte_of_any_damage() {
    let (scene, ids) = scene_with(&["one", "two", "three"]).await;
    let log = |id: &str| scene.place.sessions().join(id).join("events.v1.jsonl.zst");
    let ran = sessions(&scene, &["verify", "--all"]).await;
    assert_eq!((ran.code, ran.out.matches("whole and at rest").count()), (0, 3), "{}", ran.out);

    let mut bytes = fs_err::read(log(&ids[0])).unwrap();
    let magic = [0x28, 0xB5, 0x2F, 0xFD];
    let starts: Vec<_> = bytes.windows(4).enumerate().filter(|(_, w)| *w == magic).collect();
    let at = starts[1].0;
    bytes[at + 8] ^= 0xFF;
    fs_err::write(log(&ids[0]), &bytes).unwrap();
    let mut bytes = fs_err::read(log(&ids[1])).unwrap();
    let torn_at = bytes.len();
    bytes.extend_from_slice(b"torn");
    fs_err::write(log(&ids[1]), &bytes).unwrap();

    let ran = sessions(&scene, &["verify", &ids[0]]).await;
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.out.contains(&format!("damaged from byte {at} for ")), "{}", ran.out);
    let ran = sessions(&scene, &["verify", &ids[1]]).await;
    assert_eq!(ran.code, 1, "{}", ran.out);
    let torn = format!("torn from byte {torn_at} to the end (4 bytes)");
    assert!(ran.out.contains(&torn), "{}", ran.out);

    let ran = sessions(&scene, &["verify", "--all", "--json"]).await;
    let rows = ran.json();
    assert_eq!((ran.code, rows.len()), (1, 3));
    assert_eq!(rows[0]["damage"][0]["offset"], at);
    assert!(rows[0]["damage"][0]["lost"]["first"].is_number(), "{}", rows[0]);
    assert_eq!((&rows[1]["tornAt"], &rows[1]["tornBytes"]), (&json!(torn_at), &json!(4)));
    let keys: Vec<_> = rows[2].as_object().unwrap().keys().map(String::as_str).collect();
    let expected = "id ok events frames bytes damage tornAt tornBytes missingEnds error";
    assert_eq!(keys.join(" "), expected);
    assert_eq!((&rows[2]["ok"], &rows[2]["missingEnds"]), (&json!(true), &json!(0)));

    fs_err::write(log(&ids[2]), b"nothing of ours").unwrap();
    let ran = sessions(&scene, &["verify", &ids[2]]).await;
    assert!(ran.code == 1 && ran.out.contains("bytes 0 to 15"), "{}", ran.out);
    let told = sessions(&scene, &["list"]).await;
    assert!(told.code == 1 && told.err.contains(&ids[2]), "{}", told.err);
}

#[tokio::test]
async fn what_was_said_is_found_again() {
    let (scene, ids) = scene_with(&["the green door", "the red door", HOSTILE]).await;
    let ran = sessions(&scene, &["search", "GREEN", "door", "--json"]).await;
    let hits = ran.json();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(hits.iter().all(|hit| hit["session"] == ids[0].as_str()), "{hits:?}");
    let prompt = hits.iter().find(|hit| hit["kind"] == "prompt").unwrap();
    let keys: Vec<_> = prompt.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys.join(" "), "session title folder turn seq time kind snippet");
    let marks = json!([[4, 9], [10, 14]]);
    assert_eq!((&prompt["turn"], &prompt["snippet"]["marks"]), (&json!(1), &marks));
    let told = sessions(&scene, &["search", "door"]).await.out;
    assert!(told.contains(&ids[0]) && told.contains(&ids[1]), "{told}");
    assert!(told.contains("turn 1, prompt, ") && told.contains("the red [door]"), "{told}");
    let owned = sessions(&scene, &["search", "owned"]).await.out;
    assert!(owned.contains(&ids[2]) && !owned.contains(['\u{1b}', '\u{202e}']), "{owned}");
    let one = sessions(&scene, &["search", "door", "--limit", "1"]).await;
    assert!(one.err.contains("--limit") && one.out.lines().count() == 2, "{}", one.out);
    for words in [vec!["search", "violet"], vec!["search", "door", "--before", "1d"]] {
        let ran = sessions(&scene, &words).await;
        assert_eq!((ran.code, ran.out.as_str()), (0, ""));
        assert!(ran.err.contains("nothing found"), "{}", ran.err);
    }
}
