use quickset_wire as wire;
use quickset_wire::frame::Frame;

use crate::token::Token;

/// The payload of one packet while it is being filled: bytes, and the tokens that say what they are.
///
/// Rooms ask for [`room`](Self::room), write whole frames and record one [`Token`] for each frame
/// that must be known lost or acknowledged. A frame that does not fit is not written at all.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    bytes: wire::Writer<'a>,
    tokens: &'a mut Vec<Token>,
    eliciting: bool,
}

impl<'a> Writer<'a> {
    /// Fills `bytes`, recording tokens behind those already in `tokens`.
    pub(crate) fn new(bytes: wire::Writer<'a>, tokens: &'a mut Vec<Token>) -> Self {
        Self { bytes, tokens, eliciting: false }
    }

    /// Bytes that still fit.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.bytes.room()
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
    pub(crate) fn put(&mut self, frame: &Frame<'_>, token: Token) -> bool {
        if frame.size() > self.room() {
            return false;
        }
        frame.encode(&mut self.bytes);
        self.eliciting |= frame.is_ack_eliciting();
        if token != Token::Nothing {
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
    pub(crate) fn record(&mut self, token: Token, eliciting: bool) {
        self.eliciting |= eliciting;
        self.tokens.push(token);
    }
}
