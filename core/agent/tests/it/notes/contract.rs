//! What holds of the rows of the notes, whichever provider is mounted.

use std::fmt::Write as _;
use std::path::Path;

use bridle_agent::{
    Grant, Progress, PromptSection, Tool, ToolContext, ToolFailure, read_arguments,
};
use bridle_compose::{Plugins, Row, RowState, Scope, TaskSet};
use expect_test::expect;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::store::{FileNotes, MemoryNotes};
use super::tools::NoteTools;
use crate::rig::flat;

fn scope() -> Scope {
    let plugins = Plugins::new().with(MemoryNotes).with(FileNotes).with(NoteTools);
    Scope::root("process", plugins, TaskSet::new())
}

pub(super) fn some_notes() -> Value {
    json!([
        { "id": "session", "text": "A session is a log of events. Failed attempts stay in it." },
        { "id": "scope-2", "text": "Scopes hold services." },
    ])
}

pub(super) fn memory(notes: &Value) -> Row {
    Row::new("memory-notes").with(json!({ "notes": notes }))
}

fn file(path: &Path) -> Row {
    Row::new("file-notes").with(json!({ "path": path }))
}

pub(super) fn consumer() -> Row {
    Row::new("note-tools").with(json!({ "preview_chars": 24 }))
}

/// Both kinds of provider with the same notes; the file lives as long as the folder.
pub(super) fn providers(notes: &Value) -> (tempfile::TempDir, [Row; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.json");
    fs_err::write(&path, notes.to_string()).unwrap();
    (folder, [memory(notes), file(&path)])
}

/// What a model would be given: each tool and each section, one a line.
fn offered(scope: &Scope) -> String {
    let mut text = String::new();
    for tool in scope.all::<dyn Tool>() {
        writeln!(text, "{} {}", tool.spec().name, tool.spec().input_schema).unwrap();
    }
    for section in scope.all::<PromptSection>() {
        writeln!(text, "{}", section.text).unwrap();
    }
    text
}

async fn call(scope: &Scope, name: &str, arguments: Value) -> Result<(Value, String), ToolFailure> {
    let tools = scope.all::<dyn Tool>();
    let tool = tools.iter().find(|tool| tool.spec().name == name).unwrap();
    let context = ToolContext {
        token: CancellationToken::new(),
        progress: Progress::none(),
        observed: bridle_agent::Observed::default(),
    };
    let arguments = read_arguments(tool.spec(), &arguments.to_string())?;
    let planned = tool.plan(arguments, &context).await?;
    let outcome = planned.run(Grant::for_tests(), context).await?;
    let content = tool.render(&outcome.value);
    Ok((outcome.value, flat(&content)))
}

async fn reason(row: Row) -> String {
    let scope = scope();
    scope.mount(vec![row]).await;
    match scope.rows().await.remove(0).state {
        RowState::Failed(reason) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_search_shows_how_notes_begin_and_a_read_gives_the_text() {
    let (_folder, providers) = providers(&some_notes());
    for provider in providers {
        let scope = scope();
        scope.mount(vec![provider, consumer()]).await;
        let (value, text) =
            call(&scope, "search_notes", json!({ "query": "sEssion" })).await.unwrap();
        let preview = "A session is a log of ev";
        assert_eq!(value, json!({ "matches": [{ "id": "session", "preview": preview }] }));
        assert_eq!(text, value.to_string());
        let (value, text) = call(&scope, "read_note", json!({ "id": "session" })).await.unwrap();
        assert_eq!(value["text"], some_notes()[0]["text"]);
        assert_eq!(text, "[session] A session is a log of events. Failed attempts stay in it.");
    }
}

#[tokio::test]
async fn arguments_fail_at_the_schema_at_the_rule_or_at_the_notes() {
    let scope = scope();
    scope.mount(vec![memory(&some_notes()), consumer()]).await;
    let mut said = String::new();
    for arguments in
        [json!({}), json!({ "id": 42 }), json!({ "id": "../private" }), json!({ "id": "absent" })]
    {
        let failure = call(&scope, "read_note", arguments).await.unwrap_err();
        writeln!(said, "{:?}: {failure}", failure.code).unwrap();
    }
    expect![[r#"
        BadArguments: The arguments of `read_note` do not fit as a whole: the property `id` is missing. Nothing was done.
        BadArguments: The arguments of `read_note` do not fit at `id`: expected a string, found the number 42. Nothing was done.
        BadArguments: "../private" is no id of a note
        Failed: There is no note "absent".
    "#]]
    .assert_eq(&said);
}

#[tokio::test]
async fn another_provider_changes_nothing_that_a_model_is_offered() {
    let (_folder, [memory, file]) = providers(&some_notes());
    let scope = scope();
    scope.mount(vec![memory, consumer()]).await;
    let before = offered(&scope);
    expect![[r#"
        search_notes {"$schema":"https://json-schema.org/draft/2020-12/schema","title":"SearchNotes","description":"Shows which notes contain a text.","type":"object","properties":{"query":{"description":"The text to look for.","type":"string"}},"additionalProperties":false,"required":["query"]}
        read_note {"$schema":"https://json-schema.org/draft/2020-12/schema","title":"ReadNote","description":"Gives the text of one note.","type":"object","properties":{"id":{"description":"The note's id.","type":"string"}},"additionalProperties":false,"required":["id"]}
        Notes: find candidates with `search_notes`, then rely only on what `read_note` gives, and name its id as [id].
    "#]].assert_eq(&before);
    scope.unmount("memory-notes").await;
    scope.mount(vec![file]).await;
    assert_eq!(offered(&scope), before);
}

#[tokio::test]
async fn tools_and_section_go_with_the_provider_and_come_back_with_its_next_data() {
    let scope = scope();
    scope.mount(vec![consumer(), memory(&some_notes())]).await;
    let before = offered(&scope);
    scope.unmount("memory-notes").await;
    assert_eq!(offered(&scope), "");
    let RowState::Pending(missing) = &scope.rows().await[0].state else { panic!("not pending") };
    assert_eq!(format!("{missing:?}"), "[NoteStore]");

    let changed = json!([{ "id": "session", "text": "Rewritten." }]);
    scope.mount(vec![memory(&changed)]).await;
    assert_eq!(offered(&scope), before);
    let read = |scope: &Scope| {
        let scope = scope.clone();
        async move { call(&scope, "read_note", json!({ "id": "session" })).await.unwrap().1 }
    };
    assert_eq!(read(&scope).await, "[session] Rewritten.");
    // A row in the place of another: the consumer moves over by itself.
    scope.mount(vec![memory(&some_notes())]).await;
    assert!(read(&scope).await.starts_with("[session] A session is"));
}

#[tokio::test]
async fn a_file_is_read_once() {
    let (folder, [_, file]) = providers(&some_notes());
    let scope = scope();
    scope.mount(vec![file, consumer()]).await;
    fs_err::remove_file(folder.path().join("notes.json")).unwrap();
    call(&scope, "read_note", json!({ "id": "scope-2" })).await.unwrap();
}

#[tokio::test]
async fn a_second_provider_is_refused_and_the_first_stays() {
    let (_folder, [memory, file]) = providers(&some_notes());
    let scope = scope();
    scope.mount(vec![memory, consumer(), file]).await;
    let state = scope.rows().await.remove(2).state;
    assert_eq!(state, RowState::Failed("process already has a provider of NoteStore".to_owned()));
    call(&scope, "read_note", json!({ "id": "session" })).await.unwrap();
}

#[tokio::test]
async fn bad_notes_are_refused_before_anybody_sees_them() {
    let note = |id: &str, text: &str| json!({ "id": id, "text": text });
    let many: Vec<Value> = (0..101).map(|n| note(&format!("n{n}"), "")).collect();
    let cases = [
        json!(many),
        json!([note("Session", "")]),
        json!([note(&"x".repeat(65), "")]),
        json!([note("", "")]),
        json!([note("long", &"ä".repeat(8193))]),
        json!([note("a", "one"), note("a", "two")]),
        json!([{ "id": "a", "text": "b", "colour": "red" }]),
        json!({ "id": "a" }),
    ];
    let mut said = String::new();
    for notes in cases {
        let (folder, [memory, file]) = providers(&notes);
        writeln!(said, "{}", reason(memory).await).unwrap();
        let reason = reason(file).await.replace(folder.path().to_str().unwrap(), "/folder");
        writeln!(said, "    {reason}").unwrap();
    }
    expect![[r#"
        there are 101 notes; the limit is 100
            /folder/notes.json: there are 101 notes; the limit is 100
        "Session" is no id: 1 to 64 lower-case letters, digits and hyphens
            /folder/notes.json: "Session" is no id: 1 to 64 lower-case letters, digits and hyphens
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" is no id: 1 to 64 lower-case letters, digits and hyphens
            /folder/notes.json: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" is no id: 1 to 64 lower-case letters, digits and hyphens
        "" is no id: 1 to 64 lower-case letters, digits and hyphens
            /folder/notes.json: "" is no id: 1 to 64 lower-case letters, digits and hyphens
        "long" has 8193 characters; the limit is 8192
            /folder/notes.json: "long" has 8193 characters; the limit is 8192
        "a" is there twice
            /folder/notes.json: "a" is there twice
        config: unknown field `colour`, expected `id` or `text`
            /folder/notes.json: unknown field `colour`, expected `id` or `text` at line 1 column 30
        config: invalid type: map, expected a sequence
            /folder/notes.json: invalid type: map, expected a sequence at line 1 column 0
    "#]].assert_eq(&said);

    let mut most: Vec<Value> = (1..100).map(|n| note(&format!("n{n}"), "x")).collect();
    most.push(note(&"x".repeat(64), &"ä".repeat(8192)));
    let (_folder, providers) = providers(&json!(most));
    for provider in providers {
        let scope = scope();
        scope.mount(vec![provider]).await;
        assert_eq!(scope.rows().await[0].state, RowState::Active);
    }
}

#[tokio::test]
async fn what_is_no_file_of_notes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs_err::write(at("cut"), "[{\"id\":").unwrap();
    fs_err::write(at("large"), " ".repeat(1024 * 1024 + 1)).unwrap();
    std::os::unix::fs::symlink("cut", at("link")).unwrap();
    let mut said = String::new();
    for name in ["absent", "", "link", "cut", "large"] {
        let reason = reason(file(&at(name))).await;
        writeln!(said, "{}", reason.replace(folder.path().to_str().unwrap(), "/folder")).unwrap();
    }
    writeln!(said, "{}", reason(Row::new("file-notes")).await).unwrap();
    let both = json!({ "path": "x", "notes": [] });
    writeln!(said, "{}", reason(Row::new("file-notes").with(both)).await).unwrap();
    expect![[r#"
        failed to query raw metadata `/folder/absent`: No such file or directory (os error 2)
        /folder/ is not a regular file
        /folder/link is not a regular file
        /folder/cut: EOF while parsing a value at line 1 column 7
        /folder/large is larger than 1048576 bytes
        config: missing field `path`
        config: unknown field `notes`, expected `path`
    "#]]
    .assert_eq(&said);
}
