//! The policy as a profile for the sandbox of macOS, as text.
//!
//! Made by portable code, so that it can be tested anywhere. What executes it is not built
//! ([`runner`]); until somebody builds and tries it on a Mac, commands there are not confined, and
//! that is said.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::{Access, Network, Policy};
use crate::protected_names;

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
        for name in protected_names().filter(|name| *name != ".git") {
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

/// A regular expression that matches a text. What could end the expression, or its line, is matched by any
/// letter: only what is refused is written so, and nobody has to know how an expression quotes a quote.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' => escaped.push('.'),
            letter if letter.is_control() => escaped.push('.'),
            letter if r".+*?()|[]{}^$\".contains(letter) => escaped.extend(['\\', letter]),
            letter => escaped.push(letter),
        }
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
mod tests;
