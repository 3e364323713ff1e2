//! Datagrams with challenges and answers, for paths that are to be validated (RFC 9000 §8.2).

use quickset_base::Batch;
use quickset_wire::Space;
use quickset_wire::frame::Frame;

use super::PacketLink;
use super::packets::Destination;
use crate::common::Common;
use crate::error::TransportError;
use crate::packet::{FrameToken, MIN_INITIAL, PacketWriter, Phase};
use crate::path::{LEAST, PathProbe};

/// Where a probe goes.
#[derive(Clone, Copy, Debug)]
struct ProbeTarget {
    to: Destination,
    /// Bytes that may be sent there.
    budget: usize,
    in_use: bool,
}

impl PacketLink {
    /// A datagram with challenges and answers for one path that has some. False when there is none.
    ///
    /// They are outside of congestion control, which knows the path in use only: [`PathProbe`] bounds them.
    pub(crate) fn transmit_probe(
        &mut self,
        cx: &mut Common,
        out: &mut Batch,
    ) -> Result<bool, TransportError> {
        let sent =
            self.may_probe_paths(cx) && (self.probe_in_use(cx, out)? || self.probe_candidates(cx, out)?);
        if !sent {
            self.rest_paths(cx);
        }
        Ok(sent)
    }

    fn probe_in_use(&mut self, cx: &mut Common, out: &mut Batch) -> Result<bool, TransportError> {
        let goal = ProbeTarget {
            to: Destination { address: self.path.address, id: *self.cids.remote() },
            budget: self.path.amplification_budget(),
            in_use: true,
        };
        let mut probe = std::mem::take(&mut self.path.probe);
        let sent = self.probe_out(cx, out, &goal, &mut probe);
        self.path.probe = probe;
        let sent = sent?;
        self.path.on_sent(sent);
        Ok(sent > 0)
    }

    fn probe_candidates(&mut self, cx: &mut Common, out: &mut Batch) -> Result<bool, TransportError> {
        for at in 0..self.candidates.len() {
            let candidate = self.candidates.get_mut(at);
            let Some(id) = candidate.cid.map_or(Some(*self.cids.remote()), |cid| self.cids.lent(cid)) else {
                // The peer retired it: it has another for this path, or none.
                candidate.cid = self.cids.lend();
                if candidate.cid.is_none() {
                    candidate.probe = PathProbe::default();
                }
                continue;
            };
            let goal = ProbeTarget {
                to: Destination { address: candidate.address, id },
                budget: candidate.proof.budget(),
                in_use: false,
            };
            let mut probe = std::mem::take(&mut candidate.probe);
            let sent = self.probe_out(cx, out, &goal, &mut probe);
            let candidate = self.candidates.get_mut(at);
            candidate.probe = probe;
            let sent = sent?;
            candidate.proof.on_sent(sent);
            if sent > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes what `probe` has to say. Returns the size of the datagram; 0 when that is nothing.
    // sizes: of either kind of path, neither of which may be held while the packet is made
    fn probe_out(
        &mut self,
        cx: &mut Common,
        out: &mut Batch,
        goal: &ProbeTarget,
        probe: &mut PathProbe,
    ) -> Result<usize, TransportError> {
        let (answers, challenges) = (probe.answer(cx.now).is_some(), probe.wants_challenge(cx.now));
        if goal.budget < LEAST || !(answers || challenges) {
            return Ok(0);
        }
        self.keys.before_seal(cx.phase == Phase::Confirmed, cx.now)?;
        // RFC 9000 §8.2.1, §8.2.2: of 1200 bytes, unless as many were not yet earned.
        let size = MIN_INITIAL.min(goal.budget);
        self.packet_beside(cx, out, goal.to, size, |this, cx, w| {
            this.fill_probe(cx, w, probe, challenges, size == MIN_INITIAL);
            if goal.in_use && !this.acks.data.write(w, cx.now) {
                // RFC 9000 §9.3.3: where the peer asks whether we are still there, a packet that does not
                // only probe keeps us there.
                w.put(&Frame::Ping, FrameToken::Nothing);
            }
        });
        Ok(size)
    }

    fn fill_probe(
        &mut self,
        cx: &Common,
        w: &mut PacketWriter<'_>,
        probe: &mut PathProbe,
        challenges: bool,
        full: bool,
    ) {
        if challenges {
            let data = self.candidates.draw(|| self.path.numbering.fork());
            if w.put(&Frame::PathChallenge(data), FrameToken::PathChallenge) {
                probe.on_challenged(data, cx.now, full);
            }
        }
        let mut answered = false;
        while let Some(data) = probe.answer(cx.now) {
            if !w.put(&Frame::PathResponse(data), FrameToken::Nothing) {
                break;
            }
            probe.answer_written();
            answered = true;
        }
        if answered {
            probe.on_answered(cx.now, self.path.recovery.rtt().smoothed());
        }
    }

    /// Whether challenges and answers can be written.
    fn may_probe_paths(&self, cx: &Common) -> bool {
        cx.phase > Phase::Handshake && self.keys.has(Space::Data)
    }

    /// Nothing is due: when will something be?
    fn rest_paths(&mut self, cx: &Common) {
        let in_use = self.path.probe.due(self.path.amplification_budget() >= LEAST);
        let in_use = in_use.into_iter().chain(self.size_due(cx)).min();
        self.candidates.rest(in_use, self.path.is_validated());
    }
}
