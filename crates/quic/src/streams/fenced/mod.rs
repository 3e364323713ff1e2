//! Fenced streams: messages between two fences arrive in any order, and nothing crosses a fence.
//!
//! A message is a record on the stream, a length and its payload; a fence is an offset between two records.
//! **The rule:** a record is delivered when it is complete, every byte below the last fence at or before it
//! has arrived or was abandoned, and every record below that fence was delivered or abandoned. Records freed
//! at once go segment by segment, within a segment in order of completion. No fence at all is no order, a
//! fence after each message is total order, and a fence too many delays but never makes an execution wrong.
//!
//! What makes it cheap: the second half of the rule follows from the first. If `low` is the lowest missing
//! offset, a complete record is free exactly when its fence is at or below `low`. So the receiver keeps
//! `low`, what lies above it ([`extents`]), and complete records by fence. Fences travel in the frames that
//! carry the data: a frame tells the last fence before it, and that none lies inside ([`fences`]).
//!
//! *In:* messages, fences and deadlines ([`RecordSender::push`]); FENCED, ABANDON, or STREAM frames without
//! the extension ([`RecordReceiver`]); what became of packets. *Out:* frames ([`RecordSender::write`]),
//! messages, one outcome for each, credit. Bytes are copied once into the packet; whole records leave a
//! received packet uncopied.
//!
//! Invariants: offsets are given when a record is first sent, so what is dropped before leaves no trace;
//! bytes before a fence have smaller offsets than those behind it, so no stream waits for its own credit;
//! memory is bounded by credit, whatever the size of frames: small runs and pieces are kept together
//! ([`bundle`], [`pieces`]).
//!
//! Sources: `spec/fenced-streams.md` (FS-n); consistency fences of Eghbal and Lu (2022, 2025).

mod bundle;
mod extents;
mod fences;
mod held;
mod order;
mod partial;
mod pieces;
mod plain;
mod queue;
mod ranges;
mod record;
mod recv;
mod send;

pub use recv::Message;
pub(crate) use recv::{Fenced, RecordFault, RecordReceiver};
pub use send::{MessageStats, Outcome, Ticket};
pub(crate) use send::{QueueError, RecordMode, RecordSender};

#[cfg(test)]
mod tests;
