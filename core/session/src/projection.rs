//! What a model request is made of: the messages on the surface, shared and immutable.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::blob::BlobHash;
use crate::event::Event;
use crate::id::Seq;
use crate::nodes::Nodes;
use crate::state::{Offloaded, SessionState};
use crate::vocabulary::{
    AssistantMessage, DeveloperMessage, EventData, ImageScaled, OffloadReason, SystemMessage,
    ToolResult, UserMessage,
};

/// The surface frozen at one moment. Cloning shares the list and the events.
///
/// It is made by [`crate::Session::projection`] only, so whatever a model is sent is in the log.
#[derive(Clone, Debug)]
pub struct Projection {
    nodes: Nodes,
    offloaded: Arc<BTreeMap<Seq, Offloaded>>,
    scaled: Arc<BTreeMap<BlobHash, ImageScaled>>,
}

/// One message on the surface.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// The system prompt.
    System(&'a SystemMessage),
    /// A person's input, injected context, or what a compaction asks.
    User(&'a UserMessage),
    /// Tools that came or went.
    Developer(&'a DeveloperMessage),
    /// An answer of a model.
    Assistant(&'a AssistantMessage),
    /// The result of a tool call.
    ToolResult(&'a ToolResult),
}

impl<'a> Message<'a> {
    /// What a model reads of the event where it stands on the surface.
    pub(crate) fn of(event: &'a Event) -> Option<Self> {
        Some(match &event.data {
            EventData::SystemMessage(message) => Self::System(message),
            EventData::UserMessage(message) => Self::User(message),
            EventData::DeveloperMessage(message) => Self::Developer(message),
            EventData::AssistantMessage(message) => Self::Assistant(message),
            EventData::ToolResult(message) => Self::ToolResult(message),
            EventData::CompactionStart(start) => Self::User(start.instruction.as_ref()?),
            _ => return None,
        })
    }

    /// About how many tokens the message is. [`crate::ContextSize::percent`] says how right such
    /// estimates were so far.
    pub fn tokens(&self) -> u64 {
        crate::fold::estimate(*self)
    }
}

impl Projection {
    pub(crate) fn new(nodes: Nodes, state: &SessionState) -> Self {
        let (offloaded, scaled) = (Arc::clone(&state.offloaded), Arc::clone(&state.scaled));
        Self { nodes, offloaded, scaled }
    }

    /// Why a note of text stands for image number `image` (from 0) of the message at `seq`: an
    /// `image/offload` names it. `None` where none does.
    pub fn offloaded(&self, seq: Seq, image: usize) -> Option<OffloadReason> {
        let Offloaded { first, reason } = self.offloaded.get(&seq)?;
        first.is_none_or(|first| image < first as usize).then_some(*reason)
    }

    /// What is shown in the place of the image with this name: the last `image/scaled` that names it.
    pub fn scaled(&self, image: &BlobHash) -> Option<&ImageScaled> {
        self.scaled.get(image)
    }

    /// The messages in the order a model reads them.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = Message<'_>> + Clone {
        self.entries().map(|(_, message)| message)
    }

    /// The messages with the position of the event that each stands for.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = (Seq, Message<'_>)> + Clone {
        self.nodes.iter().filter_map(|event| Some((event.seq, Message::of(event)?)))
    }
}
