//! What a command has to say: on standard output, and beside that on standard error.

use std::collections::VecDeque;
use std::fmt::{Arguments, Write as _};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Prints a line to standard output, as [`text`] does.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::say::text(format_args!("{}\n", format_args!($($words)*)))
    };
}
pub(crate) use say;

/// Writes a line to standard error, as [`aside`] does.
macro_rules! note {
    ($($words:tt)*) => {
        $crate::say::aside(format_args!("{}\n", format_args!($($words)*)))
    };
}
pub(crate) use note;

/// Prints to standard output. A reader who wants no more, like `head`, is no error: what there is to do goes
/// on.
pub(crate) fn text(words: Arguments<'_>) -> anyhow::Result<()> {
    print(&mut std::io::stdout().lock(), words)
}

/// Writes to standard error. Where that cannot be written (a full disk below a log, a reader who left) nobody
/// hears it and what there is to do goes on; `eprintln!` would panic, and so end answers that others wait
/// for, or the server.
pub(crate) fn aside(words: Arguments<'_>) {
    let words = words.to_string().into_bytes();
    match BACKLOG.get() {
        Some(backlog) => backlog.put(words),
        // At once, since standard error has no buffer: lines of several programs may share a file.
        None => drop(io::stderr().lock().write_all(&words)),
    }
}

/// From now on nobody waits for standard error: who reads it slowly, or not at all, holds nothing up. Lines
/// wait for a thread that writes them, a few thousand at most; those beyond are counted, which is told once
/// there is room.
pub(crate) fn in_background() {
    if BACKLOG.set(UnwrittenLines::default()).is_ok() {
        let thread = std::thread::Builder::new().name("stderr".to_owned());
        let backlog = || BACKLOG.get().expect("it was set before");
        // Without one the lines are counted and dropped, as where nobody reads.
        let _ = thread.spawn(move || backlog().write_all_to(&mut io::stderr()));
    }
}

/// Waits until what was said is written, where somebody reads it.
pub(crate) fn flush() {
    if let Some(backlog) = BACKLOG.get() {
        backlog.drained(PATIENCE);
    }
}

/// Logs go the same way as notes, line by line.
pub(crate) struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match BACKLOG.get() {
            Some(backlog) => backlog.put(line.to_vec()),
            None => io::stderr().lock().write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What waits to be written.
#[derive(Default)]
struct UnwrittenLines {
    waiting: Mutex<WaitingLine>,
    /// There is something to write, or nothing any more.
    changed: Condvar,
}

#[derive(Default)]
struct WaitingLine {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Lines that there was no room for, since that was told last.
    dropped: u64,
    /// A line is being written.
    writes: bool,
}

impl UnwrittenLines {
    fn put(&self, line: Vec<u8>) {
        let mut waiting = self.lock();
        if waiting.lines.len() >= MAX_LINES || waiting.bytes + line.len() > MAX_BYTES {
            waiting.dropped += 1;
            return;
        }
        // Where they are missing.
        let told = waiting.missing();
        for line in told.into_iter().chain([line]) {
            waiting.bytes += line.len();
            waiting.lines.push_back(line);
        }
        self.changed.notify_all();
    }

    /// Writes for ever, to where it may take as long as it likes.
    fn write_all_to(&self, output: &mut impl Write) -> ! {
        loop {
            let line = self.next();
            let _ = output.write_all(&line);
        }
    }

    /// The next line, once there is one.
    fn next(&self) -> Vec<u8> {
        let mut waiting = self.lock();
        waiting.writes = false;
        self.changed.notify_all();
        loop {
            if let Some(line) = waiting.lines.pop_front() {
                waiting.bytes -= line.len();
                waiting.writes = true;
                return line;
            }
            if let Some(told) = waiting.missing() {
                waiting.writes = true;
                return told;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until all is written, so long at most.
    fn drained(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut waiting = self.lock();
        while waiting.writes || !waiting.lines.is_empty() || waiting.dropped > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            (waiting, _) = self.changed.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, WaitingLine> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WaitingLine {
    /// What is told of lines that were dropped, once.
    fn missing(&mut self) -> Option<Vec<u8>> {
        let dropped = std::mem::take(&mut self.dropped);
        let lines = if dropped == 1 { "line is" } else { "lines are" };
        let told = || {
            format!("quickset: warning: {dropped} {lines} missing here: nobody read this for a while\n")
                .into_bytes()
        };
        (dropped > 0).then(told)
    }
}

static BACKLOG: OnceLock<UnwrittenLines> = OnceLock::new();

/// Lines that wait at most, and their bytes: a path in one may be as long as a head can be.
const MAX_LINES: usize = 4096;
const MAX_BYTES: usize = 1 << 20;

/// How long a program that ends waits for whoever reads what it said.
const PATIENCE: Duration = Duration::from_secs(1);

/// Words of others, for a line of ours: what acts on a terminal, ends the line or turns its direction is
/// escaped.
pub(crate) fn plain(words: &str) -> String {
    let acts = |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    words.chars().fold(String::new(), |mut out, c| {
        if acts(c) {
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
        out
    })
}

/// A name of a file for a line of ours, where it is no text byte by byte.
pub(crate) fn named(file: &Path) -> String {
    file.as_os_str().as_encoded_bytes().utf8_chunks().fold(String::new(), |out, chunk| {
        out + &plain(chunk.valid()) + &chunk.invalid().escape_ascii().to_string()
    })
}

fn print(output: &mut impl Write, words: Arguments<'_>) -> anyhow::Result<()> {
    match output.write_fmt(words).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("standard output cannot be written"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Output(ErrorKind);

    impl Write for Output {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_stops_reading_is_no_error_and_a_full_disk_is() {
        assert!(print(&mut Output(ErrorKind::BrokenPipe), format_args!("10 Gbit/s")).is_ok());
        let error =
            print(&mut Output(ErrorKind::StorageFull), format_args!("10 Gbit/s")).expect_err("it is full");
        assert!(error.to_string().contains("standard output"), "{error}");
    }

    /// Who does not read loses the newest lines, and is told how many; nobody waits for it.
    #[test]
    fn what_nobody_reads_is_bounded_and_counted() {
        let backlog = UnwrittenLines::default();
        let line = |n: usize| format!("{n}\n").into_bytes();
        (0..MAX_LINES + 7).for_each(|n| backlog.put(line(n)));
        for n in 0..MAX_LINES {
            assert_eq!(backlog.next(), line(n));
        }
        let told = String::from_utf8(backlog.next()).unwrap();
        assert!(told.starts_with("quickset: warning: 7 lines are missing here"), "{told}");
        backlog.put(line(1));
        assert_eq!(backlog.next(), line(1), "it is told once");
        (0..=MAX_LINES).for_each(|n| backlog.put(line(n)));
        (0..2).for_each(|n| assert_eq!(backlog.next(), line(n)));
        backlog.put(b"later\n".to_vec());
        (2..MAX_LINES).for_each(|n| assert_eq!(backlog.next(), line(n)));
        assert!(backlog.next().starts_with(b"quickset: warning: 1 line is missing here"));
        assert_eq!(backlog.next(), b"later\n");

        let backlog = UnwrittenLines::default();
        (0..3).for_each(|_| backlog.put(vec![b'x'; MAX_BYTES / 2]));
        let waiting = backlog.lock();
        let held: usize = waiting.lines.iter().map(Vec::len).sum();
        assert_eq!((held, waiting.bytes, waiting.dropped), (MAX_BYTES, MAX_BYTES, 1));
        drop(waiting);
        backlog.drained(Duration::from_millis(1));
        assert_eq!(backlog.lock().lines.len(), 2, "nobody writes, and it does not wait for ever");
    }

    #[test]
    fn words_of_others_do_not_act() {
        assert_eq!(plain("été, \"so\" \\ 'so'"), "été, \"so\" \\ 'so'");
        assert_eq!(plain("a\r\n\tb"), "a\\r\\n\\tb");
        assert_eq!(plain("\u{1b}[2J\u{9b}2J\u{7f}"), "\\u{1b}[2J\\u{9b}2J\\u{7f}");
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt as _;
            let name = std::ffi::OsStr::from_bytes(b"\xc3\xa9\xff\x1b/a\nb\xfe");
            assert_eq!(named(name.as_ref()), "é\\xff\\u{1b}/a\\nb\\xfe");
        }
        assert_eq!(plain("\u{202e}gpj\u{2066}"), "\\u{202e}gpj\\u{2066}");
    }
}
