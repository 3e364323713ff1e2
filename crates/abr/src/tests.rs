use proptest::prelude::*;

use super::*;

#[test]
fn names_are_read_back() {
    for algorithm in RuleName::ALL {
        assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        assert_eq!(algorithm.name().to_uppercase().parse(), Ok(algorithm));
    }
    let error = "bolla".parse::<RuleName>().expect_err("no such rule").to_string();
    assert!(error.contains("bolla") && error.contains("lol+"), "{error}");
}

fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        (0..100_000_u64).prop_map(Duration::from_millis),
        any::<Duration>()
    ]
}

#[derive(Clone, Debug)]
enum Told {
    Arrived(SegmentDownload),
    Interrupted(Interruption),
    Asked(PlayerState),
}

fn told() -> impl Strategy<Value = Told> {
    let bytes = prop_oneof![Just(0), Just(u64::MAX), any::<u32>().prop_map(u64::from)];
    let quality = prop_oneof![0..9_usize, Just(usize::MAX)];
    let arrived = (quality.clone(), bytes, [time(), time(), time(), time(), time()]).prop_map(
        |(quality, bytes, [media, buffer, requested, first_byte, finished])| {
            Told::Arrived(SegmentDownload { quality, bytes, media, buffer, requested, first_byte, finished })
        },
    );
    let rate = prop_oneof![Just(1.0), any::<f64>()];
    let times = [time(), time(), time(), time()];
    let asked = (times, quality, proptest::option::of(time()), rate).prop_map(
        |([now, buffer, buffer_target, segment], current, latency, rate)| {
            Told::Asked(PlayerState { now, buffer, buffer_target, current, segment, latency, rate })
        },
    );
    let interrupted = prop_oneof![Just(Interruption::Stall), Just(Interruption::Seek)];
    prop_oneof![arrived, interrupted.prop_map(Told::Interrupted), asked]
}

proptest! {
    /// Whatever a rule is told, in whatever order, its choice is on the ladder.
    #[test]
    fn nothing_leads_off_the_ladder(
        mut bitrates in proptest::collection::btree_set(1..=u64::MAX, 1..9),
        small in any::<bool>(),
        tale in proptest::collection::vec(told(), 0..60),
        paper in any::<bool>(),
    ) {
        if small {
            bitrates = (1..=bitrates.len() as u64).collect();
        }
        let ladder = Ladder::new(bitrates.into_iter().collect::<Vec<_>>()).expect("a set ascends");
        let mut rules: Vec<Box<dyn Rule + Send>> =
            RuleName::ALL.iter().map(|a| a.start(ladder.clone(), 1)).collect();
        if paper {
            rules.push(Box::new(Dynamic::new(ladder.clone(), Reading::Paper)));
            rules.push(Box::new(Bola::new(ladder.clone(), Reading::Paper)));
            rules.push(Box::new(L2a::new(ladder.clone(), Reading::Paper)));
            rules.push(Box::new(LolPlus::new(ladder.clone(), Reading::Paper, 1)));
        }
        for rule in &mut rules {
            for told in &tale {
                match told {
                    Told::Arrived(download) => rule.arrived(download),
                    Told::Interrupted(by) => rule.interrupted(*by),
                    Told::Asked(state) => prop_assert!(rule.choose(state).quality <= ladder.top(), "{rule:?}"),
                }
            }
        }
    }
}
