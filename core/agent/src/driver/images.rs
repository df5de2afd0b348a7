//! The images of a request: each file is read once in a series, off the async threads.
//!
//! Which images are shown follows from the log and the files ([`Images`]). A file that cannot be
//! read is not the end of a session: `image/offload` says that a note stands for it from here on,
//! also if the file should come back, and a series that has shown it ends. The same becomes of what a
//! provider refuses: what is new where one is refused, the oldest where they are too many. Of one that
//! is too large for its provider a smaller picture is kept, and `image/scaled` says that it is shown
//! from here on.

use std::sync::Arc;

use bridle_model::{
    Image, ImageLimits, Images, ModelFailure, ModelRequest, NotAnImage, PreparedCall,
    RefusedImages, Shown, Smaller, smaller,
};
use bridle_session::{
    BlobHash, BlobRef, ImageOffload, ImageScaled, Message, OffloadReason, PixelSize, Projection,
    Seq,
};
use bridle_store::BlobStore;
use tokio_util::sync::CancellationToken;

use super::Driver;
use super::halt::Halt;
use crate::update::NoticeLevel;

/// About how many bytes of a request a token is.
const BYTES_PER_TOKEN: u64 = 4;

/// A file that was read, or why it could not be.
type Read = Result<(BlobHash, Result<Image, NotAnImage>), (Seq, String)>;

impl Driver {
    /// The request with its images. Where one is lost, the request that the log then has.
    pub(super) async fn illustrated(
        &mut self,
        call: &PreparedCall,
        mut request: ModelRequest,
        token: &CancellationToken,
    ) -> Result<ModelRequest, Halt> {
        let images = loop {
            let (projection, since) = (request.projection(), request.reasoning_since());
            let images = Images::select(projection, since, call.images(), &self.frame.shelf);
            if let Some(limits) = call.images().filter(|_| !images.too_large().is_empty()) {
                let large = images.too_large().to_vec();
                request = self.scale_down(call, large, *limits, token).await?;
                continue;
            }
            if images.missing().is_empty() {
                break images;
            }
            let mut lost = Vec::new();
            for read in self.read_images(images.missing().to_vec(), token).await? {
                match read {
                    Ok((hash, image)) => self.frame.shelf.put(hash, image),
                    Err(reason) => lost.push(reason),
                }
            }
            if !lost.is_empty() {
                request = self.offload(call, lost).await?;
            }
        };
        self.tell_given_up(call, &request, &images).await;
        self.frame.shown = images.shown().clone();
        Ok(request.with_images(images))
    }

    async fn read_images(
        &mut self,
        wanted: Vec<(Seq, BlobRef)>,
        token: &CancellationToken,
    ) -> Result<Vec<Read>, Halt> {
        let Some(blobs) = self.scope.get::<dyn BlobStore>() else {
            let lost = |(seq, _)| Err((seq, "no store for it is active".to_owned()));
            return Ok(wanted.into_iter().map(lost).collect());
        };
        let read = tokio::task::spawn_blocking(move || {
            let read = |(seq, blob): (Seq, BlobRef)| match blobs.get(&blob) {
                Ok(bytes) => Ok((blob.hash, Image::read(&bytes))),
                Err(error) => Err((seq, error.to_string())),
            };
            wanted.into_iter().map(read).collect()
        });
        let read = self.unless_cancelled(read, token).await?;
        read.map_err(|error| Halt::Failed(super::internal(&format!("reading images: {error}"))))
    }

    /// Shows smaller pictures in the place of these, or remembers that there can be none. One after the
    /// other: a cancel is heard while one is made, and of what it was made of nothing is left that no
    /// event names.
    async fn scale_down(
        &mut self,
        call: &PreparedCall,
        mut large: Vec<(Seq, BlobRef)>,
        limits: ImageLimits,
        token: &CancellationToken,
    ) -> Result<ModelRequest, Halt> {
        let Some(blobs) = self.scope.get::<dyn BlobStore>() else {
            let why = "no store for it is active";
            let lost = large.into_iter().map(|(seq, _)| (seq, why.to_owned())).collect();
            return self.offload(call, lost).await;
        };
        large.sort_unstable_by(|a, b| a.1.hash.cmp(&b.1.hash));
        large.dedup_by(|a, b| a.1 == b.1);
        let mut lost = Vec::new();
        for (seq, blob) in large {
            let (image, blobs) = (blob.hash.clone(), Arc::clone(&blobs));
            let made = tokio::task::spawn_blocking(move || match blobs.get(&blob) {
                Ok(bytes) => Ok(smaller(&bytes, limits.lasting_side(), limits.file_bytes())),
                Err(error) => Err(error.to_string()),
            });
            // When the turn is cancelled, what is under way ends by itself, within its limits.
            let made = self.unless_cancelled(made, token).await?;
            let made = made.map_err(|error| {
                Halt::Failed(super::internal(&format!("making an image smaller: {error}")))
            })?;
            match made {
                Ok(Ok(made)) => self.keep_smaller(image, made).await?,
                Ok(Err(why)) => self.frame.shelf.put_stiff(image, why),
                Err(gone) => lost.push((seq, gone)),
            }
        }
        if !lost.is_empty() {
            return self.offload(call, lost).await;
        }
        Ok(self.model_request(call.level(self.effort)))
    }

    /// Keeps what is shown in the place of an image and records it; both, whoever cancels.
    async fn keep_smaller(&mut self, image: BlobHash, made: Smaller) -> Result<(), Halt> {
        let Smaller { format, bytes, from, to, first_of_several } = made;
        let size = |(width, height)| PixelSize { width, height };
        match self.keep_bytes(bytes).await {
            Ok((blob, _)) => {
                let mime_type = format.media_type().to_owned();
                let (from, to) = (size(from), size(to));
                let scaled = ImageScaled { image, from, blob, mime_type, to, first_of_several };
                self.recorder.append(scaled)?;
            }
            Err(why) => self.frame.shelf.put_stiff(image, why),
        }
        Ok(())
    }

    /// Records that images are lost, and begins a new series where the current one has shown one.
    async fn offload(
        &mut self,
        call: &PreparedCall,
        lost: Vec<(Seq, String)>,
    ) -> Result<ModelRequest, Halt> {
        let title = "An image of this session cannot be read; the model gets a note in its place.";
        let reason = lost.first().map(|(_, reason)| reason.clone());
        let mut messages: Vec<Seq> = lost.into_iter().map(|(seq, _)| seq).collect();
        messages.sort_unstable();
        messages.dedup();
        let offload = ImageOffload { messages, reason: OffloadReason::Lost, of_last: None };
        self.recorder.append(offload)?;
        if let Some(reason) = self.images_unshown() {
            self.begin_series(call, reason)?;
        }
        self.notice(NoticeLevel::Warning, title, reason).await;
        Ok(self.model_request(call.level(self.effort)))
    }

    /// Why the next request begins a series: images that the current one has shown are given up.
    pub(super) fn images_unshown(&self) -> Option<&'static str> {
        self.recorder.session().state().unshown.map(|reason| match reason {
            OffloadReason::Lost => "image-lost",
            OffloadReason::Refused | OffloadReason::Room => "images-given-up",
        })
    }

    /// Lets notes stand for images where the provider refused a request because of them: it would
    /// refuse every later one, too. Says whether there were any, so that the request is worth another
    /// try; there are fewer each time.
    pub(super) async fn give_up_images(&mut self, failure: &ModelFailure) -> Result<bool, Halt> {
        let Some(refused) = failure.refused_images else { return Ok(false) };
        let shown = self.frame.shown.clone();
        let state = self.recorder.session().state();
        // What else has so many bytes is for a compaction.
        let text = state.context_size.tokens().saturating_mul(BYTES_PER_TOKEN);
        if refused == RefusedImages::Bytes && shown.bytes() < text {
            return Ok(false);
        }
        let answered = last_answer(&self.recorder.session().projection()).unwrap_or_default();
        let new = shown.newer(answered);
        let reason = match refused {
            RefusedImages::One => OffloadReason::Refused,
            RefusedImages::Many { .. } | RefusedImages::Bytes => OffloadReason::Room,
        };
        let offload = if refused == RefusedImages::One && !new.is_empty() {
            ImageOffload { messages: new, reason, of_last: None }
        } else if let Some((messages, of_last)) = shown.oldest(refused, answered) {
            ImageOffload { messages, reason, of_last: Some(of_last) }
        } else {
            return Ok(false);
        };
        let title = match reason {
            OffloadReason::Lost | OffloadReason::Refused => {
                "The provider refused an image; the model gets a note in its place."
            }
            OffloadReason::Room => {
                "The provider takes fewer images; the model gets a note in place of the oldest."
            }
        };
        self.recorder.append(offload)?;
        // Whatever is tried next shows others.
        self.frame.shown = Shown::default();
        self.notice(NoticeLevel::Warning, title, Some(failure.message.clone())).await;
        Ok(true)
    }

    /// Tells, once, which images of new input the model is not shown.
    async fn tell_given_up(
        &mut self,
        call: &PreparedCall,
        request: &ModelRequest,
        images: &Images,
    ) {
        let old = last_answer(request.projection()).unwrap_or_default();
        let old = old.max(self.frame.told_images);
        let new: Vec<_> = images.given_up().filter(|(seq, _)| *seq > old).collect();
        let Some(newest) = new.iter().map(|(seq, _)| *seq).max() else { return };
        self.frame.told_images = newest;
        let title = match new.len() {
            1 => format!("{} is not shown an image", call.route()),
            count => format!("{} is not shown {count} images", call.route()),
        };
        let mut reasons: Vec<String> = new.into_iter().map(|(_, reason)| reason).collect();
        reasons.sort_unstable();
        reasons.dedup();
        self.notice(NoticeLevel::Warning, title, Some(reasons.join("; "))).await;
    }
}

/// Where the last answer stands.
fn last_answer(projection: &Projection) -> Option<Seq> {
    let mut entries = projection.entries();
    entries.rfind(|(_, message)| matches!(message, Message::Assistant(_))).map(|(seq, _)| seq)
}
