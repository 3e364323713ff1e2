//! What every Quickset crate speaks: time, datagrams, randomness and machines.
//!
//! There is no logic here, only vocabulary. Below the `net` crate nothing reads a clock, opens a
//! socket or draws entropy: [`Time`] and [`Rng`] are arguments, and a [`Machine`] is driven from
//! outside, by tokio in production and by the simulator in virtual time. [`number`] names what becomes of a
//! number in a type that is too small for it. The crate is `no_std` and needs an allocator.
//!
//! ```
//! use quickset_base::{Batch, Duration, Input, Machine, Poll, Reason, Time};
//!
//! /// Wakes once, a millisecond after its first poll.
//! #[derive(Default)]
//! struct Alarm(Option<Time>);
//!
//! impl Machine for Alarm {
//!     fn handle(&mut self, _now: Time, _input: Input<'_>) {}
//!     fn poll(&mut self, now: Time, _out: &mut Batch) -> Poll {
//!         let at = *self.0.get_or_insert(now + Duration::from_millis(1));
//!         if now < at { Poll::Sleep(Some(at), Reason::Application) } else { Poll::Event }
//!     }
//! }
//!
//! let (mut alarm, mut out) = (Alarm::default(), Batch::new()); assert_eq!(alarm.poll(Time::ZERO, &mut out),
//! Poll::Sleep(Some(Time::from_millis(1)), Reason::Application)); assert_eq!(alarm.poll(Time::from_millis(1),
//! &mut out), Poll::Event);
//! ```

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod datagram;
mod machine;
pub mod number;
mod rng;
mod time;

pub use core::time::Duration;

pub use datagram::{AddressPair, Batch, Datagram, Ecn};
pub use machine::{Input, Machine, Poll, Reason};
pub use rng::{Rng, Seed, SleepyRng};
pub use time::Time;
