use quickset_wire::StreamId;

use super::super::Connection;
use super::sent_as;
use crate::streams::{Chunk, Piece, ReadError, UnknownStream};

/// Reads the receiving half of a stream.
///
/// [`Connection::recv_stream`] lends it, whether there is such a stream or not: that the verbs tell.
#[derive(Debug)]
pub struct RecvStream<'a> {
    pub(super) conn: &'a mut Connection,
    pub(super) id: StreamId,
}

impl RecvStream<'_> {
    /// Asks the peer to send no more (STOP_SENDING); what was not read is discarded.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn stop(&mut self, code: u64) -> Result<(), UnknownStream> {
        self.conn.traffic.streams.receiving(self.id).stop(sent_as(code))
    }

    /// The next bytes in order, at most `max`. With 0 none are read, and
    /// [`StreamEvent::Readable`](crate::StreamEvent::Readable) tells of whatever comes next, the end behind
    /// unread bytes among it.
    ///
    /// # Errors
    /// When the peer gave the stream up, or there is no such stream.
    pub fn read(&mut self, max: usize) -> Result<Chunk, ReadError> {
        self.conn
            .traffic
            .streams
            .receiving(self.id)
            .read(max)
            .map_err(|error| self.conn.refused(self.id, error))
    }

    /// From now on the stream is read by [`read_unordered`](Self::read_unordered).
    ///
    /// # Errors
    /// When there is no such stream, it carries messages, or something of it was read.
    pub fn as_unordered(&mut self) -> Result<(), UnknownStream> {
        self.conn.traffic.streams.receiving(self.id).as_unordered()
    }

    /// Bytes that have come, at most `max`, with their offset: each byte once, those behind a hole too.
    ///
    /// # Errors
    /// When the peer gave the stream up, there is no such stream, or it is read [in
    /// order](Self::as_unordered).
    pub fn read_unordered(&mut self, max: usize) -> Result<Piece, ReadError> {
        self.conn
            .traffic
            .streams
            .receiving(self.id)
            .read_unordered(max)
            .map_err(|error| self.conn.refused(self.id, error))
    }
}
