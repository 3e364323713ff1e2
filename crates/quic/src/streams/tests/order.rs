//! The assembler against a plain buffer, and what it costs at worst.

use bytes::Bytes;
use proptest::prelude::*;

use crate::streams::assembler::Assembler;

/// Longer than several blocks.
const LEN: usize = 20_000;

fn content() -> Vec<u8> {
    (0..LEN).map(|at| (at * 7 + at / 251) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// RFC 9000 §2.2.
    #[test]
    fn bytes_come_out_in_order_whatever_comes_in(
        frames in prop::collection::vec((0..LEN, 1usize..2500, 0usize..4000), 1..80)
    ) {
        let content = content();
        let mut assembler = Assembler::default();
        let (mut has, mut read) = (vec![false; LEN], 0);
        for (start, len, max) in frames {
            let end = LEN.min(start + len);
            // The data stands in the middle of a packet, as it does on the wire.
            let payload: Bytes = [&[0; 30], &content[start..end], &[0; 9]].concat().into();
            let before = has.iter().take_while(|has| **has).count();
            let news = assembler.insert(start as u64, &payload[30..30 + end - start], &payload).unwrap();
            has[start..end].fill(true);
            let after = has.iter().take_while(|has| **has).count();
            prop_assert_eq!(news, after > before);
            prop_assert_eq!(assembler.next(), after as u64);
            assembler.check();
            while let Some(bytes) = assembler.pop(max) {
                prop_assert!(bytes.len() <= max && bytes == content[read..read + bytes.len()]);
                read += bytes.len();
            }
            prop_assert_eq!(read, if max > 0 { after } else { read });
            prop_assert_eq!(assembler.start(), read as u64);
        }
        // What is taken out all at once is the rest, each byte once.
        let mut left: Vec<_> = (read..LEN).filter(|at| has[*at]).collect();
        for (offset, bytes) in assembler.drain() {
            let range = offset as usize..offset as usize + bytes.len();
            prop_assert_eq!(&bytes[..], &content[range.clone()]);
            left.retain(|at| !range.contains(at));
        }
        prop_assert!(left.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn unordered_each_byte_comes_out_once_as_soon_as_it_came(
        frames in prop::collection::vec((0..LEN, 1usize..2500, 0usize..4000, 0usize..4), 1..80)
    ) {
        let content = content();
        let mut assembler = Assembler::default();
        let (mut has, mut read) = (vec![false; LEN], vec![false; LEN]);
        let first = content[..40].to_vec();
        if frames.len() % 2 == 0 {
            // Something lay in order before.
            assembler.insert(0, &first, &first.clone().into()).unwrap();
            has[..40].fill(true);
        }
        assembler.loosen();
        for (start, len, max, pops) in frames {
            let end = LEN.min(start + len);
            let payload: Bytes = [&[0; 30], &content[start..end], &[0; 9]].concat().into();
            let fresh = has[start..end].iter().any(|has| !has);
            let news = assembler.insert(start as u64, &payload[30..30 + end - start], &payload).unwrap();
            prop_assert_eq!(news, fresh);
            has[start..end].fill(true);
            assembler.check();
            for _ in 0..pops {
                let popped = assembler.pop_loose(max);
                assembler.check();
                let Some((offset, bytes)) = popped else {
                    prop_assert!(max == 0 || has == read, "all that came was read");
                    break;
                };
                let range = offset as usize..offset as usize + bytes.len();
                prop_assert!(!bytes.is_empty() && bytes.len() <= max && bytes == content[range.clone()]);
                prop_assert!(range.clone().all(|at| has[at] && !read[at]), "once");
                read[range].fill(true);
            }
        }
        while let Some((offset, bytes)) = assembler.pop_loose(usize::MAX) {
            let range = offset as usize..offset as usize + bytes.len();
            prop_assert!(range.clone().all(|at| has[at] && !read[at]) && bytes == content[range.clone()]);
            read[range].fill(true);
        }
        prop_assert_eq!(&has, &read);
        assembler.check();
        prop_assert_eq!(assembler.next(), has.iter().take_while(|has| **has).count() as u64);
        prop_assert_eq!(assembler.memory(), 0);
    }
}

/// Single bytes, far apart or next to each other, forwards or backwards: never more memory than the stretch
/// of the stream that they span.
#[test]
fn early_bytes_cost_no_more_than_the_window() {
    const WINDOW: u64 = 1 << 20;
    let payload = Bytes::from_static(&[1]);
    for step in [1, 2, 1000, 4096, 5000] {
        for backwards in [false, true] {
            let mut assembler = Assembler::default();
            for n in 0..1000 {
                let offset = 1 + step * if backwards { 999 - n } else { n };
                if offset < WINDOW {
                    assembler.insert(offset, &payload, &payload).unwrap();
                }
            }
            assert!(assembler.memory() as u64 <= (step * 1000).min(WINDOW) + 2 * 4096, "step {step}");
        }
    }
    // In order and unread: one byte in a packet of its own pins neither the packet nor a piece each.
    let mut assembler = Assembler::default();
    for offset in 0..100_000 {
        assembler.insert(offset, &payload, &payload).unwrap();
    }
    assert!(assembler.memory() <= 2 * 100_000);
    assert!(assembler.pieces() <= 100_000 / 4096 + 2);
}
