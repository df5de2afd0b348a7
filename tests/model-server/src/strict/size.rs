//! The input against the model's window, by the server's own count.

use super::{Refusal, Request, images};

/// What an image counts, whatever its bytes.
const IMAGE_TOKENS: u64 = 1_600;

pub(super) fn check(request: &Request<'_>) -> Result<u64, Refusal> {
    let raw = &request.raw;
    let parts = raw.system.iter().chain(&raw.tools).chain(raw.messages.iter().flatten());
    let bytes: usize = parts.map(|part| part.get().len()).sum();
    let images = images::of(request.messages);
    let image_bytes: usize = images.iter().map(|image| image.to_string().len()).sum();
    let tokens = count(bytes.saturating_sub(image_bytes)) + images.len() as u64 * IMAGE_TOKENS;
    let window = request.model.window;
    if tokens > window {
        let message = format!("prompt is too long: {tokens} tokens > {window} maximum");
        return Err(Refusal::invalid("window", message));
    }
    Ok(tokens)
}

/// One token for every 3.5 bytes, rounded up.
pub(crate) fn count(bytes: usize) -> u64 {
    (bytes as u64 * 2).div_ceil(7)
}
