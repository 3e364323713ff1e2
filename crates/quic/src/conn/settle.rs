use quickset_wire::Space;

use super::Connection;
use crate::cc::Feedback;
use crate::error::TransportError;
use crate::recovery::{Outcome, Settled};
use crate::token::Token;

impl Connection {
    /// The acknowledgements of a received batch, merged, act last and once.
    pub(crate) fn act_on_acks(&mut self) -> Result<(), TransportError> {
        Space::ALL.into_iter().try_for_each(|space| self.act_on_acks_of(space))
    }

    /// Those of one space.
    pub(crate) fn act_on_acks_of(&mut self, space: Space) -> Result<(), TransportError> {
        let Some(merged) = self.merged[space.index()].take() else { return Ok(()) };
        let mut settled = std::mem::take(&mut self.scratch.settled);
        let result = self.recovery.on_ack(space, &merged, self.now, &mut settled);
        self.merged[space.index()].restore(merged);
        if space == Space::Data {
            if let Some(largest) = self.recovery.largest_acked(space) {
                self.keys.on_acked(largest);
            }
        }
        self.settle(space, &mut settled);
        self.scratch.settled = settled;
        result
    }

    /// The loss timer or a probe timeout, if one is due.
    pub(crate) fn on_loss_time(&mut self) {
        let mut settled = std::mem::take(&mut self.scratch.settled);
        let may_probe = self.may_probe();
        let space = match self.recovery.on_time(self.now, may_probe, &mut settled) {
            Outcome::Nothing => Space::Data,
            Outcome::Lost(space) => space,
            Outcome::Probe(space) => {
                // RFC 9002 §6.2.4: two probes, of what is oldest, or else of anything.
                self.outbox.probes[space.index()] = 2;
                for _ in 0..2 {
                    self.recovery.probe_tokens(space, &mut settled.lost);
                }
                self.stats.ptos += 1;
                self.log_probe(space);
                space
            }
        };
        self.settle(space, &mut settled);
        self.scratch.settled = settled;
    }

    /// Hands what was settled back to whom it belongs, and tells congestion control.
    fn settle(&mut self, space: Space, settled: &mut Settled) {
        self.log_lost(space, settled);
        for token in settled.acked.drain(..) {
            self.acked(token);
        }
        for token in settled.lost.drain(..) {
            self.lost(token);
        }
        if settled.has_feedback() {
            let rtt = self.recovery.rtt();
            let feedback = Feedback {
                now: self.now,
                acked: &settled.acked_packets,
                lost: &settled.lost_packets,
                prior_in_flight: settled.prior_in_flight,
                in_flight: self.recovery.in_flight(),
                rtt: settled.rtt,
                srtt: rtt.smoothed(),
                min_rtt: rtt.min(),
                ce: 0,
                persistent: settled.persistent,
                spurious: settled.spurious,
            };
            self.path.congestion.on_feedback(&feedback);
            self.stats.lost_packets += settled.lost_packets.len() as u64;
        }
        self.log_metrics(settled.persistent);
        settled.clear();
    }

    fn acked(&mut self, token: Token) {
        match token {
            Token::Nothing
            | Token::PathChallenge
            | Token::Crypto { .. }
            | Token::Symbol { .. }
            | Token::Repair { .. } => {}
            Token::Ack { space, largest } => self.acks[space.index()].acked(largest),
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
            | Token::StreamsBlocked { .. } => self.streams.acked(token, self.now),
            Token::NewConnectionId { sequence } => self.cids.new_acked(sequence),
            Token::RetireConnectionId { sequence } => self.cids.retire_acked(sequence),
            Token::NewToken { number } => self.confirmation.token_acked(number),
            Token::HandshakeDone => self.confirmation.done_acked(),
        }
    }

    fn lost(&mut self, token: Token) {
        match token {
            // An ACK is not repeated: the next one says all that it said (RFC 9000 §13.2.1).
            Token::Nothing
            | Token::Ack { .. }
            | Token::PathChallenge
            | Token::Symbol { .. }
            | Token::Repair { .. } => {}
            Token::Crypto { space, offset, len } => self.keys.stream(space).lost(offset, len),
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
            | Token::StreamsBlocked { .. } => self.streams.lost(token, self.now),
            Token::NewConnectionId { sequence } => self.cids.new_lost(sequence),
            Token::RetireConnectionId { sequence } => self.cids.retire_lost(sequence),
            Token::NewToken { number } => self.confirmation.token_lost(number),
            Token::HandshakeDone => self.confirmation.done_lost(),
        }
    }
}
