//! Frames of a session by WebSocket, where UDP does not get through (`spec/desktop.md` §12, WB-19).

use quickset_screen::message::{MessageFault, RecordSplitter};

/// Bytes that come to frames, however they are cut.
#[derive(Debug, Default)]
pub(crate) struct FrameSplitter {
    rest: Vec<u8>,
    /// Of `rest`, what was taken.
    taken: usize,
}

/// DT-56.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum IncomingFrame {
    Control(Vec<u8>),
    Screen(Vec<u8>),
    Clipboard(Vec<u8>),
    Sound(Vec<u8>),
    StillThere,
    /// The session is over: a code of `spec/desktop.md` §11, and words.
    Goodbye {
        code: u64,
        words: String,
    },
}

impl FrameSplitter {
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.rest.drain(..std::mem::take(&mut self.taken));
        self.rest.extend_from_slice(bytes);
    }

    /// The next frame that is whole, if there is one.
    pub(crate) fn next_frame(&mut self) -> Result<Option<IncomingFrame>, MessageFault> {
        let rest = &self.rest[self.taken..];
        let Some((&[kind, a, b, c], rest)) = rest.split_first_chunk() else { return Ok(None) };
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        if length > MOST_RECORD {
            return Err(MessageFault::Long(length));
        }
        let Some(record) = rest.get(..length) else { return Ok(None) };
        let frame = match kind {
            CONTROL => IncomingFrame::Control(record.to_vec()),
            SCREEN => IncomingFrame::Screen(record.to_vec()),
            CLIPBOARD => IncomingFrame::Clipboard(record.to_vec()),
            SOUND => IncomingFrame::Sound(record.to_vec()),
            STILL_THERE => IncomingFrame::StillThere,
            GOODBYE => {
                let (&code, words) = record.split_first().ok_or(MessageFault::Short("a goodbye"))?;
                let words = String::from_utf8_lossy(words).into_owned();
                IncomingFrame::Goodbye { code: code.into(), words }
            }
            other => return Err(MessageFault::Value { what: "the kind of a frame", value: other.into() }),
        };
        self.taken += HEAD + length;
        Ok(Some(frame))
    }
}

/// What whole records of a stream ([`stream_bytes`](quickset_screen::message::stream_bytes)) are in frames.
pub(crate) fn frames(kind: u8, stream: &[u8]) -> Vec<u8> {
    let mut splitter = RecordSplitter::default();
    splitter.feed(stream);
    let mut out = Vec::with_capacity(stream.len() + HEAD);
    while let Ok(Some(record)) = splitter.next_record() {
        let length = u32::try_from(record.len()).expect("a record is short").to_be_bytes();
        out.extend_from_slice(&[kind, length[1], length[2], length[3]]);
        out.extend_from_slice(&record);
    }
    out
}

/// DT-57: a frame that says nothing else.
#[cfg(any(feature = "wasm", test))]
pub(crate) const STILL_HERE: [u8; HEAD] = [STILL_THERE, 0, 0, 0];

pub(crate) const CONTROL: u8 = 0;
#[cfg(any(feature = "wasm", test))]
pub(crate) const INPUT: u8 = 1;
const SCREEN: u8 = 2;
const CLIPBOARD: u8 = 3;
const SOUND: u8 = 4;
const STILL_THERE: u8 = 254;
const GOODBYE: u8 = 255;
const HEAD: usize = 4;
/// DT-5.
const MOST_RECORD: usize = 65_536;

#[cfg(test)]
mod tests {
    use quickset_screen::message::{FromServer, PersonInput, StreamMessage as _, stream_bytes};

    use super::*;

    #[test]
    fn frames_come_off_bytes_however_they_are_cut() {
        // DT-56, by hand: control with two bytes, a screen message of three, an end with words.
        let bytes = [
            &[0, 0, 0, 2, 8, 9][..],
            &[2, 0, 0, 3, 1, 2, 3],
            &[254, 0, 0, 0],
            &[3, 0, 0, 0],
            &[4, 0, 0, 2, 48, 0],
            &[255, 0, 0, 3, 6, b'n', b'o'],
        ]
        .concat();
        for cut in 1..=bytes.len() {
            let (mut splitter, mut read) = (FrameSplitter::default(), Vec::new());
            for piece in bytes.chunks(cut) {
                splitter.feed(piece);
                while let Some(frame) = splitter.next_frame().unwrap() {
                    read.push(frame);
                }
            }
            let expected = [
                IncomingFrame::Control(vec![8, 9]),
                IncomingFrame::Screen(vec![1, 2, 3]),
                IncomingFrame::StillThere,
                IncomingFrame::Clipboard(Vec::new()),
                IncomingFrame::Sound(vec![48, 0]),
                IncomingFrame::Goodbye { code: 6, words: "no".into() },
            ];
            assert_eq!(read, expected, "{cut}");
        }
    }

    #[test]
    fn frames_that_cannot_be_are_faults_before_they_are_there() {
        for (head, fault) in [
            ([0, 1, 0, 1], MessageFault::Long(65_537)),
            ([1, 0, 0, 0], MessageFault::Value { what: "the kind of a frame", value: 1 }),
            ([9, 0, 0, 0], MessageFault::Value { what: "the kind of a frame", value: 9 }),
            ([255, 0, 0, 0], MessageFault::Short("a goodbye")),
        ] {
            let mut splitter = FrameSplitter::default();
            splitter.feed(&head);
            assert_eq!(splitter.next_frame(), Err(fault));
        }
    }

    #[test]
    fn records_of_a_stream_are_frames() {
        let key = PersonInput::Key { down: true, keysym: 0x61, keycode: None };
        let record = &key.records()[0];
        let head = [INPUT, 0, 0, u8::try_from(record.len()).unwrap()];
        assert_eq!(frames(INPUT, &stream_bytes(&key)), [&head[..], record].concat());
        // One in parts is several.
        let name = FromServer::Name("x".repeat(40_000));
        let mut splitter = FrameSplitter::default();
        splitter.feed(&frames(CONTROL, &stream_bytes(&name)));
        let parts = std::iter::from_fn(|| splitter.next_frame().unwrap()).count();
        assert_eq!(parts, name.records().len());
        assert_eq!(STILL_HERE, [254, 0, 0, 0]);
    }
}
