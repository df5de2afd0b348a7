//! The list of known faults: every id has a test that exists, or an open issue.

use std::collections::{BTreeMap, BTreeSet};

use crate::repository::{text, tracked};

#[test]
fn every_known_fault_has_a_test_or_an_issue() {
    let ids = text("tests/fault-ids.txt").unwrap();
    let ids: BTreeSet<&str> = ids.lines().filter(|line| !line.starts_with('#')).collect();
    let page = text("tests/faults.md").unwrap();
    let rows: BTreeMap<&str, &str> = page.lines().filter_map(row).collect();
    let known: BTreeSet<&str> = rows.keys().copied().collect();
    let functions = test_functions();
    let mut wrong: Vec<String> =
        ids.difference(&known).map(|id| format!("tests/faults.md lacks {id}")).collect();
    wrong.extend(known.difference(&ids).map(|id| format!("{id} is in no list of faults")));
    for (id, place) in rows {
        let names: Vec<&str> = place.split('`').skip(1).step_by(2).collect();
        let is_open = place.contains("open: issue ");
        if names.is_empty() && !is_open {
            wrong.push(format!("{id}: neither a test nor `open: issue n`"));
        }
        let name_of = |path: &str| path.rsplit("::").next().unwrap_or_default().to_owned();
        let missing = names.iter().filter(|name| !functions.contains(&name_of(name)));
        wrong.extend(missing.map(|name| format!("{id}: there is no test `{name}`")));
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The table of windows in `tests/README.md` names tests that exist.
#[test]
fn every_window_of_a_turn_has_its_tests() {
    let page = text("tests/README.md").unwrap();
    let (_, table) = page.split_once("## Windows of a turn").unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let functions = test_functions();
    let mut wrong = Vec::new();
    for row in &rows {
        let names: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            wrong.push(format!("no test: {row}"));
        }
        let missing = names
            .iter()
            .filter(|name| !functions.contains(name.rsplit("::").next().unwrap_or_default()));
        wrong.extend(missing.map(|name| format!("there is no test `{name}`")));
    }
    assert!(rows.len() > 20 && wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The table of what clients differ in has a row for each difference that the agent makes, with
/// tests that exist; nothing else of the agent looks at what a client said of itself.
#[test]
fn every_difference_between_clients_has_its_tests() {
    const TABLE: &str = "acp-server/src/acp/clients.rs";
    let code = text(TABLE).unwrap();
    let (_, fields) = code.split_once("struct ClientTraits {").unwrap();
    let (fields, _) = fields.split_once("\n}").unwrap();
    let fields = fields.lines().filter_map(|line| line.trim().strip_prefix("pub(super) "));
    let fields: BTreeSet<&str> = fields.filter_map(|line| line.split(':').next()).collect();
    let page = text("tests/README.md").unwrap();
    let (_, table) = page.split_once("## What clients differ in").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap_or((table, ""));
    let rows: Vec<Vec<&str>> =
        table.lines().filter(|line| line.starts_with("| `")).map(quoted).collect();
    let known: BTreeSet<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(fields, known, "the fields of {TABLE} and the rows of tests/README.md");
    let functions = test_functions();
    let last = |name: &str| name.rsplit("::").next().unwrap_or_default().to_owned();
    for row in rows {
        let tests: Vec<_> = row[1..].iter().filter(|name| name.contains("::")).collect();
        assert!(tests.len() > 1, "{}: a test with it and one without", row[0]);
        let missing = tests.iter().find(|name| !functions.contains(&last(name)));
        assert_eq!(missing, None, "there is no such test");
    }
    for file in tracked().iter().filter(|file| file.path.starts_with("acp-server/src/acp")) {
        let looks = file.text().unwrap_or_default();
        let looks = looks.contains(".client_info") || looks.contains(".client_capabilities");
        assert!(!looks || file.path == TABLE, "{} looks at the client itself", file.path);
    }
}

/// What stands between backquotes.
fn quoted(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// What the page of the sandbox says that it is shown by.
#[test]
fn every_test_and_try_that_the_page_of_the_sandbox_names_exists() {
    let page = text("docs/sandbox.md").unwrap();
    let functions = test_functions();
    let tries = text("core/world/tests/it/confined/escapes.rs").unwrap();
    let is_name = |name: &&str| {
        let plain = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == ':';
        name.matches('_').count() > 1 && name.chars().all(plain)
    };
    let names: Vec<&str> = page.split('`').skip(1).step_by(2).filter(is_name).collect();
    let last = |name: &str| name.rsplit("::").next().unwrap_or_default().to_owned();
    let mut wrong: Vec<&str> =
        names.iter().copied().filter(|name| !functions.contains(&last(name))).collect();
    // `"network"` is what is told.
    let quoted = page.split('"').skip(1).step_by(2).filter(|name| *name != "network");
    let quoted: Vec<&str> = quoted.collect();
    wrong.extend(quoted.iter().filter(|name| !tries.contains(&format!("\"{name}\""))));
    assert!(names.len() > 20 && quoted.len() > 20 && wrong.is_empty(), "{wrong:#?}");
}

/// Each point of that page says what shows it, but for what no test can bring about at will.
#[test]
fn every_point_of_the_page_of_the_sandbox_names_what_shows_it() {
    const UNSHOWN: [&str; 1] = ["When Bridle itself is killed"];
    let page = text("docs/sandbox.md").unwrap();
    let mut points = Vec::<String>::new();
    let mut is_open = false;
    for line in page.lines() {
        match line.strip_prefix("- ") {
            Some(first) => points.push(first.to_owned()),
            None if is_open && line.starts_with("  ") => {
                points.last_mut().unwrap().push_str(line.trim_start());
            }
            None => {}
        }
        is_open = line.starts_with("- ") || (is_open && line.starts_with("  "));
    }
    let functions = test_functions();
    let shows = |point: &str| {
        let mut parts = point.split('`').skip(1).step_by(2);
        let is_test = |name: &str| {
            functions.contains(name.rsplit("::").next().unwrap_or_default())
                || name.starts_with("sandbox/")
        };
        // A name in quotes is a try.
        parts.any(is_test) || point.split('"').skip(1).step_by(2).any(|name| name != "network")
    };
    let is_unshown = |point: &str| UNSHOWN.iter().any(|it| point.starts_with(it));
    let (unshown, rest): (Vec<_>, Vec<_>) = points.iter().partition(|point| is_unshown(point));
    let wrong: Vec<_> = rest.iter().filter(|point| !shows(point)).collect();
    assert!(points.len() > 30 && unshown.len() == UNSHOWN.len() && wrong.is_empty(), "{wrong:#?}");
}

/// `| B001 | symptom | tests |` as id and tests.
fn row(line: &str) -> Option<(&str, &str)> {
    let (id, rest) = line.strip_prefix("| ")?.split_once(" | ")?;
    let (_, tests) = rest.rsplit_once(" | ")?;
    let is_id = id.len() > 1 && id.ends_with(|last: char| last.is_ascii_digit());
    is_id.then_some((id, tests))
}

/// The names of all functions under `#[test]` or `#[tokio::test]`.
fn test_functions() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in tracked().iter().filter(|file| file.is_rust()) {
        let mut is_test = false;
        for line in file.text().unwrap_or_default().lines().map(str::trim_start) {
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                is_test = true;
            } else if let Some((_, name)) = line.split_once("fn ").filter(|_| is_test) {
                let name = name.split(|next: char| !next.is_alphanumeric() && next != '_').next();
                found.extend(name.map(str::to_owned));
                is_test = false;
            }
        }
    }
    found
}
