//! What losses and marks do to the model (draft-ietf-ccwg-bbr §5.5.10, §5.5.11).

use quickset_base::Time;
use quickset_base::number::{Float as _, Unsigned as _};

use super::control::HEADROOM;
use super::{BETA, Bbr, BbrState, BbrUndo, LOSS_THRESHOLD};
use crate::cc::SettledPacket;

impl Bbr {
    // §5.5.10.2.
    pub(super) fn on_lost(&mut self, packet: &SettledPacket, now: Time) {
        self.sampler.on_lost(packet);
        let starts_gap = packet.number != self.last_lost + 1;
        self.last_lost = packet.number;
        // Losses of what left before the first of them was noticed are one event, however it is answered.
        let begins = self.undo.as_ref().is_none_or(|undo| packet.sent > undo.began);
        if begins {
            // §5.6.4.4: the window before it, unless that was bounded already.
            self.save_window();
        }
        self.short.note_loss(self.sampler.delivered(), starts_gap);
        if begins {
            self.undo = Some(BbrUndo {
                began: now,
                state: None,
                bandwidth: self.short.bandwidth,
                in_flight: self.short.in_flight,
                long_term: self.long_term,
                lost: 0,
            });
        }
        if let Some(undo) = &mut self.undo {
            undo.lost += 1;
        }
        if !self.probe.is_sample {
            return;
        }
        let lost = self.sampler.lost().saturating_sub(packet.state.lost);
        if self.is_excessive(lost, packet.state.in_flight) {
            self.on_too_high(packet, lost, now);
        }
    }

    fn on_too_high(&mut self, packet: &SettledPacket, lost: u64, now: Time) {
        if !packet.state.app_limited {
            // Where in the packet the threshold was crossed: packets are small, but the sum is exact.
            let before = packet.state.in_flight.saturating_sub(packet.bytes).approx();
            let lost_before = lost.saturating_sub(packet.bytes).approx();
            let prefix = (LOSS_THRESHOLD * before - lost_before) / (1.0 - LOSS_THRESHOLD);
            let at_loss = (before + prefix).whole();
            self.bound_long_term(at_loss);
        }
        self.end_probe(now);
    }

    /// So much in flight was too much. See the module's departures.
    fn bound_long_term(&mut self, in_flight: u64) {
        let target = self.in_flight_for_bdp().min(self.window).approx();
        // With headroom it is what the bandwidth needs.
        let filled = (target / (1.0 - HEADROOM)).whole();
        let cut = (in_flight.approx() * (1.0 - HEADROOM)).whole::<u64>();
        self.long_term = cut.max(in_flight.min(filled)).max((target * BETA).whole());
    }

    fn end_probe(&mut self, now: Time) {
        self.probe.too_high = true;
        self.probe.is_sample = false;
        if self.state == BbrState::Up {
            if let Some(undo) = &mut self.undo {
                undo.state = Some(BbrState::Up);
            }
            self.start_down(now);
        }
    }

    // See the module's departures. Without a packet that was in flight nothing says how much was.
    pub(super) fn on_marked(&mut self, packet: Option<&SettledPacket>, now: Time) {
        if !self.short.loss {
            self.save_window();
        }
        self.short.note_mark(self.sampler.delivered());
        if self.probe.is_sample {
            if let Some(packet) = packet.filter(|packet| !packet.state.app_limited) {
                self.bound_long_term(packet.state.in_flight);
            }
            self.end_probe(now);
        }
        // Marks are never late packets.
        self.undo = None;
    }

    pub(super) fn on_spurious(&mut self, declared: &[Time]) {
        let Some(undo) = &mut self.undo else { return };
        // What an earlier episode took for lost is no excuse for this one.
        let arrived = declared.iter().filter(|at| **at >= undo.began).count() as u64;
        undo.lost = undo.lost.saturating_sub(arrived);
        if undo.lost > 0 {
            return;
        }
        self.short.bandwidth = self.short.bandwidth.max(undo.bandwidth);
        self.short.in_flight = self.short.in_flight.max(undo.in_flight);
        self.long_term = self.long_term.max(undo.long_term);
        let state = undo.state;
        self.undo = None;
        self.restore_window();
        self.short.loss = false;
        self.full.restart(0);
        match (state, self.state) {
            (Some(BbrState::Startup), now) if now != BbrState::Startup => {
                // From ProbeRTT it goes back there in time.
                self.full.reached = false;
                if now != BbrState::ProbeRtt {
                    self.state = BbrState::Startup;
                }
            }
            (Some(BbrState::Up), now) if now != BbrState::Up && now != BbrState::ProbeRtt => {
                self.start_refill();
            }
            _ => {}
        }
    }
}
