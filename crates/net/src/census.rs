//! What the connections of an endpoint did, all together: for whoever watches a server.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use quickset_quic::{ConnectionKey, Counters, Stats};

use crate::calls::CallSizes;
use crate::shared::Shared;

/// What an endpoint and its connections did so far; see [`Endpoint::stats`](crate::Endpoint::stats).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct EndpointStats {
    /// The endpoint itself.
    pub counters: Counters,
    /// The connections that are no more.
    pub ended: ConnectionTotals,
    /// Those that there are, those in their handshake and those that say goodbye included, each by itself.
    pub live: Vec<Stats>,
    /// What the calls of the system carried by which the endpoint sent. Those that were refused, and those
    /// that belong to no connection, are not among them.
    pub sent: CallSizes,
    /// The same of those by which it received.
    pub received: CallSizes,
    /// Datagrams that came to a socket whose driver has not the connection, and were handed over to that
    /// which has: of endpoints of several [sockets](crate::SocketConfig::sockets).
    pub handed_over: u64,
    /// Those that were lost then, since a driver had too many.
    pub handed_over_lost: u64,
}

/// Sums over connections; of what they mean see [`Stats`].
// sizes: a table of numbers that are read one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionTotals {
    /// How many connections these were.
    pub connections: u64,
    /// UDP payloads sent, and their bytes.
    pub sent_datagrams: u64,
    /// See [`sent_datagrams`](Self::sent_datagrams).
    pub sent_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// UDP payloads received, and their bytes.
    pub received_datagrams: u64,
    /// See [`received_datagrams`](Self::received_datagrams).
    pub received_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Packets that could not be read.
    pub dropped_packets: u64,
    /// Datagrams that the system did not take, and that are not among those sent.
    pub refused_datagrams: u64,
    /// Packets declared lost, and those of them that were acknowledged later.
    pub lost_packets: u64,
    /// See [`lost_packets`](Self::lost_packets).
    pub spurious_losses: u64,
    /// Probe timeouts.
    pub ptos: u64,
    /// Moves to another path.
    pub moves: u64,
    /// Packets sent that met congestion, as their marks told.
    pub ce_packets: u64,
    /// Source symbols sent.
    pub sources_sent: u64,
    /// Repair symbols sent, and the bytes of their data.
    pub repairs_sent: u64,
    /// See [`repairs_sent`](Self::repairs_sent).
    pub repair_bytes: u64,
    /// Symbols sent that the peer recovered, and those that had to be sent again.
    pub recovered: u64,
    /// See [`recovered`](Self::recovered).
    pub unrecovered: u64,
    /// Symbols that were recovered here.
    pub recovered_here: u64,
    /// Unreliable datagrams (RFC 9221) of the application that were not sent: too old, displaced by others,
    /// or too long for the path.
    pub unsent_frames: u64,
    /// Those that came and were dropped, since the application did not read them in time.
    pub unread_frames: u64,
}

/// The connections that there are, and what those did that are no more.
#[derive(Debug, Default)]
pub(crate) struct Census {
    live: BTreeMap<ConnectionKey, Weak<Shared>>,
    ended: ConnectionTotals,
}

impl EndpointStats {
    /// What all connections did, those that there are included.
    pub fn totals(&self) -> ConnectionTotals {
        let mut totals = self.ended;
        self.live.iter().for_each(|stats| totals.add(stats));
        totals
    }
}

impl ConnectionTotals {
    /// Adds a connection.
    pub fn add(&mut self, stats: &Stats) {
        self.add_all(&Self::of(stats));
    }

    fn of(stats: &Stats) -> Self {
        Self {
            connections: 1,
            sent_datagrams: stats.sent_datagrams,
            sent_bytes: stats.sent_bytes,
            sent_packets: stats.sent_packets,
            refused_datagrams: stats.refused_datagrams,
            received_datagrams: stats.received_datagrams,
            received_bytes: stats.received_bytes,
            received_packets: stats.received_packets,
            dropped_packets: stats.dropped_packets,
            lost_packets: stats.lost_packets,
            spurious_losses: stats.spurious_losses,
            ptos: stats.ptos,
            moves: stats.moves,
            ce_packets: stats.ecn.ce,
            sources_sent: stats.fec.sources_sent,
            repairs_sent: stats.fec.repairs_sent,
            repair_bytes: stats.fec.repair_bytes,
            recovered: stats.fec.recovered,
            unrecovered: stats.fec.unrecovered,
            recovered_here: stats.fec.recovered_here,
            unsent_frames: stats.datagrams.expired + stats.datagrams.displaced + stats.datagrams.too_long,
            unread_frames: stats.datagrams.dropped,
        }
    }
}

impl ConnectionTotals {
    /// Adds what others did.
    pub(crate) fn add_all(&mut self, others: &Self) {
        self.connections += others.connections;
        self.sent_datagrams += others.sent_datagrams;
        self.sent_bytes += others.sent_bytes;
        self.sent_packets += others.sent_packets;
        self.refused_datagrams += others.refused_datagrams;
        self.received_datagrams += others.received_datagrams;
        self.received_bytes += others.received_bytes;
        self.received_packets += others.received_packets;
        self.dropped_packets += others.dropped_packets;
        self.lost_packets += others.lost_packets;
        self.spurious_losses += others.spurious_losses;
        self.ptos += others.ptos;
        self.moves += others.moves;
        self.ce_packets += others.ce_packets;
        self.sources_sent += others.sources_sent;
        self.repairs_sent += others.repairs_sent;
        self.repair_bytes += others.repair_bytes;
        self.recovered += others.recovered;
        self.unrecovered += others.unrecovered;
        self.recovered_here += others.recovered_here;
        self.unsent_frames += others.unsent_frames;
        self.unread_frames += others.unread_frames;
    }
}

impl Census {
    pub(crate) fn enter(&mut self, shared: &Arc<Shared>) {
        self.live.insert(shared.key, Arc::downgrade(shared));
    }

    /// A connection has drained, having done this.
    pub(crate) fn leave(&mut self, shared: &Shared, stats: &Stats) {
        self.live.remove(&shared.key);
        self.ended.add(stats);
    }

    /// Those that left, and those that are to be asked: of one moment, so that each connection is in one of
    /// them.
    pub(crate) fn look(&self) -> (ConnectionTotals, Vec<Arc<Shared>>) {
        (self.ended, self.live.values().filter_map(Weak::upgrade).collect())
    }
}
