//! The images of a request: each file is read once in a series, off the async threads.
//!
//! Which images are shown follows from the log and the files ([`Images`]). A file that cannot be
//! read is not the end of a session: `image/offload` says that a note stands for it from here on,
//! also if the file should come back, and a series that has shown it ends. Of one that is too large for
//! its provider a smaller picture is kept, and `image/scaled` says that it is shown from here on.

use bridle_model::{
    FailureCode, Image, ImageLimits, Images, ModelFailure, ModelRequest, NotAnImage, PreparedCall,
    Smaller, smaller,
};
use bridle_session::{
    BlobHash, BlobRef, Content, ImageOffload, ImageScaled, Message, PixelSize, Seq,
};
use bridle_store::BlobStore;
use tokio_util::sync::CancellationToken;

use super::Driver;
use super::halt::Halt;
use crate::update::NoticeLevel;

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
                request = self.scale_down(call, &request, large, *limits, token).await?;
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
                request = self.offload(call, &request, lost).await?;
            }
        };
        self.tell_given_up(call, &request, &images).await;
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

    /// Shows smaller pictures in the place of these, or remembers that there can be none.
    async fn scale_down(
        &mut self,
        call: &PreparedCall,
        request: &ModelRequest,
        large: Vec<(Seq, BlobRef)>,
        limits: ImageLimits,
        token: &CancellationToken,
    ) -> Result<ModelRequest, Halt> {
        let Some(blobs) = self.scope.get::<dyn BlobStore>() else {
            let why = "no store for it is active";
            let lost = large.into_iter().map(|(seq, _)| (seq, why.to_owned())).collect();
            return self.offload(call, request, lost).await;
        };
        let made = tokio::task::spawn_blocking(move || {
            let mut large = large;
            large.sort_unstable_by(|a, b| a.1.hash.cmp(&b.1.hash));
            large.dedup_by(|a, b| a.1 == b.1);
            let one = |(seq, blob): (Seq, BlobRef)| match blobs.get(&blob) {
                Ok(bytes) => Ok(made_smaller(&*blobs, blob.hash, &bytes, &limits)),
                Err(error) => Err((seq, error.to_string())),
            };
            large.into_iter().map(one).collect::<Vec<_>>()
        });
        // When the turn is cancelled, what is under way ends by itself, within its limits.
        let made = self.unless_cancelled(made, token).await?;
        let made = made.map_err(|error| {
            Halt::Failed(super::internal(&format!("making images smaller: {error}")))
        })?;
        let mut lost = Vec::new();
        for made in made {
            match made {
                Ok(Ok(scaled)) => self.recorder.append(scaled).map(drop)?,
                Ok(Err((hash, why))) => self.frame.shelf.put_stiff(hash, why),
                Err(gone) => lost.push(gone),
            }
        }
        if !lost.is_empty() {
            return self.offload(call, request, lost).await;
        }
        Ok(self.model_request(call.level(self.effort)))
    }

    /// Records that images are lost, and begins a new series where the current one has shown one.
    async fn offload(
        &mut self,
        call: &PreparedCall,
        request: &ModelRequest,
        lost: Vec<(Seq, String)>,
    ) -> Result<ModelRequest, Halt> {
        let title = "An image of this session cannot be read; the model gets a note in its place.";
        let reason = lost.first().map(|(_, reason)| reason.clone());
        let mut messages: Vec<Seq> = lost.into_iter().map(|(seq, _)| seq).collect();
        messages.sort_unstable();
        messages.dedup();
        let since = request.reasoning_since();
        let was_shown = messages.first().is_some_and(|first| {
            last_answer(request).is_some_and(|answer| answer > since && answer > *first)
        });
        self.recorder.append(ImageOffload { messages })?;
        if was_shown {
            self.begin_series(call, "image-lost")?;
        }
        self.notice(NoticeLevel::Warning, title, reason).await;
        Ok(self.model_request(call.level(self.effort)))
    }

    /// Lets notes stand for the images that no answer has seen yet, where the provider refused a
    /// request because of an image: it would refuse every later one, too. Says whether there were
    /// any, so that the request is worth another try.
    pub(super) async fn give_up_images(&mut self, failure: &ModelFailure) -> Result<bool, Halt> {
        let names_an_image = failure.message.to_lowercase().contains("image");
        if failure.code != FailureCode::InvalidRequest || !names_an_image {
            return Ok(false);
        }
        let projection = self.recorder.session().projection();
        let unseen = projection
            .entries()
            .rev()
            .take_while(|(_, message)| !matches!(message, Message::Assistant(_)))
            .filter(|(seq, message)| has_image(message) && !projection.is_offloaded(*seq));
        let mut messages: Vec<Seq> = unseen.map(|(seq, _)| seq).collect();
        if messages.is_empty() {
            return Ok(false);
        }
        messages.reverse();
        self.recorder.append(ImageOffload { messages })?;
        let title = "The provider refused an image; the model gets a note in place of those that \
                     are new.";
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
        let old = last_answer(request).unwrap_or_default().max(self.frame.told_images);
        let mut new: Vec<_> = images.given_up().filter(|(seq, _)| *seq > old).collect();
        new.retain(|(seq, _)| !request.projection().is_offloaded(*seq));
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

/// What stands for an image on a route with these limits, kept in `blobs`; or why nothing does.
fn made_smaller(
    blobs: &dyn BlobStore,
    image: BlobHash,
    bytes: &[u8],
    limits: &ImageLimits,
) -> Result<ImageScaled, (BlobHash, String)> {
    let made = match smaller(bytes, limits.lasting_side(), limits.file_bytes()) {
        Ok(made) => made,
        Err(why) => return Err((image, why)),
    };
    let Smaller { format, bytes, from, to, first_of_several } = made;
    let size = |(width, height)| PixelSize { width, height };
    match blobs.put(&bytes) {
        Ok(blob) => {
            let mime_type = format.media_type().to_owned();
            let (from, to) = (size(from), size(to));
            Ok(ImageScaled { image, from, blob, mime_type, to, first_of_several })
        }
        Err(error) => Err((image, error.to_string())),
    }
}

fn has_image(message: &Message<'_>) -> bool {
    let content = match message {
        Message::User(message) => &message.content,
        Message::ToolResult(result) => &result.content,
        Message::System(_) | Message::Developer(_) | Message::Assistant(_) => return false,
    };
    content.iter().any(|part| matches!(part, Content::Image { .. }))
}

/// Where the last answer stands.
fn last_answer(request: &ModelRequest) -> Option<Seq> {
    let mut entries = request.projection().entries();
    entries.rfind(|(_, message)| matches!(message, Message::Assistant(_))).map(|(seq, _)| seq)
}
