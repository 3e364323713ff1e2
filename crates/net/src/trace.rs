use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use quickset_quic::qlog::{Output, Sinks, Subject};

/// Writes the trace of each connection to a file of its own in a folder: its name is the destination of the
/// client's first packet and the side, like `83a0f2d1c4b5e697_client.sqlog`, so that the traces of both ends
/// are easily matched. qvis reads the files, also those of a process that was killed.
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
                let writer = Box::new(TraceFile { file, path, warned: self.warned.clone() });
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
struct TraceFile {
    file: BufWriter<File>,
    path: PathBuf,
    warned: Arc<AtomicBool>,
}

impl TraceFile {
    fn check<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            warn(&self.warned, &self.path, error);
        }
        result
    }
}

impl Write for TraceFile {
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

#[cfg(test)]
mod tests {
    use quickset_base::Time;
    use quickset_quic::{ConnectionId, Side};

    use super::*;

    #[test]
    fn a_trace_is_never_written_over_and_a_lost_folder_costs_only_traces() {
        let folder = std::env::temp_dir().join(format!("quickset-traces-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let sinks = QlogDir::new(&folder).unwrap();
        let original_dcid = ConnectionId::new(&[0xab; 8]).unwrap();
        let subject = Subject { side: Side::Server, original_dcid, now: Time::ZERO };
        let mut output = sinks.open(&subject).unwrap();
        output.writer.write_all(b"first").unwrap();
        output.writer.flush().unwrap();
        assert!(sinks.open(&subject).is_none(), "the id comes from the peer");
        let file = folder.join("abababababababab_server.sqlog");
        assert_eq!(fs::read(file).unwrap(), b"first");
        fs::remove_dir_all(&folder).unwrap();
        assert!(sinks.open(&Subject { side: Side::Client, ..subject }).is_none());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_an_error_to_the_connection_alone() {
        let file = File::options().write(true).open("/dev/full").unwrap();
        let file = BufWriter::with_capacity(BUFFER, file);
        let mut trace = TraceFile { file, path: "/dev/full".into(), warned: Arc::default() };
        trace.write_all(b"a record").unwrap();
        assert!(trace.flush().is_err());
        assert!(trace.warned.load(Ordering::Relaxed));
    }
}
