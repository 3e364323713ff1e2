//! Any link: what holds whatever it is.

use proptest::prelude::*;
use quickset_base::{Ecn, Time};
use quickset_sim::{DropReason, Fate, Link, LinkSpec, Reorder, SendResult};

use crate::{Packet, carry, file, spec};

fn text() -> impl Strategy<Value = String> {
    let opportunities = file("any.opportunities", "1\n1\n4\n9\n");
    let steps = file("any.steps", "0 2mbit\n0.3 0\n0.35 100kbit\n0.8 repeat\n");
    let bits = file("any.bits", "0001000011");
    let rate = prop_oneof![
        Just("unlimited".to_owned()),
        (10_000u64..1_000_000_000).prop_map(|bps| format!("{bps}bit")),
        Just(format!("trace:{opportunities}")),
        Just(format!("trace:{steps}")),
    ];
    let queue = prop_oneof![
        Just("unlimited".to_owned()),
        (0u64..100_000).prop_map(|n| format!("{n}B")),
        (0u64..50).prop_map(|n| format!("{n}packets")),
        (1u64..100_000).prop_map(|n| format!("{n}us")),
        (0u64..10_000).prop_map(|n| format!("mark:{n}B,100kB")),
        (0u64..10_000).prop_map(|n| format!("mark:{n}us,100kB")),
        (0u64..10_000, any::<bool>())
            .prop_map(|(n, ecn)| format!("red{}:{n}B,30kB,10%,100kB", if ecn { "-ecn" } else { "" })),
        (0u64..10_000, 0u64..100_000, any::<bool>())
            .prop_map(|(t, i, ecn)| format!("codel{}:{t}us,{i}us,100kB", if ecn { "-ecn" } else { "" })),
    ];
    let loss = prop_oneof![
        Just("none".to_owned()),
        (0u32..100).prop_map(|p| format!("{p}%")),
        Just("ge:5%,30%,90%,1%,7".to_owned()),
        Just("gilbert:5%,30%,0.1".to_owned()),
        (1u64..1000, 1u64..1000).prop_map(|(good, bad)| format!("get:{good}us,{bad}us,95%,0.5%")),
        (1u64..100, 0u64..9, 0u64..9).prop_map(|(n, l, j)| format!("burst:{},{l},{j}", n + l + j)),
        Just("list:0,3-5".to_owned()),
        Just(format!("recorded:{bits}")),
    ];
    let jitter = prop_oneof![
        Just("none".to_owned()),
        (1u64..9000).prop_map(|n| format!("uniform:{n}us")),
        (0u64..9000, 0u64..9000).prop_map(|(m, d)| format!("normal:{m}us,{d}us")),
        (0u64..9000).prop_map(|n| format!("exponential:{n}us")),
        (0u64..9000, 2u32..9).prop_map(|(n, shape)| format!("pareto:{n}us,{shape}")),
    ];
    let reorder = prop_oneof![
        Just("no".to_owned()),
        Just("yes".to_owned()),
        (0u32..100, 0u64..9000).prop_map(|(p, us)| format!("{p}%,{us}us")),
    ];
    let ms = 0u64..1000;
    let event = prop_oneof![
        (ms.clone(), 1u64..300).prop_map(|(at, length)| format!("blackout={at}ms+{length}ms")),
        (ms.clone(), 1u64..300, 1u64..300)
            .prop_map(|(at, length, light)| format!("outage={at}ms+{length}ms,every={}ms", length + light)),
        (ms.clone(), 1u64..300, 1u64..300)
            .prop_map(|(at, length, light)| format!("blackout={at}ms+{length}ms,every={}ms", length + light)),
        (ms.clone(), 1u64..300, 1u64..300).prop_map(|(at, length, kb)| format!(
            "handover={at}ms+{length}ms:rate={kb}kbit,delay={length}us"
        )),
        (ms.clone(), rate.clone()).prop_map(|(at, rate)| format!("at={at}ms:rate={rate},delay=3ms")),
        (ms, 100u32..1500).prop_map(|(at, mtu)| format!("at={at}ms:mtu={mtu}")),
    ];
    let rest = (0u32..30, 0u32..30, 100u32..2000, 0u32..50, 0u64..100_000);
    (rate, queue, loss, jitter, reorder, prop::collection::vec(event, 0..4), rest).prop_map(
        |(rate, queue, loss, jitter, reorder, events, (corrupt, duplicate, mtu, overhead, delay))| {
            format!(
                "rate={rate} queue={queue} loss={loss} jitter={jitter} reorder={reorder} corrupt={corrupt}% \
                 duplicate={duplicate}% mtu={mtu} overhead={overhead} delay={delay}us {}",
                events.join(" ")
            )
        },
    )
}

fn traffic() -> impl Strategy<Value = Vec<Packet>> {
    let packet = (0u64..3_000_000, any::<bool>(), 1usize..2000, 0usize..4);
    prop::collection::vec(packet, 1..250).prop_map(|packets| {
        let mut now = 0;
        let packet = |(gap, burst, size, ecn): (u64, bool, usize, usize)| {
            now += if burst { 0 } else { gap };
            (now, size, [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][ecn])
        };
        packets.into_iter().map(packet).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_link_keeps_its_books_its_order_and_its_word(text in text(), packets in traffic(), seed: u64) {
        let spec = spec(&text);
        prop_assert_eq!(spec.to_string().parse::<LinkSpec>(), Ok(spec.clone()));
        let mut link = Link::new(spec.clone(), seed, 0);
        let fates = carry(&mut link, &packets);

        // Equal seeds, equal fates.
        prop_assert_eq!(&carry(&mut Link::new(spec.clone(), seed, 0), &packets), &fates);

        // Who asks late learns late, and nothing else.
        let mut lazy = Link::new(spec.clone(), seed, 0);
        let mut later = vec![None; packets.len()];
        for (n, (ns, size, ecn)) in packets.iter().enumerate() {
            if let SendResult::Known(fate) = lazy.send(Time::from_nanos(*ns), *size, *ecn) {
                later[n] = Some(fate);
            }
        }
        let mut order = Vec::new();
        while let Some((ordinal, fate)) = lazy.poll(Time::from_nanos(u64::MAX - 1)) {
            later[ordinal as usize] = Some(fate);
            order.push(ordinal);
        }
        prop_assert!(order.is_sorted());
        prop_assert_eq!(later, fates.iter().copied().map(Some).collect::<Vec<_>>());
        prop_assert_eq!(lazy.counts(), link.counts());

        // Never early, in order where that is promised.
        let mut last = Time::ZERO;
        for ((ns, _, _), fate) in packets.iter().zip(&fates) {
            for delivery in fate.deliveries() {
                prop_assert!(delivery.at >= Time::from_nanos(*ns));
                prop_assert!(spec.reorder != Reorder::No || delivery.at >= last);
                last = delivery.at;
            }
        }

        let counts = link.counts();
        let dropped = |why| fates.iter().filter(|fate| **fate == Fate::Dropped(why)).count() as u64;
        let reasons = [DropReason::Oversized, DropReason::Overflow, DropReason::Aqm, DropReason::Loss];
        let expected = [counts.oversized, counts.overflowed, counts.aqm, counts.lost];
        prop_assert_eq!(reasons.map(dropped), expected);
        prop_assert_eq!(counts.sent, packets.len() as u64);
        prop_assert_eq!(counts.sent, expected.iter().sum::<u64>() + counts.passed);
        let arrivals: Vec<_> = fates.iter().flat_map(|fate| fate.deliveries()).collect();
        prop_assert_eq!(counts.passed + counts.duplicated, arrivals.len() as u64);
        prop_assert_eq!(counts.corrupted, arrivals.iter().filter(|d| d.damage.is_some()).count() as u64);
        let changed = |(packet, fate): (&Packet, &Fate)| {
            fate.deliveries().next().is_some_and(|delivery| delivery.ecn != packet.2)
        };
        // What is marked may still be lost.
        prop_assert!(packets.iter().zip(&fates).filter(|both| changed(*both)).count() as u64 <= counts.marked);
    }

    #[test]
    fn a_link_that_changes_under_way_loses_nobody(
        texts in prop::collection::vec(text(), 2..5), packets in traffic(), seed: u64,
    ) {
        let mut link = Link::new(spec(&texts[0]), seed, 0);
        let (mut fates, mut last) = (0, None);
        let mut now = Time::ZERO;
        for (n, (ns, size, ecn)) in packets.iter().enumerate() {
            now = Time::from_nanos(*ns);
            if n % 40 == 39 {
                link.change(spec(&texts[n / 40 % texts.len()]));
            }
            if n % 3 == 0 {
                while let Some((ordinal, _)) = link.poll(now) {
                    prop_assert!(last.replace(ordinal).is_none_or(|last| last < ordinal));
                    fates += 1;
                }
            }
            if let SendResult::Known(fate) = link.send(now, *size, *ecn) {
                prop_assert!(fate.deliveries().all(|delivery| delivery.at >= now));
                fates += 1;
            }
        }
        link.change(spec("perfect"));
        while let Some((_, fate)) = link.poll(now.max(Time::from_millis(1_000_000_000))) {
            prop_assert!(fate.deliveries().all(|delivery| delivery.at >= now));
            fates += 1;
        }
        prop_assert_eq!((fates, link.waiting()), (packets.len(), 0));
    }

    #[test]
    fn no_text_panics(text in "((rate|queue|loss|jitter|reorder|at|blackout|outage|handover|mtu)=[a-z0-9:.,+=%]{0,24} ?){1,3}") {
        if let Ok(spec) = text.parse::<LinkSpec>() {
            prop_assert_eq!(spec.to_string().parse::<LinkSpec>(), Ok(spec.clone()));
            let mut link = Link::new(spec, 1, 0);
            let _ = link.send(Time::ZERO, 1, Ecn::NotEct);
        }
    }
}
