use bytes::Bytes;
use proptest::prelude::*;
use quickset_wire::Side;

use super::*;
use crate::ErrorCode;

fn reader(place: StreamPlace, side: Side) -> FrameReader {
    FrameReader::new(place, side, 100, false)
}

/// All items of some bytes.
fn items(reader: &mut FrameReader, bytes: &[u8]) -> Result<Vec<StreamItem>, crate::Error> {
    let mut input = Bytes::copy_from_slice(bytes);
    let mut items = Vec::new();
    while let Some(item) = reader.next(&mut input, usize::MAX)? {
        items.push(item);
    }
    assert!(input.is_empty(), "all was taken");
    Ok(items)
}

fn refused(place: StreamPlace, side: Side, bytes: &[u8]) -> ErrorCode {
    items(&mut reader(place, side), bytes).expect_err("it may not be").code
}

/// On a control stream, behind empty SETTINGS.
fn on_control(side: Side, bytes: &[u8]) -> Result<Vec<StreamItem>, ErrorCode> {
    let mut reader = reader(StreamPlace::Control, side);
    items(&mut reader, &[4, 0]).unwrap();
    items(&mut reader, bytes).map_err(|e| e.code)
}

use Side::{Client, Server};

#[test]
fn data_passes_in_pieces() {
    let mut reader = reader(StreamPlace::Request, Server);
    let parts: [&[u8]; 4] = [b"\0", b"\x05he", b"l", b"lo\0\0"];
    let read: Vec<StreamItem> = parts.iter().flat_map(|part| items(&mut reader, part).unwrap()).collect();
    let data = |bytes: &'static str| StreamItem::Data(Bytes::from(bytes));
    assert_eq!(
        read,
        [StreamItem::DataHeader(5), data("he"), data("l"), data("lo"), StreamItem::DataHeader(0)]
    );
    assert!(reader.is_between_frames());
}

#[test]
fn data_is_cut_to_what_is_asked_for() {
    let mut reader = reader(StreamPlace::Request, Server);
    let mut input = Bytes::from_static(b"\x00\x05hello");
    assert_eq!(reader.next(&mut input, 3), Ok(Some(StreamItem::DataHeader(5))));
    assert_eq!(reader.next(&mut input, 3), Ok(Some(StreamItem::Data(Bytes::from("hel")))));
    assert_eq!(reader.next(&mut input, 3), Ok(Some(StreamItem::Data(Bytes::from("lo")))));
}

#[test]
fn a_stream_ends_between_frames_only() {
    for (bytes, good) in [
        (&[][..], true),
        (&[0x00], false),
        (&[0x00, 2], false),
        (&[0x00, 2, 7], false),
        (&[0x00, 2, 7, 7], true),
        (&[0x01, 1], false),
        (&[0x21, 1], false),
        (&[0x21, 1, 0], true),
        (&[0x40], false),
    ] {
        let mut reader = reader(StreamPlace::Request, Server);
        items(&mut reader, bytes).unwrap();
        assert_eq!(reader.is_between_frames(), good, "{bytes:?}");
    }
}

#[test]
fn the_control_stream_begins_with_settings() {
    for bytes in [&[0x00, 0][..], &[0x01, 0], &[0x07, 1, 0], &[0x21, 0], &[0x02, 0]] {
        assert_eq!(refused(StreamPlace::Control, Client, bytes), ErrorCode::H3_MISSING_SETTINGS, "{bytes:?}");
    }
}

#[test]
fn settings_come_once() {
    assert_eq!(on_control(Client, &[4, 0]), Err(ErrorCode::H3_FRAME_UNEXPECTED));
}

#[test]
fn frames_of_requests_are_not_on_the_control_stream() {
    for side in [Client, Server] {
        for kind in [0x00, 0x01, 0x05] {
            assert_eq!(on_control(side, &[kind, 0]), Err(ErrorCode::H3_FRAME_UNEXPECTED), "{kind}");
        }
    }
}

#[test]
fn frames_of_the_control_stream_are_not_on_request_streams() {
    for side in [Client, Server] {
        for kind in [
            &[0x03, 1, 0][..],
            &[0x04, 0],
            &[0x07, 1, 0],
            &[0x0d, 1, 0],
            &[0x80, 0x0f, 7, 0, 1, 0],
            &[0x80, 0x0f, 7, 1, 1, 0],
        ] {
            assert_eq!(refused(StreamPlace::Request, side, kind), ErrorCode::H3_FRAME_UNEXPECTED, "{kind:?}");
        }
    }
}

#[test]
fn a_server_sends_no_max_push_id() {
    assert_eq!(on_control(Client, &[0x0d, 1, 0]), Err(ErrorCode::H3_FRAME_UNEXPECTED));
    assert_eq!(on_control(Server, &[0x0d, 1, 9]), Ok(vec![StreamItem::Frame(Frame::MaxPushId(9))]));
}

#[test]
fn a_server_sends_no_priority_update() {
    let update = [0x80, 0x0f, 7, 0, 4, 8, b'u', b'=', b'1'];
    assert_eq!(on_control(Client, &update), Err(ErrorCode::H3_FRAME_UNEXPECTED));
    let frame = Frame::PriorityUpdate(8, Bytes::from("u=1"));
    assert_eq!(on_control(Server, &update), Ok(vec![StreamItem::Frame(frame)]));
}

#[test]
fn a_push_promise_is_an_error_for_either_side() {
    assert_eq!(refused(StreamPlace::Request, Server, &[5, 1, 0]), ErrorCode::H3_FRAME_UNEXPECTED);
    assert_eq!(refused(StreamPlace::Request, Client, &[5, 1, 0]), ErrorCode::H3_ID_ERROR);
}

#[test]
fn frames_of_http2_are_refused() {
    for kind in [0x02, 0x06, 0x08, 0x09] {
        assert_eq!(refused(StreamPlace::Request, Server, &[kind, 0]), ErrorCode::H3_FRAME_UNEXPECTED);
        assert_eq!(on_control(Client, &[kind, 0]), Err(ErrorCode::H3_FRAME_UNEXPECTED));
    }
}

/// RFC 9114 §7.2.8, §9.
#[test]
fn unknown_frames_are_passed_over() {
    let mut reader = reader(StreamPlace::Request, Server);
    let read = items(&mut reader, &[0x21, 3, 1, 2, 3, 0x40, 0x40, 0, 0x01, 2, 0, 0]).unwrap();
    let headers = StreamItem::Frame(Frame::Headers(Bytes::from_static(&[0, 0])));
    assert_eq!(read, [StreamItem::Unknown(0x21), StreamItem::Unknown(0x40), headers]);
}

/// RFC 9114 §10.5: half a megabyte of them, each of two bytes, with nothing between.
#[test]
fn too_many_unknown_frames_are_excessive() {
    for frame in [[0x21, 0], [0x00, 0]] {
        let mut reader = reader(StreamPlace::Request, Server);
        items(&mut reader, &frame.repeat((1 << 18) - 1)).unwrap();
        // 1024 times 64 bytes, of padding and of data.
        for kind in [0x21, 0x00] {
            items(&mut reader, &[&[kind, 0x80, 0, 0x80, 0][..], &vec![0; 0x8000]].concat()).unwrap();
        }
        items(&mut reader, &frame.repeat(1024)).unwrap();
        assert_eq!(items(&mut reader, &frame).unwrap_err().code, ErrorCode::H3_EXCESSIVE_LOAD);
    }
}

/// RFC 9114 §7.2.8: they may be padding, and signs of life where little else comes.
#[test]
fn unknown_frames_of_honest_peers_are_no_load() {
    let mut control = reader(StreamPlace::Control, Server);
    items(&mut control, &[4, 0]).unwrap();
    // One a minute for half a year.
    for _ in 0..180 {
        items(&mut control, &[0x21, 0].repeat(24 * 60)).unwrap();
    }
    let mut request = reader(StreamPlace::Request, Server);
    let padding = [&[0x21, 0x40, 64][..], &[0; 64]].concat().repeat(1 << 10);
    for _ in 0..300 {
        items(&mut request, &padding).unwrap();
    }
}

/// RFC 9114 §7.1: exactly the fields of the frame.
#[test]
fn a_payload_that_is_too_long_or_short_is_an_error() {
    for bytes in [
        &[0x07, 0][..],
        &[0x07, 1, 0x40],
        &[0x07, 2, 0, 0],
        &[0x07, 9],
        &[0x03, 2, 1, 1],
        &[0x07, 0xbf, 0xff, 0xff, 0xff],
    ] {
        assert_eq!(on_control(Server, bytes), Err(ErrorCode::H3_FRAME_ERROR), "{bytes:?}");
    }
    assert_eq!(on_control(Server, &[0x80, 0x0f, 7, 0, 0]), Err(ErrorCode::H3_FRAME_ERROR), "no element");
    assert_eq!(
        refused(StreamPlace::Control, Client, &[4, 1, 6]),
        ErrorCode::H3_FRAME_ERROR,
        "half a setting"
    );
}

#[test]
fn large_frames_cost_nothing() {
    // 2^62 - 1 bytes of SETTINGS, of a PRIORITY_UPDATE; a HEADERS frame above the limit.
    let huge = [0xff; 8];
    assert_eq!(
        refused(StreamPlace::Control, Client, &[&[4][..], &huge].concat()),
        ErrorCode::H3_EXCESSIVE_LOAD
    );
    let update = [&[0x80, 0x0f, 7, 0][..], &huge].concat();
    assert_eq!(on_control(Server, &update), Err(ErrorCode::H3_EXCESSIVE_LOAD));
    let mut reader = reader(StreamPlace::Request, Server);
    assert_eq!(items(&mut reader, &[1, 0x40, 101]), Ok(vec![StreamItem::Oversized]));
    assert_eq!(items(&mut reader, &[0; 101]), Ok(vec![]));
    assert!(reader.is_between_frames());
}

#[test]
fn a_webtransport_stream_begins_so_or_not_at_all() {
    let mut reader = FrameReader::new(StreamPlace::Request, Server, 100, true);
    let mut input = Bytes::from_static(&[0x40, 0x41, 4, 1, 2]);
    assert_eq!(reader.next(&mut input, usize::MAX), Ok(Some(StreamItem::Session(4))));
    assert_eq!(&input[..], [1, 2], "the rest is not touched");

    let mut reader = FrameReader::new(StreamPlace::Request, Server, 100, true);
    assert_eq!(items(&mut reader, &[0x21, 0, 0x40, 0x41, 4]).unwrap_err().code, ErrorCode::H3_FRAME_ERROR);
    // Who does not speak it passes over a frame of an unknown type.
    let mut reader = FrameReader::new(StreamPlace::Request, Server, 100, false);
    assert_eq!(items(&mut reader, &[0x40, 0x41, 2, 1, 2]), Ok(vec![StreamItem::Unknown(0x41)]));
}

mod settings {
    use super::*;

    fn decoded(payload: &[u8]) -> Result<Settings, ErrorCode> {
        Settings::decode(payload).map_err(|e| e.code)
    }

    #[test]
    fn a_setting_twice_is_an_error() {
        assert_eq!(decoded(&[6, 1, 6, 1]), Err(ErrorCode::H3_SETTINGS_ERROR));
        assert_eq!(decoded(&[0x21, 1, 0x21, 1]), Err(ErrorCode::H3_SETTINGS_ERROR));
    }

    #[test]
    fn settings_of_http2_are_errors() {
        for id in [0, 2, 3, 4, 5] {
            assert_eq!(decoded(&[id, 0]), Err(ErrorCode::H3_SETTINGS_ERROR), "{id}");
        }
    }

    #[test]
    fn flags_are_0_or_1() {
        for id in [0x08, 0x33] {
            assert!(decoded(&[id, 0]).is_ok() && decoded(&[id, 1]).is_ok());
            assert_eq!(decoded(&[id, 2]), Err(ErrorCode::H3_SETTINGS_ERROR), "{id}");
        }
    }

    /// RFC 9114 §7.2.4, §9.
    #[test]
    fn unknown_settings_are_ignored() {
        assert_eq!(decoded(&[0x21, 9, 0x40, 0x99, 1]), Ok(Settings::default()));
    }

    /// RFC 9204 §5.
    #[test]
    fn known_settings_are_read() {
        let payload = [
            1, 0x50, 0, 6, 0x44, 0, 7, 16, 8, 1, 0x33, 1, 0xc0, 0, 0, 0, 0xc6, 0x71, 0x70, 0x6a, 1, 0xab,
            0x60, 0x37, 0x42, 1, 0x94, 0xe9, 0xcd, 0x29, 5, 0xac, 0x7c, 0xf0, 0x00, 1, 0x6b, 0x64, 7, 0x6b,
            0x65, 8, 0x6b, 0x61, 9,
        ];
        let expected = Settings {
            max_field_section_size: Some(1024),
            qpack_max_table_capacity: 4096,
            qpack_blocked_streams: 16,
            enable_connect_protocol: true,
            h3_datagram: true,
            wt_max_sessions: 1,
            wt_draft_02: true,
            wt_draft_13: 5,
            wt_enabled: true,
            wt_initial_max_streams_uni: 7,
            wt_initial_max_streams_bidi: 8,
            wt_initial_max_data: 9,
            grease: None,
        };
        assert_eq!(decoded(&payload), Ok(expected));
    }

    #[test]
    fn remembered_settings_never_shrink() {
        let before = Settings { qpack_blocked_streams: 4, h3_datagram: true, ..Settings::default() };
        assert!(before.admit(&before));
        assert!(
            Settings { qpack_max_table_capacity: 9, ..before }.admit(&before),
            "from nothing to something"
        );
        assert!(!Settings { qpack_blocked_streams: 3, ..before }.admit(&before));
        assert!(!Settings { h3_datagram: false, ..before }.admit(&before));
        assert!(!Settings { max_field_section_size: Some(1), ..before }.admit(&before));
        let bounded = Settings { max_field_section_size: Some(1), ..before };
        assert!(!before.admit(&bounded), "left out");
        assert!(Settings { max_field_section_size: Some(2), ..before }.admit(&bounded));
        let table = Settings { qpack_max_table_capacity: 9, ..before };
        assert!(!Settings { qpack_max_table_capacity: 10, ..before }.admit(&table), "a table in use stays");
    }
}

fn frame() -> impl Strategy<Value = Frame> {
    let id = || 0..1_u64 << 62;
    let bytes = || prop::collection::vec(any::<u8>(), 0..100).prop_map(Bytes::from);
    prop_oneof![
        bytes().prop_map(Frame::Headers),
        id().prop_map(Frame::CancelPush),
        id().prop_map(Frame::GoAway),
        id().prop_map(Frame::MaxPushId),
        (id(), bytes()).prop_map(|(id, value)| Frame::PriorityUpdate(id, value)),
        (id(), bytes()).prop_map(|(id, value)| Frame::PushPriorityUpdate(id, value)),
        (id(), id(), any::<bool>(), proptest::option::of(id())).prop_map(|(a, b, flag, max)| {
            Frame::Settings(Settings {
                max_field_section_size: max,
                qpack_max_table_capacity: a,
                qpack_blocked_streams: b,
                enable_connect_protocol: flag,
                h3_datagram: !flag,
                wt_max_sessions: a & b,
                wt_draft_02: a < b,
                wt_draft_13: b,
                wt_enabled: b < a,
                wt_initial_max_streams_uni: b,
                wt_initial_max_streams_bidi: a,
                wt_initial_max_data: a & b,
                grease: None,
            })
        }),
    ]
}

proptest! {
    #[test]
    fn frames_round_trip_in_any_cut(frame in frame(), cuts in prop::collection::vec(1..20_usize, 0..10)) {
        let place = if matches!(frame, Frame::Headers(_)) { StreamPlace::Request } else { StreamPlace::Control };
        let mut reader = reader(place, Server);
        if place == StreamPlace::Control && !matches!(frame, Frame::Settings(_)) {
            items(&mut reader, &[4, 0]).unwrap();
        }
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let mut rest = &bytes[..];
        let mut read = Vec::new();
        for cut in cuts {
            let (head, tail) = rest.split_at(cut.min(rest.len()));
            read.extend(items(&mut reader, head).unwrap());
            rest = tail;
        }
        read.extend(items(&mut reader, rest).unwrap());
        prop_assert_eq!(read, vec![StreamItem::Frame(frame)]);
    }

    /// Whatever comes, it is read the same in one piece and byte by byte.
    #[test]
    fn any_bytes_in_any_cut(bytes: Vec<u8>, control: bool, server: bool) {
        let place = if control { StreamPlace::Control } else { StreamPlace::Request };
        let side = if server { Server } else { Client };
        let join = |items: Vec<StreamItem>| {
            let mut joined: Vec<StreamItem> = Vec::new();
            for item in items {
                match (joined.last_mut(), item) {
                    (Some(StreamItem::Data(before)), StreamItem::Data(more)) => *before = [&before[..], &more].concat().into(),
                    (_, item) => joined.push(item),
                }
            }
            joined
        };
        let prefix: &[u8] = if control { &[4, 0] } else { &[] };
        let bytes = [prefix, &bytes].concat();
        let whole = items(&mut reader(place, side), &bytes).map(join);
        let mut slow = reader(place, side);
        let parts: Result<Vec<_>, _> = bytes.chunks(1).map(|b| items(&mut slow, b)).collect();
        prop_assert_eq!(parts.map(|parts| join(parts.concat())), whole);
    }
}
