//! Writes `credentials.toml`: one key put in or taken out, everything else as it was.
//!
//! The file appears whole, readable by its owner alone. One that cannot be parsed is left as it is:
//! nobody knows what would be lost.

use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use bridle_model::Secret;
use toml::de::{DeTable, DeValue};

/// Why a key could not be kept or removed.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The file is there and is not TOML, or holds something else where the key belongs.
    #[error("{} is not what Bridle writes ({reason}); mend it, or remove it", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The disk said no.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Puts the key of `provider` into `credentials.toml` of the folder `config` (made if missing), or
/// takes it out. Says whether the file changed. Blocks on the disk.
///
/// # Errors
/// [`CredentialsError`]; the file is as it was then.
pub fn set_key(
    config: &Path,
    provider: &str,
    key: Option<&Secret>,
) -> Result<bool, CredentialsError> {
    let path = config.join("credentials.toml");
    let old = match fs_err::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    let new = edited(&old, provider, key)
        .map_err(|reason| CredentialsError::Unreadable { path: path.clone(), reason })?;
    if new == old && key.is_none() {
        return Ok(false);
    }
    publish(config, &path, &new)?;
    Ok(true)
}

/// The text with another key, or without it.
fn edited(text: &str, provider: &str, key: Option<&Secret>) -> Result<String, String> {
    let table = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
    let place = place_of(table.get_ref(), provider)?;
    let quoted = key.map(|key| toml::Value::from(key.expose()).to_string());
    let cut = |range: &Range<usize>| (text.get(..range.start), text.get(range.end..));
    let new = match (&place, &quoted) {
        (Place::Key { value, .. }, Some(quoted)) => match cut(value) {
            (Some(before), Some(behind)) => format!("{before}{quoted}{behind}"),
            _ => return Err("a key is in the middle of a character".to_owned()),
        },
        (Place::Key { whole, .. }, None) => match cut(whole) {
            (Some(before), Some(behind)) => {
                let behind = behind.strip_prefix('\n').unwrap_or(behind);
                format!("{before}{behind}")
            }
            _ => return Err("a key is in the middle of a character".to_owned()),
        },
        (Place::Nowhere, Some(quoted)) => {
            let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            format!("{text}{gap}[providers.{provider}]\napi_key = {quoted}\n")
        }
        (Place::Nowhere, None) => text.to_owned(),
    };
    let check = DeTable::parse(&new).map_err(|_| "its tables are written in an unusual way")?;
    let is_set = matches!(place_of(check.get_ref(), provider)?, Place::Key { .. });
    (is_set == key.is_some()).then_some(new).ok_or_else(|| "its tables are unusual".to_owned())
}

/// Where the key of a provider is.
enum Place {
    Nowhere,
    Key { whole: Range<usize>, value: Range<usize> },
}

fn place_of(root: &DeTable<'_>, provider: &str) -> Result<Place, String> {
    let Some(providers) = root.get("providers") else { return Ok(Place::Nowhere) };
    let table = |value: &DeValue<'_>, name: &str| {
        value.as_table().map(|_| ()).ok_or_else(|| format!("`{name}` is no table"))
    };
    table(providers.get_ref(), "providers")?;
    let own = providers.get_ref().as_table().and_then(|table| table.get(provider));
    let Some(own) = own else { return Ok(Place::Nowhere) };
    table(own.get_ref(), provider)?;
    let entry = own.get_ref().as_table().and_then(|table| table.get_key_value("api_key"));
    Ok(entry.map_or(Place::Nowhere, |(key, value)| Place::Key {
        whole: key.span().start..value.span().end,
        value: value.span(),
    }))
}

/// Temporary files are readable by their owner alone from the start.
fn publish(config: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(config)?;
    let mut file = tempfile::Builder::new().prefix(".credentials-").tempfile_in(config)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|failed| failed.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, key: Option<&str>, expected: Result<&str, &str>) {
        let key = key.map(Secret::new);
        match (edited(old, "anthropic", key.as_ref()), expected) {
            (Ok(new), Ok(expected)) => assert_eq!(new, expected, "from {old:?}"),
            (Err(reason), Err(expected)) => assert!(reason.contains(expected), "{reason}"),
            (got, expected) => panic!("{old:?}: {got:?}, not {expected:?}"),
        }
    }

    #[test]
    fn one_key_changes_and_nothing_else() {
        let other = "# mine\n[providers.deepseek]\napi_key = \"d\" # keep\n";
        let both = format!("{other}[providers.anthropic]\napi_key = \"a\"\n");
        check("", Some("a"), Ok("[providers.anthropic]\napi_key = \"a\"\n"));
        check(other, Some("a"), Ok(&both));
        check(&both, Some("b"), Ok(&both.replace("\"a\"", "\"b\"")));
        check(&both, None, Ok(&format!("{other}[providers.anthropic]\n")));
        check(other, None, Ok(other));
        check(
            "[providers]\nanthropic.api_key = 'a'\n",
            Some("b"),
            Ok("[providers]\nanthropic.api_key = \"b\"\n"),
        );
        check("", Some("a\"\\b"), Ok("[providers.anthropic]\napi_key = 'a\"\\b'\n"));
    }

    #[test]
    fn a_file_that_is_not_ours_stays() {
        check("[providers\n", Some("a"), Err(""));
        check("providers = 3\n", Some("a"), Err("no table"));
        check("[providers]\nanthropic = {}\n", Some("a"), Err("unusual"));
    }
}
