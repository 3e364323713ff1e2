//! Fenced streams: messages between two fences arrive in any order, nothing crosses a fence.

mod extents;
mod fences;
mod partial;
mod plain;
mod queue;
mod ranges;
mod record;
mod recv;
mod send;

pub use recv::{Fault, Message};
pub(crate) use recv::{Fenced, Receiver};
pub(crate) use send::{Mode, Sender};
pub use send::{Outcome, SendError, Ticket};

#[cfg(test)]
mod tests;
