//! The models Bridle knows: limits, levels, prices and quirks, read from a dated TOML file in the
//! binary, with what an endpoint listed and what the user says differently put over it.
//!
//! The file is read on first use. What it does not list can still be used, with limits that are
//! safe to assume; see [`Catalogue::assume`].

mod row;

use std::sync::LazyLock;

use bridle_session::{PriceList, Route};
use serde::Deserialize;

pub use self::row::{CatalogueModel, CatalogueProvider, Dialect, Input, ModelPatch, Thinking};
use crate::{Effort, ImageLimits, ListedModel, RouteLimits};

/// What is assumed of a model of which nobody has said it.
const ASSUMED: RouteLimits = RouteLimits { window: 128_000, max_output: 8_000 };

/// All known models.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    as_of: String,
    providers: Vec<CatalogueProvider>,
    models: Vec<CatalogueModel>,
}

/// The form of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    as_of: String,
    #[serde(rename = "provider")]
    providers: Vec<CatalogueProvider>,
    #[serde(rename = "group")]
    groups: Vec<Group>,
}

/// Models of one provider whose facts are from one place.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    provider: String,
    dialect: Dialect,
    thinking: Thinking,
    images: ImageLimits,
    as_of: String,
    source: String,
    #[serde(rename = "model")]
    models: Vec<Known>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    id: String,
    name: String,
    window: u64,
    max_output: u64,
    levels: Vec<Effort>,
    default_level: Option<Effort>,
    inputs: Vec<Input>,
    #[serde(default)]
    system_messages: bool,
    prices: Option<PriceList>,
}

impl Catalogue {
    /// The catalogue in the binary.
    pub fn builtin() -> &'static Self {
        static BUILTIN: LazyLock<Catalogue> = LazyLock::new(|| {
            Catalogue::parse(include_str!("catalogue.toml")).unwrap_or_else(|error| {
                tracing::error!(%error, "the built-in model catalogue is unreadable");
                Catalogue::default()
            })
        });
        &BUILTIN
    }

    fn parse(text: &str) -> Result<Self, toml::de::Error> {
        let File { as_of, providers, groups } = toml::from_str(text)?;
        let models = groups.into_iter().flat_map(Group::rows).collect();
        Ok(Self { as_of, providers, models })
    }

    /// With the models that the endpoint of `provider` listed on the day `as_of`: those that were
    /// not known are added, with the limits that it gave or that are safe to assume.
    #[must_use]
    pub fn with_listed(mut self, provider: &str, as_of: &str, listed: &[ListedModel]) -> Self {
        for model in listed {
            let route = Route { provider: provider.into(), model: model.id.as_str().into() };
            if self.find(&route).is_some() {
                continue;
            }
            let Some(assumed) = self.assume(&route) else { return self };
            self.models.push(CatalogueModel {
                name: model.name.clone().unwrap_or(assumed.name),
                window: model.window.unwrap_or(assumed.window),
                max_output: model.max_output.unwrap_or(assumed.max_output),
                assumed: model.window.is_none() || model.max_output.is_none(),
                as_of: as_of.to_owned(),
                source: "the provider's list".to_owned(),
                ..assumed
            });
        }
        self
    }

    /// With what the user says of the model of `route`, also of one that is not listed. Nothing
    /// happens when its provider is unknown.
    #[must_use]
    pub fn with_patch(mut self, route: &Route, patch: &ModelPatch) -> Self {
        let at = self.models.iter().position(|model| is_of(model, route));
        let row = at.map(|at| self.models.remove(at)).or_else(|| self.assume(route));
        if let Some(row) = row {
            let at = at.unwrap_or(self.models.len());
            self.models.insert(at, row.patched(patch));
        }
        self
    }

    /// The day of which the facts in the binary are, e.g. `2026-12-01`.
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
        self.models.iter().find(|model| is_of(model, route))
    }

    /// The model that `provider` is asked for when the user names none.
    pub fn default_for(&self, provider: &str) -> Option<&CatalogueModel> {
        let id = &self.provider(provider)?.default_model;
        self.models.iter().find(|model| model.provider == provider && model.id == *id)
    }

    /// A row for a model that is not listed, with small limits (128K window, 8K answer), no
    /// optional features and no prices; a caller that uses it should say so. `None` when the
    /// provider is unknown too.
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
            levels: Vec::new(),
            default_level: None,
            inputs: vec![Input::Text],
            images: ImageLimits::ASSUMED,
            system_messages: false,
            prices: None,
            assumed: true,
            as_of: self.as_of.clone(),
            source: "nowhere: assumed".to_owned(),
        })
    }

    /// The row of a route: the listed one, else one with what is assumed; `None` when the provider
    /// is unknown too.
    pub fn row(&self, route: &Route) -> Option<CatalogueModel> {
        self.find(route).cloned().or_else(|| self.assume(route))
    }
}

impl Group {
    fn rows(self) -> impl Iterator<Item = CatalogueModel> {
        let Self { provider, dialect, thinking, images, as_of, source, models } = self;
        models.into_iter().map(move |known| CatalogueModel {
            provider: provider.clone(),
            id: known.id,
            name: known.name,
            dialect,
            window: known.window,
            max_output: known.max_output,
            thinking,
            levels: known.levels,
            default_level: known.default_level,
            inputs: known.inputs,
            images,
            system_messages: known.system_messages,
            prices: known.prices,
            assumed: false,
            as_of: as_of.clone(),
            source: source.clone(),
        })
    }
}

fn is_of(model: &CatalogueModel, route: &Route) -> bool {
    *model.provider == *route.provider && *model.id == *route.model
}

#[cfg(test)]
mod tests;
