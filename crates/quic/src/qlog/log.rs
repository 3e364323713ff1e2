use std::fmt;
use std::io::{self, Write};

use ::qlog::events::EventData;
use ::qlog::{CommonFields, QLOG_VERSION, QlogSeq, TraceSeq, VantagePoint, VantagePointType};
use quickset_base::number::Unsigned as _;
use quickset_base::{Duration, Time};
use quickset_wire::{ConnectionId, Side};
use serde::Serialize;

use super::frame::Logged;
use super::metrics::TracedMetrics;
use super::repair::RepairTold;
use super::{Output, Sinks, Subject};
use crate::stats::EcnState;

/// The trace of a connection, if it leaves one.
pub(crate) struct Qlog(Option<Box<QlogWriter>>);

/// A trace that is being written.
pub(super) struct QlogWriter {
    out: Box<dyn Write + Send>,
    started: Time,
    flushed: Time,
    /// Something was written since it was flushed.
    dirty: bool,
    /// The writer failed.
    broken: bool,
    record: Vec<u8>,
    /// The frames of the packet at hand; here so that the memory is used again.
    pub(super) frames: Vec<Logged>,
    pub(super) metrics: TracedMetrics,
    pub(super) fec_told: RepairTold,
    /// The id of the peer's that was told last, and how many key updates were.
    pub(super) remote_cid: ConnectionId,
    pub(super) key_updates: u64,
    /// What was told of ECN last.
    pub(super) ecn: EcnState,
}

/// An event of the standard. Times are in milliseconds, as a double: after 16 s a float would not tell
/// microseconds apart.
#[derive(Serialize)]
struct QlogRecord<'a> {
    time: f64,
    #[serde(flatten)]
    data: &'a EventData,
}

/// An event whose data the crate `qlog` cannot express.
#[derive(Serialize)]
struct NamedEvent<'a, D> {
    time: f64,
    name: &'static str,
    data: &'a D,
}

impl Qlog {
    /// No trace.
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    /// A trace of nothing so far, if there is a sink for it.
    pub(super) fn open(sinks: Option<&dyn Sinks>, subject: &Subject) -> Self {
        let Some(output) = sinks.and_then(|sinks| sinks.open(subject)) else { return Self(None) };
        let header = header(subject, &output);
        let mut log = QlogWriter {
            out: output.writer,
            started: subject.now,
            flushed: subject.now,
            dirty: false,
            broken: false,
            record: Vec::new(),
            frames: Vec::new(),
            metrics: TracedMetrics::default(),
            fec_told: RepairTold::default(),
            remote_cid: ConnectionId::EMPTY,
            key_updates: 0,
            ecn: EcnState::Off,
        };
        log.write(&header, subject.now);
        Self(Some(Box::new(log)))
    }

    /// The trace, if there is one. One branch where there is none.
    #[inline]
    pub(super) fn log(&mut self) -> Option<&mut QlogWriter> {
        self.0.as_deref_mut()
    }

    /// An event of a protocol above.
    pub(crate) fn above(&mut self, now: Time, name: &'static str, data: &impl Serialize) {
        if let Some(log) = self.log() {
            log.named(now, name, data);
        }
    }

    /// Whether there is a trace.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }
}

impl QlogWriter {
    /// Writes an event of the standard.
    pub(super) fn event(&mut self, now: Time, data: &EventData) {
        let time = self.time(now);
        self.write(&QlogRecord { time, data }, now);
    }

    /// Writes an event that the standard names.
    pub(super) fn named(&mut self, now: Time, name: &'static str, data: &impl Serialize) {
        let time = self.time(now);
        self.write(&NamedEvent { time, name, data }, now);
    }

    /// Hands on what a writer may have kept back.
    pub(super) fn flush(&mut self, now: Time) {
        if self.dirty && !self.broken {
            let flushed = self.out.flush();
            self.check(flushed);
        }
        (self.dirty, self.flushed) = (false, now);
    }

    fn time(&self, now: Time) -> f64 {
        now.since(self.started).as_nanos().approx() / 1e6
    }

    fn write(&mut self, value: &impl Serialize, now: Time) {
        if self.broken {
            return;
        }
        self.record.clear();
        // RFC 7464 §2.2: what precedes a text makes a torn one before it do no harm.
        self.record.push(RECORD_SEPARATOR);
        let written =
            serde_json::to_writer(&mut self.record, value).map_err(io::Error::from).and_then(|()| {
                self.record.push(b'\n');
                self.out.write_all(&self.record)
            });
        self.check(written);
        self.dirty = true;
        if now.since(self.flushed) >= FLUSH_EVERY {
            self.flush(now);
        }
    }

    fn check(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            tracing::debug!(%error, "a trace ends early");
            self.broken = true;
        }
    }
}

fn header(subject: &Subject, output: &Output) -> QlogSeq {
    let id = subject.original_dcid.to_string();
    let ty = match subject.side {
        Side::Client => VantagePointType::Client,
        Side::Server => VantagePointType::Server,
    };
    let common_fields = CommonFields {
        group_id: Some(id.clone()),
        protocol_type: Some(vec!["QUIC".into()]),
        reference_time: Some(output.reference_time_ms),
        time_format: Some("relative".into()),
    };
    let vantage_point = VantagePoint { name: Some("quickset".into()), ty, flow: None };
    QlogSeq {
        qlog_version: QLOG_VERSION.into(),
        qlog_format: "JSON-SEQ".into(),
        title: Some(format!("{} {id}", subject.side)),
        description: None,
        summary: None,
        trace: TraceSeq {
            vantage_point,
            title: None,
            description: None,
            configuration: None,
            common_fields: Some(common_fields),
        },
    }
}

impl fmt::Debug for Qlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Qlog").field(&self.is_on()).finish()
    }
}

const RECORD_SEPARATOR: u8 = 0x1e;

/// A writer keeps nothing back for longer than about this.
pub(super) const FLUSH_EVERY: Duration = Duration::from_secs(1);
