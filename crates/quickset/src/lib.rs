//! QUIC for data that is late when it is lost.
//!
//! Beside the streams of bytes that every QUIC stack has, Quickset carries **messages on fenced streams**:
//! between two fences they are delivered in whatever order they arrive, and none crosses a fence. So a
//! lost packet delays what it held and what depends on it, and nothing else.
//!
//! A server and a client, and messages there and back:
//!
//! ```
//! use quickset::bytes::Bytes;
//! use quickset::{ClientConfig, Endpoint, Identity, ServerConfig, Trust};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let identity = Identity::self_signed(["localhost"])?;
//! let trust = Trust::pinned(identity.fingerprint());
//! let server = Endpoint::server("127.0.0.1:0".parse()?, &ServerConfig::new(identity, &["echo/1"])?)?;
//! let address = server.local_addr();
//! tokio::spawn(async move {
//!     while let Some(connection) = server.accept().await {
//!         let (mut back, mut messages) = connection.accept_messages_bi().await?;
//!         while let Some(message) = messages.next().await {
//!             back.send(message?.payload).await?;
//!         }
//!         back.finish()?;
//!         connection.closed().await;
//!     }
//!     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
//! });
//!
//! let client = Endpoint::client()?;
//! let connection = client.connect(address, "localhost", &ClientConfig::new(trust, &["echo/1"])?).await?;
//! let (mut screen, mut echo) = connection.open_messages_bi().await?;
//! screen.send(Bytes::from("one rectangle")).await?;
//! screen.send(Bytes::from("another, which may overtake it")).await?;
//! screen.fence();
//! screen.send(Bytes::from("the next update")).await?;
//! screen.finish()?;
//! let mut count = 0;
//! while let Some(message) = echo.next().await {
//!     println!("{} bytes came back", message?.payload.len());
//!     count += 1;
//! }
//! assert_eq!(count, 3);
//! connection.close(0, b"done");
//! client.wait_idle().await;
//! # Ok(())
//! # }
//! ```
//!
//! A connection that ends tells why: all that waits for it fails with the same [`Closed`]. Some reasons pass
//! and others do not:
//!
//! ```
//! use quickset::{Closed, ConnectError, TransportErrorCode};
//!
//! fn is_worth_another_try(error: &ConnectError) -> bool {
//!     let ConnectError::Failed(closed) = error else {
//!         // The endpoint, the address, the name or the configuration: the same again.
//!         return false;
//!     };
//!     match closed {
//!         // Nobody answers, no way leads there now, or the server was started anew.
//!         Closed::TimedOut | Closed::Unreachable(_) | Closed::Reset => true,
//!         // The server is full. Every other error is a failed handshake: of trust, or of protocols.
//!         Closed::ByPeer(error) => error.code == TransportErrorCode::CONNECTION_REFUSED,
//!         // The server's application says what its codes mean: for HTTP/3, that it goes away, say.
//!         Closed::ByApplication { code, .. } => *code == 0,
//!         _ => false,
//!     }
//! }
//! # let refused = |closed| is_worth_another_try(&ConnectError::Failed(closed));
//! # assert!(refused(Closed::TimedOut) && !refused(Closed::Locally));
//! ```
//!
//! What is lost is sent again, and that takes a round trip. Where this is too late, say what a stream is for,
//! and it is repaired beforehand, by as much as the losses of the path ask for: see [`Reliability`] and
//! [`Protection`]. Those who know better write a [policy] of their own.
//!
//! # Features
//!
//! | feature | default | what it is for |
//! |---|---|---|
//! | `aws-lc-rs` | yes | the [provider of cryptography](provider), with groups that withstand quantum computers |
//! | `ring` | no | the provider *ring*, which is used if `aws-lc-rs` is off |
//! | `h3` | yes | HTTP/3 and WebTransport: the module `h3` |
//! | `self-signed` | yes | making certificates: `Identity::self_signed` and `Identity::for_browsers` |
//! | `http` | no | heads of HTTP/3 as those of the crate `http`: `h3::http_types` |
//! | `qlog` | no | traces of connections, for qvis: `TransportConfig::qlog` and `QlogDir` |
//!
//! One of the two providers is needed. Every other feature may be left out, and its part of the crate goes.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod config;
mod endpoint;
mod error;
mod fingerprint;
mod foreign;
mod groups;
#[cfg(feature = "h3")]
#[cfg_attr(docsrs, doc(cfg(feature = "h3")))]
pub mod h3;
mod identity;
mod race;
mod tickets;
mod tls;
mod transport;
mod trust;

pub use bytes;
pub use config::{ClientAuth, ClientConfig, ServerConfig};
pub use endpoint::{Endpoint, Peer};
pub use error::ConfigError;
pub use fingerprint::{Fingerprint, ParseFingerprintError};
pub use groups::{GroupError, KeyGroup};
pub use identity::{Identity, IdentityError};
pub use quickset_net::{
    AddressPair, CallSizes, Class, ClassError, Closed, ConnectError, Connecting, Connection,
    ConnectionTotals, Counters, DatagramError, DatagramOptions, DatagramOutcome, DatagramStats, Deadline,
    EndpointStats, ExportError, FecStats, Goal, MessageReceiver, MessageSender, MessageStats, MessageTicket,
    Move, MoveError, Moves, Outcome, Outcomes, Priority, Protection, ProtectionError, ReadError,
    ReadExactError, ReadToEndError, ReceiveError, ReceivedMessage, RecvStream, Reliability, ResetAtError,
    SendError, SendStream, SentDatagram, Side, SocketConfig, Stats, StreamId, TicketId, Time, TransportError,
    TryDatagramError, TrySendError, UnorderedStream, Weight, WhenFull, WriteError,
};
#[cfg(feature = "qlog")]
#[cfg_attr(docsrs, doc(cfg(feature = "qlog")))]
pub use quickset_net::{QlogDir, qlog};
/// Policies of papers: [`policies::read`] reads their names, and those of
/// [`Protection`] itself.
pub use quickset_policies as policies;
/// QUIC without I/O, which this crate drives, with every type that [`ServerConfig::quic`] and
/// [`ClientConfig::quic`] use.
pub use quickset_quic as quic;
pub use quickset_quic::places;
pub use quickset_quic::{
    Account, AckPolicy, AckPolicyError, AckStats, Admission, Algorithm, AlgorithmError, Budget, BudgetUse,
    DatagramConfig, Dir, EarlyData, EarlyGate, EcnState, EcnStats, Estimates, Fec, Gate, HandshakeFault,
    Incoming, Migration, MtuDiscovery, MtuStats, Obstacle, RateCap, Refused, RetryPolicy, SystemRefusal,
    TransportConfig, TransportErrorCode, Version,
};
pub use quickset_tls::provider;
pub use quickset_tls::{PeerCertificates, SessionTicket, TicketKey, TicketMemory, TicketStore};
pub use quickset_tls::{RoutableIds, RoutableLayout, RoutableLayoutError};
pub use race::Race;
#[cfg(feature = "self-signed")]
#[cfg_attr(docsrs, doc(cfg(feature = "self-signed")))]
pub use rcgen;
pub use rustls;
pub use rustls_pki_types as pki_types;
pub use trust::{Trust, TrustError};

/// Who drives an endpoint, and what carries its datagrams, where that is not tokio and UDP: see
/// [`Endpoint::over`](crate::Endpoint::over).
pub mod driver {
    pub use quickset_net::{
        Batch, DatagramSocket, Ecn, ReceiveBuffers, ReceivedCount, ReceivedMeta, Runtime, RuntimeTimer,
        SocketReadiness, SocketWatch, SystemSocket, TokioRuntime, UndeliveredDatagram, UnsentBatch,
    };
}

/// Protocols above a connection that own its streams, as `h3` does: see
/// [`Connection::layered`](crate::Connection::layered).
pub mod layer {
    pub use quickset_net::{Layer, LayerClock, LayerTaken, LayerTurn, Layered};
}

/// Congestion controllers of an application's own: how much may be in flight, and how fast it leaves.
///
/// A controller is told of each packet that leaves, and of all that one received batch, or a timer,
/// acknowledged or lost. It answers with what holds from then on: a window, and a rate, or `None` to let the
/// pacer derive the rate from the window. Each path has a controller of its own. Here is BBR that never takes
/// more than its share:
///
/// ```
/// use quickset::congestion::{Congestion, CongestionControl, CustomController, Feedback, PacketState};
/// use quickset::congestion::TransmittedPacket;
/// use quickset::{Algorithm, TransportConfig};
///
/// #[derive(Debug)]
/// struct Capped {
///     inner: Box<dyn Congestion>,
///     /// Bytes per second.
///     most: u64,
/// }
///
/// impl Congestion for Capped {
///     fn on_sent(&mut self, sent: &TransmittedPacket) -> PacketState {
///         self.inner.on_sent(sent)
///     }
///
///     fn on_feedback(&mut self, feedback: &Feedback<'_>) {
///         self.inner.on_feedback(feedback);
///     }
///
///     fn set_mtu(&mut self, mtu: u64) {
///         self.inner.set_mtu(mtu);
///     }
///
///     fn control(&self) -> CongestionControl {
///         let mut control = self.inner.control();
///         control.rate = Some(control.rate.map_or(self.most, |rate| rate.min(self.most)));
///         control
///     }
/// }
///
/// let capped = CustomController::new("capped", |mtu, now| {
///     Box::new(Capped { inner: Algorithm::Bbr.build(mtu, now), most: 250_000 })
/// });
/// let transport = TransportConfig::default().with_congestion(Algorithm::Custom(capped));
/// ```
///
/// `controller`, an example of `quickset-quic`, is one from the ground up, over a simulated link.
pub mod congestion {
    pub use quickset_quic::congestion::*;
}

/// Policies of an application's own: what of a stream is protected, and when it is repaired.
///
/// A policy is asked for each packet whether it is to be protected, and at each free slot of the congestion
/// window whether repair goes out; it is told of losses, deadlines and what the application wants. Here is
/// one that adds a repair symbol behind every ten source symbols:
///
/// ```
/// use quickset::policy::{Carried, RepairCode, CodingView, LaneConfig, Pattern, ReliabilityPolicy};
/// use quickset::policy::{CustomPolicy, Scheme, Schemes};
/// use quickset::{Protection, Reliability};
///
/// #[derive(Debug, Default)]
/// struct EachTenth {
///     covered: u64,
/// }
///
/// impl ReliabilityPolicy for EachTenth {
///     fn protect(&mut self, _: &CodingView<'_>, _: Carried) -> Option<LaneConfig> {
///         Some(LaneConfig { index: 0, code: RepairCode::Rlc, share: LaneConfig::WHOLE })
///     }
///
///     fn fec_pattern(&mut self, view: &CodingView<'_>) -> Pattern {
///         let sent = view.lanes[0].sources;
///         if sent - self.covered < 10 {
///             return Pattern::No;
///         }
///         self.covered = sent;
///         Pattern::Repair { lane: 0, n: 1 }
///     }
///
///     // Lost data is sent again only if no repair in flight can recover it.
///     fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64 {
///         -view.loss.rate
///     }
/// }
///
/// let schemes = Schemes::default().with(Scheme::Rlc);
/// let mine = Protection::Custom(CustomPolicy::new(schemes, || Box::new(EachTenth::default())));
/// let reliability = Reliability::screen().with(mine);
/// # async fn example(connection: quickset::Connection, reliability: Reliability) -> Result<(), quickset::Closed> {
/// let screen = connection.open_messages().await?.with(reliability);
/// # Ok(())
/// # }
/// ```
pub mod policy {
    pub use quickset_quic::policy::*;
    pub use quickset_quic::{Scheme, Schemes};
}
