//! Where the skills of a session are: the folders that are always looked at, and those that the user
//! adds. Nothing that a workspace says is heard.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::environment::Environment;
use super::file::SkillsSetting;
use super::settings::{Row, Source};

/// The folders of each root, the strongest first: Bridle's own, and the one that agents share.
const PROJECT: [&str; 2] = [".bridle/skills", ".agents/skills"];

/// `[skills]`.
#[derive(Clone, Debug)]
pub struct SkillsConfig {
    /// Whether there are any skills at all.
    pub enabled: bool,
    /// Folders in each root, the strongest first.
    project: Vec<PathBuf>,
    /// Absolute folders of the user, the strongest first.
    user: Vec<PathBuf>,
    /// The most that the list for the model may take up, in bytes.
    catalogue_bytes: u32,
    /// The names of skills that are not wanted.
    off: Vec<String>,
}

impl SkillsConfig {
    /// What the part `skills` of a session is configured with.
    pub(crate) fn row(&self) -> Value {
        json!({
            "project": self.project,
            "user": self.user,
            "catalogue_bytes": self.catalogue_bytes,
            "off": self.off,
        })
    }
}

/// What the layers have said so far; the strongest last.
#[derive(Default)]
pub(super) struct SkillsWinners {
    enabled: Option<(bool, Source)>,
    catalogue_bytes: Option<(u32, Source)>,
    project: Vec<(String, Source)>,
    user: Vec<(String, Source)>,
    off: Vec<(String, Source)>,
}

impl SkillsWinners {
    pub(super) fn set(&mut self, setting: SkillsSetting, source: Source) {
        match setting {
            SkillsSetting::Enabled(flag) => self.enabled = Some((flag, source)),
            SkillsSetting::CatalogueBytes(bytes) => self.catalogue_bytes = Some((bytes, source)),
            SkillsSetting::Project(folder) => self.project.push((folder, source)),
            SkillsSetting::User(folder) => self.user.push((folder, source)),
            SkillsSetting::Off(name) => self.off.push((name, source)),
        }
    }

    /// `config` is the folder of `config.toml`.
    pub(super) fn settle(
        self,
        config: Option<&Path>,
        environment: &Environment,
        rows: &mut Vec<Row>,
        problems: &mut Vec<String>,
    ) -> SkillsConfig {
        let home = environment.path("HOME").filter(|home| home.is_absolute());
        let mut row = |key: &str, value: String, source: Source| {
            rows.push(Row { key: format!("skills.{key}"), value, source });
        };
        let mut project: Vec<_> = PROJECT.iter().map(PathBuf::from).collect();
        for (folder, source) in self.project {
            row("project", folder.clone(), source);
            project.push(folder.into());
        }
        let own = config.map(|config| config.join("skills"));
        let shared = home.as_ref().map(|home| home.join(".agents/skills"));
        let mut user: Vec<_> = own.into_iter().chain(shared).collect();
        for (folder, source) in self.user {
            let path = match (folder.strip_prefix("~/"), &home) {
                (None, _) => PathBuf::from(folder),
                (Some(below), Some(home)) => home.join(below),
                (Some(_), None) => {
                    problems.push(format!(
                        "{source}: `user`: HOME does not say where {folder} is; it is left out"
                    ));
                    continue;
                }
            };
            row("user", path.display().to_string(), source);
            user.push(path);
        }
        for (name, source) in &self.off {
            row("off", name.clone(), source.clone());
        }
        let mut enabled = true;
        if let Some((flag, source)) = self.enabled {
            enabled = flag;
            row("enabled", flag.to_string(), source);
        }
        let mut catalogue_bytes = 0;
        if let Some((bytes, source)) = self.catalogue_bytes {
            catalogue_bytes = bytes;
            row("catalogue_bytes", bytes.to_string(), source);
        }
        let off = self.off.into_iter().map(|(name, _)| name).collect();
        SkillsConfig { enabled, project, user, catalogue_bytes, off }
    }
}
