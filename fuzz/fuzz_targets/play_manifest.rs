//! Manifests of DASH: read or refused; segments are in order and within their period; and a player over them
//! gets on.
//!
//! The first byte of the input chooses the rule, and how fast the link is. The index of a file is the
//! manifest's own text.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use quickset_abr::RuleName;
use quickset_play::{Action, Elsewhere, Player, PlayerConfig, Presentation, Url};

fuzz_target!(|input: &[u8]| {
    let Some((&[choice], text)) = input.split_first_chunk() else { return };
    let Ok(manifest) = std::str::from_utf8(text) else { return };
    let url = Url::parse("https://example.org/a/b.mpd").expect("an address");
    let Ok(presentation) = Presentation::parse(manifest, &url, Elsewhere::Refused) else { return };
    for period in &presentation.periods {
        for representation in period.tracks.iter().flat_map(|track| &track.representations) {
            let mut representation = quickset_play::Representation::clone(representation);
            let _ = representation.read_index(text);
            let count = representation.len();
            for range in [0..count.min(20), count.saturating_sub(3)..count] {
                let mut last = Duration::ZERO;
                for n in range {
                    // Numbers may make an address too long.
                    let Ok(segment) = representation.segment(n) else { continue };
                    let segment = segment.expect("it is below the count");
                    assert!(segment.start >= last, "segments go back");
                    assert!(segment.duration <= period.duration, "a segment beyond its period");
                    assert!(segment.resource.url.same_origin(&url), "another server");
                    assert!(segment.resource.url.target().len() <= Url::MAX + 1, "a long address");
                    last = segment.start;
                }
            }
            assert_eq!(representation.segment(count), Ok(None));
        }
    }
    play(&presentation, choice, text);
});

fn play(presentation: &Presentation, choice: u8, index: &[u8]) {
    let algorithm = RuleName::ALL[usize::from(choice) % RuleName::ALL.len()];
    let Ok(mut player) = Player::new(presentation, PlayerConfig { algorithm, ..PlayerConfig::default() })
    else {
        return;
    };
    let took = Duration::from_millis(u64::from(choice) * 20);
    let mut now = Duration::ZERO;
    for _ in 0..300 {
        match player.poll(now) {
            Action::Fetch { read, .. } => {
                now += took;
                player.arrived(now, 1_000_000, if read { index } else { &[] });
            }
            Action::Sleep(until) => {
                let until = until.expect("nothing is fetched");
                assert!(until > now, "it sleeps until {until:?} at {now:?}");
                now = until;
            }
            Action::Done | Action::Failed(_) => break,
        }
    }
    let report = player.report();
    assert!(report.played + report.stalled <= now, "{report:?} by {now:?}");
}
