//! The frames of HTTP/3 (RFC 9114 §7), with PRIORITY_UPDATE (RFC 9218 §7) and the signal of WebTransport's
//! streams.
//!
//! In: the bytes of a stream in any cut, to a [`FrameReader`] that knows which stream it is. Out:
//! [`StreamItem`]s. Payload of DATA passes through in the pieces in which it came; other frames are whole,
//! and bounded.

mod reader;
mod settings;

use bytes::Bytes;
use quickset_wire::varint::size;

pub use reader::{FrameReader, StreamItem, StreamPlace};
pub use settings::Settings;

use crate::varint;

/// A frame whose payload is known as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// An encoded field section (§7.2.2).
    Headers(Bytes),
    /// A push is not wanted, or will not come (§7.2.3).
    CancelPush(u64),
    /// How the sender wants to be treated (§7.2.4).
    Settings(Settings),
    /// The first request, or push, that is not served (§7.2.6).
    GoAway(u64),
    /// The largest push id allowed (§7.2.7).
    MaxPushId(u64),
    /// Another priority for a request (RFC 9218 §7.2): its stream, and a Priority field value.
    PriorityUpdate(u64, Bytes),
    /// Another priority for a push: its id, and a Priority field value.
    PushPriorityUpdate(u64, Bytes),
}

impl Frame {
    /// Writes the frame behind what is in `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Headers(section) => payload(out, kind::HEADERS, section),
            Self::CancelPush(id) => number(out, kind::CANCEL_PUSH, *id),
            Self::Settings(settings) => {
                let mut bytes = Vec::new();
                settings.encode(&mut bytes);
                payload(out, kind::SETTINGS, &bytes);
            }
            Self::GoAway(id) => number(out, kind::GOAWAY, *id),
            Self::MaxPushId(id) => number(out, kind::MAX_PUSH_ID, *id),
            Self::PriorityUpdate(id, value) => update(out, kind::PRIORITY_UPDATE, *id, value),
            Self::PushPriorityUpdate(id, value) => update(out, kind::PUSH_PRIORITY_UPDATE, *id, value),
        }
    }
}

/// A HEADERS frame.
pub fn headers(section: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + size(section.len() as u64) + section.len());
    payload(&mut out, kind::HEADERS, section);
    out
}

/// The header of a DATA frame, which `len` bytes of payload must follow.
pub fn data_header(len: u64) -> Bytes {
    let mut out = Vec::with_capacity(1 + size(len));
    varint::put(&mut out, kind::DATA);
    varint::put(&mut out, len);
    out.into()
}

fn payload(out: &mut Vec<u8>, kind: u64, bytes: &[u8]) {
    varint::put(out, kind);
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn number(out: &mut Vec<u8>, kind: u64, value: u64) {
    let mut bytes = Vec::new();
    varint::put(&mut bytes, value);
    payload(out, kind, &bytes);
}

fn update(out: &mut Vec<u8>, kind: u64, id: u64, value: &[u8]) {
    let mut bytes = Vec::new();
    varint::put(&mut bytes, id);
    bytes.extend_from_slice(value);
    payload(out, kind, &bytes);
}

/// Frame types.
pub(crate) mod kind {
    pub(crate) const DATA: u64 = 0x00;
    pub(crate) const HEADERS: u64 = 0x01;
    pub(crate) const CANCEL_PUSH: u64 = 0x03;
    pub(crate) const SETTINGS: u64 = 0x04;
    pub(crate) const PUSH_PROMISE: u64 = 0x05;
    pub(crate) const GOAWAY: u64 = 0x07;
    pub(crate) const MAX_PUSH_ID: u64 = 0x0d;
    /// The first bytes of a bidirectional stream of WebTransport; no frame.
    pub(crate) const WT_STREAM: u64 = 0x41;
    pub(crate) const PRIORITY_UPDATE: u64 = 0xf_0700;
    pub(crate) const PUSH_PRIORITY_UPDATE: u64 = 0xf_0701;
}

/// Types of unidirectional streams (RFC 9114 §6.2, RFC 9204 §4.2).
pub(crate) mod stream {
    pub(crate) const CONTROL: u64 = 0x00;
    pub(crate) const PUSH: u64 = 0x01;
    pub(crate) const QPACK_ENCODER: u64 = 0x02;
    pub(crate) const QPACK_DECODER: u64 = 0x03;
    pub(crate) const WEBTRANSPORT: u64 = 0x54;
}

/// Whether `number` is one of those that stand for nothing and exercise that unknown ones are ignored
/// (RFC 9114 §7.2.8).
pub const fn is_grease(number: u64) -> bool {
    number >= 0x21 && (number - 0x21) % 0x1f == 0
}

/// The `n`th of the numbers that stand for nothing.
pub const fn grease(n: u64) -> u64 {
    0x21 + 0x1f * n
}

#[cfg(test)]
mod tests;
