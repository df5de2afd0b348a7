//! Texts of servers, no longer than their readers need them.

/// The text, or its first `most` bytes and a mark that it goes on.
pub(crate) fn clipped(text: &str, most: usize) -> String {
    match text.len() <= most {
        true => text.to_owned(),
        false => {
            let head = text.get(..text.floor_char_boundary(most)).unwrap_or_default();
            format!("{} [...]", head.trim_end())
        }
    }
}
