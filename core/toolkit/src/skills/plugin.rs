//! Skills as a row of a session: what they are, the list of them, the tool, and the calls of a person.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{ContextInput, ContextSource, OfferedTools, PreStep, Tool};
use bridle_compose::{ActivateError, Plugin, ServiceKey, Setup};
use bridle_world::Roots;
use bridle_world::files::Files;
use schemars::JsonSchema;
use serde::Deserialize;

use super::called::Called;
use super::tool::{SkillArguments, SkillTool};
use super::walk::Place;
use super::{Rank, Skills, catalogue};
use crate::arguments::Arguments as _;
use crate::contexts::add;
use crate::file_tool::FileWorld;
use crate::read_rules::ReadRules;

/// Puts the skills of a session into its scope.
pub(crate) struct SkillsPlugin;

/// Where skills are, and how much is told of them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SkillsConfig {
    /// Folders in each root, relative to it, the strongest first.
    project: Vec<PathBuf>,
    /// Absolute folders of the user, the strongest first.
    user: Vec<PathBuf>,
    /// The most that the list for the model may take up, in bytes.
    catalogue_bytes: usize,
    /// The names of skills that are not wanted.
    off: Vec<String>,
}

#[async_trait]
impl Plugin for SkillsPlugin {
    const NAME: &'static str = "skills";
    type Config = SkillsConfig;
    type Needs = (Arc<Roots>, Arc<dyn Files>);

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<Skills>()]
    }

    async fn activate(
        &self,
        config: SkillsConfig,
        (roots, files): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let SkillsConfig { project, user, catalogue_bytes, off } = config;
        let in_roots = roots.all().flat_map(|root| project.iter().map(|folder| root.join(folder)));
        let in_roots = in_roots.map(|folder| Place { rank: Rank::Project, folder });
        let own = user.into_iter().map(|folder| Place { rank: Rank::User, folder });
        let places = in_roots.chain(own).collect();
        let skills = Arc::new(Skills::new(
            FileWorld::new(roots, files),
            places,
            off,
            ReadRules::of(setup.scope()),
        ));
        setup.hook::<PreStep>(Arc::new(Called(Arc::clone(&skills))))?;
        let offered = setup.scope().get::<OfferedTools>();
        // Nothing is said of what the model of this session cannot load.
        if offered.is_none_or(|offered| offered.offers(SkillArguments::TOOL)) {
            let tool: Arc<dyn Tool> = Arc::new(SkillTool::new(Arc::clone(&skills)));
            setup.add(SkillArguments::TOOL, tool)?;
            add(setup, Catalogue { skills: Arc::clone(&skills), budget: catalogue_bytes })?;
        }
        Ok(setup.provide(skills)?)
    }
}

/// Tells the model which skills there are.
struct Catalogue {
    skills: Arc<Skills>,
    /// In bytes.
    budget: usize,
}

#[async_trait]
impl ContextSource for Catalogue {
    fn name(&self) -> &str {
        "skills"
    }

    async fn collect(&self, _: &ContextInput) -> Option<String> {
        let listing = self.skills.refresh().await;
        catalogue::context(&listing, self.budget)
    }
}
