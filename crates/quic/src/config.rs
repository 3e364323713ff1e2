use std::net::{SocketAddrV4, SocketAddrV6};
#[cfg(feature = "qlog")]
use std::sync::Arc;

use quickset_base::Duration;
use quickset_wire::Version;

use crate::ack::AckPolicy;
use crate::budget::Budget;
use crate::cc;
use crate::datagram::DatagramConfig;
use crate::early::EarlyData;
use crate::path::MtuDiscovery;
use crate::protect::Fec;
use crate::streams;

/// How a connection behaves. The defaults suit an interactive application on the Internet; `with_` methods
/// change one of them each.
// sizes: settings that stand for themselves, and of which most stay as they are.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransportConfig {
    /// The QUIC versions that we speak, in order of preference: 1 and 2 (RFC 9369). Others are passed over.
    ///
    /// A client begins with the first version. If the server does not speak it, the client goes on with the
    /// first version that both speak (RFC 9368 §2.1). A server takes the version that its client prefers
    /// among those that both speak, within the same handshake (§2.3).
    pub versions: Vec<Version>,
    /// The version that a client begins with in place of the first of `versions`, of which it must be one. If
    /// a server may not know the first version, this saves a round trip, and a server that does know it still
    /// moves to it. `None`: the first.
    pub first_version: Option<Version>,
    /// How many streams of both directions the peer may have open at a time, of whatever they carry: bytes
    /// or messages. It is what a peer's `open_bi` and `open_messages_bi` wait for.
    ///
    /// Of these `max_fenced_streams` may be new or carry messages: where it is the smaller number, it binds
    /// first.
    pub max_bidi_streams: u64,
    /// The same of streams that only the peer sends on: its `open_uni` and `open_messages` wait for it.
    pub max_uni_streams: u64,
    /// The receive window of a stream at the start, in bytes. It grows by need up to `max_stream_window`.
    pub stream_window: u64,
    /// The largest receive window of a stream, in bytes.
    pub max_stream_window: u64,
    /// The largest receive window of the connection, in bytes. The window begins at one and a half stream
    /// windows.
    pub max_connection_window: u64,
    /// How many bytes the sending half of a stream holds, sent or not, before `write` takes no more; 0 means
    /// 1.
    pub send_buffer: u64,
    /// How many bytes the sending halves of all streams hold together. Beyond it, streams that hold 16 KiB or
    /// more take no more. It is at least `send_buffer`.
    ///
    /// This is how much a peer that asks for much and takes nothing makes us hold.
    pub connection_send_buffer: u64,
    /// The silence after which the connection ends (RFC 9000 §10.1); `None`: it never ends by silence.
    ///
    /// While data waits for its acknowledgement, we send at least eight packets in this time that ask for
    /// one. The gap between two of them is at most half a second, or a round trip if that is longer.
    pub idle_timeout: Option<Duration>,
    /// The silence after which a PING keeps the connection alive; `None`: nothing does.
    pub keep_alive: Option<Duration>,
    /// The silence after which a client that waits for something asks with a PING whether the server can
    /// still reach it; `None`: it never asks.
    ///
    /// A NAT may give a client that only receives a new port. The server learns of the new port only from a
    /// packet of the client. So a client asks when it waits for data of a request, for more of a stream, or
    /// for credit. It waits longer than this if three probe timeouts (up to a second of them) or twice the
    /// usual pauses of the server are longer.
    ///
    /// In one silence it asks again and again, each time after twice as long, up to a sixth of
    /// `idle_timeout`. `idle_timeout` still counts: a peer that does not answer is gone as early as without
    /// these questions, and for a peer that does nothing but answer, the time runs from its sixth answer on.
    pub ask_after: Option<Duration>,
    /// How long the handshake may take. At least eight probes are sent in this time.
    ///
    /// A client whose handshake is complete may not know yet that the server's is (RFC 9001 §4.1.2). It gives
    /// up after this much silence, whatever `idle_timeout` says.
    pub handshake_timeout: Duration,
    /// The largest UDP payload that is sent until a larger one is found, in bytes: 1200 to 65,507. If it is
    /// larger than what the path takes, packets are lost; all of them, unless `mtu_discovery` notices.
    pub mtu: u16,
    /// The search for larger UDP payloads on each path (RFC 8899); `None`: payloads are of `mtu` bytes.
    pub mtu_discovery: Option<MtuDiscovery>,
    /// The longest time by which we delay an acknowledgement (RFC 9000 §13.2.1).
    pub max_ack_delay: Duration,
    /// The shortest delay of acknowledgements that the peer may ask for, in whole microseconds. Two
    /// acknowledgements that the peer did not ask for are at least this far apart.
    ///
    /// If it is not below `max_ack_delay`, the peer cannot ask (draft-ietf-quic-ack-frequency).
    pub min_ack_delay: Duration,
    /// How acknowledgements act, and how often we ask the peer for them.
    pub acks: AckPolicy,
    /// The RTT that is assumed before there is a sample (RFC 9002 §6.2.2), a minute at most. A first flight
    /// without an answer is sent again after three times as long.
    ///
    /// `None`: the RTT of the endpoint's last connection to the same address, or of a Retry, between 33 and
    /// 333 ms. If neither is known, a client assumes 100 ms and a server 333 ms.
    pub initial_rtt: Option<Duration>,
    /// The congestion controller.
    pub congestion: cc::Algorithm,
    /// Bits per second of UDP payload that we send at most, measured over any second, whatever the congestion
    /// controller allows: data, repair, and what is sent again. Acknowledgements and probes do not wait, and
    /// count. `None`: as many as the path takes. [`Connection::set_max_rate_bps`] changes it.
    ///
    /// Urgent data goes first, and waits for two packets at most.
    ///
    /// [`Connection::set_max_rate_bps`]: crate::Connection::set_max_rate_bps
    pub max_rate_bps: Option<u64>,
    /// The largest message of a fenced stream that we take, in bytes, at least 1200; `None`: we do not offer
    /// fenced streams.
    pub fenced_streams: Option<u64>,
    /// How many of the `max_bidi_streams`, and how many of the `max_uni_streams`, may at a time carry
    /// messages or be new: at least 1. What a new stream carries shows with its first frame, and until then
    /// it counts here.
    ///
    /// So a peer that knows fenced streams opens no more than this many in one go, even of bytes. As they
    /// turn out to carry bytes, a round trip later, it opens others, up to `max_bidi_streams` and
    /// `max_uni_streams`. While this many carry messages, it opens none. A server whose clients begin with
    /// more requests at once than this, and that takes no messages, sets `fenced_streams` to `None`. Where
    /// fenced streams are not agreed on, messages travel as bytes, and this number is of no account.
    ///
    /// A message of which parts are missing is held beyond the window of the connection. This number times
    /// `fenced_streams`, for each direction, is what that may cost.
    pub max_fenced_streams: u64,
    /// How many classes there may be, each counted once ([`set_class`](crate::SendStream::set_class)).
    pub max_classes: usize,
    /// Forward erasure correction: what we offer, and what protects our streams. `None`: we do not offer it.
    pub fec: Option<Fec>,
    /// Who may move to another address, and where to.
    pub migration: Migration,
    /// Unreliable datagrams (RFC 9221): whether we take any, and how many may wait.
    pub datagrams: DatagramConfig,
    /// Whether the peer may reset a stream behind a part that still arrives (RESET_STREAM_AT,
    /// draft-ietf-quic-reliable-stream-reset).
    pub reset_stream_at: bool,
    /// Whether the fixed bit of packets is random where the peer takes that, and whether we take it
    /// (RFC 9287). Networks then cannot come to rely on the bit.
    ///
    /// Set it to `false` on a socket that is shared with other protocols and tells them apart by this bit. A
    /// server must then not have offered it within the last seven days, for which its clients may remember
    /// the offer.
    pub grease_quic_bit: bool,
    /// Early data (0-RTT): what a client sends before the handshake is complete, and what a server reads of
    /// it. An attacker can replay it. `None`: none is sent and none is taken.
    pub early_data: Option<EarlyData>,
    /// Whether packets are marked as ECN-capable on paths that keep the marks (RFC 9000 §13.4), so that
    /// queues can tell us of congestion before they overflow. Marks of the peer are always counted and
    /// reported.
    pub ecn: bool,
    /// Whether one call may send a batch of several packets by segmentation offload.
    pub gso: bool,
    /// The memory that these connections share with others of the process, each of them within the limits
    /// above. A server refuses clients for whom no memory is left. `None`: only the limits above count.
    pub budget: Option<Budget>,
    /// Where connections leave their traces; `None`: nowhere.
    #[cfg(feature = "qlog")]
    pub qlog: Option<Arc<dyn crate::sinks::Sinks>>,
}

setters! { TransportConfig {
    with_versions: versions: Vec<Version>,
    with_first_version: first_version: impl Into<Option<Version>>,
    with_max_bidi_streams: max_bidi_streams: u64,
    with_max_uni_streams: max_uni_streams: u64,
    with_stream_window: stream_window: u64,
    with_max_stream_window: max_stream_window: u64,
    with_max_connection_window: max_connection_window: u64,
    with_send_buffer: send_buffer: u64,
    with_connection_send_buffer: connection_send_buffer: u64,
    with_idle_timeout: idle_timeout: impl Into<Option<Duration>>,
    with_keep_alive: keep_alive: impl Into<Option<Duration>>,
    with_ask_after: ask_after: impl Into<Option<Duration>>,
    with_handshake_timeout: handshake_timeout: Duration,
    with_mtu: mtu: u16,
    with_mtu_discovery: mtu_discovery: impl Into<Option<MtuDiscovery>>,
    with_max_ack_delay: max_ack_delay: Duration,
    with_min_ack_delay: min_ack_delay: Duration,
    with_acks: acks: AckPolicy,
    with_initial_rtt: initial_rtt: impl Into<Option<Duration>>,
    with_congestion: congestion: cc::Algorithm,
    with_max_rate_bps: max_rate_bps: impl Into<Option<u64>>,
    with_fenced_streams: fenced_streams: impl Into<Option<u64>>,
    with_max_fenced_streams: max_fenced_streams: u64,
    with_max_classes: max_classes: usize,
    with_fec: fec: impl Into<Option<Fec>>,
    with_migration: migration: Migration,
    with_datagrams: datagrams: DatagramConfig,
    with_reset_stream_at: reset_stream_at: bool,
    with_grease_quic_bit: grease_quic_bit: bool,
    with_early_data: early_data: impl Into<Option<EarlyData>>,
    with_ecn: ecn: bool,
    with_gso: gso: bool,
    with_budget: budget: impl Into<Option<Budget>>,
    #[cfg(feature = "qlog")]
    with_qlog: qlog: Option<Arc<dyn crate::sinks::Sinks>>,
} }

impl TransportConfig {
    /// The defaults with datagrams of this size and no search for larger ones: for simulations, and for paths
    /// that are known.
    #[must_use]
    pub fn fixed_mtu(mtu: u16) -> Self {
        Self { mtu, mtu_discovery: None, ..Self::default() }
    }

    /// The version that a client begins with, of those that are known.
    pub fn begins_in(&self) -> Option<Version> {
        self.beginnings().find(|version| version.is_known())
    }

    /// Versions to begin with, the one that is wanted most first.
    pub(crate) fn beginnings(&self) -> impl Iterator<Item = Version> + '_ {
        let first = self.first_version.filter(|version| self.versions.contains(version));
        first.into_iter().chain(self.versions.iter().copied())
    }
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            versions: vec![Version::V1, Version::V2],
            first_version: None,
            max_bidi_streams: 100,
            max_uni_streams: 100,
            // A lost packet stops reading for a round trip or more, while Startup sends at nearly thrice the
            // rate: six times 100 Mbit/s times 100 ms. Half of it costs 42 MB at 0.5 % loss 0.14 s.
            stream_window: 8 << 20,
            max_stream_window: 32 << 20,
            max_connection_window: 48 << 20,
            send_buffer: 8 << 20,
            connection_send_buffer: 48 << 20,
            idle_timeout: Some(Duration::from_secs(30)),
            keep_alive: None,
            ask_after: Some(Duration::from_millis(250)),
            handshake_timeout: Duration::from_secs(10),
            mtu: 1200,
            mtu_discovery: Some(MtuDiscovery::default()),
            max_ack_delay: Duration::from_millis(25),
            min_ack_delay: Duration::from_millis(1),
            acks: AckPolicy::default(),
            initial_rtt: None,
            congestion: cc::Algorithm::default(),
            max_rate_bps: None,
            fenced_streams: Some(64 << 10),
            max_fenced_streams: 64,
            max_classes: 256,
            fec: Some(Fec::default()),
            migration: Migration::default(),
            datagrams: DatagramConfig::default(),
            reset_stream_at: true,
            grease_quic_bit: true,
            early_data: None,
            ecn: true,
            gso: true,
            budget: None,
            #[cfg(feature = "qlog")]
            qlog: None,
        }
    }
}

/// Connection migration (RFC 9000 §9). A peer cannot help that a NAT gives it another address: that is always
/// tolerated, even within the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migration {
    /// Whether clients may move of their own accord. `false` is announced to the peer
    /// (disable_active_migration).
    pub allowed: bool,
    /// Whether a client goes to the address that the server prefers (preferred_address), if it can be reached
    /// there.
    pub follow: bool,
    /// Where a server would rather be reached. The endpoint must receive what is sent there, and must be able
    /// to send from there: it is another address of the same machine with the port of the socket, or one that
    /// is forwarded to it.
    pub preferred_v4: Option<SocketAddrV4>,
    /// The same over IPv6. A client takes the address of the family by which it has connected.
    pub preferred_v6: Option<SocketAddrV6>,
}

setters! { Migration {
    with_allowed: allowed: bool,
    with_follow: follow: bool,
    with_preferred_v4: preferred_v4: impl Into<Option<SocketAddrV4>>,
    with_preferred_v6: preferred_v6: impl Into<Option<SocketAddrV6>>,
} }

impl Default for Migration {
    fn default() -> Self {
        Self { allowed: true, follow: true, preferred_v4: None, preferred_v6: None }
    }
}

impl From<&TransportConfig> for streams::StreamSettings {
    fn from(config: &TransportConfig) -> Self {
        Self {
            max_bidi_streams: config.max_bidi_streams,
            max_uni_streams: config.max_uni_streams,
            stream_window: config.stream_window,
            max_stream_window: config.max_stream_window,
            max_connection_window: config.max_connection_window,
            send_buffer: config.send_buffer,
            connection_send_buffer: config.connection_send_buffer,
            fenced_streams: config.fenced_streams,
            max_fenced_streams: config.max_fenced_streams,
            max_classes: config.max_classes,
            reset_stream_at: config.reset_stream_at,
        }
    }
}
