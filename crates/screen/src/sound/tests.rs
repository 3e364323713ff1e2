use proptest::prelude::*;
use quickset_base::{Duration, Rng, Time};

use super::*;

const FRAME: Duration = Duration::from_millis(20);
const START: Time = Time::from_millis(5000);

fn record(number: u64, time: u64) -> bytes::Bytes {
    // The number again, to be told by it when it is played.
    let packet = [&[0xfc][..], &number.to_be_bytes()].concat().into();
    SoundFrame { number, time, packet }.record()
}

fn number_of(packet: &[u8]) -> u64 {
    u64::from_be_bytes(packet[1..].try_into().unwrap())
}

/// A listener in virtual time: what comes when, and what was heard when.
#[derive(Default)]
struct Listener {
    buffer: PlayoutBuffer,
    /// Of each piece: when it was played, the number of its frame, and its samples.
    heard: Vec<(Time, Option<u64>, u16)>,
    most_waiting: usize,
}

impl Listener {
    /// Lives until `end`, with what comes in the order of time.
    fn live(&mut self, mut coming: Vec<(Time, bytes::Bytes)>, end: Time) {
        coming.sort_by_key(|(at, _)| *at);
        let mut coming = coming.into_iter().peekable();
        loop {
            let comes = coming.peek().map_or(Time::MAX, |(at, _)| *at);
            let due = self.buffer.next_due().unwrap_or(Time::MAX);
            if comes.min(due) > end {
                return;
            }
            if comes <= due {
                let (at, record) = coming.next().unwrap();
                self.buffer.receive(at, &record);
                self.most_waiting = self.most_waiting.max(self.buffer.waiting());
            } else {
                match self.buffer.play(due) {
                    Some(SoundPiece::Packet { packet, samples }) => {
                        self.heard.push((due, Some(number_of(&packet)), samples));
                    }
                    Some(SoundPiece::Conceal) => self.heard.push((due, None, FRAME_SAMPLES)),
                    None => assert!(self.buffer.next_due() != Some(due) || self.buffer.waiting() > 0),
                }
            }
        }
    }

    fn numbers(&self) -> Vec<u64> {
        self.heard.iter().filter_map(|(_, number, _)| *number).collect()
    }

    fn gaps(&self) -> u64 {
        self.heard.iter().filter(|(_, number, _)| number.is_none()).count() as u64
    }

    /// How long after it was recorded each frame was heard that began at `recorded`.
    fn delays(&self, recorded: impl Fn(u64) -> Time) -> Vec<Duration> {
        let frames = self.heard.iter().filter_map(|(at, number, _)| Some((*at, (*number)?)));
        frames.map(|(at, number)| at.since(recorded(number))).collect()
    }
}

fn sent(number: u64) -> Time {
    START + FRAME * number as u32
}

#[test]
fn what_comes_evenly_is_heard_once_and_after_the_least_delay() {
    // DT-73.
    let way = Duration::from_millis(50);
    let coming = (0..500).map(|n| (sent(n) + way, record(n, n * 960))).collect();
    let mut listener = Listener::default();
    listener.live(coming, sent(600));
    assert_eq!(listener.numbers(), (0..500).collect::<Vec<_>>());
    let delays = listener.delays(sent);
    assert!(delays.iter().all(|delay| *delay == way + Duration::from_millis(40)), "{delays:?}");
    // Behind the end the decoder fades out, and then nothing is played.
    assert!(listener.gaps() <= 6, "{}", listener.gaps());
    assert_eq!(listener.buffer.next_due(), None);
}

/// With ways of a uniform length, all but half a percent come in 99.5 % of the spread.
#[test]
fn the_delay_follows_the_jitter_and_stays_within_its_bounds() {
    for (spread, least, most) in [(20, 40, 40), (100, 90, 112), (200, 185, 212), (1000, 350, 400)] {
        let mut rng = Rng::new(7);
        let way = |rng: &mut Rng| Duration::from_millis(30 + rng.below(spread));
        let coming = (0..6000).map(|n| (sent(n) + way(&mut rng), record(n, n * 960))).collect();
        let mut listener = Listener::default();
        listener.live(coming, sent(6000));
        let delay = listener.buffer.delay().as_millis() as u64;
        assert!((least..=most).contains(&delay), "{spread}: {delay}");
        if spread < 1000 {
            // An independent count: those that come later than the delay, once it is known.
            let gaps = listener.heard.iter().filter(|(at, n, _)| *at > sent(1000) && n.is_none()).count();
            assert!(gaps as f64 / 5000.0 < 0.012, "{spread}: {gaps} gaps");
        }
    }
}

#[test]
fn a_lead_is_a_part_of_the_delay_and_what_comes_within_it_is_too_late() {
    // DT-73: where nothing asks for more, the delay is the lead, 5 ms for lateness and 5 ms for timers; then
    // where jitter does.
    let (way, lead) = (Duration::from_millis(50), Duration::from_millis(25));
    let coming = (0..500).map(|n| (sent(n) + way, record(n, n * 960))).collect();
    let mut listener = Listener { buffer: PlayoutBuffer::with_lead(lead), ..Listener::default() };
    listener.live(coming, sent(500));
    let delays = listener.delays(sent);
    assert!(delays.iter().all(|delay| *delay == way + Duration::from_millis(10)), "{delays:?}");
    let mut rng = Rng::new(7);
    let coming = (0..6000).map(|n| {
        let way = Duration::from_millis(30 + rng.below(100));
        (sent(n) + way, record(n, n * 960))
    });
    let coming = coming.collect();
    let mut listener = Listener { buffer: PlayoutBuffer::with_lead(lead), ..Listener::default() };
    listener.live(coming, sent(6000));
    let delay = listener.buffer.delay().as_millis();
    assert!((115..=137).contains(&delay), "{delay}");
    let gaps = listener.heard.iter().filter(|(at, n, _)| *at > sent(1000) && n.is_none()).count();
    assert!(gaps as f64 / 5000.0 < 0.012, "{gaps} gaps");
}

#[test]
fn each_lost_frame_is_one_gap_and_nothing_else() {
    let mut rng = Rng::new(3);
    let lost: Vec<bool> = (0..5000).map(|n| n > 10 && n < 4990 && rng.below(50) == 0).collect();
    let way = Duration::from_millis(50);
    let came = (0..5000).filter(|&n| !lost[n as usize]);
    let coming = came.clone().map(|n| (sent(n) + way, record(n, n * 960))).collect();
    let mut listener = Listener::default();
    listener.live(coming, sent(5000) - FRAME);
    assert_eq!(listener.gaps(), lost.iter().filter(|lost| **lost).count() as u64);
    let numbers = listener.numbers();
    assert_eq!(numbers, came.take(numbers.len()).collect::<Vec<_>>());
}

/// An hour with a sender's clock that is faster or slower than ours, by as much as the worst quartzes.
#[test]
fn clocks_that_drift_apart_are_followed_without_a_gap() {
    for ppm in [-200_i64, 200] {
        let frame = Duration::from_nanos((20_000_000 - 20 * ppm).try_into().unwrap());
        let sent = |n: u64| START + frame * n as u32;
        let mut rng = Rng::new(11);
        let way = |rng: &mut Rng| Duration::from_millis(50 + rng.below(10));
        let coming = (0..180_000).map(|n| (sent(n) + way(&mut rng), record(n, n * 960))).collect();
        let mut listener = Listener::default();
        listener.live(coming, sent(180_000) - FRAME);
        assert_eq!(listener.gaps(), 0, "{ppm}");
        let numbers = listener.numbers();
        assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
        let delays = listener.delays(sent);
        let (least, most) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
        assert!(
            *least >= Duration::from_millis(70) && *most <= Duration::from_millis(115),
            "{least:?} {most:?}"
        );
        // What was played took as long as it was heard for.
        let samples: u64 = listener.heard.iter().map(|(_, _, samples)| u64::from(*samples)).sum();
        let (first, last) = (listener.heard[0].0, listener.heard.last().unwrap().0);
        let time = last.since(first).as_secs_f64() * 48_000.0;
        assert!((time - samples as f64).abs() < 2.0 * 960.0, "{time} {samples}");
    }
}

#[test]
fn pieces_are_at_most_one_percent_faster_or_slower() {
    // DT-73, with jumps of the way's length that want much of it.
    let mut rng = Rng::new(5);
    let way = |n: u64, rng: &mut Rng| Duration::from_millis(20 + n / 500 % 3 * 100 + rng.below(30));
    let coming = (0..10_000).map(|n| (sent(n) + way(n, &mut rng), record(n, n * 960))).collect();
    let mut listener = Listener::default();
    listener.live(coming, sent(10_000));
    let samples = listener.heard.iter().map(|(_, _, samples)| *samples);
    let (least, most) = (samples.clone().min().unwrap(), samples.max().unwrap());
    assert!(least >= 951 && most <= 969, "{least} {most}");
    assert!(least < 960 && most > 960, "it was wanted both ways");
}

#[test]
fn a_pause_is_silent_and_is_heard_as_long_as_it_was() {
    // DT-74: numbers go on, times leave out ten seconds.
    let pause = 500;
    let place = |n: u64| if n < 100 { n } else { n + pause };
    let way = Duration::from_millis(50);
    let coming = (0..200).map(|n| (sent(place(n)) + way, record(n, place(n) * 960))).collect();
    let mut listener = Listener::default();
    listener.live(coming, sent(800));
    assert_eq!(listener.numbers(), (0..200).collect::<Vec<_>>());
    let delays = listener.delays(|n| sent(place(n)));
    assert!(delays.iter().all(|delay| *delay == way + Duration::from_millis(40)), "{delays:?}");
    assert!(listener.gaps() <= 12, "{}", listener.gaps());
}

#[test]
fn behind_a_stall_what_is_old_is_left_out() {
    // A second in which nothing comes, and then all at once.
    let comes = |n: u64| {
        let at = sent(n) + Duration::from_millis(50);
        if (500..550).contains(&n) { sent(550) + Duration::from_millis(50) } else { at }
    };
    let coming = (0..1500).map(|n| (comes(n), record(n, n * 960))).collect();
    let mut listener = Listener::default();
    listener.live(coming, sent(1500));
    let delays = listener.delays(sent);
    let numbers = listener.numbers();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(listener.buffer.stats().skipped >= 20, "{:?}", listener.buffer.stats());
    // A second later it is as before, but for the longer delay that a stall calls for (40 s are remembered).
    let later = numbers.iter().position(|n| *n >= 600).unwrap();
    let most = delays[later..].iter().max().unwrap();
    assert!(*most <= Duration::from_millis(460), "{most:?}");
}

#[test]
fn a_frame_that_comes_twice_or_too_late_is_passed_over() {
    // DT-71.
    let way = Duration::from_millis(50);
    let mut coming: Vec<_> = (0..100).map(|n| (sent(n) + way, record(n, n * 960))).collect();
    coming.push((sent(50) + way + Duration::from_millis(1), record(50, 50 * 960)));
    coming.push((sent(60) + Duration::from_millis(800), record(60, 60 * 960)));
    coming.push((sent(70), bytes::Bytes::from_static(&[0x30, 0, 0])));
    let mut listener = Listener::default();
    listener.live(coming, sent(100));
    let numbers = listener.numbers();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    let stats = listener.buffer.stats();
    assert_eq!((stats.repeated, stats.late, stats.unreadable), (1, 1, 1));
}

#[test]
fn frames_are_counted_by_their_numbers_and_by_how_late_they_come() {
    // Of 200 numbers the 50th and the 150th are lost; each tenth comes 33 ms later than others, the 75th
    // 500 ms, and the 80th twice.
    let comes = |n: u64| {
        let more = match n {
            75 => 500,
            _ if n % 10 == 9 => 33,
            _ => 0,
        };
        sent(n) + Duration::from_millis(50 + more)
    };
    let came = (1000..1200).filter(|n| *n != 1050 && *n != 1150).map(|n| n - 1000);
    let mut coming: Vec<_> = came.map(|n| (comes(n), record(1000 + n, n * 960))).collect();
    coming.push((comes(80) + Duration::from_millis(1), record(1080, 80 * 960)));
    let bytes: usize = coming.iter().map(|(_, record)| record.len()).sum();
    let mut listener = Listener::default();
    listener.live(coming, sent(600));
    let stats = listener.buffer.stats();
    assert_eq!((stats.numbered, stats.received, stats.repeated), (200, 199, 1));
    assert_eq!(stats.bytes, bytes as u64);
    let mut behind = [0; BEHIND_BINS];
    (behind[0], behind[3], behind[BEHIND_BINS - 1]) = (198 - 20 - 1, 20, 1);
    assert_eq!(stats.behind, behind);
}

#[test]
fn what_is_far_ahead_is_a_new_beginning() {
    // DT-72: of numbers, and of times.
    for (jump, ahead) in [(100_000, 0), (0, 48_000 * 3600)] {
        let way = Duration::from_millis(50);
        let number = |n: u64| if n < 100 { n } else { n + jump };
        let time = |n: u64| if n < 100 { n * 960 } else { n * 960 + ahead };
        let coming = (0..300).map(|n| (sent(n) + way, record(number(n), time(n)))).collect();
        let mut listener = Listener::default();
        listener.live(coming, sent(400));
        let numbers = listener.numbers();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(numbers.ends_with(&(200..300).map(number).collect::<Vec<_>>()));
        assert!(numbers.len() > 290, "{}", numbers.len());
    }
}

#[test]
fn what_is_an_hour_old_or_says_so_disturbs_nothing() {
    // DT-71: between the frames of a stream come old ones, whose times are of an hour ago, or in an hour.
    const HOUR: u64 = 3600 * 48_000;
    let way = Duration::from_millis(50);
    let place = |n: u64| n + HOUR / 960;
    for time in [|n: u64| n * 960, |n: u64| n * 960 + 2 * HOUR] {
        let coming = (0..500).map(|n| (sent(n) + way, record(place(n), place(n) * 960)));
        let old = (100..400).step_by(50).map(|n| (sent(n) + way + FRAME / 2, record(n, time(n))));
        let mut listener = Listener::default();
        listener.live(coming.chain(old).collect(), sent(500) - FRAME);
        let numbers = listener.numbers();
        assert!(numbers.len() >= 495, "{}", numbers.len());
        assert_eq!(numbers, (0..numbers.len() as u64).map(place).collect::<Vec<_>>());
        let delays = listener.delays(|n| sent(n - HOUR / 960));
        assert!(delays.iter().all(|delay| *delay == way + Duration::from_millis(40)), "{delays:?}");
        let stats = listener.buffer.stats();
        assert_eq!((stats.late, stats.concealed, stats.skipped), (6, 0, 0));
    }
}

#[test]
fn a_server_whose_times_go_back_by_an_hour_begins_anew() {
    // DT-72: numbers go on, and what comes then is heard.
    let way = Duration::from_millis(50);
    let time = |n: u64| if n < 200 { n * 960 + 3600 * 48_000 } else { n * 960 };
    let coming = (0..400).map(|n| (sent(n) + way, record(n, time(n)))).collect();
    let mut listener = Listener::default();
    listener.live(coming, sent(500));
    let numbers = listener.numbers();
    assert!(numbers.len() >= 390 && numbers.ends_with(&(202..400).collect::<Vec<_>>()), "{numbers:?}");
    assert!(listener.most_waiting <= MOST_FRAMES);
}

proptest! {
    /// Whatever comes: each frame at most once and in order, a bounded number held, no more than is played in
    /// the time, and never without an end.
    #[test]
    fn nothing_that_comes_breaks_the_order_or_the_bound(
        coming in prop::collection::vec((0..4000_u64, 0..300_u64, 0..8_u32, 0..1_000_000_u64), 0..300)
    ) {
        let coming = coming.into_iter().map(|(at, number, far, time)| {
            let record = match far {
                0 => record(number << 30, time << 20),
                1 => record(number, (time << 28) & ((1 << 48) - 1)),
                _ => record(number, number * 960 + time % 2000),
            };
            (START + Duration::from_millis(at), record)
        });
        let mut listener = Listener::default();
        listener.live(coming.collect(), START + Duration::from_secs(20));
        let numbers = listener.numbers();
        prop_assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
        prop_assert!(listener.most_waiting <= MOST_FRAMES);
        prop_assert!(listener.heard.windows(2).all(|pair| pair[0].0 < pair[1].0));
        prop_assert!(listener.heard.len() <= 1100);
        let stats = listener.buffer.stats();
        let known = stats.played + stats.skipped + stats.late + stats.repeated + listener.buffer.waiting() as u64;
        prop_assert_eq!(known, stats.received);
    }
}
