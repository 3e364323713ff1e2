use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Sections that were sent and are not acknowledged, and what is known of the decoder's table.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The Known Received Count (RFC 9204 §2.1.4): entries that have arrived.
    known: u64,
    /// By stream, in the order in which they were sent.
    sections: BTreeMap<u64, VecDeque<SentSection>>,
    /// The largest Required Insert Count of each stream with its stream, of those that had not arrived when
    /// they were sent.
    required: BTreeSet<(u64, u64)>,
    /// References in all.
    references: usize,
}

#[derive(Debug)]
struct SentSection {
    required: u64,
    references: Vec<u64>,
}

impl Ledger {
    /// Entries that have arrived.
    pub(super) fn known(&self) -> u64 {
        self.known
    }

    /// More arrived.
    pub(super) fn learn(&mut self, known: u64) {
        self.known = self.known.max(known);
    }

    /// Whether a section on this stream may need what has not arrived, when at most `max` streams may.
    pub(super) fn may_risk(&self, stream: u64, max: usize) -> bool {
        let at_risk = self.required.range((self.known + 1, 0)..);
        self.required_of(stream) > self.known || at_risk.take(max).count() < max
    }

    /// False when the peer left so much unacknowledged that no more is kept.
    pub(super) fn has_room(&self) -> bool {
        self.references < MAX_REFERENCES
    }

    /// A section that refers to entries was encoded.
    pub(super) fn sent(&mut self, stream: u64, required: u64, references: Vec<u64>) {
        self.references += references.len();
        let before = self.required_of(stream);
        self.sections.entry(stream).or_default().push_back(SentSection { required, references });
        self.moved(stream, before);
    }

    /// The oldest section of the stream was decoded: what it referred to; `None` if there is none.
    pub(super) fn acknowledged(&mut self, stream: u64) -> Option<Vec<u64>> {
        let before = self.required_of(stream);
        let sections = self.sections.get_mut(&stream)?;
        let sent = sections.pop_front()?;
        if sections.is_empty() {
            self.sections.remove(&stream);
        }
        self.moved(stream, before);
        // RFC 9204 §2.1.4: who decoded it has all that it needed.
        self.learn(sent.required);
        self.references -= sent.references.len();
        Some(sent.references)
    }

    /// No section of the stream will be decoded any more: what they referred to.
    pub(super) fn cancelled(&mut self, stream: u64) -> impl Iterator<Item = Vec<u64>> {
        // Whoever says it of streams without any is to be told from others soon.
        let sections = self.sections.remove(&stream);
        for required in sections.iter().flatten().map(|sent| sent.required) {
            self.required.remove(&(required, stream));
        }
        self.references -= sections.iter().flatten().map(|sent| sent.references.len()).sum::<usize>();
        sections.into_iter().flatten().map(|sent| sent.references)
    }

    fn required_of(&self, stream: u64) -> u64 {
        self.sections.get(&stream).and_then(|s| s.iter().map(|sent| sent.required).max()).unwrap_or(0)
    }

    /// What a stream requires may have changed.
    fn moved(&mut self, stream: u64, before: u64) {
        let now = self.required_of(stream);
        if now != before {
            if before > 0 {
                self.required.remove(&(before, stream));
            }
            // What has arrived is asked for no more.
            if now > self.known {
                self.required.insert((now, stream));
            }
        }
    }
}

/// References kept at most; a peer that acknowledges nothing gets sections without any after that.
const MAX_REFERENCES: usize = 16 << 10;
