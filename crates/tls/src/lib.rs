//! TLS for Quickset: rustls behind the session traits of `quickset-quic` (RFC 9001).
//!
//! *In:* a [`rustls::ClientConfig`] or [`rustls::ServerConfig`], made by the application with everything that
//! is TLS: certificates, trust, application protocols, tickets. *Out:* [`Client`] and [`Server`], which start
//! the handshakes of connections, and [`EndpointSecrets`], from which an endpoint makes its stateless reset
//! tokens and address validation tokens, and [`RoutableIds`], by which load balancers find a server. A
//! verifier whose error is a [`HandshakeFault`](quickset_quic::HandshakeFault) within [`rustls::OtherError`]
//! ends the connection with that.
//!
//! Invariants: TLS 1.3 only; no connection without an agreed application protocol (RFC 9001 §8.1); a packet
//! is sealed and opened in place, without an allocation; no key and no ticket is printed; a server that takes
//! early data (0-RTT) takes each ticket once, and only under limits that cover those of all connections
//! before.
//!
//! Its provider of cryptography is aws-lc-rs, or ring with the features `default-features = false, features =
//! ["ring"]`: see [`provider`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use quickset_quic::{ClientConfig, TransportConfig};
//! use quickset_tls::Client;
//! use rustls::RootCertStore;
//!
//! let provider = Arc::new(quickset_tls::provider::default_provider());
//! let mut tls = rustls::ClientConfig::builder_with_provider(provider)
//!     .with_protocol_versions(&[&rustls::version::TLS13])?
//!     .with_root_certificates(RootCertStore::empty())
//!     .with_no_client_auth();
//! tls.alpn_protocols = vec![b"hello/1".to_vec()];
//! let config = ClientConfig {
//!     crypto: Arc::new(Client::new(Arc::new(tls))?),
//!     transport: Arc::new(TransportConfig::fixed_mtu(1200)),
//! };
//! # let _ = config;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(not(any(feature = "aws-lc-rs", feature = "ring")))]
compile_error!(
    "Quickset has no provider of cryptography: switch on the feature `aws-lc-rs` (which a default build has) or `ring`, \
     of `quickset` or of `quickset-tls`; the errors below follow from this one"
);

mod afterwards;
mod config;
mod derive;
mod hello;
mod keys;
pub mod provider;
mod retry;
mod routable;
mod secrets;
mod session;
mod tickets;
mod versions;

pub use config::{Client, Server, TlsConfigError};
pub use routable::{RoutableIds, RoutableLayout, RoutableLayoutError};
pub use secrets::EndpointSecrets;
pub use session::PeerCertificates;
pub use tickets::{SessionTicket, TicketKey, TicketMemory, TicketStore};

#[cfg(test)]
mod tests;
