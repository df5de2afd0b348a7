//! The system prompt. Constant, so that every request of a session begins with the same bytes.

/// What the model is told before everything else.
pub fn system_prompt() -> &'static str {
    include_str!("system_prompt.md")
}
