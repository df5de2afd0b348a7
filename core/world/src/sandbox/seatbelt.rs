//! The policy as a profile for the sandbox of macOS, as text.
//!
//! Made by portable code, so that it can be tested anywhere. What executes it is not built
//! ([`runner`]); until somebody builds and tries it on a Mac, commands there are not confined, and
//! that is said.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::{Access, Network, Policy};
use crate::PROTECTED_NAMES;

/// A policy that cannot be written as a profile.
#[derive(Debug, thiserror::Error)]
#[error("the path {} is not UTF-8, so no profile can name it", .0.display())]
pub struct NotUtf8(PathBuf);

/// What every program needs that does nothing special.
const BASE: &str = r#"(version 1)
(deny default)
(import "system.sb")
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow ipc-posix-sem)
(allow pseudo-tty)
(allow file-read*)
(allow file-read* file-write* (literal "/dev/null") (literal "/dev/tty") (literal "/dev/ptmx"))
(allow file-read* file-write* (regex #"^/dev/ttys[0-9]+$"))
"#;

/// The profile of `policy`. Later rules win: first what may be written, then what in it may not,
/// by name and so also where it does not exist yet.
///
/// # Errors
/// [`NotUtf8`] when a path cannot be written down; the command must not be run then.
pub fn profile(policy: &Policy) -> Result<String, NotUtf8> {
    let mut text = BASE.to_owned();
    let writable: Vec<&Path> = match policy.access {
        Access::ReadOnly => Vec::new(),
        Access::WorkspaceWrite => {
            policy.roots.iter().chain(&policy.writable).map(PathBuf::as_path).collect()
        }
    };
    for path in writable.iter().copied().chain(policy.temporary.as_deref()) {
        rule(&mut text, "allow file-write*", "subpath", path)?;
    }
    for root in &writable {
        for name in PROTECTED_NAMES.iter().filter(|name| **name != ".git") {
            below(&mut text, root, &format!("(.*/)?{}(/.*)?", in_any_case(name)))?;
        }
        // Of a git folder what git obeys, and the folder itself, so that it is not moved away.
        below(&mut text, root, &format!("(.*/)?{}", in_any_case(".git")))?;
        for name in ["config", "config.worktree", "commondir", "gitdir", "hooks", "info"] {
            let (git, name) = (in_any_case(".git"), in_any_case(name));
            below(&mut text, root, &format!("(.*/)?{git}/(.*/)?{name}(/.*)?"))?;
        }
    }
    for path in &policy.protected.present {
        rule(&mut text, "deny file-write*", "subpath", path)?;
    }
    for path in &policy.masked {
        rule(&mut text, "deny file-read* file-write*", "subpath", path)?;
    }
    if policy.network == Network::On {
        text += "(allow network-outbound network-inbound system-socket)\n";
        text += "(deny network-outbound (remote unix-socket))\n";
    }
    Ok(text)
}

fn rule(text: &mut String, what: &str, kind: &str, path: &Path) -> Result<(), NotUtf8> {
    let path = path.to_str().ok_or_else(|| NotUtf8(path.to_owned()))?;
    // Writing to a string cannot fail.
    writeln!(text, "({what} ({kind} {}))", quoted(path)).ok();
    Ok(())
}

/// Denies writes to what matches `pattern` below `root`.
fn below(text: &mut String, root: &Path, pattern: &str) -> Result<(), NotUtf8> {
    let path = root.to_str().ok_or_else(|| NotUtf8(root.to_owned()))?;
    writeln!(text, "(deny file-write* (regex #\"^{}/{pattern}$\"))", escaped(path)).ok();
    Ok(())
}

/// A string of the profile's language.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A text that a regular expression matches as it is. A quote would end the expression.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if r#".+*?()|[]{}^$\""#.contains(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

/// The same, for letters of either case: most file systems there make no difference.
fn in_any_case(name: &str) -> String {
    let mut pattern = String::new();
    for letter in name.chars() {
        match letter {
            'a'..='z' => pattern.extend(['[', letter, letter.to_ascii_uppercase(), ']']),
            letter => pattern += &escaped(letter.encode_utf8(&mut [0; 4])),
        }
    }
    pattern
}

/// How a command is run under a profile on macOS. Unbuilt: nobody has compiled or tried this.
#[cfg(target_os = "macos")]
pub mod runner {
    /// The program that applies a profile and then executes another.
    pub const PROGRAM: &str = "/usr/bin/sandbox-exec";

    /// Its arguments for running `program` with `arguments` under `profile`.
    pub fn arguments(
        profile: &str,
        program: std::ffi::OsString,
        arguments: Vec<std::ffi::OsString>,
    ) -> Vec<std::ffi::OsString> {
        let mut all = vec!["-p".into(), profile.into(), "--".into(), program];
        all.extend(arguments);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::Protected;

    fn policy() -> Policy {
        Policy {
            access: Access::WorkspaceWrite,
            roots: vec!["/Users/u/my (1) ws".into()],
            writable: vec!["/Users/u/.cargo".into()],
            protected: Protected {
                present: vec!["/Users/u/my (1) ws/.git/config".into()],
                ..Protected::default()
            },
            masked: vec!["/Users/u/.ssh".into()],
            temporary: Some("/private/tmp/bridle".into()),
            network: Network::Off,
            records: "/".into(),
        }
    }

    #[test]
    fn what_may_be_written_comes_before_what_in_it_may_not() {
        let text = profile(&policy()).unwrap();
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        let allowed = place(r#"(allow file-write* (subpath "/Users/u/my (1) ws"))"#);
        assert!(
            allowed < place(r#"(deny file-write* (subpath "/Users/u/my (1) ws/.git/config"))"#)
        );
        let named =
            r##"(deny file-write* (regex #"^/Users/u/my \(1\) ws/(.*/)?\.[zZ][eE][dD](/.*)?$"))"##;
        assert!(allowed < place(named));
        place(r#"(deny file-read* file-write* (subpath "/Users/u/.ssh"))"#);
        assert!(!text.contains("network"));
    }

    #[test]
    fn read_only_allows_the_temporary_folder_only() {
        let text = profile(&Policy { access: Access::ReadOnly, ..policy() }).unwrap();
        let writes: Vec<&str> =
            text.lines().filter(|line| line.starts_with("(allow file-write*")).collect();
        assert_eq!(writes, [r#"(allow file-write* (subpath "/private/tmp/bridle"))"#]);
    }

    #[test]
    fn a_path_cannot_end_the_string_it_stands_in() {
        let mut policy = policy();
        policy.roots = vec![r#"/a") (allow default) ("\"#.into()];
        let text = profile(&policy).unwrap();
        assert!(text.contains(r#"(subpath "/a\") (allow default) (\"\\")"#), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("(allow default)")));
    }

    #[test]
    fn with_network_programs_of_the_host_are_still_not_reached() {
        let text = profile(&Policy { network: Network::On, ..policy() }).unwrap();
        assert!(text.ends_with("(deny network-outbound (remote unix-socket))\n"), "{text}");
    }
}
