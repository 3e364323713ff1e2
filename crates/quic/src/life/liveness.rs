use quickset_base::{Duration, Time};

use super::Life;

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
pub(crate) struct Silence {
    pub(crate) since: Time,
    /// What had come of streams.
    pub(crate) received: u64,
    /// The largest number of the peer's packets.
    pub(crate) largest: Option<u64>,
    /// How often something had to be asked again.
    pub(crate) repeated: u64,
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
    fn due(&self, heard: Time, progress: u64, pto: Duration, most: Duration) -> Option<Time> {
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
    pub(crate) fn end(&mut self, now: Time, progress: u64, received: u64, is_own: bool) {
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

    /// Whether it ever asks.
    #[inline]
    pub(crate) fn asks(&self) -> bool {
        self.least.is_some()
    }

    /// The silence that is being asked about.
    #[inline]
    pub(crate) fn asked_in(&self) -> Option<Silence> {
        (self.asked > 0).then_some(self.silence)
    }

    /// Of the silence that began then nothing is to be asked.
    pub(crate) fn rest(&mut self, since: Time) {
        self.idle = Some(since);
    }

    /// Calls.
    pub(crate) fn call(&mut self, now: Time) {
        self.called = now;
        self.calls += 1;
        self.calls_now = true;
    }

    /// How often it called.
    pub(crate) fn calls(&self) -> u64 {
        self.calls
    }

    /// Whether to call now, once.
    #[inline]
    pub(crate) fn takes_call(&mut self) -> bool {
        std::mem::take(&mut self.calls_now)
    }

    /// The server asks back whether it is us: it had lost us, and its silence was not its own.
    pub(crate) fn found(&mut self) {
        self.asked = 0;
    }
}

/// Calls: PINGs of either side, while something waits for its acknowledgement. Questions: PINGs of a client
/// that awaits data.
//
// Probe timeouts ask as well, each after twice the time of the one before (RFC 9002 §6.2.1). So an outage is
// found to be over after as long again as it took, or not before the idle timeout, which then ends a
// connection whose path is back. What carries data has to back off. A packet of 64 bytes twice in a second,
// on a path of more than half a second once in a round trip, is no load for any path; it goes between probe
// timeouts that are further apart, and with what lost it the idle timeout ends it (RFC 9000 §10.1.2 has PINGs
// against that timeout).
impl Life {
    /// When to call next, while something waits since then for its acknowledgement, on a path of round trips
    /// of `trip` at least.
    pub(crate) fn call_due(&self, since: Time, trip: Duration) -> Time {
        let last = since.max(self.liveness.called);
        let apart = match self.lifecycle.idle_timeout() {
            Some(idle) => APART.min(idle / SEVERAL),
            // Nobody gives up, and an outage may last for hours.
            None => APART.max(last.since(self.lifecycle.heard()) / SMALL),
        };
        last + apart.max(trip)
    }

    /// When to ask of the silence that lasts, if one does, when `progress` bytes of streams had gone either
    /// way.
    pub(crate) fn vigil_due(&self, progress: u64, trip: Duration, pto: Duration) -> Option<Time> {
        let heard = self.lifecycle.silent_since()?;
        let idle = self.lifecycle.idle_timeout().unwrap_or(USUAL_IDLE);
        let pto = pto.min((2 * APART).max(2 * trip));
        let most = (idle / ASKED).max(trip.saturating_mul(PTOS));
        self.liveness.due(heard, progress, pto, most)
    }

    /// Asks now.
    pub(crate) fn ask(&mut self, progress: u64, silence: Silence) {
        if self.liveness.ask(progress, silence) {
            self.lifecycle.hold();
        }
        self.lifecycle.ask();
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
