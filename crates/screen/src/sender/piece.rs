//! Pixels as items of about the size of the room that a message has left.

use quickset_rfb::{Framebuffer, Rect};

use super::config::SenderConfig;
use super::cut::{self, CellSizes};
use crate::codec::{ItemKind, PieceRoom, PixelLoss, RectangleEncoder};

/// Cuts rectangles and encodes them.
#[derive(Debug)]
pub(super) struct PieceMaker {
    encoder: RectangleEncoder,
    sizes: CellSizes,
    /// What was encoded in vain, since it was too long.
    retries: u64,
}

impl PieceMaker {
    pub(super) fn new(config: &SenderConfig) -> Self {
        let encoder = RectangleEncoder::new(config.quality.most(), config.adaptive);
        Self {
            encoder: encoder.with_full_colour(config.full_colour),
            sizes: CellSizes::new(config.adaptive),
            retries: 0,
        }
    }

    /// The screen has another size.
    pub(super) fn resize(&mut self, width: u16, height: u16) {
        self.sizes.resize(width, height);
    }

    /// What follows has this quality of JPEG, 1 to 100.
    pub(super) fn set_quality(&mut self, quality: u8) {
        self.encoder.set_quality(quality);
    }

    /// See [`CellSizes::cut`].
    pub(super) fn cut(&self, rect: Rect, room: usize, loss: PixelLoss) -> Rect {
        self.sizes.cut(rect, room, loss)
    }

    /// See [`CellSizes::around`].
    pub(super) fn around(&self, x: u16, y: u16, bytes: usize, bounds: Rect) -> Rect {
        self.sizes.around(x, y, bytes, bounds)
    }

    /// How often something was encoded in vain.
    pub(super) fn retries(&self) -> u64 {
        self.retries
    }

    /// The item that paints `piece`, which lies on the screen, or a part of it at its upper left: as much as
    /// there is room for. `budget` is how long it is likely to be.
    pub(super) fn make(
        &mut self,
        screen: &Framebuffer,
        mut piece: Rect,
        loss: PixelLoss,
        room: PieceRoom,
        budget: usize,
    ) -> (ItemKind, Rect, Vec<u8>) {
        let mut bytes = Vec::with_capacity(budget);
        let (kind, piece) = loop {
            bytes.clear();
            let found = self.encoder.encode(screen, piece, loss, room, &mut bytes);
            match found.expect("what is dirty lies inside the screen") {
                Some((kind, done)) if bytes.len() <= room.most => break (kind, done),
                _ => {}
            }
            // Of some codecs it is not known how much too long it is.
            let length = if bytes.is_empty() { 2 * room.most } else { bytes.len() };
            self.sizes.learn(piece, length, loss, None);
            self.retries += 1;
            piece = cut::half(piece);
        };
        self.sizes.learn(piece, bytes.len(), loss, Some(kind == ItemKind::Jpeg));
        (kind, piece, bytes)
    }
}
