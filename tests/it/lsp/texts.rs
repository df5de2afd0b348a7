//! What an answer looks like of files that are not plain: their ends of lines, tabs, long lines, bytes that are
//! no text, and folders behind links.

use super::*;

/// L42: no end of a line and no tab is shown, and no mark at the beginning.
#[tokio::test]
async fn lines_are_shown_without_what_is_around_them() {
    let text = "\u{feff}def one\r\n\t\tlet a = one(1)\tone(2)  \r\nundefined x\r\n";
    let mut it = Code::new(json!({}), &[("a.toy", text)]).await;
    let result = it.nav("references", "a.toy", 2, "one#2").await;
    assert!(result.contains("a.toy:1: def one\\n"), "{result}");
    assert!(result.contains("a.toy:2: let a = one(1)\\tone(2)\\n"), "{result}");
    let asked = &it.heard("textDocument/references")[0]["params"]["position"];
    assert_eq!(*asked, json!({"line": 1, "character": 17}));
    let result = it.check("a.toy").await;
    assert!(result.contains("a.toy:3: error: x is undefined [toy 7]: undefined x\\n"), "{result}");
    let arguments = json!({
        "op": "rename_preview", "path": "a.toy", "line": 1, "symbol": "one", "new_name": "two",
    });
    let result = it.call("code_nav", arguments).await;
    assert!(result.contains("+ 2: let a = two(1)\\ttwo(2)\\n"), "{result}");
    assert!(!result.contains("\\r"), "{result}");
    it.finish().await;
}

/// L21: of a very long line, its beginning is shown; positions far behind are found.
#[tokio::test]
async fn a_long_line_is_cut_where_it_is_shown() {
    let text = format!("def one\n{}one()\n", "é ".repeat(20_000));
    let mut it = Code::new(json!({}), &[("a.toy", &text)]).await;
    let result = it.nav("references", "a.toy", 2, "one").await;
    assert!(result.contains("2 references") && result.contains('…'), "{result}");
    assert!(result.len() < 2_000, "{}", result.len());
    let asked = &it.heard("textDocument/references")[0]["params"]["position"];
    assert_eq!(*asked, json!({"line": 1, "character": 40_000}));
    it.finish().await;
}

/// A file that is no text is not asked about, and costs the others nothing.
#[tokio::test]
async fn a_file_that_is_no_text_is_told_as_that() {
    let mut it = Code::new(json!({}), &[("main.toy", MAIN)]).await;
    let bad = it.scene.place.write("bad.toy", "");
    fs_err::write(&bad, b"def bad\xff\xfe area()\n\0").unwrap();
    let result = it.nav("definition", "bad.toy", 1, "bad").await;
    assert!(result.contains("bad.toy: it is no text"), "{result}");
    let result = it.call("code_diagnostics", json!({"paths": ["bad.toy", "main.toy"]})).await;
    assert!(result.contains("No errors or warnings: main.toy"), "{result}");
    assert!(result.contains("bad.toy: unknown: ") && result.contains("it is no text"), "{result}");
    // A place in it has no line that could be shown.
    let result = it.nav("references", "main.toy", 2, "area").await;
    assert!(result.contains("4 references in 2 files"), "{result}");
    assert!(result.contains("bad.toy:1: \\n"), "{result}");
    // An open one that is none any more.
    fs_err::write(it.scene.place.workspace().join("main.toy"), b"\0\xff").unwrap();
    let result = it.nav("references", "main.toy", 2, "area").await;
    assert!(result.contains("main.toy: it is no text"), "{result}");
    it.finish().await;
}

/// L20: a session whose folder is a link, and a folder in it that is one: one name for each file.
#[tokio::test]
async fn a_folder_behind_a_link_is_the_folder() {
    let files = [("real/toy.root", ""), ("real/area.toy", AREA), ("real/main.toy", MAIN)];
    let mut it = Code::new(json!({}), &files).await;
    let workspace = it.scene.place.workspace();
    fs_err::os::unix::fs::symlink("real", workspace.join("link")).unwrap();
    for folder in ["link", "real"] {
        let result = it.nav("references", &format!("{folder}/main.toy"), 2, "area").await;
        assert!(result.contains("4 references in 2 files"), "{result}");
        assert!(result.contains("real/area.toy:1: def area"), "{result}");
        assert!(!result.contains("link/"), "{result}");
        let result = it.check(&format!("{folder}/area.toy")).await;
        assert!(result.contains("No errors or warnings: real/area.toy"), "{result}");
    }
    assert_eq!(it.heard("initialize").len(), 1);
    it.finish().await;
}
