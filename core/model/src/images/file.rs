//! One image file: what its bytes say it is, and the form in which it goes over a wire.
//!
//! A name or a media type that somebody gave it counts for nothing: a provider looks at the bytes
//! too, and refuses a request in which they differ. It decodes no picture; format and size stand in
//! the first bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

/// The formats that models read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF.
    Gif,
    /// WebP.
    WebP,
}

/// Bytes that are no image a model reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnImage {
    /// They begin like no known format.
    #[error("it is neither PNG nor JPEG nor GIF nor WebP")]
    UnknownFormat,
    /// They begin like a known format and do not say how large the picture is.
    #[error("its beginning is damaged")]
    Damaged,
}

/// An image file, encoded for a wire.
#[derive(Clone, Debug)]
pub struct Image {
    /// What it is.
    pub format: ImageFormat,
    /// Pixels from left to right; never 0.
    pub width: u32,
    /// Pixels from top to bottom; never 0.
    pub height: u32,
    /// The file as Base64, with padding, as a JSON string: a request takes it over unread.
    pub(crate) data: Box<RawValue>,
}

impl Image {
    /// Reads a file.
    ///
    /// # Errors
    /// When models do not read such files.
    pub fn read(bytes: &[u8]) -> Result<Self, NotAnImage> {
        let (format, width, height) = ImageFormat::measure(bytes)?;
        let mut json = String::with_capacity(bytes.len().div_ceil(3).saturating_mul(4) + 2);
        json.push('"');
        STANDARD.encode_string(bytes, &mut json);
        json.push('"');
        // No letter of Base64 is special in JSON.
        let data = RawValue::from_string(json).map_err(|_| NotAnImage::Damaged)?;
        Ok(Self { format, width, height, data })
    }

    /// The longer side, in pixels.
    pub fn side(&self) -> u32 {
        self.width.max(self.height)
    }
}

impl ImageFormat {
    /// The format of a file, its width and its height.
    ///
    /// # Errors
    /// When models do not read such files.
    pub fn measure(bytes: &[u8]) -> Result<(Self, u32, u32), NotAnImage> {
        let (format, size) = match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => (Self::Png, png(bytes)),
            [0xFF, 0xD8, 0xFF, ..] => (Self::Jpeg, jpeg(bytes)),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => (Self::Gif, gif(bytes)),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => {
                (Self::WebP, webp(bytes))
            }
            _ => return Err(NotAnImage::UnknownFormat),
        };
        match size {
            Some((width @ 1.., height @ 1..)) => Ok((format, width, height)),
            _ => Err(NotAnImage::Damaged),
        }
    }

    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::WebP => "image/webp",
        }
    }
}

fn png(bytes: &[u8]) -> Option<(u32, u32)> {
    let is_header = bytes.get(12..16)? == b"IHDR";
    let number = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    is_header.then_some((number(16)?, number(20)?))
}

fn gif(bytes: &[u8]) -> Option<(u32, u32)> {
    Some((little(bytes, 6, 2)?, little(bytes, 8, 2)?))
}

/// The first frame's header, behind segments of any other kind.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let big = |at: usize| {
        let pair = bytes.get(at..)?.first_chunk()?;
        Some(u16::from_be_bytes(*pair))
    };
    let mut at = 2;
    loop {
        if *bytes.get(at)? != 0xFF {
            return None;
        }
        at += 1;
        match bytes.get(at)? {
            // Fill bytes, and markers without a segment.
            0xFF => {}
            0x01 | 0xD0..=0xD7 => at += 1,
            0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => {
                return Some((big(at + 6)?.into(), big(at + 4)?.into()));
            }
            // The picture begins, or ends, and there was no header.
            0xDA | 0xD9 => return None,
            _ => at = at.checked_add(1)?.checked_add(big(at + 1)?.into())?,
        }
    }
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8 " => Some((little(bytes, 26, 2)? & 0x3FFF, little(bytes, 28, 2)? & 0x3FFF)),
        b"VP8L" => {
            let sides = little(bytes, 21, 4)?;
            Some(((sides & 0x3FFF) + 1, (sides >> 14 & 0x3FFF) + 1))
        }
        b"VP8X" => Some((little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1)),
        _ => None,
    }
}

/// The number in the `count` bytes from `at` on, the lowest first.
fn little(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(count)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> [(ImageFormat, Vec<u8>); 6] {
        let with = |head: &[u8], rest: &[u8]| [head, rest].concat();
        [
            (
                ImageFormat::Png,
                with(b"\x89PNG\r\n\x1A\n\0\0\0\rIHDR", b"\0\0\x01\x02\0\0\0\x03\x08\x06"),
            ),
            (ImageFormat::Gif, b"GIF89a\x02\x01\x03\0\0\0\0".to_vec()),
            // A comment with a false frame inside, fill bytes, a progressive frame.
            (
                ImageFormat::Jpeg,
                b"\xFF\xD8\xFF\xFE\0\x08\xFF\xC0\0\0\0\0\xFF\xFF\xC2\0\x11\x08\0\x03\x01\x02"
                    .to_vec(),
            ),
            (
                ImageFormat::WebP,
                b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9D\x01\x2A\x02\x41\x03\x40".to_vec(),
            ),
            (ImageFormat::WebP, b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2F\x01\x81\0\0".to_vec()),
            (ImageFormat::WebP, b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x01\x01\0\x02\0\0".to_vec()),
        ]
    }

    #[test]
    fn the_first_bytes_say_what_it_is_and_how_large() {
        for (format, bytes) in files() {
            let image = Image::read(&bytes).unwrap();
            assert_eq!((image.format, image.width, image.height), (format, 258, 3));
            assert_eq!(image.side(), 258);
            let base64: String = serde_json::from_str(image.data.get()).unwrap();
            assert_eq!(STANDARD.decode(base64).unwrap(), bytes);
        }
    }

    #[test]
    fn what_is_cut_off_or_something_else_is_no_image() {
        for (format, bytes) in files() {
            for end in 0..bytes.len() {
                match ImageFormat::measure(&bytes[..end]) {
                    Err(_) => {}
                    // What follows the size is not looked at.
                    Ok(found) => assert_eq!(found, (format, 258, 3), "cut at {end}"),
                }
            }
        }
        for bytes in [&b""[..], b"hello", b"<svg/>", b"BM", b"%PDF-1.7", b"\0\0\0\x20ftypavif"] {
            assert_eq!(Image::read(bytes).unwrap_err(), NotAnImage::UnknownFormat);
        }
        assert_eq!(Image::read(b"GIF89a\0\0\x03\0").unwrap_err(), NotAnImage::Damaged, "no width");
    }
}
