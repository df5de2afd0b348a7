//! `[skills]`: where skills are looked for, how much is told of them, and which are not wanted.

use std::path::{Component, Path};

use toml::Spanned;
use toml::de::DeValue;

use super::{Reader, Setting};

/// What `[skills]` says.
#[derive(Clone, Debug)]
pub(in crate::config) enum SkillsSetting {
    Enabled(bool),
    /// A folder in each root, relative to it.
    Project(String),
    /// An absolute folder, or one that begins with `~/`.
    User(String),
    CatalogueBytes(u32),
    /// The name of a skill that is not wanted.
    Off(String),
}

const KEYS: [&str; 5] = ["enabled", "project", "user", "catalogue_bytes", "off"];

/// Below this many bytes not even names fit.
const LEAST_BYTES: u32 = 512;

impl Reader<'_> {
    pub(super) fn skills(&mut self, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            return self.wrong_type("skills", "a table", value);
        };
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "enabled" => {
                    self.flag("enabled", value, |it| Setting::Skills(SkillsSetting::Enabled(it)));
                }
                "catalogue_bytes" => {
                    let set = |it: u32| {
                        Setting::Skills(SkillsSetting::CatalogueBytes(it.max(LEAST_BYTES)))
                    };
                    self.number("catalogue_bytes", value, set);
                }
                "project" => self.texts("project", value, in_a_root),
                "user" => self.texts("user", value, of_the_user),
                "off" => self.texts("off", value, |name| Ok(SkillsSetting::Off(name.to_owned()))),
                unknown => self.unknown(key.span().start, "key", unknown, &KEYS),
            }
        }
    }

    fn texts(
        &mut self,
        key: &str,
        list: &Spanned<DeValue<'_>>,
        setting: fn(&str) -> Result<SkillsSetting, &'static str>,
    ) {
        let Some(items) = list.get_ref().as_array() else {
            return self.wrong_type(key, "a list of texts", list);
        };
        for item in items {
            let start = item.span().start;
            match item.get_ref().as_str().map(str::trim).map(setting) {
                Some(Ok(setting)) => self.entry(start, Setting::Skills(setting)),
                Some(Err(fault)) => self.problem(start, &format!("`{key}`: {fault}; ignored")),
                None => self.wrong_type(key, "a list of texts", item),
            }
        }
    }
}

fn in_a_root(text: &str) -> Result<SkillsSetting, &'static str> {
    let mut parts = Path::new(text).components();
    if text.is_empty() || !parts.all(|part| matches!(part, Component::Normal(_))) {
        return Err("a folder of a project is relative to it and stays in it");
    }
    Ok(SkillsSetting::Project(text.to_owned()))
}

fn of_the_user(text: &str) -> Result<SkillsSetting, &'static str> {
    let below = text.strip_prefix("~/").unwrap_or(text);
    let names_one = Path::new(below).components().any(|part| matches!(part, Component::Normal(_)));
    if !names_one || !(text.starts_with("~/") || Path::new(text).is_absolute()) {
        return Err("a folder of yours is absolute, or such as \"~/skills\"");
    }
    Ok(SkillsSetting::User(text.to_owned()))
}
