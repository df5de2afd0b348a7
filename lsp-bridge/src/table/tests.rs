//! The table in the binary, and what a user's rows make of it.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;

fn patch(text: &str) -> ServerPatch {
    toml::from_str(text).unwrap()
}

fn find(table: &ServerTable, name: &str) -> ServerDefinition {
    table.servers().into_iter().find(|it| it.name == name).unwrap()
}

#[test]
fn every_row_of_the_table_holds_together() {
    let table = ServerTable::parse(include_str!("../servers.toml")).unwrap();
    assert!(table.rows.len() >= 40, "{}", table.rows.len());
    let names: BTreeSet<_> = table.names().collect();
    assert_eq!(names.len(), table.rows.len(), "a name stands twice");
    for row in &table.rows {
        let name = &row.name;
        assert_eq!(row.check(), Ok(()), "{name}");
        assert!(!row.install.is_empty() && !row.source.is_empty(), "{name}");
        assert!(row.settings.is_object(), "{name}");
        assert!(row.initialization.is_object() || row.initialization.is_null(), "{name}");
        for (kind, language) in &row.files {
            assert!(kind.starts_with('.') || !kind.contains('*') || kind.contains('.'), "{name}");
            // Some servers answer nothing for a text without a language.
            assert_ne!(language, "plaintext", "{name}");
            assert_eq!(&language.to_lowercase(), language, "{name}: {language}");
        }
        if row.needs_marker {
            assert!(!row.workspace.is_empty() || !row.package.is_empty(), "{name}");
        }
        if let Some(section) = &row.section {
            assert!(row.settings[section].is_object(), "{name}");
        }
        if let Some(npm) = &row.npm {
            assert_eq!(npm.option.is_some(), npm.path.is_some(), "{name}");
        }
    }
    let commands: BTreeSet<_> = table.rows.iter().map(|row| &row.command).collect();
    assert_eq!(commands.len(), table.rows.len(), "one server stands there under two names");
}

#[test]
fn the_languages_that_a_model_meets_have_a_server() {
    let servers = ServerTable::built_in().servers();
    for (name, language) in [
        (".rs", "rust"),
        (".ts", "typescript"),
        (".tsx", "typescriptreact"),
        (".js", "javascript"),
        (".jsx", "javascriptreact"),
        (".py", "python"),
        (".c", "c"),
        (".cpp", "cpp"),
        (".go", "go"),
        (".java", "java"),
        (".kt", "kotlin"),
        (".cs", "csharp"),
        (".rb", "ruby"),
        (".php", "php"),
        (".swift", "swift"),
        (".sh", "shellscript"),
        (".lua", "lua"),
        (".ex", "elixir"),
        ("Dockerfile", "dockerfile"),
    ] {
        let of_kind = servers.iter().flat_map(|server| &server.files);
        let of_kind: Vec<_> = of_kind.filter(|kind| kind.name == name).collect();
        assert!(!of_kind.is_empty(), "{name}");
        assert!(of_kind.iter().all(|kind| kind.language == language), "{name}: {of_kind:?}");
    }
}

#[test]
fn the_settings_that_a_server_wants_at_its_start_are_sent_with_it() {
    let server = find(ServerTable::built_in(), "rust-analyzer");
    assert_eq!(server.initialization, server.settings["rust-analyzer"]);
    // Fault 39: otherwise a build of the model waits for the server's.
    assert_eq!(server.initialization["cargo"]["targetDir"], true);
    assert!(!find(ServerTable::built_in(), "pyright").cancels);
}

#[test]
fn a_user_says_differently_what_a_server_is() {
    let mut table = ServerTable::built_in().clone();
    let said = patch(
        r#"
        command = "/opt/ra"
        start_timeout_s = 5
        env = { RA_LOG = "info" }
        settings.rust-analyzer.cargo.features = "all"
        initialization.procMacro.enable = false
        "#,
    );
    table.patch("rust-analyzer", &said).unwrap();
    let (server, before) =
        (find(&table, "rust-analyzer"), find(ServerTable::built_in(), "rust-analyzer"));
    assert_eq!(server.command, ["/opt/ra"]);
    assert_eq!(server.start_limit, Duration::from_secs(5));
    assert_eq!(server.environment.pairs, [("RA_LOG".to_owned(), "info".to_owned())]);
    assert_eq!(server.settings["rust-analyzer"]["cargo"]["features"], "all");
    assert_eq!(
        server.settings["rust-analyzer"]["cargo"]["targetDir"], true,
        "what was there stays"
    );
    assert_eq!(server.initialization["cargo"]["features"], "all", "the section follows");
    assert_eq!(server.initialization["procMacro"], json!({"enable": false}));
    assert_eq!(server.files, before.files);
    // The arguments of a known server stay unless others are given.
    table.patch("ty", &patch("command = '/opt/ty'")).unwrap();
    assert_eq!(find(&table, "ty").command, ["/opt/ty", "server"]);
    table.patch("ty", &patch("args = ['lsp', '-v']")).unwrap();
    assert_eq!(find(&table, "ty").command, ["/opt/ty", "lsp", "-v"]);
    let place = |table: &ServerTable| table.names().position(|name| name == "ty");
    assert_eq!(place(&table), place(ServerTable::built_in()));
}

#[test]
fn a_new_server_goes_before_the_others_and_one_can_be_switched_off() {
    let mut table = ServerTable::built_in().clone();
    table.patch("mine", &patch("command = 'm'\nfiles = { '.py' = 'python' }")).unwrap();
    table.patch("ty", &patch("enabled = false")).unwrap();
    let servers = table.servers();
    assert_eq!(servers[0].name, "mine");
    assert_eq!(servers[0].start_limit, Duration::from_secs(30));
    assert!(servers.iter().all(|server| server.name != "ty"));
    assert_eq!(table.switched_off(), ["ty"]);
}

#[test]
fn who_names_the_program_or_the_package_is_not_asked_for_another() {
    let mut table = ServerTable::built_in().clone();
    let name = "typescript-language-server";
    table.patch(name, &patch("initialization.locale = 'de'")).unwrap();
    assert!(find(&table, name).package.is_some());
    table.patch(name, &patch("initialization.tsserver.path = '/ts/lib'")).unwrap();
    let server = find(&table, name);
    assert_eq!(server.package, None);
    assert_eq!(server.initialization["tsserver"]["path"], "/ts/lib");
    assert_eq!(server.initialization["maxTsServerMemory"], 3072);
    table.patch("typescript", &patch("command = '/opt/tsc'")).unwrap();
    assert_eq!(find(&table, "typescript").package, None);
}

#[test]
fn what_makes_no_server_is_refused_and_changes_nothing() {
    let mut table = ServerTable::built_in().clone();
    for (name, said, fault) in [
        ("mine", "command = 'm'", PatchError::Incomplete),
        ("mine", "files = { '.x' = 'x' }", PatchError::Incomplete),
        ("ty", "command = './ty'", PatchError::RelativeCommand),
        ("ty", "command = ''", PatchError::RelativeCommand),
        ("ty", "files = {}", PatchError::Files),
        ("ty", "files = { '.py' = '' }", PatchError::Files),
        ("ty", "files = { 'src/x' = 'python' }", PatchError::Files),
        ("ty", "package = ['../x']", PatchError::Marker("../x".to_owned())),
        ("ty", "workspace = ['/etc']", PatchError::Marker("/etc".to_owned())),
        ("ty", "workspace = ['*/x']", PatchError::Marker("*/x".to_owned())),
    ] {
        assert_eq!(table.patch(name, &patch(said)), Err(fault), "{said}");
    }
    assert_eq!(table.servers(), ServerTable::built_in().servers());
}

#[test]
fn variables_do_not_show_when_a_definition_is_printed() {
    let mut table = ServerTable::built_in().clone();
    table.patch("ty", &patch("env = { A_KEY = 's3cret' }")).unwrap();
    let printed = format!("{:?}", find(&table, "ty"));
    assert!(printed.contains("A_KEY") && !printed.contains("s3cret"), "{printed}");
}
