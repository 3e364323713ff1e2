//! Frames of Zstandard without the magic number, in buffers that are kept.

use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use super::super::ZSTD_MAGIC;

/// Squeezes one frame at a time.
pub(in crate::codec) struct Squeezer {
    context: Compressor<'static>,
    /// The last frame, with its magic number.
    frame: Vec<u8>,
}

impl Squeezer {
    pub(in crate::codec) fn new() -> Self {
        let mut context = Compressor::new(LEVEL).expect("a context fits the memory, and the level exists");
        context.set_parameter(CParameter::MinMatch(LEAST_MATCH)).expect("the library takes 3 to 7");
        Self { context, frame: Vec::new() }
    }

    /// The frame, without its magic number.
    pub(in crate::codec) fn squeeze(&mut self, content: &[u8]) -> &[u8] {
        self.frame.clear();
        self.frame.reserve(zstd::zstd_safe::compress_bound(content.len()));
        self.context
            .compress_to_buffer(content, &mut self.frame)
            .expect("the buffer is as long as it may need");
        &self.frame[ZSTD_MAGIC.len()..]
    }
}

/// Higher levels gain little on rectangles of one packet: of 8 kB of text level 3 saves 3 %, in twice the
/// time.
const LEVEL: i32 = 1;
/// The shortest repetition that is named instead of written, in bytes. Names are most of a frame of text, and
/// of the time to decode it: with 7 in place of the level's usual 5, text in few colours takes fewer messages
/// (`cargo xtask flips` counts them). Text in many shades is mostly JPEG, and as long as before.
const LEAST_MATCH: u32 = 7;
