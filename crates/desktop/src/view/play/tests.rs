use std::io::Cursor as FileBytes;

use quickset_rfb::Framebuffer;
use quickset_screen::recording::RecordingWriter;

use super::*;

const MIB: usize = 1 << 20;

fn seconds(n: u64) -> Time {
    Time::from_millis(n * 1000)
}

/// Ten minutes, of which each second has its number as the colour of the screen, the first 100; the pointer
/// walks.
fn recording() -> Vec<u8> {
    let mut writer = RecordingWriter::new(0);
    writer.name(Time::ZERO, "desk");
    writer.picture(Time::ZERO, Framebuffer::new(8, 4, MIB).unwrap());
    let mut file = writer.take();
    for second in 1..=600 {
        let solid = [1, 2, 1, 0, 0, 8, 4, 0, (second >> 8) as u8, second as u8];
        writer.message(seconds(second), &solid).unwrap();
        writer.shown(seconds(second));
        writer.pointer(seconds(second), second as u16 % 8, 0);
        file.extend(writer.take());
    }
    writer.end(seconds(600));
    file.extend(writer.take());
    file
}

struct Show {
    playback: Playback<FileBytes<Vec<u8>>>,
    desk: ViewerScreen,
    now: Time,
}

impl Show {
    fn new(file: Vec<u8>, speed: f64) -> Self {
        let player = RecordingPlayer::open(FileBytes::new(file), MIB).unwrap();
        let clock = PlayClock::new(player.position(), speed);
        let (playback, desk) = (Playback::new(player, clock), ViewerScreen::new(MIB));
        let mut this = Self { playback, desk, now: seconds(1000) };
        this.playback.watched(this.now, true);
        this
    }

    /// Plays for so long, as the thread does; what is on the screen then, and what stands above it.
    fn pass(&mut self, time: Duration) -> (u32, String) {
        let end = self.now + time;
        loop {
            let next = self.playback.turn(self.now, &self.desk).unwrap();
            assert!(next > self.now, "it goes on");
            if next > end {
                break;
            }
            self.now = next;
        }
        self.now = end;
        self.playback.turn(self.now, &self.desk).unwrap();
        let state = self.desk.lock();
        (state.screen.pixels()[0], state.name.clone())
    }

    fn key(&mut self, keysym: u32) -> (u32, String) {
        self.playback.obey(self.now, PlayOrder::of(keysym).unwrap()).unwrap();
        self.pass(Duration::ZERO)
    }
}

#[test]
fn it_goes_as_fast_as_it_was_and_as_is_wanted() {
    let mut show = Show::new(recording(), 1.0);
    assert_eq!(show.pass(Duration::ZERO).0, 0);
    assert_eq!(show.pass(Duration::from_millis(1500)), (1, "desk (recording, 0:01 of 10:00)".into()));
    assert_eq!(show.pass(Duration::from_secs(70)), (71, "desk (recording, 1:11 of 10:00)".into()));
    // Up: twice as fast.
    show.key(0xff52);
    assert_eq!(
        show.pass(Duration::from_secs(10)),
        (91, "desk (recording, 1:31 of 10:00, 2 times as fast)".into())
    );
    show.key(0x2d);
    show.key(0x2d);
    assert_eq!(show.pass(Duration::from_secs(9)).0, 96, "half as fast");
    assert_eq!(Show::new(recording(), 1000.0).pass(Duration::from_secs(1)).0, 64, "there is a limit");
}

#[test]
fn keys_stop_and_turn_it() {
    let mut show = Show::new(recording(), 1.0);
    assert_eq!(show.pass(Duration::from_millis(20_500)).0, 20);
    assert_eq!(show.key(0x20), (20, "desk (recording, 0:20 of 10:00, paused)".into()));
    assert_eq!(show.pass(Duration::from_secs(100)).0, 20);
    // While it stands one can look around: Left, Right, Next, Prior, 5, Home, End.
    let places = [0xff51, 0xff53, 0xff56, 0xff55, 0x35, 0xff50, 0xff57].map(|key| show.key(key).0);
    assert_eq!(places, [15, 20, 80, 20, 300, 0, 600]);
    assert_eq!(show.key(0xff51).0, 595);
    show.key(0x20);
    assert_eq!(show.pass(Duration::from_secs(2)).0, 597);
    let end = (600, "desk (recording, 10:00 of 10:00, its end)".to_owned());
    assert_eq!(show.pass(Duration::from_secs(50)), end);
    // Once more from the beginning.
    assert_eq!(show.key(0x20).0, 0);
    assert_eq!(show.pass(Duration::from_secs(3)).0, 3);
    assert_eq!(PlayOrder::of(0x61), None);
}

#[test]
fn nothing_is_played_while_nobody_watches() {
    let mut show = Show::new(recording(), 1.0);
    assert_eq!(show.pass(Duration::from_secs(4)).0, 4);
    show.playback.watched(show.now, false);
    assert_eq!(show.pass(Duration::from_secs(60)).0, 4);
    show.playback.watched(show.now, true);
    assert_eq!(show.pass(Duration::from_secs(1)).0, 5);
}

#[test]
fn a_recording_that_was_cut_says_so_where_it_ends() {
    let mut file = recording();
    file.truncate(file.len() / 2);
    let mut show = Show::new(file, 64.0);
    let (last, title) = show.pass(Duration::from_secs(60));
    assert!(
        (250..350).contains(&last) && title.ends_with("64 times as fast, broken off here)"),
        "{last}: {title}"
    );
}

#[test]
fn the_pointer_is_that_of_the_recording() {
    let mut show = Show::new(recording(), 1.0);
    show.pass(Duration::from_millis(5500));
    let state = show.desk.lock();
    assert_eq!((state.has_pointer, state.pointer), (true, Some((5, 0))));
}
