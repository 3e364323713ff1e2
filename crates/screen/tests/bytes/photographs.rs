//! Photographs and pictures of films, which go as JPEG: what they take beside whole pictures of Tight, where
//! both make the same error.

use std::path::Path;

use jpeg_encoder::{ColorType, SamplingFactor};
use quickset_rfb::Rect;
use quickset_screen::sender::JpegQuality;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use crate::film;
use crate::ours::OurEnds;
use crate::scenes::{SceneDraw, read_pictures};

/// A picture that is sent as JPEG.
struct Photograph {
    name: String,
    size: Rect,
    pixels: Vec<u32>,
}

/// Bytes, and the mean squared error of red, green and blue.
type BytesAndError = (f64, f64);

impl Photograph {
    /// A film and a picture with finer colours, both made up.
    fn made_up() -> [Self; 2] {
        let size = Rect::sized(512, 288);
        [("film", film::picture(0, size)), ("colourful", film::colourful(size))].map(|(name, pixels)| Self {
            name: name.into(),
            size,
            pixels,
        })
    }

    /// The pictures of a folder, each as it is, and as a player shows it that has it from a film, with half
    /// of its colours' resolution.
    fn read(folder: &Path) -> Vec<Self> {
        let pictures = read_pictures(folder).into_iter().flat_map(|(name, (width, height), pixels)| {
            let size = Rect::sized(width, height);
            let played = played(&pixels, usize::from(width));
            [(name.clone(), pixels), (format!("{name}, played"), played)].map(|(name, pixels)| Self {
                name,
                size,
                pixels,
            })
        });
        pictures.collect()
    }

    /// In this quality of ours.
    fn ours(&self, quality: u8) -> BytesAndError {
        let quality = JpegQuality::new(quality, quality).unwrap();
        let mut ends = OurEnds::of_quality(quality, (self.size.width(), self.size.height()));
        let cost = ends.update(&[SceneDraw::Put(self.size, self.pixels.clone())]);
        (cost.bytes as f64, self.error(ends.shown().pixels()))
    }

    /// As Tight of RFB sends it: rectangles of at most 65,536 pixels, each a JPEG of its own with its
    /// headers, behind 12 bytes of the rectangle and 4 of the encoding.
    fn tight(&self, quality: u8, sampling: SamplingFactor) -> BytesAndError {
        let (mut bytes, mut seen) = (0, Vec::new());
        let width = self.size.width();
        for strip in self.pixels.chunks(65_536 / usize::from(width) * usize::from(width)) {
            let mut file = Vec::new();
            let mut encoder = jpeg_encoder::Encoder::new(&mut file, quality);
            encoder.set_sampling_factor(sampling);
            let pixels: Vec<u8> = strip.iter().flat_map(|pixel| pixel.to_le_bytes()).collect();
            let height = (strip.len() / usize::from(width)) as u16;
            encoder.encode(&pixels, width, height, ColorType::Bgra).unwrap();
            let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::BGRA);
            let decoded = JpegDecoder::new_with_options(ZCursor::new(&file), options).decode().unwrap();
            seen.extend(decoded.chunks_exact(4).map(|p| u32::from_le_bytes([p[0], p[1], p[2], 0])));
            bytes += file.len() + 16;
        }
        (bytes as f64, self.error(&seen))
    }

    fn error(&self, seen: &[u32]) -> f64 {
        let one = |(a, b): (&u32, &u32)| {
            let part = |shift: u32| (f64::from(a >> shift & 0xff) - f64::from(b >> shift & 0xff)).powi(2);
            part(0) + part(8) + part(16)
        };
        self.pixels.iter().zip(seen).map(one).sum::<f64>() / (3 * seen.len()) as f64
    }

    /// What ours takes of what Tight takes, for each level of that; `None` where it makes a smaller error
    /// than any quality.
    fn shares(&self) -> [Option<f64>; TIGHT_LEVELS.len()] {
        let mut known = [None; 101];
        let mut ours = |quality: u8| *known[usize::from(quality)].get_or_insert_with(|| self.ours(quality));
        TIGHT_LEVELS.map(|(_, quality, sampling)| {
            let (bytes, error) = self.tight(quality, sampling);
            // The first quality that is as good, and the one below it.
            let (mut worse, mut better) = (1, 100);
            while better - worse > 1 {
                let middle = u8::midpoint(worse, better);
                if ours(middle).1 <= error { better = middle } else { worse = middle }
            }
            let [(b0, e0), (b1, e1)] = [ours(worse), ours(better)];
            // What a quality in between takes.
            let part = if e0 > e1 { (e0 - error) / (e0 - e1) } else { 1.0 };
            (e1 <= error).then(|| (b0 + part * (b1 - b0)) / bytes)
        })
    }
}

/// With colours at half the resolution, each pixel's a mean of those of the four squares next to it, by how
/// near they are.
fn played(pixels: &[u32], width: usize) -> Vec<u32> {
    let height = pixels.len() / width;
    let (across, down) = (width.div_ceil(2), height.div_ceil(2));
    let beyond = |x: usize, y: usize| {
        let pixel = pixels[y.min(height - 1) * width + x.min(width - 1)];
        let [_, red, green, blue] = pixel.to_be_bytes().map(f64::from);
        [red - green, blue - green]
    };
    let squares: Vec<[f64; 2]> = (0..across * down)
        .map(|at| {
            let (x, y) = (at % across * 2, at / across * 2);
            let four = [beyond(x, y), beyond(x + 1, y), beyond(x, y + 1), beyond(x + 1, y + 1)];
            [0, 1].map(|n| four.iter().map(|one| one[n]).sum::<f64>() / 4.0)
        })
        .collect();
    // Three quarters of its own, one of the next: in both directions.
    let next = |at: usize, all: usize| {
        if at % 2 == 0 { (at / 2).saturating_sub(1) } else { (at / 2 + 1).min(all - 1) }
    };
    let pixel = |at: usize| {
        let (x, y) = (at % width, at / width);
        let (own, other) = ([x / 2, y / 2], [next(x, across), next(y, down)]);
        let square = |x: usize, y: usize, n: usize| squares[y * across + x][n];
        let mean = |n: usize| {
            let near = 9.0 * square(own[0], own[1], n) + square(other[0], other[1], n);
            (near + 3.0 * (square(other[0], own[1], n) + square(own[0], other[1], n))) / 16.0
        };
        // The grey stays.
        let [_, red, green, blue] = pixels[at].to_be_bytes().map(f64::from);
        let grey = 0.299 * red + 0.587 * green + 0.114 * blue;
        let green = grey - 0.299 * mean(0) - 0.114 * mean(1);
        [green + mean(0), green, green + mean(1)]
            .iter()
            .fold(0, |pixel, value| pixel << 8 | value.round().clamp(0.0, 255.0) as u32)
    };
    (0..pixels.len()).map(pixel).collect()
}

/// Of what is made up, and of the pictures of a folder if one is named.
#[test]
fn a_photograph_takes_fewer_bytes_than_in_tight_at_the_error_of_thin_links() {
    println!(
        "{:<38}{}",
        "of Tight, by its level",
        TIGHT_LEVELS.map(|(level, ..)| format!("{level:>6}")).concat()
    );
    let line = |photograph: &Photograph| {
        let shares = photograph.shares();
        let words = shares.map(|share| share.map_or("     -".into(), |share| format!("{share:>6.2}")));
        println!("{:<38}{}", photograph.name, words.concat());
        shares
    };
    for photograph in Photograph::made_up() {
        for (share, (level, ..)) in line(&photograph).into_iter().zip(TIGHT_LEVELS) {
            // Above level 3 the rule by which colours are halved is not the best for these.
            let most = if level <= 3 { 1.0 } else { 1.15 };
            let share = share.expect("there is a quality as good");
            assert!(share <= most, "{}: {share:.2} of Tight at level {level}", photograph.name);
        }
    }
    if let Some(folder) = std::env::var_os("QUICKSET_BYTES_PHOTOGRAPHS") {
        Photograph::read(folder.as_ref()).iter().map(line).for_each(drop);
    }
}

/// The qualities that TigerVNC 1.12 has for its levels (TightJPEGEncoder.cxx).
const TIGHT_LEVELS: [(u8, u8, SamplingFactor); 7] = [
    (1, 29, SamplingFactor::R_4_2_0),
    (2, 41, SamplingFactor::R_4_2_0),
    (3, 42, SamplingFactor::R_4_2_2),
    (5, 77, SamplingFactor::R_4_2_2),
    (6, 79, SamplingFactor::R_4_4_4),
    (7, 86, SamplingFactor::R_4_4_4),
    (8, 92, SamplingFactor::R_4_4_4),
];
