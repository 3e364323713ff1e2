use quickset_base::{Duration, Time};
use quickset_wire::Space;

use super::Connection;
use crate::packet::Phase;

/// Whether the path still carries packets: asked by a client that awaits data and hears nothing, and by
/// either side that waits for acknowledgements in vain.
///
/// When a NAT gives a client another port, its server goes on sending to the old one, and the client, which
/// has acknowledged all that came, has nothing to send that would tell it. A PING does (RFC 9000 §9.3,
/// §10.1.2).
///
/// Nothing is kept up to date for it by packet: what it needs is when something was heard, which the
/// lifecycle knows, how much data went, which the streams know, and when something left that waits for its
/// acknowledgement, which loss detection knows.
#[derive(Debug)]
pub(crate) struct Liveness {
    /// The shortest silence that makes it ask; `None`: it never does.
    least: Option<Duration>,
    /// How often it asked since data went either way, and how much had then.
    asked: u32,
    progress: u64,
    /// The silence that it asked in.
    silence: Silence,
    /// A silence that data ended by and by, and until when it is taken for usual.
    usual: Duration,
    usual_until: Time,
    /// When something was heard that showed that something else was lost.
    missed: Option<Time>,
    /// Of the silence that began then nothing is to be asked: no data was awaited.
    idle: Option<Time>,
    /// When it called last, how often, and whether it is to now.
    called: Time,
    calls: u64,
    calls_now: bool,
}

/// A silence that was asked about, as it began.
#[derive(Clone, Copy, Debug, Default)]
struct Silence {
    since: Time,
    /// What had come of streams.
    received: u64,
    /// The largest number of the peer's packets.
    largest: Option<u64>,
    /// How often something had to be asked again.
    repeated: u64,
}

impl Liveness {
    pub(crate) fn new(least: Option<Duration>) -> Self {
        Self {
            least,
            asked: 0,
            progress: 0,
            silence: Silence::default(),
            usual: Duration::ZERO,
            usual_until: Time::ZERO,
            missed: None,
            idle: None,
            called: Time::ZERO,
            calls: 0,
            calls_now: false,
        }
    }

    /// When to ask next, of a silence that lasts since `heard`, when `progress` bytes of streams had gone
    /// either way; no later than after `most`, a sixth of the idle timeout.
    fn due(&self, heard: Time, progress: u64, (pto, most): (Duration, Duration)) -> Option<Time> {
        if self.idle == Some(heard) {
            return None;
        }
        let asked = if progress == self.progress { self.asked } else { 0 };
        let explained = if self.missed == Some(heard) { pto } else { pto.saturating_mul(PTOS) };
        let mut wait = self.least?.max(explained.min(pto.max(2 * APART)));
        if heard < self.usual_until {
            wait = wait.max(self.usual.saturating_mul(2));
        }
        // A peer that keeps the connection alive by itself may do so now, which our questions would put off.
        let most = if asked == PROLONGS { 3 * most } else { most };
        Some(heard + wait.saturating_mul(1 << asked.min(PROLONGS)).min(most))
    }

    /// It asks now, of a silence that is as told when it asks for the first time. True when the connection
    /// must not live longer for that.
    fn ask(&mut self, progress: u64, silence: Silence) -> bool {
        if progress != self.progress || self.asked == 0 {
            (self.progress, self.asked, self.silence) = (progress, 0, silence);
        }
        self.asked += 1;
        self.asked > PROLONGS
    }

    /// Something came in a silence that was asked about, `received` bytes of streams with it by now.
    /// `is_own`: nothing was lost in it, so that nobody but the peer is the reason for it.
    fn end(&mut self, now: Time, (progress, received): (u64, u64), is_own: bool) {
        let is_over = progress != self.progress;
        if is_over && is_own && received != self.silence.received {
            // One like that is nothing to ask about for a while.
            self.usual = now.since(self.silence.since);
            self.usual_until = now + self.usual.saturating_mul(USUAL);
        }
        if !is_own {
            // There is more to come, and it may be lost like what is missing.
            self.missed = Some(now);
        }
        if is_over || !is_own {
            self.asked = 0;
        }
    }

    /// Whether to call now, once.
    #[inline]
    pub(crate) fn takes_call(&mut self) -> bool {
        std::mem::take(&mut self.calls_now)
    }

    /// The server asks back whether it is us: it had lost us, and its silence was not its own.
    pub(super) fn found(&mut self) {
        self.asked = 0;
    }
}

/// Calls: PINGs of either side, while something waits for its acknowledgement.
//
// Probe timeouts ask as well, each after twice the time of the one before (RFC 9002 §6.2.1). So an outage is
// found to be over after as long again as it took, or not before the idle timeout, which then ends a
// connection whose path is back. What carries data has to back off. A packet of 64 bytes twice in a second,
// on a path of more than half a second once in a round trip, is no load for any path; it goes between probe
// timeouts that are further apart, and with what lost it the idle timeout ends it (RFC 9000 §10.1.2 has PINGs
// against that timeout).
impl Connection {
    /// When to call next.
    pub(super) fn call_due(&self) -> Option<Time> {
        let since = self.link.recovery.waits_since().filter(|_| self.common.phase == Phase::Confirmed)?;
        // An address that has proved nothing is asked by challenges, and what may be sent there is for them.
        if self.link.path.amplification_budget() < usize::MAX {
            return None;
        }
        let last = since.max(self.life.liveness.called);
        let apart = match self.life.lifecycle.idle_timeout() {
            Some(idle) => APART.min(idle / SEVERAL),
            // Nobody gives up, and an outage may last for hours.
            None => APART.max(last.since(self.life.lifecycle.heard()) / SMALL),
        };
        Some(last + apart.max(self.link.recovery.rtt().min()))
    }

    pub(super) fn on_call(&mut self) {
        if self.call_due().is_some_and(|at| at <= self.common.now) {
            self.life.liveness.called = self.common.now;
            self.life.liveness.calls += 1;
            self.life.liveness.calls_now = true;
        }
    }
}

/// Asking: PINGs of a client that awaits data.
impl Connection {
    /// When it is time to ask whether the server can still reach us. While an answer is awaited, probe
    /// timeouts and calls are what asks.
    pub(super) fn vigil_due(&self) -> Option<Time> {
        self.life.liveness.least?;
        let heard = self.life.lifecycle.silent_since().filter(|_| self.common.phase == Phase::Confirmed)?;
        let idle = self.life.lifecycle.idle_timeout().unwrap_or(USUAL_IDLE);
        let trip = self.link.recovery.rtt().min();
        let pto = self.pto().min((2 * APART).max(2 * trip));
        let most = (idle / ASKED).max(trip.saturating_mul(PTOS));
        self.life.liveness.due(heard, self.traffic.streams.progress(), (pto, most))
    }

    pub(super) fn on_liveness(&mut self) {
        if self.vigil_due().is_none_or(|at| at > self.common.now) {
            return;
        }
        let Some(heard) = self.life.lifecycle.silent_since() else { return };
        if !self.traffic.streams.awaits() {
            self.life.liveness.idle = Some(heard);
            return;
        }
        let silence = Silence {
            since: heard,
            received: self.traffic.streams.received(),
            largest: self.link.acks[Space::Data.index()].largest(),
            repeated: self.repeated(),
        };
        if self.life.liveness.ask(self.traffic.streams.progress(), silence) {
            self.life.lifecycle.hold();
        }
        self.life.lifecycle.ask();
        self.common.stats.asked += 1;
    }

    /// A batch came.
    #[inline]
    pub(crate) fn end_vigil(&mut self) {
        if self.life.liveness.asked > 0 {
            // Each question was answered before it was asked again, and none of the peer's packets is missing
            // since.
            let Silence { repeated, largest, .. } = self.life.liveness.silence;
            let is_own =
                repeated == self.repeated() && self.link.acks[Space::Data.index()].is_whole_above(largest);
            self.life.liveness.end(
                self.common.now,
                (self.traffic.streams.progress(), self.traffic.streams.received()),
                is_own,
            );
        }
    }

    /// How often something had to be asked again.
    fn repeated(&self) -> u64 {
        self.common.stats.ptos + self.life.liveness.calls
    }
}

/// Calls are no further apart: of three of them one gets there and is answered within 1.5 s, however bad the
/// path.
const APART: Duration = Duration::from_millis(500);
/// So many fall into an idle timeout at least.
const SEVERAL: u32 = 8;
/// Where there is no idle timeout, one is as far behind the one before as this part of the silence.
const SMALL: u32 = 16;
/// So many probe timeouts of silence are more than the path explains: one that lost the end of what was sent
/// has had its probes by then.
const PTOS: u32 = 3;
/// How often one silence is asked about, each time after twice as long, before the idle timeout runs on
/// whatever is answered: a server that has nothing to say does not keep a connection alive by saying so.
const PROLONGS: u32 = 6;
/// So often at least it is asked within an idle timeout, whatever was usual; and within how long where there
/// is none.
const ASKED: u32 = 6;
const USUAL_IDLE: Duration = Duration::from_secs(30);
/// So many times as long as it lasted, a silence is taken for usual.
const USUAL: u32 = 16;
