//! What a model gets of the notes: a search that shows candidates, a read that gives the text, and
//! a section of the system prompt that says when to use them.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{
    Access, Concurrency, Display, Grant, PlannedCall, PromptSection, Tool, ToolContext,
    ToolFailure, ToolKind, ToolOutcome,
};
use bridle_compose::{ActivateError, Plugin, Setup};
use bridle_model::ToolSpec;
use bridle_session::Content;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::store::{Note, NoteStore, is_id};

/// The consumer of the notes.
pub(super) struct NoteTools;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoteToolsConfig {
    /// How many characters of a note a search shows.
    preview_chars: usize,
}

#[async_trait]
impl Plugin for NoteTools {
    const NAME: &'static str = "note-tools";
    type Config = NoteToolsConfig;
    type Needs = (Arc<dyn NoteStore>,);

    async fn activate(
        &self,
        config: NoteToolsConfig,
        (store,): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let notes = Arc::new(Notes { store, preview_chars: config.preview_chars });
        setup.add(SearchNotes::NAME, tool::<SearchNotes>(Arc::clone(&notes)))?;
        setup.add(ReadNote::NAME, tool::<ReadNote>(notes))?;
        let text = "Notes: find candidates with `search_notes`, then rely only on what `read_note` \
                    gives, and name its id as [id].";
        Ok(setup.add(Self::NAME, Arc::new(PromptSection::verbatim(Self::NAME, 200, text)))?)
    }
}

/// What both tools work on.
struct Notes {
    store: Arc<dyn NoteStore>,
    preview_chars: usize,
}

/// The arguments of a tool, and what it does with them.
#[async_trait]
trait NoteCall: DeserializeOwned + JsonSchema + Send + Sync + 'static {
    const NAME: &'static str;
    const DESCRIPTION: &'static str;

    /// The value of a call.
    type Value: Serialize + DeserializeOwned + JsonSchema;

    /// What the schema cannot say.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// What programs read.
    async fn answer(&self, notes: &Notes) -> Result<Self::Value, ToolFailure>;

    /// What the model reads of that.
    fn read(value: Self::Value) -> String;
}

/// Shows which notes contain a text.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchNotes {
    /// The text to look for.
    query: String,
}

#[async_trait]
impl NoteCall for SearchNotes {
    const NAME: &'static str = "search_notes";
    const DESCRIPTION: &'static str = "Finds notes; shows only how each begins.";

    type Value = Found;

    async fn answer(&self, notes: &Notes) -> Result<Found, ToolFailure> {
        let preview = |text: String| text.chars().take(notes.preview_chars).collect();
        let found = notes.store.search(&self.query).await;
        let matches = found.into_iter().map(|n| Match { id: n.id, preview: preview(n.text) });
        Ok(Found { matches: matches.collect() })
    }

    fn read(found: Found) -> String {
        json!(found).to_string()
    }
}

/// The notes that contain a text.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Found {
    matches: Vec<Match>,
}

/// How one of them begins.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Match {
    id: String,
    preview: String,
}

/// Gives the text of one note.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadNote {
    /// The note's id.
    id: String,
}

#[async_trait]
impl NoteCall for ReadNote {
    const NAME: &'static str = "read_note";
    const DESCRIPTION: &'static str = "Reads one note by its id.";

    fn check(&self) -> Result<(), String> {
        if is_id(&self.id) { Ok(()) } else { Err(format!("{:?} is no id of a note", self.id)) }
    }

    type Value = Note;

    async fn answer(&self, notes: &Notes) -> Result<Note, ToolFailure> {
        let note = notes.store.read(&self.id).await;
        note.ok_or_else(|| ToolFailure::failed(format!("There is no note {:?}.", self.id)))
    }

    fn read(note: Note) -> String {
        format!("[{}] {}", note.id, note.text)
    }
}

fn tool<C: NoteCall>(notes: Arc<Notes>) -> Arc<dyn Tool> {
    let spec = ToolSpec {
        name: C::NAME.to_owned(),
        description: C::DESCRIPTION.to_owned(),
        input_schema: to_raw_value(&schemars::schema_for!(C)).unwrap(),
    };
    let values = to_raw_value(&schemars::schema_for!(C::Value)).unwrap();
    Arc::new(NoteTool::<C> { notes, spec, values, call: PhantomData })
}

struct NoteTool<C> {
    notes: Arc<Notes>,
    spec: ToolSpec,
    values: Box<RawValue>,
    call: PhantomData<fn() -> C>,
}

#[async_trait]
impl<C: NoteCall> Tool for NoteTool<C> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn value_schema(&self) -> Option<&RawValue> {
        Some(&self.values)
    }

    fn render(&self, value: &Value) -> Vec<Content> {
        vec![Content::text(C::read(C::Value::deserialize(value).unwrap()))]
    }

    async fn plan(
        &self,
        arguments: Value,
        _: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        let call: C = serde_json::from_value(arguments)
            .map_err(|error| ToolFailure::bad_arguments(error.to_string()))?;
        call.check().map_err(ToolFailure::bad_arguments)?;
        Ok(Box::new(Planned { call, notes: Arc::clone(&self.notes) }))
    }

    fn outline(&self, _: &str) -> Display {
        Display::new(C::NAME, ToolKind::Read)
    }
}

struct Planned<C> {
    call: C,
    notes: Arc<Notes>,
}

#[async_trait]
impl<C: NoteCall> PlannedCall for Planned<C> {
    fn display(&self) -> Display {
        Display::new(C::NAME, ToolKind::Read)
    }

    fn access(&self) -> Vec<Access> {
        vec![Access::ReadInside("/ws".into())]
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::Parallel
    }

    async fn run(self: Box<Self>, _: Grant, _: ToolContext) -> Result<ToolOutcome, ToolFailure> {
        let value = self.call.answer(&self.notes).await?;
        Ok(ToolOutcome::new(json!(value), self.display()))
    }
}
