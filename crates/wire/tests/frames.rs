//! Every frame there and back, faults, ACKs against a model, and bytes of all kinds.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers in tests are small, or cut on purpose"
)]

use std::ops::RangeInclusive;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use quickset_wire::frame::{self, EcnCounts, Frame, Frames};
use quickset_wire::{
    ConnectionId, Dir, PacketType, ResetToken, StreamId, TransportErrorCode as Code, Writer, varint,
};

/// Numbers of all sizes that a varint has.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..64, 0u64..1 << 14, 0u64..1 << 30, 0..=varint::MAX, Just(varint::MAX)]
}

fn id() -> impl Strategy<Value = StreamId> {
    number().prop_map(StreamId)
}

fn dir() -> impl Strategy<Value = Dir> {
    prop::bool::ANY.prop_map(|uni| if uni { Dir::Uni } else { Dir::Bi })
}

/// Data that outlives the strategy: frames borrow, and a test may leak.
fn data(size: RangeInclusive<usize>) -> impl Strategy<Value = &'static [u8]> {
    vec(any::<u8>(), size).prop_map(|v| &*v.leak())
}

/// An offset at which `len` bytes may still lie.
fn fit(offset: u64, len: u64) -> u64 {
    offset.min(varint::MAX - len)
}

fn ecn() -> impl Strategy<Value = Option<EcnCounts>> {
    prop::option::of((number(), number(), number()).prop_map(|(ect0, ect1, ce)| EcnCounts { ect0, ect1, ce }))
}

/// Ranges newest first, that do not touch.
fn ranges(most: usize) -> impl Strategy<Value = Vec<RangeInclusive<u64>>> {
    let step = prop_oneof![9 => 0u64..100, 1 => 0u64..1 << 40];
    (0u64..1 << 50, vec((step.clone(), step), 1..=most)).prop_map(|(lowest, steps)| {
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

fn ack_frame() -> impl Strategy<Value = Frame<'static>> {
    (ranges(80), number(), ecn()).prop_map(|(ranges, delay, ecn)| {
        let mut buffer = vec![0; 2000];
        let mut w = Writer::new(&mut buffer);
        frame::ack(&mut w, ranges, delay, ecn);
        only(w.written().to_vec().leak())
    })
}

/// At most 32 ranges, as a SYMBOL_ACK holds them.
fn symbol_ack_frame() -> impl Strategy<Value = Frame<'static>> {
    (number(), ranges(32)).prop_map(|(session, ranges)| {
        let mut buffer = vec![0; 1000];
        let mut w = Writer::new(&mut buffer);
        frame::symbol_ack(&mut w, session, ranges);
        only(w.written().to_vec().leak())
    })
}

fn control_frame() -> impl Strategy<Value = Frame<'static>> {
    let streams = prop_oneof![number().prop_map(|n| n >> 2), Just(1 << 60)];
    prop_oneof![
        (1usize..100).prop_map(Frame::Padding),
        Just(Frame::Ping),
        Just(Frame::HandshakeDone),
        (id(), number(), number()).prop_map(|(id, code, final_size)| Frame::ResetStream {
            id,
            code,
            final_size
        }),
        (id(), number(), number(), number()).prop_map(|(id, code, a, b)| Frame::ResetStreamAt {
            id,
            code,
            final_size: a.max(b),
            reliable_size: a.min(b)
        }),
        (id(), number()).prop_map(|(id, code)| Frame::StopSending { id, code }),
        data(1..=80).prop_map(|token| Frame::NewToken { token }),
        number().prop_map(Frame::MaxData),
        (id(), number()).prop_map(|(id, max)| Frame::MaxStreamData { id, max }),
        (dir(), streams.clone()).prop_map(|(dir, max)| Frame::MaxStreams { dir, max }),
        number().prop_map(Frame::DataBlocked),
        (id(), number()).prop_map(|(id, limit)| Frame::StreamDataBlocked { id, limit }),
        (dir(), streams).prop_map(|(dir, limit)| Frame::StreamsBlocked { dir, limit }),
        (number(), number(), vec(any::<u8>(), 1..=20), any::<[u8; 16]>()).prop_map(|(a, b, id, token)| {
            let id = ConnectionId::new(&id).expect("at most 20 bytes");
            let token = ResetToken(token);
            Frame::NewConnectionId { sequence: a.max(b), retire_prior_to: a.min(b), id, token }
        }),
        number().prop_map(|sequence| Frame::RetireConnectionId { sequence }),
        any::<[u8; 8]>().prop_map(Frame::PathChallenge),
        any::<[u8; 8]>().prop_map(Frame::PathResponse),
        (number(), number(), data(0..=40)).prop_map(|(code, frame_type, reason)| {
            Frame::ConnectionClose { code: Code(code), frame_type, reason }
        }),
        (number(), data(0..=40)).prop_map(|(code, reason)| Frame::ApplicationClose { code, reason }),
        Just(Frame::ImmediateAck),
        (number(), number(), number(), number()).prop_map(
            |(sequence, threshold, max_delay_us, reordering)| Frame::AckFrequency {
                sequence,
                threshold,
                max_delay_us,
                reordering
            }
        ),
        (number(), number()).prop_map(|(epoch, window)| Frame::FecWindow { epoch, window }),
        (number(), number())
            .prop_map(|(session, packets)| Frame::Unmarked { session, packets: packets.max(1) }),
    ]
}

fn data_frame() -> impl Strategy<Value = Frame<'static>> {
    let flags = any::<(bool, bool, bool)>();
    prop_oneof![
        (number(), data(0..=100))
            .prop_map(|(offset, data)| Frame::Crypto { offset: fit(offset, data.len() as u64), data }),
        (id(), number(), prop::bool::ANY, data(0..=100)).prop_map(|(id, offset, fin, data)| {
            Frame::Stream { id, offset: fit(offset, data.len() as u64), fin, data }
        }),
        (id(), number(), number(), flags, data(0..=100)).prop_map(|(id, a, b, (fin, start, each), data)| {
            let offset = fit(a, data.len() as u64);
            let start = start && !data.is_empty();
            let each = each && start;
            Frame::Fenced { id, offset, distance: b.min(offset), start, each, fin, data }
        }),
        data(0..=100).prop_map(|data| Frame::Datagram { len: true, data }),
        (id(), number(), 1..=varint::MAX).prop_map(|(id, offset, len)| Frame::Abandon {
            id,
            offset: fit(offset, len),
            len
        }),
        (number(), number(), data(1..=100)).prop_map(|(session, sid, data)| Frame::SourceSymbol {
            session,
            sid,
            data
        }),
        // Neither the span nor, with Reed-Solomon, its stride leads beyond 2^62 - 1.
        (number(), 0..1u64 << 61, 1..1u64 << 30, 0..1u64 << 30, number(), data(1..=100)).prop_map(
            |(session, first, count, parameter, index, data)| Frame::Repair {
                session,
                first,
                count,
                parameter,
                index,
                data
            }
        ),
    ]
}

fn any_frame() -> impl Strategy<Value = Frame<'static>> {
    prop_oneof![4 => control_frame(), 2 => data_frame(), 2 => ack_frame(), 1 => symbol_ack_frame()]
}

/// Numbers the variants from 0 on. A new frame gets the next number, and `KINDS` with it: then the tests
/// below want an example in [`any_frame`], which is written and read back.
fn variant(frame: &Frame<'_>) -> usize {
    match frame {
        Frame::Padding(_) => 0,
        Frame::Ping => 1,
        Frame::Ack(_) => 2,
        Frame::ResetStream { .. } => 3,
        Frame::ResetStreamAt { .. } => 4,
        Frame::StopSending { .. } => 5,
        Frame::Crypto { .. } => 6,
        Frame::NewToken { .. } => 7,
        Frame::Stream { .. } => 8,
        Frame::MaxData(_) => 9,
        Frame::MaxStreamData { .. } => 10,
        Frame::MaxStreams { .. } => 11,
        Frame::DataBlocked(_) => 12,
        Frame::StreamDataBlocked { .. } => 13,
        Frame::StreamsBlocked { .. } => 14,
        Frame::NewConnectionId { .. } => 15,
        Frame::RetireConnectionId { .. } => 16,
        Frame::PathChallenge(_) => 17,
        Frame::PathResponse(_) => 18,
        Frame::ConnectionClose { .. } => 19,
        Frame::ApplicationClose { .. } => 20,
        Frame::HandshakeDone => 21,
        Frame::Datagram { .. } => 22,
        Frame::Fenced { .. } => 23,
        Frame::Abandon { .. } => 24,
        Frame::ImmediateAck => 25,
        Frame::AckFrequency { .. } => 26,
        Frame::SourceSymbol { .. } => 27,
        Frame::Repair { .. } => 28,
        Frame::SymbolAck(_) => 29,
        Frame::FecWindow { .. } => 30,
        Frame::Unmarked { .. } => 31,
    }
}

const KINDS: usize = 32;

fn encoded(frames: &[Frame<'_>]) -> Vec<u8> {
    let size = frames.iter().map(Frame::size).sum();
    let mut buffer = vec![0xee; size];
    let mut w = Writer::new(&mut buffer);
    for frame in frames {
        let before = w.len();
        frame.encode(&mut w);
        assert_eq!(w.len() - before, frame.size(), "{frame:?}");
    }
    assert_eq!(w.room(), 0);
    buffer
}

/// The one frame in `bytes`.
fn only(bytes: &[u8]) -> Frame<'_> {
    let mut frames = Frames::new(bytes);
    let frame = frames.next().expect("a frame").expect("a good frame");
    assert_eq!(frames.next(), None);
    frame
}

fn fault(bytes: &[u8]) -> (u64, Code) {
    let mut frames = Frames::new(bytes);
    let fault = frames.next().expect("an item").expect_err("a fault");
    assert_eq!(frames.next(), None, "a fault is the last item");
    (fault.kind, fault.code)
}

/// Reads whatever it is; what was read must come back from its own encoding.
fn digest(bytes: &[u8]) -> Result<(), TestCaseError> {
    let mut items = 0;
    for item in Frames::new(bytes) {
        items += 1;
        if let Ok(frame) = item {
            let again = encoded(&[frame]);
            prop_assert_eq!(only(&again), frame);
            if let Frame::Ack(ack) = frame {
                check_ranges(&ack)?;
            }
        }
    }
    prop_assert!(items <= bytes.len(), "every item takes a byte");
    Ok(())
}

fn check_ranges(ack: &frame::Ack<'_>) -> Result<(), TestCaseError> {
    let mut above = None;
    prop_assert_eq!(ack.ranges().next().map(|r| *r.end()), Some(ack.largest));
    prop_assert_eq!(ack.ranges().len(), ack.ranges().count());
    for range in ack.ranges() {
        prop_assert!(range.start() <= range.end());
        prop_assert!(above.is_none_or(|a| range.end() + 1 < a), "{:?} touches {:?}", range, above);
        above = Some(*range.start());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// RFC 9000 §19.1, §19.17, §19.18, §19.19.
    #[test]
    fn frames_round_trip(frames in vec(any_frame(), 1..6)) {
        let bytes = encoded(&frames);
        // Runs of PADDING next to each other are one run when read.
        let mut expected: Vec<Frame<'_>> = Vec::new();
        for frame in frames {
            match (expected.last_mut(), frame) {
                (Some(Frame::Padding(n)), Frame::Padding(m)) => *n += m,
                _ => expected.push(frame),
            }
        }
        let read: Result<Vec<_>, _> = Frames::new(&bytes).collect();
        prop_assert_eq!(read, Ok(expected));
    }

    #[test]
    fn a_cut_frame_is_an_encoding_error(frame in any_frame(), cut in 0.0f64..1.0) {
        let bytes = encoded(std::slice::from_ref(&frame));
        let cut = (bytes.len() as f64 * cut) as usize;
        // PADDING and STREAM without data are whole wherever they end.
        prop_assume!(cut > 0 && !matches!(frame, Frame::Padding(_)));
        let item = Frames::new(&bytes[..cut]).next().expect("an item");
        prop_assert_eq!(item.expect_err("cut").code, Code::FRAME_ENCODING_ERROR);
    }

    #[test]
    fn any_bytes_are_digested(bytes in vec(any::<u8>(), 0..200)) {
        digest(&bytes)?;
    }

    #[test]
    fn likely_bytes_are_digested(bytes in vec(prop_oneof![0u8..0x20, Just(0x7f), 0x50u8..0x5a, 0x60u8..0x65, any::<u8>()], 0..100)) {
        digest(&bytes)?;
    }

    #[test]
    fn damaged_packets_are_digested(
        frames in vec(any_frame(), 1..6),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encoded(&frames);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(1 + cut.index(bytes.len()));
        digest(&bytes)?;
    }

    // Against an encoder that knows no limits, written from RFC 9000 figure 25 and 26.
    /// RFC 9000 §13.2.3, §19.3, §19.3.1.
    #[test]
    fn acks_keep_the_newest_ranges_that_fit(ranges in ranges(200), delay in number(), ecn in ecn(), room in 0usize..700) {
        let mut buffer = vec![0xee; room];
        let mut w = Writer::new(&mut buffer);
        let written = frame::ack(&mut w, ranges.iter().cloned(), delay, ecn);
        let used = w.len();
        prop_assert!(written <= ranges.len());

        // One more must not have fitted: unless all are in, or only the shorter count was (63 further
        // ranges).
        if written < ranges.len() && written != 64 {
            let mut all = vec![0; 8000];
            let mut w = Writer::new(&mut all);
            let one_more = frame::ack(&mut w, ranges[..=written].iter().cloned(), delay, ecn);
            prop_assert_eq!(one_more, written + 1);
            // The two-byte form of the count may have been chosen for ranges that then did not come.
            prop_assert!(w.len() + 1 > room, "{} bytes would do of {}", w.len(), room);
        }
        if written == 0 {
            prop_assert_eq!(used, 0);
            return Ok(());
        }
        let Frame::Ack(ack) = only(&buffer[..used]) else { panic!("not an ACK") };
        prop_assert_eq!((ack.largest, ack.delay, ack.ecn), (*ranges[0].end(), delay, ecn));
        prop_assert_eq!(ack.ranges().collect::<Vec<_>>(), &ranges[..written]);
        check_ranges(&ack)?;
    }
}

/// RFC 9000 §19.3, §19.3.1, §19.3.2.
/// Who adds a frame and forgets to have it read hears of it here.
#[test]
fn each_variant_has_an_example_that_is_read() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = [false; KINDS];
    for _ in 0..5000 {
        let frame = any_frame().new_tree(&mut runner).expect("a frame").current();
        let bytes = encoded(std::slice::from_ref(&frame));
        assert_eq!(variant(&only(&bytes)), variant(&frame), "{frame:?}");
        seen[variant(&frame)] = true;
    }
    let missing: Vec<_> = (0..KINDS).filter(|kind| !seen[*kind]).collect();
    assert!(missing.is_empty(), "any_frame() has no example of the variants {missing:?}");
}

#[test]
fn an_ack_by_hand() {
    // Received 90..=100, 80..=85 and 0: gap 90-85-2 = 3, length 5; gap 80-0-2 = 78, length 0.
    let bytes = [0x03, 0x40, 100, 7, 2, 10, 3, 5, 0x40, 78, 0, 1, 2, 3];
    let Frame::Ack(ack) = only(&bytes) else { panic!("not an ACK") };
    assert_eq!(ack.ranges().collect::<Vec<_>>(), [90..=100, 80..=85, 0..=0]);
    assert_eq!((ack.delay, ack.ecn), (7, Some(EcnCounts { ect0: 1, ect1: 2, ce: 3 })));
    let mut buffer = [0; 20];
    let mut w = Writer::new(&mut buffer);
    assert_eq!(frame::ack(&mut w, [90..=100, 80..=85, 0..=0], 7, ack.ecn), 3);
    assert_eq!(w.written(), bytes);
    assert_eq!(frame::ack(&mut w, [], 7, None), 0);
    assert_eq!(w.written(), bytes);
}

#[test]
fn a_stream_may_go_to_the_end_of_the_packet() {
    let mut buffer = [0; 32];
    let mut w = Writer::new(&mut buffer);
    Frame::Ping.encode(&mut w);
    frame::stream_header(&mut w, StreamId(4), 1000, true, None);
    assert_eq!(w.len(), 1 + frame::stream_header_size(StreamId(4), 1000, None));
    w.bytes(b"rest");
    assert_eq!(w.written(), [0x01, 0x0d, 0x04, 0x43, 0xe8, b'r', b'e', b's', b't']);
    let read: Vec<_> = Frames::new(w.written()).map(Result::unwrap).collect();
    assert_eq!(
        read,
        [Frame::Ping, Frame::Stream { id: StreamId(4), offset: 1000, fin: true, data: b"rest" }]
    );

    let mut w = Writer::new(&mut buffer);
    frame::crypto_header(&mut w, 64, 2);
    assert_eq!(w.len(), frame::crypto_header_size(64, 2));
    w.bytes(b"hi");
    assert_eq!(only(w.written()), Frame::Crypto { offset: 64, data: b"hi" });
}

#[test]
fn datagrams_with_and_without_a_length() {
    // RFC 9221 §4: the lowest bit says whether there is a length; without it the frame ends the packet.
    assert_eq!(only(&[0x30]), Frame::Datagram { len: false, data: b"" });
    assert_eq!(only(b"\x30\x00\x01\x02"), Frame::Datagram { len: false, data: &[0, 1, 2] });
    let read: Vec<_> = Frames::new(b"\x31\x02hi\x01").map(|f| f.expect("a good frame")).collect();
    assert_eq!(read, [Frame::Datagram { len: true, data: b"hi" }, Frame::Ping]);
    assert_eq!(encoded(&[Frame::Datagram { len: false, data: b"hi" }]), b"\x30hi");
    assert_eq!(encoded(&[Frame::Datagram { len: true, data: b"hi" }]), b"\x31\x02hi");
    assert_eq!(fault(b"\x31\x03hi"), (0x31, Code::FRAME_ENCODING_ERROR));
    assert_eq!(fault(b"\x40\x30"), (0x30, Code::PROTOCOL_VIOLATION));

    let mut buffer = [0; 80];
    for len in [0usize, 63, 64, 70] {
        let mut w = Writer::new(&mut buffer);
        frame::datagram_header(&mut w, len);
        assert_eq!(w.len(), frame::datagram_header_size(len));
        w.bytes(&[7; 70][..len]);
        assert_eq!(only(w.written()), Frame::Datagram { len: true, data: &[7; 70][..len] });
    }
}

/// RFC 9000 §19.6, §19.7, §19.8, §19.11, §19.14, §19.15.
#[test]
fn faults_have_the_codes_of_the_rfc() {
    let max = [0xff; 8];
    let with = |head: &[u8], tail: &[u8]| [head, &max, tail].concat();
    let cases: [(Vec<u8>, u64, Code, &str); 16] = [
        (vec![0x02, 5, 0, 0, 6], 0x02, Code::FRAME_ENCODING_ERROR, "first range below 0"),
        (vec![0x02, 5, 0, 1, 1, 3, 0], 0x02, Code::FRAME_ENCODING_ERROR, "gap below 0"),
        (vec![0x02, 5, 0, 1, 1, 1, 2], 0x02, Code::FRAME_ENCODING_ERROR, "length below 0"),
        (with(&[0x02, 5, 0], &[0, 0, 0]), 0x02, Code::FRAME_ENCODING_ERROR, "a count that lies"),
        (with(&[0x06], &[1, 0]), 0x06, Code::FRAME_ENCODING_ERROR, "CRYPTO beyond 2^62 - 1"),
        (with(&[0x0e, 0], &[1, 0]), 0x0e, Code::FRAME_ENCODING_ERROR, "STREAM beyond 2^62 - 1"),
        (vec![0x07, 0], 0x07, Code::FRAME_ENCODING_ERROR, "empty token"),
        (with(&[0x12], &[]), 0x12, Code::FRAME_ENCODING_ERROR, "MAX_STREAMS"),
        (vec![0x13, 0xd0, 0, 0, 0, 0, 0, 0, 1], 0x13, Code::FRAME_ENCODING_ERROR, "2^60 + 1 streams"),
        (with(&[0x17], &[]), 0x17, Code::FRAME_ENCODING_ERROR, "STREAMS_BLOCKED"),
        ([&[0x18, 1, 0, 0][..], &[0; 16]].concat(), 0x18, Code::FRAME_ENCODING_ERROR, "empty id"),
        ([&[0x18, 1, 0, 21][..], &[0; 37]].concat(), 0x18, Code::FRAME_ENCODING_ERROR, "long id"),
        ([&[0x18, 1, 2, 1][..], &[0; 17]].concat(), 0x18, Code::FRAME_ENCODING_ERROR, "retires itself"),
        (vec![0x21], 0x21, Code::FRAME_ENCODING_ERROR, "unknown"),
        (vec![0x40, 0x01], 0x01, Code::PROTOCOL_VIOLATION, "PING in two bytes"),
        (vec![0x40], 0, Code::FRAME_ENCODING_ERROR, "a type cut short"),
    ];
    for (bytes, kind, code, name) in cases {
        assert_eq!(fault(&bytes), (kind, code), "{name}");
    }
    // The borders of the same rules.
    assert_eq!(only(&[0x13, 0xd0, 0, 0, 0, 0, 0, 0, 0]), Frame::MaxStreams { dir: Dir::Uni, max: 1 << 60 });
    let Frame::Ack(ack) = only(&[0x02, 5, 0, 1, 1, 1, 1]) else { panic!("not an ACK") };
    assert_eq!(ack.ranges().collect::<Vec<_>>(), [4..=5, 0..=1]);
}

/// RFC 9000 §9.1, §12.4, §12.5.
#[test]
fn packets_and_properties_follow_table_3() {
    let frequency = Frame::AckFrequency { sequence: 0, threshold: 1, max_delay_us: 2, reordering: 3 };
    let ack = only(&[0x02, 0, 0, 0, 0]);
    let id = StreamId(0);
    let (cid, token) = (ConnectionId::new(&[1]).unwrap(), ResetToken([0; 16]));
    // Kind; in which of Initial, Handshake, 0-RTT, 1-RTT; N = not ack-eliciting; P = probing.
    // RETIRE_CONNECTION_ID: §12.5 takes back the 0 of the table.
    let table: [(Frame<'_>, u64, &str, &str); 28] = [
        (Frame::Padding(1), 0x00, "IH01", "NP"),
        (Frame::Ping, 0x01, "IH01", ""),
        (ack, 0x02, "IH_1", "N"),
        (Frame::ResetStream { id, code: 0, final_size: 0 }, 0x04, "__01", ""),
        (Frame::StopSending { id, code: 0 }, 0x05, "__01", ""),
        (Frame::Crypto { offset: 0, data: &[] }, 0x06, "IH_1", ""),
        (Frame::NewToken { token: &[1] }, 0x07, "___1", ""),
        (Frame::Stream { id, offset: 1, fin: true, data: &[] }, 0x0f, "__01", ""),
        (Frame::MaxData(0), 0x10, "__01", ""),
        (Frame::MaxStreamData { id, max: 0 }, 0x11, "__01", ""),
        (Frame::MaxStreams { dir: Dir::Bi, max: 0 }, 0x12, "__01", ""),
        (Frame::MaxStreams { dir: Dir::Uni, max: 0 }, 0x13, "__01", ""),
        (Frame::DataBlocked(0), 0x14, "__01", ""),
        (Frame::StreamDataBlocked { id, limit: 0 }, 0x15, "__01", ""),
        (Frame::StreamsBlocked { dir: Dir::Uni, limit: 0 }, 0x17, "__01", ""),
        (Frame::NewConnectionId { sequence: 0, retire_prior_to: 0, id: cid, token }, 0x18, "__01", "P"),
        (Frame::RetireConnectionId { sequence: 0 }, 0x19, "___1", ""),
        (Frame::PathChallenge([0; 8]), 0x1a, "__01", "P"),
        (Frame::PathResponse([0; 8]), 0x1b, "___1", "P"),
        (Frame::ConnectionClose { code: Code(0), frame_type: 0, reason: &[] }, 0x1c, "IH01", "N"),
        (Frame::ApplicationClose { code: 0, reason: &[] }, 0x1d, "__01", "N"),
        (Frame::HandshakeDone, 0x1e, "___1", ""),
        (only(&[0x03, 0, 0, 0, 0, 0, 0, 0]), 0x03, "IH_1", "N"),
        // draft-ietf-quic-reliable-stream-reset §3, §4.
        (Frame::ResetStreamAt { id, code: 0, final_size: 1, reliable_size: 1 }, 0x24, "__01", ""),
        // RFC 9221 §4, §5.2.
        (Frame::Datagram { len: false, data: &[] }, 0x30, "__01", ""),
        (Frame::Datagram { len: true, data: &[] }, 0x31, "__01", ""),
        // draft-ietf-quic-ack-frequency §3, §4, §5.
        (Frame::ImmediateAck, 0x1f, "___1", ""),
        (frequency, 0xaf, "___1", ""),
    ];
    for (frame, kind, packets, properties) in table {
        assert_eq!(frame.kind(), kind);
        let allowed = [PacketType::Initial, PacketType::Handshake, PacketType::ZeroRtt, PacketType::OneRtt];
        for (packet, letter) in allowed.into_iter().zip(packets.chars()) {
            assert_eq!(frame.allowed_in(packet), letter != '_', "{frame:?} in {packet:?}");
        }
        assert_eq!(frame.is_ack_eliciting(), !properties.contains('N'), "{frame:?}");
        assert_eq!(frame.is_probing(), properties.contains('P'), "{frame:?}");
    }
}

/// draft-ietf-quic-reliable-stream-reset §4: FRAME_ENCODING_ERROR.
#[test]
fn no_more_is_reliable_than_there_is() {
    assert_eq!(
        only(&[0x24, 4, 7, 9, 9]),
        Frame::ResetStreamAt { id: StreamId(4), code: 7, final_size: 9, reliable_size: 9 }
    );
    let error = Frames::new(&[0x24, 4, 7, 9, 10]).next().unwrap().unwrap_err();
    assert_eq!((error.kind, error.code), (0x24, Code::FRAME_ENCODING_ERROR));
}
