//! The tokio driver of Quickset: sockets, timers, and handles of connections and streams to await.
//!
//! An [`Endpoint`] is a UDP socket with a task that drives it. Protocol logic is not here: it is in
//! `quickset-quic`, whose connections this crate feeds with datagrams and time. Applications use the
//! `quickset` crate, which adds TLS to what is re-exported from here.
//!
//! What is fast about it, and has to stay so: received buffers go to the connections as they are and come
//! back to a pool by themselves; datagrams for the same connection are handed over together; handles act on
//! the connection directly, under its lock, and no channel is between them and the driver; what a connection
//! sends is written into one buffer and leaves by one system call for up to 64 datagrams; the clock is
//! read, and tasks are woken, once a turn.
//!
//! Below this crate nothing reads a clock or draws entropy; here it happens in one place each (`Hub::now`
//! and `Endpoint::start`).

mod connection;
mod driver;
mod endpoint;
mod error;
mod hub;
mod messages;
mod pool;
mod recv;
mod send;
mod shared;
mod socket;
mod tickets;
mod timers;
mod wakers;

pub use connection::Connection;
pub use endpoint::Endpoint;
pub use error::{ConnectError, ReadError, ReadToEndError, ReceiveError, SendError, TrySendError, WriteError};
pub use messages::{Deadline, Message, MessageReceiver, MessageSender, Ticket};
pub use quickset_quic::{Closed, Counters, Outcome, Side, Stats, StreamId, TransportError};
pub use recv::RecvStream;
pub use send::SendStream;
pub use socket::SocketConfig;
