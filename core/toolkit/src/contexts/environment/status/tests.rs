//! What git is asked, put to real repositories without any sandbox around it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::SCRIPT;

/// A repository with one commit, beside the mark that whatever runs in it makes.
struct Repository {
    _dir: tempfile::TempDir,
    at: PathBuf,
    mark: PathBuf,
}

#[expect(clippy::disallowed_methods, reason = "what git starts is looked at without a supervisor")]
fn sh(folder: &Path, script: &str) -> std::process::Output {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(folder).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("HOME", folder.parent().unwrap()).output().unwrap()
}

impl Repository {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = fs_err::canonicalize(dir.path()).unwrap();
        let (at, mark) = (base.join("repository"), base.join("mark"));
        fs_err::create_dir(&at).unwrap();
        let made = "git init -q . && echo one >a && git add a && \
                    git -c user.name=n -c user.email=a@b commit -qm one";
        assert!(sh(&at, made).status.success());
        Self { _dir: dir, at, mark }
    }

    fn evil(&self) -> String {
        format!("touch {}", self.mark.display())
    }

    /// The exit code and whether anything was said.
    fn asked(&self) -> (Option<i32>, bool) {
        let output = sh(&self.at, SCRIPT);
        (output.status.code(), !output.stdout.is_empty())
    }
}

#[test]
fn changes_are_seen() {
    let it = Repository::new();
    assert_eq!(it.asked(), (Some(0), false));
    fs_err::write(it.at.join("new"), "").unwrap();
    assert_eq!(it.asked(), (Some(0), true));
    fs_err::remove_file(it.at.join("new")).unwrap();
    fs_err::write(it.at.join("a"), "two\n").unwrap();
    assert_eq!(it.asked(), (Some(0), true));
    let elsewhere = tempfile::tempdir().unwrap();
    fs_err::create_dir(elsewhere.path().join("x")).unwrap();
    assert_ne!(sh(&elsewhere.path().join("x"), SCRIPT).status.code(), Some(0));
}

/// A look writes nothing: whoever commits or rebases meanwhile finds no lock of ours, and the index as it was.
#[test]
fn the_index_is_not_written() {
    let it = Repository::new();
    // What git knows of the file is out of date, which a plain status would write down.
    assert!(sh(&it.at, "touch -d 2001-01-01 a").status.success());
    let index = || fs_err::read(it.at.join(".git/index")).unwrap();
    let before = index();
    assert_eq!(it.asked(), (Some(0), false));
    assert!(index() == before, "it was written");
    assert!(sh(&it.at, "git status").status.success());
    assert!(index() != before, "a plain status writes nothing, so nothing was shown");
    // Nor does a lock of others keep it from looking.
    fs_err::write(it.at.join(".git/index.lock"), "").unwrap();
    assert_eq!(it.asked(), (Some(0), false));
}

/// S11: whatever a repository says that git should start is started by a plain `git status`, and not by
/// what is asked here.
#[test]
fn an_evil_repository_starts_nothing() {
    let touched = "touch -d 2001-01-01 a";
    let filter = "echo '* filter=x' >.gitattributes; echo two >a";
    let promised = "git config core.repositoryFormatVersion 1; git config extensions.partialClone o; \
                    git config protocol.ext.allow always; git config remote.o.promisor true; \
                    git config remote.o.url \"ext::sh -c {$EVIL}\"";
    let cases = [
        ("monitor", "git config core.fsmonitor \"$EVIL\"".to_owned()),
        (
            "hooks",
            format!(
                "printf '#!/bin/sh\\n%s\\n' \"$EVIL\" >.git/hooks/post-index-change; \
                           chmod +x .git/hooks/post-index-change; {touched}"
            ),
        ),
        (
            "hooks elsewhere",
            format!(
                "mkdir h; printf '#!/bin/sh\\n%s\\n' \"$EVIL\" >h/post-index-change; \
                           chmod +x h/post-index-change; git config core.hooksPath h; {touched}"
            ),
        ),
        ("clean", format!("git config filter.x.clean \"$EVIL; cat\"; {filter}")),
        ("process", format!("git config filter.x.process \"$EVIL\"; {filter}")),
        (
            "included",
            format!(
                "printf '[filter \"x\"]\\nclean = \"%s\"\\n' \"$EVIL\" >more; \
                              git config include.path ../more; {filter}"
            ),
        ),
        (
            "promised",
            format!("{}; rm -r .git/objects/*/*", promised.replace("{$EVIL}", "$EVIL_WORD")),
        ),
    ];
    for (name, made) in cases {
        let it = Repository::new();
        let evil = it.evil();
        let word = evil.replace(' ', "% ");
        let made = format!("EVIL='{evil}'; EVIL_WORD='{word}'; {made}");
        assert!(sh(&it.at, &made).status.success(), "{name}");
        it.asked();
        assert!(!it.mark.exists(), "{name}: something ran");
        sh(&it.at, "git status");
        assert!(it.mark.exists(), "{name}: a plain status starts nothing, so nothing was shown");
    }
}
