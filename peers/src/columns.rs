//! What one run found, and the figures of each case.

use serde::Serialize;

use crate::PeersStack;
use crate::cases::{BenchCase, BenchWork, CaseFound, SentInAll};
use crate::tally::ArrivedSoFar;
use crate::wire::ServerWord;

/// One run: what the client found, and what the server spent and got meanwhile.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Run {
    #[serde(flatten)]
    pub(crate) found: CaseFound,
    /// By the server's clock.
    pub(crate) server_seconds: f64,
    pub(crate) server_cpu_s: f64,
    /// Memory that the server took meanwhile, and since before the first connection.
    pub(crate) server_bytes: u64,
    pub(crate) server_held: u64,
    /// What came to the server meanwhile, where it is the client that sends.
    #[serde(flatten)]
    pub(crate) got: ArrivedSoFar,
    /// Before the time that counts too, and behind it: what the client sent, and the last word of the server.
    pub(crate) sent_in_all: SentInAll,
    pub(crate) server_in_all: ServerWord,
    /// Datagrams that the system dropped in all that time, of any process, since a socket's buffer was full.
    pub(crate) full_sockets: Option<u64>,
}

/// Name, digits behind the point, and how it comes of a run; not a number where nobody counts it.
pub(crate) type ReportColumn = (&'static str, usize, fn(&Run) -> f64);

const BULK: &[ReportColumn] = &[
    ("Gbit/s", 2, |run| run.gbit()),
    ("client CPU s/GB", 3, |run| run.found.cpu_s / (run.found.bytes as f64 / 1e9)),
    ("server CPU s/GB", 3, |run| run.server_cpu_s / (run.found.bytes as f64 / 1e9)),
];
const HANDSHAKES: &[ReportColumn] = &[
    ("per second", 0, |run| run.found.count as f64 / run.found.seconds),
    ("client CPU µs", 1, |run| run.found.cpu_s * 1e6 / run.found.count as f64),
    ("server CPU µs", 1, |run| run.server_cpu_s * 1e6 / run.found.count as f64),
    ("p50 µs", 0, |run| run.found.p50_us),
    ("p99 µs", 0, |run| run.found.p99_us),
];
const LATENCY: &[ReportColumn] = &[
    ("p50 µs", 1, |run| run.found.p50_us),
    ("p99 µs", 1, |run| run.found.p99_us),
    ("client CPU µs", 1, |run| run.found.cpu_s * 1e6 / run.found.count as f64),
    ("server CPU µs", 1, |run| run.server_cpu_s * 1e6 / run.found.count as f64),
];

const HELD: &[ReportColumn] = &[
    ("Gbit/s", 2, Run::gbit),
    ("client CPU s/GB", 3, BULK[1].2),
    ("server CPU s/GB", 3, BULK[2].2),
    ("client kB each", 1, |run| run.found.held as f64 / 1e3 / run.found.connections as f64),
    ("server kB each", 1, |run| run.server_held as f64 / 1e3 / run.found.connections as f64),
];

const LOSSLESS: &[ReportColumn] = &[
    ("Gbit/s", 2, Run::gbit),
    ("declared lost %", 4, |run| {
        let counts = run.server_in_all.counts;
        counts.map_or(f64::NAN, |counts| counts.lost_packets as f64 * 100.0 / counts.sent_packets as f64)
    }),
    ("dropped by system", 0, |run| run.full_sockets.map_or(f64::NAN, |dropped| dropped as f64)),
    ("client CPU s/GB", 3, BULK[1].2),
    ("server CPU s/GB", 3, BULK[2].2),
];

const UPLOAD: &[ReportColumn] = &[
    ("Gbit/s", 2, |run| run.got.received_bytes as f64 * 8e-9 / run.server_seconds),
    ("client CPU s/GB", 3, |run| run.client_cpu_rate() / (run.byte_rate() / 1e9)),
    ("server CPU s/GB", 3, |run| run.server_cpu_s / (run.got.received_bytes as f64 / 1e9)),
];

const MESSAGES: &[ReportColumn] = &[
    ("per second", 0, Run::rate),
    ("Gbit/s", 3, UPLOAD[0].2),
    ("client CPU µs", 3, |run| run.client_cpu_rate() * 1e6 / run.rate()),
    ("server CPU µs", 3, |run| run.server_cpu_s * 1e6 / run.got.received as f64),
];

const DATAGRAMS: &[ReportColumn] = &[
    ("received/s", 0, Run::rate),
    ("lost %", 3, |run| {
        let sent = run.sent_in_all.sent.received;
        run.share(Some(sent.saturating_sub(run.server_in_all.got.received)))
    }),
    ("unsent %", 3, |run| run.share(run.sent_in_all.counts.and_then(|counts| counts.unsent_datagrams))),
    ("on the way %", 3, |run| run.share(run.sent_in_all.counts.and_then(|counts| counts.lost_datagrams))),
    ("unread %", 3, |run| run.share(run.server_in_all.counts.and_then(|counts| counts.unread_datagrams))),
    ("system dropped", 0, LOSSLESS[2].2),
    ("client CPU µs", 3, MESSAGES[2].2),
    ("server CPU µs", 3, MESSAGES[3].2),
];

const RESUMED: &[ReportColumn] = &[
    ("per second", 0, HANDSHAKES[0].2),
    ("client CPU µs", 1, HANDSHAKES[1].2),
    ("server CPU µs", 1, HANDSHAKES[2].2),
    ("p50 µs", 0, HANDSHAKES[3].2),
    ("p99 µs", 0, HANDSHAKES[4].2),
    ("with ticket %", 1, |run| run.found.resumed as f64 * 100.0 / run.found.count as f64),
];

const REQUESTS: &[ReportColumn] = &[
    ("per second", 0, |run| run.found.count as f64 / run.found.seconds),
    ("server CPU µs", 1, |run| run.server_cpu_s * 1e6 / run.found.count as f64),
    ("client CPU µs", 1, |run| run.found.cpu_s * 1e6 / run.found.count as f64),
    ("p50 µs", 0, |run| run.found.p50_us),
    ("p99 µs", 0, |run| run.found.p99_us),
];

const IDLE: &[ReportColumn] = &[
    ("server B each", 0, |run| run.server_bytes as f64 / run.found.count as f64),
    ("client B each", 0, |run| run.found.grown as f64 / run.found.count as f64),
    ("connections", 0, |run| run.found.count as f64),
];

impl BenchCase {
    /// Ours of the stacks that are measured.
    pub(crate) fn own(self) -> PeersStack {
        if self.is_http() { PeersStack::QuicksetH3 } else { PeersStack::Quickset }
    }

    pub(crate) fn columns(self) -> &'static [ReportColumn] {
        match self.work() {
            BenchWork::Bulk { connections: 100.., .. } => HELD,
            BenchWork::Bulk { .. } if self == Self::Lossless10 => LOSSLESS,
            BenchWork::Bulk { .. } => BULK,
            BenchWork::Upload => UPLOAD,
            BenchWork::Handshakes if self == Self::Resumed => RESUMED,
            BenchWork::Handshakes => HANDSHAKES,
            BenchWork::Latency(_) => LATENCY,
            BenchWork::Requests { .. } => REQUESTS,
            BenchWork::Messages(_) => MESSAGES,
            BenchWork::Datagrams(_) => DATAGRAMS,
            BenchWork::Idle => IDLE,
        }
    }

    /// Of the first column.
    pub(crate) fn less_is_better(self) -> bool {
        matches!(self.work(), BenchWork::Latency(_) | BenchWork::Idle)
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Bulk => "bytes from the server, one connection",
            Self::BulkOneCore => "bytes from the server, one connection, both sides on one core",
            Self::Bulk10 => "bytes from the server, ten connections",
            Self::Bulk100 => "bytes from the server, a hundred connections",
            Self::Bulk1000 => "bytes from the server, a thousand connections",
            Self::Streams100 => "bytes from the server, a hundred streams of one connection",
            Self::Streams10000 => "bytes from the server, ten thousand streams of one connection",
            Self::Upload => "bytes from the client, one connection",
            Self::Lossless10 => "bytes from the server, ten connections, and what is lost of them",
            Self::Handshakes => "full handshakes, eight at a time",
            Self::Resumed => "handshakes with tickets, eight at a time",
            Self::Latency1 => "answers of 1 byte, one request at a time",
            Self::Latency8k => "answers of 8 kB, one request at a time",
            Self::Latency32k => "answers of 32 kB, one request at a time",
            Self::Requests10 => "answers of 1 kB, ten at a time on one connection",
            Self::Requests100 => "answers of 1 kB, a hundred at a time on one connection",
            Self::Requests1k => "answers of 1 kB, a thousand at a time on one connection",
            Self::Requests10k => "answers of 1 kB, ten thousand at a time on one connection",
            Self::Messages100 => "messages of 100 bytes from the client",
            Self::Messages1k => "messages of 1 kB from the client",
            Self::Messages10k => "messages of 10 kB from the client",
            Self::Datagrams100 => "datagrams of 100 bytes from the client",
            Self::Datagrams1200 => "datagrams of 1200 bytes from the client",
            Self::Idle => "memory of connections on which nothing moves",
            Self::Http1x100 => "HTTP, answers of 1 kB, a hundred at a time on one connection",
            Self::Http100x1 => "HTTP, answers of 1 kB, one at a time on each of a hundred connections",
        }
    }
}

impl Run {
    /// For the log while it goes on.
    pub(crate) fn line(&self, case: BenchCase, stack: PeersStack) -> String {
        let figures =
            case.columns().iter().map(|(name, digits, of)| format!("{name} {:.*}", digits, of(self)));
        format!("{:<14} {}", stack.name(), figures.collect::<Vec<_>>().join(", "))
    }

    fn gbit(&self) -> f64 {
        self.found.bytes as f64 * 8e-9 / self.found.seconds
    }

    /// What came to the server each second.
    fn rate(&self) -> f64 {
        self.got.received as f64 / self.server_seconds
    }

    fn byte_rate(&self) -> f64 {
        self.got.received_bytes as f64 / self.server_seconds
    }

    /// Seconds of the client's CPU each second, of its own time, which is not quite the server's.
    fn client_cpu_rate(&self) -> f64 {
        self.found.cpu_s / self.found.seconds
    }

    /// So many of what the client sent in all, in percent.
    fn share(&self, part: Option<u64>) -> f64 {
        part.map_or(f64::NAN, |part| part as f64 * 100.0 / self.sent_in_all.sent.received as f64)
    }
}
