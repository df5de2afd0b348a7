//! `bridle login` and `bridle logout`: keep a key in credentials.toml, or remove it. A key is read
//! from the terminal without being shown, or from a pipe; never from the command line, which other
//! programs can read.

mod terminal;

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use bridle_model::Secret;
use clap::Args;

use super::{Exit, say};
use crate::composition::App;
use crate::config::{KnownProvider, Places, Source, route_fault, set_key, supported_names};

/// The longest key.
const MAX_KEY: u64 = 16 << 10;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The provider; without it, that of the model in force, else `anthropic`.
    provider: Option<String>,
}

/// Keeps a key.
pub(super) fn login(app: &App, arguments: &Arguments) -> anyhow::Result<Exit> {
    let Some((provider, folder)) = target(app, arguments)? else { return Ok(Exit::Usage) };
    let key = read_key(provider.name)?;
    let Some(key) = key else { return Ok(Exit::Cancelled) };
    if key.expose().is_empty() {
        bail!("the key is empty; nothing was changed");
    }
    if !key.expose().bytes().all(|byte| byte.is_ascii_graphic()) {
        bail!("the key holds a space or a character that no key has; nothing was changed");
    }
    set_key(&folder, provider.name, Some(&key))?;
    let path = folder.join("credentials.toml");
    say(format_args!("The key of {} is kept in {}.", provider.name, path.display()));
    app.reload();
    tell_what_wins(app, provider, &path);
    Ok(Exit::Done)
}

/// Removes a key.
pub(super) fn logout(app: &App, arguments: &Arguments) -> anyhow::Result<Exit> {
    let Some((provider, folder)) = target(app, arguments)? else { return Ok(Exit::Usage) };
    let removed = set_key(&folder, provider.name, None)?;
    match removed {
        true => say(format_args!("The key of {} was removed.", provider.name)),
        false => say(format_args!("There was no key of {} in credentials.toml.", provider.name)),
    }
    app.reload();
    let settings = app.settings();
    let left = settings.provider(provider.name).and_then(|provider| provider.key_source.clone());
    if let Some(source) = left {
        say(format_args!("note: there is another key, from {source}"));
    }
    Ok(Exit::Done)
}

/// The provider and the folder of the file; `None` when the command line is wrong.
fn target(
    app: &App,
    arguments: &Arguments,
) -> anyhow::Result<Option<(&'static KnownProvider, PathBuf)>> {
    let settings = app.settings();
    let of_model = settings.route.as_ref().filter(|route| route_fault(route).is_none());
    let of_model = of_model.map(|route| route.provider.to_string());
    let name = arguments.provider.clone().or(of_model).unwrap_or_else(|| "anthropic".to_owned());
    let Some(provider) = KnownProvider::named(&name).filter(|known| known.is_supported()) else {
        say(format_args!("bridle: no provider `{name}`; use {}", supported_names()));
        return Ok(None);
    };
    let folder = settings.config.clone().context(Places::no_config())?;
    Ok(Some((provider, folder)))
}

/// The key without the space around it; `None` when the person gave up.
fn read_key(provider: &str) -> anyhow::Result<Option<Secret>> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        write!(io::stderr(), "Key of {provider} (it is not shown): ")?;
        let line = terminal::read_hidden_line(&stdin, MAX_KEY)?;
        writeln!(io::stderr())?;
        return Ok(line.map(|line| Secret::new(line.trim())));
    }
    let mut text = String::new();
    stdin
        .lock()
        .take(MAX_KEY + 1)
        .read_to_string(&mut text)
        .context("the key on standard input")?;
    anyhow::ensure!(
        text.len() as u64 <= MAX_KEY,
        "what came on standard input is too long for a key"
    );
    Ok(Some(Secret::new(text.trim())))
}

/// Says so when the new key is not the one that is used.
fn tell_what_wins(app: &App, known: &KnownProvider, path: &std::path::Path) {
    let settings = app.settings();
    let Some(provider) = settings.provider(known.name) else { return };
    match (&provider.key_source, &provider.withheld) {
        (Some(Source::File { path: file, .. }), _) if file == path => {}
        (Some(source), _) => say(format_args!("note: the key from {source} is used instead of it")),
        (None, Some(reason)) => say(format_args!("note: {reason}")),
        (None, None) => say(format_args!("note: it is not used; `bridle doctor` says why")),
    }
}
