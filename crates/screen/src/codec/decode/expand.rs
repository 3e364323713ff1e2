//! Frames of Zstandard without the magic number, in buffers that are kept.

use zstd::bulk::Decompressor;

use super::super::ZSTD_MAGIC;

/// Expands one frame at a time.
pub(in crate::codec) struct Expander {
    context: Decompressor<'static>,
    frame: Vec<u8>,
    content: Vec<u8>,
}

impl Expander {
    pub(in crate::codec) fn new() -> Self {
        let context = Decompressor::new().expect("a context fits the memory");
        Self { context, frame: Vec::new(), content: Vec::new() }
    }

    /// The content of a frame without its magic number; `None` unless it is exactly `length` bytes.
    pub(in crate::codec) fn expand(&mut self, frame: &[u8], length: usize) -> Option<&mut [u8]> {
        self.frame.clear();
        self.frame.extend_from_slice(&ZSTD_MAGIC);
        self.frame.extend_from_slice(frame);
        // DT-21: Zstandard writes into this buffer only, and stops with an error when it is full.
        self.content.resize(length, 0);
        let written = self.context.decompress_to_buffer(&self.frame, &mut self.content[..]).ok()?;
        (written == length).then_some(&mut self.content[..])
    }
}
