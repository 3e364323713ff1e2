use bytes::Bytes;
use quickset_base::{AddressPair, Time};
use quickset_sched::Priority;
use quickset_wire::{Dir, Side, StreamId, varint};

use super::{CloseFrame, Connection};
use crate::ack::Acks;
use crate::cc::pacing_rate;
use crate::cids::IssuedCid;
use crate::error::Closed;
use crate::event::{Event, Signal};
use crate::keys::CryptoSession;
use crate::packet::Phase;
use crate::stats::{EcnStats, MtuStats, Stats};
use crate::streams::{
    Chunk, Class, ClassError, FinishError, Piece, ReadError, RecvState, ResetAtError, SendState, Ticket,
    UnknownStream, WriteError,
};

/// What an application and its driver ask of a connection. After any of these, the connection is polled.
impl Connection {
    /// The next event, if there is one.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.common.events.pop_front()
    }

    /// The next request to the endpoint, if there is one.
    pub fn poll_signal(&mut self) -> Option<Signal> {
        self.common.signals.pop_front()
    }

    /// The endpoint's answer to [`Signal::NeedCids`].
    pub fn add_local_cids(&mut self, cids: Vec<IssuedCid>) {
        self.link.cids.add_local(cids);
    }

    /// The endpoint saw a stateless reset meant for this connection (RFC 9000 §10.3.1).
    pub fn on_stateless_reset(&mut self) {
        self.life.lifecycle.vanish();
        self.over(Closed::Reset);
    }

    /// The endpoint needs the place of this connection for another
    /// ([`Endpoint::displaced`](crate::Endpoint::displaced)): it is gone at once and without a word, as if it
    /// had been silent for too long.
    pub fn make_room(&mut self) {
        if !self.life.lifecycle.is_drained() {
            self.life.lifecycle.vanish();
            self.over(Closed::TimedOut);
        }
    }

    /// Which side this is.
    pub fn side(&self) -> Side {
        self.common.side
    }

    /// Where the peer is.
    pub fn path(&self) -> AddressPair {
        self.link.path.address
    }

    /// The handshake: the protocol agreed on, the peer's identity, exported keys.
    pub fn session(&self) -> &dyn CryptoSession {
        self.link.keys.session()
    }

    /// True between the end of the handshake and the end of the connection.
    pub fn is_established(&self) -> bool {
        self.common.phase > Phase::Handshake && self.life.lifecycle.is_open()
    }

    /// Why the connection ended, once it has.
    pub fn closed(&self) -> Option<&Closed> {
        self.common.stats.closed.as_ref()
    }

    /// True when nothing is left to do.
    pub fn is_drained(&self) -> bool {
        self.life.lifecycle.is_drained()
    }

    /// Whether fenced streams were agreed on; without, messages travel as plain streams, in order.
    pub fn has_fenced_streams(&self) -> bool {
        self.common.config.fenced_streams.is_some()
            && self.common.peer.as_ref().is_some_and(|p| p.fenced_streams.is_some())
    }

    /// Ends the connection at once (RFC 9000 §5.3): data that was not delivered is lost. The peer's
    /// application gets `code` and `reason`, of which 256 bytes are sent at most. On the wire a code, here
    /// and of streams, is less than 2^62 (RFC 9000 §20.2): a larger one is sent as the largest of these.
    pub fn close(&mut self, now: Time, code: u64, reason: &[u8]) {
        self.common.now = now.max(self.common.now);
        if self.life.lifecycle.is_open() {
            let farewell = CloseFrame::Application { code: sent_as(code), reason: reason.to_vec() };
            self.life.lifecycle.close(self.common.now, farewell, self.link.pto());
            self.over(Closed::Locally);
        }
    }

    /// What drives the connection ends, and nothing will be sent any more: the application is told
    /// [`Closed::Abandoned`], the peer nothing.
    pub fn abandon(&mut self, now: Time) {
        self.common.now = now.max(self.common.now);
        if self.life.lifecycle.is_open() {
            let farewell = CloseFrame::Application { code: 0, reason: Vec::new() };
            self.life.lifecycle.close(self.common.now, farewell, self.link.pto());
            self.over(Closed::Abandoned);
        }
    }

    /// Sends a PING soon; its acknowledgement is an RTT sample and keeps the path open.
    pub fn ping(&mut self) {
        self.life.lifecycle.ping();
    }

    /// Changes to fresh packet keys, if that is allowed now (RFC 9001 §6.1: handshake confirmed, the last
    /// change acknowledged). False when it is not.
    pub fn update_keys(&mut self, now: Time) -> bool {
        self.common.phase == Phase::Confirmed && self.link.keys.update(now)
    }

    /// What was counted so far.
    pub fn stats(&self) -> Stats {
        let rtt = self.link.path.recovery.rtt();
        let control = self.link.path.congestion.control();
        Stats {
            stream_bytes: self.traffic.streams.sent(),
            spurious_losses: self.link.path.recovery.spurious_losses(),
            key_updates: self.link.keys.updates(),
            rtt: rtt.smoothed(),
            min_rtt: rtt.min(),
            window: control.window,
            in_flight: self.link.path.recovery.in_flight(),
            congestion_state: control.view.state,
            pacing_rate: pacing_rate(&control, rtt.smoothed()),
            window_bound: control.view.bound,
            bandwidth: control.view.bandwidth,
            fec: self.protect.stats(),
            acks: self.link.asks.stats(),
            datagrams: self.traffic.datagrams.stats(),
            mtu: MtuStats { current: self.link.path.mtu, ..self.common.stats.mtu },
            ecn: EcnStats {
                state: self.link.path.ecn.state(),
                sent: self.link.path.recovery.marked(),
                received_ce: self.link.acks.iter().map(Acks::marked).sum(),
                ..self.common.stats.ecn
            },
            ..self.common.stats.clone()
        }
    }

    /// Opens a stream, or `None` until [`StreamEvent::Available`](crate::StreamEvent::Available).
    pub fn open(&mut self, dir: Dir) -> Option<StreamId> {
        self.traffic.streams.open(dir)
    }

    /// The next stream that the peer opened. One that was read to its end before, by its id, is over with
    /// that.
    pub fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        self.traffic.streams.accept(dir)
    }

    /// Takes bytes from the front of `data`, as many as the send buffer holds, and returns how many.
    ///
    /// # Errors
    /// [`WriteError::Blocked`] when that is none; the stream's end otherwise.
    pub fn write(&mut self, id: StreamId, data: &mut Bytes) -> Result<usize, WriteError> {
        self.pay_for(data.len());
        self.traffic.streams.write(id, data)
    }

    /// Bytes that may be written now and leave soon: as many as the peer has credit for, and the path takes.
    /// Who has much to send, and would have to fetch it first, fetches no more; what a peer does not take is
    /// not held for it. With 0, [`StreamEvent::Writable`](crate::StreamEvent::Writable) tells when there are
    /// some.
    ///
    /// # Errors
    /// The stream's end.
    pub fn send_room(&mut self, id: StreamId) -> Result<u64, WriteError> {
        // A window is on its way, and another is sent while more is fetched; both may have doubled by then.
        let reach = self.link.path.congestion.control().window.saturating_mul(4).max(LEAST_REACH);
        self.pay_for(usize::try_from(reach).unwrap_or(usize::MAX));
        self.traffic.streams.send_room(id, reach)
    }

    /// Ends the sending half behind what was written.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn finish(&mut self, id: StreamId) -> Result<(), FinishError> {
        self.traffic.streams.finish(id)
    }

    /// What was written to this stream so far, or sent on it as messages, is what somebody waits for: behind
    /// it, repair may be sent at once. Nothing leaves earlier for it, and without protection it changes
    /// nothing; nor does it when nothing was written since the last time, or the stream has ended.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn flush(&mut self, id: StreamId) -> Result<(), UnknownStream> {
        self.traffic.streams.flush(id, self.common.now)
    }

    /// Bytes of the sending half that are yet to be sent, for the first time or again; of messages their
    /// lengths on the wire. `None` when there is no such stream, or no more.
    pub fn unsent(&self, id: StreamId) -> Option<u64> {
        self.traffic.streams.unsent(id)
    }

    /// Gives up the sending half; what was not delivered is not (RESET_STREAM).
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn reset(&mut self, id: StreamId, code: u64) -> Result<(), UnknownStream> {
        self.traffic.streams.reset(id, sent_as(code))
    }

    /// Gives up the sending half behind its first `reliable` bytes: these arrive, the rest need not, and the
    /// peer learns `code` behind them (RESET_STREAM_AT). All that was written arrives if it is less. Another
    /// call, or [`reset`](Self::reset), can only take back a part of the promise, and not change the code.
    ///
    /// # Errors
    /// When there is no such stream, or it carries messages, or the peer does not [take](Self::has_reset_at)
    /// such resets.
    pub fn reset_at(&mut self, id: StreamId, code: u64, reliable: u64) -> Result<(), ResetAtError> {
        self.traffic.streams.reset_at(id, sent_as(code), reliable)
    }

    /// Gives up the messages of a stream behind one: that and those before it arrive, as far as their
    /// deadlines allow, then the peer learns `code` (RESET_STREAM_AT). [`reset`](Self::reset) takes the
    /// promise back; another call changes nothing.
    ///
    /// # Errors
    /// When there is no such stream, or it carries bytes, or the peer does not [take](Self::has_reset_at)
    /// such resets.
    pub fn reset_behind(&mut self, id: StreamId, code: u64, last: Ticket) -> Result<(), ResetAtError> {
        self.traffic.streams.reset_behind(id, sent_as(code), last)
    }

    /// Whether the peer takes resets behind a part that arrives (draft-ietf-quic-reliable-stream-reset).
    pub fn has_reset_at(&self) -> bool {
        self.traffic.streams.has_reset_at()
    }

    /// Asks the peer to send no more (STOP_SENDING); what was not read is discarded.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn stop(&mut self, id: StreamId, code: u64) -> Result<(), UnknownStream> {
        self.traffic.streams.stop(id, sent_as(code))
    }

    /// The next bytes in order, at most `max`. With 0 none are read, and
    /// [`StreamEvent::Readable`](crate::StreamEvent::Readable) tells of whatever comes next, the end behind
    /// unread bytes among it.
    ///
    /// # Errors
    /// When the peer gave the stream up, or there is no such stream.
    pub fn read(&mut self, id: StreamId, max: usize) -> Result<Chunk, ReadError> {
        self.traffic.streams.read(id, max).map_err(|error| self.refused(id, error))
    }

    /// From now on the stream is read by [`read_unordered`](Self::read_unordered).
    ///
    /// # Errors
    /// When there is no such stream, it carries messages, or something of it was read.
    pub fn as_unordered(&mut self, id: StreamId) -> Result<(), UnknownStream> {
        self.traffic.streams.as_unordered(id)
    }

    /// Bytes that have come, at most `max`, with their offset: each byte once, those behind a hole too.
    ///
    /// # Errors
    /// When the peer gave the stream up, there is no such stream, or it is read [in
    /// order](Self::as_unordered).
    pub fn read_unordered(&mut self, id: StreamId, max: usize) -> Result<Piece, ReadError> {
        self.traffic.streams.read_unordered(id, max).map_err(|error| self.refused(id, error))
    }

    /// How far the sending half has come; `None` when there is no such stream, or no more.
    pub fn send_state(&self, id: StreamId) -> Option<SendState> {
        self.traffic.streams.send_state(id)
    }

    /// How far the receiving half has come; `None` when there is no such stream, or no more.
    pub fn recv_state(&self, id: StreamId) -> Option<RecvState> {
        self.traffic.streams.recv_state(id)
    }

    /// What the stream is among its siblings: those under the same [class](Self::set_class), or without one.
    /// Its data waits for that of more urgent ones (RFC 9000 §2.3: only the application knows), and has its
    /// share by weight among those of the same urgency. From the start: urgency 3, weight 1, incremental.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn set_priority(&mut self, id: StreamId, priority: Priority) -> Result<(), UnknownStream> {
        self.traffic.streams.set_priority(id, priority)
    }

    /// What it is; `None` when there is no such stream.
    pub fn priority(&self, id: StreamId) -> Option<Priority> {
        self.traffic.streams.priority(id)
    }

    /// Hangs the stream under the last of these classes, the first of which is below the connection itself;
    /// with none, below that. It keeps its own priority. Classes that are missing are made, those that exist
    /// get the priority that is given here; each goes with the last stream under it.
    ///
    /// ```no_run
    /// # use quickset_quic::{Class, Connection, StreamId};
    /// # fn f(conn: &mut Connection, camera: StreamId, slides: StreamId, file: StreamId) -> Result<(), quickset_quic::ClassError> {
    /// // Three quarters for the talk, whatever its streams, and of them twice as much for the camera.
    /// conn.set_class(camera, &[Class::new("talk", 3.0), Class::new("camera", 2.0)])?;
    /// conn.set_class(slides, &[Class::new("talk", 3.0)])?;
    /// conn.set_class(file, &[Class::new("files", 1.0)])?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When there is no such stream, when there are too many classes, or too many one below the other.
    /// Nothing has changed then.
    pub fn set_class(&mut self, id: StreamId, path: &[Class]) -> Result<(), ClassError> {
        self.traffic.streams.set_class(id, path)
    }

    /// The classes that the stream hangs under, from the first below the connection; `None` when there is no
    /// such stream.
    pub fn class(&self, id: StreamId) -> Option<Vec<Class>> {
        self.traffic.streams.class(id)
    }

    /// Changes what a class is among its siblings, by the names on the way to it. It counts from the next
    /// packet on.
    ///
    /// # Errors
    /// When nothing hangs under such a class.
    pub fn set_class_priority(&mut self, path: &[&str], priority: Priority) -> Result<(), ClassError> {
        self.traffic.streams.set_class_priority(path, priority)
    }

    /// How urgent the stream's data is among its siblings, 0 (most) to 7; 3 from the start.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn set_urgency(&mut self, id: StreamId, urgency: u8) -> Result<(), UnknownStream> {
        self.traffic.streams.set_urgency(id, urgency)
    }

    /// Puts the stream's data before that of all urgencies, until [`set_urgency`](Self::set_urgency): for
    /// what everything else waits for, as control streams are.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn set_critical(&mut self, id: StreamId) -> Result<(), UnknownStream> {
        self.traffic.streams.set_critical(id)
    }

    /// What is written to the stream from here on goes along with other data, or with an acknowledgement that
    /// was delayed; it waits for these as long as acknowledgements are delayed at most
    /// ([`max_ack_delay`](crate::TransportConfig::max_ack_delay)). For bytes that nobody waits for.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn set_piggyback(&mut self, id: StreamId) -> Result<(), UnknownStream> {
        self.traffic.streams.set_piggyback(id)
    }

    /// Whether the stream is of use in parts (RFC 9218 §4.2); true from the start. Such streams of the same
    /// urgency take turns. Those that are not go before them, one after the other, in the order in which they
    /// were opened.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn set_incremental(&mut self, id: StreamId, incremental: bool) -> Result<(), UnknownStream> {
        self.traffic.streams.set_incremental(id, incremental)
    }

    /// Bytes that may be written to the stream now and will not wait for flow control, unless more urgent
    /// streams use up the connection's credit before. `None` when there is no such stream, when it has ended,
    /// or for streams of messages.
    pub fn send_credit(&self, id: StreamId) -> Option<u64> {
        self.traffic.streams.send_credit(id)
    }

    /// From now on the peer may have so many streams in a direction open at a time, in place of
    /// [`max_bidi_streams`](crate::TransportConfig::max_bidi_streams) or `max_uni_streams`. It hears at once
    /// of more. Of fewer it cannot hear: it may still open those that it was allowed, and gets no leave for
    /// others before so many are over that no more than these are open (RFC 9000 §4.6). How many of them may
    /// be new at once [`max_fenced_streams`](crate::TransportConfig::max_fenced_streams) says as before.
    pub fn set_max_streams(&mut self, dir: Dir, most: u64) {
        self.traffic.streams.set_max_streams(dir, most);
    }

    /// From now on the receive window of the connection has so many bytes, whatever need it had before, and
    /// grows no more; one message of the longest that are [taken](crate::TransportConfig::fenced_streams)
    /// fits in any case. The peer hears at once of a larger one. What it was allowed it may still send, so
    /// that a smaller one holds when as much was read (RFC 9000 §4.1).
    pub fn set_connection_window(&mut self, bytes: u64) {
        self.traffic.streams.set_connection_window(bytes);
    }

    /// How many streams in a direction the peer was allowed to open so far, since the connection began: the
    /// index of any of its streams is less.
    pub fn max_peer_streams(&self, dir: Dir) -> u64 {
        self.traffic.streams.max_peer_streams(dir)
    }
}

/// What a path is taken to hold that is hardly known, in bytes.
const LEAST_REACH: u64 = 64 << 10;

/// An application's code as it goes on the wire, where codes are varints.
fn sent_as(code: u64) -> u64 {
    code.min(varint::MAX)
}
