//! What of a tool's result enters the log: all of it, or of a large one its two ends and the name
//! of a blob that holds the whole.
//!
//! The blob is durable before the event that names it exists, and the model is told the path of its
//! file, which `read` takes. Where it cannot be kept, the result says so.

use std::path::PathBuf;

use bridle_session::{BlobRef, Content};
use bridle_store::BlobStore;

use super::Driver;
use crate::cut::without_middle;

/// The most text of one result that the log keeps as it is, in bytes. Tools cap what they return
/// below it, so that what they chose to show is read whole.
pub const RESULT_LIMIT: usize = 64 * 1024;

/// How much of its beginning is in the preview of a larger one, in bytes.
const PREVIEW_HEAD: usize = 4 * 1024;

/// A line of so many bytes is one that `read` does not show whole.
const LONG_LINE: usize = 4 * 1024;

/// How much of its end, where errors stand.
const PREVIEW_TAIL: usize = 12 * 1024;

impl Driver {
    /// The content as the log keeps it; never empty.
    pub(super) async fn bounded(&mut self, mut content: Vec<Content>) -> Vec<Content> {
        content.retain(|part| !matches!(part, Content::Text { text } if text.is_empty()));
        let blobs = self.scope.get::<dyn BlobStore>();
        for part in &mut content {
            if let Content::Blob { blob, preview: text, .. } = part {
                let path = blobs.as_ref().and_then(|blobs| blobs.path(blob));
                *text = preview(text);
                let place = place(blob, path, text);
                text.push_str(&place);
            }
        }
        if content.is_empty() {
            return vec![Content::text("(no output)")];
        }
        if content.iter().filter_map(text_in).map(str::len).sum::<usize>() <= RESULT_LIMIT {
            return content;
        }
        let whole = content.iter().filter_map(text_in).collect::<Vec<_>>().join("\n");
        let mut preview = preview(&whole);
        let spilled = match self.keep_bytes(whole.into_bytes()).await {
            Ok((blob, path)) => {
                let place = place(&blob, path, &preview);
                preview.push_str(&place);
                Content::Blob { blob, mime_type: "text/plain".to_owned(), preview }
            }
            Err(why) => Content::text(format!(
                "{preview}\n[What is omitted is lost: it could not be stored, because {why}.]"
            )),
        };
        let others = content.into_iter().filter(|part| text_in(part).is_none());
        [spilled].into_iter().chain(others).collect()
    }
}

/// Where the model finds all of a result, and what gets it a part, going by how its ends look.
fn place(blob: &BlobRef, path: Option<PathBuf>, ends: &str) -> String {
    let part = match ends.lines().any(|line| line.len() >= LONG_LINE) {
        false => "`read` what you need of it with start_line and end_line",
        true => "It has lines too long for `read`: `search` in it shows what stands around a match",
    };
    let place = match path {
        Some(path) => format!("is in {}. {part}", path.display()),
        None => {
            "is kept with the session, where no tool can read it: ask for a smaller part".into()
        }
    };
    format!("\n[The whole of it, {} bytes, {place}.]", blob.bytes)
}

/// A large text's two ends; a shorter one whole.
pub(super) fn preview(text: &str) -> String {
    if text.len() <= RESULT_LIMIT {
        return text.to_owned();
    }
    without_middle(text, PREVIEW_HEAD, PREVIEW_TAIL, |bytes| {
        format!("[... {bytes} bytes omitted ...]")
    })
}

fn text_in(part: &Content) -> Option<&str> {
    match part {
        Content::Text { text } | Content::Resource { text, .. } => Some(text),
        Content::Link { .. } | Content::Blob { .. } | Content::Image { .. } => None,
    }
}
