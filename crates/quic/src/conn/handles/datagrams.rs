use std::collections::VecDeque;

use bytes::Bytes;
use quickset_base::Time;
use quickset_sched::Priority;

use super::super::Connection;
use crate::datagram::{DatagramError, DatagramOptions, DatagramOutcome, DatagramTicket, Unsent};
use crate::packet::Channel;
use crate::protect::policy::{Goal, Protection};
use crate::streams::{Class, ClassError};

/// Sends and receives the unreliable datagrams of a connection (RFC 9221).
///
/// [`Connection::datagrams`] lends it.
#[derive(Debug)]
pub struct Datagrams<'a> {
    pub(super) conn: &'a mut Connection,
}

impl Datagrams<'_> {
    /// Sends a datagram: whole, in one packet, once, or not at all, in the order in which they were given.
    ///
    /// # Errors
    /// When the peer takes none, or none that is so long, or the send queue is full; the datagram is handed
    /// back.
    pub fn send(&mut self, now: Time, data: Bytes, how: &DatagramOptions) -> Result<DatagramTicket, Unsent> {
        self.conn.common.now = now.max(self.conn.common.now);
        let ticket = self.conn.traffic.datagrams.push(
            data,
            how,
            self.conn.common.now,
            self.conn.link.packet_room(),
        )?;
        self.conn.traffic.streams.datagrams().set_waiting(true);
        Ok(ticket)
    }

    /// Sends the datagrams at the front of `data` as [`send`](Self::send) would one by one, which costs a
    /// part of that, and takes them out. What becomes of them is only counted, whatever `how` says of
    /// reports.
    ///
    /// # Errors
    /// Why the first of those that are left was refused.
    pub fn send_all(
        &mut self,
        now: Time,
        data: &mut VecDeque<Bytes>,
        how: &DatagramOptions,
    ) -> Result<(), DatagramError> {
        self.conn.common.now = now.max(self.conn.common.now);
        let (now, room) = (self.conn.common.now, self.conn.link.packet_room());
        let result = self.conn.traffic.datagrams.push_all(data, how, now, room);
        self.conn.traffic.review_datagrams();
        result
    }

    /// Moves up to `most` datagrams that came to the back of `into`, as [`recv`](Self::recv) would one by
    /// one. Returns how many: with none there are no more, and the event tells when there are.
    pub fn recv_all(&mut self, most: usize, into: &mut Vec<Bytes>) -> usize {
        self.conn.traffic.datagrams.pop_all(most, into)
    }

    /// True when at least half of the datagrams wait that may. With many more the oldest are dropped: a
    /// driver had better let the application read before it receives them.
    pub fn is_crowded(&self) -> bool {
        self.conn.traffic.datagrams.is_crowded()
    }

    /// The next datagram that came, in the order of arrival.
    /// [`DatagramEvent::Received`](crate::DatagramEvent::Received) tells when there is one again.
    pub fn recv(&mut self) -> Option<Bytes> {
        self.conn.traffic.datagrams.pop()
    }

    /// What became of a datagram that was sent with [`DatagramOptions::report`], in the order in which that
    /// was learnt.
    pub fn next_outcome(&mut self) -> Option<(DatagramTicket, DatagramOutcome)> {
        self.conn.traffic.datagrams.next_outcome()
    }

    /// Datagrams that wait to be sent, and their bytes.
    pub fn unsent(&self) -> (usize, usize) {
        self.conn.traffic.datagrams.backlog()
    }

    /// What datagrams are among streams: all of them together have their turns as one stream of this priority
    /// would, from the start one of urgency 3 and weight 1.
    pub fn set_priority(&mut self, priority: Priority) {
        self.conn.traffic.streams.datagrams().set_priority(priority);
    }

    /// How urgent datagrams are, 0 (most) to 7; 3 from the start. They take turns with streams of the same
    /// urgency.
    pub fn set_urgency(&mut self, urgency: u8) {
        let priority = self.conn.traffic.streams.datagram_priority();
        self.set_priority(Priority { critical: false, ..priority.urgency(urgency) });
    }

    /// Hangs all datagrams under the last of these classes, as
    /// [`SendStream::set_class`](super::SendStream::set_class) does a stream.
    ///
    /// # Errors
    /// As there.
    pub fn set_class(&mut self, path: &[Class]) -> Result<(), ClassError> {
        self.conn.traffic.streams.datagrams().set_class(path)
    }

    /// How datagrams are protected from now on. What protects the streams of the connection does not protect
    /// datagrams. Since none is ever sent again, [`Protection::Adaptive`] without a goal has that of a
    /// screen. Without forward erasure correction at the peer nothing is protected.
    pub fn set_protection(&mut self, protection: &Protection) {
        let screen = Protection::Adaptive(Some(Goal::Screen));
        let protection = if *protection == Protection::Adaptive(None) { &screen } else { protection };
        self.conn.protect.send.set_policy(Channel::Datagrams, protection);
        self.conn.protect.drain(&mut self.conn.traffic, self.conn.common.now);
    }

    /// Datagrams sent so far belong together, a picture or a tick of a game: behind them, repair may be sent
    /// at once. Without protection it changes nothing.
    pub fn flush(&mut self) {
        self.conn.traffic.datagrams.flush();
    }
}
