//! What a server answered to a call, as a value for programs and as content for the model.
//!
//! What is no text is kept as a blob beside the log. Where a server sends the same twice, as content and
//! as data, the model reads the content (notes on MCP, 3.5). Of a text all is to be seen, for everybody
//! who reads it or the log (S10, S31).

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bridle_agent::{Display, ToolFailure, ToolOutcome};
use bridle_model::MAX_IMAGE_BYTES;
use bridle_session::{BlobHash, BlobRef, Content};
use bridle_store::BlobStore;
use bridle_world::servers::written_out;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clip::clipped;

/// The images that models take.
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// How much of what is no result is told, in bytes.
const MAX_QUOTED: usize = 300;

/// The value of a call.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// What the server said, in its order.
    pub(crate) parts: Vec<Part>,
    /// The same or something else as data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) structured: Option<Value>,
}

/// One part of what a server said.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Part {
    /// Text; also what stands for something that is none.
    Text { text: String },
    /// Text that only the person is to read.
    Aside { text: String },
    /// An image that models take.
    Image { blob: String, bytes: u64, mime_type: String },
}

impl Outcome {
    /// Reads the result of `tools/call`. Blocks on the disk.
    ///
    /// # Errors
    /// When the server says that the call failed, or says nothing that can be read as a result.
    pub(crate) fn read(mut result: Value, blobs: &dyn BlobStore) -> Result<Self, ToolFailure> {
        if !result.is_object() {
            return Err(ToolFailure::outcome_unknown(format!(
                "The tool was called, but what it answered is no result of a tool: {}",
                clipped(&result.to_string(), MAX_QUOTED)
            )));
        }
        let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
        let structured = result.get_mut("structuredContent").map(Value::take);
        let content = match result.get_mut("content").map(Value::take) {
            Some(Value::Array(parts)) => parts,
            Some(Value::Null) | None => Vec::new(),
            Some(other) => vec![other],
        };
        let parts = content.into_iter().map(|part| Part::read(part, blobs));
        let mut parts: Vec<_> = parts.map(Part::written_out).collect();
        if parts.is_empty()
            && let Some(structured) = &structured
        {
            parts.push(Part::Text { text: structured.to_string() }.written_out());
        }
        let outcome = Self { parts, structured };
        if !is_error {
            return Ok(outcome);
        }
        let text = outcome.text();
        Err(ToolFailure::failed(match text.trim() {
            "" => "The tool failed and said nothing about it.".to_owned(),
            _ => text,
        }))
    }

    /// What the model reads of the value of a call.
    pub(crate) fn render(value: &Value) -> Vec<Content> {
        match Self::deserialize(value) {
            Ok(outcome) => outcome.content(),
            Err(_) => vec![Content::text(value.to_string())],
        }
    }

    fn content(&self) -> Vec<Content> {
        let read = self.parts.iter().filter_map(Part::content);
        let read: Vec<_> = read.collect();
        match read.is_empty() {
            true => vec![Content::text("The tool ran and said nothing.")],
            false => read,
        }
    }

    /// As what came of a call that is shown like this.
    ///
    /// # Errors
    /// When it cannot be written as JSON, which does not happen.
    pub(crate) fn told(self, display: Display) -> Result<ToolOutcome, ToolFailure> {
        let display = Display { text: Some(fenced(&self.text())), ..display };
        let value = serde_json::to_value(self);
        let value = value.map_err(|error| ToolFailure::failed(error.to_string()))?;
        Ok(ToolOutcome::new(value, display))
    }

    /// What a person is shown, apart from images.
    pub(crate) fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text { text } | Part::Aside { text } => Some(text.as_str()),
            Part::Image { .. } => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl Part {
    fn read(part: Value, blobs: &dyn BlobStore) -> Self {
        let text = |name: &str| part.get(name).and_then(Value::as_str);
        let kind = text("type").unwrap_or_default();
        let resource = part.get("resource");
        let of_resource = |name: &str| resource.and_then(|it| it.get(name)).and_then(Value::as_str);
        let mime_type = text("mimeType").unwrap_or("application/octet-stream");
        match (kind, text("text"), text("data")) {
            ("text", Some(words), _) if is_aside(&part) => Self::Aside { text: words.to_owned() },
            ("text", Some(words), _) => Self::Text { text: words.to_owned() },
            ("image" | "audio", _, Some(data)) => Self::kept(kind, mime_type, data, blobs),
            ("resource_link", ..) => {
                let uri = text("uri").unwrap_or_default();
                let name = text("title").or_else(|| text("name")).unwrap_or_default();
                Self::Text { text: format!("[resource {name}: {uri} ({mime_type})]") }
            }
            ("resource", ..) => {
                let uri = of_resource("uri").unwrap_or_default();
                let mime_type = of_resource("mimeType").unwrap_or("application/octet-stream");
                match (of_resource("text"), of_resource("blob")) {
                    (Some(words), _) => Self::Text { text: format!("[resource {uri}]\n{words}") },
                    (None, Some(data)) => {
                        Self::kept(&format!("resource {uri}"), mime_type, data, blobs)
                    }
                    (None, None) => Self::Text { text: part.to_string() },
                }
            }
            // Whatever a newer server sends: better read as it is than lost.
            _ => match &part {
                Value::String(words) => Self::Text { text: words.clone() },
                _ => Self::Text { text: part.to_string() },
            },
        }
    }

    /// Keeps bytes; an image that models take is one, anything else is told of.
    fn kept(what: &str, mime_type: &str, data: &str, blobs: &dyn BlobStore) -> Self {
        let told = |what: String| Self::Text { text: format!("[{what}]") };
        let Ok(bytes) = STANDARD.decode(data) else {
            return told(format!("{what} ({mime_type}) is left out: it is not base64"));
        };
        let blob = match blobs.put(&bytes) {
            Ok(blob) => blob,
            Err(error) => return told(format!("{what} ({mime_type}) is left out: {error}")),
        };
        if IMAGES.contains(&mime_type) && bytes.len() as u64 <= MAX_IMAGE_BYTES {
            let (hash, bytes) = (blob.hash.as_str().to_owned(), blob.bytes);
            return Self::Image { blob: hash, bytes, mime_type: mime_type.to_owned() };
        }
        let size = blob.bytes;
        match blobs.path(&blob) {
            Some(path) => {
                told(format!("{what} ({mime_type}, {size} bytes) is kept in {}", path.display()))
            }
            None => told(format!("{what} ({mime_type}, {size} bytes) is kept and cannot be shown")),
        }
    }

    fn written_out(self) -> Self {
        let seen = |text: String| match written_out(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(seen) => seen,
        };
        match self {
            Self::Text { text } => Self::Text { text: seen(text) },
            Self::Aside { text } => Self::Aside { text: seen(text) },
            image @ Self::Image { .. } => image,
        }
    }

    fn content(&self) -> Option<Content> {
        match self {
            Self::Text { text } => Some(Content::text(text.clone())),
            Self::Aside { .. } => None,
            Self::Image { blob, bytes, mime_type } => {
                let blob = BlobRef { hash: BlobHash::parse(blob)?, bytes: *bytes };
                Some(Content::Image { blob, mime_type: mime_type.clone() })
            }
        }
    }
}

/// Whether a part is for the person alone.
fn is_aside(part: &Value) -> bool {
    let audience = part.get("annotations").and_then(|it| it.get("audience"));
    audience
        .and_then(Value::as_array)
        .is_some_and(|all| !all.is_empty() && all.iter().all(|one| one.as_str() == Some("user")))
}

/// Reads a result where that holds nobody up.
pub(crate) async fn read(
    result: Value,
    blobs: &Arc<dyn BlobStore>,
) -> Result<Outcome, ToolFailure> {
    let blobs = Arc::clone(blobs);
    let read = tokio::task::spawn_blocking(move || Outcome::read(result, blobs.as_ref()));
    read.await.unwrap_or_else(|error| Err(ToolFailure::failed(error.to_string())))
}

/// As a block that shows any text as it is.
pub(crate) fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}
