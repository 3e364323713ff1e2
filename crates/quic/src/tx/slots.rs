//! What the next packet is for: repair, a lost symbol again, or new data. Policies decide it, and are told
//! what they may know.

use quickset_base::Duration;
use quickset_wire::Space;

use crate::common::Common;
use crate::conn::Connection;
use crate::datagram::Datagrams;
use crate::packet::{Channel, Phase, View};
use crate::path::Path;
use crate::protect::policy::Demand;
use crate::protect::send::{Moment, Outlook, Slot};
use crate::protect::{Due, Monitor};
use crate::recovery::Recovery;
use crate::streams::{ChannelDeadlines, Streams, Turn};
use crate::traffic::Traffic;

impl Connection {
    /// Finds out whether the next packet is for repair or for repeated symbols: the channel whose turn it is
    /// decides (FlEC, algorithm 1).
    pub(crate) fn plan_slot(&mut self) {
        self.protect.due = None;
        if !self.protect.send.is_active() {
            self.traffic.streams.forget_repair();
            return;
        }
        // FEC-28: a server that speaks before the client has proved its address repairs nothing. What it
        // would have repaired goes again like anything else that is lost.
        if !self.link.path.is_validated() {
            self.traffic.streams.forget_repair();
            self.protect.send.give_up_all();
            self.drain_orphans();
            return;
        }
        let quiet = self.protect.send.quiet(self.moment()) > 0;
        if quiet && !self.traffic.streams.awaits_repair() {
            return;
        }
        if !quiet {
            self.ask_policies();
        }
        // A slot may turn out to be for nothing: what was held is not wanted any more.
        for _ in 0..MAX_PLANS {
            let Some(due) = self.next_due() else { return };
            let Self { traffic: Traffic { streams, .. }, protect, common: Common { now, .. }, .. } = self;
            let stands = match due.slot {
                Slot::Repeat(lane) => protect.send.repeat(lane, |token| streams.wants(token, *now)).is_some(),
                Slot::Repair(_) => true,
            };
            // FEC-53: somebody has to give up what is not wanted any more, whatever else is.
            self.drain_orphans();
            if stands {
                self.protect.due = Some(due);
                return;
            }
        }
        // Nobody waits for a turn that would be for nothing.
        self.traffic.streams.forget_repair();
    }

    /// Asks the policies of all channels with lanes whether anything is to be repaired or repeated now, but
    /// for those that said so and wait for their turn.
    fn ask_policies(&mut self) {
        // Nothing is found out before there is somebody to be told.
        let moment = self.moment();
        let mut told = None;
        let (mut at, mut is_due) = (0, false);
        self.protect.send.ask();
        while let Some(channel) = self.protect.send.active(at) {
            if !self.traffic.streams.has_channel(channel) {
                // Its stream is over, and nothing of it is wanted any more.
                self.protect.send.forget(channel);
                continue;
            }
            at += 1;
            if self.traffic.streams.is_repair_due(channel) {
                continue;
            }
            let (facts, turn) =
                *told.get_or_insert_with(|| (self.facts(), self.traffic.streams.next_channel()));
            let Self { traffic: Traffic { streams, datagrams, .. }, protect, .. } = self;
            let deadlines = streams.deadlines(channel);
            let outlook = facts.of((streams, datagrams), turn, &protect.monitor, &deadlines);
            if protect.send.slot(channel, &outlook).is_some() {
                streams.set_repair(channel, true);
                is_due = true;
            }
        }
        if !is_due {
            self.protect.send.rest(moment);
        }
    }

    /// What the next packet is for, if it is the turn of a channel with something to be repaired or repeated,
    /// and its policy still says so.
    fn next_due(&mut self) -> Option<Due> {
        loop {
            let turn =
                self.traffic.streams.next_channel().filter(|_| self.traffic.streams.awaits_repair())?;
            let channel = turn.channel;
            if !self.traffic.streams.is_repair_due(channel) {
                return None;
            }
            // What is owed already is no question for a policy.
            let owed = self.protect.send.owed(channel);
            if let Some(slot) = owed.or_else(|| self.ask_policy(turn)) {
                return Some(Due { slot, channel, turn: turn.key });
            }
            self.traffic.streams.set_repair(channel, false);
        }
    }

    /// Asks the policy of the channel whose turn it is.
    fn ask_policy(&mut self, turn: Turn) -> Option<Slot> {
        let facts = self.facts();
        let Self { traffic: Traffic { streams, datagrams, .. }, protect, .. } = self;
        let deadlines = streams.deadlines(turn.channel);
        let outlook = facts.of((streams, datagrams), Some(turn), &protect.monitor, &deadlines);
        protect.send.slot(turn.channel, &outlook)
    }

    /// When what policies are told now was so.
    pub(crate) fn moment(&self) -> Moment {
        Moment {
            now: self.common.now,
            pulse: self.traffic.streams.pulse().wrapping_add(self.traffic.datagrams.pulse()),
        }
    }

    /// What policies are told of the path.
    pub(super) fn facts(&self) -> Facts {
        Facts::of_path(&self.link.recovery, &self.link.path, self)
    }
}

/// What the policies of all channels are told alike.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    view: View,
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
    fn of_path(recovery: &Recovery, path: &Path, of: &Connection) -> Self {
        let rtt = recovery.rtt();
        Self {
            view: of.view(),
            rtt: rtt.smoothed(),
            min_rtt: rtt.min(),
            rtt_var: rtt.var(),
            pto: of.pto(),
            ack_delay: recovery.max_ack_delay(),
            cwnd: path.congestion.control().window,
            in_flight: recovery.in_flight(),
            feedback: recovery.largest_acked(Space::Data).is_some(),
            confirmed: of.common.side.is_server() || of.common.phase == Phase::Confirmed,
        }
    }

    pub(super) fn of<'a>(
        &self,
        (streams, datagrams): (&Streams, &Datagrams),
        turn: Option<Turn>,
        monitor: &'a Monitor,
        deadlines: &'a ChannelDeadlines<'_>,
    ) -> Outlook<'a> {
        let channel = deadlines.channel();
        Outlook {
            now: self.view.now,
            loss: monitor.loss(),
            belief: monitor.belief(),
            demand: demand(streams, datagrams, channel),
            deadlines,
            rtt: self.rtt,
            min_rtt: self.min_rtt,
            rtt_var: self.rtt_var,
            pto: self.pto,
            ack_delay: self.ack_delay,
            cwnd: self.cwnd,
            in_flight: self.in_flight,
            others_wait: streams.others_wait(channel, turn),
            crowded_out: streams.crowding().crowded_out(),
            surely_crowded_out: streams.crowding().surely_crowded_out(),
            hit: streams.crowding().hit(),
            feedback: self.feedback,
            confirmed: self.confirmed,
        }
    }
}

/// What the application wants of a channel.
pub(super) fn demand(streams: &Streams, datagrams: &Datagrams, channel: Channel) -> Demand {
    match channel {
        Channel::Datagrams => datagrams.demand(),
        Channel::Connection | Channel::Stream(_) => streams.demand(channel),
    }
}

/// Slots that turn out to be for nothing in a row, before a packet is built without one.
const MAX_PLANS: usize = 8;
