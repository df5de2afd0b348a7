//! A session's messages as the provider takes them.
//!
//! Whatever is stored (broken arguments, missing or stray results, ids and names that are illegal,
//! another model's reasoning, blocks without a partner) must never make every later request fail,
//! so it is repaired here, always in the same way: a message yields the same bytes in every request
//! of a route, and each request is the one before it with more at the end. It refuses only what the
//! caller must mend.
//!
//! What lies before the last answer is settled: it is written once and kept, and the next request
//! goes on from there.

use std::borrow::Cow;
use std::collections::HashSet;

use bridle_session::{AssistantMessage, Content, Message, Seq, ToolResult};

use super::answer;
use super::names::{ToolTable, is_legal};
use super::wire::{self, Part, Role};
use crate::catalogue::CatalogueModel;
use crate::content::{note_of_image, text_of, text_of_developer};
use crate::plant::Plant;
use crate::{FailureCode, Images, ModelFailure};

/// What stands where something must be said and nothing was.
const CONTINUES: &str = "(The conversation continues.)";

/// The conversation up to the last answer.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// The events that are in here.
    entries: Vec<Seq>,
    system: Option<String>,
    /// The messages as JSON, with commas between them.
    json: Vec<u8>,
    /// Where in `json` the last block before each answer ends.
    ends: Vec<usize>,
    /// Every call id on the wire; providers refuse one that occurs twice.
    ids: HashSet<String>,
    /// The calls of the last answer, in its order.
    calls: Vec<Call>,
    last: Last,
}

/// How the last answer ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Last {
    #[default]
    None,
    Answer,
    /// The provider paused, and goes on when it gets the same back.
    Paused,
}

#[derive(Debug)]
struct Call {
    stored_id: String,
    wire_id: String,
}

/// A whole conversation.
#[derive(Debug)]
pub(super) struct History<'s> {
    /// The system prompt.
    pub(super) system: Option<Cow<'s, str>>,
    /// The messages up to the last answer, as JSON with commas between them.
    pub(super) settled: &'s [u8],
    /// The messages behind it.
    pub(super) tail: Vec<u8>,
    /// Where in `settled` the last two requests ended: there the provider has cached.
    pub(super) ends: &'s [usize],
    pub(super) has_calls: bool,
}

impl Settled {
    /// Whether `entries` begin with what is in here.
    pub(super) fn is_start_of(&self, mut entries: impl Iterator<Item = Seq>) -> bool {
        self.entries.iter().all(|known| entries.next() == Some(*known))
    }

    /// How many entries are in here.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn write(&mut self, message: &wire::Message<'_>) {
        write(&mut self.json, message);
    }

    /// The id under which a call is on the wire: its own, where that is legal and still free.
    fn claim_id(&mut self, stored: &str) -> String {
        let mut id = stored.to_owned();
        let mut number = self.ids.len();
        while !is_legal(&id) || (self.ids.contains(&id) && !Plant::RepeatedIds.is_in()) {
            id = format!("call_{number}");
            number = number.saturating_add(1);
        }
        self.ids.insert(id.clone());
        id
    }
}

/// Writing to memory cannot fail, and the shapes of the wire can be written as JSON.
fn write(json: &mut Vec<u8>, message: &wire::Message<'_>) {
    if !json.is_empty() {
        json.push(b',');
    }
    if let Err(error) = serde_json::to_writer(json, message) {
        tracing::error!(%error, "a message cannot be written");
    }
}

/// The conversation so far, always ready for the next message.
pub(super) struct Conversation<'a, 's> {
    model: &'s CatalogueModel,
    tools: &'s ToolTable,
    images: &'a Images,
    /// Reasoning from before this event was made for another prefix.
    reasoning_since: Seq,
    settled: &'s mut Settled,
    /// What was pushed since the last answer.
    entries: Vec<Seq>,
    /// A system prompt that no answer has followed yet.
    system: Option<&'a str>,
    /// What came of the last answer's calls, in their order.
    results: Vec<Option<(Seq, &'a ToolResult)>>,
    /// What was said since the last answer.
    said: Vec<Part<'a>>,
    /// What Bridle itself told since then, on a wire that has a role for it.
    told: Vec<Part<'a>>,
}

impl<'a, 's> Conversation<'a, 's> {
    pub(super) fn new(
        model: &'s CatalogueModel,
        tools: &'s ToolTable,
        images: &'a Images,
        reasoning_since: Seq,
        settled: &'s mut Settled,
    ) -> Self {
        Self {
            model,
            tools,
            images,
            reasoning_since,
            entries: Vec::new(),
            system: None,
            results: vec![None; settled.calls.len()],
            said: Vec::new(),
            told: Vec::new(),
            settled,
        }
    }

    pub(super) fn push(&mut self, seq: Seq, message: Message<'a>) {
        self.entries.push(seq);
        match message {
            // Only the first one can be the head: a later one there would change every byte
            // behind it.
            Message::System(message) if self.may_be_head(&message.text) => {
                self.system = Some(&message.text);
            }
            Message::System(message) => self.tell(Cow::Borrowed(&message.text)),
            Message::User(user) => self.said.extend(parts(seq, &user.content, self.images)),
            Message::Developer(message) => self.tell(Cow::Owned(text_of_developer(message))),
            Message::Assistant(answer) => self.answer(seq, answer),
            Message::ToolResult(result) => self.result(seq, result),
        }
    }

    /// The conversation, which must have something to answer.
    pub(super) fn finish(mut self) -> Result<History<'s>, ModelFailure> {
        let (user, system) = self.since_answer();
        if user.is_empty() && self.settled.last != Last::Paused {
            return Err(ModelFailure::new(
                FailureCode::InvalidRequest,
                "there is nothing to answer: the conversation has no new input",
            ));
        }
        let mut tail = Vec::new();
        for (role, content) in [(Role::User, user), (Role::System, system)] {
            if !content.is_empty() {
                write(&mut tail, &wire::Message { role, content });
            }
        }
        let Settled { system, json, ends, ids, .. } = self.settled;
        let two = ends.len().saturating_sub(2);
        Ok(History {
            system: self
                .system
                .map(|text| text.to_owned().into())
                .or(system.as_deref().map(Cow::Borrowed)),
            settled: json,
            tail,
            ends: ends.get(two..).unwrap_or_default(),
            has_calls: !ids.is_empty(),
        })
    }

    fn may_be_head(&self, text: &str) -> bool {
        self.settled.last == Last::None
            && self.settled.system.is_none()
            && self.system.is_none()
            && !text.trim().is_empty()
    }

    fn tell(&mut self, text: Cow<'a, str>) {
        let place = if self.model.system_messages { &mut self.told } else { &mut self.said };
        place.extend(text_part(text));
    }

    fn result(&mut self, seq: Seq, result: &'a ToolResult) {
        let id = result.id.as_str();
        let calls = self.settled.calls.iter().zip(&mut self.results);
        let is_free = |call: &Call| call.stored_id == id || Plant::ArrivalOrder.is_in();
        match calls.into_iter().find(|(call, found)| is_free(call) && found.is_none()) {
            Some((_, found)) => *found = Some((seq, result)),
            None => tracing::warn!(id, "a tool result without a call is left out of the request"),
        }
    }

    fn answer(&mut self, seq: Seq, answer: &'a AssistantMessage) {
        let settled = &mut *self.settled;
        let mut calls = Vec::new();
        let read = answer::Reader {
            model: self.model,
            tools: self.tools,
            in_series: seq >= self.reasoning_since,
        }
        .read(answer, |stored_id| {
            let wire_id = settled.claim_id(stored_id);
            calls.push(Call { stored_id: stored_id.to_owned(), wire_id: wire_id.clone() });
            wire_id
        });
        // Nothing of it can be sent back: what was said before it and after it is said at once.
        if read.content.is_empty() {
            return;
        }
        self.settle();
        self.settled.write(&wire::Message { role: Role::Assistant, content: read.content });
        self.settled.last = if read.is_paused { Last::Paused } else { Last::Answer };
        self.results = vec![None; calls.len()];
        self.settled.calls = calls;
    }

    /// Writes what came since the last answer, for the answer that follows it.
    fn settle(&mut self) {
        let (mut user, system) = self.since_answer();
        // A conversation begins with the user, and an answer answers something; only one that goes
        // on where the provider paused does not.
        if user.is_empty() && self.settled.last != Last::Paused {
            user.push(Part::Text { text: CONTINUES.into() });
        }
        for (role, content) in [(Role::User, user), (Role::System, system)] {
            if content.is_empty() {
                continue;
            }
            self.settled.write(&wire::Message { role, content });
            // The last block is an object in the content of a message.
            let end = self.settled.json.len().saturating_sub("}]}".len());
            if role == Role::System {
                self.settled.ends.pop();
            }
            self.settled.ends.push(end);
        }
        self.settled.system = self.settled.system.take().or(self.system.take().map(str::to_owned));
        self.settled.entries.append(&mut self.entries);
    }

    /// Takes everything since the last answer: a user message, first the results of its calls, in
    /// the model's order and without a gap, then what was said; and behind it a system message,
    /// which cannot stand without it.
    fn since_answer(&mut self) -> (Vec<Part<'a>>, Vec<Part<'a>>) {
        let calls = self.settled.calls.iter().zip(self.results.drain(..));
        let images = self.images;
        let mut user: Vec<_> =
            calls.map(|(call, result)| result_part(call, result, images)).collect();
        user.append(&mut self.said);
        let told = std::mem::take(&mut self.told);
        if user.is_empty() { (told, Vec::new()) } else { (user, told) }
    }
}

/// What was said in a message, with the images that are shown.
fn parts<'a>(
    seq: Seq,
    content: &'a [Content],
    images: &'a Images,
) -> impl Iterator<Item = Part<'a>> {
    content
        .iter()
        .enumerate()
        .flat_map(move |(index, part)| match part {
            Content::Image { blob, mime_type } => match images.at(seq, index) {
                Ok(image) => {
                    let note = images.note(seq, index).and_then(|note| text_part(note.into()));
                    [Some(Part::Image { source: wire::ImageSource::of(image) }), note]
                }
                Err(why) => [text_part(note_of_image(blob, mime_type, why).into()), None],
            },
            part => [text_part(text_of(part)), None],
        })
        .flatten()
}

/// Providers refuse a text without a visible character.
pub(super) fn text_part(text: Cow<'_, str>) -> Option<Part<'_>> {
    (!text.trim().is_empty()).then_some(Part::Text { text })
}

fn result_part<'a>(
    call: &Call,
    result: Option<(Seq, &'a ToolResult)>,
    images: &'a Images,
) -> Part<'a> {
    let (mut content, is_error): (Vec<_>, _) = match result {
        // Providers refuse images in the result of a call that failed.
        Some((_, ToolResult { content, error: Some(_), .. })) => {
            (content.iter().filter_map(|part| text_part(text_of(part))).collect(), true)
        }
        Some((seq, result)) => (parts(seq, &result.content, images).collect(), false),
        None => (vec![Part::Text { text: "No result of this call was recorded.".into() }], true),
    };
    if content.is_empty() {
        content.push(Part::Text { text: "(no output)".into() });
    }
    Part::ToolResult { tool_use_id: call.wire_id.clone().into(), content, is_error }
}
