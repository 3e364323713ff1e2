//! The frames of forward erasure correction, `spec/fec.md`.

use core::fmt;
use core::iter::FusedIterator;
use core::ops::RangeInclusive;

use super::ack::{AckRanges, Below, Listed, further_ranges};
use super::decode::{FrameError, Frames, Parse};
use super::{Frame, kind};
use crate::cursor::{EncodeSink, one, two};
use crate::fec::Scheme;
use crate::{Reader, StreamId, Writer, varint};

/// A SYMBOL_ACK frame: source symbols that were recovered, its ranges checked: none goes below 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SymbolAck<'a> {
    /// The session whose symbols they are.
    pub session: u64,
    /// The largest SID among them.
    pub largest: u64,
    below: Below<'a>,
}

impl<'a> SymbolAck<'a> {
    /// The SIDs, newest first, in at most [`MAX_SYMBOL_RANGES`] ranges that do not touch.
    #[inline]
    pub fn ranges(&self) -> AckRanges<'a> {
        self.below.ranges(self.largest)
    }

    pub(super) fn parse(r: &mut Reader<'a>) -> Parse<Self> {
        let session = r.varint()?;
        let largest = r.varint()?;
        let below = Below::parse(r, largest)?;
        // FEC-61, error 4: no honest peer sends more (FEC-39), and each costs work.
        if below.further() >= MAX_SYMBOL_RANGES as u64 {
            return Err(FrameError::fec("more than 32 ranges"));
        }
        Ok(Self { session, largest, below })
    }

    pub(super) fn emit(&self, out: &mut impl EncodeSink) {
        out.varint(self.session);
        out.varint(self.largest);
        self.below.emit(out);
    }
}

impl fmt::Debug for SymbolAck<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SymbolAck")
            .field("session", &self.session)
            .field("ranges", &Listed(self.ranges()))
            .finish()
    }
}

/// The frames in a source symbol, received or recovered, in order. The first fault is the last item, with
/// FEC_ERROR for its code whatever it is.
#[derive(Clone, Debug)]
pub struct SymbolFrames<'a> {
    frames: Frames<'a>,
}

impl<'a> SymbolFrames<'a> {
    /// The frames in `symbol`.
    #[inline]
    pub const fn new(symbol: &'a [u8]) -> Self {
        Self { frames: Frames::new(symbol) }
    }
}

impl<'a> Iterator for SymbolFrames<'a> {
    type Item = Result<Frame<'a>, FrameError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let first = u64::from(*self.frames.peek().first()?);
        // FEC-13: a STREAM frame without a length would go on into the zeros that a symbol is padded with.
        let endless = matches!(first, kind::STREAM..=kind::STREAM_LAST) && first & kind::STREAM_LEN == 0;
        let mut item = self.frames.next();
        let why = match &item {
            Some(Ok(frame)) if frame.allowed_in_symbol() && !endless => None,
            Some(Ok(_)) => Some("a frame that a symbol cannot hold"),
            Some(Err(_)) => Some("a symbol that cannot be read"),
            None => None,
        };
        if let Some(why) = why {
            self.frames = Frames::new(&[]);
            item = Some(Err(FrameError { kind: kind::SOURCE_SYMBOL, ..FrameError::fec(why) }));
        }
        item
    }
}

impl FusedIterator for SymbolFrames<'_> {}

/// What the usual packet of a protected stream holds: one SOURCE_SYMBOL, which is one STREAM frame, and
/// PADDING.
///
/// It is what [`Frames`] and [`SymbolFrames`] would find one after the other, in one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoneSymbol<'a> {
    /// The session of the symbol.
    pub session: u64,
    /// Its number.
    pub sid: u64,
    /// All of it.
    pub symbol: &'a [u8],
    /// The stream.
    pub id: StreamId,
    /// Where the data begins in it.
    pub offset: u64,
    /// The stream ends with the data.
    pub fin: bool,
    /// The data.
    pub data: &'a [u8],
}

impl<'a> LoneSymbol<'a> {
    /// The type of the frame that it is.
    pub const KIND: u64 = kind::SOURCE_SYMBOL;

    /// Reads a payload; `None` when it holds anything else.
    #[inline]
    pub fn parse(payload: &'a [u8]) -> Option<Self> {
        let [0x7f, 0x60, rest @ ..] = payload else { return None };
        let mut r = Reader::new(rest);
        let (session, sid, symbol) = (r.varint().ok()?, r.varint().ok()?, r.varint_bytes().ok()?);
        let padding = r.rest();
        let mut r = Reader::new(symbol);
        // FEC-13: with a length.
        let first = r.u8().ok().filter(|first| matches!(first, 0x0a | 0x0b | 0x0e | 0x0f))?;
        let id = StreamId(r.varint().ok()?);
        let offset = if u64::from(first) & kind::STREAM_OFF != 0 { r.varint().ok()? } else { 0 };
        let data = r.varint_bytes().ok()?;
        let is_lone = r.is_empty() && padding.len() <= FEW && padding.iter().all(|&byte| byte == 0);
        let ends = offset + data.len() as u64 <= varint::MAX;
        let fin = u64::from(first) & kind::STREAM_FIN != 0;
        (is_lone && ends).then_some(Self { session, sid, symbol, id, offset, fin, data })
    }
}

/// Bytes of PADDING that are looked at once more for nothing when the packet turns out to be another one.
const FEW: usize = 64;

#[inline]
pub(super) fn source_symbol<'a>(r: &mut Reader<'a>) -> Parse<Frame<'a>> {
    let session = r.varint()?;
    let sid = r.varint()?;
    match r.varint_bytes()? {
        // FEC-61, error 1.
        [] => Err(FrameError::fec("a symbol of no bytes")),
        data => Ok(Frame::SourceSymbol { session, sid, data }),
    }
}

pub(super) fn repair<'a>(r: &mut Reader<'a>) -> Parse<Frame<'a>> {
    let session = r.varint()?;
    let first = r.varint()?;
    let count = r.varint()?;
    let parameter = r.varint()?;
    let index = r.varint()?;
    let data = r.varint_bytes()?;
    // FEC-61, errors 1 and 2: what can be seen on the frame alone. Sizes, and whether there is such a
    // session, depend on what was offered.
    if count == 0 || data.is_empty() {
        return Err(FrameError::fec("a repair of nothing"));
    }
    if Scheme::of(session).is_some_and(|scheme| scheme.last_sid(first, count, parameter).is_none()) {
        return Err(FrameError::fec("a repair beyond 2^62 - 1"));
    }
    Ok(Frame::Repair { session, first, count, parameter, index, data })
}

pub(super) fn unmarked<'a>(r: &mut Reader<'a>) -> Parse<Frame<'a>> {
    let (session, packets) = (r.varint()?, r.varint()?);
    // FEC-61, error 15.
    if packets == 0 {
        return Err(FrameError::fec("no packet with an unmarked symbol"));
    }
    Ok(Frame::Unmarked { session, packets })
}

/// Writes what stands before the frames of a SOURCE_SYMBOL, with a length of two bytes (below 2^14), and
/// returns where that stands: [`Writer::patch_varint2`] sets it when the frames are written.
#[inline]
pub fn source_symbol_header(w: &mut Writer<'_>, session: u64, sid: u64, len: usize) -> usize {
    // Nearly all sessions take one byte, and each packet of a protected stream has such a header.
    match w.ahead::<USUAL>() {
        Some(space) if session < 64 && sid <= varint::MAX && len < 1 << 14 => {
            let (number, size) = varint::encoded(sid);
            space[..3].copy_from_slice(&[KIND[0], KIND[1], one(session)]);
            space[3..11].copy_from_slice(&number);
            space[3 + size..][..2].copy_from_slice(&two(len as u64).to_be_bytes());
            w.space(5 + size);
            w.len() - 2
        }
        _ => unusual_source_symbol_header(w, session, sid, len),
    }
}

#[cold]
fn unusual_source_symbol_header(w: &mut Writer<'_>, session: u64, sid: u64, len: usize) -> usize {
    w.varint2(kind::SOURCE_SYMBOL);
    w.varint(session);
    w.varint(sid);
    let at = w.len();
    w.varint2(len as u64);
    at
}

/// That of a SOURCE_SYMBOL as a varint of two bytes.
const KIND: [u8; 2] = two(kind::SOURCE_SYMBOL).to_be_bytes();

/// Bytes of the header at most where the session takes one.
const USUAL: usize = 2 + 1 + 8 + 2;

/// The bytes that [`source_symbol_header`] writes.
#[inline]
pub const fn source_symbol_header_size(session: u64, sid: u64) -> usize {
    2 + varint::size(session) + varint::size(sid) + 2
}

/// What stands before the data of a REPAIR frame, but for the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairHeader {
    /// The session, and with it the scheme.
    pub session: u64,
    /// The least SID that is covered.
    pub first: u64,
    /// How many SIDs are covered, at least 1.
    pub count: u64,
    /// As the scheme says.
    pub parameter: u64,
    /// Which of the repairs over the same SIDs.
    pub index: u64,
}

/// Writes the header of a REPAIR frame with `len` bytes of repair data, which the caller writes behind it.
#[inline]
pub fn repair_header(w: &mut Writer<'_>, header: &RepairHeader, len: usize) {
    let RepairHeader { session, first, count, parameter, index } = *header;
    w.varint2(kind::REPAIR);
    for n in [session, first, count, parameter, index, len as u64] {
        w.varint(n);
    }
}

/// The bytes that [`repair_header`] writes.
#[inline]
pub const fn repair_header_size(header: &RepairHeader, len: usize) -> usize {
    2 + varint::size(header.session)
        + varint::size(header.first)
        + varint::size(header.count)
        + varint::size(header.parameter)
        + varint::size(header.index)
        + varint::size(len as u64)
}

/// Writes a SYMBOL_ACK with the first of `ranges`, as many as there is room for and may be told
/// ([`MAX_SYMBOL_RANGES`]), and returns how many; 0 when not even the first fits or there is none, and then
/// nothing is written.
///
/// # Panics
/// When the ranges do not come newest first, touch, or are empty: they are our own.
pub fn symbol_ack(
    w: &mut Writer<'_>,
    session: u64,
    ranges: impl IntoIterator<Item = RangeInclusive<u64>>,
) -> usize {
    let mut ranges = ranges.into_iter();
    let Some((smallest, largest)) = ranges.next().map(RangeInclusive::into_inner) else { return 0 };
    let first = largest.checked_sub(smallest).expect("a range of symbols is not empty");
    if w.room() < 2 + varint::size(session) + varint::size(largest) + 1 + varint::size(first) {
        return 0;
    }
    w.varint2(kind::SYMBOL_ACK);
    w.varint(session);
    w.varint(largest);
    let count_at = w.len();
    w.u8(0);
    w.varint(first);
    let further = further_ranges(w, ranges.take(MAX_SYMBOL_RANGES - 1), smallest, 0);
    w.patch_u8(count_at, one(further as u64));
    further + 1
}

/// Ranges in a SYMBOL_ACK at most, so that one fits beside an ACK and data.
pub const MAX_SYMBOL_RANGES: usize = 32;
