//! `export`: what is written, where, and what is never written over.

use std::os::unix::fs::PermissionsExt as _;

use super::{rich_scene, scene_with, sessions};

#[tokio::test]
async fn json_lines_are_what_is_stored() {
    let (scene, ids) = scene_with(&["one"]).await;
    let path = scene.place.sessions().join(&ids[0]).join("events.v1.jsonl.zst");
    let stored = zstd::decode_all(fs_err::read(&path).unwrap().as_slice()).unwrap();
    let ran = sessions(&scene, &["export", "last", "--format", "jsonl"]).await;
    assert_eq!((ran.code, ran.out.into_bytes()), (0, stored.clone()));

    // Of a damaged log, what is there: the header is gone, everything else stays.
    let mut bytes = fs_err::read(&path).unwrap();
    bytes[8] ^= 0xFF;
    fs_err::write(&path, &bytes).unwrap();
    let short = scene.place.launch(["sessions", "show", &ids[0]]).output().await;
    let told = String::from_utf8_lossy(&short.stderr).into_owned();
    assert!(!short.status.success() && told.contains("export --format jsonl"), "{told}");
    let ran = sessions(&scene, &["export", &ids[0], "--format", "jsonl"]).await;
    let header = stored.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    assert_eq!((ran.code, ran.out.into_bytes()), (0, stored[header..].to_vec()));
}

#[tokio::test]
async fn markdown_holds_everything_and_no_html() {
    let (scene, _) = rich_scene().await;
    let ran = sessions(&scene, &["export", "last", "--format", "markdown"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for part in
        ["## 1. ", "## 2. thanks", "*Reasoning:*", "### `Edit <b>a.txt`", "```diff", "**table**"]
    {
        assert!(ran.out.contains(part), "{part} in {}", ran.out);
    }
    assert!(!ran.out.contains(['\u{1b}', '\u{202e}']), "{}", ran.out);
    // Markup stays only in code, where it is text.
    assert!(!ran.out.contains("\n<script"), "{}", ran.out);
    assert!(ran.out.contains("&lt;img src=x onerror=alert(1)>"), "{}", ran.out);
}

#[tokio::test]
async fn a_file_is_written_whole_and_never_over_another() {
    let (scene, ids) = scene_with(&["one", "two"]).await;
    let at = |name: &str| scene.place.workspace().join(name);
    let ran = sessions(&scene, &["export", "last", "-o", "page.html"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{}", ran.err);
    let page = fs_err::read_to_string(at("page.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert_eq!(fs_err::metadata(at("page.html")).unwrap().permissions().mode() & 0o777, 0o600);

    scene.place.write("mine.md", "mine");
    let again = ["export", "last", "-o", "mine.md"];
    sessions(&scene, &again).await.refused(1, &["mine.md exists", "--force"]);
    assert_eq!(scene.place.read("mine.md"), "mine");
    let forced = sessions(&scene, &[again.as_slice(), &["--force"]].concat()).await;
    assert_eq!(forced.code, 0, "{}", forced.err);
    assert!(scene.place.read("mine.md").starts_with("# two"));

    std::os::unix::fs::symlink(at("mine.md"), at("link.html")).unwrap();
    let through = ["export", "last", "-o", "link.html", "--force"];
    sessions(&scene, &through).await.refused(1, &["not a regular file"]);
    let nowhere = ["export", "last", "-o", "no/such/page.html"];
    sessions(&scene, &nowhere).await.refused(1, &["no/such"]);
    sessions(&scene, &["export", "last", "-o", "page.doc"]).await.refused(1, &["--format"]);
    sessions(&scene, &["export", "last"]).await.refused(1, &["--format html"]);
    sessions(&scene, &["export", "last", "--format", "pdf"]).await.refused(2, &["markdown"]);
    let both = ["export", &ids[0], &ids[1], "--format", "html"];
    sessions(&scene, &both).await.refused(1, &["2 sessions need --output"]);

    fs_err::create_dir(at("all")).unwrap();
    let all = ["export", "--all", "--folder", ".", "--format", "jsonl", "-o", "all"];
    let ran = sessions(&scene, &all).await;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    for id in &ids {
        assert!(at("all").join(format!("{id}.jsonl")).is_file());
    }
    // One that is taken does not keep the others back.
    fs_err::remove_file(at("all").join(format!("{}.jsonl", ids[1]))).unwrap();
    let ran = sessions(&scene, &all).await;
    assert!(ran.code == 1 && ran.err.contains(&ids[0]), "{}", ran.err);
    assert!(at("all").join(format!("{}.jsonl", ids[1])).is_file());
    let left = scene.place.stored_files().into_iter().chain(
        fs_err::read_dir(scene.place.workspace()).unwrap().map(|entry| entry.unwrap().path()),
    );
    let left: Vec<_> =
        left.filter(|path| path.to_string_lossy().contains(".bridle-export")).collect();
    assert!(left.is_empty(), "{left:?}");
}
