//! Recordings: what a screen showed, and when, as a file that can be played from any time on.
//!
//! *In:* screen messages as a receiver has drawn them, or pixels ([`RecordingWriter`]). *Out:* bytes for a
//! file; and out of a file the screen at any time ([`RecordingPlayer`]). Invariants: a file that is cut
//! anywhere, or has wrong bytes, plays up to there; what a file says never makes a reader hold more than one
//! record, two screens and a bounded index. Source: `spec/recording.md`.

mod player;
mod reader;
#[cfg(test)]
#[cfg(feature = "encode")]
mod tests;
#[cfg(feature = "encode")]
mod writer;

use std::io;

pub use player::{RecordingFacts, RecordingPlayer};
#[cfg(feature = "encode")]
pub use writer::RecordingWriter;

/// Why a file cannot be played at all.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("it is no recording of a desktop: make one with `quickset desktop view --record FILE`")]
    Foreign,
    /// It was made by another version.
    #[error("it is a recording of version {0}, and only version 1 can be played here: use a newer quickset")]
    Version(u8),
    /// There is not one whole picture in it.
    #[error("there is no whole picture in it: it was broken off before the first one was written")]
    Empty,
}

/// What a record is for; the numbers of `spec/recording.md` §2.
mod kind {
    pub(super) const START: u8 = 0;
    pub(super) const PICTURE: u8 = 1;
    pub(super) const PART: u8 = 2;
    pub(super) const UPDATE: u8 = 3;
    pub(super) const TOLD: u8 = 4;
    pub(super) const POINTER: u8 = 5;
    pub(super) const END: u8 = 6;
}

/// As those of PNG it shows when a file was taken for text on its way.
const SIGNATURE: [u8; 8] = *b"\x89QSR\r\n\x1a\n";
const VERSION: u8 = 1;
/// Bytes of signature and version.
const FILE_HEAD: usize = 9;
/// Bytes of a record before its body: length, kind and time.
const RECORD_HEAD: usize = 13;
/// Bytes behind it.
const RECORD_SUM: usize = 4;
/// RC-2.
const MAX_BODY: usize = 1 << 21;
