use core::fmt;
use core::str::FromStr;

use quickset_base::Rng;

use crate::lane::{Lane, hit};
use crate::units::{self, UnitError};

/// Which packets a link loses, besides those that its queue drops.
///
/// Whether packet n is lost depends on the link's seed, its direction and n alone, never on sizes or
/// times: protocols that are compared under one seed meet the same losses (common random numbers).
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each with this probability, independently. Under one seed a higher probability loses a superset.
    Independent(f64),
    /// In bursts.
    GilbertElliott(GilbertElliott),
    /// Exactly these.
    Listed(Ordinals),
}

/// A chain of two states that advances once a packet and starts in the good one (Gilbert 1960,
/// Elliott 1963). In the long run the share `to_bad / (to_bad + to_good)` of the packets meets the bad state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GilbertElliott {
    /// Probability to turn bad, for each packet in the good state.
    pub to_bad: f64,
    /// Probability to turn good, for each packet in the bad state; 1 / `to_good` packets is the mean stay.
    pub to_good: f64,
    /// Probability of loss in the bad state.
    pub bad: f64,
    /// Probability of loss in the good state.
    pub good: f64,
    /// The bad state ends after this many packets at the latest.
    pub longest: Option<u32>,
}

impl GilbertElliott {
    /// The simple chain (Gilbert's with h = 0): everything is lost in the bad state, nothing in the good one.
    pub const fn simple(to_bad: f64, to_good: f64) -> Self {
        Self { to_bad, to_good, bad: 1.0, good: 0.0, longest: None }
    }
}

/// A set of packet ordinals, counted from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ordinals(Vec<(u64, u64)>); // Inclusive, rising, with gaps between.

impl Ordinals {
    /// True when `n` is among them; in logarithmic time.
    pub fn contains(&self, n: u64) -> bool {
        let after = self.0.partition_point(|&(first, _)| first <= n);
        after > 0 && n <= self.0[after - 1].1
    }

    fn from_ranges(mut ranges: Vec<(u64, u64)>) -> Self {
        ranges.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(end) if first <= end.1.saturating_add(1) => end.1 = end.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }
}

impl FromIterator<u64> for Ordinals {
    fn from_iter<I: IntoIterator<Item = u64>>(ordinals: I) -> Self {
        Self::from_ranges(ordinals.into_iter().map(|n| (n, n)).collect())
    }
}

/// Reads `0.5%`, `0.005`, `ge:p,r[,bad,good[,longest]]`, `list:3,7,10-20`, or `none`.
impl FromStr for Loss {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let plain = text.trim();
        if plain == "none" {
            Ok(Self::None)
        } else if let Some(parts) = plain.strip_prefix("ge:") {
            gilbert_elliott(text, parts).map(Self::GilbertElliott)
        } else if let Some(parts) = plain.strip_prefix("list:") {
            listed(text, parts).map(Self::Listed)
        } else {
            let p = units::share(plain).map_err(|_| loss_error(text, "it is no share either"))?;
            Ok(if p == 0.0 { Self::None } else { Self::Independent(p) })
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Independent(p) => f.write_str(&units::share_text(*p)),
            Self::GilbertElliott(ge) => {
                let [p, r, bad, good] = [ge.to_bad, ge.to_good, ge.bad, ge.good].map(units::share_text);
                write!(f, "ge:{p},{r},{bad},{good}")?;
                ge.longest.map_or(Ok(()), |longest| write!(f, ",{longest}"))
            }
            Self::Listed(Ordinals(ranges)) => {
                f.write_str("list:")?;
                for (i, (first, last)) in ranges.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    write!(f, "{comma}{first}")?;
                    if last > first {
                        write!(f, "-{last}")?;
                    }
                }
                Ok(())
            }
        }
    }
}

fn gilbert_elliott(text: &str, parts: &str) -> Result<GilbertElliott, UnitError> {
    let parts: Vec<&str> = parts.split(',').collect();
    if !matches!(parts.len(), 2 | 4 | 5) {
        return Err(loss_error(text, "`ge:` takes two, four or five numbers"));
    }
    let mut shares = [0.0, 0.0, 1.0, 0.0];
    for (share, part) in shares.iter_mut().zip(&parts) {
        *share = units::share(part).map_err(|_| loss_error(text, &format!("`{part}` is not a share")))?;
    }
    let longest = match parts.get(4) {
        None => None,
        Some(part) => match part.trim().parse::<u32>() {
            Ok(n) if n > 0 => Some(n),
            _ => return Err(loss_error(text, &format!("`{part}` is not a number of packets above 0"))),
        },
    };
    let [to_bad, to_good, bad, good] = shares;
    Ok(GilbertElliott { to_bad, to_good, bad, good, longest })
}

fn listed(text: &str, parts: &str) -> Result<Ordinals, UnitError> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last).then_some((first, last))
    };
    parts
        .split(',')
        .filter(|part| !part.trim().is_empty())
        .map(|part| {
            range(part).ok_or_else(|| loss_error(text, &format!("`{part}` is no ordinal and no range")))
        })
        .collect::<Result<Vec<_>, _>>()
        .map(Ordinals::from_ranges)
}

fn loss_error(text: &str, why: &str) -> UnitError {
    let accepted = "a share like 0.5% or 0.005, `ge:p,r,bad,good` with a share each, or `list:3,7,10-20`";
    UnitError::new(text, "a loss", why, accepted)
}

/// The random side of [`Loss`]: one decision for each place in the process.
#[derive(Clone, Debug)]
pub(crate) struct LossProcess {
    lane: Lane<2>,
    // Packets that the bad state has lasted; 0 in the good one.
    stay: u32,
}

impl LossProcess {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { lane: Lane::new(rng), stay: 0 }
    }

    /// Decides about packet `ordinal` at `place` in the process, which is the ordinal plus the packets
    /// of others that went by. Both rise from call to call.
    pub(crate) fn loses(&mut self, loss: &Loss, ordinal: u64, place: u64) -> bool {
        match loss {
            Loss::None => false,
            Loss::Independent(p) => hit(self.lane.at(place)[0], *p),
            Loss::Listed(ordinals) => ordinals.contains(ordinal),
            Loss::GilbertElliott(ge) => {
                // Others that go by at once, each a step of the chain.
                while self.lane.next() < place {
                    self.advance(ge);
                }
                self.advance(ge)
            }
        }
    }

    fn advance(&mut self, ge: &GilbertElliott) -> bool {
        let [turn, fall] = self.lane.step();
        let was_bad = self.stay > 0;
        let turns = hit(turn, if was_bad { ge.to_good } else { ge.to_bad });
        let worn_out = ge.longest.is_some_and(|longest| self.stay >= longest);
        let bad = was_bad != turns && !(was_bad && worn_out);
        self.stay = if bad { self.stay.saturating_add(1) } else { 0 };
        hit(fall, if bad { ge.bad } else { ge.good })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in ["none", "0.5%", "ge:0.5%,25%,95%,0.5%", "ge:1%,33%,100%,0%,5", "list:3,7,10-20", "list:"]
        {
            assert_eq!(text.parse::<Loss>().unwrap().to_string(), text);
        }
        assert_eq!("0.005".parse::<Loss>(), Ok(Loss::Independent(0.005)));
        assert_eq!("0".parse::<Loss>(), Ok(Loss::None));
        assert_eq!("ge:1%,0.5".parse::<Loss>(), Ok(Loss::GilbertElliott(GilbertElliott::simple(0.01, 0.5))));
        assert_eq!("list:5,4,3,9".parse::<Loss>().unwrap().to_string(), "list:3-5,9");
    }

    #[test]
    fn slips_are_explained() {
        let says = |text: &str| text.parse::<Loss>().unwrap_err().to_string();
        assert!(says("lots").starts_with("`lots` is not a loss: "));
        assert!(says("lots").contains("0.5%"));
        assert!(says("ge:1%").contains("two, four or five"));
        assert!(says("ge:1%,x,1,0").contains("`x` is not a share"));
        assert!(says("ge:1%,2%,1,0,0").contains("above 0"));
        assert!(says("list:7-3").contains("`7-3` is no ordinal"));
        assert!(says("120%").contains("not a loss"));
    }

    #[test]
    fn lists_lose_exactly_what_they_list() {
        let loss: Loss = "list:3,7,10-20".parse().unwrap();
        let mut process = LossProcess::new(Rng::new(1));
        let lost: Vec<u64> = (0..30).filter(|&n| process.loses(&loss, n, n)).collect();
        assert_eq!(lost, [3, 7].into_iter().chain(10..=20).collect::<Vec<_>>());
    }

    #[test]
    fn a_bad_state_ends_at_its_longest() {
        let ge = GilbertElliott { longest: Some(5), ..GilbertElliott::simple(0.1, 0.0) };
        let mut process = LossProcess::new(Rng::new(1));
        let mut run = 0;
        let mut runs = Vec::new();
        for n in 0..10_000 {
            if process.loses(&Loss::GilbertElliott(ge), n, n) {
                run += 1;
            } else if run > 0 {
                runs.push(run);
                run = 0;
            }
        }
        assert!(runs.len() > 500, "{}", runs.len());
        assert!(runs.iter().all(|&run| run == 5), "it never turns good of itself: {runs:?}");
    }
}
