use proptest::prelude::*;
use quickset_quic::policy::{CustomPolicy, Scheme, Schemes};
use quickset_quic::{Goal, Protection, ProtectionError};

use super::*;
use crate::{FORMS, PublishedPolicy, read};

#[test]
fn names_read_back() {
    for (text, value, schemes) in [
        ("sr", PublishedPolicy::SelectiveRepeat, None),
        ("fixed:10", PublishedPolicy::Fixed(10), Some(Scheme::Rlc)),
        ("ac-rlnc", PublishedPolicy::AcRlnc(1.0), Some(Scheme::Rlc)),
        ("ac-rlnc:2.5", PublishedPolicy::AcRlnc(2.5), Some(Scheme::Rlc)),
        ("bulk", PublishedPolicy::Bulk, Some(Scheme::Rlc)),
        ("buffer", PublishedPolicy::Buffer(1.0), Some(Scheme::Rlc)),
        ("buffer:0", PublishedPolicy::Buffer(0.0), Some(Scheme::Rlc)),
        ("messages", PublishedPolicy::Messages(None), Some(Scheme::Rlc)),
        ("messages:25ms", PublishedPolicy::Messages(Some(ms(25))), Some(Scheme::Rlc)),
        ("messages:1500us", PublishedPolicy::Messages(Some(Duration::from_micros(1500))), Some(Scheme::Rlc)),
        ("xor2d:20x40", PublishedPolicy::Xor2d { rows: 20, columns: 40 }, Some(Scheme::Grid)),
        ("tum:3", PublishedPolicy::TumBulk(3), Some(Scheme::Rlc)),
        ("tum:3:80ms", PublishedPolicy::TumIncremental(3, ms(80)), Some(Scheme::Rlc)),
        ("tum:1:2s", PublishedPolicy::TumIncremental(1, ms(2000)), Some(Scheme::Rlc)),
    ] {
        assert_eq!(text.parse(), Ok(value));
        assert_eq!(value.to_string(), text);
        let protection = Protection::from(value);
        assert_eq!(read(text), Ok(protection.clone()));
        assert_eq!(protection.to_string(), text);
        assert_eq!(PublishedPolicy::of(&protection), Some(value));
        let wanted = schemes.iter().fold(Schemes::default(), |all, scheme| all.with(*scheme));
        assert_eq!(protection.schemes(), wanted, "{text}");
        assert!(protection.policy().is_some());
        assert_eq!(protection.splits_evenly(), text.contains("messages"));
    }
}

#[test]
fn the_cores_names_are_its_own() {
    for (text, value) in [
        ("none", Protection::None),
        ("adaptive:bulk", Protection::Adaptive(Some(Goal::Bulk))),
        ("rs:105/100:stride=4", Protection::ReedSolomon { n0: 105, k0: 100, stride: 4 }),
        ("ldpc:110/100", Protection::Ldpc { n0: 110, k0: 100 }),
        ("xor:10", Protection::Xor(10)),
    ] {
        assert_eq!(read(text), Ok(value.clone()));
        assert_eq!(PublishedPolicy::of(&value), None);
        assert!(text.parse::<PublishedPolicy>().is_err());
    }
    assert!("tum:3".parse::<Protection>().is_err());
    // Who has no text is of nobody.
    let nameless = CustomPolicy::new(Schemes::default(), || policy("sr"));
    assert_eq!(PublishedPolicy::of(&Protection::Custom(nameless)), None);
}

#[test]
fn one_policy_is_another_of_the_same_text() {
    let of = |text: &str| read(text).unwrap();
    assert_eq!(of("ac-rlnc:2"), of("ac-rlnc:2.0"));
    assert_eq!(of("messages:1500us"), of("messages:1500000ns"));
    assert_ne!(of("tum:3"), of("tum:2"));
    assert_ne!(of("tum:3"), Protection::None);
}

#[test]
fn policies_use_the_schemes_they_say() {
    for name in ["fixed:1", "bulk", "messages", "xor2d:2x2", "tum:1", "ac-rlnc", "buffer"] {
        let protection = read(name).unwrap();
        let (mut scene, mut policy) = (CodingScene::new(), policy(name));
        scene.ends_in(0);
        for usual in [1, 1, 20, 20] {
            for _ in 0..usual {
                let lane = scene.send(&mut *policy, 1).unwrap();
                assert!(protection.schemes().has(lane.code.scheme()), "{name} {lane:?}");
            }
            scene.boundary(Boundary::Fence);
            scene.ask(&mut *policy, PlayedCode::Block);
        }
    }
}

#[test]
fn slips_are_explained() {
    for (text, why) in [
        ("", "none of them"),
        ("SR", "none of them"),
        ("fec", "none of them"),
        ("custom", "none of them"),
        ("none:1", "too few or too many"),
        ("fixed", "too few or too many"),
        ("tum:1:2ms:3", "too few or too many"),
        ("adaptive:video", "its goal"),
        ("fixed:0", "not whole, zero or too large"),
        ("fixed:-1", "not whole, zero or too large"),
        ("fixed:+1", "not whole, zero or too large"),
        ("fixed:1.5", "not whole, zero or too large"),
        ("xor2d:20x", "not whole, zero or too large"),
        ("xor2d:20", "no ROWSxCOLUMNS"),
        ("ac-rlnc:-1", "its c"),
        ("ac-rlnc:nan", "its c"),
        ("ac-rlnc:inf", "its c"),
        ("buffer:", "its c"),
        ("messages:25", "its time"),
        ("messages:ms", "its time"),
        ("messages:2.5ms", "its time"),
        ("tum:3:99999999999999999999s", "its time"),
    ] {
        let error = read(text).unwrap_err();
        let shown = error.to_string();
        assert!(shown.contains(why) && shown.contains(&format!("write {FORMS}, like")), "{text}: {shown}");
        if let Err(own) = text.parse::<PublishedPolicy>() {
            assert!(own.to_string().contains(&format!("write {}, like", PublishedPolicy::FORMS)));
        }
    }
}

/// What errors and help show is read, once numbers stand for the parameters; and it is all of both.
#[test]
fn forms_are_read() {
    assert_eq!(FORMS, format!("{}, {}", Protection::FORMS, PublishedPolicy::FORMS));
    for form in FORMS.split(", ") {
        let (shown, _) = form.split_once('[').unwrap_or((form, ""));
        let numbers = [("N/K", "5/4"), (":N", ":7"), (":B", ":2"), ("DEPTH", "4"), ("ROWSxCOLUMNS", "3x4")];
        let text = numbers.iter().fold(shown.to_owned(), |text, (name, number)| text.replace(name, number));
        let read = read(&text).unwrap_or_else(|error| panic!("{form}: {text}: {error}"));
        assert_eq!(read.to_string(), text, "{form}");
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(n in 1..=u32::MAX, c in 0.0..1e9f64, ns in 0..=u64::MAX) {
        let span = Duration::from_nanos(ns);
        for value in [
            PublishedPolicy::Fixed(n),
            PublishedPolicy::AcRlnc(c),
            PublishedPolicy::Buffer(c),
            PublishedPolicy::Messages(Some(span)),
            PublishedPolicy::TumIncremental(n, span),
        ] {
            let text = value.to_string();
            prop_assert_eq!(text.parse(), Ok::<_, ProtectionError>(value), "{}", text);
            prop_assert_eq!(PublishedPolicy::of(&value.into()), Some(value));
        }
    }

    #[test]
    fn no_text_panics(text in "(rs|tum|messages|xor2d|ac-rlnc|fixed)?:?\\PC{0,12}") {
        let _ = read(&text);
    }
}
