//! A long text without its middle.

/// What `text` begins and ends with, at most so many bytes each and whole characters, and between them
/// what `note` says of how many bytes are missing. Both together must be shorter than the text.
pub(crate) fn without_middle(
    text: &str,
    beginning: usize,
    end: usize,
    note: impl FnOnce(usize) -> String,
) -> String {
    let (beginning, _) = text.split_at(text.floor_char_boundary(beginning));
    let (_, end) = text.split_at(text.ceil_char_boundary(text.len().saturating_sub(end)));
    let missing = text.len().saturating_sub(beginning.len().saturating_add(end.len()));
    format!("{beginning}\n{}\n{end}", note(missing))
}
