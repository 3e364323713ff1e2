//! The sound of a page: datagrams or frames of a WebSocket become packets to decode, each when it is due.

use quickset_base::{Duration, Time};
use quickset_screen::sound::{FRAME_SAMPLES, PlayoutBuffer, SOUND_DATAGRAM, SoundPiece, SoundStats};
use quickset_web::{DatagramFault, FencedReceiver};

/// What to decode next: a packet of Opus of 20 ms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageSoundPiece {
    /// The packet; of a gap one without a frame, for which a decoder conceals (RFC 6716 §3.2.1).
    pub packet: Vec<u8>,
    /// In how many samples of each channel it is to be played.
    pub samples: u16,
    /// It stands for a frame that did not come in time.
    pub is_gap: bool,
}

/// What has come of sound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageSoundFigures {
    /// How long behind the fastest frames of late each is heard, up to the device.
    pub delay: Duration,
    /// What was counted of frames.
    pub frames: SoundStats,
    /// Frames that repair has replaced.
    pub recovered: u64,
}

/// Sound of one session.
#[derive(Debug)]
pub(crate) struct PageHearing {
    fenced: FencedReceiver,
    buffer: PlayoutBuffer,
    /// The first byte of the last packet: what the decoder conceals with.
    kind: u8,
}

impl PageHearing {
    pub(crate) fn new() -> Self {
        Self { fenced: FencedReceiver::new(), buffer: PlayoutBuffer::with_lead(SOUND_LEAD), kind: STEREO }
    }

    /// A datagram of sound, without its type.
    pub(crate) fn datagram(&mut self, now: Time, datagram: &[u8]) -> Result<(), DatagramFault> {
        self.fenced.receive(now, datagram)?;
        while let Some(record) = self.fenced.next() {
            self.buffer.receive(now, &record);
        }
        Ok(())
    }

    /// A record of sound of a WebSocket.
    pub(crate) fn record(&mut self, now: Time, record: Vec<u8>) {
        self.buffer.receive(now, &record.into());
    }

    /// What the server's sender is to know.
    pub(crate) fn report(&mut self, now: Time) -> Option<Vec<u8>> {
        Some([&[SOUND_DATAGRAM][..], &self.fenced.report(now)?].concat())
    }

    pub(crate) fn report_due(&self) -> Option<Time> {
        self.fenced.next_deadline()
    }

    pub(crate) fn due(&self) -> Option<Time> {
        self.buffer.next_due()
    }

    pub(crate) fn next(&mut self, now: Time) -> Option<PageSoundPiece> {
        Some(match self.buffer.play(now)? {
            SoundPiece::Packet { packet, samples } => {
                self.kind = packet.first().copied().filter(|kind| is_whole(*kind)).unwrap_or(STEREO);
                PageSoundPiece { packet: packet.to_vec(), samples, is_gap: false }
            }
            SoundPiece::Conceal => {
                PageSoundPiece { packet: vec![self.kind], samples: FRAME_SAMPLES, is_gap: true }
            }
        })
    }

    pub(crate) fn figures(&self) -> PageSoundFigures {
        PageSoundFigures {
            delay: self.buffer.delay(),
            frames: *self.buffer.stats(),
            recovered: self.fenced.stats().recovered,
        }
    }
}

/// Whether the first byte of a packet says that it is one frame of 20 ms (RFC 6716 §3.1).
fn is_whole(kind: u8) -> bool {
    let config = kind >> 3;
    let lasts_20_ms = match config {
        0..12 => config & 3 == 1,
        12..16 => config & 1 == 1,
        _ => config & 3 == 3,
    };
    // RFC 6716 §3.1: the two bits say how many frames there are.
    lasts_20_ms && matches!(kind & 3, 0)
}

/// How long before it is heard the page takes each piece: what its timers and its decoder may take, and
/// what its ring is to hold at first.
pub const SOUND_LEAD: Duration = Duration::from_millis(15);
/// One frame of 20 ms of both channels.
const STEREO: u8 = 0xfc;

#[cfg(test)]
mod tests {
    use quickset_base::Time;

    use super::*;
    use crate::PageViewer;

    const START: Time = Time::from_millis(1000);
    const FRAME: Duration = Duration::from_millis(20);

    /// A record of sound by hand (`spec/desktop.md` §13), of a small number.
    fn record(number: u8, packet: &[u8]) -> Vec<u8> {
        let time = u32::from(number) * 960;
        let time = (0x8000_0000 | time).to_be_bytes();
        [&[0x30, number][..], &time, packet].concat()
    }

    /// The same as a datagram: a message of a sequence without fences, behind all before it.
    fn datagram(number: u8, packet: &[u8]) -> Vec<u8> {
        [&[5, 1, 0, number, number][..], &record(number, packet)].concat()
    }

    fn heard(viewer: &mut PageViewer, until: Time) -> Vec<(Time, PageSoundPiece)> {
        let mut heard = Vec::new();
        while let Some(due) = viewer.sound_due().filter(|&due| due <= until) {
            heard.extend(viewer.next_sound(due).map(|piece| (due, piece)));
        }
        heard
    }

    #[test]
    fn frames_are_heard_in_order_and_a_lost_one_is_a_gap() {
        // WB-23.
        let mut viewer = PageViewer::new(1 << 20);
        assert_eq!(viewer.sound_due(), None);
        let mut heard_all = Vec::new();
        for number in [0, 2, 1, 3, 5, 6] {
            let now = START + FRAME * u32::from(number).max(2);
            heard_all.extend(heard(&mut viewer, now));
            viewer.datagram(now, &datagram(number, &[0xfc, number])).unwrap();
        }
        heard_all.extend(heard(&mut viewer, START + FRAME * 12));
        let packets: Vec<_> = heard_all.iter().map(|(_, piece)| &piece.packet[..]).take(7).collect();
        let expected: [&[u8]; 7] =
            [&[0xfc, 0], &[0xfc, 1], &[0xfc, 2], &[0xfc, 3], &[0xfc], &[0xfc, 5], &[0xfc, 6]];
        assert_eq!(packets, expected);
        assert!(heard_all[4].1.is_gap && !heard_all[3].1.is_gap);
        // The sender hears of what came.
        let report = viewer.next_datagram(START + FRAME * 9).expect("a report is due");
        assert_eq!(report[..2], [5, 4]);
    }

    #[test]
    fn each_piece_is_due_a_lead_before_it_is_heard() {
        // DT-73: 30 ms behind the fastest, of which the page has 15.
        let mut viewer = PageViewer::new(1 << 20);
        for number in 0..60 {
            let now = START + FRAME * u32::from(number);
            let heard = heard(&mut viewer, now);
            assert!(heard.iter().all(|(at, _)| now.since(*at) == Duration::from_millis(5)), "{heard:?}");
            viewer.datagram(now, &datagram(number, &[0xfc, number])).unwrap();
        }
        assert_eq!(viewer.sound().delay, Duration::from_millis(30));
        assert_eq!((viewer.sound().frames.played, viewer.sound().frames.concealed), (59, 0));
    }

    #[test]
    fn packets_that_are_cut_or_too_long_are_passed_over_and_the_session_goes_on() {
        // DT-71.
        let mut viewer = PageViewer::new(1 << 20);
        let long = [&[0xfc][..], &[0; 1000]].concat();
        let packets = [&[][..], &long, &[0xff, 0], &[0x18, 1], &[0xfc, 1]];
        for (number, packet) in (0..).zip(packets) {
            viewer.datagram(START + FRAME * number.into(), &datagram(number, packet)).unwrap();
        }
        let figures = viewer.sound();
        assert_eq!((figures.frames.unreadable, figures.frames.received), (4, 1));
        // What is no datagram of §3 ends it, as without sound (WB-2).
        assert!(viewer.datagram(START + FRAME * 5, &[5, 1, 0]).is_err());
        assert!(viewer.datagram(START + FRAME * 5, &[5]).is_err());
        // And one of no kind is nothing (WB-1).
        viewer.datagram(START + FRAME * 5, &[5, 77, 1]).unwrap();
    }

    #[test]
    fn by_a_websocket_the_same_records_come_in_order() {
        // WB-26.
        let mut viewer = PageViewer::by_socket(1 << 20);
        for number in 0..5 {
            let record = record(number, &[0xfc, number]);
            let head = [4, 0, 0, u8::try_from(record.len()).unwrap()];
            let now = START + FRAME * u32::from(number);
            viewer.socket_bytes(now, &[&head[..], &record].concat()).unwrap();
        }
        let heard = heard(&mut viewer, START + FRAME * 5);
        assert!(heard.iter().zip(0..).all(|((_, piece), n)| piece.packet == [0xfc, n]), "{heard:?}");
        assert_eq!(viewer.sound().frames.received, 5);
    }

    #[test]
    fn a_gap_is_a_packet_of_the_same_kind_without_a_frame() {
        // RFC 6716 §3.1: 20 ms of CELT in mono; two frames of 10 ms, after which it is one of 20.
        for (packet, gap) in [(&[0xf8, 1][..], 0xf8), (&[0xf5, 1, 2], STEREO), (&[0x08, 9], 0x08)] {
            let mut viewer = PageViewer::new(1 << 20);
            viewer.datagram(START, &datagram(0, packet)).unwrap();
            let heard = heard(&mut viewer, START + FRAME * 8);
            assert_eq!(heard[0].1.packet, packet);
            assert_eq!(heard[1].1, PageSoundPiece { packet: vec![gap], samples: 960, is_gap: true });
            // It fades out, and ends.
            assert!(heard.len() < 8, "{heard:?}");
            assert_eq!(viewer.sound_due(), None);
        }
    }
}
