//! The traces of many scenes in virtual time, held against a file of their hashes: what changes no behaviour
//! changes none of them. A trace is every datagram, byte by byte, with the times of its departure and arrival
//! or why it was dropped, and everything that the applications saw, with times.
//!
//! `cargo xtask traces` plays all of them; the tests that others run play a few. Handshakes are those of the
//! null session, whose bytes are a function of the seed; what TLS says is chance, and so is in no trace.

mod beginnings;
#[expect(dead_code, reason = "what the tests of QUIC need beside this")]
#[path = "../../../quic/tests/virtual_time/common.rs"]
mod common;
mod dissect;
mod journal;
mod mix;
mod paths;
mod play;
mod recorded;
mod streams;
mod web;

use std::collections::BTreeSet;
use std::path::PathBuf;

use mix::{Change, Mix, Scene};
use quickset_quic::Algorithm;
use recorded::{Hashes, Saved};

/// All scenes, the simplest first.
fn mixes() -> Vec<Mix> {
    let scenes: [&'static [Scene]; 4] = [beginnings::SCENES, paths::SCENES, streams::SCENES, web::SCENES];
    scenes.into_iter().flatten().flat_map(Mix::of).collect()
}

/// The links and endpoints of each mix draw by these.
const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

/// The environment says of which mixes (a part of their name, in `QUICKSET_TRACES_ONLY`), and whether their
/// hashes are taken over (`…_ACCEPT`), whole traces saved (`…_SAVE`) or compared with saved ones
/// (`…_AGAINST`).
#[test]
#[ignore = "takes a minute; `cargo xtask traces` plays it"]
fn all_traces_are_those_of_before() {
    let told = |name: &str| std::env::var_os(format!("QUICKSET_TRACES_{name}"));
    let only = told("ONLY").map(|only| only.to_string_lossy().into_owned()).unwrap_or_default();
    let wanted = |mix: &Mix| only.is_empty() || only.split(' ').any(|part| mix.to_string().contains(part));
    let mixes: Vec<Mix> = mixes().into_iter().filter(wanted).collect();
    assert!(!mixes.is_empty(), "no name of a trace has {only:?} in it");
    if let Some(folder) = told("SAVE").map(PathBuf::from) {
        for mix in &mixes {
            Saved::play(mix, Change::None).write(&folder, mix);
        }
        return println!("{} traces are in {}", mixes.len(), folder.display());
    }
    if let Some(folder) = told("AGAINST").map(PathBuf::from) {
        for mix in &mixes {
            let before = Saved::read(&folder, mix);
            if let Some(difference) = before.difference(&Saved::play(mix, Change::None)) {
                panic!("{mix} differs.\n{difference}");
            }
        }
        return println!("{} traces are those in {}", mixes.len(), folder.display());
    }
    let now = Hashes::play(&mixes);
    if told("ACCEPT").is_some() {
        assert!(only.is_empty(), "all traces are accepted at once, or none");
        return now.write();
    }
    let report = now.compare(&Hashes::read().of(&mixes));
    assert!(report.is_empty(), "{report}");
    println!("{} traces, {}, all as before", mixes.len(), now.sums());
}

#[test]
fn the_file_names_the_mixes_that_there_are() {
    let (mixes, file) = (mixes(), Hashes::read());
    let played: BTreeSet<String> = mixes.iter().map(Mix::to_string).collect();
    let known: BTreeSet<String> = file.names().map(str::to_owned).collect();
    assert_eq!(played.len(), mixes.len(), "a name twice");
    let others: Vec<_> = played.symmetric_difference(&known).take(10).collect();
    assert!(others.is_empty(), "`cargo xtask traces --accept` writes the file anew: {others:?}…");
}

/// What a trace is worth: it comes again, and nothing else is taken for it.
#[test]
fn equal_seeds_give_equal_traces_and_nothing_else_does() {
    for mix in chosen(&mixes()) {
        let plays =
            [(1, Change::None), (1, Change::None), (1, Change::Byte), (1, Change::Delay), (2, Change::None)];
        let plays = plays.map(|(seed, change)| mix.play(seed, change, false));
        assert!(plays[0].datagrams > 10, "{mix}");
        assert_eq!((plays[0].hash, plays[0].bytes), (plays[1].hash, plays[1].bytes), "{mix} is played again");
        for other in &plays[2..] {
            assert_ne!(plays[0].hash, other.hash, "{mix} is changed");
        }
        // Whether the lines are kept or not.
        assert_eq!(mix.play(1, Change::None, true).hash, plays[0].hash, "{mix}");
    }
}

#[test]
fn the_first_datagram_that_differs_is_found() {
    for mix in chosen(&mixes()) {
        let plain = Saved::play(&mix, Change::None);
        assert_eq!(plain.difference(&Saved::play(&mix, Change::None)), None, "{mix}");
        let told = plain.difference(&Saved::play(&mix, Change::Byte)).expect("a bit is another");
        assert!(told.starts_with("Seed 1, datagram ") && told.contains("1-RTT "), "{mix}: {told}");
        // The first that is delayed is the first that is sent.
        let told = plain.difference(&Saved::play(&mix, Change::Delay)).expect("it comes later");
        assert!(
            told.starts_with("Seed 1, datagram 1 of ") && told.contains("Initial CRYPTO(0+"),
            "{mix}: {told}"
        );
    }
}

/// Of each kind one.
fn chosen(mixes: &[Mix]) -> Vec<Mix> {
    let of = |scene: &str| mixes.iter().find(|mix| mix.scene.name == scene).copied().expect("there is one");
    ["requests", "fences", "http-requests"].map(of).to_vec()
}

/// Everything meets several others, and nothing that the library knows by name is left out.
#[test]
fn everything_meets_several_others() {
    let mixes = mixes();
    let meets = |these: &dyn Fn(&Mix) -> bool| {
        let met: BTreeSet<String> = mixes
            .iter()
            .filter(|mix| these(mix))
            .map(|m| format!("{} {}", m.controller, m.variation.name))
            .collect();
        met.len()
    };
    for protection in mix::PROTECTIONS {
        assert!(meets(&|mix| mix.protection == *protection) >= 5, "{protection}");
        for controller in mix::CONTROLLERS {
            let both = |mix: &Mix| mix.protection == *protection && mix.controller == *controller;
            assert!(meets(&both) >= 1, "{protection} never meets {controller}");
        }
    }
    for variation in mix::VARIATIONS {
        for controller in mix::CONTROLLERS {
            let both = |mix: &Mix| mix.variation.name == variation.name && mix.controller == *controller;
            assert!(meets(&both) == 1, "{} never meets {controller}", variation.name);
        }
    }
    for (error, played) in [
        (quickset_policies::read("?").expect_err("no name").to_string(), mix::PROTECTIONS),
        ("?".parse::<Algorithm>().expect_err("no name").to_string(), mix::CONTROLLERS),
    ] {
        let (_, names) = error.split_once("write ").expect("it lists them");
        let names = names.split(", like").next().expect("something is in front");
        for name in names.split(", ").flat_map(|name| name.split(" or ")) {
            let name = name.split([':', '[']).next().expect("something is in front");
            assert!(
                played.iter().any(|known| known.split(':').next() == Some(name)),
                "{name} is in no trace"
            );
        }
    }
}
