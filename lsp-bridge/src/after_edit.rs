//! Around the calls that change files: servers that run are told of every change, and what is newly wrong
//! with an edited file, or with another one that its server has open, is added to the call's result, where
//! that server runs already.
//!
//! Nothing is added that is not known to be of the text after the edit and not to have been there before.
//! That a file is clean is never said here.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bridle_agent::{
    Access, Body, Ran, Reading, SessionEvent, ToolFailure, ToolOutcome, ToolPost, ToolRun, Verdict,
};
use bridle_compose::{Around, Next, Observer};
use bridle_session::{Content, EventData, FileBefore, ToolCallId};
use tokio_util::sync::CancellationToken;

use crate::check::row;
use crate::definition::Purpose;
use crate::desk::Desk;
use crate::diagnose::Report;
use crate::diagnostic::{Diagnostic, Severity};
use crate::reply::Completeness;
use crate::servers::Candidate;
use crate::untold::Change;

/// How long it is found out what was wrong before an edit, and again after it, in the edited files and others.
const LIMIT: Duration = Duration::from_millis(1_500);

/// How much longer the answer may take that tells what is known at the end of that.
const SLACK: Duration = Duration::from_millis(100);

/// The most new errors that are told.
const MAX_TOLD: usize = 10;

/// The most of them that are of one kind.
const MAX_OF_KIND: usize = 3;

/// The most files of one call that are looked at.
const MAX_FILES: usize = 5;

/// Hears of what changes files.
pub(crate) struct AfterEdit {
    desk: Arc<Desk>,
    /// What was wrong before the bodies that run, by call.
    before: Mutex<HashMap<ToolCallId, Before>>,
}

/// What was wrong with the files of a call before it.
struct Before {
    reports: Vec<Report>,
    /// The files that were not there: nothing was wrong with them.
    absent: Vec<PathBuf>,
}

impl Before {
    /// What is wrong now and was not before, as far as both are known.
    fn news<'a>(&self, now: &'a Report) -> Vec<&'a Diagnostic> {
        let was = self.reports.iter().find(|was| was.file == now.file && was.who == now.who);
        let (known, comparable) = match was {
            Some(was) if was.completeness == Completeness::Complete => {
                (was.diagnostics.as_slice(), now.diagnostics.len())
            }
            // What a check finds may have been there before.
            Some(was) => (was.diagnostics.as_slice(), now.asked),
            None if self.absent.contains(&now.file) => (&[][..], now.diagnostics.len()),
            None => return Vec::new(),
        };
        let is_new = |one: &&Diagnostic| {
            one.severity == Severity::Error && !known.iter().any(|known| known.says_the_same(one))
        };
        now.diagnostics.iter().take(comparable).filter(is_new).collect()
    }
}

impl AfterEdit {
    pub(crate) fn new(desk: Arc<Desk>) -> Self {
        Self { desk, before: Mutex::default() }
    }

    /// What the servers that run already know of these files, and then of others.
    async fn reports(&self, files: &[PathBuf], token: &CancellationToken) -> Vec<Report> {
        let project = &self.desk.project;
        let clock = &project.servers.host().clock;
        let deadline = clock.now() + LIMIT;
        let mut asked = Vec::new();
        for file in files.iter().take(MAX_FILES) {
            let warm = project.servers.warm_for(file).into_iter();
            asked.extend(warm.filter(|one| one.server.warm().is_some()).map(|one| (file, one)));
        }
        let reports = asked.iter().map(async |(file, one)| {
            let report = project.diagnose(one, file, LIMIT, token);
            // A server that has to be started meanwhile is not waited for.
            tokio::select! {
                report = report => report.ok(),
                () = clock.sleep(LIMIT + SLACK) => None,
            }
        });
        let reports = futures::future::join_all(reports).await;
        let mut reports: Vec<_> = reports.into_iter().flatten().collect();
        // The new text is known by now: what it breaks is looked for elsewhere.
        let mut navigators: Vec<&Candidate> = Vec::new();
        for (_, one) in &asked {
            let is_known = navigators.iter().any(|known| Arc::ptr_eq(&known.server, &one.server));
            if !is_known && one.server.definition().purpose == Purpose::Everything {
                navigators.push(one);
            }
        }
        for one in navigators {
            let left = deadline.duration_since(clock.now()).unwrap_or_default();
            tokio::select! {
                others = project.diagnose_others(one, files, deadline, token) => reports.extend(others),
                () = clock.sleep(left) => {}
            }
        }
        // What was asked for is true of the text as it is, whatever a check may find besides.
        reports.retain(|report| {
            matches!(
                report.completeness,
                Completeness::Complete | Completeness::Checking(_) | Completeness::Unchecked(_)
            )
        });
        reports
    }

    fn news(&self, before: &Before, after: &[Report]) -> Option<String> {
        let (mut rows, mut count) = (Vec::new(), 0);
        // A wrong environment breaks every import of a file: one kind of error does not hide the others.
        let mut kinds: BTreeMap<(String, String), usize> = BTreeMap::new();
        for now in after {
            let file = self.desk.shown(&now.file);
            for one in before.news(now) {
                count += 1;
                if let Some(code) = &one.code {
                    let of_kind = kinds.entry((now.who.clone(), code.clone())).or_default();
                    *of_kind += 1;
                    if *of_kind > MAX_OF_KIND {
                        continue;
                    }
                }
                rows.push(row(&file, now, one));
            }
        }
        if count == 0 {
            return None;
        }
        let counted = match count {
            1 => "is 1 new error".to_owned(),
            _ => format!("are {count} new errors"),
        };
        let mut text = format!("[Since this change there {counted}:\n");
        rows.iter().take(MAX_TOLD).for_each(|row| text.push_str(row));
        for ((who, code), number) in kinds.iter().filter(|(_, number)| **number > MAX_OF_KIND) {
            let left = number - MAX_OF_KIND;
            text.push_str(&format!("{left} more of the kind {code} ({who}) are not shown\n"));
        }
        if let Some(left) = rows.len().checked_sub(MAX_TOLD + 1) {
            text.push_str(&format!("{} more are not shown\n", left + 1));
        }
        text.push(']');
        Some(text)
    }
}

fn written(accesses: &[Access]) -> Vec<PathBuf> {
    let path = |access: &Access| match access {
        Access::WriteInside(path) | Access::WriteOutside(path) => Some(path.clone()),
        _ => None,
    };
    accesses.iter().filter_map(path).collect()
}

async fn exists(paths: &[PathBuf]) -> Vec<bool> {
    let paths = paths.to_vec();
    let look = move || paths.iter().map(|path| path.exists()).collect();
    tokio::task::spawn_blocking(look).await.unwrap_or_default()
}

#[async_trait]
impl Around<ToolRun> for AfterEdit {
    async fn around(
        &self,
        body: Body,
        next: Next<'_, ToolRun>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let files = written(&body.call().accesses);
        if files.is_empty() {
            return next.run(body).await;
        }
        let (call, token) = (body.call().id.clone(), body.token().clone());
        let was_there = exists(&files).await;
        if self.desk.project.servers.settings().after_edit {
            self.desk.catch_up().await;
            let gone = files.iter().zip(&was_there).filter(|(_, there)| !**there);
            let absent: Vec<_> = gone.map(|(file, _)| file.clone()).collect();
            let reports = self.reports(&files, &token).await;
            if !reports.is_empty() || !absent.is_empty() {
                let before = Before { reports, absent };
                self.before.lock().unwrap_or_else(PoisonError::into_inner).insert(call, before);
            }
        }
        let outcome = next.run(body).await;
        let is_there = exists(&files).await;
        for ((file, was), is) in files.iter().zip(was_there).zip(is_there) {
            let change = match (was, is) {
                (false, true) => Change::Created,
                (true, false) => Change::Deleted,
                _ => Change::Changed,
            };
            self.desk.project.servers.file_changed(file, change);
            if outcome.is_ok() {
                self.desk.changed(file);
            }
        }
        outcome
    }
}

#[async_trait]
impl Around<ToolPost> for AfterEdit {
    async fn around(&self, ran: Arc<Ran>, next: Next<'_, ToolPost>) -> Verdict {
        let before = {
            let mut all = self.before.lock().unwrap_or_else(PoisonError::into_inner);
            all.remove(&ran.call.id)
        };
        let verdict = next.run(Arc::clone(&ran)).await;
        let Some(before) = before.filter(|_| ran.outcome.is_ok()) else { return verdict };
        let files = written(&ran.call.accesses);
        let after = self.reports(&files, &CancellationToken::new()).await;
        let Some(news) = self.news(&before, &after) else { return verdict };
        let reading = match verdict.reading {
            Reading::Unchanged => ran.content.clone(),
            Reading::Content(content) => content,
            other => return Verdict { reading: other, ..verdict },
        };
        let content = reading.into_iter().chain([Content::text(news)]).collect();
        Verdict { reading: Reading::Content(content), ..verdict }
    }
}

/// Hears of what commands have changed, and of turns.
impl Observer<SessionEvent> for AfterEdit {
    fn observe(&self, event: &SessionEvent) {
        let kept = match &event.event.data {
            EventData::FileKept(kept) => kept,
            EventData::TurnStart(_) => return self.desk.turn_begins(),
            _ => return,
        };
        let path: &Path = &kept.path;
        let change = match (&kept.before, &kept.left) {
            (FileBefore::Absent, Some(_)) => Change::Created,
            (_, Some(_)) => Change::Changed,
            // A tool is about to change it; what becomes of it is seen where it runs.
            (_, None) if path.exists() => return,
            (_, None) => Change::Deleted,
        };
        self.desk.project.servers.file_changed(path, change);
        self.desk.changed(path);
    }
}
