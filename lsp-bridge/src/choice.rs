//! Which servers are for a file, in the order in which they are to be asked.
//!
//! A server that is only for marked projects (deno, a linter with a configuration) counts below its
//! marker alone. Whether any of them is there is for [`crate::locate`] to find out.

use std::path::{Path, PathBuf};

use crate::roots::{Way, matches};
use crate::{Purpose, ServerDefinition};

/// A server for a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice<'a> {
    /// The server.
    pub definition: &'a ServerDefinition,
    /// The folder it is started in, canonical.
    pub root: PathBuf,
    /// The protocol's identifier of the file's language.
    pub language: &'a str,
}

/// The servers for `file`, each with its root, those first that are preferred; none for a file outside of
/// `session_roots`. Those that navigate are rivals: the first that is there is asked. Linters
/// ([`Purpose::Diagnostics`]) are asked beside it. Blocks.
pub fn servers_for<'a>(
    file: &Path,
    definitions: &'a [ServerDefinition],
    session_roots: &[PathBuf],
) -> Vec<Choice<'a>> {
    let of_kind: Vec<_> = definitions
        .iter()
        .filter_map(|definition| Some((definition, language_of(file, definition)?)))
        .collect();
    if of_kind.is_empty() {
        return Vec::new();
    }
    let Some(way) = Way::of(file, session_roots) else { return Vec::new() };
    // How far away the nearest marker is that makes a project the business of one server alone.
    let nearest = |needs_marker: bool| {
        let rivals = of_kind.iter().map(|(definition, _)| definition);
        let rivals = rivals.filter(|it| it.purpose == Purpose::Everything);
        let rivals = rivals.filter(|it| it.needs_marker == needs_marker);
        rivals.filter_map(|it| way.distance(it)).min()
    };
    let claimed = nearest(true).filter(|at| nearest(false).is_none_or(|other| *at <= other));
    let is_asked =
        |definition: &ServerDefinition| match (definition.needs_marker, definition.purpose) {
            (false, Purpose::Diagnostics) => true,
            (true, Purpose::Diagnostics) => way.distance(definition).is_some(),
            (false, Purpose::Everything) => claimed.is_none(),
            (true, Purpose::Everything) => claimed.is_some() && way.distance(definition) == claimed,
        };
    let asked = of_kind.iter().filter(|(definition, _)| is_asked(definition));
    asked
        .map(|(definition, language)| Choice { definition, root: way.root(definition), language })
        .collect()
}

/// The identifier of the language of a file, by its name alone; `None` when the server is not for it. A
/// whole name goes before an ending, a longer ending before a shorter one; capital letters count only
/// where a small one would be something else.
pub fn language_of<'a>(file: &Path, definition: &'a ServerDefinition) -> Option<&'a str> {
    let name = file.file_name()?.to_str()?;
    let small = name.to_ascii_lowercase();
    let rank = |kind: &str| match kind.strip_prefix('.') {
        _ if kind == name => Some((3, 0)),
        None if kind.contains('*') && matches(kind, name) => Some((2, 0)),
        Some(_) if name.ends_with(kind) => Some((1, kind.len())),
        Some(_) if small.ends_with(&kind.to_ascii_lowercase()) => Some((0, kind.len())),
        _ => None,
    };
    let kinds = definition.files.iter().filter_map(|kind| Some((rank(&kind.name)?, kind)));
    kinds.max_by_key(|(rank, _)| *rank).map(|(_, kind)| kind.language.as_str())
}

#[cfg(test)]
mod tests;
