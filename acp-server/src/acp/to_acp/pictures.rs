//! The images of a replay, read before it begins. One that is lost, or for which there is no room, is
//! shown as a note.

use std::collections::HashMap;

use agent_client_protocol::v1::schema::{ContentBlock, ImageContent};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bridle_agent::AgentUpdate;
use bridle_session::{BlobHash, Content};
use bridle_store::BlobStore;

/// The most bytes of images that a replay shows, oldest first.
const MAX_BYTES: u64 = 64 << 20;

/// Image files by name, as Base64.
#[derive(Debug, Default)]
pub(in crate::acp) struct Pictures(HashMap<BlobHash, String>);

impl Pictures {
    /// The images of the messages in `replay`. Blocks on the disk.
    pub(in crate::acp) fn of(replay: &[AgentUpdate], blobs: &dyn BlobStore) -> Self {
        let messages = replay.iter().filter_map(|update| match update {
            AgentUpdate::UserMessage { content, .. } => Some(content),
            _ => None,
        });
        let mut pictures = Self::default();
        let mut room = MAX_BYTES;
        for part in messages.flatten() {
            let Content::Image { blob, .. } = part else { continue };
            let Some(left) = room.checked_sub(blob.bytes) else { continue };
            match blobs.get(blob) {
                Ok(bytes) => {
                    pictures.0.insert(blob.hash.clone(), STANDARD.encode(bytes));
                    room = left;
                }
                Err(error) => tracing::warn!(%error, "an image of a replay cannot be read"),
            }
        }
        pictures
    }

    /// An image as the client sent it, as far as it is here.
    pub(super) fn block(&self, part: &Content) -> Option<ContentBlock> {
        let Content::Image { blob, mime_type } = part else { return None };
        let data = self.0.get(&blob.hash)?.clone();
        Some(ContentBlock::Image(ImageContent::new(data, mime_type.clone())))
    }
}
