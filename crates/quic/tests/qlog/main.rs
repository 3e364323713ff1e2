//! What connections tell of themselves, against the simulator's trace, the counters, and the standard.

#[path = "../virtual_time/common.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod common;
mod reading;
mod truth;
