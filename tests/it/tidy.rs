//! Rules of the repository that no lint knows. Each failure says what to do instead. Sizes are
//! printed, not judged: `cargo test -p bridle-tests tidy -- --show-output`.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::MetadataCommand;

use crate::repository::{Tracked, root, text, tracked};

/// No tracked file may be larger.
const MAX_BYTES: usize = 200 << 10;

/// The only edges between our crates. Design: architecture, Map.
const EDGES: [(&str, &[&str]); 14] = [
    ("bridle-session", &[]),
    ("bridle-compose", &[]),
    ("bridle-world", &["bridle-compose"]),
    ("bridle-store", &["bridle-session", "bridle-compose"]),
    ("bridle-model", &["bridle-session", "bridle-compose"]),
    (
        "bridle-agent",
        &["bridle-store", "bridle-model", "bridle-world", "bridle-compose", "bridle-session"],
    ),
    (
        "bridle-toolkit",
        &[
            "bridle-agent",
            "bridle-store",
            "bridle-world",
            "bridle-model",
            "bridle-compose",
            "bridle-session",
        ],
    ),
    (
        "bridle-lsp",
        &[
            "bridle-agent",
            "bridle-store",
            "bridle-world",
            "bridle-model",
            "bridle-compose",
            "bridle-session",
        ],
    ),
    (
        "bridle-mcp",
        &[
            "bridle-agent",
            "bridle-store",
            "bridle-world",
            "bridle-model",
            "bridle-compose",
            "bridle-session",
        ],
    ),
    (
        "bridle",
        &[
            "bridle-agent",
            "bridle-compose",
            "bridle-lsp",
            "bridle-mcp",
            "bridle-model",
            "bridle-model-server",
            "bridle-session",
            "bridle-store",
            "bridle-toolkit",
            "bridle-world",
        ],
    ),
    (
        "bridle-tests",
        &[
            "bridle",
            "bridle-lsp",
            "bridle-model-server",
            "bridle-session",
            "bridle-store",
            "bridle-toolkit",
        ],
    ),
    (
        "bridle-fuzz",
        &["bridle", "bridle-model", "bridle-session", "bridle-store", "bridle-toolkit"],
    ),
    (
        "bridle-benches",
        &[
            "bridle",
            "bridle-agent",
            "bridle-compose",
            "bridle-model",
            "bridle-session",
            "bridle-store",
            "bridle-toolkit",
            "bridle-world",
        ],
    ),
    ("bridle-model-server", &[]),
];

/// Wire crates and the packages that may use each: the one that speaks it, and the one that holds
/// what is said against its schema.
const WIRES: [(&str, &[&str]); 2] =
    [("agent-client-protocol", &["bridle", "bridle-tests"]), ("rmcp", &["bridle-mcp"])];

/// The only dev-dependencies that go up: scripted models, and the protocol's schemas.
const TEST_SUPPORT: [&str; 2] = ["bridle-model-server", "bridle-tests"];

#[test]
fn crates_depend_only_downwards() {
    let metadata = MetadataCommand::new().no_deps().current_dir(root()).exec().unwrap();
    let table: BTreeMap<&str, &[&str]> = EDGES.into_iter().collect();
    let mut wrong = Vec::new();
    for package in &metadata.packages {
        let name = package.name.as_str();
        let Some(allowed) = table.get(name) else {
            wrong.push(format!("{name} is new: add its edges to EDGES and to ARCHITECTURE.md"));
            continue;
        };
        for dependency in &package.dependencies {
            let on = dependency.name.as_str();
            let is_dev = dependency.kind == cargo_metadata::DependencyKind::Development;
            let is_ours = table.contains_key(on);
            if is_ours
                && !allowed.contains(&on)
                && on != name
                && !(is_dev && TEST_SUPPORT.contains(&on))
            {
                wrong.push(format!("{name} -> {on} points the wrong way: move what you need down"));
            }
            if let Some((_, owners)) = WIRES.iter().find(|(wire, _)| *wire == on)
                && !owners.contains(&name)
            {
                wrong.push(format!("{name} -> {on}: only {owners:?} may know that wire"));
            }
        }
    }
    report(wrong);
}

#[test]
fn every_dependency_has_its_line() {
    let manifest: toml::Table = toml::from_str(&text("Cargo.toml").unwrap()).unwrap();
    let used = manifest["workspace"]["dependencies"].as_table().unwrap();
    let used: BTreeSet<&str> =
        used.keys().map(String::as_str).filter(|name| !name.starts_with("bridle")).collect();
    let page = text("docs/dependencies.md").unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let rows: BTreeSet<&str> = rows.filter(|name| *name != "crate").collect();
    let missing = used.difference(&rows).map(|name| format!("docs/dependencies.md lacks {name}"));
    let stale = rows.difference(&used).map(|name| format!("docs/dependencies.md: drop {name}"));
    report(missing.chain(stale).collect());
}

#[test]
fn files_follow_the_house_style() {
    let mut wrong = Vec::new();
    for file in tracked() {
        wrong.extend(faults_of(&file));
    }
    report(wrong);
}

fn faults_of(file: &Tracked) -> Vec<String> {
    // Spelled apart, so that this file does not find itself.
    let unfinished = [concat!("FIX", "ME"), concat!("#[ig", "nore"), concat!("TO", "DO:")];
    let path = &file.path;
    let mut wrong = Vec::new();
    if file.bytes.len() > MAX_BYTES {
        wrong.push(format!("{path}: larger than {MAX_BYTES} bytes: generate it, or keep it out"));
    }
    let Some(text) = file.text() else { return wrong };
    for (number, line) in text.lines().enumerate() {
        let at = format!("{path}:{}", number + 1);
        if line.ends_with([' ', '\t']) && !path.contains("/fixtures/") {
            wrong.push(format!("{at}: trailing space: remove it"));
        }
        if unfinished.iter().any(|word| line.contains(word)) {
            wrong.push(format!("{at}: unfinished: finish it or open an issue"));
        }
        let waits = [concat!("thread::", "sleep"), concat!("time::", "sleep(")];
        if is_test(path) && waits.iter().any(|word| line.contains(word)) {
            wrong.push(format!("{at}: tests do not wait for time: use a barrier"));
        }
    }
    if file.is_rust() {
        wrong.extend(faults_of_source(path, text));
    }
    wrong
}

fn faults_of_source(path: &str, text: &str) -> Vec<String> {
    const BANNED: [&str; 9] =
        ["mod", "util", "utils", "common", "helpers", "misc", "manager", "types", "base"];
    let mut wrong = Vec::new();
    let name = path.rsplit('/').next().and_then(|name| name.strip_suffix(".rs")).unwrap_or(path);
    if BANNED.contains(&name) || name.ends_with("_v2") {
        wrong.push(format!("{path}: the name says nothing: name it after what it holds"));
    }
    // A fuzz target begins with the attribute that makes it one.
    let text = text.strip_prefix("#![no_main]\n").unwrap_or(text);
    if !text.starts_with("//! ") {
        wrong.push(format!("{path}: no `//!` header: say what it is and what it refuses to do"));
    }
    wrong
}

/// Where processes start, and why there.
const STARTERS: [(&str, &str); 4] = [
    ("core/world/src/process/launcher.rs", "the launcher of each command's supervisor"),
    ("core/world/src/process/credential.rs", "the user's own, which may leave an agent behind"),
    ("core/world/src/sandbox/start.rs", "the command, as the supervisor's child"),
    ("acp-server/src/commands/demo/server.rs", "an agent, as an editor starts it"),
];

/// Whatever starts a process anywhere else is not ended with its session.
#[test]
fn processes_start_under_the_supervisor() {
    // Spelled apart, so that this file does not find itself.
    let ways = [
        concat!(" Command::", "new("),
        concat!(":Command::", "new("),
        concat!("(Command::", "new("),
        concat!("StdCommand::", "new("),
        concat!("posix_", "spawn"),
        concat!("exec", "ve("),
    ];
    let mut wrong = Vec::new();
    let mut found = BTreeSet::new();
    let is_product = |path: &str| !is_test(path) && !path.starts_with("benches/");
    for file in tracked().into_iter().filter(|file| file.is_rust() && is_product(&file.path)) {
        let Some(text) = file.text() else { continue };
        let starts = text.lines().any(|line| ways.iter().any(|way| line.contains(way)));
        match STARTERS.iter().find(|(path, _)| *path == file.path) {
            Some((path, _)) if starts => drop(found.insert(*path)),
            None if starts => wrong.push(format!(
                "{}: starts a process: use bridle_world::process, which ends it with its session",
                file.path
            )),
            _ => {}
        }
    }
    let stale = STARTERS.iter().filter(|(path, _)| !found.contains(path));
    wrong.extend(stale.map(|(path, _)| format!("{path} starts nothing: drop its row of STARTERS")));
    report(wrong);
}

fn is_test(path: &str) -> bool {
    path.ends_with(".rs")
        && (path.contains("/tests/") || path.starts_with("tests/") || path.ends_with("/tests.rs"))
}

/// What the agent answers is in the README's method table, and the other way round.
#[tokio::test]
async fn the_readmes_method_table_is_what_the_agent_answers() {
    const KNOWN: [&str; 16] = [
        "initialize",
        "authenticate",
        "logout",
        "session/new",
        "session/load",
        "session/resume",
        "session/list",
        "session/close",
        "session/delete",
        "session/fork",
        "session/prompt",
        "session/set_mode",
        "session/set_model",
        "session/set_config_option",
        "providers/list",
        "_session/steering",
    ];
    let readme = text("README.md").unwrap();
    let place = bridle_tests::Place::new();
    let mut client = bridle_tests::Client::ready(&place.launch(["acp"])).await;
    let mut wrong = Vec::new();
    for method in KNOWN {
        let reply = client.request(method, serde_json::json!({"protocolVersion": 1})).await;
        let has_row = readme.contains(&format!("| `{method}` |"));
        if reply.is_unknown_method() == has_row {
            wrong.push(format!("README.md: `{method}` has a row: {has_row}, the agent differs"));
        }
    }
    client.finish(&place).await;
    report(wrong);
}

/// Prints what a reviewer may want to look at.
#[test]
fn sizes_are_printed() {
    let files = tracked();
    let sources: Vec<(&str, &str)> = files
        .iter()
        .filter(|file| file.is_rust())
        .filter_map(|file| Some((file.path.as_str(), file.text()?)))
        .collect();
    let mut sizes: Vec<_> =
        sources.iter().map(|(path, text)| (text.lines().count(), *path)).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    println!("lines of Rust: {}", sizes.iter().map(|(lines, _)| lines).sum::<usize>());
    println!("largest files:");
    sizes.iter().take(10).for_each(|(lines, path)| println!("  {lines:5}  {path}"));
    let mut functions: Vec<(usize, String)> =
        sources.iter().flat_map(|(path, text)| functions(path, text)).collect();
    functions.sort_unstable_by(|a, b| b.cmp(a));
    println!("longest functions:");
    functions.iter().take(10).for_each(|(lines, name)| println!("  {lines:5}  {name}"));
    assert!(!sizes.is_empty());
}

/// Functions with their number of lines, by indentation, which rustfmt guarantees.
fn functions(path: &str, text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        let is_function =
            code.starts_with("fn ") || code.contains(" fn ") && !code.starts_with("//");
        if !is_function || code.ends_with(';') {
            continue;
        }
        let end = format!("{}}}", " ".repeat(indent));
        if let Some(length) = lines[start..].iter().position(|line| *line == end) {
            let name = code.split('(').next().unwrap_or(code);
            found.push((length + 1, format!("{path}:{} {name}", start + 1)));
        }
    }
    found
}

fn report(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
