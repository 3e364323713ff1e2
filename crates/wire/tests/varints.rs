//! Varints and the two cursors, against RFC 9000 §16 and §A.1.

use proptest::prelude::*;
use quickset_wire::{Reader, Truncated, Writer, varint};

/// RFC 9000 §A.1; the last is the two-byte form of 37.
const EXAMPLES: [(&[u8], u64); 5] = [
    (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c], 151_288_809_941_952_652),
    (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
    (&[0x7b, 0xbd], 15_293),
    (&[0x25], 37),
    (&[0x40, 0x25], 37),
];

#[test]
fn the_examples_of_rfc_9000() {
    for (bytes, value) in EXAMPLES {
        let mut r = Reader::new(bytes);
        assert_eq!(r.varint(), Ok(value));
        assert!(r.is_empty());
    }
    for (bytes, value) in &EXAMPLES[..4] {
        let mut buffer = [0; 8];
        let mut w = Writer::new(&mut buffer);
        w.varint(*value);
        assert_eq!(w.written(), *bytes);
        assert_eq!(varint::size(*value), bytes.len());
    }
    let mut buffer = [0; 6];
    let mut w = Writer::new(&mut buffer);
    w.varint2(37);
    w.varint4(37);
    assert_eq!(w.written(), [0x40, 0x25, 0x80, 0, 0, 0x25]);
}

#[test]
fn sizes_change_where_table_4_says() {
    // RFC 9000 table 4.
    for (last, size) in [(63, 1), (16_383, 2), (1_073_741_823, 4), (4_611_686_018_427_387_903, 8)] {
        assert_eq!(varint::size(last), size);
        assert_eq!(varint::size(last + 1), if size == 8 { 8 } else { size * 2 });
    }
    assert_eq!(varint::MAX, 4_611_686_018_427_387_903);
}

/// However many: neither fewer nor more.
#[test]
fn zeros_are_as_many_as_were_asked_for() {
    for n in 0..40 {
        let mut buffer = [7; 48];
        let mut w = Writer::new(&mut buffer);
        w.u8(1);
        w.zeros(n);
        assert_eq!(w.len(), 1 + n);
        let expected: Vec<u8> = [vec![1], vec![0; n], vec![7; 47 - n]].concat();
        assert_eq!(buffer[..], expected);
    }
}

#[test]
#[should_panic(expected = "does not fit")]
fn a_number_too_large_is_our_bug() {
    Writer::new(&mut [0; 8]).varint(varint::MAX + 1);
}

#[test]
#[should_panic(expected = "out of")]
fn writing_past_the_end_is_our_bug() {
    let mut buffer = [0; 2];
    let mut w = Writer::new(&mut buffer);
    w.u8(1);
    w.u16(2);
}

#[test]
fn a_failed_read_takes_nothing() {
    let mut r = Reader::new(&[0x9d, 0x7f, 0x3e]);
    assert_eq!(r.varint(), Err(Truncated));
    assert_eq!(r.u32(), Err(Truncated));
    assert_eq!(r.bytes(4), Err(Truncated));
    assert_eq!((r.position(), r.remaining()), (0, 3));
    assert_eq!(r.u16(), Ok(0x9d7f));
    assert_eq!(r.rest(), [0x3e]);
    assert_eq!((r.position(), r.is_empty()), (3, true));
    // A length of 2^62 - 1.
    assert_eq!(Reader::new(&[0xff; 9]).varint_bytes(), Err(Truncated));
}

#[test]
fn patches_touch_what_was_written() {
    let mut buffer = [0; 16];
    let mut w = Writer::new(&mut buffer);
    w.varint2(0);
    w.varint_bytes(b"abc");
    w.patch_varint2(0, 4);
    w.patch_u8(3, b'x');
    w.zeros(2);
    w.patch_u16(6, 0x0102);
    assert_eq!((w.len(), w.room()), (8, 8));
    assert_eq!(w.written(), [0x40, 4, 3, b'x', b'b', b'c', 1, 2]);
    w.truncate(2);
    w.truncate(5);
    assert_eq!(w.written(), [0x40, 4]);
}

#[test]
#[should_panic(expected = "out of")]
fn a_patch_beyond_what_was_written_is_our_bug() {
    let mut buffer = [0; 16];
    let mut w = Writer::new(&mut buffer);
    w.u8(0);
    w.patch_u16(0, 1);
}

proptest! {
    #[test]
    fn varints_round_trip(value in (0u32..62).prop_flat_map(|bits| 0..=(1u64 << (bits + 1)) - 1)) {
        let mut buffer = [0; 8];
        let mut w = Writer::new(&mut buffer);
        w.varint(value);
        prop_assert_eq!(w.len(), varint::size(value));
        let mut r = Reader::new(w.written());
        prop_assert_eq!(r.varint(), Ok(value));
        prop_assert!(r.is_empty());
        for cut in 0..w.len() {
            prop_assert_eq!(Reader::new(&w.written()[..cut]).varint(), Err(Truncated));
        }
    }
}
