//! Early data (0-RTT): what a client remembers of a server, and what each side says about it.
//!
//! Early data can be replayed: whoever records a first flight can send it again, and no key is fresh. So it
//! is off until both sides ask for it, and only the application knows what may arrive twice (RFC 9001 §9.2,
//! RFC 8446 §8).

use std::fmt;
use std::sync::Arc;

use quickset_base::AddressPair;
use quickset_wire::{Side, TransportParams};

/// Early data, for those who want it: a client may send before the handshake is through, and a server reads
/// that.
///
/// TLS has its own switch for it, and both must be on: the session of a client offers early data with a
/// ticket of an earlier connection, that of a server takes each ticket once.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EarlyData {
    /// On a client: what becomes of early data that the server does not take.
    pub refused: Refused,
    /// On a server: how many bytes of early packets it reads of a connection before the handshake is
    /// complete. Packets beyond that are dropped, and come again as 1-RTT data.
    pub max_bytes: u64,
    /// On a server: decides of which clients it reads early data; `None`: of all.
    pub gate: Option<EarlyGate>,
}

setters! { EarlyData {
    with_refused: refused: Refused,
    with_max_bytes: max_bytes: u64,
    with_gate: gate: impl Into<Option<EarlyGate>>,
} }

/// What becomes of early data that the server did not take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refused {
    /// All of it is sent again once the handshake is through, as if it had been written then.
    #[default]
    Resend,
    /// The streams begun early are reset with this code, nothing of them is sent again, and the application
    /// begins anew.
    Reset(u64),
}

/// Decides, for each client and before anything of it is read, whether its early data is taken.
#[derive(Clone)]
pub struct EarlyGate(Arc<dyn Fn(&AddressPair) -> bool + Send + Sync>);

/// How far the early data of a connection has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EarlyFate {
    /// There is none.
    #[default]
    None,
    /// A client's: it may be sent, and whether the server takes it is not known.
    Undecided,
    /// The server takes it.
    Accepted,
    /// The server does not take it.
    Rejected,
}

impl Default for EarlyData {
    fn default() -> Self {
        Self { refused: Refused::default(), max_bytes: 256 << 10, gate: None }
    }
}

impl EarlyGate {
    /// Early data is taken of those of whom `admits` says so. It is asked in the middle of the endpoint's
    /// work, with its locks held: it answers at once, and from what it has; a handle of the endpoint would
    /// wait for itself.
    pub fn new(admits: impl Fn(&AddressPair) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(admits))
    }
}

impl fmt::Debug for EarlyGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EarlyGate(..)")
    }
}

impl EarlyData {
    pub(crate) fn admits(&self, client: &AddressPair) -> bool {
        self.gate.as_ref().is_none_or(|gate| gate.0(client))
    }
}

/// The limits that early data was written under: a server that takes it must not go below them
/// (RFC 9000 §7.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlyLimits([u64; 9]);

impl EarlyLimits {
    /// Those in a server's transport parameters; `None` when these cannot be read.
    pub fn decode(params: &[u8]) -> Option<Self> {
        TransportParams::decode(Side::Server, params).ok().map(|params| Self::of(&params))
    }

    pub(crate) fn of(params: &TransportParams) -> Self {
        Self([
            params.active_connection_id_limit,
            params.initial_max_data,
            params.initial_max_stream_data_bidi_local,
            params.initial_max_stream_data_bidi_remote,
            params.initial_max_stream_data_uni,
            params.initial_max_streams_bidi,
            params.initial_max_streams_uni,
            // RFC 9221 §3.
            params.max_datagram_frame_size,
            // draft-ietf-quic-reliable-stream-reset §3: once offered, always.
            u64::from(params.reset_stream_at),
        ])
    }

    /// As bytes, to be kept with a session; [`from_bytes`](Self::from_bytes) reads them.
    pub fn to_bytes(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes
            .chunks_exact_mut(8)
            .zip(&self.0)
            .for_each(|(to, limit)| to.copy_from_slice(&limit.to_be_bytes()));
        bytes
    }

    /// What [`to_bytes`](Self::to_bytes) wrote.
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let mut limits = Self::default();
        for (limit, from) in limits.0.iter_mut().zip(bytes.chunks_exact(8)) {
            *limit = from.iter().fold(0, |limit, byte| limit << 8 | u64::from(*byte));
        }
        limits
    }

    /// Bytes of [`to_bytes`](Self::to_bytes).
    pub const LEN: usize = 9 * 8;

    /// True when whatever keeps to `remembered` keeps to these.
    pub fn cover(&self, remembered: &Self) -> bool {
        self.0.iter().zip(&remembered.0).all(|(new, old)| new >= old)
    }

    /// Of each limit the greater one.
    #[must_use]
    pub fn or(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a = (*a).max(*b));
        self
    }
}

/// What early data is written under, of the parameters that a server announced in an earlier connection.
pub(crate) fn remembered(params: &TransportParams) -> TransportParams {
    let fresh = TransportParams::default();
    TransportParams {
        // RFC 9000 §7.4.1: these belong to one connection, or say how it is acknowledged.
        ack_delay_exponent: fresh.ack_delay_exponent,
        max_ack_delay: fresh.max_ack_delay,
        initial_source_connection_id: None,
        original_destination_connection_id: None,
        preferred_address: None,
        retry_source_connection_id: None,
        stateless_reset_token: None,
        // FS-4, FEC-2, and draft-ietf-quic-ack-frequency §3: what a former connection offered counts for
        // nothing.
        fenced_streams: None,
        fec_decoder: None,
        fec_unmarked: 0,
        min_ack_delay: None,
        // RFC 9287 §3.1: nor does this, without the token that came with it.
        grease_quic_bit: false,
        ..*params
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_come_back_as_they_were_kept() {
        let limits = EarlyLimits(std::array::from_fn(|n| u64::MAX >> (7 * n)));
        assert_eq!(EarlyLimits::from_bytes(&limits.to_bytes()), limits);
        assert_eq!(limits.to_bytes()[8..10], [1, 0xff], "in network byte order");
    }
}
