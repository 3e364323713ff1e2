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
        ("rs:105/100", Protection::ReedSolomon { n0: 105, k0: 100, stride: 1 }, &[Scheme::ReedSolomon]),
        (
            "rs:105/100:stride=4",
            Protection::ReedSolomon { n0: 105, k0: 100, stride: 4 },
            &[Scheme::ReedSolomon],
        ),
        ("ldpc:110/100", Protection::Ldpc { n0: 110, k0: 100 }, &[Scheme::Ldpc]),
        ("xor:10", Protection::Xor(10), &[Scheme::Xor]),
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
    for name in ["adaptive", "adaptive:bulk", "adaptive:messages", "rs:2/1", "ldpc:2/1", "xor:1"] {
        let protection: Protection = name.parse().unwrap();
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
        ("ADAPTIVE", "none of them"),
        ("fec", "none of them"),
        ("custom", "none of them"),
        ("none:1", "too few or too many"),
        ("rs", "too few or too many"),
        ("rs:2/1:stride=2:stride=3", "too few or too many"),
        ("adaptive:video", "its goal"),
        ("xor2d:2x2", "none of them"),
        ("xor:0", "not whole, zero or too large"),
        ("xor:-1", "not whole, zero or too large"),
        ("xor:+1", "not whole, zero or too large"),
        ("xor:1.5", "not whole, zero or too large"),
        ("xor:65536", "not whole, zero or too large"),
        ("rs:105", "no N/K"),
        ("rs:100/105", "below its K"),
        ("rs:105/100:4", "no stride=D"),
    ] {
        let error = text.parse::<Protection>().unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("write none, adaptive"), "{text}: {error}");
        assert!(!error.contains("tum"), "{error}");
    }
}

#[test]
fn an_application_brings_its_own() {
    let custom = |of: &'static str| {
        CustomPolicy::new(Schemes::default().with(Scheme::Xor), move || policy(of)).with_even_messages(true)
    };
    let (plain, other) = (Protection::Custom(custom("xor:2")), Protection::Custom(custom("xor:2")));
    let (mut scene, mut policy) = (CodingScene::new(), plain.policy().unwrap());
    scene.send(&mut *policy, 2);
    scene.boundary(Boundary::Fence);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), repair(2));
    assert_eq!(plain.schemes(), Schemes::default().with(Scheme::Xor));
    assert!(plain.splits_evenly());
    // Nobody knows what two of no name do.
    assert_eq!(plain.clone(), plain);
    assert_ne!(plain, other);
    assert_eq!((plain.to_string(), other.to_string()), ("custom".into(), "custom".into()));
    assert!(plain.to_string().parse::<Protection>().is_err());
}

#[test]
fn a_text_names_a_policy() {
    let named = |of: &'static str, text: &str| {
        let custom = CustomPolicy::new(Schemes::default().with(Scheme::Xor), move || policy(of));
        Protection::Custom(custom.with_text(text))
    };
    let twice = named("xor:2", "twice");
    assert_eq!(twice, named("xor:2", "twice"));
    assert_ne!(twice, named("xor:2", "thrice"));
    let nameless = CustomPolicy::new(Schemes::default().with(Scheme::Xor), || policy("xor:2"));
    assert_ne!(twice, Protection::Custom(nameless.clone()));
    assert_ne!(
        Protection::Custom(nameless.clone()),
        Protection::Custom(nameless.clone().with_text("custom"))
    );
    assert_eq!((twice.to_string(), format!("{twice:?}")), ("twice".into(), "Custom(Custom(twice))".into()));
    assert!(!twice.splits_evenly() && nameless.text().is_none());
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        (a, b, stride) in (1..=u32::MAX, 1..=u32::MAX, 1..=u16::MAX),
    ) {
        let (n0, k0) = (a.max(b), a.min(b));
        for value in [
            Protection::ReedSolomon { n0, k0, stride },
            Protection::Ldpc { n0, k0 },
            Protection::Xor(stride),
        ] {
            let text = value.to_string();
            prop_assert_eq!(text.parse(), Ok(value), "{}", text);
        }
    }

    #[test]
    fn no_text_panics(text in "(rs|ldpc|xor|adaptive)?:?\\PC{0,12}") {
        let _ = text.parse::<Protection>();
    }
}

/// What errors and help show is read, once numbers stand for the parameters.
#[test]
fn forms_are_read() {
    for form in Protection::FORMS.split(", ") {
        let (shown, _) = form.split_once('[').unwrap_or((form, ""));
        let numbers = [("N/K", "5/4"), ("DEPTH", "4")];
        let text = numbers.iter().fold(shown.to_owned(), |text, (name, number)| text.replace(name, number));
        let read: Protection = text.parse().unwrap_or_else(|error| panic!("{form}: {text}: {error}"));
        assert_eq!(read.to_string(), text, "{form}");
    }
}
