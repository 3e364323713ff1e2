//! Erasure codes over byte slices, useful alone: the crate knows no network.
//!
//! A *symbol* is a slice of bytes. Symbols that are combined may differ in length: a shorter one counts as padded
//! with zeros. What all codes share is arithmetic on whole symbols, in [`gf256`].

pub mod gf256;
pub mod ldpc;
pub mod online;
pub mod reed_solomon;
pub mod rlc;
pub mod xor;

mod equation;
mod symbols;

pub use equation::{BadEquation, Coefficients, Equation, MAX_SID};
pub use symbols::{Missing, NotTaken, Symbols};
