use bytes::Bytes;
use quickset_base::Duration;
use quickset_wire::frame::{Frame, Frames, LoneSymbol, kind};
use quickset_wire::{PacketType, Space, TransportErrorCode as Code};

use crate::conn::{Connection, violation};
use crate::error::{Closed, TransportError};
use crate::event::Signal;
use crate::packet::Phase;

impl Connection {
    /// Acts on the frames of an authentic packet. True when it must be acknowledged.
    pub(crate) fn frames(&mut self, kind: PacketType, payload: &Bytes) -> Result<bool, TransportError> {
        if payload.is_empty() {
            return Err(violation("a packet without frames"));
        }
        if kind == PacketType::OneRtt && self.protect.receive.is_some() && self.life.lifecycle.is_open() {
            if let Some(symbol) = LoneSymbol::parse(payload) {
                return self.on_lone_symbol(&symbol, payload).map(|()| true);
            }
        }
        let mut eliciting = false;
        let mut frames = Frames::new(payload);
        // By reference: a frame that is moved is read back before it has been written.
        while let Some(frame) = &frames.next() {
            let frame = match frame {
                Ok(frame) => frame,
                // FS-7, FEC-8: what cannot be read is unknown first.
                Err(e) if !self.knows(e.kind) => return Err(unknown(e.kind)),
                Err(e) => return Err(TransportError::new(e.code, e.why).in_frame(e.kind)),
            };
            if !frame.allowed_in(kind) {
                if !self.knows(frame.kind()) {
                    return Err(unknown(frame.kind()));
                }
                // RFC 9000 §12.4, table 3.
                return Err(violation("a frame in a packet that cannot carry it").in_frame(frame.kind()));
            }
            eliciting |= frame.is_ack_eliciting();
            // RFC 9000 §10.2.1: nothing that comes behind our farewell is kept, and only the peer's is of
            // meaning.
            if !self.life.lifecycle.is_open()
                && !matches!(frame, Frame::ConnectionClose { .. } | Frame::ApplicationClose { .. })
            {
                continue;
            }
            self.dispatch(kind.space(), frame, payload).map_err(|e| match e.frame {
                None => e.in_frame(frame.kind()),
                Some(_) => e,
            })?;
        }
        Ok(eliciting)
    }

    /// Whether frames of a type are to be read: those of an extension are if it was agreed on.
    #[cold]
    fn knows(&self, kind: u64) -> bool {
        match kind {
            kind::FENCED..=kind::ABANDON => self.traffic.streams.takes_messages(),
            kind::SOURCE_SYMBOL..=kind::UNMARKED => self.protect.receive.is_some(),
            kind::ACK_FREQUENCY | kind::IMMEDIATE_ACK => self.link.acks.data.takes_requests(),
            _ => true,
        }
    }

    /// Each frame to its owner.
    pub(crate) fn dispatch(
        &mut self,
        space: Space,
        frame: &Frame<'_>,
        payload: &Bytes,
    ) -> Result<(), TransportError> {
        match *frame {
            Frame::Stream { .. }
            | Frame::Fenced { .. }
            | Frame::Abandon { .. }
            | Frame::ResetStream { .. }
            | Frame::ResetStreamAt { .. }
            | Frame::StopSending { .. }
            | Frame::MaxData(_)
            | Frame::MaxStreamData { .. }
            | Frame::MaxStreams { .. }
            | Frame::DataBlocked(_)
            | Frame::StreamDataBlocked { .. }
            | Frame::StreamsBlocked { .. } => {
                let view = self.link.view(self.common.now, self.traffic.rate);
                self.traffic.streams.on_frame(frame, payload, &view)
            }
            Frame::Ack(ref ack) => {
                let delay = self.ack_delay(space, ack.delay);
                if let Some(merged) = self.link.merged.get_mut(space) {
                    merged.add(ack, delay);
                }
                if space == Space::Data {
                    self.link.asks.heard();
                }
                Ok(())
            }
            Frame::Padding(_) | Frame::Ping => Ok(()),
            Frame::Crypto { offset, data } => self.on_crypto(space, offset, data),
            Frame::NewConnectionId { sequence, retire_prior_to, id, token } => {
                if self.link.cids.on_new(sequence, retire_prior_to, id, token)? {
                    self.link.announce_reset_token(&mut self.common);
                }
                Ok(())
            }
            Frame::RetireConnectionId { sequence } => {
                if let Some(wanted) = self.link.cids.on_retire(sequence)? {
                    self.link.candidates.on_retired(sequence);
                    self.common.signals.push_back(Signal::RetiredCid(sequence));
                    if wanted > 0 {
                        self.common.signals.push_back(Signal::NeedCids(wanted));
                    }
                }
                Ok(())
            }
            Frame::PathChallenge(data) => {
                self.link.on_path_challenge(&self.common, data);
                if self.common.phase > Phase::Handshake {
                    self.life.liveness.found();
                }
                Ok(())
            }
            Frame::PathResponse(data) => {
                let moved = self.link.on_path_response(&mut self.common, data);
                self.follow_move(moved);
                Ok(())
            }
            Frame::SourceSymbol { session, sid, data } => self.on_source_symbol(session, sid, data, payload),
            Frame::Repair { .. } => self.on_repair(frame),
            Frame::SymbolAck(ref ack) => self.on_symbol_ack(ack),
            Frame::FecWindow { epoch, window } => self.on_fec_window(epoch, window),
            Frame::Unmarked { session, packets } => self.on_unmarked(session, packets),
            Frame::Datagram { len, data } => self.traffic.datagrams.on_frame(data, len, payload),
            Frame::ImmediateAck | Frame::AckFrequency { .. } => {
                // They are of the application's space alone.
                self.link.acks.data.on_frame(frame, self.common.now)
            }
            Frame::NewToken { token } => self.on_new_token(token),
            Frame::HandshakeDone => self.on_handshake_done(),
            Frame::ConnectionClose { code, frame_type, reason } => {
                let words = String::from_utf8_lossy(reason).into_owned();
                let error = TransportError::new(code, words);
                let mut error = if frame_type == 0 { error } else { error.in_frame(frame_type) };
                error.fault = self.link.keys.session().explain(&error).map(Box::new);
                self.on_farewell(Closed::ByPeer(error))
            }
            Frame::ApplicationClose { code, reason } => {
                self.on_farewell(Closed::ByApplication { code, reason: reason.to_vec() })
            }
        }
    }

    fn on_crypto(&mut self, space: Space, offset: u64, data: &[u8]) -> Result<(), TransportError> {
        if self.link.keys.stream(space).is_some_and(|stream| stream.has_read(offset, data.len())) {
            self.heard_again(space);
            return Ok(());
        }
        let progress = self.link.keys.on_crypto(space, offset, data)?;
        if space == Space::Initial && self.common.side.is_server() {
            self.follow_choice();
        }
        self.on_progress(progress)
    }

    /// The delay that an ACK frame reports. Before the end of the handshake the exponent is not known, and
    /// acknowledgements of the handshake are not delayed (RFC 9002 §5.3).
    fn ack_delay(&self, space: Space, raw: u64) -> Duration {
        match &self.common.peer {
            Some(params) if space == Space::Data => {
                Duration::from_micros(raw.saturating_mul(1 << params.ack_delay_exponent.min(20)))
            }
            _ => Duration::ZERO,
        }
    }

    /// The peer closed the connection (RFC 9000 §10.2.2).
    fn on_farewell(&mut self, why: Closed) -> Result<(), TransportError> {
        // What the peer acknowledged with its last words has arrived: the application hears that first.
        self.act_on_acks()?;
        let pto = self.link.pto();
        self.life.lifecycle.drain(self.common.now, pto);
        let refused = matches!(&why, Closed::ByPeer(e) if e.code == Code::CONNECTION_REFUSED);
        tracing::debug!(%why, refused, "the peer closed the connection");
        self.over(why);
        Ok(())
    }
}

/// RFC 9000 §12.4: a frame of no type, whatever it might be in another connection.
#[cold]
fn unknown(kind: u64) -> TransportError {
    TransportError::new(Code::FRAME_ENCODING_ERROR, "an unknown frame type").in_frame(kind)
}
