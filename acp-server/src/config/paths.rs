//! Where configuration and state live. Neither is ever inside a workspace.

use std::path::PathBuf;

use super::environment::Environment;

/// The folders of one user. Both are `None` when nothing says where a home is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The folder of `config.toml` and `credentials.toml`.
    pub config: Option<PathBuf>,
    /// The folder of sessions, blobs and logs.
    pub state: Option<PathBuf>,
}

impl Places {
    /// `BRIDLE_HOME` and its `state` folder; else the XDG folders; else their usual places under
    /// `HOME`. As the XDG specification asks, its variables count only when absolute; a relative
    /// `BRIDLE_HOME` is taken from the folder that the program was started in.
    pub fn find(environment: &Environment) -> Self {
        if let Some(home) = environment.path("BRIDLE_HOME") {
            let home = std::path::absolute(&home).unwrap_or(home);
            return Self { state: Some(home.join("state")), config: Some(home) };
        }
        let home = environment.path("HOME").filter(|path| path.is_absolute());
        let xdg = |name: &str, fallback: &str| {
            environment
                .path(name)
                .filter(|path| path.is_absolute())
                .or_else(|| home.as_ref().map(|home| home.join(fallback)))
                .map(|folder| folder.join("bridle"))
        };
        Self {
            config: xdg("XDG_CONFIG_HOME", ".config"),
            state: xdg("XDG_STATE_HOME", ".local/state"),
        }
    }

    /// What to tell a person when [`Places::state`] is `None`.
    pub fn no_state() -> &'static str {
        "there is no folder for sessions: set HOME, or BRIDLE_HOME to a folder that Bridle may use"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Variables, and where configuration and state are then.
    type Case =
        (&'static [(&'static str, &'static str)], Option<&'static str>, Option<&'static str>);

    fn find(variables: &[(&str, &str)]) -> (Option<String>, Option<String>) {
        let environment = Environment::new(variables.iter().map(|(k, v)| (k.into(), v.into())), []);
        let Places { config, state } = Places::find(&environment);
        let text = |path: Option<PathBuf>| path.map(|path| path.display().to_string());
        (text(config), text(state))
    }

    #[test]
    fn the_nearest_variable_says_where() {
        let cases: &[Case] = &[
            (&[], None, None),
            (&[("HOME", "/h")], Some("/h/.config/bridle"), Some("/h/.local/state/bridle")),
            (
                &[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c"), ("XDG_STATE_HOME", "rel")],
                Some("/c/bridle"),
                Some("/h/.local/state/bridle"),
            ),
            (&[("HOME", "/h"), ("BRIDLE_HOME", "/b")], Some("/b"), Some("/b/state")),
            (&[("HOME", ""), ("BRIDLE_HOME", "")], None, None),
            (&[("HOME", "not/absolute")], None, None),
        ];
        for &(variables, config, state) in cases {
            let found = find(variables);
            assert_eq!((found.0.as_deref(), found.1.as_deref()), (config, state), "{variables:?}");
        }
    }
}
