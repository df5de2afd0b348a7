//! Whole files on disk.

use std::os::unix::fs::symlink;

use bridle_agent::Access;
use expect_test::expect;
use serde_json::{Value, json};

use crate::testing::{Workspace, run};

fn write(path: &str, content: &str) -> Value {
    json!({ "path": path, "content": content })
}

#[tokio::test]
async fn new_files_with_their_folders() {
    let ws = Workspace::new(&[]);
    let planned = ws.plan("write", write("a/b/c.txt", "one\n")).await.unwrap();
    let display = planned.display();
    assert_eq!(display.title, "Create a/b/c.txt");
    assert_eq!((&display.diffs[0].old_text, display.diffs[0].new_text.as_str()), (&None, "one\n"));
    assert_eq!(ws.names("."), Vec::<String>::new(), "planning creates nothing");
    run(planned).await.unwrap();
    assert_eq!(ws.get("a/b/c.txt"), b"one\n");
    assert_eq!(ws.names("a/b"), ["c.txt"]);
}

#[tokio::test]
async fn whole_files_are_replaced_and_a_mark_is_kept() {
    let ws = Workspace::new(&[("f", "\u{feff}a\r\nb\r\n")]);
    let planned = ws.plan("write", write("f", "a\nc\n")).await.unwrap();
    assert_eq!(planned.display().diffs[0].new_text, "a\r\nc\r\n");
    let text = ws.text("write", write("f", "a\nc\n")).await;
    assert!(text.contains("keeps its CR LF line ends"), "{text}");
    assert_eq!(ws.get("f"), "\u{feff}a\r\nc\r\n".as_bytes());
    let text = ws.text("write", write("f", "a\nc\n")).await;
    assert!(text.contains("nothing was written"), "{text}");
}

#[tokio::test]
async fn line_ends_are_kept_only_where_they_are_clear() {
    for (old, new, written, said) in [
        ("a\r\nb", "x\ny", "x\r\ny", "keeps its CR LF"),
        ("a\r\nb\n", "x\ny\n", "x\ny\n", "Some lines of the file ended with CR LF"),
        ("a\r\nb\r\n", "x\r\ny\n", "x\r\ny\n", ""),
        ("a\nb\n", "x\ny\n", "x\ny\n", ""),
    ] {
        let ws = Workspace::new(&[("f", old)]);
        let text = ws.text("write", write("f", new)).await;
        assert_eq!(ws.get("f"), written.as_bytes(), "{old:?}");
        assert!(text.contains(said) && text.contains("CR LF") != said.is_empty(), "{text}");
    }
}

#[tokio::test]
async fn a_file_that_appeared_meanwhile_is_kept() {
    let ws = Workspace::new(&[]);
    let planned = ws.plan("write", write("f", "mine")).await.unwrap();
    ws.put("f", "theirs");
    let failure = run(planned).await.unwrap_err();
    assert!(failure.message.contains("exists now"), "{failure}");
    assert_eq!(ws.get("f"), b"theirs");
    let planned = ws.plan("write", write("f", "mine")).await.unwrap();
    ws.put("f", "theirs again");
    let failure = run(planned).await.unwrap_err();
    assert!(failure.message.contains("changed since"), "{failure}");
    assert_eq!(ws.names("."), ["f"]);
}

#[tokio::test]
async fn a_dangling_link_is_judged_and_bound_by_its_target() {
    let ws = Workspace::new(&[]);
    symlink(ws.base.join("outside/new"), ws.path("link")).unwrap();
    let access = ws.access("write", write("link", "x")).await;
    assert_eq!(access, [Access::WriteOutside(ws.base.join("outside/new"))]);
    // A link that appears after the plan is not followed either.
    let planned = ws.plan("write", write("sub/f", "x")).await.unwrap();
    symlink(ws.base.join("outside"), ws.path("sub")).unwrap();
    let failure = run(planned).await.unwrap_err();
    assert!(failure.message.contains("not a") || failure.message.contains("Not a"), "{failure}");
    assert_eq!(fs_err::read_dir(ws.base.join("outside")).unwrap().count(), 0);
}

#[tokio::test]
async fn what_cannot_be_written_is_said() {
    let ws = Workspace::new(&[("binary", "a\0b"), ("file", "x"), ("folder/x", "")]);
    let error = async |path| ws.error("write", write(path, "new")).await;
    expect![
        "binary cannot be replaced: it is a binary file. Remove it first if it really has to go."
    ]
    .assert_eq(&error("binary").await);
    expect!["/base/ws/folder is a folder. Use `list` to see what is in it."]
        .assert_eq(&error("folder").await);
    expect!["/base/ws/file is not a folder."].assert_eq(&error("file/x").await);
    expect!["`path` names a folder (new/); `write` makes files, and the folders they need."]
        .assert_eq(&error("new/").await);
}
