//! The MCP servers that a user has configured, with what they name of the environment filled in.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use bridle_mcp::{Reach, ServerConfig};
use bridle_world::servers::Secrets;
use url::Url;

use super::environment::Environment;
use super::file::ServerTable;

/// A server of `[mcp.NAME]`.
#[derive(Clone, Debug)]
pub struct ConfiguredServer {
    /// The server, as sessions have it.
    pub server: ServerConfig,
    /// Whether they do.
    pub enabled: bool,
}

impl ConfiguredServer {
    /// # Errors
    /// What is wrong, for a person. No value of a variable is in it.
    pub(super) fn new(
        name: &str,
        table: &ServerTable,
        environment: &Environment,
    ) -> Result<Self, String> {
        let open = |text: &str| fill(text, |name| open_value(environment, name));
        let mut secret = Filler::new(environment);
        let reach = match (&table.command, &table.url) {
            (Some(command), _) => Reach::Stdio {
                program: PathBuf::from(open(command)?),
                arguments: table.args.iter().map(|it| open(it)).collect::<Result<_, _>>()?,
                environment: secret.fill_all(&table.env)?.into_iter().collect(),
            },
            (None, url) => Reach::Http {
                url: secret.fill(url.as_deref().unwrap_or_default())?,
                headers: secret.fill_all(&table.headers)?.into_iter().collect(),
            },
        };
        let secrets = Secrets::new(keys_in(&reach).into_iter().chain(secret.keys));
        let mut server = ServerConfig::new(name, reach, secrets);
        for (limit, given) in [
            (&mut server.start_limit, table.start_timeout_s),
            (&mut server.idle_limit, table.idle_timeout_s),
            (&mut server.call_limit, table.call_timeout_s),
        ] {
            if let Some(seconds) = given {
                *limit = Duration::from_secs(seconds.get().into());
            }
        }
        if let Some(seconds) = table.rest_after_s {
            let rest = Duration::from_secs(seconds.into());
            server.rest_after = (!rest.is_zero()).then_some(rest);
        }
        server.allow.clone_from(&table.allow);
        server.deny.clone_from(&table.deny);
        server.parallel = table.parallel;
        Ok(Self { server, enabled: table.enabled.unwrap_or(true) })
    }
}

/// What looks like a key of how a server is reached, by the names of variables, headers and parameters.
pub fn keys_in(reach: &Reach) -> Vec<String> {
    match reach {
        Reach::Stdio { environment, .. } => {
            keys_among(environment.iter().map(|(name, value)| (name, value)))
        }
        Reach::Http { url, headers } => {
            let secret = headers.iter().filter(|(name, _)| is_secret_header(name));
            // Of `Bearer KEY` also the key alone.
            let keys = secret.flat_map(|(_, value)| {
                let value = value.trim();
                let key = value.rsplit(' ').next().unwrap_or(value);
                [value.to_owned(), key.to_owned()]
            });
            keys.chain(keys_in_address(url)).collect()
        }
    }
}

/// What looks like a key of these variables, by their names.
pub(super) fn keys_among<'a>(
    variables: impl Iterator<Item = (&'a String, &'a String)>,
) -> Vec<String> {
    let secret = variables.filter(|(name, _)| Environment::is_secret_name(name));
    secret.map(|(_, value)| value.trim().to_owned()).collect()
}

/// Fills in what texts name of the environment, secrets as well, and knows afterwards which those were.
pub(super) struct Filler<'a> {
    environment: &'a Environment,
    pub(super) keys: Vec<String>,
}

impl<'a> Filler<'a> {
    pub(super) fn new(environment: &'a Environment) -> Self {
        Self { environment, keys: Vec::new() }
    }

    /// # Errors
    /// What is wrong, for a person. No value of a variable is in it.
    fn fill(&mut self, text: &str) -> Result<String, String> {
        fill(text, |name| {
            let key = self.environment.secret(name).map(|key| key.expose().to_owned());
            self.keys.extend(key);
            value(self.environment, name)
        })
    }

    /// # Errors
    /// As for one text.
    pub(super) fn fill_all(
        &mut self,
        table: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, String> {
        table.iter().map(|(name, text)| Ok((name.clone(), self.fill(text)?))).collect()
    }
}

fn is_secret_header(name: &str) -> bool {
    const OTHERS: [&str; 4] = ["AUTHORIZATION", "PROXY_AUTHORIZATION", "COOKIE", "AUTH"];
    let name = name.to_ascii_uppercase().replace('-', "_");
    Environment::is_secret_name(&name) || OTHERS.contains(&name.as_str())
}

fn keys_in_address(url: &str) -> Vec<String> {
    let Ok(url) = Url::parse(url) else { return Vec::new() };
    let is_secret = |name: &str| Environment::is_secret_name(&name.replace('-', "_"));
    let parameters = url.query_pairs().filter(|(name, _)| is_secret(name));
    let parameters = parameters.map(|(_, value)| value.into_owned());
    parameters.chain(url.password().map(str::to_owned)).collect()
}

/// The text with each `${NAME}` and `${NAME:-otherwise}` replaced.
pub(super) fn fill(
    text: &str,
    mut value: impl FnMut(&str) -> Result<Option<String>, String>,
) -> Result<String, String> {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        let (inner, behind) =
            after.split_once('}').ok_or_else(|| "a `${` has no `}`".to_owned())?;
        let (name, otherwise) = match inner.split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (inner, None),
        };
        filled.push_str(before);
        match (value(name)?, otherwise) {
            (Some(value), _) => filled.push_str(&value),
            (None, Some(otherwise)) => filled.push_str(otherwise),
            (None, None) => return Err(format!("the variable {name} is not set")),
        }
        rest = behind;
    }
    filled.push_str(rest);
    Ok(filled)
}

fn value(environment: &Environment, name: &str) -> Result<Option<String>, String> {
    let secret = environment.secret(name).map(|secret| secret.expose().to_owned());
    Ok(secret.or_else(|| environment.text(name).map(str::to_owned)))
}

/// What every user of the machine may see in the list of processes.
pub(super) fn open_value(environment: &Environment, name: &str) -> Result<Option<String>, String> {
    match Environment::is_secret_name(name) {
        true => Err(format!("{name} looks like a secret: it may stand in `env`, not in `args`")),
        false => value(environment, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        let variables = [("HOME".into(), "/home/u".into())];
        Environment::new(variables, [("A_TOKEN".to_owned(), "t0".to_owned())])
    }

    #[test]
    fn variables_are_filled_in() {
        let environment = environment();
        let fill = |text: &str| fill(text, |name| value(&environment, name));
        assert_eq!(fill("Bearer ${A_TOKEN}!").unwrap(), "Bearer t0!");
        assert_eq!(fill("${HOME}/${NO:-x}$1 $").unwrap(), "/home/u/x$1 $");
        assert_eq!(fill("${NO}").unwrap_err(), "the variable NO is not set");
        assert_eq!(fill("${HOME").unwrap_err(), "a `${` has no `}`");
    }

    #[test]
    fn a_secret_never_stands_in_arguments() {
        let table = ServerTable {
            command: Some("run".to_owned()),
            args: vec!["--token=${A_TOKEN}".to_owned()],
            ..ServerTable::default()
        };
        let fault = ConfiguredServer::new("s", &table, &environment()).unwrap_err();
        assert!(fault.contains("A_TOKEN looks like a secret"), "{fault}");
        let args = Vec::new();
        let env = [("T".to_owned(), "${A_TOKEN}".to_owned())].into();
        let table = ServerTable { args, env, ..table };
        let server = ConfiguredServer::new("s", &table, &environment()).unwrap().server;
        assert!(!format!("{server:?}").contains("t0"));
        let Reach::Stdio { environment, .. } = server.reach else { panic!("stdio") };
        assert_eq!(environment, [("T".to_owned(), "t0".to_owned())]);
    }

    #[test]
    fn what_looks_like_a_key_is_one() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let stdio = Reach::Stdio {
            program: PathBuf::new(),
            arguments: Vec::new(),
            environment: vec![pair("DATA", "/data"), pair("DB_PASSWORD", "pass-word ")],
        };
        assert_eq!(keys_in(&stdio), ["pass-word"]);
        let http = Reach::Http {
            url: "https://u:pw@host/x?api_key=k-1&page=2".to_owned(),
            headers: vec![
                pair("Authorization", "Bearer t-1"),
                pair("X-Api-Key", "k-2"),
                pair("X-Project", "mine"),
            ],
        };
        assert_eq!(keys_in(&http), ["Bearer t-1", "t-1", "k-2", "k-2", "k-1", "pw"]);
    }
}
