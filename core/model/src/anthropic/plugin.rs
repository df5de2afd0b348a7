//! The wire as a row.

use std::sync::Arc;

use async_trait::async_trait;
use bridle_compose::{ActivateError, Plugin, Setup};

use super::AnthropicAdapter;
use crate::{CatalogueModel, Dialect, HttpClient, ModelAdapter, ModelFailure, Secret, Wire};

/// Speaks Anthropic Messages, and DeepSeek's dialect of it.
pub(crate) struct AnthropicWire;

impl Wire for AnthropicWire {
    fn speaks(&self, dialect: Dialect) -> bool {
        match dialect {
            Dialect::Anthropic | Dialect::DeepSeek => true,
        }
    }

    fn adapter(
        &self,
        http: HttpClient,
        base_url: &str,
        key: Secret,
        model: CatalogueModel,
    ) -> Result<Box<dyn ModelAdapter>, ModelFailure> {
        Ok(Box::new(AnthropicAdapter::new(http, base_url, key, model)?))
    }
}

#[async_trait]
impl Plugin for AnthropicWire {
    const NAME: &'static str = "anthropic-messages";
    type Config = ();
    type Needs = ();

    async fn activate(&self, (): (), (): (), setup: &Setup) -> Result<(), ActivateError> {
        Ok(setup.add::<dyn Wire>(Self::NAME, Arc::new(Self))?)
    }
}
