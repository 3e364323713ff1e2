use std::collections::{BTreeMap, BTreeSet, VecDeque, btree_map};

/// Sections that were sent and are not acknowledged, and what is known of the decoder's table.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The Known Received Count (RFC 9204 §2.1.4): entries that have arrived.
    known: u64,
    /// By stream.
    sections: BTreeMap<u64, StreamSections>,
    /// The largest Required Insert Count of each stream with its stream, of those that had not arrived when
    /// they were sent.
    required: BTreeSet<(u64, u64)>,
    /// References in all.
    references: usize,
}

/// Those of a stream in the order in which they were sent: mostly there is one.
#[derive(Debug)]
struct StreamSections {
    oldest: SentSection,
    later: VecDeque<SentSection>,
}

#[derive(Debug)]
struct SentSection {
    required: u64,
    references: Vec<u64>,
}

impl StreamSections {
    fn iter(&self) -> impl Iterator<Item = &SentSection> {
        std::iter::once(&self.oldest).chain(&self.later)
    }

    /// What the stream requires.
    fn required(&self) -> u64 {
        self.iter().map(|sent| sent.required).max().unwrap_or(0)
    }
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
        at_risk.take(max).count() < max || self.required_of(stream) > self.known
    }

    /// False when the peer left so much unacknowledged that no more is kept.
    pub(super) fn has_room(&self) -> bool {
        self.references < MAX_REFERENCES
    }

    /// A section that refers to entries was encoded.
    pub(super) fn sent(&mut self, stream: u64, required: u64, references: Vec<u64>) {
        self.references += references.len();
        let sent = SentSection { required, references };
        let before = match self.sections.entry(stream) {
            btree_map::Entry::Vacant(place) => {
                place.insert(StreamSections { oldest: sent, later: VecDeque::new() });
                0
            }
            btree_map::Entry::Occupied(mut sections) => {
                let before = sections.get().required();
                sections.get_mut().later.push_back(sent);
                before
            }
        };
        self.moved(stream, before, before.max(required));
    }

    /// The oldest section of the stream was decoded: what it referred to; `None` if there is none.
    pub(super) fn acknowledged(&mut self, stream: u64) -> Option<Vec<u64>> {
        let btree_map::Entry::Occupied(mut sections) = self.sections.entry(stream) else { return None };
        let before = sections.get().required();
        let (sent, now) = match sections.get_mut().later.pop_front() {
            Some(next) => {
                let sent = std::mem::replace(&mut sections.get_mut().oldest, next);
                (sent, sections.get().required())
            }
            None => (sections.remove().oldest, 0),
        };
        self.moved(stream, before, now);
        // RFC 9204 §2.1.4: who decoded it has all that it needed.
        self.learn(sent.required);
        self.references -= sent.references.len();
        Some(sent.references)
    }

    /// No section of the stream will be decoded any more: what they referred to.
    pub(super) fn cancelled(&mut self, stream: u64) -> Vec<Vec<u64>> {
        // Whoever says it of streams without any is to be told from others soon.
        let Some(sections) = self.sections.remove(&stream) else { return Vec::new() };
        let forget = |sent: SentSection| {
            self.required.remove(&(sent.required, stream));
            self.references -= sent.references.len();
            sent.references
        };
        std::iter::once(sections.oldest).chain(sections.later).map(forget).collect()
    }

    fn required_of(&self, stream: u64) -> u64 {
        self.sections.get(&stream).map_or(0, StreamSections::required)
    }

    /// What a stream requires may have changed.
    fn moved(&mut self, stream: u64, before: u64, now: u64) {
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
