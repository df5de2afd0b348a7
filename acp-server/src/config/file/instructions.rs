//! `[instructions]`: which files hold instructions and how much of them a model is told.

use toml::Spanned;
use toml::de::DeValue;

use super::{Reader, Setting};

/// What `[instructions]` says.
#[derive(Clone, Debug)]
pub(in crate::config) enum InstructionsSetting {
    Names(Vec<String>),
    FileBytes(u32),
    TotalBytes(u32),
}

const KEYS: [&str; 3] = ["names", "file_bytes", "total_bytes"];

/// The most names that a file may have.
const MAX_NAMES: usize = 16;

impl Reader<'_> {
    pub(super) fn instructions(&mut self, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            return self.wrong_type("instructions", "a table", value);
        };
        for (key, value) in table {
            let set: fn(u32) -> Setting;
            match key.get_ref().as_ref() {
                "names" => self.names(value),
                "file_bytes" => {
                    set = |it| Setting::Instructions(InstructionsSetting::FileBytes(it));
                    self.number("file_bytes", value, set);
                }
                "total_bytes" => {
                    set = |it| Setting::Instructions(InstructionsSetting::TotalBytes(it));
                    self.number("total_bytes", value, set);
                }
                unknown => self.unknown(key.span().start, "key", unknown, &KEYS),
            }
        }
    }

    fn names(&mut self, value: &Spanned<DeValue<'_>>) {
        let names = value.get_ref().as_array().and_then(|names| {
            let names = names.iter().map(|name| name.get_ref().as_str().filter(|it| is_name(it)));
            names.map(|name| name.map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        match names.filter(|names| names.len() <= MAX_NAMES) {
            Some(names) => {
                let setting = InstructionsSetting::Names(names);
                self.entry(value.span().start, Setting::Instructions(setting));
            }
            None => self.wrong_type("names", "a list of at most 16 file names", value),
        }
    }
}

/// Whether a text can only be the name of a file in the folder that is looked into.
fn is_name(text: &str) -> bool {
    !matches!(text, "" | "." | "..")
        && !text.contains(['/', '\\'])
        && !text.contains(char::is_control)
}
