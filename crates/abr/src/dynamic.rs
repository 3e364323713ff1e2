use std::time::Duration;

use crate::{
    Bola, Interruption, Ladder, PlayerState, Reading, Rule, SegmentChoice, SegmentDownload, Throughput,
};

/// Throughput while the buffer is low, BOLA once it is high: the one is quick at the start and after seeks,
/// the other steady.
///
/// BOLA takes over at 12 s of buffer and keeps it until there are less than 6 s. The paper switches at one
/// level, 10 s, and only back when throughput asks for more; these are the levels of dash.js.
#[derive(Clone, Debug)]
pub struct Dynamic {
    throughput: Throughput,
    bola: Bola,
    by_buffer: bool,
}

impl Dynamic {
    /// For one session over `ladder`; `reading` is for its BOLA.
    pub fn new(ladder: Ladder, reading: Reading) -> Self {
        let bola = Bola::new(ladder.clone(), reading);
        Self { throughput: Throughput::new(ladder), bola, by_buffer: false }
    }

    fn level(&mut self, buffer: Duration) {
        self.by_buffer = buffer >= if self.by_buffer { DOWN } else { UP };
    }
}

impl Rule for Dynamic {
    fn arrived(&mut self, download: &SegmentDownload) {
        // What was left of the buffer may have been too little in the meantime.
        self.level(download.buffer);
        self.level(download.buffer.saturating_add(download.media));
        self.throughput.arrived(download);
        self.bola.arrived(download);
    }

    fn interrupted(&mut self, by: Interruption) {
        self.level(Duration::ZERO);
        self.throughput.interrupted(by);
        self.bola.interrupted(by);
    }

    fn choose(&mut self, state: &PlayerState) -> SegmentChoice {
        self.level(state.buffer);
        if self.by_buffer { self.bola.choose(state) } else { self.throughput.choose(state) }
    }
}

/// Where BOLA takes over, and where it gives way.
const UP: Duration = Duration::from_secs(12);
const DOWN: Duration = Duration::from_secs(6);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{download, state};

    fn ladder() -> Ladder {
        Ladder::new([1_000_000, 5_000_000, 10_000_000, 20_000_000]).expect("it ascends")
    }

    /// The throughput is that of the third; a buffer at its target is BOLA's fourth, which it starts for only
    /// below a segment.
    #[test]
    fn it_is_throughput_until_twelve_seconds_and_bola_down_to_six() {
        let mut rule = Dynamic::new(ladder(), Reading::default());
        let by_buffer = [11, 12, 8, 6, 5, 6, 11, 12, 40, 0].map(|seconds| {
            rule.choose(&state(seconds, 0));
            rule.by_buffer
        });
        assert_eq!(by_buffer, [false, true, true, true, false, false, false, true, true, false]);
    }

    #[test]
    fn a_dip_between_two_choices_counts() {
        let mut rule = Dynamic::new(ladder(), Reading::default());
        rule.choose(&state(13, 0));
        rule.arrived(&SegmentDownload { buffer: Duration::from_secs(5), ..download(0, 1000, 1000) });
        rule.choose(&state(7, 0));
        assert!(!rule.by_buffer);
        // A segment that fills the buffer by itself takes it back to BOLA.
        let long = Duration::from_secs(10);
        rule.arrived(&SegmentDownload {
            buffer: Duration::from_secs(5),
            media: long,
            ..download(0, 1000, 1000)
        });
        assert!(rule.by_buffer);
        rule.interrupted(Interruption::Seek);
        assert!(!rule.by_buffer);
    }

    #[test]
    fn each_half_decides_as_it_does_alone() {
        let (mut rule, mut throughput) =
            (Dynamic::new(ladder(), Reading::default()), Throughput::new(ladder()));
        for each in [&mut rule as &mut dyn Rule, &mut throughput] {
            each.arrived(&download(0, 1_500_000, 1000));
        }
        assert_eq!(rule.choose(&state(8, 0)), throughput.choose(&state(8, 0)));
        assert_eq!(rule.choose(&state(8, 0)).quality, 2);
        // BOLA begins by throughput, and lets the buffer decide from the next segment on: at 12 s it is at
        // its lowest.
        assert_eq!(rule.choose(&state(12, 2)).quality, 2);
        assert!(rule.bola.choose(&state(12, 2)).quality == 2);
    }
}
