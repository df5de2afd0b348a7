//! The models Bridle knows: limits, dialect and quirks, read from a dated TOML file in the binary.
//!
//! The file is read on first use. What it does not list can still be used, with limits that are
//! safe to assume; see [`Catalogue::assume`].

use std::sync::LazyLock;

use bridle_session::Route;
use serde::Deserialize;

use crate::RouteLimits;

/// What is assumed of a model that the catalogue does not list.
const ASSUMED: RouteLimits = RouteLimits { window: 128_000, max_output: 8_000 };

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

/// One known model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// What a request says about reasoning.
    pub thinking: Thinking,
    /// Whether a request may ask for an effort.
    pub effort: bool,
    /// Whether it reads images.
    pub vision: bool,
    /// Whether it takes system messages behind the first message.
    #[serde(default)]
    pub system_messages: bool,
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

/// All known models.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    as_of: String,
    #[serde(rename = "provider")]
    providers: Vec<CatalogueProvider>,
    #[serde(rename = "model")]
    models: Vec<CatalogueModel>,
}

impl Catalogue {
    /// The catalogue in the binary.
    pub fn builtin() -> &'static Self {
        static BUILTIN: LazyLock<Catalogue> = LazyLock::new(|| {
            toml::from_str(include_str!("catalogue.toml")).unwrap_or_else(|error| {
                tracing::error!(%error, "the built-in model catalogue is unreadable");
                Catalogue::default()
            })
        });
        &BUILTIN
    }

    /// The day of which the facts are, e.g. `2026-12-01`.
    pub fn as_of(&self) -> &str {
        &self.as_of
    }

    /// Every model, each provider's default first.
    pub fn models(&self) -> &[CatalogueModel] {
        &self.models
    }

    /// Every provider.
    pub fn providers(&self) -> &[CatalogueProvider] {
        &self.providers
    }

    /// The provider of that name.
    pub fn provider(&self, name: &str) -> Option<&CatalogueProvider> {
        self.providers.iter().find(|provider| provider.name == name)
    }

    /// The listed model of a route.
    pub fn find(&self, route: &Route) -> Option<&CatalogueModel> {
        self.models
            .iter()
            .find(|model| *model.provider == *route.provider && *model.id == *route.model)
    }

    /// The model that `provider` is asked for when the user names none.
    pub fn default_for(&self, provider: &str) -> Option<&CatalogueModel> {
        let id = &self.provider(provider)?.default_model;
        self.models.iter().find(|model| model.provider == provider && model.id == *id)
    }

    /// A row for a model that is not listed, with small limits (128K window, 8K answer) and no
    /// optional features; a caller that uses it should say so. `None` when the provider is
    /// unknown too.
    pub fn assume(&self, route: &Route) -> Option<CatalogueModel> {
        let provider = self.provider(&route.provider)?;
        Some(CatalogueModel {
            provider: provider.name.clone(),
            id: route.model.to_string(),
            name: route.model.to_string(),
            dialect: provider.dialect,
            window: ASSUMED.window,
            max_output: ASSUMED.max_output,
            thinking: Thinking::Provider,
            effort: false,
            vision: false,
            system_messages: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(text: &str) -> Route {
        Route::parse(text).unwrap()
    }

    #[test]
    fn the_built_in_file_is_whole() {
        let catalogue: Catalogue = toml::from_str(include_str!("catalogue.toml")).unwrap();
        assert_eq!(catalogue.as_of().len(), "2026-12-01".len());
        for model in catalogue.models() {
            assert!(catalogue.provider(&model.provider).is_some(), "{model:?}");
            assert_eq!(catalogue.find(&model.route()), Some(model), "{} is listed twice", model.id);
            assert!(model.max_output < model.window, "{model:?}");
        }
        for provider in catalogue.providers() {
            assert!(catalogue.default_for(&provider.name).is_some(), "{provider:?}");
        }
    }

    #[test]
    fn an_unlisted_model_of_a_known_provider_gets_small_limits() {
        let catalogue = Catalogue::builtin();
        let unlisted = route("anthropic/claude-next");
        assert_eq!(catalogue.find(&unlisted), None);
        let assumed = catalogue.assume(&unlisted).unwrap();
        assert_eq!(assumed.limits(), RouteLimits { window: 128_000, max_output: 8_000 });
        assert_eq!((assumed.dialect, assumed.route()), (Dialect::Anthropic, unlisted));
        assert_eq!(catalogue.assume(&route("nobody/x")), None);
    }

    #[test]
    fn the_defaults_are_named() {
        let catalogue = Catalogue::builtin();
        assert_eq!(catalogue.default_for("anthropic").unwrap().id, "claude-sonnet-5-5");
        assert_eq!(catalogue.default_for("deepseek").unwrap().id, "deepseek-flash");
    }
}
