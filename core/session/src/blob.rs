//! Names of contents that are too large for a log: the log keeps the name, a store the bytes.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::content::Content;
use crate::event::Event;
use crate::session::Session;
use crate::vocabulary::{EventData, FileBefore, FileKept, ImageScaled};

/// The SHA-256 of a content: 64 lower-case hex digits. It is also a file name, so every text that
/// is not exactly this is refused, also when it comes from a log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlobHash(Arc<str>);

/// A text that is no [`BlobHash`].
#[derive(Debug, thiserror::Error)]
#[error("a blob is named by 64 lower-case hex digits, not by {0:?}")]
pub struct NotABlobHash(String);

impl BlobHash {
    /// How many digits a hash has.
    pub const DIGITS: usize = 64;

    /// The hash with this SHA-256 digest.
    pub fn of_digest(digest: &[u8; 32]) -> Self {
        Self(digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
    }

    /// Accepts exactly the 64 lower-case hex digits, so that no text names a file elsewhere.
    pub fn parse(text: &str) -> Option<Self> {
        let well_formed = text.len() == Self::DIGITS && text.bytes().all(is_digit);
        well_formed.then(|| Self(text.into()))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

impl TryFrom<String> for BlobHash {
    type Error = NotABlobHash;

    fn try_from(text: String) -> Result<Self, NotABlobHash> {
        Self::parse(&text).ok_or(NotABlobHash(text))
    }
}

impl From<BlobHash> for String {
    fn from(hash: BlobHash) -> Self {
        hash.as_str().to_owned()
    }
}

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A content that a store keeps beside the logs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BlobRef {
    /// Its name.
    pub hash: BlobHash,
    /// How many bytes it has.
    pub bytes: u64,
}

impl Event {
    /// The blobs that the event needs. Of an event that this build does not know it is whatever
    /// in its data could name one, so that nothing is collected which a newer version needs.
    pub fn blobs(&self) -> BTreeSet<BlobHash> {
        match &self.data {
            EventData::UserMessage(message) => named_in(&message.content),
            EventData::ToolResult(result) => named_in(&result.content),
            EventData::InboxSpliced(splice) => {
                splice.inserted.iter().flat_map(|message| named_in(&message.content)).collect()
            }
            EventData::ImageScaled(ImageScaled { image, blob, .. }) => {
                BTreeSet::from([image.clone(), blob.hash.clone()])
            }
            EventData::FileKept(FileKept { before: FileBefore::File { blob, .. }, .. }) => {
                BTreeSet::from([blob.hash.clone()])
            }
            EventData::Unknown(unknown) => {
                let words = unknown.data.get().split(|c: char| !c.is_ascii_alphanumeric());
                words.filter_map(BlobHash::parse).collect()
            }
            _ => BTreeSet::new(),
        }
    }
}

fn named_in(content: &[Content]) -> BTreeSet<BlobHash> {
    content.iter().filter_map(Content::blob).map(|blob| blob.hash.clone()).collect()
}

impl Session {
    /// The blobs that the session's events need: what a collector must keep.
    pub fn blobs(&self) -> BTreeSet<BlobHash> {
        self.events().iter().flat_map(|event| event.blobs()).collect()
    }
}
