//! Early data: how it begins, what the server says to it, and what becomes of it then.

use quickset_wire::{Side, Space, StreamId, TransportErrorCode as Code, TransportParams};

use super::{Connection, violation};
use crate::early::{EarlyFate, EarlyLimits, Refused, remembered};
use crate::error::TransportError;
use crate::event::Event;
use crate::keys::HandshakeProgress;
use crate::packet::Phase;
use crate::streams::ReadError;

impl Connection {
    /// How far early data has come.
    pub fn early_data(&self) -> EarlyFate {
        self.life.handshake.early
    }

    /// True while what is read, or sent, is early data: the handshake is not through, and who sent it may
    /// have sent it before. What was read then does not become safe by the end of the handshake; see
    /// [`StreamView::came_early`](super::StreamView::came_early).
    pub fn is_early(&self) -> bool {
        self.common.phase == Phase::Handshake
            && !matches!(self.life.handshake.early, EarlyFate::None | EarlyFate::Rejected)
    }

    /// A stream that was given up with its early data has no end that could be mistaken for the peer's.
    pub(super) fn refused(&self, id: StreamId, error: ReadError) -> ReadError {
        match self.common.config.early_data.as_ref().map(|early| early.refused) {
            Some(Refused::Reset(code))
                if error == ReadError::UnknownStream && self.traffic.streams.of(id).was_reset() =>
            {
                ReadError::Reset(code)
            }
            _ => error,
        }
    }

    /// A client with a session to resume may write at once, under the limits that it remembers.
    pub(super) fn begin_early(&mut self) {
        if self.common.side.is_server() || self.common.config.early_data.is_none() {
            return;
        }
        let params =
            self.link.keys.session().peer_params().map(|bytes| TransportParams::decode(Side::Server, bytes));
        let Some(Ok(params)) = params else { return };
        if !self.link.keys.begin_early() {
            return;
        }
        let params = remembered(&params);
        self.link.path.limit_mtu(usize::try_from(params.max_udp_payload_size).unwrap_or(usize::MAX));
        self.traffic.streams.set_early(&params);
        self.traffic.datagrams.set_peer(&params);
        self.life.handshake.early = EarlyFate::Undecided;
        self.life.handshake.remembered = Some(Box::new(EarlyLimits::of(&params)));
    }

    /// What the handshake says of early data on its way.
    pub(super) fn follow_early(&mut self, progress: HandshakeProgress) {
        if progress.early_keys {
            self.life.handshake.early = EarlyFate::Accepted;
            self.common.events.push_back(Event::EarlyData { accepted: true });
        }
        // RFC 9001 §4.6.2: a HelloRetryRequest rejects it, and nothing more of it may be sent
        // (RFC 8446 §4.1.2).
        let rejected = self.link.keys.session().early_fate() == EarlyFate::Rejected;
        if self.life.handshake.early == EarlyFate::Undecided && rejected {
            self.reject_early();
        }
    }

    /// The server's parameters are there, and so is its word on early data.
    pub(super) fn settle_early(&mut self, params: &TransportParams) -> Result<(), TransportError> {
        if self.life.handshake.early != EarlyFate::Undecided {
            return Ok(());
        }
        let Some(limits) = self.life.handshake.remembered.take() else { return Ok(()) };
        if self.link.keys.session().early_fate() != EarlyFate::Accepted {
            self.reject_early();
        } else if EarlyLimits::of(params).cover(&limits) {
            self.life.handshake.early = EarlyFate::Accepted;
            self.common.events.push_back(Event::EarlyData { accepted: true });
        } else {
            // RFC 9000 §7.4.1.
            return Err(violation("early data was accepted under lower limits"));
        }
        Ok(())
    }

    /// Rejected early data goes again under the limits that hold now, or is given up.
    pub(super) fn resume_early(&mut self) -> Result<(), TransportError> {
        if self.common.side.is_server() || self.life.handshake.early != EarlyFate::Rejected {
            return Ok(());
        }
        if self.traffic.streams.limits().has_too_many() {
            // The server's limits are lower than when it gave the ticket. To begin anew is the only way.
            let reason = "early data was rejected, and fewer streams are allowed than it began";
            return Err(TransportError::new(Code::INTERNAL_ERROR, reason));
        }
        if let Some(Refused::Reset(code)) = self.common.config.early_data.as_ref().map(|early| early.refused)
        {
            self.traffic.streams.reset_all(code);
        }
        Ok(())
    }

    /// What was sent early will not be read: it is as if it had never been sent (RFC 9001 §4.6.2).
    pub(super) fn reject_early(&mut self) {
        self.link.keys.end_early();
        self.void_early();
        self.traffic.streams.rewind();
        self.life.handshake.early = EarlyFate::Rejected;
        self.common.events.push_back(Event::EarlyData { accepted: false });
        tracing::debug!("the server takes no early data");
    }

    /// No 0-RTT packet that was sent so far arrives anywhere. Packet numbers go on (RFC 9000 §17.2.3).
    pub(super) fn void_early(&mut self) {
        if self.life.handshake.early == EarlyFate::Undecided {
            let mut settled = self.scratch.settled.take().unwrap_or_default();
            self.link.path.recovery.void(Space::Data, &mut settled.lost);
            self.lose(&mut settled.lost, false);
            self.scratch.settled = Some(settled);
        }
    }
}
