//! `export --format html` in a real browser: it looks as it should, asks nobody for anything, and
//! no content of a session becomes more than text.

use serde_json::{Value, json};

use super::{HOSTILE, rich_scene, sessions};
use crate::interop::{installed, seen};

#[tokio::test]
async fn a_page_is_safe_and_readable_in_a_browser() {
    if installed("browser", "node_modules/playwright-core").is_none() {
        return;
    }
    let (scene, session) = rich_scene().await;
    let ran = sessions(&scene, &["export", "last", "-o", "page.html"]).await;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let script = crate::repository::root().join("tests/interop/page.mjs");
    let mut launch = scene.place.launch([script.to_str().unwrap(), "page.html"]);
    // Where to put pictures for a person to look at.
    if let Some(pictures) = std::env::var_os("BRIDLE_PICTURES") {
        launch = launch.args([pictures]);
    }
    let seen = seen(&launch.replacing_program("node").output().await);

    assert_eq!(seen["errors"], json!([]), "the page's own policy allows what the page does");
    assert_eq!(seen["requests"], json!([]), "nothing leaves the page");
    assert_eq!((&seen["dialogs"], &seen["foreign"]), (&json!(0), &json!(0)), "content stays text");
    assert_eq!(seen["links"], json!(["https://example.org/", "https://example.org/t.png"]));
    let text = seen["text"].as_str().unwrap();
    let shown = HOSTILE.replace('\u{1b}', r"\u{1b}").replace('\u{7}', r"\u{7}");
    let shown = shown.replace('\u{202e}', r"\u{202e}");
    for part in [&session, &shown, "alert(3)", "<img src=x onerror=alert(1)>", "fn <b>() {}"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(seen["title"].as_str().unwrap().starts_with("<script>"), "{}", seen["title"]);
    assert_eq!((&seen["turns"], &seen["calls"]), (&json!(2), &json!(4)));
    assert_eq!(seen["addedLines"], json!(["+<script>alert(2)</script>"]));
    for step in ["folded", "clicked", "typed", "expanded", "readableWithoutScript"] {
        assert_eq!(seen[step], Value::Bool(true), "{step}");
    }
    assert_ne!(seen["light"], seen["dark"]);
    assert!(seen["overflow"].as_i64().unwrap() <= 0, "no sideways scrolling at 390 px: {seen}");
}
