use proptest::prelude::*;
use quickset_rfb::{Cursor, Leds, Rect, ResizeReason, ResizeStatus, Screen};

use super::*;

fn hex(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|b| u8::from_str_radix(b, 16).unwrap()).collect()
}

fn through<M: StreamMessage + PartialEq + core::fmt::Debug>(message: &M) {
    let mut inbox = RecordInbox::new();
    let records = message.records();
    for (i, record) in records.iter().enumerate() {
        assert!(record.len() <= 16385);
        let read = inbox.receive(record);
        if i + 1 < records.len() {
            assert_eq!(read, Ok(None));
        } else {
            assert_eq!(read.as_ref(), Ok(&Some(M::decode(&rebuilt(message)).unwrap().unwrap())));
            assert_eq!(read.unwrap().as_ref(), Some(message));
        }
    }
}

fn rebuilt<M: StreamMessage>(message: &M) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out);
    // DT-44: fields that a later version appends are ignored.
    out.extend([1, 2, 3]);
    out
}

fn cursor(width: u16, height: u16) -> Cursor {
    let pixels = (0..u32::from(width) * u32::from(height)).collect();
    let mask = vec![0x5a; (width as usize).div_ceil(8) * height as usize];
    Cursor { width, height, hot_x: width / 2, hot_y: height / 2, pixels, mask }
}

#[test]
fn examples_of_the_specification() {
    let key = PersonInput::Key { down: true, keysym: 0x61, keycode: Some(0x1e) };
    assert_eq!(key.records(), [hex("20 03 00 00 00 61 00 00 00 1e")]);
    let pointer = PersonInput::Pointer { buttons: 1, x: 100, y: 200 };
    assert_eq!(pointer.records(), [hex("21 01 00 64 00 c8")]);
    let shift = PersonInput::Held { keysym: 0xffe1, keycode: Some(0x2a) };
    assert_eq!(shift.records(), [hex("22 03 00 00 ff e1 00 00 00 2a")]);
    let hello = Hello { visit: Some(VisitId(core::array::from_fn(|n| n as u8))), ..Hello::default() };
    let bytes = hex("02 01 08 00 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f");
    assert_eq!(FromClient::Hello(hello).records(), [bytes]);
    let visit = Some(VisitCount { resumed: true, taken: 300 });
    let (order, permissions, name) = (ScreenOrder::Fenced, Permissions::ALL, "a".into());
    let welcome = Welcome { features: 0, order, permissions, name, visit };
    assert_eq!(FromServer::Welcome(welcome).records(), [hex("03 01 01 00 01 07 01 61 01 41 2c")]);
    assert_eq!(FromServer::Taken(300).records(), [hex("14 41 2c")]);
}

#[test]
fn every_message_comes_back() {
    let screens = vec![Screen { id: 7, rect: Rect::new(1, 2, 3, 4).unwrap(), flags: 9 }; 3];
    let client = [
        FromClient::Hello(Hello {
            features: 17,
            offer: Some(ClientOffer::Share { of: SecretKind::Token, share: [7; 33] }),
            is_older: false,
            choice: HelloChoice { token: "abcde".into(), desktop: "work".into(), ..HelloChoice::default() },
            visit: Some(VisitId([9; 16])),
        }),
        FromClient::Hello(Hello { visit: Some(VisitId([0xff; 16])), ..Hello::default() }),
        FromClient::Hello(Hello {
            choice: HelloChoice { device: DeviceTag("é".repeat(32)), ..HelloChoice::default() },
            ..Hello::default()
        }),
        FromClient::Hello(Hello {
            offer: Some(ClientOffer::Token(ShownToken::new("abcde-12345"))),
            ..Hello::default()
        }),
        FromClient::Hello(Hello::default()),
        FromClient::Hello(Hello { is_older: true, ..Hello::default() }),
        FromClient::Proof(Some([7; 32])),
        FromClient::Proof(None),
        FromClient::Refresh(Refresh { restart: true, rect: Rect::new(0, 16, 16384, 300).unwrap() }),
        FromClient::Unable { item: 1 << 40 },
        FromClient::Wish { width: 1920, height: 1080, screens: screens.clone() },
        FromClient::Rate { bps: 5_000_000 },
        FromClient::Rate { bps: 0 },
        FromClient::Quality { least: 80, most: 100 },
        FromClient::Quality { least: 0, most: 255 },
        FromClient::Ping(u64::MAX),
        FromClient::Pong(1),
        FromClient::Hear(true),
        FromClient::Hear(false),
    ];
    client.iter().for_each(through);
    let server = [
        FromServer::Share { share: [1; 33], proof: [2; 32] },
        FromServer::Welcome(Welcome {
            features: 0,
            order: ScreenOrder::Latest,
            permissions: Permissions { clipboard: false, ..Permissions::ALL },
            name: "décor:1".into(),
            visit: None,
        }),
        FromServer::Welcome(Welcome {
            features: 6,
            order: ScreenOrder::Fenced,
            permissions: Permissions::ALL,
            name: String::new(),
            visit: Some(VisitCount { resumed: true, taken: 1 << 40 }),
        }),
        FromServer::Taken(16_384),
        FromServer::Mark(ScreenMark { epoch: 3, items: 1 << 31, sum: Some(0xdead_beef) }),
        FromServer::Mark(ScreenMark { epoch: 1, items: 1, sum: None }),
        FromServer::Layout(ScreenLayout {
            reason: ResizeReason::OtherClient,
            status: ResizeStatus::Other(9),
            width: 640,
            height: 480,
            screens,
        }),
        FromServer::Cursor(cursor(19, 11)),
        FromServer::Cursor(Cursor::default()),
        // The longest of all goes in parts.
        FromServer::Cursor(cursor(512, 512)),
        FromServer::Name("x".into()),
        FromServer::Leds(Leds { scroll: true, num: false, caps: true }),
        FromServer::Bell,
        FromServer::Clipboard(ClipboardMessage::Offer),
        FromServer::Clipboard(ClipboardMessage::Paste("ä".repeat(MAX_TEXT / 2))),
        FromServer::Ping(0),
        FromServer::Pong(8),
    ];
    server.iter().for_each(through);
    let input = [
        PersonInput::Key { down: false, keysym: 0xffe1, keycode: None },
        PersonInput::Held { keysym: 0xffe1, keycode: Some(0x2a) },
        PersonInput::Clipboard(ClipboardMessage::Ask),
        PersonInput::Clipboard(ClipboardMessage::Paste(String::new())),
    ];
    input.iter().for_each(through);
}

#[test]
fn only_motion_is_left_out() {
    // DT-10.
    let pointer = |buttons, x| PersonInput::Pointer { buttons, x, y: 0 };
    let key = PersonInput::Key { down: true, keysym: 1, keycode: None };
    assert!(pointer(1, 0).yields_to(&pointer(1, 9)));
    assert!(!pointer(1, 0).yields_to(&pointer(0, 0)));
    assert!(!pointer(1, 0).yields_to(&key) && !key.yields_to(&key) && !key.yields_to(&pointer(1, 0)));
}

#[test]
fn unknown_kinds_are_passed_over_and_known_ones_are_checked() {
    // DT-41.
    assert_eq!(FromClient::decode(&[0x77, 1, 2]), Ok(None));
    assert_eq!(FromServer::decode(&[0x02]), Ok(None));
    // DT-43.
    let fault = FromClient::decode(&[0x02, 2]).unwrap_err();
    assert_eq!((fault.code(), fault), (code::VERSION, MessageFault::Version(2)));
    // DT-6, DT-11, DT-12.
    let bad = [
        hex("02 01 00 05 00 00 00 00 00"),
        hex("03 01 00 00 03 07 00"),
        hex("09 00 00 42 01 01"),
        hex("09 02 00 02 02"),
        hex("09 00 00 02 02 01 02 03"),
        hex("0a 50 01"),
        hex("0a 02 c3 28"),
        hex("0f 80 10 00 01"),
        hex("08 00 00 00 00 01 00 00 00 00 ff ff 00 00 00 01 00 00 00 00 00 00"),
        hex("07 01"),
    ];
    for bad in bad {
        let faults = [FromServer::decode(&bad).err(), FromClient::decode(&bad).err()];
        let fault = faults.into_iter().flatten().next().unwrap();
        assert_eq!(fault.code(), code::PROTOCOL, "{bad:02x?}");
    }
}

#[test]
fn parts_are_bounded_and_not_interrupted() {
    // DT-5, DT-7.
    let receive = |records: &[&[u8]]| {
        let mut inbox = RecordInbox::<FromServer>::new();
        let (last, first) = records.split_last().unwrap();
        first.iter().try_for_each(|record| inbox.receive(record).map(|read| assert_eq!(read, None)))?;
        inbox.receive(last)
    };
    assert_eq!(receive(&[&[0, 0x0a], &[0, 1], &[1, b'n']]), Ok(Some(FromServer::Name("n".into()))));
    assert!(receive(&[&[]]).is_err());
    assert!(receive(&[&[0, 0x0a], &[0]]).is_err());
    assert!(receive(&[&[1]]).is_err());
    assert!(receive(&[&[0, 0x0a], &[0x0c]]).is_err());
    assert!(receive(&[&[0, 0], &[1, 1]]).is_err());
    assert!(receive(&[&vec![0x77; 65537]]).is_err());
    let mut inbox = RecordInbox::<FromServer>::new();
    let part = vec![0; 50_001];
    let accepted = (0..100).take_while(|_| inbox.receive(&part).is_ok()).count();
    assert_eq!(accepted, 32);
}

#[test]
fn what_nothing_depends_on_is_passed_over_when_it_is_broken() {
    // DT-52: a cursor of 513 columns, one that points outside, one without its pixels, a name without its
    // bytes, one of 4097, texts that are none, too little of everything.
    let mut long = hex("0a 50 01");
    long.resize(3 + 4097, b'n');
    let broken = [
        hex("09 00 00 42 01 01"),
        hex("09 02 00 02 02"),
        hex("09 00 00 02 02 01 02 03"),
        hex("0a 09 61"),
        hex("0a 02 c3 28"),
        hex("0f 02 c3 28"),
        hex("0f 80 10 00 01"),
        hex("0b"),
        long,
    ];
    for broken in broken {
        let mut inbox = RecordInbox::<FromServer>::new();
        assert!(FromServer::decode(&broken).is_err());
        assert_eq!(inbox.receive(&broken), Ok(None), "{broken:02x?}");
        assert_eq!(inbox.receive(&[0x0c]), Ok(Some(FromServer::Bell)));
    }
    // A text of 3 MB is held as far as one may be long.
    let mut inbox = RecordInbox::<PersonInput>::new();
    assert_eq!(inbox.receive(&[0, 0x0f, 0x80, 0x2d, 0xc6, 0xc0]), Ok(None));
    for _ in 0..60 {
        assert_eq!(inbox.receive(&vec![0; 50_001]), Ok(None));
    }
    assert!(format!("{inbox:?}").contains("held: 15"), "{inbox:?}");
    assert!(inbox.receive(&[0x21, 1, 0, 9, 0, 8]).is_err(), "DT-7: parts are not interrupted");
    assert_eq!(inbox.receive(&[1, 0]), Ok(None));
    let pointer = PersonInput::Pointer { buttons: 1, x: 9, y: 8 };
    assert_eq!(inbox.receive(&[0x21, 1, 0, 9, 0, 8]), Ok(Some(pointer)));
    // What others depend on is not.
    assert!(RecordInbox::<FromServer>::new().receive(&[0x07, 1]).is_err());
    assert!(RecordInbox::<PersonInput>::new().receive(&[0x21, 1]).is_err());
}

#[test]
fn messages_of_which_nothing_is_read_are_counted_all_the_same() {
    // DT-62: of a kind that is not known, a text that is none, one in parts that is too long; not what is
    // read, and not the pieces of what is not whole.
    let mut inbox = RecordInbox::<PersonInput>::new();
    for record in [hex("77 01"), hex("0f 02 c3 28"), hex("21 01 00 09 00 08"), hex("00 0f 80 2d c6 c0")] {
        let _ = inbox.receive(&record).unwrap();
    }
    assert_eq!((inbox.take_unread(), inbox.take_unread()), (2, 0));
    for _ in 0..60 {
        assert_eq!(inbox.receive(&vec![0; 50_001]), Ok(None));
    }
    assert_eq!(inbox.take_unread(), 0);
    assert_eq!(inbox.receive(&[1, 0]), Ok(None));
    assert_eq!(inbox.take_unread(), 1);
}

#[test]
fn varints_are_those_of_the_rfc() {
    // RFC 9000 §A.1.
    let examples = [
        ("c2 19 7c 5e ff 14 e8 8c", 151_288_809_941_952_652),
        ("9d 7f 3e 7d", 494_878_333),
        ("7b bd", 15_293),
        ("25", 37),
    ];
    for (bytes, n) in examples {
        let mut out = Vec::new();
        out.put_varint(n);
        assert_eq!(out, hex(bytes));
        assert_eq!(FieldReader::new(&out, "").varint(), Ok(n));
    }
    assert_eq!(FieldReader::new(&hex("40 25"), "").varint(), Ok(37));
    assert!(FieldReader::new(&hex("9d 7f 3e"), "").varint().is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60), kind in 0u8..0x23) {
        let mut bytes = bytes;
        bytes.insert(0, kind);
        macro_rules! check {
            ($($of:ty),*) => {$(
                if let Ok(Some(message)) = <$of>::decode(&bytes) {
                    let mut again = Vec::new();
                    message.encode(&mut again);
                    prop_assert_eq!(<$of>::decode(&again), Ok(Some(message)));
                }
            )*};
        }
        check!(FromClient, FromServer, PersonInput);
    }
}
