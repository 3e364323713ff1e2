//! A sans-IO QUIC endpoint and connection (RFC 9000, 9001, 9002) with fenced streams.

mod ack;
mod cc;
mod cids;
mod config;
mod conn;
mod datagram;
mod endpoint;
mod error;
mod keys;
mod node;
mod path;
mod protect;
mod recovery;
mod room;
mod rx;
mod stats;
mod streams;
mod token;
mod tx;

pub use cc::Algorithm;
pub use config::{ClientConfig, EndpointConfig, RetryPolicy, ServerConfig, TransportConfig};
pub use conn::{Connection, Event, IssuedCid, Signal, Start};
pub use endpoint::*;
pub use error::{Closed, TransportError};
pub use keys::{
    ClientCrypto, Crypto, EndpointCrypto, HeaderKey, KeyChange, Keys, NextKeys, PacketKey, PacketKeys, Sealing,
    ServerCrypto, Session,
};
#[cfg(any(test, feature = "null"))]
pub use keys::null;
pub use node::Node;
pub use quickset_wire::{ConnectionId, Dir, ResetToken, Side, StreamId, TransportErrorCode, Version};
pub use stats::Stats;
pub use streams::*;
