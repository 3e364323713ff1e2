use std::collections::VecDeque;

use bytes::Bytes;
use quickset_fec::{Equation, Symbols, reed_solomon};

use super::span::Cover;
use crate::token::Key;
use crate::tx::{Packed, StreamFrame};

/// The bytes of a lane's symbols: for repair, and to send a symbol again as it was.
///
/// Most are copies. What is encoded in one pass may lie where the stream has it: the copy would cost as much as the
/// packet that it is for, and push what every packet needs out of the caches.
#[derive(Debug)]
pub(super) struct Kept {
    copies: Symbols,
    /// For each SID from `base` on the frame that it is, if there is no copy.
    shared: VecDeque<Shared>,
    base: u64,
    /// Where their data is.
    pieces: VecDeque<Piece>,
    /// The number of the first piece.
    first_piece: u64,
    /// Symbols are encoded in one pass.
    shares: bool,
}

/// A symbol that is one STREAM frame, and where its data is; nowhere if there is none.
#[derive(Clone, Copy, Debug)]
struct Shared {
    /// In the stream.
    offset: u64,
    /// The last bits of the number of its piece.
    piece: u32,
    len: u16,
    /// Bytes before the data.
    head_len: u8,
    /// These bytes as they were written, and more.
    head: [u8; MAX_HEAD],
}

/// A piece of a stream's buffer.
#[derive(Debug)]
struct Piece {
    bytes: Bytes,
    key: Key,
    offset: u64,
    /// Of the last symbol in it.
    sid: u64,
}

/// A STREAM frame whose data lies in the buffer of its stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lying<'a> {
    head: &'a [u8],
    data: &'a [u8],
}

impl Kept {
    /// None yet, of a peer that keeps `window` of at most `size` bytes. With `shares` they are encoded in one pass.
    pub(super) fn new(window: u64, size: usize, shares: bool) -> Self {
        let copies = Symbols::new(usize::try_from(window).unwrap_or(usize::MAX), size);
        Self { copies, shared: VecDeque::new(), base: 0, pieces: VecDeque::new(), first_piece: 0, shares }
    }

    /// The copies, which are all when nothing is encoded in one pass.
    pub(super) fn copies(&self) -> &Symbols {
        debug_assert!(!self.shares);
        &self.copies
    }

    /// The next symbol, `sid`; `piece` gives the data of a frame.
    #[inline]
    pub(super) fn push(
        &mut self,
        sid: u64,
        packed: Packed<'_>,
        piece: impl FnOnce(&StreamFrame) -> Option<Bytes>,
    ) {
        if self.shares {
            let frame = packed.frame.filter(|frame| frame.len >= MIN_SHARED);
            if self.share(sid, frame, packed.bytes, piece) {
                return;
            }
        }
        let taken = if self.shares {
            self.copies.insert(sid, packed.bytes).map(|()| sid)
        } else {
            self.copies.push(packed.bytes)
        };
        debug_assert_eq!(taken, Ok(sid), "a symbol of ours that does not fit the window");
    }

    /// The bytes of a symbol.
    pub(super) fn get(&self, sid: u64) -> Option<Symbol<'_>> {
        let shared = self.shared(sid).map(Symbol::Frame);
        shared.or_else(|| self.copies.get(sid).map(Symbol::Copy))
    }

    /// Forgets everything below `sid`.
    pub(super) fn drop_below(&mut self, sid: u64) {
        let n = usize::try_from(sid.saturating_sub(self.base)).unwrap_or(usize::MAX).min(self.shared.len());
        match n {
            1 => drop(self.shared.pop_front()),
            _ => drop(self.shared.drain(..n)),
        }
        while self.pieces.front().is_some_and(|piece| piece.sid < sid) {
            self.pieces.pop_front();
            self.first_piece += 1;
        }
        self.base = self.base.max(sid);
        self.copies.drop_below(sid);
    }

    /// The peer keeps that many from now on.
    pub(super) fn set_window(&mut self, window: u64) {
        self.copies.set_window(usize::try_from(window).unwrap_or(usize::MAX));
    }

    /// Gives back what memory is not needed.
    pub(super) fn trim(&mut self) {
        self.copies.trim();
        if self.shared.capacity() > FEW.max(2 * self.shared.len()) {
            self.shared.shrink_to_fit();
        }
    }

    /// One repair symbol, into `out`. FEC-24, FEC-26: as long as the longest symbol of its range, whatever became of
    /// them since.
    pub(super) fn combine(&mut self, equation: &Equation, out: &mut Vec<u8>) {
        if self.shares {
            (0..equation.terms()).for_each(|term| self.copy(equation.sid(term)));
        }
        self.copies.combine(equation, out).expect("symbols are kept as long as repairs are owed");
    }

    /// The first `n` repair symbols of a Reed-Solomon block, as long as the longest of its symbols (FEC-24, FEC-26).
    pub(super) fn encode(&mut self, cover: &Cover, n: u32, repairs: &mut Vec<Vec<u8>>) {
        let sids = (0..cover.terms).map(|term| cover.first + term * cover.stride);
        // The code works on each byte by itself. So the first bytes of all symbols, as many as most have apart from their
        // data, are encoded on their own, and then the others, where they lie.
        let head = sids.clone().find_map(|sid| self.entry(sid)).map_or(0, |shared| shared.head_len);
        for sid in sids.clone() {
            if self.entry(sid).is_some_and(|shared| shared.head_len != head) {
                self.copy(sid);
            }
        }
        let head = usize::from(head);
        let (mut firsts, mut others) = (Vec::with_capacity(MAX_TERMS), Vec::with_capacity(MAX_TERMS));
        for sid in sids {
            let (first, other) = if let Some(shared) = self.entry(sid) {
                (&shared.head[..head], self.data(shared))
            } else {
                let copy = self.copies.get(sid).expect("symbols are kept as long as repairs are owed");
                copy.split_at(head.min(copy.len()))
            };
            firsts.push(first);
            others.push(other);
        }
        let longest = head + others.iter().map(|other| other.len()).max().unwrap_or(0);
        repairs.resize_with(n as usize, Vec::new);
        for repair in repairs.iter_mut() {
            repair.resize(longest, 0);
        }
        let parts: (Vec<_>, Vec<_>) = repairs.iter_mut().map(|repair| repair.split_at_mut(head)).unzip();
        for (sources, mut buffers) in [(firsts, parts.0), (others, parts.1)] {
            reed_solomon::encode(&sources, &mut buffers).expect("a block of ours is within bounds");
        }
    }

    /// Makes a copy of a symbol, if there is none.
    fn copy(&mut self, sid: u64) {
        let Some(symbol) = self.shared(sid).map(Symbol::Frame) else { return };
        let mut bytes = vec![0; symbol.len()];
        symbol.write(&mut bytes);
        self.shared[(sid - self.base) as usize] = Shared::NONE;
        let taken = self.copies.insert(sid, &bytes);
        debug_assert_eq!(taken, Ok(()), "there was no copy");
    }

    /// Makes a place for symbol `sid`. True when it is a frame that lies where its stream has it: the piece with its data
    /// stays then. Most frames are in the piece of the one before.
    #[inline]
    fn share(
        &mut self,
        sid: u64,
        frame: Option<&StreamFrame>,
        symbol: &[u8],
        piece: impl FnOnce(&StreamFrame) -> Option<Bytes>,
    ) -> bool {
        self.shared.push_back(Shared::NONE);
        let Some(StreamFrame { key, offset, len, piece: begin, .. }) = frame.copied() else { return false };
        let before = symbol.len() - len as usize;
        let (Some(head), Ok(len)) = (symbol.first_chunk(), u16::try_from(len)) else { return false };
        if before > MAX_HEAD {
            return false;
        }
        match self.pieces.back_mut() {
            Some(last) if last.key == key && last.offset == begin => last.sid = sid,
            _ => {
                let Some(bytes) = frame.and_then(piece) else { return false };
                self.pieces.push_back(Piece { bytes, key, offset: begin, sid });
            }
        }
        let piece = (self.first_piece + self.pieces.len() as u64 - 1) as u32;
        if let Some(last) = self.shared.back_mut() {
            // Field by field, in place: what is moved as a whole waits for its parts to have been written.
            last.offset = offset;
            last.piece = piece;
            last.len = len;
            last.head_len = before as u8;
            last.head = *head;
        }
        true
    }

    fn shared(&self, sid: u64) -> Option<Lying<'_>> {
        let shared = self.entry(sid)?;
        Some(Lying { head: &shared.head[..usize::from(shared.head_len)], data: self.data(shared) })
    }

    #[inline]
    fn entry(&self, sid: u64) -> Option<&Shared> {
        let at = usize::try_from(sid.checked_sub(self.base)?).ok()?;
        self.shared.get(at).filter(|shared| shared.len > 0)
    }

    #[inline]
    fn data(&self, shared: &Shared) -> &[u8] {
        let piece = &self.pieces[shared.piece.wrapping_sub(self.first_piece as u32) as usize];
        &piece.bytes[(shared.offset - piece.offset) as usize..][..shared.len as usize]
    }
}

impl Shared {
    const NONE: Self = Self { offset: 0, piece: 0, len: 0, head_len: 0, head: [0; MAX_HEAD] };
}

/// A symbol as it was sent first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Symbol<'a> {
    Copy(&'a [u8]),
    Frame(Lying<'a>),
}

impl Symbol<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Copy(bytes) => bytes.len(),
            Self::Frame(frame) => frame.head.len() + frame.data.len(),
        }
    }

    /// Fills `out`, which is as long as the symbol.
    pub(crate) fn write(&self, out: &mut [u8]) {
        match self {
            Self::Copy(bytes) => out.copy_from_slice(bytes),
            Self::Frame(Lying { head, data }) => {
                out[..head.len()].copy_from_slice(head);
                out[head.len()..].copy_from_slice(data);
            }
        }
    }
}

/// Bytes of a head at most; a kind, a length of two bytes, and varints of four and eight take 15. Others are copied.
const MAX_HEAD: usize = 16;

/// Places for as many symbols are not worth giving back.
const FEW: usize = 64;

/// Symbols of a block at most.
const MAX_TERMS: usize = 255;

/// Less is copied sooner than shared.
const MIN_SHARED: u32 = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quickset_wire::frame::stream_header;
    use quickset_wire::{StreamId, Writer};

    /// A symbol that is one STREAM frame.
    #[derive(Clone, Debug)]
    struct Sent {
        frame: StreamFrame,
        piece: Bytes,
        shared: bool,
    }

    impl Sent {
        fn bytes(&self) -> Vec<u8> {
            let StreamFrame { id, offset, len, piece, .. } = self.frame;
            let data = &self.piece[(offset - piece) as usize..][..len as usize];
            let mut bytes = vec![0; 32 + data.len()];
            let mut w = Writer::new(&mut bytes);
            stream_header(&mut w, id, offset, false, Some(data.len()));
            w.bytes(data);
            let len = w.len();
            bytes.truncate(len);
            bytes
        }
    }

    const KEY: Key = Key { index: 0, generation: 0 };

    fn sent() -> impl Strategy<Value = Sent> {
        let offset =
            prop_oneof![8 => 20_000u64..1 << 30, 1 => Just(0), 1 => any::<u64>().prop_map(|n| n >> 2)];
        let len = prop_oneof![4 => Just(1400u32), 1 => 1u32..1470];
        // The last is too large for a head that is kept.
        let id = prop_oneof![8 => Just(StreamId(4)), 1 => Just(StreamId(400)), 1 => Just(StreamId(1 << 40))];
        let place = (offset, 0u64..50, len, id);
        (place, any::<bool>(), any::<u8>()).prop_map(|((piece, from, len, id), shared, seed)| {
            let frame = StreamFrame { key: KEY, id, offset: piece + from, len, piece };
            let bytes = from as usize + len as usize + 30;
            let piece = (0..bytes).map(|at| (at as u8).wrapping_mul(seed | 1).wrapping_add(seed)).collect();
            Sent { frame, piece, shared }
        })
    }

    fn fill(kept: &mut Kept, symbols: &[Sent]) {
        for (packet, sent) in (0..).zip(symbols) {
            let frame = sent.shared.then_some(&sent.frame);
            let packed = Packed { bytes: &sent.bytes(), packet, unmarked: false, frame };
            kept.push(packet, packed, |_| Some(sent.piece.clone()));
        }
    }

    fn reference(symbols: &[Sent], equation: &Equation) -> Vec<u8> {
        let mut copies = Symbols::new(1024, 1500);
        for sent in symbols {
            copies.push(&sent.bytes()).unwrap();
        }
        let mut out = Vec::new();
        copies.combine(equation, &mut out).unwrap();
        out
    }

    proptest! {
        #[test]
        fn what_is_shared_is_repaired_and_repeated_like_a_copy(
            symbols in prop::collection::vec(sent(), 1..130),
            stride in 1u64..4,
        ) {
            // Each is of a stream of its own.
            let mut symbols = symbols;
            (0..).zip(&mut symbols).for_each(|(index, sent)| sent.frame.key.index = index);
            let mut kept = Kept::new(1024, 1500, true);
            fill(&mut kept, &symbols);
            let terms = (symbols.len() as u64).div_ceil(stride);
            let (cover, mut repairs) = (Cover { first: 0, terms, stride }, Vec::new());
            kept.encode(&cover, 3, &mut repairs);
            for (index, repair) in (0..).zip(&repairs) {
                let equation = Equation::reed_solomon(0, terms, stride, index).unwrap();
                let expected = reference(&symbols, &equation);
                prop_assert_eq!(&repair[..expected.len()], &expected[..]);
                prop_assert!(repair[expected.len()..].iter().all(|byte| *byte == 0));
            }
            for (sid, sent) in (0..).zip(&symbols) {
                let kept = kept.get(sid).unwrap();
                let mut bytes = vec![0; kept.len()];
                kept.write(&mut bytes);
                prop_assert_eq!(bytes, sent.bytes());
            }
            // And one more, for which all are copied.
            let equation = Equation::reed_solomon(0, terms, stride, 3).unwrap();
            let mut out = Vec::new();
            kept.combine(&equation, &mut out);
            prop_assert_eq!(out, reference(&symbols, &equation));
        }
    }

    /// Three frames in each piece.
    #[test]
    fn what_is_settled_is_let_go() {
        let mut kept = Kept::new(1024, 1500, true);
        let pieces: Vec<Bytes> = (0..3).map(|n| Bytes::from(vec![n; 3000])).collect();
        let symbols: Vec<Sent> = (0..9)
            .map(|sid| {
                let offset = 1000 * sid;
                let frame =
                    StreamFrame { key: KEY, id: StreamId(0), offset, len: 1000, piece: sid / 3 * 3000 };
                Sent { frame, piece: pieces[sid as usize / 3].clone(), shared: true }
            })
            .collect();
        fill(&mut kept, &symbols);
        let bytes: Vec<Vec<u8>> = symbols.iter().map(Sent::bytes).collect();
        drop(symbols);
        assert_eq!((kept.copies.held(), kept.pieces.len()), (0, 3), "nothing was copied");
        for (sid, held) in [(2, 3), (3, 2), (8, 1), (9, 0)] {
            kept.drop_below(sid);
            assert_eq!(pieces.iter().filter(|piece| !piece.is_unique()).count(), held, "{sid}");
            for sid in sid..9 {
                let symbol = kept.get(sid).unwrap();
                let mut out = vec![0; symbol.len()];
                symbol.write(&mut out);
                assert_eq!(out, bytes[sid as usize]);
            }
        }
        assert!(kept.get(8).is_none());
    }
}
