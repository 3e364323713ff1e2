use quickset_base::{Batch, Duration, Time};

use super::{CongestionControl, initial_window};

/// Spreads packets over time: a bucket that fills at the sending rate and is emptied by what leaves.
///
/// `conn` asks [`allow`](Self::allow) before each datagram and tells [`on_sent`](Self::on_sent) what left. A
/// sender that had to wait gets a quantum at a time, worth a system call, or what it has left when that is
/// less; a timer that fires late costs no throughput, since what was missed is credited up to [`CATCH_UP`];
/// after a pause there is credit for no more than an initial window (RFC 9002 §7.7, §7.8). ACKs and probes
/// are not held back by it.
#[derive(Debug)]
pub(crate) struct Pacer {
    mtu: u64,
    // Bytes that may leave.
    credit: u64,
    // Bytes that left without credit, probes; paid first. Not both are above zero.
    debt: u64,
    // What was credited, in time; the rest that makes no whole byte is credited later.
    updated: Time,
    // When it was asked last, and when something left last.
    asked: Time,
    sent: Time,
    waiting: bool,
}

impl Pacer {
    /// A pacer with credit for the initial window.
    pub(crate) fn new(mtu: u64, now: Time) -> Self {
        Self {
            mtu,
            credit: initial_window(mtu),
            debt: 0,
            updated: now,
            asked: now,
            sent: now,
            waiting: false,
        }
    }

    /// The path takes packets of `mtu` bytes from here on.
    pub(crate) fn set_mtu(&mut self, mtu: u64) {
        self.mtu = mtu;
    }

    /// Whether a datagram of so many bytes may leave now, of a sender that has so many to send with it.
    ///
    /// # Errors
    /// The time when it may.
    #[inline]
    pub(crate) fn allow(
        &mut self,
        now: Time,
        bytes: u64,
        backlog: u64,
        control: &CongestionControl,
        srtt: Duration,
    ) -> Result<(), Time> {
        // The next datagram of a batch: no time has passed.
        if now == self.asked && !self.waiting && self.credit >= bytes {
            return Ok(());
        }
        let rate = pacing_rate(control, srtt);
        // The last packets of what there is do not wait for others that will not come.
        let quantum = self.quantum(rate, control.window).max(bytes).min(backlog);
        self.ask(now, bytes.min(backlog), rate, quantum)
    }

    /// So many bytes left.
    #[inline]
    pub(crate) fn on_sent(&mut self, bytes: u64) {
        let granted = bytes.min(self.credit);
        self.credit -= granted;
        // Of what was not granted never more than a batch is owed.
        self.debt = (self.debt + bytes - granted).min(Batch::MAX_SEGMENTS as u64 * self.mtu);
        self.sent = self.asked;
    }

    fn ask(&mut self, now: Time, bytes: u64, rate: u64, quantum: u64) -> Result<(), Time> {
        self.asked = now;
        self.refill(now, rate, quantum);
        let enough = if self.waiting { quantum } else { bytes };
        if self.credit >= enough {
            self.waiting = false;
            return Ok(());
        }
        self.waiting = true;
        let missing = quantum + self.debt - self.credit;
        Err(self.updated + time_for(missing, rate))
    }

    fn refill(&mut self, now: Time, rate: u64, quantum: u64) {
        let elapsed = now.since(self.updated);
        let earned = bytes_in(elapsed, rate);
        if earned == 0 {
            return;
        }
        // Who was held back by the pacer, or is in the middle of sending, gets what a late timer withheld.
        let busy = self.waiting || now.since(self.sent) <= CATCH_UP;
        let most = if busy { quantum + bytes_in(CATCH_UP, rate) } else { 0 };
        let most = most.max(initial_window(self.mtu));
        let paid = self.debt.min(earned);
        self.debt -= paid;
        self.credit += earned - paid;
        if self.credit >= most {
            self.credit = most;
            self.updated = now;
        } else {
            self.updated += time_for(earned, rate).min(elapsed);
        }
    }

    // What leaves in one go: enough to be worth a system call and to carry the rate with a timer of 1 ms, at
    // most what one GSO send takes; and on a small window no more than a quarter, for else waiting for the
    // quantum would take round trips.
    fn quantum(&self, rate: u64, window: u64) -> u64 {
        let most = (Batch::MAX_SEGMENTS as u64 * self.mtu).min((window / 4).max(2 * self.mtu));
        bytes_in(Duration::from_millis(1), rate).max(10 * self.mtu).min(most)
    }
}

/// The rate at which packets leave, in bytes per second.
//
// RFC 9002 §7.7: a little faster than a window per round trip, so that the window and not the pacer limits;
// twice as fast when the window doubles in that time.
pub(crate) fn pacing_rate(control: &CongestionControl, srtt: Duration) -> u64 {
    if let Some(rate) = control.rate {
        return rate.max(1);
    }
    let (num, den) = if control.slow_start { (2, 1) } else { (5, 4) };
    let srtt = srtt.as_nanos().max(1);
    let rate = u128::from(control.window) * num * 1_000_000_000 / (srtt * den);
    u64::try_from(rate).unwrap_or(u64::MAX).max(1)
}

#[inline]
pub(super) fn bytes_in(time: Duration, rate: u64) -> u64 {
    let bytes = u128::from(rate) * time.as_nanos() / 1_000_000_000;
    // A bound so that credit cannot overflow, beyond any window.
    u64::try_from(bytes).unwrap_or(u64::MAX).min(1 << 40)
}

// Rounded up, so that the bytes are earned when the time has passed.
#[inline]
pub(super) fn time_for(bytes: u64, rate: u64) -> Duration {
    let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate));
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// How late a timer may fire without loss of throughput: tokio rounds up to its tick of 1 ms, and the tick
/// itself comes late.
const CATCH_UP: Duration = Duration::from_millis(2);
