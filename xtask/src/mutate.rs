//! Inputs made of others, for targets of the fuzzer that are played without it.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

/// Makes `folder` anew, with so many inputs made of those in `corpus`: the same each time.
pub(crate) fn fill(folder: &Path, corpus: &Path, count: u64) -> Result<()> {
    let mut paths: Vec<_> = fs::read_dir(corpus)
        .with_context(|| format!("{} cannot be read", corpus.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    // A folder lists them in any order.
    paths.sort();
    let inputs: Vec<Vec<u8>> = paths.iter().map(fs::read).collect::<Result<_, _>>()?;
    ensure!(!inputs.is_empty(), "{} is empty", corpus.display());
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let mut random = Random(1);
    for n in 0..count {
        fs::write(folder.join(n.to_string()), mutated(&inputs, &mut random))?;
    }
    Ok(())
}

/// One of the inputs with some changes, each of which is one that a parser may overlook.
fn mutated(inputs: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = inputs[random.below(inputs.len())].clone();
    for _ in 0..=random.below(4) {
        let at = random.below(input.len() + 1);
        let end = at + random.below(input.len() - at + 1).min(64);
        match random.below(6) {
            0 => input[at..end].iter_mut().take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
            1 => input[at..end].iter_mut().take(1).for_each(|byte| *byte = EDGES[random.below(EDGES.len())]),
            2 => drop(input.drain(at..end)),
            3 => {
                let again = input[at..end].to_vec();
                drop(input.splice(at..at, again));
            }
            4 => input.truncate(at),
            _ => {
                let other = &inputs[random.below(inputs.len())];
                input.truncate(at);
                input.extend_from_slice(&other[random.below(other.len() + 1)..]);
            }
        }
    }
    input
}

/// Bytes at which variable-length integers (RFC 9000 §16), signs and lengths change what they are.
const EDGES: [u8; 9] = [0, 1, 0x3f, 0x40, 0x7f, 0x80, 0xbf, 0xc0, 0xff];

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    /// A number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % end as u64).expect("it is below `end`")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn few_are_as_they_were_and_few_are_twice() {
        // Longer than most that are cut are left.
        let inputs = [1, 2].map(|seed| (0..300).map(|n| (seed * n % 251) as u8).collect::<Vec<u8>>());
        let mut random = Random(7);
        let made: Vec<Vec<u8>> = (0..1000).map(|_| mutated(&inputs, &mut random)).collect();
        let unchanged = made.iter().filter(|input| inputs.contains(input)).count();
        assert!(unchanged < 100, "{unchanged}");
        assert!(made.iter().collect::<HashSet<_>>().len() > 700);
        assert!(made.iter().any(|input| input.len() > 300), "some are longer than any was");
    }

    #[test]
    fn of_nothing_something_is_made() {
        let inputs = [Vec::new(), vec![1]];
        let mut random = Random(7);
        assert!((0..100).any(|_| mutated(&inputs, &mut random).len() > 1));
    }

    /// The generator is the one of its paper: the first numbers of seed 1234567, as Vigna's page of it has
    /// them.
    #[test]
    fn the_generator_is_the_published_one() {
        let mut random = Random(1_234_567);
        let drawn = [(); 2].map(|()| random.below(1 << 62) as u64);
        let published = [6_457_827_717_110_365_317_u64, 3_203_168_211_198_807_973];
        assert_eq!(drawn, published.map(|number| number % (1 << 62)));
    }
}
