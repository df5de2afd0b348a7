//! The rows that are built in, and what the user's settings set in them.

use bridle_compose::Row;
use serde::Deserialize;
use serde_json::json;

use crate::config::Settings;

/// Rows as data.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bundle {
    /// The rows of the process.
    pub(super) process: Vec<Row>,
    /// The rows of each session.
    pub(super) session: Vec<Row>,
}

impl Bundle {
    /// The one in the program.
    ///
    /// # Errors
    /// Never in a program whose tests passed.
    pub(super) fn builtin() -> Result<Self, toml::de::Error> {
        toml::from_str(include_str!("bundle.toml"))
    }
}

/// The row with what the settings say of its plugin.
pub(super) fn configured(row: Row, settings: &Settings, modes: &[bridle_agent::Mode]) -> Row {
    let config = match row.plugin() {
        "budget" => settings.budget.clone().into(),
        "fallback" => match &settings.fallback {
            Some(route) => json!({ "model": route.to_string() }),
            None => return Row { disabled: true, ..row },
        },
        "permission-modes" => json!(settings.permissions),
        "sandbox" => json!({
            "folder": settings.sandbox_folder(),
            "writable": settings.sandbox.writable,
        }),
        "apply_patch" => return Row { disabled: !settings.apply_patch, ..row },
        "terminal" => return Row { disabled: !settings.terminal, ..row },
        "driver" => json!({
            "mode": settings.mode,
            "modes": modes,
            "model": settings.route.as_ref().map(ToString::to_string),
            "thinking": settings.thinking,
        }),
        _ => return row,
    };
    row.with(config)
}
