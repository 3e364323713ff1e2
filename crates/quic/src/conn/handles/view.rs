use quickset_sched::Priority;
use quickset_wire::StreamId;

use super::super::Connection;
use crate::streams::{Class, MessageStats, RecvState, SendState};

/// Tells what a stream of a connection is, and how far it has come.
///
/// [`Connection::stream`] lends it.
#[derive(Debug)]
pub struct StreamView<'a> {
    pub(super) conn: &'a Connection,
    pub(super) id: StreamId,
}

impl StreamView<'_> {
    /// How far the sending half has come; `None` when there is no such stream, or no more.
    pub fn send_state(&self) -> Option<SendState> {
        self.conn.traffic.streams.of(self.id).send_state()
    }

    /// How far the receiving half has come; `None` when there is no such stream, or no more.
    pub fn recv_state(&self) -> Option<RecvState> {
        self.conn.traffic.streams.of(self.id).recv_state()
    }

    /// Bytes of the sending half that are yet to be sent, for the first time or again; of messages their
    /// lengths on the wire. `None` when there is no such stream, or no more.
    pub fn unsent(&self) -> Option<u64> {
        self.conn.traffic.streams.of(self.id).unsent()
    }

    /// Bytes that may be written to the stream now and will not wait for flow control, unless more urgent
    /// streams use up the connection's credit before. `None` when there is no such stream, when it has ended,
    /// or for streams of messages.
    pub fn send_credit(&self) -> Option<u64> {
        self.conn.traffic.streams.of(self.id).send_credit()
    }

    /// What it is; `None` when there is no such stream.
    pub fn priority(&self) -> Option<Priority> {
        self.conn.traffic.streams.of(self.id).priority()
    }

    /// The classes that the stream hangs under, from the first below the connection; `None` when there is no
    /// such stream.
    pub fn class(&self) -> Option<Vec<Class>> {
        self.conn.traffic.streams.of(self.id).class()
    }

    /// What the messages sent on a stream have come to so far; `None` when there is no such stream of
    /// messages, or not any more: with its last event, or outcome, a stream that is over is let go.
    pub fn message_stats(&self) -> Option<MessageStats> {
        self.conn.traffic.streams.of(self.id).message_stats()
    }

    /// True when something of this stream of the peer's came as early data, so that all of it may be a
    /// replay.
    pub fn came_early(&self) -> bool {
        self.conn.traffic.streams.of(self.id).came_early()
    }
}
