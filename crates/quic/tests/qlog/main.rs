//! What connections tell of themselves, against the simulator's trace, the counters, and the standard.

#[path = "../virtual_time/common.rs"]
mod common;
mod faults;
mod reading;
mod repair;
mod standard;
mod truth;
