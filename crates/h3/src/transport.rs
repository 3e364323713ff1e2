use bytes::Bytes;
use quickset_base::Time;
use quickset_quic::{
    self as quic, Carrier, Chunk, Class, DatagramOptions, Dir, FinishError, Protection, ReadError, RecvState,
    StreamId, WhenFull, WriteError,
};

use crate::trace::Traced;

/// The verbs of a QUIC connection that HTTP/3 is made of; see those of [`quic::Connection`] for what they
/// promise, and [`StreamEvent`](quic::StreamEvent) for when to go on.
pub trait Transport {
    /// Opens a stream, or `None` until there is an `Available`.
    fn open(&mut self, dir: Dir) -> Option<StreamId>;
    /// The next stream that the peer opened, in the order of ids.
    fn accept(&mut self, dir: Dir) -> Option<StreamId>;
    /// The next bytes in order, at most `max`. With 0 none are read, the end of the stream is told of as
    /// ever, and a `Readable` of whatever comes next.
    ///
    /// # Errors
    /// When the peer gave the stream up, or there is no such stream.
    fn read(&mut self, id: StreamId, max: usize) -> Result<Chunk, ReadError>;
    /// Whether all of what the peer sends on the stream has come, and its end, though not all was read.
    fn is_complete(&self, _id: StreamId) -> bool {
        false
    }
    /// Takes bytes from the front of `data` and returns how many.
    ///
    /// # Errors
    /// [`WriteError::Blocked`] when that is none; the stream's end otherwise.
    fn write(&mut self, id: StreamId, data: &mut Bytes) -> Result<usize, WriteError>;
    /// Ends the sending half behind what was written.
    ///
    /// # Errors
    /// When it has ended already.
    fn finish(&mut self, id: StreamId) -> Result<(), FinishError>;
    /// Gives up the sending half; no effect when it is over.
    fn reset(&mut self, id: StreamId, code: u64);
    /// Gives up the sending half behind its first `reliable` bytes, which arrive if the peer takes such
    /// resets.
    fn reset_behind(&mut self, id: StreamId, code: u64, _reliable: u64) {
        self.reset(id, code);
    }
    /// Asks the peer to send no more; no effect when it has ended.
    fn stop(&mut self, id: StreamId, code: u64);
    /// What the stream is among its siblings: how urgent its data is, whether it is of use in parts, so that
    /// such streams of an urgency share the way, by weight, and others go one after the other (RFC 9218 §4).
    fn set_priority(&mut self, id: StreamId, priority: quic::Priority);
    /// Hangs the stream under the last of these classes, the first of which is below the connection; with
    /// none, below that. Where there is no room for them, it is below the connection.
    fn set_class(&mut self, _id: StreamId, _path: &[Class]) {}
    /// Puts the stream's data before that of all urgencies.
    fn set_critical(&mut self, id: StreamId);
    /// What is written to the stream from here on is waited for by nobody: it may go along with whatever
    /// leaves.
    fn set_piggyback(&mut self, _id: StreamId) {}
    /// What was written to the stream so far is what somebody waits for.
    fn flush(&mut self, _id: StreamId) {}
    /// How losses of what we send on the stream are repaired from now on.
    fn set_protection(&mut self, _id: StreamId, _protection: &Protection) {}
    /// Bytes that can be written to the stream now and will not wait for flow control, where that is known.
    fn send_credit(&self, _id: StreamId) -> Option<u64> {
        None
    }
    /// Bytes that may be written to the stream now and leave soon. With 0 there is a `Writable` when there
    /// are some.
    ///
    /// # Errors
    /// The stream's end.
    fn send_room(&mut self, id: StreamId) -> Result<u64, WriteError> {
        Ok(self.send_credit(id).unwrap_or(u64::MAX))
    }
    /// What came so was so many steps of work, of a tenth of a microsecond each, which the peer's packets pay
    /// for.
    fn charge(&mut self, _carrier: Carrier, _steps: u64) {}
    /// Ends the connection.
    fn close(&mut self, code: u64, reason: &[u8]);
    /// How many bidirectional streams the peer may have opened so far, where that is known: a priority for
    /// one beyond is the peer's error.
    fn peer_bidi_limit(&self) -> Option<u64> {
        None
    }
    /// Whether we take datagrams (RFC 9221): the transport parameter was sent.
    fn takes_datagrams(&self) -> bool {
        false
    }
    /// Bytes of a datagram that the peer takes at most; `None` when it takes none.
    fn max_datagram(&self) -> Option<usize> {
        None
    }
    /// Sends a datagram, or drops it.
    fn send_datagram(&mut self, data: Bytes) {
        drop(data);
    }
    /// Whether the connection keeps a trace: nothing is told of otherwise.
    fn is_traced(&self) -> bool {
        false
    }
    /// Something happened that belongs into the trace.
    fn trace(&mut self, _what: &Traced<'_>) {}
}

/// A connection of `quic`, at a time.
#[derive(Debug)]
pub struct OnQuic<'a, N = Time> {
    /// The connection. It is polled after this.
    pub connection: &'a mut quic::Connection,
    /// The time, or what tells it: few verbs ask for it, closing among them.
    pub now: N,
}

impl<N: Copy + Into<Time>> Transport for OnQuic<'_, N> {
    fn open(&mut self, dir: Dir) -> Option<StreamId> {
        self.connection.streams().open(dir)
    }

    fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        self.connection.streams().accept(dir)
    }

    fn read(&mut self, id: StreamId, max: usize) -> Result<Chunk, ReadError> {
        self.connection.recv_stream(id).read(max)
    }

    fn is_complete(&self, id: StreamId) -> bool {
        self.connection.stream(id).recv_state() == Some(RecvState::Complete)
    }

    fn write(&mut self, id: StreamId, data: &mut Bytes) -> Result<usize, WriteError> {
        self.connection.send_stream(id).write(data)
    }

    fn finish(&mut self, id: StreamId) -> Result<(), FinishError> {
        self.connection.send_stream(id).finish()
    }

    fn reset(&mut self, id: StreamId, code: u64) {
        // An unknown stream is one that is over.
        let _ = self.connection.send_stream(id).reset(code);
    }

    fn reset_behind(&mut self, id: StreamId, code: u64, reliable: u64) {
        if reliable == 0 || self.connection.send_stream(id).reset_at(code, reliable).is_err() {
            self.reset(id, code);
        }
    }

    fn stop(&mut self, id: StreamId, code: u64) {
        let _ = self.connection.recv_stream(id).stop(code);
    }

    fn set_priority(&mut self, id: StreamId, priority: quic::Priority) {
        // An unknown stream is one that is over.
        let _ = self.connection.send_stream(id).set_priority(priority);
    }

    fn set_class(&mut self, id: StreamId, path: &[Class]) {
        // HP-6, HP-8: a class is found by the whole way to it, and has the priority that is given here.
        if self.connection.send_stream(id).set_class(path).is_err() {
            // HP-9: below the connection. The classes that it leaves may be the room that was missing.
            let _ = self.connection.send_stream(id).set_class(&[]);
            let _ = self.connection.send_stream(id).set_class(path);
        }
    }

    fn set_critical(&mut self, id: StreamId) {
        let _ = self.connection.send_stream(id).set_critical();
    }

    fn set_piggyback(&mut self, id: StreamId) {
        let _ = self.connection.send_stream(id).set_piggyback();
    }

    fn flush(&mut self, id: StreamId) {
        let _ = self.connection.send_stream(id).flush();
    }

    fn set_protection(&mut self, id: StreamId, protection: &Protection) {
        let _ = self.connection.send_stream(id).set_protection(protection);
    }

    fn send_credit(&self, id: StreamId) -> Option<u64> {
        self.connection.stream(id).send_credit()
    }

    fn send_room(&mut self, id: StreamId) -> Result<u64, WriteError> {
        self.connection.send_stream(id).room()
    }

    fn charge(&mut self, carrier: Carrier, steps: u64) {
        self.connection.charge(carrier, steps);
    }

    fn close(&mut self, code: u64, reason: &[u8]) {
        self.connection.close(self.now.into(), code, reason);
    }

    fn peer_bidi_limit(&self) -> Option<u64> {
        Some(self.connection.max_peer_streams(Dir::Bi))
    }

    fn takes_datagrams(&self) -> bool {
        self.connection.takes_datagrams()
    }

    fn max_datagram(&self) -> Option<usize> {
        self.connection.max_datagram_len()
    }

    fn send_datagram(&mut self, data: Bytes) {
        // RFC 9297 §2.1: one that is not sent is as good as lost. The newest is worth most.
        let how = DatagramOptions { when_full: WhenFull::DropOldest, ..DatagramOptions::default() };
        let _ = self.connection.datagrams().send(self.now.into(), data, &how);
    }

    #[cfg(feature = "qlog")]
    fn is_traced(&self) -> bool {
        self.connection.is_traced()
    }

    #[cfg(feature = "qlog")]
    fn trace(&mut self, what: &Traced<'_>) {
        let (name, data) = crate::trace::json::event(what);
        self.connection.trace(self.now.into(), name, &data);
    }
}
