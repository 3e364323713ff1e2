//! The client side against transcripts written by hand from the tables of RFC 6143 and the community's
//! specification. `S:` comes from the server, `C:` is what must go out.

use quickset_base::number::{within_u16, within_u32};
use quickset_rfb::{
    Client, ClientConfig, ClientEvent as Event, ClipboardCaps, Cursor, Encoding, Error, ExtendedClipboard,
    Fence, Formats, Leds, Limits, PixelFormat, Rect, Resize, ResizeReason, ResizeStatus, RfbExtension,
    RfbRefusal, RfbVersion, Screen, SecurityType, ServerInit, VncPassword,
};

/// An event that keeps its pixels.
#[derive(Debug, PartialEq)]
enum Told {
    Pixels(Rect, Vec<u32>),
    Event(Event<'static>),
}

fn told(client: &mut Client, bytes: &[u8]) -> Result<Vec<Told>, Error> {
    let (mut input, mut told) = (bytes, Vec::new());
    while let Some(event) = client.receive(&mut input)? {
        told.push(match event {
            Event::Pixels { rect, pixels } => Told::Pixels(rect, pixels.to_vec()),
            Event::Copy { rect, x, y } => Told::Event(Event::Copy { rect, x, y }),
            other => Told::Event(owned(other)),
        });
    }
    assert!(input.is_empty());
    Ok(told)
}

fn owned(event: Event<'_>) -> Event<'static> {
    match event {
        Event::Pixels { .. } => panic!("pixels are kept otherwise"),
        Event::Copy { rect, x, y } => Event::Copy { rect, x, y },
        Event::StartTls => Event::StartTls,
        Event::Ready(init) => Event::Ready(init),
        Event::UpdateEnd => Event::UpdateEnd,
        Event::Cursor(cursor) => Event::Cursor(cursor),
        Event::Resize(resize) => Event::Resize(resize),
        Event::Name(name) => Event::Name(name),
        Event::Leds(leds) => Event::Leds(leds),
        Event::Bell => Event::Bell,
        Event::Text(text) => Event::Text(text),
        Event::Clipboard(message) => Event::Clipboard(message),
        Event::TextDropped { bytes } => Event::TextDropped { bytes },
        Event::TextBroken { bytes } => Event::TextBroken { bytes },
        Event::Fence(fence) => Event::Fence(fence),
        Event::ContinuousUpdatesEnded => Event::ContinuousUpdatesEnded,
        Event::Supports(extension) => Event::Supports(extension),
        Event::Colours { first, colours } => Event::Colours { first, colours },
    }
}

fn sent(client: &mut Client) -> Vec<u8> {
    client.output().split().to_vec()
}

fn quiet(client: &mut Client, bytes: &[u8]) {
    assert_eq!(told(client, bytes), Ok(vec![]));
}

fn one(client: &mut Client, bytes: &[u8]) -> Event<'static> {
    let mut told = told(client, bytes).expect("a good message");
    assert_eq!(told.len(), 1, "{told:?}");
    match told.remove(0) {
        Told::Event(event) => event,
        Told::Pixels(rect, _) => panic!("pixels at {rect}"),
    }
}

/// RFC 6143 §7.3.2: 8x4, the format XRGB, "xy".
const INIT: &[u8] = &[
    0, 8, 0, 4, // width, height
    32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0, // format
    0, 0, 0, 2, b'x', b'y',
];

fn ready() -> Client {
    let mut client = Client::new(ClientConfig::default());
    quiet(&mut client, b"RFB 003.008\n\x01\x01\0\0\0\0");
    assert!(matches!(one(&mut client, INIT), Event::Ready(_)));
    sent(&mut client);
    client
}

#[test]
fn version_38_without_security() {
    let mut client = Client::new(ClientConfig::default());
    quiet(&mut client, b"RFB 003.008\n"); // S: version
    assert_eq!(sent(&mut client), b"RFB 003.008\n"); // C: version
    quiet(&mut client, &[2, 19, 1]); // S: two types, VeNCrypt and None
    assert_eq!(sent(&mut client), [1]); // C: None
    quiet(&mut client, &[0, 0, 0, 0]); // S: result OK
    assert_eq!(sent(&mut client), [1]); // C: shared
    assert_eq!(client.request(false, Rect::EMPTY), Err(RfbRefusal::NotReady));
    let init = ServerInit {
        width: 8,
        height: 4,
        format: PixelFormat::XRGB,
        name: "xy".to_owned(),
        version: RfbVersion::V38,
    };
    assert_eq!(one(&mut client, INIT), Event::Ready(init));
    assert_eq!(client.size(), Some((8, 4)));
    let mut expected = vec![0, 0, 0, 0, 32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0]; // SetPixelFormat
    expected.extend([2, 0, 0, 12]); // SetEncodings
    for n in [1i32, 0, -224, -239, -308, -223, -307, -261, -258, -312, -313] {
        expected.extend(n.to_be_bytes());
    }
    expected.extend([0xc0, 0xa1, 0xe5, 0xce]);
    assert_eq!(sent(&mut client), expected);
}

#[test]
fn apples_version_is_38_and_old_ones_differ() {
    let mut client = Client::new(ClientConfig { shared: false, ..ClientConfig::default() });
    quiet(&mut client, b"RFB 003.889\n");
    assert_eq!(sent(&mut client), b"RFB 003.008\n");

    // 3.7: no result after None, ClientInit follows at once.
    let mut client = Client::new(ClientConfig { shared: false, ..ClientConfig::default() });
    quiet(&mut client, b"RFB 003.007\n\x01\x01");
    assert_eq!(sent(&mut client), b"RFB 003.007\n\x01\x00");
    assert!(matches!(one(&mut client, INIT), Event::Ready(ServerInit { version: RfbVersion::V37, .. })));

    // 3.3: the server decides with 32 bits, and is not answered.
    let mut client = Client::new(ClientConfig::default());
    quiet(&mut client, b"RFB 003.003\n\0\0\0\x01");
    assert_eq!(sent(&mut client), b"RFB 003.003\n\x01");
    assert!(matches!(one(&mut client, INIT), Event::Ready(ServerInit { version: RfbVersion::V33, .. })));
}

#[test]
fn vnc_authentication() {
    // The answer was computed by openssl: see `VncPassword`.
    let challenge: Vec<u8> = (0..16).collect();
    let answer =
        [0xb8, 0x66, 0x92, 0x41, 0x25, 0xc8, 0xee, 0xbb, 0x9d, 0xeb, 0xc1, 0xdb, 0x61, 0xc5, 0x38, 0xe2];
    let config = ClientConfig { password: Some(VncPassword::new(b"password")), ..ClientConfig::default() };
    let greetings: [(&[u8], &[u8]); 3] = [
        (b"RFB 003.008\n\x02\x01\x02", b"RFB 003.008\n\x02"),
        (b"RFB 003.007\n\x01\x02", b"RFB 003.007\n\x02"),
        (b"RFB 003.003\n\0\0\0\x02", b"RFB 003.003\n"),
    ];
    for (greeting, reply) in greetings {
        let mut client = Client::new(config.clone());
        quiet(&mut client, greeting);
        assert_eq!(sent(&mut client), reply);
        quiet(&mut client, &challenge);
        assert_eq!(sent(&mut client), answer);
        quiet(&mut client, &[0, 0, 0, 0]);
        assert_eq!(sent(&mut client), [1]);
    }
}

#[test]
fn refusals_come_with_their_reasons() {
    let error =
        |config: &ClientConfig, bytes: &[u8]| told(&mut Client::new(config.clone()), bytes).unwrap_err();
    let open = ClientConfig::default();
    let secret = ClientConfig { password: Some(VncPassword::new(b"x")), ..ClientConfig::default() };
    let reason = b"\0\0\0\x04full";
    let refused = Error::Refused("full".to_owned());
    assert_eq!(error(&open, &[b"RFB 003.008\n\0", &reason[..]].concat()), refused);
    assert_eq!(error(&open, &[b"RFB 003.003\n\0\0\0\0", &reason[..]].concat()), refused);
    assert_eq!(refused.to_string(), "the server refused the connection: full");

    let challenge = [0; 16];
    let failed = Error::Authentication("full".to_owned());
    assert_eq!(
        error(&secret, &[&b"RFB 003.008\n\x01\x02"[..], &challenge, &[0, 0, 0, 1], reason].concat()),
        failed
    );
    let e = error(&secret, &[&b"RFB 003.007\n\x01\x02"[..], &challenge, &[0, 0, 0, 1]].concat());
    assert_eq!(e.to_string(), "authentication failed: the server gives no reason");
    let e = error(&secret, &[&b"RFB 003.003\n\0\0\0\x02"[..], &challenge, &[0, 0, 0, 2]].concat());
    assert_eq!(e.to_string(), "authentication failed: too many attempts");
    assert_eq!(error(&open, b"RFB 003.008\n\x01\x01\0\0\0\x09"), Error::SecurityResult(9));

    let e = error(&open, b"RFB 003.008\n\x02\x02\x13");
    let offered = vec![SecurityType::VncAuth, SecurityType::Vencrypt];
    assert_eq!(e, Error::NoSecurity { offered, password: false });
    assert_eq!(
        e.to_string(),
        "no usable way to authenticate: the server offers VncAuth, VeNCrypt; there is no password"
    );
    assert_eq!(
        error(&open, b"HTTP/1.1 400 Bad").to_string(),
        "the other side does not speak RFB 3.3 or later; it began with \"HTTP/1.1 400\""
    );
    // A reason of 4 GiB is cut after what anybody reads.
    let long = [&b"RFB 003.008\n\0\xff\xff\xff\xff"[..], &[b'x'; 5000]].concat();
    assert_eq!(error(&open, &long), Error::Refused("x".repeat(4096)));
}

#[test]
fn an_update_with_every_rectangle() {
    let mut client = ready();
    let bytes = [
        &[0, 0, 0, 9][..],
        &[0, 1, 0, 2, 0, 2, 0, 1, 0, 0, 0, 0], // Raw 2x1+1+2
        &[0x33, 0x22, 0x11, 0xff, 3, 2, 1, 0],
        &[0, 4, 0, 0, 0, 3, 0, 2, 0, 0, 0, 1, 0, 1, 0, 2], // CopyRect from 1,2
        &[0, 1, 0, 0, 0, 2, 0, 1, 0xff, 0xff, 0xff, 0x11], // Cursor 2x1, hot 1,0
        &[0, 0, 0xff, 0, 0xff, 0, 0, 0, 0x40],
        &[0, 0, 0, 0, 0, 9, 0, 5, 0xff, 0xff, 0xff, 0x21], // DesktopSize 9x5
        &[0, 2, 0, 7, 0, 16, 0, 6, 0xff, 0xff, 0xfe, 0xcc, 1, 0, 0, 0], // ExtendedDesktopSize 16x6
        &[0, 0, 0, 5, 0, 0, 0, 0, 0, 16, 0, 6, 0, 0, 0, 9],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xfe, 0xcd, 0, 0, 0, 3, 0xe2, 0x82, 0xac], // DesktopName
        &[0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xfe, 0xfb, 6],                            // LED state
        &[0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xfe, 0xfe],                               // QEMU keys
        &[0, 15, 0, 5, 0, 1, 0, 1, 0, 0, 0, 0, 9, 0, 0, 0], // inside the new size only
    ]
    .concat();
    let mask = vec![0x40];
    let cursor = Cursor { width: 2, height: 1, hot_x: 1, hot_y: 0, pixels: vec![0x00ff_0000, 255], mask };
    assert_eq!((cursor.pixel(0, 0), cursor.pixel(1, 0)), (None, Some(255)));
    let (reason, status) = (ResizeReason::Server, ResizeStatus::Done);
    let plain = Resize { width: 9, height: 5, reason, status, screens: vec![] };
    let screens = vec![Screen { id: 5, rect: Rect::sized(16, 6), flags: 9 }];
    let extended = Resize { width: 16, height: 6, reason: ResizeReason::OtherClient, status, screens };
    let expected = vec![
        Told::Pixels(Rect::new(1, 2, 2, 1).unwrap(), vec![0x0011_2233, 0x0001_0203]),
        Told::Event(Event::Copy { rect: Rect::new(4, 0, 3, 2).unwrap(), x: 1, y: 2 }),
        Told::Event(Event::Cursor(cursor)),
        Told::Event(Event::Resize(plain)),
        Told::Event(Event::Resize(extended)),
        Told::Event(Event::Name("\u{20ac}".to_owned())),
        Told::Event(Event::Leds(Leds { scroll: false, num: true, caps: true })),
        Told::Event(Event::Supports(RfbExtension::QemuKeys)),
        Told::Pixels(Rect::new(15, 5, 1, 1).unwrap(), vec![9]),
        Told::Event(Event::UpdateEnd),
    ];
    assert_eq!(told(&mut client, &bytes).unwrap(), expected);
    assert_eq!(client.size(), Some((16, 6)));
    assert!(client.supports(RfbExtension::SetDesktopSize));
}

#[test]
fn the_hot_spot_of_a_cursor_is_inside_or_at_its_edge() {
    // Where it is said to be, the size, and where it is. 0, 0 for a cursor without pixels.
    for (said, (width, height), hot) in [
        ((5, 5), (0, 0), (0, 0)),
        ((16, 3), (16, 16), (15, 3)),
        ((3, 0xffff), (16, 16), (3, 15)),
        ((15, 15), (16, 16), (15, 15)),
        ((2, 9), (1, 0), (0, 0)),
    ] {
        let mut client = ready();
        let [x, y, w, h] = [said.0, said.1, width, height].map(u16::to_be_bytes);
        let head = [&[0, 0, 0, 1][..], &x, &y, &w, &h, &[0xff, 0xff, 0xff, 0x11]].concat();
        let body = usize::from(width) * usize::from(height) * 4
            + usize::from(width).div_ceil(8) * usize::from(height);
        let told = told(&mut client, &[head, vec![0; body]].concat()).unwrap();
        let Told::Event(Event::Cursor(cursor)) = &told[0] else { panic!("{told:?}") };
        assert_eq!((cursor.hot_x, cursor.hot_y), hot, "{said:?} of {width}x{height}");
    }
}

#[test]
fn the_last_rectangle_ends_an_update() {
    let mut client = ready();
    let update = [&[0, 0, 0xff, 0xff][..], &[0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x20], &[2]].concat();
    let told = told(&mut client, &update).unwrap();
    assert_eq!(told, [Told::Event(Event::UpdateEnd), Told::Event(Event::Bell)]);
    assert_eq!(one(&mut client, &[0, 0, 0, 0]), Event::UpdateEnd);
}

#[test]
fn a_refused_resize_changes_nothing() {
    let mut client = ready();
    let update = [
        &[0, 0, 0, 1][..],
        &[0, 1, 0, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0xcc, 0, 0, 0, 0], // this client, invalid layout
    ]
    .concat();
    let told = told(&mut client, &update).unwrap();
    let (reason, status) = (ResizeReason::ThisClient, ResizeStatus::InvalidLayout);
    let resize = Resize { width: 65535, height: 65535, reason, status, screens: vec![] };
    assert_eq!(told, [Told::Event(Event::Resize(resize)), Told::Event(Event::UpdateEnd)]);
    assert_eq!(client.size(), Some((8, 4)));
}

#[test]
fn what_does_not_fit_is_an_error_with_a_sentence() {
    let update = |rect: &[u8]| {
        let mut client = ready();
        told(&mut client, &[&[0, 0, 0, 1], rect].concat()).unwrap_err().to_string()
    };
    assert_eq!(
        update(&[0, 7, 0, 0, 0, 2, 0, 1, 0, 0, 0, 0]),
        "the rectangle 2x1+7+0 does not lie in the framebuffer of 8x4"
    );
    assert_eq!(
        update(&[0xff, 0xff, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0]),
        "the rectangle 1x1+65535+0 does not lie in the framebuffer of 8x4"
    );
    assert_eq!(
        update(&[0, 0, 0, 0, 0, 2, 0, 2, 0, 0, 0, 1, 0, 7, 0, 0]),
        "the rectangle 2x2+7+0 does not lie in the framebuffer of 8x4"
    );
    assert_eq!(
        update(&[0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 16]),
        "the rectangle 1x1+0+0 is in encoding 16, which was not asked for"
    );
    assert_eq!(
        update(&[0, 0, 0, 0, 0x40, 1, 0, 1, 0xff, 0xff, 0xff, 0x21]),
        "a framebuffer of 16385x1 is larger than allowed"
    );
    assert_eq!(
        update(&[0, 0, 0, 0, 0x40, 0, 0x40, 0, 0xff, 0xff, 0xff, 0x21]),
        "a framebuffer of 16384x16384 is larger than allowed"
    );
    let message = |bytes: &[u8]| told(&mut ready(), bytes).unwrap_err().to_string();
    assert_eq!(message(&[77]), "message type 77 is not known");
}

#[test]
fn what_is_broken_and_has_a_length_is_passed_over() {
    let broken = Told::Event(Event::TextBroken { bytes: 1 });
    let bell = Told::Event(Event::Bell);
    // S: an extended clipboard message without its flags, and a bell.
    let mut client = ready();
    assert_eq!(told(&mut client, &[3, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 2]), Ok(vec![broken, bell]));
    // S: capabilities of two formats with the size of none. They count, and are answered.
    let caps = told(&mut client, &[3, 0, 0, 0, 0xff, 0xff, 0xff, 0xfc, 0x1f, 0, 0, 3]);
    assert_eq!(caps.map(|told| told.len()), Ok(1));
    assert!(client.supports(RfbExtension::Clipboard));
    assert!(sent(&mut client).starts_with(&[6, 0, 0, 0]));
    // S: a fence of 65 bytes, which is one too many, comes back as it was.
    let fence = [&[248, 0, 0, 0, 0x80, 0, 0, 1, 65][..], &[7; 65]].concat();
    assert!(told(&mut client, &fence).is_ok());
    assert_eq!(sent(&mut client), [&[248, 0, 0, 0, 0, 0, 0, 1, 65][..], &[7; 65]].concat());
}

#[test]
fn commands_are_the_tables_of_the_rfc() {
    let mut client = ready();
    let rect = Rect::new(1, 2, 0x304, 5).unwrap();
    client.request(true, rect).unwrap();
    assert_eq!(sent(&mut client), [3, 1, 0, 1, 0, 2, 3, 4, 0, 5]);
    client.key(true, 0xff0d).unwrap();
    assert_eq!(sent(&mut client), [4, 1, 0, 0, 0, 0, 0xff, 0x0d]);
    client.pointer(5, 0x102, 0x304).unwrap();
    assert_eq!(sent(&mut client), [5, 5, 1, 2, 3, 4]);
    client.text("a\u{e9}\r\n\u{20ac}").unwrap();
    assert_eq!(sent(&mut client), [6, 0, 0, 0, 0, 0, 0, 4, b'a', 0xe9, b'\n', b'?']);
    client.set_encodings(&[Encoding::Raw, Encoding::Other(16), Encoding::Fence]).unwrap();
    assert_eq!(sent(&mut client), [2, 0, 0, 2, 0, 0, 0, 0, 0xff, 0xff, 0xfe, 0xc8]);

    // Extensions only after the server has shown them.
    let fence = Fence { sync_next: true, payload: vec![1, 2], ..Fence::default() };
    let screens = [Screen { id: 1, rect, flags: 2 }];
    assert_eq!(client.fence(&fence), Err(RfbRefusal::NotSupported));
    assert_eq!(client.continuous_updates(Some(rect)), Err(RfbRefusal::NotSupported));
    assert_eq!(client.set_desktop_size(9, 8, &screens), Err(RfbRefusal::NotSupported));
    assert_eq!(client.key_code(true, 1, 2), Err(RfbRefusal::NotSupported));
    assert_eq!(client.clipboard(&ExtendedClipboard::Peek), Err(RfbRefusal::NotSupported));
    assert_eq!(sent(&mut client), []);

    assert_eq!(one(&mut client, &[150]), Event::Supports(RfbExtension::ContinuousUpdates));
    client.continuous_updates(Some(rect)).unwrap();
    client.continuous_updates(None).unwrap();
    assert_eq!(sent(&mut client), [150, 1, 0, 1, 0, 2, 3, 4, 0, 5, 150, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(one(&mut client, &[150]), Event::ContinuousUpdatesEnded);

    // The server's request is answered with its own flags, less the request bit and unknown ones.
    let request = [248, 0, 0, 0, 0x80, 0, 1, 3, 2, 7, 8];
    assert_eq!(one(&mut client, &request), Event::Supports(RfbExtension::Fence));
    assert_eq!(sent(&mut client), [248, 0, 0, 0, 0, 0, 0, 3, 2, 7, 8]);
    quiet(&mut client, &request);
    client.fence(&fence).unwrap();
    assert_eq!(sent(&mut client)[11..], [248, 0, 0, 0, 0x80, 0, 0, 4, 2, 1, 2]);
    assert_eq!(one(&mut client, &[248, 0, 0, 0, 0, 0, 0, 4, 2, 1, 2]), Event::Fence(fence));

    let update = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xfe, 0xfe];
    assert_eq!(told(&mut client, &update).unwrap()[0], Told::Event(Event::Supports(RfbExtension::QemuKeys)));
    client.key_code(false, 0xff53, 0xcd).unwrap();
    assert_eq!(sent(&mut client), [255, 0, 0, 0, 0, 0, 0xff, 0x53, 0, 0, 0, 0xcd]);

    let update = [0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0, 4, 0xff, 0xff, 0xfe, 0xcc, 0, 0, 0, 0];
    assert_eq!(told(&mut client, &update).unwrap().len(), 2);
    client.set_desktop_size(9, 8, &screens).unwrap();
    let expected = [251, 0, 0, 9, 0, 8, 1, 0, 0, 0, 0, 1, 0, 1, 0, 2, 3, 4, 0, 5, 0, 0, 0, 2];
    assert_eq!(sent(&mut client), expected);
}

#[test]
fn the_extended_clipboard() {
    let mut client = ready();
    assert_eq!(one(&mut client, b"\x03\0\0\0\0\0\0\x04a\r\n\xe9"), Event::Text("a\n\u{e9}".to_owned()));
    // S: caps of text and html; request, peek, notify, provide; 20 MiB and nothing unsolicited.
    let caps = [3, 0, 0, 0, 0xff, 0xff, 0xff, 0xf4, 0x1f, 0, 0, 5, 1, 0x40, 0, 0, 0, 0, 0, 0];
    let theirs = ClipboardCaps { formats: Formats(5), unsolicited_text: 20 << 20, ..ClipboardCaps::OURS };
    assert_eq!(one(&mut client, &caps), Event::Clipboard(ExtendedClipboard::Caps(theirs)));
    assert!(client.supports(RfbExtension::Clipboard));
    // C: ours.
    assert_eq!(sent(&mut client), [6, 0, 0, 0, 0xff, 0xff, 0xff, 0xf8, 0x1f, 0, 0, 1, 0, 0, 0, 0]);
    // Once: the bytes that go out are bounded by those that came.
    assert!(matches!(one(&mut client, &caps), Event::Clipboard(_)));
    assert_eq!(sent(&mut client), []);

    let message = |flags: [u8; 4]| [&[3, 0, 0, 0, 0xff, 0xff, 0xff, 0xfc][..], &flags].concat();
    assert_eq!(
        one(&mut client, &message([8, 0, 0, 1])),
        Event::Clipboard(ExtendedClipboard::Notify(Formats::TEXT))
    );
    assert_eq!(
        one(&mut client, &message([8, 0, 0, 0])),
        Event::Clipboard(ExtendedClipboard::Notify(Formats::NONE))
    );
    assert_eq!(one(&mut client, &message([4, 0, 0, 0])), Event::Clipboard(ExtendedClipboard::Peek));
    assert_eq!(
        one(&mut client, &message([2, 0, 0, 1])),
        Event::Clipboard(ExtendedClipboard::Request(Formats::TEXT))
    );
    quiet(&mut client, &message([0x20, 0, 0, 1])); // an action of the future
    client.clipboard(&ExtendedClipboard::Request(Formats::TEXT)).unwrap();
    assert_eq!(sent(&mut client), [6, 0, 0, 0, 0xff, 0xff, 0xff, 0xfc, 2, 0, 0, 1]);

    // S: provide. A zlib stream with one stored block, by hand: a size of 7, the text, a zero.
    let plain = [&[0, 0, 0, 7][..], b"a\r\n\xe2\x82\xac\0"].concat();
    let bytes = provide(&plain);
    assert_eq!(
        one(&mut client, &bytes),
        Event::Clipboard(ExtendedClipboard::Provide(Some("a\n\u{20ac}".to_owned())))
    );
    let mut broken = bytes.clone();
    broken[20] ^= 1; // the stored length no longer matches its complement
    // One text is lost, and what follows it is read.
    broken.push(2);
    let lost = Event::TextBroken { bytes: bytes.len() as u64 - 8 };
    assert_eq!(told(&mut client, &broken).unwrap(), [Told::Event(lost), Told::Event(Event::Bell)]);
}

/// RFC 1950 and 1951: header 78 01, one final stored block, Adler-32.
fn provide(plain: &[u8]) -> Vec<u8> {
    let length = within_u16(plain.len() as u64).to_le_bytes();
    let (mut a, mut b) = (1u32, 0u32);
    for byte in plain {
        a = (a + u32::from(*byte)) % 65521;
        b = (b + a) % 65521;
    }
    let stored = [1, length[0], length[1], !length[0], !length[1]];
    let stream = [&[0x78, 1][..], &stored, plain, &(b << 16 | a).to_be_bytes()].concat();
    let length = within_u32(4 + stream.len() as u64).wrapping_neg().to_be_bytes();
    [&[3, 0, 0, 0][..], &length, &[16, 0, 0, 1], &stream].concat()
}

#[test]
fn long_texts_are_passed_over() {
    let limits = Limits { text_bytes: 10, ..Limits::default() };
    let mut client = Client::new(ClientConfig { limits, ..ClientConfig::default() });
    quiet(&mut client, b"RFB 003.008\n\x01\x01\0\0\0\0");
    one(&mut client, INIT);
    let bytes = [&[3, 0, 0, 0, 0, 0, 0, 11][..], b"hello world", &[2]].concat();
    let expected = [Told::Event(Event::TextDropped { bytes: 11 }), Told::Event(Event::Bell)];
    assert_eq!(told(&mut client, &bytes).unwrap(), expected);
    assert_eq!(one(&mut client, b"\x03\0\0\0\0\0\0\x0ahello worl"), Event::Text("hello worl".to_owned()));
    // The message is short enough, the text is not.
    let bytes = provide(&[&[0, 0, 0, 12][..], b"hello world\0"].concat());
    assert_eq!(one(&mut client, &bytes), Event::TextDropped { bytes: 11 });
}

#[test]
fn colour_maps_are_read() {
    let mut client = ready();
    let bytes = [1, 0, 0, 3, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    let colours = vec![[0x102, 0x304, 0x506], [0x708, 0x90a, 0xb0c]];
    assert_eq!(one(&mut client, &bytes), Event::Colours { first: 3, colours });
}

#[test]
fn other_formats_become_xrgb() {
    // Six levels of 3, 3 and 2 bits: RFC 6143 §7.4.
    let mut format = PixelFormat { bits_per_pixel: 8, depth: 8, ..PixelFormat::XRGB };
    (format.red.max, format.red.shift) = (7, 0);
    (format.green.max, format.green.shift) = (7, 3);
    (format.blue.max, format.blue.shift) = (3, 6);
    let mut client = Client::new(ClientConfig { format, ..ClientConfig::default() });
    quiet(&mut client, b"RFB 003.008\n\x01\x01\0\0\0\0");
    one(&mut client, INIT);
    assert_eq!(sent(&mut client)[14..34], [0, 0, 0, 0, 8, 8, 0, 1, 0, 7, 0, 7, 0, 3, 0, 3, 6, 0, 0, 0]);
    let update = [0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0, 2, 0, 0, 0, 0, 0o007, 0o070, 0o300, 0o377];
    let expected = vec![0x00ff_0000, 0x0000_ff00, 0x0000_00ff, 0x00ff_ffff];
    assert_eq!(told(&mut client, &update).unwrap()[0], Told::Pixels(Rect::sized(2, 2), expected));
}
