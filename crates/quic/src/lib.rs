//! A sans-IO QUIC endpoint and connection (RFC 9000, 9001, 9002) with fenced streams.
//!
//! Nothing here waits, reads a clock, draws entropy or opens a socket. An [`Endpoint`] says which
//! connection a datagram is for, a [`Connection`] turns datagrams and the application's verbs into
//! datagrams and events, and whoever drives them (the `net` crate with tokio, the `sim` crate in virtual
//! time) calls two functions: `handle` and `poll`, of [`Machine`](quickset_base::Machine). [`Node`] joins
//! an endpoint with its connections for drivers that need no locks.
//!
//! ```
//! use std::sync::Arc;
//! use quickset_base::{Batch, Input, Machine, AddressPair, Poll, Rng, Time};
//! use quickset_quic::null::{NullClient, NullSecrets};
//! use quickset_quic::{ClientConfig, Dir, Endpoint, EndpointConfig, Event, Node};
//!
//! let crypto = Arc::new(NullSecrets(1)); // `quickset-tls` has the real ones
//! let config = EndpointConfig { crypto, connection_id_len: 8, resets_per_second: 10 };
//! let mut node = Node::new(Endpoint::new(config, None, Rng::new(1)));
//! let client = ClientConfig { crypto: Arc::new(NullClient::new(&[b"hello"])), transport: Arc::default() };
//! let key = node.connect(Time::ZERO, &client, AddressPair::to("192.0.2.1:443".parse()?), "server")?;
//!
//! let (mut now, mut out) = (Time::ZERO, Batch::new());
//! let closed = loop {
//!     match node.poll(now, &mut out) {
//!         Poll::Send => out.clear(), // here a driver sends the batch, to a server that never answers
//!         Poll::Event => match node.poll_event() {
//!             Some((key, Event::Connected)) => drop(node.connection(key).and_then(|c| c.streams().open(Dir::Bi))),
//!             Some((_, Event::Closed(why))) => break why,
//!             _ => {}
//!         },
//!         Poll::Sleep(Some(at), _) => {
//!             now = at; // here it waits for the time or for datagrams: `Input::Received`
//!             node.handle(now, Input::Timer);
//!         }
//!         Poll::Sleep(None, _) => unreachable!("a handshake has a timeout"),
//!     }
//! };
//! assert_eq!(closed, quickset_quic::Closed::TimedOut);
//! # let _ = key;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Inside, a connection has four owners of rooms, which do not call each other; see
//! ARCHITECTURE.md. Messages and fences are specified in `spec/fenced-streams.md`.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "numbers in tests are small, or cut on purpose"
    )
)]

#[macro_use]
mod setters;

mod ack;
mod budget;
mod cc;
mod cids;
mod common;
mod config;
mod conn;
mod datagram;
mod early;
mod endpoint;
mod error;
mod event;
mod guard;
mod keys;
mod life;
mod link;
mod node;
mod packet;
mod path;
pub mod places;
mod protect;
#[cfg(feature = "qlog")]
pub mod qlog;
#[cfg(not(feature = "qlog"))]
mod qlog;
mod received;
mod recovery;
mod refusal;
mod rx;
#[cfg(feature = "qlog")]
mod sinks;
mod stats;
mod streams;
mod traffic;
mod tx;
mod validation;
mod work;

/// Congestion controllers of an application's own: see [`Algorithm::Custom`].
pub mod congestion {
    pub use crate::cc::{
        Congestion, CongestionControl, CustomController, Feedback, PacketState, PathView, SettledPacket,
        TransmittedPacket,
    };
}

pub use ack::{AckPolicy, AckPolicyError};
pub use budget::{Account, Budget, BudgetUse};
pub use cc::{Algorithm, AlgorithmError, RateCap};
pub use cids::IssuedCid;
pub use config::{Migration, TransportConfig};
pub use conn::{
    Carrier, Connection, ConnectionStart, Datagrams, Flight, Messages, RecvStream, SendStream, StreamSet,
    StreamView,
};
pub use datagram::{
    DatagramConfig, DatagramError, DatagramEvent, DatagramOptions, DatagramOutcome, DatagramTicket, Unsent,
    WhenFull,
};
pub use early::{EarlyData, EarlyFate, EarlyGate, EarlyLimits, Refused};
pub use endpoint::*;
pub use error::{Closed, HandshakeFault, TransportError};
pub use event::{Event, MoveError, Signal};
#[cfg(any(test, feature = "null"))]
pub use keys::null;
pub use keys::{
    ChooseVersion, ClientCrypto, Crypto, CryptoSession, EndpointCrypto, HeaderKey, KeyChange, Keys, NextKeys,
    PacketKey, PacketKeys, Sealing, ServerCrypto,
};
pub use node::Node;
pub use path::MtuDiscovery;
pub use protect::policy::{self, CustomPolicy, Goal, Protection, ProtectionError};
pub use protect::{Estimates, Fec};
pub use quickset_sched::{Priority, Weight};
pub use quickset_wire::{
    ConnectionId, Dir, ResetToken, Scheme, Schemes, Side, StreamId, StreamIdHasher, TransportErrorCode,
    Version,
};
pub use refusal::{Obstacle, SystemRefusal};
pub use stats::{AckStats, DatagramStats, EcnState, EcnStats, FecStats, MtuStats, Stats};
pub use streams::*;
