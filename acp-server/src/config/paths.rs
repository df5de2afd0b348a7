//! Where configuration and state live. Neither is ever inside a workspace.

use std::path::PathBuf;

use super::environment::Environment;

/// The folders of one user. Both are `None` when nothing usable says where a home is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The folder of `config.toml` and `credentials.toml`.
    pub config: Option<PathBuf>,
    /// The folder of sessions, blobs and logs.
    pub state: Option<PathBuf>,
    /// The variables that cannot be used, and why.
    pub problems: Vec<String>,
}

impl Places {
    /// `BRIDLE_HOME` and its `state` folder; else the XDG folders; else their usual places under
    /// `HOME`. A relative path is never used: keys and sessions would land in whatever folder the
    /// program was started in. A relative XDG variable counts as unset, as its specification asks;
    /// under a relative `BRIDLE_HOME`, which asks for a home apart from the usual one, there is
    /// none.
    pub fn find(environment: &Environment) -> Self {
        let mut problems = Vec::new();
        let mut absolute = |name: &str| {
            let path = environment.path(name)?;
            if path.is_absolute() {
                return Some(path);
            }
            let path = path.display();
            problems.push(format!("{name}: {path} is not an absolute path; it is not used"));
            None
        };
        let (config, state) = if environment.path("BRIDLE_HOME").is_some() {
            let home = absolute("BRIDLE_HOME");
            let state = home.as_ref().map(|home| home.join("state"));
            (home, state)
        } else {
            let home = absolute("HOME");
            let mut xdg = |name: &str, fallback: &str| {
                let usual = home.as_ref().map(|home| home.join(fallback));
                absolute(name).or(usual).map(|folder| folder.join("bridle"))
            };
            (xdg("XDG_CONFIG_HOME", ".config"), xdg("XDG_STATE_HOME", ".local/state"))
        };
        Self { config, state, problems }
    }

    /// What to tell a person when [`Places::config`] is `None`.
    pub fn no_config() -> &'static str {
        "there is no folder for config.toml: set HOME, or BRIDLE_HOME, to an absolute path"
    }

    /// What to tell a person when [`Places::state`] is `None`.
    pub fn no_state() -> &'static str {
        "there is no folder for sessions: set HOME, or BRIDLE_HOME, to an absolute path"
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
        let Places { config, state, .. } = Places::find(&environment);
        let text = |path: Option<PathBuf>| path.map(|path| path.display().to_string());
        (text(config), text(state))
    }

    #[test]
    fn a_relative_folder_is_told_and_not_used() {
        for (variables, told, config) in [
            (vec![("HOME", "/h"), ("BRIDLE_HOME", "rel")], vec!["BRIDLE_HOME"], None),
            (
                vec![("HOME", "/h"), ("XDG_CONFIG_HOME", "c"), ("XDG_STATE_HOME", "./s")],
                vec!["XDG_CONFIG_HOME", "XDG_STATE_HOME"],
                Some("/h/.config/bridle"),
            ),
            (vec![("HOME", "h")], vec!["HOME"], None),
            (vec![("BRIDLE_HOME", "/b"), ("XDG_STATE_HOME", "s")], vec![], Some("/b")),
        ] {
            let environment =
                Environment::new(variables.iter().map(|(k, v)| (k.into(), v.into())), []);
            let places = Places::find(&environment);
            assert_eq!(places.config.as_deref(), config.map(std::path::Path::new), "{variables:?}");
            let begins =
                |(problem, name): (&String, &&str)| problem.starts_with(&format!("{name}: "));
            assert_eq!(places.problems.len(), told.len(), "{variables:?}");
            assert!(places.problems.iter().zip(&told).all(begins), "{:?}", places.problems);
        }
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
