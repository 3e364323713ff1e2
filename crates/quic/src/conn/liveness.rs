use quickset_base::Time;

use super::Connection;
use crate::life::Silence;
use crate::packet::Phase;

/// Whether the path still carries packets: [`Liveness`](crate::life::Liveness) asks, of what the others know.
impl Connection {
    /// When to call next.
    pub(super) fn call_due(&self) -> Option<Time> {
        let since =
            self.link.path.recovery.waits_since().filter(|_| self.common.phase == Phase::Confirmed)?;
        // An address that has proved nothing is asked by challenges, and what may be sent there is for them.
        if self.link.path.amplification_budget() < usize::MAX {
            return None;
        }
        Some(self.life.call_due(since, self.link.path.recovery.rtt().min()))
    }

    /// When it is time to ask whether the server can still reach us. While an answer is awaited, probe
    /// timeouts and calls are what asks.
    pub(super) fn vigil_due(&self) -> Option<Time> {
        if self.common.phase != Phase::Confirmed || !self.life.liveness.asks() {
            return None;
        }
        let (trip, pto) = (self.link.path.recovery.rtt().min(), self.link.pto());
        self.life.vigil_due(self.traffic.streams.limits().progress(), trip, pto)
    }

    /// Asks and calls, if it is time.
    pub(super) fn on_liveness(&mut self) {
        let now = self.common.now;
        if self.vigil_due().is_some_and(|at| at <= now) {
            self.end_silence();
        }
        if self.call_due().is_some_and(|at| at <= now) {
            self.life.liveness.call(now);
        }
    }

    fn end_silence(&mut self) {
        let Some(since) = self.life.lifecycle.silent_since() else { return };
        let streams = &self.traffic.streams;
        if !streams.awaits() {
            self.life.liveness.rest(since);
            return;
        }
        let silence = Silence {
            since,
            received: streams.limits().received(),
            largest: self.link.acks.data.largest(),
            repeated: self.repeated(),
        };
        self.life.ask(streams.limits().progress(), silence);
        self.common.stats.asked += 1;
    }

    /// A batch came.
    #[inline]
    pub(crate) fn end_vigil(&mut self) {
        if let Some(Silence { repeated, largest, .. }) = self.life.liveness.asked_in() {
            // Each question was answered before it was asked again, and none of the peer's packets is missing
            // since.
            let is_own = repeated == self.repeated() && self.link.acks.data.is_whole_above(largest);
            let streams = &self.traffic.streams;
            self.life.liveness.end(
                self.common.now,
                streams.limits().progress(),
                streams.limits().received(),
                is_own,
            );
        }
    }

    /// How often something had to be asked again.
    fn repeated(&self) -> u64 {
        self.common.stats.ptos + self.life.liveness.calls()
    }
}
