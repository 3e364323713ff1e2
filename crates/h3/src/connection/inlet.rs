//! The peer's unidirectional streams: control, QPACK, and what asks to be more.

use std::collections::BTreeMap;

use bytes::Bytes;
use quickset_quic::{Carrier, Chunk, Dir, Side, StreamId};

use super::exchange::READ;
use super::{Abort, Connection, Event, price};
use crate::frame::{Frame, FrameReader, Settings, StreamItem, StreamPlace, stream};
use crate::trace::{StreamKind, TraceSide as Owner, Traced, TracedFrame, tell};
use crate::varint::VarintPieces;
use crate::{Error, ErrorCode, Priority, Transport};

/// The peer's unidirectional streams that are read here.
#[derive(Debug, Default)]
pub(super) struct Inlets {
    streams: BTreeMap<StreamId, StreamInlet>,
    /// Which of the three kinds that come once have come.
    seen: [bool; 3],
    /// What the client last said of pushes, of which we make none.
    max_push: Option<u64>,
}

#[derive(Debug)]
enum StreamInlet {
    /// The type has not come.
    New(VarintPieces),
    /// A stream of WebTransport, whose session has not come.
    Session(VarintPieces),
    Control(Box<FrameReader>),
    Encoder,
    Decoder,
}

impl StreamInlet {
    fn is_critical(&self) -> bool {
        matches!(self, Self::Control(_) | Self::Encoder | Self::Decoder)
    }
}

impl Connection {
    pub(super) fn accept_inlets(&mut self, t: &mut dyn Transport) -> Result<(), Error> {
        // With WebTransport there are as many as there are messages, and loss brings them before their types:
        // one whose type has not come may be anybody's. QUIC limits their number, and here they hold a few
        // bytes each.
        let most = if self.ours.takes_sessions() { usize::MAX } else { self.config.max_inlets.max(3) };
        while let Some(id) = t.accept(Dir::Uni) {
            if self.inlets.streams.len() >= most {
                t.charge(Carrier::Stream(id), price::REFUSED);
                t.stop(id, ErrorCode::H3_EXCESSIVE_LOAD.0);
                continue;
            }
            self.inlets.streams.insert(id, StreamInlet::New(VarintPieces::default()));
            self.inlet_readable(t, id)?;
        }
        Ok(())
    }

    pub(super) fn inlet_readable(&mut self, t: &mut dyn Transport, id: StreamId) -> Result<(), Error> {
        while let Some(inlet) = self.inlets.streams.get(&id) {
            match t.read(id, READ) {
                Ok(Chunk::Data(bytes)) => self.inlet_data(t, id, bytes)?,
                Ok(Chunk::Blocked) => return Ok(()),
                // RFC 9114 §6.2: others may end as they like, even before their type.
                Ok(Chunk::Finished) | Err(_) if inlet.is_critical() => {
                    return Err(Error::new(
                        ErrorCode::H3_CLOSED_CRITICAL_STREAM,
                        "a critical stream was closed",
                    ));
                }
                Ok(Chunk::Finished) | Err(_) => drop(self.inlets.streams.remove(&id)),
            }
        }
        Ok(())
    }

    fn inlet_data(&mut self, t: &mut dyn Transport, id: StreamId, mut bytes: Bytes) -> Result<(), Error> {
        while let Some(inlet) = self.inlets.streams.get_mut(&id) {
            match inlet {
                StreamInlet::New(pieces) => {
                    let Some([kind]) = pieces.take(&mut bytes) else { return Ok(()) };
                    self.inlet_kind(t, id, kind)?;
                }
                StreamInlet::Session(pieces) => {
                    let Some([session]) = pieces.take(&mut bytes) else { return Ok(()) };
                    self.inlets.streams.remove(&id);
                    return self.session_stream(t, id, session, bytes, None);
                }
                StreamInlet::Control(reader) => {
                    let Some(item) = reader.next(&mut bytes, READ)? else { return Ok(()) };
                    match item {
                        StreamItem::Frame(frame) => {
                            tell(t, || Traced::Parsed(id, TracedFrame::Other(&frame)));
                            self.control(t, id, frame)?;
                        }
                        StreamItem::Unknown(kind) => {
                            tell(t, || Traced::Parsed(id, TracedFrame::Unknown(kind)));
                        }
                        _ => {}
                    }
                }
                StreamInlet::Encoder => {
                    self.decoder.on_instructions(&bytes)?;
                    self.charge_instructions(t, id);
                    while let Some(unblocked) = self.decoder.unblocked() {
                        let (stream, section) = unblocked?;
                        self.unblocked(t, StreamId(stream), section)?;
                    }
                    return Ok(());
                }
                StreamInlet::Decoder => return self.encoder.on_instructions(&bytes),
            }
        }
        Ok(())
    }

    /// RFC 9114 §6.2: what a stream is for.
    fn inlet_kind(&mut self, t: &mut dyn Transport, id: StreamId, kind: u64) -> Result<(), Error> {
        tell(t, || Traced::Stream(Owner::Remote, id, StreamKind::Uni(kind)));
        let twice = |seen: &mut bool| {
            if core::mem::replace(seen, true) {
                // RFC 9114 §6.2.1, RFC 9204 §4.2.
                return Err(Error::new(
                    ErrorCode::H3_STREAM_CREATION_ERROR,
                    "a critical stream for the second time",
                ));
            }
            Ok(())
        };
        let inlet = match kind {
            stream::CONTROL => {
                twice(&mut self.inlets.seen[0])?;
                StreamInlet::Control(Box::new(FrameReader::new(
                    StreamPlace::Control,
                    self.side,
                    0,
                    self.ours.takes_sessions(),
                )))
            }
            stream::QPACK_ENCODER => {
                twice(&mut self.inlets.seen[1])?;
                StreamInlet::Encoder
            }
            stream::QPACK_DECODER => {
                twice(&mut self.inlets.seen[2])?;
                StreamInlet::Decoder
            }
            // RFC 9114 §6.2.2: only servers push, and ours was never allowed to (§4.6).
            stream::PUSH if self.side.is_server() => {
                return Err(Error::new(ErrorCode::H3_STREAM_CREATION_ERROR, "a push stream of a client"));
            }
            stream::PUSH => {
                return Err(Error::new(ErrorCode::H3_ID_ERROR, "a push stream without MAX_PUSH_ID"));
            }
            stream::WEBTRANSPORT if self.ours.takes_sessions() => {
                StreamInlet::Session(VarintPieces::default())
            }
            _ => {
                // RFC 9114 §6.2, §6.2.3: no error of the connection.
                t.charge(Carrier::Stream(id), price::REFUSED);
                t.stop(id, ErrorCode::H3_STREAM_CREATION_ERROR.0);
                self.inlets.streams.remove(&id);
                return Ok(());
            }
        };
        self.inlets.streams.insert(id, inlet);
        Ok(())
    }

    fn control(&mut self, t: &mut dyn Transport, on: StreamId, frame: Frame) -> Result<(), Error> {
        let id_error = |reason| Err(Error::new(ErrorCode::H3_ID_ERROR, reason));
        match frame {
            Frame::Settings(settings) => {
                tell(t, || Traced::Settings(Owner::Remote, &settings));
                self.settings(settings)
            }
            Frame::GoAway(id) => {
                if self.shutdown.receive(self.side, id)? {
                    self.events.push_back(Event::GoAway);
                    self.drain_sessions();
                }
                self.reject(t);
                Ok(())
            }
            // RFC 9114 §7.2.3: no push id was ever given or allowed.
            Frame::CancelPush(_) => id_error("CANCEL_PUSH without a push"),
            Frame::MaxPushId(id) => self.inlets.max_push_id(id),
            Frame::PriorityUpdate(id, value) => {
                let classes = self.priority_update(t, StreamId(id), &value)?;
                t.charge(Carrier::Stream(on), price::of_update(classes));
                Ok(())
            }
            // RFC 9218 §7.2: nor was one promised.
            Frame::PushPriorityUpdate(..) => id_error("PRIORITY_UPDATE for a push that was not promised"),
            Frame::Headers(_) => Ok(()),
        }
    }

    fn settings(&mut self, settings: Settings) -> Result<(), Error> {
        if let Some(before) = self.config.remembered.filter(|_| self.side.is_client()) {
            let table = before.qpack_max_table_capacity;
            // RFC 9204 §3.2.3.
            if table != 0 && table != settings.qpack_max_table_capacity {
                return Err(Error::new(
                    ErrorCode::QPACK_DECODER_STREAM_ERROR,
                    "a table of another size than remembered",
                ));
            }
            // RFC 9114 §7.2.4.2.
            if !settings.admit(&before) {
                return Err(Error::new(ErrorCode::H3_SETTINGS_ERROR, "less than what was remembered"));
            }
        }
        self.peer = settings;
        self.has_settings = true;
        self.encoder.apply(settings.qpack_max_table_capacity, settings.qpack_blocked_streams);
        self.events.push_back(Event::Settings(settings));
        Ok(())
    }

    /// Requests that the server will not have served.
    fn reject(&mut self, t: &mut dyn Transport) {
        if self.side.is_server() {
            return;
        }
        let rejected: Vec<StreamId> = self
            .exchanges
            .keys()
            .copied()
            .filter(|id| id.initiator() == Side::Client && self.shutdown.is_rejected(*id))
            .collect();
        for id in rejected {
            self.abort(t, id, ErrorCode::H3_REQUEST_CANCELLED);
            self.events.push_back(Event::Aborted { id, why: Abort::Rejected });
        }
    }

    /// RFC 9218 §7.2. How many classes it named.
    fn priority_update(&mut self, t: &mut dyn Transport, id: StreamId, value: &[u8]) -> Result<usize, Error> {
        let is_request = id.initiator() == Side::Client && id.dir() == Dir::Bi;
        if !is_request || t.peer_bidi_limit().is_some_and(|limit| id.index() >= limit) {
            return Err(Error::new(ErrorCode::H3_ID_ERROR, "PRIORITY_UPDATE for no request that may be"));
        }
        match self.exchanges.get(&id) {
            Some(exchange) if exchange.told => {
                // What is malformed is as if it were not there.
                if let Some(priority) = Priority::parse(value) {
                    tell(t, || Traced::Priority(id, None, value));
                    let classes = self.obey(t, id, &priority);
                    self.priorities.insert(id, priority);
                    return Ok(classes);
                }
            }
            seen if seen.is_some() || !self.shutdown.has_seen(id) => {
                let known = self.early_priorities.contains_key(&id);
                if known || self.early_priorities.len() < self.config.max_early_priorities {
                    self.early_priorities.insert(id, Bytes::copy_from_slice(value));
                }
            }
            // It is over for us, whose answer was handed to the transport; what waits there to be sent is not
            // all the same to the client.
            _ => {
                if let Some(priority) = Priority::parse(value) {
                    tell(t, || Traced::Priority(id, None, value));
                    return Ok(self.reschedule(t, id, &priority));
                }
            }
        }
        Ok(0)
    }
}

impl Inlets {
    /// RFC 9114 §7.2.7: never less than before.
    fn max_push_id(&mut self, id: u64) -> Result<(), Error> {
        if self.max_push.is_some_and(|before| id < before) {
            return Err(Error::new(ErrorCode::H3_ID_ERROR, "MAX_PUSH_ID that is less than before"));
        }
        self.max_push = Some(id);
        Ok(())
    }
}
