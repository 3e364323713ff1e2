use std::sync::Arc;

use quickset_base::{AddressPair, Datagram, Duration, Rng, Time};
use quickset_wire::params::TransportParams;
use quickset_wire::{ConnectionId, Version};

use crate::budget::Account;
use crate::config::TransportConfig;
use crate::keys::{CryptoSession, Keys};
use crate::life::HandshakeRole;

/// What an endpoint hands to a connection at its birth.
#[expect(missing_debug_implementations, reason = "holds keys")]
pub struct ConnectionStart {
    pub(crate) now: Time,
    pub(crate) rng: Rng,
    pub(crate) path: AddressPair,
    pub(crate) version: Version,
    pub(crate) config: Arc<TransportConfig>,
    pub(crate) session: Box<dyn CryptoSession>,
    /// Initial keys, from the destination id of the client's first packet (after Retry: of the Retry).
    pub(crate) initial: Keys,
    /// What we announced, with `initial_source_connection_id` and its companions.
    pub(crate) params: TransportParams,
    /// Our first connection id, sequence number 0.
    pub(crate) local_cid: ConnectionId,
    /// The peer's: for a client the random one of its first packet, for a server the client's source id.
    pub(crate) remote_cid: ConnectionId,
    /// Of the budget that it shares with others; what a connection costs is taken.
    pub(crate) account: Option<Account>,
    /// How long a round trip takes, as far as the endpoint knows: of earlier connections, or of a Retry.
    pub(crate) trip: Option<Duration>,
    /// Early data that overtook the hello.
    pub(crate) early: Vec<Datagram>,
    /// Whom we are.
    pub(crate) role: HandshakeRole,
}
