//! Several viewers of one desktop, each behind a link of its own, in virtual time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use quickset_base::number::Unsigned as _;
use quickset_base::{Rng, Time};
use quickset_rfb::{Framebuffer, Rect};

use super::stage::{ClientSeat, ServerScreen};
use crate::message::ScreenOrder;
use crate::receiver::{ReceiverConfig, ScreenReceiver};
use crate::sender::{JpegQuality, LinkEstimate, ScreenItem, SenderConfig};

/// A client of the stage, and what is between them.
struct Looker {
    seat: ClientSeat,
    client: ScreenReceiver,
    link: SlowLink,
    /// Of each look: the squared error of a colour of a pixel, on average, and how old what is seen is.
    errors: Vec<f64>,
    ages: Vec<Duration>,
}

/// Loses nothing, and takes 20 ms each way.
struct SlowLink {
    /// Bytes a millisecond.
    rate: usize,
    waiting: VecDeque<(u64, Bytes)>,
    there: VecDeque<(Time, u64, Bytes)>,
    back: VecDeque<(Time, u64)>,
    credit: usize,
}

impl Looker {
    fn sits(stage: &ServerScreen, rate: usize, wish: Option<JpegQuality>) -> Self {
        let order = ScreenOrder::Fenced;
        let seat = stage.sit(SenderConfig { order, adaptive: true, ..SenderConfig::default() });
        seat.sender().wish_quality(wish);
        let (waiting, there, back) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Self {
            seat,
            client: ScreenReceiver::new(ReceiverConfig { order, ..ReceiverConfig::default() }),
            link: SlowLink { rate, waiting, there, back, credit: 0 },
            errors: Vec::new(),
            ages: Vec::new(),
        }
    }

    /// A millisecond.
    fn step(&mut self, now: Time) {
        let (mut sender, link) = (self.seat.sender(), &mut self.link);
        sender.set_link(LinkEstimate { rate: Some(link.rate as u64 * 1000), min_rtt: WAY * 2 });
        // As the gateway does: what waits leaves within 8 ms.
        let mut bytes: usize = link.waiting.iter().map(|(_, payload)| payload.len()).sum();
        while let Some(item) = sender.poll(now, (4096 + 8 * link.rate).saturating_sub(bytes)) {
            let ScreenItem::Message { id, payload, .. } = item else { continue };
            bytes += payload.len();
            link.waiting.push_back((id, payload));
        }
        link.credit = if link.waiting.is_empty() { 0 } else { link.credit + link.rate };
        while let Some((id, payload)) = first_if(&mut link.waiting, |(_, next)| next.len() <= link.credit) {
            link.credit -= payload.len();
            link.there.push_back((now + WAY, id, payload));
        }
        while let Some((at, id, payload)) = first_if(&mut link.there, |(at, ..)| *at <= now) {
            self.client.receive(&payload).unwrap();
            link.back.push_back((at + WAY, id));
        }
        while let Some((_, id)) = first_if(&mut link.back, |(at, _)| *at <= now) {
            sender.outcome(id, true);
        }
    }

    fn look(&mut self, now: Time, film: &PlayedFilm) {
        let seen = part(self.client.screen(), FILM);
        let Some(&(_, at)) = film.drawn.iter().rev().find(|(number, _)| number_of(&seen) == number % 8)
        else {
            return;
        };
        self.ages.push(now.since(at));
        self.errors.push(error(&seen, &film.picture));
    }
}

fn first_if<T>(queue: &mut VecDeque<T>, is_due: impl Fn(&T) -> bool) -> Option<T> {
    if queue.front().is_some_and(is_due) { queue.pop_front() } else { None }
}

/// A film that pans. The grey of its first 8 by 8 pixels says which picture it is, of eight.
struct PlayedFilm {
    texture: Vec<u32>,
    /// The newest.
    picture: Vec<u32>,
    /// The last eight, and when they were drawn.
    drawn: VecDeque<(usize, Time)>,
    next: usize,
}

impl PlayedFilm {
    fn new() -> Self {
        let mut rng = Rng::new(4);
        let mut values = vec![128_i32; SIDE * SIDE];
        for octave in 2..7_u32 {
            let (side, most) = (1_usize << octave, 90_u64 >> (octave - 2));
            let mut node =
                || i32::from(rng.below(2 * most + 1).saturated::<u16>()) - i32::from(most.saturated::<u16>());
            let nodes: Vec<i32> = (0..side * side).map(|_| node()).collect();
            let step = SIDE / side;
            for (at, value) in values.iter_mut().enumerate() {
                *value += nodes[at / SIDE / step * side + at % SIDE / step] / 2;
            }
        }
        let colour = |value: &i32| {
            let grey = u32::from(u8::try_from((*value).clamp(0, 200)).unwrap());
            grey * 0x01_0100 + grey / 2 + rng.below(49).saturated::<u32>() * 0x01_0101
        };
        let texture = values.iter().map(colour).collect();
        Self { texture, picture: Vec::new(), drawn: VecDeque::new(), next: 0 }
    }

    fn turn(&mut self, now: Time) -> &[u32] {
        let n = self.next;
        self.next += 1;
        let width = usize::from(FILM.width());
        let pixel = |at: usize| {
            let (x, y) = (at % width, at / width);
            if x < 8 && y < 8 {
                return (n % 8 * 32 + 16).saturated::<u32>() * 0x01_0101;
            }
            self.texture[(y + n) % SIDE * SIDE + (x + 2 * n) % SIDE]
        };
        self.picture = (0..FILM.area()).map(pixel).collect();
        self.drawn.push_back((n, now));
        if self.drawn.len() > 8 {
            self.drawn.pop_front();
        }
        &self.picture
    }
}

fn number_of(picture: &[u32]) -> usize {
    let middle = 3 * usize::from(FILM.width()) + 3;
    picture.get(middle).map_or(0, |pixel| (pixel >> 8 & 0xff) as usize / 32)
}

fn part(screen: &Framebuffer, rect: Rect) -> Vec<u32> {
    let mut pixels = Vec::new();
    screen.read(rect, &mut pixels).unwrap();
    pixels
}

fn error(a: &[u32], b: &[u32]) -> f64 {
    let colour = |pixel: u32, shift: u32| f64::from(pixel >> shift & 0xff);
    let one = |(a, b): (&u32, &u32)| {
        [0, 8, 16].iter().map(|&shift| (colour(*a, shift) - colour(*b, shift)).powi(2)).sum::<f64>()
    };
    a.iter().zip(b).map(one).sum::<f64>() / (3 * a.len()).approx()
}

/// A film of four seconds before viewers with these links (bytes a millisecond) and wishes, and then rest.
fn play(viewers: &[(usize, Option<JpegQuality>)]) -> Vec<Looker> {
    let time = Arc::new(Mutex::new(Time::from_millis(1000)));
    let stage = ServerScreen::played(1 << 24, time.clone());
    assert!(stage.begin(SCREEN.width(), SCREEN.height(), "desk"));
    stage.pixels(SCREEN, &vec![0x00ff_ffff; SCREEN.area()]);
    stage.update_end();
    let sit = |&(rate, wish): &(usize, Option<JpegQuality>)| Looker::sits(&stage, rate, wish);
    let mut lookers: Vec<Looker> = viewers.iter().map(sit).collect();
    let mut film = PlayedFilm::new();
    for ms in 0..8000 {
        let now = *time.lock().unwrap();
        if ms % 50 == 0 && ms < 4000 {
            stage.pixels(FILM, film.turn(now));
            stage.update_end();
        }
        for looker in &mut lookers {
            looker.step(now);
            // The first second has the beginning of the film in it.
            if (1000..4000).contains(&ms) && ms % 50 == 45 {
                looker.look(now, &film);
            }
        }
        *time.lock().unwrap() += Duration::from_millis(1);
    }
    for looker in &lookers {
        assert!(looker.seat.sender().is_at_rest());
        assert!(part(looker.client.screen(), FILM) == film.picture, "all have the same at rest");
        assert!(looker.client.screen() == looker.seat.sender().screen());
    }
    lookers
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().approx()
}

#[test]
fn each_viewer_has_what_its_own_link_carries() {
    // DT-80: 2 and 100 Mbit/s, alone and beside each other.
    let (slow, fast) = ((250, None), (12_500, None));
    let (slow_alone, fast_alone) = (&play(&[slow])[0], &play(&[fast])[0]);
    let both = play(&[slow, fast]);
    let (slow, fast) = (&both[0], &both[1]);
    let quality = |looker: &Looker| looker.seat.sender().stats().moving_quality;
    println!(
        "error {:.1} alone, {:.1} beside {:.1} ({:.1} alone); quality {} beside {}",
        mean(&fast_alone.errors),
        mean(&fast.errors),
        mean(&slow.errors),
        mean(&slow_alone.errors),
        quality(fast),
        quality(slow),
    );
    assert!(fast.errors.len() >= 50 && mean(&fast.errors) <= mean(&fast_alone.errors) * 1.01);
    assert!(mean(&slow.errors) <= mean(&slow_alone.errors) * 1.01);
    assert_eq!(quality(fast), JpegQuality::default().most());
    assert!(quality(slow) < 75, "{}", quality(slow));
    // What a slow one sees is never old: two pictures, and the way.
    let oldest = slow.ages.iter().max().unwrap();
    assert!(*oldest <= Duration::from_millis(200), "{oldest:?}");
    assert!(fast.ages.iter().max().unwrap() <= &Duration::from_millis(100));
}

#[test]
fn a_wish_for_a_quality_is_that_of_one_viewer() {
    // DT-84: on equal links.
    let wish = |least, most| JpegQuality::new(least, most);
    let lookers =
        play(&[(12_500, None), (12_500, wish(1, 40)), (12_500, wish(95, 100)), (250, wish(85, 90))]);
    let qualities: Vec<u8> =
        lookers.iter().map(|looker| looker.seat.sender().stats().moving_quality).collect();
    assert_eq!(qualities, [90, 40, 90, 85]);
    assert!(mean(&lookers[1].errors) > mean(&lookers[0].errors));
}

const WAY: Duration = Duration::from_millis(20);
const SCREEN: Rect = Rect::sized(320, 240);
const FILM: Rect = Rect::between(16, 16, 304, 224);
const SIDE: usize = 512;
