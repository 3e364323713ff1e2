use core::fmt;

use quickset_base::{Duration, Time};
use quickset_rfb::{Cursor, Framebuffer, Outside, Rect, crc32};

use super::{FILE_HEAD, RECORD_HEAD, SIGNATURE, VERSION, kind};
use crate::codec::{ItemKind, MAX_DECODED, PixelLoss, RectangleEncoder};
use crate::message::{FieldReader, FromServer, MessageFault, PutFields, StreamMessage};

/// Makes a recording. The contract:
///
/// 1. Whenever [`wants_picture`](Self::wants_picture) says so, give it the [`picture`](Self::picture) as it
///    is. Until the first one nothing else is written.
/// 2. Give it what is drawn after that: each screen message that a receiver in the order ordered or fenced
///    has drawn ([`message`](Self::message)), or the pixels ([`pixels`](Self::pixels)), not both. Then say
///    that it was [`shown`](Self::shown).
/// 3. When something was left out, [`lose`](Self::lose).
/// 4. After each of these, and at [`next_deadline`](Self::next_deadline), append [`take`](Self::take) to the
///    file. At the end, [`end`](Self::end).
///
/// Times may not go back; one that does counts as the one before.
pub struct RecordingWriter {
    out: Vec<u8>,
    /// The messages of the update that goes on, each behind its length.
    messages: Vec<u8>,
    /// Where they are cut into records.
    cuts: Vec<usize>,
    time: Time,
    /// Of the last SIZE, and the number of the next item, counted from the last PICTURE.
    epoch: u64,
    next: u64,
    encoder: RectangleEncoder,
    /// As far as it is pixels that are given; otherwise as old as the last picture.
    shadow: Option<Framebuffer>,
    /// There is a picture to which what is drawn belongs.
    begun: bool,
    name: Option<String>,
    cursor: Option<Cursor>,
    pointer: Option<(u16, u16)>,
    /// The pointer is somewhere else than was written, which is from then on.
    pointer_due: Option<Time>,
    pointer_at: Time,
    picture: PictureCost,
}

/// What the last picture took.
#[derive(Debug)]
struct PictureCost {
    at: Time,
    bytes: usize,
    /// Bytes behind it.
    since: usize,
}

impl RecordingWriter {
    /// A recording that begins so many seconds after the beginning of 1970. Its times count from then.
    pub fn new(unix_seconds: u64) -> Self {
        let mut out = Vec::with_capacity(FILE_HEAD);
        out.put(&SIGNATURE);
        out.put_u8(VERSION);
        let mut this = Self {
            out,
            messages: Vec::new(),
            cuts: Vec::new(),
            time: Time::ZERO,
            epoch: 0,
            next: 1,
            encoder: RectangleEncoder::new(100),
            shadow: None,
            begun: false,
            name: None,
            cursor: None,
            pointer: None,
            pointer_due: None,
            pointer_at: Time::ZERO,
            picture: PictureCost { at: Time::ZERO, bytes: 0, since: 0 },
        };
        this.record(kind::START, |body| body.put_varint(unix_seconds.min(MOST_SECONDS)));
        this
    }

    /// What is to be appended to the file.
    pub fn take(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.out)
    }

    /// The name of the desktop.
    pub fn name(&mut self, now: Time, name: &str) {
        self.pass(now);
        if self.name.as_deref() != Some(name) {
            self.name = Some(name.to_owned());
            self.tell(&FromServer::Name(name.to_owned()));
        }
    }

    /// The shape of the pointer.
    pub fn cursor(&mut self, now: Time, cursor: &Cursor) {
        self.pass(now);
        if self.cursor.as_ref() != Some(cursor) {
            self.cursor = Some(cursor.clone());
            self.tell(&FromServer::Cursor(cursor.clone()));
        }
    }

    /// The place of the pointer. Of places that follow each other closely some are left out, never the last.
    pub fn pointer(&mut self, now: Time, x: u16, y: u16) {
        self.pass(now);
        if self.pointer.replace((x, y)) != Some((x, y)) && self.begun {
            self.pointer_due = Some(self.pointer_at + POINTER_PAUSE);
            self.pass(now);
        }
    }

    /// A whole picture is to be given next: there is none yet, or it would shorten what has to be drawn for a
    /// time in the middle.
    pub fn wants_picture(&self) -> bool {
        // RC-12.
        let old = self.time.since(self.picture.at) >= PICTURE_PAUSE;
        !self.begun || old && self.picture.since > 2 * self.picture.bytes
    }

    /// The screen as it is now.
    pub fn picture(&mut self, now: Time, screen: Framebuffer) {
        self.pass(now);
        self.forget_messages();
        let before = self.out.len();
        // RC-6.
        self.begun = true;
        self.record(kind::PICTURE, |_| ());
        (self.epoch, self.next) = (1, 2);
        let mut size = Vec::with_capacity(16);
        size.put_varint(1);
        size.put_varint(1);
        size.put_u8(ItemKind::Size as u8);
        size.put_varint(screen.width().into());
        size.put_varint(screen.height().into());
        self.add(&size);
        if let Some(name) = self.name.clone() {
            self.tell(&FromServer::Name(name));
        }
        if let Some(cursor) = self.cursor.clone() {
            self.tell(&FromServer::Cursor(cursor));
        }
        self.write_pointer();
        let bounds = screen.bounds();
        self.shadow = Some(screen);
        self.encode(bounds);
        self.write_messages();
        self.picture = PictureCost { at: self.time, bytes: self.out.len() - before, since: 0 };
    }

    /// A screen message that was drawn, in the order in which they were; not one that was passed over
    /// (DT-19).
    ///
    /// # Errors
    /// When it has no header: then nothing is written.
    pub fn message(&mut self, now: Time, message: &[u8]) -> Result<(), MessageFault> {
        self.pass(now);
        if !self.begun {
            return Ok(());
        }
        let mut fields = FieldReader::new(message, "a screen message");
        let _numbers = (fields.varint()?, fields.varint()?);
        let items = fields.rest();
        // Sessions begin at 1 anew, and pictures do: here all count on (DT-17).
        if items.first() == Some(&(ItemKind::Size as u8)) {
            self.epoch += 1;
        }
        let mut own = Vec::with_capacity(items.len() + 16);
        self.head(&mut own);
        own.put(items);
        if own.len() > MESSAGE {
            // DT-5: with larger numbers it is too long.
            self.lose();
        } else {
            self.add(&own);
        }
        Ok(())
    }

    /// Pixels that have changed since the picture, of which there has to have been one of this size.
    ///
    /// # Errors
    /// When they are not inside the picture: then nothing is written.
    pub fn pixels(&mut self, now: Time, rect: Rect, pixels: &[u32]) -> Result<(), Outside> {
        self.pass(now);
        if let Some(shadow) = self.shadow.as_mut().filter(|_| self.begun) {
            shadow.put(rect, pixels)?;
            self.encode(rect);
        }
        Ok(())
    }

    /// What was drawn is shown.
    pub fn shown(&mut self, now: Time) {
        self.pass(now);
        if !self.messages.is_empty() {
            self.write_messages();
        }
    }

    /// Something was drawn that is not told here: nothing more can be written until there is a picture.
    pub fn lose(&mut self) {
        self.begun = false;
        self.forget_messages();
    }

    /// When to [`take`](Self::take) even if nothing happens.
    pub fn next_deadline(&self) -> Option<Time> {
        self.pointer_due
    }

    /// Nothing happens until now.
    pub fn pass(&mut self, now: Time) {
        self.time = self.time.max(now);
        if self.pointer_due.is_some_and(|due| due <= self.time) {
            self.write_pointer();
        }
    }

    /// The recording is over.
    pub fn end(&mut self, now: Time) {
        self.pass(now);
        if self.pointer_due.is_some() {
            self.write_pointer();
        }
        self.shown(now);
        // RC-11.
        self.record(kind::END, |_| ());
    }

    fn tell(&mut self, message: &FromServer) {
        if self.begun {
            self.record(kind::TOLD, |body| message.encode(body));
        }
    }

    fn write_pointer(&mut self) {
        self.pointer_due = None;
        if let Some((x, y)) = self.pointer.filter(|_| self.begun) {
            self.pointer_at = self.time;
            self.record(kind::POINTER, |body| {
                body.put_varint(x.into());
                body.put_varint(y.into());
            });
        }
    }

    /// The items that paint `rect` without loss.
    fn encode(&mut self, rect: Rect) {
        let Some(shadow) = self.shadow.take() else { return };
        let (mut message, mut decoded) = (self.begin_message(), 0);
        let mut rects = vec![rect];
        let mut bytes = Vec::new();
        while let Some(rect) = rects.pop() {
            if rect.is_empty() {
                continue;
            }
            if rect.area() > TILE {
                rects.extend(halves(rect));
                continue;
            }
            bytes.clear();
            let encoded = self.encoder.encode(&shadow, rect, PixelLoss::None, &mut bytes);
            debug_assert!(encoded.is_ok(), "the rectangle is inside the picture");
            // DT-5: noise is longer than one message may be.
            if bytes.len() > MOST_ITEM {
                rects.extend(halves(rect));
                continue;
            }
            // DT-16.
            if message.len() + bytes.len() > MESSAGE || decoded + rect.area() > MAX_DECODED {
                self.add(&message);
                (message, decoded) = (self.begin_message(), 0);
            }
            message.put(&bytes);
            decoded += rect.area();
            self.next += 1;
        }
        if decoded > 0 {
            self.add(&message);
        }
        self.shadow = Some(shadow);
    }

    fn begin_message(&self) -> Vec<u8> {
        let mut message = Vec::with_capacity(MESSAGE);
        message.put_varint(self.epoch);
        message.put_varint(self.next);
        message
    }

    fn head(&mut self, message: &mut Vec<u8>) {
        message.put_varint(self.epoch);
        message.put_varint(self.next);
        self.next += 1;
    }

    fn add(&mut self, message: &[u8]) {
        // RC-2.
        let start = self.cuts.last().copied().unwrap_or_default();
        if self.messages.len() + message.len() - start > MOST_TOGETHER {
            self.cuts.push(self.messages.len());
        }
        self.messages.put_varint(message.len() as u64);
        self.messages.put(message);
    }

    /// RC-9: all that is shown together, at one time.
    fn write_messages(&mut self) {
        let (messages, cuts) = (core::mem::take(&mut self.messages), core::mem::take(&mut self.cuts));
        let mut start = 0;
        for end in cuts {
            self.record(kind::PART, |body| body.put(&messages[start..end]));
            start = end;
        }
        self.record(kind::UPDATE, |body| body.put(&messages[start..]));
    }

    fn forget_messages(&mut self) {
        self.messages.clear();
        self.cuts.clear();
    }

    fn record(&mut self, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
        let start = self.out.len();
        self.out.put_u32(0);
        self.out.put_u8(kind);
        self.out.put_u64(self.time.as_nanos() / 1000);
        body(&mut self.out);
        let length = u32::try_from(self.out.len() - start - RECORD_HEAD).unwrap_or(u32::MAX);
        self.out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        let sum = crc32(&self.out[start..]);
        self.out.put_u32(sum);
        self.picture.since += self.out.len() - start;
    }
}

/// Buffers tell nobody anything.
impl fmt::Debug for RecordingWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingWriter")
            .field("time", &self.time)
            .field("picture", &self.picture)
            .finish_non_exhaustive()
    }
}

/// The two halves of a rectangle of more than one pixel.
fn halves(rect: Rect) -> [Rect; 2] {
    let (left, top, right, bottom) = (rect.left(), rect.top(), rect.right(), rect.bottom());
    if rect.width() >= rect.height() {
        let middle = left + rect.width() / 2;
        // The upper left is taken first.
        [Rect::between(middle, top, right, bottom), Rect::between(left, top, middle, bottom)]
    } else {
        let middle = top + rect.height() / 2;
        [Rect::between(left, middle, right, bottom), Rect::between(left, top, right, middle)]
    }
}

/// Pixels that are encoded as one item.
const TILE: usize = 1 << 14;
/// Bytes of a message, and of one item in it: DT-5.
const MESSAGE: usize = 16384;
const MOST_ITEM: usize = MESSAGE - 16;
/// Bytes of messages in one record, in front of which is the length of each.
const MOST_TOGETHER: usize = 256 << 10;
/// From one picture to the next.
const PICTURE_PAUSE: Duration = Duration::from_secs(10);
/// From one place of the pointer to the next.
const POINTER_PAUSE: Duration = Duration::from_millis(20);
/// What a varint can say.
const MOST_SECONDS: u64 = (1 << 62) - 1;
