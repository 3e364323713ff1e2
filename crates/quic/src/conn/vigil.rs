use quickset_base::{Duration, Time};

use super::Connection;
use crate::room::Phase;

/// Whether the road is still there: asked by a client that awaits data and hears nothing.
///
/// When a NAT gives a client another port, its server goes on sending to the old one, and the client, which has
/// acknowledged all that came, has nothing to send that would tell it. A PING does (RFC 9000 §9.3, §10.1.2).
///
/// Nothing is kept up to date for it by packet: what it needs is when something was heard, which the lifecycle knows, and
/// how much data came, which the streams know.
#[derive(Debug)]
pub(crate) struct Vigil {
    /// The shortest silence that makes it ask; `None`: it never does.
    least: Option<Duration>,
    /// How often it asked since data came, and how much had come then.
    asked: u8,
    received: u64,
    /// The silence that it asked in began then.
    since: Time,
    /// A silence that data ended by and by, and until when it is taken for usual.
    usual: Duration,
    usual_until: Time,
    /// Of the silence that began then nothing is to be asked: no data was awaited.
    idle: Option<Time>,
}

impl Vigil {
    pub(crate) fn new(least: Option<Duration>) -> Self {
        Self {
            least,
            asked: 0,
            received: 0,
            since: Time::ZERO,
            usual: Duration::ZERO,
            usual_until: Time::ZERO,
            idle: None,
        }
    }

    /// When to ask next, of a silence that lasts since `heard`, when `received` bytes of streams had come.
    fn due(&self, heard: Time, received: u64, pto: Duration) -> Option<Time> {
        let asked = if received == self.received { self.asked } else { 0 };
        if asked >= MOST || self.idle == Some(heard) {
            return None;
        }
        let mut wait = self.least?.max(pto.saturating_mul(PTOS));
        if heard < self.usual_until {
            wait = wait.max(self.usual.saturating_mul(2));
        }
        Some(heard + wait.saturating_mul(1 << asked))
    }

    /// It asks now, of that silence.
    fn ask(&mut self, heard: Time, received: u64) {
        if received != self.received || self.asked == 0 {
            (self.received, self.asked, self.since) = (received, 0, heard);
        }
        self.asked += 1;
    }

    /// Something came; if that is data after it had asked, a silence like that one is nothing to ask about for a while.
    #[inline]
    fn on_received(&mut self, now: Time, received: u64) {
        if self.asked > 0 && received != self.received {
            self.asked = 0;
            self.usual = now.since(self.since);
            self.usual_until = now + self.usual.saturating_mul(USUAL);
        }
    }

    /// The server asks back whether it is us: it had lost us, and its silence was not its own.
    pub(super) fn found(&mut self) {
        self.asked = 0;
    }
}

impl Connection {
    /// When it is time to ask whether the server can still reach us. While an answer is awaited, probe timeouts are what
    /// asks.
    pub(super) fn vigil_due(&self) -> Option<Time> {
        self.vigil.least?;
        let heard = self.lifecycle.silent_since().filter(|_| self.phase == Phase::Confirmed)?;
        self.vigil.due(heard, self.streams.received(), self.pto())
    }

    pub(super) fn on_vigil(&mut self) {
        if self.vigil_due().is_none_or(|at| at > self.now) {
            return;
        }
        let Some(heard) = self.lifecycle.silent_since() else { return };
        if self.streams.awaits() {
            self.vigil.ask(heard, self.streams.received());
            self.lifecycle.ask();
            self.stats.asked += 1;
        } else {
            self.vigil.idle = Some(heard);
        }
    }

    /// A batch came.
    #[inline]
    pub(crate) fn end_vigil(&mut self) {
        self.vigil.on_received(self.now, self.streams.received());
    }
}

/// So many probe timeouts of silence are more than the path explains: one that lost the end of what was sent has had its
/// probes by then.
const PTOS: u32 = 3;
/// How often one silence is asked about, each time after twice as long: a server that has nothing to say is not made to say
/// so for ever, and the connection outlives its idle timeout by 63 times the first wait at most, and only if it answers.
const MOST: u8 = 6;
/// So many times as long as it lasted, a silence is taken for usual.
const USUAL: u32 = 16;
