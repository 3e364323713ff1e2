//! What an application does with streams, messages and datagrams: handles that borrow the connection.

mod datagrams;
mod messages;
mod recv;
mod send;
mod streams;
mod view;

use quickset_wire::{StreamId, varint};

use super::Connection;

pub use datagrams::Datagrams;
pub use messages::Messages;
pub use recv::RecvStream;
pub use send::SendStream;
pub use streams::StreamSet;
pub use view::StreamView;

/// The doors to streams and datagrams. After any verb of theirs, the connection is polled.
impl Connection {
    /// Lends all streams, to open and to accept.
    pub fn streams(&mut self) -> StreamSet<'_> {
        StreamSet { conn: self }
    }

    /// Lends a stream to be looked at.
    pub fn stream(&self, id: StreamId) -> StreamView<'_> {
        StreamView { conn: self, id }
    }

    /// Lends the sending half of a stream.
    pub fn send_stream(&mut self, id: StreamId) -> SendStream<'_> {
        SendStream { conn: self, id }
    }

    /// Lends the receiving half of a stream.
    pub fn recv_stream(&mut self, id: StreamId) -> RecvStream<'_> {
        RecvStream { conn: self, id }
    }

    /// Lends a stream of messages, in both directions.
    pub fn messages(&mut self, id: StreamId) -> Messages<'_> {
        Messages { conn: self, id }
    }

    /// Lends the datagrams, in both directions.
    pub fn datagrams(&mut self) -> Datagrams<'_> {
        Datagrams { conn: self }
    }
}

/// An application's code as it goes on the wire, where codes are varints.
pub(super) fn sent_as(code: u64) -> u64 {
    code.min(varint::MAX)
}
