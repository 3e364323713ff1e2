//! Why connections end, as C reads it.

use std::ffi::c_char;
use std::fmt::Display;

use quickset::{Closed, ConnectError};

/// This application closed it.
pub const QS_CLOSE_LOCAL: u32 = 1;
/// The peer's application closed it: `code` and `reason` are its.
pub const QS_CLOSE_APPLICATION: u32 = 2;
/// The peer's transport closed it: `code` is that of RFC 9000, section 20.1.
pub const QS_CLOSE_PEER: u32 = 3;
/// The peer broke the protocol, or could not be authenticated: `code` is that of RFC 9000, section 20.1.
pub const QS_CLOSE_FAILED: u32 = 4;
/// The peer has lost the connection, for example since it was started anew.
pub const QS_CLOSE_RESET: u32 = 5;
/// The peer does not answer.
pub const QS_CLOSE_TIMED_OUT: u32 = 6;
/// Nothing could be sent to the peer, or nothing listens there.
pub const QS_CLOSE_UNREACHABLE: u32 = 7;
/// The peer speaks no version of QUIC that we know.
pub const QS_CLOSE_VERSION: u32 = 8;
/// The endpoint has ended.
pub const QS_CLOSE_ENDPOINT: u32 = 9;
/// The connection was never begun: the address, the name or the configuration cannot be used.
pub const QS_CLOSE_REFUSED: u32 = 10;
/// None of these; a newer library knows more.
pub const QS_CLOSE_OTHER: u32 = 99;

/// Why a connection ended.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct QsClose {
    /// Set it to `sizeof(qs_close)` before the call; afterwards it is how many bytes were stored.
    pub size: u64,
    /// One of `QS_CLOSE_…`.
    pub kind: u32,
    /// 0.
    pub reserved: u32,
    /// The code that belongs to it, or 0.
    pub code: u64,
    /// The length of `reason` without its zero byte.
    pub reason_length: u64,
    /// The words of the peer's application, as it sent them, or a sentence about what happened, cut if it is
    /// longer. A zero byte is behind it; the words of the peer may hold others.
    pub reason: [c_char; 520],
}

impl QsClose {
    pub(crate) fn of(closed: &Closed) -> Self {
        let said = closed.to_string();
        match closed {
            Closed::Locally => Self::new(QS_CLOSE_LOCAL, 0, said.as_bytes()),
            Closed::ByApplication { code, reason } => Self::new(QS_CLOSE_APPLICATION, *code, reason),
            Closed::ByPeer(error) => Self::new(QS_CLOSE_PEER, error.code.0, said.as_bytes()),
            Closed::Failed(error) => Self::new(QS_CLOSE_FAILED, error.code.0, said.as_bytes()),
            Closed::Reset => Self::new(QS_CLOSE_RESET, 0, said.as_bytes()),
            Closed::TimedOut => Self::new(QS_CLOSE_TIMED_OUT, 0, said.as_bytes()),
            Closed::Unreachable(_) => Self::new(QS_CLOSE_UNREACHABLE, 0, said.as_bytes()),
            Closed::NoCommonVersion => Self::new(QS_CLOSE_VERSION, 0, said.as_bytes()),
            Closed::Abandoned => Self::new(QS_CLOSE_ENDPOINT, 0, said.as_bytes()),
            _ => Self::new(QS_CLOSE_OTHER, 0, said.as_bytes()),
        }
    }

    pub(crate) fn refused(error: &ConnectError) -> Self {
        Self::said(QS_CLOSE_REFUSED, error)
    }

    fn said(kind: u32, error: &dyn Display) -> Self {
        Self::new(kind, 0, error.to_string().as_bytes())
    }

    fn new(kind: u32, code: u64, words: &[u8]) -> Self {
        let mut close = Self { size: 0, kind, reserved: 0, code, reason_length: 0, reason: [0; 520] };
        let room = close.reason.len() - 1;
        let words = &words[..words.len().min(room)];
        for (to, from) in close.reason.iter_mut().zip(words) {
            *to = c_char::from_ne_bytes([*from]);
        }
        close.reason_length = words.len() as u64;
        close
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_before_the_zero_byte() {
        let close = QsClose::of(&Closed::ByApplication { code: 7, reason: vec![b'x'; 1000] });
        assert_eq!((close.kind, close.code, close.reason_length), (QS_CLOSE_APPLICATION, 7, 519));
        assert_eq!(close.reason[518..], [c_char::from_ne_bytes([b'x']), 0]);
        let close = QsClose::of(&Closed::ByApplication { code: 0, reason: vec![0xff] });
        assert_eq!(close.reason[..2], [c_char::from_ne_bytes([0xff]), 0]);
    }
}
