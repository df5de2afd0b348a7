//! One question to a server, asked until its answer can be trusted or the time is over.
//!
//! An empty success is the usual answer of a server that does not know the project yet, and some first
//! give a part of the truth. So an answer counts as whole only if the server was ready before it was
//! asked; what is told otherwise says so. "Unknown" is never "none". Where one thing is asked for and
//! found, nobody waits for the rest of the project, unless the server is known to find the wrong one first
//! and this one is not proved (`ask/defined.rs`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bridle_world::files::Files;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::connection::{NoAnswer, put};
use crate::heard::Readiness;
use crate::life::{INTERNAL_ERROR, Life};
use crate::position::Position;
use crate::reply::{Completeness, Reply, Trouble};
use crate::servers::{Candidate, Servers};
use crate::source::Source;
use crate::symbol::{Found, Symbol};
use crate::uri::uri_of;

mod defined;

/// How long a question may take with a server that has been there for a while.
const LIMIT: Duration = Duration::from_secs(10);

/// The first pause before a server that is not ready is asked again; each next one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest such pause. When the server says something it is cut short, to a tenth at least.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How often it is looked whether a server that has just been started says what it can be asked.
const LOOK: Duration = Duration::from_millis(5);

/// How often a question is asked anew because something has changed meanwhile.
pub(crate) const MAX_STALE: u32 = 5;

/// The codes of a question that something else has overtaken. The last is for one that was cancelled,
/// although nobody did that.
pub(crate) const STALE: [i64; 3] = [-32801, -32802, -32800];

/// The pause before a question is asked anew for the `nth` time, from 1; each is twice as long.
pub(crate) fn stale_pause(nth: u32) -> Duration {
    Duration::from_millis(100) * (1 << nth.saturating_sub(1))
}

/// What the tools work on.
#[derive(Clone)]
pub(crate) struct Project {
    pub(crate) servers: Arc<Servers>,
    pub(crate) files: Arc<dyn Files>,
    /// The folders of the session.
    pub(crate) roots: Arc<[PathBuf]>,
}

/// A question.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) method: &'static str,
    pub(crate) at: At,
    /// What it says besides, an object.
    pub(crate) more: Value,
}

/// What a question is about.
#[derive(Clone, Debug)]
pub(crate) enum At {
    /// Nothing in particular, with this file open.
    Project(Option<PathBuf>),
    /// A file.
    File(PathBuf),
    /// A symbol on a line (from 0), looked for anew whenever the file has changed.
    Symbol { file: PathBuf, line: usize, symbol: Symbol },
    /// A position that a server gave.
    Position { file: PathBuf, position: Position },
}

/// What a server that knows a part of the project answers as well as any.
const OF_ONE_FILE: [&str; 2] = ["textDocument/documentSymbol", "textDocument/hover"];

/// The method that is asked most.
const DEFINITION: &str = "textDocument/definition";

/// What has one answer, as a rule: when it is found, it is not for want of others that it is wrong.
const OF_ONE_THING: [&str; 5] = [
    DEFINITION,
    "textDocument/typeDefinition",
    "textDocument/prepareCallHierarchy",
    "textDocument/documentSymbol",
    "textDocument/hover",
];

impl Project {
    /// Asks a server, started if it does not run; once more where it was lost meanwhile.
    ///
    /// # Errors
    /// [`Trouble`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn ask(
        &self,
        candidate: &Candidate,
        question: &Question,
        token: &CancellationToken,
    ) -> Result<Reply, Trouble> {
        let name = || candidate.server.name.clone();
        let failed = |why: String| Trouble::Failed { server: name(), why };
        for _ in 0..2 {
            let woken = tokio::select! {
                biased;
                () = token.cancelled() => return Err(Trouble::Cancelled),
                woken = self.servers.wake(&candidate.server) => woken.map_err(failed)?,
            };
            let life = &woken.life;
            if !supports(life, question.method).await {
                return Err(Trouble::Unsupported(name()));
            }
            let asking = Asking { project: self, candidate, question, life, token };
            match asking.until_ready().await {
                Err(Trouble::Failed { .. }) if life.has_ended() || life.is_broken() => {
                    candidate.server.retire().await;
                }
                settled => return settled,
            }
        }
        Err(failed(lost(candidate)))
    }
}

/// Why a server was lost that was asked.
pub(crate) fn lost(candidate: &Candidate) -> String {
    let why = candidate.server.loss().map(|why| format!(": {why}"));
    format!("it was lost while it was asked{}", why.unwrap_or_default())
}

/// Whether a server can be asked this. One that has just been started may be about to say so.
async fn supports(life: &Life, method: &str) -> bool {
    while !life.supports(method) {
        if life.heard.readiness() != Readiness::Young || life.has_ended() {
            return life.supports(method);
        }
        life.clock.sleep(LOOK).await;
    }
    true
}

/// One question under way.
struct Asking<'a> {
    project: &'a Project,
    candidate: &'a Candidate,
    question: &'a Question,
    life: &'a Life,
    token: &'a CancellationToken,
}

impl Asking<'_> {
    fn server(&self) -> String {
        self.life.definition.name.clone()
    }

    fn now(&self) -> SystemTime {
        self.life.clock.now()
    }

    /// Whether what it finds now is what was asked for.
    fn finds(&self) -> bool {
        OF_ONE_THING.contains(&self.question.method) && self.life.finds_right()
    }

    /// What it is busy with that is not ready.
    fn busy_with(&self) -> String {
        match self.life.readiness() {
            Readiness::Loading(what) => what,
            _ => "the project".to_owned(),
        }
    }

    /// What the answer of a server is that is ready.
    fn at_best(&self) -> Completeness {
        match &self.life.partial {
            Some(why) if !OF_ONE_FILE.contains(&self.question.method) => {
                Completeness::Partial(why.clone())
            }
            _ => Completeness::Complete,
        }
    }

    async fn until_ready(&self) -> Result<Reply, Trouble> {
        // A server that has just been started may take as long as it needs for that.
        let fresh = self.life.begun + self.life.definition.start_limit;
        let deadline = fresh.max(self.now() + LIMIT);
        let (mut pause, mut stale) = (FIRST_PAUSE, 0);
        loop {
            let mut states = self.life.heard.watch();
            let ready = self.life.readiness();
            let finds = self.finds();
            let answer = self.once(deadline).await;
            let last = match answer {
                Ok((params, result, found)) => {
                    let result = self.of_definition(&params, result).await;
                    let is_empty = is_empty(&result);
                    // Said while it was asked, it is true of the answer.
                    let ready = match self.life.readiness() {
                        sick @ Readiness::Sick(_) => sick,
                        _ => ready,
                    };
                    let is_early = matches!(ready, Readiness::Young | Readiness::Loading(_));
                    let finds = finds || is_early && self.has_defined(&params, &result).await;
                    let reply = |completeness| Reply { result, completeness, found };
                    match ready {
                        Readiness::Ready => return Ok(reply(self.at_best())),
                        // Unless it has begun meanwhile to find out more.
                        Readiness::Young if !is_empty && !self.life.has_begun() => {
                            return Ok(reply(self.at_best()));
                        }
                        Readiness::Sick(why) => return Ok(reply(Completeness::Sick(why))),
                        Readiness::Young | Readiness::Loading(_) if !is_empty && finds => {
                            return Ok(reply(Completeness::Found(self.busy_with())));
                        }
                        Readiness::Young | Readiness::Loading(_) => {
                            Ok(reply(Completeness::Loading(self.busy_with())))
                        }
                    }
                }
                Err(Once::Trouble(trouble)) => return Err(trouble),
                Err(Once::Stale) => {
                    stale += 1;
                    if stale > MAX_STALE {
                        let why = "the files changed again and again while it was asked".to_owned();
                        return Err(Trouble::Refused { server: self.server(), why });
                    }
                    self.pause(stale_pause(stale)).await?;
                    continue;
                }
                Err(Once::NotYet(trouble)) if ready == Readiness::Ready => return Err(trouble),
                Err(Once::NotYet(trouble)) => Err(trouble),
            };
            if self.now() >= deadline {
                return last;
            }
            // Done with its work meanwhile: another answer is to be had.
            if !finds && self.finds() {
                continue;
            }
            self.pause(pause / 10).await?;
            tokio::select! {
                biased;
                () = self.token.cancelled() => return Err(Trouble::Cancelled),
                () = self.life.clock.sleep(pause) => {}
                _ = states.changed() => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn pause(&self, pause: Duration) -> Result<(), Trouble> {
        tokio::select! {
            biased;
            () = self.token.cancelled() => Err(Trouble::Cancelled),
            () = self.life.clock.sleep(pause) => Ok(()),
        }
    }

    /// Asks once: what was asked, the answer, and where the symbol was.
    async fn once(&self, deadline: SystemTime) -> Result<(Value, Value, Option<Found>), Once> {
        let gone = |why: NoAnswer| Once::Trouble(self.failed(&why));
        self.candidate.server.tell_changes(self.life).await.map_err(gone)?;
        let (params, found) = self.params().await?;
        let left = deadline.duration_since(self.now()).unwrap_or_default();
        let limit = left.max(LIMIT);
        let answer = self.life.ask(self.question.method, params.clone(), limit, self.token).await;
        let result = answer.map_err(|why| self.judged(why, limit))?;
        Ok((params, result, found))
    }

    /// What it means that a question has no answer.
    fn judged(&self, why: NoAnswer, limit: Duration) -> Once {
        let server = self.server();
        match why {
            NoAnswer::Refused { code, .. } if STALE.contains(&code) => Once::Stale,
            NoAnswer::Refused { code: -32601, .. } => Once::Trouble(Trouble::Unsupported(server)),
            NoAnswer::Refused { code: INTERNAL_ERROR, message, .. } => {
                match self.life.is_broken() {
                    true => Once::Trouble(Trouble::Failed { server, why: message }),
                    false => Once::NotYet(Trouble::Refused { server, why: message }),
                }
            }
            NoAnswer::Refused { message, .. } => {
                Once::NotYet(Trouble::Refused { server, why: message })
            }
            NoAnswer::TimedOut(_) => Once::Trouble(Trouble::TimedOut { server, limit }),
            NoAnswer::StillSilent(limit) => Once::Trouble(Trouble::StillSilent { server, limit }),
            NoAnswer::Cancelled => Once::Trouble(Trouble::Cancelled),
            NoAnswer::Garbled => Once::Trouble(Trouble::Unreadable(server)),
            NoAnswer::TooLong | NoAnswer::Gone => Once::Trouble(self.failed(&why)),
        }
    }

    fn failed(&self, why: &NoAnswer) -> Trouble {
        Trouble::Failed { server: self.server(), why: why.to_string() }
    }

    /// Shows the server the file, and says where in it the question is.
    async fn params(&self) -> Result<(Value, Option<Found>), Once> {
        let mut params = self.question.more.clone();
        let (file, found) = match &self.question.at {
            At::Project(None) => {
                let gone = |why: NoAnswer| Once::Trouble(self.failed(&why));
                self.life.refresh(&self.project.files).await.map_err(gone)?;
                return Ok((params, None));
            }
            At::Project(Some(file)) => {
                self.shown(file).await?;
                return Ok((params, None));
            }
            At::File(file) => {
                self.shown(file).await?;
                (file, None)
            }
            At::Position { file, position } => {
                self.shown(file).await?;
                (file, Some(Found { position: *position, note: None }))
            }
            At::Symbol { file, line, symbol } => {
                let source = self.shown(file).await?;
                let found = symbol.find_on(&source, *line, self.life.encoding);
                let found = found.map_err(|why| Once::Trouble(Trouble::NotThere(why)))?;
                (file, Some(found))
            }
        };
        put(&mut params, "textDocument", json!({"uri": uri_of(file)}));
        if let Some(found) = &found {
            put(&mut params, "position", found.position.to_wire());
        }
        Ok((params, found))
    }

    async fn shown(&self, file: &Path) -> Result<Source, Once> {
        let source = read(&self.project.files, file).await.map_err(Once::Trouble)?;
        let shown = self.life.show(&source, &self.candidate.language, &self.project.files).await;
        shown.map_err(|why| Once::Trouble(self.failed(&why)))?;
        Ok(source)
    }
}

/// What came of asking once.
enum Once {
    /// Asking again does not help.
    Trouble(Trouble),
    /// It does, if the server was not ready.
    NotYet(Trouble),
    /// Something has changed meanwhile.
    Stale,
}

/// Reads a file without holding anybody up.
pub(crate) async fn read(files: &Arc<dyn Files>, file: &Path) -> Result<Source, Trouble> {
    let (files, path) = (Arc::clone(files), file.to_owned());
    let reading = tokio::task::spawn_blocking(move || Source::read(&*files, &path));
    match reading.await {
        Ok(Ok(source)) => Ok(source),
        Ok(Err(why)) => Err(Trouble::NotThere(why.to_string())),
        Err(_) => Err(Trouble::Cancelled),
    }
}

/// Whether an answer says that there is nothing.
fn is_empty(result: &Value) -> bool {
    match result {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}
