//! Baseline JPEG of which only the scan travels.

use jpeg_encoder::{ColorType, SamplingFactor};
use quickset_rfb::{Framebuffer, Outside, Rect};

/// Buffers of the encoder.
#[derive(Default)]
pub(in crate::codec) struct Scanner {
    /// Blue, green, red and nothing: pixels as little-endian bytes.
    pixels: Vec<u8>,
    file: Vec<u8>,
}

impl Scanner {
    /// The scan of `rect`.
    pub(in crate::codec) fn scan(
        &mut self,
        screen: &Framebuffer,
        rect: Rect,
        quality: u8,
    ) -> Result<&[u8], Outside> {
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
    pub(in crate::codec) fn file(&self) -> &[u8] {
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
