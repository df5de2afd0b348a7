//! What a client may choose: modes, and the same together with the models as configuration
//! options. Both views show one state.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    ConfigOptionUpdate, CurrentModeUpdate, SessionConfigOption, SessionConfigOptionCategory,
    SessionConfigSelectOption, SessionMode, SessionModeState, SessionUpdate,
};
use bridle_agent::Mode;
use bridle_model::{CatalogueModel, Effort};
use bridle_session::{Route, ThinkingSelected};
use serde_json::{Value, json};

use super::errors;
use crate::composition::{App, ModelChoice};

/// The id of the option that chooses the mode.
pub(super) const MODE: &str = "mode";

/// The id of the option that chooses the model.
pub(super) const MODEL: &str = "model";

/// The id of the option that chooses the thinking level.
pub(super) const THINKING: &str = "thinking";

/// What a session is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) mode: Mode,
    /// The mode that the session cannot go above.
    pub(super) ceiling: Mode,
    /// `None` while no provider has a key.
    pub(super) route: Option<Route>,
    /// `None` for the model's own choice.
    pub(super) effort: Option<Effort>,
}

/// The modes for an answer to new or load.
pub(super) fn modes(app: &App, chosen: &Chosen) -> SessionModeState {
    let modes = offered(app, chosen)
        .map(|mode| SessionMode::new(mode.id(), mode.name()).description(mode.description()));
    SessionModeState::new(chosen.mode.id(), modes.collect())
}

/// The models in the form that they had before there were options; `None` where there is none.
pub(super) fn models_as_before(app: &App, chosen: &Chosen) -> Option<Value> {
    let models = models(app, chosen.route.as_ref());
    let current = chosen.route.as_ref().or_else(|| models.first().map(|model| &model.route))?;
    let offered =
        models.iter().map(|model| json!({"modelId": model.route.to_string(), "name": model.name}));
    let offered: Vec<_> = offered.collect();
    Some(json!({"currentModelId": current.to_string(), "availableModels": offered}))
}

/// Every option with its value: the list is always complete.
pub(super) fn all(app: &App, chosen: &Chosen) -> Vec<SessionConfigOption> {
    let modes: Vec<_> = offered(app, chosen)
        .map(|mode| {
            SessionConfigSelectOption::new(mode.id(), mode.name()).description(mode.description())
        })
        .collect();
    let mode = SessionConfigOption::select(MODE, "Mode", chosen.mode.id(), modes)
        .description("What may be done without asking")
        .category(SessionConfigOptionCategory::Mode);
    let models = models(app, chosen.route.as_ref());
    let Some(current) = chosen.route.as_ref().or_else(|| models.first().map(|model| &model.route))
    else {
        return vec![mode];
    };
    let current = current.to_string();
    let models: Vec<_> = models
        .iter()
        .map(|model| SessionConfigSelectOption::new(model.route.to_string(), model.name.clone()))
        .collect();
    let model = SessionConfigOption::select(MODEL, "Model", current, models)
        .description("Which model answers")
        .category(SessionConfigOptionCategory::Model);
    let thinking = chosen.route.as_ref().and_then(|route| thinking(app, route, chosen.effort));
    [mode, model].into_iter().chain(thinking).collect()
}

/// The thinking levels that the model of `route` takes; `None` where it takes none. What is shown
/// as chosen is what the model is asked for.
fn thinking(app: &App, route: &Route, effort: Option<Effort>) -> Option<SessionConfigOption> {
    let model = app.catalogue().row(route).filter(|model| !model.levels.is_empty())?;
    let own = model.default_level.map_or("Default".to_owned(), |own| format!("Default ({own})"));
    let default = SessionConfigSelectOption::new(ThinkingSelected::DEFAULT, own)
        .description("The model's own choice");
    let levels =
        model.levels.iter().map(|level| SessionConfigSelectOption::new(level.id(), name(*level)));
    let current = model.level(effort).map_or(ThinkingSelected::DEFAULT, Effort::id);
    let values: Vec<_> = std::iter::once(default).chain(levels).collect();
    let option = SessionConfigOption::select(THINKING, "Thinking", current, values)
        .description("How hard the model thinks before it answers")
        .category(SessionConfigOptionCategory::ThoughtLevel);
    Some(option)
}

fn name(level: Effort) -> &'static str {
    match level {
        Effort::Off => "Off",
        Effort::Low => "Low",
        Effort::Medium => "Medium",
        Effort::High => "High",
        Effort::XHigh => "Very high",
        Effort::Max => "Maximum",
    }
}

/// The updates after a change: clients that know options only and those that know modes only are
/// both told.
pub(super) fn changed(app: &App, chosen: &Chosen) -> [SessionUpdate; 2] {
    [
        SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new(chosen.mode.id())),
        SessionUpdate::ConfigOptionUpdate(ConfigOptionUpdate::new(all(app, chosen))),
    ]
}

/// The mode with this id.
///
/// # Errors
/// When a client may not choose it now.
pub(super) fn mode(app: &App, ceiling: Mode, id: &str) -> Result<Mode, Error> {
    match Mode::from_id(id) {
        Some(mode) if app.modes_under(ceiling).contains(&mode) => Ok(mode),
        Some(mode) if mode > ceiling => Err(errors::above_ceiling(ceiling)),
        _ => Err(errors::invalid_params("this mode is not among the session's modes")),
    }
}

/// The model with this id, if a client may choose it now.
pub(super) fn model(app: &App, id: &str) -> Option<Route> {
    let route = Route::parse(id)?;
    app.models().into_iter().any(|model| model.route == route).then_some(route)
}

/// The thinking level with this id, and the models that take it; the level `None` is the model's
/// own choice.
pub(super) fn effort(app: &App, id: &str) -> Option<(Option<Effort>, Vec<Route>)> {
    if id == ThinkingSelected::DEFAULT {
        return Some((None, Vec::new()));
    }
    let level = Effort::from_id(id)?;
    let takes = |model: &&CatalogueModel| model.levels.contains(&level);
    Some((
        Some(level),
        app.catalogue().models().iter().filter(takes).map(CatalogueModel::route).collect(),
    ))
}

/// The modes a client may choose and, should it not be among them, the current one.
fn offered(app: &App, chosen: &Chosen) -> impl Iterator<Item = Mode> {
    let modes = app.modes_under(chosen.ceiling);
    let current = chosen.mode;
    Mode::ALL.into_iter().filter(move |mode| *mode == current || modes.contains(mode))
}

/// The models, with the current one in front should it not be among them.
fn models(app: &App, current: Option<&Route>) -> Vec<ModelChoice> {
    let mut models = app.models();
    if let Some(route) = current
        && !models.iter().any(|model| model.route == *route)
    {
        models.insert(0, app.model(route));
    }
    models
}
