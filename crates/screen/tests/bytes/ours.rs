//! Both our ends, and a path between them that loses nothing.

use quickset_base::{Duration, Time};
use quickset_rfb::{ClientEvent, Framebuffer, Rect, Resize, ResizeReason, ResizeStatus};
use quickset_screen::ItemKind;
use quickset_screen::message::ScreenOrder;
use quickset_screen::receiver::{ReceiverConfig, ScreenReceiver};
use quickset_screen::sender::{JpegQuality, ScreenItem, ScreenSender, SenderConfig, SenderStats};

use crate::scenes::SceneDraw;

/// A sender and its receiver.
pub(crate) struct OurEnds {
    sender: ScreenSender,
    receiver: ScreenReceiver,
    now: Time,
    /// What is encoded and decoded goes through the functions whose instructions are counted.
    pub(crate) is_counted: bool,
}

/// What an update took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OurCost {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
}

impl OurEnds {
    pub(crate) fn new(order: ScreenOrder, adaptive: bool, size: (u16, u16)) -> Self {
        let config =
            SenderConfig { order, budget: BUDGET, adaptive, patches: adaptive, ..SenderConfig::default() };
        Self::with(config, size)
    }

    /// Ends of now, with this quality of JPEG.
    pub(crate) fn of_quality(quality: JpegQuality, size: (u16, u16)) -> Self {
        let config = SenderConfig { quality, budget: BUDGET, adaptive: true, ..SenderConfig::default() };
        Self::with(SenderConfig { full_colour: true, patches: true, ..config }, size)
    }

    fn with(config: SenderConfig, (width, height): (u16, u16)) -> Self {
        let receiver = ReceiverConfig { order: config.order, ..ReceiverConfig::default() };
        let mut ends = Self {
            sender: ScreenSender::new(config),
            receiver: ScreenReceiver::new(receiver),
            now: Time::from_millis(1),
            is_counted: false,
        };
        let (reason, status) = (ResizeReason::Server, ResizeStatus::Done);
        ends.tell(&ClientEvent::Resize(Resize { width, height, reason, status, screens: Vec::new() }));
        ends
    }

    /// Draws an update, and sends it.
    pub(crate) fn update(&mut self, draws: &[SceneDraw]) -> OurCost {
        for draw in draws {
            match draw {
                SceneDraw::Put(rect, pixels) => self.tell(&ClientEvent::Pixels { rect: *rect, pixels }),
                SceneDraw::Copy(rect, x, y) => self.tell(&ClientEvent::Copy { rect: *rect, x: *x, y: *y }),
            }
        }
        self.tell(&ClientEvent::UpdateEnd);
        self.send()
    }

    /// Lets the screen rest, and sends what is then sent without loss.
    pub(crate) fn rest(&mut self) -> OurCost {
        self.now += Duration::from_millis(400);
        let cost = self.send();
        assert!(self.sender.is_at_rest());
        cost
    }

    /// What the receiver shows.
    pub(crate) fn shown(&self) -> &Framebuffer {
        self.receiver.screen()
    }

    pub(crate) fn stats(&self) -> &SenderStats {
        self.sender.stats()
    }

    fn tell(&mut self, event: &ClientEvent<'_>) {
        self.sender.rfb(self.now, event).unwrap();
    }

    fn send(&mut self) -> OurCost {
        let mut messages = Vec::new();
        let (encode, decode): (EncodeAll, DecodeAll) =
            if self.is_counted { (counted_encode, counted_decode) } else { (encode, decode) };
        encode(&mut self.sender, self.now, &mut messages);
        let mut cost = OurCost::default();
        for (id, payload) in &messages {
            cost.messages += 1;
            cost.bytes += payload.len();
            self.sender.outcome(*id, true);
        }
        decode(&mut self.receiver, &messages);
        cost
    }
}

type EncodeAll = fn(&mut ScreenSender, Time, &mut Vec<(u64, bytes::Bytes)>);
type DecodeAll = fn(&mut ScreenReceiver, &[(u64, bytes::Bytes)]);

/// A function of its own, whose name `cargo xtask bytes --instructions` gives callgrind.
#[inline(never)]
fn counted_encode(sender: &mut ScreenSender, now: Time, messages: &mut Vec<(u64, bytes::Bytes)>) {
    encode(sender, now, messages);
}

fn encode(sender: &mut ScreenSender, now: Time, messages: &mut Vec<(u64, bytes::Bytes)>) {
    while let Some(item) = sender.poll(now, usize::MAX) {
        if let ScreenItem::Message { id, payload, .. } = item {
            messages.push((id, payload));
        }
    }
}

/// Another one.
#[inline(never)]
fn counted_decode(receiver: &mut ScreenReceiver, messages: &[(u64, bytes::Bytes)]) {
    decode(receiver, messages);
}

fn decode(receiver: &mut ScreenReceiver, messages: &[(u64, bytes::Bytes)]) {
    for (_, payload) in messages {
        receiver.receive(payload).unwrap();
    }
}

impl OurCost {
    pub(crate) fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

/// How a stats' items are spread over the kinds, in bytes.
pub(crate) fn kinds(stats: &SenderStats) -> String {
    let share = |kind: ItemKind| {
        let count = stats.of(kind);
        (count.items > 0).then(|| format!("{} {} of {} B", count.items, kind.name(), count.bytes))
    };
    ItemKind::ALL.into_iter().filter_map(share).collect::<Vec<_>>().join(", ")
}

/// The screen as the server has it, for what is compared with it.
pub(crate) fn draw(screen: &mut Framebuffer, draws: &[SceneDraw]) -> (quickset_rfb::Region, usize) {
    let (mut changed, mut copies) = (quickset_rfb::Region::new(), 0);
    for draw in draws {
        match draw {
            SceneDraw::Put(rect, pixels) => {
                screen.put(*rect, pixels).unwrap();
                changed.add(*rect);
            }
            SceneDraw::Copy(rect, x, y) => {
                screen.copy(*rect, *x, *y).unwrap();
                copies += 1;
            }
        }
    }
    (changed, copies)
}

/// The screen of a scene.
pub(crate) fn blank((width, height): (u16, u16)) -> Framebuffer {
    let mut screen = Framebuffer::new(width, height, 1 << 26).unwrap();
    screen.fill(Rect::sized(width, height), 0).unwrap();
    screen
}

/// What fits a packet of a path that takes 1500 bytes.
const BUDGET: usize = 1400;
