//! Films and photographs over a link of some rate, in virtual time.

use quickset_base::{Duration, Rng};
use quickset_rfb::{Resize, ResizeReason};

use super::*;
use crate::receiver::{ReceiverConfig, ScreenReceiver};

#[path = "../../tests/bytes/film.rs"]
#[expect(dead_code, reason = "what is compared with Tight")]
mod film;

const WAY: Duration = Duration::from_millis(30);
const SCREEN: Rect = Rect::sized(1024, 512);
/// A quarter of a film of 512 by 288, so that tests are four times as fast; links have a quarter of its rate.
const FILM: Rect = Rect::between(64, 64, 320, 208);
const TICK: Duration = Duration::from_millis(1);

/// A sender, a link and a client.
struct Far {
    sender: ScreenSender,
    client: ScreenReceiver,
    now: Time,
    /// Bytes a millisecond.
    rate: usize,
    /// What the transport says of the link.
    says: bool,
    /// Handed over: what has not left yet, what is on the way, and outcomes on the way back.
    waiting: VecDeque<(u64, Bytes)>,
    there: VecDeque<(Time, u64, Bytes)>,
    back: VecDeque<(Time, u64)>,
    credit: usize,
    reel: Reel,
}

/// A film, and what is seen of it.
struct Reel {
    /// From one picture to the next; `None`: it does not play.
    every: Option<Duration>,
    next: Time,
    drawn: Vec<Time>,
    seen: usize,
    lags: Vec<Duration>,
    /// When a newer picture was seen, from edge to edge.
    at: Vec<Time>,
}

impl Reel {
    fn new() -> Self {
        Self { every: None, next: Time::ZERO, drawn: Vec::new(), seen: 0, lags: Vec::new(), at: Vec::new() }
    }

    /// What a client sees: the number of the oldest picture of which something is still there.
    fn look(&mut self, now: Time, screen: &Framebuffer) {
        let newest = self.drawn.len();
        let mut oldest = newest;
        for y in (FILM.top() + 3..FILM.bottom()).step_by(32) {
            for x in (FILM.left() + 3..FILM.right()).step_by(32) {
                let pixel = screen.pixels()[usize::from(y) * usize::from(screen.width()) + usize::from(x)];
                let code = (pixel >> 8 & 0xff) as usize / 32;
                // Of the last eight.
                let back = (newest + 8 - 1 - code) % 8;
                oldest = oldest.min(newest.saturating_sub(back));
            }
        }
        if oldest > self.seen {
            self.at.push(now);
            self.lags.extend(self.drawn[self.seen..oldest].iter().map(|drawn| now.since(*drawn)));
            self.seen = oldest;
        }
    }

    /// The 95th percentile of the lags since, and the longest gap between pictures.
    fn figures(&mut self) -> (Duration, Duration) {
        let gap = self.at.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap();
        self.lags.sort();
        let p95 = self.lags[self.lags.len() * 95 / 100];
        self.lags.clear();
        self.at.clear();
        (p95, gap)
    }
}

impl Far {
    fn new(config: SenderConfig, rate: usize) -> Self {
        let order = config.order;
        let mut far = Self {
            sender: ScreenSender::new(config),
            client: ScreenReceiver::new(ReceiverConfig { order, ..ReceiverConfig::default() }),
            now: Time::from_millis(1000),
            rate,
            says: true,
            waiting: VecDeque::new(),
            there: VecDeque::new(),
            back: VecDeque::new(),
            credit: 0,
            reel: Reel::new(),
        };
        let (reason, status) = (ResizeReason::Server, ResizeStatus::Done);
        let (width, height) = (SCREEN.width(), SCREEN.height());
        let resize = Resize { width, height, reason, status, screens: Vec::new() };
        far.sender.rfb(far.now, &ClientEvent::Resize(resize)).unwrap();
        far.draw(SCREEN, &vec![0xff_ffff; SCREEN.area()]);
        far.run(Duration::from_millis(200));
        assert!(far.sender.is_at_rest());
        far
    }

    fn draw(&mut self, rect: Rect, pixels: &[u32]) {
        self.sender.rfb(self.now, &ClientEvent::Pixels { rect, pixels }).unwrap();
        self.sender.rfb(self.now, &ClientEvent::UpdateEnd).unwrap();
    }

    /// The film plays from now on, so many pictures a second; 0: it stops.
    fn play(&mut self, pictures: u32) {
        self.reel.every = (pictures > 0).then(|| Duration::from_secs(1) / pictures);
        self.reel.next = self.now;
    }

    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    fn step(&mut self) {
        if let Some(every) = self.reel.every.filter(|_| self.reel.next <= self.now) {
            self.reel.next += every;
            self.reel.drawn.push(self.now);
            let picture = film::picture(self.reel.drawn.len() - 1, FILM);
            self.draw(FILM, &picture);
        }
        let rate = self.says.then_some(self.rate as u64 * 1000);
        self.sender.set_link(LinkEstimate { rate, min_rtt: WAY * 2 });
        // As the gateway does.
        let mut bytes: usize = self.waiting.iter().map(|(_, payload)| payload.len()).sum();
        while let Some(outgoing) = self.sender.poll(self.now, (4096 + 8 * self.rate).saturating_sub(bytes)) {
            let ScreenItem::Message { id, payload, .. } = outgoing else { continue };
            bytes += payload.len();
            self.waiting.push_back((id, payload));
        }
        self.credit += self.rate;
        while let Some((_, payload)) = self.waiting.front() {
            if payload.len() > self.credit {
                break;
            }
            self.credit -= payload.len();
            let (id, payload) = self.waiting.pop_front().unwrap();
            self.there.push_back((self.now + WAY, id, payload));
        }
        if self.waiting.is_empty() {
            self.credit = 0;
        }
        self.now += TICK;
        let mut came = false;
        while self.there.front().is_some_and(|(at, ..)| *at <= self.now) {
            let (at, id, payload) = self.there.pop_front().unwrap();
            self.client.receive(&payload).unwrap();
            self.back.push_back((at + WAY, id));
            came = true;
        }
        while self.back.front().is_some_and(|(at, _)| *at <= self.now) {
            self.sender.outcome(self.back.pop_front().unwrap().1, true);
        }
        if came && self.reel.every.is_some() {
            self.reel.look(self.now, self.client.screen());
        }
    }

    /// The client has exactly this.
    fn has(&self, rect: Rect) -> bool {
        let read = |screen: &Framebuffer| {
            let mut pixels = Vec::new();
            screen.read(rect, &mut pixels).unwrap();
            pixels
        };
        read(self.sender.screen()) == read(self.client.screen())
    }

    /// How long until it has.
    fn until(&mut self, rect: Rect) -> Duration {
        let begin = self.now;
        while !self.has(rect) {
            self.step();
            assert!(self.now < begin + Duration::from_secs(20), "it never comes");
        }
        self.now.since(begin)
    }

    fn lossless(&self) -> u64 {
        [ItemKind::RgbZstd, ItemKind::Rgb].iter().map(|kind| self.sender.stats().of(*kind).pixels).sum()
    }
}

/// Black letters, soft at their edges.
fn text(rng: &mut Rng, rect: Rect) -> Vec<u32> {
    (0..rect.area()).map(|_| rng.below(6) as u32 * 0x33_3333).collect()
}

const ORDERS: [ScreenOrder; 3] = [ScreenOrder::Ordered, ScreenOrder::Fenced, ScreenOrder::Latest];

fn in_order(order: ScreenOrder) -> SenderConfig {
    SenderConfig { order, adaptive: true, ..SenderConfig::default() }
}

#[test]
fn a_film_over_5_mbit_is_seen_soon_and_without_a_pause() {
    for order in ORDERS {
        for says in [true, false] {
            let mut far = Far::new(in_order(order), 156);
            far.says = says;
            far.play(20);
            far.run(Duration::from_secs(4));
            let start = far.reel.figures();
            far.run(Duration::from_secs(6));
            let (lag, gap) = far.reel.figures();
            let quality = far.sender.stats().moving_quality;
            println!("{order} {says}: p95 {lag:?}, gap {gap:?}, quality {quality}; at first {start:?}");
            assert!(
                lag <= Duration::from_millis(130) && gap <= Duration::from_millis(100),
                "{lag:?} {gap:?}"
            );
            assert!(start.0 <= Duration::from_millis(300), "{start:?}");
            assert!(quality >= 40, "{quality}: most of the link is used");
        }
    }
}

#[test]
fn quality_falls_with_the_rate_and_returns() {
    // DT-80: whatever codes the client takes, and whether the transport says what the link carries or not.
    let quality = JpegQuality::new(25, 88).unwrap();
    for (says, adaptive) in [(true, true), (false, true), (false, false)] {
        let mut far = Far::new(SenderConfig { quality, adaptive, ..SenderConfig::default() }, 1200);
        far.says = says;
        far.play(20);
        let mut seen = Vec::new();
        for rate in [1200, 75, 15, 75, 1200] {
            far.rate = rate;
            let mut phase = Vec::new();
            for _ in 0..60 {
                far.run(Duration::from_millis(100));
                let now = far.sender.stats().moving_quality;
                assert!(now == 0 || (25..=88).contains(&now), "{now}");
                phase.push(now);
            }
            // It has come to rest by then, and does not go up and down before somebody's eyes.
            let late = &phase[25..];
            seen.push((*late.iter().min().unwrap(), *late.iter().max().unwrap()));
        }
        let (retries, jpeg) = (far.sender.stats().retries, far.sender.stats().of(ItemKind::Jpeg).items);
        println!("{says} {adaptive}: {seen:?}, {retries} of {jpeg} pieces again");
        assert!(retries * 20 <= jpeg, "{retries} of {jpeg} were encoded twice");
        assert!([0, 4].iter().all(|&n| seen[n].0 >= 87), "{seen:?}");
        assert_eq!(seen[2].0, 25);
        for (low, high) in [seen[1], seen[3]] {
            assert!((32..80).contains(&low) && high - low <= 15, "{seen:?}");
        }
        assert!(seen[1].0.abs_diff(seen[3].0) <= 8 && seen[1].1.abs_diff(seen[3].1) <= 8, "{seen:?}");
        far.play(0);
        far.until(SCREEN);
        far.run(Duration::from_secs(1));
        assert!(far.sender.is_at_rest());
    }
}

#[test]
fn a_photograph_has_the_quality_that_comes_soon() {
    let photograph = |rate| {
        let mut far = Far::new(SenderConfig::default(), rate);
        let picture = film::picture(0, FILM);
        far.draw(FILM, &picture);
        far.until(FILM);
        far.run(Duration::from_millis(200));
        assert!(far.sender.is_at_rest(), "and it is exact in the end");
        (far.sender.stats().still_quality, far.sender.stats().of(ItemKind::Jpeg).bytes)
    };
    // DT-80: 3000 bytes are a quarter of a second.
    let [fast, slow, slowest] = [12_500, 12, 5].map(photograph);
    println!("{fast:?} {slow:?} {slowest:?}");
    assert_eq!((fast.0, slowest.0), (90, 30));
    assert!((30..90).contains(&slow.0) && (2300..3600).contains(&slow.1), "{slow:?}");
}

#[test]
fn a_photograph_without_loss_takes_no_more_by_adaptive_codes() {
    // Its upper rows have few colours, too.
    let [others, adaptive] = [false, true].map(|adaptive| {
        let mut far = Far::new(SenderConfig { adaptive, ..SenderConfig::default() }, 12_500);
        let picture = film::picture(0, FILM);
        far.draw(FILM, &picture);
        far.until(FILM);
        far.run(Duration::from_millis(200));
        assert!(far.sender.is_at_rest());
        far.sender.stats().bytes
    });
    println!("{adaptive} bytes, {others} by the other codes");
    assert!(adaptive * 100 <= others * 103, "{adaptive}, {others} by the other codes");
}

#[test]
fn text_is_exact_at_any_quality_and_does_not_wait_for_the_film_beside_it() {
    // DT-81: 30 ms on the way, 34 behind what waits already, and a message or two.
    let quality = JpegQuality::new(1, 10).unwrap();
    for config in ORDERS.map(in_order).into_iter().chain([SenderConfig {
        quality,
        adaptive: true,
        ..SenderConfig::default()
    }]) {
        let mut far = Far::new(config, 156);
        let mut rng = Rng::new(8);
        far.play(20);
        far.run(Duration::from_secs(2));
        let lossy = |far: &Far| far.sender.stats().of(ItemKind::Jpeg);
        let mut waits = Vec::new();
        for n in 0..30 {
            // A key each 70 ms or so, left of, right of and below the film.
            let line = [rect(16, 100), rect(640, 200), rect(300, 400)][n % 3];
            let letter = Rect::new(line.left() + n as u16 % 4 * 8, line.top(), 8, 16).unwrap();
            let pixels = text(&mut rng, letter);
            far.draw(letter, &pixels);
            waits.push(far.until(letter));
            far.run(Duration::from_millis(rng.below(40)));
        }
        waits.sort();
        println!("{config:?}: {:?} {:?}", waits[waits.len() / 2], waits.last());
        assert!(*waits.last().unwrap() <= Duration::from_millis(90), "{waits:?}");
        let before = lossy(&far).pixels;
        far.play(0);
        far.run(Duration::from_millis(200));
        // A page of text is no film, however often it is turned.
        let page = Rect::between(600, 0, 1024, 512);
        let after = lossy(&far);
        for _ in 0..8 {
            let pixels = text(&mut rng, page);
            far.draw(page, &pixels);
            far.run(Duration::from_millis(100));
        }
        assert_eq!(lossy(&far), after, "{before}");
        far.until(SCREEN);
    }
}

fn rect(x: u16, y: u16) -> Rect {
    Rect::new(x, y, 16, 16).unwrap()
}

#[test]
fn a_page_of_text_beside_a_film_takes_twice_as_long_and_stops_neither() {
    // DT-81: one message in two.
    let page = Rect::between(576, 0, 1024, 256);
    let mut rng = Rng::new(9);
    let pixels = text(&mut rng, page);
    let mut quiet = Far::new(SenderConfig::default(), 156);
    quiet.draw(page, &pixels);
    let alone = quiet.until(page);
    let mut far = Far::new(SenderConfig::default(), 156);
    far.play(20);
    far.run(Duration::from_secs(2));
    far.reel.figures();
    let before = far.reel.seen;
    far.draw(page, &pixels);
    let beside = far.until(page);
    let pictures = far.reel.seen - before;
    println!("{alone:?} alone, {beside:?} beside {pictures} pictures");
    assert!(beside <= alone * 5 / 2 + Duration::from_millis(100), "{beside:?}, {alone:?} alone");
    assert!(pictures as u128 >= beside.as_millis() / 250, "{pictures} in {beside:?}");
}

#[test]
fn what_moves_is_not_made_lossless_and_what_rests_is() {
    // DT-26, DT-81.
    let mut far = Far::new(SenderConfig::default(), 600);
    far.play(20);
    far.run(Duration::from_secs(1));
    // Slower than an area may rest: the pictures of a film all the same.
    far.play(4);
    let before = far.lossless();
    far.run(Duration::from_secs(4));
    assert_eq!(far.lossless(), before);
    // A photograph beside it rests, and is refreshed without a halt of the film.
    let beside = Rect::between(640, 0, 768, 128);
    let picture = film::picture(7, beside);
    far.play(20);
    far.draw(beside, &picture);
    far.reel.figures();
    far.until(beside);
    let (lag, gap) = far.reel.figures();
    assert!(lag <= Duration::from_millis(130) && gap <= Duration::from_millis(100), "{lag:?} {gap:?}");
    far.play(0);
    assert!(far.until(SCREEN) < Duration::from_secs(2));
    far.run(Duration::from_millis(500));
    assert!(far.sender.is_at_rest());
}

#[test]
fn a_film_waits_while_nothing_arrives_and_goes_on_with_the_newest_picture() {
    let mut far = Far::new(SenderConfig::default(), 156);
    far.play(20);
    far.run(Duration::from_secs(2));
    // The client takes nothing for a second, as when it has other things to do; the link takes all.
    let (back, bytes) = (std::mem::take(&mut far.back), far.sender.stats().bytes);
    let mut late = back;
    for _ in 0..1000 {
        far.step();
        late.append(&mut far.back);
    }
    let sent = far.sender.stats().bytes - bytes;
    assert!(sent < 156 * 500, "{sent} bytes into a second in which nothing arrives");
    far.back = late;
    far.run(Duration::from_millis(300));
    far.reel.figures();
    far.run(Duration::from_secs(3));
    let (lag, _) = far.reel.figures();
    assert!(lag <= Duration::from_millis(130), "{lag:?}");
}
