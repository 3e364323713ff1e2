//! Both sides joined in memory, with bytes cut at random: what one says, the other hears.

#![expect(clippy::cast_possible_truncation, reason = "numbers in tests are small, or cut on purpose")]

use proptest::prelude::*;
use quickset_base::Rng;
use quickset_rfb::{
    Client, ClientConfig, ClientEvent, Cursor, ExtendedClipboard, Fence, Formats, Framebuffer, Leds, Limits,
    PixelFormat, Rect, Resize, ResizeReason, ResizeStatus, RfbExtension, Screen, Security, Server,
    ServerConfig, ServerEvent, UpdateWriter, VncPassword,
};

/// A viewer and a server, and what each has heard, with the viewer's picture of the screen.
struct Pair {
    client: Client,
    server: Server,
    rng: Rng,
    shown: Framebuffer,
    heard_by_client: Vec<String>,
    heard_by_server: Vec<ServerEvent>,
}

const MOST: usize = 1 << 22;

impl Pair {
    fn new(config: ClientConfig, security: Security, mut rng: Rng) -> Self {
        let limits = Limits::default();
        let name = "a desktop \u{1f332}".to_owned();
        let server_config = ServerConfig { security, name, width: 60, height: 40, is_local: true, limits };
        let server = Server::new(server_config, &mut rng);
        let shown = Framebuffer::new(0, 0, MOST).expect("nothing");
        let client = Client::new(config);
        let mut pair =
            Self { client, server, rng, shown, heard_by_client: Vec::new(), heard_by_server: Vec::new() };
        pair.run();
        pair
    }

    /// Carries bytes both ways until both are silent.
    fn run(&mut self) {
        loop {
            let (up, down) = (self.client.output().split(), self.server.output().split());
            if up.is_empty() && down.is_empty() {
                return;
            }
            let mut rest = &up[..];
            while !rest.is_empty() {
                let (mut chunk, after) = rest.split_at(self.cut(rest.len()));
                while let Some(event) = self.server.receive(&mut chunk).expect("our own bytes") {
                    self.heard_by_server.push(event);
                }
                rest = after;
            }
            let mut rest = &down[..];
            while !rest.is_empty() {
                let (mut chunk, after) = rest.split_at(self.cut(rest.len()));
                self.hear(&mut chunk);
                rest = after;
            }
        }
    }

    fn hear(&mut self, chunk: &mut &[u8]) {
        while let Some(event) = self.client.receive(chunk).expect("our own bytes") {
            match event {
                ClientEvent::Ready(init) => self.shown.resize(init.width, init.height).expect("small"),
                ClientEvent::Pixels { rect, pixels } => self.shown.put(rect, pixels).expect("inside"),
                ClientEvent::Copy { rect, x, y } => self.shown.copy(rect, x, y).expect("inside"),
                ClientEvent::Resize(r) => {
                    if r.status == ResizeStatus::Done {
                        self.shown.resize(r.width, r.height).expect("small");
                    }
                    self.heard_by_client.push(format!("{r:?}"));
                }
                other => self.heard_by_client.push(format!("{other:?}")),
            }
        }
    }

    fn cut(&mut self, len: usize) -> usize {
        let most = [1, 7, 100, 1 << 20][self.rng.below(4) as usize];
        (1 + self.rng.below(most) as usize).min(len)
    }
}

#[derive(Clone, Debug)]
enum Act {
    Fill(Rect, u32),
    Noise(Rect, u64),
    Copy(Rect, u16, u16),
    Resize(u16, u16),
    Leds(u8),
    Name(String),
    Cursor(u16, u16, u64),
    End,
}

fn act() -> impl Strategy<Value = Act> {
    let rect = || {
        (0u16..70, 0u16..50, 0u16..40, 0u16..30)
            .prop_map(|(x, y, w, h)| Rect::new(x, y, w, h).expect("small"))
    };
    prop_oneof![
        4 => (rect(), any::<u32>()).prop_map(|(r, c)| Act::Fill(r, c)),
        4 => (rect(), any::<u64>()).prop_map(|(r, s)| Act::Noise(r, s)),
        6 => (rect(), 0u16..60, 0u16..40).prop_map(|(r, x, y)| Act::Copy(r, x, y)),
        1 => (0u16..80, 0u16..60).prop_map(|(w, h)| Act::Resize(w, h)),
        1 => (0u8..8).prop_map(Act::Leds),
        1 => ".{0,20}".prop_map(Act::Name),
        1 => (0u16..20, 0u16..20, any::<u64>()).prop_map(|(w, h, s)| Act::Cursor(w, h, s)),
        3 => Just(Act::End),
    ]
}

fn noise(count: usize, seed: u64) -> Vec<u32> {
    let mut rng = Rng::new(seed);
    (0..count).map(|_| rng.next() as u32).collect()
}

/// Draws on the server's screen and sends what was drawn; tells what the client is to hear besides.
fn draw(pair: &mut Pair, screen: &mut Framebuffer, acts: &[Act]) -> Vec<String> {
    let mut told = Vec::new();
    for acts in acts.split_inclusive(|a| matches!(a, Act::End)) {
        let streamed = pair.rng.chance(0.5);
        let update = if streamed { pair.server.streamed_update() } else { pair.server.update() };
        let mut update = update.expect("ready");
        // All of them: an update without rectangles is not sent.
        let sent = acts.iter().filter(|act| perform(act, screen, &mut update, &mut told)).count();
        drop(update);
        if sent > 0 {
            told.push(format!("{:?}", ClientEvent::UpdateEnd));
        }
    }
    told
}

/// Whether a rectangle was sent.
fn perform(
    act: &Act,
    screen: &mut Framebuffer,
    update: &mut UpdateWriter<'_>,
    told: &mut Vec<String>,
) -> bool {
    match act {
        Act::Fill(rect, colour) => {
            let rect = screen.bounds().intersection(*rect);
            // An empty one may lie outside.
            let done = !rect.is_empty() && screen.fill(rect, *colour).is_ok();
            return done && update.raw(rect, screen).is_ok();
        }
        Act::Noise(rect, seed) => {
            let rect = screen.bounds().intersection(*rect);
            let done = !rect.is_empty() && screen.put(rect, &noise(rect.area(), *seed)).is_ok();
            return done && update.raw(rect, screen).is_ok();
        }
        Act::Copy(rect, x, y) => {
            let rect = screen.bounds().intersection(*rect);
            let done = !rect.is_empty() && screen.copy(rect, *x, *y).is_ok();
            return done && update.copy(rect, *x, *y).is_ok();
        }
        Act::Resize(width, height) => {
            screen.resize(*width, *height).expect("small");
            let screens = vec![Screen { id: 1, rect: Rect::sized(*width, *height), flags: 0 }];
            let (reason, status) = (ResizeReason::Server, ResizeStatus::Done);
            let resize = Resize { width: *width, height: *height, reason, status, screens };
            update.resize(&resize).expect("listed");
            told.push(format!("{resize:?}"));
        }
        Act::Leds(bits) => {
            let leds = Leds { scroll: bits & 1 != 0, num: bits & 2 != 0, caps: bits & 4 != 0 };
            update.leds(leds).expect("listed");
            told.push(format!("{:?}", ClientEvent::Leds(leds)));
        }
        Act::Name(name) => {
            update.name(name).expect("listed");
            told.push(format!("{:?}", ClientEvent::Name(name.clone())));
        }
        Act::Cursor(width, height, seed) => {
            let mut pixels = noise(*width as usize * *height as usize, *seed);
            for pixel in &mut pixels {
                *pixel &= 0x00ff_ffff;
            }
            let mask = noise((*width as usize).div_ceil(8) * *height as usize, *seed);
            let mask = mask.iter().map(|m| *m as u8).collect();
            let (hot_x, hot_y) = (width / 2, height / 2);
            let cursor = Cursor { width: *width, height: *height, hot_x, hot_y, pixels, mask };
            update.cursor(&cursor).expect("listed");
            told.push(format!("{:?}", ClientEvent::Cursor(cursor)));
        }
        Act::End => return false,
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_viewer_shows_what_the_server_drew(acts in prop::collection::vec(act(), 0..40), seed in any::<u64>()) {
        let mut pair = Pair::new(ClientConfig::default(), Security::None, Rng::new(seed));
        let mut screen = Framebuffer::new(60, 40, MOST).expect("small");
        // The announcement of QEMU keys goes with the first update.
        let full = pair.server.update().expect("ready").raw(screen.bounds(), &screen);
        full.expect("inside");
        pair.run();
        pair.heard_by_client.clear();
        let told = draw(&mut pair, &mut screen, &acts);
        pair.run();
        prop_assert_eq!(&pair.heard_by_client, &told);
        prop_assert_eq!(&pair.shown, &screen);
        prop_assert_eq!(pair.shown.crc32(), screen.crc32());
        prop_assert_eq!(pair.client.size(), Some((screen.width(), screen.height())));
    }

    #[test]
    fn narrow_formats_lose_only_what_they_must(seed in any::<u64>(), bits in 0usize..3, big_endian in any::<bool>()) {
        let mut format = PixelFormat { big_endian, ..PixelFormat::XRGB };
        let shape = [[(255, 8), (255, 16), (255, 24)], [(31, 11), (63, 5), (31, 0)], [(7, 0), (7, 3), (3, 6)]][bits];
        format.bits_per_pixel = [32, 16, 8][bits];
        for (channel, (max, shift)) in [&mut format.red, &mut format.green, &mut format.blue].into_iter().zip(shape) {
            (channel.max, channel.shift) = (max, shift);
        }
        let config = ClientConfig { format, ..ClientConfig::default() };
        let mut pair = Pair::new(config, Security::None, Rng::new(seed));
        let mut screen = Framebuffer::new(60, 40, MOST).expect("small");
        screen.put(screen.bounds(), &noise(2400, seed)).expect("as many");
        pair.server.update().expect("ready").raw(screen.bounds(), &screen).expect("inside");
        pair.run();
        for (sent, shown) in screen.pixels().iter().zip(pair.shown.pixels()) {
            for (i, (max, _)) in shape.into_iter().enumerate() {
                let at = 16 - 8 * i;
                let (a, b, max) = (sent >> at & 255, shown >> at & 255, u32::from(max));
                // Half a step of the narrow channel, and half of ours for the way back.
                prop_assert!(2 * a.abs_diff(b) * max <= 255 + max, "{:06x} {:06x}", sent, shown);
            }
        }
    }
}

#[test]
fn input_and_clipboard_arrive_as_they_were() {
    let password = VncPassword::new(b"correct horse");
    for seed in 0..20 {
        let config = ClientConfig { password: Some(password.clone()), ..ClientConfig::default() };
        let mut pair = Pair::new(config, Security::VncAuth(password.clone()), Rng::new(seed));
        let mut update = pair.server.update().expect("ready");
        let (reason, status) = (ResizeReason::Server, ResizeStatus::Done);
        update.resize(&Resize { width: 60, height: 40, reason, status, screens: vec![] }).expect("listed");
        drop(update);
        pair.run();
        let all = [
            RfbExtension::Fence,
            RfbExtension::ContinuousUpdates,
            RfbExtension::SetDesktopSize,
            RfbExtension::QemuKeys,
            RfbExtension::Clipboard,
        ];
        assert!(all.into_iter().all(|e| pair.client.supports(e)));
        pair.heard_by_server.clear();
        pair.heard_by_client.clear();

        let text = "Gr\u{fc}\u{df}e,\n\u{4e16}\u{754c}\n".repeat(seed as usize * 50);
        let fence = Fence { block_before: true, sync_next: true, payload: vec![9; 64], ..Fence::default() };
        let screens = vec![Screen { id: 7, rect: Rect::sized(5, 5), flags: 3 }; 255];
        let rect = Rect::new(3, 4, 5, 6).expect("small");
        let c = &mut pair.client;
        c.key(true, 0xff0d).expect("ready");
        c.key_code(false, 0xff53, 0xcd).expect("announced");
        c.pointer(0x81, 59, 39).expect("ready");
        c.text("Gr\u{fc}\u{df}e").expect("ready");
        c.clipboard(&ExtendedClipboard::Provide(Some(text.clone()))).expect("announced");
        c.clipboard(&ExtendedClipboard::Notify(Formats(0xffff))).expect("announced");
        c.clipboard(&ExtendedClipboard::Provide(None)).expect("announced");
        c.set_desktop_size(5, 5, &screens).expect("announced");
        c.continuous_updates(Some(rect)).expect("announced");
        c.continuous_updates(None).expect("announced");
        c.fence(&fence).expect("announced");
        pair.server.fence(&fence).expect("listed");
        pair.server.clipboard(&ExtendedClipboard::Provide(Some(text.clone()))).expect("listed");
        pair.server.text("Gr\u{fc}\u{df}e").expect("ready");
        pair.run();
        let expected = vec![
            ServerEvent::Key { down: true, keysym: 0xff0d, keycode: None },
            ServerEvent::Key { down: false, keysym: 0xff53, keycode: Some(0xcd) },
            ServerEvent::Pointer { buttons: 0x81, x: 59, y: 39 },
            ServerEvent::Text("Gr\u{fc}\u{df}e".to_owned()),
            ServerEvent::Clipboard(ExtendedClipboard::Provide(Some(text.clone()))),
            ServerEvent::Clipboard(ExtendedClipboard::Notify(Formats(0xffff))),
            ServerEvent::Clipboard(ExtendedClipboard::Provide(None)),
            ServerEvent::SetDesktopSize { width: 5, height: 5, screens },
            ServerEvent::ContinuousUpdates(Some(rect)),
            ServerEvent::ContinuousUpdates(None),
            ServerEvent::Fence(fence.clone()),
        ];
        assert_eq!(pair.heard_by_server, expected, "seed {seed}");
        let expected = [
            format!("{:?}", ClientEvent::Clipboard(ExtendedClipboard::Provide(Some(text)))),
            format!("{:?}", ClientEvent::Text("Gr\u{fc}\u{df}e".to_owned())),
            format!("{:?}", ClientEvent::ContinuousUpdatesEnded),
            format!("{:?}", ClientEvent::Fence(fence)),
        ];
        assert_eq!(pair.heard_by_client, expected, "seed {seed}");
    }
}
