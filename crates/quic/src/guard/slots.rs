//! What the next packet is for: repair, a lost symbol again, or new data. Policies decide it, and are told
//! what they may know.

use quickset_base::Duration;
use quickset_wire::Space;

use super::Around;
use crate::common::Common;
use crate::link::PacketLink;
use crate::packet::{Phase, RoomView};
use crate::protect::send::{Moment, Outlook, WindowSlot};
use crate::protect::{DuePacket, Monitor, Protect};
use crate::streams::{ChannelDeadlines, StreamTurn};
use crate::traffic::{PacketRoom, Traffic};

impl Protect {
    /// Finds out whether the next packet is for repair or for repeated symbols: the channel whose turn it is
    /// decides (FlEC, algorithm 1).
    pub(crate) fn plan_slot(&mut self, of: &mut Around<'_>) {
        self.due = None;
        if !self.send.is_active() {
            of.traffic.streams.repair().forget();
            return;
        }
        // FEC-28: a server that speaks before the client has proved its address repairs nothing. What it
        // would have repaired goes again like anything else that is lost.
        if !of.link.path.is_validated() {
            of.traffic.streams.repair().forget();
            self.send.give_up_all();
            self.drain(of.traffic, of.cx.now);
            return;
        }
        let quiet = self.send.quiet(of.moment()) > 0;
        if quiet && !of.traffic.streams.awaits_repair() {
            return;
        }
        if !quiet {
            self.ask_policies(of);
        }
        // A slot may turn out to be for nothing: what was held is not wanted any more.
        for _ in 0..MAX_PLANS {
            let Some(due) = self.next_due(of) else { return };
            let (streams, now) = (&of.traffic.streams, of.cx.now);
            let stands = match due.slot {
                WindowSlot::Repeat(lane) => {
                    self.send.repeat(lane, |token| streams.wants(token, now)).is_some()
                }
                WindowSlot::Repair(_) => true,
            };
            // FEC-53: somebody has to give up what is not wanted any more, whatever else is.
            self.drain(of.traffic, of.cx.now);
            if stands {
                self.due = Some(due);
                return;
            }
        }
        // Nobody waits for a turn that would be for nothing.
        of.traffic.streams.repair().forget();
    }

    /// Asks the policies of all channels with lanes whether anything is to be repaired or repeated now, but
    /// for those that said so and wait for their turn.
    fn ask_policies(&mut self, of: &mut Around<'_>) {
        // Nothing is found out before there is somebody to be told.
        let moment = of.moment();
        let mut told = None;
        let (mut at, mut is_due) = (0, false);
        self.send.ask();
        while let Some(channel) = self.send.active(at) {
            if !of.traffic.streams.has_channel(channel) {
                // Its stream is over, and nothing of it is wanted any more.
                self.send.forget(channel);
                continue;
            }
            at += 1;
            if of.traffic.streams.is_repair_due(channel) {
                continue;
            }
            let (facts, turn) = *told.get_or_insert_with(|| (of.facts(), of.traffic.streams.next_channel()));
            let deadlines = of.traffic.streams.deadlines(channel);
            let outlook = facts.of(of.traffic, turn, &self.monitor, &deadlines);
            if self.send.slot(channel, &outlook).is_some() {
                of.traffic.streams.repair().set_due(channel, true);
                is_due = true;
            }
        }
        if !is_due {
            self.send.rest(moment);
        }
    }

    /// What the next packet is for, if it is the turn of a channel with something to be repaired or repeated,
    /// and its policy still says so.
    fn next_due(&mut self, of: &mut Around<'_>) -> Option<DuePacket> {
        loop {
            let turn = of.traffic.streams.next_channel().filter(|_| of.traffic.streams.awaits_repair())?;
            let channel = turn.channel;
            if !of.traffic.streams.is_repair_due(channel) {
                return None;
            }
            // What is owed already is no question for a policy.
            let owed = self.send.owed(channel);
            if let Some(slot) = owed.or_else(|| self.ask_policy(of, turn)) {
                return Some(DuePacket { slot, channel, turn: turn.key });
            }
            of.traffic.streams.repair().set_due(channel, false);
        }
    }

    /// Asks the policy of the channel whose turn it is.
    fn ask_policy(&mut self, of: &mut Around<'_>, turn: StreamTurn) -> Option<WindowSlot> {
        let facts = of.facts();
        let deadlines = of.traffic.streams.deadlines(turn.channel);
        let outlook = facts.of(of.traffic, Some(turn), &self.monitor, &deadlines);
        self.send.slot(turn.channel, &outlook)
    }
}

impl Around<'_> {
    /// When what policies are told now was so.
    pub(crate) fn moment(&self) -> Moment {
        Moment { now: self.cx.now, pulse: self.traffic.pulse() }
    }

    /// What policies are told of the path.
    pub(super) fn facts(&self) -> Facts {
        Facts::of_path(self.cx, self.link, self.link.view(self.cx.now, self.traffic.rate))
    }

    /// What there is to know of the next packet.
    pub(super) fn packet_room(&self) -> PacketRoom {
        PacketRoom { now: self.cx.now, room: self.link.packet_room() }
    }
}

/// What the policies of all channels are told alike.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    view: RoomView,
    rtt: Duration,
    min_rtt: Duration,
    rtt_var: Duration,
    pto: Duration,
    ack_delay: Duration,
    cwnd: u64,
    in_flight: u64,
    feedback: bool,
    confirmed: bool,
}

impl Facts {
    fn of_path(cx: &Common, link: &PacketLink, view: RoomView) -> Self {
        let (recovery, rtt) = (&link.path.recovery, link.path.recovery.rtt());
        Self {
            view,
            rtt: rtt.smoothed(),
            min_rtt: rtt.min(),
            rtt_var: rtt.var(),
            pto: link.pto(),
            ack_delay: recovery.max_ack_delay(),
            cwnd: link.path.congestion.control().window,
            in_flight: recovery.in_flight(),
            feedback: recovery.largest_acked(Space::Data).is_some(),
            confirmed: cx.side.is_server() || cx.phase == Phase::Confirmed,
        }
    }

    pub(super) fn of<'a>(
        &self,
        traffic: &Traffic,
        turn: Option<StreamTurn>,
        monitor: &'a Monitor,
        deadlines: &'a ChannelDeadlines<'_>,
    ) -> Outlook<'a> {
        let channel = deadlines.channel();
        Outlook {
            now: self.view.now,
            loss: monitor.loss(),
            belief: monitor.belief(),
            demand: traffic.demand(channel),
            deadlines,
            rtt: self.rtt,
            min_rtt: self.min_rtt,
            rtt_var: self.rtt_var,
            pto: self.pto,
            ack_delay: self.ack_delay,
            cwnd: self.cwnd,
            in_flight: self.in_flight,
            others_wait: traffic.streams.others_wait(channel, turn),
            crowded_out: traffic.streams.crowding().crowded_out(),
            surely_crowded_out: traffic.streams.crowding().surely_crowded_out(),
            hit: traffic.streams.crowding().hit(),
            feedback: self.feedback,
            confirmed: self.confirmed,
        }
    }
}

/// Slots that turn out to be for nothing in a row, before a packet is built without one.
const MAX_PLANS: usize = 8;
