//! QUIC on the wire: bytes to and from varints, headers, frames and transport parameters.
//!
//! Everything here borrows and nothing allocates or keeps state: what comes off the network is read
//! with a [`Reader`] and becomes values that point into the datagram; what leaves is written with a
//! [`Writer`] straight into the buffer that is sent. Whatever bytes arrive, a decoder returns a value or
//! an error with its wire code. The crate is `no_std` and needs no allocator. Sources: RFC 8999, 9000, 9369,
//! `spec/fenced-streams.md` and `spec/fec.md`.
//!
//! ```
//! use quickset_wire::frame::{self, Frame, Frames};
//! use quickset_wire::{Dir, Side, StreamId, Writer};
//!
//! let mut packet = [0; 1200];
//! let mut w = Writer::new(&mut packet);
//! let id = StreamId::new(Side::Client, Dir::Bi, 0);
//! Frame::Ping.encode(&mut w);
//! frame::stream_header(&mut w, id, 0, true, Some(5));
//! w.bytes(b"hello");
//!
//! let mut frames = Frames::new(w.written());
//! assert_eq!(frames.next(), Some(Ok(Frame::Ping)));
//! assert_eq!(frames.next(), Some(Ok(Frame::Stream { id, offset: 0, fin: true, data: b"hello" })));
//! assert_eq!(frames.next(), None);
//! ```

#![cfg_attr(not(test), no_std)]
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

mod cursor;
mod error;
pub mod fec;
pub mod frame;
pub mod header;
mod id;
mod packet;
pub mod packet_number;
pub mod params;
pub mod varint;

pub use cursor::{Reader, Truncated, Writer};
pub use error::TransportErrorCode;
pub use fec::{FecDecoder, Scheme, Schemes};
pub use id::{ConnectionId, Dir, ResetToken, Side, StreamId, StreamIdHasher};
pub use packet::{PacketType, Space, Version};
pub use params::{TransportParams, VersionInformation};
