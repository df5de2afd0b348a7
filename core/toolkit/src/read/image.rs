//! A file as an image that models take. Looks at heads only; nothing is decoded, so a damaged image
//! is found out by whoever shows it.

use bridle_agent::ToolFailure;
use bridle_session::{BlobHash, BlobRef, Content};
use bridle_world::files::{ContentHash, FileError, NotText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cannot;
use crate::target::Target;

/// The largest image (bytes) that is read: 5 MB in base64, the smallest limit of a provider.
const MAX_BYTES: u64 = 3_750_000;
/// The most pixels of one side; a provider refuses a request with a larger image.
const MAX_SIDE: u32 = 8_000;

/// An image, whose bytes are kept beside the log.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Image {
    /// The file, relative to the working directory where it lies below it.
    path: String,
    mime_type: String,
    /// In pixels.
    width: u32,
    height: u32,
    bytes: u64,
    /// The name of the kept bytes.
    blob: String,
    /// The hash of the content.
    pub(super) version: String,
}

impl Image {
    /// The image in a file, its bytes stored.
    ///
    /// # Errors
    /// `Failed` for a file that holds none, or one that is too large.
    pub(super) fn of(target: &Target) -> Result<Self, ToolFailure> {
        let bytes = match target.files().read(&target.path, MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(FileError::TooLarge { len, .. }) => {
                return Err(cannot(
                    target,
                    &format!(
                        "it is a binary file of {len} bytes; an image may have {MAX_BYTES} at most"
                    ),
                ));
            }
            Err(error) => return Err(target.failure(&error)),
        };
        let Some(head) = head(&bytes) else { return Err(cannot(target, &NotText::Binary)) };
        let Head { mime_type, width, height } = head;
        if width.max(height) > MAX_SIDE {
            return Err(cannot(
                target,
                &format!(
                    "the image has {width} x {height} pixels; {} a side are the most",
                    MAX_SIDE
                ),
            ));
        }
        let blobs =
            target.blobs().ok_or_else(|| cannot(target, &"there is no store for images"))?;
        let blob = blobs.put(&bytes).map_err(|error| cannot(target, &error))?;
        Ok(Self {
            path: target.shown.clone(),
            mime_type: mime_type.to_owned(),
            width,
            height,
            bytes: blob.bytes,
            blob: blob.hash.as_str().to_owned(),
            version: ContentHash::of(&bytes).to_hex(),
        })
    }

    /// What it is, for the model and a person.
    pub(super) fn told(&self) -> String {
        let Self { path, mime_type, width, height, bytes, .. } = self;
        format!("{path}: {mime_type}, {width} x {height} pixels, {bytes} bytes.\n")
    }

    /// The image itself, for the model.
    pub(super) fn content(&self) -> Option<Content> {
        let blob = BlobRef { hash: BlobHash::parse(&self.blob)?, bytes: self.bytes };
        Some(Content::Image { blob, mime_type: self.mime_type.clone() })
    }
}

/// An image's media type and its sides in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    mime_type: &'static str,
    width: u32,
    height: u32,
}

/// `None` for what is no image, or none that says how large it is.
fn head(bytes: &[u8]) -> Option<Head> {
    let (mime_type, (width, height)) = if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        ("image/png", (big(bytes, 16, 4)?, big(bytes, 20, 4)?))
    } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        ("image/gif", (little(bytes, 6, 2)?, little(bytes, 8, 2)?))
    } else if bytes.starts_with(b"\xff\xd8\xff") {
        ("image/jpeg", jpeg(bytes)?)
    } else if bytes.starts_with(b"RIFF") && bytes.get(8..12)? == b"WEBP" {
        ("image/webp", webp(bytes)?)
    } else {
        return None;
    };
    (width > 0 && height > 0).then_some(Head { mime_type, width, height })
}

/// The sides stand in the first frame header, behind any number of other segments.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        match bytes.get(at..at + 2)? {
            // Any number of these may stand before a marker.
            [0xff, 0xff] => at += 1,
            [0xff, 0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf] => {
                return Some((big(bytes, at + 7, 2)?, big(bytes, at + 5, 2)?));
            }
            // The scan, or the end.
            [0xff, 0xd9 | 0xda] => return None,
            [0xff, _] => at += 2 + usize::try_from(big(bytes, at + 2, 2)?).ok()?,
            _ => return None,
        }
    }
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8X" => Some((little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1)),
        b"VP8L" => {
            let sides = little(bytes, 21, 4)?;
            Some(((sides & 0x3fff) + 1, ((sides >> 14) & 0x3fff) + 1))
        }
        b"VP8 " => Some((little(bytes, 26, 2)? & 0x3fff, little(bytes, 28, 2)? & 0x3fff)),
        _ => None,
    }
}

fn big(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + count)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

fn little(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + count)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_every_kind_and_of_none() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x01\0\0\0\0\x02";
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc2\0\x11\x08\0\x03\x01\x04";
        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x05\x40\x06\0";
        let lossless = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x04\x40\x01\0";
        let extended = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x04\0\0\x05\0\0";
        for (bytes, mime_type, width, height) in [
            (&png[..], "image/png", 256, 2),
            (b"GIF89a\x07\0\x01\x01", "image/gif", 7, 257),
            (jpeg, "image/jpeg", 260, 3),
            (lossy, "image/webp", 5, 6),
            (lossless, "image/webp", 5, 6),
            (extended, "image/webp", 5, 6),
        ] {
            assert_eq!(head(bytes), Some(Head { mime_type, width, height }));
            for end in 0..bytes.len() {
                assert_eq!(head(&bytes[..end]), None, "{mime_type} cut at {end}");
            }
        }
        for bytes in
            [&b"GIF89a\0\0\0\0"[..], b"\xff\xd8\xff\xd9", b"\x7fELF", b"\xff\xd8\xff\0\0\0"]
        {
            assert_eq!(head(bytes), None);
        }
    }
}
