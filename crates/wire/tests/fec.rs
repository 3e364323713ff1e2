//! The vectors of `spec/fec.md` §20, byte for byte, computed anew by the naive arithmetic below; the rules on
//! single frames; what a symbol may hold.

#![expect(clippy::cast_possible_truncation, reason = "numbers in tests are small, or cut on purpose")]

use std::ops::RangeInclusive;

use proptest::collection::vec;
use proptest::prelude::*;
use quickset_wire::fec::{Scheme, Schemes};
use quickset_wire::frame::{
    self, Frame, Frames, LoneSymbol, MAX_SYMBOL_RANGES, RepairHeader, SymbolFrames, repair_header,
    repair_header_size, source_symbol_header, source_symbol_header_size, symbol_ack,
};
use quickset_wire::{PacketType, StreamId, TransportErrorCode as Code, TransportParams, Writer, varint};

const PAGE: &str = include_str!("../../../spec/fec.md");

fn encoded(frame: &Frame<'_>) -> Vec<u8> {
    let mut buffer = vec![0; frame.size()];
    let mut w = Writer::new(&mut buffer);
    frame.encode(&mut w);
    assert_eq!(w.room(), 0);
    buffer
}

fn decoded(bytes: &[u8]) -> Frame<'_> {
    let mut frames = Frames::new(bytes);
    let frame = frames.next().expect("a frame").expect("a good frame");
    assert_eq!(frames.next(), None);
    frame
}

fn fault(bytes: &[u8]) -> (u64, Code) {
    let fault = Frames::new(bytes).next().expect("an item").expect_err("a fault");
    (fault.kind, fault.code)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ")
}

/// True when the page has these bytes, as a line of their own or in a table.
fn on_page(bytes: &[u8]) -> bool {
    let digits = hex(bytes);
    PAGE.lines().any(|line| line.trim() == digits || line.contains(&format!("`{digits}`")))
}

/// Multiplication in GF(256) as the page defines the field: shift and reduce.
fn mul(a: u8, b: u8) -> u8 {
    let (mut a, mut product) = (u16::from(a), 0);
    for bit in 0..8 {
        if b >> bit & 1 == 1 {
            product ^= a;
        }
        a <<= 1;
        if a & 0x100 != 0 {
            a ^= 0x11d;
        }
    }
    product as u8
}

/// The inverse, by trying.
fn inverse(a: u8) -> u8 {
    (1..=255).find(|b| mul(a, *b) == 1).expect("a number that is not 0")
}

fn cauchy(j: u8, index: u8) -> u8 {
    inverse(j ^ (255 - index))
}

/// The coefficient of RLC, step by step as the page has it.
fn rlc(seed: u64, sid: u64) -> u8 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(sid);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (1 + (((z >> 32) * 255) >> 32)) as u8
}

/// The sum of the symbols with these coefficients, as long as the longest that counts.
fn sum(terms: &[(u8, &[u8])]) -> Vec<u8> {
    let len = terms.iter().filter(|(c, _)| *c != 0).map(|(_, s)| s.len()).max().unwrap_or(0);
    (0..len)
        .map(|at| terms.iter().fold(0, |sum, (c, s)| sum ^ mul(*c, s.get(at).copied().unwrap_or(0))))
        .collect()
}

/// The four symbols of §20.
fn symbols() -> [Vec<u8>; 4] {
    let stream = |id, offset, fin, data| encoded(&Frame::Stream { id: StreamId(id), offset, fin, data });
    [
        stream(0, 0, false, b"hello"),
        stream(0, 5, false, b", wide"),
        stream(0, 11, true, b" world"),
        stream(4, 0, false, b"x"),
    ]
}

#[test]
fn symbols_of_the_page() {
    for (sid, symbol) in (0..).zip(&symbols()) {
        assert!(PAGE.contains(&format!("    s_{sid}  {}\n", hex(symbol))), "s_{sid}");
        let frame = Frame::SourceSymbol { session: 2, sid, data: symbol };
        let bytes = encoded(&frame);
        assert!(on_page(&bytes), "{}", hex(&bytes));
        assert_eq!(decoded(&bytes), frame);

        // Written while its length is not known yet.
        let mut buffer = [0; 64];
        let mut w = Writer::new(&mut buffer);
        let at = source_symbol_header(&mut w, 2, sid, 0);
        assert_eq!(w.len(), source_symbol_header_size(2, sid));
        w.bytes(symbol);
        w.patch_varint2(at, symbol.len() as u64);
        assert_eq!(decoded(w.written()), frame);
    }
}

/// The header of a SOURCE_SYMBOL, number by number (RFC 9000 §16), of all sizes, with and without room behind
/// it.
#[test]
fn the_header_of_a_symbol_is_its_numbers_in_a_row() {
    let varint = |n: u64| match n {
        0..64 => vec![n as u8],
        64..0x4000 => (0x4000 | n as u16).to_be_bytes().to_vec(),
        0x4000..0x4000_0000 => (0x8000_0000 | n as u32).to_be_bytes().to_vec(),
        _ => (0xc000_0000_0000_0000 | n).to_be_bytes().to_vec(),
    };
    let sids = [0, 63, 64, 0x3fff, 0x4000, 0x3fff_ffff, 0x4000_0000, (1 << 62) - 1];
    for session in [0, 2, 63, 64, 0x4000, 0x4000_0000] {
        for (sid, len) in sids.into_iter().flat_map(|sid| [0, 1, 63, 64, 0x3fff_u16].map(|len| (sid, len))) {
            // A length of two bytes, so that it can be set later.
            let length = (0x4000 | len).to_be_bytes().to_vec();
            let expected = [vec![0x7f, 0x60], varint(session), varint(sid), length].concat();
            for room in [0, 1, 7, 40] {
                let mut buffer = vec![0; 3 + expected.len() + room];
                let mut w = Writer::new(&mut buffer);
                w.zeros(3);
                let at = source_symbol_header(&mut w, session, sid, len.into());
                assert_eq!(w.written()[3..], expected, "{session}, {sid}, {len}");
                assert_eq!((at, w.len()), (1 + expected.len(), 3 + expected.len()));
                assert_eq!(source_symbol_header_size(session, sid), expected.len());
            }
        }
    }
}

#[test]
fn repairs_of_the_page() {
    let s = symbols();
    let over = |coefficients: &[u8]| {
        let terms: Vec<_> = coefficients.iter().zip(&s).map(|(c, s)| (*c, &s[..])).collect();
        sum(&terms)
    };
    let c: Vec<u8> = (0..4).map(|j| cauchy(j, 0)).collect();
    let r: Vec<u8> = (0..4).map(|sid| rlc(7, sid)).collect();
    // Session, Count, Parameter, Index, and the coefficients of s_0 to s_3.
    let repairs: [(u64, u64, u64, u64, &[u8]); 9] = [
        (0, 4, 1, 0, &[1, 1, 1, 1]),
        (0, 4, 2, 0, &[1, 0, 1, 0]),
        (0, 4, 2, 1, &[0, 1, 0, 1]),
        (1, 2, 2, 2, &[1, 1]),
        (1, 3, 2, 3, &[0, 0, 1]),
        (1, 4, 2, 0, &[1, 0, 1, 0]),
        (2, 4, 1, 0, &c),
        (2, 2, 2, 1, &[cauchy(0, 1), 0, cauchy(1, 1)]),
        (4, 4, 0, 7, &r),
    ];
    for (session, count, parameter, index, coefficients) in repairs {
        let data = over(coefficients);
        let repair = Frame::Repair { session, first: 0, count, parameter, index, data: &data };
        let bytes = encoded(&repair);
        assert!(on_page(&bytes), "session {session}, index {index}: {}", hex(&bytes));
        assert_eq!(decoded(&bytes), repair);

        let header = RepairHeader { session, first: 0, count, parameter, index };
        let mut buffer = [0; 64];
        let mut w = Writer::new(&mut buffer);
        repair_header(&mut w, &header, data.len());
        assert_eq!(w.len(), repair_header_size(&header, data.len()));
        w.bytes(&data);
        assert_eq!(w.written(), bytes);
    }

    // What a receiver does with the first of them when s_1 is lost.
    let repair = over(&[1, 1, 1, 1]);
    let found = sum(&[(1, &repair), (1, &s[0]), (1, &s[2]), (1, &s[3])]);
    assert_eq!(hex(&found), hex(&s[1]));
    assert!(on_page(&found));
    let frames: Vec<_> = SymbolFrames::new(&found).map(|f| f.expect("a good frame")).collect();
    assert_eq!(frames, [Frame::Stream { id: StreamId(0), offset: 5, fin: false, data: b", wide" }]);
}

#[test]
fn coefficients_of_the_page() {
    assert_eq!([0, 1, 2, 3].map(|j| cauchy(j, 0)), [0xfd, 0x7e, 0xff, 0x7f]);
    assert_eq!([0, 1, 2, 3].map(|j| cauchy(j, 1)), [0x7e, 0xfd, 0x7f, 0xff]);
    assert_eq!([0, 1, 251].map(|j| cauchy(j, 3)), [0x7f, 0xff, 0xba]);
    for coefficients in ["fd 7e ff 7f", "7e fd 7f ff", "7f ff ba"] {
        assert!(PAGE.contains(&format!("`{coefficients}`")));
    }
    for (seed, seed_text, sid, sid_text, c) in [
        (0, "0", 0, "0", 1),
        (0, "0", 1, "1", 87),
        (1, "1", 0, "0", 226),
        (1, "1", 1, "1", 145),
        (7, "7", 1000, "1000", 20),
        (123_456, "123456", 42, "42", 194),
        (1 << 32, "2^32", 1 << 40, "2^40", 179),
        (varint::MAX, "2^62 - 1", varint::MAX, "2^62 - 1", 58),
    ] {
        assert_eq!(rlc(seed, sid), c);
        assert!(PAGE.contains(&format!("| {seed_text} | {sid_text} | {c} |")));
    }
}

/// The matrix of §8.4, from the words there.
fn ldpc_rows(k: u64, rows: u64, first: u64) -> Vec<Vec<u64>> {
    let mut x = 1 + first % 0x7fff_fffe;
    let mut draw = |m: u64| {
        x = 16807 * x % 0x7fff_ffff;
        m * x / 0x7fff_ffff
    };
    let mut matrix = vec![Vec::new(); rows as usize];
    let mut places: Vec<usize> = (0..3 * k).map(|h| (h % rows) as usize).collect();
    let mut t = 0;
    for j in 0..k {
        for _ in 0..3 {
            if places[t..].iter().any(|row| !matrix[*row].contains(&j)) {
                let place = loop {
                    let place = t + draw(3 * k - t as u64) as usize;
                    if !matrix[places[place]].contains(&j) {
                        break place;
                    }
                };
                matrix[places[place]].push(j);
                places[place] = places[t];
                t += 1;
            } else {
                let row = loop {
                    let row = draw(rows) as usize;
                    if !matrix[row].contains(&j) {
                        break row;
                    }
                };
                matrix[row].push(j);
            }
        }
    }
    for row in &mut matrix {
        if row.is_empty() {
            row.push(draw(k));
        }
        while row.len() == 1 {
            let j = draw(k);
            if j != row[0] {
                row.push(j);
            }
        }
        row.sort_unstable();
    }
    matrix
}

#[test]
fn ldpc_of_the_page() {
    for (k, rows, first, first_text) in [(6, 4, 0, "0"), (6, 4, 100, "100"), (8, 4, 0x7fff_fffe, "2^31 - 2")]
    {
        let cells: Vec<String> = ldpc_rows(k, rows, first)
            .iter()
            .map(|row| row.iter().map(u64::to_string).collect::<Vec<_>>().join(" "))
            .collect();
        let line = format!("| {k} | {rows} | {first_text} | {} |", cells.join(" | "));
        assert!(PAGE.contains(&line), "{line}");
    }
    // RFC 5170 §5.7 names the 10000th number.
    let x = (0..10_000).fold(1u64, |x, _| 16807 * x % 0x7fff_ffff);
    assert_eq!(x, 1_043_618_065);

    let source = [0x01u8, 0x02, 0x04, 0x08, 0x10, 0x20];
    let mut repairs = Vec::new();
    for row in ldpc_rows(6, 4, 0) {
        let before = repairs.last().copied().unwrap_or(0);
        repairs.push(row.iter().fold(before, |sum, j| sum ^ source[*j as usize]));
    }
    assert_eq!(repairs, [0x2f, 0x15, 0x08, 0x3f]);
    assert!(PAGE.contains("`01 02 04 08 10 20`") && PAGE.contains("`2f 15 08 3f`"));
}

#[test]
fn reports_windows_and_the_error_of_the_page() {
    for (session, ranges) in [(0, vec![1..=1]), (2, vec![9..=9, 3..=6])] {
        let mut buffer = [0; 32];
        let mut w = Writer::new(&mut buffer);
        assert_eq!(symbol_ack(&mut w, session, ranges.clone()), ranges.len());
        assert!(on_page(w.written()), "{}", hex(w.written()));
        let Frame::SymbolAck(ack) = decoded(w.written()) else { panic!("not a SYMBOL_ACK") };
        assert_eq!((ack.session, ack.largest), (session, *ranges[0].end()));
        assert_eq!(ack.ranges().collect::<Vec<_>>(), ranges);
        assert_eq!(encoded(&Frame::SymbolAck(ack)), w.written());
    }
    let close = Frame::ConnectionClose { code: Code::FEC_ERROR, frame_type: 0x3f61, reason: &[] };
    let unmarked = Frame::Unmarked { session: 2, packets: 1 << 1 | 1 << 2 | 1 << 4 };
    for frame in [Frame::FecWindow { epoch: 1, window: 2048 }, unmarked, close] {
        let bytes = encoded(&frame);
        assert!(on_page(&bytes), "{}", hex(&bytes));
        assert_eq!(decoded(&bytes), frame);
    }
    let keeps = [0x87, 0x15, 0x3f, 0xee, 1, 32];
    assert!(on_page(&keeps));
    let params = TransportParams::decode(quickset_wire::Side::Client, &keeps).expect("good parameters");
    assert_eq!(params.fec_unmarked, 32);
    let offers = [
        (&[0x87, 0x15, 0x3f, 0xec, 0x0a, 0x44, 0, 4, 0x44, 0xb0, 0, 1, 2, 3, 4][..], 1024, Schemes::ALL),
        (&[0x87, 0x15, 0x3f, 0xec, 3, 0, 0, 0], 0, Schemes::NONE),
    ];
    for (bytes, window, schemes) in offers {
        assert!(on_page(bytes));
        let params = TransportParams::decode(quickset_wire::Side::Client, bytes).expect("good parameters");
        let offer = params.fec_decoder.expect("it is there");
        assert_eq!((offer.window, offer.schemes), (window, schemes));
    }
}

#[test]
fn faults_of_single_frames() {
    const FEC: Code = Code::FEC_ERROR;
    const ENCODING: Code = Code::FRAME_ENCODING_ERROR;
    let max = [0xff; 8];
    // FEC-61 by number.
    let with = |head: &[u8], tail: &[u8]| [head, &max, tail].concat();
    let ranges = |further: u8| {
        let pairs = [0, 0].repeat(further as usize);
        [&[0x7f, 0x62, 0, 0x40, 200, further, 0][..], &pairs].concat()
    };
    let cases: Vec<(Vec<u8>, u64, Code, &str)> = vec![
        (vec![0x7f, 0x60, 2, 0, 0], 0x3f60, FEC, "error 1: no bytes"),
        (vec![0x7f, 0x61, 2, 0, 0, 1, 0, 1, 9], 0x3f61, FEC, "error 1: Count 0"),
        (vec![0x7f, 0x61, 2, 0, 4, 1, 0, 0], 0x3f61, FEC, "error 1: Length 0"),
        (with(&[0x7f, 0x61, 4], &[2, 0, 0, 1, 9]), 0x3f61, FEC, "error 2: one too many"),
        (with(&[0x7f, 0x61, 2, 0, 3], &[0, 1, 9]), 0x3f61, FEC, "error 2: by the stride"),
        (with(&[0x7f, 0x61, 4, 2], &[0, 0, 1, 9]), 0x3f61, FEC, "error 2: by the count"),
        (ranges(32), 0x3f62, FEC, "error 4"),
        (vec![0x7f, 0x62, 0, 5, 0, 6], 0x3f62, ENCODING, "first range below 0"),
        (vec![0x7f, 0x62, 0, 5, 1, 1, 3, 0], 0x3f62, ENCODING, "gap below 0"),
        (vec![0x7f, 0x62, 0, 5, 1, 1, 1, 2], 0x3f62, ENCODING, "length below 0"),
        (with(&[0x7f, 0x62, 0, 5], &[0, 0, 0]), 0x3f62, ENCODING, "a count that lies"),
        (vec![0x7f, 0x60, 2, 0, 3, 1, 1], 0x3f60, ENCODING, "past the end"),
        (with(&[0x7f, 0x60, 2, 0], &[1, 1]), 0x3f60, ENCODING, "far past the end"),
        (vec![0x7f, 0x61, 2, 0, 4, 1, 0, 0x80, 0, 0], 0x3f61, ENCODING, "a length cut short"),
        (vec![0x7f, 0x63, 1], 0x3f63, ENCODING, "no window"),
        (vec![0x7f, 0x64, 1], 0x3f64, ENCODING, "no packets"),
        (vec![0x7f, 0x64, 1, 0], 0x3f64, FEC, "error 15"),
        (vec![0x7f, 0x65, 1, 1], 0x3f65, ENCODING, "reserved"),
        (vec![0x80, 0, 0x3f, 0x64, 2, 1], 0x3f64, Code::PROTOCOL_VIOLATION, "a long type"),
        (vec![0x80, 0, 0x3f, 0x60, 2, 0, 1, 0], 0x3f60, Code::PROTOCOL_VIOLATION, "a long type"),
    ];
    for (bytes, kind, code, name) in cases {
        assert_eq!(fault(&bytes), (kind, code), "{name}");
    }
    // The borders: FEC-39; the largest SID there is.
    assert!(matches!(decoded(&ranges(31)), Frame::SymbolAck(_)));
    assert!(matches!(decoded(&with(&[0x7f, 0x61, 4], &[1, 0, 0, 1, 9])), Frame::Repair { .. }));
    // The session is not for the parser to judge: what its scheme is, nobody knows.
    assert!(matches!(decoded(&[0x7f, 0x61, 7, 0, 1, 0, 0, 1, 9]), Frame::Repair { .. }));
}

#[test]
fn properties_of_the_frames() {
    // FEC-7, FEC-9, FEC-10.
    let mut buffer = [0; 32];
    let mut w = Writer::new(&mut buffer);
    symbol_ack(&mut w, 0, [5..=5]);
    let report = decoded(w.written());
    let symbol = Frame::SourceSymbol { session: 2, sid: 0, data: &[1] };
    let repair = Frame::Repair { session: 2, first: 0, count: 1, parameter: 1, index: 0, data: &[1] };
    let window = Frame::FecWindow { epoch: 1, window: 0 };
    let unmarked = Frame::Unmarked { session: 2, packets: 1 };
    for (frame, eliciting) in
        [(symbol, true), (repair, true), (report, false), (window, true), (unmarked, true)]
    {
        assert_eq!(frame.is_ack_eliciting(), eliciting, "{frame:?}");
        assert!(!frame.is_probing());
        assert!(frame.allowed_in(PacketType::OneRtt));
        for packet in [PacketType::Initial, PacketType::Handshake, PacketType::ZeroRtt] {
            assert!(!frame.allowed_in(packet));
        }
        // FEC-13: nothing of this is nested.
        assert!(!frame.allowed_in_symbol());
    }
}

#[test]
fn a_symbol_holds_frames_that_end_by_themselves() {
    // FEC-13, FEC-37; FEC-61, error 5.
    let id = StreamId(3);
    let good = [
        Frame::Stream { id, offset: 0, fin: false, data: b"a" },
        Frame::Fenced { id, offset: 0, distance: 0, start: true, each: false, fin: false, data: b"\x01a" },
        Frame::Abandon { id, offset: 2, len: 2 },
        Frame::ResetStream { id, code: 0, final_size: 4 },
        Frame::ResetStreamAt { id, code: 0, final_size: 4, reliable_size: 2 },
        Frame::Datagram { len: true, data: b"d" },
    ];
    let mut symbol: Vec<u8> = good.iter().flat_map(encoded).collect();
    let read: Result<Vec<_>, _> = SymbolFrames::new(&symbol).collect();
    assert_eq!(read.as_deref(), Ok(&good[..]));
    // Zeros behind it, as after a recovery, are PADDING.
    symbol.extend([0; 7]);
    let read: Vec<_> = SymbolFrames::new(&symbol).map(|f| f.expect("a good frame")).collect();
    assert_eq!((&read[..6], read[6]), (&good[..], Frame::Padding(7)));

    let nested = encoded(&Frame::SourceSymbol { session: 2, sid: 9, data: &[0x0a, 0, 1, 1] });
    let bad: [(&[u8], &str); 9] = [
        (&[0x08, 3, b'a', b'b'], "STREAM without a length"),
        (&[0x0d, 3, 1, b'a'], "STREAM without a length, with offset and FIN"),
        (&[0x30, b'a'], "DATAGRAM without a length"),
        (&[0x01], "PING"),
        (&[0x06, 0, 1, b'a'], "CRYPTO"),
        (&[0x10, 9], "MAX_DATA"),
        (&nested, "nested"),
        (&[0x0a, 3, 9, b'a'], "cut short"),
        (&[0x21], "unknown"),
    ];
    for (frame, name) in bad {
        let symbol = [&encoded(&good[0])[..], frame, &encoded(&good[2])].concat();
        let mut frames = SymbolFrames::new(&symbol);
        assert_eq!(frames.next(), Some(Ok(good[0])));
        let fault = frames.next().expect("an item").expect_err(name);
        assert_eq!((fault.code, fault.kind), (Code::FEC_ERROR, 0x3f60), "{name}");
        assert_eq!(frames.next(), None, "{name}: a fault is the last item");
    }
}

#[test]
fn sessions_and_spans() {
    // §5: 8·n + scheme.
    assert_eq!(Scheme::Rlc.session(3), 28);
    assert_eq!((Scheme::of(28), Scheme::of(2)), (Some(Scheme::Rlc), Some(Scheme::ReedSolomon)));
    for reserved in [5, 6, 7] {
        assert_eq!((Scheme::new(reserved), Scheme::of(8 + reserved)), (None, None));
    }
    assert_eq!(Scheme::new(8), None);
    // §8.3: the stride counts in Reed-Solomon alone.
    assert_eq!(Scheme::ReedSolomon.last_sid(10, 4, 5), Some(25));
    assert_eq!(Scheme::Xor.last_sid(10, 4, 5), Some(13));
    assert_eq!(Scheme::Rlc.last_sid(varint::MAX, 1, 0), Some(varint::MAX));
    assert_eq!(Scheme::Rlc.last_sid(varint::MAX, 2, 0), None);
    assert_eq!(Scheme::ReedSolomon.last_sid(0, u64::MAX, u64::MAX), None);
    assert_eq!(Scheme::Rlc.last_sid(5, 0, 0), None);
}

/// Ranges newest first, that do not touch.
fn ranges(most: usize) -> impl Strategy<Value = Vec<RangeInclusive<u64>>> {
    (0u64..1 << 50, vec((0u64..100, 0u64..1 << 20), 1..=most)).prop_map(|(lowest, steps)| {
        let mut next = lowest;
        let mut ranges: Vec<_> = steps
            .into_iter()
            .map(|(length, gap)| {
                let range = next..=next + length;
                next += length + gap + 2;
                range
            })
            .collect();
        ranges.reverse();
        ranges
    })
}

proptest! {
    /// FEC-39: the newest, as many as fit, and never more than 32.
    #[test]
    fn reports_keep_the_newest_ranges(session in 0..varint::MAX, ranges in ranges(80), room in 0usize..400) {
        let mut buffer = vec![0xee; room];
        let mut w = Writer::new(&mut buffer);
        let written = symbol_ack(&mut w, session, ranges.iter().cloned());
        let used = w.len();
        prop_assert!(written <= ranges.len().min(MAX_SYMBOL_RANGES));
        if written == 0 {
            prop_assert_eq!(used, 0);
            prop_assert!(room < 2 + 8 + 8 + 1 + 8);
            return Ok(());
        }
        let Frame::SymbolAck(ack) = decoded(&buffer[..used]) else { panic!("not a SYMBOL_ACK") };
        prop_assert_eq!((ack.session, ack.largest), (session, *ranges[0].end()));
        prop_assert_eq!(ack.ranges().collect::<Vec<_>>(), &ranges[..written]);
        if written < ranges.len().min(MAX_SYMBOL_RANGES) {
            let gap = ranges[written - 1].start() - ranges[written].end() - 2;
            let length = ranges[written].end() - ranges[written].start();
            prop_assert!(used + varint::size(gap) + varint::size(length) > room, "one more would fit");
        }
    }

    /// One look at a packet with a symbol finds what reading its frames one by one does, or leaves it to
    /// that.
    #[test]
    fn a_lone_symbol_is_what_its_frames_are(
        (session, sid) in (0u64..1 << 20, 0u64..1 << 20),
        id in 0u64..1 << 40,
        offset in prop_oneof![Just(0), 0u64..1 << 20, varint::MAX - 20..=varint::MAX],
        fin in any::<bool>(),
        data in vec(any::<u8>(), 0..30),
        padding in 0usize..70,
        change in prop::option::of((0usize..120, any::<u8>())),
    ) {
        let stream = encoded(&Frame::Stream { id: StreamId(id), offset, fin, data: &data });
        let mut payload = encoded(&Frame::SourceSymbol { session, sid, data: &stream });
        payload.resize(payload.len() + padding, 0);
        let changed = change.filter(|(at, _)| *at < payload.len());
        if let Some((at, byte)) = changed {
            payload[at] = byte;
        }
        let lone = LoneSymbol::parse(&payload);
        let mut frames = Frames::new(&payload);
        let found = match frames.next() {
            Some(Ok(Frame::SourceSymbol { session, sid, data })) => {
                let mut inner = SymbolFrames::new(data);
                let padded = frames.next().is_none_or(|frame| matches!(frame, Ok(Frame::Padding(_))));
                let ends = padded && frames.next().is_none();
                match (inner.next(), inner.next()) {
                    (Some(Ok(Frame::Stream { id, offset, fin, data: bytes })), None) if ends => {
                        Some(LoneSymbol { session, sid, symbol: data, id, offset, fin, data: bytes })
                    }
                    _ => None,
                }
            }
            _ => None,
        };
        if let Some(lone) = lone {
            prop_assert_eq!(found, Some(lone));
        }
        if changed.is_none() && offset + data.len() as u64 <= varint::MAX && padding <= 64 {
            prop_assert!(lone.is_some());
        }
    }

    /// A symbol is read to its end or to one fault, whatever it is.
    #[test]
    fn any_symbol_is_digested(symbol in vec(prop_oneof![0u8..0x20, Just(0x7f), 0x50u8..0x65, any::<u8>()], 0..100)) {
        let mut frames = SymbolFrames::new(&symbol);
        let mut items = 0;
        while let Some(item) = frames.next() {
            items += 1;
            match item {
                Ok(frame) => prop_assert!(frame.allowed_in_symbol()),
                Err(fault) => {
                    prop_assert_eq!(fault.code, Code::FEC_ERROR);
                    prop_assert_eq!(frames.next(), None);
                }
            }
        }
        prop_assert!(items <= symbol.len());
        // What an ordinary packet could not hold, a symbol cannot hold either.
        let plain = Frames::new(&symbol).take_while(Result::is_ok).count();
        let inner = SymbolFrames::new(&symbol).take_while(Result::is_ok).count();
        prop_assert!(inner <= plain);
    }
}

#[test]
fn nothing_to_report_writes_nothing() {
    let mut buffer = [0; 8];
    let mut w = Writer::new(&mut buffer);
    assert_eq!(frame::symbol_ack(&mut w, 0, []), 0);
    assert!(w.is_empty());
}
