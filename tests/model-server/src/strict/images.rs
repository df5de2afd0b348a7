//! Images: that a file is what it is said to be, and how large and how many they may be.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Refusal, Request, blocks_of, kind_of, text};

/// The most bytes of an image, as Base64.
const MAX_BYTES: usize = 5 << 20;

/// The longest side, in pixels.
const MAX_SIDE: u32 = 8_000;

/// In a request with more images than this each has smaller sides.
const CROWD: usize = 20;
const CROWD_SIDE: u32 = 2_000;

/// One image block.
pub(super) fn block(request: &Request<'_>, block: &Value, at: &str) -> Result<(), Refusal> {
    if !request.model.images {
        let message = format!("{at}: {} does not accept images", request.model.id);
        return Err(Refusal::invalid("image", message));
    }
    let source = block.get("source").unwrap_or(&Value::Null);
    match text(source, "type") {
        Some("url") if text(source, "url").is_some_and(|url| !url.is_empty()) => Ok(()),
        Some("base64") => file(source, &format!("{at}.source.base64")),
        _ => Err(Refusal::invalid("image", format!("{at}.source: is not a supported image"))),
    }
}

fn file(source: &Value, at: &str) -> Result<(), Refusal> {
    let data = text(source, "data").unwrap_or_default();
    if data.len() > MAX_BYTES {
        let size = data.len();
        let message = format!("{at}: image exceeds 5 MB maximum: {size} bytes > {MAX_BYTES} bytes");
        return Err(Refusal::invalid("image-size", message));
    }
    let Ok(bytes) = STANDARD.decode(data) else {
        return Err(Refusal::invalid("image-data", format!("{at}.data: Invalid base64 data")));
    };
    let said = text(source, "media_type").unwrap_or_default();
    let Some(found) = media_type(&bytes) else {
        return Err(Refusal::invalid("image-data", format!("{at}: Could not process image")));
    };
    if said != found {
        let message = format!("{at}: Image does not match the provided media type {said}");
        return Err(Refusal::invalid("image-type", message));
    }
    if side(&bytes) > MAX_SIDE {
        let message = format!(
            "{at}: At least one of the image dimensions exceed max allowed size: {MAX_SIDE} pixels"
        );
        return Err(Refusal::invalid("image-side", message));
    }
    Ok(())
}

/// All images of a request together.
pub(super) fn check(request: &Request<'_>) -> Result<(), Refusal> {
    let images = of(request.messages);
    let most = request.model.most_images;
    if images.len() > most {
        let message =
            format!("Too much media: 0 document pages + {} images > {most}", images.len());
        return Err(Refusal::invalid("image-count", message));
    }
    let decoded = |image: &&Value| {
        let data = image.pointer("/source/data").and_then(Value::as_str).unwrap_or_default();
        STANDARD.decode(data).unwrap_or_default()
    };
    if images.len() > CROWD && images.iter().map(decoded).any(|bytes| side(&bytes) > CROWD_SIDE) {
        let message = format!(
            "At least one of the image dimensions exceed max allowed size for many-image requests: \
             {CROWD_SIDE} pixels"
        );
        return Err(Refusal::invalid("image-crowd", message));
    }
    Ok(())
}

/// The images of messages and of tool results in them.
pub(super) fn of(messages: &[Value]) -> Vec<&Value> {
    let blocks = messages.iter().flat_map(blocks_of);
    let nested = blocks.clone().flat_map(blocks_of);
    blocks.chain(nested).filter(|block| kind_of(block) == "image").collect()
}

fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// The longer side of a PNG; 0 of another format, which is not measured here.
fn side(bytes: &[u8]) -> u32 {
    let number = |at: usize| {
        let four = bytes.get(at..)?.first_chunk()?;
        Some(u32::from_be_bytes(*four))
    };
    match media_type(bytes) {
        Some("image/png") => number(16).max(number(20)).unwrap_or_default(),
        _ => 0,
    }
}
