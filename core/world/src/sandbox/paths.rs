//! Paths in the request to a supervisor: every path can be told, also one that is not UTF-8.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

pub(super) fn serialize<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
    let paths: Vec<OsString> = paths.iter().map(|path| path.clone().into()).collect();
    paths.serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
    Ok(Vec::<OsString>::deserialize(from)?.into_iter().map(PathBuf::from).collect())
}

/// The same for a single path.
pub(super) mod one {
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(crate) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        path.as_os_str().serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        OsString::deserialize(from).map(PathBuf::from)
    }
}
