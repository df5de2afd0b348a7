//! References in prompts: `@path`, `@path:10-40`, `@folder`, `@session:ID`, and links that a client
//! sends (all forms: `mention.rs`). What they name is read before the prompt is sent, as the tools `read` and `list` would, and
//! stands before it; the prompt itself stays as it is.
//!
//! Only what lies in the session's folders and the policy lets be read without a question is read. A
//! word that names nothing is a word.

mod mention;
mod session;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{
    CallInfo, ContextInput, Mode, PermissionPolicy, Reference, ReferenceSource, Ruling,
    SessionChange, ToolFailure,
};
use bridle_compose::{ActivateError, Plugin, Scope, Setup};
use bridle_session::{Content, Header, Session, SessionId, ToolCallId, UserMessage};
use bridle_store::{BlobStore, Ends, SessionStore};
use bridle_world::files::Files;
use bridle_world::{Placement, Roots, path_text};
use tokio_util::sync::CancellationToken;

use crate::contexts::wrap;
use crate::file_tool::{FileArguments as _, FileWorld};
use crate::list::ListArguments;
use crate::read::ReadArguments;
use crate::target::{Target, why_outside};
use mention::{Lines, Mention, Place, mentions};

/// The most references of one prompt that are read.
const MAX_REFERENCES: usize = 32;
/// The most bytes of text that the references of one prompt bring along.
const MAX_BYTES: usize = 192 * 1024;

/// Looks references up.
struct References {
    world: FileWorld,
    store: Arc<dyn SessionStore>,
    own: SessionId,
    /// Where the policy is found, which may come later.
    scope: Scope,
}

#[async_trait]
impl ReferenceSource for References {
    async fn resolve(&self, prompt: &UserMessage, now: &ContextInput) -> Vec<Reference> {
        let mentions = mentions(&prompt.content);
        if mentions.is_empty() {
            return Vec::new();
        }
        let token = CancellationToken::new();
        let _ends_with_this = token.clone().drop_guard();
        let mut lookup = Lookup {
            world: self.world.clone(),
            store: Arc::clone(&self.store),
            own: self.own.clone(),
            policy: self.scope.get::<dyn PermissionPolicy>(),
            mode: now.mode,
            token,
            told: BTreeSet::new(),
            bytes: 0,
        };
        let found = tokio::task::spawn_blocking(move || {
            mentions.iter().filter_map(|mention| lookup.mention(mention)).collect()
        });
        match found.await {
            Ok(found) => found,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }
}

/// One prompt's references, as far as they have been gone through.
struct Lookup {
    world: FileWorld,
    store: Arc<dyn SessionStore>,
    own: SessionId,
    policy: Option<Arc<dyn PermissionPolicy>>,
    mode: Mode,
    token: CancellationToken,
    /// What the prompt has been given already, however it was named.
    told: BTreeSet<Thing>,
    bytes: usize,
}

/// What a reference means.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    /// A real path.
    Lines(PathBuf, Option<Lines>),
    Session(SessionId),
    /// What is not read, by its name.
    Unread(String),
}

/// What came of one.
struct Found {
    content: Vec<Content>,
    changes: Vec<SessionChange>,
}

impl Lookup {
    fn mention(&mut self, mention: &Mention) -> Option<Reference> {
        match mention {
            Mention::Path(places) => {
                let found = places.iter().find_map(|place| Some((place, self.real(place)?)));
                let (place, thing) = match found {
                    Some((place, Some(Placement::Inside(real)))) if place.rest.is_none() => {
                        (place, Thing::Lines(real, place.lines))
                    }
                    Some((place, _)) => (place, Thing::Unread(place.name.clone())),
                    // What only a shell finds is no word either. The last reading is the shortest.
                    None => {
                        let place = places.iter().rfind(|place| place.path.starts_with("~/"))?;
                        (place, Thing::Unread(place.name.clone()))
                    }
                };
                self.told_once(thing, &place.name, |this| this.place(place))
            }
            Mention::NoSession(name, why) => {
                let why = (*why).to_owned();
                self.told_once(Thing::Unread(name.clone()), name, |_| Err(why))
            }
            Mention::Session(_) | Mention::LastSession => match self.which_session(mention) {
                Ok(id) => {
                    let name = format!("@session:{id}");
                    self.told_once(Thing::Session(id.clone()), &name, |this| this.session(&id))
                }
                Err((name, why)) => {
                    self.told_once(Thing::Unread(name.clone()), &name, |_| Err(why))
                }
            },
        }
    }

    /// Where a place really is, if something is there; a link that leads nowhere is there, too.
    fn real(&self, place: &Place) -> Option<Option<Placement>> {
        let placement = self.world.roots.resolve(&place.path).ok();
        let placement = placement.filter(|it| fs_err::symlink_metadata(it.path()).is_ok());
        if placement.is_none() {
            fs_err::symlink_metadata(self.world.roots.cwd().join(&place.path)).ok()?;
        }
        Some(placement)
    }

    /// The session that is meant, or how it was named and why there is none.
    fn which_session(&self, mention: &Mention) -> Result<SessionId, (String, String)> {
        let beginning = match mention {
            Mention::Session(beginning) => beginning.as_str(),
            Mention::Path(_) | Mention::LastSession | Mention::NoSession(..) => "",
        };
        if let Some(whole) = SessionId::parse(beginning) {
            return Ok(whole);
        }
        let name = if beginning.is_empty() { "last" } else { beginning };
        let name = format!("@session:{name}");
        // The newest first. This one may not be among them yet.
        let listed = match self.store.list() {
            Ok(listing) => listing.sessions.into_iter().map(|row| row.header.id.clone()),
            Err(error) => return Err((name, error.to_string())),
        };
        let mut others: Vec<_> =
            listed.filter(|id| *id != self.own && id.as_str().starts_with(beginning)).collect();
        if beginning.is_empty() {
            let newest = others.into_iter().next();
            return newest.ok_or_else(|| (name, "there is no other session".to_owned()));
        }
        others.extend(self.own.as_str().starts_with(beginning).then(|| self.own.clone()));
        match others.as_slice() {
            [] => Err((name, "no session has an id that begins so".to_owned())),
            [id] => Ok(id.clone()),
            several => {
                let why = format!("{} sessions begin so; write more of the id", several.len());
                Err((name, why))
            }
        }
    }

    fn told_once(
        &mut self,
        thing: Thing,
        name: &str,
        look: impl FnOnce(&Self) -> Result<Found, String>,
    ) -> Option<Reference> {
        if !self.told.insert(thing) {
            return None;
        }
        let found = if self.told.len() > MAX_REFERENCES {
            Err(format!("{MAX_REFERENCES} references of one prompt are the most"))
        } else if self.bytes >= MAX_BYTES {
            Err(format!("the references before it have {MAX_BYTES} bytes already"))
        } else {
            look(self)
        };
        let (content, changes, notice) = match found {
            Ok(Found { content, changes }) => (content, changes, None),
            Err(why) => {
                let told = format!("{name} was not read: {}", why.trim_end_matches('.'));
                (vec![Content::text(format!("[{told}.]\n"))], Vec::new(), Some(told))
            }
        };
        let wrapped = content.into_iter().map(|part| match part {
            Content::Text { text } => Content::text(wrap(name, &text)),
            other => other,
        });
        let content: Vec<Content> = wrapped.collect();
        self.bytes += content.iter().map(length).sum::<usize>();
        Some(Reference { name: name.to_owned(), content, changes, notice })
    }

    fn place(&self, place: &Place) -> Result<Found, String> {
        if let Some(rest) = &place.rest {
            return Err(format!(
                "`{rest}` says no lines of {}; `:10`, `:10-40` and `#L10-L40` do",
                place.path
            ));
        }
        let real = match self.world.roots.resolve(&place.path) {
            Ok(Placement::Inside(real)) => match fs_err::symlink_metadata(&real) {
                Ok(_) => real,
                Err(_) => {
                    return Err("nothing is there; it may be a link to what is gone".to_owned());
                }
            },
            Ok(Placement::Outside(real)) => {
                let why = why_outside(&self.world.roots, &real);
                let tool = if real.is_dir() { "list" } else { "read" };
                return Err(format!("{why}; `{tool}` asks for it"));
            }
            Err(error) => return Err(error.to_string()),
        };
        let path = path_text(&real);
        let message = |failure: ToolFailure| failure.message;
        self.permitted(&Target::resolve(&self.world, &path).map_err(message)?)?;
        if real.is_dir() {
            let call = ListArguments::of(path).plan(&self.world).map_err(message)?;
            let listed = call.run(&self.token).map_err(message)?;
            let content = ListArguments::contents(&listed);
            return Ok(Found { content, changes: Vec::new() });
        }
        let first = place.lines.map(|lines| lines.first);
        let last = place.lines.and_then(|lines| lines.last);
        let call = ReadArguments::of(path, first, last).plan(&self.world).map_err(message)?;
        let seen = call.run(&self.token).map_err(message)?;
        Ok(Found { content: ReadArguments::contents(&seen), changes: call.changes(&seen) })
    }

    /// A prompt permits no more than the policy lets the model do unasked.
    fn permitted(&self, target: &Target) -> Result<(), String> {
        let Some(policy) = &self.policy else {
            return Err("there is nothing that permits it".to_owned());
        };
        let display = target.display("Read", bridle_agent::ToolKind::Read, None);
        let call = CallInfo {
            id: ToolCallId::new("reference"),
            name: "read".to_owned(),
            arguments: String::new(),
            accesses: target.read_access(),
            display,
            mode: self.mode,
        };
        match policy.rule(&call).ruling {
            Ruling::Allow => Ok(()),
            Ruling::Ask(_) => Err("it is asked for first; use `read`".to_owned()),
            Ruling::Deny(why) => Err(why),
            Ruling::Cancel => Err("it is not permitted".to_owned()),
        }
    }

    fn session(&self, id: &SessionId) -> Result<Found, String> {
        if *id == self.own {
            return Err("it is this session".to_owned());
        }
        let ends = self.store.ends(id, session::HEAD_EVENTS, session::TAIL_EVENTS);
        let Ends { header, events } = ends.map_err(|error| error.to_string())?;
        let ends = Session::replay(header, events).map_err(|error| error.to_string())?;
        let content = vec![Content::text(session::quote(&ends))];
        Ok(Found { content, changes: Vec::new() })
    }
}

fn length(content: &Content) -> usize {
    match content {
        Content::Text { text } => text.len(),
        _ => 0,
    }
}

/// Lets the prompts of a session refer to things.
pub(crate) struct ReferencesPlugin;

#[async_trait]
impl Plugin for ReferencesPlugin {
    const NAME: &'static str = "references";
    type Config = ();
    type Needs =
        (Arc<Roots>, Arc<dyn Files>, Arc<dyn BlobStore>, Arc<dyn SessionStore>, Arc<Header>);

    async fn activate(
        &self,
        (): (),
        (roots, files, blobs, store, header): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let world = FileWorld { blobs: Some(blobs), ..FileWorld::new(roots, files) };
        let (own, scope) = (header.id.clone(), setup.scope().clone());
        let source: Arc<dyn ReferenceSource> = Arc::new(References { world, store, own, scope });
        Ok(setup.add(Self::NAME, source)?)
    }
}
