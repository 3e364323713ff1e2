//! Frames of Zstandard without the magic number, where there is no C library.

use ruzstd::decoding::FrameDecoder;

use super::super::ZSTD_MAGIC;

/// Expands one frame at a time, in Rust alone.
pub(super) struct PortableExpander {
    decoder: FrameDecoder,
    frame: Vec<u8>,
    content: Vec<u8>,
}

impl PortableExpander {
    pub(super) fn new() -> Self {
        Self { decoder: FrameDecoder::new(), frame: Vec::new(), content: Vec::new() }
    }

    /// The content of a frame without its magic number; `None` unless it is exactly `length` bytes.
    pub(super) fn expand(&mut self, frame: &[u8], length: usize) -> Option<&mut [u8]> {
        // DT-21: the decoder makes a window as large as the frame says, before it reads a byte of content.
        if window_of(frame)? > MOST_WINDOW {
            return None;
        }
        self.frame.clear();
        self.frame.extend_from_slice(&ZSTD_MAGIC);
        self.frame.extend_from_slice(frame);
        self.content.resize(length, 0);
        let written = self.decoder.decode_all(&self.frame, &mut self.content).ok()?;
        (written == length).then_some(&mut self.content[..])
    }
}

/// The size of the window that a frame asks for, in bytes; `None` when it ends before it says so.
///
/// Source: RFC 8878 §3.1.1.1.
fn window_of(frame: &[u8]) -> Option<u64> {
    let (&descriptor, rest) = frame.split_first()?;
    let is_single_segment = descriptor & 0x20 != 0;
    if !is_single_segment {
        let window = *rest.first()?;
        let base = 1u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // The window is the content, whose length follows the number of a dictionary.
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let length = rest.get(dictionary..)?;
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    Some(match descriptor >> 6 {
        0 => number(length.get(..1)?),
        1 => number(length.get(..2)?) + 256,
        2 => number(length.get(..4)?),
        _ => number(length.get(..8)?),
    })
}

/// More than the content of any item has (DT-16: three times 65,536 bytes, and the colours).
const MOST_WINDOW: u64 = 1 << 20;

#[cfg(test)]
#[cfg(feature = "encode")]
mod tests {
    use proptest::prelude::*;
    use zstd::bulk::Compressor;

    use super::super::expand::Expander;
    use super::*;

    proptest! {
        /// What the C library squeezes, of any kind of content and at any level.
        #[test]
        fn both_expanders_agree(
            seed in prop::collection::vec(any::<u8>(), 1..400),
            times in 1usize..200,
            level in 1i32..20,
            off in 0usize..3,
        ) {
            let content = seed.repeat(times);
            let frame = Compressor::new(level).unwrap().compress(&content).unwrap();
            let (frame, wanted) = (&frame[ZSTD_MAGIC.len()..], content.len() + off);
            let (mut portable, mut library) = (PortableExpander::new(), Expander::new());
            let found = portable.expand(frame, wanted).map(|bytes| bytes.to_vec());
            prop_assert_eq!(&found, &library.expand(frame, wanted).map(|bytes| bytes.to_vec()));
            prop_assert_eq!(found.is_some(), off == 0);
            // The same decoder goes on after a frame that it has refused.
            prop_assert_eq!(portable.expand(frame, content.len()).map(|bytes| bytes.to_vec()), Some(content));
        }

        /// Whatever comes: an answer, and no more than was asked for.
        #[test]
        fn nothing_that_comes_breaks_it(frame in prop::collection::vec(any::<u8>(), 0..300), length in 0usize..5000) {
            let mut portable = PortableExpander::new();
            let found = portable.expand(&frame, length).map(|bytes| bytes.len());
            prop_assert!(found.is_none_or(|found| found == length));
        }

        /// Frames of the C library of which a byte is another.
        #[test]
        fn what_was_altered_is_refused_or_as_long(at in any::<prop::sample::Index>(), to in any::<u8>()) {
            let content: Vec<u8> = (0..2000u32).flat_map(|n| (n * n % 251).to_le_bytes()).collect();
            let mut frame = Compressor::new(3).unwrap().compress(&content).unwrap();
            let place = ZSTD_MAGIC.len() + at.index(frame.len() - ZSTD_MAGIC.len());
            frame[place] = to;
            let mut portable = PortableExpander::new();
            let found = portable.expand(&frame[ZSTD_MAGIC.len()..], content.len()).map(|bytes| bytes.len());
            prop_assert!(found.is_none_or(|found| found == content.len()));
        }
    }

    #[test]
    fn a_window_is_what_the_frame_says_and_not_larger_than_an_item_needs() {
        // Exponent 10, mantissa 0: 1 MiB; mantissa 1: an eighth more.
        assert_eq!(window_of(&[0x00, 10 << 3]), Some(1 << 20));
        assert_eq!(window_of(&[0x00, 10 << 3 | 1]), Some((1 << 20) + (1 << 17)));
        // One segment, of two bytes of length, behind one byte of a dictionary.
        assert_eq!(window_of(&[0x61, 9, 0x10, 0x20]), Some(0x2010 + 256));
        assert_eq!(window_of(&[0xe0, 1, 0, 0, 0, 0, 0, 0, 0x80]), Some((1 << 63) + 1));
        assert_eq!(window_of(&[0xe0, 1, 0, 0]), None);
        // 100 MiB would be allocated for three bytes.
        assert_eq!(PortableExpander::new().expand(&[0x00, 16 << 3, 0x01, 0x00, 0x00], 0), None);
    }
}
