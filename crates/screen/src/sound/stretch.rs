use quickset_base::number::{Float as _, Unsigned as _};

/// Sound of two channels, one sample of each after the other, that plays in `samples` of each: lines between
/// the samples that there are. As long as it is to be, it is itself.
///
/// It is for changes of a percent ([`SoundPiece::Packet`](super::SoundPiece::Packet)); changes of much more
/// would be heard.
pub fn stretched(sound: &[i16], samples: u16) -> Vec<i16> {
    let frames: Vec<[i16; 2]> = sound.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
    let (Some(&last), Some(step)) = (frames.last(), step(frames.len(), samples)) else {
        return sound.to_vec();
    };
    let out = (0..samples).flat_map(|n| {
        let at = f64::from(n) * step;
        let before: usize = at.whole();
        let share = at - before.approx();
        let [near, far] = [before, before + 1].map(|n| frames.get(n).copied().unwrap_or(last));
        [0, 1].map(|channel| {
            let (near, far) = (f64::from(near[channel]), f64::from(far[channel]));
            let between = (near + (far - near) * share).round().integer();
            // It is between two that fit.
            i16::try_from(between).unwrap_or_default()
        })
    });
    out.collect()
}

/// From one sample that comes out to the next, in samples that go in; `None`: nothing is to change.
fn step(there: usize, samples: u16) -> Option<f64> {
    let changes = samples > 0 && there != usize::from(samples);
    changes.then(|| there.approx() / f64::from(samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_long_as_it_is_it_stays_and_else_it_is_drawn_out() {
        let sound: Vec<i16> = (0..1920).map(|n| (n * 7 % 1000) as i16).collect();
        assert_eq!(stretched(&sound, 960), sound);
        assert_eq!(stretched(&[], 960), [0_i16; 0]);
        for samples in [951, 969] {
            assert_eq!(stretched(&sound, samples).len(), 2 * usize::from(samples));
        }
        // A line stays a line, and the channels stay apart.
        let line: Vec<i16> = (0..960).flat_map(|n| [n * 10, -n * 10]).collect();
        for (n, pair) in stretched(&line, 969).chunks(2).enumerate().take(960) {
            let exact = n as f64 * 960.0 / 969.0 * 10.0;
            assert!(
                (f64::from(pair[0]) - exact).abs() <= 0.5 && pair[1] == -pair[0],
                "{n}: {pair:?} {exact}"
            );
        }
        let loud = stretched(&[i16::MAX, i16::MIN].repeat(960), 965);
        assert!(loud.chunks(2).all(|pair| pair == [i16::MAX, i16::MIN]));
    }
}
