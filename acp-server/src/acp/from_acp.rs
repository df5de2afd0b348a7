//! From the protocol's content blocks to the session's content. Images are kept as blobs.

use std::sync::Arc;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    BlobResourceContents, ContentBlock, EmbeddedResource, EmbeddedResourceResource, ImageContent,
    ResourceLink,
};
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bridle_model::{ImageFormat, MAX_IMAGE_BYTES};
use bridle_session::Content;
use bridle_store::BlobStore;

use super::errors;
use super::session::blocking;

/// The most bytes of a text that a client embeds; more would leave no room for an answer.
const MAX_TEXT: usize = 256 * 1024;

/// Clients disagree on padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// One block of a prompt.
enum Part {
    Content(Content),
    Image(Picture),
}

/// An image as a client sends it.
struct Picture {
    base64: String,
    /// Where it is from.
    uri: Option<String>,
    /// What stands for it if it is no image; without it the prompt is refused.
    otherwise: Option<Content>,
}

/// The content of a prompt, in order. Links keep their URI as it is, with line ranges and schemes
/// unknown here; the toolkit and the model make sense of them. Image files are in `blobs` when this
/// returns.
///
/// # Errors
/// When the prompt is empty, holds what was not advertised (audio), or an image that is none, is
/// too large or cannot be kept.
///
/// # Cancel safety
/// Cancel safe; blobs that nothing names are collected.
pub(super) async fn content(
    method: &'static str,
    blocks: Vec<ContentBlock>,
    blobs: Arc<dyn BlobStore>,
) -> Result<Vec<Content>, Error> {
    let is_empty = |part: &Part| matches!(part, Part::Content(Content::Text { text }) if text.trim().is_empty());
    let parts: Vec<Part> =
        blocks.into_iter().map(|block| part(method, block)).collect::<Result<_, _>>()?;
    if parts.iter().all(is_empty) {
        return Err(errors::invalid_params(&format!("{method}: the prompt is empty")));
    }
    if !parts.iter().any(|part| matches!(part, Part::Image(_))) {
        return kept(method, parts, blobs.as_ref());
    }
    blocking(move || kept(method, parts, blobs.as_ref())).await
}

fn part(method: &str, block: ContentBlock) -> Result<Part, Error> {
    let content = match block {
        ContentBlock::Text(text) => Content::text(text.text),
        ContentBlock::ResourceLink(ResourceLink { uri, name, .. }) => Content::Link { uri, name },
        ContentBlock::Resource(resource) => return Ok(resource_part(resource)),
        ContentBlock::Image(ImageContent { data, uri, .. }) => {
            return Ok(Part::Image(Picture { base64: data, uri, otherwise: None }));
        }
        ContentBlock::Audio(_) => return Err(refused(method, "audio")),
        // The reader replaces kinds that this SDK does not know; a later SDK may know more.
        _ => return Err(refused(method, "this kind of content")),
    };
    Ok(Part::Content(content))
}

fn resource_part(resource: EmbeddedResource) -> Part {
    let content = match resource.resource {
        EmbeddedResourceResource::TextResourceContents(text) => {
            Content::Resource { uri: text.uri, mime_type: text.mime_type, text: clipped(text.text) }
        }
        EmbeddedResourceResource::BlobResourceContents(blob) => return blob_part(blob),
        _ => Content::text("[An embedded resource of an unknown kind was left out here.]"),
    };
    Part::Content(content)
}

/// A text, or its beginning with a note.
fn clipped(mut text: String) -> String {
    let cut = text.len() - text.floor_char_boundary(MAX_TEXT);
    if cut > 0 {
        text.truncate(text.len() - cut);
        text.push_str(&format!(
            "\n[Cut here: {cut} more bytes. Read it where it lies for the rest.]\n"
        ));
    }
    text
}

fn blob_part(resource: BlobResourceContents) -> Part {
    let BlobResourceContents { blob, mime_type, uri, .. } = resource;
    let kind = mime_type.as_deref().unwrap_or("binary");
    let name = format!("embedded {kind} data, which was not passed on");
    let left_out = Content::Link { name, uri: uri.clone() };
    if mime_type.is_some_and(|kind| !kind.starts_with("image/")) {
        return Part::Content(left_out);
    }
    Part::Image(Picture { base64: blob, uri: Some(uri), otherwise: Some(left_out) })
}

/// The content, with its images in `blobs`.
fn kept(method: &str, parts: Vec<Part>, blobs: &dyn BlobStore) -> Result<Vec<Content>, Error> {
    let mut content = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Content(part) => content.push(part),
            Part::Image(Picture { base64, uri, otherwise }) => match read(&base64) {
                Ok((format, bytes)) => {
                    let blob = blobs.put(&bytes).map_err(|error| errors::store(&error))?;
                    let name = "the image that follows".to_owned();
                    content.extend(uri.map(|uri| Content::Link { uri, name }));
                    let mime_type = format.media_type().to_owned();
                    content.push(Content::Image { blob, mime_type });
                }
                Err(reason) => content.push(otherwise.ok_or_else(|| {
                    errors::invalid_params(&format!("{method}: an image cannot be taken: {reason}"))
                })?),
            },
        }
    }
    Ok(content)
}

fn read(base64: &str) -> Result<(ImageFormat, Vec<u8>), String> {
    let bytes = BASE64.decode(base64.trim()).map_err(|_| "its data is not Base64".to_owned())?;
    if bytes.len() as u64 > MAX_IMAGE_BYTES {
        return Err(format!("it has {} bytes; {MAX_IMAGE_BYTES} are the most", bytes.len()));
    }
    let (format, ..) = ImageFormat::measure(&bytes).map_err(|error| error.to_string())?;
    Ok((format, bytes))
}

fn refused(method: &str, what: &str) -> Error {
    errors::invalid_params(&format!("{method}: {what} cannot be taken; promptCapabilities says so"))
}

#[cfg(test)]
mod tests {
    use bridle_session::BlobRef;
    use bridle_store::MemoryStore;
    use serde_json::{Value, json};

    use super::*;

    const GIF: &[u8] = b"GIF89a\x02\0\x03\0\0\0\0";

    /// Reads a prompt of which at most `GIF` is kept.
    async fn read(blocks: Value) -> Result<Vec<Content>, Error> {
        let blobs = Arc::new(MemoryStore::new());
        let content =
            content("session/prompt", serde_json::from_value(blocks).unwrap(), blobs.clone());
        let content = content.await?;
        for blob in content.iter().filter_map(Content::blob) {
            assert_eq!(blobs.get(blob).unwrap(), GIF);
        }
        Ok(content)
    }

    fn gif() -> BlobRef {
        MemoryStore::new().put(GIF).unwrap()
    }

    #[tokio::test]
    async fn an_embedded_text_is_cut_between_characters_and_says_so() {
        let embedded = async |text: &str| {
            let resource = json!({"uri": "file:///w/a", "text": text});
            let content = read(json!([{"type": "resource", "resource": resource}])).await.unwrap();
            let [Content::Resource { text, .. }] = content.as_slice() else { panic!("one part") };
            text.clone()
        };
        let whole = "x".repeat(MAX_TEXT);
        assert_eq!(embedded(&whole).await, whole);
        let long = format!("x{}", "\u{e4}".repeat(MAX_TEXT));
        let text = embedded(&long).await;
        let (kept, note) = text.split_once("\n[Cut here: ").unwrap();
        assert!(long.starts_with(kept) && kept.len() == MAX_TEXT - 1, "{}", kept.len());
        assert!(note.starts_with(&format!("{} more bytes.", long.len() - kept.len())), "{note}");
    }

    #[tokio::test]
    async fn every_block_reaches_the_session() {
        let image = BASE64.encode(GIF);
        let content = read(json!([
            {"type": "text", "text": "look at"},
            {"type": "resource_link", "uri": "file:///w/a%20b.rs#L10:20", "name": "a b.rs"},
            {"type": "resource_link", "uri": "zed:///agent/thread/1?name=x", "name": "x"},
            {"type": "resource", "resource": {"uri": "file:///w/c.md", "text": "# C",
                "mimeType": "text/markdown"}},
            {"type": "resource", "resource": {"uri": "file:///w/d.png", "blob": "AAAA",
                "mimeType": "image/png"}},
            {"type": "resource", "resource": {"uri": "file:///w/e.pdf", "blob": image,
                "mimeType": "application/pdf"}},
            // The bytes say what it is, and neither name nor type.
            {"type": "resource", "resource": {"uri": "file:///w/f.png", "blob": image}},
            {"type": "image", "data": image.trim_end_matches('='), "mimeType": "image/png"},
        ]));
        let shown = || Content::Image { blob: gif(), mime_type: "image/gif".into() };
        assert_eq!(
            content.await.unwrap(),
            [
                Content::text("look at"),
                Content::Link { uri: "file:///w/a%20b.rs#L10:20".into(), name: "a b.rs".into() },
                Content::Link { uri: "zed:///agent/thread/1?name=x".into(), name: "x".into() },
                Content::Resource {
                    uri: "file:///w/c.md".into(),
                    mime_type: Some("text/markdown".into()),
                    text: "# C".into(),
                },
                Content::Link {
                    uri: "file:///w/d.png".into(),
                    name: "embedded image/png data, which was not passed on".into(),
                },
                Content::Link {
                    uri: "file:///w/e.pdf".into(),
                    name: "embedded application/pdf data, which was not passed on".into(),
                },
                Content::Link {
                    uri: "file:///w/f.png".into(),
                    name: "the image that follows".into()
                },
                shown(),
                shown(),
            ]
        );
    }

    #[tokio::test]
    async fn empty_prompts_broken_images_and_audio_are_refused_in_words() {
        for (blocks, says) in [
            (json!([]), "the prompt is empty"),
            (json!([{"type": "text", "text": ""}]), "the prompt is empty"),
            (json!([{"type": "text", "text": " \n\t\u{a0}"}]), "the prompt is empty"),
            (json!([{"type": "image", "data": "?", "mimeType": "image/png"}]), "not Base64"),
            (json!([{"type": "image", "data": "AA", "mimeType": "image/png"}]), "neither PNG"),
            (json!([{"type": "image", "data": "R0lGODlh", "mimeType": "image/gif"}]), "damaged"),
            (json!([{"type": "audio", "data": "AA", "mimeType": "audio/wav"}]), "audio"),
        ] {
            let error = read(blocks).await.unwrap_err();
            assert_eq!(i32::from(error.code), -32602);
            assert!(error.message.contains(says), "{}", error.message);
        }
    }
}
