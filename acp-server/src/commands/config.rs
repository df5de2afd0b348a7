//! `bridle config`: what holds, and which layer said so. Never a key.

use std::io::Write;

use bridle_compose::{RowState, RowStatus};
use bridle_toolkit::{Listing, Skill};
use clap::Subcommand;

use super::{Exit, say};
use crate::composition::{App, fault};
use crate::config::Places;
use crate::text;

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Print every value with the layer it came from (keys are only said to be set), then the
    /// parts that run and how they stand, and the skills of this folder.
    Show,
    /// Print the path of config.toml, whether or not it exists.
    Path,
}

pub(super) async fn run(app: &App, action: Action) -> anyhow::Result<Exit> {
    let settings = app.settings();
    match action {
        Action::Show => {
            let (process, (session, skills)) = (app.parts().await, app.session_parts().await);
            let mut out = std::io::stdout().lock();
            for row in &settings.rows {
                writeln!(out, "{} = {}  # {}", row.key, text::visible(&row.value), row.source)?;
            }
            if settings.route.is_none() {
                writeln!(out, "# model is not set: no provider has a key")?;
            }
            show_parts(&mut out, "the process", &process)?;
            show_parts(&mut out, "each session", &session)?;
            show_skills(&mut out, skills.as_deref())?;
            for problem in &settings.problems {
                say(format_args!("problem: {problem}"));
            }
            for fault in skills.iter().flat_map(|skills| &skills.faults) {
                say(format_args!("problem: {fault}"));
            }
        }
        Action::Path => match &settings.config {
            Some(folder) => {
                let path = folder.join("config.toml");
                writeln!(std::io::stdout().lock(), "{}", path.display())?;
            }
            None => {
                say(format_args!("bridle: {}", Places::no_config()));
                return Ok(Exit::Failed);
            }
        },
    }
    Ok(Exit::Done)
}

/// One line per part, in the order in which they are set up.
fn show_parts(out: &mut impl Write, of: &str, parts: &[RowStatus]) -> std::io::Result<()> {
    writeln!(out, "\n# the parts of {of}")?;
    for part in parts {
        let plugin = if part.plugin == part.id { "" } else { part.plugin.as_str() };
        let state = match (&part.state, fault(part)) {
            (RowState::Disabled, _) => "switched off".to_owned(),
            (_, Some(fault)) => format!("NOT ACTIVE: {fault}"),
            (_, None) if part.provides.is_empty() => "active".to_owned(),
            (_, None) => {
                let provides: Vec<_> = part.provides.iter().map(ToString::to_string).collect();
                format!("active, provides {}", provides.join(", "))
            }
        };
        writeln!(
            out,
            "{:<20} {}{}{state}",
            part.id,
            plugin,
            if plugin.is_empty() { "" } else { " " }
        )?;
    }
    Ok(())
}

/// One line per skill, the strongest first; those that another one shadows behind it.
fn show_skills(out: &mut impl Write, skills: Option<&Listing>) -> std::io::Result<()> {
    let Some(Listing { skills, shadowed, .. }) = skills else { return Ok(()) };
    writeln!(out, "\n# the skills of a session in this folder")?;
    for skill in skills {
        show_skill(out, skill, "")?;
        for other in shadowed.iter().filter(|other| other.name == skill.name) {
            show_skill(out, other, "  NOT USED: one of that name stands above")?;
        }
    }
    Ok(())
}

fn show_skill(out: &mut impl Write, skill: &Skill, note: &str) -> std::io::Result<()> {
    let place = match &skill.file {
        Some(file) => file.display().to_string(),
        None => "in the program".to_owned(),
    };
    writeln!(out, "{:<20} {:<8} {}{note}", skill.name, skill.rank, text::visible(&place))
}
