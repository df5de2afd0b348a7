//! Zstandard frames: one header frame, then one frame per batch of event lines.
//!
//! Each frame stands alone, carries its content's size and checksum, and is either complete or
//! not there. This file knows bytes and offsets only; what the lines mean is `log`'s matter.

use std::io;

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{self, CParameter};

/// The most bytes that one frame may unpack to; checked before anything is allocated.
pub(crate) const MAX_CONTENT: usize = 256 * 1024 * 1024;

/// Level 3: a quarter of the size of the plain lines at a cost that no turn notices.
const LEVEL: i32 = 3;

/// How a frame begins. Event lines are UTF-8, which cannot contain it, so it is never found inside
/// a frame that was stored without compression.
pub(crate) const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// The byte behind the magic describes the frame; this bit of it says that a checksum follows.
const CHECKSUM_FLAG: u8 = 0b100;

/// One frame that unpacks to `lines`. What it takes, up to a megabyte, is given back with it: an open
/// session is idle most of the time.
pub(crate) fn encode(lines: &[u8]) -> io::Result<Vec<u8>> {
    let mut compressor = Compressor::new(LEVEL)?;
    compressor.set_parameter(CParameter::ChecksumFlag(true))?;
    compressor.set_parameter(CParameter::ContentSizeFlag(true))?;
    let mut frame = Vec::with_capacity(zstd_safe::compress_bound(lines.len()));
    compressor.compress_to_buffer(lines, &mut frame)?;
    Ok(frame)
}

/// Unpacks the frame at the start of `bytes`: its content and its length.
pub(crate) fn decode(
    decompressor: &mut Decompressor<'static>,
    bytes: &[u8],
) -> Option<(Vec<u8>, usize)> {
    let len = extent(bytes)?;
    let frame = bytes.get(..len)?;
    let size = usize::try_from(zstd_safe::get_frame_content_size(frame).ok()??).ok()?;
    if size > MAX_CONTENT {
        return None;
    }
    let mut content = Vec::with_capacity(size);
    let unpacked = decompressor.decompress_to_buffer(frame, &mut content).ok()?;
    (unpacked == size).then_some((content, len))
}

/// The length of the frame at the start of `bytes`, as far as its headers tell.
pub(crate) fn extent(bytes: &[u8]) -> Option<usize> {
    if !bytes.starts_with(&MAGIC) || bytes.get(MAGIC.len())? & CHECKSUM_FLAG == 0 {
        return None;
    }
    let len = zstd_safe::find_frame_compressed_size(bytes).ok()?;
    (len <= bytes.len()).then_some(len)
}
