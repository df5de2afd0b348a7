//! From an older format version to the current one: one successor file for each step. The older
//! files stay, so a crash leaves a log at every moment.

use std::io;

use bridle_session::Session;

use crate::draft::Draft;
use crate::log::{LogText, unreadable};
use crate::log_folder::LogFolder;
use crate::sink::CommitError;
use crate::version::{Generation, Versions};
use crate::{Recovery, StoreError};

/// Brings a log to the current version; says which file it is then, and what was found in the
/// older one, if there was one. The folder's lock is held.
pub(crate) fn migrate(
    folder: &LogFolder,
    mut generation: Generation,
    versions: &Versions,
) -> Result<(Generation, Option<Recovery>), StoreError> {
    let mut found = None;
    while generation.version < versions.current {
        let (successor, recovery) = step(folder, generation, versions)?;
        generation = successor;
        found.get_or_insert(recovery);
    }
    Ok((generation, found))
}

/// Writes, checks and publishes the file of the next version.
fn step(
    folder: &LogFolder,
    from: Generation,
    versions: &Versions,
) -> Result<(Generation, Recovery), StoreError> {
    let to = Generation { version: from.version.saturating_add(1), ..from };
    let bytes = folder.read(from)?;
    let text = LogText::new(&folder.id, &bytes, from, versions)?;
    let mut log = text.decode()?;
    let torn_bytes = bytes.len().saturating_sub(log.valid_len) as u64;
    let recovery = Recovery {
        damage: std::mem::take(&mut log.damage),
        torn_bytes,
        kept_at: (torn_bytes > 0).then(|| folder.file(from)),
    };
    let session = log.fold()?;
    let mut draft = Draft::begin(folder, to)?;
    text.succeed(|lines| Ok(draft.write(lines)?))?;
    draft.sync()?;
    let written = folder.read_file(&draft.path())?;
    let successor = LogText::new(&folder.id, &written, to, versions)?.decode()?.fold()?;
    if !same(&session, &successor)? {
        let reason = format!("{} folds otherwise than {}", to.file_name(), from.file_name());
        return Err(unreadable(&folder.id, reason));
    }
    draft.publish().map_err(|error| match error {
        CommitError::NotWritten(error) | CommitError::Lost(error) => error,
    })?;
    tracing::info!(session = %folder.id, version = to.version, "migrated a log");
    Ok((to, recovery))
}

/// Whether two logs say the same. Of damaged bytes only the positions that they held are told
/// on; the bytes stay in the older file.
fn same(a: &Session, b: &Session) -> io::Result<bool> {
    if a.header() != b.header() || a.events().len() != b.events().len() {
        return Ok(false);
    }
    for (a, b) in a.events().iter().zip(b.events()) {
        if a.to_line()? != b.to_line()? {
            return Ok(false);
        }
    }
    Ok(true)
}
