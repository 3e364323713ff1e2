//! What is kept of a play: every datagram with its times, and what the applications saw.

use std::fmt::{self, Write as _};

use quickset_base::Time;
use quickset_base::number::wrapped_u32;
use quickset_quic::{Closed, DatagramEvent, DatagramOutcome, Dir, Event, Outcome, Stats, StreamEvent};
use quickset_sim::Trace;

use crate::dissect::Dissector;

/// What the applications of a play saw, a line each time. The words are the journal's own, so that no
/// renaming in the library is a difference.
pub(crate) struct Journal {
    sum: Sum,
    lines: Option<Vec<(Time, String)>>,
}

impl Journal {
    /// One that keeps its lines, or else only their hash.
    pub(crate) fn new(keep: bool) -> Self {
        Self { sum: Sum::new(), lines: keep.then(Vec::new) }
    }

    pub(crate) fn note(&mut self, now: Time, line: fmt::Arguments<'_>) {
        writeln!(self.sum, "{now} {line}").expect("a sum takes everything");
        if let Some(lines) = &mut self.lines {
            lines.push((now, line.to_string()));
        }
    }
}

/// A play that is over.
pub(crate) struct Played {
    pub(crate) datagrams: u64,
    /// The UDP payloads of these.
    pub(crate) bytes: u64,
    pub(crate) hash: u32,
    /// In the order of time, if they were to be kept: `datagram`, its number, times and fate, and what is in
    /// it; or who saw what.
    pub(crate) lines: Vec<String>,
}

impl Played {
    pub(crate) fn new(trace: &Trace, journal: Journal) -> Self {
        let bytes = trace.records().iter().map(|record| u64::from(record.size)).sum();
        let mut sum = journal.sum;
        write!(sum, "{} {bytes} {:016x}", trace.count(), trace.digest()).expect("a sum takes everything");
        let mut lines: Vec<(Time, String)> = Vec::new();
        if let Some(seen) = journal.lines {
            let payloads = || (0..).map_while(|at| trace.payload(at));
            let dissector = Dissector::new(payloads());
            lines.extend(trace.records().iter().zip(payloads()).map(|(record, payload)| {
                (record.time, format!("{DATAGRAM}{record} | {}", dissector.line(payload)))
            }));
            lines.extend(seen.into_iter().map(|(time, line)| (time, format!("{time} {line}"))));
            // What happens at one time keeps its order, the datagrams first.
            lines.sort_by_key(|line| line.0);
        }
        Self {
            datagrams: trace.count(),
            bytes,
            hash: sum.folded(),
            lines: lines.into_iter().map(|line| line.1).collect(),
        }
    }
}

/// How the line of a datagram begins.
pub(crate) const DATAGRAM: &str = "datagram ";

/// The hash of FNV-1a in 64 bits. The order and every byte count; it is no defence against those who want it
/// to collide.
pub(crate) struct Sum(u64);

impl Sum {
    pub(crate) const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn of(bytes: &[u8]) -> u64 {
        let mut sum = Self::new();
        sum.add(bytes);
        sum.0
    }

    fn add(&mut self, bytes: &[u8]) {
        self.0 =
            bytes.iter().fold(self.0, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    }

    /// In 32 bits, enough to see a change by.
    fn folded(&self) -> u32 {
        wrapped_u32(self.0 ^ self.0 >> 32)
    }
}

impl fmt::Write for Sum {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

/// An event of a connection.
pub(crate) fn event(event: &Event) -> String {
    match event {
        Event::Connected => "connected".to_owned(),
        Event::EarlyData { accepted: true } => "early data is accepted".to_owned(),
        Event::EarlyData { accepted: false } => "early data is rejected".to_owned(),
        Event::Stream(event) => stream(event),
        Event::Datagram(DatagramEvent::Received) => "datagrams received".to_owned(),
        Event::Datagram(DatagramEvent::Writable) => "room for datagrams".to_owned(),
        Event::Datagram(DatagramEvent::Outcome) => "fate of a datagram".to_owned(),
        Event::NewToken(token) => format!("a token of {} bytes", token.len()),
        Event::Moved(path) => format!("moved to {}", path.remote),
        Event::NotMoved(path) => format!("not moved to {}", path.remote),
        Event::Closed(why) => format!("closed: {}", closed(why)),
        _ => "an event that has no words here".to_owned(),
    }
}

fn stream(event: &StreamEvent) -> String {
    match event {
        StreamEvent::Opened(dir) => format!("peer opened {}", kind(*dir)),
        StreamEvent::Available(dir) => format!("may open {}", kind(*dir)),
        StreamEvent::Readable(id) => format!("stream {} readable", id.0),
        StreamEvent::Writable(id) => format!("stream {} writable", id.0),
        StreamEvent::Stopped { id, code } => format!("stream {} stopped with {code}", id.0),
        StreamEvent::Finished(id) => format!("stream {} delivered", id.0),
        StreamEvent::ResetArrived(id) => format!("stream {}: reset delivered", id.0),
        StreamEvent::Message(id) => format!("stream {} has a message", id.0),
        StreamEvent::Outcome(id) => format!("stream {} has an outcome", id.0),
    }
}

pub(crate) fn kind(dir: Dir) -> &'static str {
    match dir {
        Dir::Bi => "bidirectional",
        Dir::Uni => "unidirectional",
    }
}

/// What became of a message.
pub(crate) fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Delivered => "delivered",
        Outcome::Recovered => "recovered",
        Outcome::Dropped => "dropped",
        Outcome::Abandoned => "abandoned",
        other => panic!("the journal has no word for {other:?}"),
    }
}

/// What became of a datagram.
pub(crate) fn fate(outcome: DatagramOutcome) -> &'static str {
    match outcome {
        DatagramOutcome::Acknowledged => "acknowledged",
        DatagramOutcome::Recovered => "recovered",
        DatagramOutcome::Lost => "lost",
        DatagramOutcome::Expired => "expired",
        DatagramOutcome::Displaced => "displaced",
        DatagramOutcome::TooLong => "too long",
        other => panic!("the journal has no word for {other:?}"),
    }
}

pub(crate) fn closed(why: &Closed) -> String {
    match why {
        Closed::Locally => "locally".to_owned(),
        Closed::Abandoned => "abandoned".to_owned(),
        Closed::ByApplication { code, reason } => format!("by the application with {code}, {reason:02x?}"),
        Closed::ByPeer(error) => format!("by the peer with {:#x}", error.code.0),
        Closed::Failed(error) => format!("failed with {:#x}", error.code.0),
        Closed::Reset => "stateless reset".to_owned(),
        Closed::TimedOut => "timed out".to_owned(),
        Closed::Unreachable(_) => "unreachable".to_owned(),
        Closed::NoCommonVersion => "no common version".to_owned(),
        other => panic!("the journal has no word for {other:?}"),
    }
}

/// What a connection has counted in the end.
pub(crate) fn stats(stats: &Stats) -> String {
    let Stats { sent_packets, received_packets, lost_packets, spurious_losses, ptos, rtt, window, .. } =
        stats;
    let (fec, acks, ecn, mtu) = (&stats.fec, &stats.acks, &stats.ecn, &stats.mtu);
    format!(
        "packets sent {sent_packets} received {received_packets} dropped {} lost {lost_packets} spuriously \
         {spurious_losses}; PTOs {ptos}; RTT {rtt:?}; window {window}, in flight {}; FEC sources {} repairs {} recovered \
         {} here {}; ACK frames {} requests {}; CE {}; size {} probes {}",
        stats.dropped_packets,
        stats.in_flight,
        fec.sources_sent,
        fec.repairs_sent,
        fec.recovered,
        fec.recovered_here,
        acks.frames,
        acks.requests,
        ecn.ce,
        mtu.current,
        mtu.probes,
    )
}
