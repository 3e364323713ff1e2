use bytes::Bytes;

use super::{FRAME_SAMPLES, MAX_PACKET, SAMPLE_RATE};
use crate::message::FieldReader;
#[cfg(any(test, feature = "encode"))]
use crate::message::PutFields as _;

/// A message of the sound stream: 20 ms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoundFrame {
    /// Which it is of the session's, from 0; below 2^48.
    pub number: u64,
    /// When its first sample was recorded, in samples of 48,000 a second from a moment that the server
    /// chooses; below 2^48.
    pub time: u64,
    /// One packet of Opus, at most [`MAX_PACKET`] bytes.
    pub packet: Bytes,
}

impl SoundFrame {
    /// The record that carries it.
    #[cfg(any(test, feature = "encode"))]
    pub fn record(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.packet.len() + 17);
        out.put_u8(SOUND);
        out.put_varint(self.number);
        out.put_varint(self.time);
        out.put(&self.packet);
        out.into()
    }

    /// Reads a record. `None` for one that is to be passed over: it cannot be read, is of another kind, or
    /// has a packet that is too long or not of 20 ms (DT-68, DT-71).
    pub fn read(record: &Bytes) -> Option<Self> {
        let mut fields = FieldReader::new(record, "a frame of sound");
        if fields.u8().ok()? != SOUND {
            return None;
        }
        let [number, time] = [fields.varint().ok()?, fields.varint().ok()?];
        let packet = record.slice_ref(fields.rest());
        let fits = number < LIMIT && time < LIMIT && packet.len() <= MAX_PACKET;
        (fits && samples(&packet) == Some(FRAME_SAMPLES.into())).then_some(Self { number, time, packet })
    }
}

/// How many samples of each channel a packet of Opus holds, by its first bytes; `None` when there are too few
/// of them, or it has no frame.
fn samples(packet: &[u8]) -> Option<u32> {
    let toc = *packet.first()?;
    // RFC 6716 §3.1, table 2: what a frame of each configuration holds, in units of 2.5 ms.
    let units = match toc >> 3 {
        config @ 0..12 => [4, 8, 16, 24][usize::from(config & 3)],
        config @ 12..16 => [4, 8][usize::from(config & 1)],
        config => [1, 2, 4, 8][usize::from(config & 3)],
    };
    // RFC 6716 §3.2: one, two, two, or as many frames as the next byte says.
    let frames = match toc & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u32::from(packet.get(1)? & 0x3f),
    };
    Some(units * frames * (SAMPLE_RATE / 400)).filter(|&samples| samples > 0)
}

const SOUND: u8 = 0x30;
/// DT-69.
const LIMIT: u64 = 1 << 48;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_example_of_the_specification_reads_and_writes() {
        let bytes = Bytes::from_static(&[0x30, 0x02, 0x47, 0x80, 0xfc, 1, 2]);
        let frame = SoundFrame { number: 2, time: 1920, packet: Bytes::from_static(&[0xfc, 1, 2]) };
        assert_eq!(frame.record(), bytes);
        assert_eq!(SoundFrame::read(&bytes), Some(frame));
    }

    /// RFC 6716 §3.1 in words: SILK has 10, 20, 40 and 60 ms, hybrid 10 and 20, CELT 2.5, 5, 10 and 20.
    #[test]
    fn the_first_bytes_tell_how_long_a_packet_plays() {
        let toc = |config: u8, code: u8| config << 3 | code;
        for (config, tenths_of_ms) in [
            (0, 100),
            (1, 200),
            (2, 400),
            (3, 600),
            (8, 100),
            (11, 600),
            (12, 100),
            (13, 200),
            (14, 100),
            (15, 200),
            (16, 25),
            (17, 50),
            (18, 100),
            (19, 200),
            (28, 25),
            (31, 200),
        ] {
            let one = tenths_of_ms * 48 / 10;
            assert_eq!(samples(&[toc(config, 0)]), Some(one), "{config}");
            assert_eq!(samples(&[toc(config, 1)]), Some(2 * one), "{config}");
            assert_eq!(samples(&[toc(config, 2), 0]), Some(2 * one), "{config}");
            assert_eq!(samples(&[toc(config, 3), 0x83]), Some(3 * one), "{config}");
        }
        assert_eq!(samples(&[]), None);
        assert_eq!(samples(&[toc(31, 3)]), None, "its count is cut");
        assert_eq!(samples(&[toc(31, 3), 0]), None, "no frame");
    }

    #[test]
    fn what_is_not_twenty_ms_or_too_long_is_passed_over() {
        // DT-71, and DT-68 for another kind.
        let record = |kind: u8, packet: &[u8]| Bytes::from([&[kind, 0, 0], packet].concat());
        let long = |n: usize| [&[0xfc][..], &vec![0; n - 1]].concat();
        assert!(SoundFrame::read(&record(0x30, &long(1000))).is_some());
        for wrong in [
            record(0x30, &long(1001)),
            record(0x30, &[]),
            record(0x31, &[0xfc]),
            record(0x00, &[0xfc]),
            // Two frames of 20 ms, one of 60, one of 10.
            record(0x30, &[0xfd, 0]),
            record(0x30, &[0x18]),
            record(0x30, &[0xf4]),
            Bytes::new(),
            Bytes::from_static(&[0x30]),
            Bytes::from_static(&[0x30, 0x40]),
            Bytes::from_static(&[0x30, 0, 0xc0]),
        ] {
            assert_eq!(SoundFrame::read(&wrong), None, "{wrong:?}");
        }
        // Two frames of 10 ms are as good.
        assert!(SoundFrame::read(&record(0x30, &[0xf5, 0, 0])).is_some());
        // DT-69: 2^48 is too much, one less is not.
        for (number, is_read) in [(LIMIT - 1, true), (LIMIT, false)] {
            let packet = Bytes::from_static(&[0xfc]);
            let frame = SoundFrame { number, time: 0, packet: packet.clone() };
            assert_eq!(SoundFrame::read(&frame.record()).is_some(), is_read);
            let frame = SoundFrame { number: 0, time: number, packet };
            assert_eq!(SoundFrame::read(&frame.record()).is_some(), is_read);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let bytes = Bytes::from(bytes);
            if let Some(frame) = SoundFrame::read(&bytes) {
                // It may have been written longer than it has to be; what is in it is the same.
                prop_assert_eq!(SoundFrame::read(&frame.record()), Some(frame));
            }
        }
    }
}
