//! A player in virtual time, in whole milliseconds, that writes down all that a rule is told and asked.

use std::time::Duration;

use quickset_abr::{Interruption, Ladder, PlayerState, Rule, RuleName, SegmentChoice, SegmentDownload};
use quickset_base::Rng;
use serde_json::{Value, json};

use crate::trace::Trace;

/// One session: what is played, over which network.
pub(crate) struct Session<'a> {
    pub(crate) algorithm: RuleName,
    pub(crate) ladder: &'a Ladder,
    /// How long a segment plays, in ms.
    pub(crate) segment: u64,
    pub(crate) live: bool,
    pub(crate) trace: &'a Trace,
    /// From a request to its first byte, in ms.
    pub(crate) delay: u64,
    pub(crate) segments: u64,
    /// A seek every so many segments.
    pub(crate) seek_every: Option<u64>,
    /// Sometimes speed is not 1 and questions are asked twice.
    pub(crate) restless: bool,
}

/// A question, and the rule's answer.
pub(crate) struct Decision {
    pub(crate) state: PlayerState,
    pub(crate) choice: SegmentChoice,
}

struct Player<'a> {
    session: &'a Session<'a>,
    rule: Box<dyn Rule>,
    rng: Rng,
    events: Vec<Value>,
    decisions: Vec<Decision>,
    /// In ms: the clock, what is in the buffer, and how far behind the live edge.
    now: u64,
    buffer: u64,
    behind: u64,
    playing: bool,
    current: usize,
}

impl Session<'_> {
    /// Plays it by `rule`: what happened, for the oracle, and each decision.
    pub(crate) fn play(&self, rule: Box<dyn Rule>, seed: u64) -> (Vec<Value>, Vec<Decision>) {
        let begin = json!({ "session": {
            "rule": self.algorithm.name(), "bitrates": self.ladder.bitrates(),
            "segment": self.segment, "live": self.live,
        } });
        let mut player = Player {
            session: self,
            rule,
            rng: Rng::new(seed),
            events: vec![begin],
            decisions: Vec::new(),
            now: 0,
            buffer: 0,
            // Three segments and what a viewer missed of one.
            behind: 7 * self.segment / 2,
            playing: false,
            // What dash.js begins with: a megabit.
            current: self.ladder.within(1000.0),
        };
        for number in 1..=self.segments {
            if self.seek_every.is_some_and(|every| number % every == 0) {
                player.seek();
            }
            player.segment();
        }
        (player.events, player.decisions)
    }
}

impl Player<'_> {
    fn segment(&mut self) {
        // A player with enough waits; the one of a live stream waits for the segment to be made, too.
        self.pass(self.buffer.saturating_sub(self.enough()));
        if self.session.live {
            let there = self.behind.saturating_sub(self.buffer);
            self.pass(self.session.segment.saturating_sub(there));
        }
        if self.session.restless && self.rng.unit() < 0.06 {
            self.ask();
            self.pass(150);
        }
        let choice = loop {
            let choice = self.ask();
            if choice.wait.is_zero() {
                break choice;
            }
            self.pass(choice.wait.as_micros().div_ceil(1000) as u64);
        };
        self.fetch(choice.quality);
    }

    fn fetch(&mut self, quality: usize) {
        let media = self.session.segment;
        let bits = self.session.ladder.bitrate(quality) as f64 * media as f64 / 1000.0;
        let bytes = (bits / 8.0 * (0.7 + 0.6 * self.rng.unit())) as u64 + 200;
        let requested = self.now;
        let first_byte = requested + self.session.delay + self.rng.below(20);
        let finished = self.session.trace.finish(first_byte, bytes);
        self.pass(finished - requested);
        let ms = Duration::from_millis;
        self.rule.arrived(&SegmentDownload {
            quality,
            bytes,
            media: ms(media),
            buffer: ms(self.buffer),
            requested: ms(requested),
            first_byte: ms(first_byte),
            finished: ms(finished),
        });
        self.events.push(json!({ "arrived": {
            "quality": quality, "bytes": bytes, "media": media, "buffer": self.buffer,
            "requested": requested, "first": first_byte, "finished": finished,
        } }));
        self.buffer += media;
        self.playing = true;
    }

    fn ask(&mut self) -> SegmentChoice {
        let rate = if self.session.restless && self.rng.unit() < 0.1 { 1.05 } else { 1.0 };
        let latency = self.session.live.then_some(self.behind);
        let state = PlayerState {
            now: Duration::from_millis(self.now),
            buffer: Duration::from_millis(self.buffer),
            buffer_target: Duration::from_millis(self.target()),
            current: self.current,
            segment: Duration::from_millis(self.session.segment),
            latency: latency.map(Duration::from_millis),
            rate,
        };
        let choice = self.rule.choose(&state);
        self.events.push(json!({ "ask": {
            "now": self.now, "buffer": self.buffer, "target": self.target(),
            "current": self.current, "latency": latency.unwrap_or(0), "rate": rate,
        } }));
        self.decisions.push(Decision { state, choice });
        self.current = choice.quality;
        choice
    }

    /// What is to be in the buffer, in ms: 18 s, for a live stream no more than it is behind. A restless
    /// player has more of the top quality, so that the target moves.
    fn target(&self) -> u64 {
        if self.session.live {
            (self.session.segment * 3).min(18_000)
        } else if self.session.restless {
            self.enough()
        } else {
            18_000
        }
    }

    /// With how much the player fetches nothing, in ms: as dash.js, 30 s of the top quality, and else 18.
    fn enough(&self) -> u64 {
        if self.current == self.session.ladder.top() { 30_000 } else { 18_000 }
    }

    fn pass(&mut self, ms: u64) {
        self.now += ms;
        if !self.playing {
            return;
        }
        let stalled = ms.saturating_sub(self.buffer);
        self.buffer = self.buffer.saturating_sub(ms);
        if stalled > 0 {
            self.playing = false;
            self.behind += stalled;
            self.interrupted(Interruption::Stall, "stall");
        }
    }

    fn seek(&mut self) {
        (self.buffer, self.playing) = (0, false);
        self.interrupted(Interruption::Seek, "seek");
    }

    fn interrupted(&mut self, by: Interruption, name: &str) {
        self.rule.interrupted(by);
        self.events.push(json!({ name: {} }));
    }
}
