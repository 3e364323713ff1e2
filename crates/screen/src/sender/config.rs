use quickset_base::Duration;

use super::JpegQuality;
use crate::message::ScreenOrder;

/// How to send a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// How messages may overtake each other.
    pub order: ScreenOrder,
    /// The longest message, in bytes, so that it fits one packet; at least 1000, at most 16384.
    pub budget: usize,
    /// Between which qualities of JPEG it may choose, as the link is
    /// ([`ScreenSender::set_link`](super::ScreenSender::set_link)).
    pub quality: JpegQuality,
    /// How long an area rests before it is sent without loss.
    pub rest: Duration,
    /// The largest shadow, in bytes; four a pixel.
    pub max_bytes: usize,
    /// The client takes adaptive codes, which most text is shortest in:
    /// [`ADAPTIVE`](crate::message::ADAPTIVE).
    pub adaptive: bool,
    /// The client takes pixels of a part of a cell, in the order latest:
    /// [`PATCHES`](crate::message::PATCHES).
    pub patches: bool,
    /// The client takes JPEG with colours at full resolution:
    /// [`FULL_COLOUR`](crate::message::FULL_COLOUR).
    pub full_colour: bool,
}

impl Default for SenderConfig {
    /// Fenced; messages of 1150 bytes; quality 30 to 90; lossless after 300 ms; up to 256 MiB; for any
    /// client.
    fn default() -> Self {
        Self {
            order: ScreenOrder::Fenced,
            budget: 1150,
            quality: JpegQuality::default(),
            rest: Duration::from_millis(300),
            max_bytes: 256 << 20,
            adaptive: false,
            patches: false,
            full_colour: false,
        }
    }
}
