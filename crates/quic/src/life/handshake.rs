use std::sync::Arc;

use quickset_wire::params::TransportParams;
use quickset_wire::{ConnectionId, TransportErrorCode as Code, Version};

use crate::cids::IssuedCid;
use crate::early::{EarlyFate, EarlyLimits};
use crate::error::TransportError;
use crate::keys::{ClientCrypto, EndpointCrypto, ServerCrypto};

/// The two beginnings.
pub(crate) enum HandshakeRole {
    Client {
        /// Derives keys anew after Retry or version negotiation.
        crypto: Arc<dyn ClientCrypto>,
        /// An address validation token of an earlier connection.
        token: Vec<u8>,
        /// The name of the server.
        name: String,
    },
    Server {
        /// Derives keys of another version, from the id of the client's first packet.
        crypto: Arc<dyn ServerCrypto>,
        first: ConnectionId,
        /// The client's address is proven (Retry or token).
        validated: bool,
        /// Seals tokens for the client's later connections, sent in NEW_TOKEN when the handshake is
        /// confirmed; `None`: there are none.
        seal: Option<Arc<dyn EndpointCrypto>>,
        /// Our id of sequence number 1, for the preferred address.
        second: Option<IssuedCid>,
    },
}

/// What the handshake must remember to authenticate the connection ids (RFC 9000 §7.3).
pub(crate) struct HandshakeState {
    /// What became of early data.
    pub(crate) early: EarlyFate,
    /// A client's: the limits that its early data keeps to.
    pub(crate) remembered: Option<Box<EarlyLimits>>,
    /// How often the first flight was said again, sooner than a probe timeout would have it.
    pub(crate) hastened: u8,
    pub(crate) side: SideState,
}

/// What only one of the sides needs.
pub(crate) enum SideState {
    Client {
        crypto: Arc<dyn ClientCrypto>,
        original_dcid: ConnectionId,
        retry_scid: Option<ConnectionId>,
        name: String,
        /// The version that a Version Negotiation packet turned down.
        refused: Option<Version>,
    },
    Server {
        crypto: Arc<dyn ServerCrypto>,
        /// The id of the client's first packet, or of its first one behind a Retry.
        first: ConnectionId,
        seal: Option<Arc<dyn EndpointCrypto>>,
    },
}

impl HandshakeState {
    pub(crate) fn new(role: HandshakeRole, remote_cid: ConnectionId) -> Self {
        let side = match role {
            HandshakeRole::Client { crypto, name, .. } => {
                let (original_dcid, retry_scid, refused) = (remote_cid, None, None);
                SideState::Client { crypto, original_dcid, retry_scid, name, refused }
            }
            HandshakeRole::Server { crypto, first, seal, .. } => SideState::Server { crypto, first, seal },
        };
        Self { early: EarlyFate::None, remembered: None, hastened: 0, side }
    }

    /// RFC 9000 §7.3: the ids in the peer's parameters are those that its packets carried.
    pub(crate) fn authenticate(
        &self,
        params: &TransportParams,
        peer_cid: Option<ConnectionId>,
    ) -> Result<(), TransportError> {
        let wrong = |what| Err(TransportError::new(Code::TRANSPORT_PARAMETER_ERROR, what));
        if params.initial_source_connection_id != peer_cid {
            return wrong("initial_source_connection_id is not the id of the handshake");
        }
        if let SideState::Client { original_dcid, retry_scid, .. } = &self.side {
            if params.original_destination_connection_id != Some(*original_dcid) {
                return wrong("original_destination_connection_id is not the id of our first packet");
            }
            if params.retry_source_connection_id != *retry_scid {
                return wrong("retry_source_connection_id is not the id of the Retry");
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for HandshakeState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handshake").field("early", &self.early).finish_non_exhaustive()
    }
}
