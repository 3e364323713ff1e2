//! A video over a link that slows down, once by each rule: `cargo run -p quickset-abr --example session`.
//!
//! Printed are the mean bitrate of what was played, for how long it stood still, and how often the quality
//! changed.

use std::time::Duration;

use quickset_abr::{Interruption, Ladder, LadderError, PlayerState, RuleName, SegmentDownload};
use quickset_base::number::{Float as _, Unsigned as _};

const SEGMENT: Duration = Duration::from_secs(4);
const SEGMENTS: u32 = 75;

fn main() -> Result<(), LadderError> {
    let ladder = Ladder::new([1_000_000, 5_000_000, 10_000_000, 20_000_000, 30_000_000])?;
    println!("{:<12}{:>10}{:>10}{:>10}", "rule", "Mbit/s", "stalled", "switches");
    for algorithm in RuleName::ALL {
        let mut rule = algorithm.start(ladder.clone(), 1);
        let mut state = PlayerState { segment: SEGMENT, ..PlayerState::default() };
        let (mut played, mut stalled, mut switches) = (0.0, Duration::ZERO, 0);
        for number in 0..SEGMENTS {
            // The buffer drains while time passes; without media it stands still.
            let mut pass = |state: &mut PlayerState, time: Duration| {
                state.now += time;
                let missing = time.saturating_sub(state.buffer);
                state.buffer = state.buffer.saturating_sub(time);
                if number > 0 {
                    stalled += missing;
                }
                !missing.is_zero()
            };
            let enough = state.buffer.saturating_sub(state.buffer_target);
            pass(&mut state, enough);
            let mut choice = rule.choose(&state);
            while !choice.wait.is_zero() {
                pass(&mut state, choice.wait);
                choice = rule.choose(&state);
            }
            switches += u32::from(choice.quality != state.current);
            state.current = choice.quality;

            let bits = ladder.bitrate(choice.quality).approx() * SEGMENT.as_secs_f64();
            let requested = state.now;
            let first_byte = requested + Duration::from_millis(40);
            let took = Duration::from_millis(40) + Duration::from_secs_f64(bits / link(state.now));
            if pass(&mut state, took) {
                rule.interrupted(Interruption::Stall);
            }
            let (quality, bytes, buffer) = (choice.quality, (bits / 8.0).whole(), state.buffer);
            let finished = state.now;
            rule.arrived(&SegmentDownload {
                quality,
                bytes,
                media: SEGMENT,
                buffer,
                requested,
                first_byte,
                finished,
            });
            state.buffer += SEGMENT;
            played += bits;
        }
        let mean = played / (SEGMENT * SEGMENTS).as_secs_f64() / 1e6;
        println!("{algorithm:<12}{mean:>10.2}{:>8.2} s{switches:>10}", stalled.as_secs_f64());
    }
    Ok(())
}

/// 25 Mbit/s and 12 in turns, each for 20 s; in the third minute 1.5.
fn link(now: Duration) -> f64 {
    match now.as_secs() {
        120..180 => 1.5e6,
        s if s % 40 < 20 => 25e6,
        _ => 12e6,
    }
}
