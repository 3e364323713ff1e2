use std::sync::Arc;

use quickset_base::Duration;

use super::Gate;
use crate::config::TransportConfig;
use crate::keys::{ClientCrypto, EndpointCrypto, ServerCrypto};

/// How an endpoint makes connections to servers.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "holds the TLS configuration")]
pub struct ClientConfig {
    /// The TLS side.
    pub crypto: Arc<dyn ClientCrypto>,
    /// Shared by all connections made with it.
    pub transport: Arc<TransportConfig>,
}

/// How an endpoint takes connections from clients.
///
/// Everybody can say hello, from every address, and a place is nobody's by that:
///
/// 1. A client that has not proved its address (by Retry, by a token of before, or by an answer to what it
///    was sent) takes no place from anybody. Once a quarter of the places are such clients',
///    [`retry`](Self::retry) permitting, others must prove theirs before anything is kept for them; and
///    whoever has, takes the place of the oldest of these when there is no other.
/// 2. A network (an address of IPv4, 64 bits of IPv6) that has proved to be there has a quarter of the places
///    for handshakes under way, and 4 at least. In the name of another nobody takes anything of that.
/// 3. When all places are taken, that network makes room that has the most handshakes under way, then whoever
///    shakes hands for longer than a second. A client for which nobody makes room yet is left without an
///    answer, and comes again.
/// 4. Whoever is through with the handshake keeps its place. How many of these a network may have, and which
///    of them are idle, is for the application to say; it leaves itself room for that by a higher limit here
///    than its own.
/// 5. Those that are over count no more, and there are as many of them at most.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "holds the TLS configuration")]
pub struct ServerConfig {
    /// The TLS side.
    pub crypto: Arc<dyn ServerCrypto>,
    /// Shared by all connections taken with it.
    pub transport: Arc<TransportConfig>,
    /// Connections at most, those in their handshake included; when all are through with it, further clients
    /// are refused (CONNECTION_REFUSED).
    pub max_connections: usize,
    /// When clients must prove their address by Retry before anything is kept for them (RFC 9000 §8.1.2).
    pub retry: RetryPolicy,
    /// Decides about each client; `None` takes whom there is room for.
    pub gate: Option<Gate>,
    /// How long an address validation token from Retry is good.
    pub retry_token_lifetime: Duration,
    /// How long an address validation token from NEW_TOKEN is good; zero: none is given.
    pub token_lifetime: Duration,
}

/// When a server answers with Retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryPolicy {
    /// Never: hellos in the names of others can hold all places that nobody with a proof needs, and each
    /// packet of noise that looks like one costs a key.
    Never,
    /// When this many clients that have not proved their address are in their handshakes, or a quarter of
    /// [`max_connections`](ServerConfig::max_connections) if that is less; while many first packets do not
    /// open; and when there is no room.
    WhenBusy(usize),
    /// Always.
    Always,
}

/// What belongs to the endpoint rather than to its connections.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "holds the endpoint's secrets")]
pub struct EndpointConfig {
    /// The endpoint's own secrets.
    pub crypto: Arc<dyn EndpointCrypto>,
    /// Length of the connection ids that we issue, 1 to 20 bytes; 8 unless there is a reason.
    pub connection_id_len: usize,
    /// Stateless resets at most per second, so that nobody can use us to flood others.
    pub resets_per_second: u32,
}
