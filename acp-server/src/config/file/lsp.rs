//! `[lsp]` and `[lsp.NAME]`: what language servers may do, and what they are.

use std::path::{Component, Path};

use bridle_lsp::ServerPatch;
use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeValue, ValueDeserializer};

use super::{Reader, Setting, values};

/// What `[lsp]` says. What a server's texts name of the environment is not filled in.
#[derive(Clone, Debug)]
pub(in crate::config) enum LspSetting {
    Enabled(bool),
    AfterEdit(bool),
    Most(u32),
    RestAfter(u32),
    Memory(u32),
    /// An absolute folder, or one that begins with `~/`.
    Trusted(String),
    Server(String, Box<ServerPatch>),
}

/// The keys that are not servers.
const KEYS: [&str; 6] =
    ["enabled", "trusted", "after_edit", "max_servers", "max_memory_mib", "rest_after_s"];

impl Reader<'_> {
    pub(super) fn lsp(&mut self, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            return self.wrong_type("lsp", "a table", value);
        };
        for (key, value) in table {
            let set: fn(u32) -> Setting;
            match key.get_ref().as_ref() {
                "enabled" => {
                    self.flag("enabled", value, |it| Setting::Lsp(LspSetting::Enabled(it)));
                }
                "after_edit" => {
                    self.flag("after_edit", value, |it| Setting::Lsp(LspSetting::AfterEdit(it)));
                }
                "max_servers" => {
                    set = |it| Setting::Lsp(LspSetting::Most(it));
                    self.number("max_servers", value, set);
                }
                "max_memory_mib" => {
                    set = |it| Setting::Lsp(LspSetting::Memory(it));
                    self.number("max_memory_mib", value, set);
                }
                "rest_after_s" => {
                    set = |it| Setting::Lsp(LspSetting::RestAfter(it));
                    self.number("rest_after_s", value, set);
                }
                "trusted" => self.trusted(value),
                name if value.get_ref().as_table().is_some() => {
                    self.language_server(name.trim(), key.span().start, value);
                }
                unknown => self.unknown(key.span().start, "key", unknown, &KEYS),
            }
        }
    }

    fn trusted(&mut self, value: &Spanned<DeValue<'_>>) {
        let Some(folders) = value.get_ref().as_array() else {
            return self.wrong_type("trusted", "a list of folders", value);
        };
        for folder in folders {
            let start = folder.span().start;
            let text = folder.get_ref().as_str().map(str::trim);
            let is_root = |part: Component<'_>| part == Component::RootDir;
            match text {
                Some(path) if !path.is_empty() && Path::new(path).components().all(is_root) => {
                    let text = "`trusted` names the whole machine, ignored; name folders";
                    self.problem(start, text);
                }
                Some(path) if path.starts_with("~/") || Path::new(path).is_absolute() => {
                    self.entry(start, Setting::Lsp(LspSetting::Trusted(path.to_owned())));
                }
                _ => {
                    let expected = "a list of absolute folders, or of ones such as \"~/src\"";
                    self.wrong_type("trusted", expected, folder);
                }
            }
        }
    }

    fn language_server(&mut self, name: &str, start: usize, value: &Spanned<DeValue<'_>>) {
        if name.is_empty() {
            return self.problem(start, "a language server has a name; ignored");
        }
        match ServerPatch::deserialize(ValueDeserializer::from(value.clone())) {
            Ok(patch) => {
                let server = LspSetting::Server(name.to_owned(), Box::new(patch));
                self.entry(start, Setting::Lsp(server));
            }
            Err(error) => {
                let at = error.span().map_or(start, |span| span.start);
                let fault = values::without_values(error.message());
                self.problem(at, &format!("lsp.{name}: {fault}; it is left out"));
            }
        }
    }
}
