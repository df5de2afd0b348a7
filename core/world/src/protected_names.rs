//! Names of files and folders that are protected wherever they stand.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Names of version control, editors and agents, which are kept absent directly below a root as well: an
/// empty folder stands there while a command runs. More of them would fill the root with placeholders;
/// deeper down the watch over changes tells of new ones.
pub(crate) const KEPT_ABSENT: [&str; 13] = [
    ".git",
    ".bridle",
    ".agents",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".idea",
    ".vscode",
    ".zed",
    ".mcp.json",
    ".husky",
    ".envrc",
];

/// The other ones.
const OTHERS: [&str; 33] = [
    // Git's of its user, which could not read a placeholder.
    ".gitconfig",
    // What shells and logins run.
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    ".xinitrc",
    ".xprofile",
    ".xsession",
    ".pam_environment",
    // Keys, and whom they are sent to.
    ".ssh",
    ".gnupg",
    ".aws",
    ".kube",
    ".docker",
    ".npmrc",
    ".pypirc",
    ".netrc",
    ".config/gh",
    ".config/git",
    ".config/fish",
    ".config/autostart",
];

/// Folder and file names whose content other programs execute or obey, or that hold keys. A write
/// to or below one of them, at any depth, is judged like a write outside the roots. Compared
/// without regard to ASCII case, because some file systems fold it.
pub fn protected_names() -> impl Iterator<Item = &'static str> {
    KEPT_ABSENT.into_iter().chain(OTHERS)
}

/// The folders of keys in a home: nothing of a session is to read them unasked.
pub fn key_folders(home: &Path) -> impl Iterator<Item = PathBuf> {
    [".ssh", ".gnupg", ".aws", ".config/gh"].into_iter().map(|name| home.join(name))
}

/// Which of [`protected_names`] the entry `name` of `folder` has.
pub(crate) fn protected_name(folder: &Path, name: &OsStr) -> Option<&'static str> {
    // Nearly every name is ruled out by its first letter.
    let dotted = name.as_encoded_bytes().first() == Some(&b'.');
    let within = folder.file_name().filter(|name| name.eq_ignore_ascii_case(".config"));
    if !dotted && within.is_none() {
        return None;
    }
    protected_names().find(|known| match known.split_once('/') {
        Some((_, last)) => within.is_some() && name.eq_ignore_ascii_case(last),
        None => name.eq_ignore_ascii_case(known),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_names_every_protected_name() {
        let readme = include_str!("../../../README.md");
        for name in protected_names() {
            assert!(readme.contains(&format!("`{name}`")), "{name}");
        }
    }
}
