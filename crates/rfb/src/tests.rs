//! Hostile input: no panic, bounded memory, and the same events however the bytes are cut.

use proptest::prelude::*;
use quickset_base::Rng;

use crate::{
    Client, ClientConfig, ClientEvent, Error, Limits, Security, Server, ServerConfig, ServerEvent,
    VncPassword,
};

const LIMITS: Limits = Limits { framebuffer_bytes: 1 << 20, text_bytes: 1000 };

/// What may ever be reserved for input: a cursor of the largest size, doubled by the growth of a vector.
const MOST: usize = 2 * (512 * 512 * 4 + 64 * 512 + 12);

fn client() -> Client {
    Client::new(ClientConfig { limits: LIMITS, ..ClientConfig::default() })
}

fn server() -> Server {
    let security = Security::None;
    let config = ServerConfig {
        security,
        name: "n".to_owned(),
        width: 64,
        height: 48,
        is_local: true,
        limits: LIMITS,
    };
    Server::new(config, &mut Rng::new(1))
}

/// The handshake of a server with a framebuffer of 64x48.
fn server_greeting() -> Vec<u8> {
    let mut bytes = b"RFB 003.008\n\x01\x01\0\0\0\0\0\x40\0\x30".to_vec();
    bytes.extend([32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0, 0, 0, 0, 1, b'n']);
    bytes
}

fn viewer_greeting() -> Vec<u8> {
    b"RFB 003.008\n\x01\x01".to_vec()
}

/// Feeds chunks whose sizes come from `cut`; tells all events and the error, with pixels joined per update.
fn drive_client(bytes: &[u8], cut: &mut dyn FnMut() -> usize) -> (Vec<String>, Option<Error>) {
    let mut client = client();
    let (mut told, mut rest) = (Vec::new(), bytes);
    let (mut pixels, mut fed) = (Vec::new(), 0);
    while !rest.is_empty() {
        let (mut chunk, after) = rest.split_at(cut().clamp(1, rest.len()));
        fed += chunk.len();
        rest = after;
        loop {
            match client.receive(&mut chunk) {
                Ok(None) => break,
                // How a rectangle is cut into rows depends on the chunks; its rows do not.
                Ok(Some(ClientEvent::Pixels { rect, pixels: part })) => {
                    assert_eq!(part.len(), rect.area());
                    let rows = (rect.top()..rect.bottom()).zip(part.chunks(rect.width().into()));
                    pixels.extend(rows.map(|(y, row)| format!("{y} {} {row:?}", rect.left())));
                }
                Ok(Some(event)) => {
                    told.append(&mut pixels);
                    told.push(format!("{event:?}"));
                }
                Err(e) => {
                    assert_eq!(client.receive(&mut &[0][..]), Err(e.clone()));
                    told.append(&mut pixels);
                    return (told, Some(e));
                }
            }
            assert!(client.inlet.reserved() <= MOST);
        }
        assert!(chunk.is_empty());
        // The greeting's commands are 20 + 52 bytes.
        assert!(client.output().len() <= fed + 100);
    }
    told.append(&mut pixels);
    (told, None)
}

fn drive_server(bytes: &[u8], cut: &mut dyn FnMut() -> usize) -> (Vec<ServerEvent>, Option<Error>) {
    let mut server = server();
    let (mut told, mut rest) = (Vec::new(), bytes);
    let mut fed = 0;
    while !rest.is_empty() {
        let (mut chunk, after) = rest.split_at(cut().clamp(1, rest.len()));
        fed += chunk.len();
        rest = after;
        loop {
            match server.receive(&mut chunk) {
                Ok(None) => break,
                Ok(Some(event)) => told.push(event),
                Err(e) => {
                    assert_eq!(server.receive(&mut &[0][..]), Err(e.clone()));
                    return (told, Some(e));
                }
            }
            assert!(server.inlet.reserved() <= MOST);
        }
        assert!(chunk.is_empty());
        assert!(server.output().len() <= fed + 200);
    }
    (told, None)
}

/// Bytes that look like messages often enough to get far.
fn hostile(kinds: &'static [&'static [u8]]) -> impl Strategy<Value = Vec<u8>> {
    let small = prop_oneof![4 => 0u8..4, 1 => any::<u8>()];
    let noise = prop::collection::vec(small, 0..40);
    let piece = (prop::sample::select(kinds), noise).prop_map(|(kind, noise)| [kind, &noise].concat());
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

const SERVER_MESSAGES: &[&[u8]] = &[
    &[],
    &[0, 0, 0, 2],
    &[0, 0, 0xff, 0xff],
    // Rectangles: Raw, CopyRect, LastRect, Cursor, DesktopSize, ExtendedDesktopSize, name, lamps, QEMU.
    &[0, 0, 0, 1, 0, 1, 0, 1, 0, 2, 0, 3, 0, 0, 0, 0],
    &[0, 0, 0, 1, 0, 1, 0, 1, 0, 2, 0, 3, 0, 0, 0, 1, 0, 1],
    &[0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x20],
    &[0, 0, 0, 1, 0, 1, 0, 1, 0, 9, 0, 3, 0xff, 0xff, 0xff, 0x11],
    &[0, 0, 0, 1, 0, 1, 0, 1, 2, 0, 2, 0, 0xff, 0xff, 0xff, 0x11],
    &[0, 0, 0, 1, 0, 0, 0, 0, 0, 9, 0, 8, 0xff, 0xff, 0xff, 0x21],
    &[0, 0, 0, 1, 0, 0, 0, 0, 0, 9, 0, 8, 0xff, 0xff, 0xfe, 0xcc, 1, 0, 0, 0],
    &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xfe, 0xcd, 0, 0, 0, 5],
    &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xfe, 0xfb],
    &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xfe, 0xfe],
    &[1, 0, 0, 0, 0, 2],
    &[1, 0, 0, 0, 0xff, 0xff],
    &[2],
    &[3, 0, 0, 0, 0, 0, 0, 9],
    &[3, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff],
    &[3, 0, 0, 0, 0x80, 0, 0, 0],
    &[3, 0, 0, 0, 0xff, 0xff, 0xff, 0xf8, 1, 0, 0, 1],
    &[3, 0, 0, 0, 0xff, 0xff, 0xff, 0xfc, 8, 0, 0, 1],
    &[3, 0, 0, 0, 0xff, 0xff, 0xff, 0xf0, 16, 0, 0, 1, 0x78, 1],
    &[150],
    &[248, 0, 0, 0, 0x80, 0, 0, 7, 9],
];

const VIEWER_MESSAGES: &[&[u8]] = &[
    &[],
    &[0, 0, 0, 0, 16, 16, 0, 1, 0, 31, 0, 63, 0, 31, 11, 5, 0, 0, 0, 0],
    &[2, 0, 0, 3],
    &[2, 0, 0, 1, 0xc0, 0xa1, 0xe5, 0xce],
    &[2, 0, 0, 2, 0xff, 0xff, 0xfe, 0xc8, 0xff, 0xff, 0xfe, 0xc7],
    &[3, 1, 0, 0, 0, 0, 0, 9],
    &[4, 1, 0, 0],
    &[5, 1],
    &[6, 0, 0, 0, 0, 0, 0, 9],
    &[6, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff],
    &[6, 0, 0, 0, 0xff, 0xff, 0xff, 0xf8, 1, 0, 0, 1],
    &[6, 0, 0, 0, 0xff, 0xff, 0xff, 0xf0, 16, 0, 0, 1, 0x78, 1],
    &[150, 1, 0, 0],
    &[248, 0, 0, 0, 0x80, 0, 0, 7, 9],
    &[251, 0, 3, 0, 2, 0, 1, 0],
    &[255, 0, 0, 1],
];

proptest! {
    #[test]
    fn a_client_survives_any_server(bytes in hostile(SERVER_MESSAGES), seed in any::<u64>()) {
        let bytes = [server_greeting(), bytes].concat();
        let mut rng = Rng::new(seed);
        let whole = drive_client(&bytes, &mut || usize::MAX);
        prop_assert_eq!(&drive_client(&bytes, &mut || 1), &whole);
        prop_assert_eq!(&drive_client(&bytes, &mut || rng.below(40) as usize), &whole);
    }

    #[test]
    fn a_server_survives_any_viewer(bytes in hostile(VIEWER_MESSAGES), seed in any::<u64>()) {
        let bytes = [viewer_greeting(), bytes].concat();
        let mut rng = Rng::new(seed);
        let whole = drive_server(&bytes, &mut || usize::MAX);
        prop_assert_eq!(&drive_server(&bytes, &mut || 1), &whole);
        prop_assert_eq!(&drive_server(&bytes, &mut || rng.below(40) as usize), &whole);
    }

    #[test]
    fn a_handshake_survives_noise(bytes in prop::collection::vec(any::<u8>(), 0..200), skip in 0usize..40) {
        let at = |greeting: Vec<u8>| [&greeting[..skip.min(greeting.len())], &bytes].concat();
        let (as_server, as_viewer) = (at(server_greeting()), at(viewer_greeting()));
        prop_assert_eq!(drive_client(&as_server, &mut || 1), drive_client(&as_server, &mut || usize::MAX));
        prop_assert_eq!(drive_server(&as_viewer, &mut || 1), drive_server(&as_viewer, &mut || usize::MAX));
    }
}

/// Every message of a server, well formed.
fn every_server_message() -> Vec<u8> {
    let mut bytes = server_greeting();
    let rect = |x: u16, y: u16, w: u16, h: u16, encoding: i32| {
        let numbers = [x, y, w, h].map(u16::to_be_bytes).concat();
        [numbers, encoding.to_be_bytes().to_vec()].concat()
    };
    bytes.extend([0, 0, 0, 9]);
    bytes.extend([rect(1, 2, 3, 4, 0), (0..48).collect()].concat());
    bytes.extend([rect(9, 9, 2, 2, 1), vec![0, 1, 0, 2]].concat());
    bytes.extend([rect(1, 1, 9, 2, -239), vec![7; 9 * 2 * 4 + 2 * 2]].concat());
    bytes.extend(rect(0, 0, 70, 50, -223));
    bytes.extend([rect(2, 0, 80, 60, -308), vec![2, 0, 0, 0], vec![0; 32]].concat());
    bytes.extend([rect(0, 0, 0, 0, -307), vec![0, 0, 0, 2, b'h', b'i']].concat());
    bytes.extend([rect(0, 0, 0, 0, -261), vec![5]].concat());
    bytes.extend(rect(0, 0, 0, 0, -258));
    bytes.extend(rect(0, 0, 0, 0, -224));
    bytes.extend([1, 0, 0, 7, 0, 1, 1, 2, 3, 4, 5, 6, 2, 150, 150]);
    bytes.extend(b"\x03\0\0\0\0\0\0\x05hello");
    bytes.extend([3, 0, 0, 0, 0xff, 0xff, 0xff, 0xf8, 0x1f, 0, 0, 1, 0, 0, 0, 0]);
    let mut provide = bytes::BytesMut::new();
    crate::ExtendedClipboard::Provide(Some("text\n".to_owned())).encode(3, &mut provide);
    bytes.extend(&provide);
    bytes.extend([3, 0, 0, 0, 0, 0, 4, 0]);
    bytes.extend([b'x'; 1024]);
    bytes.extend([248, 0, 0, 0, 0x80, 0, 0, 7, 1, 9, 248, 0, 0, 0, 0, 0, 0, 7, 1, 9]);
    bytes
}

/// Every message of a viewer, well formed.
fn every_viewer_message() -> Vec<u8> {
    let mut bytes = viewer_greeting();
    bytes.extend([0, 0, 0, 0, 16, 16, 1, 1, 0, 31, 0, 63, 0, 31, 11, 5, 0, 0, 0, 0]);
    bytes.extend([2, 0, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0x20, 0xc0, 0xa1, 0xe5, 0xce]);
    bytes.extend([3, 1, 0, 1, 0, 2, 0, 3, 0, 1, 4, 1, 0, 0, 0, 0, 0xff, 0x0d, 5, 5, 1, 2, 3, 4]);
    bytes.extend(b"\x06\0\0\0\0\0\0\x05hello\x06\0\0\0\0\0\x04\0");
    bytes.extend([b'x'; 1024]);
    bytes.extend([6, 0, 0, 0, 0xff, 0xff, 0xff, 0xf8, 0x1f, 0, 0, 1, 0, 0, 0, 0]);
    bytes.extend([150, 1, 0, 4, 0, 0, 0, 9, 0, 2, 150, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([248, 0, 0, 0, 0x80, 0, 0, 7, 1, 9, 248, 0, 0, 0, 0, 0, 0, 7, 1, 9]);
    bytes.extend([251, 0, 0, 9, 0, 8, 1, 0, 0, 0, 0, 1, 0, 1, 0, 2, 3, 4, 0, 5, 0, 0, 0, 2]);
    bytes.extend([255, 0, 0, 1, 0, 0, 0xff, 0x53, 0, 0, 0, 0xcd]);
    bytes
}

#[test]
fn cut_off_anywhere_the_rest_is_waited_for() {
    let bytes = every_server_message();
    let (whole, error) = drive_client(&bytes, &mut || usize::MAX);
    // Ready, four rows, seven other rectangles, the end of the update, and ten messages.
    assert_eq!((whole.len(), error), (1 + 4 + 7 + 1 + 10, None), "{whole:#?}");
    for n in 0..bytes.len() {
        let (told, error) = drive_client(&bytes[..n], &mut || usize::MAX);
        assert_eq!(error, None, "at {n}");
        assert!(told.len() < whole.len() && whole.starts_with(&told), "at {n}: {told:?}");
    }
    let bytes = every_viewer_message();
    let (whole, error) = drive_server(&bytes, &mut || usize::MAX);
    assert_eq!((whole.len(), error), (14, None), "{whole:#?}");
    for n in 0..bytes.len() {
        let (told, error) = drive_server(&bytes[..n], &mut || usize::MAX);
        assert_eq!(error, None, "at {n}");
        assert!(told.len() < whole.len() && whole.starts_with(&told), "at {n}: {told:?}");
    }
}

#[test]
fn announced_lengths_reserve_nothing() {
    // Each announces far more than it brings.
    let greedy: [&[u8]; 7] = [
        &[1, 0, 0, 0, 0xff, 0xff],
        &[3, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, b'x'],
        &[3, 0, 0, 0, 0, 0, 0x03, 0xe8, b'x'],
        &[3, 0, 0, 0, 0x80, 0, 0, 0, b'x'],
        &[0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 2, 0, 0xff, 0xff, 0xff, 0x11, b'x'],
        &[0, 0, 0, 1, 0, 0, 0, 0, 0, 64, 0, 48, 0, 0, 0, 0, b'x'],
        &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xfe, 0xcd, 0, 0, 0x10, 0],
    ];
    for bytes in greedy {
        let mut client = client();
        let bytes = [server_greeting(), bytes.to_vec()].concat();
        for byte in &bytes {
            let mut input = &[*byte][..];
            while client.receive(&mut input).unwrap().is_some() {}
        }
        assert!(client.inlet.reserved() <= 128, "{} after {bytes:?}", client.inlet.reserved());
    }
}

/// RFC 6143 §7.3.2 and §7.8.1 have no limits: what is too long to be of use ends nothing, and is not held.
#[test]
fn long_names_and_large_cursors_end_nothing() {
    let mut bytes = server_greeting();
    bytes.truncate(bytes.len() - 5);
    bytes.extend([&5000_u32.to_be_bytes()[..], &[b'n'; 5000]].concat());
    bytes.extend([0, 0, 0, 3]);
    // A cursor of 600x600, another name, and the beep behind them.
    bytes.extend([0, 0, 0, 0, 2, 88, 2, 88, 0xff, 0xff, 0xff, 0x11]);
    bytes.extend(vec![7; 600 * 600 * 4 + 75 * 600]);
    bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xfe, 0xcd]);
    bytes.extend([&100_000_u32.to_be_bytes()[..], &vec![b'm'; 100_000]].concat());
    bytes.extend([0, 0, 0, 0, 0, 70, 0, 50, 0xff, 0xff, 0xff, 0x21]);
    bytes.push(2);
    for size in [usize::MAX, 1000, 1] {
        let (told, error) = drive_client(&bytes, &mut || size);
        assert_eq!((told.len(), error), (5, None), "{told:#?}");
        assert!(told[0].contains(&"n".repeat(4096)) && !told[0].contains(&"n".repeat(4097)), "{}", told[0]);
        assert_eq!(told[1], format!("Name({:?})", "m".repeat(4096)));
        assert!(told[2].starts_with("Resize"), "{}", told[2]);
        assert_eq!(told[3..], ["UpdateEnd", "Bell"]);
    }
}

#[test]
fn a_bomb_of_zeros_is_not_inflated() {
    // 16 MiB in 16 kB: under a limit that lets the message through, the text is over it.
    let limits = Limits { text_bytes: 100_000, ..LIMITS };
    let mut client = Client::new(ClientConfig { limits, ..ClientConfig::default() });
    let plain = [&[1, 0, 0, 0][..], &vec![0; 16 << 20]].concat();
    let mut stream = miniz_oxide::deflate::compress_to_vec_zlib(&plain, 9);
    assert!(stream.len() < 100_000);
    let mut bytes = [server_greeting(), vec![3, 0, 0, 0]].concat();
    bytes.extend((4 + stream.len() as u32).wrapping_neg().to_be_bytes());
    bytes.extend([16, 0, 0, 1]);
    bytes.append(&mut stream);
    let mut input = &bytes[..];
    let mut last = String::new();
    while let Some(event) = client.receive(&mut input).unwrap() {
        last = format!("{event:?}");
    }
    assert_eq!(last, "TextDropped { bytes: 16777216 }");
}

#[test]
fn a_wrong_password_is_an_error_on_both_sides() {
    let secure = |password: &[u8]| Security::VncAuth(VncPassword::new(password));
    let config = ServerConfig {
        security: secure(b"right"),
        name: String::new(),
        width: 1,
        height: 1,
        is_local: true,
        limits: LIMITS,
    };
    let mut server = Server::new(config, &mut Rng::new(7));
    let password = Some(VncPassword::new(b"wrong"));
    let mut client = Client::new(ClientConfig { password, ..ClientConfig::default() });
    let mut errors = (None, None);
    for _ in 0..10 {
        let bytes = server.output().split();
        errors.0 = errors.0.or(client.receive(&mut &bytes[..]).err());
        let bytes = client.output().split();
        errors.1 = errors.1.or(server.receive(&mut &bytes[..]).err());
    }
    let wrong = Some(Error::Authentication("wrong password".to_owned()));
    assert_eq!(errors, (wrong.clone(), wrong));
}

/// A Provide of text, from either side, by its zlib stream.
fn provide(kind: u8, stream: &[u8]) -> Vec<u8> {
    let length = (4 + stream.len() as u32).wrapping_neg().to_be_bytes();
    [&[kind, 0, 0, 0][..], &length, &[16, 0, 0, 1], stream].concat()
}

/// What comes in a zlib stream before the text: its bytes, and the text as it travels.
fn sized(text: &str) -> Vec<u8> {
    [&(text.len() as u32 + 1).to_be_bytes()[..], text.as_bytes(), &[0]].concat()
}

/// As TigerVNC and noVNC make it: flushed, and not finished (no final block, no checksum).
fn flushed(plain: &[u8]) -> Vec<u8> {
    use miniz_oxide::deflate::core::{CompressorOxide, create_comp_flags_from_zip_params};
    use miniz_oxide::{MZFlush, deflate::stream::deflate};
    let mut state = CompressorOxide::new(create_comp_flags_from_zip_params(6, 15, 0));
    let mut out = vec![0; plain.len() + 100];
    let done = deflate(&mut state, plain, &mut out, MZFlush::Sync);
    assert_eq!(done.bytes_consumed, plain.len());
    out.truncate(done.bytes_written);
    assert!(out.ends_with(&[0, 0, 0xff, 0xff]), "a flush ends with an empty stored block");
    out
}

/// What both sides hear of a Provide with this stream, and that they hear what follows.
fn hear_provide(stream: &[u8]) -> (String, String) {
    let bytes = [server_greeting(), provide(3, stream), vec![2]].concat();
    let (told, error) = drive_client(&bytes, &mut || 7);
    assert_eq!((error, told.last().map(String::as_str)), (None, Some("Bell")));
    let here = told[told.len() - 2].clone();
    // SetEncodings with the extended clipboard; at the end a pointer.
    let wanted = [2, 0, 0, 1, 0xc0, 0xa1, 0xe5, 0xce];
    let bytes = [viewer_greeting(), wanted.to_vec(), provide(6, stream), vec![5, 0, 0, 1, 0, 2]].concat();
    let (told, error) = drive_server(&bytes, &mut || 7);
    assert_eq!((error, told.last()), (None, Some(&ServerEvent::Pointer { buttons: 0, x: 1, y: 2 })));
    (here, format!("{:?}", told[told.len() - 2]))
}

#[test]
fn texts_of_streams_that_are_left_open_are_read() {
    let long = "so lang wie breit \u{2194}\n".repeat(30);
    for text in ["", "a", "grüße \u{263a}\nund mehr", &long] {
        let plain = sized(&text.replace('\n', "\r\n"));
        // One stored block that is not the last, by hand.
        let length = (plain.len() as u16).to_le_bytes();
        let stored = [&[0x78, 1, 0, length[0], length[1], !length[0], !length[1]][..], &plain].concat();
        let heard = format!("Clipboard(Provide(Some({text:?})))");
        // What follows may be cut off, or be of another format.
        let more = flushed(&[&plain[..], b"\0\0\0\x05{rtf}"].concat());
        for stream in [flushed(&plain), stored.clone(), [&stored[..], &[0, 0, 0, 0xff, 0xff]].concat(), more]
        {
            assert_eq!(hear_provide(&stream), (heard.clone(), heard.clone()), "{stream:?}");
        }
    }
}

#[test]
fn texts_that_are_not_whole_are_passed_over() {
    let plain = sized("a text of some length, of which the end is missing");
    let whole = flushed(&plain);
    // Zeros are no text: what was not written must not be taken for it.
    let short = flushed(&plain[..plain.len() - 1]);
    let mut streams: Vec<&[u8]> = vec![b"", b"\x78", b"\x78\x01\x07", b"nonsense that is no stream", &short];
    streams.extend((0..whole.len() - 8).map(|n| &whole[..n]));
    for stream in streams {
        let lost = format!("TextBroken {{ bytes: {} }}", 4 + stream.len());
        assert_eq!(hear_provide(stream), (lost.clone(), lost), "{stream:?}");
    }
    // Of a text over the limit the size is enough.
    let long = flushed(&sized(&"x".repeat(3000)));
    assert_eq!(hear_provide(&long).0, "TextDropped { bytes: 3001 }");
    let lies = flushed(&[0xff; 64]);
    assert_eq!(hear_provide(&lies).0, "TextDropped { bytes: 4294967295 }");
}
