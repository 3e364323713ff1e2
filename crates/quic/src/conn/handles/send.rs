use bytes::Bytes;
use quickset_sched::Priority;
use quickset_wire::StreamId;

use super::super::Connection;
use super::sent_as;
use crate::protect::policy::Protection;
use crate::streams::{Class, ClassError, FinishError, ResetAtError, Ticket, UnknownStream, WriteError};

/// Writes the sending half of a stream, and says how its data goes.
///
/// [`Connection::send_stream`] lends it, whether there is such a stream or not: that the verbs tell.
#[derive(Debug)]
pub struct SendStream<'a> {
    pub(super) conn: &'a mut Connection,
    pub(super) id: StreamId,
}

impl SendStream<'_> {
    /// Takes bytes from the front of `data`, as many as the send buffer holds, and returns how many.
    ///
    /// # Errors
    /// [`WriteError::Blocked`] when that is none; the stream's end otherwise.
    pub fn write(&mut self, data: &mut Bytes) -> Result<usize, WriteError> {
        self.conn.pay_for(data.len());
        self.conn.traffic.streams.sending(self.id).write(data)
    }

    /// Ends the sending half behind what was written.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn finish(&mut self) -> Result<(), FinishError> {
        self.conn.traffic.streams.sending(self.id).finish()
    }

    /// What was written to this stream so far, or sent on it as messages, is what somebody waits for: behind
    /// it, repair may be sent at once. Nothing leaves earlier for it, and without protection it changes
    /// nothing; nor does it when nothing was written since the last time, or the stream has ended.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn flush(&mut self) -> Result<(), UnknownStream> {
        self.conn.traffic.streams.sending(self.id).flush(self.conn.common.now)
    }

    /// Gives up the sending half; what was not delivered is not (RESET_STREAM).
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn reset(&mut self, code: u64) -> Result<(), UnknownStream> {
        self.conn.traffic.streams.sending(self.id).reset(sent_as(code))
    }

    /// Gives up the sending half behind its first `reliable` bytes: these arrive, the rest need not, and the
    /// peer learns `code` behind them (RESET_STREAM_AT). All that was written arrives if it is less. Another
    /// call, or [`reset`](Self::reset), can only take back a part of the promise, and not change the code.
    ///
    /// # Errors
    /// When there is no such stream, or it carries messages, or the peer does not
    /// [take](Connection::has_reset_at) such resets.
    pub fn reset_at(&mut self, code: u64, reliable: u64) -> Result<(), ResetAtError> {
        self.conn.traffic.streams.sending(self.id).reset_at(sent_as(code), reliable)
    }

    /// Gives up the messages of a stream behind one: that and those before it arrive, as far as their
    /// deadlines allow, then the peer learns `code` (RESET_STREAM_AT). [`reset`](Self::reset) takes the
    /// promise back; another call changes nothing.
    ///
    /// # Errors
    /// When there is no such stream, or it carries bytes, or the peer does not
    /// [take](Connection::has_reset_at) such resets.
    pub fn reset_behind(&mut self, code: u64, last: Ticket) -> Result<(), ResetAtError> {
        self.conn.traffic.streams.sending(self.id).reset_behind(sent_as(code), last)
    }

    /// What the stream is among its siblings: those under the same [class](Self::set_class), or without one.
    /// Its data waits for that of more urgent ones (RFC 9000 §2.3: only the application knows), and has its
    /// share by weight among those of the same urgency. From the start: urgency 3, weight 1, incremental.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn set_priority(&mut self, priority: Priority) -> Result<(), UnknownStream> {
        self.conn.traffic.streams.sending(self.id).set_priority(priority)
    }

    /// Hangs the stream under the last of these classes, the first of which is below the connection itself;
    /// with none, below that. It keeps its own priority. Classes that are missing are made, those that exist
    /// get the priority that is given here; each goes with the last stream under it.
    ///
    /// ```no_run
    /// # use quickset_quic::{Class, Connection, StreamId};
    /// # fn f(conn: &mut Connection, camera: StreamId, slides: StreamId, file: StreamId) -> Result<(), quickset_quic::ClassError> {
    /// // Three quarters for the talk, whatever its streams, and of them twice as much for the camera.
    /// conn.send_stream(camera).set_class(&[Class::new("talk", 3.0), Class::new("camera", 2.0)])?;
    /// conn.send_stream(slides).set_class(&[Class::new("talk", 3.0)])?;
    /// conn.send_stream(file).set_class(&[Class::new("files", 1.0)])?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When there is no such stream, when there are too many classes, or too many one below the other.
    /// Nothing has changed then.
    pub fn set_class(&mut self, path: &[Class]) -> Result<(), ClassError> {
        self.conn.traffic.streams.sending(self.id).set_class(path)
    }

    /// How urgent the stream's data is among its siblings, 0 (most) to 7; 3 from the start.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn set_urgency(&mut self, urgency: u8) -> Result<(), UnknownStream> {
        self.conn.traffic.streams.sending(self.id).set_urgency(urgency)
    }

    /// Puts the stream's data before that of all urgencies, until [`set_urgency`](Self::set_urgency): for
    /// what everything else waits for, as control streams are.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn set_critical(&mut self) -> Result<(), UnknownStream> {
        self.conn.traffic.streams.sending(self.id).set_critical()
    }

    /// What is written to the stream from here on goes along with other data, or with an acknowledgement that
    /// was delayed; it waits for these as long as acknowledgements are delayed at most
    /// ([`max_ack_delay`](crate::TransportConfig::max_ack_delay)). For bytes that nobody waits for.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn set_piggyback(&mut self) -> Result<(), UnknownStream> {
        self.conn.traffic.streams.sending(self.id).set_piggyback()
    }

    /// Whether the stream is of use in parts (RFC 9218 §4.2); true from the start. Such streams of the same
    /// urgency take turns. Those that are not go before them, one after the other, in the order in which they
    /// were opened.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn set_incremental(&mut self, incremental: bool) -> Result<(), UnknownStream> {
        self.conn.traffic.streams.sending(self.id).set_incremental(incremental)
    }

    /// How the data of a stream is protected from now on; [`Protection::None`] leaves it to the connection's
    /// own protection ([`Fec::protection`](crate::Fec::protection)) again. Without forward erasure correction
    /// at the peer nothing is protected, and everything arrives all the same.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn set_protection(&mut self, protection: &Protection) -> Result<(), UnknownStream> {
        let own = *protection != Protection::None;
        let channel = self.conn.traffic.streams.sending(self.id).own_channel(own)?;
        if !own {
            // The stream is of another channel now, in whose turns this one's repair would wait for ever, and
            // all behind it.
            self.conn.traffic.streams.repair().set_due(channel, false);
        }
        let streams = &self.conn.traffic.streams;
        self.conn.protect.send.purge(|channel| streams.has_channel(channel));
        self.conn.protect.send.set_policy(channel, protection);
        self.conn.protect.drain(&mut self.conn.traffic, self.conn.common.now);
        // Only messages have ends; a stream of bytes is cut as it comes.
        let _ = self.conn.traffic.streams.messages(self.id).set_even(protection.splits_evenly());
        Ok(())
    }

    /// Bytes that may be written now and leave soon: as many as the peer has credit for, and the path takes.
    /// Who has much to send, and would have to fetch it first, fetches no more; what a peer does not take is
    /// not held for it. With 0, [`StreamEvent::Writable`](crate::StreamEvent::Writable) tells when there are
    /// some.
    ///
    /// # Errors
    /// The stream's end.
    pub fn room(&mut self) -> Result<u64, WriteError> {
        // A window is on its way, and another is sent while more is fetched; both may have doubled by then.
        let reach = self.conn.link.path.congestion.control().window.saturating_mul(4).max(LEAST_REACH);
        self.conn.pay_for(usize::try_from(reach).unwrap_or(usize::MAX));
        self.conn.traffic.streams.sending(self.id).room(reach)
    }
}

/// What a path is taken to hold that is hardly known, in bytes.
const LEAST_REACH: u64 = 64 << 10;
