//! The words in the index: which events hold those that are looked for.
//!
//! What was said in event `seq` of session `key` has the row `key << 32 | seq`. The table keeps no
//! text, so a hit is a proposal and its text is read from the log. That none is missing rests on
//! the seal: a digest over everything that an answer is made of, checked before each answer and
//! each change, and renewed with each change.

use std::collections::{BTreeSet, HashMap};

use bridle_session::{Seq, SessionId};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};
use sha2::{Digest as _, Sha256};

use super::{Index, Mark, Trouble, unsound};

/// What was said in one session, to be taken in.
#[derive(Debug)]
pub(crate) struct TextsOf {
    pub(crate) id: SessionId,
    /// What the index must hold already, so that the texts follow it; otherwise they are all.
    pub(crate) after: Option<Mark>,
    /// The words of each event.
    pub(crate) texts: Vec<(Seq, String)>,
    /// Up to where they were read.
    pub(crate) upto: Mark,
}

/// Which events hold the words that were looked for, by session; also the sessions in which none
/// does. Sessions that are not here must be read.
pub(crate) type Texts = HashMap<SessionId, BTreeSet<Seq>>;

impl Index {
    /// What of each log the index holds the words of.
    pub(crate) fn indexed(&self) -> Result<HashMap<SessionId, Mark>, Trouble> {
        let mut select = self
            .connection
            .prepare("SELECT session.id, indexed.mark FROM indexed JOIN session USING (key)")?;
        let mut found = select.query([])?;
        let mut marks = HashMap::new();
        while let Some(columns) = found.next()? {
            let id: String = columns.get(0)?;
            let mark = columns.get_ref(1)?.as_str().map_err(unsound)?;
            marks.insert(SessionId::new(id), serde_json::from_str(mark).map_err(unsound)?);
        }
        Ok(marks)
    }

    /// Takes in texts, all or nothing. What another process has changed meanwhile is left to it.
    pub(crate) fn keep_texts(&mut self, texts: &[TextsOf]) -> Result<(), Trouble> {
        let change = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        check_seal(&change)?;
        for texts in texts {
            keep(&change, texts)?;
        }
        seal(&change)?;
        change.commit()?;
        Ok(())
    }

    /// Which events hold the words, in the sessions of which the index holds what `current` says.
    pub(crate) fn search(
        &mut self,
        words: &str,
        current: &HashMap<SessionId, Mark>,
    ) -> Result<Texts, Trouble> {
        let moment = self.connection.transaction()?;
        check_seal(&moment)?;
        let mut texts = Texts::new();
        let mut ids = HashMap::new();
        let mut select = moment.prepare(
            "SELECT key, session.id, indexed.mark FROM indexed JOIN session USING (key)",
        )?;
        let mut found = select.query([])?;
        while let Some(columns) = found.next()? {
            let (key, id, mark): (i64, String, String) =
                (columns.get(0)?, columns.get(1)?, columns.get(2)?);
            let id = SessionId::new(id);
            let mark: Mark = serde_json::from_str(&mark).map_err(unsound)?;
            if current.get(&id) == Some(&mark) {
                texts.insert(id.clone(), BTreeSet::new());
                ids.insert(key, id);
            }
        }
        let mut select = moment.prepare("SELECT rowid FROM text WHERE text MATCH ?1")?;
        let mut found = select.query([words])?;
        while let Some(columns) = found.next()? {
            let row: i64 = columns.get(0)?;
            let (key, seq) = (row >> 32, Seq((row & 0xFFFF_FFFF).cast_unsigned()));
            if let Some(hits) = ids.get(&key).and_then(|id| texts.get_mut(id)) {
                hits.insert(seq);
            }
        }
        Ok(texts)
    }
}

fn keep(change: &Transaction<'_>, texts: &TextsOf) -> Result<(), Trouble> {
    let Some(key) = key_of(change, &texts.id)? else { return Ok(()) };
    let held: Option<String> = change
        .query_row("SELECT mark FROM indexed WHERE key = ?1", [key], |row| row.get(0))
        .optional()?;
    let held: Option<Mark> =
        held.map(|mark| serde_json::from_str(&mark)).transpose().map_err(unsound)?;
    match &texts.after {
        Some(after) if held.as_ref() != Some(after) => return Ok(()),
        Some(_) => (),
        None => clear(change, key)?,
    }
    let mut insert = change.prepare("INSERT INTO text (rowid, words) VALUES (?1, ?2)")?;
    for (seq, words) in &texts.texts {
        let seq =
            u32::try_from(seq.0).map_err(|_| Trouble::Unusable("a log is too long".into()))?;
        insert.execute(params![row(key, seq), words])?;
    }
    let mark = serde_json::to_string(&texts.upto).map_err(unsound)?;
    change.execute(
        "INSERT OR REPLACE INTO indexed (key, mark) VALUES (?1, ?2)",
        params![key, mark],
    )?;
    Ok(())
}

/// Removes sessions with all that is known of them.
pub(super) fn forget(change: &Transaction<'_>, gone: &[SessionId]) -> Result<(), Trouble> {
    if gone.is_empty() {
        return Ok(());
    }
    check_seal(change)?;
    for id in gone {
        if let Some(key) = key_of(change, id)? {
            clear(change, key)?;
            change.execute("DELETE FROM session WHERE key = ?1", [key])?;
        }
    }
    seal(change)
}

fn clear(change: &Transaction<'_>, key: i64) -> Result<(), Trouble> {
    let rows = params![row(key, 0), row(key, u32::MAX)];
    change.execute("DELETE FROM text WHERE rowid BETWEEN ?1 AND ?2", rows)?;
    change.execute("DELETE FROM indexed WHERE key = ?1", [key])?;
    Ok(())
}

fn key_of(change: &Transaction<'_>, id: &SessionId) -> Result<Option<i64>, Trouble> {
    let select = "SELECT key FROM session WHERE id = ?1";
    Ok(change.query_row(select, [id.as_str()], |row| row.get(0)).optional()?)
}

fn row(key: i64, seq: u32) -> i64 {
    key << 32 | i64::from(seq)
}

/// Writes down what the text is now. FTS5 has the last of it in memory until it is told.
pub(super) fn seal(change: &Connection) -> Result<(), Trouble> {
    change.execute("INSERT INTO text (text) VALUES ('flush')", [])?;
    let digest = digest(change)?;
    change.execute("INSERT OR REPLACE INTO seal (key, digest) VALUES (1, ?1)", [digest])?;
    Ok(())
}

fn check_seal(moment: &Connection) -> Result<(), Trouble> {
    let sealed: [u8; 32] = moment.query_row("SELECT digest FROM seal", [], |row| row.get(0))?;
    if sealed == digest(moment)? {
        Ok(())
    } else {
        Err(unsound("its text is not what was written"))
    }
}

/// Over the tables in which FTS5 keeps its words, and over what they are known to hold.
fn digest(moment: &Connection) -> Result<[u8; 32], Trouble> {
    let mut hasher = Sha256::new();
    for table in [
        "SELECT id, block FROM text_data ORDER BY id",
        "SELECT segid, term, pgno FROM text_idx ORDER BY segid, term",
        "SELECT key, mark FROM indexed ORDER BY key",
    ] {
        let mut select = moment.prepare(table)?;
        let columns = select.column_count();
        let mut found = select.query([])?;
        while let Some(row) = found.next()? {
            for column in 0..columns {
                match row.get_ref(column)? {
                    ValueRef::Integer(number) => hasher.update(number.to_le_bytes()),
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                        hasher.update((bytes.len() as u64).to_le_bytes());
                        hasher.update(bytes);
                    }
                    ValueRef::Null | ValueRef::Real(_) => {
                        return Err(unsound("its text holds what was never written"));
                    }
                }
            }
        }
    }
    Ok(hasher.finalize().into())
}
