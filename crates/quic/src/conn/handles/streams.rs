use quickset_sched::Priority;
use quickset_wire::{Dir, StreamId};

use super::super::Connection;
use crate::streams::ClassError;

/// Opens and accepts the streams of a connection, and says how many there may be.
///
/// [`Connection::streams`] lends it.
#[derive(Debug)]
pub struct StreamSet<'a> {
    pub(super) conn: &'a mut Connection,
}

impl StreamSet<'_> {
    /// Opens a stream, or `None` until [`StreamEvent::Available`](crate::StreamEvent::Available).
    pub fn open(&mut self, dir: Dir) -> Option<StreamId> {
        self.conn.traffic.streams.open(dir)
    }

    /// The next stream that the peer opened. One that was read to its end before, by its id, is over with
    /// that.
    pub fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        self.conn.traffic.streams.accept(dir)
    }

    /// Opens a stream of messages.
    pub fn open_messages(&mut self, dir: Dir) -> Option<StreamId> {
        self.conn.traffic.streams.open_messages(dir)
    }

    /// From now on the peer may have so many streams in a direction open at a time, in place of
    /// [`max_bidi_streams`](crate::TransportConfig::max_bidi_streams) or `max_uni_streams`. It hears at once
    /// of more. Of fewer it cannot hear: it may still open those that it was allowed, and gets no leave for
    /// others before so many are over that no more than these are open (RFC 9000 §4.6). How many of them may
    /// be new at once [`max_fenced_streams`](crate::TransportConfig::max_fenced_streams) says as before.
    pub fn set_max(&mut self, dir: Dir, most: u64) {
        self.conn.traffic.streams.limits_mut().set_max_streams(dir, most);
    }

    /// From now on the receive window of the connection has so many bytes, whatever need it had before, and
    /// grows no more; one message of the longest that are [taken](crate::TransportConfig::fenced_streams)
    /// fits in any case. The peer hears at once of a larger one. What it was allowed it may still send, so
    /// that a smaller one holds when as much was read (RFC 9000 §4.1).
    pub fn set_window(&mut self, bytes: u64) {
        self.conn.traffic.streams.limits_mut().set_window(bytes);
    }

    /// Changes what a class is among its siblings, by the names on the way to it. It counts from the next
    /// packet on.
    ///
    /// # Errors
    /// When nothing hangs under such a class.
    pub fn set_class_priority(&mut self, path: &[&str], priority: Priority) -> Result<(), ClassError> {
        self.conn.traffic.streams.set_class_priority(path, priority)
    }
}
