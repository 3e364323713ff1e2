use quickset_base::{Duration, Time};

/// Which time of a recording is now.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlayClock {
    /// How many times as fast as it was.
    speed: f64,
    /// The time of the recording at `since`; without that, for as long as it stands.
    from: Time,
    since: Option<Time>,
}

impl PlayClock {
    /// It stands at this time.
    pub(super) fn new(at: Time, speed: f64) -> Self {
        Self { speed: speed.clamp(SLOWEST, FASTEST), from: at, since: None }
    }

    pub(super) fn speed(&self) -> f64 {
        self.speed
    }

    pub(super) fn runs(&self) -> bool {
        self.since.is_some()
    }

    /// The time of the recording.
    pub(super) fn at(&self, now: Time) -> Time {
        let passed = self.since.map_or(Duration::ZERO, |since| now.since(since));
        self.from + passed.mul_f64(self.speed)
    }

    /// When it will be this time of the recording, if it runs.
    pub(super) fn when(&self, at: Time) -> Option<Time> {
        // Rounded up, or it would not be that time yet.
        Some(self.since? + at.since(self.from).div_f64(self.speed) + Duration::from_micros(1))
    }

    pub(super) fn run(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    pub(super) fn stand(&mut self, now: Time) {
        *self = Self { from: self.at(now), since: None, ..*self };
    }

    /// It is this time of the recording now.
    pub(super) fn set(&mut self, now: Time, at: Time) {
        *self = Self { from: at, since: self.since.map(|_| now), ..*self };
    }

    /// It goes so many times as fast from now on.
    pub(super) fn hurry(&mut self, now: Time, factor: f64) {
        self.set(now, self.at(now));
        self.speed = (self.speed * factor).clamp(SLOWEST, FASTEST);
    }
}

/// Minutes and seconds, and hours where there are any.
pub(super) fn clock_text(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// So many hundredths of a length.
pub(super) fn share(length: Duration, percent: u8) -> Time {
    let nanos = length.as_nanos() * u128::from(percent) / 100;
    Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

const SLOWEST: f64 = 1.0 / 16.0;
const FASTEST: f64 = 64.0;
