use core::mem;
use std::io::{self, Read, Seek};

use quickset_base::{Duration, Time};
use quickset_rfb::{Cursor, Framebuffer, Rect, Region};

use super::reader::{RecordHead, RecordingIndex, RecordingReader};
use super::{RecordingError, kind};
use crate::codec::ItemKind;
use crate::message::{FieldReader, FromServer, MessageFault, ScreenOrder, StreamMessage};
use crate::receiver::{Changes, ReceiverConfig, ScreenReceiver};

/// Plays a recording. The contract:
///
/// 1. [`advance`](Self::advance) to the time that is to be shown, or [`seek`](Self::seek) to any other.
/// 2. Then show what [`changes`](Self::changes) says of the [`screen`](Self::screen), and the
///    [`pointer`](Self::pointer).
/// 3. At [`next_time`](Self::next_time) there is more to show.
#[derive(Debug)]
pub struct RecordingPlayer<R> {
    reader: RecordingReader<R>,
    index: RecordingIndex,
    facts: RecordingFacts,
    max_bytes: usize,
    position: Time,
    receiver: ScreenReceiver,
    /// What was shown before the picture that begins.
    before: Option<Framebuffer>,
    /// The next message has to be a SIZE.
    blank: bool,
    /// Where the records begin that are not shown yet.
    group: Option<u64>,
    changes: Changes,
    name: String,
    cursor: Option<Cursor>,
    pointer: Option<(u16, u16)>,
}

/// What is known of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingFacts {
    /// When it began, in seconds since the beginning of 1970; `None`: it does not say.
    pub began: Option<u64>,
    /// How long it is.
    pub length: Duration,
    /// Bytes of the file.
    pub bytes: u64,
    /// How many of them, at the end, cannot be played.
    pub unplayable: u64,
    /// Whole pictures, from which it can be played.
    pub pictures: u64,
    /// Times that something was shown.
    pub updates: u64,
    /// It was ended, and not broken off.
    pub is_whole: bool,
}

impl<R: Read + Seek> RecordingPlayer<R> {
    /// Opens a recording and shows its first picture. Screens may have so many bytes, four a pixel.
    ///
    /// # Errors
    /// When there is nothing to play in it.
    pub fn open(input: R, max_bytes: usize) -> Result<Self, RecordingError> {
        let (reader, index) = RecordingReader::open(input)?;
        let facts = RecordingFacts {
            began: index.began,
            length: index.last.since(Time::ZERO),
            bytes: index.bytes,
            unplayable: index.behind,
            pictures: index.seen,
            updates: index.updates,
            is_whole: index.ended,
        };
        let mut this = Self {
            reader,
            index,
            facts,
            max_bytes,
            position: Time::ZERO,
            receiver: receiver(max_bytes),
            before: None,
            blank: true,
            group: None,
            changes: Changes::default(),
            name: String::new(),
            cursor: None,
            pointer: None,
        };
        let (first, _) = this.index.before(Time::ZERO).ok_or(RecordingError::Empty)?;
        this.advance(first)?;
        if this.screen().bounds().is_empty() {
            return Err(RecordingError::Empty);
        }
        Ok(this)
    }

    /// What is known of it. Where it turns out not to be playable to its end, the end comes closer.
    pub fn facts(&self) -> &RecordingFacts {
        &self.facts
    }

    /// The time of what is shown, since the beginning.
    pub fn position(&self) -> Time {
        self.position
    }

    /// When there is more to show; `None`: never, this is the end.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn next_time(&mut self) -> io::Result<Option<Time>> {
        Ok(self.reader.peek()?.map(|head| head.time))
    }

    /// Goes on to a time, or to the end. A time before the position changes nothing.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn advance(&mut self, to: Time) -> io::Result<()> {
        loop {
            while self.reader.peek()?.is_some_and(|head| head.time <= to) {
                let (start, time) = (self.reader.at(), self.reader.time());
                if !self.step()? {
                    // RC-4, RC-8.
                    self.end_at(start);
                    self.reader.go_to(start, time)?;
                }
            }
            let is_over = self.reader.peek()?.is_none();
            if is_over {
                self.shorten();
            }
            let Some(start) = self.group.filter(|_| is_over) else { break };
            // RC-9: what was drawn of it must not be seen.
            self.end_at(start);
            self.begin_before(to)?;
        }
        self.position = self.position.max(to).min(Time::ZERO + self.facts.length);
        Ok(())
    }

    /// Goes to any time.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn seek(&mut self, to: Time) -> io::Result<()> {
        let nearer = self.index.before(to).is_some_and(|(_, at)| at >= self.reader.at());
        if to < self.position || nearer {
            self.begin_before(to)?;
        }
        let first = self.index.before(to).map_or(Time::ZERO, |(first, _)| first);
        self.advance(to.max(first))
    }

    /// The screen at the position.
    pub fn screen(&self) -> &Framebuffer {
        self.receiver.screen()
    }

    /// What has changed on the screen since the last call.
    pub fn changes(&mut self) -> Changes {
        mem::take(&mut self.changes)
    }

    /// The desktop's name at the position.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The shape of the pointer at the position.
    pub fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    /// Where the pointer is at the position, if that is known.
    pub fn pointer(&self) -> Option<(u16, u16)> {
        self.pointer
    }

    /// Goes to the last picture before a time, or to the first one.
    fn begin_before(&mut self, time: Time) -> io::Result<()> {
        let Some((first, at)) = self.index.before(time) else {
            // Not even the first one is whole.
            (self.group, self.receiver) = (None, receiver(self.max_bytes));
            return Ok(());
        };
        // Before the picture is whole nothing may be seen.
        (self.group, self.position) = (Some(at), first);
        self.reader.go_to(at, first)
    }

    fn end_at(&mut self, at: u64) {
        self.reader.end_at(at);
        self.index.end_at(at);
    }

    /// The end came earlier than was thought.
    fn shorten(&mut self) {
        let behind = self.facts.bytes - self.reader.end();
        if behind > self.facts.unplayable {
            self.facts.unplayable = behind;
            self.facts.is_whole = false;
            self.facts.length = self.reader.time().since(Time::ZERO);
        }
    }

    /// Plays the next record. False where the recording ends.
    fn step(&mut self) -> io::Result<bool> {
        let start = self.reader.at();
        let Self { reader, receiver, blank, group, .. } = &mut *self;
        let Some((head, body)) = reader.next()? else { return Ok(false) };
        let RecordHead { kind, .. } = head;
        match kind {
            kind::PICTURE => {
                group.get_or_insert(start);
                self.begin_picture();
            }
            kind::PART | kind::UPDATE => {
                group.get_or_insert(start);
                // RC-6: a picture has a size.
                if receive(receiver, blank, body).is_err() || *blank && kind == kind::UPDATE {
                    return Ok(false);
                }
                if kind == kind::UPDATE {
                    self.show();
                }
            }
            kind::TOLD => match FromServer::decode(body) {
                Ok(Some(FromServer::Name(name))) => self.name = name,
                Ok(Some(FromServer::Cursor(cursor))) => self.cursor = Some(cursor),
                // RC-5, RC-10.
                Ok(_) => {}
                Err(_) => return Ok(false),
            },
            kind::POINTER => {
                let mut fields = FieldReader::new(body, "a place of the pointer");
                let (Ok(x), Ok(y)) = (fields.side("x"), fields.side("y")) else { return Ok(false) };
                self.pointer = Some((x, y));
            }
            // RC-5.
            _ => {}
        }
        Ok(true)
    }

    /// RC-6.
    fn begin_picture(&mut self) {
        let mut old = mem::replace(&mut self.receiver, receiver(self.max_bytes));
        // Drawn before the recording ended, and never shown: not all that was shown is on it any more.
        self.changes.damage.then(&old.changes().damage);
        self.before.get_or_insert_with(|| old.screen().clone());
        self.blank = true;
        (self.cursor, self.pointer) = (None, None);
        self.name.clear();
    }

    fn show(&mut self) {
        self.group = None;
        let new = self.receiver.changes();
        match self.before.take() {
            // Viewers are not sent again what they have.
            Some(before) if before.bounds() == self.receiver.screen().bounds() => {
                self.changes.damage.union(&difference(&before, self.receiver.screen()));
            }
            _ => {
                self.changes.resized |= new.resized;
                self.changes.damage.then(&new.damage);
            }
        }
        self.changes.damage.clip(self.receiver.screen().bounds());
    }
}

fn receiver(max_bytes: usize) -> ScreenReceiver {
    ScreenReceiver::new(ReceiverConfig {
        order: ScreenOrder::Ordered,
        max_bytes,
        ..ReceiverConfig::default()
    })
}

/// Draws the messages of a record.
fn receive(receiver: &mut ScreenReceiver, blank: &mut bool, body: &[u8]) -> Result<(), MessageFault> {
    let mut fields = FieldReader::new(body, "a record");
    while !fields.is_empty() {
        let length = fields.length("the length of a message", body.len())?;
        let message = fields.take(length)?;
        // RC-6, RC-7.
        if mem::take(blank) && !is_size(message) {
            *blank = true;
            return Err(MessageFault::Parts("a picture does not begin with a size"));
        }
        receiver.receive(message)?;
    }
    Ok(())
}

fn is_size(message: &[u8]) -> bool {
    let mut fields = FieldReader::new(message, "a screen message");
    let _numbers = (fields.varint(), fields.varint());
    fields.u8() == Ok(ItemKind::Size as u8)
}

/// The squares in which two screens of the same size differ.
fn difference(before: &Framebuffer, now: &Framebuffer) -> Region {
    let mut region = Region::new();
    let bounds = now.bounds();
    let edges = |end: u16| (0..end).step_by(SQUARE.into());
    for (top, left) in
        edges(bounds.bottom()).flat_map(|top| edges(bounds.right()).map(move |left| (top, left)))
    {
        let square = Rect::between(left, top, left.saturating_add(SQUARE), top.saturating_add(SQUARE))
            .intersection(bounds);
        let same = match (before.rows(square), now.rows(square)) {
            (Ok(old), Ok(new)) => old.eq(new),
            _ => false,
        };
        if !same {
            region.add(square);
        }
    }
    region
}

/// The side of a square, in pixels.
const SQUARE: u16 = 64;
