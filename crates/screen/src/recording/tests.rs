//! What was recorded is what is played: from any time on, and of a file that is cut or broken.

use std::io::Cursor as FileBytes;

use quickset_base::{Duration, Rng, Time};
use quickset_rfb::{ClientEvent, Cursor, Framebuffer, Rect, Resize, ResizeReason, ResizeStatus, crc32};

use super::*;
use crate::message::{FromServer, PutFields, ScreenOrder, StreamMessage};
use crate::receiver::{ReceiverConfig, ScreenReceiver};
use crate::sender::{ScreenItem, ScreenSender, SenderConfig};

const MIB: usize = 1 << 20;

/// What was seen at a time.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    at: Time,
    screen: Framebuffer,
    name: String,
    cursor: Option<Cursor>,
    pointer: Option<(u16, u16)>,
}

/// A session that is recorded as a viewer does it.
struct Take {
    rng: Rng,
    now: Time,
    sender: ScreenSender,
    receiver: ScreenReceiver,
    writer: RecordingWriter,
    by_pixels: bool,
    file: Vec<u8>,
    seen: Vec<Seen>,
    cursor: Option<Cursor>,
    pictures: u64,
}

impl Take {
    fn new(seed: u64, by_pixels: bool) -> Self {
        let order = if by_pixels { ScreenOrder::Latest } else { ScreenOrder::Fenced };
        let mut this = Self {
            rng: Rng::new(seed),
            now: Time::ZERO,
            sender: ScreenSender::new(SenderConfig { order, ..SenderConfig::default() }),
            receiver: ScreenReceiver::new(ReceiverConfig {
                order,
                max_bytes: MIB,
                ..ReceiverConfig::default()
            }),
            writer: RecordingWriter::new(1_700_000_000),
            by_pixels,
            file: Vec::new(),
            seen: Vec::new(),
            cursor: None,
            pictures: 0,
        };
        this.resize(80, 48);
        this
    }

    fn resize(&mut self, width: u16, height: u16) {
        let (reason, status) = (ResizeReason::Server, ResizeStatus::Done);
        let resize = Resize { width, height, reason, status, screens: Vec::new() };
        self.sender.rfb(self.now, &ClientEvent::Resize(resize)).unwrap();
    }

    fn draw(&mut self) {
        let bounds = self.sender.screen().bounds();
        let (x, y) = (self.rng.below(60) as u16, self.rng.below(40) as u16);
        let rect = Rect::between(x, y, x + 1 + self.rng.below(50) as u16, y + 1 + self.rng.below(30) as u16)
            .intersection(bounds);
        if rect.is_empty() {
            return;
        }
        let colours = [1, 2, 30, u64::MAX][self.rng.below(4) as usize];
        let pixels: Vec<u32> =
            (0..rect.area()).map(|_| (self.rng.below(colours)) as u32 & 0xff_ffff).collect();
        self.sender.rfb(self.now, &ClientEvent::Pixels { rect, pixels: &pixels }).unwrap();
        if self.rng.chance(0.3) {
            let to = Rect::sized(rect.width(), rect.height());
            let (x, y) = (rect.left(), rect.top());
            self.sender.rfb(self.now, &ClientEvent::Copy { rect: to, x, y }).unwrap();
        }
        self.sender.rfb(self.now, &ClientEvent::UpdateEnd).unwrap();
    }

    /// What there is to send is drawn, shown and recorded.
    fn show(&mut self, told: bool) {
        let mut drawn = told;
        while let Some(item) = self.sender.poll(self.now, usize::MAX) {
            let ScreenItem::Message { payload, id, .. } = item else { continue };
            let stale = self.receiver.stats().stale;
            self.receiver.receive(&payload).unwrap();
            if self.receiver.stats().stale == stale && !self.by_pixels {
                self.writer.message(self.now, &payload).unwrap();
            }
            self.sender.outcome(id, true);
            drawn = true;
        }
        let changes = self.receiver.changes();
        if self.by_pixels && changes.resized {
            self.writer.lose();
        }
        if self.writer.wants_picture() {
            self.writer.picture(self.now, self.receiver.screen().clone());
            self.pictures += 1;
        } else if self.by_pixels {
            for &rect in changes.damage.area().rects() {
                let mut pixels = Vec::new();
                self.receiver.screen().read(rect, &mut pixels).unwrap();
                self.writer.pixels(self.now, rect, &pixels).unwrap();
            }
        }
        self.writer.shown(self.now);
        self.file.extend(self.writer.take());
        if drawn {
            self.see(None);
        }
    }

    fn see(&mut self, pointer: Option<(u16, u16)>) {
        let last = self.seen.last();
        self.seen.push(Seen {
            at: self.now,
            screen: self.receiver.screen().clone(),
            name: last.map_or_else(|| "desk".into(), |last| last.name.clone()),
            cursor: self.cursor.clone(),
            pointer: pointer.or(last.and_then(|last| last.pointer)),
        });
    }

    fn run(mut self, steps: usize) -> Self {
        self.writer.name(self.now, "desk");
        for step in 0..steps {
            self.now += Duration::from_millis(100 + self.rng.below(400));
            self.draw();
            let mut told = false;
            match self.rng.below(12) {
                0 => {
                    let (width, height) = (40 + self.rng.below(60) as u16, 30 + self.rng.below(40) as u16);
                    self.resize(width, height);
                }
                1 => {
                    let pixels = vec![step as u32; 6];
                    let cursor =
                        Cursor { width: 3, height: 2, hot_x: 1, hot_y: 0, pixels, mask: vec![0xe0, 0x40] };
                    self.writer.cursor(self.now, &cursor);
                    self.cursor = Some(cursor);
                    told = true;
                }
                // DT-40, DT-56: a new stream, and a new session, begin their numbers anew.
                2 => self.sender.restart(),
                3 => {
                    self.writer.lose();
                    self.receiver.reconnected(if self.by_pixels {
                        ScreenOrder::Latest
                    } else {
                        ScreenOrder::Fenced
                    });
                    let order = if self.by_pixels { ScreenOrder::Latest } else { ScreenOrder::Fenced };
                    let screen = self.sender.screen().clone();
                    self.sender = ScreenSender::new(SenderConfig { order, ..SenderConfig::default() });
                    self.resize(screen.width(), screen.height());
                    let (rect, pixels) = (screen.bounds(), screen.pixels());
                    self.sender.rfb(self.now, &ClientEvent::Pixels { rect, pixels }).unwrap();
                    self.sender.rfb(self.now, &ClientEvent::UpdateEnd).unwrap();
                }
                _ => {}
            }
            self.show(told);
            if self.rng.chance(0.3) && !self.seen.is_empty() {
                self.now += Duration::from_millis(50);
                let pointer = (self.rng.below(80) as u16, self.rng.below(48) as u16);
                self.writer.pointer(self.now, pointer.0, pointer.1);
                self.file.extend(self.writer.take());
                self.see(Some(pointer));
            }
        }
        self.now += Duration::from_secs(1);
        self.writer.end(self.now);
        self.file.extend(self.writer.take());
        self
    }

    /// Whether this was to be seen at the end of a file that was cut: of what happened at a time the pointer
    /// may be there already, and the screen not.
    fn ends_with(&self, time: Time, screen: &Framebuffer) -> bool {
        let before = Time::from_nanos(time.as_nanos().saturating_sub(1));
        [time, before].iter().any(|&time| self.at(time).screen == *screen)
    }

    /// What was to be seen at a time.
    fn at(&self, time: Time) -> &Seen {
        let behind = self.seen.partition_point(|seen| seen.at <= time);
        &self.seen[behind.saturating_sub(1)]
    }
}

fn open(file: &[u8]) -> Result<RecordingPlayer<FileBytes<&[u8]>>, RecordingError> {
    RecordingPlayer::open(FileBytes::new(file), MIB)
}

fn shown(player: &RecordingPlayer<FileBytes<&[u8]>>) -> Seen {
    Seen {
        at: player.position(),
        screen: player.screen().clone(),
        name: player.name().to_owned(),
        cursor: player.cursor().cloned(),
        pointer: player.pointer(),
    }
}

#[track_caller]
fn assert_seen(player: &RecordingPlayer<FileBytes<&[u8]>>, expected: &Seen, what: &str) {
    let seen = shown(player);
    assert_eq!(Seen { at: expected.at, ..seen }, *expected, "{what} at {}", player.position());
}

/// A viewer that is told no more than the changes.
struct Follower(Framebuffer);

impl Follower {
    fn follow(&mut self, player: &mut RecordingPlayer<FileBytes<&[u8]>>) {
        let changes = player.changes();
        if changes.resized {
            self.0.resize(player.screen().width(), player.screen().height()).unwrap();
        }
        for &rect in changes.damage.area().rects() {
            self.0.take(rect, player.screen()).unwrap();
        }
        assert_eq!(&self.0, player.screen(), "at {}", player.position());
    }
}

#[test]
fn what_is_played_is_what_was_shown() {
    // RC-6, RC-8, RC-9, RC-12.
    for seed in 0..12 {
        let take = Take::new(seed, seed % 3 == 2).run(150);
        let mut player = open(&take.file).unwrap();
        let facts = player.facts().clone();
        assert!(facts.is_whole && facts.unplayable == 0, "{facts:?}");
        assert_eq!((facts.length, facts.began), (take.now.since(Time::ZERO), Some(1_700_000_000)));
        assert_eq!((facts.pictures, facts.bytes), (take.pictures, take.file.len() as u64));
        let mut follower = Follower(Framebuffer::new(0, 0, MIB).unwrap());
        follower.follow(&mut player);
        for seen in &take.seen {
            assert!(player.next_time().unwrap().is_some());
            player.advance(seen.at).unwrap();
            assert_seen(&player, seen, &format!("seed {seed}"));
            follower.follow(&mut player);
        }
        player.advance(Time::MAX).unwrap();
        assert_eq!((player.next_time().unwrap(), player.position()), (None, take.now));
    }
}

#[test]
fn to_seek_a_time_is_to_play_to_it() {
    // RC-6.
    for seed in 20..26 {
        let take = Take::new(seed, seed % 3 == 2).run(200);
        let mut player = open(&take.file).unwrap();
        assert!(player.facts().pictures > 2, "there is something to begin from in the middle");
        let mut follower = Follower(Framebuffer::new(0, 0, MIB).unwrap());
        follower.follow(&mut player);
        let mut rng = Rng::new(seed);
        let length = take.now.as_nanos();
        let first = take.seen[0].at;
        let times = (0..60).map(|_| Time::from_nanos(rng.below(length)));
        for time in times.chain([Time::ZERO, Time::MAX, Time::ZERO, take.now]) {
            player.seek(time).unwrap();
            assert_seen(&player, take.at(time), &format!("seed {seed}"));
            assert_eq!(player.position(), time.max(first).min(take.now));
            follower.follow(&mut player);
        }
    }
}

#[test]
fn a_file_that_is_cut_anywhere_plays_to_there() {
    // RC-4, RC-9, RC-11.
    let mut take = Take::new(5, false);
    take.resize(40, 30);
    let take = take.run(7);
    let mut played = 0;
    for cut in 0..take.file.len() {
        let file = &take.file[..cut];
        let mut player = match open(file) {
            Ok(player) => player,
            Err(RecordingError::Foreign) if cut < FILE_HEAD => continue,
            Err(RecordingError::Empty) => {
                assert_eq!(played, 0, "{cut}");
                continue;
            }
            Err(error) => panic!("{cut}: {error}"),
        };
        assert!(!player.facts().is_whole, "{cut}");
        player.advance(Time::MAX).unwrap();
        let end = player.position();
        assert!(end <= take.now);
        assert!(take.ends_with(end, player.screen()) && player.name() == "desk", "{cut}, at {end}");
        let behind = usize::try_from(player.facts().unplayable).unwrap();
        assert_eq!(player.facts().bytes, cut as u64);
        assert!(behind < 30_000);
        played += 1;
    }
    assert!(played > 500, "{played}");
}

#[test]
fn wrong_bytes_end_a_recording_and_nothing_more() {
    // RC-1, RC-2, RC-3, RC-4, RC-8.
    let take = Take::new(6, false).run(40);
    let whole = take.file.len();
    let mut rng = Rng::new(9);
    let mut shorter = 0;
    for _ in 0..150 {
        let mut file = take.file.clone();
        let at = rng.below(whole as u64) as usize;
        file[at] ^= 1 << rng.below(8);
        let Ok(mut player) = open(&file) else { continue };
        let mut follower = Follower(Framebuffer::new(0, 0, MIB).unwrap());
        follower.follow(&mut player);
        // From the end as well as from the beginning.
        for time in [Time::MAX, Time::ZERO, Time::from_nanos(take.now.as_nanos() / 2), Time::MAX] {
            player.seek(time).unwrap();
            assert!(
                take.ends_with(player.position(), player.screen()),
                "byte {at}, at {}",
                player.position()
            );
            follower.follow(&mut player);
        }
        shorter += usize::from(player.position() < take.now);
        assert_eq!(player.facts().unplayable > 0, !player.facts().is_whole, "byte {at}");
    }
    assert!(shorter > 100, "{shorter}");
}

/// Records of a file, as the specification has them.
struct Written(Vec<u8>);

impl Written {
    fn new() -> Self {
        Self([&[0x89, 0x51, 0x53, 0x52, 0x0d, 0x0a, 0x1a, 0x0a], &[1][..]].concat())
    }

    fn record(mut self, kind: u8, time: u64, body: &[u8]) -> Self {
        let start = self.0.len();
        self.0.put_u32(body.len() as u32);
        self.0.put_u8(kind);
        self.0.put_u64(time);
        self.0.put(body);
        let sum = crc32(&self.0[start..]);
        self.0.put_u32(sum);
        self
    }

    /// A picture of 8 x 4 in one colour.
    fn picture(self, time: u64, colour: u8) -> Self {
        // Epoch 1, item 1: a size; item 2: one colour.
        let size = [1, 1, 0, 8, 4];
        let solid = [1, 2, 1, 0, 0, 8, 4, 0, 0, colour];
        let body = [&[5][..], &size, &[10], &solid].concat();
        self.record(1, time, &[]).record(3, time, &body)
    }

    /// An update of one pixel.
    fn pixel(self, kind: u8, time: u64, colour: u8) -> Self {
        self.record(kind, time, &[10, 1, 3, 1, 0, 0, 1, 1, 0, 0, colour])
    }

    fn end(&self) -> (RecordingFacts, Vec<u32>, Time) {
        let mut player = open(&self.0).unwrap();
        player.advance(Time::MAX).unwrap();
        let pixels = player.screen().pixels()[..2].to_vec();
        (player.facts().clone(), pixels, player.position())
    }
}

#[test]
fn a_recording_as_the_specification_has_it_is_played() {
    // RC-5, RC-6, RC-9, RC-10, RC-11.
    let (mut name, mut text) = (Vec::new(), Vec::new());
    FromServer::Name("desk".into()).encode(&mut name);
    FromServer::Clipboard(crate::message::ClipboardMessage::Paste("secret".into())).encode(&mut text);
    let written = Written::new()
        .record(0, 0, &[0x2a, 99])
        .picture(1000, 7)
        .record(0x77, 1500, b"a kind that is not known")
        .record(4, 1500, &name)
        .record(4, 1500, &text)
        .record(5, 2000, &[3, 2, 99])
        .pixel(2, 3000, 8)
        .pixel(3, 3000, 9)
        .record(6, 4000, &[]);
    let mut player = open(&written.0).unwrap();
    assert_eq!((player.position(), player.screen().pixels()[0]), (Time::from_millis(1), 7));
    assert_eq!(player.facts().length, Duration::from_millis(4));
    let facts = player.facts();
    assert_eq!((facts.began, facts.pictures, facts.updates, facts.is_whole), (Some(42), 1, 2, true));
    player.advance(Time::from_micros(2999)).unwrap();
    assert_eq!((player.name(), player.pointer()), ("desk", Some((3, 2))));
    assert_eq!(player.screen().pixels(), [7; 32]);
    player.advance(Time::from_micros(3000)).unwrap();
    assert_eq!(
        (player.next_time().unwrap(), &player.screen().pixels()[..2]),
        (Some(Time::from_millis(4)), &[9, 7][..])
    );
}

#[test]
fn what_a_recording_must_not_be_ends_it() {
    let good = || Written::new().record(0, 0, &[1]).picture(1000, 7);
    let whole = good().record(6, 2000, &[]);
    assert!(whole.end().0.is_whole);
    for (what, file) in [
        ("RC-3: time goes back", good().pixel(3, 999, 9)),
        ("RC-8: a message that has no item", good().record(3, 2000, &[2, 1, 3])),
        ("RC-8: a message that is longer than its record", good().record(3, 2000, &[9, 1, 3])),
        ("RC-9: a part without an update", good().pixel(2, 2000, 9)),
        ("RC-9: a picture without an update", good().record(1, 2000, &[]).pixel(2, 2000, 9)),
        ("RC-9: a part of another time", good().pixel(2, 2000, 9).pixel(3, 2500, 9)),
        ("RC-6: a picture without a message", good().record(1, 2000, &[]).record(3, 2000, &[])),
        ("RC-6: a picture without a size", good().record(1, 2000, &[]).pixel(3, 2000, 9)),
        ("a place of the pointer that is none", good().record(5, 2000, &[0x80])),
        (
            "DT-20: a screen that is too large",
            good().record(3, 2000, &[11, 2, 3, 0, 0x80, 0, 0x40, 0, 0x80, 0, 0x40, 0]),
        ),
    ] {
        let (facts, pixels, end) = file.record(6, 3000, &[]).end();
        assert_eq!((pixels, end), (vec![7, 7], Time::from_millis(1)), "{what}");
        assert!(!facts.is_whole && facts.unplayable > 0, "{what}");
    }
    // RC-2: nobody has so many bytes.
    let mut long = good().0;
    long.extend([0xff, 0xff, 0xff, 0xff, 3, 0, 0, 0, 0, 0, 0, 0x10, 0]);
    assert_eq!(Written(long).end().2, Time::from_millis(1));
}

#[test]
fn what_is_no_recording_is_refused() {
    // RC-1, RC-7.
    let refused = |file: &[u8]| open(file).unwrap_err().to_string();
    assert!(
        refused(b"").contains("no recording") && refused(b"\x89PNG\r\n\x1a\n\0").contains("no recording")
    );
    let mut later = Written::new().picture(0, 7).0;
    later[8] = 2;
    assert!(refused(&later).contains("version 2"));
    let text = Written::new().picture(0, 7).0.iter().filter(|&&b| b != b'\r').copied().collect::<Vec<_>>();
    assert!(refused(&text).contains("no recording"), "it was taken for text");
    assert!(refused(&Written::new().0).contains("no whole picture"));
    assert!(refused(&Written::new().pixel(3, 0, 9).record(6, 0, &[]).0).contains("no whole picture"));
    assert!(refused(&Written::new().record(1, 0, &[]).0).contains("no whole picture"));
    // A first picture that is broken behind its head.
    let mut broken = Written::new().picture(0, 7).record(6, 9, &[]).0;
    broken[45] ^= 1;
    assert!(refused(&broken).contains("no whole picture"));
}

#[test]
fn pictures_come_when_they_shorten_the_way_and_not_more_often() {
    let mut writer = RecordingWriter::new(0);
    assert!(writer.wants_picture());
    writer.picture(Time::ZERO, Framebuffer::new(64, 64, MIB).unwrap());
    let size = writer.take().len();
    // 28 bytes each, and the record around them.
    let solid = [1, 2, 1, 0, 0, 1, 1, 0, 0, 1];
    let mut bytes = 0;
    for second in 1..200 {
        let now = Time::from_millis(second * 100);
        writer.message(now, &solid).unwrap();
        writer.shown(now);
        bytes += writer.take().len();
        let due = second >= 100 && bytes > 2 * size;
        assert_eq!(writer.wants_picture(), due, "{second}");
        if due {
            return;
        }
    }
    panic!("there was none");
}

#[test]
fn the_pointer_is_written_now_and_then_and_its_last_place_always() {
    let mut writer = RecordingWriter::new(0);
    writer.picture(Time::ZERO, Framebuffer::new(64, 64, MIB).unwrap());
    let mut file = writer.take();
    for ms in 0..100 {
        writer.pointer(Time::from_millis(ms), ms as u16, 1);
    }
    let due = writer.next_deadline().unwrap();
    writer.pass(due);
    assert_eq!(writer.next_deadline(), None);
    file.extend(writer.take());
    // A place every 20 ms, 19 bytes each: 13, 1 or 2 and 1, and 4.
    assert!(file.len() < 400, "{}", file.len());
    let mut player = open(&file).unwrap();
    player.advance(due).unwrap();
    assert_eq!(player.pointer(), Some((99, 1)));
}
