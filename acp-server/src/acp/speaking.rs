//! What the client has been sent of an answer that is not on the log yet, so that a load in the
//! middle of a turn shows it up to the same letter.

use bridle_agent::AgentUpdate;
use bridle_session::MessageId;

/// The pieces of the answer that is being given, joined where they are of one kind.
#[derive(Debug, Default)]
pub(super) struct Speaking {
    pieces: Vec<AgentUpdate>,
}

impl Speaking {
    /// Takes note of an update that is about to be sent.
    pub(super) fn hear(&mut self, update: &AgentUpdate) {
        if matches!(update, AgentUpdate::TurnEnded { .. }) {
            self.pieces.clear();
        }
        let Some(id) = answer_of(update) else { return };
        if self.pieces.first().and_then(answer_of) != Some(id) {
            self.pieces.clear();
        }
        match (self.pieces.last_mut(), update) {
            (
                Some(AgentUpdate::MessageChunk { text, .. }),
                AgentUpdate::MessageChunk { text: more, .. },
            )
            | (
                Some(AgentUpdate::ThoughtChunk { text, .. }),
                AgentUpdate::ThoughtChunk { text: more, .. },
            ) => text.push_str(more),
            (_, update) => self.pieces.push(update.clone()),
        }
    }

    /// Adds the answer to a replay that does not have it.
    pub(super) fn complete(&self, replay: &mut Vec<AgentUpdate>) {
        let Some(speaking) = self.pieces.first().and_then(answer_of) else { return };
        if !replay.iter().any(|update| answer_of(update) == Some(speaking)) {
            replay.extend(self.pieces.iter().cloned());
        }
    }
}

/// The answer that a piece belongs to.
fn answer_of(update: &AgentUpdate) -> Option<&MessageId> {
    match update {
        AgentUpdate::MessageChunk { id, .. } | AgentUpdate::ThoughtChunk { id, .. } => Some(id),
        _ => None,
    }
}
