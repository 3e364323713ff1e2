use core::fmt;
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};

use quickset_base::Time;
use quickset_rfb::crc32;

use super::{FILE_HEAD, MAX_BODY, RECORD_HEAD, RECORD_SUM, RecordingError, SIGNATURE, VERSION, kind};
use crate::message::FieldReader;

/// Reads the records of a file, from the beginning or from a picture on.
pub(super) struct RecordingReader<R> {
    input: BufReader<R>,
    /// Where the next record begins.
    at: u64,
    /// Behind the last record that is worth reading.
    end: u64,
    time: Time,
    /// The head of the next record, when it was looked at.
    ahead: Option<RecordHead>,
    body: Vec<u8>,
}

/// What is in front of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHead {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) time: Time,
}

/// What a look at all heads has found.
#[derive(Debug, Default)]
pub(super) struct RecordingIndex {
    /// When pictures begin, and where: in order, and not all where there are very many.
    pictures: Vec<(Time, u64)>,
    /// Of so many pictures one is listed.
    each: u64,
    pub(super) seen: u64,
    pub(super) updates: u64,
    /// The time of the last record.
    pub(super) last: Time,
    pub(super) began: Option<u64>,
    /// There is an END.
    pub(super) ended: bool,
    /// Bytes of the file, and those behind the last record that is worth reading.
    pub(super) bytes: u64,
    pub(super) behind: u64,
}

impl<R: Read + Seek> RecordingReader<R> {
    /// Looks at all heads: bodies are passed over, so that this takes a moment for an hour.
    pub(super) fn open(mut input: R) -> Result<(Self, RecordingIndex), RecordingError> {
        let bytes = input.seek(SeekFrom::End(0))?;
        input.rewind()?;
        let mut input = BufReader::with_capacity(BUFFER, input);
        let mut head = [0; FILE_HEAD];
        let length = usize::try_from(bytes).unwrap_or(usize::MAX).min(FILE_HEAD);
        input.read_exact(&mut head[..length])?;
        // RC-1.
        if length < FILE_HEAD || head[..SIGNATURE.len()] != SIGNATURE {
            return Err(RecordingError::Foreign);
        }
        if head[SIGNATURE.len()] != VERSION {
            return Err(RecordingError::Version(head[SIGNATURE.len()]));
        }
        let mut this =
            Self { input, at: FILE_HEAD as u64, end: bytes, time: Time::ZERO, ahead: None, body: Vec::new() };
        let index = this.index(bytes)?;
        this.end = bytes - index.behind;
        this.go_to(FILE_HEAD as u64, Time::ZERO)?;
        Ok((this, index))
    }

    fn index(&mut self, bytes: u64) -> io::Result<RecordingIndex> {
        let mut index = RecordingIndex { each: 1, bytes, ..RecordingIndex::default() };
        // RC-9: where the records begin that an UPDATE has to follow, when, and whether they are a picture.
        let mut open: Option<(u64, Time, bool)> = None;
        while let Some(head) = self.head()? {
            let start = self.at;
            if open.is_some_and(|(_, time, _)| time != head.time) {
                break;
            }
            match head.kind {
                kind::START if index.began.is_none() => {
                    self.ahead = Some(head);
                    let Some((_, body)) = self.next()? else { break };
                    index.began = FieldReader::new(body, "a start").varint().ok();
                    continue;
                }
                kind::PICTURE => open = open.or(Some((start, head.time, true))),
                kind::PART => open = open.or(Some((start, head.time, false))),
                kind::UPDATE => {
                    index.updates += 1;
                    if let Some((at, time, true)) = open.take() {
                        index.picture(time, at);
                    }
                }
                _ => {}
            }
            let body = head.length as u64 + RECORD_SUM as u64;
            self.input.seek_relative(i64::try_from(body).unwrap_or(i64::MAX))?;
            (self.at, self.time) = (start + RECORD_HEAD as u64 + body, head.time);
            index.last = if open.is_none() { head.time } else { index.last };
            if head.kind == kind::END && open.is_none() {
                // RC-11.
                index.ended = true;
                break;
            }
        }
        let end = open.map_or(self.at, |(at, ..)| at);
        index.behind = bytes - end;
        Ok(index)
    }

    /// The record after the last one that was read, without its body: `None` where the recording ends.
    pub(super) fn peek(&mut self) -> io::Result<Option<RecordHead>> {
        if self.ahead.is_none() {
            self.ahead = self.head()?;
        }
        Ok(self.ahead)
    }

    /// The next record: `None` where the recording ends.
    pub(super) fn next(&mut self) -> io::Result<Option<(RecordHead, &[u8])>> {
        let Some(head) = self.peek()? else { return Ok(None) };
        self.ahead = None;
        // RC-2: it was looked at that there are as many.
        self.body.resize(RECORD_HEAD + head.length, 0);
        let (front, body) = self.body.split_at_mut(RECORD_HEAD);
        front[..4].copy_from_slice(&u32::try_from(head.length).unwrap_or(u32::MAX).to_be_bytes());
        front[4] = head.kind;
        front[5..].copy_from_slice(&(head.time.as_nanos() / 1000).to_be_bytes());
        let mut sum = [0; RECORD_SUM];
        let is_there = read(&mut self.input, body)? && read(&mut self.input, &mut sum)?;
        // RC-4.
        if !is_there || crc32(&self.body) != u32::from_be_bytes(sum) {
            self.end_at(self.at);
            return Ok(None);
        }
        self.at += (RECORD_HEAD + head.length + RECORD_SUM) as u64;
        self.time = head.time;
        Ok(Some((head, &self.body[RECORD_HEAD..])))
    }

    /// Where the next record begins.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The recording ends here.
    pub(super) fn end_at(&mut self, at: u64) {
        self.end = self.end.min(at);
        self.ahead = None;
    }

    /// The time of the last record that was read.
    pub(super) fn time(&self) -> Time {
        self.time
    }

    /// Where it ends.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The next record is the one that begins at `at`, at this time.
    pub(super) fn go_to(&mut self, at: u64, time: Time) -> io::Result<()> {
        (self.at, self.time, self.ahead) = (at, time, None);
        self.input.seek(SeekFrom::Start(at)).map(drop)
    }

    fn head(&mut self) -> io::Result<Option<RecordHead>> {
        let left = self.end.saturating_sub(self.at);
        let mut bytes = [0; RECORD_HEAD];
        if left < (RECORD_HEAD + RECORD_SUM) as u64 || !read(&mut self.input, &mut bytes)? {
            self.end_at(self.at);
            return Ok(None);
        }
        let [a, b, c, d, kind, time @ ..] = bytes;
        let length = u32::from_be_bytes([a, b, c, d]);
        let time = Time::from_micros(u64::from_be_bytes(time));
        // RC-2, RC-3.
        let fits = u64::from(length) <= (MAX_BODY as u64).min(left - (RECORD_HEAD + RECORD_SUM) as u64);
        if !fits || time < self.time || time == Time::MAX {
            self.end_at(self.at);
            return Ok(None);
        }
        Ok(Some(RecordHead { length: length as usize, kind, time }))
    }
}

impl RecordingIndex {
    fn picture(&mut self, time: Time, at: u64) {
        if self.seen % self.each == 0 {
            if self.pictures.len() == MOST_PICTURES {
                let mut n = 0;
                self.pictures.retain(|_| {
                    n += 1;
                    n % 2 == 1
                });
                self.each *= 2;
            }
            self.pictures.push((time, at));
        }
        self.seen += 1;
    }

    /// What begins there or behind is no use.
    pub(super) fn end_at(&mut self, end: u64) {
        self.pictures.retain(|&(_, at)| at < end);
    }

    /// Where the last picture begins that is not behind `time`, and when; the first one if there is none.
    pub(super) fn before(&self, time: Time) -> Option<(Time, u64)> {
        let count = self.pictures.partition_point(|&(at, _)| at <= time);
        self.pictures.get(count.saturating_sub(1)).copied()
    }
}

/// Whether there were as many bytes.
fn read(input: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match input.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Buffers tell nobody anything.
impl<R> fmt::Debug for RecordingReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingReader")
            .field("at", &self.at)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// What is read from a file at a time.
const BUFFER: usize = 64 << 10;
/// Pictures that are listed.
const MOST_PICTURES: usize = 1 << 16;
