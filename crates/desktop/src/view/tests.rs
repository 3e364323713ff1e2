//! Viewers joined to the desk without sockets: what they are shown, and what they do.

mod copies;
mod packing;

use std::sync::Arc;

use quickset_rfb::{
    Client, ClientConfig, ClientEvent, CopyRect, Cursor, Damage, Encoding, ExtendedClipboard as Extended,
    Formats, Framebuffer, Leds, PixelFormat, Rect, Resize, ResizeReason, ResizeStatus, Screen, Security,
};

use tokio::time::Instant;

use super::desk::ViewerScreen;
use super::inputs::Act;
use super::viewer::LocalViewer;
use crate::message::{ClipboardMessage, Permissions, PersonInput, ScreenOrder, Welcome};

const MIB: usize = 1 << 20;

/// A viewer with a screen of its own.
struct Person {
    viewer: LocalViewer,
    /// Its clock.
    now: Instant,
    rfb: Client,
    screen: Framebuffer,
    updates: usize,
    bells: usize,
    pixels: usize,
    copies: usize,
    said: Vec<String>,
    clipboard: Vec<Extended>,
    resizes: Vec<Resize>,
}

impl Person {
    fn new(desk: &Arc<ViewerScreen>, config: ClientConfig) -> Self {
        let mut person = Self {
            viewer: LocalViewer::new(desk, Security::None, true),
            now: Instant::now(),
            rfb: Client::new(config),
            screen: Framebuffer::new(0, 0, 64 * MIB).unwrap(),
            updates: 0,
            bells: 0,
            pixels: 0,
            copies: 0,
            said: Vec::new(),
            clipboard: Vec::new(),
            resizes: Vec::new(),
        };
        person.talk();
        person
    }

    /// With everything, or with the encodings given.
    fn with(desk: &Arc<ViewerScreen>, encodings: &[Encoding]) -> Self {
        Self::new(desk, ClientConfig { encodings: encodings.to_vec(), ..ClientConfig::default() })
    }

    fn request(&mut self, incremental: bool) {
        let (width, height) = self.rfb.size().unwrap();
        self.rfb.request(incremental, Rect::sized(width, height)).unwrap();
    }

    /// What the viewer says arrives.
    fn speak(&mut self) {
        let out = self.rfb.output().split();
        self.viewer.feed(self.now, &out).unwrap();
    }

    /// What the gateway says arrives.
    fn listen(&mut self) {
        self.viewer.compose(self.now);
        let out = self.viewer.rfb().output().split();
        let mut input = &out[..];
        while let Some(event) = self.rfb.receive(&mut input).unwrap() {
            match event {
                ClientEvent::Ready(init) => self.screen.resize(init.width, init.height).unwrap(),
                ClientEvent::Pixels { rect, pixels } => {
                    self.pixels += pixels.len();
                    self.screen.put(rect, pixels).unwrap();
                }
                ClientEvent::Copy { rect, x, y } => {
                    self.copies += 1;
                    self.screen.copy(rect, x, y).unwrap();
                }
                ClientEvent::UpdateEnd => self.updates += 1,
                ClientEvent::Resize(resize) => {
                    if resize.status == ResizeStatus::Done {
                        self.screen.resize(resize.width, resize.height).unwrap();
                    }
                    self.resizes.push(resize);
                }
                ClientEvent::Bell => self.bells += 1,
                ClientEvent::Cursor(cursor) => self.said.push(format!("cursor {}", cursor.width)),
                ClientEvent::Name(name) => self.said.push(format!("name {name}")),
                ClientEvent::Leds(leds) => self.said.push(format!("leds {}", leds.caps)),
                ClientEvent::Text(text) => self.said.push(format!("text {text}")),
                ClientEvent::Clipboard(message) => self.clipboard.push(message),
                _ => {}
            }
        }
    }

    /// Until nobody has anything to say.
    fn talk(&mut self) {
        for _ in 0..10 {
            self.listen();
            self.speak();
        }
    }
}

fn desk(width: u16, height: u16) -> Arc<ViewerScreen> {
    let desk = Arc::new(ViewerScreen::new(64 * MIB));
    desk.set_name("desk");
    desk.resize(width, height).unwrap();
    desk.set_may_wish(true);
    let (order, permissions, name) = (ScreenOrder::Fenced, Permissions::ALL, "desk".into());
    desk.inputs.begin(&Welcome { features: 0, order, permissions, name, visit: None }).unwrap();
    desk
}

/// Paints a rectangle, as the link does.
fn paint(desk: &ViewerScreen, rect: Rect, colour: u32) {
    let mut from = desk.lock().screen.clone();
    from.fill(rect, colour).unwrap();
    desk.draw(&from, &Damage::from(rect));
}

/// Copies a rectangle, as the link does.
fn scroll(desk: &ViewerScreen, to: Rect, x: u16, y: u16) {
    let mut from = desk.lock().screen.clone();
    from.copy(to, x, y).unwrap();
    let mut damage = Damage::new();
    damage.copy(CopyRect { to, x, y });
    desk.draw(&from, &damage);
}

/// A pixel a colour.
fn noise(width: u16, height: u16) -> Framebuffer {
    let pixels: Vec<u32> = (0..u32::from(width) * u32::from(height))
        .map(|n| n.wrapping_mul(2_654_435_761) & 0xff_ffff)
        .collect();
    let mut screen = Framebuffer::new(width, height, 64 * MIB).unwrap();
    screen.put(screen.bounds(), &pixels).unwrap();
    screen
}

fn rect(x: u16, y: u16, w: u16, h: u16) -> Rect {
    Rect::new(x, y, w, h).unwrap()
}

fn taken(desk: &ViewerScreen) -> Vec<Act> {
    use std::future::Future as _;
    let mut acts = Vec::new();
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    while let std::task::Poll::Ready(act) = Box::pin(desk.inputs.next()).as_mut().poll(&mut cx) {
        acts.push(act);
    }
    acts
}

#[test]
fn a_request_is_answered_once_with_what_has_changed() {
    let desk = desk(64, 48);
    paint(&desk, rect(0, 0, 64, 48), 0x0010_2030);
    let mut person = Person::with(&desk, &[Encoding::Raw]);
    assert_eq!(person.updates, 0, "nobody asked");
    person.request(false);
    person.talk();
    assert_eq!((person.updates, person.pixels), (1, 64 * 48));
    assert_eq!(person.screen, desk.lock().screen);
    person.request(true);
    person.talk();
    assert_eq!(person.updates, 1, "nothing has changed");
    paint(&desk, rect(1, 2, 3, 4), 7);
    person.talk();
    assert_eq!((person.updates, person.pixels), (2, 64 * 48 + 12));
    paint(&desk, rect(5, 5, 1, 1), 8);
    person.talk();
    assert_eq!(person.updates, 2, "nobody asked again");
    person.request(true);
    person.talk();
    assert_eq!(person.screen, desk.lock().screen);
    person.request(false);
    person.talk();
    assert_eq!(person.updates, 4, "a full request is answered even when nothing has changed");
}

#[test]
fn a_request_for_a_part_leaves_the_rest_for_later() {
    let desk = desk(64, 48);
    let mut person = Person::with(&desk, &[Encoding::Raw]);
    paint(&desk, rect(0, 0, 64, 48), 9);
    person.rfb.request(true, rect(0, 0, 10, 10)).unwrap();
    person.talk();
    assert_eq!(person.pixels, 100);
    person.request(true);
    person.talk();
    assert_eq!(person.pixels, 64 * 48);
    assert_eq!(person.screen, desk.lock().screen);
}

#[test]
fn a_viewer_that_does_not_read_costs_one_update_however_long() {
    let desk = desk(64, 48);
    let mut person = Person::new(&desk, ClientConfig::default());
    person.rfb.continuous_updates(Some(rect(0, 0, 64, 48))).unwrap();
    person.request(false);
    person.talk();
    paint(&desk, rect(0, 0, 64, 48), 1);
    person.viewer.compose(person.now);
    let waiting = person.viewer.rfb().output().len();
    for n in 0..1000 {
        paint(&desk, rect(n % 60, n % 40, 4, 4), n.into());
        person.viewer.compose(person.now);
    }
    assert_eq!(person.viewer.rfb().output().len(), waiting, "no more is written");
    person.talk();
    assert_eq!(person.screen, desk.lock().screen, "and nothing is lost");
    assert!(person.updates <= 4, "{} updates", person.updates);
}

#[test]
fn a_viewer_says_with_its_fences_when_it_can_take_more() {
    let desk = desk(64, 48);
    let mut person = Person::new(&desk, ClientConfig::default());
    person.rfb.continuous_updates(Some(rect(0, 0, 64, 48))).unwrap();
    person.request(false);
    person.talk();
    let before = person.updates;
    for n in 0..10 {
        paint(&desk, rect(n, n, 4, 4), n.into());
        person.listen();
    }
    assert_eq!(person.updates - before, 2, "two are under way, not more");
    person.talk();
    assert_eq!(person.screen, desk.lock().screen);
    assert_eq!(person.updates - before, 3, "the rest came as one");
}

#[test]
fn who_takes_all_changes_unasked_gets_them_whatever_it_asks_for_besides() {
    let desk = desk(64, 48);
    for late in [false, true] {
        let mut person = Person::new(&desk, ClientConfig::default());
        person.request(false);
        person.talk();
        // One waits for changes of a corner, as viewers do that show a part; none is there.
        let corner = |person: &mut Person| person.rfb.request(true, rect(0, 0, 4, 4)).unwrap();
        if !late {
            corner(&mut person);
        }
        person.rfb.continuous_updates(Some(rect(0, 0, 64, 48))).unwrap();
        if late {
            corner(&mut person);
        }
        person.talk();
        for n in 1..5 {
            paint(&desk, rect(20, 20, 9, 9), n + u32::from(late) * 9);
            person.talk();
            assert_eq!(person.screen, desk.lock().screen, "late: {late}, {n}");
        }
        // All of an area is given to whoever asks for it, all the same.
        person.pixels = 0;
        person.rfb.request(false, rect(0, 0, 4, 4)).unwrap();
        person.talk();
        assert_eq!(person.pixels, 16);
    }
}

#[tokio::test]
async fn who_talks_nonsense_and_does_not_read_is_left_and_lets_go_of_its_keys() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let desk = desk(3000, 3000);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut viewer = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (socket, _) = listener.accept().await.unwrap();
    let served = tokio::spawn(LocalViewer::serve(socket, desk.clone(), Security::None));
    // Version, None, shared, a request for 36 MB, and Shift.
    viewer.write_all(b"RFB 003.008\n\x01\x01").await.unwrap();
    viewer.write_all(&[3, 0, 0, 0, 0, 0, 0x0b, 0xb8, 0x0b, 0xb8]).await.unwrap();
    // Some of it is read, so that the rest is on its way.
    viewer.read_exact(&mut vec![0; 100_000]).await.unwrap();
    viewer.write_all(&[4, 1, 0, 0, 0, 0, 0xff, 0xe1, 0xee]).await.unwrap();
    let gone = tokio::time::timeout(std::time::Duration::from_secs(20), served).await;
    assert!(gone.expect("it is left").unwrap().is_err());
    let key = |down| Act::Input(PersonInput::Key { down, keysym: 0xffe1, keycode: None });
    assert_eq!(taken(&desk), [key(true), key(false)]);
}

#[test]
fn another_size_is_told_to_those_who_can_be_told() {
    let desk = desk(64, 48);
    let mut able = Person::new(&desk, ClientConfig::default());
    let mut plain = Person::with(&desk, &[Encoding::Raw, Encoding::DesktopSize]);
    let mut unable = Person::with(&desk, &[Encoding::Raw]);
    for person in [&mut able, &mut plain, &mut unable] {
        person.request(false);
        person.talk();
    }
    desk.resize(80, 40).unwrap();
    paint(&desk, rect(0, 0, 80, 40), 0x0033_4455);
    for person in [&mut able, &mut plain, &mut unable] {
        for _ in 0..3 {
            person.request(true);
            person.talk();
        }
    }
    assert_eq!(able.screen, desk.lock().screen);
    assert_eq!(plain.screen, desk.lock().screen);
    assert_eq!((unable.screen.width(), unable.screen.height()), (64, 48));
    assert_eq!(unable.screen.pixel(63, 39), Some(0x0033_4455), "it sees what fits");
    assert_eq!(unable.screen.pixel(63, 40), Some(0));
}

#[test]
fn pixels_leave_in_the_format_of_the_viewer() {
    let desk = desk(16, 16);
    paint(&desk, rect(0, 0, 16, 16), 0x00ff_0080);
    let channel = |max, shift| quickset_rfb::ColourChannel { max, shift };
    let (red, green, blue) = (channel(31, 11), channel(63, 5), channel(31, 0));
    let format =
        PixelFormat { bits_per_pixel: 16, depth: 16, big_endian: true, true_colour: true, red, green, blue };
    let mut person = Person::new(&desk, ClientConfig { format, ..ClientConfig::default() });
    person.request(false);
    person.talk();
    // 0x80 of 255 is 16 of 31, and that is 132 (0x84) of 255.
    assert_eq!(person.screen.pixel(3, 3), Some(0x00ff_0084));
}

#[test]
fn shapes_lamps_names_and_beeps_reach_everybody_late_comers_too() {
    let desk = desk(16, 16);
    let cursor = Cursor { width: 1, height: 1, pixels: vec![1], mask: vec![0x80], ..Cursor::default() };
    desk.set_cursor(cursor);
    desk.set_leds(Leds { caps: true, ..Leds::default() });
    let mut person = Person::new(&desk, ClientConfig::default());
    person.request(false);
    person.talk();
    assert_eq!(person.said, ["cursor 1", "leds true"]);
    desk.set_name("another");
    desk.bell();
    desk.bell();
    person.request(true);
    person.talk();
    assert_eq!((person.said.last().unwrap().as_str(), person.bells), ("name another", 1));
}

/// 3 by 2 pixels that point with the middle one of the lower row, of which the corners of the upper row are
/// seen through.
fn cross(colour: u32) -> Cursor {
    let pixels = (0..6).map(|n| colour + n).collect();
    Cursor { width: 3, height: 2, hot_x: 1, hot_y: 1, pixels, mask: vec![0b0100_0000, 0b1110_0000] }
}

/// The desk's screen with that pointer at (`x`, `y`), pixel by pixel.
fn pointed(desk: &ViewerScreen, colour: u32, x: i32, y: i32) -> Framebuffer {
    let mut screen = desk.lock().screen.clone();
    for (n, dx, dy) in [(1, 0, -1), (3, -1, 0), (4, 0, 0), (5, 1, 0)] {
        if let (Ok(x), Ok(y)) = (u16::try_from(x + dx), u16::try_from(y + dy)) {
            if screen.pixel(x, y).is_some() {
                screen.fill(rect(x, y, 1, 1), colour + n).unwrap();
            }
        }
    }
    screen
}

#[test]
fn who_has_no_pointer_of_its_own_sees_it_on_the_screen() {
    let desk = desk(64, 48);
    let from = noise(64, 48);
    desk.draw(&from, &Damage::from(rect(0, 0, 64, 48)));
    let mut person = Person::with(&desk, &[Encoding::Raw]);
    let mut other = Person::new(&desk, ClientConfig::default());
    let mut all = |at: Option<(i32, i32)>, colour: u32| {
        for seer in [&mut person, &mut other] {
            seer.request(true);
            seer.talk();
        }
        assert_eq!(other.screen, from, "whoever draws it does not get it twice");
        assert_eq!(desk.lock().screen, from, "and nothing of it stays");
        let wanted = at.map_or(from.clone(), |at| pointed(&desk, colour, at.0, at.1));
        assert_eq!(person.screen, wanted, "{at:?}");
    };
    all(None, 0);
    desk.set_cursor(cross(0x0011_2200));
    all(None, 0);
    let seat = desk.sit();
    let point = |x: u16, y: u16| seat.act(Act::Input(PersonInput::Pointer { buttons: 0, x, y }));
    // In the middle, over where it was, in and beyond each corner.
    for (x, y) in [(20, 20), (21, 20), (0, 0), (63, 47), (64, 48), (63, 0), (0, 47), (5000, 65535), (30, 9)] {
        point(x, y);
        all(Some((x.into(), y.into())), 0x0011_2200);
    }
    desk.set_cursor(cross(0x0044_5500));
    all(Some((30, 9)), 0x0044_5500);
    // None is smaller, and one is larger than what it was.
    desk.set_cursor(Cursor::default());
    all(None, 0);
    desk.set_cursor(cross(0x0066_7700));
    all(Some((30, 9)), 0x0066_7700);
}

#[test]
fn what_is_drawn_below_the_pointer_is_there_when_it_has_moved() {
    let desk = desk(64, 48);
    desk.set_cursor(cross(0x0011_2200));
    let mut person = Person::with(&desk, &[Encoding::Raw]);
    let see = |person: &mut Person| {
        person.request(true);
        person.talk();
    };
    person.rfb.pointer(0, 10, 10).unwrap();
    see(&mut person);
    assert_eq!(person.screen, pointed(&desk, 0x0011_2200, 10, 10));
    paint(&desk, rect(8, 9, 3, 5), 0x00ab_cdef);
    see(&mut person);
    assert_eq!(person.screen, pointed(&desk, 0x0011_2200, 10, 10));
    person.rfb.pointer(0, 40, 40).unwrap();
    see(&mut person);
    assert_eq!(person.screen, pointed(&desk, 0x0011_2200, 40, 40));
    // Where it is, but outside of what is asked for, is drawn later.
    person.rfb.pointer(0, 20, 20).unwrap();
    person.rfb.request(true, rect(30, 30, 34, 18)).unwrap();
    person.talk();
    assert_eq!(person.screen, desk.lock().screen, "away from there");
    see(&mut person);
    assert_eq!(person.screen, pointed(&desk, 0x0011_2200, 20, 20));
    desk.resize(30, 30).unwrap();
    desk.resize(64, 48).unwrap();
    see(&mut person);
    assert_eq!(person.screen, pointed(&desk, 0x0011_2200, 20, 20));
}

#[test]
fn a_viewer_may_begin_to_draw_the_pointer_and_cease() {
    let desk = desk(64, 48);
    desk.set_cursor(cross(0x0011_2200));
    let mut person = Person::with(&desk, &[Encoding::Raw]);
    person.rfb.pointer(0, 10, 10).unwrap();
    for _ in 0..2 {
        person.rfb.set_encodings(&[Encoding::Raw]).unwrap();
        person.request(true);
        person.talk();
        assert_eq!(person.screen, pointed(&desk, 0x0011_2200, 10, 10));
        assert_eq!(person.said, [""; 0]);
        person.rfb.set_encodings(&[Encoding::Raw, Encoding::Cursor]).unwrap();
        person.request(true);
        person.talk();
        assert_eq!(person.screen, desk.lock().screen);
        assert_eq!(std::mem::take(&mut person.said), ["cursor 3"]);
    }
    // It is not woken up for what it draws itself.
    let updates = person.updates;
    person.request(true);
    person.rfb.pointer(0, 11, 10).unwrap();
    person.talk();
    assert_eq!(person.updates, updates);
}

#[test]
fn keys_and_clicks_stay_in_order_and_are_let_go_when_the_viewer_is_gone() {
    let desk = desk(16, 16);
    let mut person = Person::with(&desk, &[Encoding::Raw]);
    for (buttons, x) in [(0, 1), (0, 2), (1, 2), (1, 3), (0, 3)] {
        person.rfb.pointer(buttons, x, 0).unwrap();
    }
    person.rfb.key(true, 0x61).unwrap();
    person.rfb.key(false, 0x61).unwrap();
    person.rfb.key(true, 0xffe1).unwrap();
    person.speak();
    let pointer = |buttons, x| Act::Input(PersonInput::Pointer { buttons, x, y: 0 });
    let key = |down, keysym| Act::Input(PersonInput::Key { down, keysym, keycode: None });
    // DT-10: the button goes down where it did.
    let clicks = [pointer(0, 2), pointer(1, 2), pointer(1, 3), pointer(0, 3)];
    let keys = [key(true, 0x61), key(false, 0x61), key(true, 0xffe1)];
    let all = [&clicks[..], &keys].concat();
    assert_eq!(taken(&desk), all);
    person.rfb.pointer(2, 9, 9).unwrap();
    person.speak();
    person.viewer.let_go();
    let gone = [
        Act::Input(PersonInput::Pointer { buttons: 2, x: 9, y: 9 }),
        key(false, 0xffe1),
        Act::Input(PersonInput::Pointer { buttons: 0, x: 9, y: 9 }),
    ];
    assert_eq!(taken(&desk), gone);
}

#[test]
fn texts_go_both_ways_with_the_extended_clipboard() {
    let desk = desk(16, 16);
    let clipboard = |c| Act::Input(PersonInput::Clipboard(c));
    let mut person = Person::new(&desk, ClientConfig::default());
    person.request(false);
    person.talk();
    taken(&desk);
    person.clipboard.clear();
    // From the server: offered, asked for, given.
    desk.text_offered();
    person.talk();
    assert_eq!(person.clipboard, [Extended::Notify(Formats::TEXT)]);
    assert!(taken(&desk).is_empty(), "nobody pastes yet");
    person.rfb.clipboard(&Extended::Request(Formats::TEXT)).unwrap();
    person.talk();
    assert_eq!(taken(&desk), [clipboard(ClipboardMessage::Ask)]);
    desk.text_came("grüße ☺");
    person.talk();
    assert_eq!(person.clipboard.last(), Some(&Extended::Provide(Some("grüße ☺".into()))));
    person.rfb.clipboard(&Extended::Request(Formats::TEXT)).unwrap();
    person.talk();
    assert_eq!(person.clipboard.len(), 3, "the second time it is there already");
    assert!(taken(&desk).is_empty());
    // To the server.
    person.rfb.clipboard(&Extended::Notify(Formats::TEXT)).unwrap();
    person.talk();
    assert_eq!(taken(&desk), [clipboard(ClipboardMessage::Offer)]);
    desk.text_asked();
    person.talk();
    assert_eq!(person.clipboard.last(), Some(&Extended::Request(Formats::TEXT)));
    person.rfb.clipboard(&Extended::Provide(Some("ja".into()))).unwrap();
    person.talk();
    assert_eq!(taken(&desk), [clipboard(ClipboardMessage::Paste("ja".into()))]);
    drop(person);
    desk.text_asked();
    assert_eq!(taken(&desk), [clipboard(ClipboardMessage::Paste(String::new()))], "nobody waits for ever");
}

/// By the extended clipboard's text, a viewer that lists it and says nothing of it takes texts unasked.
#[test]
fn a_text_comes_as_the_viewer_takes_it() {
    enum Comes {
        Utf8,
        Latin1,
        WhenAsked,
    }
    let caps = |flags: u32, most: u32| {
        let [flags, most] = [flags, most].map(u32::to_be_bytes);
        [&[6, 0, 0, 0, 0xff, 0xff, 0xff, 0xf8][..], &flags, &most].concat()
    };
    let table = [
        (vec![], Comes::Utf8),
        (caps(0x1100_0001, 20 << 20), Comes::Utf8),
        (caps(0x1100_0001, 3), Comes::Latin1),
        (caps(0x1f00_0001, 0), Comes::WhenAsked),
        (caps(0x0900_0001, 0), Comes::WhenAsked),
        // No texts.
        (caps(0x1f00_0004, 0), Comes::Latin1),
    ];
    for (n, (caps, comes)) in table.into_iter().enumerate() {
        let desk = desk(16, 16);
        let mut person = Person::with(&desk, &[]);
        person.viewer.feed(person.now, &[2, 0, 0, 2, 0, 0, 0, 0, 0xc0, 0xa1, 0xe5, 0xce]).unwrap();
        person.viewer.feed(person.now, &caps).unwrap();
        person.listen();
        (person.clipboard, person.said) = Default::default();
        taken(&desk);
        desk.text_offered();
        person.listen();
        let asked = taken(&desk) == [Act::Input(PersonInput::Clipboard(ClipboardMessage::Ask))];
        assert_eq!(asked, !matches!(comes, Comes::WhenAsked), "{n}");
        desk.text_came("h世");
        person.listen();
        let heard = (person.clipboard.as_slice(), person.said.as_slice());
        match comes {
            Comes::Utf8 => assert_eq!(heard, (&[Extended::Provide(Some("h世".into()))][..], &[][..]), "{n}"),
            Comes::Latin1 => assert_eq!(heard, (&[][..], &["text h?".to_owned()][..]), "{n}"),
            Comes::WhenAsked => {
                assert!(
                    heard.0.iter().all(|said| *said == Extended::Notify(Formats::TEXT)),
                    "{n}: {heard:?}"
                );
                assert!(!heard.0.is_empty() && heard.1.is_empty(), "{n}: {heard:?}");
            }
        }
    }
}

#[test]
fn however_often_it_is_asked_for_a_text_is_given_once() {
    let desk = desk(16, 16);
    let mut person = Person::new(&desk, ClientConfig::default());
    desk.text_came("a text");
    person.talk();
    for _ in 0..2 {
        person.clipboard.clear();
        for _ in 0..100 {
            person.rfb.clipboard(&Extended::Request(Formats::TEXT)).unwrap();
        }
        person.talk();
        assert_eq!(person.clipboard, [Extended::Provide(Some("a text".into()))]);
    }
}

#[test]
fn viewers_of_the_old_kind_get_every_text() {
    let desk = desk(16, 16);
    let mut person = Person::with(&desk, &[Encoding::Raw]);
    desk.text_offered();
    person.talk();
    assert_eq!(taken(&desk), [Act::Input(PersonInput::Clipboard(ClipboardMessage::Ask))]);
    desk.text_came("hello");
    person.talk();
    assert_eq!(person.said, ["text hello"]);
    person.rfb.text("back").unwrap();
    person.talk();
    assert_eq!(taken(&desk), [Act::Input(PersonInput::Clipboard(ClipboardMessage::Paste("back".into())))]);
}

#[test]
fn a_wish_is_answered_to_the_viewer_who_had_it() {
    let desk = desk(16, 16);
    let mut one = Person::new(&desk, ClientConfig::default());
    let mut other = Person::new(&desk, ClientConfig::default());
    for person in [&mut one, &mut other] {
        person.request(false);
        person.talk();
        person.resizes.clear();
    }
    let screens = vec![Screen { id: 5, rect: rect(0, 0, 20, 10), flags: 0 }];
    one.rfb.set_desktop_size(20, 10, &screens).unwrap();
    one.talk();
    assert!(matches!(taken(&desk)[..], [Act::Wish { width: 20, height: 10, .. }]));
    let (reason, status) = (ResizeReason::ThisClient, ResizeStatus::Done);
    desk.set_layout(&Resize { width: 20, height: 10, reason, status, screens: screens.clone() });
    desk.resize(20, 10).unwrap();
    for person in [&mut one, &mut other] {
        person.request(true);
        person.talk();
    }
    assert_eq!((one.resizes[0].reason, one.resizes[0].screens.clone()), (reason, screens));
    assert_eq!(other.resizes[0].reason, ResizeReason::Server);
    // Two in quick succession, of which the second is not granted.
    one.resizes.clear();
    for (width, height) in [(40, 10), (50, 10)] {
        one.rfb.set_desktop_size(width, height, &[]).unwrap();
    }
    one.talk();
    assert_eq!(taken(&desk).len(), 2);
    desk.set_layout(&Resize { width: 40, height: 10, reason, status, screens: Vec::new() });
    let no = ResizeStatus::InvalidLayout;
    desk.set_layout(&Resize { width: 0, height: 0, reason, status: no, screens: Vec::new() });
    one.request(true);
    one.talk();
    assert!(one.resizes.iter().all(|r| r.reason != reason), "the screen has its old size yet");
    desk.resize(40, 10).unwrap();
    one.request(true);
    one.talk();
    let answers: Vec<_> = one.resizes.iter().filter(|r| r.reason == reason).map(|r| r.status).collect();
    assert_eq!(answers, [ResizeStatus::Done, no]);
    desk.resize(20, 10).unwrap();
    other.request(true);
    other.talk();
    // Nobody there to grant it.
    desk.inputs.end();
    other.rfb.set_desktop_size(30, 10, &[]).unwrap();
    other.request(true);
    other.talk();
    assert_eq!(other.resizes.last().unwrap().status, ResizeStatus::Prohibited);
    assert_eq!((other.screen.width(), other.screen.height()), (20, 10));
}

#[test]
fn what_a_viewer_is_told_is_as_it_was_when_the_desk_was_looked_at() {
    let encodings = [Encoding::Raw, Encoding::Tight, Encoding::Zrle, Encoding::Hextile];
    for (is_local, encoding) in encodings.into_iter().flat_map(|e| [(false, e), (true, e)]) {
        let desk = desk(200, 100);
        let mut person = Person::with(&desk, &[encoding, Encoding::ExtendedDesktopSize]);
        person.viewer = LocalViewer::new(&desk, Security::None, is_local);
        person.rfb = Client::new(ClientConfig { encodings: vec![encoding], ..ClientConfig::default() });
        person.talk();
        person.request(false);
        person.speak();
        // Some of each kind of piece: one colour, two, many, and rectangles that lie apart.
        paint(&desk, rect(0, 0, 200, 100), 0x0010_2030);
        paint(&desk, rect(70, 20, 3, 50), 0x00ff_0000);
        let noise: Vec<u32> = (0..90 * 64_u32).map(|n| n.wrapping_mul(2_654_435_761) >> 8).collect();
        let mut from = desk.lock().screen.clone();
        from.put(rect(101, 13, 90, 64), &noise).unwrap();
        desk.draw(&from, &Damage::from(rect(101, 13, 90, 64)));
        let then = desk.lock().screen.clone();
        let telling = person.viewer.look().unwrap();
        // What others do meanwhile waits for nothing, and comes with the next update.
        paint(&desk, rect(50, 10, 100, 80), 0x0000_ff00);
        person.viewer.tell(person.now, telling);
        person.listen();
        assert_eq!(person.screen, then, "{encoding:?}, local: {is_local}");
        person.request(true);
        person.talk();
        assert_eq!(person.screen, desk.lock().screen, "{encoding:?}, local: {is_local}");
        assert_eq!(person.updates, 2);
    }
}

#[test]
fn words_in_the_corner_are_painted_for_viewers_and_gone_when_they_are_not_wanted() {
    let desk = desk(200, 100);
    paint(&desk, rect(0, 0, 200, 100), 0x0080_4020);
    let mut person = Person::with(&desk, &[Encoding::Raw]);
    let update = |person: &mut Person| {
        person.request(true);
        person.talk();
    };
    update(&mut person);
    let plain = desk.lock().screen.clone();
    // Nobody wants them yet.
    desk.set_overlay(&["rate 1".into()]);
    update(&mut person);
    assert_eq!(person.screen, plain);
    desk.begin_overlay();
    desk.set_overlay(&["rate 12".into(), "way".into()]);
    update(&mut person);
    let area = desk.lock().overlay.shown().unwrap().area(plain.bounds());
    assert_eq!((area.right(), area.top()), (200, 0));
    let colours = |person: &Person, area: Rect| {
        let mut pixels = Vec::new();
        person.screen.read(area, &mut pixels).unwrap();
        pixels.sort_unstable();
        pixels.dedup();
        pixels
    };
    assert_eq!(colours(&person, area), [0x0020_1008, 0x00ff_ffff], "white on what is darkened");
    assert_eq!(
        person.screen.crc32_of(rect(0, 0, area.left(), 100)),
        plain.crc32_of(rect(0, 0, area.left(), 100))
    );
    assert_eq!(desk.lock().screen, plain, "of the picture nothing is lost");
    // What is below them changes, and so do they.
    paint(&desk, rect(150, 0, 50, 100), 0x0000_ff00);
    update(&mut person);
    assert_eq!(colours(&person, rect(199, 0, 1, 1)), [0x0000_3f00]);
    desk.set_overlay(&["rate".into()]);
    update(&mut person);
    assert_eq!(person.screen.pixel(area.left(), 0), plain.pixel(area.left(), 0), "the box is smaller");
    // Control, Alt, Shift and O hide them, and O is not for the server.
    let press = |person: &mut Person, keys: &[(bool, u32)]| {
        for &(down, keysym) in keys {
            person.rfb.key(down, keysym).unwrap();
        }
        person.speak();
        update(person);
    };
    let keys = [(true, 0xffe3), (true, 0xffe9), (true, 0xffe1), (true, 0x4f), (true, 0x4f), (false, 0x4f)];
    press(&mut person, &keys);
    assert_eq!(person.screen, desk.lock().screen);
    let passed = |desk: &ViewerScreen| {
        let acts = taken(desk).into_iter();
        let key =
            |act| if let Act::Input(PersonInput::Key { keysym, .. }) = act { Some(keysym) } else { None };
        acts.filter_map(key).collect::<Vec<_>>()
    };
    assert_eq!(passed(&desk), [0xffe3, 0xffe9, 0xffe1]);
    press(&mut person, &keys[3..]);
    assert_ne!(person.screen, desk.lock().screen, "they are shown again");
    // Without one of these keys it is a letter.
    press(&mut person, &[(false, 0xffe1), (true, 0x6f), (false, 0x6f)]);
    assert_eq!(passed(&desk), [0xffe1, 0x6f, 0x6f]);
}
