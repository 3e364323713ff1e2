use std::convert::Infallible;
use std::time::{Duration, Instant};

use quickset_screen::sound::FRAME_SAMPLES;
use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::SoundCommand;
use super::program::SoundProgram;
use crate::backoff::Backoff;

/// Where what is heard goes.
#[derive(Clone, Debug)]
pub(crate) struct SoundSink(mpsc::Sender<Vec<i16>>);

/// Keeps a program that plays.
#[derive(Debug)]
pub(crate) struct SoundPlayer {
    command: SoundCommand,
    pieces: mpsc::Receiver<Vec<i16>>,
}

impl SoundSink {
    /// Plays it behind what was said before. What the program has no room for is dropped, so that nothing is
    /// played later and later.
    pub(crate) fn play(&self, sound: Vec<i16>) {
        let _ = self.0.try_send(sound);
    }
}

impl SoundPlayer {
    pub(crate) fn new(command: SoundCommand) -> (SoundSink, Self) {
        let (sink, pieces) = mpsc::channel(WAITING);
        (SoundSink(sink), Self { command, pieces })
    }

    /// Plays what comes. The program is started by the first sound, and one that fails is tried again, later
    /// each time.
    pub(crate) async fn run(mut self) -> Infallible {
        let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
        let mut told = String::new();
        loop {
            let Some(first) = self.pieces.recv().await else { return std::future::pending().await };
            let begun = Instant::now();
            let why = match self.start() {
                Ok((program, input)) => self.play(first, program, input).await,
                Err(why) => why,
            };
            backoff.worked(begun.elapsed());
            if begun.elapsed() >= LONGEST_WAIT {
                // It is news again.
                told.clear();
            }
            let wait = backoff.next();
            if why == told {
                tracing::debug!(%why, ?wait, "sound cannot be played; trying again");
            } else {
                tracing::warn!(%why, ?wait, "sound cannot be played; trying again");
                told = why;
            }
            sleep(wait).await;
            while self.pieces.try_recv().is_ok() {}
        }
    }

    fn start(&self) -> Result<(SoundProgram, ChildStdin), String> {
        let (program, input) = SoundProgram::play(&self.command)?;
        // What waits in the pipe is heard later; where it stays long, it is.
        #[cfg(target_os = "linux")]
        let _ = rustix::pipe::fcntl_setpipe_size(&input, PIPE);
        Ok((program, input))
    }

    /// Plays until the program ends, and says so.
    async fn play(&mut self, first: Vec<i16>, mut program: SoundProgram, mut input: ChildStdin) -> String {
        let (mut piece, mut stock) = (Some(first), Stock::default());
        while let Some(sound) = piece {
            let waiting = self.pieces.len() * FRAME_BYTES + waiting_in(&input);
            if !stock.leaves_out(waiting) {
                let bytes: Vec<u8> = sound.iter().flat_map(|sample| sample.to_le_bytes()).collect();
                if input.write_all(&bytes).await.is_err() {
                    break;
                }
            }
            piece = tokio::select! {
                piece = self.pieces.recv() => piece,
                _ = program.wait() => None,
            };
        }
        drop(input);
        program.end(&self.command).await
    }
}

/// What waits for the program and never gets less, since that takes as much as comes: what came while it
/// began, most of all. Everything would be heard so much later for as long as it plays.
#[derive(Debug, Default)]
struct Stock {
    /// The least that waited before the pieces that were looked at, in bytes.
    least: Option<usize>,
    /// How many these were.
    looked: u32,
    /// Pieces to be left out.
    surplus: usize,
}

impl Stock {
    /// Looks at how many bytes wait before the next piece. True: that is to be left out.
    fn leaves_out(&mut self, waiting: usize) -> bool {
        if self.surplus == 0 {
            self.least = Some(self.least.map_or(waiting, |least| least.min(waiting)));
            self.looked += 1;
            if self.looked == LOOKED {
                self.surplus = self.least.take().unwrap_or(0) / FRAME_BYTES;
                self.looked = 0;
            }
            return false;
        }
        self.surplus -= 1;
        true
    }
}

/// Bytes that the program has not read.
#[cfg(target_os = "linux")]
fn waiting_in(input: &ChildStdin) -> usize {
    rustix::io::ioctl_fionread(input).map_or(0, |bytes| bytes.try_into().unwrap_or(usize::MAX))
}

/// Nobody says.
#[cfg(not(target_os = "linux"))]
fn waiting_in(_input: &ChildStdin) -> usize {
    0
}

/// Pieces that wait: 60 ms.
const WAITING: usize = 3;
/// Bytes in the pipe: 20 ms.
#[cfg(target_os = "linux")]
const PIPE: usize = 4096;
/// Pieces for which something has to have waited all the time: 1 s.
const LOOKED: u32 = 50;
/// Of a piece, but for the few samples that it may be longer or shorter by: 20 ms.
const FRAME_BYTES: usize = FRAME_SAMPLES as usize * 4;
/// How long a program that fails has to wait.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many pieces are left out before which so much waits.
    fn left_out(stock: &mut Stock, pieces: usize, waiting: impl Fn(usize) -> usize) -> usize {
        (0..pieces).filter(|&n| stock.leaves_out(waiting(n))).count()
    }

    #[test]
    fn what_waits_all_the_time_is_left_out_and_no_more() {
        let mut stock = Stock::default();
        // 80 ms and a little, for a second; then it is gone.
        assert_eq!(left_out(&mut stock, 50, |n| 4 * FRAME_BYTES + n), 0);
        assert_eq!(left_out(&mut stock, 4, |_| FRAME_BYTES), 4);
        assert_eq!(left_out(&mut stock, 1000, |_| FRAME_BYTES / 2), 0);
    }

    #[test]
    fn what_waits_for_a_moment_is_played() {
        // Pieces that come two by two, and a program that stands still for half a second.
        let mut stock = Stock::default();
        assert_eq!(left_out(&mut stock, 1000, |n| (n % 2) * FRAME_BYTES), 0);
        assert_eq!(left_out(&mut stock, 1000, |n| usize::from(n % 100 > 75) * 4 * FRAME_BYTES), 0);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn what_a_program_has_not_read_is_seen() {
        let command = SoundCommand::new("sleep", ["100"]);
        let (_program, mut input) = SoundPlayer::new(command).1.start().unwrap();
        assert_eq!(waiting_in(&input), 0);
        input.write_all(&[1; 3000]).await.unwrap();
        assert_eq!(waiting_in(&input), 3000);
    }
}
