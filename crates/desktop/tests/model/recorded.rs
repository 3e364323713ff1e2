//! A session over a lossy channel, recorded as a viewer's gateway does it: what is played is what was shown.

use std::io::Cursor;

use quickset_base::{Duration, Rng, Time};
use quickset_desktop::message::ScreenOrder;
use quickset_desktop::receiver::ScreenReceiver;
use quickset_desktop::recording::{RecordingPlayer, RecordingWriter};
use quickset_desktop::sender::SenderConfig;
use quickset_rfb::Framebuffer;

use crate::channel::{Channel, Pair};
use crate::scene::Scene;
use crate::{ORDERS, seeds};

/// What is written, and what was seen when.
pub(crate) struct Recorded {
    writer: RecordingWriter,
    by_pixels: bool,
    file: Vec<u8>,
    seen: Vec<(Time, Framebuffer)>,
}

impl Recorded {
    fn new(order: ScreenOrder) -> Self {
        let by_pixels = order == ScreenOrder::Latest;
        Self { writer: RecordingWriter::new(0), by_pixels, file: Vec::new(), seen: Vec::new() }
    }

    /// A message was drawn.
    pub(crate) fn message(&mut self, now: Time, message: &[u8]) {
        if !self.by_pixels {
            self.writer.message(now, message).unwrap();
        }
    }

    /// A session begins.
    pub(crate) fn lose(&mut self) {
        self.writer.lose();
    }

    /// What was drawn is shown.
    pub(crate) fn show(&mut self, now: Time, receiver: &mut ScreenReceiver) {
        let (changes, screen) = (receiver.changes(), receiver.screen());
        if screen.bounds().is_empty() {
            return;
        }
        if self.writer.wants_picture() || self.by_pixels && changes.resized {
            self.writer.picture(now, screen.clone());
        } else if self.by_pixels {
            for &rect in changes.damage.area().rects() {
                let mut pixels = Vec::new();
                screen.read(rect, &mut pixels).unwrap();
                self.writer.pixels(now, rect, &pixels).unwrap();
            }
        }
        self.writer.shown(now);
        self.file.extend(self.writer.take());
        self.seen.push((now, screen.clone()));
    }
}

fn session(order: ScreenOrder, seed: u64) -> Recorded {
    let mut rng = Rng::new(seed);
    let mut scene = Scene::new(64 + rng.below(150) as u16, 48 + rng.below(120) as u16, rng.fork());
    let config = SenderConfig { order, ..SenderConfig::default() };
    let mut pair = Pair::new(config, Channel::new(rng.fork(), [0.05, 0.3][seed as usize % 2]));
    pair.recorded = Some(Recorded::new(order));
    pair.draw(&scene.ready());
    for _ in 0..150 {
        match rng.below(20) {
            0..10 => {
                scene.update();
                for event in scene.events() {
                    pair.draw(&event);
                }
                pair.send(rng.below(4) as usize);
            }
            10..14 => pair.send(1 + rng.below(20) as usize),
            14..18 => pair.carry(1 + rng.below(20) as usize),
            18 if rng.chance(0.2) => pair.reconnect(config, &scene.whole()),
            _ => pair.pass(Duration::from_millis(rng.below(2000))),
        }
        pair.pass(Duration::from_millis(1));
        pair.show();
    }
    pair.settle();
    pair.show();
    scene.compare(pair.receiver.screen()).unwrap_or_else(|at| panic!("order {order}, seed {seed}: {at}"));
    let mut recorded = pair.recorded.take().unwrap();
    recorded.writer.end(pair.now());
    recorded.file.extend(recorded.writer.take());
    recorded
}

#[test]
fn what_a_lossy_session_has_shown_is_played_pixel_by_pixel() {
    // RC-6, RC-8, RC-12.
    for order in ORDERS {
        for seed in seeds(12) {
            let Recorded { file, seen, .. } = session(order, seed);
            let mut player = RecordingPlayer::open(Cursor::new(&file), 256 << 20).unwrap();
            assert!(player.facts().is_whole);
            let mut rng = Rng::new(seed);
            let some = (0..40).map(|_| &seen[rng.below(seen.len() as u64) as usize]);
            for (at, screen) in some.chain(seen.last()) {
                player.seek(*at).unwrap();
                assert_eq!(player.screen().pixels(), screen.pixels(), "order {order}, seed {seed}, at {at}");
            }
        }
    }
}
