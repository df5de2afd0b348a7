//! What is wrong with a file as it is now: asked for where the server can be asked, waited for otherwise.
//!
//! What is not known to be of the text that was shown last is not told, and silence is never "clean".

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::ask::{Completeness, MAX_STALE, Project, STALE, Trouble, lost, read, stale_pause};
use crate::connection::{NoAnswer, put};
use crate::diagnostic::{Diagnostic, diagnostics};
use crate::documents::Shown;
use crate::heard::{Push, Readiness};
use crate::life::Life;
use crate::servers::Candidate;
use crate::source::Source;
use crate::uri::uri_of;

/// How long a server that reports by itself may take for it.
pub(crate) const REPORT_LIMIT: Duration = Duration::from_secs(5);

/// How long nothing may come behind a report for it to be the last one.
pub(crate) const SETTLED: Duration = Duration::from_millis(250);

/// The pause before a server that still loads the project is asked again.
const LOADING_PAUSE: Duration = Duration::from_millis(200);

/// What a server says of a file.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) file: PathBuf,
    /// Who says so.
    pub(crate) who: String,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) completeness: Completeness,
    /// The text that it is of.
    pub(crate) source: Source,
}

/// Why nothing is known.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Unknown {
    /// The server is silent.
    #[error("{who} did not report within {} s", .limit.as_secs_f64())]
    Silent {
        /// Which.
        who: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// It cannot be asked.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

impl Project {
    /// What a server says of a file, started if it does not run.
    ///
    /// # Errors
    /// [`Unknown`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn diagnose(
        &self,
        candidate: &Candidate,
        file: &PathBuf,
        limit: Duration,
        token: &CancellationToken,
    ) -> Result<Report, Unknown> {
        let who = candidate.server.name.clone();
        let failed = |why: String| Trouble::Failed { server: who.clone(), why };
        for _ in 0..2 {
            let woken = tokio::select! {
                biased;
                () = token.cancelled() => return Err(Trouble::Cancelled.into()),
                woken = self.servers.wake(&candidate.server) => woken.map_err(failed)?,
            };
            let life = &woken.life;
            let run = Run { project: self, candidate, file, life, limit, token };
            match run.report().await {
                Err(Unknown::Trouble(Trouble::Failed { .. })) if life.has_ended() => {
                    candidate.server.retire().await;
                }
                settled => return settled,
            }
        }
        Err(failed(lost(candidate)).into())
    }
}

struct Run<'a> {
    project: &'a Project,
    candidate: &'a Candidate,
    file: &'a PathBuf,
    life: &'a Arc<Life>,
    limit: Duration,
    token: &'a CancellationToken,
}

impl Run<'_> {
    fn who(&self) -> String {
        self.life.definition.name.clone()
    }

    fn now(&self) -> SystemTime {
        self.life.clock.now()
    }

    async fn pause(&self, pause: Duration) -> Result<(), Unknown> {
        tokio::select! {
            biased;
            () = self.token.cancelled() => Err(Trouble::Cancelled.into()),
            () = self.life.clock.sleep(pause) => Ok(()),
        }
    }

    async fn report(&self) -> Result<Report, Unknown> {
        let deadline = self.now() + self.limit;
        let mut stale = 0;
        loop {
            let (source, shown) = self.show().await?;
            let ready = self.life.readiness();
            let is_asked = self.life.supports("textDocument/diagnostic");
            let found = match is_asked {
                true => self.pull(deadline).await,
                false => self.pushed(&source, shown, deadline).await,
            };
            let (diagnostics, unread) = match found {
                Ok(found) => found,
                Err(Missed::Stale) if stale < MAX_STALE => {
                    stale += 1;
                    self.pause(stale_pause(stale)).await?;
                    continue;
                }
                Err(Missed::Pull) => continue,
                Err(Missed::Stale) => {
                    return Err(Unknown::Silent { who: self.who(), limit: self.limit });
                }
                Err(Missed::Unknown(why)) => return Err(why),
            };
            let certainty = match ready {
                Readiness::Ready => Completeness::Complete,
                Readiness::Sick(why) => Completeness::Sick(why),
                // What was asked for of a server that works on nothing is an answer.
                Readiness::Young
                    if is_asked && !diagnostics.is_empty() && !self.life.has_begun() =>
                {
                    Completeness::Complete
                }
                Readiness::Young | Readiness::Loading(_) if self.now() < deadline => {
                    self.pause(LOADING_PAUSE).await?;
                    continue;
                }
                Readiness::Young => Completeness::Complete,
                Readiness::Loading(what) => Completeness::Loading(what),
            };
            let diagnostics = match is_asked {
                true => self.with_pushed(diagnostics, shown),
                false => diagnostics,
            };
            let (file, who, completeness) =
                (self.file.clone(), self.who(), certainty.without(unread));
            return Ok(Report { file, who, diagnostics, completeness, source });
        }
    }

    async fn show(&self) -> Result<(Source, Shown), Unknown> {
        let failed = |why: NoAnswer| self.failed(&why);
        self.candidate.server.tell_changes(self.life).await.map_err(failed)?;
        let source = read(&self.project.files, self.file).await?;
        let language = &self.candidate.language;
        let shown = self.life.show(&source, language, &self.project.files).await;
        Ok((source, shown.map_err(failed)?))
    }

    fn failed(&self, why: &NoAnswer) -> Unknown {
        Trouble::Failed { server: self.who(), why: why.to_string() }.into()
    }

    /// Asks for a report: the problems, and how many that cannot be read.
    async fn pull(&self, deadline: SystemTime) -> Result<(Vec<Diagnostic>, usize), Missed> {
        let mut params = json!({"textDocument": {"uri": uri_of(self.file)}});
        if let Some(identifier) = self.life.diagnostic_identifier() {
            put(&mut params, "identifier", identifier);
        }
        let left = deadline.duration_since(self.now()).unwrap_or_default();
        let answer = self.life.ask("textDocument/diagnostic", params, left, self.token).await;
        let missed = |why: Unknown| Missed::Unknown(why);
        match answer {
            Ok(report) => {
                // No report was named that it could be the same as.
                let is_full = report.get("kind").is_none_or(|kind| kind == "full");
                let items = report.get("items").filter(|_| is_full);
                let unreadable = || missed(Trouble::Unreadable(self.who()).into());
                diagnostics(items).ok_or_else(unreadable)
            }
            Err(NoAnswer::Refused { code, .. }) if STALE.contains(&code) => Err(Missed::Stale),
            Err(NoAnswer::Refused { code: -32601, .. }) => Err(Missed::Pull),
            Err(NoAnswer::TimedOut(_)) => {
                Err(missed(Unknown::Silent { who: self.who(), limit: self.limit }))
            }
            Err(NoAnswer::Cancelled) => Err(missed(Trouble::Cancelled.into())),
            Err(NoAnswer::Refused { message, .. }) => {
                Err(missed(Trouble::Refused { server: self.who(), why: message }.into()))
            }
            Err(why) => Err(missed(self.failed(&why))),
        }
    }

    /// Waits for a report of what was shown.
    async fn pushed(
        &self,
        source: &Source,
        shown: Shown,
        deadline: SystemTime,
    ) -> Result<(Vec<Diagnostic>, usize), Missed> {
        let mut states = self.life.heard.watch();
        loop {
            states.mark_unchanged();
            if self.life.supports("textDocument/diagnostic") {
                return Err(Missed::Pull);
            }
            let now = self.now();
            let fresh = self.life.heard.pushed(&source.path).filter(|push| is_fresh(push, shown));
            let wait = match fresh {
                Some(push) => {
                    let age = now.duration_since(push.at).unwrap_or_default();
                    if age >= SETTLED {
                        return Ok((push.diagnostics.to_vec(), push.unread));
                    }
                    SETTLED - age
                }
                None => {
                    let left = deadline.duration_since(now).unwrap_or_default();
                    if left.is_zero() {
                        let silent = Unknown::Silent { who: self.who(), limit: self.limit };
                        return Err(Missed::Unknown(silent));
                    }
                    left
                }
            };
            tokio::select! {
                biased;
                () = self.token.cancelled() => {
                    return Err(Missed::Unknown(Trouble::Cancelled.into()));
                }
                () = self.life.ended() => {
                    return Err(Missed::Unknown(self.failed(&NoAnswer::Gone)));
                }
                _ = states.changed() => {}
                () = self.life.clock.sleep(wait) => {}
            }
        }
    }

    /// What a server says by itself besides what it is asked for, as of a build that it runs.
    fn with_pushed(&self, mut diagnostics: Vec<Diagnostic>, shown: Shown) -> Vec<Diagnostic> {
        let push = self.life.heard.pushed(self.file).filter(|push| is_fresh(push, shown));
        for one in push.iter().flat_map(|push| push.diagnostics.iter()) {
            if !diagnostics.iter().any(|known| known.says_the_same(one)) {
                diagnostics.push(one.clone());
            }
        }
        diagnostics
    }
}

/// Whether a push is of the text that was shown last.
pub(crate) fn is_fresh(push: &Push, shown: Shown) -> bool {
    match push.version {
        Some(version) => version >= shown.version,
        None => push.number > shown.pushes,
    }
}

/// Why there is no report yet.
enum Missed {
    /// Something has changed meanwhile.
    Stale,
    /// It is to be had in the other way.
    Pull,
    Unknown(Unknown),
}
