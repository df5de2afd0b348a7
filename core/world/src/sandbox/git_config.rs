//! What the configuration of git leads to: files that git reads, and files that it executes.
//!
//! Reads the language of these files as far as it takes to find paths in their values. Of a command
//! every word may be a path: rather one file too many is kept as it is than one too few.

use std::path::{Path, PathBuf};

/// The longest file that is read, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// How many files are followed: they may lead in circles, and each to many others.
const MAX_FILES: usize = 50;

/// The last parts of keys whose values are commands.
const COMMANDS: [&str; 22] = [
    "fsmonitor",
    "sshcommand",
    "editor",
    "pager",
    "askpass",
    "gitproxy",
    "alternaterefscommand",
    "program",
    "clean",
    "smudge",
    "process",
    "external",
    "command",
    "textconv",
    "driver",
    "cmd",
    "path",
    "helper",
    "difffilter",
    "uploadpack",
    "receivepack",
    "packobjectshook",
];

/// Collects what configurations lead to from a folder of work.
pub(super) struct Leads<'a> {
    /// The folder that relative paths start from.
    work: &'a Path,
    /// What `~` stands for.
    home: Option<&'a Path>,
    /// What is led to: whether it is there or not, and perhaps not meant as a path at all.
    pub(super) found: Vec<Lead>,
    files: usize,
}

/// Something that a configuration leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lead {
    pub(super) path: PathBuf,
    /// It is certainly meant as a path, of a file or a folder, and is obeyed once it exists.
    pub(super) is_certain: bool,
}

impl<'a> Leads<'a> {
    /// Leads from `work`, as the user has it whose home this is.
    pub(super) fn from(work: &'a Path, home: Option<&'a Path>) -> Self {
        Self { work, home, found: Vec::new(), files: 0 }
    }

    /// Follows the configuration in `file`. What cannot be read leads nowhere.
    pub(super) fn follow(&mut self, file: &Path) {
        if self.files == MAX_FILES {
            return;
        }
        self.files += 1;
        let is_short = fs_err::metadata(file).is_ok_and(|it| it.is_file() && it.len() <= MAX_BYTES);
        let Some(bytes) = is_short.then(|| fs_err::read(file).ok()).flatten() else { return };
        for (section, name, value) in settings(&String::from_utf8_lossy(&bytes)) {
            match (section.as_str(), name.as_str()) {
                ("include" | "includeif", "path") => {
                    let path = self.resolve(file.parent().unwrap_or(file), &value);
                    self.follow(&path);
                    self.found.push(Lead { path, is_certain: true });
                }
                ("core", "hookspath" | "attributesfile") => {
                    let path = self.resolve(self.work, &value);
                    self.found.push(Lead { path, is_certain: true });
                }
                ("alias" | "submodule", _) if !value.starts_with('!') => {}
                ("alias" | "submodule" | "pager", _) => self.command(&value),
                (_, name) if COMMANDS.contains(&name) => self.command(&value),
                _ => {}
            }
        }
    }

    fn command(&mut self, value: &str) {
        let ends_a_word =
            |letter: char| letter.is_whitespace() || "!\"'`;|&()<>=$".contains(letter);
        for word in value.split(ends_a_word).filter(|word| !word.is_empty()) {
            let path = self.resolve(self.work, word);
            self.found.push(Lead { path, is_certain: false });
        }
    }

    fn resolve(&self, from: &Path, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => from.join(path),
        }
    }
}

/// Section, name and value of each setting; sections and names in small letters, without the middle
/// part that some keys have.
fn settings(text: &str) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    let mut section = String::new();
    let text = text.replace("\r\n", "\n").replace("\\\n", "");
    for line in text.lines() {
        let mut line = line.trim();
        if let Some(rest) = line.strip_prefix('[') {
            // The middle part, in quotes, may have any sign in it.
            let middle = rest.rfind("\"]").unwrap_or_default();
            let Some(end) = rest.get(middle..).and_then(|it| it.find(']')) else { continue };
            let Some((head, after)) = rest.split_at_checked(middle + end + 1) else { continue };
            let name = head.split([' ', '\t', '"', '.', ']']).next().unwrap_or_default();
            section = name.to_ascii_lowercase();
            line = after.trim();
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let (name, text) = line.split_once('=').unwrap_or((line, ""));
        found.push((section.clone(), name.trim().to_ascii_lowercase(), value(text)));
    }
    found
}

/// A value without its quotes, escapes and comment.
fn value(text: &str) -> String {
    let (mut value, mut quoted) = (String::new(), false);
    let mut letters = text.trim().chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => quoted = !quoted,
            '\\' => match letters.next() {
                Some('n' | 't' | 'b') => value.push(' '),
                other => value.extend(other),
            },
            '#' | ';' if !quoted => break,
            other => value.push(other),
        }
    }
    value.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_reads_and_executes_is_led_to() {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path();
        fs_err::create_dir(work.join("conf")).unwrap();
        fs_err::write(
            work.join("config"),
            "[core]\n\thooksPath = .githooks ; mine\n\tfsmonitor = \"./watch\"\n\tbare = false\n\
             [remote \"origin\"]\n url = ../lib\n[include] path = conf/more\n\
             [filter \"x]\"]\n  CLEAN = python3 \\\n tools/clean.py '%f'\n\
             [alias]\n st = status\n run = !sh ~/x.sh\n",
        )
        .unwrap();
        fs_err::write(work.join("conf/more"), "[include]\npath = more\n[gpg \"ssh\"]program=./g\n")
            .unwrap();
        let home = Path::new("/home/me");
        let mut leads = Leads::from(work, Some(home));
        leads.follow(&work.join("config"));
        let named = |certain: bool| -> Vec<String> {
            let found = leads.found.iter().filter(|lead| lead.is_certain == certain);
            let path = |lead: &Lead| lead.path.strip_prefix(work).unwrap_or(&lead.path).to_owned();
            found.map(|lead| path(lead).to_str().unwrap().to_owned()).collect()
        };
        assert!(named(true).contains(&"conf/more".to_owned()));
        assert_eq!(named(true).first().unwrap(), ".githooks");
        let words = named(false);
        for word in ["watch", "tools/clean.py", "/home/me/x.sh", "g"] {
            assert!(words.contains(&word.to_owned()), "{word}: {words:?}");
        }
        for word in ["../lib", "status", "false"] {
            assert!(!words.contains(&word.to_owned()), "{word}: {words:?}");
        }
    }
}
