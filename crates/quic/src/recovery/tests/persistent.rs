//! Persistent congestion.

use super::*;

/// RFC 9002 §7.6.3: packets at 0 and 1 s acknowledged, then seven lost; the period is six seconds.
/// RFC 9002 §7.6.1, §7.6.2.
#[test]
fn persistent_congestion_as_in_the_example() {
    let run = |acked_between: bool| {
        let mut r = recovery(Side::Client);
        r.set_peer(Duration::ZERO);
        send(&mut r, Space::Data, 1, ms(0), &[]);
        ack(&mut r, Space::Data, &[(1, 1)], ms(1200));
        // Samples that bring the period to 6 s: 3·(smoothed + 4·var) = 3·2 s.
        let mut at = 1200;
        let mut n = 2;
        while r.persistent_period() > Duration::from_millis(6100) {
            send(&mut r, Space::Data, n, ms(at), &[]);
            ack(&mut r, Space::Data, &[(n, n)], ms(at + 1200));
            at += 1200;
            n += 1;
        }
        let period = r.persistent_period();
        let first = n;
        for i in 0..7 {
            send(&mut r, Space::Data, first + i, ms(at) + period * (i as u32) / 6, &[]);
        }
        let last = ms(at) + period;
        for i in 7..11 {
            send(&mut r, Space::Data, first + i, last + 100 * MS, &[]);
        }
        let top = (first + 10, first + 10);
        let now = last + 1300 * MS;
        if acked_between {
            ack(&mut r, Space::Data, &[top, (first + 3, first + 3)], now)
        } else {
            ack(&mut r, Space::Data, &[top], now)
        }
    };
    let out = run(false);
    assert!(out.persistent);
    assert!(out.lost_packets.len() >= 7);
    assert!(!run(true).persistent, "one was acknowledged in between");
}

#[test]
fn persistent_congestion_needs_a_sample_before() {
    let mut r = recovery(Side::Client);
    for n in 0..10 {
        send(&mut r, Space::Data, n, ms(n * 10_000), &[]);
    }
    let out = ack(&mut r, Space::Data, &[(9, 9)], ms(90_050));
    assert_eq!(out.lost_packets.len(), 9);
    assert!(!out.persistent, "RFC 9002 §7.6.2: what was sent before the first sample does not count");
}

/// RFC 9002 §7.6.2: what the news of the first loss came with left between the two.
#[test]
fn single_losses_of_two_bursts_are_no_persistent_congestion() {
    let mut r = recovery(Side::Client);
    send(&mut r, Space::Data, 0, ms(0), &[]);
    ack(&mut r, Space::Data, &[(0, 0)], ms(100));
    for (first, at) in [(1, 1000), (3, 60_000)] {
        send(&mut r, Space::Data, first, ms(at), &[]);
        send(&mut r, Space::Data, first + 1, ms(at), &[]);
        ack(&mut r, Space::Data, &[(first + 1, first + 1)], ms(at + 100));
        let mut out = SettledPackets::default();
        assert_eq!(r.on_time(ms(at + 200), true, &mut out), TimerOutcome::Lost(Space::Data));
        assert_eq!((numbers(&out.lost_packets), out.persistent), (vec![first], false));
    }
    assert!(r.persistent_period() < Duration::from_secs(59));
}

/// RFC 9002 §7.6.2: of all spaces, whichever is heard of first.
#[test]
fn what_another_space_got_through_is_no_persistent_congestion() {
    for data_first in [true, false] {
        let mut r = Recovery::new(Side::Client, Duration::from_millis(100));
        send(&mut r, Space::Handshake, 0, ms(0), &[]);
        ack(&mut r, Space::Handshake, &[(0, 0)], ms(100));
        for (n, at) in [(1, 200), (2, 60_000), (3, 60_001), (4, 60_001), (5, 60_001)] {
            send(&mut r, Space::Handshake, n, ms(at), &[]);
            if n == 1 && data_first {
                send(&mut r, Space::Data, 0, ms(500), &[]);
                ack(&mut r, Space::Data, &[(0, 0)], ms(600));
            }
        }
        let out = ack(&mut r, Space::Handshake, &[(5, 5)], ms(60_101));
        assert_eq!((numbers(&out.lost_packets), out.persistent), (vec![1, 2], !data_first));
    }
}
