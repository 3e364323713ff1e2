use super::{Frame, kind};
use crate::cursor::{ByteCount, EncodeSink, one};
use crate::{StreamId, Writer, varint};

impl Frame<'_> {
    /// Writes the frame: [`size`](Self::size) bytes, with a length wherever one may stand.
    ///
    /// # Panics
    /// When there is no room, or a number is above 2^62 - 1.
    pub fn encode(&self, w: &mut Writer<'_>) {
        self.emit(w);
    }

    /// The bytes that [`encode`](Self::encode) writes.
    pub fn size(&self) -> usize {
        let mut count = ByteCount(0);
        self.emit(&mut count);
        count.0
    }

    fn emit(&self, out: &mut impl EncodeSink) {
        // A run of PADDING is as many frames, each its own type.
        if !matches!(self, Self::Padding(_)) {
            out.varint(self.kind());
        }
        match *self {
            Self::Padding(n) => out.zeros(n),
            Self::Ping | Self::HandshakeDone | Self::ImmediateAck => {}
            Self::Ack(ref ack) => ack.emit(out),
            Self::ResetStream { id, code, final_size } => numbers(out, [id.0, code, final_size]),
            Self::ResetStreamAt { id, code, final_size, reliable_size } => {
                numbers(out, [id.0, code, final_size, reliable_size]);
            }
            Self::StopSending { id, code } => numbers(out, [id.0, code]),
            Self::Crypto { offset, data } => {
                out.varint(offset);
                out.varint_bytes(data);
            }
            Self::NewToken { token } => out.varint_bytes(token),
            Self::Datagram { len: true, data } => out.varint_bytes(data),
            Self::Datagram { len: false, data } => out.bytes(data),
            Self::Stream { id, offset, data, .. } => {
                out.varint(id.0);
                if offset > 0 {
                    out.varint(offset);
                }
                out.varint_bytes(data);
            }
            Self::MaxStreamData { id, max: n } | Self::StreamDataBlocked { id, limit: n } => {
                numbers(out, [id.0, n]);
            }
            Self::MaxData(n)
            | Self::DataBlocked(n)
            | Self::MaxStreams { max: n, .. }
            | Self::StreamsBlocked { limit: n, .. }
            | Self::RetireConnectionId { sequence: n } => out.varint(n),
            Self::NewConnectionId { sequence, retire_prior_to, id, token } => {
                numbers(out, [sequence, retire_prior_to]);
                out.bytes(&[id.len_byte()]);
                out.bytes(&id);
                out.bytes(&token.0);
            }
            Self::PathChallenge(data) | Self::PathResponse(data) => out.bytes(&data),
            Self::ConnectionClose { code, frame_type, reason } => {
                numbers(out, [code.0, frame_type]);
                out.varint_bytes(reason);
            }
            Self::ApplicationClose { code, reason } => {
                out.varint(code);
                out.varint_bytes(reason);
            }
            Self::Fenced { id, offset, distance, data, .. } => {
                numbers(out, [id.0, offset, distance]);
                out.varint_bytes(data);
            }
            Self::Abandon { id, offset, len } => numbers(out, [id.0, offset, len]),
            Self::AckFrequency { sequence, threshold, max_delay_us, reordering } => {
                numbers(out, [sequence, threshold, max_delay_us, reordering]);
            }
            Self::SourceSymbol { session, sid, data } => {
                numbers(out, [session, sid]);
                out.varint_bytes(data);
            }
            Self::Repair { session, first, count, parameter, index, data } => {
                numbers(out, [session, first, count, parameter, index]);
                out.varint_bytes(data);
            }
            Self::SymbolAck(ref ack) => ack.emit(out),
            Self::FecWindow { epoch: a, window: b } | Self::Unmarked { session: a, packets: b } => {
                numbers(out, [a, b]);
            }
        }
    }
}

fn numbers<const N: usize>(out: &mut impl EncodeSink, numbers: [u64; N]) {
    for n in numbers {
        out.varint(n);
    }
}

/// Writes what stands before the data of a STREAM frame; the caller writes the data behind it.
///
/// `len` is the number of data bytes; `None` leaves it out, and then the data goes to the end of the packet.
#[inline]
pub fn stream_header(w: &mut Writer<'_>, id: StreamId, offset: u64, fin: bool, len: Option<usize>) {
    w.u8(one(stream_kind(offset, fin, len.is_some())));
    w.varint(id.0);
    if offset > 0 {
        w.varint(offset);
    }
    if let Some(len) = len {
        w.varint(len as u64);
    }
}

/// The bytes that [`stream_header`] writes.
#[inline]
pub const fn stream_header_size(id: StreamId, offset: u64, len: Option<usize>) -> usize {
    let offset_size = if offset > 0 { varint::size(offset) } else { 0 };
    let len_size = match len {
        Some(len) => varint::size(len as u64),
        None => 0,
    };
    1 + varint::size(id.0) + offset_size + len_size
}

/// Writes what stands before the data of a CRYPTO frame, `len` bytes of it.
#[inline]
pub fn crypto_header(w: &mut Writer<'_>, offset: u64, len: usize) {
    w.u8(one(kind::CRYPTO));
    w.varint(offset);
    w.varint(len as u64);
}

/// The bytes that [`crypto_header`] writes.
#[inline]
pub const fn crypto_header_size(offset: u64, len: usize) -> usize {
    1 + varint::size(offset) + varint::size(len as u64)
}

/// Writes what stands before the data of a DATAGRAM frame, `len` bytes of it.
#[inline]
pub fn datagram_header(w: &mut Writer<'_>, len: usize) {
    w.u8(one(kind::DATAGRAM | kind::DATAGRAM_LEN));
    w.varint(len as u64);
}

/// The bytes that [`datagram_header`] writes.
#[inline]
pub const fn datagram_header_size(len: usize) -> usize {
    1 + varint::size(len as u64)
}

/// What stands before the data of a FENCED frame, but for the length; see [`Frame::Fenced`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FencedHeader {
    /// The stream.
    pub id: StreamId,
    /// Where the data lies in the stream.
    pub offset: u64,
    /// How far below `offset` the last fence lies.
    pub distance: u64,
    /// The data begins at a record boundary.
    pub start: bool,
    /// Every record boundary inside the data is a fence.
    pub each: bool,
    /// The stream ends with the data.
    pub fin: bool,
}

/// Writes the header of a FENCED frame with `len` bytes of data, which the caller writes behind it.
#[inline]
pub fn fenced_header(w: &mut Writer<'_>, header: &FencedHeader, len: usize) {
    let FencedHeader { id, offset, distance, start, each, fin } = *header;
    w.varint2(fenced_kind(start, each, fin));
    w.varint(id.0);
    w.varint(offset);
    w.varint(distance);
    w.varint(len as u64);
}

/// The bytes that [`fenced_header`] writes.
#[inline]
pub const fn fenced_header_size(header: &FencedHeader, len: usize) -> usize {
    2 + varint::size(header.id.0)
        + varint::size(header.offset)
        + varint::size(header.distance)
        + varint::size(len as u64)
}

#[inline]
pub(super) const fn stream_kind(offset: u64, fin: bool, len: bool) -> u64 {
    kind::STREAM
        | flag(fin, kind::STREAM_FIN)
        | flag(len, kind::STREAM_LEN)
        | flag(offset > 0, kind::STREAM_OFF)
}

#[inline]
pub(super) const fn fenced_kind(start: bool, each: bool, fin: bool) -> u64 {
    kind::FENCED
        | flag(fin, kind::FENCED_FIN)
        | flag(start, kind::FENCED_START)
        | flag(each, kind::FENCED_EACH)
}

#[inline]
const fn flag(set: bool, bit: u64) -> u64 {
    if set { bit } else { 0 }
}
