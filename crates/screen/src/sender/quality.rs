//! Which quality of JPEG the link carries.
//!
//! *In:* what the transport says of the link ([`LinkEstimate`]), what pieces took, and when frames of areas
//! in motion had arrived. *Out:* a quality for each update, one for areas in motion and one for all else,
//! within the limits that whoever serves has set. A picture that appears is to be there within [`PICTURE`];
//! it rests, and comes without loss thereafter. A frame of an area in motion has the bytes of its *budget*,
//! which follows how long frames take: a frame is to have left the link before the next one is drawn, so
//! that no frame ever waits for an older one. Nothing here has to believe the estimate of the link,
//! which knows only as much as was ever sent.
//!
//! Source: `spec/desktop.md`, DT-80.

use core::fmt;
use core::str::FromStr;

use quickset_base::{Duration, Time};

/// Between which qualities of JPEG a sender may choose, each 1 to 100, as in `MIN-MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JpegQuality {
    least: u8,
    most: u8,
}

/// What the transport knows of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkEstimate {
    /// Bytes a second that it is thought to carry; `None` when that is not known.
    pub rate: Option<u64>,
    /// The shortest round trip that was seen; zero when that is not known.
    pub min_rtt: Duration,
}

/// Not two qualities of JPEG.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write two qualities of JPEG, 1 to 100, as MIN-MAX, or one")]
pub struct ParseQualityError;

impl JpegQuality {
    /// Qualities from `least` to `most`; `None` unless 1 <= `least` <= `most` <= 100.
    pub const fn new(least: u8, most: u8) -> Option<Self> {
        if 1 <= least && least <= most && most <= 100 { Some(Self { least, most }) } else { None }
    }

    /// The lowest.
    pub const fn least(self) -> u8 {
        self.least
    }

    /// The highest.
    pub const fn most(self) -> u8 {
        self.most
    }

    /// What of `wish` lies in these limits; where nothing does, what is nearest to it.
    #[must_use]
    pub fn wished(self, wish: Self) -> Self {
        let within = |quality: u8| quality.clamp(self.least, self.most);
        Self { least: within(wish.least), most: within(wish.most) }
    }
}

impl Default for JpegQuality {
    /// 30 to 90: below, faces fall into blocks; above, bytes grow fast for what nobody sees.
    fn default() -> Self {
        Self { least: 30, most: 90 }
    }
}

impl fmt::Display for JpegQuality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.least, self.most)
    }
}

impl FromStr for JpegQuality {
    type Err = ParseQualityError;

    fn from_str(text: &str) -> Result<Self, ParseQualityError> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| text.parse().map_err(|_| ParseQualityError);
        Self::new(number(least)?, number(most)?).ok_or(ParseQualityError)
    }
}

/// Chooses qualities.
#[derive(Debug)]
pub(super) struct QualityControl {
    range: JpegQuality,
    link: LinkEstimate,
    /// Of what does not move, and of what does.
    still: PixelWeight,
    moving: PixelWeight,
    /// Of the update that is being sent, for both.
    qualities: [u8; 2],
    turn: StillTurn,
    budget: FrameBudget,
}

/// What does not move of the update that is being sent.
#[derive(Debug, Default)]
struct StillTurn {
    /// Pixels that are still to be sent.
    left: u64,
    /// Pixels that were sent, and those of them that went as JPEG, with their bytes.
    seen: u64,
    lossy: u64,
    bytes: u64,
}

/// What a pixel takes.
#[derive(Debug)]
struct PixelWeight {
    /// Bytes that 2^20 pixels take as JPEG of quality 80, by what was sent lately.
    each: u64,
}

/// How many bytes a frame of what moves may have.
#[derive(Debug, Default)]
struct FrameBudget {
    /// `None`: nothing has moved yet.
    bytes: Option<u64>,
    /// Of frames that were begun before then nothing is learned of the budget as it is now.
    since: Time,
    /// When the last frame that has arrived had left the link, by what is known of it.
    free: Time,
    /// Frames in a row that took too long.
    late: u8,
}

/// How long a frame took on its way, but for the round trip.
struct FrameTime {
    /// From when it was begun.
    took: Duration,
    /// Without what was in front of it.
    alone: Duration,
}

/// A frame that has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrivedFrame {
    pub(super) begun: Time,
    /// From one drawing to the next.
    pub(super) interval: Duration,
    /// Of its pixels that move.
    pub(super) bytes: u64,
    /// Those of them that are known to have arrived: all but what the last two messages have.
    pub(super) seen: u64,
}

impl QualityControl {
    pub(super) fn new(range: JpegQuality) -> Self {
        Self {
            range,
            link: LinkEstimate::default(),
            still: PixelWeight::new(),
            moving: PixelWeight::new(),
            qualities: [range.most; 2],
            turn: StillTurn::default(),
            budget: FrameBudget::default(),
        }
    }

    /// What is sent from now on has a quality of this range. Nothing is known of what the link carries that
    /// would not be known any more.
    pub(super) fn set_range(&mut self, range: JpegQuality) {
        self.range = range;
        self.qualities = self.qualities.map(|quality| quality.clamp(range.least, range.most));
    }

    pub(super) fn set_link(&mut self, link: LinkEstimate) {
        self.link = link;
    }

    pub(super) fn link(&self) -> LinkEstimate {
        self.link
    }

    /// The quality of a piece of the update that is being sent.
    pub(super) fn of(&self, moves: bool) -> u8 {
        self.qualities[usize::from(moves)]
    }

    /// An update begins with so many pixels that do not move, and so many that do, which are drawn anew after
    /// `interval`.
    pub(super) fn begin(&mut self, still: usize, moving: usize, interval: Duration) {
        self.turn = StillTurn { left: still as u64, ..StillTurn::default() };
        self.weigh();
        self.qualities[1] = match self.budget.allowed(self.link, interval) {
            Some(bytes) if moving > 0 => self.moving.quality(self.range, moving as u64, bytes),
            _ => self.range.most,
        };
    }

    /// How good the rest of what does not move may be.
    fn weigh(&mut self) {
        self.qualities[0] = match self.link.rate {
            Some(rate) => {
                let bytes = in_time(rate, PICTURE).saturating_sub(self.turn.bytes);
                self.still.quality(self.range, self.turn.likely_lossy(), bytes)
            }
            None => self.range.most,
        };
    }

    /// A piece took so many bytes, as JPEG or not.
    pub(super) fn learn(&mut self, moves: bool, pixels: usize, bytes: usize, lossy: bool) {
        let (quality, pixels, bytes) = (self.of(moves), pixels as u64, bytes as u64);
        if lossy {
            let weight = if moves { &mut self.moving } else { &mut self.still };
            weight.learn(quality, pixels, bytes);
        }
        if !moves {
            self.turn.learn(pixels, bytes, lossy);
            self.weigh();
        }
    }

    /// A frame of what moves has arrived, or has been taken by the system where nobody tells more.
    pub(super) fn arrived(&mut self, now: Time, frame: ArrivedFrame) {
        let at = |quality| frame.bytes * size(quality) / size(self.qualities[1]);
        // Pictures differ a little.
        let (least, most) = (at(self.range.least), at(self.range.most) * 5 / 4);
        self.budget.arrived(now, frame, self.link.min_rtt, least, most);
    }
}

impl PixelWeight {
    fn new() -> Self {
        // Three bits a pixel until something is known.
        Self { each: (3 << 20) / 8 }
    }

    /// The highest quality in which so many pixels fit.
    fn quality(&self, range: JpegQuality, pixels: u64, bytes: u64) -> u8 {
        let fits = |quality: &u8| self.bytes(pixels, *quality) <= bytes;
        (range.least..=range.most).rev().find(fits).unwrap_or(range.least)
    }

    fn bytes(&self, pixels: u64, quality: u8) -> u64 {
        pixels * self.each / (1 << 20) * size(quality) / 100
    }

    fn learn(&mut self, quality: u8, pixels: u64, bytes: u64) {
        let each = (bytes << 20) * 100 / (pixels.max(1) * size(quality));
        // A large piece says more than a small one.
        let share = pixels.min(ALL);
        self.each = (self.each * (ALL - share) + each * share) / ALL;
    }
}

impl StillTurn {
    /// Of the pixels that are left those that are likely to go as JPEG: a quarter, until others went.
    fn likely_lossy(&self) -> u64 {
        self.left * (self.lossy + FEW / 4) / (self.seen + FEW)
    }

    fn learn(&mut self, pixels: u64, bytes: u64, lossy: bool) {
        self.left = self.left.saturating_sub(pixels);
        self.seen += pixels;
        if lossy {
            self.lossy += pixels;
            self.bytes += bytes;
        }
    }
}

impl FrameBudget {
    /// Bytes of a frame; `None` when nothing is known.
    fn allowed(&mut self, link: LinkEstimate, interval: Duration) -> Option<u64> {
        let Some(rate) = link.rate else { return self.bytes };
        let carried = in_time(rate, interval);
        let bytes = *self.bytes.get_or_insert(carried * 5 / 6);
        // The estimate knows no more than what was sent, and follows it.
        Some(bytes.min(carried * 5 / 4))
    }

    /// How long a frame took that has been seen to arrive now.
    fn time_of(&self, now: Time, frame: ArrivedFrame, min_rtt: Duration) -> FrameTime {
        let seen = now.since(frame.begun).saturating_sub(min_rtt);
        let wait = self.free.since(frame.begun).min(seen);
        // The rest takes as long for each byte. Of few messages it is not known how long one takes.
        let known = frame.seen.max(frame.bytes / 2).max(1);
        let micros = seen.saturating_sub(wait).as_micros() * u128::from(frame.bytes) / u128::from(known);
        let alone = Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX));
        FrameTime { took: wait + alone, alone }
    }

    /// A frame has arrived, which in the lowest and the highest quality would have had so many bytes.
    fn arrived(&mut self, now: Time, frame: ArrivedFrame, min_rtt: Duration, least: u64, most: u64) {
        if frame.bytes == 0 {
            return;
        }
        let FrameTime { took, alone } = self.time_of(now, frame, min_rtt);
        self.free = self.free.max(frame.begun + took);
        if frame.begun < self.since {
            return;
        }
        let bytes = self.bytes.unwrap_or(most);
        let next = if took > frame.interval {
            // What waits goes down by itself where each frame takes less than is between two. To make frames
            // smaller for what is in front of them would be to pay twice, and to grow back for seconds.
            let is_late = alone > frame.interval * 19 / 20;
            self.late = if is_late { self.late.saturating_add(1) } else { 0 };
            // One alone may have been repaired.
            if self.late < 2 {
                return;
            }
            // What would have been in time, but at least a third.
            let base = bytes.min(frame.bytes);
            let in_time =
                u128::from(frame.bytes) * frame.interval.as_micros() * 9 / 10 / alone.as_micros().max(1);
            u64::try_from(in_time).unwrap_or(base).clamp(base / 3, base)
        } else if took <= frame.interval * 3 / 4 {
            bytes + bytes / 10
        } else if took <= frame.interval * 9 / 10 {
            bytes + bytes / 25
        } else {
            bytes
        };
        self.late = 0;
        let next = next.clamp(least, most);
        if self.bytes.replace(next) != Some(next) {
            self.since = now;
        }
    }
}

/// What a link of so many bytes a second carries within `time`.
fn in_time(rate: u64, time: Duration) -> u64 {
    let bytes = u128::from(rate) * time.as_micros() / 1_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX / 8).min(u64::MAX / 8)
}

/// How long pictures are at this quality, 1 to 100, in percent of their length at quality 80.
fn size(quality: u8) -> u64 {
    let quality = quality.clamp(1, 100);
    let above = SIZES.iter().position(|&(q, _)| q >= quality).unwrap_or(SIZES.len() - 1);
    let (q1, s1) = SIZES[above];
    let (q0, s0) = SIZES[above.saturating_sub(1)];
    s1 - (s1 - s0) * u64::from(q1 - quality) / u64::from(q1 - q0).max(1)
}

/// Photographs at some qualities, with the tables of ITU-T T.81 Annex K.
const SIZES: [(u8, u64); 10] =
    [(1, 6), (10, 20), (20, 31), (30, 41), (50, 58), (70, 79), (80, 100), (90, 152), (95, 215), (100, 400)];
/// What appears and is no film is to be there so soon.
const PICTURE: Duration = Duration::from_millis(250);
/// Pixels after which it is known what an update consists of.
const FEW: u64 = 1 << 13;
/// After so many pixels of a kind nothing is left of what was before.
const ALL: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Duration = Duration::from_millis(50);
    const RTT: Duration = Duration::from_millis(60);

    fn control() -> QualityControl {
        QualityControl::new(JpegQuality::new(20, 85).unwrap())
    }

    #[test]
    fn two_qualities_are_written_with_a_hyphen() {
        let quality = |text: &str| text.parse::<JpegQuality>().map(|q| (q.least(), q.most()));
        assert_eq!(quality("30-90"), Ok((30, 90)));
        assert_eq!(quality("75"), Ok((75, 75)));
        assert_eq!(JpegQuality::new(5, 100).unwrap().to_string(), "5-100");
        for slip in ["", "-", "0-50", "50-101", "60-50", "30-", "30-90-95", "a-b", "-5", "300"] {
            assert_eq!(quality(slip), Err(ParseQualityError), "{slip}");
        }
    }

    #[test]
    fn a_wish_is_kept_within_the_limits() {
        // DT-84.
        let limits = JpegQuality::new(30, 90).unwrap();
        let wished = |least, most| {
            let range = limits.wished(JpegQuality::new(least, most).unwrap());
            (range.least(), range.most())
        };
        assert_eq!(wished(50, 70), (50, 70));
        assert_eq!(wished(1, 50), (30, 50));
        assert_eq!(wished(80, 100), (80, 90));
        assert_eq!([wished(95, 100), wished(1, 9)], [(90, 90), (30, 30)]);
    }

    #[test]
    fn a_picture_is_as_good_as_comes_within_a_quarter_of_a_second() {
        // A megapixel of 3 bits at quality 80 is 393 kB.
        let picture = |rate: Option<u64>, text: u64| {
            let mut control = control();
            control.set_link(LinkEstimate { rate, min_rtt: RTT });
            control.begin(1 << 20, 0, FRAME);
            let (mut bytes, mut quality) = (0, 0);
            for piece in 0..256 {
                let lossy = piece % 8 >= text;
                quality = control.of(false);
                let each = if lossy { 4096 * 3 / 8 * size(quality) / 100 } else { 300 };
                bytes += if lossy { each } else { 0 };
                control.learn(false, 4096, each as usize, lossy);
            }
            (quality, bytes)
        };
        assert_eq!(picture(None, 0).0, 85, "nothing is known of the link");
        assert_eq!(picture(Some(4_000_000), 0).0, 85);
        let (quality, bytes) = picture(Some(1_200_000), 0);
        // 300 kB; what came before it was known to be a photograph is made up for.
        assert!((45..75).contains(&quality) && (270_000..315_000).contains(&bytes), "{quality}, {bytes}");
        assert_eq!(picture(Some(100_000), 0).0, 20);
        // A page of text with a small picture in it.
        assert_eq!(picture(Some(1_200_000), 7).0, 85);
    }

    /// Frames over a link of `rate` bytes a second that does not say what it carries: how good they are, and
    /// how long they take, in the end.
    fn film(control: &mut QualityControl, now: &mut Time, rate: u64, frames: usize) -> (u8, Duration) {
        let (mut free, mut took) = (*now, Duration::ZERO);
        let mut under_way = std::collections::VecDeque::new();
        for _ in 0..frames {
            control.begin(0, 150_000, FRAME);
            let quality = control.of(true);
            // 2 bits a pixel at quality 80.
            let bytes = 150_000 / 4 * size(quality) / 100;
            for _ in 0..26 {
                control.learn(true, 150_000 / 26, bytes as usize / 26, true);
            }
            free = free.max(*now) + Duration::from_micros(bytes * 1_000_000 / rate);
            under_way
                .push_back((free + RTT, ArrivedFrame { begun: *now, interval: FRAME, bytes, seen: bytes }));
            took = free.since(*now);
            *now += FRAME;
            while under_way.front().is_some_and(|(at, _)| at <= now) {
                let (at, frame) = under_way.pop_front().unwrap();
                control.arrived(at, frame);
            }
        }
        (control.of(true), took)
    }

    #[test]
    fn films_are_as_good_as_the_link_carries_without_a_word_of_it() {
        let (mut control, mut now) = (control(), Time::from_millis(1000));
        control.set_link(LinkEstimate { rate: None, min_rtt: RTT });
        // 37.5 kB at quality 80: 47 kB at 85, for each 50 ms. A tenth of a link is left where it is not
        // known.
        let (good, _) = film(&mut control, &mut now, 1_000_000, 100);
        assert!(good >= 84, "the link carries it: {good}");
        let (fair, took) = film(&mut control, &mut now, 500_000, 100);
        assert!((44..75).contains(&fair) && took <= FRAME * 11 / 10, "{fair}, {took:?}");
        let (poor, _) = film(&mut control, &mut now, 50_000, 100);
        assert_eq!(poor, 20, "no link makes it worse than it may be");
        let (again, took) = film(&mut control, &mut now, 500_000, 200);
        assert!((44..75).contains(&again) && took <= FRAME * 11 / 10, "{again}, {took:?}");
        let (best, _) = film(&mut control, &mut now, 1_000_000, 200);
        assert!(best >= 84, "{best}");
    }

    #[test]
    fn sizes_grow_with_the_quality() {
        let sizes: Vec<u64> = (1..=100).map(size).collect();
        assert!(sizes.windows(2).all(|pair| pair[0] <= pair[1]), "{sizes:?}");
        assert_eq!([size(1), size(80), size(85), size(100)], [6, 100, 126, 400]);
    }
}
