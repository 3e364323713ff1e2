//! The laboratory: link models in real time, workloads, and what is measured with them.
//!
//! [`relay`] is the simulator's link as a UDP relay on the loopback interface; [`screen`] a moving test
//! desktop; [`demo`] sends the one through the other in each delivery mode at once; [`report`] draws what came
//! of it; [`stats`] has the percentiles.

#![forbid(unsafe_code)]

pub mod demo;
pub mod perf;
pub mod relay;
pub mod report;
pub mod screen;
pub mod stats;
