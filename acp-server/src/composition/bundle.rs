//! The rows that are built in, and what the user's settings set in them.

use std::num::NonZeroU64;

use bridle_agent::Mode;
use bridle_compose::Row;
use bridle_session::{Route, Terms};
use serde::Deserialize;
use serde_json::{Map, Value, json};

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

/// The row with what the settings, and within them the session's own terms, say of its plugin.
pub(super) fn configured(row: Row, settings: &Settings, terms: &Terms, modes: &[Mode]) -> Row {
    let prompt = terms.system_prompt.as_ref();
    let config = match row.plugin() {
        "system-prompt" => return Row { disabled: prompt.is_some_and(|own| own.replaces), ..row },
        "client-prompt" => match prompt {
            Some(prompt) => json!({ "text": prompt.text }),
            None => return Row { disabled: true, ..row },
        },
        "instructions" => settings.instructions.of_plugin(settings.config.as_deref()),
        "budget" => budget(settings, terms).into(),
        "compaction" => settings.compaction.clone().into(),
        "fallback" => match &settings.fallback {
            Some(route) => json!({ "model": route.to_string() }),
            None => return Row { disabled: true, ..row },
        },
        "permission-modes" => json!(settings.permissions),
        "sandbox" => json!({
            "folder": settings.sandbox_folder(),
            "writable": settings.sandbox.writable,
            "max_processes": settings.sandbox.max_processes,
        }),
        "skills" if settings.skills.enabled => settings.skills.row(),
        "skills" => return Row { disabled: true, ..row },
        "code" => return Row { disabled: !settings.lsp.enabled, ..row },
        "apply_patch" => return Row { disabled: !settings.apply_patch, ..row },
        "terminal" => return Row { disabled: !settings.terminal, ..row },
        "driver" => json!({
            "mode": modes.iter().max().map_or(settings.mode, |most| settings.mode.min(*most)),
            "modes": modes,
            "model": terms.model.clone().or_else(|| default_model(settings)),
            "thinking": settings.thinking,
        }),
        _ => return row,
    };
    row.with(config)
}

/// The model of sessions that name none. One without a provider is left to the first request, which
/// says what is wrong with it.
fn default_model(settings: &Settings) -> Option<String> {
    let route = settings.route.as_ref().filter(|route| !route.provider.is_empty());
    route.map(Route::to_string)
}

/// The limits of the user, the steps of a turn cut further by the session's terms.
fn budget(settings: &Settings, terms: &Terms) -> Map<String, Value> {
    let mut limits = settings.budget.clone();
    if let Some(asked) = terms.turn_steps.map(NonZeroU64::get) {
        let own = limits.get("turn_steps").and_then(Value::as_u64);
        let steps = own.map_or(asked, |own| own.min(asked));
        limits.insert("turn_steps".to_owned(), json!(steps));
    }
    limits
}
