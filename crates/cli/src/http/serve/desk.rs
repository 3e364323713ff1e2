use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Instant, SystemTime};

use bytes::Bytes;
use quickset::h3::Request;
use quickset::{Budget, Reliability};

use super::super::pulse::{Pulse, PulseLimits};
use super::super::site::{FileAnswer, FolderSite, dated};
use super::answers::AnswerTurns;
use super::ranks::Ranks;
use crate::metrics::{MetricKind, MetricsPage};
use crate::say::{note, plain};

/// What all connections share.
#[derive(Debug)]
pub(super) struct ServeDesk {
    pub(super) site: FolderSite,
    pub(super) access_log: bool,
    pub(super) limits: PulseLimits,
    /// How losses of urgent answers by HTTP/3 are repaired.
    pub(super) repair: Reliability,
    /// What the rules say of answers by HTTP/3.
    pub(super) ranks: Ranks,
    pub(super) counts: AnswerCounts,
    /// What all connections may hold, and how many answers there may be for each address.
    pub(super) budget: Budget,
    pub(super) answers: Arc<AnswerTurns>,
}

/// What was answered so far. Versions are those of [`VERSIONS`].
#[derive(Debug, Default)]
pub(super) struct AnswerCounts {
    /// Answers by version, and by the first digit of their status.
    answers: [[AtomicU64; 5]; 3],
    /// Bytes of content by version, sent and taken.
    bytes: [AtomicU64; 3],
    taken: [AtomicU64; 3],
    /// Answers under way.
    active: AtomicU64,
}

/// Who asks, and how.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    pub(super) client: SocketAddr,
    /// What it is called, if it proved that.
    pub(super) name: Option<Arc<str>>,
    pub(super) version: ServedVersion,
    pub(super) pulse: Arc<Pulse>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServedVersion {
    /// HTTP/1.0 or HTTP/1.1.
    One,
    Two,
    Three,
}

/// An answer under way: what will be in the log of it.
#[derive(Debug)]
pub(super) struct LogEntry {
    desk: Arc<ServeDesk>,
    asker: Asker,
    method: Bytes,
    path: Bytes,
    status: u16,
    began: Instant,
    /// Bytes of content handed to the connection.
    sent: u64,
    /// Bytes of content that the client brought to be kept.
    taken: u64,
    /// What went wrong.
    pub(super) failed: Option<String>,
}

impl ServeDesk {
    /// The answer to a request; `None` when there was a panic, which is logged already.
    pub(super) async fn answer(
        self: &Arc<Self>,
        request: Request,
        asker: &Asker,
    ) -> Option<(FileAnswer, LogEntry)> {
        let mut entry = LogEntry::new(self.clone(), asker.clone(), &request);
        let answer = if let Some(answer) = self.site.answer_at_once(&request) {
            answer
        } else {
            let desk = self.clone();
            tokio::task::spawn_blocking(move || desk.site.answer(&request)).await.ok()?
        };
        entry.status = answer.response.status;
        Some((answer, entry))
    }

    /// Whether a request brings a file to be kept.
    pub(super) fn takes(&self, request: &Request) -> bool {
        #[cfg(unix)]
        return self.site.takes(request);
        #[cfg(not(unix))]
        false
    }

    /// The answer when there is no memory for another one.
    pub(super) fn turn_away(self: &Arc<Self>, request: &Request, asker: &Asker) -> (FileAnswer, LogEntry) {
        let mut entry = LogEntry::new(self.clone(), asker.clone(), request);
        let answer = FileAnswer::busy();
        entry.status = answer.response.status;
        (answer, entry)
    }

    /// An answer begins.
    pub(super) fn entry(self: &Arc<Self>, request: &Request, asker: &Asker) -> LogEntry {
        LogEntry::new(self.clone(), asker.clone(), request)
    }
}

/// Nothing is put where files are not opened by folders that are open.
#[cfg(not(unix))]
impl ServeDesk {
    pub(super) async fn put<C>(
        self: &Arc<Self>,
        request: Request,
        asker: &Asker,
        _: &mut C,
        _: &Arc<super::purse::Purse>,
    ) -> Option<(FileAnswer, LogEntry)> {
        self.answer(request, asker).await
    }
}

impl LogEntry {
    fn new(desk: Arc<ServeDesk>, asker: Asker, request: &Request) -> Self {
        asker.pulse.begin();
        desk.counts.active.fetch_add(1, Relaxed);
        let path = request.path.clone().unwrap_or_default();
        let method = request.method.clone();
        Self {
            desk,
            asker,
            method,
            path,
            status: 500,
            began: Instant::now(),
            sent: 0,
            taken: 0,
            failed: None,
        }
    }

    /// So many bytes of content were handed over.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        self.desk.counts.bytes[self.asker.version as usize].fetch_add(bytes as u64, Relaxed);
    }

    /// This is the answer.
    pub(super) fn answers(&mut self, answer: &FileAnswer) {
        self.status = answer.response.status;
    }

    /// So many bytes came.
    pub(super) fn took(&mut self, bytes: usize) {
        self.taken += bytes as u64;
        self.desk.counts.taken[self.asker.version as usize].fetch_add(bytes as u64, Relaxed);
    }

    /// Enough of it came to go on.
    pub(super) fn goes_on(&self) {
        self.asker.pulse.moved();
    }

    /// What [`sent`](Self::sent) counts, where the connection takes no more than the client.
    pub(super) fn moved(&mut self, bytes: usize) {
        self.sent(bytes);
        self.asker.pulse.moved();
    }

    /// The rest cannot be sent, for a reason of ours.
    pub(super) fn fails(&mut self, error: io::Error) -> io::Error {
        self.failed = Some(error.to_string());
        error
    }
}

impl AnswerCounts {
    pub(super) fn tell(&self, page: &mut MetricsPage) {
        let version = |at: usize| ("version", VERSIONS[at].to_owned());
        let (name, help) = ("quickset_http_requests_total", "Requests answered.");
        let answers = (0..3).flat_map(|at| (0..5).map(move |class| (at, class)));
        let answers = answers.map(|(at, class)| {
            let labels = vec![version(at), ("status", format!("{}xx", class + 1))];
            (labels, self.answers[at][class].load(Relaxed))
        });
        page.values((name, MetricKind::Counter, help), answers);
        let (name, help) = ("quickset_http_content_bytes_total", "Bytes of content sent.");
        let bytes = (0..3).map(|at| (vec![version(at)], self.bytes[at].load(Relaxed)));
        page.values((name, MetricKind::Counter, help), bytes);
        let (name, help) = ("quickset_http_taken_bytes_total", "Bytes of content of files that clients put.");
        let bytes = (0..3).map(|at| (vec![version(at)], self.taken[at].load(Relaxed)));
        page.values((name, MetricKind::Counter, help), bytes);
        let active = self.active.load(Relaxed);
        page.value("quickset_http_requests_active", MetricKind::Gauge, "Answers under way.", active);
    }
}

impl Drop for LogEntry {
    fn drop(&mut self) {
        self.asker.pulse.end();
        let counts = &self.desk.counts;
        let class = usize::from(self.status / 100).clamp(1, 5) - 1;
        counts.answers[self.asker.version as usize][class].fetch_add(1, Relaxed);
        counts.active.fetch_sub(1, Relaxed);
        if self.desk.access_log {
            // Escaped: what a client sends is not to act on a terminal.
            note!(
                "{}{} [{}] \"{} {} {}\" {} {} bytes{} {} ms{}",
                self.asker.client,
                self.asker.name.as_ref().map_or(String::new(), |name| format!(" \"{name}\"")),
                dated(SystemTime::now()),
                self.method.escape_ascii(),
                self.path.escape_ascii(),
                self.asker.version,
                self.status,
                self.sent,
                if self.taken > 0 { format!(" for {} bytes", self.taken) } else { String::new() },
                self.began.elapsed().as_millis(),
                // A client may close its connection with words of its own.
                self.failed.as_ref().map_or(String::new(), |error| format!(" ({})", plain(error))),
            );
        }
    }
}

impl fmt::Display for ServedVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(VERSIONS[*self as usize])
    }
}

/// As logs and figures call them.
const VERSIONS: [&str; 3] = ["HTTP/1", "HTTP/2", "HTTP/3"];

/// Bytes of content of a request that are passed over.
pub(super) const MAX_CONTENT: usize = 64 << 10;
