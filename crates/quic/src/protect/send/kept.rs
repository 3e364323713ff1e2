use std::collections::VecDeque;

use bytes::Bytes;
use quickset_fec::{Equation, Symbols, reed_solomon};

use super::span::Cover;
use crate::tx::Packed;

/// The bytes of a lane's symbols: for repair, and to send a symbol again as it was.
///
/// Most are copies. What is encoded in one pass may lie where the stream has it: the copy would cost as much as the
/// packet that it is for, and push what every packet needs out of the caches.
#[derive(Debug)]
pub(super) struct Kept {
    copies: Symbols,
    /// For each SID from `base` on, where its data is if there is no copy.
    shared: VecDeque<Shared>,
    base: u64,
    /// Symbols are encoded in one pass.
    shares: bool,
}

/// A symbol in two parts. Without data it is none.
#[derive(Debug, Default)]
struct Shared {
    head: [u8; HEAD],
    head_len: u8,
    data: Bytes,
}

impl Kept {
    /// None yet, of a peer that keeps `window` of at most `size` bytes. With `shares` they are encoded in one pass.
    pub(super) fn new(window: u64, size: usize, shares: bool) -> Self {
        let copies = Symbols::new(usize::try_from(window).unwrap_or(usize::MAX), size);
        Self { copies, shared: VecDeque::new(), base: 0, shares }
    }

    /// The copies, which are all when nothing is encoded in one pass.
    pub(super) fn copies(&self) -> &Symbols {
        debug_assert!(!self.shares);
        &self.copies
    }

    /// The next symbol, `sid`.
    #[inline]
    pub(super) fn push(&mut self, sid: u64, packed: Packed<'_>) {
        if self.shares {
            let shared = Shared::new(packed.bytes, packed.data);
            let is_shared = shared.is_any();
            self.shared.push_back(shared);
            if is_shared {
                return;
            }
        }
        let taken = match self.shares {
            true => self.copies.insert(sid, packed.bytes).map(|()| sid),
            false => self.copies.push(packed.bytes),
        };
        debug_assert_eq!(taken, Ok(sid), "a symbol of ours that does not fit the window");
    }

    /// The bytes of a symbol, in two parts.
    pub(super) fn parts(&self, sid: u64) -> Option<[&[u8]; 2]> {
        match self.shared(sid) {
            Some(shared) => Some(shared.parts()),
            None => Some([self.copies.get(sid)?, &[]]),
        }
    }

    /// Forgets everything below `sid`.
    pub(super) fn drop_below(&mut self, sid: u64) {
        let n = usize::try_from(sid.saturating_sub(self.base)).unwrap_or(usize::MAX);
        self.shared.drain(..n.min(self.shared.len()));
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
            self.copy((0..equation.terms()).map(|term| equation.sid(term)), |_| true);
        }
        self.copies.combine(equation, out).expect("symbols are kept as long as repairs are owed");
    }

    /// The first `n` repair symbols of a Reed-Solomon block, as long as the longest of its symbols (FEC-24, FEC-26).
    pub(super) fn encode(&mut self, cover: &Cover, n: u32, repairs: &mut Vec<Vec<u8>>) {
        let sids = (0..cover.terms).map(|term| cover.first + term * cover.stride);
        // The code works on each byte by itself. So the first bytes of all symbols, as many as most have apart from their
        // data, are encoded on their own, and then the others, where they lie.
        let head = sids.clone().find_map(|sid| self.shared(sid)).map_or(0, |shared| shared.head_len);
        self.copy(sids.clone(), |shared| shared.head_len != head);
        let head = usize::from(head);
        let (mut firsts, mut others) = (Vec::with_capacity(MAX_TERMS), Vec::with_capacity(MAX_TERMS));
        for sid in sids {
            let [first, other] = self.parts(sid).expect("symbols are kept as long as repairs are owed");
            let (first, other) = if other.is_empty() { first.split_at(head.min(first.len())) } else { (first, other) };
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

    /// Makes copies of those of `sids` that are shared and `want` it.
    fn copy(&mut self, sids: impl Iterator<Item = u64>, want: impl Fn(&Shared) -> bool) {
        for sid in sids {
            let Some(at) = sid.checked_sub(self.base) else { continue };
            let Some(shared) = self.shared.get_mut(at as usize) else { continue };
            if shared.is_any() && want(shared) {
                let taken = self.copies.insert(sid, &std::mem::take(shared).parts().concat());
                debug_assert_eq!(taken, Ok(()), "there was no copy");
            }
        }
    }

    fn shared(&self, sid: u64) -> Option<&Shared> {
        self.shared.get(usize::try_from(sid.checked_sub(self.base)?).ok()?).filter(|shared| shared.is_any())
    }
}

impl Shared {
    /// The symbol `bytes`, the last of which are `data`; none if that is not worth it.
    #[inline]
    fn new(bytes: &[u8], data: Option<Bytes>) -> Self {
        let mut shared = Self::default();
        let Some(data) = data.filter(|data| data.len() >= MIN_SHARED) else { return shared };
        let len = bytes.len() - data.len();
        if let Some(head) = shared.head.get_mut(..len) {
            head.copy_from_slice(&bytes[..len]);
            shared.head_len = len as u8;
            shared.data = data;
        }
        shared
    }

    #[inline]
    fn is_any(&self) -> bool {
        !self.data.is_empty()
    }

    fn parts(&self) -> [&[u8]; 2] {
        [&self.head[..usize::from(self.head_len)], &self.data]
    }
}

/// More than the header of a STREAM frame with data: a kind, an id, an offset and a length.
const HEAD: usize = 23;

/// Places for as many symbols are not worth giving back.
const FEW: usize = 64;

/// Symbols of a block at most.
const MAX_TERMS: usize = 255;

/// Less is copied sooner than shared.
const MIN_SHARED: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes of a symbol, how many of them are its head, and whether its data is shared.
    fn symbol() -> impl Strategy<Value = (Vec<u8>, usize, bool)> {
        let head = prop_oneof![8 => Just(11usize), 1 => 1usize..30];
        let len = prop_oneof![4 => Just(1400usize), 1 => 1usize..1500];
        (head, len, any::<bool>(), any::<u8>()).prop_map(|(head, len, shared, seed)| {
            let bytes: Vec<u8> = (0..len).map(|at| (at as u8).wrapping_mul(seed | 1).wrapping_add(seed)).collect();
            (bytes, head.min(len), shared)
        })
    }

    fn fill(kept: &mut Kept, symbols: &[(Vec<u8>, usize, bool)]) {
        for (sid, (bytes, head, shared)) in (0..).zip(symbols) {
            let data = shared.then(|| Bytes::copy_from_slice(&bytes[*head..]));
            kept.push(sid, Packed { bytes, packet: sid, data });
        }
    }

    fn reference(symbols: &[(Vec<u8>, usize, bool)], equation: &Equation) -> Vec<u8> {
        let mut copies = Symbols::new(1024, 1500);
        symbols.iter().for_each(|(bytes, ..)| assert!(copies.push(bytes).is_ok()));
        let mut out = Vec::new();
        copies.combine(equation, &mut out).unwrap();
        out
    }

    proptest! {
        #[test]
        fn what_is_shared_is_repaired_and_repeated_like_a_copy(
            symbols in prop::collection::vec(symbol(), 1..130),
            stride in 1u64..4,
        ) {
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
            for (sid, (bytes, ..)) in (0..).zip(&symbols) {
                prop_assert_eq!(&kept.parts(sid).unwrap().concat(), bytes);
            }
            // And one more, for which all are copied.
            let equation = Equation::reed_solomon(0, terms, stride, 3).unwrap();
            let mut out = Vec::new();
            kept.combine(&equation, &mut out);
            prop_assert_eq!(out, reference(&symbols, &equation));
        }
    }

    #[test]
    fn what_is_settled_is_let_go() {
        let mut kept = Kept::new(1024, 1500, true);
        let data = Bytes::from(vec![7; 1400]);
        for sid in 0..10 {
            let bytes = [&[1; 11], &data[..]].concat();
            kept.push(sid, Packed { bytes: &bytes, packet: sid, data: Some(data.clone()) });
        }
        assert_eq!((kept.copies.held(), kept.shared.len()), (0, 10), "nothing was copied");
        assert!(!data.is_unique());
        kept.drop_below(10);
        assert_eq!(kept.parts(9), None);
        assert!(data.is_unique(), "the stream alone has it");
    }
}
