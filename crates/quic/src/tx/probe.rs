use quickset_base::Batch;
use quickset_wire::Space;
use quickset_wire::frame::Frame;

use super::packet::Destination;
use crate::conn::Connection;
use crate::packet::{MIN_INITIAL, Phase, Token, Writer};
use crate::path::{LEAST, Probe};

/// Where a probe goes.
#[derive(Clone, Copy, Debug)]
struct Goal {
    to: Destination,
    /// Bytes that may be sent there.
    budget: usize,
    in_use: bool,
}

impl Connection {
    /// A datagram with challenges and answers for one path that has some. False when there is none.
    ///
    /// They are outside of congestion control, which knows the path in use only: [`Probe`] bounds them.
    pub(crate) fn transmit_probe(&mut self, out: &mut Batch) -> bool {
        let sent = self.may_probe_paths() && (self.probe_in_use(out) || self.probe_candidates(out));
        if !sent {
            self.rest_paths();
        }
        sent
    }

    fn probe_in_use(&mut self, out: &mut Batch) -> bool {
        let goal = Goal {
            to: Destination { address: self.link.path.address, id: *self.link.cids.remote() },
            budget: self.link.path.amplification_budget(),
            in_use: true,
        };
        let mut probe = std::mem::take(&mut self.link.path.probe);
        let sent = self.probe_out(out, &goal, &mut probe);
        self.link.path.probe = probe;
        self.link.path.on_sent(sent);
        sent > 0
    }

    fn probe_candidates(&mut self, out: &mut Batch) -> bool {
        for at in 0..self.link.candidates.len() {
            let candidate = self.link.candidates.get_mut(at);
            let Some(id) =
                candidate.cid.map_or(Some(*self.link.cids.remote()), |cid| self.link.cids.lent(cid))
            else {
                // The peer retired it: it has another for this path, or none.
                candidate.cid = self.link.cids.lend();
                if candidate.cid.is_none() {
                    candidate.probe = Probe::default();
                }
                continue;
            };
            let goal = Goal {
                to: Destination { address: candidate.address, id },
                budget: candidate.proof.budget(),
                in_use: false,
            };
            let mut probe = std::mem::take(&mut candidate.probe);
            let sent = self.probe_out(out, &goal, &mut probe);
            let candidate = self.link.candidates.get_mut(at);
            candidate.probe = probe;
            candidate.proof.on_sent(sent);
            if sent > 0 {
                return true;
            }
        }
        false
    }

    /// Writes what `probe` has to say. Returns the size of the datagram; 0 when that is nothing.
    fn probe_out(&mut self, out: &mut Batch, goal: &Goal, probe: &mut Probe) -> usize {
        let (answers, challenges) =
            (probe.answer(self.common.now).is_some(), probe.wants_challenge(self.common.now));
        if goal.budget < LEAST || !(answers || challenges) {
            return 0;
        }
        if let Err(error) = self.link.keys.before_seal(self.common.phase == Phase::Confirmed, self.common.now)
        {
            self.fail(error);
            return 0;
        }
        // RFC 9000 §8.2.1, §8.2.2: of 1200 bytes, unless as many were not yet earned.
        let size = MIN_INITIAL.min(goal.budget);
        self.packet_beside(out, goal.to, size, |this, w| {
            this.fill_probe(w, probe, (challenges, size == MIN_INITIAL));
            if goal.in_use && !this.link.acks[Space::Data.index()].write(w, this.common.now) {
                // RFC 9000 §9.3.3: where the peer asks whether we are still there, a packet that does not
                // only probe keeps us there.
                w.put(&Frame::Ping, Token::Nothing);
            }
        });
        size
    }

    fn fill_probe(&mut self, w: &mut Writer<'_>, probe: &mut Probe, (challenges, full): (bool, bool)) {
        if challenges {
            let data = self.link.candidates.draw(|| self.link.numbering.fork());
            if w.put(&Frame::PathChallenge(data), Token::PathChallenge) {
                probe.on_challenged(data, self.common.now, full);
            }
        }
        let mut answered = false;
        while let Some(data) = probe.answer(self.common.now) {
            if !w.put(&Frame::PathResponse(data), Token::Nothing) {
                break;
            }
            probe.answer_written();
            answered = true;
        }
        if answered {
            probe.on_answered(self.common.now, self.link.recovery.rtt().smoothed());
        }
    }
}
