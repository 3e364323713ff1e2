//! The model beside a pair of connections: what was said in each direction of each stream, and whether what
//! is heard is that.
//!
//! A byte follows from its stream, who wrote it, and its offset; a message holds its number and bytes that
//! follow from that.

use std::collections::{BTreeMap, BTreeSet};

use quickset_quic::{Chunk, Message, Outcome, Piece, ReadError, Side, StreamId, Ticket};

/// One direction of a stream.
#[derive(Debug, Default)]
pub struct Said {
    seed: u64,
    pub messages: bool,
    pub written: u64,
    pub finished: bool,
    /// Given up by somebody: what is not heard need not be.
    pub broken: bool,
    /// Given up behind so much.
    pub reliable: Option<u64>,
    /// Those that somebody gave it up with.
    pub codes: BTreeSet<u64>,
    pub heard: u64,
    /// Heard in any order, by offset.
    pieces: BTreeMap<u64, u64>,
    /// Its end was heard.
    pub over: bool,
    pub ordered: bool,
    /// What is lost is not sent again.
    pub lossy: bool,
    letters: Vec<Letter>,
    tickets: BTreeMap<Ticket, usize>,
    segment: u64,
    /// Of the letter that was heard last, here and as the receiver was told.
    heard_segments: (u64, u64),
}

#[derive(Debug)]
struct Letter {
    len: usize,
    segment: u64,
    may_drop: bool,
    heard: bool,
    outcome: Option<Outcome>,
}

impl Said {
    pub fn new(id: StreamId, writer: Side, messages: bool) -> Self {
        let seed = id.0 << 1 | u64::from(writer.is_client());
        Self { seed, messages, ..Self::default() }
    }

    /// Somebody gives it up.
    pub fn give_up(&mut self, code: u64) {
        self.broken = true;
        self.codes.insert(code);
    }

    /// The next `n` bytes.
    pub fn bytes(&self, n: usize) -> Vec<u8> {
        (self.written..self.written + n as u64).map(|at| byte(self.seed, at)).collect()
    }

    /// The next message.
    pub fn letter(&self, len: usize) -> Vec<u8> {
        self.payload(self.letters.len(), len.max(NUMBER))
    }

    pub fn sent(&mut self, len: usize, ticket: Ticket, may_drop: bool) {
        let (segment, may_drop) = (self.segment, may_drop || self.lossy);
        assert!(self.tickets.insert(ticket, self.letters.len()).is_none(), "a ticket of its own");
        self.letters.push(Letter { len, segment, may_drop, heard: false, outcome: None });
        if self.ordered {
            self.segment += 1;
        }
    }

    pub fn fence(&mut self) {
        self.segment += 1;
    }

    /// What was sent and is sent need not arrive.
    pub fn may_drop_all(&mut self) {
        self.lossy = true;
        self.letters.iter_mut().for_each(|letter| letter.may_drop = true);
    }

    /// A ticket counted from the last.
    pub fn ticket(&self, back: usize) -> Option<Ticket> {
        self.tickets.keys().rev().nth(back).copied()
    }

    pub fn may_drop(&mut self, ticket: Ticket) {
        let at = self.tickets[&ticket];
        self.letters[at].may_drop = true;
    }

    /// Those sent after this one need not arrive.
    pub fn may_drop_behind(&mut self, ticket: Ticket) {
        let at = self.tickets[&ticket];
        self.letters[at + 1..].iter_mut().for_each(|letter| letter.may_drop = true);
    }

    /// What `read` gave. True when there may be more.
    pub fn read(&mut self, max: usize, got: Result<Chunk, ReadError>) -> bool {
        match got {
            Ok(Chunk::Data(bytes)) => {
                assert!(!self.over && !bytes.is_empty() && bytes.len() <= max);
                let at = self.heard;
                self.heard += bytes.len() as u64;
                self.compare(at, &bytes);
                true
            }
            Ok(Chunk::Finished) => {
                self.ended();
                false
            }
            Ok(Chunk::Blocked) => false,
            Err(error) => {
                self.refused(error);
                false
            }
        }
    }

    /// What `read_unordered` gave. True when there may be more.
    pub fn read_piece(&mut self, max: usize, got: Result<Piece, ReadError>) -> bool {
        match got {
            Ok(Piece::Data { offset, bytes }) => {
                assert!(!self.over && !bytes.is_empty() && bytes.len() <= max);
                let end = offset + bytes.len() as u64;
                let before = self.pieces.range(..end).next_back();
                assert!(before.is_none_or(|(_, end)| *end <= offset), "a byte twice");
                self.pieces.insert(offset, end);
                self.heard += bytes.len() as u64;
                self.compare(offset, &bytes);
                true
            }
            Ok(Piece::Finished) => {
                self.ended();
                false
            }
            Ok(Piece::Blocked) => false,
            Err(error) => {
                self.refused(error);
                false
            }
        }
    }

    /// What `next_message` gave. True when there may be more.
    pub fn read_message(&mut self, got: Result<Option<Message>, ReadError>) -> bool {
        match got {
            Ok(Some(message)) => {
                assert!(!self.over, "behind the end");
                let number = message.payload.first_chunk().map(|n| u32::from_be_bytes(*n));
                let number = number.expect("nobody sent one so short") as usize;
                assert!(number < self.letters.len(), "nobody sent message {number}");
                let whole = self.payload(number, self.letters[number].len);
                assert!(message.payload == whole, "message {number} is another");
                let letter = &mut self.letters[number];
                assert!(!std::mem::replace(&mut letter.heard, true), "message {number} again");
                let (said, told) = self.heard_segments;
                assert!(letter.segment >= said, "message {number} comes from before a fence (FS-29)");
                assert!(message.segment >= told, "message {number} tells so (FS-34)");
                self.heard_segments = (letter.segment, message.segment);
                true
            }
            Ok(None) => false,
            Err(ReadError::Finished) => {
                self.ended();
                false
            }
            Err(error) => {
                self.refused(error);
                false
            }
        }
    }

    pub fn outcome(&mut self, ticket: Ticket, outcome: Outcome) {
        let at = *self.tickets.get(&ticket).expect("a ticket that was given");
        let letter = &mut self.letters[at];
        assert!(letter.outcome.replace(outcome).is_none(), "two outcomes of one message (FS-56)");
        let dropped = outcome == Outcome::Abandoned;
        let gone = self.broken || self.reliable.is_some();
        assert!(!dropped || letter.may_drop || gone, "message {at} was given up");
    }

    /// Nothing is missing.
    pub fn is_settled(&self) -> bool {
        self.missing().is_none()
    }

    /// What is.
    pub fn missing(&self) -> Option<String> {
        if self.broken {
            return None;
        }
        for (i, letter) in self.letters.iter().enumerate() {
            let arrived = letter.outcome.is_some_and(Outcome::is_delivered);
            if !letter.heard && (arrived || !letter.may_drop) {
                return Some(format!("message {i}: {letter:?}"));
            }
            // What becomes of the messages behind a reset that keeps some is told or not.
            if letter.outcome.is_none() && self.reliable.is_none() {
                return Some(format!("what became of message {i}: {letter:?}"));
            }
        }
        let promised = self.reliable.unwrap_or(u64::MAX).min(self.written);
        if self.heard < promised {
            return Some(format!("{} of {promised} bytes", self.heard));
        }
        (self.finished && self.reliable.is_none() && !self.over).then(|| "the end".to_owned())
    }

    fn compare(&self, from: u64, bytes: &[u8]) {
        assert!(from + bytes.len() as u64 <= self.written, "more than was written");
        let right = (from..).zip(bytes).all(|(at, got)| byte(self.seed, at) == *got);
        assert!(right, "not what was written at {from}");
    }

    fn ended(&mut self) {
        assert!(self.finished, "nobody ended it");
        assert!(self.messages || self.heard == self.written, "{} of {}", self.heard, self.written);
        let must = |letter: &Letter| letter.heard || letter.may_drop;
        assert!(self.broken || self.letters.iter().all(must), "it ends before its messages");
        self.over = true;
    }

    fn refused(&mut self, error: ReadError) {
        match error {
            ReadError::Reset(code) => {
                assert!(self.codes.contains(&code), "nobody gave it up with {code}");
                if let (false, Some(reliable)) = (self.broken, self.reliable) {
                    assert!(
                        self.messages || self.heard >= reliable.min(self.written),
                        "before what was promised"
                    );
                }
            }
            ReadError::TooLong | ReadError::Truncated => panic!("{error}"),
            // What was asked for does not suit the stream.
            ReadError::Messages
            | ReadError::Bytes
            | ReadError::Unordered
            | ReadError::Ordered
            | ReadError::Finished
            | ReadError::UnknownStream => {}
        }
    }

    fn payload(&self, number: usize, len: usize) -> Vec<u8> {
        let mut payload = (number as u32).to_be_bytes().to_vec();
        let seed = self.seed ^ (number as u64) << 32;
        payload.extend((0..len - NUMBER).map(|at| byte(seed, at as u64)));
        payload
    }
}

fn byte(seed: u64, at: u64) -> u8 {
    let mixed = (seed.wrapping_mul(0xd6e8_feb8_6659_fd93) ^ at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 48) as u8
}

/// Bytes of the number of a message.
const NUMBER: usize = 4;
