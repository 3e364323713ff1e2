//! One test for each rule whose breach is an error, named by the rule.

use quickset_h3::{Abort, Config, ErrorCode, Event, Field, Settings};
use quickset_quic::{Dir, Side};

use crate::net::{GET, Raw, frame, headers};
use quickset_h3::Transport as _;

use Side::{Client, Server};

/// Ours as a client, which has made a request.
fn requested() -> (Raw, quickset_quic::StreamId) {
    let mut raw = Raw::new(Client);
    let request = quickset_h3::Request::new("GET", "example.com", "/");
    let id = raw.ours.h3.request(&mut raw.ours.t, &request, true).expect("it may be");
    raw.t.accept(Dir::Bi);
    (raw, id)
}

/// What became of a request that is no connection's end.
#[track_caller]
fn given_up(bytes: &[u8], fin: bool) -> ErrorCode {
    let mut raw = Raw::new(Server);
    let (id, mut events) = raw.bi(bytes);
    if fin {
        events.extend(raw.finish(id));
    }
    raw.lives();
    assert!(!events.iter().any(|e| matches!(e, Event::Request { .. })), "nobody is told");
    raw.given_up(id).0.expect("the stream was reset")
}

mod streams {
    use super::*;

    #[test]
    fn our_first_streams_are_control_with_settings_encoder_and_decoder() {
        let mut raw = Raw::silent(Client, Config { grease: Some(7), ..Config::default() });
        let ids: Vec<_> = std::iter::from_fn(|| raw.t.accept(Dir::Uni)).collect();
        assert_eq!(ids.len(), 3);
        let control = raw.sent(ids[0]);
        assert_eq!(control[..2], [0x00, 0x04], "the type, then SETTINGS");
        let settings = Settings::decode(&control[3..]).unwrap();
        assert_eq!(settings.qpack_max_table_capacity, 4096);
        assert_eq!(control[2] as usize, control.len() - 3);
        assert_eq!((raw.sent(ids[1]), raw.sent(ids[2])), (vec![0x02], vec![0x03]));
    }

    #[test]
    fn critical_streams_are_opened_when_they_can_be() {
        let net = crate::net::net(1);
        net.borrow_mut().limit(Client, Dir::Uni, 1);
        let mut client = crate::net::Peer::new(&net, Client, Config::default());
        let mut server = crate::net::End { net: net.clone(), side: Server };
        assert!(server.accept(Dir::Uni).is_some() && server.accept(Dir::Uni).is_none());
        net.borrow_mut().limit(Client, Dir::Uni, 3);
        client.turn();
        assert_eq!(std::iter::from_fn(|| server.accept(Dir::Uni)).count(), 2);
    }

    /// RFC 9114 §6.2.1.
    #[test]
    fn a_control_stream_that_does_not_begin_with_settings_is_h3_missing_settings() {
        let mut raw = Raw::silent(Server, Config::default());
        raw.uni(&[0x00, 0x07, 1, 0]);
        assert_eq!(raw.closed(), ErrorCode::H3_MISSING_SETTINGS);
    }

    /// RFC 9114 §7.2.4.
    #[test]
    fn a_second_settings_frame_is_h3_frame_unexpected() {
        let mut raw = Raw::new(Server);
        raw.write(raw.control, &[4, 0]);
        assert_eq!(raw.closed(), ErrorCode::H3_FRAME_UNEXPECTED);
    }

    /// RFC 9204 §4.2.
    #[test]
    fn a_second_critical_stream_of_a_kind_is_h3_stream_creation_error() {
        for kind in [0x00, 0x02, 0x03] {
            let mut raw = Raw::new(Server);
            raw.uni(&[kind]);
            raw.uni(&[kind]);
            assert_eq!(raw.closed(), ErrorCode::H3_STREAM_CREATION_ERROR, "{kind}");
        }
    }

    /// RFC 9204 §4.2.
    #[test]
    fn a_critical_stream_that_ends_is_h3_closed_critical_stream() {
        for kind in [0x00, 0x02, 0x03] {
            let mut raw = Raw::silent(Server, Config::default());
            let id = raw.uni(&[kind]);
            raw.finish(id);
            assert_eq!(raw.closed(), ErrorCode::H3_CLOSED_CRITICAL_STREAM, "{kind} finished");
            let mut raw = Raw::silent(Server, Config::default());
            let id = raw.uni(&[kind]);
            raw.reset(id, 0x100);
            assert_eq!(raw.closed(), ErrorCode::H3_CLOSED_CRITICAL_STREAM, "{kind} reset");
        }
    }

    #[test]
    fn a_critical_stream_that_is_stopped_is_h3_closed_critical_stream() {
        for n in 0..3 {
            let mut raw = Raw::new(Client);
            let ids: Vec<_> = std::iter::from_fn(|| raw.t.accept(Dir::Uni)).collect();
            raw.t.stop(ids[n], 0x100);
            raw.ours.turn();
            assert_eq!(raw.closed(), ErrorCode::H3_CLOSED_CRITICAL_STREAM);
        }
    }

    /// RFC 9114 §6.2.
    #[test]
    fn a_stream_may_end_before_its_type() {
        let mut raw = Raw::new(Server);
        let id = raw.uni(&[0x40]);
        raw.finish(id);
        let id = raw.uni(&[]);
        raw.reset(id, 0x100);
        raw.lives();
    }

    /// RFC 9114 §6.2, §6.2.3, §9.
    #[test]
    fn an_unknown_stream_type_is_stopped_and_no_error() {
        let mut raw = Raw::new(Server);
        for bytes in [&[0x21, 1, 2, 3][..], &[0x40, 0x54, 0], &[0xff; 9]] {
            let id = raw.uni(bytes);
            assert_eq!(raw.given_up(id).1, Some(ErrorCode::H3_STREAM_CREATION_ERROR));
        }
        raw.lives();
    }

    #[test]
    fn unidirectional_streams_are_bounded() {
        let mut raw = Raw::new(Server);
        for _ in 0..15 {
            let id = raw.uni(&[0x40]);
            assert_eq!(raw.given_up(id).1, None);
        }
        let id = raw.uni(&[0x40]);
        assert_eq!(raw.given_up(id).1, Some(ErrorCode::H3_EXCESSIVE_LOAD));
        raw.lives();
    }

    /// RFC 9114 §6.1.
    #[test]
    fn a_bidirectional_stream_of_the_server_is_h3_stream_creation_error() {
        let mut raw = Raw::new(Client);
        raw.t.open(Dir::Bi);
        raw.ours.turn();
        assert_eq!(raw.closed(), ErrorCode::H3_STREAM_CREATION_ERROR);
    }

    /// RFC 9114 §6.2.2.
    #[test]
    fn a_push_stream_of_a_client_is_h3_stream_creation_error() {
        let mut raw = Raw::new(Server);
        raw.uni(&[0x01]);
        assert_eq!(raw.closed(), ErrorCode::H3_STREAM_CREATION_ERROR);
    }

    /// RFC 9114 §4.6.
    #[test]
    fn a_push_stream_without_max_push_id_is_h3_id_error() {
        let mut raw = Raw::new(Client);
        raw.uni(&[0x01, 0]);
        assert_eq!(raw.closed(), ErrorCode::H3_ID_ERROR);
    }
}

mod control {
    use super::*;

    fn closes(side: Side, frame: &[u8]) -> ErrorCode {
        let mut raw = Raw::new(side);
        raw.write(raw.control, frame);
        raw.closed()
    }

    /// RFC 9114 §7.2.4.1.
    #[test]
    fn settings_twice_or_of_http2_are_h3_settings_error() {
        for settings in [&[6, 1, 6, 1][..], &[2, 0], &[3, 0], &[4, 0], &[5, 0], &[8, 2], &[0x33, 2]] {
            assert_eq!(Raw::with(Server, Config::default(), settings).closed(), ErrorCode::H3_SETTINGS_ERROR);
        }
    }

    #[test]
    fn settings_are_told() {
        let mut raw = Raw::silent(Server, Config::default());
        let id = raw.uni(&[0x00]);
        let events = raw.write(id, &[4, 2, 6, 50]);
        let settings = Settings { max_field_section_size: Some(50), ..Settings::default() };
        assert_eq!(events, [Event::Settings(settings)]);
        assert_eq!(raw.ours.h3.peer_settings(), Some(&settings));
    }

    /// RFC 9114 §7.2.4.2, RFC 9204 §3.2.3.
    #[test]
    fn settings_below_the_remembered_are_an_error() {
        let remembered = Settings {
            max_field_section_size: Some(50),
            qpack_max_table_capacity: 64,
            ..Settings::default()
        };
        let config = Config { remembered: Some(remembered), ..Config::default() };
        assert_eq!(
            Raw::with(Client, config.clone(), &[6, 49, 1, 0x40, 64]).closed(),
            ErrorCode::H3_SETTINGS_ERROR
        );
        assert_eq!(
            Raw::with(Client, config.clone(), &[6, 50, 1, 32]).closed(),
            ErrorCode::QPACK_DECODER_STREAM_ERROR
        );
        Raw::with(Client, config, &[6, 50, 1, 0x40, 64]).lives();
    }

    /// RFC 9114 §7.2.1, §7.2.2.
    #[test]
    fn requests_do_not_belong_on_the_control_stream() {
        assert_eq!(closes(Server, &frame(0, b"x")), ErrorCode::H3_FRAME_UNEXPECTED);
        assert_eq!(closes(Server, &headers(&GET)), ErrorCode::H3_FRAME_UNEXPECTED);
    }

    /// RFC 9114 §7.2.6.
    #[test]
    fn a_goaway_with_another_kind_of_stream_is_h3_id_error() {
        for id in [1, 2, 3, 5] {
            assert_eq!(closes(Client, &[7, 1, id]), ErrorCode::H3_ID_ERROR);
        }
    }

    #[test]
    fn a_goaway_that_grows_is_h3_id_error() {
        for side in [Client, Server] {
            assert_eq!(closes(side, &[7, 1, 4, 7, 1, 4, 7, 1, 0, 7, 1, 4]), ErrorCode::H3_ID_ERROR);
        }
        let mut raw = Raw::new(Server);
        raw.write(raw.control, &[7, 1, 3, 7, 1, 3, 7, 1, 1]);
        raw.lives();
    }

    /// RFC 9114 §7.2.3.
    #[test]
    fn a_cancel_push_is_h3_id_error() {
        assert_eq!(closes(Server, &[3, 1, 0]), ErrorCode::H3_ID_ERROR);
        assert_eq!(closes(Client, &[3, 1, 0]), ErrorCode::H3_ID_ERROR);
    }

    /// RFC 9114 §7.2.7.
    #[test]
    fn a_max_push_id_that_shrinks_is_h3_id_error() {
        assert_eq!(closes(Server, &[0x0d, 1, 4, 0x0d, 1, 4, 0x0d, 1, 3]), ErrorCode::H3_ID_ERROR);
    }

    #[test]
    fn a_max_push_id_of_a_server_is_h3_frame_unexpected() {
        assert_eq!(closes(Client, &[0x0d, 1, 4]), ErrorCode::H3_FRAME_UNEXPECTED);
    }

    #[test]
    fn a_frame_that_is_too_long_is_h3_frame_error() {
        assert_eq!(closes(Server, &[7, 2, 0, 0]), ErrorCode::H3_FRAME_ERROR);
    }

    /// RFC 9114 §7.2.8.
    #[test]
    fn frames_of_http2_are_h3_frame_unexpected() {
        for kind in [2, 6, 8, 9] {
            assert_eq!(closes(Server, &[kind, 0]), ErrorCode::H3_FRAME_UNEXPECTED);
        }
    }

    /// RFC 9204 §6.
    #[test]
    fn qpack_streams_are_checked() {
        let mut raw = Raw::new(Server);
        raw.uni(&[0x02, 0x3f, 0xe2, 0x1f]); // capacity 4097
        assert_eq!(raw.closed(), ErrorCode::QPACK_ENCODER_STREAM_ERROR);
        let mut raw = Raw::new(Server);
        raw.uni(&[0x03, 0x01]); // an increment without an insertion
        assert_eq!(raw.closed(), ErrorCode::QPACK_DECODER_STREAM_ERROR);
    }
}

mod requests {
    use super::*;

    fn closes(bytes: &[u8]) -> ErrorCode {
        let mut raw = Raw::new(Server);
        let (id, _) = raw.bi(bytes);
        while let Ok(quickset_h3::BodyRead::Data(_) | quickset_h3::BodyRead::Trailers(_)) =
            raw.ours.h3.read(&mut raw.ours.t, id, 100)
        {}
        raw.closed()
    }

    #[test]
    fn data_before_headers_is_h3_frame_unexpected() {
        assert_eq!(closes(&frame(0, b"x")), ErrorCode::H3_FRAME_UNEXPECTED);
        assert_eq!(closes(&frame(0, b"")), ErrorCode::H3_FRAME_UNEXPECTED, "of no bytes, too");
    }

    #[test]
    fn frames_behind_trailers_are_h3_frame_unexpected() {
        let begun = [headers(&GET), frame(0, b"x"), headers(&[("x", "1")])].concat();
        assert_eq!(closes(&[&begun[..], &frame(0, b"x")].concat()), ErrorCode::H3_FRAME_UNEXPECTED);
        assert_eq!(closes(&[&begun[..], &headers(&[("x", "1")])].concat()), ErrorCode::H3_FRAME_UNEXPECTED);
    }

    /// RFC 9114 §7.2.3, §7.2.4, §7.2.6, §7.2.7.
    #[test]
    fn frames_of_the_control_stream_are_h3_frame_unexpected() {
        for kind in [3, 4, 7, 13] {
            assert_eq!(closes(&frame(kind, &[0])), ErrorCode::H3_FRAME_UNEXPECTED);
            assert_eq!(closes(&[headers(&GET), frame(kind, &[0])].concat()), ErrorCode::H3_FRAME_UNEXPECTED);
        }
    }

    /// RFC 9114 §7.2.5.
    #[test]
    fn a_push_promise_of_a_client_is_h3_frame_unexpected() {
        assert_eq!(closes(&frame(5, &[0, 0, 0])), ErrorCode::H3_FRAME_UNEXPECTED);
    }

    /// RFC 9114 §4.6, §7.2.5.
    #[test]
    fn a_push_promise_without_max_push_id_is_h3_id_error() {
        let (mut raw, id) = requested();
        raw.write(id, &frame(5, &[0, 0, 0]));
        assert_eq!(raw.closed(), ErrorCode::H3_ID_ERROR);
    }

    #[test]
    fn a_stream_that_ends_inside_a_frame_is_h3_frame_error() {
        let mut raw = Raw::new(Server);
        let (id, _) = raw.bi(&[1, 9, 0]);
        raw.finish(id);
        assert_eq!(raw.closed(), ErrorCode::H3_FRAME_ERROR);
    }

    /// RFC 9204 §6.
    #[test]
    fn a_section_that_cannot_be_decoded_is_qpack_decompression_failed() {
        assert_eq!(closes(&frame(1, &[0, 0, 0x80])), ErrorCode::QPACK_DECOMPRESSION_FAILED);
        assert_eq!(
            closes(&[headers(&GET), frame(1, &[0, 0, 0xff])].concat()),
            ErrorCode::QPACK_DECOMPRESSION_FAILED,
            "in trailers"
        );
    }

    #[test]
    fn more_blocked_streams_than_allowed_is_qpack_decompression_failed() {
        let mut raw = Raw::new(Server);
        for _ in 0..16 {
            raw.bi(&frame(1, &[2, 0, 0x80]));
        }
        raw.lives();
        raw.bi(&frame(1, &[2, 0, 0x80]));
        assert_eq!(raw.closed(), ErrorCode::QPACK_DECOMPRESSION_FAILED);
    }

    #[test]
    fn a_stream_that_ends_without_a_request_is_h3_request_incomplete() {
        assert_eq!(given_up(&[], true), ErrorCode::H3_REQUEST_INCOMPLETE);
        assert_eq!(given_up(&[0x21, 0], true), ErrorCode::H3_REQUEST_INCOMPLETE);
    }

    /// RFC 9114 §4.1.2.
    #[test]
    fn a_malformed_request_is_h3_message_error() {
        let with = |line: (&'static str, &'static str)| headers(&[&GET[..], &[line]].concat());
        for bytes in [
            headers(&GET[1..]),
            with((":path", "/")),
            with((":status", "200")),
            with(("Upper", "x")),
            with(("connection", "close")),
            with(("te", "gzip")),
            with(("x", "a\nb")),
            with(("content-length", "x")),
            headers(&[&[("accept", "*/*")], &GET[..]].concat()),
        ] {
            assert_eq!(given_up(&bytes, false), ErrorCode::H3_MESSAGE_ERROR);
        }
    }

    /// RFC 9220 §3.
    #[test]
    fn an_extended_connect_that_was_not_offered_is_h3_message_error() {
        let lines = [
            (":method", "CONNECT"),
            (":protocol", "x"),
            (":scheme", "https"),
            (":authority", "a"),
            (":path", "/"),
        ];
        assert_eq!(given_up(&headers(&lines), false), ErrorCode::H3_MESSAGE_ERROR);
        let mut raw = Raw::with(Server, Config { extended_connect: true, ..Config::default() }, &[]);
        let (_, events) = raw.bi(&headers(&lines));
        assert!(
            matches!(&events[..], [Event::Request { request, .. }] if request.protocol.as_deref() == Some(b"x"))
        );
    }

    fn aborted(bytes: &[u8], fin: bool) -> Abort {
        let mut raw = Raw::new(Server);
        let (id, _) = raw.bi(bytes);
        if fin {
            raw.finish(id);
        }
        loop {
            match raw.ours.h3.read(&mut raw.ours.t, id, 100) {
                Ok(quickset_h3::BodyRead::Data(_)) => {}
                Err(quickset_h3::VerbRefusal::Aborted(why)) => {
                    raw.lives();
                    assert_eq!(raw.given_up(id).0, Some(ErrorCode::H3_MESSAGE_ERROR));
                    return why;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn content_that_is_not_as_long_as_it_says_is_h3_message_error() {
        let head = headers(&[&GET[..], &[("content-length", "3")]].concat());
        let more = [&head[..], &frame(0, b"ab"), &frame(0, b"cd")].concat();
        assert!(matches!(aborted(&more, false), Abort::Malformed(_)));
        let less = [&head[..], &frame(0, b"ab")].concat();
        assert!(matches!(aborted(&less, true), Abort::Malformed(_)));
    }

    #[test]
    fn malformed_trailers_are_h3_message_error() {
        let bytes = [headers(&GET), headers(&[(":path", "/")])].concat();
        assert!(matches!(aborted(&bytes, false), Abort::Malformed(_)));
    }

    /// RFC 9114 §10.5.1.
    #[test]
    fn a_request_with_fields_that_are_too_large_is_answered_431() {
        let config = Config { max_field_section: 300, ..Config::default() };
        let long = "x".repeat(120);
        let lines = [&GET[..], &[("a", &long), ("b", &long)]].concat();
        // Once too large when decoded, once already as a frame.
        for lines in [&lines[..], &[&lines[..], &[("c", &long)]].concat()] {
            let mut raw = Raw::with(Server, config.clone(), &[]);
            let (id, events) = raw.bi(&headers(lines));
            raw.lives();
            assert_eq!(events, []);
            let sent = raw.sent(id);
            let mut decoder = quickset_h3::qpack::Decoder::new(0, 0, 1000);
            let section = decoder.section(0, &sent[2..]).unwrap();
            assert_eq!(
                section,
                quickset_h3::qpack::DecodedSection::Fields(vec![Field::new(":status", "431")])
            );
            assert_eq!(raw.given_up(id), (None, Some(ErrorCode::H3_NO_ERROR)));
            assert!(raw.ours.h3.is_idle(), "nothing is kept");
        }
    }
}

mod responses {
    use super::*;

    fn why(bytes: &[u8], fin: bool) -> Abort {
        let (mut raw, id) = requested();
        let mut events = raw.write(id, bytes);
        if fin {
            events.extend(raw.finish(id));
        }
        raw.lives();
        match &events[..] {
            [Event::Aborted { why, .. }] => *why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_malformed_response_is_h3_message_error() {
        for lines in [&[("server", "x")][..], &[(":status", "20")], &[(":status", "101")], &[(":path", "/")]]
        {
            let (mut raw, id) = requested();
            raw.write(id, &headers(lines));
            assert_eq!(raw.given_up(id).1, Some(ErrorCode::H3_MESSAGE_ERROR));
            assert!(matches!(why(&headers(lines), false), Abort::Malformed(_)));
        }
    }

    #[test]
    fn a_stream_that_ends_without_a_response_is_malformed() {
        assert!(matches!(why(&[], true), Abort::Malformed(_)));
        let (mut raw, id) = requested();
        raw.write(id, &headers(&[(":status", "103")]));
        let events = raw.finish(id);
        assert!(
            matches!(&events[..], [Event::Aborted { why: Abort::Malformed(_), .. }]),
            "nor with interim ones only"
        );
    }

    /// RFC 9114 §4.1: the final response comes before its content.
    #[test]
    fn data_behind_an_interim_response_is_h3_frame_unexpected() {
        let (mut raw, id) = requested();
        raw.write(id, &[headers(&[(":status", "103")]), frame(0, b"x")].concat());
        assert_eq!(raw.closed(), ErrorCode::H3_FRAME_UNEXPECTED);
    }

    #[test]
    fn a_response_with_fields_that_are_too_large_is_given_up() {
        let net_config = Config { max_field_section: 100, ..Config::default() };
        let mut raw = Raw::with(Client, net_config, &[]);
        let request = quickset_h3::Request::new("GET", "example.com", "/");
        let id = raw.ours.h3.request(&mut raw.ours.t, &request, true).unwrap();
        let events = raw.write(id, &headers(&[(":status", "200"), ("x", &"y".repeat(90))]));
        assert_eq!(events, [Event::Aborted { id, why: Abort::TooLarge }]);
        assert_eq!(raw.given_up(id).1, Some(ErrorCode::H3_REQUEST_CANCELLED));
    }

    #[test]
    fn a_reset_says_whether_the_request_may_be_sent_again() {
        for (code, why) in
            [(0x10b, Abort::Rejected), (0x10c, Abort::Reset(0x10c)), (0x9999, Abort::Reset(0x9999))]
        {
            let (mut raw, id) = requested();
            assert_eq!(raw.reset(id, code), [Event::Aborted { id, why }]);
        }
    }

    /// RFC 9110 §6.4.1.
    #[test]
    fn a_response_without_content_has_none() {
        for (method, status) in [("HEAD", "200"), ("GET", "304"), ("GET", "204")] {
            let mut raw = Raw::new(Client);
            let request = quickset_h3::Request::new(method, "example.com", "/");
            let id = raw.ours.h3.request(&mut raw.ours.t, &request, true).unwrap();
            let mut read = |bytes: &[u8]| {
                raw.write(id, bytes);
                raw.ours.h3.read(&mut raw.ours.t, id, 100)
            };
            assert_eq!(
                read(&headers(&[(":status", status), ("content-length", "5")])),
                Ok(quickset_h3::BodyRead::Blocked)
            );
            assert!(matches!(
                read(&frame(0, b"x")),
                Err(quickset_h3::VerbRefusal::Aborted(Abort::Malformed(_)))
            ));
        }
    }

    /// RFC 9114 §4.4.
    #[test]
    fn headers_of_a_client_in_a_tunnel_are_h3_frame_unexpected() {
        let mut raw = Raw::new(Server);
        let (id, _) = raw.bi(&headers(&[(":method", "CONNECT"), (":authority", "example.com:443")]));
        raw.ours.h3.respond(&mut raw.ours.t, id, &quickset_h3::Response::new(200), false).unwrap();
        raw.write(id, &headers(&[("x", "1")]));
        let _ = raw.ours.h3.read(&mut raw.ours.t, id, 100);
        assert_eq!(raw.closed(), ErrorCode::H3_FRAME_UNEXPECTED);
    }

    /// RFC 9114 §4.4.
    #[test]
    fn headers_in_a_tunnel_are_h3_frame_unexpected() {
        let mut raw = Raw::new(Client);
        let request = quickset_h3::Request::connect("example.com:443");
        let id = raw.ours.h3.request(&mut raw.ours.t, &request, false).unwrap();
        raw.write(id, &headers(&[(":status", "200")]));
        raw.write(id, &headers(&[("x", "1")]));
        let _ = raw.ours.h3.read(&mut raw.ours.t, id, 100);
        assert_eq!(raw.closed(), ErrorCode::H3_FRAME_UNEXPECTED);
    }
}

/// What is cheap to say must not be dear to hear.
mod floods {
    use super::*;

    #[test]
    fn interim_responses_are_bounded() {
        let (mut raw, id) = requested();
        let interim = headers(&[(":status", "100")]);
        assert_eq!(raw.write(id, &interim.repeat(64)).len(), 64);
        let events = raw.write(id, &interim);
        assert_eq!(events, [Event::Aborted { id, why: Abort::TooLarge }]);
        assert_eq!(raw.given_up(id).1, Some(ErrorCode::H3_EXCESSIVE_LOAD));
    }

    /// RFC 9114 §10.5.1: in bytes, too; a line of the static table is one on the wire and seventy when it is
    /// kept.
    #[test]
    fn interim_responses_are_bounded_in_bytes() {
        let config = Config { max_field_section: 1000, ..Config::default() };
        let mut raw = Raw::with(Client, config, &[]);
        let request = quickset_h3::Request::new("GET", "example.com", "/");
        let id = raw.ours.h3.request(&mut raw.ours.t, &request, true).unwrap();
        // :status 103, and ten times "accept: */*": 42 and 41 bytes as RFC 9114 §4.2.2 counts them.
        let interim = frame(1, &[&[0, 0, 0xc0 | 0x18][..], &[0xc0 | 0x1d; 10]].concat());
        assert_eq!(raw.write(id, &interim.repeat(2)).len(), 2);
        assert_eq!(raw.write(id, &interim), [Event::Aborted { id, why: Abort::TooLarge }]);
    }

    #[test]
    fn priorities_are_told_once_for_each_request() {
        let mut raw = Raw::new(Server);
        raw.bi(&headers(&GET));
        let update = [0x80, 0x0f, 7, 0, 4, 0, b'u', b'=', b'1'];
        let last = [0x80, 0x0f, 7, 0, 4, 0, b'u', b'=', b'2'];
        let events = raw.write(raw.control, &[&update.repeat(100)[..], &last].concat());
        assert!(matches!(&events[..], [Event::Priority { priority, .. }] if priority.urgency == 2));
    }

    /// RFC 9204 §7.3.
    /// RFC 9114 §10.5.
    #[test]
    fn answers_that_are_not_read_are_h3_excessive_load() {
        let mut raw = Raw::new(Server);
        raw.net.borrow_mut().window = 200;
        raw.net.borrow_mut().limit(Client, Dir::Bi, 1 << 20);
        let mut n = 0;
        while raw.net.borrow().closed.is_none() {
            // Each makes us say that the stream is cancelled, in up to four bytes.
            let (id, _) = raw.bi(&[]);
            raw.reset(id, 0x10c);
            n += 1;
            assert!(n < 64 << 10, "the answers are kept");
        }
        assert_eq!(raw.closed(), ErrorCode::H3_EXCESSIVE_LOAD);
    }

    #[test]
    fn goodbyes_are_told_once() {
        let mut raw = Raw::new(Client);
        assert_eq!(raw.write(raw.control, &[7, 1, 8, 7, 1, 8, 7, 1, 4]), [Event::GoAway]);
    }

    #[test]
    fn datagrams_that_nobody_takes_are_lost() {
        let config = Config { webtransport: 1, ..Config::default() };
        let settings = [8, 1, 0x33, 1, 0xc0, 0, 0, 0, 0xc6, 0x71, 0x70, 0x6a, 1];
        let mut raw = Raw::with(Server, config, &settings);
        let protocol = [(":method", "CONNECT"), (":protocol", "webtransport")];
        let (id, _) = raw.bi(&headers(&[&protocol, &GET[1..]].concat()));
        raw.ours.h3.respond(&mut raw.ours.t, id, &quickset_h3::Response::new(200), false).unwrap();
        assert_eq!(raw.write(id, &frame(0, &[0, 0].repeat(2000))).len(), 1024);
        assert_eq!(raw.write(id, &frame(0, &[0, 0])).len(), 1, "they were taken");
        assert_eq!(raw.write(id, &frame(0, &[0x80, 0, 0x78, 0xae, 0].repeat(9))).len(), 1, "draining");
    }
}

mod datagrams {
    use super::*;

    /// RFC 9297 §2.1.
    #[test]
    fn a_datagram_without_a_good_quarter_stream_id_is_h3_datagram_error() {
        for bytes in [&[][..], &[0x40], &[0xd0, 0, 0, 0, 0, 0, 0, 0]] {
            let mut raw = Raw::new(Server);
            raw.t.send_datagram(bytes.to_vec().into());
            raw.ours.turn();
            assert_eq!(raw.closed(), ErrorCode::H3_DATAGRAM_ERROR, "{bytes:?}");
        }
    }
}
