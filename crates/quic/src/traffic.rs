//! What the application sends and receives: streams, messages and datagrams, which share the turns.

use std::collections::VecDeque;

use quickset_base::Time;
use quickset_wire::Side;
use quickset_wire::frame::{Frame, Frames};

use crate::config::TransportConfig;
use crate::datagram::{DatagramQueues, Wrote};
use crate::event::Event;
use crate::packet::{Channel, FrameToken, PacketWriter, RoomView, Want};
use crate::protect::policy::Demand;
use crate::streams::Streams;

/// What there is to know of the packet that is being filled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketRoom {
    pub(crate) now: Time,
    /// Bytes that it has for frames if it holds nothing else.
    pub(crate) room: usize,
}

/// Owned by the connection.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) streams: Streams,
    pub(crate) datagrams: DatagramQueues,
    /// What goes along with other data waits for it until then.
    pub(crate) piggyback_by: Option<Time>,
    /// Bytes per second that leave, about, when messages with deadlines were last sent.
    pub(crate) rate: u64,
}

impl Traffic {
    pub(crate) fn new(side: Side, config: &TransportConfig) -> Self {
        Self {
            streams: Streams::new(side, &config.into()),
            datagrams: DatagramQueues::new(&config.datagrams),
            piggyback_by: None,
            rate: 0,
        }
    }

    /// Whether there is anything for a packet: data, or what has waited long enough for some to go along
    /// with.
    #[inline]
    pub(crate) fn wants(&self, now: Time) -> bool {
        self.streams.want() > Want::None
            || (self.streams.has_piggyback() && self.piggyback_by.is_some_and(|at| at <= now))
            || !self.datagrams.is_empty()
    }

    /// Whether there is something to send, now or later, or to tell the application.
    #[inline]
    pub(crate) fn wants_turn(&self) -> bool {
        self.streams.has_control()
            || self.streams.want() > Want::None
            || self.streams.has_piggyback()
            || self.streams.has_news()
            || self.datagrams.has_news()
            || !self.datagrams.is_empty()
    }

    /// Whether nothing waits behind what leaves now.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.streams.want() == Want::None && self.datagrams.is_empty()
    }

    /// Bytes that wait to be sent.
    #[inline]
    pub(crate) fn backlog(&self) -> u64 {
        let (_, datagrams) = self.datagrams.backlog();
        self.streams.pressing() + datagrams as u64
    }

    /// Until when data that goes along with other data waits for that: as long as an acknowledgement does
    /// that is under way (`acknowledged`), and else as long as one may (RFC 9000 §13.2.1). Not for one that
    /// is due since two packets came: it would elicit another, of which there would be two then, and so on.
    pub(crate) fn time_piggyback(&mut self, acknowledged: Option<Time>, most: Time) {
        if !self.streams.has_piggyback() {
            self.piggyback_by = None;
        } else if self.piggyback_by.is_none() {
            self.piggyback_by = acknowledged.or(Some(most));
        }
    }

    /// Data of streams, and datagrams when it is their turn. True when a message ends in it.
    pub(crate) fn write(&mut self, w: &mut PacketWriter<'_>, view: &RoomView, of: PacketRoom) -> bool {
        let mut ends_message = self.streams.write_data(w, view, None).ends_message;
        if !self.datagrams.is_empty() {
            ends_message |= self.write_mixed(w, view, of);
        }
        ends_message
    }

    /// The same from there on. What does not fit beside the rest leaves its place in this packet to others.
    fn write_mixed(&mut self, w: &mut PacketWriter<'_>, view: &RoomView, of: PacketRoom) -> bool {
        let mut ends_message = false;
        while self.streams.datagrams().is_next() {
            let is_through = self.write_datagrams(w, of);
            if !is_through {
                self.streams.datagrams().pass();
            }
            ends_message |= self.streams.write_data(w, view, None).ends_message;
            if !is_through {
                self.streams.datagrams().recall();
                break;
            }
        }
        ends_message
    }

    /// Data of one channel, as long as it is its turn. True when a message ends in it.
    pub(crate) fn write_channel(
        &mut self,
        w: &mut PacketWriter<'_>,
        view: &RoomView,
        channel: Channel,
        of: PacketRoom,
    ) -> bool {
        if channel == Channel::Datagrams {
            self.write_datagrams(w, of);
            return false;
        }
        self.streams.write_data(w, view, Some(channel)).ends_message
    }

    /// Whether a symbol of at most `limit` bytes is of use for what the channel has: datagrams are never
    /// split.
    pub(crate) fn may_join(&mut self, channel: Channel, limit: usize, of: PacketRoom) -> bool {
        channel != Channel::Datagrams
            || self.datagrams.next_size(of.now, of.room).is_some_and(|size| size <= limit)
    }

    /// Datagrams while it is their turn. False when the next one does not fit into what is left of the
    /// packet.
    fn write_datagrams(&mut self, w: &mut PacketWriter<'_>, of: PacketRoom) -> bool {
        while self.streams.datagrams().is_next() {
            match self.datagrams.write(w, of.now, of.room) {
                Wrote::Frame(size) => self.streams.datagrams().sent(size),
                Wrote::NoRoom => return false,
                Wrote::Nothing => {}
            }
            if self.datagrams.is_empty() {
                self.review_datagrams();
            }
        }
        true
    }

    /// The place of datagrams among the streams, or none.
    pub(crate) fn review_datagrams(&mut self) {
        self.streams.datagrams().set_waiting(!self.datagrams.is_empty());
    }

    /// Drops datagrams that are too old.
    pub(crate) fn expire_datagrams(&mut self, now: Time) {
        if self.datagrams.deadline().is_some_and(|(at, _)| at <= now) {
            self.datagrams.on_time(now);
            self.review_datagrams();
        }
    }

    /// What the application wants of a channel.
    pub(crate) fn demand(&self, channel: Channel) -> Demand {
        match channel {
            Channel::Datagrams => self.datagrams.demand(),
            Channel::Connection | Channel::Stream(_) => self.streams.demand(channel),
        }
    }

    /// What there is to tell changes with this.
    pub(crate) fn pulse(&self) -> u64 {
        self.streams.pulse().wrapping_add(self.datagrams.pulse())
    }

    /// A packet with it was acknowledged.
    pub(crate) fn acked(&mut self, token: FrameToken, now: Time) {
        match token {
            FrameToken::Datagram { number, reported } => self.datagrams.acked(number, reported),
            token => self.streams.acked(token, now),
        }
    }

    /// A packet with it was lost.
    pub(crate) fn lost(&mut self, token: FrameToken, now: Time) {
        match token {
            FrameToken::Datagram { number, reported } => self.datagrams.lost(number, reported),
            token => self.streams.lost(token, now),
        }
    }

    /// The peer recovered what a lost packet held: to those whose frames it held that is an arrival (FEC-42),
    /// to nobody else (FEC-49).
    pub(crate) fn recovered(&mut self, token: FrameToken, now: Time) {
        match token {
            FrameToken::Datagram { number, reported } => self.datagrams.recovered(number, reported),
            token => self.streams.recovered(token, now),
        }
    }

    /// Tells the application what happened.
    pub(crate) fn collect(&mut self, events: &mut VecDeque<Event>) {
        while let Some(event) = self.streams.next_event() {
            events.push_back(Event::Stream(event));
        }
        while let Some(event) = self.datagrams.next_event() {
            events.push_back(Event::Datagram(event));
        }
    }

    /// Whether a packet has frames in it that may have their place to be found, or symbols, in which there
    /// are such; or of what was dear before.
    #[cold]
    pub(crate) fn asks_for_work(&self, payload: &[u8]) -> bool {
        let asks = |frame: Frame<'_>| match frame {
            Frame::Fenced { .. }
            | Frame::Abandon { .. }
            | Frame::SourceSymbol { .. }
            | Frame::Repair { .. } => true,
            Frame::Stream { id, .. } => self.streams.of(id).is_charged(),
            Frame::Datagram { .. } => self.datagrams.is_charged(),
            _ => false,
        };
        Frames::new(payload).flatten().any(asks)
    }

    /// Invariants.
    pub(crate) fn check(&self) {
        self.streams.check();
        self.datagrams.check();
    }
}
