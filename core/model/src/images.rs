//! Which images of a conversation a request shows, within what its route takes.
//!
//! Models bind their reasoning to what stood before it, so an image that was shown stays shown, and
//! one that was given up stays given up, for as long as a series lasts: images are taken in the order
//! in which they came, and whatever has no room is given up for good. Only a new series makes room
//! anew: of what was answered before it, it gives up the oldest. Everything follows from the log and
//! the files, so a resumed session chooses the same.
//!
//! It reads no file; it says which ones it needs.

mod file;

use std::collections::HashMap;
use std::sync::Arc;

use bridle_session::{BlobHash, BlobRef, Content, Message, Projection, Seq};
use serde::Deserialize;

pub use self::file::{Image, ImageFormat, NotAnImage};
use crate::plant::Plant;

/// What a route takes of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageLimits {
    /// The most images of one request.
    pub count: u32,
    /// The most bytes of one image, as Base64.
    pub bytes: u64,
    /// The most bytes of all images of one request, as Base64.
    pub total_bytes: u64,
    /// The longest side of an image, in pixels.
    pub side: u32,
    /// A request with more images than this is a crowd.
    pub crowd: u32,
    /// The longest side of each image of a crowd, in pixels.
    pub crowd_side: u32,
}

impl ImageLimits {
    /// What every provider is known to take.
    pub const ASSUMED: Self = Self {
        count: 20,
        bytes: 5 << 20,
        total_bytes: 16 << 20,
        side: 2_000,
        crowd: 20,
        crowd_side: 2_000,
    };
}

/// The image files that were read in a series, each encoded once.
#[derive(Debug, Default)]
pub struct ImageShelf(HashMap<BlobHash, Result<Arc<Image>, NotAnImage>>);

impl ImageShelf {
    /// Puts a file there.
    pub fn put(&mut self, hash: BlobHash, image: Result<Image, NotAnImage>) {
        self.0.insert(hash, image.map(Arc::new));
    }
}

/// The images of a request: which are shown, and which are not and why.
#[derive(Clone, Debug, Default)]
pub struct Images {
    places: HashMap<Place, Result<Arc<Image>, String>>,
    missing: Vec<(Seq, BlobRef)>,
}

/// A message, and which part of it.
type Place = (Seq, usize);

impl Images {
    /// The images of `projection` on a route with these limits (`None`: it reads none), in the
    /// series that began at `since`. What is not on the shelf is missing.
    pub fn select(
        projection: &Projection,
        since: Seq,
        limits: Option<&ImageLimits>,
        shelf: &ImageShelf,
    ) -> Self {
        let mut images = Self::default();
        let candidates = candidates(projection);
        let Some(limits) = limits else {
            let blind = |(place, _)| (place, Err("the model reads none".to_owned()));
            images.places = candidates.into_iter().map(blind).collect();
            return images;
        };
        let given_up = given_up(&candidates, projection, since, limits);
        let mut room = Room { limits, shown: 0, bytes: 0, side: 0 };
        for (number, (place, blob)) in candidates.into_iter().enumerate() {
            let choice = if projection.is_offloaded(place.0) {
                Choice::GiveUp("its file cannot be read".to_owned())
            } else if number < given_up {
                Choice::GiveUp("later images take up the room there is".to_owned())
            } else {
                room.choose(blob, shelf)
            };
            match choice {
                Choice::Show(image) => drop(images.places.insert(place, Ok(image))),
                Choice::GiveUp(why) => drop(images.places.insert(place, Err(why))),
                Choice::Read => images.missing.push((place.0, blob.clone())),
            }
        }
        images
    }

    /// The files to be read before a request can be made, with the message of each. With them on
    /// the shelf others may be missing.
    pub fn missing(&self) -> &[(Seq, BlobRef)] {
        &self.missing
    }

    /// The message of each image that is not shown, and why, in no order.
    pub fn given_up(&self) -> impl Iterator<Item = (Seq, &str)> {
        self.places
            .iter()
            .filter_map(|(place, image)| Some((place.0, image.as_ref().err()?.as_str())))
    }

    /// The image that is part `index` of the message at `seq`, or why it is not shown.
    pub(crate) fn at(&self, seq: Seq, index: usize) -> Result<&Image, Option<&str>> {
        match self.places.get(&(seq, index)) {
            Some(Ok(image)) => Ok(image),
            Some(Err(why)) => Err(Some(why)),
            None => Err(None),
        }
    }
}

/// What becomes of an image.
enum Choice {
    Show(Arc<Image>),
    GiveUp(String),
    /// It may be shown; its file says.
    Read,
}

/// What is taken up of the limits.
struct Room<'a> {
    limits: &'a ImageLimits,
    shown: u32,
    bytes: u64,
    /// The longest side so far.
    side: u32,
}

impl Room<'_> {
    fn choose(&mut self, blob: &BlobRef, shelf: &ImageShelf) -> Choice {
        let limits = self.limits;
        let bytes = encoded(blob);
        let image = shelf.0.get(&blob.hash);
        let side = image.map_or(0, |read| read.as_ref().map_or(0, |image| image.side()));
        let is_crowd = self.shown >= limits.crowd;
        let most = if is_crowd { limits.crowd_side } else { limits.side };
        // What can be said without the file comes first, so that it is said whether or not the file
        // happens to be on the shelf.
        let refusal = if bytes > limits.bytes {
            format!("as Base64 it has {bytes} bytes; {} are the most", limits.bytes)
        } else if self.shown >= limits.count {
            format!("{} images are the most", limits.count)
        } else if self.bytes.saturating_add(bytes) > limits.total_bytes {
            "earlier images take up the room there is".to_owned()
        } else if is_crowd && self.side > most {
            format!("an earlier one is so large that {} images are the most", limits.crowd)
        } else if let Some(Err(error)) = image {
            error.to_string()
        } else if side > most {
            format!("its longer side has {side} pixels; {most} are the most")
        } else {
            self.shown = self.shown.saturating_add(1);
            self.bytes = self.bytes.saturating_add(bytes);
            self.side = self.side.max(side);
            return match image {
                Some(Ok(image)) => Choice::Show(Arc::clone(image)),
                _ => Choice::Read,
            };
        };
        Choice::GiveUp(refusal)
    }
}

fn candidates(projection: &Projection) -> Vec<(Place, &BlobRef)> {
    let content = |(seq, message)| -> Option<(Seq, &[Content])> {
        match message {
            Message::User(user) => Some((seq, &user.content)),
            Message::ToolResult(result) => Some((seq, &result.content)),
            _ => None,
        }
    };
    let parts = projection.entries().filter_map(content).flat_map(|(seq, parts)| {
        parts.iter().enumerate().filter_map(move |(index, part)| match part {
            Content::Image { blob, .. } => Some(((seq, index), blob)),
            _ => None,
        })
    });
    parts.collect()
}

/// How many of the oldest images are given up, so that the series has room to grow: of those that
/// were answered before it began, the newest may take up half.
fn given_up(
    candidates: &[(Place, &BlobRef)],
    projection: &Projection,
    since: Seq,
    limits: &ImageLimits,
) -> usize {
    let mut before = projection.entries().filter(|(seq, _)| *seq < since);
    let Some((answered, _)) = before.rfind(|(_, message)| matches!(message, Message::Assistant(_)))
    else {
        return 0;
    };
    if Plant::ShiftingImages.is_in() {
        return candidates.len().saturating_sub(limits.count as usize);
    }
    let old = candidates.partition_point(|((seq, _), _)| *seq < answered);
    let (mut count, mut bytes) = (0, 0_u64);
    let kept = candidates.iter().take(old).rev().take_while(|(_, blob)| {
        count += 1;
        bytes = bytes.saturating_add(encoded(blob));
        count <= limits.count / 2 && bytes <= limits.total_bytes / 2
    });
    old - kept.count()
}

/// The size of a file as Base64.
fn encoded(blob: &BlobRef) -> u64 {
    blob.bytes.div_ceil(3).saturating_mul(4)
}

#[cfg(test)]
mod tests;
