use crate::error::Closed;

/// What a connection has counted so far. It is cheap to copy at any time.
// sizes: a table of numbers that are read one by one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Datagrams sent, and their bytes as UDP payload.
    pub sent_datagrams: u64,
    /// See [`sent_datagrams`](Self::sent_datagrams).
    pub sent_bytes: u64,
    /// Packets sent; several may share a datagram.
    pub sent_packets: u64,
    /// Datagrams that the system refused to send. They are not counted as sent.
    pub refused_datagrams: u64,
    /// Bytes of streams sent, each counted once: the bytes that use up the peer's windows. The number stops
    /// growing when the peer takes nothing.
    pub stream_bytes: u64,
    /// Datagrams received, and their bytes as UDP payload.
    pub received_datagrams: u64,
    /// See [`received_datagrams`](Self::received_datagrams).
    pub received_bytes: u64,
    /// Authentic packets received, duplicates not counted.
    pub received_packets: u64,
    /// Packets that could not be read: forged, corrupted, or without keys.
    pub dropped_packets: u64,
    /// Packets that were dropped as if they were lost. Either the [budget](crate::TransportConfig::budget)
    /// had no memory for their content, or the peer asked for more work than its packets pay for: an attacker
    /// does, and who gives up hundreds of streams as soon as it has opened them.
    pub unpaid_packets: u64,
    /// How often the peer asked for so much work that it was paced. While it is paced, packets that ask for
    /// more are unpaid, and it may open few new streams.
    pub paced: u64,
    /// Packets that came twice.
    pub duplicate_packets: u64,
    /// Packets of ours declared lost.
    pub lost_packets: u64,
    /// Packets declared lost that were acknowledged later.
    pub spurious_losses: u64,
    /// Probe timeouts (RFC 9002 §6.2).
    pub ptos: u64,
    /// How often we asked the server whether it can still reach us
    /// ([`ask_after`](crate::TransportConfig::ask_after)).
    pub asked: u64,
    /// Key updates, ours and the peer's (RFC 9001 §6).
    pub key_updates: u64,
    /// Moves to another path that were validated, and those that failed or were taken back.
    pub moves: u64,
    /// See [`moves`](Self::moves).
    pub failed_moves: u64,
    /// Smoothed round-trip time.
    pub rtt: core::time::Duration,
    /// Least round-trip time.
    pub min_rtt: core::time::Duration,
    /// Congestion window, in bytes.
    pub window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// The state of the congestion controller, a word of its specification: `slow start`, `probe up`.
    pub congestion_state: &'static str,
    /// The rate at which packets are paced, in bytes per second.
    pub pacing_rate: u64,
    /// The most bytes in flight that the path is thought to take: the slow start threshold, or BBR's
    /// long-term bound (`inflight_hi`). `None` if the controller knows none.
    pub window_bound: Option<u64>,
    /// The bandwidth that the path is thought to have, in bytes per second; `None` if the controller does not
    /// estimate it.
    pub bandwidth: Option<u64>,
    /// Forward erasure correction.
    pub fec: FecStats,
    /// Acknowledgements by the peer.
    pub acks: AckStats,
    /// Congestion marks.
    pub ecn: EcnStats,
    /// The size of datagrams.
    pub mtu: MtuStats,
    /// Unreliable datagrams.
    pub datagrams: DatagramStats,
    /// Why the connection ended, once it has.
    pub closed: Option<Closed>,
}

/// What of [`Stats`] is counted where it happens, by the same names. The rest is asked of who knows it.
#[derive(Debug, Default)]
pub(crate) struct CountedStats {
    pub(crate) sent_datagrams: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) sent_packets: u64,
    pub(crate) refused_datagrams: u64,
    pub(crate) received_datagrams: u64,
    pub(crate) received_bytes: u64,
    pub(crate) received_packets: u64,
    pub(crate) dropped_packets: u64,
    pub(crate) unpaid_packets: u64,
    pub(crate) paced: u64,
    pub(crate) duplicate_packets: u64,
    pub(crate) lost_packets: u64,
    pub(crate) ptos: u64,
    pub(crate) asked: u64,
    pub(crate) moves: u64,
    pub(crate) failed_moves: u64,
    /// But for the state, which is the path's.
    pub(crate) ecn: EcnStats,
    /// But for the present size, which is the path's.
    pub(crate) mtu: MtuStats,
    /// Apart, since a connection is without for as long as it lives.
    pub(crate) closed: Option<Box<Closed>>,
}

/// What was counted of the peer's acknowledgements so far, without those of the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AckStats {
    /// ACK frames received, and the received batches that they came in.
    pub frames: u64,
    /// See [`frames`](Self::frames).
    pub batches: u64,
    /// How many packets the peer is asked to acknowledge at once now; 2 if it was never asked.
    pub every: u64,
    /// How often it was asked (ACK_FREQUENCY).
    pub requests: u64,
}

/// What is known of ECN on the path to the peer (RFC 9000 §13.4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnState {
    /// ECN is not wanted: no packet is marked.
    #[default]
    Off,
    /// The first packets are marked, to learn what becomes of the marks.
    Testing,
    /// No more packets are marked until the fate of the marks is known: they are on their way, or marked
    /// packets do not arrive.
    Unknown,
    /// Marks arrive unchanged or report congestion. All packets are marked.
    Capable,
    /// Marks do not arrive, or arrive changed. No packet is marked.
    Failed,
}

/// What was counted of explicit congestion notification so far (RFC 9000 §13.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EcnStats {
    /// What is known of the path in use.
    pub state: EcnState,
    /// Packets of ours that left with a mark, ECT(0).
    pub sent: u64,
    /// How many of them met congestion: the marks that reached congestion control.
    pub ce: u64,
    /// Packets received that met congestion.
    pub received_ce: u64,
}

/// What was counted of the size of datagrams so far (RFC 8899).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MtuStats {
    /// The largest UDP payload that is sent on the path in use.
    pub current: usize,
    /// Datagrams that tried a larger size, and how many of them were lost.
    pub probes: u64,
    /// See [`probes`](Self::probes).
    pub lost_probes: u64,
    /// How often a path no longer took datagrams of the size in use.
    pub falls: u64,
}

/// What was counted of unreliable datagrams so far (RFC 9221).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatagramStats {
    /// Datagrams sent, and their bytes.
    pub sent: u64,
    /// See [`sent`](Self::sent).
    pub sent_bytes: u64,
    /// Of the datagrams sent: those that were acknowledged, those that were lost but recovered by the peer,
    /// and those that were lost.
    pub acknowledged: u64,
    /// Symbols of ours that the peer recovered, by its word: they were lost, or late.
    pub recovered: u64,
    /// See [`acknowledged`](Self::acknowledged).
    pub lost: u64,
    /// Datagrams that were not sent: because they were too old, because newer ones took their place, or
    /// because packets no longer had room for them.
    pub expired: u64,
    /// See [`expired`](Self::expired).
    pub displaced: u64,
    /// See [`expired`](Self::expired).
    pub too_long: u64,
    /// Datagrams received, and their bytes.
    pub received: u64,
    /// See [`received`](Self::received).
    pub received_bytes: u64,
    /// Of the datagrams received: those that were dropped because the application did not read them in time.
    pub dropped: u64,
    /// Datagrams that wait to be sent: with those sent and those that were not, all that were given to be. Of
    /// a connection that has ended, those that it had not sent by then.
    pub unsent: u64,
    /// Of the datagrams received: those that wait to be read.
    pub unread: u64,
}

/// What was counted of forward erasure correction so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FecStats {
    /// Source symbols sent; repeats are not counted.
    pub sources_sent: u64,
    /// Source symbols sent again, as the same symbol.
    pub repeats_sent: u64,
    /// Repair symbols sent, and the bytes of their data.
    pub repairs_sent: u64,
    /// See [`repairs_sent`](Self::repairs_sent).
    pub repair_bytes: u64,
    /// Symbols of ours of which the peer said that it recovered them: they were lost, or late.
    pub recovered: u64,
    /// Symbols of ours that were lost and had to be sent again.
    pub unrecovered: u64,
    /// Blocks of ours that were closed with repair symbols, and those of them of which a symbol had to be
    /// sent again.
    pub blocks: u64,
    /// See [`blocks`](Self::blocks).
    pub failed_blocks: u64,
    /// Source symbols received, each counted once.
    pub sources_received: u64,
    /// Repair symbols received.
    pub repairs_received: u64,
    /// Symbols that we recovered before they were received.
    pub recovered_here: u64,
    /// The estimated share of packets that are lost on the way to the peer, in parts per million.
    pub loss_ppm: u32,
}
