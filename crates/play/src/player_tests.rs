use proptest::prelude::*;

use super::*;
use crate::{Elsewhere, Url};

const SECOND: Duration = Duration::from_secs(1);

fn presentation(periods: &str) -> Presentation {
    let text = format!(r#"<MPD mediaPresentationDuration="PT60S">{periods}</MPD>"#);
    let url = Url::parse("https://example.org/v/a.mpd").expect("an address");
    Presentation::parse(&text, &url, Elsewhere::Refused).expect("it can be played")
}

/// A minute in segments of 4 s, in these bitrates.
fn minute(bitrates: &[u64]) -> Presentation {
    presentation(&period("", bitrates))
}

fn period(attributes: &str, bitrates: &[u64]) -> String {
    let rows: Vec<String> =
        bitrates.iter().map(|b| format!(r#"<Representation id="{b}" bandwidth="{b}"/>"#)).collect();
    format!(
        r#"<Period {attributes}><AdaptationSet contentType="video">
        <SegmentTemplate media="$RepresentationID$/$Number$" initialization="$RepresentationID$/init" duration="4"/>{}</AdaptationSet></Period>"#,
        rows.concat()
    )
}

fn config(algorithm: RuleName) -> PlayerConfig {
    PlayerConfig { algorithm, ..PlayerConfig::default() }
}

/// What was fetched, and when it ended.
struct Played {
    report: ViewReport,
    addresses: Vec<String>,
    end: Duration,
    most: Duration,
    outcome: Action,
}

/// Plays over a link of `rate(now)` bit/s. Segments are of the bitrate in their address times four seconds,
/// all else is of no size.
fn play(presentation: &Presentation, config: PlayerConfig, rate: impl Fn(Duration) -> f64) -> Played {
    let mut player = Player::new(presentation, config).expect("a ladder");
    let (mut now, mut addresses, mut most) = (Duration::ZERO, Vec::new(), Duration::ZERO);
    let mut steps = 0;
    let outcome = loop {
        most = most.max(player.buffer().0);
        steps += 1;
        assert!(steps < 1000, "it does not get on: {player:?}");
        match player.poll(now) {
            Action::Fetch { resource, read } => {
                assert!(!read, "no file has an index here");
                let address = resource.url.target();
                let bits = if address.ends_with("init") {
                    0.0
                } else {
                    let bitrate = address.split('/').nth(2).expect("a bitrate");
                    4.0 * bitrate.parse::<f64>().expect("a number")
                };
                player.first_byte(now);
                now += Duration::from_secs_f64(bits / rate(now));
                addresses.push(address);
                player.arrived(now, (bits / 8.0) as u64, &[]);
            }
            Action::Sleep(until) => {
                let until = until.expect("nothing is fetched");
                assert!(until > now, "{until:?} at {now:?}");
                now = until;
            }
            end => break end,
        }
    };
    Played { report: player.report(), addresses, end: now, most, outcome }
}

/// One bitrate over a link of half of it: a segment comes every 8 s and plays 4 of them.
#[test]
fn stalls_are_those_of_a_slow_link() {
    for algorithm in RuleName::ALL {
        let played = play(&minute(&[1_000_000]), config(algorithm), |_| 500_000.0);
        assert_eq!(played.outcome, Action::Done);
        let ViewReport { played: media, startup, stalls, stalled, segments, switches, bytes, .. } =
            played.report;
        assert_eq!((segments, switches, bytes), (15, 0, 7_500_000));
        assert_eq!((media, startup), (60 * SECOND, Some(8 * SECOND)));
        assert_eq!((stalls, stalled), (14, 14 * 4 * SECOND));
        assert_eq!(played.end, (8 + 60 + 56) * SECOND);
        assert!((played.report.average_bitrate() - 1e6).abs() < 1e-6);
    }
}

#[test]
fn a_fast_link_shows_the_best_and_never_stalls() {
    for algorithm in RuleName::ALL {
        let played = play(&minute(&[1_000_000, 2_000_000, 4_000_000]), config(algorithm), |_| 40e6);
        let report = played.report;
        assert_eq!((report.stalls, report.stalled, report.switches), (0, Duration::ZERO, 1), "{algorithm}");
        // The first segment is of 1 Mbit/s, as nothing is known: 4 Mbit at 40 Mbit/s.
        assert_eq!(report.startup, Some(Duration::from_millis(100)));
        assert!((report.average_bitrate() - (4e6 + 56.0 * 4e6) / 60.0).abs() < 1.0, "{algorithm} {report:?}");
        assert_eq!(played.end, 60 * SECOND + Duration::from_millis(100));
        // At the top up to 30 s, and what is under way.
        assert!(played.most > 30 * SECOND && played.most <= 34 * SECOND, "{:?}", played.most);
        assert_eq!(
            played.addresses[..4],
            ["/v/1000000/init", "/v/1000000/1", "/v/4000000/init", "/v/4000000/2"]
        );
        assert_eq!(played.addresses.iter().filter(|a| a.ends_with("init")).count(), 2);
        assert_eq!(played.addresses.last().expect("some"), "/v/4000000/15");
    }
}

/// An outage of 60 s after 10: the buffer has 18 s, or a segment more, and what is missing is a stall.
#[test]
fn an_outage_is_a_stall() {
    let config = PlayerConfig { buffer_at_top: 18 * SECOND, ..config(RuleName::Throughput) };
    let outage = |now: Duration| if (10.0..70.0).contains(&now.as_secs_f64()) { 4e6 / 60.0 } else { 40e6 };
    let played = play(&minute(&[1_000_000]), config, outage);
    assert_eq!((played.report.stalls, played.report.played), (1, 60 * SECOND));
    let startup = played.report.startup.expect("it played");
    assert_eq!(played.end, startup + 60 * SECOND + played.report.stalled);
    // It asked for a segment at the first moment from 10 s on at which there were 18 s, and got it 60 s
    // later.
    assert!(
        played.report.stalled > 41 * SECOND && played.report.stalled < 43 * SECOND,
        "{:?}",
        played.report
    );
}

#[test]
fn periods_are_played_after_each_other() {
    let periods = [
        period(r#"duration="PT10S""#, &[1_000_000, 2_000_000]),
        period(r#"duration="PT4S""#, &[1_000_000, 2_000_000]),
        period(r#"duration="PT6S""#, &[3_000_000]),
    ];
    let played = play(&presentation(&periods.concat()), config(RuleName::Bola), |_| 100e6);
    assert_eq!((played.outcome, played.report.played), (Action::Done, 20 * SECOND));
    let media: Vec<&str> =
        played.addresses.iter().map(String::as_str).filter(|a| !a.ends_with("init")).collect();
    assert_eq!(
        media,
        ["/v/1000000/1", "/v/2000000/2", "/v/2000000/3", "/v/2000000/1", "/v/3000000/1", "/v/3000000/2"]
    );
    assert_eq!(played.report.switches, 2);
    // 4 s of the first, 6 and 4 of the second, 6 of the third.
    let bits = 4.0 * 1e6 + 10.0 * 2e6 + 6.0 * 3e6;
    assert!((played.report.average_bitrate() - bits / 20.0).abs() < 1e-3);
}

/// Segments of 4 s and, in the other quality, of 6: after the first of the one the first of the other has 2 s
/// that are new.
#[test]
fn segments_need_not_be_as_long_in_each_quality() {
    let row = |bitrate: u64, seconds: u64| {
        format!(
            r#"<Representation id="{bitrate}" bandwidth="{bitrate}"><SegmentTemplate media="{bitrate}/$Number$" duration="{seconds}"/></Representation>"#
        )
    };
    let rows = [row(1_000_000, 4), row(2_000_000, 6)].concat();
    let set = format!(r#"<Period><AdaptationSet contentType="video">{rows}</AdaptationSet></Period>"#);
    let played = play(&presentation(&set), config(RuleName::Throughput), |_| 40e6);
    assert_eq!(played.addresses[..3], ["/v/1000000/1", "/v/2000000/1", "/v/2000000/2"]);
    assert_eq!((played.report.played, played.report.segments, played.report.stalls), (60 * SECOND, 11, 0));
    assert!((played.report.average_bitrate() - (4.0 * 1e6 + 56.0 * 2e6) / 60.0).abs() < 1e-3);
}

#[test]
fn the_end_is_no_stall() {
    let mut player = Player::new(&minute(&[1_000_000]), config(RuleName::Throughput)).expect("a ladder");
    let mut now = Duration::ZERO;
    loop {
        match player.poll(now) {
            Action::Fetch { .. } => player.arrived(now, 1000, &[]),
            Action::Sleep(until) => now = until.expect("nothing is fetched"),
            end => break assert_eq!(end, Action::Done),
        }
    }
    let report = player.report();
    assert_eq!(player.poll(now + 100 * SECOND), Action::Done);
    assert_eq!(player.report(), report);
    assert_eq!((report.stalls, report.stalled), (0, Duration::ZERO));
}

#[test]
fn what_fails_is_tried_again_and_then_given_up() {
    let config = PlayerConfig { retries: 2, ..config(RuleName::Throughput) };
    let mut player = Player::new(&minute(&[1_000_000]), config).expect("a ladder");
    let mut now = Duration::ZERO;
    for wait in [500, 1000] {
        assert!(matches!(player.poll(now), Action::Fetch { .. }));
        assert_eq!(player.poll(now), Action::Sleep(None));
        player.failed(now);
        let until = now + Duration::from_millis(wait);
        assert_eq!(player.poll(now), Action::Sleep(Some(until)));
        now = until;
    }
    // What comes in between begins the count anew.
    assert!(matches!(player.poll(now), Action::Fetch { .. }));
    player.arrived(now, 0, &[]);
    for _ in 0..3 {
        let Action::Fetch { resource, .. } = player.poll(now) else { panic!("it fetches") };
        assert_eq!(resource.url.target(), "/v/1000000/1");
        player.failed(now);
        now += 10 * SECOND;
    }
    let failed = Action::Failed(PlayError::Fetch("https://example.org/v/1000000/1".into()));
    assert_eq!((player.poll(now), player.poll(now)), (failed.clone(), failed));
}

#[test]
fn an_index_comes_before_all_else() {
    let set = r#"<Period><AdaptationSet contentType="audio"><Representation bandwidth="64000"><BaseURL>a.mp4</BaseURL>
        <SegmentBase indexRange="100-155"/></Representation></AdaptationSet></Period>"#;
    let mut sidx = vec![0, 0, 0, 56, b's', b'i', b'd', b'x', 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
    sidx.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    for size in [1, 2] {
        sidx.extend([0, 0, size, 0, 0, 0, 0, 30, 0x90, 0, 0, 0]);
    }
    let mut player = Player::new(&presentation(set), config(RuleName::Dynamic)).expect("a ladder");
    let mut ranges = Vec::new();
    let mut now = Duration::ZERO;
    loop {
        match player.poll(now) {
            Action::Fetch { resource, read } => {
                assert_eq!(read, ranges.is_empty(), "only the index is read");
                ranges.push(resource.range.expect("a range"));
                player.arrived(now, 10, if read { &sidx } else { &[] });
            }
            Action::Sleep(until) => now = until.expect("nothing is fetched"),
            end => break assert_eq!(end, Action::Done),
        }
    }
    assert_eq!(ranges, [100..=155, 0..=99, 156..=411, 412..=923]);
    assert_eq!(player.report().played, 60 * SECOND);

    let mut player = Player::new(&presentation(set), config(RuleName::Dynamic)).expect("a ladder");
    assert!(matches!(player.poll(now), Action::Fetch { read: true, .. }));
    player.arrived(now, 3, b"404");
    assert!(matches!(player.poll(now), Action::Failed(PlayError::Index(_))));
}

#[test]
fn it_plays_when_there_is_enough() {
    let config = PlayerConfig { start_with: 8 * SECOND, ..config(RuleName::Throughput) };
    let played = play(&minute(&[1_000_000]), config, |_| 4e6);
    // Two segments of a second each.
    assert_eq!(played.report.startup, Some(2 * SECOND));
    // With more than there is, it plays at the end of the fetching.
    let config = PlayerConfig { start_with: 100 * SECOND, ..config };
    let played = play(&minute(&[1_000_000]), config, |_| 4e6);
    assert_eq!((played.report.startup, played.report.stalls), (Some(15 * SECOND), 0));
}

/// BOLA waits for the buffer to become less, which it does not while nothing is played.
#[test]
fn nobody_waits_while_it_stands_still() {
    let config = PlayerConfig { start_with: 20 * SECOND, ..config(RuleName::Bola) };
    let played = play(&minute(&[1_000_000, 50_000_000]), config, |_| 2e6);
    assert_eq!((played.outcome, played.report.stalls), (Action::Done, 0));
    // Five segments of 2 s each.
    assert_eq!(played.report.startup, Some(10 * SECOND));
}

/// Segments of 4 s, two periods of 28 s each.
#[test]
fn no_more_is_played_than_is_wanted() {
    let half = |bitrate| period(r#"duration="PT28S""#, &[bitrate]);
    let presentation = presentation(&(half(1_000_000) + &half(2_000_000)));
    for (length, segments) in [(0, 1), (1, 1), (8, 2), (9, 3), (30, 8), (56, 14), (1000, 14)] {
        let config = PlayerConfig { length: length * SECOND, ..config(RuleName::Dynamic) };
        let played = play(&presentation, config, |_| 40e6);
        assert_eq!(played.outcome, Action::Done);
        assert_eq!((played.report.segments, played.report.stalls), (segments.into(), 0), "{length}");
        assert_eq!(played.report.played, segments * 4 * SECOND, "{length}");
    }
}

#[test]
fn calls_out_of_turn_do_nothing() {
    let mut player = Player::new(&minute(&[1_000_000]), PlayerConfig::default()).expect("a ladder");
    player.first_byte(SECOND);
    player.arrived(SECOND, 100, &[]);
    player.failed(SECOND);
    assert_eq!(player.report(), ViewReport::default());
    assert!(matches!(player.poll(Duration::ZERO), Action::Fetch { .. }), "the clock went back");
}

/// A small manifest can be large when it is read; a thousand players need it once.
#[test]
fn players_share_what_the_manifest_says() {
    let presentation = minute(&[1_000_000, 2_000_000]);
    let players = [(); 3].map(|()| Player::new(&presentation, PlayerConfig::default()).expect("a ladder"));
    for shared in &presentation.periods[0].tracks[0].representations {
        assert_eq!(Arc::strong_count(shared), 1 + players.len());
    }
}

/// Each bitrate has an index of its own, as long as one may be.
#[test]
fn indices_are_bounded_all_together() {
    let row = |n: u64| {
        format!(
            r#"<Representation bandwidth="{n}"><BaseURL>{n}</BaseURL><SegmentBase indexRange="0-1048575"/></Representation>"#
        )
    };
    let rows = [1, 2, 3, 4, 5].map(row).concat();
    let set = format!(r#"<Period><AdaptationSet contentType="video">{rows}</AdaptationSet></Period>"#);
    let mut index = vec![0, 0, 0, 44, b's', b'i', b'd', b'x', 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
    index.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 60, 0, 0, 0, 0]);
    index.resize(1 << 20, 0);
    let mut player = Player::new(&presentation(&set), PlayerConfig::default()).expect("a ladder");
    for quality in 0..5 {
        // As if the rule had chosen each of them.
        (player.quality, player.chosen) = (quality, true);
        assert!(matches!(player.poll(Duration::ZERO), Action::Fetch { read: true, .. }), "{quality}");
        player.arrived(Duration::ZERO, 1 << 20, &index);
    }
    assert_eq!(player.poll(Duration::ZERO), Action::Failed(PlayError::Index(IndexError::TooLong)));
}

proptest! {
    /// The clock jumps, forward and back, by any time: nothing is played twice, and no time is counted that
    /// was not there.
    #[test]
    fn any_clock_is_played_by(
        times in proptest::collection::vec(prop_oneof![0..20_000_u64, any::<u64>()], 1..200),
        algorithm in 0..5_usize,
    ) {
        let mut player = Player::new(&minute(&[1_000_000, 2_000_000]), config(RuleName::ALL[algorithm])).expect("a ladder");
        let (mut first, mut last) = (None, Duration::ZERO);
        for (n, time) in times.into_iter().map(Duration::from_millis).enumerate() {
            let first = *first.get_or_insert(time);
            last = last.max(time);
            match player.poll(time) {
                Action::Fetch { .. } if n % 7 == 3 => player.failed(time),
                Action::Fetch { .. } => player.first_byte(time),
                Action::Sleep(None) => player.arrived(time, 500_000, &[]),
                Action::Sleep(Some(until)) => prop_assert!(until > time, "{until:?} at {time:?}"),
                Action::Done | Action::Failed(_) => {}
            }
            let report = player.report();
            prop_assert!(report.played <= 60 * SECOND);
            prop_assert!(report.played + report.stalled <= last.saturating_sub(first), "{report:?}");
        }
    }

    /// Whatever the link does, all is played once, and the end is after startup, media and stalls.
    #[test]
    fn all_is_played_and_all_time_is_counted(
        rates in proptest::collection::vec(10_000..20_000_000_u32, 1..40),
        algorithm in 0..5_usize,
        bitrates in proptest::collection::btree_set(100_000..10_000_000_u64, 1..8),
        start_with in 0..20_u32,
    ) {
        let presentation = minute(&bitrates.into_iter().collect::<Vec<_>>());
        let config = PlayerConfig { start_with: start_with * SECOND, ..config(RuleName::ALL[algorithm]) };
        let rate = |now: Duration| f64::from(rates[now.as_secs() as usize / 5 % rates.len()]);
        let Played { report, addresses, end, most, outcome } = play(&presentation, config, rate);
        prop_assert_eq!(outcome, Action::Done);
        prop_assert_eq!(report.played, 60 * SECOND);
        prop_assert_eq!(end, report.startup.expect("it played") + report.played + report.stalled);
        let numbers: Vec<&str> = addresses.iter().filter_map(|a| a.split('/').nth(3)).filter(|n| *n != "init").collect();
        let expected: Vec<String> = (1..=15).map(|n| n.to_string()).collect();
        prop_assert_eq!(numbers, expected);
        prop_assert!(most <= 34 * SECOND);
        prop_assert_eq!(report.stalls == 0, report.stalled.is_zero());
    }
}
