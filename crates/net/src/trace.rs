use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use quickset_quic::qlog::{Output, Sinks, Subject};

/// Writes the trace of each connection to a file of its own in a folder: its name is the destination of the
/// client's first packet and the side, like `83a0f2d1c4b5e697_client.sqlog`, so that the traces of both ends are
/// easily matched. qvis reads the files, also those of a process that was killed.
///
/// A disk that is full or broken costs traces, not connections: the log says so once.
#[derive(Debug)]
pub struct QlogDir {
    dir: PathBuf,
    warned: Arc<AtomicBool>,
}

impl QlogDir {
    /// Makes the folder, where it does not exist.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(dir: impl Into<PathBuf>) -> io::Result<Self> {
        let dir = dir.into();
        fs::create_dir_all(&dir)?;
        Ok(Self { dir, warned: Arc::default() })
    }
}

impl Sinks for QlogDir {
    fn open(&self, subject: &Subject) -> Option<Output> {
        let path = self.dir.join(format!("{}_{}.sqlog", subject.original_dcid, subject.side));
        // A client chooses the id, and is not to write over the trace of another.
        match File::create_new(&path) {
            Ok(file) => {
                let file = BufWriter::with_capacity(BUFFER, file);
                let reference_time_ms =
                    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64() * 1e3);
                let writer = Box::new(Trace { file, path, warned: self.warned.clone() });
                Some(Output { writer, reference_time_ms })
            }
            Err(error) => {
                warn(&self.warned, &path, &error);
                None
            }
        }
    }
}

/// One file.
struct Trace {
    file: BufWriter<File>,
    path: PathBuf,
    warned: Arc<AtomicBool>,
}

impl Trace {
    fn check<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            warn(&self.warned, &self.path, error);
        }
        result
    }
}

impl Write for Trace {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes);
        self.check(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.file.flush();
        self.check(flushed)
    }
}

fn warn(warned: &AtomicBool, path: &std::path::Path, error: &io::Error) {
    if !warned.swap(true, Ordering::Relaxed) {
        tracing::warn!(path = %path.display(), %error, "a trace cannot be written; later failures are not told");
    }
}

/// A few hundred records for a system call.
const BUFFER: usize = 64 << 10;
