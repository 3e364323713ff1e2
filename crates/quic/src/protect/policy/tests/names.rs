use proptest::prelude::*;
use quickset_wire::{Scheme, Schemes};

use super::super::{CustomPolicy, Goal, Protection};
use super::*;

#[test]
fn names_read_back() {
    for (text, value, schemes) in [
        ("none", Protection::None, &[][..]),
        ("adaptive", Protection::Adaptive(None), &[Scheme::ReedSolomon, Scheme::Rlc]),
        ("adaptive:bulk", Protection::Adaptive(Some(Goal::Bulk)), &[Scheme::Rlc]),
        ("adaptive:screen", Protection::Adaptive(Some(Goal::Screen)), &[Scheme::ReedSolomon, Scheme::Rlc]),
        ("adaptive:messages", Protection::Adaptive(Some(Goal::Messages)), &[Scheme::Rlc]),
        ("sr", Protection::SelectiveRepeat, &[]),
        ("fixed:10", Protection::Fixed(10), &[Scheme::Rlc]),
        ("ac-rlnc", Protection::AcRlnc(1.0), &[Scheme::Rlc]),
        ("ac-rlnc:2.5", Protection::AcRlnc(2.5), &[Scheme::Rlc]),
        ("bulk", Protection::Bulk, &[Scheme::Rlc]),
        ("buffer", Protection::Buffer(1.0), &[Scheme::Rlc]),
        ("buffer:0", Protection::Buffer(0.0), &[Scheme::Rlc]),
        ("messages", Protection::Messages(None), &[Scheme::Rlc]),
        ("messages:25ms", Protection::Messages(Some(ms(25))), &[Scheme::Rlc]),
        ("messages:1500us", Protection::Messages(Some(Duration::from_micros(1500))), &[Scheme::Rlc]),
        ("rs:105/100", Protection::ReedSolomon { n0: 105, k0: 100, stride: 1 }, &[Scheme::ReedSolomon]),
        (
            "rs:105/100:stride=4",
            Protection::ReedSolomon { n0: 105, k0: 100, stride: 4 },
            &[Scheme::ReedSolomon],
        ),
        ("ldpc:110/100", Protection::Ldpc { n0: 110, k0: 100 }, &[Scheme::Ldpc]),
        ("xor:10", Protection::Xor(10), &[Scheme::Xor]),
        ("xor2d:20x40", Protection::Xor2d { rows: 20, columns: 40 }, &[Scheme::Grid]),
        ("tum:3", Protection::TumBulk(3), &[Scheme::Rlc]),
        ("tum:3:80ms", Protection::TumIncremental(3, ms(80)), &[Scheme::Rlc]),
        ("tum:1:2s", Protection::TumIncremental(1, ms(2000)), &[Scheme::Rlc]),
    ] {
        assert_eq!(text.parse(), Ok(value.clone()));
        assert_eq!(value.to_string(), text);
        let wanted = schemes.iter().fold(Schemes::default(), |all, scheme| all.with(*scheme));
        assert_eq!(value.schemes(), wanted, "{text}");
        assert_eq!(value.policy().is_none(), value == Protection::None);
        assert_eq!(value.splits_evenly(), text.contains("messages"));
        let (name, _) = text.split_once(':').unwrap_or((text, ""));
        let shown = Protection::FORMS.split([' ', ',', '[', ':']).any(|word| word == name);
        assert!(shown, "{name} is not in the list that errors show");
    }
}

#[test]
fn policies_use_the_schemes_they_say() {
    for name in
        ["adaptive", "fixed:1", "bulk", "messages", "rs:2/1", "ldpc:2/1", "xor:1", "xor2d:2x2", "tum:1"]
    {
        let protection: Protection = name.parse().unwrap();
        let (mut scene, mut policy) = (Scene::new(), policy(name));
        scene.ends_in(0);
        for usual in [1, 1, 20, 20] {
            for _ in 0..usual {
                let lane = scene.send(&mut *policy, 1).unwrap();
                assert!(protection.schemes().has(lane.code.scheme()), "{name} {lane:?}");
            }
            scene.boundary(Boundary::Fence);
            scene.ask(&mut *policy, Kind::Block);
        }
    }
}

#[test]
fn slips_are_explained() {
    for (text, why) in [
        ("", "none of them"),
        ("ADAPTIVE", "none of them"),
        ("fec", "none of them"),
        ("custom", "none of them"),
        ("none:1", "too few or too many"),
        ("fixed", "too few or too many"),
        ("rs", "too few or too many"),
        ("rs:2/1:stride=2:stride=3", "too few or too many"),
        ("tum:1:2ms:3", "too few or too many"),
        ("adaptive:video", "its goal"),
        ("fixed:0", "not whole, zero or too large"),
        ("fixed:-1", "not whole, zero or too large"),
        ("fixed:+1", "not whole, zero or too large"),
        ("fixed:1.5", "not whole, zero or too large"),
        ("xor:65536", "not whole, zero or too large"),
        ("xor2d:20x", "not whole, zero or too large"),
        ("xor2d:20", "no ROWSxCOLUMNS"),
        ("ac-rlnc:-1", "its c"),
        ("ac-rlnc:nan", "its c"),
        ("ac-rlnc:inf", "its c"),
        ("buffer:", "its c"),
        ("rs:105", "no N/K"),
        ("rs:100/105", "below its K"),
        ("rs:105/100:4", "no stride=D"),
        ("messages:25", "its time"),
        ("messages:ms", "its time"),
        ("messages:2.5ms", "its time"),
        ("tum:3:99999999999999999999s", "its time"),
    ] {
        let error = text.parse::<Protection>().unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("write none, adaptive"), "{text}: {error}");
    }
}

#[test]
fn an_application_brings_its_own() {
    let fixed: Protection = "fixed:2".parse().unwrap();
    let schemes = Schemes::default().with(Scheme::Rlc);
    let custom = Protection::Custom(CustomPolicy::new(schemes, move || fixed.policy().unwrap()));
    let (mut scene, mut policy) = (Scene::new(), custom.policy().unwrap());
    scene.send(&mut *policy, 2);
    assert_eq!(scene.ask(&mut *policy, Kind::Window), repair(1));
    assert_eq!(custom.clone(), custom);
    let other = CustomPolicy::new(schemes, || "bulk".parse::<Protection>().unwrap().policy().unwrap());
    assert_ne!(Protection::Custom(other), custom);
    assert_eq!((custom.schemes(), custom.to_string().as_str()), (schemes, "custom"));
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        (a, b, stride) in (1..=u32::MAX, 1..=u32::MAX, 1..=u16::MAX),
        c in 0.0..1e9f64,
        ns in 0..=u64::MAX,
    ) {
        let span = Duration::from_nanos(ns);
        let (n0, k0) = (a.max(b), a.min(b));
        for value in [
            Protection::Fixed(a),
            Protection::AcRlnc(c),
            Protection::Buffer(c),
            Protection::Messages(Some(span)),
            Protection::ReedSolomon { n0, k0, stride },
            Protection::TumIncremental(b, span),
        ] {
            let text = value.to_string();
            prop_assert_eq!(text.parse(), Ok(value), "{}", text);
        }
    }

    #[test]
    fn no_text_panics(text in "(rs|tum|messages|xor2d|ac-rlnc|fixed)?:?\\PC{0,12}") {
        let _ = text.parse::<Protection>();
    }
}

/// What errors and help show is read, once numbers stand for the parameters.
#[test]
fn forms_are_read() {
    let forms = Protection::FORMS.replace(" or ", ", ");
    for form in forms.split(", ") {
        let (shown, _) = form.split_once('[').unwrap_or((form, ""));
        let numbers = [("N/K", "5/4"), (":N", ":7"), (":B", ":2"), ("DEPTH", "4"), ("ROWSxCOLUMNS", "3x4")];
        let text = numbers.iter().fold(shown.to_owned(), |text, (name, number)| text.replace(name, number));
        let read: Protection = text.parse().unwrap_or_else(|error| panic!("{form}: {text}: {error}"));
        assert_eq!(read.to_string(), text, "{form}");
    }
}
