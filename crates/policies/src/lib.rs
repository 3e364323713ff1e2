//! Policies of papers: what of a stream is protected against loss, and when it is repaired.
//!
//! A [`PublishedPolicy`] becomes a [`Protection`], as [`CustomPolicy`] makes one of an application's own
//! policy, and [`read`] knows the names of all:
//!
//! ```
//! use quickset_policies::PublishedPolicy;
//! use quickset_quic::{Fec, Protection};
//!
//! let protection = quickset_policies::read("ac-rlnc:2")?;
//! assert_eq!(protection, Protection::from(PublishedPolicy::AcRlnc(2.0)));
//! assert_eq!(protection.to_string(), "ac-rlnc:2");
//! let fec = Fec::default().with_protection(protection);
//!
//! // The core's own forms are read as well.
//! assert_eq!(quickset_policies::read("rs:105/100"), "rs:105/100".parse());
//! # Ok::<_, quickset_quic::ProtectionError>(())
//! ```
//!
//! | name | by |
//! |---|---|
//! | `bulk`, `buffer`, `messages` | Michel, Cohen, Malak, De Coninck, Médard, Bonaventure: *FlEC: Enhancing QUIC with Application-Tailored Reliability Mechanisms*, IEEE/ACM Transactions on Networking 2022 |
//! | `ac-rlnc` | Cohen, Malak, Bar Bracha, Médard: *Adaptive Causal Network Coding With Feedback*, IEEE Transactions on Communications 2020, as FlEC's first example has it |
//! | `tum` | burst loss tolerance and repair delay tolerance for answers of HTTP/3 (TU Munich, IFIP Networking 2025) |
//! | `xor2d` | two-dimensional XOR between fences (Eghbal and Lu, ICCS 2022) |
//! | `sr`, `fixed` | what these are compared with: nothing but resends, and a fixed rate |
//!
//! Each is made of nothing but what [`quickset_quic::policy`] has for every policy. Where one departs from
//! its paper, it says so and why.
//!
//! [`CustomPolicy`]: quickset_quic::policy::CustomPolicy

#![forbid(unsafe_code)]

mod buffer;
mod bulk;
mod causal;
mod fixed;
mod grid;
mod messages;
mod published;
mod repeat;
#[cfg(test)]
#[expect(clippy::float_cmp, reason = "values that pass through unchanged")]
mod tests;
mod tum;

use quickset_quic::{Protection, ProtectionError};

pub use published::PublishedPolicy;

/// Reads a protection: the forms of the core, and those of [`PublishedPolicy`].
pub fn read(text: &str) -> Result<Protection, ProtectionError> {
    let read = if PublishedPolicy::is_named_by(text) {
        text.parse::<PublishedPolicy>().map(Protection::from)
    } else {
        text.parse()
    };
    read.map_err(|error| error.with_forms(FORMS))
}

/// What [`read`] reads, as text: for messages and help.
pub const FORMS: &str = {
    const LEN: usize = CORE.len() + BETWEEN.len() + OWN.len();
    const BYTES: [u8; LEN] = joined([CORE.as_bytes(), BETWEEN.as_bytes(), OWN.as_bytes()]);
    match std::str::from_utf8(&BYTES) {
        Ok(forms) => forms,
        Err(_) => panic!("three texts are a text"),
    }
};

const CORE: &str = Protection::FORMS;
const BETWEEN: &str = ", ";
const OWN: &str = PublishedPolicy::FORMS;

const fn joined<const LEN: usize>(parts: [&[u8]; 3]) -> [u8; LEN] {
    let mut all = [0; LEN];
    let (mut part, mut at, mut to) = (0, 0, 0);
    while part < parts.len() {
        while at < parts[part].len() {
            all[to] = parts[part][at];
            (at, to) = (at + 1, to + 1);
        }
        (part, at) = (part + 1, 0);
    }
    all
}
