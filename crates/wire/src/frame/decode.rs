use core::iter::FusedIterator;

use super::{Ack, Frame, MAX_STREAMS, SymbolAck, fec, kind};
use crate::{ConnectionId, Dir, Reader, ResetToken, StreamId, TransportErrorCode, Truncated, varint};

/// Why a payload cannot be read any further, as CONNECTION_CLOSE will tell the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("frame {kind:#x}: {why} ({code})")]
pub struct FrameError {
    /// The type of the frame at fault; 0 when even that is cut short.
    pub kind: u64,
    /// The error code to close with.
    pub code: TransportErrorCode,
    /// The fault in words.
    pub why: &'static str,
}

/// The frames of a packet's payload, in order. The first fault is the last item.
///
/// A payload of no bytes has no frames; that it is an error (RFC 9000 §12.4) is for the caller to say.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    reader: Reader<'a>,
}

impl<'a> Frames<'a> {
    /// The frames in `payload`.
    #[inline]
    pub const fn new(payload: &'a [u8]) -> Self {
        Self { reader: Reader::new(payload) }
    }

    /// Bytes of the payload behind the frames taken so far; 0 after a fault.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.reader.remaining()
    }

    /// The bytes of those frames.
    #[inline]
    pub(super) const fn peek(&self) -> &'a [u8] {
        self.reader.peek()
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, FrameError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // Most packets are one frame of data, or one symbol with one; everything else is out of line. Frames
        // are built where they are wanted and faults completed there: moving 80 bytes costs more than parsing
        // them.
        let mut kind = 0;
        let mut item = match *self.reader.peek() {
            [] => None,
            [first @ 0x08..=0x0f, ..] => {
                self.reader.skip(1);
                kind = u64::from(first);
                Some(stream(kind, &mut self.reader))
            }
            [0x7f, second @ 0x50..=0x57, ..] => {
                self.reader.skip(2);
                kind = 0x3f00 | u64::from(second);
                Some(fenced(kind, &mut self.reader))
            }
            [0x7f, 0x60, ..] => {
                self.reader.skip(2);
                kind = kind::SOURCE_SYMBOL;
                Some(fec::source_symbol(&mut self.reader))
            }
            [0x00, ..] => {
                self.reader.skip(1);
                Some(Ok(Frame::Padding(1 + padding(&mut self.reader))))
            }
            _ => Some(other(&mut self.reader, &mut kind)),
        };
        if let Some(Err(fault)) = &mut item {
            fault.kind = kind;
            self.reader = Reader::new(&[]);
        }
        item
    }
}

impl FusedIterator for Frames<'_> {}

pub(super) type Parse<T> = Result<T, FrameError>;

impl FrameError {
    pub(super) const fn encoding(why: &'static str) -> Self {
        Self { kind: 0, code: TransportErrorCode::FRAME_ENCODING_ERROR, why }
    }

    const fn fence(why: &'static str) -> Self {
        Self { kind: 0, code: TransportErrorCode::FENCE_ERROR, why }
    }

    pub(super) const fn fec(why: &'static str) -> Self {
        Self { kind: 0, code: TransportErrorCode::FEC_ERROR, why }
    }
}

/// A frame cut short by the end of the packet; its type is for the caller to fill in.
impl From<Truncated> for FrameError {
    #[cold]
    fn from(_: Truncated) -> Self {
        Self::encoding("cut short by the end of the packet")
    }
}

#[inline(never)]
fn other<'a>(r: &mut Reader<'a>, kind: &mut u64) -> Parse<Frame<'a>> {
    let before = r.remaining();
    *kind = r.varint()?;
    // RFC 9000 §12.4: types come in their shortest form; we use the permission to refuse others.
    if before - r.remaining() != varint::size(*kind) && is_known(*kind) {
        let code = TransportErrorCode::PROTOCOL_VIOLATION;
        return Err(FrameError { kind: *kind, code, why: "a frame type that is longer than it need be" });
    }
    body(*kind, r)
}

const fn is_known(kind: u64) -> bool {
    matches!(
        kind,
        kind::PADDING..=kind::IMMEDIATE_ACK
            | kind::RESET_STREAM_AT
            | kind::DATAGRAM..=kind::DATAGRAM_LAST
            | kind::ACK_FREQUENCY
            | kind::FENCED..=kind::ABANDON
            | kind::SOURCE_SYMBOL..=kind::UNMARKED
    )
}

#[inline]
fn body<'a>(kind: u64, r: &mut Reader<'a>) -> Parse<Frame<'a>> {
    Ok(match kind {
        kind::PADDING => Frame::Padding(1 + padding(r)),
        kind::PING => Frame::Ping,
        kind::ACK | kind::ACK_ECN => Frame::Ack(Ack::parse(r, kind == kind::ACK_ECN)?),
        kind::RESET_STREAM => {
            Frame::ResetStream { id: StreamId(r.varint()?), code: r.varint()?, final_size: r.varint()? }
        }
        kind::RESET_STREAM_AT => {
            let (id, code) = (StreamId(r.varint()?), r.varint()?);
            let (final_size, reliable_size) = (r.varint()?, r.varint()?);
            // draft-ietf-quic-reliable-stream-reset §4.
            if reliable_size > final_size {
                return Err(FrameError::encoding("a reliable size above the final size"));
            }
            Frame::ResetStreamAt { id, code, final_size, reliable_size }
        }
        kind::STOP_SENDING => Frame::StopSending { id: StreamId(r.varint()?), code: r.varint()? },
        kind::CRYPTO => {
            let (offset, data) = (r.varint()?, r.varint_bytes()?);
            within(offset, data.len() as u64)?;
            Frame::Crypto { offset, data }
        }
        kind::NEW_TOKEN => match r.varint_bytes()? {
            // RFC 9000 §19.7.
            [] => return Err(FrameError::encoding("an empty token")),
            token => Frame::NewToken { token },
        },
        kind::STREAM..=kind::STREAM_LAST => stream(kind, r)?,
        kind::MAX_DATA => Frame::MaxData(r.varint()?),
        kind::MAX_STREAM_DATA => Frame::MaxStreamData { id: StreamId(r.varint()?), max: r.varint()? },
        kind::MAX_STREAMS => Frame::MaxStreams { dir: Dir::Bi, max: streams(r)? },
        kind::MAX_STREAMS_UNI => Frame::MaxStreams { dir: Dir::Uni, max: streams(r)? },
        kind::DATA_BLOCKED => Frame::DataBlocked(r.varint()?),
        kind::STREAM_DATA_BLOCKED => {
            Frame::StreamDataBlocked { id: StreamId(r.varint()?), limit: r.varint()? }
        }
        kind::STREAMS_BLOCKED => Frame::StreamsBlocked { dir: Dir::Bi, limit: streams(r)? },
        kind::STREAMS_BLOCKED_UNI => Frame::StreamsBlocked { dir: Dir::Uni, limit: streams(r)? },
        kind::NEW_CONNECTION_ID => new_connection_id(r)?,
        kind::RETIRE_CONNECTION_ID => Frame::RetireConnectionId { sequence: r.varint()? },
        kind::PATH_CHALLENGE => Frame::PathChallenge(r.array()?),
        kind::PATH_RESPONSE => Frame::PathResponse(r.array()?),
        kind::CONNECTION_CLOSE => Frame::ConnectionClose {
            code: TransportErrorCode(r.varint()?),
            frame_type: r.varint()?,
            reason: r.varint_bytes()?,
        },
        kind::APPLICATION_CLOSE => Frame::ApplicationClose { code: r.varint()?, reason: r.varint_bytes()? },
        kind::HANDSHAKE_DONE => Frame::HandshakeDone,
        // RFC 9221 §4: without a length to the end of the packet.
        kind::DATAGRAM => Frame::Datagram { len: false, data: r.rest() },
        kind::DATAGRAM_LAST => Frame::Datagram { len: true, data: r.varint_bytes()? },
        kind::IMMEDIATE_ACK => Frame::ImmediateAck,
        kind::ACK_FREQUENCY => Frame::AckFrequency {
            sequence: r.varint()?,
            threshold: r.varint()?,
            max_delay_us: r.varint()?,
            reordering: r.varint()?,
        },
        kind::FENCED..=kind::FENCED_LAST => fenced(kind, r)?,
        kind::ABANDON => abandon(r)?,
        kind::SOURCE_SYMBOL => fec::source_symbol(r)?,
        kind::REPAIR => fec::repair(r)?,
        kind::SYMBOL_ACK => Frame::SymbolAck(SymbolAck::parse(r)?),
        kind::FEC_WINDOW => Frame::FecWindow { epoch: r.varint()?, window: r.varint()? },
        kind::UNMARKED => fec::unmarked(r)?,
        // RFC 9000 §12.4.
        _ => return Err(FrameError::encoding("an unknown frame type")),
    })
}

/// Takes the zeros at the front and tells how many: they are PADDING, a whole datagram of it in an Initial.
fn padding(r: &mut Reader<'_>) -> usize {
    let rest = r.peek();
    // Sixteen at a time: a client's first Initial is mostly padding.
    let blocks = rest.chunks_exact(16).take_while(|block| **block == [0; 16]).count() * 16;
    let zeros = blocks + rest[blocks..].iter().take_while(|b| **b == 0).count();
    // As many as were counted are there.
    r.bytes(zeros).map_or(0, <[u8]>::len)
}

#[inline]
fn stream<'a>(kind: u64, r: &mut Reader<'a>) -> Parse<Frame<'a>> {
    let id = StreamId(r.varint()?);
    let offset = if kind & kind::STREAM_OFF == 0 { 0 } else { r.varint()? };
    let data = if kind & kind::STREAM_LEN == 0 { r.rest() } else { r.varint_bytes()? };
    within(offset, data.len() as u64)?;
    Ok(Frame::Stream { id, offset, fin: kind & kind::STREAM_FIN != 0, data })
}

fn new_connection_id<'a>(r: &mut Reader<'a>) -> Parse<Frame<'a>> {
    let sequence = r.varint()?;
    let retire_prior_to = r.varint()?;
    if retire_prior_to > sequence {
        return Err(FrameError::encoding("retires the id that it brings"));
    }
    let len = r.u8()? as usize;
    // RFC 9000 §19.15: 1 to 20 bytes; the length comes first, so that a wrong one is told apart from a cut.
    if !(1..=ConnectionId::MAX).contains(&len) {
        return Err(FrameError::encoding("a connection id of no or more than 20 bytes"));
    }
    let id = ConnectionId::new(r.bytes(len)?).unwrap_or_default();
    Ok(Frame::NewConnectionId { sequence, retire_prior_to, id, token: ResetToken(r.array()?) })
}

#[inline]
fn fenced<'a>(kind: u64, r: &mut Reader<'a>) -> Parse<Frame<'a>> {
    let id = StreamId(r.varint()?);
    let offset = r.varint()?;
    let distance = r.varint()?;
    let data = r.varint_bytes()?;
    within(offset, data.len() as u64)?;
    let start = kind & kind::FENCED_START != 0;
    let each = kind & kind::FENCED_EACH != 0;
    // FS-62, errors 1 to 3: what can be seen on the frame alone. The rest needs the stream.
    if distance > offset {
        return Err(FrameError::fence("a fence before the stream"));
    }
    if start && data.is_empty() {
        return Err(FrameError::fence("START without data"));
    }
    if each && !start {
        return Err(FrameError::fence("EACH without START"));
    }
    Ok(Frame::Fenced { id, offset, distance, start, each, fin: kind & kind::FENCED_FIN != 0, data })
}

fn abandon<'a>(r: &mut Reader<'a>) -> Parse<Frame<'a>> {
    let id = StreamId(r.varint()?);
    let offset = r.varint()?;
    let len = r.varint()?;
    within(offset, len)?;
    if len == 0 {
        return Err(FrameError::fence("abandons nothing"));
    }
    Ok(Frame::Abandon { id, offset, len })
}

/// A stream has at most 2^62 - 1 bytes (RFC 9000 §19.6, §19.8; FS-9).
#[inline]
fn within(offset: u64, len: u64) -> Parse<()> {
    if offset + len > varint::MAX {
        return Err(FrameError::encoding("data beyond 2^62 - 1"));
    }
    Ok(())
}

fn streams(r: &mut Reader<'_>) -> Parse<u64> {
    match r.varint()? {
        n @ 0..=MAX_STREAMS => Ok(n),
        // RFC 9000 §19.11, §19.14.
        _ => Err(FrameError::encoding("more than 2^60 streams")),
    }
}
