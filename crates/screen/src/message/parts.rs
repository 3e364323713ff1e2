use core::fmt;
use core::marker::PhantomData;

use bytes::Bytes;

use super::MessageFault;

/// A message of one direction of a stream.
pub trait StreamMessage: Sized {
    /// Appends kind and body to `out`.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads a whole message; `None` for a kind that is not known, which is to be ignored (DT-41). Bytes
    /// behind the last field are ignored too (DT-44).
    ///
    /// # Errors
    /// What is wrong with it.
    fn decode(message: &[u8]) -> Result<Option<Self>, MessageFault>;

    /// Nothing else depends on messages of this kind: one that cannot be read is passed over (DT-52).
    fn is_aside(kind: u8) -> bool;

    /// The records that carry the message, in order: one, or parts of at most `MAX_PART` + 1 bytes.
    fn records(&self) -> Vec<Bytes> {
        let mut message = Vec::with_capacity(32);
        self.encode(&mut message);
        if message.len() <= MAX_PART {
            return vec![message.into()];
        }
        let last = message.len().div_ceil(MAX_PART) - 1;
        let record = |(i, piece): (usize, &[u8])| {
            let kind = if i == last { END } else { PART };
            Bytes::from([&[kind], piece].concat())
        };
        message.chunks(MAX_PART).enumerate().map(record).collect()
    }
}

/// Joins records to messages.
pub struct RecordInbox<M> {
    pieces: Vec<u8>,
    /// Of those of a message that is too long, what they were together; they are not held.
    passed_over: usize,
    /// Whole messages of which nothing was returned, since somebody asked.
    unread: u64,
    message: PhantomData<fn() -> M>,
}

impl<M: StreamMessage> RecordInbox<M> {
    /// Nothing has come.
    pub const fn new() -> Self {
        Self { pieces: Vec::new(), passed_over: 0, unread: 0, message: PhantomData }
    }

    /// The message that this record is, or ends. `None` when there is more to come, or nothing known in it.
    ///
    /// # Errors
    /// What is wrong with it. Nothing that follows on the stream can be relied upon.
    pub fn receive(&mut self, record: &[u8]) -> Result<Option<M>, MessageFault> {
        // DT-5.
        if record.len() > MAX_RECORD {
            return Err(MessageFault::Long(record.len()));
        }
        let Some((&kind, piece)) = record.split_first() else { return Err(MessageFault::Short("a message")) };
        if kind != PART && kind != END {
            // DT-7.
            let interrupts = !self.pieces.is_empty();
            return if interrupts {
                Err(MessageFault::Parts("parts are interrupted"))
            } else {
                self.read(record)
            };
        }
        // DT-7: a part brings something, so that the number of parts is bounded too.
        let length = self.pieces.len() + piece.len();
        if piece.is_empty() {
            return Err(MessageFault::Parts("a part has no piece"));
        }
        if length > MAX_MESSAGE || self.passed_over > 0 {
            // DT-52.
            if !self.pieces.first().is_some_and(|&kind| M::is_aside(kind)) {
                return Err(MessageFault::Long(length));
            }
            self.passed_over += piece.len();
        } else {
            self.pieces.extend_from_slice(piece);
        }
        if kind == PART {
            return Ok(None);
        }
        let message = core::mem::take(&mut self.pieces);
        if core::mem::take(&mut self.passed_over) > 0 {
            self.unread += 1;
            return Ok(None);
        }
        match message[0] {
            PART | END => Err(MessageFault::Parts("parts make up a part")),
            _ => self.read(&message),
        }
    }

    /// How many whole messages there were, since the last call, of which nothing was returned: of kinds that
    /// are not known, and such as nothing depends on.
    pub fn take_unread(&mut self) -> u64 {
        core::mem::take(&mut self.unread)
    }

    /// A message; nothing for one that is passed over.
    fn read(&mut self, message: &[u8]) -> Result<Option<M>, MessageFault> {
        let read = match M::decode(message) {
            // DT-52.
            Err(_) if message.first().is_some_and(|&kind| M::is_aside(kind)) => None,
            read => read?,
        };
        self.unread += u64::from(read.is_none());
        Ok(read)
    }
}

impl<M: StreamMessage> Default for RecordInbox<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M> fmt::Debug for RecordInbox<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox")
            .field("held", &self.pieces.len())
            .field("passed_over", &self.passed_over)
            .field("unread", &self.unread)
            .finish()
    }
}

const PART: u8 = 0x00;
const END: u8 = 0x01;

/// The longest record that is accepted.
pub(super) const MAX_RECORD: usize = 65536;
/// The longest message that goes in one piece, and the longest piece.
const MAX_PART: usize = 16384;
/// The longest message in parts: a text of [`MAX_TEXT`](super::MAX_TEXT), or a cursor of 512 x 512.
const MAX_MESSAGE: usize = 1_600_000;
