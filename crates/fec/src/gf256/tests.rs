use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::MAX_SID;
use crate::rlc::coefficient;

/// Multiplication of polynomials bit by bit, and division by the field polynomial.
fn long_mul(a: u8, b: u8) -> u8 {
    let mut product = (0..8).filter(|i| b >> i & 1 == 1).fold(0_u16, |p, i| p ^ (u16::from(a) << i));
    for i in (8..16).rev() {
        if product >> i & 1 == 1 {
            product ^= POLYNOMIAL << (i - 8);
        }
    }
    product as u8
}

#[test]
fn products_are_those_of_polynomials() {
    for a in 0..=255 {
        for b in 0..=255 {
            assert_eq!(mul(a, b), long_mul(a, b), "{a} * {b}");
        }
    }
}

#[test]
fn every_element_but_zero_has_an_inverse() {
    assert_eq!(inv(0), None);
    for a in 1..=255 {
        assert_eq!(long_mul(a, inv(a).expect("it is not 0")), 1, "{a}");
    }
}

#[test]
fn the_first_repair_symbol_has_the_coefficients_of_the_specification() {
    let row: Vec<_> = (0..4).map(|term| cauchy(term, 0)).collect();
    assert_eq!(row, [Some(0xfd), Some(0x7e), Some(0xff), Some(0x7f)]);
    assert_eq!(cauchy(254, 0), Some(1));
    assert_eq!((cauchy(255, 0), cauchy(0, 255), cauchy(200, 55), cauchy(200, 100)), (None, None, None, None));
}

/// Sources in two parts: each kernel, all numbers of rows and of sources around those for which there is a
/// way of its own.
#[test]
fn heads_that_lie_apart_are_encoded_with_their_sources() {
    let counts = [1, 2, 3, 4, 5, 8, 11, 25, 84, 100, 101];
    for (count, rows) in counts.into_iter().flat_map(|count| (0..8).map(move |rows| (count, rows))) {
        let heads: Vec<[u8; MAX_HEAD]> =
            (0..count).map(|j| bytes(j, MAX_HEAD).try_into().expect("as many")).collect();
        let others: Vec<Vec<u8>> = (0..count).map(|j| bytes(1000 + j, 150 + (j % 3) as usize)).collect();
        let others: Vec<&[u8]> = others.iter().map(Vec::as_slice).collect();
        let numbers: Vec<u8> = (0..rows).collect();
        let coefficients: Vec<u8> = numbers
            .iter()
            .flat_map(|&row| (0..count).map(move |term| cauchy(term as u8, row).expect("there is one")))
            .collect();
        for len in [0, 1, 12, 15, 16] {
            let whole: Vec<Vec<u8>> =
                heads.iter().zip(&others).map(|(head, other)| [&head[..len], other].concat()).collect();
            let whole: Vec<&[u8]> = whole.iter().map(Vec::as_slice).collect();
            let mut expected = vec![vec![0; len + 152]; usize::from(rows)];
            naive(&mut expected, &coefficients, &whole);
            for kernel in Kernel::available() {
                // What was there before, and what is behind, is of no matter.
                let mut sums = vec![vec![7; len + 152]; usize::from(rows)];
                let mut places: Vec<&mut [u8]> = sums.iter_mut().map(Vec::as_mut_slice).collect();
                let parts = (Heads::new(&heads, len), Columns::new(0, &others, Base::Zero));
                kernel.columns_split(&mut places, &numbers, parts.0, parts.1);
                let end = len + others.iter().map(|other| other.len()).max().unwrap_or_default();
                for (sum, expected) in sums.iter().zip(&expected) {
                    assert_eq!(sum[..end], expected[..end], "{kernel:?}, {rows} of {count}, {len}");
                    assert!(sum[end..].iter().all(|&byte| byte == 7), "{kernel:?} keeps to what there is");
                }
            }
        }
    }
}

/// dsts += matrix · srcs, an element at a time.
fn naive(dsts: &mut [Vec<u8>], coefficients: &[u8], srcs: &[&[u8]]) {
    for (dst, row) in dsts.iter_mut().zip(coefficients.chunks(srcs.len().max(1))) {
        for (&c, src) in row.iter().zip(srcs) {
            dst.iter_mut().zip(*src).for_each(|(d, &s)| *d ^= mul(c, s));
        }
    }
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn each_kernel_multiplies_every_pair_of_elements() {
    let all: Vec<u8> = (0..=255).collect();
    for kernel in Kernel::available() {
        for c in 0..=255 {
            let mut product = vec![0; 256];
            kernel.mul_add(&mut product, c, &all);
            let mut scaled = all.clone();
            kernel.scale(&mut scaled, c);
            let expected: Vec<u8> = all.iter().map(|&b| long_mul(c, b)).collect();
            assert_eq!((product, scaled), (expected.clone(), expected), "{kernel:?} * {c}");
        }
    }
}

/// Nothing behind the end of a source is read as data, nothing behind the longest is written, at every
/// alignment.
#[test]
fn each_kernel_keeps_to_its_slices() {
    let data = bytes(1, 700);
    for kernel in Kernel::available() {
        for len in 0..=300 {
            for (offset, dst_offset) in [(0, 0), (1, 3), (len % 64, 17), (13, len % 31)] {
                let src = &data[offset..offset + len];
                let mut dst = bytes(2, 400);
                let mut expected = [dst[dst_offset..].to_vec()];
                naive(&mut expected, &[0x53], &[src]);
                kernel.mul_add(&mut dst[dst_offset..], 0x53, src);
                assert_eq!(dst[dst_offset..], expected[0], "{kernel:?}, {len} bytes at {offset}");
                assert_eq!(dst[..dst_offset], bytes(2, 400)[..dst_offset], "{kernel:?}, {len} bytes");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn kernels_agree_with_the_definition(
        seed: u64,
        lengths in vec((0..600_usize, 0..64_usize), 0..12),
        rows in 0..14_usize,
        plain in 0..4,
    ) {
        let data: Vec<Vec<u8>> = lengths.iter().zip(seed..).map(|(l, seed)| bytes(seed, l.0 + l.1)).collect();
        let srcs: Vec<&[u8]> = data.iter().zip(&lengths).map(|(d, l)| &d[l.1..]).collect();
        let mut coefficients = bytes(!seed, rows * srcs.len());
        // Zeros and ones are no rarity in codes.
        if plain == 0 {
            for c in &mut coefficients {
                *c &= 1;
            }
        }
        let before: Vec<Vec<u8>> = (0..rows).map(|r| bytes(seed ^ r as u64, 600 + r % 3)).collect();
        let mut expected = before.clone();
        naive(&mut expected, &coefficients, &srcs);
        for kernel in Kernel::available() {
            let mut found = before.clone();
            let mut dsts: Vec<&mut [u8]> = found.iter_mut().map(Vec::as_mut_slice).collect();
            kernel.combine(&mut dsts, &coefficients, &srcs);
            prop_assert_eq!(&found, &expected, "combine of {:?}", kernel);
            let mut sums = vec![bytes(5, 600); 2];
            naive(&mut sums[..1], &vec![1; srcs.len()], &srcs);
            kernel.sum(&mut sums[1], &srcs);
            prop_assert_eq!(&sums[0], &sums[1], "sum of {:?}", kernel);
        }
    }
}

#[test]
fn each_kernel_hashes_as_the_code_does() {
    for kernel in Kernel::available() {
        for (count, first) in (0..70).zip([0, 999, (1 << 40) - 3, MAX_SID - 70].into_iter().cycle()) {
            for seed in [0, 7, (1 << 62) - 1, u64::MAX] {
                let expected: Vec<u8> = (first..first + count).map(|sid| coefficient(seed, sid)).collect();
                let mut found = vec![0; expected.len()];
                kernel.hashes(seed, first, &mut found);
                assert_eq!(found, expected, "{kernel:?}, seed {seed}, {count} from {first}");
            }
        }
    }
}

#[test]
fn the_fastest_kernel_comes_first_and_the_scalar_one_last() {
    let names: Vec<_> = Kernel::available().map(Kernel::name).collect();
    assert_eq!(names.first(), Some(&Kernel::best().name()));
    assert_eq!(names.last(), Some(&"scalar"));
}

#[test]
#[should_panic(expected = "longer than a destination")]
fn a_source_longer_than_the_destination_is_refused() {
    Kernel::best().mul_add(&mut [0; 3], 1, &[0; 4]);
}

#[test]
#[should_panic(expected = "one coefficient for each pair")]
fn a_matrix_of_another_size_is_refused() {
    Kernel::best().gather(&mut [0; 3], &[1], &[&[0; 2], &[0; 2]]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Rows that are done by the transform, in one group, in two, in more, and rows that are not.
    #[test]
    fn rows_of_a_cauchy_matrix_agree_with_the_definition(
        seed: u64,
        lengths in vec(prop_oneof![4 => 0..300_usize, 1 => 2000..2100_usize, 2 => Just(128), 1 => Just(0)], 0..70),
        rows in vec(prop_oneof![0..8_u8, 3..20_u8, 0..180_u8], 0..40),
    ) {
        check_cauchy(seed, &lengths, &rows);
    }

    /// Up to the last block of sources, which meets the first rows in one group.
    #[test]
    fn rows_meet_sources_of_their_group(seed: u64, count in 200..250_usize, rows in 4..7_u8) {
        check_cauchy(seed, &vec![7; count], &(0..rows).collect::<Vec<_>>());
    }
}

/// All sets of rows that are done by fours, and one more source than fours that are taken two vectors at a
/// time.
#[test]
fn four_rows_and_one_agree_with_the_definition() {
    for set in (0..256_u32).filter(|set| set.count_ones() >= 3) {
        let apart = (set & 15).count_ones().min((set >> 4).count_ones());
        if apart > 1 {
            continue;
        }
        let first = (set % 3 * 8) as u8;
        let rows: Vec<u8> = (0..8).filter(|row| set >> row & 1 == 1).map(|row| first + row).collect();
        let count = [4, 7, 22, 129][set as usize % 4];
        let lengths: Vec<usize> = (0..count).map(|j| 190 - j % 2 * (set as usize % 64)).collect();
        check_cauchy(u64::from(set), &lengths, &rows);
    }
}

fn check_cauchy(seed: u64, lengths: &[usize], rows: &[u8]) {
    let data: Vec<Vec<u8>> = lengths.iter().zip(seed..).map(|(&l, seed)| bytes(seed, l)).collect();
    let srcs: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let matrix: Vec<u8> = rows
        .iter()
        .flat_map(|&i| (0..srcs.len()).map(move |j| cauchy(j as u8, i).expect("few enough")))
        .collect();
    let before: Vec<Vec<u8>> = (0..rows.len()).map(|r| bytes(seed ^ r as u64, 2100 + r % 3)).collect();
    let mut expected = before.clone();
    naive(&mut expected, &matrix, &srcs);
    for kernel in Kernel::available() {
        let mut found = before.clone();
        let mut sums: Vec<&mut [u8]> = found.iter_mut().map(Vec::as_mut_slice).collect();
        kernel.cauchy(&mut sums, rows, &srcs);
        assert!(found == expected, "{kernel:?}, rows {rows:?}, lengths {lengths:?}, seed {seed}");

        // In two parts, the first of which takes the place of what is there, or is added to something else.
        let group = (seed % 9) as usize;
        let (first, second) = srcs.split_at(srcs.len().min(group * POINTS));
        let replaced = first.iter().map(|s| s.len()).max().unwrap_or_default();
        let mut found = before.clone();
        for sum in &mut found {
            sum[..replaced].fill(0x5a);
        }
        let mut sums: Vec<&mut [u8]> = found.iter_mut().map(Vec::as_mut_slice).collect();
        let others: Vec<Vec<u8>> = (0..rows.len()).map(|r| bytes(seed ^ r as u64, 2100)).collect();
        let others: Vec<&[u8]> = others.iter().map(Vec::as_slice).collect();
        let base = if seed % 2 == 0 { Base::Zero } else { Base::Others(&others) };
        kernel.columns(&mut sums, rows, Columns::new(0, first, base));
        let columns = Columns::new(first.len() / POINTS, second, Base::Sums);
        kernel.columns(&mut sums, rows, columns);
        for ((found, expected), before) in found.iter_mut().zip(&expected).zip(&before) {
            if seed % 2 == 0 {
                found[..replaced].iter_mut().zip(before).for_each(|(found, before)| *found ^= before);
            }
            assert!(found == expected, "{kernel:?}, rows {rows:?}, lengths {lengths:?}, seed {seed}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// As decoding has it: the sources that came, some left out, then a matrix; also where the sums are
    /// shorter or longer than a strip, and the rows in any order.
    #[test]
    fn a_product_of_a_product_agrees_with_both(
        seed: u64,
        lengths in vec(prop_oneof![4 => 1..300_usize, 2 => Just(128), 1 => Just(0)], 16..70),
        rows in Just((0..16_u8).collect::<Vec<_>>()).prop_shuffle(),
        count in 1..10_usize,
        first in 0..2_u8,
    ) {
        // In one group, but for one case in two.
        let mut rows: Vec<u8> = rows.into_iter().filter(|row| first == 1 || *row < 8).collect();
        rows.truncate(count);
        let count = rows.len();
        let data: Vec<Vec<u8>> = lengths.iter().zip(seed..).map(|(&l, seed)| bytes(seed, l)).collect();
        let srcs: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let longest = lengths.iter().copied().max().unwrap_or_default();
        let others: Vec<Vec<u8>> = (0..count).map(|r| bytes(seed ^ r as u64, 300)).collect();
        let matrix = bytes(!seed, count * count);

        let mut sums: Vec<Vec<u8>> = others.iter().map(|other| other[..longest].to_vec()).collect();
        let coefficients: Vec<u8> = rows
            .iter()
            .flat_map(|&i| (0..srcs.len()).map(move |j| cauchy(j as u8, i).expect("few enough")))
            .collect();
        naive(&mut sums, &coefficients, &srcs);
        let mut expected = vec![vec![0; longest]; count];
        naive(&mut expected, &matrix, &sums.iter().map(Vec::as_slice).collect::<Vec<_>>());
        for sum in &mut expected {
            sum.resize(302, 0x5a);
        }

        let others: Vec<&[u8]> = others.iter().map(Vec::as_slice).collect();
        for kernel in Kernel::available() {
            let mut found = vec![vec![0x5a; 302]; count];
            let before = found.clone();
            let mut sums: Vec<&mut [u8]> = found.iter_mut().map(Vec::as_mut_slice).collect();
            let columns = Columns::new(0, &srcs, Base::Others(&others));
            let done = kernel.columns_then(&mut sums, &rows, columns, &matrix);
            prop_assert_eq!(&found, if done { &expected } else { &before }, "{:?}, rows {:?}", kernel, rows);
            let is_one = rows.iter().all(|row| row / 8 == rows[0] / 8);
            // Rows of two fours, at most one of them in the lesser, or five and more.
            let upper = rows.iter().filter(|row| *row % 8 < 4).count();
            let lesser = upper.min(count - upper);
            let is_worth = count >= 3 && lesser < 2 && srcs.len() >= 4
                || count >= 5 && srcs.len() * (count - 3) >= 32;
            prop_assert_eq!(done, is_one && is_worth && kernel != Kernel::SCALAR);
        }
    }
}
