//! The logs that this process has open. Their rows in a list come from their writers: a log that
//! grows all the time would else be read, and its row put into the index, with every list.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bridle_session::{Header, SessionId, Summary};

use crate::sink::Sink;
use crate::writer::Shared;
use crate::{LogWriter, SessionRow, StoreError};

/// The writers of a store by session. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenLogs(Arc<Mutex<HashMap<SessionId, OpenLog>>>);

#[derive(Debug)]
struct OpenLog {
    header: Arc<Header>,
    writer: Weak<Shared>,
}

impl OpenLogs {
    /// As [`LogWriter::start`].
    pub(crate) fn start(
        &self,
        sink: Box<dyn Sink>,
        header: Arc<Header>,
        summary: Summary,
        exists: bool,
    ) -> Result<LogWriter, StoreError> {
        let writer = LogWriter::start(sink, summary, exists)?;
        let mut logs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        logs.retain(|_, log| log.writer.strong_count() > 0);
        logs.insert(header.id.clone(), OpenLog { header, writer: writer.shared() });
        Ok(writer)
    }

    /// What is on the disk of each log that is open and sound.
    pub(crate) fn rows(&self) -> HashMap<SessionId, SessionRow> {
        let logs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = logs.iter().filter_map(|(id, log)| {
            let summary = log.writer.upgrade()?.written()?;
            Some((id.clone(), SessionRow { header: Arc::clone(&log.header), summary }))
        });
        rows.collect()
    }
}
