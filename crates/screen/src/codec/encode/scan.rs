//! Baseline JPEG of which only the scan travels.

use jpeg_encoder::{ColorType, SamplingFactor};
use quickset_rfb::{Framebuffer, Outside, Rect};

use super::super::jpeg::JpegForm;

/// Buffers of the encoder.
#[derive(Default)]
pub(in crate::codec) struct Scanner {
    /// Blue, green, red and nothing: pixels as little-endian bytes.
    pixels: Vec<u8>,
    file: Vec<u8>,
}

impl Scanner {
    /// The scan of `rect` in this form, or in one that takes about as many bytes with colours at full
    /// resolution, if such may be and makes a smaller error; and which it is.
    pub(in crate::codec) fn scan(
        &mut self,
        screen: &Framebuffer,
        rect: Rect,
        form: JpegForm,
        may_be_full: bool,
    ) -> Result<(JpegForm, &[u8]), Outside> {
        self.pixels.clear();
        for row in screen.rows(rect)? {
            self.pixels.extend(row.iter().flat_map(|pixel| pixel.to_le_bytes()));
        }
        // DT-83.
        let is_better = may_be_full && form.wants_full(lost_by_halving(&self.pixels, rect.width().into()));
        let form = if is_better { form.in_full() } else { form };
        self.file.clear();
        let mut encoder = jpeg_encoder::Encoder::new(&mut self.file, form.quality());
        let sampling = if form.is_full() { SamplingFactor::R_4_4_4 } else { SamplingFactor::R_4_2_0 };
        encoder.set_sampling_factor(sampling);
        encoder
            .encode(&self.pixels, rect.width(), rect.height(), ColorType::Bgra)
            .expect("the buffer is as large as the size says, and writing to memory does not fail");
        Ok((form, scan_of(&self.file)))
    }

    #[cfg(test)]
    pub(in crate::codec) fn file(&self) -> &[u8] {
        &self.file
    }
}

/// What is lost of red and blue, each less green, where four pixels get one colour: the mean squared error,
/// times 32. Of every other two rows, which say as much as all.
fn lost_by_halving(pixels: &[u8], width: usize) -> u64 {
    let (mut lost, mut blocks) = (0, 0);
    for rows in pixels.chunks_exact(2 * 4 * width).step_by(2) {
        let (above, below) = rows.split_at(4 * width);
        for (above, below) in above.chunks_exact(8).zip(below.chunks_exact(8)) {
            let (four, mut sum) = ([&above[..4], &above[4..], &below[..4], &below[4..]], 0);
            for colour in [0, 2] {
                let beyond = four.map(|pixel| i32::from(pixel[colour]) - i32::from(pixel[1]));
                let all: i32 = beyond.iter().sum();
                sum += 4 * beyond.iter().map(|one| one * one).sum::<i32>() - all * all;
            }
            // Squares of differences from the mean: never below 0.
            lost += u64::from(sum.unsigned_abs());
            blocks += 1;
        }
    }
    lost / u64::max(blocks, 1)
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
