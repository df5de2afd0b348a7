//! `[sandbox]`: how commands are confined.

use std::path::{Component, Path};

use bridle_world::sandbox::Tier;
use toml::Spanned;
use toml::de::DeValue;

use super::{Reader, Setting, nearest};

const KEYS: [&str; 3] = ["at_most", "max_processes", "writable"];

impl Reader<'_> {
    pub(super) fn sandbox(&mut self, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            return self.wrong_type("sandbox", "a table", value);
        };
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "at_most" => self.text_value("at_most", value, tier),
                "writable" => self.writable(value),
                "max_processes" => self.number("max_processes", value, Setting::MaxProcesses),
                unknown => self.unknown(key.span().start, "key", unknown, &KEYS),
            }
        }
    }

    fn writable(&mut self, value: &Spanned<DeValue<'_>>) {
        let Some(folders) = value.get_ref().as_array() else {
            return self.wrong_type("writable", "a list of folders", value);
        };
        for folder in folders {
            let start = folder.span().start;
            match folder.get_ref().as_str() {
                Some(path)
                    if Path::new(path).components().all(|part| part == Component::RootDir) =>
                {
                    self.problem(
                        start,
                        "`writable` names the whole machine, ignored; name folders",
                    );
                }
                Some(path) if Path::new(path).is_absolute() => {
                    self.entry(start, Setting::Writable(path.into()));
                }
                _ => self.wrong_type("writable", "a list of absolute folders", folder),
            }
        }
    }
}

fn tier(text: String) -> Result<Setting, String> {
    let tiers = [Tier::Full, Tier::Landlock, Tier::None];
    if let Some(tier) = tiers.into_iter().find(|tier| tier.to_string() == text) {
        return Ok(Setting::SandboxTier(tier));
    }
    let known = tiers.map(|tier| tier.to_string());
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let hint = nearest(&text, &known).map_or_else(
        || format!("known are {}", known.join(", ")),
        |near| format!("did you mean `{near}`?"),
    );
    Err(format!("unknown tier `{text}`, ignored; {hint}"))
}
