//! Edits of real files, byte for byte.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use bridle_agent::{Access, SessionChange};
use bridle_world::files::ContentHash;
use expect_test::expect;
use serde_json::{Value, json};

use crate::testing::{Workspace, context, run};

fn edit(path: &str, edits: &[(&str, &str)]) -> Value {
    let edits: Vec<Value> =
        edits.iter().map(|(old, new)| json!({ "old_text": old, "new_text": new })).collect();
    json!({ "path": path, "edits": edits })
}

#[tokio::test]
async fn an_edit_shows_its_diff_before_and_after() {
    let ws = Workspace::new(&[("src/a.rs", "fn a() {}\nfn b() {}\n")]);
    let planned = ws.plan("edit", edit("src/a.rs", &[("fn b", "fn c")])).await.unwrap();
    let display = planned.display();
    assert_eq!(display.title, "Edit src/a.rs");
    assert_eq!(display.locations[0].path, ws.path("src/a.rs"));
    assert_eq!(display.locations[0].line, Some(2));
    assert_eq!(display.diffs[0].old_text.as_deref(), Some("fn a() {}\nfn b() {}\n"));
    assert_eq!(display.diffs[0].new_text, "fn a() {}\nfn c() {}\n");
    assert_eq!(planned.access(), [Access::WriteInside(ws.path("src/a.rs"))]);
    assert_eq!(ws.get("src/a.rs"), b"fn a() {}\nfn b() {}\n", "planning changes nothing");
    let outcome = run(planned).await.unwrap();
    assert_eq!(outcome.display.diffs, display.diffs);
    assert_eq!(ws.get("src/a.rs"), b"fn a() {}\nfn c() {}\n");
    let text = ws.text("edit", edit("src/a.rs", &[("fn c", "fn d")])).await;
    expect![[r#"
        Edited src/a.rs: 1 replacement.
        ```diff
        @@ -1,2 +1,2 @@
         fn a() {}
        -fn c() {}
        +fn d() {}
        ```"#]]
    .assert_eq(&text);
}

/// On both sides of the size from which it is hashed beside the writing.
#[tokio::test]
async fn the_session_has_seen_what_the_file_holds_now() {
    let ws = Workspace::new(&[]);
    for size in [10, 3 << 20] {
        ws.put("f", format!("{}\nend\n", "x".repeat(size)));
        let content = format!("{}\nstart\n", "y".repeat(size));
        for (tool, arguments) in [
            ("edit", edit("f", &[("end", "END")])),
            ("write", json!({ "path": "f", "content": content })),
        ] {
            let outcome = ws.run(tool, arguments).await.unwrap();
            let hash = Some(ContentHash::of(&ws.get("f")).to_hex());
            let seen = SessionChange::Observed { path: ws.path("f"), hash };
            assert_eq!(outcome.changes, [seen], "{tool} {size}");
        }
    }
}

#[tokio::test]
async fn mark_line_ends_mode_and_missing_final_line_end_stay() {
    let ws = Workspace::new(&[]);
    let mut lines: Vec<String> = (0..1000).map(|n| format!("line {n} ä\r\n")).collect();
    lines[400] = "a stray LF\n".to_owned();
    let before = format!("\u{feff}{}end", lines.concat());
    ws.put("f", &before);
    let mode = std::fs::Permissions::from_mode(0o750);
    fs_err::set_permissions(ws.path("f"), mode).unwrap();
    let text = ws.text("edit", edit("f", &[("line 0 ä\nline 1 ä\n", "first\nsecond\n")])).await;
    assert!(text.contains("line ends taken as equal"), "{text}");
    ws.run("edit", edit("f", &[("line 500 ä", "five\nhundred"), ("end", "END")])).await.unwrap();
    let expected = before
        .replace("line 0 ä\r\nline 1 ä\r\n", "first\r\nsecond\r\n")
        .replace("line 500 ä", "five\r\nhundred")
        .replace("end", "END");
    assert_eq!(String::from_utf8(ws.get("f")).unwrap(), expected);
    assert_eq!(fs_err::metadata(ws.path("f")).unwrap().mode() & 0o7777, 0o750);
}

#[tokio::test]
async fn one_bad_edit_leaves_the_file_untouched() {
    let ws = Workspace::new(&[("f", "alpha\nbeta one\nbeta two\ngamma\n")]);
    let before = ws.get("f");
    let error = ws.error("edit", edit("f", &[("alpha", "a"), ("beta three", "b")])).await;
    expect![[r#"
        f: edits[1]: old_text is not in the file. The file is unchanged. The most similar places:
             2	beta one
        …
             3	beta two
    "#]]
    .assert_eq(&error);
    let error = ws.error("edit", edit("f", &[("beta", "b")])).await;
    expect!["f: edits[0]: old_text is there more than once (at lines 2, 3); add surrounding lines to make it unique, or set replace_all. The file is unchanged."].assert_eq(&error);
    for edits in [
        &[("alpha", "alpha")][..],
        &[("", "x")],
        &[("alpha\nbeta one", "x"), ("one\nbeta", "y")],
        &[("zzz", "y")],
    ] {
        ws.error("edit", edit("f", edits)).await;
    }
    assert_eq!(ws.get("f"), before);
    assert_eq!(ws.names("."), ["f"]);
}

#[tokio::test]
async fn what_cannot_be_edited_is_said() {
    let ws = Workspace::new(&[("binary", "a\0b"), ("main.rs", "x")]);
    ws.put("damaged", b"gr\xc3\xbcn, wei\xc3\x9f\xe9");
    ws.put("latin", b"caf\xe9");
    ws.fifo("fifo");
    let error = async |path| ws.error("edit", edit(path, &[("a", "b")])).await;
    expect!["binary cannot be edited: it is a binary file."].assert_eq(&error("binary").await);
    expect!["damaged cannot be edited: it is not UTF-8 text (first bad byte at offset 12), nor surely in another encoding."]
        .assert_eq(&error("damaged").await);
    let error_in_latin = ws.error("edit", edit("latin", &[("caf", "😀")])).await;
    expect![
        "latin: the file is encoded as windows-1252, which cannot hold '😀'. The file is unchanged."
    ]
    .assert_eq(&error_in_latin);
    expect!["/base/ws/fifo is a FIFO, not a regular file."].assert_eq(&error("fifo").await);
    expect!["/base/ws is a folder. Use `list` to see what is in it."].assert_eq(&error(".").await);
    expect!["/base/ws/Main.rs does not exist. There is `main.rs`."]
        .assert_eq(&error("Main.rs").await);
    expect!["`~` is not expanded; give an absolute path, or `./~/x` for a file of that very name."]
        .assert_eq(&error("~/x").await);
}

#[tokio::test]
async fn a_link_stays_and_its_target_is_edited() {
    let ws = Workspace::new(&[("real", "old"), ("other", "old")]);
    symlink("real", ws.path("link")).unwrap();
    fs_err::hard_link(ws.path("other"), ws.path("twin")).unwrap();
    ws.run("edit", edit("link", &[("old", "new")])).await.unwrap();
    assert!(fs_err::symlink_metadata(ws.path("link")).unwrap().is_symlink());
    assert_eq!(ws.get("real"), b"new");
    ws.run("edit", edit("twin", &[("old", "new")])).await.unwrap();
    assert_eq!(ws.get("other"), b"new");
}

#[tokio::test]
async fn ways_out_of_the_workspace_ask_as_such() {
    let ws = Workspace::new(&[]);
    fs_err::write(ws.base.join("outside/f"), "old").unwrap();
    fs_err::write(ws.base.join("ws-evil/f"), "old").unwrap();
    symlink(ws.base.join("outside"), ws.path("folder")).unwrap();
    let absolute = ws.base.join("outside/f");
    for (path, real) in [
        ("../outside/f", "outside/f"),
        ("../ws-evil/f", "ws-evil/f"),
        ("folder/f", "outside/f"),
        (absolute.to_str().unwrap(), "outside/f"),
    ] {
        let access = ws.access("edit", edit(path, &[("old", "new")])).await;
        assert_eq!(access, [Access::WriteOutside(ws.base.join(real))], "{path}");
    }
}

#[tokio::test]
async fn a_refused_plan_tells_nothing_about_a_file_outside() {
    let ws = Workspace::new(&[]);
    fs_err::write(ws.base.join("outside/f"), "secret word\n").unwrap();
    let planned = ws.plan("edit", edit("../outside/f", &[("secret wort", "x")])).await.unwrap();
    let shown = format!("{:?}", planned.display());
    assert!(!shown.contains("secret word"), "{shown}");
    assert_eq!(planned.access(), [Access::WriteOutside(ws.base.join("outside/f"))]);
    let failure = run(planned).await.unwrap_err();
    assert!(failure.message.contains("secret word"), "told once it was approved");
}

#[tokio::test]
async fn protected_names_ask_even_inside() {
    let ws = Workspace::new(&[(".git/config", "old"), ("sub/.vscode/tasks.json", "old")]);
    for path in [".git/config", "sub/.vscode/tasks.json"] {
        let planned = ws.plan("edit", edit(path, &[("old", "new")])).await.unwrap();
        assert_eq!(planned.access(), [Access::WriteOutside(ws.path(path))]);
        assert!(planned.display().title.contains("protected"));
    }
}

#[tokio::test]
async fn a_file_with_further_names_asks_even_inside() {
    let ws = Workspace::new(&[("mine", "old")]);
    let theirs = ws.base.join("outside/config");
    fs_err::write(&theirs, "old").unwrap();
    fs_err::hard_link(&theirs, ws.path("cfg")).unwrap();
    for (tool, arguments) in [
        ("edit", edit("cfg", &[("old", "new")])),
        ("write", json!({ "path": "cfg", "content": "new" })),
    ] {
        let planned = ws.plan(tool, arguments).await.unwrap();
        assert_eq!(planned.access(), [Access::WriteOutside(ws.path("cfg"))]);
        let title = planned.display().title;
        assert!(title.ends_with("(hard link: the file has another name, maybe outside)"));
    }
    // A link that is made after the question is not written through.
    let planned = ws.plan("edit", edit("mine", &[("old", "new")])).await.unwrap();
    assert_eq!(planned.access(), [Access::WriteInside(ws.path("mine"))]);
    fs_err::hard_link(ws.path("mine"), ws.base.join("outside/mine")).unwrap();
    let failure = run(planned).await.unwrap_err();
    assert!(failure.message.contains("hard link"), "{failure}");
    assert_eq!(ws.get("mine"), b"old");
}

#[tokio::test]
async fn a_write_protected_file_fails_before_anybody_is_asked() {
    let ws = Workspace::new(&[("f", "old")]);
    let mode = std::fs::Permissions::from_mode(0o444);
    fs_err::set_permissions(ws.path("f"), mode).unwrap();
    for (tool, arguments) in [
        ("edit", edit("f", &[("old", "new")])),
        ("write", json!({ "path": "f", "content": "new" })),
    ] {
        let failure = ws.plan(tool, arguments).await.err().unwrap();
        assert!(failure.message.contains("write-protected (mode 444)"), "{failure}");
    }
}

#[tokio::test]
async fn what_changed_between_plan_and_run_is_refused() {
    let ws = Workspace::new(&[("f", "old"), ("secret", "old")]);
    let planned = ws.plan("edit", edit("f", &[("old", "new")])).await.unwrap();
    ws.put("f", "theirs");
    let failure = run(planned).await.unwrap_err();
    assert!(failure.message.contains("changed since"), "{failure}");
    let shown = "What has changed in it:\n```diff\n@@ -1 +1 @@\n-old\n";
    assert!(failure.message.contains(shown), "{failure}");
    assert_eq!(ws.get("f"), b"theirs");

    ws.put("f", "old");
    let planned = ws.plan("edit", edit("f", &[("old", "new")])).await.unwrap();
    fs_err::remove_file(ws.path("f")).unwrap();
    symlink("secret", ws.path("f")).unwrap();
    let failure = run(planned).await.unwrap_err();
    assert!(failure.message.contains("is not the place"), "{failure}");
    assert_eq!(ws.get("secret"), b"old");
}

/// What the model has not seen it may not change, and what somebody else changed since it must
/// read again. Its own changes count as seen.
#[tokio::test]
async fn a_change_needs_a_read_of_what_is_there() {
    let mut ws = Workspace::new(&[("f", "one\ntwo\n")]);
    ws.forgets = true;
    let write = json!({ "path": "f", "content": "new" });
    let edit_one = || edit("f", &[("one", "1")]);
    for (tool, arguments) in [("edit", edit_one()), ("write", write)] {
        let error = ws.error(tool, arguments).await;
        assert_eq!(
            error,
            "f has not been read in this session. Read it before you change it. The file is \
             unchanged."
        );
    }
    // A part of it is enough.
    ws.run("read", json!({ "path": "f", "end_line": 1 })).await.unwrap();
    ws.put("f", "one\nTWO\n");
    let error = ws.error("edit", edit_one()).await;
    assert!(error.starts_with("f has changed since you last read or changed it."), "{error}");
    assert_eq!(ws.get("f"), b"one\nTWO\n");
    ws.run("read", json!({ "path": "f" })).await.unwrap();
    ws.run("edit", edit_one()).await.unwrap();
    ws.run("edit", edit("f", &[("TWO", "2")])).await.unwrap();
    assert_eq!(ws.get("f"), b"1\n2\n");
    // A new file needs no read, and is known afterwards.
    ws.run("write", json!({ "path": "new", "content": "a" })).await.unwrap();
    ws.run("write", json!({ "path": "new", "content": "b" })).await.unwrap();
}

#[tokio::test]
async fn a_cancelled_edit_writes_nothing() {
    let ws = Workspace::new(&[("f", "old")]);
    let planned = ws.plan("edit", edit("f", &[("old", "new")])).await.unwrap();
    let context = context();
    context.token.cancel();
    let failure = planned.run(bridle_agent::Grant::for_tests(), context).await.unwrap_err();
    assert_eq!(failure.code, bridle_session::ToolErrorCode::Aborted);
    assert_eq!(ws.get("f"), b"old");
}

#[tokio::test]
async fn other_encodings_are_read_edited_and_kept() {
    let ws = Workspace::new(&[]);
    ws.put("latin", b"caf\xe9 au lait, tr\xe8s chaud\r\nun sucre\r\n");
    let utf16 =
        |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    ws.put("wide", [&b"\xff\xfe"[..], &utf16("eins\r\nzwei\r\n")].concat());
    let text = ws.text("read", json!({ "path": "latin", "end_line": 1 })).await;
    expect![[r#"
             1	café au lait, très chaud
        [Lines end with CR LF; `edit` matches them as if they ended with LF.]
        [Encoded as windows-1252; `edit` and `write` keep that.]
    "#]]
    .assert_eq(&text);
    ws.run("edit", edit("latin", &[("au lait", "crème\nglacé")])).await.unwrap();
    let expected = &b"caf\xe9 cr\xe8me\r\nglac\xe9, tr\xe8s chaud\r\nun sucre\r\n"[..];
    assert_eq!(ws.get("latin"), expected);
    assert!(ws.text("read", json!({ "path": "wide" })).await.contains("     2\tzwei\n"));
    ws.run("edit", edit("wide", &[("zwei", "drei 😀")])).await.unwrap();
    assert_eq!(ws.get("wide"), [&b"\xff\xfe"[..], &utf16("eins\r\ndrei 😀\r\n")].concat());
}

/// Random bytes around the edited word, through the whole tool: all of them come back.
#[tokio::test]
async fn random_files_keep_every_other_byte_on_disk() {
    const CASES: usize = 200;
    let seed = fastrand::u64(..);
    println!("seed {seed}, {CASES} files");
    let mut random = fastrand::Rng::with_seed(seed);
    let ws = Workspace::new(&[]);
    for case in 0..CASES {
        let mut side = || -> String {
            let pieces = ["a", "ä😀", "\n", "\r\n", "\r", "\t", " ", "\u{feff}", "\u{2028}"];
            (0..random.usize(0..40)).map(|_| *random.choice(&pieces).unwrap()).collect()
        };
        let (head, tail) = (side(), side());
        let mode = random.choice([0o600, 0o644, 0o755, 0o640]).unwrap();
        let path = format!("f{case}");
        ws.put(&path, format!("{head}<target>{tail}"));
        let permissions = std::fs::Permissions::from_mode(mode);
        fs_err::set_permissions(ws.path(&path), permissions).unwrap();
        ws.run("edit", edit(&path, &[("<target>", "done")])).await.unwrap();
        let after = String::from_utf8(ws.get(&path)).unwrap();
        assert_eq!(after, format!("{head}done{tail}"), "seed {seed}, case {case}");
        let metadata = fs_err::metadata(ws.path(&path)).unwrap();
        assert_eq!(metadata.mode() & 0o7777, mode, "seed {seed}, case {case}");
    }
}
