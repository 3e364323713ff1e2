//! A baseline JPEG whose headers never come off the wire.

use quickset_rfb::Rect;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::super::jpeg::JpegForm;
use super::super::tables;

/// Buffers of the decoder.
#[derive(Default)]
pub(super) struct JpegPainter {
    file: Vec<u8>,
    pixels: Vec<u8>,
}

impl JpegPainter {
    /// The pixels of a scan.
    pub(super) fn paint(
        &mut self,
        scan: &[u8],
        rect: Rect,
        form: JpegForm,
        out: &mut Vec<u32>,
    ) -> Option<()> {
        // DT-23: a marker inside could bring tables and dimensions of its own.
        let mut bytes = scan.iter().copied();
        while let Some(byte) = bytes.next() {
            if byte == 0xff && bytes.next() != Some(0) {
                return None;
            }
        }
        self.file.clear();
        tables::headers(rect.width(), rect.height(), form, &mut self.file);
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
