use std::convert::Infallible;
use std::time::{Duration, Instant};

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
        let mut piece = Some(first);
        while let Some(sound) = piece {
            let bytes: Vec<u8> = sound.iter().flat_map(|sample| sample.to_le_bytes()).collect();
            if input.write_all(&bytes).await.is_err() {
                break;
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

/// Pieces that wait: 60 ms.
const WAITING: usize = 3;
/// Bytes in the pipe: 20 ms.
#[cfg(target_os = "linux")]
const PIPE: usize = 4096;
/// How long a program that fails has to wait.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
