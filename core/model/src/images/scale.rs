//! A smaller picture in the place of one that is larger than a provider takes.
//!
//! Whatever the file says of itself, no more than [`MAX_PIXELS`] are unpacked, within [`MAX_MEMORY`],
//! one picture at a time in the whole process. That bounds how long it takes, which nothing can
//! interrupt: about a second on a slow machine.

use std::io::Cursor;
use std::panic::catch_unwind;
use std::sync::{Mutex, PoisonError};

use image::codecs::gif::GifDecoder;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngDecoder;
use image::codecs::webp::WebPDecoder;
use image::metadata::Orientation;
use image::{
    AnimationDecoder as _, DynamicImage, ImageDecoder as _, ImageError, ImageReader, Limits,
    RgbImage,
};

use super::file::ImageFormat;

/// The largest picture that is unpacked: 8,000 pixels a side, more than a camera of a phone takes.
pub const MAX_PIXELS: u64 = 64_000_000;
/// The most memory that unpacking may take, in bytes: four for each of those pixels and some more.
const MAX_MEMORY: u64 = 320 << 20;

/// How well a photograph is kept, of 100.
const QUALITY: u8 = 85;
/// How often it is tried with smaller sides, by a quarter each time.
const TRIES: u32 = 12;

/// A picture that was made smaller.
#[derive(Debug)]
pub struct Smaller {
    /// What it is.
    pub format: ImageFormat,
    /// The file.
    pub bytes: Vec<u8>,
    /// Width and height, as a person sees it.
    pub from: (u32, u32),
    /// The same of this one.
    pub to: (u32, u32),
    /// Whether the file has several pictures, of which this is the first.
    pub first_of_several: bool,
}

/// The picture in a file, with no side over `side` pixels and no more than `most` bytes. Takes time
/// and memory within the limits of this file; panics of a decoder stay in it.
///
/// # Errors
/// Why there is none, as the end of a sentence.
pub fn smaller(bytes: &[u8], side: u32, most: u64) -> Result<Smaller, String> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    catch_unwind(|| shrink(bytes, side, most))
        .unwrap_or_else(|_| Err("what unpacks it has failed".to_owned()))
}

fn shrink(bytes: &[u8], side: u32, most: u64) -> Result<Smaller, String> {
    let (format, width, height) = ImageFormat::measure(bytes).map_err(|why| why.to_string())?;
    within((width, height))?;
    let mut reader = ImageReader::with_format(Cursor::new(bytes), codec(format));
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(MAX_MEMORY);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(|error| said(&error))?;
    let whole = decoder.dimensions();
    within(whole)?;
    let turn = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let picture = DynamicImage::from_decoder(decoder).map_err(|error| said(&error))?;
    let (mut width, mut height) = fitting(whole, side);
    let is_drawn = matches!(format, ImageFormat::Png | ImageFormat::Gif);
    for _ in 0..TRIES {
        let mut small = plain(picture.thumbnail_exact(width, height));
        small.apply_orientation(turn);
        let (format, file) = encoded(&small, is_drawn, most)?;
        if file.len() as u64 <= most {
            let to = (small.width(), small.height());
            let from = if to == (width, height) { whole } else { (whole.1, whole.0) };
            let first_of_several = several(bytes);
            return Ok(Smaller { format, bytes: file, from, to, first_of_several });
        }
        (width, height) = (less(width), less(height));
    }
    Err(format!("nothing of it fits into {most} bytes"))
}

fn within((width, height): (u32, u32)) -> Result<(), String> {
    if u64::from(width) * u64::from(height) <= MAX_PIXELS {
        return Ok(());
    }
    Err(format!("{width} × {height} pixels are more than the {MAX_PIXELS} that are unpacked"))
}

/// The largest sides in the same proportion, none longer than `most` and none gone.
fn fitting((width, height): (u32, u32), most: u32) -> (u32, u32) {
    let longest = u64::from(width.max(height));
    let fit = |side: u32| match longest > u64::from(most) {
        true => u32::try_from(u64::from(side) * u64::from(most) / longest).unwrap_or(most).max(1),
        false => side,
    };
    (fit(width), fit(height))
}

fn less(side: u32) -> u32 {
    (side - side / 4).max(1)
}

/// With eight bits a colour, and with an alpha channel only where something shines through.
fn plain(picture: DynamicImage) -> DynamicImage {
    if picture.color().has_alpha() {
        let pixels = picture.to_rgba8();
        if pixels.pixels().any(|pixel| pixel.0[3] < u8::MAX) {
            return pixels.into();
        }
    }
    picture.to_rgb8().into()
}

/// As PNG where that is small, because it keeps drawn lines; else as JPEG, on white.
fn encoded(
    picture: &DynamicImage,
    is_drawn: bool,
    most: u64,
) -> Result<(ImageFormat, Vec<u8>), String> {
    let shines = picture.color().has_alpha();
    if is_drawn || shines {
        let mut file = Vec::new();
        picture
            .write_to(&mut Cursor::new(&mut file), image::ImageFormat::Png)
            .map_err(|error| said(&error))?;
        if file.len() as u64 <= if shines { most } else { most / 4 } {
            return Ok((ImageFormat::Png, file));
        }
    }
    let mut file = Vec::new();
    let encoder = JpegEncoder::new_with_quality(&mut file, QUALITY);
    on_white(picture).write_with_encoder(encoder).map_err(|error| said(&error))?;
    Ok((ImageFormat::Jpeg, file))
}

fn on_white(picture: &DynamicImage) -> RgbImage {
    let DynamicImage::ImageRgba8(pixels) = picture else { return picture.to_rgb8() };
    let mut flat = RgbImage::new(pixels.width(), pixels.height());
    for (to, from) in flat.pixels_mut().zip(pixels.pixels()) {
        let [red, green, blue, alpha] = from.0.map(u32::from);
        let mixed = [red, green, blue].map(|colour| (colour * alpha + 255 * (255 - alpha)) / 255);
        to.0 = mixed.map(|colour| u8::try_from(colour).unwrap_or(u8::MAX));
    }
    flat
}

/// Whether a file has more than one picture. What cannot be unpacked does not count.
fn several(bytes: &[u8]) -> bool {
    let file = || Cursor::new(bytes);
    match ImageFormat::measure(bytes) {
        Ok((ImageFormat::Gif, ..)) => GifDecoder::new(file())
            .is_ok_and(|gif| gif.into_frames().take(2).filter(Result::is_ok).count() > 1),
        Ok((ImageFormat::Png, ..)) => {
            PngDecoder::new(file()).is_ok_and(|png| png.is_apng().unwrap_or(false))
        }
        Ok((ImageFormat::WebP, ..)) => {
            WebPDecoder::new(file()).is_ok_and(|webp| webp.has_animation())
        }
        Ok((ImageFormat::Jpeg, ..)) | Err(_) => false,
    }
}

fn codec(format: ImageFormat) -> image::ImageFormat {
    match format {
        ImageFormat::Png => image::ImageFormat::Png,
        ImageFormat::Jpeg => image::ImageFormat::Jpeg,
        ImageFormat::Gif => image::ImageFormat::Gif,
        ImageFormat::WebP => image::ImageFormat::WebP,
    }
}

fn said(error: &ImageError) -> String {
    match error {
        ImageError::Limits(_) => "unpacking it takes too much memory".to_owned(),
        _ => format!("it cannot be unpacked ({error})"),
    }
}

#[cfg(test)]
mod tests {
    use image::{ExtendedColorType, ImageEncoder as _, Rgb, Rgba, RgbaImage};

    use super::*;

    fn file(picture: &DynamicImage, format: image::ImageFormat) -> Vec<u8> {
        let mut file = Vec::new();
        picture.write_to(&mut Cursor::new(&mut file), format).unwrap();
        file
    }

    /// A picture of one colour on the left and another on the right.
    fn halves(width: u32, height: u32) -> DynamicImage {
        let colour = |x: u32| if x < width / 2 { Rgb([200, 0, 0]) } else { Rgb([0, 0, 200]) };
        RgbImage::from_fn(width, height, |x, _| colour(x)).into()
    }

    /// A picture that no format packs well.
    fn noise(width: u32, height: u32) -> DynamicImage {
        let mut random = fastrand::Rng::with_seed(1);
        RgbImage::from_fn(width, height, |_, _| Rgb([(); 3].map(|()| random.u8(..)))).into()
    }

    fn unpacked(small: &Smaller) -> DynamicImage {
        let (format, width, height) = ImageFormat::measure(&small.bytes).unwrap();
        assert_eq!((format, (width, height)), (small.format, small.to));
        image::load_from_memory(&small.bytes).unwrap()
    }

    #[test]
    fn every_format_is_made_smaller_and_shows_the_same() {
        use image::ImageFormat::{Gif, Jpeg, Png, WebP};
        for format in [Gif, Jpeg, Png, WebP] {
            let small = smaller(&file(&halves(400, 100), format), 200, 100_000).unwrap();
            assert_eq!((small.from, small.to), ((400, 100), (200, 50)), "{format:?}");
            assert!(!small.first_of_several);
            let shown = unpacked(&small).to_rgb8();
            let (left, right) = (shown.get_pixel(10, 25).0, shown.get_pixel(190, 25).0);
            assert!(left[0] > 150 && left[2] < 60, "{format:?} {left:?}");
            assert!(right[2] > 150 && right[0] < 60, "{format:?} {right:?}");
        }
        let drawn = smaller(&file(&halves(400, 100), Png), 200, 100_000).unwrap();
        let photograph = smaller(&file(&halves(400, 100), Jpeg), 200, 100_000).unwrap();
        assert_eq!((drawn.format, photograph.format), (ImageFormat::Png, ImageFormat::Jpeg));
    }

    /// Sides that fit stay where the bytes allow it, and become less where they do not.
    #[test]
    fn the_bytes_count_too() {
        let picture = file(&noise(300, 200), image::ImageFormat::Png);
        let roomy = smaller(&picture, 1_000, 1_000_000).unwrap();
        assert_eq!(roomy.to, (300, 200));
        let tight = smaller(&picture, 1_000, 8_000).unwrap();
        assert!(tight.bytes.len() <= 8_000 && tight.to.0 < 300, "{:?}", tight.to);
        let (width, height) = (f64::from(tight.to.0), f64::from(tight.to.1));
        assert!((width / height - 1.5).abs() < 0.1, "{:?}", tight.to);
        assert!(smaller(&picture, 1_000, 10).unwrap_err().contains("10 bytes"));
        assert_eq!(
            smaller(&file(&halves(5_000, 1), image::ImageFormat::Png), 50, 9_000).unwrap().to,
            (50, 1)
        );
    }

    #[test]
    fn what_shines_through_stays_so_and_is_white_otherwise() {
        let glass = RgbaImage::from_pixel(100, 100, Rgba([9, 9, 9, 0]));
        let png = file(&glass.clone().into(), image::ImageFormat::Png);
        let small = unpacked(&smaller(&png, 50, 10_000).unwrap());
        assert_eq!(small.to_rgba8().get_pixel(25, 25).0[3], 0);
        assert_eq!(on_white(&glass.into()).get_pixel(1, 1).0, [255; 3]);
    }

    /// A photograph that says it lies on its side is shown as it stands, with the sides of that.
    #[test]
    fn a_turned_photograph_is_turned_back() {
        let mut jpeg = Vec::new();
        let mut encoder = JpegEncoder::new_with_quality(&mut jpeg, 90);
        let exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
        encoder.set_exif_metadata(exif.to_vec()).unwrap();
        let picture = halves(400, 100).to_rgb8();
        encoder.write_image(&picture, 400, 100, ExtendedColorType::Rgb8).unwrap();
        let small = smaller(&jpeg, 200, 100_000).unwrap();
        assert_eq!((small.from, small.to), ((100, 400), (50, 200)));
        let shown = unpacked(&small).to_rgb8();
        assert!(shown.get_pixel(25, 10).0[0] > 150 && shown.get_pixel(25, 190).0[2] > 150);
    }

    #[test]
    fn of_several_pictures_the_first_is_shown() {
        let mut gif = Vec::new();
        let mut encoder = image::codecs::gif::GifEncoder::new(&mut gif);
        for side in [0, 200] {
            let frame = RgbaImage::from_pixel(60, 60, Rgba([side, 0, 0, 255]));
            encoder.encode_frame(image::Frame::new(frame)).unwrap();
        }
        drop(encoder);
        let small = smaller(&gif, 30, 10_000).unwrap();
        assert!(small.first_of_several);
        assert!(unpacked(&small).to_rgb8().get_pixel(9, 9).0[0] < 30);
    }

    /// A file of a few bytes that says that it is huge costs nothing, and one that is cut off is told.
    #[test]
    fn bombs_and_damaged_files_are_refused() {
        let huge = |format| {
            let mut bytes = file(&halves(4, 4), format);
            let at = if format == image::ImageFormat::Png { 16 } else { 6 };
            let side: &[u8] = if at == 16 { &[0, 1, 0, 0] } else { &[0xFF, 0xFF] };
            bytes.splice(at..at + side.len(), side.iter().copied());
            bytes.splice(at + side.len()..at + 2 * side.len(), side.iter().copied());
            smaller(&bytes, 100, 10_000).unwrap_err()
        };
        for format in [image::ImageFormat::Png, image::ImageFormat::Gif] {
            assert!(huge(format).contains("are more than the 64000000"), "{}", huge(format));
        }
        let whole = file(&noise(200, 200), image::ImageFormat::Png);
        let why = smaller(&whole[..whole.len() / 2], 100, 10_000).unwrap_err();
        assert!(why.starts_with("it cannot be unpacked"), "{why}");
        for cut in (0..whole.len()).step_by(997) {
            drop(smaller(&whole[..cut], 100, 10_000));
        }
        assert!(smaller(b"hello", 100, 100).is_err());
    }
}
