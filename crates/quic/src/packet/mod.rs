//! What all who fill packets share: how one is made, the writer of its payload, the tokens that say what that
//! held, and the words by which each says what it wants.
//!
//! It is a leaf: it names no other module of this crate.

mod by_space;
mod grease;
mod numbering;
mod outgoing;
mod token;
mod want;
mod writer;

pub(crate) use by_space::BySpace;
pub(crate) use grease::Grease;
pub(crate) use numbering::Numbering;
pub(crate) use outgoing::{MadePacket, Numbered, OutgoingHeader, OutgoingPacket, Unsealed};
pub(crate) use token::{Channel, FrameToken, StreamKey};
pub(crate) use want::{Phase, RoomView, Want};
pub(crate) use writer::{Packed, PacketWriter, StreamFrame};

/// A client's Initial datagrams, and all datagrams with eliciting Initial packets, have at least this
/// many bytes (RFC 9000 §14.1).
pub(crate) const MIN_INITIAL: usize = 1200;

/// More than a short header and a tag take of a datagram: 1 + 20 + 4 and 16 bytes. Every full packet has the
/// rest.
pub(crate) const MAX_OVERHEAD: usize = 48;

/// What the header of a 0-RTT packet has at most that a short one has not: version, two lengths of ids, an id
/// of 20 bytes and the length of the packet.
pub(crate) const LONGER_HEADER: usize = 4 + 2 + 20 + 2;

/// Segments that fall short of those before them by this little are padded: ending the batch would cost more.
pub(crate) const MAX_TOP_UP: usize = 48;
