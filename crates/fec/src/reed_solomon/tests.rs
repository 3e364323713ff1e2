use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};

use super::*;
use crate::gf256::{inv, mul};

/// The formula of the specification, an element at a time.
fn naive_repair(sources: &[Vec<u8>], i: usize) -> Vec<u8> {
    let len = sources.iter().map(Vec::len).max().unwrap_or_default();
    let mut repair = vec![0; len];
    for (j, source) in sources.iter().enumerate() {
        let c = inv((j ^ (255 - i)) as u8).expect("the two differ");
        repair.iter_mut().zip(source).for_each(|(r, &s)| *r ^= mul(c, s));
    }
    repair
}

fn slices(symbols: &[Vec<u8>]) -> Vec<&[u8]> {
    symbols.iter().map(Vec::as_slice).collect()
}

fn encoded(sources: &[Vec<u8>], count: usize) -> Vec<Vec<u8>> {
    let len = sources.iter().map(Vec::len).max().unwrap_or_default();
    let mut repairs = vec![vec![0xee; len]; count];
    let mut buffers: Vec<&mut [u8]> = repairs.iter_mut().map(Vec::as_mut_slice).collect();
    encode(&slices(sources), &mut buffers).expect("the block is fine");
    repairs
}

fn padded(symbol: &[u8], len: usize) -> Vec<u8> {
    let mut symbol = symbol.to_vec();
    symbol.resize(len, 0);
    symbol
}

fn block(max_k: usize, max_len: usize) -> impl Strategy<Value = Vec<Vec<u8>>> {
    vec(vec(any::<u8>(), 0..=max_len), 1..=max_k)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn repairs_follow_the_formula(sources in block(60, 90), count in 0..40_usize) {
        let expected: Vec<_> = (0..count).map(|i| naive_repair(&sources, i)).collect();
        prop_assert_eq!(&encoded(&sources, count), &expected);
        let mut encoder = Encoder::new(count).expect("few enough");
        for source in &sources {
            encoder.add(source).expect("few enough");
        }
        prop_assert_eq!(encoder.repairs().map(<[u8]>::to_vec).collect::<Vec<_>>(), expected);
    }

    /// To look at the repair symbols changes nothing, and a block leaves nothing to the next.
    #[test]
    fn an_encoder_tells_the_repairs_of_what_was_added_so_far(
        sources in block(70, 90),
        count in 0..12_usize,
        looks in vec(any::<Index>(), 0..6),
    ) {
        let mut encoder = Encoder::new(count).expect("few enough");
        for _ in 0..2 {
            for (k, source) in (1..).zip(&sources) {
                encoder.add(source).expect("few enough");
                if k == sources.len() || looks.iter().any(|look| look.index(sources.len()) == k) {
                    let expected: Vec<_> = (0..count).map(|i| naive_repair(&sources[..k], i)).collect();
                    prop_assert_eq!(encoder.repairs().map(<[u8]>::to_vec).collect::<Vec<_>>(), expected);
                }
            }
            encoder.clear();
        }
    }

    /// Any k of n: losses and repair symbols are drawn independently.
    #[test]
    fn any_k_symbols_are_enough(
        sources in block(40, 200),
        indices in subsequence((0..216_usize).collect::<Vec<_>>(), 0..=40),
        losses in vec(any::<Index>(), 0..40),
    ) {
        let k = sources.len();
        let mut received: Vec<Option<&[u8]>> = sources.iter().map(|s| Some(&s[..])).collect();
        losses.iter().take(indices.len()).for_each(|l| received[l.index(k)] = None);
        let len = sources.iter().map(Vec::len).max().unwrap_or_default();
        let repairs: Vec<(u8, Vec<u8>)> =
            indices.iter().map(|&i| (i as u8, naive_repair(&sources, i))).collect();
        let repairs: Vec<(u8, &[u8])> = repairs.iter().map(|(i, r)| (*i, &r[..])).collect();
        let lost: Vec<usize> = (0..k).filter(|&j| received[j].is_none()).collect();
        let mut buffers = vec![vec![0xee; len + 3]; lost.len()];
        let mut recovered: Vec<&mut [u8]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
        prop_assert_eq!(decode(&received, &repairs, &mut recovered), Ok(()));
        for (&j, found) in lost.iter().zip(&buffers) {
            prop_assert_eq!(&padded(&sources[j], len + 3), found, "source {}", j);
        }
    }

    /// Symbols in any order, some twice, until the block is there; then all of them again.
    #[test]
    fn the_decoder_needs_k_symbols_in_any_order(
        sources in block(20, 60),
        order in vec(any::<Index>(), 400),
    ) {
        let (k, r) = (sources.len(), 20);
        let repairs = encoded(&sources, r);
        let len = repairs[0].len();
        let mut decoder = Decoder::new(k).expect("few enough");
        let mut distinct = std::collections::BTreeSet::new();
        for n in order.iter().map(|i| i.index(k + r)) {
            let already = distinct.len() >= k;
            distinct.insert(n);
            if n < k {
                decoder.source(n, &sources[n]).expect("a source");
            } else {
                decoder.repair(n - k, &repairs[n - k]).expect("a repair");
            }
            match decoder.decode() {
                Ok(recovered) => {
                    prop_assert!(distinct.len() >= k);
                    prop_assert!(!already || recovered.is_empty(), "recovered once");
                    prop_assert_eq!(decoder.missing(), 0);
                    for (j, source) in sources.iter().enumerate() {
                        let found = decoder.get(j).expect("all are there");
                        prop_assert_eq!(padded(found, len), padded(source, len));
                    }
                }
                Err(error) => {
                    prop_assert_eq!(error, Error::TooFew);
                    prop_assert!(distinct.len() < k, "{} symbols are enough", k);
                }
            }
        }
    }

    #[test]
    fn parts_hold_each_symbol_once_and_share_bursts(k in 0..3000_usize, limit in 1..300_usize) {
        let parts: Vec<BlockPart> = parts(k, limit).collect();
        prop_assert_eq!(parts.len(), k.div_ceil(limit));
        let mut all: Vec<usize> = parts.iter().copied().flat_map(BlockPart::symbols).collect();
        all.sort_unstable();
        prop_assert_eq!(all, (0..k).collect::<Vec<_>>());
        let counts = parts.iter().map(|p| p.count);
        prop_assert!(counts.clone().max().unwrap_or(0) - counts.clone().min().unwrap_or(0) <= 1);
        prop_assert!(counts.max().unwrap_or(0) <= limit);
    }
}

/// From the specification: k = 4, i = 0.
#[test]
fn the_coefficients_are_those_on_the_wire() {
    let sources: Vec<Vec<u8>> = (0..4).map(|j| (0..4).map(|at| u8::from(at == j)).collect()).collect();
    assert_eq!(encoded(&sources, 1), [[0xfd, 0x7e, 0xff, 0x7f]]);
}

/// They reach each coefficient that the code has.
#[test]
fn the_largest_blocks_work() {
    for (k, r) in [(255, 1), (1, 255), (128, 128), (250, 5)] {
        let sources: Vec<Vec<u8>> = (0..k).map(|j| vec![j as u8, 1, (j * 7) as u8]).collect();
        let repairs = encoded(&sources, r);
        for (i, repair) in repairs.iter().enumerate() {
            assert_eq!(*repair, naive_repair(&sources, i), "{k} and {r}, repair {i}");
        }
        let lost = r.min(k);
        let received: Vec<Option<&[u8]>> =
            sources.iter().enumerate().map(|(j, s)| (j >= lost).then_some(&s[..])).collect();
        let symbols: Vec<(u8, &[u8])> = repairs.iter().enumerate().map(|(i, s)| (i as u8, &s[..])).collect();
        let mut buffers = vec![vec![0; 3]; lost];
        let mut recovered: Vec<&mut [u8]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
        assert_eq!(decode(&received, &symbols, &mut recovered), Ok(()));
        assert_eq!(buffers, sources[..lost]);
    }
}

#[test]
fn bad_blocks_are_errors() {
    let two: &[Option<&[u8]>] = &[Some(&[1, 2]), None];
    let run = |sources: &[Option<&[u8]>], repairs: &[(u8, &[u8])], buffer: usize| {
        decode(sources, repairs, &mut [&mut vec![0; buffer]])
    };
    assert_eq!(run(two, &[], 2), Err(Error::TooFew));
    assert_eq!(run(two, &[(0, &[1])], 2), Err(Error::Short));
    assert_eq!(run(two, &[(0, &[1, 2, 3])], 2), Err(Error::Buffer));
    assert_eq!(run(two, &[(254, &[1, 2])], 2), Err(Error::Index));
    assert_eq!(run(two, &[(253, &[1, 2])], 2), Ok(()));
    assert_eq!(run(&[two[0], two[0]], &[], 2), Err(Error::Buffer), "nothing is lost");
    assert_eq!(run(&[None; 300], &[], 2), Err(Error::Index));
    let buffers: &mut [&mut [u8]] = &mut [&mut [0; 2], &mut [0; 2]];
    assert_eq!(decode(&[None, None], &[(3, &[1, 2]), (3, &[1, 2])], buffers), Err(Error::Twice));
    assert_eq!(encode(&[&[1, 2]], &mut [&mut [0]]), Err(Error::Buffer));
    assert_eq!(encode(&[&[][..]; 256], &mut []), Ok(()));
    assert_eq!(encode(&[&[][..]; 257], &mut []), Err(Error::Index));
    assert_eq!(encode(&[&[][..]; 256], &mut [&mut []]), Err(Error::Index));
    let mut without_sources = [7];
    assert_eq!((encode(&[], &mut [&mut without_sources]), without_sources), (Ok(()), [0]));
    assert_eq!(Decoder::new(0).err(), Some(Error::Index));
    assert_eq!(Decoder::new(256).err(), Some(Error::Index));
    let mut decoder = Decoder::new(200).expect("few enough");
    assert_eq!(decoder.source(200, &[]), Err(Error::Index));
    assert_eq!(decoder.repair(56, &[]), Err(Error::Index));
    assert_eq!(decoder.repair(usize::MAX, &[]), Err(Error::Index));
    assert_eq!(decoder.repair(55, &[]), Ok(true));
    assert_eq!(decoder.repair(55, &[]), Ok(false));
    let mut encoder = Encoder::new(255).expect("few enough");
    assert_eq!((encoder.add(&[7]), encoder.add(&[7])), (Ok(()), Err(Error::Index)));
    assert_eq!(Encoder::new(256).err(), Some(Error::Index));
}

#[test]
fn a_rate_is_rounded_up() {
    let cases = [(100, 5), (1, 1), (20, 1), (21, 2), (128, 7), (0, 0)];
    for (k, r) in cases {
        assert_eq!(repairs(k, 105, 100), r, "{k}");
    }
    assert_eq!((repairs(50, 100, 100), repairs(50, 1, 0), repairs(7, 3, 9)), (0, 50, 0));
}
