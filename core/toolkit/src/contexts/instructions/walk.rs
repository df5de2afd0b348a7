//! Which folders may hold instructions, and in which order they are told.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bridle_world::Roots;

/// The most nested folders that are looked into.
const MAX_NESTED: usize = 1_000;

/// The folders on the way to each root and, behind those, on the way to each touched file: from the
/// outermost root down, never above it. The working directory's come after those of other roots, and
/// a folder always after the one it lies in.
pub(super) fn folders<'a>(roots: &Roots, touched: impl Iterator<Item = &'a Path>) -> Vec<PathBuf> {
    let mut tops: Vec<&Path> = roots.all().filter_map(|root| top(roots, root)).collect();
    tops.reverse();
    let of = |folder: &Path| -> Vec<(usize, PathBuf)> {
        let Some(top) = top(roots, folder) else { return Vec::new() };
        let rank = tops.iter().rposition(|it| *it == top).unwrap_or_default();
        let chain = folder.ancestors().take_while(|folder| folder.starts_with(top));
        chain.map(|folder| (rank, folder.to_owned())).collect()
    };
    let own: BTreeSet<_> = roots.all().flat_map(of).collect();
    let mut nested = BTreeSet::new();
    let mut last = None;
    for folder in touched.filter_map(Path::parent) {
        if nested.len() >= MAX_NESTED {
            break;
        }
        // What is touched comes sorted, so files of one folder mostly come together.
        if last != Some(folder) {
            nested.extend(of(folder).into_iter().filter(|it| !own.contains(it)));
            last = Some(folder);
        }
    }
    own.into_iter().chain(nested).map(|(_, folder)| folder).collect()
}

/// The outermost root that a folder lies in.
fn top<'a>(roots: &'a Roots, folder: &Path) -> Option<&'a Path> {
    let around = roots.all().filter(|root| folder.starts_with(root));
    around.min_by_key(|root| root.components().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(cwd: &str, extra: &[&str], touched: &[&str]) -> Vec<String> {
        let roots = Roots::new(cwd.into(), extra.iter().map(PathBuf::from).collect());
        let folders = folders(&roots, touched.iter().map(Path::new));
        folders.into_iter().map(|folder| folder.display().to_string()).collect()
    }

    #[test]
    fn from_the_outermost_root_down_and_never_above() {
        assert_eq!(walk("/p/a/b", &[], &[]), ["/p/a/b"]);
        assert_eq!(walk("/p/a/b", &["/p"], &[]), ["/p", "/p/a", "/p/a/b"]);
        let other = ["/other", "/p", "/p/a", "/p/a/b"];
        assert_eq!(walk("/p/a/b", &["/p", "/other"], &[]), other);
        assert_eq!(walk("/p", &["/p/a/b"], &[]), ["/p", "/p/a", "/p/a/b"]);
    }

    #[test]
    fn nested_folders_come_behind_and_only_those_of_the_roots() {
        let touched = ["/etc/passwd", "/p/src/deep/x.rs", "/p/src/y.rs", "/p/z", "/pp/x"];
        assert_eq!(walk("/p", &[], &touched), ["/p", "/p/src", "/p/src/deep"]);
        let many: Vec<String> = (0..3 * MAX_NESTED).map(|n| format!("/p/{n}/x")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(walk("/p", &[], &many).len(), MAX_NESTED + 1);
    }
}
