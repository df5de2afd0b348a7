//! Paths as the protocol writes them, and back. Servers spell one file in many ways; only decoded paths
//! are ever compared.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// What RFC 3986 lets stand in a path as it is.
const KEPT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The URI of an absolute path.
pub(crate) fn uri_of(path: &Path) -> String {
    format!("file://{}", percent_encode(path.as_os_str().as_bytes(), KEPT))
}

/// The absolute path that a URI names; `None` for what is no file of this machine. A raw character that
/// should have been encoded is taken as it is, as some servers leave brackets, blanks and more.
pub(crate) fn path_of(uri: &str) -> Option<PathBuf> {
    let (scheme, rest) = uri.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("file") {
        return None;
    }
    let path = match rest.strip_prefix("//") {
        Some(rest) => {
            let start = rest.find('/')?;
            let (host, path) = rest.split_at_checked(start)?;
            if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                return None;
            }
            path
        }
        None => rest,
    };
    if !path.starts_with('/') {
        return None;
    }
    let bytes: Vec<u8> = percent_decode_str(path).collect();
    Some(normal(Path::new(&OsString::from_vec(bytes))))
}

/// Without `.`, `..` and doubled slashes; no link is followed.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => normal.push(name),
            Component::ParentDir => {
                normal.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_comes_back_however_it_is_spelled() {
        let path = Path::new("/w/a (b) [é]#%+?.py");
        assert_eq!(uri_of(path), "file:///w/a%20%28b%29%20%5B%C3%A9%5D%23%25%2B%3F.py");
        for uri in [
            uri_of(path).as_str(),
            "file:///w/a%20(b)%20[%C3%A9]%23%25+%3F.py",
            "file:///w/a (b) [é]%23%25+%3f.py",
            "FILE:///w/./x/../a%20%28b%29%20%5b%c3%a9%5d%23%25%2b%3f.py",
            "file://localhost/w//a%20(b)%20[%C3%A9]%23%25+%3F.py",
        ] {
            assert_eq!(path_of(uri).as_deref(), Some(path), "{uri}");
        }
        assert_eq!(path_of("file:/w/x"), Some(PathBuf::from("/w/x")));
    }

    #[test]
    fn what_is_no_file_here_has_no_path() {
        for uri in ["jdt://contents/x", "file://server/share", "untitled:1", "/w/x", "", "file:w"] {
            assert_eq!(path_of(uri), None, "{uri}");
        }
    }

    #[test]
    fn names_that_are_no_text_survive() {
        let path = PathBuf::from(OsString::from_vec(b"/w/\xff".to_vec()));
        assert_eq!(path_of(&uri_of(&path)), Some(path));
    }
}
