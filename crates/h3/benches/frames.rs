//! What a packet costs a server in the worst case of each type of frame: `cargo bench -p quickset-h3 --bench
//! frames`.
//!
//! The storms are those of the attack tests (`tests/attacks/costs.rs`), where the search is described. A name
//! in the arguments picks those that have it in theirs, `--draws N` and `--packets N` say how long to search
//! and to measure.
//!
//! The first column is what a packet costs that asks for as much as it can, and the second what each that
//! comes costs when nothing else does: whoever asks for more than its packets pay for is paced by then. It
//! fails when that is above what fourteen packets of usual data cost (`--most N`) for anything but what a
//! server is there for, of which the table has the price.

#![expect(dead_code, unused_imports, reason = "what the tests of attacks need of the arena beside this")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "numbers in benchmarks are small, or cut on purpose"
)]

use std::process::ExitCode;

#[path = "../tests/attacks/arena.rs"]
mod arena;
#[path = "../tests/attacks/costs.rs"]
mod costs;
#[path = "../tests/attacks/hostile.rs"]
mod hostile;
#[path = "../tests/attacks/memory.rs"]
mod memory;
#[path = "../tests/attacks/requests.rs"]
mod requests;
#[path = "../tests/attacks/sessions.rs"]
mod sessions;

use costs::{STORMS, Storm, USUAL};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let number = |name: &str, otherwise: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(otherwise)
    };
    let (draws, packets, most) = (number("--draws", 40), number("--packets", 500), number("--most", MOST));
    let wanted = arguments.first().filter(|argument| !argument.starts_with("--"));
    println!(
        "{:34} {:>9} {:>9} {:>12} {:>8}   worst of {draws} draws",
        "a packet of", "us", "paced", "allocations", "bytes"
    );
    let storms = STORMS.iter().filter(|storm| wanted.is_none_or(|name| storm.name.contains(name.as_str())));
    // The machine is not known, nor who else is on it.
    let bound = print(&USUAL, draws, packets) * most;
    let is_dear = |storm: &&Storm| print(storm, draws, packets) > bound && !storm.is_useful;
    let dear: Vec<&str> = storms.filter(is_dear).map(|storm| storm.name).collect();
    if dear.is_empty() {
        println!(
            "nothing but what a server is there for is dearer in the long run than {most} usual packets"
        );
        return ExitCode::SUCCESS;
    }
    println!("dearer in the long run than {most} usual packets: {}", dear.join("; "));
    ExitCode::FAILURE
}

/// What the worst packet costs in the long run, in nanoseconds.
fn print(storm: &Storm, draws: u64, packets: u64) -> u64 {
    // The worst of short ones, for longer.
    let (_, knobs) = storm.worst(7, draws, packets / 5);
    let (first, then) = (storm.cost(knobs, packets), storm.in_the_long_run(knobs, packets));
    let us = |time: u64| time as f64 / 1e3;
    // What takes a packet or more each has no price by the piece.
    let price = if storm.is_useful && first.heard > 100 {
        format!("{:.1} us each", us(first.time * 100 / first.heard.max(1)))
    } else {
        format!("{knobs:?}")
    };
    println!(
        "{:34} {:9.2} {:9.2} {:12} {:8}   {price}",
        storm.name,
        us(first.time),
        us(then.each()),
        first.allocations,
        first.bytes
    );
    then.each()
}

/// As many packets of usual data as one may cost that is of no use to anybody: 22 us, where those take 1.6.
const MOST: u64 = 14;
