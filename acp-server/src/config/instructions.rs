//! What of `[instructions]` is in force.

use std::path::Path;

use serde_json::{Value, json};

use super::file::InstructionsSetting;
use super::settings::{Row, Source};

/// `[instructions]`.
#[derive(Clone, Debug, Default)]
pub struct InstructionsConfig {
    names: Vec<String>,
    file_bytes: u32,
    total_bytes: u32,
}

impl InstructionsConfig {
    /// As the plugin takes it; `home` is the user's own folder.
    pub(crate) fn of_plugin(&self, home: Option<&Path>) -> Value {
        let Self { names, file_bytes, total_bytes } = self;
        json!({
            "home": home,
            "names": names,
            "file_bytes": file_bytes,
            "total_bytes": total_bytes,
        })
    }
}

/// What the layers have said so far; the strongest last.
#[derive(Default)]
pub(super) struct InstructionsWinners {
    names: Option<(Vec<String>, Source)>,
    file_bytes: Option<(u32, Source)>,
    total_bytes: Option<(u32, Source)>,
}

impl InstructionsWinners {
    pub(super) fn set(&mut self, setting: InstructionsSetting, source: Source) {
        match setting {
            InstructionsSetting::Names(names) => self.names = Some((names, source)),
            InstructionsSetting::FileBytes(bytes) => self.file_bytes = Some((bytes, source)),
            InstructionsSetting::TotalBytes(bytes) => self.total_bytes = Some((bytes, source)),
        }
    }

    pub(super) fn settle(self, rows: &mut Vec<Row>) -> InstructionsConfig {
        let mut config = InstructionsConfig::default();
        let mut row = |key: &str, value: String, source: Source| {
            rows.push(Row { key: format!("instructions.{key}"), value, source });
        };
        if let Some((names, source)) = self.names {
            row("names", names.join(", "), source);
            config.names = names;
        }
        if let Some((bytes, source)) = self.file_bytes {
            row("file_bytes", bytes.to_string(), source);
            config.file_bytes = bytes;
        }
        if let Some((bytes, source)) = self.total_bytes {
            row("total_bytes", bytes.to_string(), source);
            config.total_bytes = bytes;
        }
        config
    }
}
