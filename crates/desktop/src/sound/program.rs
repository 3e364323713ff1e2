use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::SoundCommand;

/// A program that records or plays. Dropping it ends it.
///
/// What it writes to its standard error is no part of ours: the last of it is told when it ends.
#[derive(Debug)]
pub(super) struct SoundProgram {
    child: Child,
    last_words: Arc<Mutex<LastWords>>,
    reader: Option<JoinHandle<()>>,
}

impl SoundProgram {
    /// Starts one that writes what it records.
    pub(super) fn record(command: &SoundCommand) -> Result<(Self, ChildStdout), String> {
        let mut program = Self::start(command, Stdio::null(), Stdio::piped())?;
        let samples = program.child.stdout.take().ok_or_else(|| command.has_ended(None, ""))?;
        Ok((program, samples))
    }

    /// Starts one that plays what it reads.
    pub(super) fn play(command: &SoundCommand) -> Result<(Self, ChildStdin), String> {
        let mut program = Self::start(command, Stdio::piped(), Stdio::null())?;
        let samples = program.child.stdin.take().ok_or_else(|| command.has_ended(None, ""))?;
        Ok((program, samples))
    }

    fn start(command: &SoundCommand, input: Stdio, output: Stdio) -> Result<Self, String> {
        let mut ready = command.command();
        ready.stdin(input).stdout(output).stderr(Stdio::piped());
        let mut child = ready.spawn().map_err(|error| command.cannot_run(&error))?;
        let last_words = Arc::<Mutex<LastWords>>::default();
        let heard = last_words.clone();
        let reader = child.stderr.take().map(|stderr| tokio::spawn(hear(stderr, heard)));
        Ok(Self { child, last_words, reader })
    }

    /// Waits until it ends. Dropping the future loses nothing.
    pub(super) async fn wait(&mut self) -> Option<ExitStatus> {
        self.child.wait().await.ok()
    }

    /// For a person: that it has ended, how, and what it said last. One that has only closed its pipe is
    /// ended.
    pub(super) async fn end(mut self, command: &SoundCommand) -> String {
        let ended = timeout(PATIENCE, self.child.wait()).await;
        let status = if let Ok(status) = ended {
            status.ok()
        } else {
            let _ = self.child.start_kill();
            self.child.wait().await.ok()
        };
        // What it has started itself may hold its standard error open.
        if let Some(reader) = &mut self.reader {
            let _ = timeout(PATIENCE, reader).await;
        }
        let words = self.last_words.lock().unwrap_or_else(PoisonError::into_inner).told();
        command.has_ended(status, &words)
    }
}

impl Drop for SoundProgram {
    fn drop(&mut self) {
        if let Some(reader) = &self.reader {
            reader.abort();
        }
    }
}

async fn hear(mut stderr: ChildStderr, words: Arc<Mutex<LastWords>>) {
    let mut bytes = [0; 512];
    while let Ok(length @ 1..) = stderr.read(&mut bytes).await {
        words.lock().unwrap_or_else(PoisonError::into_inner).more(&bytes[..length]);
    }
}

/// The last line that is not empty, or its beginning.
#[derive(Debug, Default)]
struct LastWords {
    whole: Vec<u8>,
    /// Of the line that has no end yet.
    begun: Vec<u8>,
}

impl LastWords {
    fn more(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if matches!(byte, b'\n' | b'\r') {
                if !self.begun.trim_ascii().is_empty() {
                    std::mem::swap(&mut self.whole, &mut self.begun);
                }
                self.begun.clear();
            } else if self.begun.len() < MOST_WORDS {
                self.begun.push(byte);
            }
        }
    }

    /// Without anything that would do something to a terminal.
    fn told(&self) -> String {
        let line = if self.begun.trim_ascii().is_empty() { &self.whole } else { &self.begun };
        let text = String::from_utf8_lossy(line);
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        text.trim().to_owned()
    }
}

/// How long a program may take to end once it has closed its pipe, and its standard error behind that.
const PATIENCE: Duration = Duration::from_millis(300);
/// Bytes of a line.
const MOST_WORDS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_lines_the_last_is_kept_and_a_long_one_is_cut() {
        let said = |text: &str| {
            let mut words = LastWords::default();
            // In pieces, as it comes.
            text.as_bytes().chunks(3).for_each(|piece| words.more(piece));
            words.told()
        };
        assert_eq!(said(""), "");
        assert_eq!(said("one\ntwo\r\n \n\n"), "two");
        assert_eq!(said("one\ntwo, and no end"), "two, and no end");
        assert_eq!(said("a\u{1b}[2Jb\u{7}\n"), "a [2Jb");
        let long = "x".repeat(100_000);
        assert_eq!(said(&long).len(), MOST_WORDS);
        assert_eq!(said(&format!("{long}\nshort\n")), "short");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn what_a_program_complains_of_is_told_in_our_sentence() {
        let words = "echo 'one line' >&2; echo 'Connection terminated' >&2; exit 3";
        let command = SoundCommand::new("sh", ["-c", words]);
        let (program, mut samples) = SoundProgram::record(&command).unwrap();
        assert_eq!(samples.read_to_end(&mut Vec::new()).await.unwrap(), 0);
        let said = program.end(&command).await;
        assert!(said.contains("exit status: 3") && said.contains("\"Connection terminated\""), "{said}");
        assert!(!said.contains("one line") && said.contains("pactl info"), "{said}");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_program_that_closes_its_pipe_and_stays_is_ended() {
        let command = SoundCommand::new("sh", ["-c", "exec 1>&-; sleep 3 & exec sleep 1000"]);
        let (program, mut samples) = SoundProgram::record(&command).unwrap();
        assert_eq!(samples.read_to_end(&mut Vec::new()).await.unwrap(), 0);
        let said = tokio::time::timeout(Duration::from_secs(20), program.end(&command)).await;
        assert!(said.unwrap().contains("signal: 9"));
    }
}
