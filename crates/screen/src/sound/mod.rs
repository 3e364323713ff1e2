//! Sound beside a screen: frames of 20 ms as messages, and when to play which.
//!
//! *In:* records of the sound stream, in whatever order they come, and the time ([`PlayoutBuffer`]). *Out:*
//! packets of Opus, one after the other at the times at which they are to be heard, each with the number of
//! samples that it is to be played in, and gaps to conceal. Nothing here decodes Opus. Invariants: a frame is
//! played at most once, and never before one with a smaller number; at most [`MOST_FRAMES`] are held; bytes
//! that make no sense change nothing. Source: `spec/desktop.md` §13.

mod buffer;
mod delay;
mod frame;
mod stretch;
#[cfg(test)]
mod tests;

pub use buffer::{BEHIND_BINS, PlayoutBuffer, SoundPiece, SoundStats};
pub use frame::SoundFrame;
pub use stretch::stretched;

/// Samples of each channel in a second.
pub const SAMPLE_RATE: u32 = 48_000;
/// Samples of each channel in a frame: 20 ms.
pub const FRAME_SAMPLES: u16 = 960;
/// DT-69: the longest packet, in bytes.
pub const MAX_PACKET: usize = 1000;
/// DT-72: frames that wait to be played.
pub const MOST_FRAMES: usize = 64;
/// The type of a page's datagrams of sound, before one of `spec/web.md` §3 (WB-23).
pub const SOUND_DATAGRAM: u8 = 0x05;
/// Of the features in HELLO: the client wants to hear (DT-67).
pub const WANTS_SOUND: u64 = 16;
/// Of the features in WELCOME: the server sends sound (DT-67).
pub const SENDS_SOUND: u64 = 2;
