//! The examples of `spec/fenced-streams.md` §17, byte for byte, and its errors on single frames.

use quickset_wire::frame::{FencedHeader, Frame, Frames, fenced_header, fenced_header_size};
use quickset_wire::{PacketType, StreamId, TransportErrorCode, Writer};

const ZERO: StreamId = StreamId(0);

fn encoded(frame: Frame<'_>) -> Vec<u8> {
    let mut buffer = vec![0; 2048];
    let mut w = Writer::new(&mut buffer);
    frame.encode(&mut w);
    assert_eq!(w.len(), frame.size());
    w.written().to_vec()
}

fn decoded(bytes: &[u8]) -> Frame<'_> {
    let mut frames = Frames::new(bytes);
    let frame = frames.next().expect("a frame").expect("a good frame");
    assert_eq!(frames.next(), None);
    frame
}

#[test]
fn a_screen_update_and_the_next() {
    // Header, type, offset, distance, length: the table of §17.
    let rows: [(&[u8], u64, u64, u64, usize); 8] = [
        (&[0x7f, 0x52, 0x00, 0x00, 0x00, 0x44, 0x80], 0x3f52, 0, 0, 1152),
        (&[0x7f, 0x52, 0x00, 0x44, 0x80, 0x44, 0x80, 0x44, 0x80], 0x3f52, 1152, 1152, 1152),
        (&[0x7f, 0x52, 0x00, 0x49, 0x00, 0x49, 0x00, 0x44, 0x8c], 0x3f52, 2304, 2304, 1164),
        (&[0x7f, 0x50, 0x00, 0x4d, 0x8c, 0x4d, 0x8c, 0x44, 0x8c], 0x3f50, 3468, 3468, 1164),
        (&[0x7f, 0x50, 0x00, 0x52, 0x18, 0x52, 0x18, 0x44, 0x8c], 0x3f50, 4632, 4632, 1164),
        (&[0x7f, 0x50, 0x00, 0x56, 0xa4, 0x56, 0xa4, 0x44, 0x8c], 0x3f50, 5796, 5796, 1164),
        (&[0x7f, 0x50, 0x00, 0x5b, 0x30, 0x5b, 0x30, 0x41, 0x5a], 0x3f50, 6960, 6960, 346),
        (&[0x7f, 0x52, 0x00, 0x5c, 0x8a, 0x00, 0x44, 0x80], 0x3f52, 7306, 0, 1152),
    ];
    let mut sent = 0;
    for (header, kind, offset, distance, len) in rows {
        assert_eq!(offset, sent, "the frames follow one another");
        sent += len as u64;
        let start = kind == 0x3f52;
        let fields = FencedHeader { id: ZERO, offset, distance, start, each: false, fin: false };
        let mut buffer = [0; 16];
        let mut w = Writer::new(&mut buffer);
        fenced_header(&mut w, &fields, len);
        assert_eq!(w.written(), header);
        assert_eq!(fenced_header_size(&fields, len), header.len());

        let data = vec![0x5a; len];
        let frame = Frame::Fenced { id: ZERO, offset, distance, start, each: false, fin: false, data: &data };
        assert_eq!(frame.kind(), kind);
        let bytes = [header, &data].concat();
        assert_eq!(encoded(frame), bytes);
        assert_eq!(decoded(&bytes), frame);
    }
    assert_eq!(sent, 8458);
}

#[test]
fn resends_abandon_and_the_end() {
    let abandon = Frame::Abandon { id: ZERO, offset: 2304, len: 5002 };
    let bytes = [0x7f, 0x58, 0x00, 0x49, 0x00, 0x53, 0x8a];
    assert_eq!(encoded(abandon), bytes);
    assert_eq!(decoded(&bytes), abandon);

    let end = Frame::Fenced {
        id: ZERO,
        offset: 8458,
        distance: 1152,
        start: false,
        each: false,
        fin: true,
        data: &[],
    };
    let bytes = [0x7f, 0x51, 0x00, 0x61, 0x0a, 0x44, 0x80, 0x00];
    assert_eq!(encoded(end), bytes);
    assert_eq!(decoded(&bytes), end);

    let mut buffer = [0; 16];
    for (offset, len, bytes) in [
        (3468, 600, [0x7f, 0x50, 0x00, 0x4d, 0x8c, 0x4d, 0x8c, 0x42, 0x58]),
        (4068, 564, [0x7f, 0x50, 0x00, 0x4f, 0xe4, 0x4f, 0xe4, 0x42, 0x34]),
    ] {
        let mut w = Writer::new(&mut buffer);
        let fields =
            FencedHeader { id: ZERO, offset, distance: offset, start: false, each: false, fin: false };
        fenced_header(&mut w, &fields, len);
        assert_eq!(w.written(), bytes);
    }
}

#[test]
fn total_order_opening_and_the_error() {
    let total = [0x7f, 0x56, 0, 0, 0, 7, 1, 0x61, 2, 0x62, 0x63, 1, 0x64];
    let frame = Frame::Fenced {
        id: ZERO,
        offset: 0,
        distance: 0,
        start: true,
        each: true,
        fin: false,
        data: &[1, b'a', 2, b'b', b'c', 1, b'd'],
    };
    assert_eq!((decoded(&total), encoded(frame)), (frame, total.to_vec()));

    let resend = [0x7f, 0x52, 0, 2, 0, 3, 2, 0x62, 0x63];
    let frame = Frame::Fenced {
        id: ZERO,
        offset: 2,
        distance: 0,
        start: true,
        each: false,
        fin: false,
        data: &[2, b'b', b'c'],
    };
    assert_eq!((decoded(&resend), encoded(frame)), (frame, resend.to_vec()));

    let opening = [0x7f, 0x50, 2, 0, 0, 0];
    let frame = Frame::Fenced {
        id: StreamId(2),
        offset: 0,
        distance: 0,
        start: false,
        each: false,
        fin: false,
        data: &[],
    };
    assert_eq!((decoded(&opening), encoded(frame)), (frame, opening.to_vec()));

    let close = [0x1c, 0x80, 0x71, 0x53, 0xf1, 0x7f, 0x54, 0x00];
    let frame =
        Frame::ConnectionClose { code: TransportErrorCode::FENCE_ERROR, frame_type: 0x3f54, reason: &[] };
    assert_eq!((decoded(&close), encoded(frame)), (frame, close.to_vec()));
}

#[test]
fn faults_of_single_frames() {
    use TransportErrorCode as Code;
    // Type, stream, offset, distance, length, data; FS-62 by number, and FS-9.
    let max = [0xff; 8];
    let beyond = [&[0x7f, 0x50, 0][..], &max, &[0, 1, 0]].concat();
    let beyond_abandon = [&[0x7f, 0x58, 0][..], &max, &[1]].concat();
    let cases: [(&[u8], u64, Code, &str); 8] = [
        (&[0x7f, 0x50, 0, 5, 6, 1, 0], 0x3f50, Code::FENCE_ERROR, "error 1"),
        (&[0x7f, 0x52, 0, 5, 5, 0], 0x3f52, Code::FENCE_ERROR, "error 2, START"),
        (&[0x7f, 0x54, 0, 5, 5, 1, 0], 0x3f54, Code::FENCE_ERROR, "error 2, EACH"),
        (&[0x7f, 0x58, 0, 5, 0], 0x3f58, Code::FENCE_ERROR, "error 3"),
        (&beyond, 0x3f50, Code::FRAME_ENCODING_ERROR, "FS-9, FENCED"),
        (&beyond_abandon, 0x3f58, Code::FRAME_ENCODING_ERROR, "FS-9, ABANDON"),
        (&[0x7f, 0x59, 0, 5, 1], 0x3f59, Code::FRAME_ENCODING_ERROR, "reserved"),
        (&[0x80, 0, 0x3f, 0x50, 0, 0, 0, 0], 0x3f50, Code::PROTOCOL_VIOLATION, "a long type"),
    ];
    for (bytes, kind, code, name) in cases {
        let fault = Frames::new(bytes).next().expect("an item").expect_err(name);
        assert_eq!((fault.kind, fault.code), (kind, code), "{name}");
    }
    // The largest that there may be.
    let last = [&[0x7f, 0x50, 0, 0xff][..], &[0xff; 6], &[0xfe, 0, 1, 0]].concat();
    assert!(Frames::new(&last).next().expect("an item").is_ok());
}

#[test]
fn only_in_1_rtt_and_never_probing() {
    // FS-6, FS-11, FS-12.
    let abandon = Frame::Abandon { id: ZERO, offset: 0, len: 1 };
    let fenced =
        Frame::Fenced { id: ZERO, offset: 0, distance: 0, start: false, each: false, fin: true, data: &[] };
    for frame in [abandon, fenced] {
        assert!(frame.is_ack_eliciting() && !frame.is_probing());
        assert!(frame.allowed_in(PacketType::OneRtt));
        for packet in [PacketType::Initial, PacketType::Handshake, PacketType::ZeroRtt] {
            assert!(!frame.allowed_in(packet));
        }
    }
}
