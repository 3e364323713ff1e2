//! Rates that change, against naive servers.

use std::collections::VecDeque;
use std::fmt::Write;

use proptest::prelude::*;
use quickset_base::{Ecn, Time};
use quickset_sim::{DropReason, Fate, Link, LinkSpec, Rate, RateTrace};

use crate::{Packet, arrival, carry, file, link, plain, spec};

/// mahimahi's link, byte by byte: at each opportunity 1504 bytes of what waits, and the rest of it is gone.
fn byte_by_byte(opportunities_ms: &[u64], packets: &[Packet]) -> Vec<u64> {
    let mut left = vec![0; packets.len()];
    let (mut queue, mut next) = (VecDeque::new(), 0);
    let period = *opportunities_ms.last().expect("one at least");
    'cycles: for cycle in 0.. {
        for ms in opportunities_ms {
            let now = (cycle * period + ms) * 1_000_000;
            while next < packets.len() && packets[next].0 < now {
                // The TUN header, and the packet.
                queue.extend(std::iter::repeat_n(next, packets[next].1 + 4));
                next += 1;
            }
            for _ in 0..1504 {
                if let Some(n) = queue.pop_front() {
                    left[n] = now;
                }
            }
            if next == packets.len() && queue.is_empty() {
                break 'cycles;
            }
        }
    }
    left
}

fn traced(text: &str) -> LinkSpec {
    LinkSpec {
        rate: Rate::Trace(RateTrace::parse("text", text).expect("a recording")),
        ..LinkSpec::default()
    }
}

#[test]
fn opportunities_are_taken_shared_and_missed() {
    let path = file("opportunities.trace", "# two at 3 ms\n3\n3\n10\n");
    let text = format!("rate=trace:{path} delay=1ms");
    assert_eq!(spec(&text).to_string(), text);
    let sizes = [(0, 1500), (1, 700), (2, 796), (3, 1), (2_999_999, 1), (3_000_000, 3000), (3_000_001, 1)];
    let packets: Vec<Packet> = sizes.iter().map(|(ns, size)| (*ns, *size, Ecn::NotEct)).collect();
    let out: Vec<u64> = carry(&mut link(&text, 1), &packets).iter().filter_map(arrival).collect();
    // 1500 + 4 fill the first, 704 + 800 the second; two small ones go at 10, with 1494 of the next one;
    // at 13 come 1504 of it, and its last six bytes leave with the second opportunity then.
    assert_eq!(out, [4, 4, 4, 11, 11, 14, 14].map(|ms| ms * 1_000_000));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_trace_of_opportunities_is_served_byte_by_byte(
        steps in prop::collection::vec(0u64..12, 1..40),
        packets in prop::collection::vec((0u64..40_000_000, 1usize..3000), 1..80),
        codel: bool,
    ) {
        let mut at = 0;
        let mut times: Vec<u64> = steps.iter().map(|step| { at += step; at }).collect();
        // The period is above zero.
        times.push(at + 1);
        let text = times.iter().map(u64::to_string).collect::<Vec<_>>().join("\n");
        let mut now = 0;
        let packets: Vec<Packet> = packets
            .iter()
            .enumerate()
            // Often together, often at whole milliseconds.
            .map(|(i, (gap, size))| {
                now += if i % 3 == 0 { gap / 1_000_000 * 1_000_000 } else { gap / 40 };
                (now, *size, Ecn::NotEct)
            })
            .collect();
        let mut spec = traced(&text);
        if codel {
            spec.queue = "codel:1000s,1000s,9GB".parse().unwrap();
        }
        let out: Vec<u64> = carry(&mut Link::new(spec, 1, 0), &packets).iter().filter_map(arrival).collect();
        prop_assert_eq!(out, byte_by_byte(&times, &packets));
    }
}

/// The work that a server can have done by `t`, in bits times nanoseconds: the integral of its rate.
fn work(steps: &[(u64, u64)], period: Option<u64>, dark: &dyn Fn(u64) -> u64, t: u64) -> u128 {
    // Between two times nothing is done in the dark, which `dark` counts up to a time.
    let until = |t: u64| -> u128 {
        let ends = steps.iter().skip(1).map(|step| step.0).chain([u64::MAX]);
        steps.iter().zip(ends).filter(|(step, _)| step.0 < t).fold(0, |sum, (step, end)| {
            let end = end.min(t);
            let light = (end - step.0) - (dark(end) - dark(step.0));
            sum + u128::from(light) * u128::from(step.1)
        })
    };
    match period {
        None => until(t),
        Some(period) => u128::from(t / period) * until(period) + until(t % period),
    }
}

/// When each packet has left: the first nanosecond by which the work for it is done.
fn by_integral(work: impl Fn(u64) -> u128, packets: &[Packet]) -> Vec<u64> {
    let mut done = 0;
    let leaves = |(ns, size, _): &Packet| {
        done = work(*ns).max(done) + *size as u128 * 8_000_000_000;
        let (mut early, mut late) = (*ns, 1 << 50);
        while early < late {
            let middle = early + (late - early) / 2;
            if work(middle) >= done { late = middle } else { early = middle + 1 }
        }
        late
    };
    packets.iter().map(leaves).collect()
}

fn spread(packets: &[(u64, usize)]) -> Vec<Packet> {
    let mut now = 0;
    packets
        .iter()
        .map(|(gap, size)| {
            now += gap;
            (now, *size, Ecn::NotEct)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn steps_are_integrated_exactly(
        steps in prop::collection::vec((1u64..2_000_000_000, 0u64..3_000_000), 1..12),
        repeats in prop::option::of(1_000_000u64..1_000_000_000),
        packets in prop::collection::vec((0u64..400_000_000, 1usize..1600), 1..60),
    ) {
        let mut at = 0;
        let mut course = Vec::new();
        for (length, bps) in &steps {
            course.push((at, *bps));
            at += length;
        }
        // Something leaves in the end.
        course.last_mut().unwrap().1 += 1000;
        let period = repeats.map(|more| course.last().unwrap().0 + more);
        let mut text = String::new();
        let mut line = |ns: u64, what: &dyn std::fmt::Display| {
            writeln!(text, "{}.{:09} {what}", ns / 1_000_000_000, ns % 1_000_000_000).unwrap();
        };
        for (ns, bps) in &course {
            // Nothing has no unit.
            if *bps == 0 { line(*ns, &0) } else { line(*ns, &format!("{bps}bit")) }
        }
        if let Some(period) = period {
            line(period, &"repeat");
        }
        let packets = spread(&packets);
        let out: Vec<u64> =
            carry(&mut Link::new(traced(&text), 1, 0), &packets).iter().filter_map(arrival).collect();
        prop_assert_eq!(out, by_integral(|t| work(&course, period, &|_| 0, t), &packets));
    }

    #[test]
    fn changes_and_blackouts_are_integrated_exactly(
        first in 1_000u64..3_000_000,
        changes in prop::collection::vec((0u64..3_000_000_000, 1_000u64..3_000_000), 0..5),
        once in (0u64..2_000_000_000, 1u64..900_000_000),
        every in (0u64..100_000_000, 1u64..30_000_000, 1u64..70_000_000),
        packets in prop::collection::vec((0u64..100_000_000, 1usize..1600), 1..60),
    ) {
        let mut changes = changes;
        changes.sort_unstable();
        changes.dedup_by_key(|change| change.0);
        changes.retain(|change| change.0 > 0);
        let mut text = format!("rate={first}bit blackout={}ns+{}ns", once.0, once.1);
        let period = every.1 + every.2;
        write!(text, " blackout={}ns+{}ns,every={period}ns", every.0, every.1).unwrap();
        for (at, bps) in &changes {
            write!(text, " at={at}ns:rate={bps}bit").unwrap();
        }
        // Nanoseconds of darkness by `t`; where both are dark it counts once.
        let periodic = |t: u64| match t.checked_sub(every.0) {
            None => 0,
            Some(since) => since / period * every.1 + (since % period).min(every.1),
        };
        let (begin, end) = (once.0, once.0 + once.1);
        let dark = |t: u64| {
            let inside = |t: u64| periodic(t.clamp(begin, end)) - periodic(begin);
            periodic(t) + (t.clamp(begin, end) - begin) - inside(t)
        };
        let course: Vec<_> = std::iter::once((0, first)).chain(changes).collect();
        let packets = spread(&packets);
        let out: Vec<u64> = carry(&mut link(&text, 1), &packets).iter().filter_map(arrival).collect();
        prop_assert_eq!(out, by_integral(|t| work(&course, None, &dark, t), &packets), "{}", text);
    }
}

#[test]
fn a_long_pause_costs_nothing() {
    // Ages of a millisecond's period each: to walk through them would take forever.
    for text in ["1", "0 1mbit\n0.001 repeat"] {
        let mut link = Link::new(traced(text), 1, 0);
        let late = 1 << 63;
        let out = arrival(&carry(&mut link, &plain([0, late], 121))[1]).unwrap();
        assert!(out > late && out - late <= 1_000_000, "{out}");
    }
}

#[test]
fn a_rate_that_ends_at_zero_never_delivers_the_rest() {
    let mut link = Link::new(traced("0 8kbit\n1 0"), 1, 0);
    let fates = carry(&mut link, &plain([0, 0, 0], 500));
    assert_eq!(fates.iter().filter_map(arrival).collect::<Vec<_>>(), [500_000_000, 1_000_000_000, u64::MAX]);
    let spec = LinkSpec { queue: "codel:1ms,10ms,800B".parse().unwrap(), ..traced("0 8kbit\n1 0") };
    let mut link = Link::new(spec, 1, 0);
    // The second waits for ever, the third finds no room.
    let sent: Vec<_> =
        [0, 1, 2].iter().map(|_| link.send(Time::from_millis(990), 400, Ecn::NotEct).known()).collect();
    assert_eq!(sent[0].and_then(|fate| arrival(&fate)), Some(u64::MAX));
    assert_eq!((sent[1], sent[2]), (None, Some(Fate::Dropped(DropReason::Overflow))));
    assert_eq!((link.due(), link.waiting()), (None, 1));
    // Until a program brings the link back to life.
    link.change(crate::spec("rate=8mbit"));
    let told = link.poll(Time::from_millis(5000)).map(|(n, fate)| (n, arrival(&fate)));
    assert_eq!(told, Some((1, Some(5_000_400_000))));
}
