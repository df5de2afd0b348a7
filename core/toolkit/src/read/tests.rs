//! What the model reads of files of every kind.

use bridle_agent::Access;
use bridle_session::Content;
use expect_test::expect;
use serde_json::json;

use crate::testing::Workspace;

#[tokio::test]
async fn numbered_lines_and_windows() {
    let ws = Workspace::new(&[("f", "\u{feff}one\r\ntwo\nthree"), ("empty", "")]);
    let text = ws.text("read", json!({ "path": "f" })).await;
    expect![[r#"
             1	one
             2	two
             3	three
        [Lines end with CR LF; `edit` matches them as if they ended with LF.]
    "#]]
    .assert_eq(&text);
    let text = ws.text("read", json!({ "path": "f", "start_line": 2, "end_line": 2 })).await;
    assert_eq!(text, "     2\ttwo\n");
    assert_eq!(ws.text("read", json!({ "path": "empty" })).await, "empty is empty.");
    let outcome = ws.run("read", json!({ "path": "f", "start_line": 2 })).await.unwrap();
    assert_eq!(outcome.display.title, "Read f (from line 2)");
    assert_eq!(outcome.display.locations[0].path, ws.path("f"));
    assert_eq!(outcome.display.locations[0].line, Some(2));
}

#[tokio::test]
async fn long_files_say_where_to_go_on() {
    let ws = Workspace::new(&[("lines", &"x\n".repeat(3_000)), ("wide", &"ä".repeat(50_000))]);
    let text = ws.text("read", json!({ "path": "lines" })).await;
    assert!(text.ends_with(
        "[Cut at the size limit. The file has 3000 lines; go on with start_line 2001.]\n"
    ));
    let text = ws.text("read", json!({ "path": "lines", "start_line": 2001 })).await;
    assert!(text.ends_with("  3000\tx\n"));
    let text = ws.text("read", json!({ "path": "wide" })).await;
    assert!(text.ends_with(" [95904 more bytes of this line]\n") && text.len() < 5_000);
}

#[tokio::test]
async fn the_longest_reads_are_read_whole() {
    let short = "x".repeat(23) + "\n";
    let long = "x".repeat(5_000) + "\r\n";
    let ws = Workspace::new(&[("short", &short.repeat(3_000)), ("long", &long.repeat(30))]);
    for (path, least) in [("short", 60 * 1024), ("long", 44 * 1024)] {
        let text = ws.text("read", json!({ "path": path })).await;
        assert!((least..bridle_agent::RESULT_LIMIT).contains(&text.len()), "{}", text.len());
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_said() {
    let ws = Workspace::new(&[("config.toml", "x"), ("folder/x", ""), ("binary", "\0")]);
    ws.fifo("fifo");
    let sparse = fs_err::File::create(ws.path("sparse")).unwrap();
    sparse.set_len(20_000_000_000).unwrap();
    let error = async |path| ws.error("read", json!({ "path": path })).await;
    expect!["/base/ws/confg.toml does not exist. There is `config.toml`."]
        .assert_eq(&error("confg.toml").await);
    expect!["/base/ws/folder is a folder. Use `list` to see what is in it."]
        .assert_eq(&error("folder").await);
    expect!["binary cannot be read: it is a binary file."].assert_eq(&error("binary").await);
    expect!["sparse cannot be read: it is a binary file of 20000000000 bytes; an image may have 20971520 at most."].assert_eq(&error("sparse").await);
    expect!["/base/ws/fifo is a FIFO, not a regular file."].assert_eq(&error("fifo").await);
    expect!["/dev/zero is a device, not a regular file."].assert_eq(&error("/dev/zero").await);
    let error = ws.error("read", json!({ "path": "config.toml", "start_line": 9 })).await;
    expect!["config.toml has 1 lines; line 9 is beyond its end."].assert_eq(&error);
    let error = ws.error("read", json!({ "path": "f", "start_line": 3, "end_line": 2 })).await;
    expect!["end_line 2 is before start_line 3. Nothing was read."].assert_eq(&error);
}

#[tokio::test]
async fn reading_outside_asks_as_such() {
    let ws = Workspace::new(&[]);
    let access = ws.access("read", json!({ "path": "../outside/f" })).await;
    assert_eq!(access, [Access::ReadOutside(ws.base.join("outside/f"))]);
    let access = ws.access("read", json!({ "path": "f" })).await;
    assert_eq!(access, [Access::ReadInside(ws.path("f"))]);
}

#[tokio::test]
async fn an_image_is_given_as_one_and_what_is_none_is_not() {
    let ws = Workspace::new(&[]);
    let png = |width: u32| {
        let head = &b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"[..];
        [head, &width.to_be_bytes(), &7_u32.to_be_bytes(), b"\x08\0\0\0"].concat()
    };
    ws.put("a.dat", png(300));
    let contents = ws.contents("read", json!({ "path": "a.dat" })).await;
    let [Content::Text { text }, Content::Image { blob, mime_type }] = contents.as_slice() else {
        panic!("{contents:?}")
    };
    assert_eq!(text, "a.dat: image/png, 300 x 7 pixels, 28 bytes.\n");
    assert_eq!((mime_type.as_str(), blob.bytes), ("image/png", 28));
    ws.put("wide.png", png(9_200_000));
    expect![
        "wide.png cannot be read: the image has 9200000 x 7 pixels; 64000000 in all are the most."
    ]
    .assert_eq(&ws.error("read", json!({ "path": "wide.png" })).await);
    ws.put("large.png", [png(300), vec![0; 21_000_000]].concat());
    expect!["large.png cannot be read: it is a binary file of 21000028 bytes; an image may have 20971520 at most."]
        .assert_eq(&ws.error("read", json!({ "path": "large.png" })).await);
    ws.put("none.png", "text");
    assert_eq!(ws.text("read", json!({ "path": "none.png" })).await, "     1\ttext\n");
}

#[tokio::test]
async fn a_notebook_is_shown_as_cells() {
    let notebook = json!({ "cells": [
        { "cell_type": "markdown", "source": ["# Title\n", "text"] },
        { "cell_type": "code", "source": "1 + 1", "execution_count": 7, "outputs": [
            { "output_type": "stream", "text": vec!["line\n"; 30] },
            { "output_type": "execute_result", "data": { "text/plain": "2", "image/png": "x" } },
            { "output_type": "error", "ename": "ValueError", "evalue": "bad" },
        ] },
        { "cell_type": "code", "source": [], "execution_count": null, "outputs": [
            { "output_type": "stream", "text": "ä".repeat(5_000) },
        ] },
    ] });
    let ws = Workspace::new(&[("n.ipynb", &notebook.to_string())]);
    let text = ws.text("read", json!({ "path": "n.ipynb" })).await;
    let text =
        text.replace("\tline\n", "\t…\n").replace("\t\n", "\n").replace(&"ä".repeat(1_024), "(ä)");
    expect![[r#"
             1	[cell 1: markdown]
             2	# Title
             3	text
             4
             5	[cell 2: code, run 7]
             6	1 + 1
             7	[output]
             8	…
             9	…
            10	…
            11	…
            12	…
            13	…
            14	…
            15	…
            16	…
            17	…
            18	…
            19	…
            20	…
            21	…
            22	…
            23	…
            24	…
            25	…
            26	…
            27	…
            28	[50 more bytes of this output]
            29	[output]
            30	2
            31	[output as image/png, not shown]
            32	[error]
            33	ValueError: bad
            34
            35	[cell 3: code]
            36	[output]
            37	(ä)
            38	[7952 more bytes of this output]
            39
        [The cells of a notebook. `edit` works on its JSON text; read that with raw.]
    "#]]
    .assert_eq(&text);
}

#[tokio::test]
async fn a_notebook_is_edited_as_the_text_that_it_is() {
    let cell = |source| json!({ "cell_type": "code", "source": source });
    let notebook = json!({ "cells": [cell("# Title\ntext"), cell("1 + 1")] });
    let ws = Workspace::new(&[("n.ipynb", &notebook.to_string()), ("broken.ipynb", "{\n")]);
    let second = json!({ "path": "n.ipynb", "start_line": 5, "end_line": 6 });
    assert!(ws.text("read", second).await.contains("1 + 1"));
    let raw = ws.text("read", json!({ "path": "n.ipynb", "raw": true })).await;
    assert!(raw.contains("\"cell_type\":\"code\""), "{raw}");
    let broken = ws.text("read", json!({ "path": "broken.ipynb" })).await;
    assert!(broken.starts_with("     1\t{\n"), "{broken}");
    // What was seen as cells may be edited as text.
    let edit = |old: &str| {
        let edits = json!([{ "old_text": old, "new_text": "1 + 2" }]);
        json!({ "path": "n.ipynb", "edits": edits })
    };
    let error = ws.error("edit", edit("# Title\ntext")).await;
    assert!(error.contains("see it with `read` and raw"), "{error}");
    ws.run("edit", edit("1 + 1")).await.unwrap();
}
