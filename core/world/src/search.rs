//! Search in process, with ripgrep's crates.
//!
//! Both searches walk a folder as ripgrep does: ignore files are obeyed, hidden files are
//! included, `.git` is not, links are never followed. They run on blocking threads, stop at named
//! limits, say what they left out, and end soon after their token is cancelled. Results are in
//! the order of their paths.

mod content;
mod file;
mod names;
mod rules;
mod survey;
#[cfg(test)]
mod tests;
mod walk;

use std::time::Duration;

pub use content::{ContentFound, ContentQuery, Hit, Pattern, search_content};
pub use names::{NamesFound, NamesQuery, search_names};
pub use rules::Rules as IgnoreRules;
pub use survey::{Survey, survey};
pub use walk::PassedOver;

use crate::files::FileError;

/// How long one search goes on.
const MAX_TIME: Duration = Duration::from_secs(20);
/// The most entries that one walk visits.
pub const MAX_VISITED: usize = 1_000_000;
/// The most matches that are collected before they are sorted and cut to what was asked for.
pub const MAX_COLLECTED: usize = 10_000;
/// Files larger than this (bytes) are not searched for content.
pub const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// A search that could not begin, or was cancelled.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The pattern is no regular expression, or needs more than one line.
    #[error("the pattern cannot be used: {0}")]
    Pattern(String),
    /// The glob is malformed, or leads out of the folder.
    #[error("the glob cannot be used: {0}")]
    Glob(String),
    /// What is to be searched is neither a folder nor a file that can be read.
    #[error(transparent)]
    Place(FileError),
    /// The token was cancelled.
    #[error("the search was cancelled")]
    Cancelled,
}
