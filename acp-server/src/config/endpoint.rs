//! Which key goes to which address.
//!
//! A key is bound to the address that it was given with. There are two places in which a user
//! gives them: the environment and the files. A key of one place goes to the address of the same
//! place, or to one of the same origin; so a variable that somebody else set (in a project's
//! environment, say) cannot have a stored key sent to a host of theirs, and a file that names a
//! proxy does not get the key of the environment unless it says so (`api_key_variable`).

use bridle_model::Secret;
use url::{Origin, Url};

use super::environment::Environment;
use super::provider::KnownProvider;
use super::settings::{KeySource, Source};

/// What the layers say of one provider.
#[derive(Debug, Default)]
pub(super) struct Endpoint {
    pub(super) variable_key: Option<(Secret, Source)>,
    pub(super) key_variable: Option<(String, Source)>,
    pub(super) command: Option<(Vec<String>, Source)>,
    pub(super) file_key: Option<(Secret, Source)>,
    pub(super) variable_url: Option<(String, Source)>,
    pub(super) file_url: Option<(String, Source)>,
}

/// A key with where it came from.
pub(super) struct Key {
    pub(super) key: KeySource,
    pub(super) source: Source,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Environment,
    Files,
}

impl Endpoint {
    /// The address that is asked, unless it is the catalogue's.
    pub(super) fn url(&self) -> Option<&(String, Source)> {
        self.variable_url.as_ref().or(self.file_url.as_ref())
    }

    /// The strongest key that may be sent to the address, and else why the strongest one may not.
    /// `default` is the catalogue's address.
    pub(super) fn key(
        &self,
        known: &KnownProvider,
        default: Option<&str>,
        environment: &Environment,
        problems: &mut Vec<String>,
    ) -> Result<Option<Key>, String> {
        let mut withheld = None;
        for key in self.keys(environment, problems) {
            if !is_legal(&key.key) {
                problems.push(format!(
                    "{}: the key of {} holds a space or a character that no key has; ignored",
                    key.source, known.name
                ));
                continue;
            }
            match self.refusal(&key, known, default) {
                None => return Ok(Some(key)),
                Some(reason) => withheld = withheld.or(Some(reason)),
            }
        }
        withheld.map_or(Ok(None), Err)
    }

    /// Every key there is, the strongest first.
    fn keys(&self, environment: &Environment, problems: &mut Vec<String>) -> Vec<Key> {
        let mut keys = Vec::new();
        let mut add = |key, source: &Source, place| {
            keys.push(Key { key, source: source.clone(), place });
        };
        match &self.key_variable {
            Some((variable, source)) => match environment.secret(variable) {
                Some(key) => {
                    let from = Source::Variable(variable.clone());
                    add(KeySource::Key(key.clone()), &from, Place::Files);
                }
                None if !Environment::is_secret_name(variable) => problems.push(format!(
                    "{source}: variable {variable} is not taken for a key: its name must hold \
                     KEY, TOKEN or SECRET as a word"
                )),
                None => {}
            },
            None => {
                if let Some((key, source)) = &self.variable_key {
                    add(KeySource::Key(key.clone()), source, Place::Environment);
                }
            }
        }
        if let Some((command, source)) = &self.command {
            add(KeySource::Command(command.clone()), source, Place::Files);
        }
        if let Some((key, source)) = &self.file_key {
            add(KeySource::Key(key.clone()), source, Place::Files);
        }
        keys
    }

    /// Why a key may not be sent to the address; `None` when it may.
    fn refusal(&self, key: &Key, known: &KnownProvider, default: Option<&str>) -> Option<String> {
        let origin = |url: Option<&str>| url.and_then(origin_of);
        let (asked, _) = self.url()?;
        let file_url = self.file_url.as_ref().map(|(url, _)| url.as_str());
        let own = match key.place {
            Place::Environment if self.variable_url.is_some() => return None,
            Place::Environment => origin(default),
            Place::Files => origin(file_url.or(default)),
        };
        let asked = origin_of(asked)?;
        if own.as_ref() == Some(&asked) {
            return None;
        }
        let hint = match key.place {
            Place::Environment => format!(
                "write api_key_variable = \"{}\" under [providers.{}] in config.toml to send it \
                 there",
                known.key_variable, known.name
            ),
            Place::Files => format!(
                "set {} beside {} for a key of that address",
                known.key_variable, known.base_url_variable
            ),
        };
        let (source, asked) = (&key.source, asked.ascii_serialization());
        Some(format!("the key from {source} was given for another address than {asked}; {hint}"))
    }
}

fn is_legal(key: &KeySource) -> bool {
    match key {
        KeySource::Key(key) => key.expose().bytes().all(|byte| byte.is_ascii_graphic()),
        KeySource::Command(_) => true,
    }
}

fn origin_of(url: &str) -> Option<Origin> {
    Url::parse(url).ok().map(|url| url.origin())
}
