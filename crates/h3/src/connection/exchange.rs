use bytes::Bytes;
use quickset_quic::{Chunk, Protection, ReadError, Side, StreamId};

use super::Fault;
use super::outlet::Outlet;
use super::waiting::Held;
use crate::frame::{FrameReader, Item, Place};
use crate::message::Length;
use crate::priority::Said;
use crate::trace::{Told, Traced, tell};
use crate::{Code, Error, Field, Request, Transport};

/// A request and its response, on their stream.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) inflow: Inflow,
    pub(super) out: Outlet,
    /// What may be sent next.
    pub(super) sends: Phase,
    pub(super) kind: Kind,
    /// The application knows of it.
    pub(super) told: bool,
    /// The peer wanted no answer before its request came, with this code.
    pub(super) unwanted: Option<u64>,
    /// Interim responses that came, and their size as RFC 9114 §4.2.2 counts it.
    pub(super) interim: u32,
    pub(super) interim_size: u64,
    /// A session that we closed: the peer's end is waited for, behind at most these bytes.
    pub(super) closing: Option<usize>,
    pub(super) wishes: Wishes,
    pub(super) held: Held,
    /// Nothing of what was sent waits in the transport any more: it arrived, or is not wanted.
    pub(super) sent_whole: bool,
    /// It hangs under a class.
    pub(super) classed: bool,
    /// Which of its losses the stream was told to repair.
    pub(super) protection: Protection,
}

/// How a message is to be sent.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    /// What the server says of it in the response.
    pub(super) own: Said,
    /// What the client said last.
    pub(super) asked: Said,
    /// What such a response is otherwise.
    pub(super) usual: Said,
    /// What the application said since the client's last word.
    pub(super) passing: Option<Said>,
}

/// What the request asks for, as far as it changes the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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
pub(super) enum Phase {
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
                reader: FrameReader::new(Place::Request, side, max_section, webtransport),
                input: Bytes::new(),
                behind: None,
                fin: false,
                phase: Phase::Head,
                waiting: false,
                given_up: None,
                length: Length::default(),
                trailers: None,
                wanted: false,
                tunnel: false,
                listening: false,
                silent: false,
            },
            out: Outlet::default(),
            sends: Phase::Head,
            kind: Kind::Plain,
            told: side.is_client(),
            unwanted: None,
            interim: 0,
            interim_size: 0,
            closing: None,
            wishes: Wishes::default(),
            held: Held::default(),
            sent_whole: false,
            classed: false,
            protection: Protection::None,
        }
    }

    /// RFC 9297 §2.1: datagrams behind the end of the peer's half are dropped.
    pub(super) fn is_deaf(&self) -> bool {
        self.inflow.phase == Phase::Ended || self.inflow.silent || self.closing.is_some()
    }

    /// The final response has not come to us, a client, or was not sent by us.
    pub(super) fn awaits_response(&self, side: Side) -> bool {
        let response = if side.is_client() { self.inflow.phase } else { self.sends };
        response == Phase::Head
    }

    /// Both directions are over.
    pub(super) fn is_over(&self) -> bool {
        self.inflow.phase == Phase::Ended && self.out.is_over()
    }
}

impl Kind {
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
    behind: Option<Box<Result<Next, Fault>>>,
    pub(super) fin: bool,
    pub(super) phase: Phase,
    /// A field section waits for the table.
    pub(super) waiting: bool,
    /// The peer gave the stream up, with this code.
    pub(super) given_up: Option<u64>,
    pub(super) length: Length,
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
pub(super) enum Next {
    Item(Item),
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
    ) -> Result<Next, Fault> {
        if let Some(next) = self.behind.take() {
            return *next;
        }
        let most = max.min(LARGE);
        let mut small = Vec::new();
        loop {
            let next = match self.next(t, id, max) {
                Ok(Next::Item(Item::DataHeader(n))) if self.phase == Phase::Content => {
                    tell(t, || Traced::Parsed(id, Told::Data(n)));
                    match self.length.add(n) {
                        Ok(()) if small.is_empty() => continue,
                        Ok(()) => {
                            let room = most - small.len();
                            self.reader.append_data(&mut self.input, room, &mut small);
                            Ok(Next::Item(Item::Data(Bytes::new())))
                        }
                        Err(malformed) => Err(malformed.into()),
                    }
                }
                Ok(Next::Item(Item::Unknown(kind))) => {
                    tell(t, || Traced::Parsed(id, Told::Unknown(kind)));
                    continue;
                }
                next => next.map_err(Fault::from),
            };
            match next {
                Ok(Next::Item(Item::Data(data))) => {
                    let is_last = small.len() + data.len() >= most || !self.reader.has_data(&self.input);
                    if is_last && small.is_empty() {
                        return Ok(Next::Item(Item::Data(data)));
                    }
                    small.reserve(most.min(data.len() + self.input.len()));
                    small.extend_from_slice(&data);
                    if is_last {
                        return Ok(Next::Item(Item::Data(small.into())));
                    }
                }
                next if small.is_empty() => return next,
                // It is read first, and may be all that anybody wants.
                next => {
                    if !matches!(next, Ok(Next::Blocked)) {
                        self.behind = Some(Box::new(next));
                    }
                    return Ok(Next::Item(Item::Data(small.into())));
                }
            }
        }
    }

    /// What comes next, of content at most `max` bytes.
    pub(super) fn next(&mut self, t: &mut dyn Transport, id: StreamId, max: usize) -> Result<Next, Error> {
        if let Some(code) = self.given_up {
            return Ok(Next::Reset(code));
        }
        loop {
            if let Some(item) = self.reader.next(&mut self.input, max)? {
                return Ok(Next::Item(item));
            }
            if self.fin {
                // RFC 9114 §7.1: a stream does not end inside a frame.
                return if self.reader.is_between_frames() {
                    Ok(Next::End)
                } else {
                    Err(Error::new(Code::H3_FRAME_ERROR, "a stream that ends inside a frame"))
                };
            }
            match t.read(id, READ) {
                Ok(Chunk::Data(bytes)) => self.input = bytes,
                Ok(Chunk::Blocked) => return Ok(Next::Blocked),
                Ok(Chunk::Finished) => self.fin = true,
                Err(ReadError::Reset(code)) => {
                    self.given_up = Some(code);
                    return Ok(Next::Reset(code));
                }
                Err(_) => return Ok(Next::Reset(Code::H3_INTERNAL_ERROR.0)),
            }
        }
    }
}

/// Pieces of content are joined up to this many bytes, for the work that it costs.
const LARGE: usize = 1024;

/// Bytes read at a time.
pub(super) const READ: usize = 64 << 10;
