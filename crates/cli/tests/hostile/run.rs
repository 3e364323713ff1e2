//! A command that is watched while it runs.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// What became of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` when it was ended because its time was over.
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
    /// The most that it held, in bytes.
    pub(crate) peak: u64,
    pub(crate) took: Duration,
}

impl Ended {
    /// What is wrong with an end by an error that has this sentence, or one of several with bars between, and
    /// no sign that acts on a terminal; nothing if it is one.
    pub(crate) fn slip(&self, sentence: &str, memory: u64) -> Option<String> {
        let acts = self.said.contains(['\u{1b}', '\u{9b}', '\u{202e}']);
        let says = sentence.split('|').any(|sentence| self.said.contains(sentence));
        let is_fine = self.code == Some(1) && says && !acts && self.peak < memory;
        (!is_fine).then(|| format!("{sentence:?} and {memory} bytes: {self:?}"))
    }
}

/// Runs it for so long at most.
pub(crate) fn run(command: &mut Command, most: Duration) -> Ended {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (tell, told) = mpsc::channel();
    let mut errors = child.stderr.take().unwrap();
    thread::spawn(move || {
        let mut said = Vec::new();
        let _ = errors.read_to_end(&mut said);
        let _ = tell.send(String::from_utf8_lossy(&said).into_owned());
    });
    let (began, mut peak) = (Instant::now(), 0);
    let code = loop {
        peak = peak.max(memory(&child).unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if began.elapsed() > most {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        thread::sleep(Duration::from_millis(10));
    };
    Ended { code, said: told.recv().unwrap(), peak, took: began.elapsed() }
}

/// The most that it held so far. Pages of its program are not counted: how many of them the system maps at a
/// time is a matter of how the file lies in memory, and may be all of it.
fn memory(child: &Child) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    // Just spawned, it may have the memory of this process yet, and then its name as well: who waits in
    // vfork(2) goes on a moment before the new program has memory of its own.
    let name = status.lines().find_map(|line| line.strip_prefix("Name:"))?.trim();
    if name != "quickset" {
        return None;
    }
    let kilobytes = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    Some(kilobytes("VmHWM:")?.saturating_sub(kilobytes("RssFile:")?) << 10)
}

/// An empty folder that goes away again.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}
