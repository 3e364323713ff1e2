//! A reader of traces that knows nothing of the writer.

use quickset_quic::Side;
use quickset_quic::qlog::Memory;
use serde_json::Value;

/// A trace, taken apart.
pub(crate) struct Trace {
    pub(crate) header: Value,
    pub(crate) events: Vec<Value>,
}

impl Trace {
    /// Reads a JSON text sequence strictly: RFC 7464 §2.2, each text between a record separator and a line
    /// feed.
    pub(crate) fn parse(text: &str) -> Self {
        let texts = text.strip_prefix('\u{1e}').expect("a record separator comes first");
        let mut values = texts.split('\u{1e}').map(|text| {
            let text = text.strip_suffix('\n').expect("a line feed comes last");
            serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
        });
        Self { header: values.next().expect("a header"), events: values.collect() }
    }

    /// The only trace of that side.
    pub(crate) fn of(memory: &Memory, side: Side) -> Self {
        let mut traces = memory.traces().into_iter().filter(|trace| trace.subject.side == side);
        let trace = Self::parse(&traces.next().expect("a trace").text);
        assert!(traces.next().is_none(), "more than one trace");
        trace
    }

    /// The events of that name.
    pub(crate) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |event| event["name"] == name)
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        self.named(name).count() as u64
    }

    /// Where the first event of that name stands for which `what` holds.
    pub(crate) fn position(&self, name: &str, what: impl Fn(&Value) -> bool) -> usize {
        let found = self.events.iter().position(|event| event["name"] == name && what(&event["data"]));
        found.unwrap_or_else(|| panic!("no such {name}"))
    }
}

/// The level and the number of an event's packet.
pub(crate) fn packet(event: &Value) -> (String, u64) {
    let header = &event["data"]["header"];
    let kind = header["packet_type"].as_str().expect("a packet type").to_owned();
    (kind, header["packet_number"].as_u64().expect("a packet number"))
}
