use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

use quickset_base::Time;
use quickset_screen::recording::RecordingWriter;

use super::{RecordError, RecorderJob, RecorderNews, RecorderShared, RecorderStage};

/// Starts the thread that encodes and writes; it ends with the recording.
pub(super) fn start(shared: Arc<RecorderShared>, path: &Path, file: File) -> io::Result<()> {
    let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (writer, path) = (RecordingWriter::new(began.as_secs()), path.to_owned());
    let scribe = RecorderScribe { shared, writer, path, file, written: 0 };
    std::thread::Builder::new().name("recording".to_owned()).spawn(move || scribe.run())?;
    Ok(())
}

struct RecorderScribe {
    shared: Arc<RecorderShared>,
    writer: RecordingWriter,
    path: PathBuf,
    file: File,
    /// Bytes of whole records.
    written: u64,
}

impl RecorderScribe {
    fn run(mut self) {
        let stage = match self.write_all() {
            Ok(()) => RecorderStage::Ended,
            Err(error) => {
                // What is left of the last record would be said to be broken.
                let _ = self.file.set_len(self.written);
                RecorderStage::Failed(RecordError::Write { path: self.path, error })
            }
        };
        let mut state = self.shared.lock();
        state.is_closed = true;
        state.jobs = VecDeque::new();
        (state.bytes, state.stage) = (0, stage);
        drop(state);
        self.shared.changed.notify_all();
        self.shared.ended.notify_waiters();
    }

    fn write_all(&mut self) -> io::Result<()> {
        loop {
            let job = self.next();
            // What waits is of its own time.
            if job.is_none() {
                self.writer.pass(self.now());
            }
            let is_over = job.is_some_and(|job| self.take(job));
            let bytes = self.writer.take();
            self.file.write_all(&bytes)?;
            self.written += bytes.len() as u64;
            if is_over {
                return self.file.sync_all();
            }
        }
    }

    /// The next job, once there is one; `None` when something is due before.
    fn next(&self) -> Option<RecorderJob> {
        let mut state = self.shared.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.bytes -= job.news.size();
                return Some(job);
            }
            let left = self.writer.next_deadline().map(|due| due.since(self.now()));
            if left == Some(Duration::ZERO) {
                return None;
            }
            let waited = self.shared.changed.wait_timeout(state, left.unwrap_or(LONG));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// True when it was the last.
    fn take(&mut self, RecorderJob { at, news }: RecorderJob) -> bool {
        let writer = &mut self.writer;
        match news {
            RecorderNews::Lost => writer.lose(),
            RecorderNews::Name(name) => writer.name(at, &name),
            RecorderNews::Cursor(cursor) => writer.cursor(at, &cursor),
            RecorderNews::Pointer(x, y) => writer.pointer(at, x, y),
            RecorderNews::Picture(screen) => writer.picture(at, screen),
            RecorderNews::Messages(bytes, lengths) => {
                let mut rest = &bytes[..];
                for length in lengths {
                    let (message, others) = rest.split_at(length);
                    rest = others;
                    if let Err(error) = writer.message(at, message) {
                        tracing::error!(%error, "a message that was drawn cannot be recorded");
                        writer.lose();
                    }
                }
                writer.shown(at);
            }
            RecorderNews::Pixels(parts) => {
                for (rect, pixels) in parts {
                    if let Err(error) = writer.pixels(at, rect, &pixels) {
                        tracing::error!(%error, "pixels that were drawn cannot be recorded");
                        writer.lose();
                    }
                }
                writer.shown(at);
            }
            RecorderNews::End => {
                writer.end(at);
                return true;
            }
        }
        if writer.wants_picture() {
            let mut state = self.shared.lock();
            // One that is on its way will do.
            let comes = state.jobs.iter().any(|job| matches!(job.news, RecorderNews::Picture(_)));
            state.wants_picture |= !comes;
        }
        false
    }

    fn now(&self) -> Time {
        Time::ZERO + self.shared.started.elapsed()
    }
}

/// When nothing is due.
const LONG: Duration = Duration::from_secs(3600);
