//! The first message of a client, as a server reads it before TLS does.
//!
//! Whatever came of it, the rest changes nothing of what was known; and what it finds is where a reading from
//! the front, as RFC 8446 §4.1.2 writes it down, finds it.
#![no_main]

#[path = "../../crates/tls/src/hello.rs"]
mod hello;

use hello::{HelloLook, look};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let whole = look(input);
    for cut in 0..input.len().min(300) {
        let part = look(&input[..cut]);
        assert!(part == HelloLook::More || part == whole, "{part:?} of {cut} bytes, then {whole:?}");
    }
    if let HelloLook::Hello { params, .. } = whole {
        let expected = values(input);
        assert_eq!(params, expected.iter().rev().find(|(kind, _)| *kind == 0x39).map(|(_, value)| *value));
    }
});

/// The extensions of a hello that can be read.
fn values(hello: &[u8]) -> Vec<(u16, &[u8])> {
    let number =
        |at: usize, n: usize| hello[at..at + n].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let mut at = 4 + 2 + 32;
    at += 1 + number(at, 1);
    at += 2 + number(at, 2);
    at += 1 + number(at, 1);
    let end = at + 2 + number(at, 2);
    at += 2;
    let mut values = Vec::new();
    while at + 4 <= end {
        let len = number(at + 2, 2);
        values.push((number(at, 2) as u16, &hello[at + 4..at + 4 + len]));
        at += 4 + len;
    }
    values
}
