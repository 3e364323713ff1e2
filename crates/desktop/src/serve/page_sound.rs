//! Sound for a page: frames in datagrams, with repair, each as long as it is of use (`spec/web.md` WB-23 to
//! WB-25).

use std::collections::VecDeque;

use quickset_base::{Duration, Time};
use quickset_screen::sound::{SOUND_DATAGRAM, SoundFrame};
use quickset_web::{DatagramFault, FencedSender, SenderOptions};

use crate::sound::give::PATIENCE;

/// Makes datagrams of a page's sound. The contract:
///
/// 1. Give it each [`frame`](Self::frame) when that is there.
/// 2. Send what [`poll`](Self::poll) returns, and ask it again at [`next_deadline`](Self::next_deadline).
/// 3. Give it the page's [`report`](Self::report)s.
pub(super) struct PageSound {
    sender: FencedSender,
    /// Frames that may be sent again, the oldest first: their numbers, and until when.
    useful: VecDeque<(u64, Time)>,
    /// Frames since the last repair.
    bare: u32,
}

impl PageSound {
    /// Nothing was sent yet on a path of this round trip.
    pub(super) fn new(rtt: Duration) -> Self {
        Self { sender: FencedSender::new(SenderOptions { rtt }), useful: VecDeque::new(), bare: 0 }
    }

    /// A frame that was recorded then.
    pub(super) fn frame(&mut self, now: Time, recorded: Time, frame: &SoundFrame) {
        self.forget(now);
        // DT-70: what leaves within this arrives within that and half a round trip.
        let until = recorded + PATIENCE;
        if until <= now || !self.sender.has_room() {
            return;
        }
        let number = self.sender.message(frame.record(), true);
        self.useful.push_back((number, until));
        self.bare += 1;
        // WB-25.
        if frames_for_repair(self.sender.loss().rate()).is_some_and(|frames| self.bare >= frames) {
            self.sender.repair(1);
            self.bare = 0;
        }
    }

    /// The next datagram to send.
    pub(super) fn poll(&mut self, now: Time) -> Option<Vec<u8>> {
        self.forget(now);
        let datagram = self.sender.poll(now)?;
        Some([&[SOUND_DATAGRAM][..], &datagram].concat())
    }

    /// A datagram of the page, without its type.
    pub(super) fn report(&mut self, now: Time, datagram: &[u8]) -> Result<(), DatagramFault> {
        self.forget(now);
        self.sender.report(now, datagram)?;
        // Nobody asks what became of a frame.
        while self.sender.next_outcome().is_some() {}
        Ok(())
    }

    /// When to poll even if nothing happens.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.sender.next_deadline()
    }

    /// WB-24: what would come too late is not sent, nor covered by repair.
    fn forget(&mut self, now: Time) {
        while let Some(&(number, _)) = self.useful.front().filter(|(_, until)| *until <= now) {
            self.useful.pop_front();
            self.sender.expire(number);
        }
    }
}

/// How many frames have a repair behind them, of a path that loses this share; `None`: a frame that is lost
/// now and then is sent again, or concealed. The delay at which sound is heard is as long as the first of
/// them waits for its repair, so that there are no more than two; sound is small beside a screen.
fn frames_for_repair(loss: f64) -> Option<u32> {
    match loss {
        loss if loss < 0.002 => None,
        loss if loss < 0.04 => Some(2),
        _ => Some(1),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use quickset_base::Rng;
    use quickset_viewer::PageViewer;

    use super::*;

    const FRAME: Duration = Duration::from_millis(20);
    const START: Time = Time::from_millis(2000);

    fn frame(number: u64) -> SoundFrame {
        let packet = Bytes::from([&[0xfc][..], &number.to_be_bytes(), &[0; 230]].concat());
        SoundFrame { number, time: number * 960, packet }
    }

    /// A server and a page in virtual time.
    struct SoundPath {
        sender: PageSound,
        viewer: PageViewer,
        one_way: Duration,
        /// Of a thousand, each way.
        loss: u64,
        /// Nothing comes from the page.
        is_deaf: bool,
        rng: Rng,
        flying: BTreeMap<(Time, u64), (bool, Vec<u8>)>,
        count: u64,
        /// When each datagram left that held a frame, behind the recording of that, and whether it was the
        /// frame's first.
        left: Vec<(Duration, bool)>,
        seen: std::collections::BTreeSet<u64>,
        bytes: usize,
        heard: u64,
        gaps: u64,
    }

    impl SoundPath {
        fn new(one_way: Duration, loss: u64) -> Self {
            Self {
                sender: PageSound::new(one_way * 2),
                viewer: PageViewer::new(1 << 20),
                one_way,
                loss,
                is_deaf: false,
                rng: Rng::new(11),
                flying: BTreeMap::new(),
                count: 0,
                left: Vec::new(),
                seen: std::collections::BTreeSet::new(),
                bytes: 0,
                heard: 0,
                gaps: 0,
            }
        }

        fn put(&mut self, now: Time, to_page: bool, datagram: Vec<u8>) {
            self.count += 1;
            if self.rng.below(1000) >= self.loss {
                self.flying.insert((now + self.one_way, self.count), (to_page, datagram));
            }
        }

        fn turn(&mut self, now: Time) {
            while let Some(datagram) = self.sender.poll(now) {
                self.bytes += datagram.len();
                // The frame is the end of a message.
                if datagram[..2] == [SOUND_DATAGRAM, 1] {
                    let number =
                        u64::from_be_bytes(datagram[datagram.len() - 238..][..8].try_into().unwrap());
                    let recorded = START + FRAME * u32::try_from(number).unwrap();
                    self.left.push((now.since(recorded), self.seen.insert(number)));
                }
                self.put(now, true, datagram);
            }
            while let Some(report) = self.viewer.next_datagram(now) {
                if !self.is_deaf {
                    self.put(now, false, report);
                }
            }
            while self.viewer.sound_due().is_some_and(|due| due <= now) {
                let Some(piece) = self.viewer.next_sound(now) else { break };
                self.heard += 1;
                self.gaps += u64::from(piece.is_gap);
            }
        }

        /// Plays so many frames, and what comes of them.
        fn play(&mut self, frames: u64) {
            let mut next = 0;
            let end = START + FRAME * u32::try_from(frames + 20).unwrap();
            loop {
                let recorded = START + FRAME * u32::try_from(next).unwrap();
                let due = [
                    (next < frames).then_some(recorded),
                    self.flying.keys().next().map(|&(at, _)| at),
                    self.sender.next_deadline(),
                    self.viewer.next_deadline(),
                    self.viewer.sound_due(),
                ];
                let Some(now) = due.into_iter().flatten().min().filter(|&now| now <= end) else { return };
                if next < frames && now == recorded {
                    self.sender.frame(now, recorded, &frame(next));
                    next += 1;
                }
                while self.flying.keys().next().is_some_and(|&(at, _)| at <= now) {
                    let (to_page, datagram) = self.flying.pop_first().unwrap().1;
                    if to_page {
                        self.viewer.datagram(now, &datagram).unwrap();
                    } else {
                        self.sender.report(now, &datagram[1..]).unwrap();
                    }
                }
                self.turn(now);
            }
        }

        fn resent(&self) -> usize {
            self.left.iter().filter(|(_, first)| !first).count()
        }
    }

    #[test]
    fn no_frame_is_sent_or_sent_again_when_it_would_come_too_late() {
        // DT-70, WB-24: on a short path, where so little is lost that nothing is repaired, resends are in
        // time. On a long one none is.
        for (one_way, loss, resends) in [(5, 1, true), (100, 1, false), (100, 20, false)] {
            let mut path = SoundPath::new(Duration::from_millis(one_way), loss);
            path.play(12_000);
            let latest = path.left.iter().map(|(behind, _)| *behind).max().unwrap();
            assert!(latest < Duration::from_millis(70), "{one_way}: {latest:?}");
            assert_eq!(path.resent() > 0, resends, "{one_way}: {}", path.resent());
            assert_eq!(path.seen.len(), 12_000);
        }
    }

    /// An independent count: of two in a hundred frames, without repair as many would be gaps.
    #[test]
    fn repair_replaces_most_of_what_is_lost_soon_enough() {
        // WB-25.
        let mut path = SoundPath::new(Duration::from_millis(50), 20);
        path.play(5000);
        let lost = 0.02 * 5000.0;
        println!("{} gaps, {} resent, {:?}", path.gaps, path.resent(), path.viewer.sound());
        assert!(f64::from(u32::try_from(path.gaps).unwrap()) < lost / 4.0, "{} gaps", path.gaps);
        assert!(path.viewer.sound().recovered > 60, "{:?}", path.viewer.sound());
        // A repair is little longer than a frame.
        assert!(path.bytes < 5000 * 256 * 17 / 10, "{}", path.bytes);
        // The delay does not wait for more than one frame.
        let delay = path.viewer.sound().delay;
        assert!(delay <= Duration::from_millis(65), "{delay:?}");
        // Where nothing is lost there is none after a while.
        let mut path = SoundPath::new(Duration::from_millis(50), 0);
        path.play(5000);
        assert_eq!((path.gaps > 6, path.resent()), (false, 0));
        assert!(path.bytes < 5000 * 256 * 11 / 10, "{}", path.bytes);
    }

    #[test]
    fn a_page_that_says_nothing_is_sent_no_old_frames_and_holds_up_none() {
        let mut path = SoundPath::new(Duration::from_millis(20), 0);
        path.is_deaf = true;
        path.play(6000);
        assert!(path.left.iter().all(|(behind, _)| *behind < Duration::from_millis(70)));
        // WB-7: what it does not report has an end; a GONE may follow each, and nothing else.
        assert!((4000..=4096).contains(&path.seen.len()), "{}", path.seen.len());
        assert!(path.bytes < 6000 * 256 * 3 / 2, "{}", path.bytes);
    }

    #[test]
    fn what_waits_too_long_before_it_is_sent_is_not_sent() {
        // WB-24: the connection stood still for a second.
        let mut sender = PageSound::new(Duration::from_millis(40));
        sender.frame(START, START, &frame(0));
        sender.frame(START + FRAME, START + FRAME, &frame(1));
        let later = START + Duration::from_secs(1);
        sender.frame(later, later, &frame(50));
        let datagrams: Vec<_> = std::iter::from_fn(|| sender.poll(later)).collect();
        // Two are gone, and one is there.
        let kinds: Vec<_> = datagrams.iter().map(|datagram| datagram[1]).filter(|kind| *kind != 3).collect();
        assert_eq!(kinds, [2, 2, 1], "{datagrams:?}");
        // One that is old when it is there is not even queued.
        sender.frame(later + FRAME, START, &frame(51));
        assert_eq!(sender.poll(later + FRAME), None);
    }
}
