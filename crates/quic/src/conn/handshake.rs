use std::sync::Arc;

use quickset_wire::params::TransportParams;
use quickset_wire::{ConnectionId, Side, Space, TransportErrorCode as Code, Version};

use super::{Connection, Event, Role, Signal, violation};
use crate::early::{EarlyFate, EarlyLimits};
use crate::error::TransportError;
use crate::keys::{ClientCrypto, EndpointCrypto, Progress, ServerCrypto};
use crate::packet::Phase;
use crate::validation::{MAX_TOKEN, new_tokens};

/// What the handshake must remember to authenticate the connection ids (RFC 9000 §7.3).
pub(crate) struct Handshake {
    /// What we announced.
    pub(crate) ours: Box<TransportParams>,
    /// The peer's, once they are authentic.
    pub(crate) peer: Option<TransportParams>,
    /// The peer's source id, once its first packet came (the server knows it from the start).
    pub(crate) peer_cid: Option<ConnectionId>,
    /// The token of our Initial packets.
    pub(crate) token: Vec<u8>,
    /// What became of early data.
    pub(crate) early: EarlyFate,
    /// A client's: the limits that its early data keeps to.
    pub(crate) remembered: Option<EarlyLimits>,
    /// The version that it began in.
    pub(crate) began: Version,
    /// How often the first flight was said again, sooner than a probe timeout would have it.
    pub(crate) hastened: u8,
    pub(crate) side: SideState,
}

/// What only one of the sides needs.
pub(crate) enum SideState {
    Client {
        crypto: Arc<dyn ClientCrypto>,
        original_dcid: ConnectionId,
        retry_scid: Option<ConnectionId>,
        name: String,
        /// The version that a Version Negotiation packet turned down.
        refused: Option<Version>,
    },
    Server {
        crypto: Arc<dyn ServerCrypto>,
        /// The id of the client's first packet, or of its first one behind a Retry.
        first: ConnectionId,
        seal: Arc<dyn EndpointCrypto>,
    },
}

impl Handshake {
    pub(crate) fn new(
        ours: Box<TransportParams>,
        role: Role,
        remote_cid: ConnectionId,
        began: Version,
    ) -> Self {
        match role {
            Role::Client { crypto, token, name } => {
                let (original_dcid, retry_scid, refused) = (remote_cid, None, None);
                let side = SideState::Client { crypto, original_dcid, retry_scid, name, refused };
                Self { token, ..Self::with(ours, None, began, side) }
            }
            Role::Server { crypto, first, seal, .. } => {
                let side = SideState::Server { crypto, first, seal };
                Self::with(ours, Some(remote_cid), began, side)
            }
        }
    }

    fn with(
        ours: Box<TransportParams>,
        peer_cid: Option<ConnectionId>,
        began: Version,
        side: SideState,
    ) -> Self {
        let (peer, token, early, remembered) = (None, Vec::new(), EarlyFate::None, None);
        Self { ours, peer, peer_cid, token, early, remembered, began, hastened: 0, side }
    }

    /// RFC 9000 §7.3: the ids in the peer's parameters are those that its packets carried.
    fn authenticate(&self, params: &TransportParams) -> Result<(), TransportError> {
        let wrong = |what| Err(TransportError::new(Code::TRANSPORT_PARAMETER_ERROR, what));
        if params.initial_source_connection_id != self.peer_cid {
            return wrong("initial_source_connection_id is not the id of the handshake");
        }
        if let SideState::Client { original_dcid, retry_scid, .. } = &self.side {
            if params.original_destination_connection_id != Some(*original_dcid) {
                return wrong("original_destination_connection_id is not the id of our first packet");
            }
            if params.retry_source_connection_id != *retry_scid {
                return wrong("retry_source_connection_id is not the id of the Retry");
            }
        }
        Ok(())
    }
}

impl Connection {
    /// What follows from new keys and from the end of the handshake.
    pub(crate) fn on_progress(&mut self, progress: Progress) -> Result<(), TransportError> {
        self.log_progress(progress);
        self.follow_early(progress);
        self.recovery.has_handshake_keys |= progress.handshake_keys;
        if progress.one_rtt_keys && self.side.is_server() {
            // The client's parameters came with its hello; the server may send 1-RTT data at once.
            self.take_peer_params()?;
        }
        if progress.complete {
            self.take_peer_params()?;
            self.phase = Phase::Established;
            self.lifecycle.established();
            self.outbox.events.push_back(Event::Connected);
            self.outbox.signals.push_back(Signal::Established);
            if self.side.is_server() {
                // RFC 9001 §4.9.3: three probe timeouts for what was overtaken.
                self.keys.end_early_at(self.now + 3 * self.pto());
                // RFC 9001 §4.1.2: for the server, complete is confirmed.
                let tokens = self.new_tokens();
                self.confirmation.announce(tokens);
                self.confirmed();
            }
        }
        Ok(())
    }

    /// RFC 9000 §8.1.3. The version is settled: RFC 9369 §5 has tokens be good in that of their connection
    /// alone.
    fn new_tokens(&mut self) -> Vec<Vec<u8>> {
        let mut rng = self.numbering.fork();
        match &self.handshake.side {
            // Whoever is told that an address is proven shows that to be believed: not before it is.
            SideState::Server { seal, .. } if self.path.is_validated() => {
                new_tokens(&**seal, &mut rng, (self.now, self.path.address.remote.ip(), self.version))
            }
            _ => Vec::new(),
        }
    }

    /// The handshake is confirmed (RFC 9001 §4.1.2): Handshake keys go (RFC 9001 §4.9.2).
    pub(crate) fn confirmed(&mut self) {
        if self.phase < Phase::Confirmed {
            self.phase = Phase::Confirmed;
            self.lifecycle.confirmed();
            self.log_confirmed();
            self.challenge_moved();
            self.recovery.confirmed();
            self.discard(Space::Handshake);
            self.follow_preferred();
            if self.path.search.is_some() {
                self.candidates.stir();
            }
        }
    }

    /// RFC 9001 §4.9: a space ends with its keys.
    pub(crate) fn discard(&mut self, space: Space) {
        if self.keys.has(space) {
            // What ends a space usually comes with the last acknowledgements of its packets: the only sample
            // of the round trip that a server has until its first 1-RTT packets are acknowledged.
            if let Err(error) = self.act_on_acks_of(space) {
                self.fail(error);
            }
            self.keys.discard(space);
            self.log_discarded(space);
            self.recovery.discard(space, self.now);
            self.outbox.probes[space.index()] = 0;
        }
    }

    fn take_peer_params(&mut self) -> Result<(), TransportError> {
        if self.handshake.peer.is_some() {
            return Ok(());
        }
        let Some(bytes) = self.keys.session().peer_params() else {
            // RFC 9001 §8.2: alert missing_extension.
            return Err(TransportError::new(Code::crypto(109), "no transport parameters"));
        };
        let params = TransportParams::decode(!self.side, bytes)
            .map_err(|e| TransportError::new(e.code(), e.to_string()))?;
        self.handshake.authenticate(&params)?;
        self.check_version(&params)?;
        if let Some(token) = params.stateless_reset_token {
            self.cids.set_reset_token(token);
            self.outbox.signals.push_back(Signal::ResetToken(self.path.address, token));
        }
        if let Some(preferred) = params.preferred_address {
            // RFC 9000 §18.2.
            if self.cids.is_remote_empty() {
                return Err(TransportError::new(
                    Code::TRANSPORT_PARAMETER_ERROR,
                    "a preferred address of a server without connection ids",
                ));
            }
            // RFC 9000 §5.1.1: its sequence number is 1.
            self.cids.on_new(1, 0, preferred.id, preferred.token)?;
        }
        let wanted = self.cids.set_peer_limit(params.active_connection_id_limit);
        if wanted > 0 {
            self.outbox.signals.push_back(Signal::NeedCids(wanted));
        }
        let mtu = usize::try_from(params.max_udp_payload_size).unwrap_or(usize::MAX);
        let before = self.path.mtu;
        self.path.limit_mtu(mtu);
        self.recovery.set_peer(params.max_ack_delay);
        self.acks[Space::Data.index()].offer(self.handshake.ours.min_ack_delay);
        self.asks.set_peer(params.min_ack_delay, params.max_ack_delay);
        self.lifecycle.set_idle_timeout(self.config.idle_timeout, params.max_idle_timeout);
        self.settle_early(&params)?;
        self.streams.set_peer(&params);
        self.datagrams.set_peer(&params);
        self.resume_early()?;
        self.protect.set_peer(params.fec_decoder, params.fec_unmarked);
        if params.grease_quic_bit && self.config.grease_quic_bit {
            // RFC 9287 §3.1: from here on, and not before.
            self.grease.begin();
        }
        self.handshake.peer = Some(params);
        self.log_peer(before);
        Ok(())
    }

    /// A Retry packet (RFC 9000 §17.2.5): once, before anything else was heard, and authentic.
    pub(crate) fn on_retry(&mut self, packet: &[u8], scid: ConnectionId, token: &[u8], tag: [u8; 16]) {
        let heard = self.handshake.peer_cid.is_some();
        let SideState::Client { crypto, original_dcid, retry_scid, .. } = &mut self.handshake.side else {
            return;
        };
        let is_usable = !token.is_empty() && token.len() <= MAX_TOKEN;
        if heard || retry_scid.is_some() || !is_usable || scid == *self.cids.remote() {
            return;
        }
        let body = &packet[..packet.len() - tag.len()];
        if crypto.retry_tag(self.version, original_dcid, body) != Some(tag) {
            return;
        }
        *retry_scid = Some(scid);
        self.handshake.token = token.to_vec();
        self.cids.set_remote(scid);
        if !self.keys.restart(&**crypto, self.version, &scid) {
            return;
        }
        self.recovery.restart(self.now);
        self.void_early();
        self.log_retry(&scid, token.len(), packet.len());
        tracing::debug!("the server asks for a proof of our address");
    }

    /// The source id of a long header: the first one is the peer's choice, all others must equal it
    /// (RFC 9000 §7.2). False when the packet is to be dropped.
    pub(crate) fn accept_source(&mut self, scid: ConnectionId) -> bool {
        if let Some(known) = self.handshake.peer_cid {
            return known == scid;
        }
        self.handshake.peer_cid = Some(scid);
        self.cids.set_remote(scid);
        true
    }

    pub(crate) fn on_handshake_done(&mut self) -> Result<(), TransportError> {
        if self.side.is_server() {
            return Err(violation("HANDSHAKE_DONE from a client"));
        }
        self.confirmed();
        Ok(())
    }

    pub(crate) fn on_new_token(&mut self, token: &[u8]) -> Result<(), TransportError> {
        if self.side == Side::Server {
            return Err(violation("NEW_TOKEN from a client"));
        }
        if token.len() > MAX_TOKEN {
            return Ok(());
        }
        // An application that collects nothing is not made to hold more than a few.
        let held = self.outbox.events.iter().filter(|e| matches!(e, Event::NewToken(_))).count();
        if held < 8 {
            self.outbox.events.push_back(Event::NewToken(token.to_vec()));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Handshake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handshake")
            .field("ours", &self.ours)
            .field("peer", &self.peer)
            .field("peer_cid", &self.peer_cid)
            .finish_non_exhaustive()
    }
}
