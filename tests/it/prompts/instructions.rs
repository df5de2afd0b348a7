//! Situations in which the user's and a project's instructions are told.

use super::*;

#[tokio::test]
async fn instructions_of_the_user_and_of_the_project() {
    let mut stage =
        Stage::new(&[("AGENTS.md", "Be brief.\n"), ("CLAUDE.md", "Not asked for.\n")]).await;
    stage.scene.place.configure("AGENTS.md", "Speak plainly.\n");
    stage.prompt("hi").await;
    stage.check(expect![[r#"
        model claude-sonnet-5-5
        tools (those of the program)
        system (that of the program)
        user context environment
            Working directory: /ws
            Git repository: no
            Permission mode: ask
        user context /bridle-home/AGENTS.md (the user's own instructions)
            Speak plainly.
        user context AGENTS.md
            Be brief.
        user context skills (those of the program)
        user:
            hi
    "#]]);
    assert_eq!(stage.end().await, "");
}

/// B124: of a session deep in a project whose root it has, those of every folder on the way, the
/// nearest last; of other folders none.
#[tokio::test]
async fn instructions_from_the_root_down_to_where_the_session_works() {
    let files = [
        ("AGENTS.md", "Of the root.\n"),
        ("mid/AGENTS.md", "Of the middle.\n"),
        ("mid/cwd/AGENTS.md", "Of the folder.\n"),
        ("mid/cwd/below/AGENTS.md", "Of a folder that nobody touches.\n"),
        ("beside/AGENTS.md", "Of a folder beside it.\n"),
        ("mid/cwd/skill/SKILL.md", "No instructions.\n"),
    ];
    let mut stage = Stage::in_folder(&files, "mid/cwd", &[""]).await;
    stage.prompt("hi").await;
    stage.check(expect![[r#"
        model claude-sonnet-5-5
        tools (those of the program)
        system (that of the program)
        user context environment
            Working directory: /ws/mid/cwd
            Further workspace folder: /ws
            Git repository: no
            Permission mode: ask
        user context /ws/AGENTS.md
            Of the root.
        user context /ws/mid/AGENTS.md
            Of the middle.
        user context AGENTS.md
            Of the folder.
        user context skills (those of the program)
        user:
            hi
    "#]]);
    let mut alone = Stage::in_folder(&files, "mid/cwd", &[]).await;
    alone.prompt("hi").await;
    alone.check(expect![[r#"
        model claude-sonnet-5-5
        tools (those of the program)
        system (that of the program)
        user context environment
            Working directory: /ws/mid/cwd
            Git repository: no
            Permission mode: ask
        user context AGENTS.md
            Of the folder.
        user context skills (those of the program)
        user:
            hi
    "#]]);
    stage.end().await;
    alone.end().await;
}

#[tokio::test]
async fn instructions_of_two_roots() {
    let files = [("one/AGENTS.md", "Of one.\n"), ("two/AGENTS.md", "Of two.\n")];
    let mut stage = Stage::in_folder(&files, "one", &["two"]).await;
    stage.prompt("hi").await;
    stage.check(expect![[r#"
        model claude-sonnet-5-5
        tools (those of the program)
        system (that of the program)
        user context environment
            Working directory: /ws/one
            Further workspace folder: /ws/two
            Git repository: no
            Permission mode: ask
        user context /ws/two/AGENTS.md
            Of two.
        user context AGENTS.md
            Of one.
        user context skills (those of the program)
        user:
            hi
    "#]]);
    stage.end().await;
}

/// B124: a nested folder's with the first file of it that is read; a listing or a search is no touch.
#[tokio::test]
async fn instructions_of_a_nested_folder_on_first_touch() {
    let files = [
        ("AGENTS.md", "Of the root.\n"),
        ("a/AGENTS.md", "Of a.\n"),
        ("a/b/AGENTS.md", "Of b.\n"),
        ("a/b/x", "needle\n"),
    ];
    let mut stage = Stage::new(&files).await;
    stage.calls("search", json!({"pattern": "needle"}));
    stage.calls("list", json!({"path": "a/b"}));
    stage.calls("read", json!({"path": "a/b/x"}));
    stage.prompt("look").await;
    stage.check(expect![[r#"
        model claude-sonnet-5-5
        tools (those of the program)
        system (that of the program)
        user context environment
            Working directory: /ws
            Git repository: no
            Permission mode: ask
        user context AGENTS.md
            Of the root.
        user context skills (those of the program)
        user:
            look
        assistant calls search {"pattern":"needle"}
        user result: a/b/x:1: needle
        assistant calls list {"path":"a/b"}
        user result: AGENTS.md  6
        assistant calls read {"path":"a/b/x"}
        user result: 1	needle
        user context a/AGENTS.md
            Of a.
        user context a/b/AGENTS.md
            Of b.
    "#]]);
    stage.prompt("again").await;
    stage.check(expect![[r#"
        assistant:
            Fine.
        user:
            again
    "#]]);
    stage.end().await;
}

#[tokio::test]
async fn instructions_that_change_and_go() {
    let mut stage =
        Stage::new(&[("AGENTS.md", "Old.\n"), ("a/AGENTS.md", "Of a.\n"), ("a/x", "")]).await;
    stage.calls("read", json!({"path": "a/x"}));
    stage.prompt("hi").await;
    stage.check(expect![[r#"
        model claude-sonnet-5-5
        tools (those of the program)
        system (that of the program)
        user context environment
            Working directory: /ws
            Git repository: no
            Permission mode: ask
        user context AGENTS.md
            Old.
        user context skills (those of the program)
        user:
            hi
        assistant calls read {"path":"a/x"}
        user result: a/x is empty.
        user context a/AGENTS.md
            Of a.
    "#]]);
    stage.put("AGENTS.md", "New.\n");
    stage.prompt("changed").await;
    stage.check(expect![[r#"
        assistant:
            Fine.
        user context AGENTS.md
            New.
        user:
            changed
    "#]]);
    fs_err::remove_file(stage.scene.place.workspace().join("a/AGENTS.md")).unwrap();
    stage.prompt("gone").await;
    stage.check(expect![[r#"
        assistant:
            Fine.
        user:
            [instructions: a/AGENTS.md: what was said under this name does not hold any more.]
        user:
            gone
    "#]]);
    stage.put("a/AGENTS.md", "Of a.\n");
    stage.prompt("back").await;
    stage.check(expect![[r#"
        assistant:
            Fine.
        user context a/AGENTS.md
            Of a.
        user:
            back
    "#]]);
    assert_eq!(stage.end().await, "");
}

#[tokio::test]
async fn instructions_under_several_names() {
    let stage = Stage::new(&[("AGENTS.md", "Be brief.\n"), ("GEMINI.md", "Be long.\n")]).await;
    symlink("AGENTS.md", stage.scene.place.workspace().join("CLAUDE.md")).unwrap();
    let names = "[instructions]\nnames = [\"AGENTS.md\", \"CLAUDE.md\", \"GEMINI.md\"]\n";
    stage.scene.place.configure("config.toml", names);
    let mut stage = stage.resumed().await;
    stage.prompt("hi").await;
    stage.check(expect![[r#"
        model claude-sonnet-5-5
        tools (those of the program)
        system (that of the program)
        user context environment
            Working directory: /ws
            Git repository: no
            Permission mode: ask
        user context AGENTS.md
            Be brief.
        user context CLAUDE.md
            [CLAUDE.md is word for word the same as AGENTS.md.]
        user context GEMINI.md
            Be long.
        user context skills (those of the program)
        user:
            hi
    "#]]);
    assert_eq!(stage.end().await, "");
}

/// B064, B122: what lies there and is no text is said to the model and to the person, once, and waits
/// for nobody.
#[tokio::test]
async fn instructions_that_cannot_be_told_whole() {
    let mut stage = Stage::new(&[("AGENTS.md", &"0123456789".repeat(4_000))]).await;
    let workspace = stage.scene.place.workspace();
    for folder in ["fifo", "leaves"] {
        stage.put(&format!("{folder}/x"), "");
    }
    let fifo = workspace.join("fifo/AGENTS.md");
    let rights = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, fifo, rustix::fs::FileType::Fifo, rights, 0).unwrap();
    symlink("/etc/hostname", workspace.join("leaves/AGENTS.md")).unwrap();
    stage.calls("read", json!({"path": "fifo/x"}));
    stage.calls("read", json!({"path": "leaves/x"}));
    stage.prompt("hi").await;
    let sent = stage.sent().replace(&"0123456789".repeat(3_276), "(32,760 digits)");
    expect![[r#"
        model claude-sonnet-5-5
        tools (those of the program)
        system (that of the program)
        user context environment
            Working directory: /ws
            Git repository: no
            Permission mode: ask
        user context AGENTS.md
            (32,760 digits)01234567
            [Cut here: 7232 more bytes. Read AGENTS.md for the rest.]
        user context skills (those of the program)
        user:
            hi
        assistant calls read {"path":"fifo/x"}
        user result: fifo/x is empty.
        user context fifo/AGENTS.md
            [fifo/AGENTS.md was not read: it is a FIFO, not a regular file.]
        assistant calls read {"path":"leaves/x"}
        user result: leaves/x is empty.
        user context leaves/AGENTS.md
            [leaves/AGENTS.md was not read: it lies, or leads, outside the workspace.]
    "#]]
    .assert_eq(&sent);
    let told = stage.end().await;
    expect![[r#"
        *Warning: Instructions in AGENTS.md: the model is told 32768 of 40000 bytes; 32768 are the most of one file*

        *Warning: Instructions in fifo/AGENTS.md: it is a FIFO, not a regular file*

        *Warning: Instructions in leaves/AGENTS.md: it lies, or leads, outside the workspace*

    "#]].assert_eq(&told);
}

#[tokio::test]
async fn a_resumed_session_is_told_what_has_changed_meanwhile() {
    let files = [("AGENTS.md", "Of the root.\n"), ("a/AGENTS.md", "Of a.\n"), ("a/x", "")];
    let mut stage = Stage::new(&files).await;
    stage.calls("read", json!({"path": "a/x"}));
    stage.prompt("hi").await;
    stage.check(expect![[r#"
        model claude-sonnet-5-5
        tools (those of the program)
        system (that of the program)
        user context environment
            Working directory: /ws
            Git repository: no
            Permission mode: ask
        user context AGENTS.md
            Of the root.
        user context skills (those of the program)
        user:
            hi
        assistant calls read {"path":"a/x"}
        user result: a/x is empty.
        user context a/AGENTS.md
            Of a.
    "#]]);
    stage.put("a/AGENTS.md", "Of a, changed.\n");
    let mut stage = stage.resumed().await;
    stage.prompt("again").await;
    stage.check(expect![[r#"
        assistant:
            Fine.
        user context a/AGENTS.md
            Of a, changed.
        user:
            again
    "#]]);
    stage.end().await;
}

/// Without a name there are no instructions, as `docs/context.md` says.
#[tokio::test]
async fn instructions_that_are_switched_off() {
    let stage = Stage::new(&[("AGENTS.md", "Be brief.\n")]).await;
    stage.scene.place.configure("config.toml", "[instructions]\nnames = []\n");
    let mut stage = stage.resumed().await;
    stage.prompt("hi").await;
    let sent = stage.sent();
    assert!(sent.ends_with("user:\n    hi\n") && !sent.contains("Be brief."), "{sent}");
    assert_eq!(stage.end().await, "");
}

/// What a rule of the user keeps back is not told as instructions either, by whatever name it goes.
#[tokio::test]
async fn instructions_that_a_rule_keeps_back() {
    let files = [
        ("docs/real.md", "SECRET of the link.\n"),
        ("sub/AGENTS.md", "SECRET of sub.\n"),
        ("sub/f", "x\n"),
    ];
    let stage = Stage::new(&files).await;
    let workspace = stage.scene.place.workspace();
    symlink("docs/real.md", workspace.join("AGENTS.md")).unwrap();
    stage.scene.place.configure("AGENTS.md", "SECRET of the user.\n");
    let (ws, home) = (workspace.display().to_string(), stage.scene.place.bridle_home());
    let rules = format!(
        "[permissions]\ndeny = [\"read {ws}/docs/**\", \"read {}/AGENTS.md\"]\nask = [\"read {ws}/sub/AGENTS.md\"]\n",
        home.display()
    );
    stage.scene.place.configure("config.toml", rules);
    let mut stage = stage.resumed().await;
    stage.prompt("look at @sub/f").await;
    stage.check(expect![[r#"
        model claude-sonnet-5-5
        tools (those of the program)
        system (that of the program)
        user context environment
            Working directory: /ws
            Git repository: no
            Permission mode: ask
        user context /bridle-home/AGENTS.md (the user's own instructions)
            [/bridle-home/AGENTS.md was not read: the user's rule `deny read /bridle-home/AGENTS.md` keeps it back.]
        user context AGENTS.md
            [AGENTS.md was not read: the user's rule `deny read /ws/docs/**` keeps it back.]
        user context sub/AGENTS.md
            [sub/AGENTS.md was not read: the user's rule `ask read /ws/sub/AGENTS.md` keeps it back.]
        user context skills (those of the program)
        user context @sub/f
                 1	x
        user:
            look at @sub/f
    "#]]);
    let home = home.display().to_string();
    let told = stage.end().await.replace(&home, "/bridle-home").replace(&ws, "/ws");
    expect![[r#"
        *Warning: Instructions in /bridle-home/AGENTS.md: the user's rule `deny read /bridle-home/AGENTS.md` keeps it back*

        *Warning: Instructions in AGENTS.md: the user's rule `deny read /ws/docs/**` keeps it back*

        *Warning: Instructions in sub/AGENTS.md: the user's rule `ask read /ws/sub/AGENTS.md` keeps it back*

    "#]].assert_eq(&told);
}
