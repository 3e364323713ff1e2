use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quickset::Protection;
use quickset_base::number::Unsigned as _;
use quickset_screen::sound::{FRAME_SAMPLES, SAMPLE_RATE};
use tokio::io::AsyncReadExt as _;
use tokio::sync::{Notify, broadcast};
use tokio::time::sleep;

use super::codec::SoundEncoder;
use super::program::SoundProgram;
use super::{FRAME_BYTES, SoundCommand};
use crate::backoff::Backoff;

/// What is recorded, for all who hear; clones are handles of the same.
#[derive(Clone, Debug)]
pub(crate) struct SoundSource {
    frames: broadcast::Sender<RecordedFrame>,
    /// Somebody hears.
    heard: Arc<Notify>,
    command: Arc<SoundCommand>,
    protection: Protection,
}

/// 20 ms.
#[derive(Clone, Debug)]
pub(crate) struct RecordedFrame {
    /// Of the first sample, in samples since the source began.
    pub(crate) time: u64,
    /// When it was there.
    pub(crate) recorded: Instant,
    pub(crate) packet: Bytes,
}

impl SoundSource {
    /// What repairs its losses on the way is `protection`.
    pub(crate) fn new(command: SoundCommand, protection: Protection) -> Self {
        let frames = broadcast::Sender::new(WAITING);
        Self { frames, heard: Arc::default(), command: Arc::new(command), protection }
    }

    pub(crate) fn protection(&self) -> Protection {
        self.protection.clone()
    }

    /// From now on. Whoever does not keep up misses the oldest.
    pub(crate) fn listen(&self) -> broadcast::Receiver<RecordedFrame> {
        let frames = self.frames.subscribe();
        self.heard.notify_one();
        frames
    }

    /// To all who hear.
    pub(super) fn tell(&self, frame: RecordedFrame) {
        // Where nobody does any more, the next look sees it.
        let _ = self.frames.send(frame);
    }

    /// Records while somebody hears. A program that fails is tried again, later each time.
    pub(crate) async fn run(self) -> Infallible {
        let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
        let mut clock = RecordingClock::new(Instant::now());
        let mut told = String::new();
        loop {
            while self.frames.receiver_count() == 0 {
                self.heard.notified().await;
            }
            let begun = Instant::now();
            let Some(why) = self.record(&mut clock).await else { continue };
            backoff.worked(begun.elapsed());
            if begun.elapsed() >= LONGEST_WAIT {
                // It is news again.
                told.clear();
            }
            let wait = backoff.next();
            if why == told {
                tracing::debug!(%why, ?wait, "the desktop's sound cannot be recorded; trying again");
            } else {
                tracing::warn!(%why, ?wait, "the desktop's sound cannot be recorded, and nobody hears it; trying again");
                told = why;
            }
            sleep(wait).await;
        }
    }

    /// Records until nobody hears any more, or it fails: then why.
    async fn record(&self, clock: &mut RecordingClock) -> Option<String> {
        let mut encoder = match SoundEncoder::new() {
            Ok(encoder) => encoder,
            Err(fault) => return Some(fault.to_string()),
        };
        let (program, mut samples) = match SoundProgram::record(&self.command) {
            Ok(begun) => begun,
            Err(why) => return Some(why),
        };
        clock.begin();
        tracing::info!(command = %self.command, "recording the desktop's sound");
        let mut bytes = [0; FRAME_BYTES];
        let (mut silent, mut unheard) = (0_u32, 0_u32);
        // Whoever switches off and on again starts no program each time.
        while unheard < LINGER {
            unheard = if self.frames.receiver_count() > 0 { 0 } else { unheard + 1 };
            if samples.read_exact(&mut bytes).await.is_err() {
                return Some(program.end(&self.command).await);
            }
            let recorded = Instant::now();
            let (time, wait) = clock.next(recorded);
            // DT-74.
            silent = if bytes.iter().all(|byte| *byte == 0) { silent.saturating_add(1) } else { 0 };
            if silent <= SILENT_FRAMES {
                let sound: Vec<i16> =
                    bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
                match encoder.encode(&sound) {
                    Ok(packet) => self.tell(RecordedFrame { time, recorded, packet }),
                    Err(fault) => return Some(fault.to_string()),
                }
            }
            if !wait.is_zero() {
                sleep(wait).await;
            }
        }
        tracing::info!("nobody hears the desktop's sound any more");
        None
    }
}

/// Times of frames: each 20 ms behind the one before, unless there was a pause.
#[derive(Debug)]
struct RecordingClock {
    last: Instant,
    /// Of the next frame, in samples.
    time: u64,
    /// How much more was recorded lately than time has passed, in nanoseconds; less than 0: by how much less,
    /// which waits to be read if it was this machine that stood still.
    ahead: i64,
    /// No frame of this program has come yet.
    begins: bool,
}

impl RecordingClock {
    fn new(now: Instant) -> Self {
        Self { last: now, time: 0, ahead: 0, begins: true }
    }

    /// Another program begins, in which nothing waits of the time before.
    fn begin(&mut self) {
        self.begins = true;
    }

    /// The time of a frame that was there at `now`, and how long to wait before the next is read: a program
    /// that is much faster than sound is none that records.
    fn next(&mut self, now: Instant) -> (u64, Duration) {
        let passed = now.saturating_duration_since(self.last);
        self.last = now;
        if passed > PAUSE {
            let samples = passed.as_micros() * u128::from(SAMPLE_RATE) / 1_000_000;
            self.time = self.time.saturating_add(samples.saturated::<u64>());
        }
        self.ahead = if std::mem::take(&mut self.begins) {
            nanos(FASTEST)
        } else {
            (self.ahead + nanos(FASTEST) - nanos(passed)).max(-nanos(MOST_BEHIND))
        };
        let time = self.time;
        self.time = time.saturating_add(FRAME_SAMPLES.into());
        let wait = (self.ahead - nanos(MOST_AHEAD)).max(0);
        (time, Duration::from_nanos(wait.unsigned_abs()))
    }
}

/// Of a time that is short.
fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX / 4)
}

/// Frames that wait for whoever hears: 200 ms.
const WAITING: usize = 10;
/// How many frames are recorded for nobody before the program is ended: 2 s.
const LINGER: u32 = 100;
/// DT-74.
const SILENT_FRAMES: u32 = 10;
/// Longer than a frame ever takes to come while there are any.
const PAUSE: Duration = Duration::from_millis(200);
/// How long a frame lasts on the fastest clock that there is, with room for a bad one.
const FASTEST: Duration = Duration::from_micros(19_800);
/// What a program may have in stock when it begins.
const MOST_AHEAD: Duration = Duration::from_millis(200);
/// How much is read at once at most where nothing was read for long.
const MOST_BEHIND: Duration = Duration::from_secs(1);
/// How long a program that fails has to wait.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Duration = Duration::from_millis(20);

    #[test]
    fn times_go_by_samples_and_over_pauses() {
        // DT-69: 960 more, or more than that.
        let mut now = Instant::now();
        let mut clock = RecordingClock::new(now);
        for n in 0..100 {
            assert_eq!(clock.next(now).0, n * 960);
            now += FRAME;
        }
        now += Duration::from_secs(2);
        // The pause of 2 s and the frame that was not there.
        let time = clock.next(now).0;
        assert_eq!(time, 100 * 960 + 2 * 48_000 + 960);
        assert_eq!(clock.next(now + FRAME).0, time + 960);
    }

    #[test]
    fn a_program_that_begins_is_read_at_its_pace_however_long_there_was_none() {
        let mut now = Instant::now();
        let mut clock = RecordingClock::new(now);
        now += Duration::from_secs(3600);
        clock.begin();
        // A fifth of a second is in stock: ten frames, and the one that is there.
        let waits: Vec<Duration> = (0..12).map(|_| clock.next(now).1).collect();
        assert!(waits[..10].iter().all(Duration::is_zero), "{waits:?}");
        assert!(waits[10] > Duration::ZERO && waits[11] >= waits[10] + FASTEST, "{waits:?}");
    }

    /// The same with a program that always has the next frame ready, behind ten seconds without one. However
    /// slow this machine is, no frame may be read before its time.
    #[cfg(all(unix, feature = "sound"))]
    #[tokio::test]
    async fn whoever_records_begins_each_program_at_its_pace() {
        let loud = SoundCommand::new("sh", ["-c", "exec tr '\\0' a < /dev/zero"]);
        let source = SoundSource::new(loud, Protection::None);
        let mut frames = source.listen();
        let begun = Instant::now();
        let mut clock = RecordingClock::new(begun.checked_sub(Duration::from_secs(10)).unwrap());
        let looks = async {
            let mut last = 0;
            while last < 10 * 48_000 + 100 * 960 {
                // Whoever is slower than the program misses frames, and has those behind them.
                let Ok(frame) = frames.recv().await else { continue };
                let recorded = Duration::from_micros((frame.time - 10 * 48_000) * 1_000_000 / 48_000);
                let soonest = recorded.mul_f64(0.99).saturating_sub(MOST_AHEAD + FRAME);
                let passed = frame.recorded.duration_since(begun);
                assert!(passed >= soonest, "{passed:?} behind the beginning, and not {soonest:?}");
                last = frame.time;
            }
        };
        tokio::select! {
            why = source.record(&mut clock) => panic!("{why:?}"),
            () = looks => {}
        }
    }

    #[test]
    fn what_waits_behind_a_stop_of_this_machine_is_read_at_once() {
        // Half a second waits in the pipe: were it read at the pace of sound, all sound would be as late.
        let mut now = Instant::now();
        let mut clock = RecordingClock::new(now);
        for _ in 0..50 {
            now += FRAME;
            assert_eq!(clock.next(now).1, Duration::ZERO);
        }
        now += FRAME * 25;
        for n in 0..25 {
            assert_eq!(clock.next(now).1, Duration::ZERO, "{n}");
        }
        // Behind an hour of nothing it is a second, and what a program has in stock.
        now += Duration::from_secs(3600);
        let at_once = (0..200).take_while(|_| clock.next(now).1.is_zero()).count();
        assert!((55..=65).contains(&at_once), "{at_once}");
    }

    #[test]
    fn a_program_that_is_too_fast_is_read_slowly_and_a_clock_that_is_fast_is_not() {
        let mut now = Instant::now();
        let begun = now;
        let mut clock = RecordingClock::new(now);
        for _ in 0..1000 {
            // It always has the next one ready.
            now += clock.next(now).1;
        }
        let took = now.duration_since(begun).as_secs_f64();
        assert!((19.0..20.1).contains(&took), "{took} s for 20 s");
        let (mut now, mut clock) = (begun, RecordingClock::new(begun));
        for _ in 0..100_000 {
            assert_eq!(clock.next(now).1, Duration::ZERO);
            now += FRAME.mul_f64(0.9995);
        }
    }
}
