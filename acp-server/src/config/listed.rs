//! What endpoints listed when a person last asked them: a file in the state folder, which may be
//! deleted at any time. It is read at start; nobody is asked then.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use bridle_model::{Catalogue, ListedModel};
use serde::{Deserialize, Serialize};

/// The largest file that is read.
const MAX_BYTES: u64 = 4 << 20;

/// The lists by provider.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Listed(BTreeMap<String, List>);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct List {
    /// The day on which the endpoint was asked, e.g. `2026-12-01`.
    as_of: String,
    models: Vec<ListedModel>,
}

impl Listed {
    /// The lists that are kept in the folder `state`; none where there is no file.
    ///
    /// # Errors
    /// What is wrong with the file, for a person.
    pub fn read(state: &Path) -> Result<Self, String> {
        let path = path(state);
        let unusable = |reason: &dyn std::fmt::Display| {
            format!(
                "{}: {reason}; it is not used; `bridle models --refresh` writes it anew",
                path.display()
            )
        };
        match fs_err::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(unusable(&error)),
            Ok(metadata) if !metadata.is_file() => return Err(unusable(&"is no regular file")),
            Ok(metadata) if metadata.len() > MAX_BYTES => {
                return Err(unusable(&format!("is larger than {MAX_BYTES} bytes")));
            }
            Ok(_) => {}
        }
        let text = fs_err::read_to_string(&path).map_err(|error| unusable(&error))?;
        serde_json::from_str(&text).map_err(|error| unusable(&error))
    }

    /// Puts the list of a provider, which was asked on the day `as_of`, in the place of its last one.
    pub fn set(&mut self, provider: &str, as_of: String, models: Vec<ListedModel>) {
        self.0.insert(provider.to_owned(), List { as_of, models });
    }

    /// Keeps the lists in the folder `state`, which is made if it is missing. The file appears whole.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, state: &Path) -> std::io::Result<()> {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state)?;
        let mut file = tempfile::Builder::new().prefix(".models-").tempfile_in(state)?;
        serde_json::to_writer(&mut file, self)?;
        file.flush()?;
        file.persist(path(state)).map(drop).map_err(|failed| failed.error)
    }

    /// The catalogue with what is listed here.
    pub(super) fn over(&self, catalogue: Catalogue) -> Catalogue {
        let lists = self.0.iter();
        lists.fold(catalogue, |catalogue, (provider, list)| {
            catalogue.with_listed(provider, &list.as_of, &list.models)
        })
    }

    /// Whether there is no list.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn path(state: &Path) -> PathBuf {
    state.join("models.json")
}
