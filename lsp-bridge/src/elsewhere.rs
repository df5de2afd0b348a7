//! What is wrong with the other files that a server has open: what an edit breaks is often where it is used.
//!
//! Where a server can be asked, it is; where it reports by itself, what it said last of each file counts, once
//! nothing has come for a moment. A file of which nothing is known is left out.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;

use crate::ask::{Project, read};
use crate::diagnose::{Report, SETTLED, is_fresh};
use crate::documents::Document;
use crate::heard::Readiness;
use crate::life::Life;
use crate::reply::Completeness;
use crate::servers::Candidate;

/// The most files of one server, the ones that were used last.
const MAX_FILES: usize = 20;

impl Project {
    /// What a server that runs says of the files that it has open, without these, at the latest at `deadline`.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn diagnose_others(
        &self,
        candidate: &Candidate,
        except: &[PathBuf],
        deadline: SystemTime,
        token: &CancellationToken,
    ) -> Vec<Report> {
        let Some(woken) = candidate.server.warm() else { return Vec::new() };
        let life = &woken.life;
        let mut open = life.open_documents().await;
        open.retain(|document| !except.contains(&document.path));
        open.truncate(MAX_FILES);
        if open.is_empty() {
            return Vec::new();
        }
        // Should it be gone, nothing is known.
        if candidate.server.tell_changes(life).await.is_err()
            || life.refresh(&self.files).await.is_err()
        {
            return Vec::new();
        }
        let left = deadline.duration_since(life.clock.now()).unwrap_or_default();
        if life.supports("textDocument/diagnostic") {
            let asked = open.into_iter().map(async |Document { path, language, .. }| {
                let candidate = Candidate { server: candidate.server.clone(), language };
                self.diagnose(&candidate, &path, left, token).await.ok()
            });
            return futures::future::join_all(asked).await.into_iter().flatten().collect();
        }
        quiet(life, left).await;
        if !matches!(life.readiness(), Readiness::Ready | Readiness::Young) {
            return Vec::new();
        }
        let mut reports = Vec::new();
        for Document { path, shown, .. } in life.open_documents().await {
            let push = life.heard.pushed(&path).filter(|push| is_fresh(push, shown));
            let (Some(push), Ok(source)) = (push, read(&self.files, &path).await) else { continue };
            if !except.contains(&path) {
                reports.push(Report {
                    file: path,
                    who: life.definition.name.clone(),
                    diagnostics: push.diagnostics.to_vec(),
                    asked: push.diagnostics.len(),
                    completeness: Completeness::Complete.without(push.unread),
                    source,
                });
            }
        }
        reports
    }
}

/// Waits until no report has come for a moment, but not longer than `limit`.
async fn quiet(life: &Life, limit: Duration) {
    let until = life.clock.now() + limit;
    loop {
        let now = life.clock.now();
        let age = life.heard.last_push().map(|at| now.duration_since(at).unwrap_or_default());
        let wait = age.map_or(Duration::ZERO, |age| SETTLED.saturating_sub(age));
        if wait.is_zero() || now >= until {
            return;
        }
        life.clock.sleep(wait).await;
    }
}
