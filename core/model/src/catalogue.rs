//! The models Bridle knows: limits, dialect and quirks, read from a dated TOML file in the binary.

/// Which wire a model speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Anthropic Messages.
    Anthropic,
    /// DeepSeek's dialect of Anthropic Messages.
    DeepSeek,
}

/// One known model.
#[derive(Clone, Debug)]
pub struct CatalogueModel {
    /// The provider, e.g. `anthropic`.
    pub provider: String,
    /// The model id.
    pub id: String,
    /// The name a person reads.
    pub name: String,
    /// The context window, in tokens.
    pub window: u64,
    /// The longest answer, in tokens.
    pub max_output: u64,
}

/// All known models.
#[derive(Clone, Debug)]
pub struct Catalogue {
    _private: (),
}
