//! A file as an image that models take. Looks at heads only; nothing is decoded, so a damaged image
//! is found out by whoever shows it.

use bridle_agent::ToolFailure;
use bridle_model::{ImageFormat, MAX_IMAGE_BYTES, MAX_PIXELS, NotAnImage};
use bridle_session::{BlobHash, BlobRef, Content};
use bridle_world::files::{ContentHash, FileError, NotText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cannot;
use crate::target::Target;

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
        let bytes = match target.files().read(&target.path, MAX_IMAGE_BYTES) {
            Ok(bytes) => bytes,
            Err(FileError::TooLarge { len, .. }) => {
                return Err(cannot(
                    target,
                    &format!(
                        "it is a binary file of {len} bytes; an image may have {MAX_IMAGE_BYTES} at most"
                    ),
                ));
            }
            Err(error) => return Err(target.failure(&error)),
        };
        let (format, width, height) = match ImageFormat::measure(&bytes) {
            Ok(measured) => measured,
            Err(NotAnImage::UnknownFormat) => return Err(cannot(target, &NotText::Binary)),
            Err(why @ NotAnImage::Damaged) => return Err(cannot(target, &why)),
        };
        if u64::from(width) * u64::from(height) > MAX_PIXELS {
            let why = format!(
                "the image has {width} x {height} pixels; {MAX_PIXELS} in all are the most"
            );
            return Err(cannot(target, &why));
        }
        let blobs =
            target.blobs().ok_or_else(|| cannot(target, &"there is no store for images"))?;
        let blob = blobs.put(&bytes).map_err(|error| cannot(target, &error))?;
        Ok(Self {
            path: target.shown.clone(),
            mime_type: format.media_type().to_owned(),
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
