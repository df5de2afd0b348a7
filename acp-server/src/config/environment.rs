//! The process environment as it was at start: its variables, and the keys that
//! were taken out of it before anything else ran.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use bridle_model::Secret;

/// Variables and keys, captured once. Its `Debug` shows no key.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, OsString>,
    secrets: BTreeMap<String, Secret>,
}

impl Environment {
    /// Whether the variable of this name holds a secret, by the words in it. Such a variable is
    /// taken out of the environment at start, so that no child process finds it in its own or in
    /// this process's environment; not only the keys that Bridle itself reads.
    pub fn is_secret_name(name: &str) -> bool {
        const WORDS: [&str; 9] = [
            "APIKEY",
            "CREDENTIAL",
            "CREDENTIALS",
            "KEY",
            "PASSPHRASE",
            "PASSWD",
            "PASSWORD",
            "SECRET",
            "TOKEN",
        ];
        name.to_ascii_uppercase().split('_').any(|word| WORDS.contains(&word))
    }

    /// Keeps `variables` and `secrets`.
    pub fn new(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        secrets: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let variables = variables
            .into_iter()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        let secrets = secrets
            .into_iter()
            // A key copied with its line end is still that key.
            .map(|(name, value)| (name, value.trim().to_owned()))
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (name, Secret::new(value)))
            .collect();
        Self { variables, secrets }
    }

    /// The value of a variable; `None` when it is unset, empty or not UTF-8.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.variables.get(name)?.to_str()
    }

    /// The value of a variable that holds a path; `None` when it is unset or empty.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.variables.get(name).map(PathBuf::from)
    }

    /// A key; `None` when it is unset or empty.
    pub fn secret(&self, name: &str) -> Option<&Secret> {
        self.secrets.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PROVIDERS;

    #[test]
    fn keys_are_kept_apart_and_never_shown() {
        let environment = Environment::new(
            [("HOME".into(), "/home/u".into()), ("PATH".into(), "/bin".into())],
            [("ANTHROPIC_API_KEY".to_owned(), "marker-secret".to_owned())],
        );
        assert!(!format!("{environment:?}").contains("marker-secret"));
        assert_eq!(environment.text("PATH"), Some("/bin"));
        assert_eq!(environment.secret("ANTHROPIC_API_KEY").unwrap().expose(), "marker-secret");
    }

    #[test]
    fn every_variable_that_looks_like_a_secret_is_taken() {
        let keys = PROVIDERS.map(|provider| provider.key_variable);
        let others = ["FOO_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GITHUB_TOKEN", "db_password"];
        for name in keys.into_iter().chain(["AWS_SECRET_ACCESS_KEY"]).chain(others) {
            assert!(Environment::is_secret_name(name), "{name}");
        }
        for name in ["HOME", "PATH", "ANTHROPIC_BASE_URL", "KEYBOARD", "TOKENIZERS_PARALLELISM"] {
            assert!(!Environment::is_secret_name(name), "{name}");
        }
    }
}
