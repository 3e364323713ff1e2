//! The server side against transcripts written by hand from the tables of RFC 6143 and the community's
//! specification. `V:` comes from the viewer, `S:` is what must go out.

use quickset_base::Rng;
use quickset_base::number::Unsigned as _;
use quickset_rfb::{
    ClipboardCaps, Cursor, Error, ExtendedClipboard, Fence, Formats, Framebuffer, Leds, Limits, PixelCoding,
    Rect, Resize, ResizeReason, ResizeStatus, RfbRefusal, RfbVersion, Screen, Security, Server, ServerConfig,
    ServerEvent as Event, ViewerFeatures, VncPassword,
};

fn server(security: Security) -> Server {
    let config = ServerConfig {
        security,
        name: "xy".to_owned(),
        width: 8,
        height: 4,
        is_local: true,
        limits: Limits::default(),
    };
    Server::new(config, &mut Rng::new(1))
}

fn told(server: &mut Server, bytes: &[u8]) -> Result<Vec<Event>, Error> {
    let (mut input, mut told) = (bytes, Vec::new());
    while let Some(event) = server.receive(&mut input)? {
        told.push(event);
    }
    assert!(input.is_empty());
    Ok(told)
}

fn one(server: &mut Server, bytes: &[u8]) -> Event {
    let mut told = told(server, bytes).expect("a good message");
    assert_eq!(told.len(), 1, "{told:?}");
    told.remove(0)
}

fn sent(server: &mut Server) -> Vec<u8> {
    server.output().split().to_vec()
}

/// RFC 6143 §7.3.2.
const INIT: &[u8] =
    &[0, 8, 0, 4, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0, 0, 0, 0, 2, b'x', b'y'];

fn ready() -> Server {
    let mut server = server(Security::None);
    assert_eq!(
        one(&mut server, b"RFB 003.008\n\x01\x01"),
        Event::Ready { shared: true, version: RfbVersion::V38 }
    );
    sent(&mut server);
    server
}

/// SetEncodings with these.
fn encodings(numbers: &[i32]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, numbers.len().saturated()];
    for n in numbers {
        bytes.extend(n.to_be_bytes());
    }
    bytes
}

fn screen() -> Framebuffer {
    let mut screen = Framebuffer::new(8, 4, 1 << 20).expect("a small one");
    let pixels: Vec<u32> = (0..32).map(|i| 0x0001_0000 * i + 0x2200 + 0x33).collect();
    screen.put(screen.bounds(), &pixels).expect("as many pixels as it has");
    screen
}

#[test]
fn version_38_without_security() {
    let mut server = server(Security::None);
    assert_eq!(sent(&mut server), b"RFB 003.008\n"); // S: version, at once
    assert_eq!(told(&mut server, b"RFB 003.008\n"), Ok(vec![]));
    assert_eq!(sent(&mut server), [1, 1]); // S: one type, None
    assert_eq!(told(&mut server, &[1]), Ok(vec![]));
    assert_eq!(sent(&mut server), [0, 0, 0, 0]); // S: result
    assert_eq!(server.bell(), Err(RfbRefusal::NotReady));
    assert_eq!(one(&mut server, &[0]), Event::Ready { shared: false, version: RfbVersion::V38 });
    assert_eq!(sent(&mut server), INIT);
}

#[test]
fn old_viewers() {
    let mut old = server(Security::None);
    assert_eq!(told(&mut old, b"RFB 003.007\n\x01"), Ok(vec![]));
    assert_eq!(sent(&mut old), b"RFB 003.008\n\x01\x01"); // no result before 3.8
    assert_eq!(one(&mut old, &[1]), Event::Ready { shared: true, version: RfbVersion::V37 });

    let mut old = server(Security::None);
    assert_eq!(told(&mut old, b"RFB 003.005\n"), Ok(vec![]));
    assert_eq!(sent(&mut old), b"RFB 003.008\n\0\0\0\x01");
    assert_eq!(one(&mut old, &[1]), Event::Ready { shared: true, version: RfbVersion::V33 });
}

#[test]
fn vnc_authentication() {
    let password = VncPassword::new(b"password");
    let forms: [(&[u8], &[u8], usize); 3] = [
        (b"RFB 003.008\n\x02", b"RFB 003.008\n\x01\x02", 14),
        (b"RFB 003.007\n\x02", b"RFB 003.008\n\x01\x02", 14),
        (b"RFB 003.003\n", b"RFB 003.008\n\0\0\0\x02", 16),
    ];
    for (greeting, offer, at) in forms {
        for right in [true, false] {
            let mut server = server(Security::VncAuth(password.clone()));
            assert_eq!(told(&mut server, greeting), Ok(vec![]));
            let bytes = sent(&mut server);
            assert_eq!((&bytes[..at], bytes.len()), (offer, at + 16));
            let mut answer = password.answer(bytes[at..].try_into().expect("sixteen bytes"));
            if right {
                assert_eq!(told(&mut server, &answer), Ok(vec![]));
                assert_eq!(sent(&mut server), [0, 0, 0, 0]);
                assert!(matches!(one(&mut server, &[1]), Event::Ready { .. }));
            } else {
                answer[15] ^= 0x80;
                let error = Error::Authentication("wrong password".to_owned());
                assert_eq!(told(&mut server, &answer), Err(error));
                let reason = b"\0\0\0\x01\0\0\0\x0ewrong password";
                let expected = if greeting.starts_with(b"RFB 003.008") { &reason[..] } else { &reason[..4] };
                assert_eq!(sent(&mut server), expected);
                assert_eq!(server.bell(), Err(RfbRefusal::NotReady));
            }
        }
    }
    // Two connections have two challenges.
    let mut rng = Rng::new(5);
    let config = ServerConfig {
        security: Security::VncAuth(password),
        name: String::new(),
        width: 1,
        height: 1,
        is_local: true,
        limits: Limits::default(),
    };
    let mut challenge = || {
        let mut server = Server::new(config.clone(), &mut rng);
        told(&mut server, b"RFB 003.003\n").expect("a version");
        sent(&mut server)
    };
    assert_ne!(challenge(), challenge());
}

#[test]
fn who_is_refused_reads_why() {
    // RFC 6143 §7.1.2: no type and the reason; of 3.3 the type is a number of four bytes.
    let cases = [(b"RFB 003.008\n", &[0][..]), (b"RFB 003.007\n", &[0]), (b"RFB 003.003\n", &[0, 0, 0, 0])];
    for (version, none) in cases {
        let mut server = server(Security::Refuse("no".to_owned()));
        assert_eq!(told(&mut server, version), Err(Error::TurnedAway("no".to_owned())));
        assert_eq!(sent(&mut server), [b"RFB 003.008\n", none, b"\0\0\0\x02no"].concat());
    }
}

#[test]
fn a_type_that_was_not_offered_is_refused() {
    let mut server = server(Security::VncAuth(VncPassword::new(b"secret")));
    assert_eq!(told(&mut server, b"RFB 003.008\n\x01"), Err(Error::SecurityChoice(1)));
    assert_eq!(sent(&mut server)[14..18], [0, 0, 0, 1]);
}

#[test]
fn messages_are_the_tables_of_the_rfc() {
    let mut server = ready();
    let bytes = [
        &[3, 1, 0, 1, 0, 2, 0, 3, 0, 1][..],         // FramebufferUpdateRequest
        &[3, 0, 0, 6, 0, 0, 0xff, 0xff, 0xff, 0xff], // and one that reaches beyond
        &[4, 1, 0, 0, 0, 0, 0xff, 0x0d],             // KeyEvent
        &[5, 5, 1, 2, 3, 4],                         // PointerEvent
        &[6, 0, 0, 0, 0, 0, 0, 2, b'a', 0xe9],       // ClientCutText
        &[255, 0, 0, 1, 0, 0, 0xff, 0x53, 0, 0, 0, 0xcd], // QEMU key event
        &[251, 0, 0, 9, 0, 8, 1, 0, 0, 0, 0, 1, 0, 1, 0, 2, 3, 4, 0, 5, 0, 0, 0, 2], // SetDesktopSize
        &[248, 0, 0, 0, 0, 0, 0, 1, 1, 7],           // Fence, an answer
        &[150, 1, 0, 4, 0, 0, 0, 9, 0, 2],           // EnableContinuousUpdates
        &[150, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    let rect = Rect::new(1, 2, 0x304, 5).unwrap();
    let expected = vec![
        Event::Request { incremental: true, rect: Rect::new(1, 2, 3, 1).unwrap() },
        Event::Request { incremental: false, rect: Rect::between(6, 0, 8, 4) },
        Event::Key { down: true, keysym: 0xff0d, keycode: None },
        Event::Pointer { buttons: 5, x: 0x102, y: 0x304 },
        Event::Text("a\u{e9}".to_owned()),
        Event::Key { down: true, keysym: 0xff53, keycode: Some(0xcd) },
        Event::SetDesktopSize { width: 9, height: 8, screens: vec![Screen { id: 1, rect, flags: 2 }] },
        Event::Fence(Fence { block_before: true, payload: vec![7], ..Fence::default() }),
        Event::ContinuousUpdates(Some(Rect::between(4, 0, 8, 2))),
        Event::ContinuousUpdates(None),
    ];
    assert_eq!(told(&mut server, &bytes), Ok(expected));
    assert_eq!(sent(&mut server), [150]); // S: the end is confirmed
    // A request is answered with its own flags.
    assert_eq!(told(&mut server, &[248, 0, 0, 0, 0x80, 0, 1, 7, 1, 9]), Ok(vec![]));
    assert_eq!(sent(&mut server), [248, 0, 0, 0, 0, 0, 0, 7, 1, 9]);

    let message = |bytes: &[u8]| told(&mut ready(), bytes).unwrap_err().to_string();
    assert_eq!(message(&[77]), "message type 77 is not known");
    assert_eq!(message(&[255, 2, 0, 0]), "QEMU message 2 is not known");
    // What has a length is passed over: extended clipboard unasked, sound that nobody has offered, and a
    // fence's 65th byte.
    let bytes = [
        &[6, 0, 0, 0, 0xff, 0xff, 0xff, 0xfc, 8, 0, 0, 1][..],
        &[255, 1, 0, 0],
        &[255, 1, 0, 2, 3, 2, 0, 0, 0xac, 0x44],
        &[248, 0, 0, 0, 0x80, 0, 0, 1, 65],
        &[9; 65],
        &[5, 5, 1, 2, 3, 4],
    ]
    .concat();
    let mut server = ready();
    let pointer = Event::Pointer { buttons: 5, x: 0x102, y: 0x304 };
    assert_eq!(told(&mut server, &bytes), Ok(vec![Event::TextDropped { bytes: 4 }, pointer]));
    assert_eq!(sent(&mut server), [&[248, 0, 0, 0, 0, 0, 0, 1, 65][..], &[9; 65]].concat());
    assert_eq!(
        message(&[0, 0, 0, 0, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        "colour-mapped pixels are supported with 8 bits only; please use true colour"
    );
    assert_eq!(
        message(&[0, 0, 0, 0, 24, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0]),
        "24 bits per pixel are not supported: 8, 16 or 32"
    );
    assert_eq!(
        message(&[0, 0, 0, 0, 16, 16, 0, 1, 0, 31, 0, 63, 0, 31, 12, 5, 0, 0, 0, 0]),
        "a colour with maximum 31 at bit 12 is not possible"
    );
}

#[test]
fn extensions_are_announced_once() {
    let mut server = ready();
    let all =
        encodings(&[16, 7, 1, 0, -224, -239, -223, -308, -307, -261, -258, -312, -313, -1_063_131_698, -26]);
    let features = ViewerFeatures {
        pixels: Some(PixelCoding::Zrle),
        compress_level: None,
        copy_rect: true,
        last_rect: true,
        cursor: true,
        desktop_size: true,
        extended_desktop_size: true,
        desktop_name: true,
        led_state: true,
        qemu_keys: true,
        fence: true,
        continuous_updates: true,
        extended_clipboard: true,
    };
    assert_eq!(one(&mut server, &all), Event::Features(features));
    let expected = [
        &[248, 0, 0, 0, 0x80, 0, 0, 0, 0][..], // a fence
        &[150],                                // EndOfContinuousUpdates
        &[3, 0, 0, 0, 0xff, 0xff, 0xff, 0xf8, 0x1f, 0, 0, 1, 0, 0, 0, 0], // clipboard capabilities
    ]
    .concat();
    assert_eq!(sent(&mut server), expected);
    assert_eq!(one(&mut server, &encodings(&[])), Event::Features(ViewerFeatures::default()));
    assert_eq!(one(&mut server, &all), Event::Features(features));
    assert_eq!(sent(&mut server), []);
    // QEMU keys are a rectangle of the first update, and only of that.
    let screen = screen();
    let pixel = [0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0x33, 0x22, 0, 0xff];
    let qemu = [0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xfe, 0xfe];
    for first in [true, false] {
        server.update().unwrap().raw(Rect::sized(1, 1), &screen).unwrap();
        let header = [0, 0, 0, 1 + u8::from(first)];
        let expected = [&header[..], if first { &qemu } else { &[] }, &pixel].concat();
        assert_eq!(sent(&mut server), expected);
    }
}

#[test]
fn an_update_with_every_rectangle() {
    let mut server = ready();
    one(&mut server, &encodings(&[1, -239, -308, -307, -261]));
    let screen = screen();
    let mask = vec![0x40];
    let cursor = Cursor { width: 2, height: 1, hot_x: 1, hot_y: 0, pixels: vec![0x00ff_0000, 255], mask };
    let screens = vec![Screen { id: 5, rect: Rect::sized(9, 5), flags: 9 }];
    let (reason, status) = (ResizeReason::ThisClient, ResizeStatus::Prohibited);
    let resize = Resize { width: 9, height: 5, reason, status, screens };
    let mut update = server.update().unwrap();
    update.raw(Rect::new(1, 1, 2, 1).unwrap(), &screen).unwrap();
    update.raw(Rect::EMPTY, &screen).unwrap();
    update.copy(Rect::new(4, 0, 3, 2).unwrap(), 1, 2).unwrap();
    update.cursor(&cursor).unwrap();
    update.resize(&resize).unwrap();
    update.name("\u{20ac}").unwrap();
    update.leds(Leds { scroll: false, num: true, caps: true }).unwrap();
    assert!(update.output().is_none());
    update.finish();
    let expected = [
        &[0, 0, 0, 6][..],
        &[0, 1, 0, 1, 0, 2, 0, 1, 0, 0, 0, 0, 0x33, 0x22, 9, 0xff, 0x33, 0x22, 10, 0xff],
        &[0, 4, 0, 0, 0, 3, 0, 2, 0, 0, 0, 1, 0, 1, 0, 2],
        &[0, 1, 0, 0, 0, 2, 0, 1, 0xff, 0xff, 0xff, 0x11, 0, 0, 0xff, 0xff, 0xff, 0, 0, 0xff, 0x40],
        &[
            0, 1, 0, 1, 0, 9, 0, 5, 0xff, 0xff, 0xfe, 0xcc, 1, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 9, 0, 5,
            0, 0, 0, 9,
        ],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xfe, 0xcd, 0, 0, 0, 3, 0xe2, 0x82, 0xac],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xfe, 0xfb, 6],
    ]
    .concat();
    assert_eq!(sent(&mut server), expected);

    // Nothing is sent for nothing, nothing that was not listed, nothing outside.
    let mut update = server.update().unwrap();
    let outside = Rect::new(7, 0, 2, 1).unwrap();
    assert_eq!(update.raw(outside, &screen), Err(RfbRefusal::Outside(outside)));
    assert_eq!(update.copy(Rect::sized(2, 1), 7, 0), Err(RfbRefusal::Outside(Rect::sized(2, 1))));
    assert_eq!(update.copy(outside, 0, 0), Err(RfbRefusal::Outside(outside)));
    assert_eq!(update.cursor(&Cursor { width: 1, ..cursor.clone() }), Err(RfbRefusal::TooLong));
    drop(update);
    one(&mut server, &encodings(&[]));
    let mut update = server.update().unwrap();
    assert_eq!(update.copy(Rect::sized(1, 1), 1, 0), Err(RfbRefusal::NotSupported));
    assert_eq!(update.cursor(&cursor), Err(RfbRefusal::NotSupported));
    assert_eq!(update.resize(&resize), Err(RfbRefusal::NotSupported));
    assert_eq!(update.name("x"), Err(RfbRefusal::NotSupported));
    assert_eq!(update.leds(Leds::default()), Err(RfbRefusal::NotSupported));
    drop(update);
    assert!(server.streamed_update().is_err());
    assert_eq!(sent(&mut server), []);
}

#[test]
fn a_streamed_update_ends_with_the_last_rectangle() {
    let mut server = ready();
    one(&mut server, &encodings(&[-224]));
    let screen = screen();
    let mut update = server.streamed_update().unwrap();
    update.raw(Rect::sized(1, 1), &screen).unwrap();
    let early = update.output().unwrap().split();
    assert_eq!(early[..], [0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0x33, 0x22, 0, 0xff]);
    drop(update);
    assert_eq!(sent(&mut server), [0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x20]);
    server.streamed_update().unwrap().finish();
    assert_eq!(sent(&mut server), []);
}

#[test]
fn more_rectangles_than_an_update_can_count() {
    let mut server = ready();
    let screen = screen();
    let mut update = server.update().unwrap();
    for _ in 0..70_000 {
        update.raw(Rect::sized(1, 1), &screen).unwrap();
    }
    drop(update);
    let bytes = sent(&mut server);
    // 65535 would mean "until LastRect" to many.
    let second = 4 + 65534 * 16;
    assert_eq!(bytes[..4], [0, 0, 0xff, 0xfe]);
    assert_eq!(bytes[second..second + 4], [0, 0, 0x11, 0x72]); // 4466 more
    assert_eq!(bytes.len(), second + 4 + 4466 * 16);
}

#[test]
fn sizes_for_viewers_that_know_only_the_plain_one() {
    let mut server = ready();
    one(&mut server, &encodings(&[-223]));
    let (reason, status) = (ResizeReason::Server, ResizeStatus::Done);
    let same = Resize { width: 8, height: 4, reason, status, screens: vec![] };
    server.update().unwrap().resize(&same).unwrap();
    assert_eq!(sent(&mut server), []); // some viewers loop otherwise
    server.update().unwrap().resize(&Resize { width: 9, ..same }).unwrap();
    assert_eq!(sent(&mut server), [0, 0, 0, 1, 0, 0, 0, 0, 0, 9, 0, 4, 0xff, 0xff, 0xff, 0x21]);
    // Requests are cut to the new size.
    let rect = Rect::sized(9, 4);
    assert_eq!(
        one(&mut server, &[3, 0, 0, 0, 0, 0, 0, 99, 0, 99]),
        Event::Request { incremental: false, rect }
    );
}

#[test]
fn pixels_leave_in_the_viewers_format() {
    let mut server = ready();
    // 16 bits, big endian, 565.
    let format = [0, 0, 0, 0, 16, 16, 1, 1, 0, 31, 0, 63, 0, 31, 11, 5, 0, 0, 0, 0];
    assert!(matches!(one(&mut server, &format), Event::Format(f) if f.big_endian && f.green.max == 63));
    let mut screen = screen();
    screen.put(Rect::sized(2, 1), &[0x00ff_0000, 0x0000_ff08]).unwrap();
    server.update().unwrap().raw(Rect::sized(2, 1), &screen).unwrap();
    // 8 · 31 / 255 = 0.97.
    assert_eq!(sent(&mut server)[16..], [0xf8, 0, 0x07, 0xe1]);
}

#[test]
fn a_viewer_with_a_colour_map_is_given_one() {
    let mut server = ready();
    // V: SetPixelFormat, 8 bits, not true colour (RFC 6143 §7.5.1), twice.
    let format = [0, 0, 0, 0, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for _ in 0..2 {
        assert!(matches!(one(&mut server, &format), Event::Format(_)));
    }
    assert_eq!(sent(&mut server), b"", "nothing before it is needed");
    let mut screen = screen();
    let colours =
        [0, 0x00ff_ffff, 0x00ff_0000, 0x0000_ff00, 0x0000_00ff, 0x0012_3456, 0x0080_8080, 0x00fe_dcba];
    let top = Rect::sized(8, 1);
    screen.put(top, &colours).expect("a row");
    server.update().unwrap().raw(top, &screen).unwrap();
    // S: SetColourMapEntries (RFC 6143 §7.6.2), all 256 of them, then the update.
    let out = sent(&mut server);
    assert_eq!(out[..6], [1, 0, 0, 0, 1, 0]);
    let (map, update) = out[6..].split_at(256 * 6);
    assert_eq!(update[..16], [0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0, 1, 0, 0, 0, 0]);
    assert_eq!(update.len(), 16 + 8);
    for (colour, &index) in colours.iter().zip(&update[16..]) {
        let entry = &map[usize::from(index) * 6..][..6];
        for (part, shift) in [16, 8, 0].into_iter().enumerate() {
            let (wanted, given) = (colour >> shift & 255, u32::from(entry[part * 2]));
            // Half of the distance between two levels: 255 / 7 for red and green, 255 / 3 for blue.
            let most = if shift == 0 { 43 } else { 19 };
            assert!(wanted.abs_diff(given) <= most, "{colour:06x} is {entry:?}");
            assert!(wanted % 255 != 0 || wanted == given, "black is black, and white is white");
        }
    }
    server.update().unwrap().raw(top, &screen).unwrap();
    assert_eq!(sent(&mut server).len(), 16 + 8, "one map is enough");
    // Other indices than of 8 bits nobody has.
    let wide = [&format[..4], &[16], &format[5..]].concat();
    assert_eq!(told(&mut server, &wide), Err(Error::ColourMap));
}

#[test]
fn texts_and_bells() {
    let mut server = ready();
    server.bell().unwrap();
    server.text("a\u{e9}\u{20ac}").unwrap();
    assert_eq!(sent(&mut server), [2, 3, 0, 0, 0, 0, 0, 0, 3, b'a', 0xe9, b'?']);
    assert_eq!(server.clipboard(&ExtendedClipboard::Peek), Err(RfbRefusal::NotSupported));
    assert_eq!(server.fence(&Fence::default()), Err(RfbRefusal::NotSupported));
    one(&mut server, &encodings(&[-1_063_131_698, -312]));
    sent(&mut server);
    server.clipboard(&ExtendedClipboard::Notify(Formats::TEXT)).unwrap();
    assert_eq!(sent(&mut server), [3, 0, 0, 0, 0xff, 0xff, 0xff, 0xfc, 8, 0, 0, 1]);
    server.fence(&Fence { payload: vec![4; 64], ..Fence::default() }).unwrap();
    assert_eq!(sent(&mut server)[..9], [248, 0, 0, 0, 0x80, 0, 0, 0, 64]);
    assert_eq!(server.fence(&Fence { payload: vec![4; 65], ..Fence::default() }), Err(RfbRefusal::TooLong));
    // V: capabilities of text with 16 MiB.
    let caps = [6, 0, 0, 0, 0xff, 0xff, 0xff, 0xf8, 0x1b, 0, 0, 1, 1, 0, 0, 0];
    let expected = ClipboardCaps { peek: false, unsolicited_text: 16 << 20, ..ClipboardCaps::OURS };
    assert_eq!(one(&mut server, &caps), Event::Clipboard(ExtendedClipboard::Caps(expected)));
}
