//! The skills of one session, as they are now.
//!
//! Each look walks the places again and reads what has changed since the last one: a file whose metadata
//! are the same is not opened. Whoever wants to know of changes watches the listing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bridle_model::is_unseen;
use bridle_world::files::Text;
use bridle_world::{name_text, path_text};
use tokio::sync::watch;

use super::bundled::BUNDLED;
use super::front_matter::{FrontMatter, is_name, line, split};
use super::walk::{Found, Place, Walk};
use super::{Listing, Rank, Skill};
use crate::contexts::Signature;
use crate::file_tool::FileWorld;
use crate::read_rules::ReadRules;

/// The largest SKILL.md that is used, in bytes.
pub(super) const MAX_SKILL_BYTES: u64 = 256 * 1024;

/// See the module. Provided in the scope of a session.
pub struct Skills {
    pub(super) world: FileWorld,
    places: Vec<Place>,
    off: Vec<String>,
    rules: ReadRules,
    read: Mutex<HashMap<PathBuf, Read>>,
    listing: watch::Sender<Arc<Listing>>,
}

/// A file as it was read last.
#[derive(Clone)]
struct Read {
    signature: Signature,
    said: Result<FrontMatter, String>,
}

impl Skills {
    /// The skills of these places, the strongest first, without those whose names are `off`. Nothing is
    /// looked at yet.
    pub(super) fn new(
        world: FileWorld,
        places: Vec<Place>,
        off: Vec<String>,
        rules: ReadRules,
    ) -> Self {
        let listing = watch::Sender::new(Arc::default());
        Self { world, places, off, rules, read: Mutex::default(), listing }
    }

    /// What the last look found, and every later one that finds something else.
    pub fn watch(&self) -> watch::Receiver<Arc<Listing>> {
        self.listing.subscribe()
    }

    /// Looks again.
    ///
    /// # Cancel safety
    /// Cancel safe: the look goes on, and whoever watches hears of it.
    pub async fn refresh(self: &Arc<Self>) -> Arc<Listing> {
        let this = Arc::clone(self);
        match tokio::task::spawn_blocking(move || this.look()).await {
            Ok(listing) => listing,
            Err(error) => {
                tracing::error!(%error, "looking for skills failed");
                self.listing.borrow().clone()
            }
        }
    }

    /// As [`Skills::refresh`]. Blocks on the file system.
    pub(super) fn look(&self) -> Arc<Listing> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let listing = Arc::new(self.listing(&mut read));
        let readable = listing.skills.iter().filter(|skill| skill.rank == Rank::User);
        let folders =
            readable.filter_map(|skill| Some(skill.file.as_deref()?.parent()?.to_owned()));
        self.world.roots.set_readable(folders.collect());
        self.listing.send_if_modified(|told| {
            let is_new = *told != listing;
            told.clone_from(&listing);
            is_new
        });
        listing
    }

    fn listing(&self, read: &mut HashMap<PathBuf, Read>) -> Listing {
        let Walk { found, faults, .. } = Walk::through(&self.places, &self.world.roots);
        let mut listing = Listing { faults, ..Listing::default() };
        let mut still = HashMap::new();
        for found in found {
            if let Some(why) = self.rules.refusal(&found.file, &found.file) {
                listing.faults.push(format!("{}: {why}; it is left out", path_text(&found.file)));
                continue;
            }
            let said = match self.read(&found.file, read, &mut still) {
                Ok(said) => said,
                Err(why) => {
                    listing
                        .faults
                        .push(format!("{} {why}; it is left out", path_text(&found.file)));
                    continue;
                }
            };
            match named(&found, &said) {
                Ok((name, note)) => {
                    listing.faults.extend(note);
                    self.take(&mut listing, skill(name, said, found.rank, Some(found.file)));
                }
                Err(why) => listing.faults.push(why),
            }
        }
        *read = still;
        for bundled in BUNDLED {
            if let Ok(said) = FrontMatter::read(bundled.text) {
                let name = bundled.name.to_owned();
                self.take(&mut listing, skill(name, said, Rank::Bundled, None));
            }
        }
        listing.skills.sort_by(|a, b| (a.rank, &a.name).cmp(&(b.rank, &b.name)));
        listing
    }

    /// Puts a skill where it belongs; those that come first are the stronger ones.
    fn take(&self, listing: &mut Listing, skill: Skill) {
        if self.off.contains(&skill.name) {
            return;
        }
        match listing.find(&skill.name) {
            Some(_) => listing.shadowed.push(skill),
            None => listing.skills.push(skill),
        }
    }

    fn read(
        &self,
        file: &Path,
        before: &HashMap<PathBuf, Read>,
        now: &mut HashMap<PathBuf, Read>,
    ) -> Result<FrontMatter, String> {
        let signature = Signature::of(file).ok_or("is gone")?;
        let read = match before.get(file).filter(|read| read.signature == signature) {
            Some(read) => read.clone(),
            None => Read { signature, said: self.front_matter(file) },
        };
        let said = read.said.clone();
        now.insert(file.to_owned(), read);
        said
    }

    fn front_matter(&self, file: &Path) -> Result<FrontMatter, String> {
        let bytes = self.world.files.read(file, MAX_SKILL_BYTES);
        let bytes = bytes.map_err(|error| format!("cannot be read ({error})"))?;
        let (text, _) = Text::readable(&bytes).map_err(|why| format!("cannot be read ({why})"))?;
        let head = FrontMatter::read(&text)?;
        let (_, body) = split(&text)?;
        if body.contains('\0') {
            return Err("is no text behind its front matter".to_owned());
        }
        if body.chars().all(is_unseen) {
            return Err("says nothing behind its front matter".to_owned());
        }
        Ok(head)
    }
}

fn skill(name: String, said: FrontMatter, rank: Rank, file: Option<PathBuf>) -> Skill {
    let FrontMatter { description, for_model, for_person, .. } = said;
    Skill { name, description, rank, file, for_model, for_person }
}

/// What a skill is called, and what the person should know of that: its own word where that is a name,
/// else the name of its folder.
///
/// # Errors
/// Where neither is a name.
fn named(found: &Found, said: &FrontMatter) -> Result<(String, Option<String>), String> {
    let folder = name_text(&found.folder_name);
    let file = path_text(&found.file);
    let form = "lower-case letters, digits and single hyphens, at most 64";
    match said.name.as_deref() {
        Some(name) if name == folder && is_name(name) => Ok((name.to_owned(), None)),
        Some(name) if is_name(name) => {
            let note =
                format!("{file} calls itself `{name}`, and its folder `{folder}`; `{name}` counts");
            Ok((name.to_owned(), Some(note)))
        }
        said if is_name(&folder) => {
            let note = match said {
                Some(name) => format!("has the name `{}`, which is none ({form})", line(name)),
                None => "has no name".to_owned(),
            };
            let note = format!("{file} {note}; it is called `{folder}`, as its folder is");
            Ok((folder, Some(note)))
        }
        _ => Err(format!("{file} has no name ({form}), nor has its folder; it is left out")),
    }
}
