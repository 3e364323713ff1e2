//! QPACK against RFC 9204's own example, against vectors of another implementation, and against itself under
//! delay.

mod delay;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::table::{DynamicTable, TableEntry};
use super::*;
use crate::{Error, ErrorCode, Field};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
}

fn decode(decoder: &mut Decoder, stream: u64, section: &str) -> Result<DecodedSection, Error> {
    decoder.section(stream, &hex(section))
}

fn fields(lines: &[(&'static str, &'static str)]) -> DecodedSection {
    DecodedSection::Fields(lines.iter().map(|&(name, value)| Field::new(name, value)).collect())
}

/// A decoder with what appendix B.2 to B.5 have put into its table.
fn appendix_b() -> Decoder {
    let mut decoder = Decoder::new(220, 16, 4096);
    decoder
        .on_instructions(&hex("3fbd01 c00f 7777772e6578616d706c652e636f6d c10c 2f73616d706c652f70617468"))
        .unwrap();
    decoder
}

mod the_example_of_the_rfc {
    use super::*;

    /// RFC 9204 §4.5.4.
    #[test]
    fn b1_literal_with_name_reference() {
        let mut decoder = Decoder::new(220, 16, 4096);
        let section = decode(&mut decoder, 0, "0000 510b 2f69 6e64 6578 2e68 746d 6c");
        assert_eq!(section, Ok(fields(&[(":path", "/index.html")])));
        assert_eq!(decoder.take_instructions(), [0; 0], "no reference, no acknowledgment");
    }

    /// RFC 9204 §2.1.4, §2.2.2.1, §4.3.2, §4.5.3, §4.5.5.
    #[test]
    fn b2_dynamic_table() {
        let mut decoder = Decoder::new(220, 16, 4096);
        assert_eq!(
            decode(&mut decoder, 4, "0381 10 11"),
            Ok(DecodedSection::Blocked),
            "it is ahead of its table"
        );
        decoder
            .on_instructions(&hex(
                "3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d c10c 2f73 616d 706c 652f 7061 7468",
            ))
            .unwrap();
        let expected = fields(&[(":authority", "www.example.com"), (":path", "/sample/path")]);
        assert_eq!(decoder.unblocked(), Some(Ok((4, expected))));
        assert_eq!(decoder.unblocked(), None);
        assert_eq!(decoder.take_instructions(), hex("84"));
    }

    /// RFC 9204 §4.3.3.
    #[test]
    fn b3_speculative_insert() {
        let mut decoder = appendix_b();
        decoder.take_instructions();
        decoder.on_instructions(&hex("4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565")).unwrap();
        assert_eq!(decoder.take_instructions(), hex("01"));
        assert_eq!(decoder.inserted(), 3);
    }

    /// RFC 9204 §4.3.4, §4.4.2.
    #[test]
    fn b4_duplicate_and_cancellation() {
        let mut decoder = appendix_b();
        decoder.on_instructions(&hex("4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565")).unwrap();
        decoder.take_instructions();
        assert_eq!(decode(&mut decoder, 8, "0500 80 c1 81"), Ok(DecodedSection::Blocked));
        decoder.cancel(8);
        assert_eq!(decoder.take_instructions(), hex("48"));
        decoder.on_instructions(&hex("02")).unwrap();
        assert_eq!(decoder.unblocked(), None, "nobody wants it");
        // What it would have been.
        let expected =
            fields(&[(":authority", "www.example.com"), (":path", "/"), ("custom-key", "custom-value")]);
        assert_eq!(decode(&mut decoder, 12, "0500 80 c1 81"), Ok(expected));
    }

    #[test]
    fn b5_eviction() {
        let mut decoder = appendix_b();
        decoder
            .on_instructions(&hex("4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565 02"))
            .unwrap();
        decoder.on_instructions(&hex("810d 6375 7374 6f6d 2d76 616c 7565 32")).unwrap();
        let expected = fields(&[
            ("custom-key", "custom-value2"),
            (":authority", "www.example.com"),
            ("custom-key", "custom-value"),
            (":path", "/sample/path"),
        ]);
        // Required Insert Count 5, Base 5.
        assert_eq!(decode(&mut decoder, 0, "0600 80 81 82 83"), Ok(expected));
        let error = decode(&mut decoder, 0, "0600 84").unwrap_err();
        assert_eq!(error.code, ErrorCode::QPACK_DECOMPRESSION_FAILED, "the first entry was dropped");
    }
}

mod sections {
    use super::*;

    fn refused(section: &str) {
        let error = decode(&mut appendix_b(), 0, section).expect_err(section);
        assert_eq!(error.code, ErrorCode::QPACK_DECOMPRESSION_FAILED, "{section}");
    }

    /// RFC 9204 §2.2.3.
    #[test]
    fn a_reference_at_or_beyond_the_required_insert_count_is_an_error() {
        refused("0201 80"); // required 1, base 2, entry 1
        refused("0280 11"); // required 1, base 0, entry 1
        refused("0000 80"); // required 0
        refused("0000 10");
    }

    /// RFC 9204 §4.5.1.2.
    #[test]
    fn a_negative_base_is_an_error() {
        refused("0281 10"); // required 1, delta 1: base -1
        refused("0080");
    }

    #[test]
    fn a_required_insert_count_that_cannot_be_is_an_error() {
        // 220 bytes are 6 entries, the range is 12.
        refused("0e00");
        refused("ff0000");
        // 2 entries there; 9 to 12 would be 8 to 11 of the first round, and would be -4 to -1 before it.
        refused("0c00");
        // 0 must be written as 0: 1 stands for 0 modulo 12.
        refused("0100");
        // RFC 9204 §4.5.1.1: 10 inserts, 100 bytes, an encoded value of 4 is 9.
        let mut decoder = Decoder::new(100, 0, 4096);
        decoder.on_instructions(&hex("3f45")).unwrap();
        for _ in 0..10 {
            decoder.on_instructions(&hex("c0 0161")).unwrap();
        }
        assert_eq!(decode(&mut decoder, 0, "0400 80"), Ok(fields(&[(":authority", "a")])));
    }

    /// RFC 9204 §3.1.
    #[test]
    fn an_invalid_static_index_is_an_error() {
        refused("0000 ff24"); // 63 + 36 = 99
        refused("0000 5f54 00"); // 15 + 84 = 99
        assert_eq!(
            decode(&mut appendix_b(), 0, "0000 ff23"),
            Ok(fields(&[("x-frame-options", "sameorigin")]))
        );
    }

    #[test]
    fn a_section_that_is_cut_short_is_an_error() {
        for cut in ["", "00", "0000 51", "0000 510b 2f", "0000 2f", "0000 ff", "0000 23 6162"] {
            refused(cut);
        }
    }

    /// RFC 9204 §2.2.1.
    #[test]
    fn more_blocked_streams_than_allowed_is_an_error() {
        let mut decoder = Decoder::new(220, 2, 4096);
        assert_eq!(decode(&mut decoder, 0, "0200 80"), Ok(DecodedSection::Blocked));
        assert_eq!(decode(&mut decoder, 4, "0200 80"), Ok(DecodedSection::Blocked));
        let error = decode(&mut decoder, 8, "0200 80").unwrap_err();
        assert_eq!(error.code, ErrorCode::QPACK_DECOMPRESSION_FAILED);
    }

    #[test]
    fn a_section_above_the_limit_is_read_and_not_kept() {
        let mut decoder = Decoder::new(220, 2, 2 * (32 + 10 + 15));
        decoder.on_instructions(&hex("3fbd01 c00f 7777772e6578616d706c652e636f6d")).unwrap();
        assert_eq!(
            decode(&mut decoder, 0, "0200 80 80"),
            Ok(fields(&[(":authority", "www.example.com"); 2]))
        );
        assert_eq!(decode(&mut decoder, 4, "0200 80 80 c1"), Ok(DecodedSection::TooLarge));
        assert_eq!(decoder.take_instructions(), hex("80 84"), "it was decoded all the same");
        assert!(decode(&mut decoder, 8, "0200 80 80 81").is_err(), "errors behind the limit are errors");
    }

    /// RFC 9114 §10.5.1: bytes are not all that lines cost.
    #[test]
    fn a_section_of_too_many_lines_is_read_and_not_kept() {
        let mut decoder = Decoder::new(220, 16, 64 << 10);
        let section = |lines, last: &[u8]| [&[0, 0][..], &vec![0xd1; lines], last].concat();
        let Ok(DecodedSection::Fields(fields)) = decoder.section(0, &section(512, &[])) else {
            panic!("it is not too long")
        };
        assert_eq!(fields, vec![Field::new(":method", "GET"); 512]);
        assert_eq!(decoder.section(0, &section(513, &[])), Ok(DecodedSection::TooLarge));
        // One of the static table's that there is not, behind the limit.
        let error = decoder.section(0, &section(600, &[0xff, 0x24])).expect_err("an index without a line");
        assert_eq!(error.code, ErrorCode::QPACK_DECOMPRESSION_FAILED);
    }

    /// RFC 9204 §4.5.4, §4.5.6, §7.1.3.
    #[test]
    fn the_never_indexed_bit_comes_out() {
        for section in ["0000 70 0161", "0000 37 03 61757468 6f72697a6174 0161"] {
            let Ok(DecodedSection::Fields(read)) = decode(&mut appendix_b(), 0, section) else {
                panic!("{section}")
            };
            assert!(read[0].sensitive, "{section}");
        }
        let Ok(DecodedSection::Fields(read)) = decode(&mut appendix_b(), 0, "0280 08 0161") else { panic!() };
        assert_eq!((&read[0].name[..], read[0].sensitive), (&b":authority"[..], true));
    }
}

mod encoder_instructions {
    use super::*;

    fn refused(instructions: &str) {
        let error = appendix_b().on_instructions(&hex(instructions)).expect_err(instructions);
        assert_eq!(error.code, ErrorCode::QPACK_ENCODER_STREAM_ERROR, "{instructions}");
    }

    /// RFC 9204 §4.3.1.
    #[test]
    fn a_capacity_above_the_setting_is_an_error() {
        refused("3fbe01");
        assert_eq!(appendix_b().on_instructions(&hex("3fbd01")), Ok(()));
    }

    /// RFC 9204 §3.2.2.
    #[test]
    fn an_entry_larger_than_the_table_is_an_error() {
        // 220 - 32 bytes are the longest value of an empty name.
        refused("407fbe00"); // length 189, seen before the value is there
        refused("3f01 c0 0161"); // capacity 32, an entry of 43 bytes
    }

    /// RFC 9204 §3.1.
    #[test]
    fn an_invalid_static_index_is_an_error() {
        refused("ff24 0161");
    }

    /// RFC 9204 §2.2.3.
    #[test]
    fn a_reference_to_a_dropped_or_future_entry_is_an_error() {
        refused("02");
        refused("82 0161");
        refused("20 00"); // capacity 0 drops all
    }

    #[test]
    fn an_integer_that_is_too_long_is_an_error() {
        refused("3f ff ff ff ff ff ff ff ff ff ff 00");
    }

    #[test]
    fn any_cut_reads_the_same() {
        let all = hex(
            "4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565 02 810d 6375 7374 6f6d 2d76 616c 7565 32",
        );
        for cut in 0..all.len() {
            let mut decoder = appendix_b();
            decoder.on_instructions(&all[..cut]).unwrap();
            decoder.on_instructions(&all[cut..]).unwrap();
            assert_eq!(decoder.inserted(), 5);
        }
    }

    /// RFC 9204 §4.3.4: an entry once more is the same entry, which a thousand of them in a packet do not
    /// copy.
    #[test]
    fn duplicates_share_what_they_say() {
        let mut table = DynamicTable::default();
        table.set_capacity(4096);
        assert!(
            table.insert(TableEntry { name: Bytes::from_static(b"a"), value: Bytes::from(vec![7; 100]) })
        );
        let first = table.newest(0).expect("an entry").clone();
        for _ in 0..100 {
            assert!(table.insert(table.newest(0).expect("an entry").clone()));
        }
        assert!(table.iter().all(|entry| std::ptr::eq(entry, Arc::as_ptr(&first))));
        // As many as there is room for: each counts all of its bytes (RFC 9204 §3.2.1).
        assert_eq!(table.iter().count(), 4096 / 133);
    }

    /// RFC 9204 §3.2, §3.2.2.
    #[test]
    fn a_duplicate_may_drop_what_it_copies() {
        let mut decoder = Decoder::new(64, 0, 4096);
        decoder.on_instructions(&hex("3f21 c0 0161 00")).unwrap();
        assert_eq!(decode(&mut decoder, 0, "0300 80"), Ok(fields(&[(":authority", "a")])));
    }
}

mod decoder_instructions {
    use super::*;

    /// An encoder that has sent one section with one reference, on stream 4.
    fn sent_one() -> Encoder {
        let mut encoder = Encoder::new(4096);
        encoder.apply(4096, 1);
        encoder.encode(4, &[Field::new("server", "quickset")]);
        encoder
    }

    fn refused(encoder: &mut Encoder, instructions: &str) {
        let error = encoder.on_instructions(&hex(instructions)).expect_err(instructions);
        assert_eq!(error.code, ErrorCode::QPACK_DECODER_STREAM_ERROR, "{instructions}");
    }

    /// RFC 9204 §4.4.1.
    #[test]
    fn an_acknowledgment_without_a_section_is_an_error() {
        refused(&mut sent_one(), "80");
        let mut encoder = sent_one();
        encoder.on_instructions(&hex("84")).unwrap();
        refused(&mut encoder, "84");
    }

    /// RFC 9204 §2.1.4, §4.4.3.
    #[test]
    fn an_increment_of_zero_or_beyond_what_was_sent_is_an_error() {
        refused(&mut sent_one(), "00");
        refused(&mut sent_one(), "02");
        let mut encoder = sent_one();
        encoder.on_instructions(&hex("84")).unwrap();
        refused(&mut encoder, "01"); // the acknowledgment told as much
        assert_eq!(sent_one().on_instructions(&hex("01")), Ok(()));
    }

    #[test]
    fn an_integer_that_is_too_long_is_an_error() {
        refused(&mut sent_one(), "ff ff ff ff ff ff ff ff ff ff ff 00");
    }

    /// RFC 9204 §4.4.2.
    #[test]
    fn a_cancellation_of_an_unknown_stream_is_none() {
        assert_eq!(sent_one().on_instructions(&hex("48")), Ok(()));
    }

    #[test]
    fn any_cut_reads_the_same() {
        let mut encoder = Encoder::new(4096);
        encoder.apply(4096, 1);
        encoder.encode(4000, &[Field::new("server", "quickset")]);
        for byte in hex("ffa11e") {
            encoder.on_instructions(&[byte]).unwrap();
        }
        assert!(encoder.set_capacity(0), "nothing is referred to any more");
    }
}

mod encoder {
    use super::*;

    /// RFC 9204 §3.2.3: without a table, not one instruction.
    #[test]
    fn without_a_table_there_are_no_instructions() {
        let mut encoder = Encoder::new(4096);
        let lines = [Field::new("server", "quickset")];
        assert_eq!(encoder.encode(0, &lines), hex("0000 5f4d 86ed6989d5054f"));
        encoder.apply(0, 100);
        encoder.encode(4, &lines);
        assert_eq!(encoder.take_instructions(), [0; 0]);
        assert!(encoder.set_capacity(100), "there is nothing to set");
        assert_eq!(encoder.take_instructions(), [0; 0]);
    }

    /// RFC 9204 §7.1.3.
    #[test]
    fn secrets_are_never_indexed() {
        let mut encoder = Encoder::new(4096);
        encoder.apply(4096, 16);
        encoder.take_instructions();
        let mut lines = vec![
            Field::new("authorization", "Basic YWxhZGRpbg=="),
            Field::new("cookie", "pin=1234"),
            Field { sensitive: true, ..Field::new("x-token", "t") },
            Field { sensitive: true, ..Field::new(":method", "GET") },
        ];
        let section = encoder.encode(0, &lines);
        encoder.encode(4, &lines);
        assert_eq!(encoder.take_instructions(), [0; 0], "none is in the table");
        let read = Decoder::new(4096, 16, 4096).section(0, &section).unwrap();
        for line in &mut lines {
            line.sensitive = true;
        }
        assert_eq!(read, DecodedSection::Fields(lines));
    }

    #[test]
    fn without_blocked_streams_only_what_arrived_is_referred_to() {
        let mut encoder = Encoder::new(4096);
        encoder.apply(4096, 0);
        let mut decoder = Decoder::new(4096, 0, 4096);
        let lines = [Field::new("server", "quickset"), Field::new("x-custom", "1")];
        for stream in [0, 4] {
            let section = encoder.encode(stream, &lines);
            assert_eq!(decoder.section(stream, &section), Ok(DecodedSection::Fields(lines.to_vec())));
        }
        decoder.on_instructions(&encoder.take_instructions()).unwrap();
        encoder.on_instructions(&decoder.take_instructions()).unwrap();
        assert_eq!(encoder.encode(8, &lines).len(), 4, "now it is there");
    }

    #[test]
    fn as_many_streams_wait_as_are_allowed() {
        let mut encoder = Encoder::new(4096);
        encoder.apply(4096, 2);
        let mut decoder = Decoder::new(4096, 2, 4096);
        let mut blocked = 0;
        for stream in 0..5 {
            let lines = [Field::new("x-custom", format!("{stream}"))];
            blocked += u32::from(
                decoder.section(stream * 4, &encoder.encode(stream * 4, &lines))
                    == Ok(DecodedSection::Blocked),
            );
        }
        assert_eq!(blocked, 2);
    }

    /// A peer that acknowledges nothing gets sections without references in the end, and costs bounded
    /// memory.
    #[test]
    fn references_are_bounded() {
        let mut encoder = Encoder::new(4096);
        encoder.apply(4096, 1);
        let lines = vec![Field::new("server", "quickset"); 100];
        for _ in 0..1000 {
            encoder.encode(0, &lines);
        }
        let section = encoder.encode(0, &lines);
        assert_eq!(&section[..2], &[0, 0]);
    }

    /// RFC 9204 §2.1.1: what is not known to have arrived is not dropped, even if nothing refers to it.
    #[test]
    fn what_is_not_acknowledged_stays() {
        let mut encoder = Encoder::new(64);
        encoder.apply(64, 0);
        encoder.encode(0, &[Field::new("x-one", "1")]);
        encoder.take_instructions();
        for _ in 0..3 {
            encoder.encode(4, &[Field::new("x-two", "2")]);
        }
        assert_eq!(encoder.take_instructions(), [0; 0], "there is room for one, and it has not arrived");
        assert!(!encoder.set_capacity(0), "nor may it go so");
        encoder.on_instructions(&hex("01")).unwrap();
        encoder.encode(8, &[Field::new("x-two", "2")]);
        assert_eq!(encoder.inserted(), 2);
    }

    #[test]
    fn instructions_that_are_not_taken_are_bounded() {
        let mut encoder = Encoder::new(1 << 20);
        encoder.apply(1 << 20, 100);
        for n in 0..100 {
            let lines: Vec<Field> =
                (0..10).map(|m| Field::new(format!("x-{n}-{m}"), "{".repeat(30))).collect();
            encoder.encode(n, &lines);
        }
        let made = encoder.take_instructions().len();
        assert!((16 << 10..17 << 10).contains(&made), "{made}");
    }

    /// A value that is new each time costs its name once.
    #[test]
    fn names_are_kept_for_values_that_change() {
        let mut encoder = Encoder::new(4096);
        encoder.apply(4096, 100);
        let lengths: Vec<usize> = (0..4)
            .map(|n| encoder.encode(n * 4, &[Field::new("x-request-id", format!("{n}"))]).len())
            .collect();
        assert!(lengths[0] > 10 && lengths[1..].iter().all(|n| *n <= 5), "{lengths:?}");
    }

    #[test]
    fn an_old_entry_in_use_is_copied_before_it_goes() {
        let mut encoder = Encoder::new(256);
        encoder.apply(256, 100);
        let mut decoder = Decoder::new(256, 100, 4096);
        let popular = Field::new("x-popular", "always the same");
        let mut long = 0;
        for n in 0..200 {
            let lines = [popular.clone(), Field::new("x-rare", format!("{}", n / 2))];
            let section = encoder.encode(n * 4, &lines);
            long += section.len();
            decoder.on_instructions(&encoder.take_instructions()).unwrap();
            assert_eq!(decoder.section(n * 4, &section), Ok(DecodedSection::Fields(lines.to_vec())));
            encoder.on_instructions(&decoder.take_instructions()).unwrap();
        }
        // Literals of both would be 2 + 8 + 13 + 6 + 3 at least.
        assert!(long < 200 * 12, "{long} bytes");
    }
}

/// Vectors made by ls-qpack; see `tests/data/qpack.py`.
/// RFC 9204 §4.5.2, §4.5.3, §4.5.4, §4.5.5, §4.5.6.
#[test]
fn sections_of_another_encoder_are_decoded() {
    let text = include_str!("../../tests/data/qpack.txt");
    let (mut decoder, mut sections, mut dynamic) = (Decoder::new(0, 0, 0), 0, 0);
    let mut waiting: BTreeMap<u64, DecodedSection> = BTreeMap::new();
    let mut expected: BTreeMap<u64, Vec<Field>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["settings", capacity, blocked] => {
                decoder = Decoder::new(capacity.parse().unwrap(), blocked.parse().unwrap(), 1 << 16);
                assert!(waiting.is_empty());
            }
            ["encoder", bytes] => {
                decoder.on_instructions(&hex(bytes)).unwrap();
                while let Some(unblocked) = decoder.unblocked() {
                    let (stream, section) = unblocked.unwrap();
                    waiting.insert(stream, section);
                }
            }
            ["section", stream, bytes] => {
                let stream = stream.parse().unwrap();
                dynamic += u32::from(!bytes.starts_with("00"));
                match decode(&mut decoder, stream, bytes).unwrap() {
                    DecodedSection::Blocked => {}
                    section => drop(waiting.insert(stream, section)),
                }
            }
            ["field", stream, name, value] => {
                let field = Field::new(hex(name), hex(value));
                expected.entry(stream.parse().unwrap()).or_default().push(field);
            }
            ["read", stream] => {
                let stream = stream.parse().unwrap();
                let Some(DecodedSection::Fields(mut read)) = waiting.remove(&stream) else {
                    panic!("stream {stream} waits")
                };
                for field in &mut read {
                    field.sensitive = false;
                }
                assert_eq!(Some(read), expected.remove(&stream), "stream {stream}");
                sections += 1;
            }
            _ => panic!("{line}"),
        }
    }
    assert!(sections >= 100 && dynamic >= 50, "{sections} sections, {dynamic} with references");
}

/// Who pays for instructions is told what they took: a step for each entry, and one for four that bring none.
/// What is left of one is not lost.
#[test]
fn instructions_are_counted_by_what_they_take() {
    let mut decoder = Decoder::new(4096, 0, 4096);
    // The capacity, and ten entries.
    decoder.on_instructions(&hex("3fe11f")).unwrap();
    decoder.on_instructions(&hex("41 61 01 76").repeat(10)).unwrap();
    assert_eq!(decoder.take_steps(), 10);
    // Seven duplicates.
    decoder.on_instructions(&[0; 7]).unwrap();
    assert_eq!(decoder.take_steps(), 2);
    assert_eq!(decoder.take_steps(), 0);
}
