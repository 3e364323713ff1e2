use quickset_base::Time;

use super::pacer::{bytes_in, time_for};

/// Keeps what leaves below a rate, measured over any second: a bucket that leaks, and that what leaves fills.
///
/// The contract: [`wait`](Self::wait) before something leaves, and [`on_sent`](Self::on_sent) when it has.
/// What may not wait is only told of; what comes behind then waits for it, too. The bucket holds a twentieth
/// of what a second may have, or one packet if that is more, and leaks the rest in a second, so that no
/// second has more than both together.
#[derive(Clone, Debug)]
pub struct RateCap {
    /// Bytes per second that leak.
    rate: u64,
    /// Bytes that the bucket holds.
    room: u64,
    /// Bytes in it: more than it holds, after what did not wait.
    level: u64,
    /// Up to when it has leaked.
    updated: Time,
}

impl RateCap {
    /// No more than so many bits per second. With fewer than eight packets of full size, that is not kept
    /// over each second: one leaves at a time.
    pub fn new(bits_per_second: u64, now: Time) -> Self {
        let whole = (bits_per_second / 8).max(2);
        Self { rate: whole, room: 0, level: 0, updated: now }.with_room((whole / SHARE).max(LEAST_ROOM))
    }

    /// The same with another part of it that leaves at once.
    fn with_room(self, bytes: u64) -> Self {
        let whole = self.rate + self.room;
        let room = bytes.min(whole / 2);
        Self { rate: whole - room, room, ..self }
    }

    /// The same for another rate: what has left stays counted.
    pub fn set_rate(&mut self, bits_per_second: u64, now: Time) {
        self.leak(now);
        *self = Self { level: self.level, ..Self::new(bits_per_second, now) };
    }

    /// Whether so many bytes may leave now.
    ///
    /// # Errors
    /// The time when they may.
    #[inline]
    pub fn wait(&mut self, now: Time, bytes: u64) -> Result<(), Time> {
        self.leak(now);
        if bytes > self.room && bytes <= (self.rate + self.room) / MOST_ROOM {
            *self = self.clone().with_room(bytes);
        }
        // What is still larger than the bucket leaves once that is empty.
        let above = (self.level + bytes).saturating_sub(self.room.max(bytes));
        if above == 0 { Ok(()) } else { Err(self.updated + time_for(above, self.rate)) }
    }

    /// So many bytes have left.
    #[inline]
    pub fn on_sent(&mut self, bytes: u64) {
        // Nobody who may wait does so for longer than a few seconds, whatever others have sent.
        self.level = (self.level + bytes).min(self.room + MOST_SECONDS * self.rate);
    }

    /// What leaves in the long run, in bytes per second.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    fn leak(&mut self, now: Time) {
        let elapsed = now.since(self.updated);
        let leaked = bytes_in(elapsed, self.rate);
        if leaked >= self.level {
            (self.level, self.updated) = (0, now.max(self.updated));
        } else if leaked > 0 {
            self.level -= leaked;
            // The rest, that makes no whole byte, leaks later.
            self.updated += time_for(leaked, self.rate).min(elapsed);
        }
    }
}

/// Of a second; timers that are late by as much cost nothing.
const SHARE: u64 = 20;
/// Of a second, for packets that are larger than usual.
const MOST_ROOM: u64 = 8;
/// Two packets, so that one is not waited for that another is about to leave.
const LEAST_ROOM: u64 = 3000;
const MOST_SECONDS: u64 = 4;
