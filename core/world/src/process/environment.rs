//! The environment of commands: built from an allow-list, never inherited.

use std::ffi::{OsStr, OsString};

/// Variables that commands may see, in addition to every `LC_*` and `XDG_*`.
const ALLOWED: &[&str] = &[
    "CARGO_HOME",
    "GOPATH",
    "HOME",
    "JAVA_HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "NVM_DIR",
    "PATH",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
];

/// Families of variables that commands may see.
const ALLOWED_PREFIXES: &[&str] = &["LC_", "XDG_"];

/// What a name of a secret contains. An allowed name that contains one is dropped all the same.
const SECRET_MARKS: &[&str] =
    &["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "AUTH"];

/// What makes programs run without a person: no pager, no editor, no prompt, no terminal tricks.
const FIXED: &[(&str, &str)] = &[
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("EDITOR", "false"),
    ("GIT_EDITOR", "false"),
    ("GIT_PAGER", "cat"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("LESS", "-FRX"),
    ("PAGER", "cat"),
    ("PIP_NO_INPUT", "1"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("TERM", "dumb"),
    ("VISUAL", "false"),
    ("npm_config_yes", "false"),
];

/// Where programs are looked for when this process has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The whole environment of a command.
#[derive(Clone)]
pub struct Environment {
    variables: Vec<(OsString, OsString)>,
}

impl Environment {
    /// The allowed part of this process's environment as it is now, and the fixed variables.
    pub fn from_process() -> Self {
        Self::from_variables(std::env::vars_os())
    }

    /// The allowed part of `variables`, and the fixed variables.
    pub fn from_variables(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let allowed = variables.into_iter().filter(|(name, _)| name.to_str().is_some_and(allows));
        let mut environment = Self { variables: allowed.collect() };
        if !environment.variables.iter().any(|(name, _)| name == "PATH") {
            environment = environment.with("PATH", DEFAULT_PATH);
        }
        FIXED.iter().fold(environment, |environment, (name, value)| environment.with(name, value))
    }

    /// With one more variable, or another value for it.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.into(), value.as_ref().into()));
        self
    }

    /// The value of a variable.
    pub(crate) fn value(&self, name: &str) -> Option<&OsStr> {
        let found = self.variables.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_os_str())
    }

    pub(crate) fn variables(&self) -> &[(OsString, OsString)] {
        &self.variables
    }
}

impl std::fmt::Debug for Environment {
    /// Names only: values do not belong in a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.variables.iter().map(|(name, _)| name)).finish()
    }
}

fn allows(name: &str) -> bool {
    let listed =
        ALLOWED.contains(&name) || ALLOWED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let upper = name.to_ascii_uppercase();
    listed && !SECRET_MARKS.iter().any(|mark| upper.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str, value: &str) -> (OsString, OsString) {
        (name.into(), value.into())
    }

    fn value<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
        let mut found = environment.variables().iter().filter(|(known, _)| known == name);
        let value = found.next()?.1.to_str();
        assert!(found.next().is_none(), "{name} is there twice");
        value
    }

    #[test]
    fn only_listed_names_pass() {
        let names = [
            "ANTHROPIC_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "BASH_ENV",
            "DBUS_SESSION_BUS_ADDRESS",
            "DEEPSEEK_API_KEY",
            "DOCKER_HOST",
            "ENV",
            "GH_TOKEN",
            "GIT_SSH_COMMAND",
            "LC_API_KEY",
            "LD_PRELOAD",
            "NODE_OPTIONS",
            "SSH_AUTH_SOCK",
            "XDG_Secret_Token",
        ];
        let environment =
            Environment::from_variables(names.map(|name| variable(name, "marker-7f3a")));
        for (name, value) in environment.variables() {
            assert_ne!(value, "marker-7f3a", "{name:?} passed");
        }
        let kept = ["HOME", "LC_ALL", "PATH", "TZ", "XDG_DATA_HOME"];
        let environment = Environment::from_variables(kept.map(|name| variable(name, "kept")));
        for name in kept {
            assert_eq!(value(&environment, name), Some("kept"), "{name}");
        }
    }

    #[test]
    fn fixed_variables_win_and_a_path_is_always_there() {
        let environment = Environment::from_variables([variable("TERM", "xterm-256color")]);
        assert_eq!(value(&environment, "TERM"), Some("dumb"));
        assert_eq!(value(&environment, "GIT_TERMINAL_PROMPT"), Some("0"));
        assert_eq!(value(&environment, "PATH"), Some(DEFAULT_PATH));
    }

    #[test]
    fn debug_shows_names_only() {
        let environment = Environment::from_variables([variable("HOME", "/home/marker")]);
        let shown = format!("{environment:?}");
        assert!(shown.contains("HOME") && !shown.contains("marker"), "{shown}");
    }
}
