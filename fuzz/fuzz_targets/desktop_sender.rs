//! A screen as a VNC server draws it, on its way to the client's gateway: whatever was drawn, asked for,
//! lost, overtaken or late, the client shows at rest what a plain list of pixels says.
//!
//! The first byte of the input says the order, the second how long messages are. Operations follow, or with
//! the fifth bit of the first byte the bytes of a VNC server.
#![no_main]

use std::collections::VecDeque;

use libfuzzer_sys::fuzz_target;
use quickset_base::{Duration, Time};
use quickset_desktop::message::{FromClient, FromServer, Refresh, ScreenMark, ScreenOrder};
use quickset_desktop::receiver::{ReceiverConfig, ScreenReceiver};
use quickset_desktop::sender::{ScreenItem, ScreenSender, SenderConfig};
use quickset_fuzz::Bytes;
use quickset_rfb::{Client, ClientConfig, ClientEvent, Limits, Rect, Resize, ResizeReason, ResizeStatus};

fuzz_target!(|input: &[u8]| {
    let mut bytes = Bytes(input);
    let flags = bytes.next();
    let order = [ScreenOrder::Ordered, ScreenOrder::Fenced, ScreenOrder::Latest, ScreenOrder::Fenced]
        [usize::from(flags & 3)];
    let budget = 1000 + 4 * usize::from(bytes.next());
    let rest = Duration::from_millis(if flags & 4 == 0 { 300 } else { 0 });
    let (adaptive, patches) = (flags & 32 != 0, flags & 64 != 0);
    let config =
        SenderConfig { order, budget, rest, adaptive, patches, max_bytes: MOST, ..SenderConfig::default() };
    let mut world = World::new(config);
    if flags & 16 == 0 {
        world.resize(40 + u16::from(bytes.next()), 30 + u16::from(bytes.next()));
        for _ in 0..OPERATIONS {
            if bytes.is_empty() {
                break;
            }
            world.operate(&mut bytes);
        }
    } else {
        world.hear(bytes.0);
    }
    world.settle();
});

/// Two gateways, what is between them, and what is to be shown.
struct World {
    config: SenderConfig,
    sender: ScreenSender,
    receiver: ScreenReceiver,
    picture: Picture,
    now: Time,
    /// On their way, in the sender's order.
    under_way: Vec<Flight>,
    segment: u64,
    marks: Vec<ScreenMark>,
    answers: VecDeque<FromClient>,
    /// Answers stay where they are.
    deaf: bool,
}

struct Flight {
    id: u64,
    payload: Vec<u8>,
    keep: bool,
    segment: u64,
}

impl World {
    fn new(config: SenderConfig) -> Self {
        let receiver = ReceiverConfig { order: config.order, max_bytes: MOST, ..ReceiverConfig::default() };
        Self {
            config,
            sender: ScreenSender::new(config),
            receiver: ScreenReceiver::new(receiver),
            picture: Picture::default(),
            now: Time::from_millis(1),
            under_way: Vec::new(),
            segment: 0,
            marks: Vec::new(),
            answers: VecDeque::new(),
            deaf: false,
        }
    }

    fn operate(&mut self, bytes: &mut Bytes<'_>) {
        let op = bytes.next();
        match op % 16 {
            0..3 => self.draw(bytes),
            3 | 4 => self.copy(bytes),
            5 => self.tell(&ClientEvent::UpdateEnd),
            6 => self.send(usize::from(op >> 4) + 1),
            7 => self.carry(bytes.next(), true),
            8 => self.carry(bytes.next(), false),
            9 => self.pass(u64::from(bytes.next()) * 2),
            10 => self.resize(u16::from(bytes.next()), u16::from(bytes.next())),
            11 => self.sender.point(u16::from(bytes.next()), u16::from(bytes.next())),
            12 => self.demand(op >> 4, bytes),
            13 => self.deaf = op >> 4 & 1 == 1,
            14 => self.beyond(bytes),
            _ if op >> 4 == 0 => self.reconnect(),
            _ => {
                for _ in 0..op >> 4 {
                    self.send(4);
                    (0..4).for_each(|_| self.carry(0, true));
                }
            }
        }
    }

    /// Events that come of a VNC server's bytes, while some of it is under way.
    fn hear(&mut self, mut bytes: &[u8]) {
        let limits = Limits { framebuffer_bytes: MOST, text_bytes: 1000 };
        let mut client = Client::new(ClientConfig { limits, ..ClientConfig::default() });
        let mut greeting = GREETING;
        while let Ok(Some(event)) = client.receive(&mut greeting) {
            self.tell(&event);
        }
        // What follows a fault is not heard any more.
        while let Ok(Some(event)) = client.receive(&mut bytes) {
            self.tell(&event);
            self.send(1);
            self.carry(1, self.sender.stats().messages % 7 != 0);
        }
    }

    /// What the server draws, for the gateway and for the picture.
    fn tell(&mut self, event: &ClientEvent<'_>) {
        let fits = self.picture.draw(event);
        assert_eq!(self.sender.rfb(self.now, event).is_ok(), fits, "{:?}", self.sender.screen());
    }

    fn resize(&mut self, width: u16, height: u16) {
        let (reason, status) = (ResizeReason::Server, ResizeStatus::Done);
        self.tell(&ClientEvent::Resize(Resize { width, height, reason, status, screens: Vec::new() }));
    }

    /// A rectangle inside the picture, if there is one.
    fn rect(&self, bytes: &mut Bytes<'_>) -> Rect {
        let [x, y, width, height] = [(); 4].map(|()| u16::from(bytes.next()));
        let (x, y) = (x % self.picture.width.max(1), y % self.picture.height.max(1));
        Rect::between(x, y, (x + width).min(self.picture.width), (y + height).min(self.picture.height))
    }

    fn draw(&mut self, bytes: &mut Bytes<'_>) {
        let rect = self.rect(bytes);
        let (how, colour) = (bytes.next(), u32::from(bytes.next()) * 0x0001_0307);
        let mut noise = u32::from(how) | 1;
        let mut shade = |i: usize| {
            let (x, y) = (i % usize::from(rect.width()), i / usize::from(rect.width()));
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match how % 5 {
                0 => colour,
                1 => [colour, 0x00ff_ffff][usize::from(noise >> 29 == 0)],
                2 => colour + (x * 2 + y) as u32 * 0x0001_0101,
                3 => noise >> 8,
                // Few colours, in rows.
                _ => colour + (y as u32 % (u32::from(how) / 5 + 1)),
            }
        };
        let pixels: Vec<u32> = (0..rect.area()).map(&mut shade).collect();
        self.tell(&ClientEvent::Pixels { rect, pixels: &pixels });
    }

    fn copy(&mut self, bytes: &mut Bytes<'_>) {
        let rect = self.rect(bytes);
        let [x, y] = [bytes.next(), bytes.next()].map(u16::from);
        let x = x % (self.picture.width - rect.width()).max(1);
        let y = y % (self.picture.height - rect.height()).max(1);
        self.tell(&ClientEvent::Copy { rect, x, y });
    }

    /// Pixels where none are; nothing comes of it.
    fn beyond(&mut self, bytes: &mut Bytes<'_>) {
        let (width, height) = (self.picture.width, self.picture.height);
        let (more, side) = (u16::from(bytes.next()), bytes.next());
        let rect = Rect::new(width, height, more, 1).expect("it is small");
        if side & 1 == 0 {
            self.tell(&ClientEvent::Pixels { rect, pixels: &vec![1; rect.area()] });
        } else {
            self.tell(&ClientEvent::Copy { rect: Rect::sized(width, height), x: more, y: 0 });
        }
    }

    /// The server's gateway sends up to `n` messages.
    fn send(&mut self, n: usize) {
        for _ in 0..n {
            match self.sender.poll(self.now, usize::MAX) {
                None => break,
                Some(ScreenItem::Fence) => self.segment += 1,
                Some(ScreenItem::Flush) => {}
                Some(ScreenItem::Message { id, payload, keep }) => {
                    assert!(payload.len() <= self.config.budget);
                    assert!(keep || self.config.order == ScreenOrder::Latest);
                    let segment = self.segment;
                    self.under_way.push(Flight { id, payload: payload.to_vec(), keep, segment });
                }
            }
        }
        while let Some(id) = self.sender.superseded() {
            assert_eq!(self.config.order, ScreenOrder::Latest);
            // Every other one is too late to be given up.
            let at = self.under_way.iter().position(|flight| flight.id == id && id % 2 == 0);
            if let Some(at) = at {
                self.under_way.remove(at);
                self.sender.outcome(id, false);
            }
        }
        while let Some(FromServer::Mark(mark)) = self.sender.control(self.now) {
            self.marks.push(mark);
        }
    }

    /// One of the oldest segment arrives, or is lost; the highest bit of `which` says that the sender is told
    /// of a loss.
    fn carry(&mut self, which: u8, arrives: bool) {
        if let Some(oldest) = self.under_way.first().map(|flight| flight.segment) {
            let n = self.under_way.iter().take_while(|flight| flight.segment == oldest).count();
            let flight = self.under_way.remove(usize::from(which & 0x7f) % n);
            if !arrives && flight.keep {
                // It is sent again, behind all others of its segment.
                self.under_way.insert(n - 1, flight);
                return;
            }
            if arrives {
                self.receiver.receive(&flight.payload).expect("what ours say");
            }
            self.sender.outcome(flight.id, arrives && (flight.keep || which & 0x80 == 0));
        }
        for mark in self.marks.drain(..) {
            self.receiver.mark(self.now, mark);
        }
        self.answer();
    }

    fn answer(&mut self) {
        while let Some(message) = self.receiver.control(self.now) {
            self.answers.push_back(message);
        }
        while !self.deaf {
            match self.answers.pop_front() {
                None => return,
                Some(FromClient::Unable { item }) => self.sender.unable(item),
                Some(FromClient::Refresh(refresh)) => {
                    if refresh.restart {
                        self.under_way.clear();
                    }
                    self.sender.refresh(&refresh);
                }
                Some(other) => panic!("{other:?}"),
            }
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
    }

    /// What a client may say without a reason.
    fn demand(&mut self, what: u8, bytes: &mut Bytes<'_>) {
        let [a, b] = [bytes.next(), bytes.next()].map(u16::from);
        let rect = Rect::between(a, b, a.saturating_mul(3), 60_000);
        self.answers.push_back(match what {
            0 => FromClient::Refresh(Refresh { restart: true, rect }),
            1..8 => FromClient::Refresh(Refresh { restart: false, rect }),
            _ => FromClient::Unable { item: u64::from(a) << (b % 16) },
        });
    }

    /// A new connection with the client's gateway, which keeps its screen.
    fn reconnect(&mut self) {
        self.sender = ScreenSender::new(self.config);
        self.receiver.reconnected(self.config.order);
        self.under_way.clear();
        self.marks.clear();
        self.answers.clear();
        let picture = std::mem::take(&mut self.picture);
        self.resize(picture.width, picture.height);
        let rect = Rect::sized(picture.width, picture.height);
        self.tell(&ClientEvent::Pixels { rect, pixels: &picture.pixels });
    }

    /// Until both say that nothing is left to do.
    fn settle(&mut self) {
        self.deaf = false;
        self.tell(&ClientEvent::UpdateEnd);
        let mut quiet = 0;
        for _ in 0..ROUNDS {
            self.send(64);
            (0..64).for_each(|_| self.carry(0, true));
            self.pass(50);
            let idle = self.under_way.is_empty() && self.answers.is_empty();
            // Where nothing was ever said of a size there is nothing to come to rest.
            let sized = self.sender.is_at_rest() || self.picture == Picture::default();
            let done = idle && sized && self.receiver.next_deadline().is_none();
            quiet = if done { quiet + 1 } else { 0 };
            if quiet > 3 {
                let screen = self.receiver.screen();
                assert_eq!((screen.width(), screen.height()), (self.picture.width, self.picture.height));
                assert!(screen.pixels() == self.picture.pixels, "it shows something else");
                return;
            }
        }
        panic!("no rest: {:?}, {:?}", self.sender.stats(), self.receiver.stats());
    }
}

/// A screen as a list of pixels.
#[derive(Default, PartialEq)]
struct Picture {
    width: u16,
    height: u16,
    pixels: Vec<u32>,
}

impl Picture {
    /// False when it does not fit, and nothing was done.
    fn draw(&mut self, event: &ClientEvent<'_>) -> bool {
        match event {
            ClientEvent::Pixels { rect, pixels } => self.put(*rect, pixels),
            ClientEvent::Copy { rect, x, y } => {
                let from = rect.moved_to(*x, *y).filter(|from| self.holds(*from));
                let Some(from) = from else { return false };
                let lifted: Vec<u32> = self.places(from).map(|at| self.pixels[at]).collect();
                self.put(*rect, &lifted)
            }
            ClientEvent::Resize(Resize { width, height, status: ResizeStatus::Done, .. }) => {
                self.resize(*width, *height)
            }
            ClientEvent::Ready(init) => self.resize(init.width, init.height),
            _ => true,
        }
    }

    fn put(&mut self, rect: Rect, pixels: &[u32]) -> bool {
        if !self.holds(rect) {
            return false;
        }
        let places: Vec<usize> = self.places(rect).collect();
        places.into_iter().zip(pixels).for_each(|(at, pixel)| self.pixels[at] = pixel & 0x00ff_ffff);
        true
    }

    fn resize(&mut self, width: u16, height: u16) -> bool {
        let mut pixels = vec![0; usize::from(width) * usize::from(height)];
        for y in 0..height.min(self.height) {
            for x in 0..width.min(self.width) {
                pixels[usize::from(y) * usize::from(width) + usize::from(x)] = self.pixels[self.at(x, y)];
            }
        }
        (self.width, self.height, self.pixels) = (width, height, pixels);
        true
    }

    fn holds(&self, rect: Rect) -> bool {
        rect.right() <= self.width && rect.bottom() <= self.height
    }

    fn places(&self, rect: Rect) -> impl Iterator<Item = usize> {
        let width = usize::from(self.width);
        let rows = usize::from(rect.top())..usize::from(rect.bottom());
        rows.flat_map(move |y| (rect.left()..rect.right()).map(move |x| y * width + usize::from(x)))
    }

    fn at(&self, x: u16, y: u16) -> usize {
        usize::from(y) * usize::from(self.width) + usize::from(x)
    }
}

/// Of one input, so that it takes no longer than a second.
const OPERATIONS: usize = 150;

/// Rounds of 50 ms until all is said: the client is patient for 3 s, then for longer.
const ROUNDS: usize = 10_000;

/// Bytes of a screen.
const MOST: usize = 1 << 20;

/// Version 3.8, None, OK, 64x48 in XRGB, no name.
const GREETING: &[u8] = b"RFB 003.008\n\x01\x01\0\0\0\0\0\x40\0\x30\
    \x20\x18\0\x01\0\xff\0\xff\0\xff\x10\x08\0\0\0\0\0\0\0\0";
