use quickset_wire::params::TransportParams;
use quickset_wire::{ConnectionId, Side, Space, TransportErrorCode as Code};

use super::{Connection, violation};
use crate::error::TransportError;
use crate::event::{Event, Signal};
use crate::keys::HandshakeProgress;
use crate::life::SideState;
use crate::packet::Phase;
use crate::validation::{MAX_TOKEN, new_tokens};

impl Connection {
    /// What follows from new keys and from the end of the handshake.
    pub(crate) fn on_progress(&mut self, progress: HandshakeProgress) -> Result<(), TransportError> {
        self.common.qlog.progress(self.common.now, progress, &self.link.keys);
        self.follow_early(progress);
        self.link.path.recovery.has_handshake_keys |= progress.handshake_keys;
        if progress.one_rtt_keys && self.common.side.is_server() {
            // The client's parameters came with its hello; the server may send 1-RTT data at once.
            self.take_peer_params()?;
        }
        if progress.complete {
            self.take_peer_params()?;
            self.common.phase = Phase::Established;
            self.life.lifecycle.established();
            self.common.events.push_back(Event::Connected);
            self.common.signals.push_back(Signal::Established);
            if self.common.side.is_server() {
                // RFC 9001 §4.9.3: three probe timeouts for what was overtaken.
                self.link.keys.end_early_at(self.common.now + 3 * self.link.pto());
                // RFC 9001 §4.1.2: for the server, complete is confirmed.
                let tokens = self.new_tokens();
                self.life.confirmation.announce(tokens);
                self.confirmed();
            }
        }
        Ok(())
    }

    /// RFC 9000 §8.1.3. The version is settled: RFC 9369 §5 has tokens be good in that of their connection
    /// alone.
    fn new_tokens(&mut self) -> Vec<Vec<u8>> {
        let mut rng = self.link.path.numbering.fork();
        match &self.life.handshake.side {
            // Whoever is told that an address is proven shows that to be believed: not before it is.
            SideState::Server { seal: Some(seal), .. } if self.link.path.is_validated() => new_tokens(
                &**seal,
                &mut rng,
                self.common.now,
                self.link.path.address.remote.ip(),
                self.common.version,
            ),
            _ => Vec::new(),
        }
    }

    /// The handshake is confirmed (RFC 9001 §4.1.2): Handshake keys go (RFC 9001 §4.9.2).
    pub(crate) fn confirmed(&mut self) {
        if self.common.phase < Phase::Confirmed {
            self.common.phase = Phase::Confirmed;
            self.life.lifecycle.confirmed();
            self.common.qlog.confirmed(self.common.now);
            self.link.challenge_moved(&self.common);
            self.link.path.recovery.confirmed();
            self.discard(Space::Handshake);
            let followed = self.link.follow_preferred(&self.common);
            self.follow_move(followed);
            if self.link.path.search.is_some() {
                self.link.candidates.stir();
            }
        }
    }

    /// RFC 9001 §4.9: a space ends with its keys.
    pub(crate) fn discard(&mut self, space: Space) {
        if self.link.keys.has(space) {
            // What ends a space usually comes with the last acknowledgements of its packets: the only sample
            // of the round trip that a server has until its first 1-RTT packets are acknowledged.
            if let Err(error) = self.act_on_acks_of(space) {
                self.fail(error);
            }
            self.link.keys.discard(space);
            self.common.qlog.discarded(self.common.now, space);
            self.link.path.recovery.discard(space, self.common.now);
            self.link.probes[space.index()] = 0;
        }
    }

    fn take_peer_params(&mut self) -> Result<(), TransportError> {
        if self.common.peer.is_some() {
            return Ok(());
        }
        let Some(bytes) = self.link.keys.session().peer_params() else {
            // RFC 9001 §8.2: alert missing_extension.
            return Err(TransportError::new(Code::crypto(109), "no transport parameters"));
        };
        let params = TransportParams::decode(!self.common.side, bytes)
            .map_err(|e| TransportError::new(e.code(), e.to_string()))?;
        self.life.handshake.authenticate(&params, self.link.peer_cid)?;
        self.check_version(&params)?;
        if let Some(token) = params.stateless_reset_token {
            self.link.cids.set_reset_token(token);
            self.common.signals.push_back(Signal::ResetToken(self.link.path.address, token));
        }
        if let Some(preferred) = params.preferred_address {
            // RFC 9000 §18.2.
            if self.link.cids.is_remote_empty() {
                return Err(TransportError::new(
                    Code::TRANSPORT_PARAMETER_ERROR,
                    "a preferred address of a server without connection ids",
                ));
            }
            // RFC 9000 §5.1.1: its sequence number is 1.
            self.link.cids.on_new(1, 0, preferred.id, preferred.token)?;
        }
        let wanted = self.link.cids.set_peer_limit(params.active_connection_id_limit);
        if wanted > 0 {
            self.common.signals.push_back(Signal::NeedCids(wanted));
        }
        let mtu = usize::try_from(params.max_udp_payload_size).unwrap_or(usize::MAX);
        let before = self.link.path.mtu;
        self.link.path.limit_mtu(mtu);
        self.link.path.recovery.set_peer(params.max_ack_delay);
        self.link.acks.data.offer(self.common.ours.as_ref().and_then(|ours| ours.min_ack_delay));
        self.link.asks.set_peer(params.min_ack_delay, params.max_ack_delay);
        self.life.lifecycle.set_idle_timeout(self.common.config.idle_timeout, params.max_idle_timeout);
        self.settle_early(&params)?;
        self.traffic.streams.set_peer(&params);
        self.traffic.datagrams.set_peer(&params);
        self.resume_early()?;
        self.protect.set_peer(params.fec_decoder, params.fec_unmarked);
        if params.grease_quic_bit && self.common.config.grease_quic_bit {
            // RFC 9287 §3.1: from here on, and not before.
            self.link.grease.begin();
        }
        self.common.peer = Some((&params).into());
        self.common.trace_peer(&params, before, self.link.path.mtu);
        Ok(())
    }

    /// A Retry packet (RFC 9000 §17.2.5): once, before anything else was heard, and authentic.
    pub(crate) fn on_retry(&mut self, packet: &[u8], scid: ConnectionId, token: &[u8], tag: [u8; 16]) {
        let heard = self.link.peer_cid.is_some();
        let SideState::Client { crypto, original_dcid, retry_scid, .. } = &mut self.life.handshake.side
        else {
            return;
        };
        let is_usable = !token.is_empty() && token.len() <= MAX_TOKEN;
        if heard || retry_scid.is_some() || !is_usable || scid == *self.link.cids.remote() {
            return;
        }
        let body = &packet[..packet.len() - tag.len()];
        if crypto.retry_tag(self.common.version, original_dcid, body) != Some(tag) {
            return;
        }
        *retry_scid = Some(scid);
        self.link.token = token.to_vec();
        self.link.cids.set_remote(scid);
        if !self.link.keys.restart(&**crypto, self.common.version, &scid) {
            return;
        }
        self.link.path.recovery.restart(self.common.now);
        self.void_early();
        self.common.qlog.retry(self.common.now, self.common.version, &scid, token.len(), packet.len());
        tracing::debug!("the server asks for a proof of our address");
    }

    pub(crate) fn on_handshake_done(&mut self) -> Result<(), TransportError> {
        if self.common.side.is_server() {
            return Err(violation("HANDSHAKE_DONE from a client"));
        }
        self.confirmed();
        Ok(())
    }

    pub(crate) fn on_new_token(&mut self, token: &[u8]) -> Result<(), TransportError> {
        if self.common.side == Side::Server {
            return Err(violation("NEW_TOKEN from a client"));
        }
        if token.len() > MAX_TOKEN {
            return Ok(());
        }
        // An application that collects nothing is not made to hold more than a few.
        let held = self.common.events.iter().filter(|e| matches!(e, Event::NewToken(_))).count();
        if held < 8 {
            self.common.events.push_back(Event::NewToken(token.to_vec()));
        }
        Ok(())
    }
}
