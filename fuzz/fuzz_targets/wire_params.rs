//! Transport parameters: what is read comes back from its own encoding.
//! The lowest bit of the first byte of the input says whose they are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quickset_wire::params::TransportParams;
use quickset_wire::{Side, Writer};

fuzz_target!(|input: &[u8]| {
    let Some((&control, bytes)) = input.split_first() else { return };
    let side = if control & 1 == 0 { Side::Client } else { Side::Server };
    let Ok(params) = TransportParams::decode(side, bytes) else { return };
    // The reserved parameter takes its id and length from all over the 64 bits.
    let grease = u64::from(control) << 56 | bytes.len() as u64;
    let mut buffer = [0; TransportParams::MAX_SIZE];
    let mut w = Writer::new(&mut buffer);
    params.encode(side, grease, &mut w);
    assert_eq!(w.len(), params.size(side, grease));
    assert_eq!(TransportParams::decode(side, w.written()), Ok(params));
});
