//! What is wrong with a file as it is now: asked for where the server can be asked, waited for otherwise; and
//! where the server checks what was saved, what that finds.
//!
//! What is not known to be of the text that was shown last is not told, and silence is never "clean", nor is
//! what a server says that is still at it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::ask::{MAX_STALE, Project, STALE, lost, read, stale_pause};
use crate::connection::{NoAnswer, put};
use crate::diagnostic::{Diagnostic, diagnostics};
use crate::documents::Shown;
use crate::heard::{Push, Readiness};
use crate::life::Life;
use crate::reply::{Completeness, Trouble};
use crate::servers::Candidate;
use crate::silence::{LONG, PATIENCE};
use crate::source::Source;
use crate::uri::uri_of;
use crate::work::Checked;

/// How long a server that reports by itself may take for it.
pub(crate) const REPORT_LIMIT: Duration = Duration::from_secs(5);

/// How long nothing may come behind a report for it to be the last one.
pub(crate) const SETTLED: Duration = Duration::from_millis(250);

/// How long a server has at least for an answer, also where the time is over by then.
const LAST_CHANCE: Duration = Duration::from_millis(100);

/// The pause before a server that still loads the project is asked again.
const LOADING_PAUSE: Duration = Duration::from_millis(200);

/// What a server says of a file.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) file: PathBuf,
    /// Who says so.
    pub(crate) who: String,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// How many of them, from the first, were asked for; the rest is what a check found.
    pub(crate) asked: usize,
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
    /// The server is silent, and was before.
    #[error("{who} does not report: it did not before, and not within {} s now", .limit.as_secs_f64())]
    StillSilent {
        /// Which.
        who: String,
        /// How long it was waited for this time.
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
        let (mut stale, mut saved) = (0, false);
        loop {
            let (source, shown) = self.show().await?;
            let before = self.life.readiness();
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
            let is_answer = is_asked && !diagnostics.is_empty();
            let completeness = match self.certainty(before, is_answer) {
                Certainty::Settled(completeness) => completeness,
                Certainty::Ready => match self.checked(&source, &mut saved, deadline).await? {
                    Some(completeness) => completeness,
                    None => continue,
                },
                Certainty::Soon => continue,
                Certainty::Open(_) if self.now() < deadline => {
                    self.pause(LOADING_PAUSE).await?;
                    continue;
                }
                Certainty::Open(completeness) => completeness,
            };
            let asked = diagnostics.len();
            let diagnostics = match is_asked {
                true => self.with_pushed(diagnostics, shown, &completeness),
                false => diagnostics,
            };
            let (file, who) = (self.file.clone(), self.who());
            let completeness = completeness.without(unread);
            return Ok(Report { file, who, diagnostics, asked, completeness, source });
        }
    }

    /// How far what was found can be trusted, by how the server stood before it was asked and stands now.
    fn certainty(&self, before: Readiness, is_answer: bool) -> Certainty {
        match (before, self.life.readiness()) {
            (Readiness::Sick(why), _) | (_, Readiness::Sick(why)) => {
                Certainty::Settled(Completeness::Sick(why))
            }
            (_, Readiness::Loading(what)) => Certainty::Open(Completeness::Loading(what)),
            (Readiness::Ready, _) => Certainty::Ready,
            // What was asked for of a server that works on nothing is an answer.
            (Readiness::Young, _) if is_answer => Certainty::Ready,
            (_, Readiness::Ready) => Certainty::Soon,
            (_, Readiness::Young) => Certainty::Open(Completeness::Complete),
        }
    }

    /// Waits until the server has checked what it was told, but not longer than to `deadline`. How far what it
    /// said before can be trusted; `None` where it says more by now.
    async fn checked(
        &self,
        source: &Source,
        saved: &mut bool,
        deadline: SystemTime,
    ) -> Result<Option<Completeness>, Unknown> {
        let heard = &self.life.heard;
        match heard.checked() {
            Checked::Done => return Ok(Some(Completeness::Complete)),
            // It was opened as it was, or another file has changed.
            Checked::Not if !*saved && self.now() < deadline => {
                *saved = true;
                self.life.save(source).await.map_err(|why| self.failed(&why))?;
            }
            _ => {}
        }
        let mut states = heard.watch();
        loop {
            states.mark_unchanged();
            let left = deadline.duration_since(self.now()).unwrap_or_default();
            let (what, wait) = match heard.checked() {
                Checked::Done => return Ok(None),
                Checked::Not => {
                    let why = "it has not checked what was saved".to_owned();
                    return Ok(Some(Completeness::Unchecked(why)));
                }
                Checked::Running(what) => (what, left),
                Checked::Expected(within) => ("what was saved".to_owned(), left.min(within)),
            };
            if left.is_zero() {
                return Ok(Some(Completeness::Checking(what)));
            }
            tokio::select! {
                biased;
                () = self.token.cancelled() => return Err(Trouble::Cancelled.into()),
                () = self.life.ended() => return Err(self.failed(&NoAnswer::Gone)),
                _ = states.changed() => {}
                () = self.life.clock.sleep(wait) => {}
            }
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
        let left = deadline.duration_since(self.now()).unwrap_or_default().max(LAST_CHANCE);
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
            Err(NoAnswer::StillSilent(limit)) => {
                Err(missed(Trouble::StillSilent { server: self.who(), limit }.into()))
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
        let was_silent = self.life.heard.is_silent();
        let deadline = if was_silent { deadline.min(self.now() + PATIENCE) } else { deadline };
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
                        return Err(Missed::Unknown(self.silent(was_silent)));
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

    /// It said nothing of the file.
    fn silent(&self, was_silent: bool) -> Unknown {
        if self.limit >= LONG {
            self.life.heard.was_silent();
        }
        let (who, limit) = (self.who(), self.limit);
        match was_silent {
            true => Unknown::StillSilent { who, limit: limit.min(PATIENCE) },
            false => Unknown::Silent { who, limit },
        }
    }

    /// With what a server says by itself besides what it is asked for, as of a check that is over.
    fn with_pushed(
        &self,
        mut diagnostics: Vec<Diagnostic>,
        shown: Shown,
        completeness: &Completeness,
    ) -> Vec<Diagnostic> {
        let heard = &self.life.heard;
        // The end of a check makes its last word true, of whatever version that is; what is said in its midst
        // is a part of it, beside leftovers of the one before.
        let counts = |push: &Push| match heard.has_checks() {
            true => *completeness == Completeness::Complete,
            false => is_fresh(push, shown),
        };
        let push = heard.pushed(self.file).filter(counts);
        for one in push.iter().flat_map(|push| push.diagnostics.iter()) {
            if !diagnostics.iter().any(|known| known.says_the_same(one) || known.is_of(one)) {
                diagnostics.push(one.clone());
            }
        }
        diagnostics
    }
}

/// How far what a server said of a file can be trusted, as it stands.
enum Certainty {
    /// It is known.
    Settled(Completeness),
    /// As far as it has checked what was saved.
    Ready,
    /// It is ready by now, and says more.
    Soon,
    /// It may say more yet; what its answer is where it does not in time.
    Open(Completeness),
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
