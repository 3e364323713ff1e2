//! The laboratory: every claim is one command.
//!
//! An [`experiment`] is a table; [`catalogue`] has them all. [`run`] plays its points with [`play`], in
//! virtual time or over real sockets and the emulated link, and keeps what comes of them as [`results`].
//! [`design`] fills spaces of parameters with points, [`pages`] has what browsers ask for and [`trace`]
//! recorded traffic, [`stats`] the percentiles, and [`report`] draws.
//!
//! [`relay`] is the simulator's link as a UDP relay on the loopback interface; [`screen`] a moving test
//! desktop; [`demo`] sends the one through the other in each delivery mode at once; [`perf`] measures
//! throughput.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "numbers in tests are small, or cut on purpose"
    )
)]

pub mod catalogue;
pub mod demo;
pub mod design;
pub mod experiment;
pub mod pages;
pub mod perf;
pub mod plan;
pub mod play;
pub mod relay;
pub mod report;
pub mod results;
pub mod run;
pub mod scratch;
pub mod screen;
pub mod stats;
mod timing;
pub mod trace;
#[cfg(target_os = "linux")]
pub mod tunnel;
