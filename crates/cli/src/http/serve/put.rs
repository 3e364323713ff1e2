//! Files that clients bring: read as they come, written in the background, and held by a part at a time.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body as _, Incoming};
use quickset::h3::{self, Request};

use super::super::site::{FileAnswer, FileDraft, PutEnd, PutRefusal};
use super::desk::{Asker, LogEntry, ServeDesk};
use super::purse::Purse;

/// Content of a request, as it comes.
pub(super) trait Brings {
    /// The next part; `None` at the end, and an error where there is none to come.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, ()>> + Send;
}

impl Brings for h3::Content {
    async fn next(&mut self) -> Result<Option<Bytes>, ()> {
        Self::next(self).await.map_err(drop)
    }
}

impl Brings for Incoming {
    async fn next(&mut self) -> Result<Option<Bytes>, ()> {
        loop {
            match poll_fn(|cx| Pin::new(&mut *self).poll_frame(cx)).await {
                None => return Ok(None),
                Some(Err(_)) => return Err(()),
                // Trailers say nothing to us.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

impl ServeDesk {
    /// Takes the file of a request, and answers; `None` when there was a panic, which is logged already.
    pub(super) async fn put(
        self: &Arc<Self>,
        request: Request,
        asker: &Asker,
        content: &mut impl Brings,
        purse: &Arc<Purse>,
    ) -> Option<(FileAnswer, LogEntry)> {
        let mut entry = self.entry(&request, asker);
        let end = match purse.hold(PART as u64) {
            Some(_paid) => self.take(&request, content, &mut entry).await?,
            None => PutEnd::Busy,
        };
        let desk = self.clone();
        let answer = tokio::task::spawn_blocking(move || desk.site.put(&request, end)).await.ok()?;
        entry.answers(&answer);
        Some((answer, entry))
    }

    async fn take(
        self: &Arc<Self>,
        request: &Request,
        content: &mut impl Brings,
        entry: &mut LogEntry,
    ) -> Option<PutEnd> {
        let (desk, asked) = (self.clone(), request.clone());
        let begun = tokio::task::spawn_blocking(move || desk.site.begin(&asked)).await.ok()?;
        let mut draft = match begun {
            Ok(draft) => draft,
            Err(refusal) => return Some(PutEnd::Refused(refusal)),
        };
        let mut pace = PutPace::new(self.limits.stall);
        let mut part = BytesMut::new();
        loop {
            let next = match tokio::time::timeout_at(pace.until.into(), content.next()).await {
                Err(_) => return Some(PutEnd::Slow),
                Ok(Err(())) => return Some(PutEnd::Broken),
                Ok(Ok(next)) => next,
            };
            let is_over = next.is_none();
            if let Some(data) = next {
                entry.took(data.len());
                if pace.came(data.len()) {
                    entry.goes_on();
                }
                part.extend_from_slice(&data);
            }
            // That it waits for the disk is not the client's doing.
            let began = Instant::now();
            if part.len() >= PART || (is_over && !part.is_empty()) {
                match written(draft, part.split()).await? {
                    Ok(rest) => draft = rest,
                    Err(refusal) => return Some(PutEnd::Refused(refusal)),
                }
            }
            pace.until += began.elapsed();
            if is_over {
                break;
            }
        }
        let (is_new, file) = match tokio::task::spawn_blocking(move || draft.commit()).await.ok()? {
            Ok(done) => done,
            Err(refusal) => return Some(PutEnd::Refused(refusal)),
        };
        // Then its tag is one that stays.
        tokio::time::sleep(TICK).await;
        Some(PutEnd::Done { is_new, file })
    }
}

/// Writes in the background, and hands the draft back.
async fn written(mut draft: FileDraft, part: BytesMut) -> Option<Result<FileDraft, PutRefusal>> {
    let write = move || draft.write(&part).map(|()| draft);
    tokio::task::spawn_blocking(write).await.ok()
}

/// Who brings a little in some time may go on: a few bytes a minute would hold a file for ever.
struct PutPace {
    time: Duration,
    until: Instant,
    /// Bytes since the time began.
    came: usize,
}

impl PutPace {
    fn new(time: Duration) -> Self {
        Self { time, until: Instant::now() + time, came: 0 }
    }

    /// Whether that was enough, and the time begins anew.
    fn came(&mut self, bytes: usize) -> bool {
        self.came += bytes;
        let is_enough = self.came >= LEAST;
        if is_enough {
            *self = Self::new(self.time);
        }
        is_enough
    }
}

/// Bytes written at a time, and held until then.
const PART: usize = 128 << 10;

/// Bytes that are to come in the time that nothing may move.
const LEAST: usize = 16 << 10;

/// Longer than that of the clocks of most file systems.
const TICK: Duration = Duration::from_millis(25);
