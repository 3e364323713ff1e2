use bytes::Bytes;
use quickset_base::Time;
use quickset_sched::Priority;

use super::Connection;
use crate::datagram::{DatagramOptions, DatagramOutcome, DatagramTicket, Unsent};
use crate::packet::Channel;
use crate::protect::policy::{Goal, Protection};
use crate::streams::{Class, ClassError};

/// Unreliable datagrams (RFC 9221), as the application sends and takes them.
impl Connection {
    /// Whether we take datagrams: the peer was told so.
    pub fn takes_datagrams(&self) -> bool {
        self.common.config.datagrams.max_frame_size > 0
    }

    /// The longest datagram, in bytes, that can be sent now; `None` when the peer takes none, or has not said
    /// so yet. It changes with the size of the path's packets. Once datagrams are
    /// [protected](Self::set_datagram_protection), it is the longest that is; those up to some 40 bytes
    /// longer are taken all the same, and go unprotected.
    pub fn max_datagram_len(&self) -> Option<usize> {
        let room = self.link.packet_room();
        self.traffic
            .datagrams
            .longest(self.protect.send.symbol_room(Channel::Datagrams, room).unwrap_or(room))
    }

    /// Sends a datagram: whole, in one packet, once, or not at all, in the order in which they were given.
    ///
    /// # Errors
    /// When the peer takes none, or none that is so long, or the send queue is full; the datagram is handed
    /// back.
    pub fn send_datagram(
        &mut self,
        now: Time,
        data: Bytes,
        how: &DatagramOptions,
    ) -> Result<DatagramTicket, Unsent> {
        self.common.now = now.max(self.common.now);
        let ticket = self.traffic.datagrams.push(data, how, self.common.now, self.link.packet_room())?;
        self.traffic.streams.set_datagrams(true);
        Ok(ticket)
    }

    /// The next datagram that came, in the order of arrival.
    /// [`DatagramEvent::Received`](crate::DatagramEvent::Received) tells when there is one again.
    pub fn next_datagram(&mut self) -> Option<Bytes> {
        self.traffic.datagrams.pop()
    }

    /// What became of a datagram that was sent with [`DatagramOptions::report`], in the order in which that
    /// was learnt.
    pub fn next_datagram_outcome(&mut self) -> Option<(DatagramTicket, DatagramOutcome)> {
        self.traffic.datagrams.next_outcome()
    }

    /// Datagrams that wait to be sent, and their bytes.
    pub fn unsent_datagrams(&self) -> (usize, usize) {
        self.traffic.datagrams.backlog()
    }

    /// What datagrams are among streams: all of them together have their turns as one stream of this priority
    /// would, from the start one of urgency 3 and weight 1.
    pub fn set_datagram_priority(&mut self, priority: Priority) {
        self.traffic.streams.set_datagram_priority(priority);
    }

    /// How urgent datagrams are, 0 (most) to 7; 3 from the start. They take turns with streams of the same
    /// urgency.
    pub fn set_datagram_urgency(&mut self, urgency: u8) {
        let priority = self.traffic.streams.datagram_priority();
        self.set_datagram_priority(Priority { critical: false, ..priority.urgency(urgency) });
    }

    /// Hangs all datagrams under the last of these classes, as [`set_class`](Self::set_class) does a stream.
    ///
    /// # Errors
    /// As there.
    pub fn set_datagram_class(&mut self, path: &[Class]) -> Result<(), ClassError> {
        self.traffic.streams.set_datagram_class(path)
    }

    /// How datagrams are protected from now on. What protects the streams of the connection does not protect
    /// datagrams. Since none is ever sent again, [`Protection::Adaptive`] without a goal has that of a
    /// screen. Without forward erasure correction at the peer nothing is protected.
    pub fn set_datagram_protection(&mut self, protection: &Protection) {
        let screen = Protection::Adaptive(Some(Goal::Screen));
        let protection = if *protection == Protection::Adaptive(None) { &screen } else { protection };
        self.protect.send.set_policy(Channel::Datagrams, protection);
        self.protect.drain(&mut self.traffic, self.common.now);
    }

    /// Datagrams sent so far belong together, a picture or a tick of a game: behind them, repair may be sent
    /// at once. Without protection it changes nothing.
    pub fn flush_datagrams(&mut self) {
        self.traffic.datagrams.flush();
    }
}
