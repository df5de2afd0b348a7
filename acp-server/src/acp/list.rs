//! `session/list`: pages over the store's listing.
//!
//! A cursor names the last row of its page by time and id, so that sessions created or changed
//! between two pages neither repeat nor hide a row that did not move.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{ListSessionsResponse, SessionInfo};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bridle_session::{SessionId, UnixMillis};
use bridle_store::{Listing, SessionRow};

use super::errors;
use crate::text;

/// Rows on one page.
const PAGE: usize = 100;

/// The longest title that is listed, in characters.
const TITLE_LIMIT: usize = 200;

/// One page of a listing. Blocks on the disk, for the folder's canonical name.
///
/// # Errors
/// When the cursor was not made here, and when the folder is relative: no one could say to what.
pub(super) fn page(
    listing: Listing,
    cwd: Option<PathBuf>,
    cursor: Option<&str>,
) -> Result<ListSessionsResponse, Error> {
    if cwd.as_deref().is_some_and(Path::is_relative) {
        return Err(errors::invalid_params("session/list: `cwd` must be an absolute path"));
    }
    let after = match cursor {
        None => None,
        Some(cursor) => Some(read_cursor(cursor).ok_or_else(|| {
            errors::invalid_params("session/list: this cursor was not made by this program")
        })?),
    };
    for (id, failure) in &listing.unreadable {
        tracing::warn!(session = %id, error = %failure, "a stored session cannot be read");
    }
    // A client may name the folder by another path than the canonical one.
    let canonical = cwd.as_deref().and_then(|cwd| fs_err::canonicalize(cwd).ok());
    let here = |row: &SessionRow| match (&cwd, &canonical) {
        (None, _) => true,
        (Some(asked), canonical) => {
            row.header.cwd == *asked || Some(&row.header.cwd) == canonical.as_ref()
        }
    };
    // A subagent's session is part of that of its person, and cannot be opened.
    let is_own = |row: &SessionRow| row.header.delegation_depth == 0;
    let rows = listing.sessions.into_iter().filter(|row| is_own(row) && here(row));
    let mut rows: Vec<SessionRow> = rows.collect();
    rows.sort_by_cached_key(|row| Reverse(key(row)));
    rows.retain(|row| after.as_ref().is_none_or(|after| key(row) < *after));
    let more = rows.len() > PAGE;
    rows.truncate(PAGE);
    let next = rows.last().filter(|_| more).map(write_cursor);
    Ok(ListSessionsResponse::new(rows.iter().map(info).collect()).next_cursor(next))
}

fn key(row: &SessionRow) -> (UnixMillis, SessionId) {
    (row.updated_at(), row.header.id.clone())
}

fn write_cursor(row: &SessionRow) -> String {
    URL_SAFE_NO_PAD.encode(format!("1:{}:{}", row.updated_at().0, row.header.id))
}

fn read_cursor(cursor: &str) -> Option<(UnixMillis, SessionId)> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let text = std::str::from_utf8(&bytes).ok()?;
    let (time, id) = text.strip_prefix("1:")?.split_once(':')?;
    Some((UnixMillis(time.parse().ok()?), SessionId::parse(id)?))
}

fn info(row: &SessionRow) -> SessionInfo {
    let title = row.title().map(|title| text::shorten(&text::visible(title), TITLE_LIMIT));
    let cwd: &Path = &row.header.cwd;
    SessionInfo::new(row.header.id.as_str().to_owned(), cwd)
        .additional_directories(row.header.extra_roots.clone())
        .title(title)
        .updated_at(iso_8601(row.updated_at()))
}

fn iso_8601(time: UnixMillis) -> Option<String> {
    let millis = i64::try_from(time.0).ok()?;
    Some(jiff::Timestamp::from_millisecond(millis).ok()?.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bridle_session::Header;

    use super::*;

    fn row(number: u64) -> SessionRow {
        let header = Header {
            format: Header::FORMAT,
            id: SessionId::new(format!("00000000-0000-7000-8000-{number:012x}")),
            created_at: UnixMillis(0),
            cwd: if number.is_multiple_of(2) { "/even".into() } else { "/odd".into() },
            extra_roots: Vec::new(),
            parent: None,
            origin: "acp".into(),
            delegation_depth: 0,
            terms: Default::default(),
        };
        let title = bridle_session::Title { text: Some(format!("title\n{number}")) };
        // Every third shares its time with its neighbours, so that ids must break the tie.
        let last_time = Some(UnixMillis(number / 3 * 1_000));
        let summary = bridle_session::Summary { title, last_time, ..Default::default() };
        SessionRow { header: Arc::new(header), summary }
    }

    fn listing(rows: u64) -> Listing {
        Listing { sessions: (0..rows).map(row).collect(), unreadable: Vec::new() }
    }

    #[test]
    fn pages_cover_every_row_once_newest_first() {
        let mut cursor: Option<String> = None;
        let mut seen = Vec::new();
        loop {
            let page = page(listing(250), None, cursor.as_deref()).unwrap();
            assert!(page.sessions.len() <= PAGE);
            seen.extend(page.sessions);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        let numbers: Vec<u64> = seen
            .iter()
            .map(|info| u64::from_str_radix(info.session_id.0.rsplit('-').next().unwrap(), 16))
            .map(Result::unwrap)
            .collect();
        assert_eq!(numbers, (0..250).rev().collect::<Vec<_>>());
        assert_eq!(seen[0].title.as_deref(), Some(r"title\n249"));
        assert_eq!(seen[0].updated_at.as_deref(), Some("1970-01-01T00:01:23Z"));
    }

    #[test]
    fn the_folder_filters_and_a_foreign_cursor_is_an_error() {
        let count = |cwd: &str| page(listing(10), Some(cwd.into()), None).unwrap().sessions.len();
        assert_eq!(count("/odd"), 5);
        assert_eq!(count("/none"), 0);
        for cwd in ["", ".", "odd", "../odd", "~"] {
            let error = page(listing(10), Some(cwd.into()), None).unwrap_err();
            assert_eq!(i32::from(error.code), -32602, "{cwd}");
        }
        for cursor in ["", "abc", "MTox", "!!"] {
            let error = page(listing(10), None, Some(cursor)).unwrap_err();
            assert_eq!(i32::from(error.code), -32602);
        }
    }
}
