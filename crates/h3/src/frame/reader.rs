use bytes::{Buf as _, Bytes};
use quickset_base::number::Unsigned as _;
use quickset_wire::{Reader, Side};

use super::{Frame, Settings, kind};
use crate::idle::Idle;
use crate::varint::VarintPieces;
use crate::{Error, ErrorCode};

/// Takes the frames of one stream apart, in whatever pieces its bytes come.
#[derive(Debug)]
pub struct FrameReader {
    place: StreamPlace,
    /// Who reads.
    side: Side,
    /// The largest encoded field section that is taken, in bytes.
    max_section: u64,
    /// Streams of WebTransport are understood.
    webtransport: bool,
    state: FrameReaderState,
    /// A frame was begun.
    begun: bool,
    /// Frames that stand for nothing.
    idle: Idle,
}

/// Which stream it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamPlace {
    /// The peer's control stream.
    Control,
    /// A request stream.
    Request,
}

/// What the bytes of a stream are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamItem {
    /// A DATA frame begins, with so many bytes of payload.
    DataHeader(u64),
    /// The next bytes of it, never none.
    Data(Bytes),
    /// A frame.
    Frame(Frame),
    /// A HEADERS frame that is larger than allowed; it is passed over.
    Oversized,
    /// A frame that stands for nothing here begins; it is passed over.
    Unknown(u64),
    /// This is no request but a stream of the WebTransport session; the rest of it is not made of frames.
    Session(u64),
}

#[derive(Debug)]
enum FrameReaderState {
    Header(VarintPieces),
    /// Of DATA, so many bytes are to come.
    Data(u64),
    Skip(u64),
    Whole {
        kind: u64,
        len: u64,
        so_far: Vec<u8>,
    },
}

impl FrameReader {
    /// A reader at the beginning of a stream, of which `side` is the receiver. HEADERS frames have at most
    /// `max_section` bytes. `webtransport` says that streams may begin with the signal of WebTransport.
    pub fn new(place: StreamPlace, side: Side, max_section: u64, webtransport: bool) -> Self {
        let state = FrameReaderState::Header(VarintPieces::default());
        Self { place, side, max_section, webtransport, state, begun: false, idle: Idle::default() }
    }

    /// Takes bytes from the front of `input` for the next item, of a DATA frame at most `max` (at least 1).
    /// `None` when more bytes are needed: then all of `input` was taken.
    ///
    /// # Errors
    /// The connection cannot go on: a frame that may not be here, that cannot be read, or is too large.
    pub fn next(&mut self, input: &mut Bytes, max: usize) -> Result<Option<StreamItem>, Error> {
        loop {
            match &mut self.state {
                FrameReaderState::Header(pieces) => {
                    let Some([kind, len]) = pieces.take(input) else { return Ok(None) };
                    let (state, item) = self.begin(kind, len)?;
                    self.begun = true;
                    self.state = state;
                    if item.is_some() {
                        return Ok(item);
                    }
                }
                FrameReaderState::Data(0) | FrameReaderState::Skip(0) => {
                    self.state = FrameReaderState::Header(VarintPieces::default());
                }
                FrameReaderState::Data(left) => {
                    let n = (*left).min(input.len().min(max) as u64);
                    *left -= n;
                    let bytes = input.split_to(n.saturated());
                    self.idle.pay(bytes.len());
                    return Ok((!bytes.is_empty()).then_some(StreamItem::Data(bytes)));
                }
                FrameReaderState::Skip(left) => {
                    let n = (*left).min(input.len() as u64);
                    *left -= n;
                    let n = n.saturated();
                    input.advance(n);
                    self.idle.pay(n);
                    if *left > 0 {
                        return Ok(None);
                    }
                }
                FrameReaderState::Whole { kind, len, so_far } => {
                    let missing = len.saturated::<usize>() - so_far.len();
                    if input.len() < missing {
                        so_far.extend_from_slice(input);
                        input.clear();
                        return Ok(None);
                    }
                    let rest = input.split_to(missing);
                    let payload = if so_far.is_empty() {
                        rest
                    } else {
                        so_far.extend_from_slice(&rest);
                        core::mem::take(so_far).into()
                    };
                    self.idle.pay(payload.len());
                    let frame = decode(*kind, payload)?;
                    self.state = FrameReaderState::Header(VarintPieces::default());
                    return Ok(Some(StreamItem::Frame(frame)));
                }
            }
        }
    }

    /// Takes what is there of the payload of a DATA frame that has begun, at most `max` bytes.
    pub(crate) fn append_data(&mut self, input: &mut Bytes, max: usize, out: &mut Vec<u8>) {
        let FrameReaderState::Data(left) = &mut self.state else { return };
        let n = (*left).min(input.len().min(max) as u64);
        *left -= n;
        let n = n.saturated();
        out.extend_from_slice(&input[..n]);
        input.advance(n);
        self.idle.pay(n);
    }

    /// Whether payload of a DATA frame is there, behind nothing but frames that are passed over, and all of
    /// that frame.
    pub(crate) fn has_data(&self, input: &[u8]) -> bool {
        let is_between = match &self.state {
            FrameReaderState::Header(pieces) => pieces.is_empty(),
            FrameReaderState::Data(left) => *left == 0,
            FrameReaderState::Skip(_) | FrameReaderState::Whole { .. } => false,
        };
        let mut r = Reader::new(input);
        while let (true, Ok(kind), Ok(len)) = (is_between, r.varint(), r.varint()) {
            // What is neither of the two is unknown, or ends the connection.
            let is_there = kind != kind::HEADERS && r.bytes(len.try_into().unwrap_or(usize::MAX)).is_ok();
            if !is_there || (kind == kind::DATA && len > 0) {
                return is_there;
            }
        }
        false
    }

    /// Bytes held of a frame of which more is to come.
    pub fn held(&self) -> usize {
        if let FrameReaderState::Whole { so_far, .. } = &self.state { so_far.len() } else { 0 }
    }

    /// Whether the stream may end here (RFC 9114 §7.1): not inside a frame.
    pub fn is_between_frames(&self) -> bool {
        match &self.state {
            FrameReaderState::Header(pieces) => pieces.is_empty(),
            FrameReaderState::Data(left) | FrameReaderState::Skip(left) => *left == 0,
            FrameReaderState::Whole { .. } => false,
        }
    }

    /// A frame begins: may it, and what is done with its payload?
    fn begin(&mut self, kind: u64, len: u64) -> Result<(FrameReaderState, Option<StreamItem>), Error> {
        self.may_be(kind)?;
        let whole = FrameReaderState::Whole { kind, len, so_far: Vec::new() };
        let (most, least) = match kind {
            kind::DATA => {
                if len == 0 {
                    bearable(self.idle.count())?;
                }
                return Ok((FrameReaderState::Data(len), Some(StreamItem::DataHeader(len))));
            }
            kind::HEADERS if len > self.max_section => {
                return Ok((FrameReaderState::Skip(len), Some(StreamItem::Oversized)));
            }
            kind::HEADERS => return Ok((whole, None)),
            // What stands where the length of a frame would is the session.
            kind::WT_STREAM if self.webtransport => {
                return Ok((FrameReaderState::Skip(0), Some(StreamItem::Session(len))));
            }
            kind::SETTINGS => (MAX_SETTINGS, 0),
            kind::CANCEL_PUSH | kind::GOAWAY | kind::MAX_PUSH_ID => {
                bearable(self.idle.count_rare())?;
                (8, 1)
            }
            kind::PRIORITY_UPDATE | kind::PUSH_PRIORITY_UPDATE => (MAX_UPDATE, 1),
            _ => {
                // RFC 9114 §9: what is unknown is ignored.
                bearable(self.idle.count())?;
                return Ok((FrameReaderState::Skip(len), Some(StreamItem::Unknown(kind))));
            }
        };
        if len < least || (len > most && most == 8) {
            return Err(Error::new(ErrorCode::H3_FRAME_ERROR, "a frame of one number that is none"));
        }
        if len > most {
            return Err(Error::new(ErrorCode::H3_EXCESSIVE_LOAD, "a frame that is too large"));
        }
        Ok((whole, None))
    }

    fn may_be(&self, kind: u64) -> Result<(), Error> {
        let unexpected = |reason| Err(Error::new(ErrorCode::H3_FRAME_UNEXPECTED, reason));
        let control = self.place == StreamPlace::Control;
        // RFC 9114 §6.2.1: whatever else comes first.
        if control && !self.begun && kind != kind::SETTINGS {
            return Err(Error::new(
                ErrorCode::H3_MISSING_SETTINGS,
                "the control stream does not begin with SETTINGS",
            ));
        }
        match kind {
            // RFC 9114 §7.2.1, §7.2.2.
            kind::DATA | kind::HEADERS if control => unexpected("a frame of requests on the control stream"),
            kind::SETTINGS if control && self.begun => unexpected("SETTINGS for the second time"),
            // RFC 9114 §7.2.5: on the control stream, and from clients, never.
            kind::PUSH_PROMISE if control || self.side.is_server() => {
                unexpected("PUSH_PROMISE where none can be")
            }
            // RFC 9114 §7.2.5: no push id was ever allowed.
            kind::PUSH_PROMISE => Err(Error::new(ErrorCode::H3_ID_ERROR, "PUSH_PROMISE without MAX_PUSH_ID")),
            kind::MAX_PUSH_ID if self.side.is_client() => unexpected("MAX_PUSH_ID from a server"),
            // RFC 9218 §7.2.
            kind::PRIORITY_UPDATE | kind::PUSH_PRIORITY_UPDATE if self.side.is_client() => {
                unexpected("PRIORITY_UPDATE from a server")
            }
            kind::CANCEL_PUSH
            | kind::SETTINGS
            | kind::GOAWAY
            | kind::MAX_PUSH_ID
            | kind::PRIORITY_UPDATE
            | kind::PUSH_PRIORITY_UPDATE
                if !control =>
            {
                unexpected("a frame of the control stream on a request stream")
            }
            // draft-ietf-webtrans-http3 §4.3: as the first bytes of a request stream only.
            kind::WT_STREAM if self.webtransport && (control || self.begun) => {
                Err(Error::new(ErrorCode::H3_FRAME_ERROR, "a stream of WebTransport that begins late"))
            }
            // RFC 9114 §7.2.8, §11.2.1: PRIORITY, PING, WINDOW_UPDATE and CONTINUATION of HTTP/2.
            0x02 | 0x06 | 0x08 | 0x09 => unexpected("a frame of HTTP/2"),
            _ => Ok(()),
        }
    }
}

/// RFC 9114 §10.5: what stands for nothing costs time all the same.
fn bearable(is_bearable: bool) -> Result<(), Error> {
    let excessive = || Error::new(ErrorCode::H3_EXCESSIVE_LOAD, "too many frames that stand for nothing");
    is_bearable.then_some(()).ok_or_else(excessive)
}

/// RFC 9114 §7.1: exactly the fields of the frame, neither more nor less.
fn decode(kind: u64, payload: Bytes) -> Result<Frame, Error> {
    let malformed = |_| Error::new(ErrorCode::H3_FRAME_ERROR, "a frame that cannot be read");
    if kind == kind::HEADERS {
        return Ok(Frame::Headers(payload));
    }
    if kind == kind::SETTINGS {
        return Settings::decode(&payload).map(Frame::Settings);
    }
    let mut r = Reader::new(&payload);
    let id = r.varint().map_err(malformed)?;
    let value = payload.slice(r.position()..);
    let number = |frame: fn(u64) -> Frame| {
        if value.is_empty() {
            Ok(frame(id))
        } else {
            Err(Error::new(ErrorCode::H3_FRAME_ERROR, "a frame that is too long"))
        }
    };
    match kind {
        kind::CANCEL_PUSH => number(Frame::CancelPush),
        kind::GOAWAY => number(Frame::GoAway),
        kind::MAX_PUSH_ID => number(Frame::MaxPushId),
        kind::PRIORITY_UPDATE => Ok(Frame::PriorityUpdate(id, value)),
        _ => Ok(Frame::PushPriorityUpdate(id, value)),
    }
}

/// Bytes of a SETTINGS frame at most; ours have fewer than 50.
const MAX_SETTINGS: u64 = 4096;

/// Bytes of a PRIORITY_UPDATE frame at most.
const MAX_UPDATE: u64 = 1024;
