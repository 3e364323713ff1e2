use bytes::Bytes;
use quickset_quic::{Chunk, Protection, ReadError, Side, StreamId};

use super::ExchangeFault;
use super::outlet::StreamOutlet;
use super::waiting::HeldBytes;
use crate::frame::{FrameReader, StreamItem, StreamPlace};
use crate::message::ContentLength;
use crate::priority::SaidPriority;
use crate::trace::{Traced, TracedFrame, tell};
use crate::{Error, ErrorCode, Field, Request, Transport};

/// A request and its response, on their stream.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) inflow: Inflow,
    pub(super) out: StreamOutlet,
    /// What may be sent next.
    pub(super) sends: MessagePhase,
    pub(super) kind: RequestKind,
    /// The application knows of it.
    pub(super) told: bool,
    /// The peer wanted no answer before its request came, with this code.
    pub(super) unwanted: Option<u64>,
    /// Interim responses that came, and their size as RFC 9114 §4.2.2 counts it.
    pub(super) interim: u32,
    pub(super) interim_size: u64,
    /// A session that we closed: the peer's end is waited for, behind at most these bytes.
    pub(super) closing: Option<usize>,
    pub(super) wishes: SendWishes,
    pub(super) held: HeldBytes,
    /// Nothing of what was sent waits in the transport any more: it arrived, or is not wanted.
    pub(super) sent_whole: bool,
    /// It hangs under a class.
    pub(super) classed: bool,
    /// Which of its losses the stream was told to repair.
    pub(super) protection: Protection,
}

/// How a message is to be sent.
#[derive(Debug, Default)]
pub(super) struct SendWishes {
    /// What the server says of it in the response.
    pub(super) own: SaidPriority,
    /// What the client said last.
    pub(super) asked: SaidPriority,
    /// What such a response is otherwise.
    pub(super) usual: SaidPriority,
    /// What the application said since the client's last word.
    pub(super) passing: Option<SaidPriority>,
}

impl SendWishes {
    /// Nobody has said anything.
    pub(super) fn are_none(&self) -> bool {
        let Self { own, asked, usual, passing } = self;
        passing.is_none() && [own, asked, usual].into_iter().all(|said| *said == SaidPriority::default())
    }
}

/// What the request asks for, as far as it changes the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Plain,
    /// The response has no content.
    Head,
    /// A tunnel, once it is accepted.
    Connect,
    /// A session of WebTransport, once it is accepted.
    Session,
}

/// How far a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MessagePhase {
    Head,
    Content,
    /// Behind the trailers.
    Trailed,
    /// Over.
    Ended,
}

impl Exchange {
    pub(super) fn new(side: Side, max_section: u64, webtransport: bool) -> Self {
        Self {
            inflow: Inflow {
                reader: FrameReader::new(StreamPlace::Request, side, max_section, webtransport),
                input: Bytes::new(),
                behind: None,
                fin: false,
                phase: MessagePhase::Head,
                waiting: false,
                given_up: None,
                length: ContentLength::default(),
                trailers: None,
                wanted: false,
                tunnel: false,
                listening: false,
                silent: false,
            },
            out: StreamOutlet::default(),
            sends: MessagePhase::Head,
            kind: RequestKind::Plain,
            told: side.is_client(),
            unwanted: None,
            interim: 0,
            interim_size: 0,
            closing: None,
            wishes: SendWishes::default(),
            held: HeldBytes::default(),
            sent_whole: false,
            classed: false,
            protection: Protection::None,
        }
    }

    /// RFC 9297 §2.1: datagrams behind the end of the peer's half are dropped.
    pub(super) fn is_deaf(&self) -> bool {
        self.inflow.phase == MessagePhase::Ended || self.inflow.silent || self.closing.is_some()
    }

    /// The final response has not come to us, a client, or was not sent by us.
    pub(super) fn awaits_response(&self, side: Side) -> bool {
        let response = if side.is_client() { self.inflow.phase } else { self.sends };
        response == MessagePhase::Head
    }

    /// Both directions are over.
    pub(super) fn is_over(&self) -> bool {
        self.inflow.phase == MessagePhase::Ended && self.out.is_over()
    }
}

impl RequestKind {
    /// `sessions` says which protocols are those of WebTransport.
    pub(super) fn of(request: &Request, sessions: &[&[u8]]) -> Self {
        match (&request.method[..], request.protocol.as_deref()) {
            (b"HEAD", _) => Self::Head,
            (b"CONNECT", Some(protocol)) if sessions.contains(&protocol) => Self::Session,
            (b"CONNECT", _) => Self::Connect,
            _ => Self::Plain,
        }
    }
}

/// The receiving half.
#[derive(Debug)]
pub(super) struct Inflow {
    reader: FrameReader,
    /// What was read and not yet looked at.
    pub(super) input: Bytes,
    /// What came behind content that was joined, and is told when that was read.
    behind: Option<Box<Result<NextFrame, ExchangeFault>>>,
    pub(super) fin: bool,
    pub(super) phase: MessagePhase,
    /// A field section waits for the table.
    pub(super) waiting: bool,
    /// The peer gave the stream up, with this code.
    pub(super) given_up: Option<u64>,
    pub(super) length: ContentLength,
    pub(super) trailers: Option<Vec<Field>>,
    /// The application waits for more.
    pub(super) wanted: bool,
    /// Only DATA may come (RFC 9114 §4.4).
    pub(super) tunnel: bool,
    /// The application waits for datagrams.
    pub(super) listening: bool,
    /// It was told that none come any more.
    pub(super) silent: bool,
}

/// What comes next.
#[derive(Debug)]
pub(super) enum NextFrame {
    Item(StreamItem),
    Blocked,
    End,
    Reset(u64),
}

impl Inflow {
    /// Looks, without reading, whether the stream has ended. One whose section waits does so no more when it
    /// was given up, and makes room for others (RFC 9204 §2.2.2.2).
    pub(super) fn watch(&mut self, t: &mut dyn Transport, id: StreamId) {
        match t.read(id, 0) {
            Ok(Chunk::Finished) => self.fin = true,
            Err(ReadError::Reset(code)) => {
                self.given_up = Some(code);
                self.waiting = false;
            }
            _ => {}
        }
    }

    /// Whether the stream has ended and nothing of it is unread.
    pub(super) fn is_read(&mut self, t: &mut dyn Transport, id: StreamId) -> bool {
        if self.waiting || self.behind.is_some() || self.held() > 0 {
            return false;
        }
        if !self.fin && self.given_up.is_none() {
            self.watch(t, id);
        }
        self.fin && self.reader.is_between_frames()
    }

    /// Bytes that were read and that nobody has taken.
    pub(super) fn held(&self) -> usize {
        self.input.len() + self.reader.held()
    }

    /// The same behind the head: frames with small pieces of content, or with none, are gone through together
    /// as far as they were read.
    pub(super) fn next_content(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        max: usize,
    ) -> Result<NextFrame, ExchangeFault> {
        if let Some(next) = self.behind.take() {
            return *next;
        }
        let most = max.min(LARGE);
        let mut small = Vec::new();
        loop {
            let next = match self.next(t, id, max) {
                Ok(NextFrame::Item(StreamItem::DataHeader(n))) if self.phase == MessagePhase::Content => {
                    tell(t, || Traced::Parsed(id, TracedFrame::Data(n)));
                    match self.length.add(n) {
                        Ok(()) if small.is_empty() => continue,
                        Ok(()) => {
                            let room = most - small.len();
                            self.reader.append_data(&mut self.input, room, &mut small);
                            Ok(NextFrame::Item(StreamItem::Data(Bytes::new())))
                        }
                        Err(malformed) => Err(malformed.into()),
                    }
                }
                Ok(NextFrame::Item(StreamItem::Unknown(kind))) => {
                    tell(t, || Traced::Parsed(id, TracedFrame::Unknown(kind)));
                    continue;
                }
                next => next.map_err(ExchangeFault::from),
            };
            match next {
                Ok(NextFrame::Item(StreamItem::Data(data))) => {
                    let is_last = small.len() + data.len() >= most || !self.reader.has_data(&self.input);
                    if is_last && small.is_empty() {
                        return Ok(NextFrame::Item(StreamItem::Data(data)));
                    }
                    small.reserve(most.min(data.len() + self.input.len()));
                    small.extend_from_slice(&data);
                    if is_last {
                        return Ok(NextFrame::Item(StreamItem::Data(small.into())));
                    }
                }
                next if small.is_empty() => return next,
                // It is read first, and may be all that anybody wants.
                next => {
                    if !matches!(next, Ok(NextFrame::Blocked)) {
                        self.behind = Some(Box::new(next));
                    }
                    return Ok(NextFrame::Item(StreamItem::Data(small.into())));
                }
            }
        }
    }

    /// What comes next, of content at most `max` bytes.
    pub(super) fn next(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        max: usize,
    ) -> Result<NextFrame, Error> {
        if let Some(code) = self.given_up {
            return Ok(NextFrame::Reset(code));
        }
        loop {
            if let Some(item) = self.reader.next(&mut self.input, max)? {
                return Ok(NextFrame::Item(item));
            }
            if self.fin {
                // RFC 9114 §7.1: a stream does not end inside a frame.
                return if self.reader.is_between_frames() {
                    Ok(NextFrame::End)
                } else {
                    Err(Error::new(ErrorCode::H3_FRAME_ERROR, "a stream that ends inside a frame"))
                };
            }
            match t.read(id, READ) {
                Ok(Chunk::Data(bytes)) => self.input = bytes,
                Ok(Chunk::Blocked) => return Ok(NextFrame::Blocked),
                Ok(Chunk::Finished) => self.fin = true,
                Err(ReadError::Reset(code)) => {
                    self.given_up = Some(code);
                    return Ok(NextFrame::Reset(code));
                }
                Err(_) => return Ok(NextFrame::Reset(ErrorCode::H3_INTERNAL_ERROR.0)),
            }
        }
    }
}

/// Pieces of content are joined up to this many bytes, for the work that it costs.
const LARGE: usize = 1024;

/// Bytes read at a time.
pub(super) const READ: usize = 64 << 10;
