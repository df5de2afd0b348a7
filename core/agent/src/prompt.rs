//! What the system prompt is made of.

/// One part of the system prompt, contributed to a scope under a name. The parts are joined in
/// the order of their registration, with an empty line between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptSection {
    /// The text, without a line end at its end.
    pub text: String,
}
