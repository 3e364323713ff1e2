use std::collections::VecDeque;
use std::time::Instant;

use quickset::ReceivedMessage;
use quickset_base::Duration;
use quickset_base::number::Unsigned as _;
use serde::Serialize;

use super::DemoMode;
use super::tally::{BLOCKED_MS, milliseconds};
use super::whole::DrawnMessage;
use crate::stats::Samples;

/// What a receiver has measured in the last [`SPAN`](LiveFigures::SPAN); its memory is bounded by what comes
/// in this time.
///
/// A *stall* is a time in which the picture stood still although updates were on their way: from the last
/// change of the picture, or the writing of the oldest update that is not whole, whichever is later, to the
/// next change. It counts when it is longer than the round-trip time and than [`SEEN`].
#[derive(Clone, Debug)]
pub(crate) struct RecentTally {
    /// A picture that stands still for longer than this stalls.
    patience: Duration,
    /// When messages came out, and whether they had been held for more than a millisecond.
    messages: VecDeque<(Instant, bool)>,
    /// When updates became whole, and how long it had taken, in milliseconds.
    whole: VecDeque<(Instant, f64)>,
    /// When stalls ended, and how long they were.
    stalls: VecDeque<(Instant, Duration)>,
    /// The last one, however long ago.
    last_stall: Option<(Instant, Duration)>,
    /// When the picture changed last.
    changed: Option<Instant>,
}

/// How a mode has done in the last seconds, [`LiveFigures::SPAN`] unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveFigures {
    /// The mode.
    pub mode: DemoMode,
    /// Messages that came out.
    pub messages: usize,
    /// The share of them that fences held for more than a millisecond.
    pub blocked_share: f64,
    /// Updates that became whole on the picture.
    pub updates: usize,
    /// How long this took from the writing of their first message on: the median, in milliseconds.
    pub whole_update_p50_ms: f64,
    /// The same, the 99th percentile.
    pub whole_update_p99_ms: f64,
    /// Times in which the picture stood still although updates were on their way, oldest first.
    pub stalls: Vec<LiveStall>,
    /// The last of them, however long ago.
    pub last_stall: Option<LiveStall>,
    /// How long the picture stands still now, in milliseconds; none when it does not.
    pub standing_ms: Option<f64>,
}

/// A time in which a picture stood still.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LiveStall {
    /// How long ago it ended, in milliseconds.
    pub ago_ms: f64,
    /// How long it was, in milliseconds.
    pub lasted_ms: f64,
}

impl LiveFigures {
    /// The time that the figures are of.
    pub const SPAN: Duration = Duration::from_secs(10);

    /// Those of a mode that has not begun.
    pub(crate) fn nothing(mode: DemoMode) -> Self {
        Self {
            mode,
            messages: 0,
            blocked_share: 0.0,
            updates: 0,
            whole_update_p50_ms: 0.0,
            whole_update_p99_ms: 0.0,
            stalls: Vec::new(),
            last_stall: None,
            standing_ms: None,
        }
    }
}

impl RecentTally {
    pub(crate) fn new(rtt: Duration) -> Self {
        Self {
            patience: rtt.max(SEEN),
            messages: VecDeque::new(),
            whole: VecDeque::new(),
            stalls: VecDeque::new(),
            last_stall: None,
            changed: None,
        }
    }

    /// A message came out and was drawn; the `oldest` update that was not whole before was written then.
    pub(crate) fn add(
        &mut self,
        message: &ReceivedMessage,
        drawn: &DrawnMessage,
        oldest: Option<Instant>,
        now: Instant,
    ) {
        self.messages.push_back((now, milliseconds(message.blocked()) > BLOCKED_MS));
        self.whole.extend(drawn.whole.iter().map(|update| (now, milliseconds(update.took))));
        if drawn.is_seen {
            if let Some(stood) = self.stands(oldest, now) {
                self.last_stall = Some((now, stood));
                self.stalls.push_back((now, stood));
            }
            self.changed = Some(now);
        }
        self.forget(now);
    }

    pub(crate) fn figures(&mut self, mode: DemoMode, oldest: Option<Instant>, now: Instant) -> LiveFigures {
        self.forget(now);
        let blocked = self.messages.iter().filter(|message| message.1).count();
        let whole = self.whole.iter().map(|update| update.1).collect::<Samples>().percentiles();
        let told = |&(ended, lasted): &(Instant, Duration)| LiveStall {
            ago_ms: milliseconds(now.saturating_duration_since(ended)),
            lasted_ms: milliseconds(lasted),
        };
        LiveFigures {
            mode,
            messages: self.messages.len(),
            blocked_share: blocked.approx() / self.messages.len().max(1).approx(),
            updates: self.whole.len(),
            whole_update_p50_ms: whole.p50,
            whole_update_p99_ms: whole.p99,
            stalls: self.stalls.iter().map(told).collect(),
            last_stall: self.last_stall.as_ref().map(told),
            standing_ms: self.stands(oldest, now).map(milliseconds),
        }
    }

    /// How long the picture has stood still, if that is a stall.
    fn stands(&self, oldest: Option<Instant>, now: Instant) -> Option<Duration> {
        let since = oldest?.max(self.changed.unwrap_or(oldest?));
        Some(now.saturating_duration_since(since)).filter(|stood| *stood > self.patience)
    }

    fn forget(&mut self, now: Instant) {
        let is_old = |at: &Instant| now.saturating_duration_since(*at) > LiveFigures::SPAN;
        while self.messages.front().is_some_and(|message| is_old(&message.0)) {
            self.messages.pop_front();
        }
        while self.whole.front().is_some_and(|update| is_old(&update.0)) {
            self.whole.pop_front();
        }
        while self.stalls.front().is_some_and(|stall| is_old(&stall.0)) {
            self.stalls.pop_front();
        }
    }
}

/// A shorter pause is not seen as one.
const SEEN: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::demo::whole::WholeUpdate;

    /// Plays messages (drawn at, held for, oldest update written at, is it seen, updates whole by it).
    type Arrival = (u64, u64, Option<u64>, bool, &'static [u64]);

    struct Played {
        start: Instant,
        tally: RecentTally,
    }

    impl Played {
        fn new(rtt_ms: u64) -> Self {
            Self { start: Instant::now(), tally: RecentTally::new(Duration::from_millis(rtt_ms)) }
        }

        fn add(&mut self, arrivals: &[Arrival]) {
            for &(at, held, oldest, is_seen, whole) in arrivals {
                let (now, ms) = (self.at(at), Duration::from_millis);
                let completed = now.checked_sub(ms(held)).unwrap();
                let message = ReceivedMessage { payload: Bytes::new(), segment: 0, completed, released: now };
                let whole = whole
                    .iter()
                    .map(|took| WholeUpdate { number: 0, took: ms(*took), overtaken: false })
                    .collect();
                let oldest = oldest.map(|ms| self.at(ms));
                self.tally.add(&message, &DrawnMessage { is_seen, whole }, oldest, now);
            }
        }

        fn at(&self, ms: u64) -> Instant {
            self.start + Duration::from_millis(ms)
        }

        fn figures(&mut self, oldest: Option<u64>, now: u64) -> LiveFigures {
            let (oldest, now) = (oldest.map(|ms| self.at(ms)), self.at(now));
            self.tally.figures(DemoMode::Total, oldest, now)
        }
    }

    #[test]
    fn a_stall_is_a_pause_with_updates_under_way() {
        let mut played = Played::new(100);
        played.add(&[
            (1060, 0, Some(1000), true, &[]),
            // Something is drawn that nobody sees: the pause goes on. It is longer than a round trip.
            (1100, 0, Some(1000), false, &[]),
            (1170, 60, Some(1000), true, &[170]),
            // Nothing was under way until 1500.
            (1560, 0, Some(1500), true, &[60]),
            // Not longer than a round trip.
            (1660, 1, Some(1600), true, &[60]),
        ]);
        let figures = played.figures(Some(1700), 1800);
        let stall = LiveStall { ago_ms: 630.0, lasted_ms: 110.0 };
        assert_eq!((&figures.stalls[..], figures.last_stall), (&[stall][..], Some(stall)));
        assert_eq!(figures.standing_ms, None, "since 1700, for a round trip");
        assert_eq!((figures.messages, figures.updates), (5, 3));
        assert!((figures.blocked_share - 0.2).abs() < 1e-12, "one of five for more than a millisecond");
        assert_eq!((figures.whole_update_p50_ms, figures.whole_update_p99_ms), (60.0, 170.0));
        // It stands still from the writing of what is under way on.
        assert_eq!(played.figures(Some(1700), 1850).standing_ms, Some(150.0));
        assert_eq!(played.figures(None, 1850).standing_ms, None);
    }

    #[test]
    fn what_is_long_ago_is_forgotten_but_for_the_last_stall() {
        let mut played = Played::new(0);
        played.add(&[
            (0, 0, Some(0), true, &[5]),
            (51, 9, Some(0), true, &[51]),
            (9_000, 0, None, true, &[7]),
        ]);
        let figures = played.figures(None, 10_040);
        assert_eq!((figures.messages, figures.updates, figures.stalls.len()), (2, 2, 1));
        let figures = played.figures(None, 10_060);
        assert_eq!((figures.messages, figures.updates, figures.stalls.len()), (1, 1, 0));
        assert_eq!(figures.last_stall, Some(LiveStall { ago_ms: 10_009.0, lasted_ms: 51.0 }));
        assert!(figures.blocked_share.abs() < f64::EPSILON);
        let none = LiveFigures { last_stall: figures.last_stall, ..LiveFigures::nothing(DemoMode::Total) };
        let none = LiveFigures { last_stall: Some(LiveStall { ago_ms: 39_949.0, lasted_ms: 51.0 }), ..none };
        assert_eq!(played.figures(None, 40_000), none);
    }
}
