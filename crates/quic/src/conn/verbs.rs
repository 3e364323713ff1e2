use std::net::SocketAddr;

use quickset_base::{AddressPair, Duration, Time};
use quickset_wire::{Dir, Side, Space};

use super::handles::sent_as;
use super::{CloseFrame, Connection};
use crate::ack::Acks;
use crate::cc::RateCap;
use crate::cids::IssuedCid;
use crate::error::Closed;
use crate::event::{Event, Signal};
use crate::keys::CryptoSession;
use crate::packet::{Channel, Phase, Want};
use crate::stats::{EcnStats, MtuStats, Stats};

/// What a connection has under way, for whoever shares out what connections to one address may have together:
/// [`Connection::flight`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// The address that it goes to.
    pub remote: SocketAddr,
    /// Bytes in flight (RFC 9002 §2), of which something is still expected to be heard: none once the
    /// connection closes, or while probe timeouts pass without an answer. A peer that says nothing would keep
    /// the room of others otherwise.
    pub bytes: u64,
    /// There is more to send, which congestion control does not let leave yet, or had no turn so far.
    pub more: bool,
    /// Packets declared lost so far.
    pub lost: u64,
    /// The last sample of the round trip (RFC 9002 §5.3: `adjusted_rtt`), and the smoothed one; what is
    /// assumed before there is one.
    pub trip: Duration,
    /// See [`trip`](Self::trip).
    pub srtt: Duration,
}

/// What an application and its driver ask of a connection. After any of these, the connection is polled.
impl Connection {
    /// The next event, if there is one.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.common.events.pop_front()
    }

    /// Whether [`poll`](quickset_base::Machine::poll) has anything to do with what verbs of streams changed
    /// since it slept, of which most change nothing that the peer, or another task, has to know. After any
    /// other verb it is called in any case.
    #[inline]
    pub fn wants_poll(&self) -> bool {
        !self.common.events.is_empty()
            || !self.common.signals.is_empty()
            || self.traffic.wants_turn()
            || self.allowance.wants_settling()
    }

    /// Whether nothing is to be sent now but that packets came: what the application is about to write in
    /// answer to them may go along.
    pub fn owes_only_acks(&self) -> bool {
        self.common.phase == Phase::Confirmed
            && self.life.lifecycle.is_open()
            && self.common.events.is_empty()
            && self.link.probes[Space::Data.index()] == 0
            && self.link.acks.data.want(self.common.now) > Want::None
            && !self.wants_data()
    }

    /// Whether the peer is so near that a system takes about as long to wake a thread as a packet to come: on
    /// the same machine, or on one next to it.
    pub fn is_near(&self) -> bool {
        self.link.path.recovery.rtt().min() < NEAR
    }

    /// The next request to the endpoint, if there is one.
    pub fn poll_signal(&mut self) -> Option<Signal> {
        self.common.signals.pop_front()
    }

    /// The endpoint's answer to [`Signal::NeedCids`].
    pub fn add_local_cids(&mut self, cids: Vec<IssuedCid>) {
        self.link.cids.add_local(cids);
    }

    /// The endpoint saw a stateless reset meant for this connection (RFC 9000 §10.3.1).
    pub fn on_stateless_reset(&mut self) {
        self.life.lifecycle.vanish();
        self.over(Closed::Reset);
    }

    /// The endpoint needs the place of this connection for another
    /// ([`Endpoint::displaced`](crate::Endpoint::displaced)): it is gone at once and without a word, as if it
    /// had been silent for too long.
    pub fn make_room(&mut self) {
        if !self.life.lifecycle.is_drained() {
            self.life.lifecycle.vanish();
            self.over(Closed::TimedOut);
        }
    }

    /// Which side this is.
    pub fn side(&self) -> Side {
        self.common.side
    }

    /// Where the peer is.
    pub fn path(&self) -> AddressPair {
        self.link.path.address
    }

    /// The handshake: the protocol agreed on, the peer's identity, exported keys.
    pub fn session(&self) -> &dyn CryptoSession {
        self.link.keys.session()
    }

    /// True between the end of the handshake and the end of the connection.
    pub fn is_established(&self) -> bool {
        self.common.phase > Phase::Handshake && self.life.lifecycle.is_open()
    }

    /// Why the connection ended, once it has.
    pub fn closed(&self) -> Option<&Closed> {
        self.common.stats.closed.as_deref()
    }

    /// True when nothing is left to do.
    pub fn is_drained(&self) -> bool {
        self.life.lifecycle.is_drained()
    }

    /// Whether fenced streams were agreed on; without, messages travel as plain streams, in order.
    pub fn has_fenced_streams(&self) -> bool {
        self.common.config.fenced_streams.is_some()
            && self.common.peer.as_ref().is_some_and(|p| p.has_fenced_streams)
    }

    /// Ends the connection at once (RFC 9000 §5.3): data that was not delivered is lost. The peer's
    /// application gets `code` and `reason`, of which 256 bytes are sent at most. On the wire a code, here
    /// and of streams, is less than 2^62 (RFC 9000 §20.2): a larger one is sent as the largest of these.
    pub fn close(&mut self, now: Time, code: u64, reason: &[u8]) {
        self.common.now = now.max(self.common.now);
        if self.life.lifecycle.is_open() {
            let farewell = CloseFrame::application(sent_as(code), reason);
            self.life.lifecycle.close(
                self.common.now,
                farewell,
                self.link.pto(),
                self.common.phase > Phase::Handshake,
            );
            self.over(Closed::Locally);
        }
    }

    /// What drives the connection ends, and nothing will be sent any more: the application is told
    /// [`Closed::Abandoned`], the peer nothing.
    pub fn abandon(&mut self, now: Time) {
        self.common.now = now.max(self.common.now);
        if self.life.lifecycle.is_open() {
            let farewell = CloseFrame::Application { code: 0, reason: Vec::new() };
            self.life.lifecycle.close(
                self.common.now,
                farewell,
                self.link.pto(),
                self.common.phase > Phase::Handshake,
            );
            self.over(Closed::Abandoned);
        }
    }

    /// Sends a PING soon; its acknowledgement is an RTT sample and keeps the path open.
    pub fn ping(&mut self) {
        self.life.lifecycle.ping();
    }

    /// Sends no more than so many bits per second from now on: see [`TransportConfig::max_rate_bps`].
    ///
    /// [`TransportConfig::max_rate_bps`]: crate::TransportConfig::max_rate_bps
    pub fn set_max_rate_bps(&mut self, now: Time, most: Option<u64>) {
        self.common.now = now.max(self.common.now);
        let now = self.common.now;
        match (most, &mut self.link.path.cap) {
            (Some(rate), Some(cap)) => cap.set_rate(rate, now),
            (Some(rate), none) => *none = Some(RateCap::new(rate, now)),
            (None, cap) => *cap = None,
        }
    }

    /// Changes to fresh packet keys, if that is allowed now (RFC 9001 §6.1: handshake confirmed, the last
    /// change acknowledged). False when it is not.
    pub fn update_keys(&mut self, now: Time) -> bool {
        self.common.phase == Phase::Confirmed && self.link.keys.update(now)
    }

    /// Says whether it is the turn of other connections: then nothing leaves from here on but what
    /// congestion control is not asked for, which are acknowledgements, probes and farewells.
    pub fn await_turn(&mut self, is_others: bool) {
        (self.link.held.is_others_turn, self.link.held.awaits_turn) = (is_others, false);
    }

    /// Returns whether something would have left but for [`await_turn`](Self::await_turn).
    pub fn awaits_turn(&self) -> bool {
        self.link.held.awaits_turn
    }

    /// Returns what is under way to the peer.
    pub fn flight(&self) -> Flight {
        let (path, is_open) = (&self.link.path, self.life.lifecycle.is_open());
        let rtt = path.recovery.rtt();
        Flight {
            remote: path.address.remote,
            bytes: if is_open && path.recovery.pto_count() == 0 { path.recovery.in_flight() } else { 0 },
            more: is_open && self.wants_data(),
            lost: self.common.stats.lost_packets,
            trip: rtt.adjusted(),
            srtt: rtt.smoothed(),
        }
    }

    /// What was counted so far.
    pub fn stats(&self) -> Stats {
        let rtt = self.link.path.recovery.rtt();
        let control = self.link.path.congestion.control();
        let counted = &self.common.stats;
        Stats {
            sent_datagrams: counted.sent_datagrams,
            sent_bytes: counted.sent_bytes,
            sent_packets: counted.sent_packets,
            refused_datagrams: counted.refused_datagrams,
            received_datagrams: counted.received_datagrams,
            received_bytes: counted.received_bytes,
            received_packets: counted.received_packets,
            dropped_packets: counted.dropped_packets,
            unpaid_packets: counted.unpaid_packets,
            paced: counted.paced,
            duplicate_packets: counted.duplicate_packets,
            lost_packets: counted.lost_packets,
            ptos: counted.ptos,
            asked: counted.asked,
            moves: counted.moves,
            failed_moves: counted.failed_moves,
            stream_bytes: self.traffic.streams.limits().sent(),
            spurious_losses: self.link.path.recovery.spurious_losses(),
            key_updates: self.link.keys.updates(),
            rtt: rtt.smoothed(),
            min_rtt: rtt.min(),
            window: control.window,
            in_flight: self.link.path.recovery.in_flight(),
            congestion_state: control.view.state,
            pacing_rate: self.link.path.pacing_rate(&control),
            window_bound: control.view.bound,
            bandwidth: control.view.bandwidth,
            fec: self.protect.stats(),
            acks: self.link.asks.stats(),
            datagrams: self.traffic.datagrams.stats(),
            mtu: MtuStats { current: self.link.path.mtu, ..counted.mtu },
            ecn: EcnStats {
                state: self.link.path.ecn.state(),
                sent: counted.ecn.sent + self.link.path.recovery.marked(),
                received_ce: counted.ecn.received_ce + self.link.acks.iter().map(Acks::marked).sum::<u64>(),
                ..counted.ecn
            },
            closed: counted.closed.as_deref().cloned(),
        }
    }

    /// Whether the peer takes resets behind a part that arrives (draft-ietf-quic-reliable-stream-reset).
    pub fn has_reset_at(&self) -> bool {
        self.traffic.streams.has_reset_at()
    }

    /// How many streams in a direction the peer was allowed to open so far, since the connection began: the
    /// index of any of its streams is less.
    pub fn max_peer_streams(&self, dir: Dir) -> u64 {
        self.traffic.streams.limits().max_peer_streams(dir)
    }

    /// Whether we take datagrams: the peer was told so.
    pub fn takes_datagrams(&self) -> bool {
        self.common.config.datagrams.max_frame_size > 0
    }

    /// The longest datagram, in bytes, that can be sent now; `None` when the peer takes none, or has not said
    /// so yet. It changes with the size of the path's packets. Once datagrams are
    /// [protected](super::Datagrams::set_protection), it is the longest that is; those up to some 40 bytes
    /// longer are taken all the same, and go unprotected.
    pub fn max_datagram_len(&self) -> Option<usize> {
        let room = self.link.packet_room();
        self.traffic
            .datagrams
            .longest(self.protect.send.symbol_room(Channel::Datagrams, room).unwrap_or(room))
    }

    /// The longest message, in bytes, that the peer takes: what it said, and until it has said so what all
    /// peers take.
    pub fn max_message_len(&self) -> u64 {
        self.traffic.streams.max_message_len()
    }
}

/// Of [`Connection::is_near`].
const NEAR: Duration = Duration::from_micros(250);
