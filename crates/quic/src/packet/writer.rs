use quickset_base::number::within_u16;
use quickset_wire as wire;
use quickset_wire::StreamId;
use quickset_wire::frame::{Frame, source_symbol_header, source_symbol_header_size};

use super::{FrameToken, StreamKey};

/// The payload of one packet while it is being filled: bytes, and the tokens that say what they are.
///
/// Rooms ask for [`room`](Self::room), write whole frames and record one [`FrameToken`] for each frame
/// that must be known lost or acknowledged. A frame that does not fit is not written at all.
#[derive(Debug)]
pub(crate) struct PacketWriter<'a> {
    bytes: wire::Writer<'a>,
    tokens: &'a mut Vec<FrameToken>,
    eliciting: bool,
    /// The number of the packet.
    number: u64,
    /// Bytes at the end that may not be used now.
    reserved: usize,
    /// A symbol is being written, whose data need not be copied.
    shares: bool,
    /// Its last STREAM frame.
    shared: Option<StreamFrame>,
    head: SymbolHead,
}

/// A source symbol that is being written.
#[derive(Debug)]
pub(crate) struct WrittenSymbol {
    session: u32,
    sid: u64,
    begin: usize,
    token: usize,
    was_eliciting: bool,
}

/// The header of the symbol that is being written.
#[derive(Clone, Copy, Debug)]
enum SymbolHead {
    /// It is written, with its length at this place.
    At(usize),
    /// It is left out if the symbol is one STREAM frame; if not, there are so many bytes for what comes
    /// behind it.
    Open { session: u32, sid: u64, limit: usize },
}

/// A source symbol that was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed<'a> {
    pub(crate) bytes: &'a [u8],
    /// The number of the packet that it is in.
    pub(crate) packet: u64,
    /// It has no header.
    pub(crate) unmarked: bool,
    /// It is this STREAM frame. By reference: what is moved is read back before it has been written.
    pub(crate) frame: Option<&'a StreamFrame>,
}

/// A STREAM frame with a length and without FIN, whose data lies in one piece of the stream's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamFrame {
    pub(crate) key: StreamKey,
    pub(crate) id: StreamId,
    pub(crate) offset: u64,
    pub(crate) len: u32,
    /// The offset of the piece.
    pub(crate) piece: u64,
}

impl<'a> PacketWriter<'a> {
    /// Fills `bytes`, recording tokens behind those already in `tokens`.
    pub(crate) fn new(bytes: wire::Writer<'a>, tokens: &'a mut Vec<FrameToken>) -> Self {
        Self {
            bytes,
            tokens,
            eliciting: false,
            number: 0,
            reserved: 0,
            shares: false,
            shared: None,
            head: SymbolHead::At(0),
        }
    }

    /// Says which packet it is.
    pub(crate) fn numbered(mut self, number: u64) -> Self {
        self.number = number;
        self
    }

    /// The number of the packet.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Begins a source symbol: the frames written until [`end_symbol`](Self::end_symbol) are its own, of at
    /// most `limit` bytes. `None` when there is no room. One that may be `unmarked` has no header if it is a
    /// STREAM frame, and then nothing but that.
    #[inline]
    pub(crate) fn begin_symbol(
        &mut self,
        session: u32,
        sid: u64,
        limit: usize,
        unmarked: bool,
    ) -> Option<WrittenSymbol> {
        let header = source_symbol_header_size(session.into(), sid);
        if self.room() <= header {
            return None;
        }
        let (begin, token, was_eliciting) = (self.len(), self.tokens.len(), self.eliciting);
        // FEC-66: the first of the packet. STREAM frames are what streams and their messages are sent as.
        let is_stream =
            |token: &FrameToken| matches!(token, FrameToken::Stream { .. } | FrameToken::Fenced { .. });
        self.head = if unmarked && !self.tokens.iter().any(is_stream) {
            SymbolHead::Open { session, sid, limit }
        } else {
            SymbolHead::At(source_symbol_header(&mut self.bytes, session.into(), sid, 0))
        };
        self.tokens.push(FrameToken::Symbol { session, sid, n: 0 });
        self.reserved = self.bytes.room().saturating_sub(limit);
        (self.shares, self.shared) = (true, None);
        Some(WrittenSymbol { session, sid, begin, token, was_eliciting })
    }

    /// What comes is no STREAM frame, or may be more than one: a symbol that has no header yet needs it.
    #[inline]
    pub(crate) fn mark(&mut self) {
        if let SymbolHead::Open { session, sid, limit } = self.head {
            // Behind a frame there is no room.
            if self.room() > source_symbol_header_size(session.into(), sid) {
                self.head = SymbolHead::At(source_symbol_header(&mut self.bytes, session.into(), sid, 0));
                self.reserved = self.bytes.room().saturating_sub(limit);
            } else {
                self.reserved = usize::MAX;
            }
        }
    }

    /// Ends it. `None` when nothing was written, and it is none.
    #[inline]
    pub(crate) fn end_symbol(&mut self, symbol: &WrittenSymbol) -> Option<Packed<'_>> {
        let WrittenSymbol { session, sid, begin, token, was_eliciting } = *symbol;
        self.reserved = 0;
        self.shares = false;
        let (data, length_at) = match std::mem::replace(&mut self.head, SymbolHead::At(0)) {
            SymbolHead::At(length_at) => (length_at + 2, Some(length_at)),
            SymbolHead::Open { .. } => (begin, None),
        };
        if self.len() == data {
            self.bytes.truncate(begin);
            self.tokens.truncate(token);
            self.eliciting = was_eliciting;
            return None;
        }
        let len = self.len() - data;
        if let Some(length_at) = length_at {
            self.bytes.patch_varint2(length_at, len as u64);
        }
        self.tokens[token] =
            FrameToken::Symbol { session, sid, n: within_u16((self.tokens.len() - token - 1) as u64) };
        self.eliciting = true;
        // With another frame beside it the data is not the end of the symbol, or not all of it.
        let frame = self.shared.as_ref().filter(|_| self.tokens.len() == token + 2);
        let unmarked = length_at.is_none();
        debug_assert!(!unmarked || matches!(self.tokens[token + 1..], [FrameToken::Stream { .. }]));
        Some(Packed { bytes: &self.bytes.written()[data..], packet: self.number, unmarked, frame })
    }

    /// Whoever writes data that is kept elsewhere may [`share`](Self::share) it.
    #[inline]
    pub(crate) fn shares(&self) -> bool {
        self.shares
    }

    /// The STREAM frame that is being written.
    #[inline]
    pub(crate) fn share(&mut self, frame: StreamFrame) {
        self.shared = Some(frame);
    }

    /// Whether the last frame is of a message or a datagram, which are as long as their application made
    /// them.
    pub(crate) fn ends_in_message(&self) -> bool {
        matches!(self.tokens.last(), Some(FrameToken::Fenced { .. } | FrameToken::Datagram { .. }))
    }

    /// Bytes that still fit.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.bytes.room().saturating_sub(self.reserved)
    }

    /// Bytes written.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True when something that the peer must acknowledge was written (RFC 9002 §2).
    pub(crate) fn is_eliciting(&self) -> bool {
        self.eliciting
    }

    /// Writes `frame` and records `token`; false, with nothing written, when there is no room.
    pub(crate) fn put(&mut self, frame: &Frame<'_>, token: FrameToken) -> bool {
        if frame.size() > self.room() {
            return false;
        }
        frame.encode(&mut self.bytes);
        self.eliciting |= frame.is_ack_eliciting();
        if token != FrameToken::Nothing {
            self.tokens.push(token);
        }
        true
    }

    /// The raw bytes, for frames that are written piece by piece. The caller has seen to the room and
    /// calls [`record`](Self::record) afterwards.
    #[inline]
    pub(crate) fn bytes(&mut self) -> &mut wire::Writer<'a> {
        &mut self.bytes
    }

    /// Records a frame written by [`bytes`](Self::bytes).
    #[inline]
    pub(crate) fn record(&mut self, token: FrameToken, eliciting: bool) {
        self.eliciting |= eliciting;
        self.tokens.push(token);
        if let SymbolHead::Open { .. } = self.head {
            self.reserved = usize::MAX;
        }
    }
}
