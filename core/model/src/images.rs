//! Which images of a conversation a request shows, within what its route takes.
//!
//! Models bind their reasoning to what stood before it, so an image that was shown stays shown, and
//! one that was given up stays given up, for as long as a series lasts: images are taken in the order
//! in which they came, and whatever has no room is given up for good. Only a new series makes room
//! anew: of what was answered before it, it gives up the oldest. An image that is larger than the route
//! takes is shown smaller (`scale.rs`) from the first time on or never in a series. Everything follows
//! from the log and the files, so a resumed session chooses the same.
//!
//! A provider may take less than is known of it. What is then given up is [`Shown`]'s to say and
//! the log's to keep.
//!
//! It reads no file; it says which ones it needs.

mod file;
mod scale;
mod shown;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bridle_session::{
    BlobHash, BlobRef, Content, ImageScaled, Message, OffloadReason, Projection, Seq,
};
use serde::Deserialize;

pub use self::file::{Image, ImageFormat, NotAnImage};
pub use self::scale::{MAX_PIXELS, Smaller, smaller};
pub use self::shown::Shown;
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

    /// The longest side of an image that has its place however many follow it.
    pub fn lasting_side(&self) -> u32 {
        self.side.min(self.crowd_side)
    }

    /// The most bytes of an image file.
    pub fn file_bytes(&self) -> u64 {
        self.bytes / 4 * 3
    }
}

/// The largest image file that is kept for a model, in bytes: one that is too large for its provider is
/// made smaller.
pub const MAX_IMAGE_BYTES: u64 = 20 << 20;

/// The image files that were read in a series, each encoded once.
#[derive(Debug, Default)]
pub struct ImageShelf {
    read: HashMap<BlobHash, Result<Arc<Image>, NotAnImage>>,
    /// Those that cannot be made smaller, and why.
    stiff: HashMap<BlobHash, String>,
}

impl ImageShelf {
    /// Puts a file there.
    pub fn put(&mut self, hash: BlobHash, image: Result<Image, NotAnImage>) {
        self.read.insert(hash, image.map(Arc::new));
    }

    /// Remembers that an image cannot be made smaller, and why.
    pub fn put_stiff(&mut self, hash: BlobHash, why: String) {
        self.stiff.insert(hash, why);
    }
}

/// The images of a request: which are shown, and which are not and why.
#[derive(Clone, Debug, Default)]
pub struct Images {
    places: HashMap<Place, Result<Arc<Image>, String>>,
    missing: Vec<(Seq, BlobRef)>,
    too_large: Vec<(Seq, BlobRef)>,
    /// Those that the log says are given up: everybody concerned knows.
    decided: HashSet<Place>,
    /// Those that are shown, the oldest first.
    shown: Shown,
    /// What is said of those that are shown smaller than they are.
    notes: HashMap<Place, String>,
    /// Why some cannot be made smaller: for a person only, because the next process may not know it.
    stiff: HashMap<Place, String>,
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
            let blind = |it: Candidate<'_>| (it.place, Err("the model reads none".to_owned()));
            images.places = candidates.into_iter().map(blind).collect();
            return images;
        };
        let given_up = given_up(&candidates, projection, since, limits);
        let mut room = Room { limits, shown: 0, bytes: 0, side: 0 };
        // What an answer of this series has seen stays as that answer saw it.
        let answered = last_answer(projection, None).filter(|seq| *seq >= since);
        for (number, candidate) in candidates.into_iter().enumerate() {
            let place = candidate.place;
            let is_new = answered.is_none_or(|answer| place.0 > answer);
            let choice = if let Some(reason) = projection.offloaded(place.0, candidate.number) {
                images.decided.insert(place);
                Choice::GiveUp(decided(reason).to_owned())
            } else if number < given_up {
                Choice::GiveUp(LATER_ONES.to_owned())
            } else {
                room.choose(&candidate, shelf, is_new)
            };
            if let Some(why) = shelf.stiff.get(&candidate.blob.hash) {
                images.stiff.insert(place, why.clone());
            }
            match choice {
                Choice::Show(image) => {
                    let bytes = encoded(candidate.shown());
                    images.shown.add(place.0, candidate.number, bytes);
                    images.notes.extend(candidate.scaled.map(|scaled| (place, note(scaled))));
                    images.places.insert(place, Ok(image));
                }
                Choice::GiveUp(why) => drop(images.places.insert(place, Err(why))),
                Choice::Read => images.missing.push((place.0, candidate.shown().clone())),
                Choice::Scale => images.too_large.push((place.0, candidate.blob.clone())),
            }
        }
        images
    }

    /// The files to be read before a request can be made, with the message of each. With them on
    /// the shelf others may be missing.
    pub fn missing(&self) -> &[(Seq, BlobRef)] {
        &self.missing
    }

    /// The files of which a smaller picture is to be shown, before a request can be made, with the
    /// message of each: an `image/scaled`, or a place among the stiff ones of the shelf.
    pub fn too_large(&self) -> &[(Seq, BlobRef)] {
        &self.too_large
    }

    /// What is said of an image that is shown smaller than it is.
    pub(crate) fn note(&self, seq: Seq, index: usize) -> Option<&str> {
        self.notes.get(&(seq, index)).map(String::as_str)
    }

    /// Those that are shown.
    pub fn shown(&self) -> &Shown {
        &self.shown
    }

    /// The message of each image that is not shown although the log does not say so, and why, for a
    /// person; in no order.
    pub fn given_up(&self) -> impl Iterator<Item = (Seq, String)> {
        self.places.iter().filter_map(|(place, image)| {
            let reason = image.as_ref().err().filter(|_| !self.decided.contains(place))?;
            let stiff =
                self.stiff.get(place).map(|why| format!("; it cannot be made smaller: {why}"));
            Some((place.0, format!("{reason}{}", stiff.unwrap_or_default())))
        })
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
    /// It may be shown when it is smaller.
    Scale,
}

/// Why an older image has no place.
const LATER_ONES: &str = "later images take up the room there is";

/// What a model reads of an image that the log says is given up.
fn decided(reason: OffloadReason) -> &'static str {
    match reason {
        OffloadReason::Lost => "its file cannot be read",
        OffloadReason::Refused => "the provider refused it",
        OffloadReason::Room => LATER_ONES,
    }
}

/// An image of a conversation.
struct Candidate<'a> {
    place: Place,
    /// Which of the images of its message it is, from 0.
    number: usize,
    /// The file as it came in.
    blob: &'a BlobRef,
    /// What is shown in its place.
    scaled: Option<&'a ImageScaled>,
}

impl Candidate<'_> {
    fn shown(&self) -> &BlobRef {
        self.scaled.map_or(self.blob, |scaled| &scaled.blob)
    }
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
    fn choose(&mut self, candidate: &Candidate<'_>, shelf: &ImageShelf, is_new: bool) -> Choice {
        let (limits, blob) = (self.limits, candidate.shown());
        let bytes = encoded(blob);
        let image = shelf.read.get(&blob.hash);
        let stiff = shelf.stiff.get(&candidate.blob.hash);
        let side = image.map_or(0, |read| read.as_ref().map_or(0, |image| image.side()));
        let is_crowd = self.shown >= limits.crowd;
        let most = if is_crowd { limits.crowd_side } else { limits.side };
        let is_large = bytes > limits.bytes || side > limits.lasting_side();
        if is_large && is_new && stiff.is_none() && self.shown < limits.count {
            return Choice::Scale;
        }
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

/// What a model has to know of a picture that it sees smaller than it is.
fn note(ImageScaled { from, to, first_of_several, .. }: &ImageScaled) -> String {
    let first = if *first_of_several { "; only the first of its pictures is shown" } else { "" };
    let factor = f64::from(from.width.max(from.height)) / f64::from(to.width.max(to.height));
    let scale = match from == to {
        true => String::new(),
        false => format!("; positions in it times {factor:.3} are those in the file"),
    };
    format!(
        "[This image has {} × {} pixels and is shown with {} × {}{scale}{first}.]",
        from.width, from.height, to.width, to.height
    )
}

fn candidates(projection: &Projection) -> Vec<Candidate<'_>> {
    let content = |(seq, message)| -> Option<(Seq, &[Content])> {
        match message {
            Message::User(user) => Some((seq, &user.content)),
            Message::ToolResult(result) => Some((seq, &result.content)),
            _ => None,
        }
    };
    let parts = projection.entries().filter_map(content).flat_map(|(seq, parts)| {
        let blobs = parts.iter().enumerate().filter_map(|(index, part)| match part {
            Content::Image { blob, .. } => Some((index, blob)),
            _ => None,
        });
        blobs.enumerate().map(move |(number, (index, blob))| {
            let scaled = projection.scaled(&blob.hash);
            Candidate { place: (seq, index), number, blob, scaled }
        })
    });
    parts.collect()
}

/// How many of the oldest images are given up, so that the series has room to grow: of those that
/// were answered before it began, the newest may take up half.
fn given_up(
    candidates: &[Candidate<'_>],
    projection: &Projection,
    since: Seq,
    limits: &ImageLimits,
) -> usize {
    let Some(answered) = last_answer(projection, Some(since)) else { return 0 };
    if Plant::ShiftingImages.is_in() {
        return candidates.len().saturating_sub(limits.count as usize);
    }
    let old = candidates.partition_point(|it| it.place.0 < answered);
    let (mut count, mut bytes) = (0, 0_u64);
    let kept = candidates.iter().take(old).rev().take_while(|it| {
        count += 1;
        bytes = bytes.saturating_add(encoded(it.shown()));
        count <= limits.count / 2 && bytes <= limits.total_bytes / 2
    });
    old - kept.count()
}

/// Where the last answer stands, of those before a place where there is one.
fn last_answer(projection: &Projection, before: Option<Seq>) -> Option<Seq> {
    let mut entries = projection.entries();
    let found = entries.rfind(|(seq, message)| {
        matches!(message, Message::Assistant(_)) && before.is_none_or(|end| *seq < end)
    });
    found.map(|(seq, _)| seq)
}

/// The size of a file as Base64.
fn encoded(blob: &BlobRef) -> u64 {
    blob.bytes.div_ceil(3).saturating_mul(4)
}

#[cfg(test)]
mod tests;
