use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use quickset_base::number::index;
use quickset_fec::{Equation, Symbols, reed_solomon};
use quickset_wire::frame::{stream_header, stream_header_size};
use quickset_wire::{StreamId, Writer, varint};

use super::span::Cover;
use crate::packet::{Packed, StreamFrame, StreamKey};

/// The bytes of a lane's symbols: for repair, and to send a symbol again as it was.
///
/// Mostly copies. What is encoded in one pass may lie where the stream has it: the copy would cost as much as
/// the packet that it is for, and push what every packet needs out of the caches.
#[derive(Debug)]
pub(super) struct KeptSymbols {
    /// All symbols, if none is shared.
    copies: Symbols,
    /// Else those that no piece of a stream's buffer has.
    apart: Apart,
    /// And the others, in order.
    runs: VecDeque<SymbolRun>,
    /// Where their data is.
    pieces: VecDeque<BufferPiece>,
    /// The number of the first piece.
    first_piece: u64,
    /// Symbols are encoded in one pass.
    shares: bool,
    /// To write heads down in.
    heads: Vec<[u8; MAX_HEAD]>,
}

/// Copies of some symbols, in order, whatever lies between them.
#[derive(Debug, Default)]
struct Apart {
    symbols: VecDeque<(u64, Vec<u8>)>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
}

/// Symbols in a row that are one STREAM frame each, the data of one behind that of the other.
#[derive(Clone, Copy, Debug)]
struct SymbolRun {
    /// Of the first, as are the others.
    sid: u64,
    id: StreamId,
    /// In the stream.
    offset: u64,
    /// Bytes of data of each, and those before.
    len: u32,
    head_len: u8,
    /// Symbols.
    n: u64,
    /// The number of the piece that all the data is in.
    piece: u64,
}

/// A piece of a stream's buffer.
#[derive(Debug)]
struct BufferPiece {
    bytes: Bytes,
    key: StreamKey,
    offset: u64,
    /// Of the last symbol in it.
    sid: u64,
}

/// A STREAM frame whose data lies in the buffer of its stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lying<'a> {
    head: [u8; MAX_HEAD],
    head_len: u8,
    data: &'a [u8],
}

impl KeptSymbols {
    /// None yet, of a peer that keeps `window` of at most `size` bytes. With `shares` they are encoded in one
    /// pass.
    pub(super) fn new(window: u64, size: usize, shares: bool) -> Self {
        let copies = Symbols::new(usize::try_from(window).unwrap_or(usize::MAX), size);
        Self {
            copies,
            apart: Apart::default(),
            runs: VecDeque::new(),
            pieces: VecDeque::new(),
            first_piece: 0,
            shares,
            heads: Vec::new(),
        }
    }

    /// The copies, which are all when nothing is encoded in one pass.
    pub(super) fn copies(&self) -> &Symbols {
        debug_assert!(!self.shares);
        &self.copies
    }

    /// The next symbol, `sid`; `piece` gives the data of a frame. True when it was not copied.
    #[inline]
    pub(super) fn push(
        &mut self,
        sid: u64,
        packed: Packed<'_>,
        piece: impl FnOnce(&StreamFrame) -> Option<Bytes>,
    ) -> bool {
        let frame = packed.frame.filter(|frame| self.shares && frame.len >= MIN_SHARED);
        if let Some((frame, run)) = frame.and_then(|frame| Some((frame, SymbolRun::of(sid, frame, 1)?))) {
            if run.frame(sid, &[]).begins(packed.bytes, frame.len) && self.share(run, frame, piece) {
                return true;
            }
        }
        if self.shares {
            self.apart.push(sid, packed.bytes);
        } else {
            let taken = self.copies.push(packed.bytes);
            debug_assert_eq!(taken, Ok(sid), "a symbol of ours that does not fit the window");
        }
        false
    }

    /// The next `n` symbols, from `sid` on, each as long as the one before, which was not copied, and the
    /// next frame of the same piece: `frame` is the first.
    pub(super) fn extend(&mut self, sid: u64, frame: &StreamFrame, n: u64) {
        let run = SymbolRun::of(sid, frame, n);
        let shared = run.is_some_and(|run| self.share(run, frame, |_| None));
        debug_assert!(shared, "their piece is kept, and their heads are as long");
    }

    /// The bytes of a symbol.
    pub(super) fn get(&self, sid: u64) -> Option<KeptSymbol<'_>> {
        if !self.shares {
            return self.copies.get(sid).map(KeptSymbol::Copy);
        }
        let lying = self.lying(sid).map(KeptSymbol::Frame);
        lying.or_else(|| self.apart.get(sid).map(KeptSymbol::Copy))
    }

    /// Forgets everything below `sid`.
    pub(super) fn drop_below(&mut self, sid: u64) {
        if !self.shares {
            return self.copies.drop_below(sid);
        }
        while self.runs.front().is_some_and(|run| run.end() <= sid) {
            self.runs.pop_front();
        }
        if let Some(first) = self.runs.front_mut() {
            first.drop_below(sid);
        }
        while self.pieces.front().is_some_and(|piece| piece.sid < sid) {
            self.pieces.pop_front();
            self.first_piece += 1;
        }
        self.apart.drop_below(sid);
    }

    /// The peer keeps that many from now on.
    pub(super) fn set_window(&mut self, window: u64) {
        self.copies.set_window(usize::try_from(window).unwrap_or(usize::MAX));
    }

    /// Gives back what memory is not needed.
    pub(super) fn trim(&mut self) {
        self.copies.trim();
        self.apart.trim();
        self.heads = Vec::new();
        if self.runs.capacity() > FEW.max(2 * self.runs.len()) {
            self.runs.shrink_to_fit();
        }
    }

    /// One repair symbol, into `out`. FEC-24, FEC-26: as long as the longest symbol of its range, whatever
    /// became of them since.
    pub(super) fn combine(&self, equation: &Equation, out: &mut Vec<u8>) {
        let mut block;
        let mut symbols = &self.copies;
        if self.shares {
            let numbers = equation.last() - equation.first() + 1;
            block = Symbols::new(index(numbers), self.copies.size());
            for sid in (0..equation.terms()).map(|term| equation.sid(term)) {
                let taken = self.get(sid).map(|symbol| block.insert(sid, &symbol.bytes()));
                debug_assert_eq!(taken, Some(Ok(())), "it is kept, and fits");
            }
            symbols = &block;
        }
        symbols.combine(equation, out).expect("symbols are kept as long as repairs are owed");
    }

    /// The first `n` repair symbols of a Reed-Solomon block, as long as the longest of its symbols (FEC-24,
    /// FEC-26).
    pub(super) fn encode(&mut self, cover: &Cover, n: u32, repairs: &mut Vec<Vec<u8>>) {
        let sids = (0..cover.terms).map(|term| cover.first + term * cover.stride);
        // The first bytes of all symbols, as many as most have apart from their data, are written down, the
        // others stay where they lie.
        let head_len = sids.clone().find_map(|sid| self.run(sid)).map_or(0, |run| run.head_len);
        let begin = self.runs.partition_point(|run| run.end() <= cover.first);
        // Of those whose heads are of another length there are copies.
        let mut runs = self.runs.range(begin..).take_while(|run| run.sid < cover.end());
        let mut odd = BTreeMap::new();
        if runs.any(|run| run.head_len != head_len) {
            let is_odd = |sid: &u64| self.run(*sid).is_some_and(|run| run.head_len != head_len);
            odd.extend(sids.filter(is_odd).filter_map(|sid| Some((sid, self.get(sid)?.bytes()))));
        }
        let mut heads = std::mem::take(&mut self.heads);
        heads.clear();
        let mut others = Vec::with_capacity(index(cover.terms));
        let (mut at, mut sid) = (begin, cover.first);
        while sid < cover.end() {
            let run = self.runs.get(at);
            if run.is_some_and(|run| run.end() <= sid) {
                at += 1;
            } else if let Some(run) = run.filter(|run| run.sid <= sid && run.head_len == head_len) {
                let (first, step) = run.heads();
                let piece = &self.pieces[index(run.piece - self.first_piece)];
                let data = &piece.bytes[index(run.offset - piece.offset)..];
                let len = run.len as usize;
                let n = (run.end().min(cover.end()) - sid).div_ceil(cover.stride);
                let from = index(sid - run.sid);
                let (first, step) = (first + step * from as u128, step * u128::from(cover.stride));
                heads.extend((0..n).map(|n| (first + step * u128::from(n)).to_be_bytes()));
                let (data, step) = (&data[from * len..], index(cover.stride) * len);
                others.extend((0..index(n)).map(|n| &data[n * step..][..len]));
                sid += n * cover.stride;
            } else {
                let copy = odd.get(&sid).map(Vec::as_slice).or_else(|| self.apart.get(sid));
                let copy = copy.expect("symbols are kept as long as repairs are owed");
                let (first, other) = copy.split_at(usize::from(head_len).min(copy.len()));
                let mut head = [0; MAX_HEAD];
                head[..first.len()].copy_from_slice(first);
                heads.push(head);
                others.push(other);
                sid += cover.stride;
            }
        }
        let head_len = usize::from(head_len);
        let longest = head_len + others.iter().map(|other| other.len()).max().unwrap_or(0);
        repairs.resize_with(n as usize, Vec::new);
        for repair in repairs.iter_mut() {
            repair.resize(longest, 0);
        }
        let mut buffers: Vec<_> = repairs.iter_mut().map(Vec::as_mut_slice).collect();
        let encoded = reed_solomon::encode_split(&heads, head_len, &others, &mut buffers);
        encoded.expect("a block of ours is within bounds");
        self.heads = heads;
    }

    /// The next symbols, the first of which is this frame, lie where their stream has them: the piece with
    /// their data stays. Most are in the piece of the one before. False if there is none.
    #[inline]
    fn share(
        &mut self,
        mut run: SymbolRun,
        frame: &StreamFrame,
        piece: impl FnOnce(&StreamFrame) -> Option<Bytes>,
    ) -> bool {
        let last = run.end() - 1;
        match self.pieces.back_mut() {
            Some(latest) if latest.key == frame.key && latest.offset == frame.piece => latest.sid = last,
            _ => {
                let Some(bytes) = piece(frame) else { return false };
                self.pieces.push_back(BufferPiece { bytes, key: frame.key, offset: frame.piece, sid: last });
            }
        }
        run.piece = self.first_piece + self.pieces.len() as u64 - 1;
        match self.runs.back_mut() {
            Some(before) if before.goes_on_with(&run) => before.n += run.n,
            _ => self.runs.push_back(run),
        }
        true
    }

    /// A symbol that lies where its stream has it.
    #[inline]
    fn lying(&self, sid: u64) -> Option<Lying<'_>> {
        self.run(sid).map(|run| run.frame(sid, self.data(run, sid)))
    }

    /// The data of a symbol of a run.
    #[inline]
    fn data(&self, run: &SymbolRun, sid: u64) -> &[u8] {
        let piece = &self.pieces[index(run.piece - self.first_piece)];
        let from = index(run.offset_of(sid) - piece.offset);
        &piece.bytes[from..][..run.len as usize]
    }

    /// Where it is one of.
    #[inline]
    fn run(&self, sid: u64) -> Option<&SymbolRun> {
        let at = self.runs.partition_point(|run| run.end() <= sid);
        self.runs.get(at).filter(|run| run.sid <= sid)
    }
}

impl Apart {
    /// Symbol `sid`, behind all others.
    fn push(&mut self, sid: u64, bytes: &[u8]) {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        self.symbols.push_back((sid, buffer));
    }

    fn get(&self, sid: u64) -> Option<&[u8]> {
        let at = self.symbols.partition_point(|(other, _)| *other < sid);
        let (found, bytes) = self.symbols.get(at)?;
        (*found == sid).then_some(bytes)
    }

    fn drop_below(&mut self, sid: u64) {
        while self.symbols.front().is_some_and(|(first, _)| *first < sid) {
            let dropped = self.symbols.pop_front();
            self.spare.extend(dropped.map(|(_, buffer)| buffer).filter(|_| self.spare.len() < FEW));
        }
    }

    /// Gives back what memory is not needed.
    fn trim(&mut self) {
        self.spare = Vec::new();
        if self.symbols.capacity() > FEW.max(2 * self.symbols.len()) {
            self.symbols.shrink_to_fit();
        }
    }
}

impl SymbolRun {
    /// Of `n` symbols from `sid` on, of which this is the first; if their heads are equally long. Its piece
    /// is to be told yet.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a head longer than `MAX_HEAD` is none")]
    fn of(sid: u64, frame: &StreamFrame, n: u64) -> Option<Self> {
        let StreamFrame { id, offset, len, .. } = *frame;
        let size = |offset| stream_header_size(id, offset, Some(len as usize));
        let head_len = size(offset);
        let is_even = n == 1 || size(offset + (n - 1) * u64::from(len)) == head_len;
        (is_even && head_len <= MAX_HEAD).then_some(Self {
            sid,
            id,
            offset,
            len,
            head_len: head_len as u8,
            n,
            piece: 0,
        })
    }

    fn end(&self) -> u64 {
        self.sid + self.n
    }

    fn offset_of(&self, sid: u64) -> u64 {
        self.offset + (sid - self.sid) * u64::from(self.len)
    }

    /// Whether another begins where this one ends, with nothing else about it.
    #[inline]
    fn goes_on_with(&self, other: &Self) -> bool {
        let place = |run: &Self| (run.piece, run.id, run.len, run.head_len);
        place(self) == place(other) && other.sid == self.end() && other.offset == self.offset_of(other.sid)
    }

    fn drop_below(&mut self, sid: u64) {
        if sid > self.sid {
            self.offset = self.offset_of(sid);
            self.n -= sid - self.sid;
            self.sid = sid;
        }
    }

    /// The head of the first symbol as a number, and by how much those behind it are larger: but for their
    /// offsets, whose last byte stands before the length, they are alike.
    fn heads(&self) -> (u128, u128) {
        let first = u128::from_be_bytes(self.frame(self.sid, &[]).head);
        let end = usize::from(self.head_len) - varint::size(self.len.into());
        (first, u128::from(self.len) << (8 * (MAX_HEAD - end)))
    }

    /// The frame that symbol `sid` is, with this data.
    #[inline]
    fn frame<'a>(&self, sid: u64, data: &'a [u8]) -> Lying<'a> {
        let mut head = [0; MAX_HEAD];
        stream_header(
            &mut Writer::new(&mut head),
            self.id,
            self.offset_of(sid),
            false,
            Some(self.len as usize),
        );
        Lying { head, head_len: self.head_len, data }
    }
}

impl Lying<'_> {
    fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.head_len)]
    }

    /// Whether a symbol is its head and so many bytes of data.
    fn begins(&self, symbol: &[u8], data: u32) -> bool {
        symbol.len() == self.head().len() + data as usize && symbol.starts_with(self.head())
    }
}

/// A symbol as it was sent first.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeptSymbol<'a> {
    Copy(&'a [u8]),
    Frame(Lying<'a>),
}

impl KeptSymbol<'_> {
    /// A copy of it.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len()];
        self.write(&mut bytes);
        bytes
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Copy(bytes) => bytes.len(),
            Self::Frame(frame) => frame.head().len() + frame.data.len(),
        }
    }

    /// Fills `out`, which is as long as the symbol.
    pub(crate) fn write(&self, out: &mut [u8]) {
        match self {
            Self::Copy(bytes) => out.copy_from_slice(bytes),
            Self::Frame(frame) => {
                let (head, data) = out.split_at_mut(frame.head().len());
                head.copy_from_slice(frame.head());
                data.copy_from_slice(frame.data);
            }
        }
    }
}

/// Bytes of a head at most; a kind, a length of two bytes, and varints of four and eight take 15. Others are
/// copied.
const MAX_HEAD: usize = reed_solomon::MAX_HEAD;

/// Places for as many symbols are not worth giving back.
const FEW: usize = 64;

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

    const KEY: StreamKey = StreamKey { index: 0, generation: 0 };

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

    fn fill(kept: &mut KeptSymbols, symbols: &[Sent]) {
        fill_from(kept, 0, symbols);
    }

    fn fill_from(kept: &mut KeptSymbols, first: usize, symbols: &[Sent]) {
        for (packet, sent) in (first as u64..).zip(symbols) {
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
            let mut kept = KeptSymbols::new(1024, 1500, true);
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

    /// Frames of one stream told together, where heads become longer, beside others that are copied.
    #[test]
    fn frames_in_a_row_are_repaired_and_repeated_like_copies() {
        const LEN: u32 = 700;
        for begin in [0, 1, (1 << 14) - 2500, (1 << 30) - 2100, 1 << 40] {
            let piece: Bytes =
                (0..40_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
            let frame = |n: u64, len| {
                let offset = begin + n * u64::from(LEN);
                StreamFrame { key: KEY, id: StreamId(4), offset, len, piece: begin }
            };
            // Every tenth is shorter, and those behind the fifth are told together as far as they are alike.
            let symbols: Vec<Sent> = (0..50)
                .map(|n| {
                    let len = if n % 10 == 9 { LEN - 1 } else { LEN };
                    Sent { frame: frame(n, len), piece: piece.clone(), shared: n != 7 }
                })
                .collect();
            let mut kept = KeptSymbols::new(1024, 1500, true);
            let mut at = 0;
            while at < 50 {
                fill_from(&mut kept, at, &symbols[at..=at]);
                let size = symbols[at].bytes().len();
                let alike = |sent: &&Sent| at > 5 && sent.shared && sent.bytes().len() == size;
                let n = symbols[at + 1..].iter().take_while(alike).count();
                if n > 0 && symbols[at].shared {
                    kept.extend(at as u64 + 1, &symbols[at + 1].frame, n as u64);
                    at += n;
                }
                at += 1;
            }
            assert_eq!(kept.apart.symbols.len(), 1);
            kept.drop_below(2);
            for stride in [1, 3] {
                let terms = 48_u64.div_ceil(stride);
                let (cover, mut repairs) = (Cover { first: 2, terms, stride }, Vec::new());
                kept.encode(&cover, 4, &mut repairs);
                for (index, repair) in (0..).zip(&repairs) {
                    let equation = Equation::reed_solomon(2, terms, stride, index).unwrap();
                    assert_eq!(repair, &reference(&symbols, &equation), "from {begin}, stride {stride}");
                }
            }
            for (sid, sent) in (0..).zip(&symbols).skip(2) {
                let kept = kept.get(sid).unwrap();
                let mut bytes = vec![0; kept.len()];
                kept.write(&mut bytes);
                assert_eq!(bytes, sent.bytes());
            }
            kept.drop_below(50);
            assert!(kept.runs.is_empty() && kept.pieces.is_empty());
        }
    }

    #[test]
    fn copies_lie_apart_in_order_and_their_buffers_serve_again() {
        let mut apart = Apart::default();
        let bytes = |sid: u64| vec![sid as u8; 1 + sid as usize % 50];
        for sid in (0..3000).filter(|sid| sid % 7 < 3) {
            apart.push(sid, &bytes(sid));
            apart.drop_below(sid.saturating_sub(200));
            for other in sid.saturating_sub(230)..sid + 20 {
                let is_kept = other % 7 < 3 && other <= sid && other + 200 >= sid;
                assert_eq!(apart.get(other), is_kept.then(|| bytes(other)).as_deref(), "{other} at {sid}");
            }
            assert!(apart.symbols.len() + apart.spare.len() <= 201 * 3 / 7 + 2, "{sid}");
        }
        apart.drop_below(u64::MAX);
        assert!(apart.symbols.is_empty() && apart.spare.len() == FEW);
        apart.trim();
        assert_eq!((apart.spare.capacity(), apart.symbols.capacity() <= FEW), (0, true));
    }

    /// Three frames in each piece.
    #[test]
    fn what_is_settled_is_let_go() {
        let mut kept = KeptSymbols::new(1024, 1500, true);
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
        assert_eq!((kept.apart.symbols.len(), kept.pieces.len()), (0, 3), "nothing was copied");
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
