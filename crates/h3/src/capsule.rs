//! The capsule protocol (RFC 9297 §3): messages on a stream that was a CONNECT.
//!
//! ```
//! use bytes::Bytes;
//! use quickset_h3::capsule::{Capsule, CapsuleReader, DATAGRAM, encode};
//!
//! let mut stream = Vec::new();
//! encode(&mut stream, DATAGRAM, b"late is lost");
//! let mut reader = CapsuleReader::new(1500);
//! let capsule = reader.next(&mut Bytes::from(stream))?;
//! assert_eq!(capsule, Some(Capsule { kind: DATAGRAM, value: Bytes::from("late is lost") }));
//! # Ok::<_, quickset_h3::Error>(())
//! ```

use bytes::{Buf as _, Bytes};
use quickset_base::number::Unsigned as _;

use crate::idle::Idle;
use crate::varint::{self, VarintPieces};
use crate::{Error, ErrorCode};

/// An HTTP datagram on the stream (RFC 9297 §3.5).
pub const DATAGRAM: u64 = 0x00;
/// The end of a WebTransport session, with a code and a reason (draft-ietf-webtrans-http3 §6).
pub const WT_CLOSE_SESSION: u64 = 0x2843;
/// A WebTransport session is asked to end (draft-ietf-webtrans-http3 §4.7).
pub const WT_DRAIN_SESSION: u64 = 0x78ae;
/// Bytes that may have been sent on the streams of a WebTransport session (draft-ietf-webtrans-http3 §5.6.4).
pub const WT_MAX_DATA: u64 = 0x190b_4d3d;
/// Bidirectional streams that a WebTransport session may have opened (§5.6.2).
pub const WT_MAX_STREAMS_BIDI: u64 = 0x190b_4d3f;
/// The same of unidirectional streams.
pub const WT_MAX_STREAMS_UNI: u64 = 0x190b_4d40;
/// Bytes would be sent if there were more (§5.6.5).
pub const WT_DATA_BLOCKED: u64 = 0x190b_4d41;
/// Bidirectional streams would be opened if there were more (§5.6.3).
pub const WT_STREAMS_BLOCKED_BIDI: u64 = 0x190b_4d43;
/// The same of unidirectional streams.
pub const WT_STREAMS_BLOCKED_UNI: u64 = 0x190b_4d44;
/// Credit for a stream of WebTransport, which over HTTP/3 is QUIC's to give (draft-ietf-webtrans-http3 §5.4).
pub const WT_MAX_STREAM_DATA: u64 = 0x190b_4d3e;
/// A stream of WebTransport without credit, of which over HTTP/3 QUIC tells.
pub const WT_STREAM_DATA_BLOCKED: u64 = 0x190b_4d42;

/// A capsule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capsule {
    /// Its type.
    pub kind: u64,
    /// Its value.
    pub value: Bytes,
}

/// Writes a capsule behind what is in `out`.
pub fn encode(out: &mut Vec<u8>, kind: u64, value: &[u8]) {
    varint::put(out, kind);
    varint::put(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Takes the capsules of one stream apart, in whatever pieces its bytes come.
#[derive(Debug)]
pub struct CapsuleReader {
    max: u64,
    state: CapsuleState,
    /// Capsules that stand for nothing.
    idle: Idle,
}

#[derive(Debug)]
enum CapsuleState {
    Header(VarintPieces),
    Skip(u64),
    Whole { kind: u64, len: u64, so_far: Vec<u8> },
}

impl CapsuleReader {
    /// A reader for capsules of the types above with values of at most `max` bytes; others are passed over.
    pub fn new(max: u64) -> Self {
        Self { max, state: CapsuleState::Header(VarintPieces::default()), idle: Idle::default() }
    }

    /// Takes bytes from the front of `input` for the next capsule. `None` when more bytes are needed: then
    /// all of `input` was taken. Types that are not known are passed over (RFC 9297 §3.2), and so are
    /// datagrams above the limit, which may be lost like any.
    ///
    /// # Errors
    /// H3_EXCESSIVE_LOAD for a capsule above the limit that is no datagram, or too many that stand for
    /// nothing. It is the stream that cannot go on.
    pub fn next(&mut self, input: &mut Bytes) -> Result<Option<Capsule>, Error> {
        loop {
            match &mut self.state {
                CapsuleState::Header(pieces) => {
                    let Some([kind, len]) = pieces.take(input) else { return Ok(None) };
                    self.state = self.begin(kind, len)?;
                }
                CapsuleState::Skip(left) => {
                    let n = (*left).min(input.len() as u64);
                    *left -= n;
                    let n = n.saturated();
                    input.advance(n);
                    self.idle.pay(n);
                    if *left > 0 {
                        return Ok(None);
                    }
                    self.state = CapsuleState::Header(VarintPieces::default());
                }
                CapsuleState::Whole { kind, len, so_far } => {
                    let missing = len.saturated::<usize>() - so_far.len();
                    if input.len() < missing {
                        so_far.extend_from_slice(input);
                        input.clear();
                        return Ok(None);
                    }
                    so_far.extend_from_slice(&input.split_to(missing));
                    self.idle.pay(so_far.len());
                    // What came in pieces has room for twice as much, and who counts its bytes does not count
                    // that.
                    so_far.shrink_to_fit();
                    let capsule = Capsule { kind: *kind, value: core::mem::take(so_far).into() };
                    self.state = CapsuleState::Header(VarintPieces::default());
                    return Ok(Some(capsule));
                }
            }
        }
    }

    /// Whether the stream may end here (RFC 9297 §3.3: else the message is malformed).
    pub fn is_between_capsules(&self) -> bool {
        matches!(&self.state, CapsuleState::Header(pieces) if pieces.is_empty())
    }

    fn begin(&mut self, kind: u64, len: u64) -> Result<CapsuleState, Error> {
        let known = matches!(kind, DATAGRAM | WT_CLOSE_SESSION | WT_DRAIN_SESSION)
            || (WT_MAX_DATA..=WT_STREAMS_BLOCKED_UNI).contains(&kind);
        if known && len <= self.max {
            return Ok(CapsuleState::Whole { kind, len, so_far: Vec::new() });
        }
        if !self.idle.count() || (known && kind != DATAGRAM) {
            return Err(Error::new(ErrorCode::H3_EXCESSIVE_LOAD, "a capsule that is too large, or too many"));
        }
        Ok(CapsuleState::Skip(len))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(reader: &mut CapsuleReader, bytes: &[u8]) -> Result<Vec<Capsule>, ErrorCode> {
        let mut input = Bytes::copy_from_slice(bytes);
        let mut capsules = Vec::new();
        while let Some(capsule) = reader.next(&mut input).map_err(|e| e.code)? {
            capsules.push(capsule);
        }
        assert!(input.is_empty());
        Ok(capsules)
    }

    #[test]
    fn unknown_capsules_are_passed_over() {
        let mut reader = CapsuleReader::new(100);
        let datagram = Capsule { kind: DATAGRAM, value: Bytes::from("x") };
        assert_eq!(read(&mut reader, &[0x17, 2, 9, 9, 0, 1, b'x']), Ok(vec![datagram]));
    }

    #[test]
    fn large_capsules_cost_nothing() {
        let mut reader = CapsuleReader::new(3);
        assert_eq!(read(&mut reader, &[0, 4, 1, 2, 3, 4]), Ok(vec![]), "a datagram is lost");
        assert_eq!(read(&mut reader, &[0x68, 0x43, 4]), Err(ErrorCode::H3_EXCESSIVE_LOAD));
        let mut reader = CapsuleReader::new(3);
        assert_eq!(read(&mut reader, &[&[0][..], &[0xff; 8]].concat()), Ok(vec![]));
        assert!(!reader.is_between_capsules());
    }

    #[test]
    fn too_many_unknown_capsules_are_excessive() {
        let mut reader = CapsuleReader::new(3);
        for _ in 0..256 {
            assert_eq!(read(&mut reader, &[0x17, 0].repeat(1024)), Ok(vec![]));
        }
        assert_eq!(read(&mut reader, &[0x17, 0]), Err(ErrorCode::H3_EXCESSIVE_LOAD));
        // What brings its bytes along may come for ever, and datagrams that are too long are such.
        let mut reader = CapsuleReader::new(3);
        for kind in [0x17, 0] {
            let padding = [&[kind, 0x40, 64][..], &[0; 64]].concat().repeat(1 << 10);
            for _ in 0..300 {
                assert_eq!(read(&mut reader, &padding), Ok(vec![]));
            }
        }
    }

    proptest! {
        #[test]
        fn capsules_round_trip_in_any_cut(values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..5), cut in 1..9_usize) {
            let mut stream = Vec::new();
            for value in &values {
                encode(&mut stream, DATAGRAM, value);
            }
            let mut reader = CapsuleReader::new(100);
            let mut got = Vec::new();
            for part in stream.chunks(cut) {
                got.extend(read(&mut reader, part).unwrap());
            }
            prop_assert!(reader.is_between_capsules());
            prop_assert_eq!(got.iter().map(|c| c.value.to_vec()).collect::<Vec<_>>(), values);
        }
    }
}
