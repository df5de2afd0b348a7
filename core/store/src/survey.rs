//! All sessions of a file store: their rows, and the hits in their logs.
//!
//! Everything comes from the logs. A row of the index stands for its log while that has not
//! changed, or was only added to; whatever is wrong with the index costs time and nothing else.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use bridle_session::{EventLine, Seq, SessionId, Summary};

use crate::index::{Index, IndexFile, Look, Mark, Row, Stamp, Texts, TextsOf, Trouble};
use crate::log::{End, LogText};
use crate::parallel::on_all_cores;
use crate::scan::summarise;
use crate::search::{Asked, Words, may_be_found, said};
use crate::{FileStore, Listing, SearchResults, SessionRow, StoreError};

/// How many bytes of words go into the index in one change. Others can use it in between.
const BATCH: usize = 4 * 1024 * 1024;

/// The rows of a store at one moment.
pub(crate) struct Survey {
    rows: Vec<Row>,
    /// Of sessions whose logs were not looked at.
    open: Vec<SessionRow>,
    unreadable: Vec<(SessionId, StoreError)>,
    /// Holds these rows, if it is there.
    index: Option<Index>,
}

impl FileStore {
    /// Looks at every session, and brings the index up to date. Of those that are there, `open` has
    /// the rows that need no look.
    pub(crate) fn survey(
        &self,
        mut open: HashMap<SessionId, SessionRow>,
    ) -> Result<Survey, StoreError> {
        let (mut shown, mut closed) = (Vec::new(), Vec::new());
        for id in self.ids()? {
            match open.remove(&id) {
                Some(row) => shown.push(row),
                None => closed.push(id),
            }
        }
        let opened = self.index.as_ref().filter(|_| !closed.is_empty()).and_then(IndexFile::open);
        let (mut index, known) = opened.unzip();
        let mut known = known.unwrap_or_default();
        shown.iter().for_each(|row| drop(known.remove(&row.header.id)));
        let sessions: Vec<_> = closed.into_iter().map(|id| (known.remove(&id), id)).collect();
        let keeps = index.is_some().then(SystemTime::now);
        let found = on_all_cores(&sessions, |(known, id)| self.fresh(id, known.as_ref(), keeps));
        let (mut rows, mut unreadable, mut changed) = (Vec::new(), Vec::new(), Vec::new());
        let mut gone: Vec<_> = known.into_keys().collect();
        for ((known, id), found) in sessions.into_iter().zip(found) {
            match found {
                Ok(None) => rows.extend(known),
                Ok(Some(row)) => {
                    if known.is_none_or(|known| known != row) {
                        changed.push(row.clone());
                    }
                    rows.push(row);
                }
                // A folder without a log: its creation was never acknowledged to anyone.
                Err(StoreError::NotFound(_)) => gone.extend(known.map(|_| id)),
                Err(error) => unreadable.push((id, error)),
            }
        }
        if let Some(open) = &mut index
            && let Err(trouble) = open.keep(&changed, &gone)
        {
            self.distrust(&trouble);
            index = None;
        }
        Ok(Survey { rows, open: shown, unreadable, index })
    }

    fn distrust(&self, trouble: &Trouble) {
        if let Some(file) = &self.index {
            file.distrust(trouble);
        }
    }

    /// The row of one session; `None` when the one that is known still holds. With `keeps` it is
    /// for the index, which was opened then.
    fn fresh(
        &self,
        id: &SessionId,
        known: Option<&Row>,
        keeps: Option<SystemTime>,
    ) -> Result<Option<Row>, StoreError> {
        let folder = self.folder(id)?;
        let holds = |row: &Row| row.stamp.as_ref().is_some_and(|was| was.holds(folder.path()));
        if known.is_some_and(holds) {
            return Ok(None);
        }
        // Looked at before the log is found and read, so that a change in between shows next time.
        let look = keeps.and_then(|now| Some((Look::at(folder.path()).ok()?, now)));
        let generation = folder.find()?;
        let stamp = look
            .and_then(|(look, now)| Stamp::take(look, &folder.file(generation)).ok()?.settled(now));
        let (mut row, seen) = self
            .look_at(&folder, generation, |log| {
                let (row, seen) = read_row(log, known)?;
                let seen = keeps.map(|_| Mark::of(log.bytes(), seen));
                Ok((row, seen))
            })?
            .0;
        row.stamp = stamp;
        row.seen = seen.unwrap_or_default();
        Ok(Some(row))
    }

    /// What is found, in the order of a list.
    pub(crate) fn hits(&self, asked: &Asked<'_>) -> Result<SearchResults, StoreError> {
        let mut survey = self.survey(HashMap::new())?;
        let mut index = survey.index.take();
        let rows: HashMap<_, _> =
            survey.rows.iter().map(|row| (row.header.id.clone(), row.clone())).collect();
        let listing = survey.into_listing();
        let sessions: Vec<_> =
            listing.sessions.into_iter().filter(|row| asked.filter.admits(row)).collect();
        let meant = sessions.iter().filter_map(|session| rows.get(&session.header.id));
        let texts = index.as_mut().map(|index| self.proposed(index, meant, asked));
        let texts = texts.unwrap_or_else(|| Ok(Texts::new())).unwrap_or_else(|trouble| {
            self.distrust(&trouble);
            Texts::new()
        });
        let mut results =
            SearchResults { unreadable: listing.unreadable, ..SearchResults::default() };
        for session in sessions {
            if results.is_full() {
                break;
            }
            let id = session.header.id.clone();
            match self.hits_in(&session, texts.get(&id), asked, &mut results) {
                // Removed since.
                Ok(()) | Err(StoreError::NotFound(_)) => (),
                Err(error) => results.unreadable.push((id, error)),
            }
        }
        Ok(results)
    }

    fn hits_in(
        &self,
        session: &SessionRow,
        proposed: Option<&BTreeSet<Seq>>,
        asked: &Asked<'_>,
        results: &mut SearchResults,
    ) -> Result<(), StoreError> {
        if proposed.is_some_and(BTreeSet::is_empty) {
            return Ok(());
        }
        let (found, _) = self.look(&session.header.id, |log| {
            log.each_line(None, |line| {
                let line = EventLine::read(line).map_err(|error| error.to_string())?;
                let meant = proposed.is_none_or(|proposed| proposed.contains(&line.seq));
                if meant && !results.is_full() && may_be_found(&line.type_name) {
                    let event = line.decode().map_err(|error| error.to_string())?;
                    results.consider(asked, session, &event);
                }
                Ok(())
            })
            .map(drop)
        })?;
        Ok(found)
    }

    /// Which events the index proposes; first it takes in what it lacks of these sessions.
    fn proposed<'a>(
        &self,
        index: &mut Index,
        rows: impl Iterator<Item = &'a Row>,
        asked: &Asked<'_>,
    ) -> Result<Texts, Trouble> {
        let held = index.indexed()?;
        let mut current: HashMap<SessionId, Mark> = HashMap::new();
        let (mut batch, mut size) = (Vec::new(), 0_usize);
        for row in rows {
            let (id, held) = (row.header.id.clone(), held.get(&row.header.id));
            if held == Some(&row.seen) {
                current.insert(id, row.seen.clone());
                continue;
            }
            // What cannot be read is reported where its hits are looked for.
            let Ok(texts) = self.texts_of(row, held) else { continue };
            size =
                texts.texts.iter().fold(size, |size, (_, words)| size.saturating_add(words.len()));
            current.insert(id, texts.upto.clone());
            batch.push(texts);
            if size >= BATCH {
                index.keep_texts(&std::mem::take(&mut batch))?;
                size = 0;
            }
        }
        if !batch.is_empty() {
            index.keep_texts(&batch)?;
        }
        index.search(&asked.words.to_match(), &current)
    }

    /// What the index lacks of a session of which it holds `held`.
    fn texts_of(&self, row: &Row, held: Option<&Mark>) -> Result<TextsOf, StoreError> {
        let id = row.header.id.clone();
        let held = held.filter(|_| !row.damaged);
        let (texts, _) = self.look(&id, |log| {
            let bytes = log.bytes();
            if let Some((held, start)) = held.and_then(|held| Some((held, held.begins(bytes)?))) {
                let (texts, end) = texts_in(log, Some(start))?;
                if !end.damaged {
                    let (after, upto) = (Some(held.clone()), Mark::of(bytes, end.offset));
                    return Ok(TextsOf { id: id.clone(), after, texts, upto });
                }
            }
            let (texts, end) = texts_in(log, None)?;
            let upto = Mark::of(bytes, end.offset);
            Ok(TextsOf { id: id.clone(), after: None, texts, upto })
        })?;
        Ok(texts)
    }
}

fn texts_in(
    log: &LogText<'_>,
    start: Option<usize>,
) -> Result<(Vec<(Seq, String)>, End), StoreError> {
    let mut texts = Vec::new();
    let (_, end) = log.each_line(start, |line| {
        let line = EventLine::read(line).map_err(|error| error.to_string())?;
        if may_be_found(&line.type_name) {
            let event = line.decode().map_err(|error| error.to_string())?;
            let words = said(&event).map(|(_, text)| Words::of(&text));
            let words = words.filter(|words| !words.is_empty());
            texts.extend(words.map(|words| (event.seq, words.into_spaced())));
        }
        Ok(())
    })?;
    Ok((texts, end))
}

impl Survey {
    pub(crate) fn into_listing(self) -> Listing {
        let rows = self.rows.into_iter();
        let rows = rows.map(|Row { header, summary, .. }| SessionRow { header, summary });
        let rows = rows.chain(self.open).filter(|row| row.summary.has_human_message);
        let mut listing = Listing { sessions: rows.collect(), unreadable: self.unreadable };
        listing.sort();
        listing
    }
}

/// The row of a log, and up to where it was read: what is known of its beginning and what follows,
/// or all of it.
fn read_row(log: &LogText<'_>, known: Option<&Row>) -> Result<(Row, usize), StoreError> {
    let row = |header, summary, damaged| Row {
        header,
        summary,
        stamp: None,
        seen: Mark::default(),
        damaged,
    };
    if let Some(known) = known.filter(|known| !known.damaged)
        && let Some(start) = known.seen.begins(log.bytes())
    {
        let mut summary = known.summary.clone();
        if let Some((_, end)) = summarise(log, Some(start), &mut summary) {
            return Ok((row(Arc::clone(&known.header), summary, false), end));
        }
    }
    let mut summary = Summary::default();
    if let Some((Some(header), end)) = summarise(log, None, &mut summary) {
        return Ok((row(header.into(), summary, false), end));
    }
    let log = log.decode()?;
    let end = log.valid_len;
    let SessionRow { header, summary } = SessionRow::of(&log.fold()?);
    Ok((row(header, summary, true), end))
}
