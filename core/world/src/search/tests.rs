//! Both searches over real folders.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio_util::sync::CancellationToken;

use super::*;

struct Tree {
    _dir: tempfile::TempDir,
    base: PathBuf,
}

fn tree(files: &[(&str, &str)]) -> Tree {
    let dir = tempfile::tempdir().unwrap();
    let base = fs_err::canonicalize(dir.path()).unwrap();
    for (path, text) in files {
        let path = base.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }
    Tree { _dir: dir, base }
}

fn query<'a>(place: &'a Path, pattern: &'a str) -> ContentQuery<'a> {
    let pattern = Pattern::Regex(pattern);
    ContentQuery { place, excluded: &[], pattern, globs: &[], context: 0, limit: 100 }
}

fn content(query: &ContentQuery<'_>) -> ContentFound {
    search_content(query, &CancellationToken::new()).unwrap()
}

fn shown(found: &ContentFound, base: &Path) -> Vec<String> {
    let show = |hit: &Hit| {
        format!("{}:{}:{}", hit.path.strip_prefix(base).unwrap().display(), hit.line, hit.text)
    };
    found.hits.iter().map(show).collect()
}

fn names(tree: &Tree, glob: &str) -> Vec<String> {
    let query = NamesQuery { folder: &tree.base, excluded: &[], glob, limit: 100 };
    let found = search_names(&query, &CancellationToken::new()).unwrap();
    let relative =
        |path: &PathBuf| path.strip_prefix(&tree.base).unwrap().to_string_lossy().into_owned();
    found.paths.iter().map(relative).collect()
}

#[test]
fn hits_are_sorted_and_ignore_files_are_obeyed() {
    let tree = tree(&[
        ("b.txt", "one\r\nneedle b\r\n"),
        ("a/x.rs", "needle a"),
        (".hidden", "needle h"),
        (".gitignore", "target/\n"),
        ("target/out", "needle t"),
        (".git/config", "needle g"),
        ("bin", "needle\0"),
    ]);
    let found = content(&query(&tree.base, "needle"));
    let expected = [".hidden:1:needle h", "a/x.rs:1:needle a", "b.txt:2:needle b"];
    assert_eq!(shown(&found, &tree.base), expected);
    assert_eq!((found.total, found.at_least), (3, false));
    let globs = ["*.rs".to_owned()];
    let rust = ContentQuery { globs: &globs, ..query(&tree.base, "needle") };
    assert_eq!(shown(&content(&rust), &tree.base), ["a/x.rs:1:needle a"]);
    let one = ContentQuery { limit: 1, ..query(&tree.base, "needle") };
    assert_eq!((content(&one).hits.len(), content(&one).total), (1, 3));
    // What is asked for by name is searched although it is ignored.
    let target = tree.base.join("target");
    assert_eq!(content(&query(&target, "needle")).total, 1);
    let file = tree.base.join("b.txt");
    assert_eq!(content(&query(&file, "needle")).total, 1);
}

#[test]
fn links_special_files_and_excluded_folders_are_passed_over() {
    let outside = tree(&[("secret", "needle")]);
    let tree = tree(&[("ws/file", "needle"), ("ws/state/log", "needle")]);
    let ws = tree.base.join("ws");
    symlink(outside.base.join("secret"), ws.join("link")).unwrap();
    symlink(&outside.base, ws.join("folder")).unwrap();
    for fifo in ["fifo", ".gitignore", ".ignore"] {
        mknodat(CWD, ws.join(fifo), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }
    let excluded = [ws.join("state")];
    let found = content(&ContentQuery { excluded: &excluded, ..query(&ws, "needle") });
    assert_eq!(shown(&found, &ws), ["file:1:needle"]);
}

#[test]
fn lines_beside_a_match_and_literal_texts() {
    let tree = tree(&[("a", "one\nf(x)\nthree\nfour\nf(x) f(x)\n"), ("b", "f(x)")]);
    let literal = ContentQuery { pattern: Pattern::Literal("f(x)"), ..query(&tree.base, "") };
    let found = content(&ContentQuery { context: 1, ..literal.clone() });
    let lines: Vec<_> = found.hits.iter().map(|hit| (hit.line, hit.matches)).collect();
    let all = [(1, false), (2, true), (3, false), (4, false), (5, true), (1, true)];
    assert_eq!((lines.as_slice(), found.shown, found.total), (&all[..], 3, 3));
    let found = content(&ContentQuery { context: 1, limit: 1, ..literal });
    assert_eq!((found.hits.len(), found.shown, found.total), (4, 1, 3));
}

#[test]
fn a_search_stops_at_its_limit_and_says_so() {
    let text = "needle\n".repeat(MAX_COLLECTED + 1);
    let tree = tree(&[("many", &text)]);
    let found = content(&query(&tree.base, "needle"));
    assert_eq!((found.hits.len(), found.total, found.at_least), (100, MAX_COLLECTED, true));
}

/// A folder in which the walk takes too long yields what was found until then.
#[test]
fn a_walk_ends_in_time_and_says_so() {
    use std::time::Duration;

    let tree = tree(&[("a", ""), ("b/c", "")]);
    let walked = |time| {
        let token = CancellationToken::new();
        let found = walk::walk(&tree.base, &[], &token, time, |_, found| {
            found.add(());
        });
        found.map(|found| (found.items.len(), found.stopped)).unwrap()
    };
    assert_eq!(walked(Duration::ZERO), (0, true));
    assert_eq!(walked(Duration::from_secs(600)), (2, false));
}

#[test]
fn large_files_are_counted_not_searched() {
    let tree = tree(&[("small", "needle")]);
    let large = fs_err::File::create(tree.base.join("large")).unwrap();
    large.set_len(20_000_000_000).unwrap();
    let found = content(&query(&tree.base, "needle"));
    assert_eq!((found.total, found.too_large), (1, 1));
}

#[test]
fn a_long_line_is_cut_around_the_match_between_characters() {
    let line = format!("{}needle{}", "ä".repeat(1000), "😀".repeat(1000));
    let tree = tree(&[("min.js", &line)]);
    let hit = content(&query(&tree.base, "needle")).hits.remove(0);
    assert!(hit.text.contains("needle") && hit.text.starts_with('…') && hit.text.ends_with('…'));
    assert_eq!(hit.text.chars().count(), 302);
}

#[test]
fn bad_patterns_and_cancelled_searches_are_errors() {
    let tree = tree(&[("a", "needle")]);
    let error = |query: &ContentQuery<'_>, token: &CancellationToken| {
        search_content(query, token).unwrap_err()
    };
    let token = CancellationToken::new();
    assert!(matches!(error(&query(&tree.base, "("), &token), SearchError::Pattern(_)));
    assert!(matches!(error(&query(&tree.base, r"a\nb"), &token), SearchError::Pattern(_)));
    for glob in ["[", "!["] {
        let globs = [glob.to_owned()];
        let query = ContentQuery { globs: &globs, ..query(&tree.base, "x") };
        assert!(matches!(error(&query, &token), SearchError::Glob(_)));
    }
    token.cancel();
    assert!(matches!(error(&query(&tree.base, "needle"), &token), SearchError::Cancelled));
}

/// One thread flips a folder between itself and a link to the outside; names and lines of the
/// outside are never told.
#[test]
fn a_racing_link_leads_no_search_outside() {
    use std::sync::atomic::{AtomicBool, Ordering};

    const SEARCHES: usize = 150;
    let tree =
        tree(&[("at/inside", "needle"), ("ws/other", "needle"), ("outside/secret", "needle")]);
    let (at, link) = (tree.base.join("ws/at"), tree.base.join("ws/link"));
    fs_err::rename(tree.base.join("at"), &at).unwrap();
    symlink("../outside", &link).unwrap();
    let stop = AtomicBool::new(false);
    let ws = tree.base.join("ws");
    let mut seen = std::collections::BTreeMap::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(CWD, &at, CWD, &link, exchange).unwrap();
            }
        });
        for _ in 0..SEARCHES {
            let names = NamesQuery { folder: &ws, excluded: &[], glob: "*", limit: 100 };
            let names = search_names(&names, &CancellationToken::new()).unwrap().paths;
            let hits = content(&query(&ws, "needle")).hits;
            for path in names.into_iter().chain(hits.into_iter().map(|hit| hit.path)) {
                *seen.entry(path.file_name().unwrap().to_owned()).or_insert(0) += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("{seen:?} in {SEARCHES} searches");
    assert!(!seen.contains_key(std::ffi::OsStr::new("secret")), "{seen:?}");
}

#[test]
fn several_globs_and_those_that_leave_out() {
    let tree = tree(&[
        ("a.rs", "x"),
        ("b.md", "x"),
        ("c.txt", "x"),
        ("vendor/d.rs", "x"),
        ("vendor/deep/e.md", "x"),
        ("src/gen/f.rs", "x"),
        ("src/gen.rs", "x"),
    ]);
    let files = |globs: &[&str]| {
        let globs: Vec<String> = globs.iter().map(|glob| (*glob).to_owned()).collect();
        let found = content(&ContentQuery { globs: &globs, ..query(&tree.base, "x") });
        shown(&found, &tree.base).concat().replace(":1:x", " ")
    };
    assert_eq!(files(&["*.rs", "*.md", "!vendor"]), "a.rs b.md src/gen/f.rs src/gen.rs ");
    assert_eq!(files(&["!*.md", "!vendor/"]), "a.rs c.txt src/gen/f.rs src/gen.rs ");
    assert_eq!(files(&["!src/gen", "*.rs"]), "a.rs src/gen.rs vendor/d.rs ");
    assert_eq!(files(&["!src/**", "!*.rs"]), "b.md c.txt vendor/deep/e.md ");
    assert_eq!(files(&["*.py"]), "");
}

#[test]
fn globs() {
    let tree = tree(&[("a.rs", ""), ("src/b.rs", ""), ("src/deep/c.rs", ""), ("src/d.txt", "")]);
    assert_eq!(names(&tree, "*.rs"), ["a.rs", "src/b.rs", "src/deep/c.rs"]);
    assert_eq!(names(&tree, "src/*.rs"), ["src/b.rs"]);
    assert_eq!(names(&tree, "src/**/*.rs"), ["src/b.rs", "src/deep/c.rs"]);
    assert_eq!(names(&tree, "./a.rs"), ["a.rs"]);
    assert_eq!(names(&tree, "*.{rs,txt}").len(), 4);
}
