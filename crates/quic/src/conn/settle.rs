use quickset_wire::Space;

use super::Connection;
use crate::ack::Merged;
use crate::error::TransportError;
use crate::packet::FrameToken;
use crate::protect::RoundTrips;
use crate::recovery::{SettledPackets, TimerOutcome};

impl Connection {
    /// The acknowledgements of a received batch, merged, act last and once.
    pub(crate) fn act_on_acks(&mut self) -> Result<(), TransportError> {
        Space::ALL.into_iter().try_for_each(|space| self.act_on_acks_of(space))
    }

    /// Those of one space.
    pub(crate) fn act_on_acks_of(&mut self, space: Space) -> Result<(), TransportError> {
        let Some(merged) = self.link.merged.get_mut(space).and_then(Merged::take) else { return Ok(()) };
        let mut settled = self.scratch.settled.take().unwrap_or_default();
        let result = self.link.path.recovery.on_ack(space, &merged, self.common.now, &mut settled);
        if let Some(place) = self.link.merged.get_mut(space) {
            place.restore(merged);
        }
        if space == Space::Data {
            if let Some(largest) = self.link.path.recovery.largest_acked(space) {
                self.link.keys.on_acked(largest);
            }
        }
        self.settle(space, &mut settled, false);
        self.scratch.settled = Some(settled);
        result
    }

    /// The loss timer or a probe timeout, if one is due.
    pub(crate) fn on_loss_time(&mut self) {
        let mut settled = self.scratch.settled.take().unwrap_or_default();
        let may_probe = self.link.may_probe();
        let (space, probe) = match self.link.path.recovery.on_time(self.common.now, may_probe, &mut settled) {
            TimerOutcome::Nothing => (Space::Data, false),
            TimerOutcome::Lost(space) => (space, false),
            TimerOutcome::Probe(space) => {
                // RFC 9002 §6.2.4: two probes, of what is oldest, or else of anything. With nothing to carry
                // one will do: of two PINGs a path that takes no two packets at a time would drop one for
                // ever, and each is a reason for two more.
                let held =
                    (0..2).filter(|_| self.link.path.recovery.probe_tokens(space, &mut settled.lost)).count();
                let has_more = held > 0 || self.wants_data() || self.protect.send.waits();
                self.link.probes[space.index()] = if space != Space::Data || has_more { 2 } else { 1 };
                self.link.probe_beside(&mut self.common, space, &mut settled.lost);
                self.common.stats.ptos += 1;
                self.link.path.ecn.on_silence(self.link.path.recovery.pto_count());
                if self.link.watch_silence(&mut self.common) {
                    self.protect.recode(&mut self.traffic, self.common.now);
                }
                self.common.qlog.probe(self.common.now, space);
                if self.link.probes[Space::Data.index()] > 0 {
                    // FEC-52: probes carry first what waited for repair.
                    self.protect.send.release_all();
                }
                (space, true)
            }
        };
        self.settle(space, &mut settled, probe);
        self.scratch.settled = Some(settled);
    }

    /// Hands what was settled back to whom it belongs, and tells congestion control.
    fn settle(&mut self, space: Space, settled: &mut SettledPackets, probe: bool) {
        self.common.qlog.lost(self.common.now, space, settled, &self.link.path.recovery);
        let mut symbols = (0, 0..0);
        for token in settled.acked.drain(..) {
            match token {
                // Most arrive in the order in which they were sent.
                FrameToken::Symbol { session, sid, .. } if (session, sid) == (symbols.0, symbols.1.end) => {
                    symbols.1.end += 1;
                }
                FrameToken::Symbol { session, sid, .. } => {
                    let (session, sids) = std::mem::replace(&mut symbols, (session, sid..sid + 1));
                    self.protect.send.acked(session, sids);
                }
                token => self.acked(token),
            }
        }
        self.protect.send.acked(symbols.0, symbols.1);
        self.lose(&mut settled.lost, probe);
        self.protect.send.settled();
        let ce = self.link.path.ecn.on_settled(&settled.marked, settled.alive);
        if ce > 0 {
            self.common.stats.ecn.ce += ce;
            self.protect.blame.on_marked(self.common.now, self.link.path.recovery.rtt().smoothed());
        }
        if space == Space::Data {
            self.observe(settled);
        }
        if settled.has_feedback() || ce > 0 {
            self.link.path.feed(self.common.now, settled, ce);
            self.common.stats.lost_packets += settled.lost_packets.len() as u64;
        }
        // Behind the feedback: what it was of may be over then.
        if space == Space::Data
            && self.link.path.search.is_some()
            && self.link.watch_size(&mut self.common, settled)
        {
            self.protect.recode(&mut self.traffic, self.common.now);
        }
        self.trace_metrics(settled.persistent);
        settled.clear();
    }

    /// What the losses of the path are measured by: all packets of the application's space whose fate is
    /// known.
    fn observe(&mut self, settled: &SettledPackets) {
        let rtt = self.link.path.recovery.rtt();
        let trips = RoundTrips { latest: rtt.adjusted(), smoothed: rtt.smoothed(), least: rtt.min() };
        let below = self.link.path.recovery.first_outstanding(Space::Data);
        let (acked, lost) = (&settled.acked_packets, &settled.lost_packets);
        let verdict = self.protect.blame.observe(self.common.now, acked, lost, &trips);
        self.protect.monitor.on_settled(self.common.now, acked, lost, below, verdict);
        if !settled.spurious.is_empty() {
            self.protect.monitor.on_spurious(settled.spurious.len() as u64);
        }
        self.protect.share(self.common.now);
    }

    fn acked(&mut self, token: FrameToken) {
        match token {
            FrameToken::Nothing | FrameToken::PathChallenge | FrameToken::Crypto { .. } => {}
            FrameToken::MtuProbe { path, size } => {
                if self.link.on_size_arrived(&mut self.common, path, size) {
                    // FEC-52, rule 7.
                    self.protect.send.release_all();
                    self.protect.send.stir();
                }
            }
            FrameToken::Symbol { session, sid, .. } => self.protect.send.acked(session, sid..sid + 1),
            FrameToken::Repair { session, serial } => self.protect.send.repair_settled(session, serial, true),
            FrameToken::SymbolAck { session, epoch, first } => {
                if let Some(receive) = &mut self.protect.receive {
                    receive.acked(session, epoch, first);
                }
            }
            FrameToken::FecWindow { epoch } => {
                if let Some(receive) = &mut self.protect.receive {
                    receive.window_acked(epoch);
                }
            }
            FrameToken::Ack { space, largest } => {
                if let Some(acks) = self.link.acks.get_mut(space) {
                    acks.acked(largest);
                }
            }
            FrameToken::AckFrequency { sequence } => self.link.ask_acked(sequence),
            FrameToken::Stream { .. }
            | FrameToken::Fenced { .. }
            | FrameToken::Abandon { .. }
            | FrameToken::ResetStream { .. }
            | FrameToken::StopSending { .. }
            | FrameToken::MaxData { .. }
            | FrameToken::MaxStreamData { .. }
            | FrameToken::MaxStreams { .. }
            | FrameToken::DataBlocked { .. }
            | FrameToken::StreamDataBlocked { .. }
            | FrameToken::StreamsBlocked { .. }
            | FrameToken::Datagram { .. } => self.traffic.acked(token, self.common.now),
            FrameToken::NewConnectionId { sequence } => self.link.cids.new_acked(sequence),
            FrameToken::RetireConnectionId { sequence } => self.link.cids.retire_acked(sequence),
            FrameToken::NewToken { number } => self.life.confirmation.token_acked(number),
            FrameToken::HandshakeDone => self.life.confirmation.done_acked(),
        }
    }

    /// What lost packets held, or what probes take from packets that may yet arrive. A source symbol keeps
    /// its tokens for as long as it may be recovered.
    pub(super) fn lose(&mut self, tokens: &mut Vec<FrameToken>, probe: bool) {
        let mut tokens = tokens.drain(..);
        while let Some(token) = tokens.next() {
            let FrameToken::Symbol { session, sid, n } = token else {
                self.lost(token);
                continue;
            };
            let held = tokens.by_ref().take(usize::from(n)).collect();
            for token in self.protect.send.lost(session, sid, held, probe).into_iter().flatten() {
                self.lost(token);
            }
        }
        drop(tokens);
        self.protect.drain(&mut self.traffic, self.common.now);
    }

    pub(super) fn lost(&mut self, token: FrameToken) {
        match token {
            // An ACK is not repeated: the next one says all that it said (RFC 9000 §13.2.1), and so does a
            // SYMBOL_ACK.
            FrameToken::Nothing
            | FrameToken::Ack { .. }
            | FrameToken::PathChallenge
            | FrameToken::SymbolAck { .. }
            | FrameToken::Symbol { .. } => {}
            FrameToken::MtuProbe { path, size } => self.link.on_size_lost(&mut self.common, path, size),
            FrameToken::Repair { session, serial } => {
                self.protect.send.repair_settled(session, serial, false);
            }
            FrameToken::FecWindow { epoch } => {
                if let Some(receive) = &mut self.protect.receive {
                    receive.window_lost(epoch);
                }
            }
            FrameToken::Crypto { space, offset, len } => {
                if let Some(stream) = self.link.keys.stream(space) {
                    stream.lost(offset, len);
                }
            }
            FrameToken::AckFrequency { sequence } => self.link.asks.lost(sequence),
            FrameToken::Stream { .. }
            | FrameToken::Fenced { .. }
            | FrameToken::Abandon { .. }
            | FrameToken::ResetStream { .. }
            | FrameToken::StopSending { .. }
            | FrameToken::MaxData { .. }
            | FrameToken::MaxStreamData { .. }
            | FrameToken::MaxStreams { .. }
            | FrameToken::DataBlocked { .. }
            | FrameToken::StreamDataBlocked { .. }
            | FrameToken::StreamsBlocked { .. }
            | FrameToken::Datagram { .. } => self.traffic.lost(token, self.common.now),
            FrameToken::NewConnectionId { sequence } => self.link.cids.new_lost(sequence),
            FrameToken::RetireConnectionId { sequence } => self.link.cids.retire_lost(sequence),
            FrameToken::NewToken { number } => self.life.confirmation.token_lost(number),
            FrameToken::HandshakeDone => self.life.confirmation.done_lost(),
        }
    }
}
