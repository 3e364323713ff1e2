//! What the peer is asked for: draft-ietf-quic-ack-frequency, and the rule that makes requests of what is
//! heard.

use quickset_wire::frame::Frames;

use super::*;

/// The peer's min_ack_delay and max_ack_delay.
const LEAST: Duration = Duration::from_millis(1);
const MOST: Duration = Duration::from_millis(40);

fn asks(policy: AckPolicy) -> Asks {
    let mut asks = Asks::new(policy);
    asks.set_peer(Some(LEAST), MOST);
    asks
}

/// A second into the connection, 20 ms of round trips, a window of so many packets.
fn course(window: u64) -> AskFacts {
    let srtt = Duration::from_millis(20);
    AskFacts { now: Time::from_millis(1000), srtt, window, packet_threshold: 3, protected: false }
}

/// A round trip with batches of so many ACK frames each; then it is looked at.
fn round(asks: &mut Asks, batches: &[u32], course: &mut AskFacts) {
    for frames in batches {
        (0..*frames).for_each(|_| asks.heard());
        asks.end_batch(course.now, course.srtt);
    }
    course.now += course.srtt;
    asks.heard();
    if asks.end_batch(course.now, course.srtt) {
        asks.look(course);
    }
}

/// The request that goes out, if one is due: sequence, threshold, delay in microseconds, reordering
/// threshold.
fn written(asks: &mut Asks, course: &AskFacts) -> Option<(u64, u64, u64, u64)> {
    if !asks.is_due() {
        return None;
    }
    let (mut bytes, mut tokens) = (vec![0; 100], Vec::new());
    let mut w = packet::PacketWriter::new(wire::Writer::new(&mut bytes), &mut tokens);
    assert!(asks.write(&mut w, course) && w.is_eliciting());
    let len = w.len();
    match Frames::new(&bytes[..len]).next() {
        Some(Ok(Frame::AckFrequency { sequence, threshold, max_delay_us, reordering })) => {
            assert_eq!(tokens, [FrameToken::AckFrequency { sequence }]);
            Some((sequence, threshold, max_delay_us, reordering))
        }
        other => panic!("{other:?}"),
    }
}

/// The same, and it arrives.
fn agreed(asks: &mut Asks, course: &AskFacts) -> Option<(u64, u64, u64, u64)> {
    let request = written(asks, course)?;
    assert!(asks.acked(request.0));
    Some(request)
}

#[test]
fn immediate_ack_goes_out_once_beside_data() {
    fn written(a: &mut Asks, data: bool, room: usize) -> bool {
        let (mut bytes, mut tokens) = (vec![0; room], Vec::new());
        let mut w = packet::PacketWriter::new(wire::Writer::new(&mut bytes), &mut tokens);
        if data {
            w.put(&Frame::Ping, FrameToken::Nothing);
        }
        a.write_immediate(&mut w);
        let len = w.len();
        assert!(tokens.is_empty(), "it is not sent again");
        bytes[usize::from(data)..len] == [0x1f]
    }
    let mut a = asks(AckPolicy::default());
    assert!(!written(&mut a, true, 10), "nobody asked");
    a.ask_immediate();
    assert!(!written(&mut a, false, 10), "not in a packet of its own");
    assert!(!written(&mut a, true, 1), "no room");
    assert!(written(&mut a, true, 10));
    assert!(!written(&mut a, true, 10), "once");

    // The peer did not offer min_ack_delay; whether we did does not matter.
    let mut a = Asks::new(AckPolicy { every: 10, ..AckPolicy::default() });
    a.set_peer(None, MOST);
    a.ask_immediate();
    assert!(!written(&mut a, true, 10));
    let mut course = course(400);
    round(&mut a, &[8; 8], &mut course);
    assert!(!a.is_due(), "nor is it asked for a frequency");
}

/// Where acknowledgements come one at a time nothing is said.
#[test]
fn nothing_is_asked_without_need() {
    let (mut a, mut course) = (asks(AckPolicy::default()), course(10_000));
    for _ in 0..50 {
        round(&mut a, &[1, 1, 2, 1, 1, 2], &mut course);
    }
    assert!(!a.is_due());
    assert_eq!((a.stats().requests, a.stats().every, a.max_ack_delay()), (0, 2, MOST));
    assert_eq!((a.stats().frames, a.stats().batches), (50 * 9, 50 * 7));
}

/// LiteQUIC's rule: from two acknowledgements a batch on, so many times fewer; below one and a half, twice as
/// many.
#[test]
fn a_busy_processor_asks_for_fewer() {
    let (mut a, mut course) = (asks(AckPolicy::default()), course(400));
    // (9·5 + 1)/10 = 4.6: 2·4.6 = 9.2, every ninth. A quarter of the 20 ms.
    round(&mut a, &[5; 9], &mut course);
    assert_eq!(agreed(&mut a, &course), Some((0, 8, 5000, 3)));
    // (9·3 + 1)/10 = 2.8: 25.2.
    round(&mut a, &[3; 9], &mut course);
    assert_eq!(agreed(&mut a, &course), Some((1, 24, 5000, 3)));
    // Between 1.5 and 2 it stays.
    round(&mut a, &[2, 2, 2, 2, 2, 2, 2, 2, 1], &mut course);
    assert_eq!(agreed(&mut a, &course), None);
    // A quarter of the window at most.
    round(&mut a, &[60; 9], &mut course);
    assert_eq!(agreed(&mut a, &course), Some((2, 99, 5000, 3)));
    course.window = 80;
    round(&mut a, &[2; 9], &mut course);
    assert_eq!(agreed(&mut a, &course), Some((3, 19, 5000, 3)), "a smaller window counts at once");
    // Half of it, down to every second.
    for (sequence, threshold) in [(4, 9), (5, 4), (6, 1)] {
        round(&mut a, &[1; 9], &mut course);
        assert_eq!(agreed(&mut a, &course), Some((sequence, threshold, 5000, 3)));
    }
    round(&mut a, &[1; 9], &mut course);
    assert_eq!(agreed(&mut a, &course), None);
    assert_eq!((a.stats().every, a.stats().requests), (2, 7));
}

/// Once a round trip, of four batches at least, and one at a time.
#[test]
fn requests_are_rare() {
    let (mut a, mut course) = (asks(AckPolicy::default()), course(4000));
    round(&mut a, &[2, 2], &mut course);
    assert!(!a.is_due(), "two datagrams that came together are no sign of anything");
    round(&mut a, &[4], &mut course);
    assert!(a.is_due(), "three batches and two");
    let first = written(&mut a, &course);
    assert!(first.is_some());
    // Within the round trip nothing more is looked at, and later nothing while that one is under way.
    for _ in 0..100 {
        (0..9).for_each(|_| a.heard());
        assert!(!a.end_batch(course.now, course.srtt));
    }
    round(&mut a, &[9; 9], &mut course);
    assert!(!a.is_due());
    a.acked(0);
    round(&mut a, &[9; 9], &mut course);
    assert_eq!(written(&mut a, &course).map(|request| request.0), Some(1));
}

#[test]
fn delays_are_within_what_the_peer_can_do() {
    for (srtt_ms, expected) in [(2, 1000), (20, 5000), (100, 25_000), (400, 25_000)] {
        let (mut a, mut course) = (asks(AckPolicy::default()), course(400));
        course.srtt = Duration::from_millis(srtt_ms);
        round(&mut a, &[9; 9], &mut course);
        assert_eq!(agreed(&mut a, &course).map(|request| request.2), Some(expected), "{srtt_ms} ms");
        // Round trips of less than half: an acknowledgement each is what is wanted.
        course.srtt /= 3;
        round(&mut a, &[2; 9], &mut course);
        let shorter = agreed(&mut a, &course).map_or(expected, |request| request.2);
        assert!(shorter <= (srtt_ms * 1000 / 12).max(1000), "{srtt_ms} ms: {shorter}");
    }
}

/// §6.2.1: a reordering threshold above that of our loss detection would hide losses from it.
#[test]
fn the_reordering_threshold_is_that_of_loss_detection() {
    let (mut a, mut course) = (asks(AckPolicy::default()), course(400));
    course.packet_threshold = 17;
    round(&mut a, &[9; 9], &mut course);
    assert_eq!(agreed(&mut a, &course).map(|request| request.3), Some(17));
    course.packet_threshold = 3;
    round(&mut a, &[2; 9], &mut course);
    assert_eq!(agreed(&mut a, &course).map(|request| request.3), Some(3));
}

#[test]
fn a_window_has_more_acknowledgements_while_repair_waits_for_news() {
    let (mut a, mut course) = (asks(AckPolicy::default()), course(127));
    (course.protected, course.srtt) = (true, Duration::from_millis(100));
    round(&mut a, &[9; 9], &mut course);
    assert!(!a.is_due(), "64 of 127 packets are every second");
    // Four in each window, and 64; what is written is one less.
    for (protected, window, every) in [(false, 800, 200), (true, 800, 12), (true, 128, 2)] {
        (course.protected, course.window) = (protected, window);
        let mut asked = None;
        for _ in 0..5 {
            round(&mut a, &[9; 9], &mut course);
            asked = agreed(&mut a, &course).or(asked);
        }
        assert_eq!(asked.map(|request| request.1 + 1), Some(every), "{protected} {window}");
    }
}

/// What comes within the millisecond that loss detection distinguishes is no news any later: a round trip of
/// 8 ms has eight.
#[test]
fn news_within_a_millisecond_is_news_in_time() {
    for (millis, protected, every) in
        [(8, true, 100), (64, true, 12), (1000, true, 12), (3, true, 200), (8, false, 200)]
    {
        let mut course = AskFacts { srtt: Duration::from_millis(millis), protected, ..course(800) };
        let (mut a, mut asked) = (asks(AckPolicy::default()), None);
        for _ in 0..6 {
            round(&mut a, &[9; 9], &mut course);
            asked = agreed(&mut a, &course).or(asked);
        }
        assert_eq!(asked.map(|request| request.1 + 1), Some(every), "{millis} ms, {protected}");
    }
}

/// §7: until it is acknowledged, the greater of the delay that held and the one in flight.
#[test]
fn timers_know_the_longest_delay_that_may_hold() {
    let ms = Duration::from_millis;
    let (mut a, mut course) = (asks(AckPolicy::default()), course(4000));
    assert_eq!(a.max_ack_delay(), MOST);
    round(&mut a, &[9; 9], &mut course);
    written(&mut a, &course);
    assert_eq!(a.max_ack_delay(), MOST, "shorter, and not known to hold");
    assert!(a.acked(0));
    assert_eq!(a.max_ack_delay(), ms(5));

    course.srtt = ms(80);
    round(&mut a, &[9; 9], &mut course);
    assert_eq!(a.max_ack_delay(), ms(5), "nothing has left");
    assert_eq!(written(&mut a, &course).map(|request| (request.0, request.2)), Some((1, 20_000)));
    assert_eq!(a.max_ack_delay(), ms(20), "longer, and may hold already");
    // Lost, as far as we know; the next one has the wish of then, and another number.
    a.lost(1);
    assert_eq!(a.max_ack_delay(), ms(20));
    course.srtt = ms(32);
    round(&mut a, &[1; 9], &mut course);
    assert_eq!(written(&mut a, &course).map(|request| (request.0, request.2)), Some((2, 8000)));
    assert_eq!(a.max_ack_delay(), ms(20));
    assert!(!a.acked(1), "old news");
    assert_eq!(a.max_ack_delay(), ms(20));
    assert!(a.acked(2));
    assert_eq!(a.max_ack_delay(), ms(8));
}

/// §8.4.
#[test]
fn another_path_is_asked_for_afresh() {
    let (mut a, mut course) = (asks(AckPolicy::default()), course(4000));
    a.moved(&course);
    assert!(!a.is_due(), "nothing was ever asked");
    round(&mut a, &[9; 9], &mut course);
    written(&mut a, &course);
    course.window = 10;
    course.srtt = Duration::from_millis(200);
    a.moved(&course);
    assert_eq!(written(&mut a, &course), Some((1, 1, 25_000, 3)));
    assert_eq!(a.max_ack_delay(), MOST, "the first request may be on its way, and so may none");
    assert!(a.acked(1));
    assert_eq!(a.max_ack_delay(), Duration::from_millis(25));
}

/// A frequency that is set is asked for once, leaves the delay as it was and heeds no window.
#[test]
fn a_fixed_frequency_is_asked_for_once() {
    for every in [1, 10, 100] {
        let policy = AckPolicy { every, adaptive: false, ..AckPolicy::default() };
        let (mut a, mut course) = (asks(policy), course(10));
        a.heard();
        assert!(a.end_batch(course.now, course.srtt), "with the first acknowledgement");
        a.look(&course);
        assert_eq!(agreed(&mut a, &course), Some((0, every - 1, 40_000, 3)));
        for _ in 0..10 {
            round(&mut a, &[9; 9], &mut course);
            assert!(!a.is_due());
        }
        assert_eq!((a.max_ack_delay(), a.stats().every), (MOST, every));
    }
    let mut usual = asks(AckPolicy { adaptive: false, ..AckPolicy::default() });
    round(&mut usual, &[9; 9], &mut course(400));
    assert!(!usual.is_due(), "that is what it does anyway");
}

/// Adaptive from another start: within a quarter of the window, and back to every second packet.
#[test]
fn a_start_that_is_set_adapts() {
    let policy = AckPolicy { every: 100, ..AckPolicy::default() };
    let (mut a, mut course) = (asks(policy), course(10));
    a.heard();
    assert!(a.end_batch(course.now, course.srtt));
    a.look(&course);
    assert!(!a.is_due(), "two, with a window of ten");
    course.window = 200;
    round(&mut a, &[2; 9], &mut course);
    assert_eq!(agreed(&mut a, &course).map(|request| request.1), Some(49));
    course.window = 4000;
    round(&mut a, &[1; 9], &mut course);
    assert_eq!(agreed(&mut a, &course).map(|request| request.1), Some(24));
}

proptest! {
    /// Whatever is heard, a request is a good one.
    #[test]
    fn requests_are_valid(
        every in 1u64..300,
        adaptive in any::<bool>(),
        rounds in prop::collection::vec((1u32..200, 1usize..20, 2u64..5000, 1u64..2_000_000, 0u8..4), 1..60),
    ) {
        let (mut a, mut course) = (asks(AckPolicy { merging: true, every, adaptive }), course(10));
        let mut next = 0;
        for (frames, batches, window, srtt_us, fate) in rounds {
            (course.window, course.srtt) = (window, Duration::from_micros(srtt_us));
            round(&mut a, &vec![frames; batches], &mut course);
            if let Some((sequence, threshold, delay_us, _)) = written(&mut a, &course) {
                prop_assert_eq!(sequence, next);
                next += 1;
                let delay = Duration::from_micros(delay_us);
                prop_assert!((LEAST..=MOST).contains(&delay));
                prop_assert!(a.max_ack_delay() >= delay);
                prop_assert!(!adaptive || threshold < (window / 4).max(2));
                match fate {
                    0 => a.lost(sequence),
                    1 => a.moved(&course),
                    2 => {}
                    _ => prop_assert!(a.acked(sequence)),
                }
            }
        }
    }
}
