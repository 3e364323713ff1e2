//! Pixels in Tight, ZRLE, Hextile and Raw, as decoders see them that were written from the specifications.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![expect(clippy::cast_possible_truncation, reason = "numbers in tests are small, or cut on purpose")]

mod picture;

use picture::Picture;
use proptest::prelude::*;
use quickset_base::Rng;
use quickset_rfb::{ColourChannel, Framebuffer, Limits, PixelFormat, Rect, Security, Server, ServerConfig};

/// A viewer behind its handshake, with what it sees.
struct Viewer {
    server: Server,
    picture: Picture,
}

impl Viewer {
    fn new(screen: &Framebuffer, is_local: bool) -> Self {
        let (width, height) = (screen.width(), screen.height());
        let name = String::new();
        let limits = Limits::default();
        let config = ServerConfig { security: Security::None, name, width, height, is_local, limits };
        let mut server = Server::new(config, &mut Rng::new(1));
        hear(&mut server, b"RFB 003.008\n\x01\x01");
        server.output().clear();
        Self { server, picture: Picture::new(width.into(), height.into()) }
    }

    fn lists(&mut self, encodings: &[i32]) {
        let count = [2, 0, 0, encodings.len() as u8];
        let numbers = encodings.iter().flat_map(|n| n.to_be_bytes());
        hear(&mut self.server, &count.into_iter().chain(numbers).collect::<Vec<u8>>());
    }

    fn wants(&mut self, format: PixelFormat) {
        hear(&mut self.server, &[&[0; 4], &format.encode()[..]].concat());
        self.picture.set_format(format);
    }

    /// Is shown a part of the screen; how many bytes that took.
    fn shown(&mut self, rect: Rect, screen: &Framebuffer) -> usize {
        self.server.update().unwrap().pixels(rect, screen).unwrap();
        let bytes = self.server.output().split();
        self.picture.update(&bytes);
        bytes.len()
    }

    /// It sees in `rect` what is there, in its format.
    fn check(&self, rect: Rect, screen: &Framebuffer) {
        let format = self.server.format();
        for (y, row) in (rect.top()..).zip(screen.rows(rect).unwrap()) {
            for (x, &colour) in (rect.left()..).zip(row) {
                // The nearest value, halves up.
                let part = |c: ColourChannel, shift: u32| {
                    (((colour >> shift & 255) * u32::from(c.max) * 2 + 255) / 510) << c.shift
                };
                let wanted = part(format.red, 16) | part(format.green, 8) | part(format.blue, 0);
                let seen = self.picture.pixels[usize::from(y) * self.picture.width + usize::from(x)];
                assert_eq!(seen, wanted, "({x}, {y}) of {rect} in {format:?}");
            }
        }
    }
}

fn hear(server: &mut Server, mut bytes: &[u8]) {
    while server.receive(&mut bytes).unwrap().is_some() {}
}

const TIGHT: i32 = 7;
const ZRLE: i32 = 16;
const HEXTILE: i32 = 5;
const RAW: i32 = 0;

fn format(bits: u8, depth: u8, big_endian: bool, channels: [(u16, u8); 3]) -> PixelFormat {
    let [red, green, blue] = channels.map(|(max, shift)| ColourChannel { max, shift });
    PixelFormat { bits_per_pixel: bits, depth, big_endian, true_colour: true, red, green, blue }
}

fn formats() -> Vec<PixelFormat> {
    let mut formats = Vec::new();
    for big in [false, true] {
        formats.extend([
            format(32, 24, big, [(255, 16), (255, 8), (255, 0)]),
            // Colours in the three most significant bytes, in the middle, all over the place.
            format(32, 24, big, [(255, 8), (255, 16), (255, 24)]),
            format(32, 16, big, [(31, 19), (63, 13), (31, 8)]),
            format(32, 24, big, [(255, 24), (255, 12), (255, 0)]),
            format(32, 32, big, [(255, 16), (255, 8), (255, 0)]),
            format(32, 30, big, [(1023, 20), (1023, 10), (1023, 0)]),
            format(16, 16, big, [(31, 11), (63, 5), (31, 0)]),
            format(16, 15, big, [(31, 0), (31, 5), (31, 10)]),
            format(8, 8, big, [(7, 0), (7, 3), (3, 6)]),
        ]);
    }
    formats
}

/// Flat areas, text, gradients and noise in rectangles of any size.
fn scene(width: u16, height: u16, rng: &mut Rng) -> Framebuffer {
    let mut screen = Framebuffer::new(width, height, 1 << 26).unwrap();
    for _ in 0..12 {
        let mut below = |n: u16| rng.below(u64::from(n.max(1))) as u16;
        let (x, y) = (below(width), below(height));
        let rect = screen.bounds().clip(x, y, 1 + below(width), 1 + below(height));
        let kinds = [1, 2, 3, 5, 17, 130, 257, 1 << 24];
        let colours = kinds[usize::from(below(8))];
        let run = 1 + u64::from(below(300));
        let mut colour = 0;
        let pixels: Vec<u32> = (0..rect.area())
            .map(|_| {
                if rng.below(run) == 0 {
                    colour = (rng.below(colours) as u32).wrapping_mul(0x0054_3210) & 0x00ff_ffff;
                }
                colour
            })
            .collect();
        screen.put(rect, &pixels).unwrap();
    }
    screen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever a viewer lists and wants, and however often it changes that, it sees what is there: zlib
    /// streams go on.
    #[test]
    fn viewers_see_what_is_there(seed: u64, width in 1..300u16, height in 1..200u16, is_local: bool) {
        let mut rng = Rng::new(seed);
        let mut viewer = Viewer::new(&scene(width, height, &mut rng), is_local);
        let formats = formats();
        for _ in 0..12 {
            if rng.below(2) == 0 {
                let mut list = vec![[TIGHT, ZRLE, HEXTILE, RAW][rng.below(4) as usize]];
                if rng.below(2) == 0 {
                    list.push(-256 + rng.below(10) as i32);
                }
                viewer.lists(&list);
            }
            if rng.below(3) == 0 {
                viewer.wants(formats[rng.below(formats.len() as u64) as usize]);
            }
            let screen = scene(width, height, &mut rng);
            let mut below = |n: u16| rng.below(u64::from(n)) as u16;
            let rect = screen.bounds().clip(below(width), below(height), 1 + below(width), 1 + below(height));
            viewer.shown(rect, &screen);
            viewer.check(rect, &screen);
        }
    }
}

#[test]
fn the_first_that_is_listed_is_used() {
    let mut screen = Framebuffer::new(100, 100, 1 << 20).unwrap();
    screen.fill(Rect::sized(30, 70), 0x0012_3456).unwrap();
    for (list, used) in [
        (&[][..], RAW),
        (&[-239], RAW),
        (&[1, 21, -26, TIGHT, ZRLE, HEXTILE, RAW], TIGHT),
        (&[ZRLE, TIGHT, RAW], ZRLE),
        (&[HEXTILE, RAW, ZRLE], HEXTILE),
        (&[RAW, TIGHT], RAW),
    ] {
        let mut viewer = Viewer::new(&screen, false);
        viewer.lists(list);
        viewer.shown(screen.bounds(), &screen);
        viewer.check(screen.bounds(), &screen);
        let rects: Vec<i32> = viewer.picture.rects.keys().copied().collect();
        assert_eq!(rects, [used], "{list:?}");
    }
}

#[test]
fn every_format_in_every_encoding() {
    let screen = scene(131, 77, &mut Rng::new(8));
    for format in formats() {
        for encoding in [TIGHT, ZRLE, HEXTILE, RAW] {
            for is_local in [true, false] {
                let mut viewer = Viewer::new(&screen, is_local);
                viewer.lists(&[encoding]);
                viewer.wants(format);
                viewer.shown(screen.bounds(), &screen);
                viewer.check(screen.bounds(), &screen);
            }
        }
    }
}

#[test]
fn wide_screens_are_cut_where_tight_ends() {
    // 2048 columns, and one more.
    let mut screen = Framebuffer::new(4097, 70, 1 << 22).unwrap();
    for is_local in [true, false] {
        for noisy in [false, true] {
            if noisy {
                let mut rng = Rng::new(2);
                let pixels: Vec<u32> =
                    (0..screen.bounds().area()).map(|_| rng.below(1 << 24) as u32).collect();
                screen.put(screen.bounds(), &pixels).unwrap();
            }
            let mut viewer = Viewer::new(&screen, is_local);
            viewer.lists(&[TIGHT]);
            viewer.shown(screen.bounds(), &screen);
            viewer.check(screen.bounds(), &screen);
        }
        screen.fill(screen.bounds(), 7).unwrap();
    }
}

#[test]
fn what_is_flat_takes_no_bytes_and_what_is_not_no_packing() {
    let mut screen = Framebuffer::new(640, 480, 1 << 22).unwrap();
    let all = screen.bounds();
    let raw = all.area() * 4;
    let take = |screen: &Framebuffer, encoding: i32, is_local: bool| {
        let mut viewer = Viewer::new(screen, is_local);
        viewer.lists(&[encoding]);
        (viewer.shown(all, screen), viewer.picture.rects.clone())
    };
    // One colour: a fill of sixteen bytes for 2^18 pixels; tiles of four, and of one byte.
    assert!(take(&screen, TIGHT, true).0 < 200);
    assert!(take(&screen, ZRLE, true).0 < 1000);
    assert!(take(&screen, HEXTILE, true).0 < 2000);
    // Two colours, as of text: as it is, or a bit a pixel and less.
    for y in (0..480).step_by(2) {
        for x in (0..640).step_by(3) {
            screen.fill(Rect::new(x, y, 1, 1).unwrap(), 0x00ff_ffff).unwrap();
        }
    }
    for encoding in [TIGHT, ZRLE] {
        let (bytes, rects) = take(&screen, encoding, true);
        assert!(bytes < raw + 200 && rects[&RAW] <= 2, "{encoding}: {bytes}");
        assert!(take(&screen, encoding, false).0 < raw / 100, "{encoding}: packed");
    }
    // Noise: as it is on this machine, and in as few rectangles; packed elsewhere, which leaves out a byte in
    // four.
    let mut rng = Rng::new(3);
    let noise: Vec<u32> = (0..all.area()).map(|_| rng.below(1 << 24) as u32).collect();
    screen.put(all, &noise).unwrap();
    for encoding in [TIGHT, ZRLE, HEXTILE] {
        let (bytes, rects) = take(&screen, encoding, true);
        assert!(bytes < raw + 200 && rects[&RAW] <= 2 && rects.len() == 1, "{encoding}: {rects:?}");
    }
    for encoding in [TIGHT, ZRLE] {
        let (bytes, _) = take(&screen, encoding, false);
        assert!(bytes < raw * 78 / 100 && bytes > raw * 3 / 4, "{encoding}: {bytes}");
    }
}

#[test]
fn a_level_that_is_asked_for_counts_on_this_machine_too() {
    let screen = scene(400, 300, &mut Rng::new(5));
    let take = |list: &[i32], is_local: bool| {
        let mut viewer = Viewer::new(&screen, is_local);
        viewer.lists(list);
        viewer.shown(screen.bounds(), &screen)
    };
    for encoding in [TIGHT, ZRLE] {
        // -256 is level 0, and -247 level 9.
        let plain = take(&[encoding], true);
        assert_eq!(take(&[encoding, -256], true), plain);
        assert_eq!(take(&[encoding, -256], false), plain);
        assert!(take(&[encoding, -254], true) < plain * 3 / 4);
        assert!(take(&[encoding, -247], true) <= take(&[encoding, -255], true));
        assert_eq!(take(&[encoding, -255], true), take(&[encoding], false), "1 unless told");
    }
}
