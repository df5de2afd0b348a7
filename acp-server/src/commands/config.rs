//! `bridle config`: what holds, and which layer said so. Never a key.

use std::io::Write as _;

use clap::Subcommand;

use super::{Exit, say};
use crate::composition::App;
use crate::config::Places;
use crate::text;

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Print every value with the layer it came from; keys are only said to be set.
    Show,
    /// Print the path of config.toml, whether or not it exists.
    Path,
}

pub(super) fn run(app: &App, action: Action) -> anyhow::Result<Exit> {
    let settings = app.settings();
    let mut out = std::io::stdout().lock();
    match action {
        Action::Show => {
            for row in &settings.rows {
                writeln!(out, "{} = {}  # {}", row.key, text::visible(&row.value), row.source)?;
            }
            if settings.route.is_none() {
                writeln!(out, "# model is not set: no provider has a key")?;
            }
            for problem in &settings.problems {
                say(format_args!("problem: {problem}"));
            }
        }
        Action::Path => match &settings.config {
            Some(folder) => writeln!(out, "{}", folder.join("config.toml").display())?,
            None => {
                say(format_args!("bridle: {}", Places::no_config()));
                return Ok(Exit::Failed);
            }
        },
    }
    Ok(Exit::Done)
}
