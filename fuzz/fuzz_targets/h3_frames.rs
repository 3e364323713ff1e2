//! Frames of HTTP/3: the same however the bytes are cut, within their limits, and each comes back from its
//! own encoding.
//!
//! Of the first byte of the input the lowest bits are the stream, its reader, and whether WebTransport is
//! spoken; the others are the largest field section in units of 16 bytes. The second byte is the size of the
//! pieces.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use quickset_h3::Error;
use quickset_h3::frame::{Frame, FrameReader, Settings, StreamItem, StreamPlace, data_header};
use quickset_quic::Side;

fuzz_target!(|input: &[u8]| {
    let Some((&[first, piece], stream)) = input.split_first_chunk() else { return };
    let kind = Kind(first);
    let whole = read(kind.reader(), stream, stream.len());
    assert_eq!(whole, read(kind.reader(), stream, 1 + usize::from(piece)));
    for item in &whole.0 {
        match item {
            StreamItem::Frame(frame) => round_trip(kind, frame),
            StreamItem::DataHeader(len) => {
                let header = data_header(*len);
                let (items, end) = read(kind.reader(), &header, header.len());
                assert_eq!((items, end), (vec![StreamItem::DataHeader(*len)], Ok(*len == 0)));
            }
            _ => {}
        }
    }
});

/// What a reader is told.
#[derive(Clone, Copy)]
struct Kind(u8);

impl Kind {
    fn place(self) -> StreamPlace {
        if self.0 & 1 == 0 { StreamPlace::Control } else { StreamPlace::Request }
    }

    fn max_section(self) -> u64 {
        u64::from(self.0 >> 3) * 16
    }

    fn reader(self) -> FrameReader {
        let side = if self.0 & 2 == 0 { Side::Client } else { Side::Server };
        FrameReader::new(self.place(), side, self.max_section(), self.0 & 4 != 0)
    }
}

/// The items, payload of DATA joined to what it belongs to, and whether the stream may end behind them.
fn read(mut reader: FrameReader, stream: &[u8], piece: usize) -> (Vec<StreamItem>, Result<bool, Error>) {
    let mut items = Vec::new();
    // Bytes of the DATA frame under way.
    let mut missing = 0;
    for bytes in stream.chunks(piece.max(1)) {
        let mut bytes = Bytes::copy_from_slice(bytes);
        loop {
            let before = bytes.len();
            match reader.next(&mut bytes, piece.max(1)) {
                Ok(Some(StreamItem::Data(data))) => {
                    assert!(!data.is_empty() && data.len() <= piece, "as many as were asked for");
                    assert_eq!(before - bytes.len(), data.len());
                    missing -= data.len() as u64;
                    join(&mut items, data);
                }
                Ok(Some(item)) => {
                    assert_eq!(missing, 0, "{item:?} inside a DATA frame");
                    if let StreamItem::DataHeader(len) = item {
                        missing = len;
                    }
                    let over = matches!(item, StreamItem::Session(_));
                    items.push(item);
                    // The rest is not made of frames.
                    if over {
                        return (items, Ok(true));
                    }
                }
                Ok(None) => break,
                Err(error) => return (items, Err(error)),
            }
        }
        assert!(bytes.is_empty(), "all was taken");
    }
    let end = reader.is_between_frames();
    assert!(!end || missing == 0);
    (items, Ok(end))
}

fn join(items: &mut Vec<StreamItem>, data: Bytes) {
    match items.last_mut() {
        Some(StreamItem::Data(so_far)) => *so_far = [&so_far[..], &data].concat().into(),
        _ => items.push(StreamItem::Data(data)),
    }
}

fn round_trip(kind: Kind, frame: &Frame) {
    match frame {
        Frame::Headers(section) => assert!(section.len() as u64 <= kind.max_section()),
        Frame::Settings(settings) => assert!(settings.admit(settings), "nothing is less"),
        _ => {}
    }
    let mut stream = Vec::new();
    let mut expected = Vec::new();
    if kind.place() == StreamPlace::Control && !matches!(frame, Frame::Settings(_)) {
        let first = Frame::Settings(Settings::default());
        first.encode(&mut stream);
        expected.push(StreamItem::Frame(first));
    }
    frame.encode(&mut stream);
    expected.push(StreamItem::Frame(frame.clone()));
    assert_eq!(read(kind.reader(), &stream, stream.len()), (expected, Ok(true)));
}
