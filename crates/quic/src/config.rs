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

/// How a connection behaves. The defaults suit an interactive application on the Internet.
// sizes: settings that stand for themselves, and of which most stay as they are.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TransportConfig {
    /// The QUIC versions that are spoken, in order of preference: 1 and 2 (RFC 9369), others are passed over. A client
    /// begins with the first, and when the server speaks others goes on with the first of those (RFC 9368 §2.1). A server
    /// goes on in the one of them that its client likes best, within the same handshake (§2.3).
    pub versions: Vec<Version>,
    /// The version that a client begins with instead, one of `versions`: a server that does not know the first of them
    /// costs no round trip then, and one that does goes on in it. `None`: the first.
    pub first_version: Option<Version>,
    /// Streams of each kind that the peer may have open at a time.
    pub max_bidi_streams: u64,
    /// See [`max_bidi_streams`](Self::max_bidi_streams).
    pub max_uni_streams: u64,
    /// Receive window of a stream at the start, in bytes; it grows by need up to `max_stream_window`.
    pub stream_window: u64,
    /// Receive window of a stream at most, in bytes.
    pub max_stream_window: u64,
    /// Receive window of the connection at most, in bytes. It starts at one and a half stream windows.
    pub max_connection_window: u64,
    /// Bytes that a stream's sending half holds, sent or not, before `write` takes no more; 0 stands for 1.
    pub send_buffer: u64,
    /// Bytes that the sending halves of all streams hold together, before those take no more that hold 16 KiB each; no less
    /// than `send_buffer` of one. A peer that asks for much and takes nothing makes us hold this much.
    pub connection_send_buffer: u64,
    /// The connection ends when nothing is heard for this long (RFC 9000 §10.1); `None`: never. While something waits for
    /// its acknowledgement, at least eight packets that ask for it fall into that, none more than half a second, or a
    /// round trip, behind the one before.
    pub idle_timeout: Option<Duration>,
    /// A PING after this much silence keeps the connection alive; `None`: no keep-alive.
    pub keep_alive: Option<Duration>,
    /// A client that awaits data, of a request that it has made or of a stream that brings much, or credit for what it has
    /// to send, asks with a PING whether it can still be reached when it has heard nothing for this long, or for three probe
    /// timeouts (up to a second of them) or twice the pauses that its server makes, if these are longer. A server whose
    /// client got another port from a NAT learns the new one by that: a client that only receives says nothing else that
    /// could tell. In one silence it asks again, each time after twice as long, up to a sixth of `idle_timeout`; not in
    /// place of that: who does not answer is gone as early as without, and who does nothing but answer when it has run from
    /// the sixth answer on. `None`: never.
    pub ask_after: Option<Duration>,
    /// How long the handshake may take; at least eight probes fall into that. A client that is through with it, and has not heard yet that its server is
    /// (RFC 9001 §4.1.2), gives up after as long a silence, whatever `idle_timeout` says.
    pub handshake_timeout: Duration,
    /// The largest UDP payload sent, in bytes, 1200 to 65,507, until a larger one is found. Larger than the path's MTU
    /// loses packets, all of them unless `mtu_discovery` is there to notice.
    pub mtu: u16,
    /// The search for larger UDP payloads, by path (RFC 8899); `None`: `mtu` it is.
    pub mtu_discovery: Option<MtuDiscovery>,
    /// How long we may delay acknowledgements (RFC 9000 §13.2.1).
    pub max_ack_delay: Duration,
    /// The shortest delay of acknowledgements that the peer may ask for, in whole microseconds, and what lies at least
    /// between two that it did not ask for. When it is not below `max_ack_delay`, the peer cannot ask
    /// (draft-ietf-quic-ack-frequency).
    pub min_ack_delay: Duration,
    /// How acknowledgements act, and how often the peer is asked for them.
    pub acks: AckPolicy,
    /// The RTT assumed before there is a sample (RFC 9002 §6.2.2), a minute at most: after three times as long, a first flight
    /// without an answer is sent again. `None`: what the endpoint's last connection to the same address found, or a Retry
    /// took, 33 to 333 ms; where neither is known, 100 ms for a client and 333 ms for a server.
    pub initial_rtt: Option<Duration>,
    /// The congestion controller.
    pub congestion: cc::Algorithm,
    /// The largest message of a fenced stream that we take, in bytes, at least 1200; `None` does not
    /// offer fenced streams.
    pub fenced_streams: Option<u64>,
    /// Streams of each kind that the peer may have open at a time and that carry messages, at least 1. A message
    /// of which parts are missing is held beyond the window of the connection, so this times `fenced_streams`, for
    /// each kind, is what that may cost. Every new stream counts until its first STREAM frame shows that it carries
    /// bytes: a peer that knows fenced streams is allowed no more new ones than this at once, and those up to
    /// `max_bidi_streams` and `max_uni_streams` as they turn out to carry bytes.
    pub max_fenced_streams: u64,
    /// Classes that streams may hang under, at most, each counted once ([`set_class`](crate::Connection::set_class)).
    pub max_classes: usize,
    /// Forward erasure correction: what of it we offer, and what protects our streams. `None` does not offer it.
    pub fec: Option<Fec>,
    /// Who may move from one address to another, and where to.
    pub migration: Migration,
    /// Unreliable datagrams (RFC 9221): whether we take any, and how many wait.
    pub datagrams: DatagramConfig,
    /// We take streams that are reset behind a part that arrives all the same (RESET_STREAM_AT,
    /// draft-ietf-quic-reliable-stream-reset); the peer may reset its streams so then.
    pub reset_stream_at: bool,
    /// The fixed bit of packets is 0 or 1 by chance where the peer takes that, and we take it (RFC 9287), so that nothing on
    /// the way comes to rely on it. `false` for a socket that others than QUIC share, and that tells them apart by this
    /// bit; a server must then not have offered it within the last seven days, for which its clients may remember that.
    pub grease_quic_bit: bool,
    /// Early data (0-RTT): what a client sends before the handshake is through, and what a server reads of it. It can
    /// be replayed; `None`: none is sent and none is taken.
    pub early_data: Option<EarlyData>,
    /// Whether packets are marked as ECN-capable on paths that keep the marks (RFC 9000 §13.4): queues then tell us of
    /// congestion before they overflow. Marks of the peer are counted and reported in any case.
    pub ecn: bool,
    /// Whether a segmentation offload is worth filling: more than one packet in a batch.
    pub gso: bool,
    /// The memory that these connections share with others of the process, each within the limits above; `None`: those are
    /// all. A server refuses clients for whom nothing is left.
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
    /// The defaults with datagrams of this size and no search for larger ones: for simulations, and for paths that are known.
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
            // A lost packet stops reading for a round trip or more, while Startup sends at nearly thrice the rate: six
            // times 100 Mbit/s times 100 ms. Half of it costs 42 MB at 0.5 % loss 0.14 s.
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

/// Connection migration (RFC 9000 §9). That a NAT gives the peer another address is never in its power, and is always
/// tolerated, within the handshake, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migration {
    /// Whether clients may move by their own will; `false` is announced (disable_active_migration).
    pub allowed: bool,
    /// As a client, whether to go where the server would rather be reached (preferred_address), if it can be reached
    /// there.
    pub follow: bool,
    /// As a server, where it would rather be reached. The endpoint must receive what is sent there and be able to send
    /// from there: another address of its own machine, of the port that its socket has, or one that is forwarded to it.
    pub preferred_v4: Option<SocketAddrV4>,
    /// The same over IPv6. A client takes the address of the family that it has connected by.
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

impl From<&TransportConfig> for streams::Settings {
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
