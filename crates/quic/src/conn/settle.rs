use quickset_wire::Space;

use super::Connection;
use crate::cc::Feedback;
use crate::error::TransportError;
use crate::packet::{Phase, Token};
use crate::protect::RoundTrips;
use crate::recovery::{Outcome, Settled};

impl Connection {
    /// The acknowledgements of a received batch, merged, act last and once.
    pub(crate) fn act_on_acks(&mut self) -> Result<(), TransportError> {
        Space::ALL.into_iter().try_for_each(|space| self.act_on_acks_of(space))
    }

    /// Those of one space.
    pub(crate) fn act_on_acks_of(&mut self, space: Space) -> Result<(), TransportError> {
        let Some(merged) = self.link.merged[space.index()].take() else { return Ok(()) };
        let mut settled = std::mem::take(&mut self.scratch.settled);
        let result = self.link.recovery.on_ack(space, &merged, self.common.now, &mut settled);
        self.link.merged[space.index()].restore(merged);
        if space == Space::Data {
            if let Some(largest) = self.link.recovery.largest_acked(space) {
                self.link.keys.on_acked(largest);
            }
        }
        self.settle(space, &mut settled, false);
        self.scratch.settled = settled;
        result
    }

    /// The loss timer or a probe timeout, if one is due.
    pub(crate) fn on_loss_time(&mut self) {
        let mut settled = std::mem::take(&mut self.scratch.settled);
        let may_probe = self.may_probe();
        let (space, probe) = match self.link.recovery.on_time(self.common.now, may_probe, &mut settled) {
            Outcome::Nothing => (Space::Data, false),
            Outcome::Lost(space) => (space, false),
            Outcome::Probe(space) => {
                // RFC 9002 §6.2.4: two probes, of what is oldest, or else of anything. With nothing to carry
                // one will do: of two PINGs a path that takes no two packets at a time would drop one for
                // ever, and each is a reason for two more.
                let held =
                    (0..2).filter(|_| self.link.recovery.probe_tokens(space, &mut settled.lost)).count();
                let has_more = held > 0 || self.wants_data() || self.protect.send.waits();
                self.link.probes[space.index()] = if space != Space::Data || has_more { 2 } else { 1 };
                self.probe_beside(space, &mut settled.lost);
                self.common.stats.ptos += 1;
                self.link.path.ecn.on_silence(self.link.recovery.pto_count());
                self.watch_silence();
                self.common.qlog.probe(self.common.now, space);
                if self.link.probes[Space::Data.index()] > 0 {
                    // FEC-52: probes carry first what waited for repair.
                    self.protect.send.release_all();
                }
                (space, true)
            }
        };
        self.settle(space, &mut settled, probe);
        self.scratch.settled = settled;
    }

    /// RFC 9002 §6.2.4: what is in flight at later levels goes along. A client's request that was lost with
    /// its Finished would else wait until the handshake is confirmed.
    fn probe_beside(&mut self, space: Space, lost: &mut Vec<Token>) {
        for other in Space::ALL.into_iter().skip(space.index() + 1) {
            if self.link.keys.seals(other) && self.link.recovery.probe_tokens(other, lost) {
                let probes = &mut self.link.probes[other.index()];
                *probes = (*probes).max(1);
            }
        }
        // A server that is through has no keys to read the handshake with, and may not know where we are.
        if self.common.side.is_client() && self.common.phase == Phase::Established {
            let probes = &mut self.link.probes[Space::Data.index()];
            *probes = (*probes).max(1);
        }
    }

    /// Hands what was settled back to whom it belongs, and tells congestion control.
    fn settle(&mut self, space: Space, settled: &mut Settled, probe: bool) {
        self.common.qlog.lost(self.common.now, space, settled, &self.link.recovery);
        let mut symbols = (0, 0..0);
        for token in settled.acked.drain(..) {
            match token {
                // Most arrive in the order in which they were sent.
                Token::Symbol { session, sid, .. } if (session, sid) == (symbols.0, symbols.1.end) => {
                    symbols.1.end += 1;
                }
                Token::Symbol { session, sid, .. } => {
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
            self.protect.blame.on_marked(self.common.now, self.link.recovery.rtt().smoothed());
        }
        if space == Space::Data {
            self.observe(settled);
        }
        if settled.has_feedback() || ce > 0 {
            let rtt = self.link.recovery.rtt();
            let feedback = Feedback {
                now: self.common.now,
                acked: &settled.acked_packets,
                lost: &settled.lost_packets,
                prior_in_flight: settled.prior_in_flight,
                in_flight: self.link.recovery.in_flight(),
                rtt: settled.rtt,
                srtt: rtt.smoothed(),
                min_rtt: rtt.min(),
                marked: settled.marked_at.filter(|_| ce > 0),
                persistent: settled.persistent,
                spurious: &settled.spurious,
            };
            self.link.path.congestion.on_feedback(&feedback);
            self.common.stats.lost_packets += settled.lost_packets.len() as u64;
        }
        // Behind the feedback: what it was of may be over then.
        if space == Space::Data && self.link.path.search.is_some() {
            self.watch_size(settled);
        }
        self.trace_metrics(settled.persistent);
        settled.clear();
    }

    /// What the losses of the path are measured by: all packets of the application's space whose fate is
    /// known.
    fn observe(&mut self, settled: &Settled) {
        let rtt = self.link.recovery.rtt();
        let trips = RoundTrips { latest: rtt.adjusted(), smoothed: rtt.smoothed(), least: rtt.min() };
        let below = self.link.recovery.first_outstanding(Space::Data);
        let (acked, lost) = (&settled.acked_packets, &settled.lost_packets);
        let verdict = self.protect.blame.observe(self.common.now, (acked, lost), &trips);
        self.protect.monitor.on_settled(self.common.now, (acked, lost), below, verdict);
        if !settled.spurious.is_empty() {
            self.protect.monitor.on_spurious(settled.spurious.len() as u64);
        }
        self.protect.share(self.common.now);
    }

    fn acked(&mut self, token: Token) {
        match token {
            Token::Nothing | Token::PathChallenge | Token::Crypto { .. } => {}
            Token::MtuProbe { path, size } => self.on_size_arrived(path, size),
            Token::Symbol { session, sid, .. } => self.protect.send.acked(session, sid..sid + 1),
            Token::Repair { session, serial } => self.protect.send.repair_settled(session, serial, true),
            Token::SymbolAck { session, epoch, first } => {
                if let Some(receive) = &mut self.protect.receive {
                    receive.acked(session, epoch, first);
                }
            }
            Token::FecWindow { epoch } => {
                if let Some(receive) = &mut self.protect.receive {
                    receive.window_acked(epoch);
                }
            }
            Token::Ack { space, largest } => self.link.acks[space.index()].acked(largest),
            Token::AckFrequency { sequence } => self.ask_acked(sequence),
            Token::Stream { .. }
            | Token::Fenced { .. }
            | Token::Abandon { .. }
            | Token::ResetStream { .. }
            | Token::StopSending { .. }
            | Token::MaxData { .. }
            | Token::MaxStreamData { .. }
            | Token::MaxStreams { .. }
            | Token::DataBlocked { .. }
            | Token::StreamDataBlocked { .. }
            | Token::StreamsBlocked { .. } => self.traffic.streams.acked(token, self.common.now),
            Token::Datagram { number, reported } => self.traffic.datagrams.acked(number, reported),
            Token::NewConnectionId { sequence } => self.link.cids.new_acked(sequence),
            Token::RetireConnectionId { sequence } => self.link.cids.retire_acked(sequence),
            Token::NewToken { number } => self.life.confirmation.token_acked(number),
            Token::HandshakeDone => self.life.confirmation.done_acked(),
        }
    }

    /// The peer recovered what a lost packet held: to those whose frames it held that is an arrival (FEC-42),
    /// to nobody else (FEC-49).
    pub(super) fn recovered(&mut self, token: Token) {
        if let Token::Datagram { number, reported } = token {
            return self.traffic.datagrams.recovered(number, reported);
        }
        self.traffic.streams.recovered(token, self.common.now);
    }

    /// What lost packets held, or what probes take from packets that may yet arrive. A source symbol keeps
    /// its tokens for as long as it may be recovered.
    pub(super) fn lose(&mut self, tokens: &mut Vec<Token>, probe: bool) {
        let mut tokens = tokens.drain(..);
        while let Some(token) = tokens.next() {
            let Token::Symbol { session, sid, n } = token else {
                self.lost(token);
                continue;
            };
            let held = tokens.by_ref().take(usize::from(n)).collect();
            for token in self.protect.send.lost((session, sid), held, probe).into_iter().flatten() {
                self.lost(token);
            }
        }
        drop(tokens);
        self.drain_orphans();
    }

    pub(super) fn lost(&mut self, token: Token) {
        match token {
            // An ACK is not repeated: the next one says all that it said (RFC 9000 §13.2.1), and so does a
            // SYMBOL_ACK.
            Token::Nothing
            | Token::Ack { .. }
            | Token::PathChallenge
            | Token::SymbolAck { .. }
            | Token::Symbol { .. } => {}
            Token::MtuProbe { path, size } => self.on_size_lost(path, size),
            Token::Repair { session, serial } => self.protect.send.repair_settled(session, serial, false),
            Token::FecWindow { epoch } => {
                if let Some(receive) = &mut self.protect.receive {
                    receive.window_lost(epoch);
                }
            }
            Token::Crypto { space, offset, len } => self.link.keys.stream(space).lost(offset, len),
            Token::AckFrequency { sequence } => self.link.asks.lost(sequence),
            Token::Stream { .. }
            | Token::Fenced { .. }
            | Token::Abandon { .. }
            | Token::ResetStream { .. }
            | Token::StopSending { .. }
            | Token::MaxData { .. }
            | Token::MaxStreamData { .. }
            | Token::MaxStreams { .. }
            | Token::DataBlocked { .. }
            | Token::StreamDataBlocked { .. }
            | Token::StreamsBlocked { .. } => self.traffic.streams.lost(token, self.common.now),
            Token::Datagram { number, reported } => self.traffic.datagrams.lost(number, reported),
            Token::NewConnectionId { sequence } => self.link.cids.new_lost(sequence),
            Token::RetireConnectionId { sequence } => self.link.cids.retire_lost(sequence),
            Token::NewToken { number } => self.life.confirmation.token_lost(number),
            Token::HandshakeDone => self.life.confirmation.done_lost(),
        }
    }
}
