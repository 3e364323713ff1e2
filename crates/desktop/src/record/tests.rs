use std::fs::File;
use std::io::BufReader;

use quickset_rfb::Damage;
use quickset_screen::recording::RecordingPlayer;

use super::*;
use crate::message::ScreenOrder;
use crate::receiver::Changes;

const MIB: usize = 1 << 20;

/// A file that nobody else has, gone when dropped.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("quickset-record-{}-{name}", std::process::id())))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn screen(colour: u32) -> Framebuffer {
    let mut screen = Framebuffer::new(8, 4, 64 * MIB).unwrap();
    screen.fill(screen.bounds(), colour).unwrap();
    screen
}

fn all(screen: &Framebuffer) -> Changes {
    Changes { resized: false, damage: Damage::from(screen.bounds()) }
}

/// One colour for a screen of 8 x 4, as a session sends it.
fn solid(colour: u8) -> [u8; 10] {
    [1, 2, 1, 0, 0, 8, 4, 0, 0, colour]
}

fn last(place: &Place) -> (RecordingPlayer<BufReader<File>>, u32) {
    let file = BufReader::new(File::open(&place.0).unwrap());
    let mut player = RecordingPlayer::open(file, 64 * MIB).unwrap();
    player.advance(Time::MAX).unwrap();
    let pixel = player.screen().pixels()[0];
    (player, pixel)
}

#[test]
fn a_session_and_the_next_one_are_one_recording() {
    let place = Place::new("sessions");
    let recorder = ScreenRecorder::create(&place.0, false).unwrap();
    let mut tap = RecorderTap::new(&recorder, ScreenOrder::Fenced);
    tap.name("desk");
    tap.show(&Framebuffer::new(0, 0, MIB).unwrap(), &Changes::default());
    tap.show(&screen(1), &all(&screen(1)));
    tap.message(&solid(2));
    tap.show(&screen(2), &all(&screen(2)));
    recorder.pointer(3, 1);
    let mut tap = RecorderTap::new(&recorder, ScreenOrder::Latest);
    // A picture, then pixels.
    tap.show(&screen(3), &all(&screen(3)));
    tap.message(&solid(9));
    tap.show(&screen(4), &all(&screen(4)));
    recorder.finish().unwrap();
    let (player, pixel) = last(&place);
    assert_eq!((pixel, player.name(), player.pointer()), (4, "desk", Some((3, 1))));
    let facts = player.facts();
    assert!(facts.is_whole && facts.pictures == 2 && facts.updates == 4, "{facts:?}");
    assert!(facts.began.is_some_and(|seconds| seconds > 1_700_000_000));
    // It is over, and nothing more comes.
    tap.show(&screen(5), &all(&screen(5)));
    recorder.finish().unwrap();
    assert_eq!(last(&place).1, 4);
}

#[test]
fn a_file_that_is_there_stays_unless_it_is_to_be_replaced() {
    let place = Place::new("there");
    fs::write(&place.0, "mine").unwrap();
    let refused = ScreenRecorder::create(&place.0, false).unwrap_err();
    assert!(matches!(&refused, RecordError::Exists(_)), "{refused}");
    assert_eq!(fs::read(&place.0).unwrap(), b"mine");
    let recorder = ScreenRecorder::create(&place.0, true).unwrap();
    RecorderTap::new(&recorder, ScreenOrder::Fenced).show(&screen(7), &Changes::default());
    recorder.finish().unwrap();
    assert_eq!(last(&place).1, 7);
    let nowhere = place.0.join("nowhere");
    assert!(matches!(ScreenRecorder::create(&nowhere, true), Err(RecordError::Make { .. })));
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_full_disk_ends_the_recording_with_a_sentence() {
    let state = RecorderState { wants_picture: true, ..RecorderState::default() };
    let shared = Arc::new(RecorderShared {
        state: Mutex::new(state),
        changed: Condvar::new(),
        ended: Notify::new(),
        started: Instant::now(),
    });
    let recorder = ScreenRecorder(shared.clone());
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    thread::start(shared, Path::new("/dev/full"), full).unwrap();
    let mut tap = RecorderTap::new(&recorder, ScreenOrder::Fenced);
    tap.show(&screen(1), &Changes::default());
    let failed = tokio::time::timeout(Duration::from_secs(20), recorder.failed()).await.unwrap();
    assert!(failed.to_string().contains("cannot write to /dev/full any more"), "{failed}");
    // The session goes on, and holds nothing for it.
    for n in 0..100 {
        tap.message(&solid(n));
        tap.show(&screen(n.into()), &Changes::default());
    }
    assert!(recorder.0.lock().jobs.is_empty());
    recorder.finish().unwrap();
}

#[test]
fn who_draws_faster_than_the_disk_writes_leaves_some_out_and_begins_anew() {
    // RC-12. Nobody writes here.
    let state = RecorderState { wants_picture: true, ..RecorderState::default() };
    let recorder = ScreenRecorder(Arc::new(RecorderShared {
        state: Mutex::new(state),
        changed: Condvar::new(),
        ended: Notify::new(),
        started: Instant::now(),
    }));
    let mut tap = RecorderTap::new(&recorder, ScreenOrder::Fenced);
    tap.show(&screen(1), &Changes::default());
    assert!(!recorder.wants_picture(), "it is on its way");
    let large = vec![0; MIB];
    for _ in 0..1000 {
        tap.message(&large);
        tap.show(&screen(1), &Changes::default());
    }
    let state = recorder.0.lock();
    assert!(state.bytes <= MOST_WAITING + 1000 && state.wants_picture, "{}", state.bytes);
    assert!(matches!(state.jobs.back().unwrap().news, RecorderNews::Lost | RecorderNews::Picture(_)));
    assert!(state.jobs.len() < 200_000);
}
