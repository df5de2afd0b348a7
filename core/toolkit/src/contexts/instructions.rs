//! Instructions that lie in files: the user's own, those of the session's folders, and, from when a
//! file below it is first touched, those of a nested folder.
//!
//! Each file is told for itself, in an order in which the nearest comes last, and told anew when it
//! changes; where they disagree, what comes later holds. A text that is there twice is told once.
//! What was touched is what the log says was read or written, so a resumed session tells the same.
//! Nothing is searched: only the folders above what the session works on are looked into.

mod read;
mod walk;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bridle_agent::{ContextInput, ContextPart, ContextSource};
use bridle_compose::{ActivateError, Plugin, ServiceKey, Setup};
use bridle_world::Roots;
use bridle_world::files::{ContentHash, Files};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{add, wrap};
use crate::file_tool::FileWorld;
use crate::read::NOT_UTF_8;
use crate::read_rules::ReadRules;
use crate::target::shown;
use read::{Read, Reader};

/// What is read and how much of it is told.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct InstructionsConfig {
    /// The user's own folder, which is no workspace.
    home: Option<PathBuf>,
    /// The names that a file of instructions may have. Of several in one folder a later one is told
    /// later.
    names: Vec<String>,
    /// The most bytes that are told of one file.
    file_bytes: usize,
    /// The most bytes that are told of all files.
    total_bytes: usize,
}

impl Default for InstructionsConfig {
    fn default() -> Self {
        let names = vec!["AGENTS.md".to_owned()];
        Self { home: None, names, file_bytes: 32 * 1024, total_bytes: 96 * 1024 }
    }
}

/// The files of instructions of a session, as they were found before the last step.
#[derive(Debug, Default)]
pub struct InstructionFiles(Mutex<Vec<InstructionFile>>);

/// A file of instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionFile {
    /// Relative to the working directory where it lies below it.
    pub path: String,
    /// How many bytes of its text the model is told.
    pub told: usize,
    /// Why that is not all of the file.
    pub note: Option<String>,
}

impl InstructionFiles {
    /// The files in the order in which the model is told of them.
    pub fn list(&self) -> Vec<InstructionFile> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, files: Vec<InstructionFile>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = files;
    }
}

/// Tells the instructions.
pub(super) struct Instructions {
    world: FileWorld,
    config: Arc<InstructionsConfig>,
    rules: ReadRules,
    reader: Arc<Mutex<Reader>>,
    files: Arc<InstructionFiles>,
}

impl Instructions {
    pub(super) fn new(world: FileWorld, config: InstructionsConfig, rules: ReadRules) -> Self {
        let (reader, files) = (Arc::default(), Arc::default());
        Self { world, config: Arc::new(config), rules, reader, files }
    }

    /// What was found.
    pub(super) fn files(&self) -> Arc<InstructionFiles> {
        Arc::clone(&self.files)
    }
}

#[async_trait]
impl ContextSource for Instructions {
    fn name(&self) -> &str {
        "instructions"
    }

    async fn collect(&self, now: &ContextInput) -> Option<String> {
        let parts = self.collect_parts(now).await;
        let texts: Vec<_> = parts.into_iter().map(|part| part.text).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }

    async fn collect_parts(&self, now: &ContextInput) -> Vec<ContextPart> {
        let (world, config) = (self.world.clone(), Arc::clone(&self.config));
        let (reader, files) = (Arc::clone(&self.reader), Arc::clone(&self.files));
        let (rules, observed) = (self.rules.clone(), Arc::clone(&now.observed));
        let told = tokio::task::spawn_blocking(move || {
            let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
            let mut telling = Telling::new(&world, &config, &rules, &mut reader);
            if let Some(home) = &config.home {
                telling.folder(home, Owner::User);
            }
            for folder in walk::folders(&world.roots, observed.keys().map(PathBuf::as_path)) {
                telling.folder(&folder, Owner::Project);
            }
            let Telling { parts, found, looked_at, .. } = telling;
            reader.keep_only(&looked_at);
            files.set(found);
            parts
        });
        match told.await {
            Ok(parts) => parts,
            // Silence would withdraw what was told.
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }
}

/// Whose instructions a file holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// The user's, for all projects.
    User,
    /// Those of a project, which is not trusted to be what it looks like.
    Project,
}

/// The instructions of one moment, as far as they have been gone through.
struct Telling<'a> {
    world: &'a FileWorld,
    config: &'a InstructionsConfig,
    rules: &'a ReadRules,
    reader: &'a mut Reader,
    /// How many bytes may still be told.
    room: usize,
    /// The texts so far, and where each was first.
    texts: HashMap<ContentHash, String>,
    parts: Vec<ContextPart>,
    found: Vec<InstructionFile>,
    looked_at: BTreeSet<PathBuf>,
}

impl<'a> Telling<'a> {
    fn new(
        world: &'a FileWorld,
        config: &'a InstructionsConfig,
        rules: &'a ReadRules,
        reader: &'a mut Reader,
    ) -> Self {
        Self {
            world,
            config,
            rules,
            reader,
            room: config.total_bytes,
            texts: HashMap::new(),
            parts: Vec::new(),
            found: Vec::new(),
            looked_at: BTreeSet::new(),
        }
    }

    fn folder(&mut self, folder: &Path, owner: Owner) {
        for name in &self.config.names {
            let path = folder.join(name);
            let read = match owner {
                Owner::User => self.reader.of_user(self.world, self.rules, &path),
                Owner::Project => self.reader.of_project(self.world, self.rules, &path),
            };
            if let Some(read) = read {
                self.file(&path, owner, read);
            }
            self.looked_at.insert(path);
        }
    }

    fn file(&mut self, path: &Path, owner: Owner, read: Read) {
        let name = shown(&self.world.roots, path);
        let said = match read {
            Ok(text) if text.body.trim().is_empty() => return,
            Ok(text) => match self.texts.get(&text.hash) {
                Some(first) => Said::twice(&name, first),
                None => {
                    self.texts.insert(text.hash, name.clone());
                    let said = self.cut(&name, &text);
                    if text.is_lossy { said.lossy() } else { said }
                }
            },
            Err(why) => Said::not_at_all(&name, why),
        };
        let source = match owner {
            Owner::User => format!("{name} (the user's own instructions)"),
            Owner::Project => name.clone(),
        };
        let Said { text, told, note, is_lacking } = said;
        let notice = note.as_ref().filter(|_| is_lacking);
        let notice = notice.map(|note| format!("Instructions in {name}: {note}"));
        self.parts.push(ContextPart { name: name.clone(), text: wrap(&source, &text), notice });
        self.found.push(InstructionFile { path: name, told, note });
    }

    /// As much of a text as there is room for.
    fn cut(&mut self, name: &str, text: &read::Instruction) -> Said {
        let is_full = self.room < self.config.file_bytes;
        let end = text.body.floor_char_boundary(self.config.file_bytes.min(self.room));
        let kept = text.body.get(..end).unwrap_or_default();
        self.room -= kept.len();
        let (told, all) = (kept.len(), text.bytes);
        if told == all {
            return Said { text: kept.to_owned(), told, note: None, is_lacking: false };
        }
        let limit = match is_full {
            true => format!("{} are the most of all instructions", self.config.total_bytes),
            false => format!("{} are the most of one file", self.config.file_bytes),
        };
        let mark = format!("[Cut here: {} more bytes. Read {name} for the rest.]\n", all - told);
        Said {
            text: if kept.is_empty() { mark } else { format!("{kept}\n{mark}") },
            told,
            note: Some(format!("the model is told {told} of {all} bytes; {limit}")),
            is_lacking: true,
        }
    }
}

/// What is told of a file.
struct Said {
    text: String,
    /// How many bytes of it are the file's own.
    told: usize,
    /// Why that is not all of the file.
    note: Option<String>,
    /// Whether a person has to know of that.
    is_lacking: bool,
}

impl Said {
    fn twice(name: &str, first: &str) -> Self {
        let note = format!("word for word the same as {first}");
        let text = format!("[{name} is {note}.]\n");
        Self { text, told: 0, note: Some(note), is_lacking: false }
    }

    fn lossy(self) -> Self {
        let end = if self.text.ends_with('\n') { "" } else { "\n" };
        let text = format!("{}{end}[{NOT_UTF_8}]\n", self.text);
        let note = match self.note {
            Some(note) => format!("{note}. {NOT_UTF_8}"),
            None => NOT_UTF_8.to_owned(),
        };
        Self { text, note: Some(note), is_lacking: true, ..self }
    }

    fn not_at_all(name: &str, why: String) -> Self {
        let text = format!("[{name} was not read: {why}.]\n");
        Self { text, told: 0, note: Some(why), is_lacking: true }
    }
}

/// Puts [`Instructions`] into a session.
pub(crate) struct InstructionsPlugin;

#[async_trait]
impl Plugin for InstructionsPlugin {
    const NAME: &'static str = "instructions";
    type Config = InstructionsConfig;
    type Needs = (Arc<Roots>, Arc<dyn Files>);

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<InstructionFiles>()]
    }

    async fn activate(
        &self,
        config: InstructionsConfig,
        (roots, files): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let rules = ReadRules::of(setup.scope());
        let source = Instructions::new(FileWorld::new(roots, files), config, rules);
        setup.provide(source.files())?;
        add(setup, source)
    }
}

#[cfg(test)]
mod tests;
