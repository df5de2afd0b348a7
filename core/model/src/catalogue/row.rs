//! What is known of one model and of one provider, and what a user may say differently.

use bridle_session::{PriceList, Route};
use serde::Deserialize;

use crate::plant::Plant;
use crate::{Effort, ImageLimits, RouteLimits};

/// Which wire a model speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// Anthropic Messages.
    Anthropic,
    /// DeepSeek's dialect of Anthropic Messages.
    DeepSeek,
}

/// What a request says about reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Thinking {
    /// Adaptive, with a summary that a person can read.
    Adaptive,
    /// Nothing: the provider's own default holds.
    Provider,
}

/// What a model reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Input {
    /// Text.
    Text,
    /// Images.
    Image,
}

/// One known model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogueModel {
    /// The provider, e.g. `anthropic`.
    pub provider: String,
    /// The model id.
    pub id: String,
    /// The name a person reads.
    pub name: String,
    /// Which wire it speaks.
    pub dialect: Dialect,
    /// The context window, in tokens.
    pub window: u64,
    /// The longest answer, in tokens.
    pub max_output: u64,
    /// What a request says about reasoning when no level is asked for.
    pub thinking: Thinking,
    /// The thinking levels that it takes, lowest first. A model without `off` always thinks; one
    /// without any is never told how hard.
    pub levels: Vec<Effort>,
    /// The level of its own choice, where that is known.
    pub default_level: Option<Effort>,
    /// What it reads.
    pub inputs: Vec<Input>,
    /// What it takes of images, where it reads them.
    pub images: ImageLimits,
    /// Whether it takes system messages behind the first message.
    pub system_messages: bool,
    /// What it costs, where that is known.
    pub prices: Option<PriceList>,
    /// Whether limits and features are assumed because nobody has said what they are.
    pub assumed: bool,
    /// The day of which the facts are.
    pub as_of: String,
    /// Where they are from.
    pub source: String,
}

impl CatalogueModel {
    /// The model's route.
    pub fn route(&self) -> Route {
        Route { provider: self.provider.as_str().into(), model: self.id.as_str().into() }
    }

    /// The model's limits.
    pub fn limits(&self) -> RouteLimits {
        RouteLimits { window: self.window, max_output: self.max_output }
    }

    /// What it takes of images; `None` when it reads none.
    pub fn image_limits(&self) -> Option<ImageLimits> {
        self.inputs.contains(&Input::Image).then_some(self.images)
    }

    /// The level to ask for when `wanted` is: the nearest that the model takes, so that no request
    /// is refused for it.
    pub fn level(&self, wanted: Option<Effort>) -> Option<Effort> {
        wanted?.nearest(&self.levels)
    }

    /// The row with what a user says differently.
    #[must_use]
    pub fn patched(mut self, patch: &ModelPatch) -> Self {
        fn set<T: Clone>(field: &mut T, said: &Option<T>) {
            if let Some(said) = said.as_ref().filter(|_| !Plant::NoOverride.is_in()) {
                field.clone_from(said);
            }
        }
        set(&mut self.name, &patch.name);
        set(&mut self.window, &patch.window);
        set(&mut self.max_output, &patch.max_output);
        set(&mut self.thinking, &patch.thinking);
        set(&mut self.levels, &patch.levels);
        set(&mut self.inputs, &patch.inputs);
        set(&mut self.system_messages, &patch.system_messages);
        self.default_level = patch.default_level.or(self.default_level);
        self.prices = patch.prices.clone().or(self.prices);
        self.assumed &= patch.window.is_none() || patch.max_output.is_none();
        self.levels.sort_unstable();
        self.levels.dedup();
        self.source.push_str(", changed in config.toml");
        self
    }
}

/// What a user says differently of a model, field by field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ModelPatch {
    /// See [`CatalogueModel::name`].
    pub name: Option<String>,
    /// See [`CatalogueModel::window`].
    pub window: Option<u64>,
    /// See [`CatalogueModel::max_output`].
    pub max_output: Option<u64>,
    /// See [`CatalogueModel::thinking`].
    pub thinking: Option<Thinking>,
    /// See [`CatalogueModel::levels`].
    pub levels: Option<Vec<Effort>>,
    /// See [`CatalogueModel::default_level`].
    pub default_level: Option<Effort>,
    /// See [`CatalogueModel::inputs`].
    pub inputs: Option<Vec<Input>>,
    /// See [`CatalogueModel::system_messages`].
    pub system_messages: Option<bool>,
    /// See [`CatalogueModel::prices`].
    pub prices: Option<PriceList>,
}

/// One known provider.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueProvider {
    /// The name, e.g. `anthropic`.
    pub name: String,
    /// Where it is asked unless the user says otherwise.
    pub base_url: String,
    /// The wire of its models that are not listed.
    pub dialect: Dialect,
    /// The id of the model that is used when the user names none.
    pub default_model: String,
}
