//! A model of a server that speaks Tight, as TigerVNC's does to a viewer that asks for quality 8 and does not
//! ask for a level of compression: areas of one colour are cut out; what is left goes in rectangles of at
//! most 65,536 pixels, each by its colours: two as bits, up to 96 as indices, both through zlib streams that
//! never begin anew, and more as JPEG of quality 92 without subsampling.
//!
//! Sources: the community's specification of RFB; documentation of TigerVNC, and what its server sends. Its
//! zlib has the levels 3 and 3 here, of another implementation, which takes some percent more or less.

use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, compress_to_output, create_comp_flags_from_zip_params,
};
use quickset_rfb::{Framebuffer, Rect, Region};

/// A server's end of a connection.
pub(crate) struct TightModel {
    /// Of bits, and of indices.
    streams: [Box<CompressorOxide>; 2],
    /// Rectangles are such that about one fits a packet.
    is_cut: bool,
    /// Each rectangle begins a stream anew.
    forgets: bool,
}

impl TightModel {
    /// As it is.
    pub(crate) fn new() -> Self {
        Self { streams: [stream(), stream()], is_cut: false, forgets: false }
    }

    /// The same in pieces of which each fits a packet, with streams that go on, or so that each can be read
    /// without any other.
    pub(crate) fn in_pieces(forgets: bool) -> Self {
        Self { is_cut: true, forgets, ..Self::new() }
    }

    /// Bytes of an update that draws `changed` of `screen` and has so many copies.
    pub(crate) fn update(&mut self, screen: &Framebuffer, changed: &Region, copies: usize) -> usize {
        // A header, a rectangle that says that it was the last, and four numbers more for each copy.
        let mut bytes = 4 + RECTANGLE + copies * (RECTANGLE + 4);
        let mut rest = changed.clone();
        for &rect in changed.rects() {
            for solid in solids(screen, rect) {
                rest.remove(solid);
                bytes += RECTANGLE + 4;
            }
        }
        for &rect in rest.rects() {
            let height = (MOST_PIXELS / usize::from(rect.width())).max(1) as u16;
            let (width, height) = if self.is_cut { PIECE } else { (rect.width(), height) };
            for top in (rect.top()..rect.bottom()).step_by(height.into()) {
                for left in (rect.left()..rect.right()).step_by(width.into()) {
                    let part = rect.clip(left, top, width, height);
                    bytes += RECTANGLE + self.rectangle(screen, part);
                }
            }
        }
        bytes
    }

    /// What follows the header of a rectangle.
    fn rectangle(&mut self, screen: &Framebuffer, rect: Rect) -> usize {
        let mut pixels = Vec::new();
        screen.read(rect, &mut pixels).unwrap();
        let mut colours: Vec<(u32, u32)> = Vec::new();
        for &pixel in &pixels {
            match colours.iter().position(|&(colour, _)| colour == pixel) {
                Some(place) => colours[place].1 += 1,
                None if colours.len() == MOST_COLOURS => return Self::many(&pixels, rect),
                None => colours.push((pixel, 1)),
            }
        }
        // The most frequent is the first.
        colours.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        let index = |pixel: u32| colours.iter().position(|&(colour, _)| colour == pixel).unwrap();
        let (stream, plain): (usize, Vec<u8>) = match colours.len() {
            1 => return 4,
            2 => {
                let row = |row: &[u32]| -> Vec<u8> {
                    let byte = |eight: &[u32]| {
                        eight.iter().zip(0..).fold(0, |byte, (&p, bit)| byte | (index(p) as u8) << (7 - bit))
                    };
                    row.chunks(8).map(byte).collect()
                };
                (0, pixels.chunks(rect.width().into()).flat_map(row).collect())
            }
            _ => (1, pixels.iter().map(|&pixel| index(pixel) as u8).collect()),
        };
        // Kind, filter, number of colours, colours.
        let head = 3 + 3 * colours.len();
        if plain.len() < 12 {
            return head + plain.len();
        }
        if self.forgets {
            self.streams[stream] = crate::tight::stream();
        }
        head + data(deflate(&mut self.streams[stream], &plain))
    }

    fn many(pixels: &[u32], rect: Rect) -> usize {
        let bytes: Vec<u8> = pixels.iter().flat_map(|pixel| pixel.to_be_bytes()[1..].to_vec()).collect();
        let mut file = Vec::new();
        let mut encoder = jpeg_encoder::Encoder::new(&mut file, 92);
        encoder.set_sampling_factor(jpeg_encoder::SamplingFactor::R_4_4_4);
        encoder.encode(&bytes, rect.width(), rect.height(), jpeg_encoder::ColorType::Rgb).unwrap();
        1 + data(file.len())
    }
}

/// A length of one to three bytes, and as many bytes.
fn data(length: usize) -> usize {
    length + 1 + usize::from(length > 0x7f) + usize::from(length > 0x3fff)
}

/// Areas of one colour that are worth a rectangle: whole blocks, grown to the right and then down.
fn solids(screen: &Framebuffer, rect: Rect) -> Vec<Rect> {
    let mut found: Vec<Rect> = Vec::new();
    for y in (rect.top()..rect.bottom()).step_by(BLOCK.into()) {
        for x in (rect.left()..rect.right()).step_by(BLOCK.into()) {
            let block = rect.clip(x, y, BLOCK, BLOCK);
            if found.iter().any(|solid| solid.meets(block)) {
                continue;
            }
            let colour = screen.pixel(x, y).unwrap();
            let is_solid = |part: Rect| screen.rows(part).unwrap().flatten().all(|&p| p == colour);
            if !is_solid(block) {
                continue;
            }
            let mut area = block;
            loop {
                let next = rect.clip(area.right(), y, BLOCK, BLOCK);
                if next.is_empty() || !is_solid(next) || found.iter().any(|solid| solid.meets(next)) {
                    break;
                }
                area = area.bounding(next);
            }
            loop {
                let next = rect.clip(x, area.bottom(), area.width(), BLOCK);
                if next.is_empty() || !is_solid(next) || found.iter().any(|solid| solid.meets(next)) {
                    break;
                }
                area = area.bounding(next);
            }
            if area.area() >= LEAST_SOLID {
                found.push(area);
            }
        }
    }
    found
}

fn stream() -> Box<CompressorOxide> {
    Box::new(CompressorOxide::new(create_comp_flags_from_zip_params(3, 0, 0)))
}

fn deflate(stream: &mut CompressorOxide, plain: &[u8]) -> usize {
    let mut length = 0;
    compress_to_output(stream, plain, TDEFLFlush::Sync, |packed| {
        length += packed.len();
        true
    });
    length
}

/// Place, size and encoding.
const RECTANGLE: usize = 12;
const MOST_PIXELS: usize = 65_536;
/// A piece of text that takes about as much as a packet.
const PIECE: (u16, u16) = (128, 64);
const MOST_COLOURS: usize = 96;
const BLOCK: u16 = 16;
const LEAST_SOLID: usize = 2048;
