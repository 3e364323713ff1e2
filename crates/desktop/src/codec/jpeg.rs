//! Baseline JPEG of which only the scan travels.

use jpeg_encoder::{ColorType, SamplingFactor};
use quickset_rfb::{Framebuffer, Outside, Rect};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::tables;

/// Buffers of the encoder.
#[derive(Default)]
pub(super) struct Scanner {
    /// Blue, green, red and nothing: pixels as little-endian bytes.
    pixels: Vec<u8>,
    file: Vec<u8>,
}

impl Scanner {
    /// The scan of `rect`.
    pub(super) fn scan(&mut self, screen: &Framebuffer, rect: Rect, quality: u8) -> Result<&[u8], Outside> {
        self.pixels.clear();
        for row in screen.rows(rect)? {
            self.pixels.extend(row.iter().flat_map(|pixel| pixel.to_le_bytes()));
        }
        self.file.clear();
        let mut encoder = jpeg_encoder::Encoder::new(&mut self.file, quality);
        encoder.set_sampling_factor(SamplingFactor::R_4_2_0);
        encoder
            .encode(&self.pixels, rect.width(), rect.height(), ColorType::Bgra)
            .expect("the buffer is as large as the size says, and writing to memory does not fail");
        Ok(scan_of(&self.file))
    }

    #[cfg(test)]
    pub(super) fn file(&self) -> &[u8] {
        &self.file
    }
}

/// What stands between the header of the scan and the end of our own encoder's file.
fn scan_of(file: &[u8]) -> &[u8] {
    let mut at = 2;
    loop {
        let length = usize::from(u16::from_be_bytes([file[at + 2], file[at + 3]]));
        let scan = file[at + 1] == 0xda;
        at += 2 + length;
        if scan {
            return &file[at..file.len() - 2];
        }
    }
}

/// Buffers of the decoder.
#[derive(Default)]
pub(super) struct JpegPainter {
    file: Vec<u8>,
    pixels: Vec<u8>,
}

impl JpegPainter {
    /// The pixels of a scan.
    pub(super) fn paint(&mut self, scan: &[u8], rect: Rect, quality: u8, out: &mut Vec<u32>) -> Option<()> {
        // DT-23: a marker inside could bring tables and dimensions of its own.
        let mut bytes = scan.iter().copied();
        while let Some(byte) = bytes.next() {
            if byte == 0xff && bytes.next() != Some(0) {
                return None;
            }
        }
        self.file.clear();
        tables::headers(rect.width(), rect.height(), quality, &mut self.file);
        self.file.extend_from_slice(scan);
        self.file.extend([0xff, 0xd9]);
        let options = DecoderOptions::new_safe()
            .set_max_width(rect.width().into())
            .set_max_height(rect.height().into())
            .set_use_unsafe(true)
            .jpeg_set_out_colorspace(ColorSpace::BGRA);
        self.pixels.resize(4 * rect.area(), 0);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(&self.file[..]), options);
        decoder.decode_into(&mut self.pixels).ok()?;
        out.extend(self.pixels.chunks_exact(4).map(|p| u32::from_le_bytes([p[0], p[1], p[2], 0])));
        Some(())
    }
}
