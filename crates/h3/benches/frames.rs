//! What a packet costs a server in the worst case of each type of frame: `cargo bench -p quickset-h3 --bench frames`.
//!
//! The storms are those of the attack tests (`tests/attacks/costs.rs`), where the search is described. A name in the
//! arguments picks those that have it in theirs, `--draws N` and `--packets N` say how long to search and to measure.

#![expect(dead_code, unused_imports, reason = "what the tests of attacks need of the arena beside this")]

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

use costs::{Cost, STORMS, Storm, USUAL};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let number = |name: &str, otherwise: u64| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(otherwise)
    };
    let (draws, packets) = (number("--draws", 40), number("--packets", 500));
    let wanted = arguments.first().filter(|argument| !argument.starts_with("--"));
    println!(
        "{:34} {:>9} {:>9} {:>12} {:>8}   worst of {draws} draws",
        "a packet of", "us", "with acks", "allocations", "bytes"
    );
    print(&USUAL, draws, packets);
    for storm in STORMS.iter().filter(|storm| wanted.is_none_or(|name| storm.name.contains(name.as_str()))) {
        print(storm, draws, packets);
    }
}

fn print(storm: &Storm, draws: u64, packets: u64) {
    // The worst of short ones, for longer.
    let (_, knobs) = storm.worst(7, draws, packets / 5);
    let cost = storm.cost(knobs, packets);
    let time = cost.time as f64 / 1e3;
    // Acknowledgements are packets, too, and pay for what others ask.
    let each = time * 100.0 / cost.datagrams.max(1) as f64;
    let Cost { allocations, bytes, .. } = cost;
    println!("{:34} {time:9.2} {each:9.2} {allocations:12} {bytes:8}   {knobs:?}", storm.name);
}
