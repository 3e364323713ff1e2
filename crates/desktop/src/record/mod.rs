//! Recordings of what is seen: a file that `desktop play` shows again.
//!
//! *In:* what a session draws, by a `RecorderTap`. *Out:* a file (`spec/recording.md`), written by a thread
//! of its own. Invariants: who draws never waits for the disk; what waits for the thread is bounded, and when
//! there is too much the recording goes on with a whole picture; a disk that is full ends the recording and
//! nothing else. Keys and texts of the clipboard never come here.

mod tap;
#[cfg(test)]
mod tests;
mod thread;

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quickset_base::Time;
use quickset_rfb::{Cursor, Framebuffer, Rect};
use tokio::sync::Notify;

pub(crate) use tap::RecorderTap;

/// Writes a recording. Clones are handles of the same one; the sessions of one screen, one after the other,
/// are one recording.
#[derive(Clone, Debug)]
pub struct ScreenRecorder(Arc<RecorderShared>);

/// Why there is no recording, or no more of it.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A file has that name.
    #[error("{} is there already", .0.display())]
    Exists(PathBuf),
    /// The file cannot be made.
    #[error("cannot make {}: {error}", path.display())]
    Make {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// No more can be written.
    #[error("cannot write to {} any more: {error}; the recording ends here, and what is written can be played", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

#[derive(Debug)]
struct RecorderShared {
    state: Mutex<RecorderState>,
    /// There is something for the thread, or it has ended.
    changed: Condvar,
    /// It has ended.
    ended: Notify,
    started: Instant,
}

#[derive(Debug, Default)]
struct RecorderState {
    jobs: VecDeque<RecorderJob>,
    /// What they hold.
    bytes: usize,
    /// A whole picture is to be given next, and none is on its way.
    wants_picture: bool,
    /// Nothing more is taken.
    is_closed: bool,
    stage: RecorderStage,
}

#[derive(Debug, Default)]
enum RecorderStage {
    #[default]
    Writes,
    Ended,
    /// Nobody was told of it.
    Failed(RecordError),
}

/// What the thread is to do.
#[derive(Debug)]
struct RecorderJob {
    at: Time,
    news: RecorderNews,
}

#[derive(Debug)]
enum RecorderNews {
    /// What follows belongs to another picture.
    Lost,
    Name(String),
    Cursor(Cursor),
    Pointer(u16, u16),
    Picture(Framebuffer),
    /// Screen messages that were drawn, one behind the other, and the length of each.
    Messages(Vec<u8>, Vec<usize>),
    /// The same as pixels.
    Pixels(Vec<(Rect, Vec<u32>)>),
    End,
}

impl ScreenRecorder {
    /// Begins a recording in a new file that only its owner can read. With `replace` a file of that name is
    /// removed before.
    ///
    /// # Errors
    /// When there is such a file and it is to stay, and when none can be made.
    pub fn create(path: &Path, replace: bool) -> Result<Self, RecordError> {
        let make = |error| RecordError::Make { path: path.into(), error };
        if replace {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(make(error)),
                _ => {}
            }
        }
        let file = create(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => RecordError::Exists(path.into()),
            _ => make(error),
        })?;
        let state = RecorderState { wants_picture: true, ..RecorderState::default() };
        let shared = Arc::new(RecorderShared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            ended: Notify::new(),
            started: Instant::now(),
        });
        thread::start(shared.clone(), path, file).map_err(make)?;
        Ok(Self(shared))
    }

    /// Waits until no more can be written, and says why.
    pub async fn failed(&self) -> RecordError {
        loop {
            let ended = self.0.ended.notified();
            if let Some(error) = self.0.lock().take_failure() {
                return error;
            }
            ended.await;
        }
    }

    /// Ends the recording, and waits until all of it is written, for ten seconds at most: what a slow disk
    /// has not taken then is not in it.
    ///
    /// # Errors
    /// When not all could be written, and nobody was told so before.
    pub fn finish(&self) -> Result<(), RecordError> {
        self.push(RecorderNews::End);
        let mut state = self.0.lock();
        state.is_closed = true;
        let until = Instant::now() + LAST_WORDS;
        while matches!(state.stage, RecorderStage::Writes) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.take_failure().map_or(Ok(()), Err)
    }

    fn wants_picture(&self) -> bool {
        self.0.lock().wants_picture
    }

    fn push(&self, news: RecorderNews) {
        let at = Time::ZERO + self.0.started.elapsed();
        let mut state = self.0.lock();
        if state.is_closed {
            return;
        }
        let size = news.size();
        let is_full = state.bytes + size > MOST_WAITING && !state.jobs.is_empty();
        if is_full && !matches!(news, RecorderNews::End) {
            // RC-12: what follows is of no use without it.
            state.wants_picture = true;
            if !matches!(state.jobs.back(), Some(RecorderJob { news: RecorderNews::Lost, .. })) {
                tracing::warn!("a recording is written too slowly: some of it is left out");
                state.bytes += RecorderNews::Lost.size();
                state.jobs.push_back(RecorderJob { at, news: RecorderNews::Lost });
            }
            return;
        }
        match news {
            RecorderNews::Lost => state.wants_picture = true,
            RecorderNews::Picture(_) => state.wants_picture = false,
            _ => {}
        }
        state.bytes += size;
        state.jobs.push_back(RecorderJob { at, news });
        drop(state);
        self.0.changed.notify_all();
    }
}

impl RecorderShared {
    fn lock(&self) -> MutexGuard<'_, RecorderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecorderState {
    /// Why no more is written, if nobody was told.
    fn take_failure(&mut self) -> Option<RecordError> {
        match std::mem::replace(&mut self.stage, RecorderStage::Ended) {
            RecorderStage::Failed(error) => Some(error),
            stage => {
                self.stage = stage;
                None
            }
        }
    }
}

impl RecorderNews {
    /// Bytes that it holds, about.
    fn size(&self) -> usize {
        let held = match self {
            Self::Lost | Self::Pointer(..) | Self::End => 0,
            Self::Name(name) => name.len(),
            Self::Cursor(cursor) => cursor.pixels.len() * 4 + cursor.mask.len(),
            Self::Picture(screen) => screen.pixels().len() * 4,
            Self::Messages(bytes, lengths) => bytes.len() + lengths.len() * size_of::<usize>(),
            Self::Pixels(parts) => parts.iter().map(|(_, pixels)| pixels.len() * 4 + 32).sum(),
        };
        held + size_of::<RecorderJob>()
    }
}

/// A new file that only its owner can read, at any moment (RC-13).
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Bytes that wait for the thread: two pictures of 4K.
const MOST_WAITING: usize = 64 << 20;
/// How long the last of a recording may take.
const LAST_WORDS: Duration = Duration::from_secs(10);
