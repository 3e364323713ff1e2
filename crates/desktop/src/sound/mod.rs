//! Sound beside the screen: what a program of this machine records goes to clients, and what a server sends
//! to a program that plays it.
//!
//! *In:* at a server samples of a program ([`SoundCommand`]), at a client records of the sound stream.
//! *Out:* frames of Opus for all who hear (`record::SoundSource`), and samples for a program (`play`).
//! The programs are those of PulseAudio unless told, which PipeWire serves as well, so that nothing is
//! linked with either. Invariants: nothing else waits for sound or ends for want of it (DT-75); a program
//! that is missing, ends or does not read is tried again, and what it would have had is dropped; nobody
//! records while nobody hears. Source: `spec/desktop.md` §13.

mod codec;
mod command;
pub(crate) mod give;
pub(crate) mod hear;
mod play;
mod program;
pub(crate) mod record;

pub use command::{ParseCommandError, SoundCommand};
pub use quickset_screen::sound::{BEHIND_BINS, PlayoutBuffer, SoundFrame, SoundPiece, SoundStats};

/// Channels of what programs read and write, in samples of 16 bits, the lower byte first.
const CHANNELS: usize = 2;
/// Bytes of 20 ms of them.
const FRAME_BYTES: usize = quickset_screen::sound::FRAME_SAMPLES as usize * CHANNELS * 2;

/// True when this build can encode and decode sound: the feature `sound`.
pub const HAS_SOUND: bool = cfg!(feature = "sound");
