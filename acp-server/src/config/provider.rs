//! The providers that a configuration may name, and the variables that speak of them.

use bridle_model::Catalogue;

/// One provider that Bridle has a name for.
#[derive(Clone, Copy, Debug)]
pub struct KnownProvider {
    /// The name in configuration and in routes.
    pub name: &'static str,
    /// The variable that holds its key.
    pub key_variable: &'static str,
    /// The variable that holds its base URL.
    pub base_url_variable: &'static str,
}

/// All of them, in the order in which a key is looked for.
pub const PROVIDERS: [KnownProvider; 5] = [
    KnownProvider {
        name: "anthropic",
        key_variable: "ANTHROPIC_API_KEY",
        base_url_variable: "ANTHROPIC_BASE_URL",
    },
    KnownProvider {
        name: "deepseek",
        key_variable: "DEEPSEEK_API_KEY",
        base_url_variable: "DEEPSEEK_BASE_URL",
    },
    KnownProvider {
        name: "openai",
        key_variable: "OPENAI_API_KEY",
        base_url_variable: "OPENAI_BASE_URL",
    },
    KnownProvider {
        name: "openai-compatible",
        key_variable: "OPENAI_COMPATIBLE_API_KEY",
        base_url_variable: "OPENAI_COMPATIBLE_BASE_URL",
    },
    KnownProvider {
        name: "ollama",
        key_variable: "OLLAMA_API_KEY",
        base_url_variable: "OLLAMA_HOST",
    },
];

impl KnownProvider {
    /// The provider with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PROVIDERS.iter().find(|provider| provider.name == name)
    }

    /// Whether this version speaks its wire: the catalogue has a row for it.
    pub fn is_supported(&self) -> bool {
        Catalogue::builtin().provider(self.name).is_some()
    }
}

/// The names of the providers that work, for messages: `anthropic or deepseek`.
pub fn supported_names() -> String {
    let names: Vec<_> =
        PROVIDERS.iter().filter(|provider| provider.is_supported()).map(|p| p.name).collect();
    names.join(" or ")
}
