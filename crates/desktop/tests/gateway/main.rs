//! Both gateways over the loopback, between a VNC server and viewers of our own: what goes wrong, and what
//! must not.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers in tests are small, or cut on purpose"
)]

mod by_tcp;
mod faults;
mod firewall;
mod hostile;
mod invited;
mod page;
mod person;
mod picture;
mod rates;
mod recorded;
mod scene;
mod sizes;
#[cfg(all(unix, feature = "sound"))]
mod sound;
#[cfg(all(unix, feature = "sound"))]
mod tone;
mod trust;
mod users;
mod vencrypt;
mod visits;
mod vnc;
mod waits;
mod wire;

use scene::LIMIT;
