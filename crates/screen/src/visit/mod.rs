//! What a person does, kept until the desktop has it: across sessions that end, break, and go on by another
//! way.
//!
//! *In:* what a person does, when; the WELCOME of each session, and how much the server says it has passed
//! on. *Out:* what is to be sent on the session, in order. Invariants: nothing is sent again that was passed
//! on, and nothing that may have been; what is kept is bounded in bytes and in time; either all that was
//! typed while there was no session is sent or none of it, since the end of a command does harm where its
//! beginning is missing. Source: `spec/desktop.md` §9.

mod hands;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use quickset_base::Time;

use crate::message::{ClipboardMessage, InputCopy, MessageFault, PersonInput, VisitCount, Welcome};
use hands::PersonHands;

/// The input messages of one visit, at the client. The contract:
///
/// 1. [`push`](Self::push) all that the person does, whether there is a session or not.
/// 2. When a session has its WELCOME, [`begin`](Self::begin), and tell the person if something was not sent.
/// 3. In the session, send on its input stream what [`next_input`](Self::next_input) returns, nothing else,
///    and hand over what the server says in TAKEN to [`taken`](Self::taken).
/// 4. [`end`](Self::end) when it is over, however that happened.
#[derive(Debug, Default)]
pub struct InputLog {
    /// What is not known to be passed on, in order, the first with the number `first`.
    entries: VecDeque<InputEntry>,
    first: u64,
    /// What of them was sent on the session that there is, or was last.
    sent: LogSpan,
    all: LogSpan,
    /// The server can know of so many at the least, and of so many at the most.
    least: u64,
    most: u64,
    /// The times of the entries that are deeds.
    deeds: VecDeque<Time>,
    stage: LogStage,
    /// The buttons that were down at the newest entry.
    buttons: u8,
    /// Buttons that were pressed while that was for nobody, and are down yet: they are not pressed later.
    spent: u8,
    /// As of the moment before the first entry.
    hands: PersonHands,
    /// To be sent before the entries, and not counted.
    again: VecDeque<PersonInput>,
    /// The server is known to have read those of this session.
    agrees: bool,
    /// Something was dropped that the person was not told of.
    missed: bool,
}

/// Some of the first entries.
#[derive(Clone, Copy, Debug, Default)]
struct LogSpan {
    entries: usize,
    deeds: usize,
    bytes: usize,
}

#[derive(Debug)]
struct InputEntry {
    input: PersonInput,
    kind: LogKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogKind {
    /// The person wants something by it.
    Deed,
    /// The pointer moves, and no button.
    Motion,
    /// Something is let go, or offered.
    Other,
}

/// Whether somebody takes what a person does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LogStage {
    /// There was no session yet, or one in which nothing may be done: nothing is kept.
    #[default]
    Closed,
    /// There is a session. Its server counts, so that entries are kept until they are known to be passed on.
    Counted,
    /// There is a session of a server that does not count.
    Uncounted,
    /// There is none, and what is done is kept.
    Away,
    /// There is none, and too much was done, or too long ago: nothing of it will be sent.
    Lost,
}

impl InputLog {
    /// Nothing was done yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The person does something; false when there is nobody to take it.
    ///
    /// A pointer that only moved replaces one before it that was not sent (DT-10).
    pub fn push(&mut self, now: Time, mut input: PersonInput) -> bool {
        if let PersonInput::Pointer { buttons, .. } = &mut input {
            self.spent &= *buttons;
            *buttons &= !self.spent;
        }
        let kind = self.kind(&input);
        match self.stage {
            LogStage::Closed => return false,
            LogStage::Away if self.is_late(now, self.sent.deeds) => self.lose(),
            LogStage::Counted | LogStage::Uncounted
                if kind == LogKind::Deed && self.all.bytes > MOST_HELD =>
            {
                // Of a server that takes nothing and is there all the same.
                self.missed = true;
                return false;
            }
            LogStage::Counted | LogStage::Uncounted | LogStage::Away | LogStage::Lost => {}
        }
        if let PersonInput::Pointer { buttons, .. } = input {
            self.buttons = buttons;
        }
        if self.stage == LogStage::Lost {
            self.missed |= kind == LogKind::Deed;
            self.hands.miss(&input);
            return true;
        }
        self.append(now, input, kind);
        if self.stage == LogStage::Away && self.all.bytes > MOST_KEPT {
            self.lose();
        }
        true
    }

    /// A session begins with this WELCOME. True when something that the person did will not be sent, for them
    /// to be told.
    ///
    /// # Errors
    /// When the server says that it has passed on what was not sent, or less than it had.
    pub fn begin(&mut self, now: Time, welcome: &Welcome) -> Result<bool, MessageFault> {
        let may = welcome.permissions;
        match welcome.visit {
            Some(VisitCount { resumed: true, taken }) => {
                self.taken(taken)?;
                self.number_from(taken);
            }
            other => {
                self.give_up_sent();
                if let Some(VisitCount { taken, .. }) = other {
                    self.number_from(taken);
                }
            }
        }
        // DT-65.
        if self.is_late(now, 0) {
            self.lose();
        }
        if self.stage == LogStage::Lost {
            for input in self.hands.let_go() {
                self.append(now, input, LogKind::Other);
            }
            self.spent |= self.buttons & !self.hands.buttons();
            self.buttons &= !self.spent;
        }
        self.collapse();
        self.again = self.hands.hold().into();
        self.agrees = self.again.is_empty();
        self.stage = match welcome.visit {
            _ if !(may.input || may.clipboard) => {
                // Who may only look has nothing to be kept.
                let (first, least, most) = (self.first, self.least, self.most);
                *self = Self { first, least, most, ..Self::default() };
                return Ok(false);
            }
            Some(_) => LogStage::Counted,
            None => LogStage::Uncounted,
        };
        Ok(std::mem::take(&mut self.missed))
    }

    /// What is to be sent next on the session.
    pub fn next_input(&mut self) -> Option<PersonInput> {
        let is_counted = match self.stage {
            LogStage::Closed | LogStage::Away | LogStage::Lost => return None,
            LogStage::Counted => true,
            LogStage::Uncounted => false,
        };
        if let Some(held) = self.again.pop_front() {
            return Some(held);
        }
        if !is_counted {
            return self.pass_first();
        }
        // What a server does not say that it has taken is bounded.
        if self.sent.bytes > MOST_KEPT {
            return None;
        }
        let entry = self.entries.get(self.sent.entries)?;
        self.sent.add(entry);
        self.most = self.first + self.sent.entries as u64;
        Some(entry.input.clone())
    }

    /// A datagram with the newest of what was sent and is not known to be passed on, once more (WB-27).
    ///
    /// There is none while the server may not have read HELD, which those messages must not overtake.
    pub fn copy(&self) -> Option<Vec<u8>> {
        let is_due = self.stage == LogStage::Counted && self.agrees;
        let sent = self.entries.range(..self.sent.entries).map(|entry| &entry.input);
        is_due.then(|| InputCopy::of_newest(self.first, sent)).flatten()
    }

    /// The server has passed on so many input messages of this visit.
    ///
    /// # Errors
    /// When it says that of what was not sent, or less than before (DT-63).
    pub fn taken(&mut self, count: u64) -> Result<(), MessageFault> {
        if !(self.least..=self.most).contains(&count) {
            let what = "the number of input messages that were passed on";
            return Err(MessageFault::Value { what, value: count });
        }
        self.agrees |= count > self.first;
        self.least = count;
        while self.first < count && self.pass_first().is_some() {
            self.first += 1;
        }
        Ok(())
    }

    /// The session is over.
    pub fn end(&mut self) {
        self.again.clear();
        self.stage = match self.stage {
            LogStage::Counted | LogStage::Uncounted => LogStage::Away,
            other => other,
        };
    }

    /// There is a session that takes what is done.
    pub fn is_open(&self) -> bool {
        matches!(self.stage, LogStage::Counted | LogStage::Uncounted)
    }

    /// Bytes that wait to be sent, about.
    pub fn unsent_bytes(&self) -> usize {
        self.all.bytes - self.sent.bytes
    }

    /// All entries are still to be sent, and the first will be counted as this one.
    fn number_from(&mut self, first: u64) {
        (self.first, self.least, self.most) = (first, first, first);
        self.sent = LogSpan::default();
    }

    /// Whether the server has passed on what was sent, nobody will ever know: it is not
    /// sent again (DT-64).
    fn give_up_sent(&mut self) {
        if self.sent.deeds > 0 {
            self.lose();
        }
        while self.sent.entries > 0 && self.pass_first().is_some() {}
        self.first = self.most;
        self.hands.forget();
    }

    /// DT-65: the oldest deed, but for so many, was done too long ago.
    fn is_late(&self, now: Time, but_for: usize) -> bool {
        self.deeds.get(but_for).is_some_and(|&done| now.since(done) > LATE)
    }

    /// Nothing of what is kept will be sent, again or at all.
    fn lose(&mut self) {
        self.missed |= !self.deeds.is_empty();
        for (n, entry) in self.entries.drain(..).enumerate() {
            if n < self.sent.entries {
                self.hands.doubt(&entry.input);
            } else {
                self.hands.miss(&entry.input);
            }
        }
        self.deeds.clear();
        (self.sent, self.all) = (LogSpan::default(), LogSpan::default());
        (self.first, self.stage) = (self.most, LogStage::Lost);
    }

    fn append(&mut self, now: Time, input: PersonInput, kind: LogKind) {
        let waits = self.entries.len() > self.sent.entries;
        if let Some(last) = self.entries.back_mut().filter(|last| waits && last.yields_to(&input, kind)) {
            last.input = input;
            return;
        }
        let entry = InputEntry { input, kind };
        self.all.add(&entry);
        if kind == LogKind::Deed {
            self.deeds.push_back(now);
        }
        self.entries.push_back(entry);
    }

    /// The first entry was passed on, or is, as far as is known.
    fn pass_first(&mut self) -> Option<PersonInput> {
        let entry = self.entries.pop_front()?;
        self.all.remove(&entry);
        if self.sent.entries > 0 {
            self.sent.remove(&entry);
        }
        if entry.kind == LogKind::Deed {
            self.deeds.pop_front();
        }
        self.hands.pass(&entry.input);
        Some(entry.input)
    }

    /// DT-10: of motion that is sent again, the end counts.
    fn collapse(&mut self) {
        let mut kept: VecDeque<InputEntry> = VecDeque::new();
        self.all = LogSpan::default();
        for entry in self.entries.drain(..) {
            if let Some(last) = kept.back_mut().filter(|last| last.yields_to(&entry.input, entry.kind)) {
                last.input = entry.input;
            } else {
                self.all.add(&entry);
                kept.push_back(entry);
            }
        }
        self.entries = kept;
    }

    fn kind(&self, input: &PersonInput) -> LogKind {
        match *input {
            PersonInput::Pointer { buttons, .. } if buttons & !self.buttons != 0 => LogKind::Deed,
            PersonInput::Pointer { buttons, .. } if buttons == self.buttons => LogKind::Motion,
            PersonInput::Key { down: true, .. }
            | PersonInput::Clipboard(ClipboardMessage::Ask | ClipboardMessage::Paste(_)) => LogKind::Deed,
            PersonInput::Key { .. }
            | PersonInput::Pointer { .. }
            | PersonInput::Held { .. }
            | PersonInput::Clipboard(ClipboardMessage::Offer) => LogKind::Other,
        }
    }
}

impl LogSpan {
    fn add(&mut self, entry: &InputEntry) {
        self.entries += 1;
        self.deeds += usize::from(entry.kind == LogKind::Deed);
        self.bytes += entry.weight();
    }

    fn remove(&mut self, entry: &InputEntry) {
        self.entries -= 1;
        self.deeds -= usize::from(entry.kind == LogKind::Deed);
        self.bytes -= entry.weight();
    }
}

impl InputEntry {
    /// DT-10: what changes buttons stays, where it was done.
    fn yields_to(&self, next: &PersonInput, kind: LogKind) -> bool {
        self.kind == LogKind::Motion && kind == LogKind::Motion && self.input.yields_to(next)
    }

    /// Bytes held, about.
    fn weight(&self) -> usize {
        let more = match &self.input {
            PersonInput::Clipboard(ClipboardMessage::Paste(text)) => text.len(),
            _ => 0,
        };
        size_of::<Self>() + more
    }
}

/// DT-65: how long what was done may wait for a session. Somebody who sees no answer for longer does not know
/// any more what the desktop looks like.
pub const LATE: Duration = Duration::from_secs(10);
/// What a person reads when something was not sent.
pub const NOT_SENT: &str = "What you typed while the desktop was away was not sent.";
/// What is kept, in bytes, of what was sent or waits for a session: the longest text and some thousands of
/// keys.
const MOST_KEPT: usize = 2 << 20;
/// The same in a session in which nothing is taken.
const MOST_HELD: usize = 2 * MOST_KEPT;
