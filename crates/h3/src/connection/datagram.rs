//! HTTP datagrams in those of QUIC (RFC 9297 §2.1).

use bytes::{Buf as _, Bytes};
use quickset_quic::{Carrier, StreamId};
use quickset_wire::Reader;

use super::exchange::{Exchange, MessagePhase};
use super::{Abort, Connection, Event, VerbRefusal, price};
use crate::{Error, ErrorCode, Transport, varint};

impl Connection {
    /// A datagram of QUIC came.
    pub fn handle_datagram(&mut self, t: &mut dyn Transport, data: Bytes) {
        if self.closed.is_some() {
            return;
        }
        t.charge(Carrier::Datagrams, price::DATAGRAM);
        let result = self.datagram(data);
        self.settle(t, result);
    }

    /// Sends a datagram of a request, or of a session. It may be lost.
    ///
    /// # Errors
    /// [`VerbRefusal::UnknownStream`] when what we send has ended (RFC 9297 §2.1);
    /// [`VerbRefusal::Unsupported`] when the peer takes none, or has not said so yet;
    /// [`VerbRefusal::TooLarge`] when it does not fit.
    pub fn send_datagram(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        payload: &[u8],
    ) -> Result<(), VerbRefusal> {
        self.alive()?;
        let exchange = self.exchanges.get(&id).ok_or(VerbRefusal::UnknownStream)?;
        if exchange.sends == MessagePhase::Ended {
            return Err(VerbRefusal::UnknownStream);
        }
        // RFC 9297 §2.1.1: not until both have said so.
        if !(self.ours.h3_datagram && self.peer.h3_datagram) {
            return Err(VerbRefusal::Unsupported);
        }
        let max = t.max_datagram().ok_or(VerbRefusal::Unsupported)?;
        let mut data = Vec::with_capacity(payload.len() + 8);
        varint::put(&mut data, id.0 / 4);
        data.extend_from_slice(payload);
        if data.len() > max {
            return Err(VerbRefusal::TooLarge);
        }
        t.send_datagram(data.into());
        Ok(())
    }

    /// Whether datagrams of a request may still come: not when the peer's half of its stream has come to its
    /// end, read or not, or when we wanted no more of it. If so, there will be an [`Event::Silent`] when none
    /// can come any more.
    ///
    /// # Errors
    /// [`VerbRefusal::Aborted`] when the peer gave its half up; [`VerbRefusal::UnknownStream`] when the
    /// exchange is over.
    pub fn listen(&mut self, t: &mut dyn Transport, id: StreamId) -> Result<bool, VerbRefusal> {
        self.alive()?;
        let inflow = &mut self.exchanges.get_mut(&id).ok_or(VerbRefusal::UnknownStream)?.inflow;
        inflow.listening = true;
        self.hear(t, id);
        let exchange = self.exchanges.get_mut(&id).ok_or(VerbRefusal::UnknownStream)?;
        if let Some(code) = exchange.inflow.given_up {
            return Err(VerbRefusal::Aborted(Abort::by_code(code)));
        }
        Ok(!exchange.is_deaf())
    }

    /// Looks whether the stream of an exchange whose datagrams are waited for has ended. Nothing of it is
    /// read.
    pub(super) fn hear(&mut self, t: &mut dyn Transport, id: StreamId) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        let Exchange { inflow, closing, .. } = &mut **exchange;
        // A head is read as it comes, and so are a session's capsules, and their end.
        let is_read =
            matches!(inflow.phase, MessagePhase::Head | MessagePhase::Ended) || self.sessions.is_open(id);
        if !inflow.listening || is_read || closing.is_some() {
            return;
        }
        inflow.watch(t, id);
        if inflow.fin || inflow.given_up.is_some() || t.is_complete(id) {
            inflow.silent = true;
            // The look took the end of the stream with it: nothing else tells of that.
            if core::mem::take(&mut inflow.wanted) {
                self.events.push_back(Event::Readable(id));
            }
            self.hush(id);
        }
    }

    /// No more datagrams come with an exchange.
    pub(super) fn hush(&mut self, id: StreamId) {
        let inflow = self.exchanges.get_mut(&id).map(|exchange| &mut exchange.inflow);
        if inflow.is_some_and(|inflow| core::mem::take(&mut inflow.listening)) {
            self.events.push_back(Event::Silent(id));
        }
    }

    fn datagram(&mut self, mut data: Bytes) -> Result<(), Error> {
        let wrong = |reason| Error::new(ErrorCode::H3_DATAGRAM_ERROR, reason);
        let mut r = Reader::new(&data);
        let quarter = r.varint().map_err(|_| wrong("a datagram without a Quarter Stream ID"))?;
        // RFC 9297 §2.1: four times it is a stream id.
        if quarter >= 1 << 60 {
            return Err(wrong("a Quarter Stream ID that is none"));
        }
        let header = r.position();
        data.advance(header);
        let (id, payload) = (StreamId(quarter * 4), data);
        match self.exchanges.get(&id) {
            Some(exchange) if exchange.told && exchange.is_deaf() => {}
            Some(exchange) if exchange.told => self.tell_datagram(id, payload),
            // RFC 9297 §2.1: what comes before its request may be kept for a while, what comes behind it may
            // not.
            seen if self.side.is_server() && (seen.is_some() || !self.shutdown.has_seen(id)) => {
                if self.early_datagrams.len() == MAX_EARLY {
                    self.early_datagrams.pop_front();
                }
                // A copy: it must not keep a whole received buffer alive.
                self.early_datagrams.push_back((id, Bytes::copy_from_slice(&payload)));
            }
            _ => {}
        }
        Ok(())
    }

    /// The request came.
    pub(super) fn early_datagrams(&mut self, id: StreamId) {
        let mut rest = core::mem::take(&mut self.early_datagrams);
        rest.retain(|(to, payload)| {
            if *to == id {
                self.tell_datagram(id, payload.clone());
            }
            *to != id
        });
        self.early_datagrams = rest;
    }

    /// Datagrams that nobody takes are lost.
    pub(super) fn tell_datagram(&mut self, id: StreamId, payload: Bytes) {
        if self.queued.admit(payload.len(), self.config.max_datagram_bytes) {
            self.events.push_back(Event::Datagram { id, payload });
        }
    }
}

/// Datagrams among the events.
#[derive(Debug, Default)]
pub(super) struct Queued {
    count: usize,
    bytes: usize,
}

impl Queued {
    /// Whether there is room for one of `len` bytes; then it counts.
    fn admit(&mut self, len: usize, max_bytes: usize) -> bool {
        // A capsule may be of 64 KiB, whatever packets hold: their number alone would be 64 MiB.
        let fits = self.count < MAX_TOLD && (self.count == 0 || self.bytes + len <= max_bytes);
        if fits {
            self.count += 1;
            self.bytes += len;
        }
        fits
    }

    /// The application has one of `len` bytes.
    pub(super) fn taken(&mut self, len: usize) {
        self.count -= 1;
        self.bytes -= len;
    }
}

/// Datagrams told at a time at most. As capsules they may be of two bytes each, and an event is a hundred.
const MAX_TOLD: usize = 1024;

/// Datagrams kept for requests that have not come, at most.
const MAX_EARLY: usize = 16;
