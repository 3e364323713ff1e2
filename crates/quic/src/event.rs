//! What a connection says to those around it: events to its application, signals to its endpoint.

use std::net::IpAddr;

use quickset_base::{AddressPair, Duration, Time};
use quickset_wire::ResetToken;

use crate::datagram::DatagramEvent;
use crate::error::Closed;
use crate::streams::StreamEvent;

/// What a connection tells its application.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is complete: the peer is authenticated.
    Connected,
    /// Early data: a server takes that of a client, and the handshake is still under way; or a client learns,
    /// before [`Connected`](Self::Connected), whether the server took its own.
    EarlyData {
        /// It did.
        accepted: bool,
    },
    /// Something happened to a stream, or streams.
    Stream(StreamEvent),
    /// Something happened to datagrams.
    Datagram(DatagramEvent),
    /// An address validation token for a later connection to this server (RFC 9000 §8.1.3).
    NewToken(Vec<u8>),
    /// The connection goes on over another path, which is validated: the peer has another address, or we went
    /// to another one by [`Connection::migrate`](crate::Connection::migrate),
    /// [`Connection::rebound`](crate::Connection::rebound) or the server's wish.
    Moved(AddressPair),
    /// This path that was to be used, or was, does not carry packets both ways; the connection goes on where
    /// it was.
    NotMoved(AddressPair),
    /// The connection is over. It still has to be polled until [`Signal::Drained`].
    Closed(Closed),
}

/// What a connection asks of its endpoint; see `Connection::poll_signal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Up to this many fresh connection ids are wanted; answered by `Connection::add_local_cids`.
    NeedCids(u64),
    /// A server's: the client is where it says, since it has received what was sent there (RFC 9000 §8.1).
    Proven,
    /// The handshake is complete.
    Established,
    /// The connection comes to its end, and a round trip to this peer took about as long.
    Trip {
        /// Where the peer is.
        peer: IpAddr,
        /// The smoothed round-trip time.
        trip: Duration,
        /// When that was.
        at: Time,
    },
    /// The connection is over, and stays to say so again.
    Over,
    /// The peer retired the id of this sequence number.
    RetiredCid(u64),
    /// The peer's id and its reset token: a datagram that ends in the token closes the connection.
    ResetToken(AddressPair, ResetToken),
    /// The connection needs no more than its ids: it is closed and drained, and may be dropped.
    Drained,
}

/// Why [`Connection::migrate`](crate::Connection::migrate) does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// RFC 9000 §9: the handshake is not confirmed, or the connection is over.
    #[error("the handshake is not confirmed, or the connection is over")]
    NotConfirmed,
    /// Only clients move.
    #[error("a server does not move")]
    Server,
    /// The server takes no clients that move (disable_active_migration).
    #[error("the server forbids it")]
    Forbidden,
    /// The server has given us no connection id to use there, or not yet.
    #[error("no connection id is left for another path")]
    NoId,
    /// One is being tried.
    #[error("another path is being tried")]
    UnderWay,
}
