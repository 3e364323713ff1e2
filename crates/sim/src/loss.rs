use core::fmt;
use core::str::FromStr;

use quickset_base::{Rng, Time};

use crate::lane::{RandomLane, below, hit};
use crate::ordinals::Ordinals;
use crate::recorded::LossTrace;
use crate::timed::{Stays, TimedGilbertElliott};
use crate::units::{self, UnitError};

/// Which packets a link loses, besides those that its queue drops.
///
/// Whether packet n is lost depends on the link's seed, its direction and n alone, never on sizes or
/// times: protocols that are compared under one seed meet the same losses (common random numbers). The
/// exception is the chain in time, whose state depends on seed, direction and time alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LossModel {
    /// None.
    #[default]
    None,
    /// Each with this probability, independently. Under one seed a higher probability loses a superset.
    Independent(f64),
    /// In bursts.
    GilbertElliott(GilbertElliott),
    /// In bursts of the medium: a chain that advances with time.
    Timed(TimedGilbertElliott),
    /// In bursts at regular distances.
    Burst(Burst),
    /// Exactly these.
    Listed(Ordinals),
    /// As it was recorded.
    Recorded(LossTrace),
}

/// Of each `every` packets the last `length` are lost, or as many that lie up to `jitter` packets earlier,
/// each number as likely. As text `burst:every,length` or `burst:every,length,jitter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// The packets of a block; above zero.
    pub every: u64,
    /// How many of them are lost.
    pub length: u64,
    /// By how much a burst may lie before the end of its block; no more than `every - length`.
    pub jitter: u64,
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

/// Reads `0.5%`, `0.005`, `ge:p,r[,bad,good[,longest]]`, `gilbert:p,r,h` (Gilbert's, where h is the
/// probability to arrive in the bad state), `get:good,bad,lost_bad,lost_good`, `burst:every,length[,jitter]`,
/// `list:3,7,10-20`, `recorded:PATH`, or `none`.
impl FromStr for LossModel {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let plain = text.trim();
        match plain.split_once(':') {
            None if plain == "none" => Ok(Self::None),
            None => {
                let p = units::share(plain).map_err(|_| loss_error(text, "it is no share either"))?;
                units::lone_share(plain)?;
                Ok(if p == 0.0 { Self::None } else { Self::Independent(p) })
            }
            Some(("ge", parts)) => gilbert_elliott(text, parts).map(Self::GilbertElliott),
            Some(("gilbert", parts)) => gilbert(text, parts).map(Self::GilbertElliott),
            Some(("get", parts)) => timed(text, parts).map(Self::Timed),
            Some(("burst", parts)) => burst(text, parts).map(Self::Burst),
            Some(("list", parts)) => listed(text, parts).map(Self::Listed),
            Some(("recorded", path)) => LossTrace::read(path).map(Self::Recorded),
            Some(_) => Err(loss_error(text, "its kind is not known")),
        }
    }
}

impl fmt::Display for LossModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Independent(p) => f.write_str(&units::share_text(*p)),
            Self::GilbertElliott(ge) => {
                let [p, r, bad, good] = [ge.to_bad, ge.to_good, ge.bad, ge.good].map(units::share_text);
                write!(f, "ge:{p},{r},{bad},{good}")?;
                ge.longest.map_or(Ok(()), |longest| write!(f, ",{longest}"))
            }
            Self::Timed(TimedGilbertElliott { good, bad, bad_loss, good_loss }) => {
                let [good, bad] = [*good, *bad].map(units::duration_text);
                let [bad_loss, good_loss] = [*bad_loss, *good_loss].map(units::share_text);
                write!(f, "get:{good},{bad},{bad_loss},{good_loss}")
            }
            Self::Burst(Burst { every, length, jitter: 0 }) => write!(f, "burst:{every},{length}"),
            Self::Burst(Burst { every, length, jitter }) => write!(f, "burst:{every},{length},{jitter}"),
            Self::Recorded(trace) => write!(f, "recorded:{}", trace.path()),
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

fn gilbert(text: &str, parts: &str) -> Result<GilbertElliott, UnitError> {
    let parts: Vec<f64> = parts
        .split(',')
        .map(units::share)
        .collect::<Result<_, _>>()
        .map_err(|_| loss_error(text, "p, r and h are shares"))?;
    let [to_bad, to_good, h] = parts[..] else {
        return Err(loss_error(text, "`gilbert:` takes three numbers"));
    };
    Ok(GilbertElliott { to_bad, to_good, bad: 1.0 - h, good: 0.0, longest: None })
}

fn timed(text: &str, parts: &str) -> Result<TimedGilbertElliott, UnitError> {
    let [good, bad, bad_loss, good_loss] = parts.split(',').collect::<Vec<_>>()[..] else {
        return Err(loss_error(text, "`get:` takes two durations and two shares"));
    };
    let [good, bad] = [units::duration(good)?, units::duration(bad)?];
    if good.is_zero() || bad.is_zero() {
        return Err(loss_error(text, "a mean stay is zero"));
    }
    Ok(TimedGilbertElliott {
        good,
        bad,
        bad_loss: units::share(bad_loss)?,
        good_loss: units::share(good_loss)?,
    })
}

fn burst(text: &str, parts: &str) -> Result<Burst, UnitError> {
    let parts: Vec<u64> = parts
        .split(',')
        .map(|part| part.trim().parse())
        .collect::<Result<_, _>>()
        .map_err(|_| loss_error(text, "it has something else than whole numbers of packets"))?;
    let (every, length, jitter) = match parts[..] {
        [every, length] => (every, length, 0),
        [every, length, jitter] => (every, length, jitter),
        _ => return Err(loss_error(text, "`burst:` takes two or three numbers")),
    };
    if every == 0 || length.saturating_add(jitter) > every {
        return Err(loss_error(
            text,
            "the burst with its jitter is longer than the block of packets it lies in",
        ));
    }
    Ok(Burst { every, length, jitter })
}

fn listed(text: &str, parts: &str) -> Result<Ordinals, UnitError> {
    parts
        .split(',')
        .filter(|part| !part.trim().is_empty())
        .map(|part| {
            Ordinals::range(part)
                .ok_or_else(|| loss_error(text, &format!("`{part}` is no ordinal and no range")))
        })
        .collect::<Result<Vec<_>, _>>()
        .map(Ordinals::from_ranges)
}

fn loss_error(text: &str, why: &str) -> UnitError {
    let accepted = "a share like 0.5% or 0.005, `ge:p,r,bad,good` or `gilbert:p,r,h` with a share each, \
                    `get:1s,50ms,bad,good`, `burst:100,5`, `list:3,7,10-20` or `recorded:PATH`";
    UnitError::new(text, "a loss", why, accepted)
}

/// What is decided about a packet when it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketDecision {
    Kept,
    Lost,
    /// The state of the medium when it leaves decides, with these random bits.
    Later(u64),
}

impl From<bool> for PacketDecision {
    fn from(lost: bool) -> Self {
        if lost { Self::Lost } else { Self::Kept }
    }
}

/// The random side of [`LossModel`]: one decision for each place in the process.
#[derive(Clone, Debug)]
pub(crate) struct LossProcess {
    lane: RandomLane<2>,
    // Packets that the bad state has lasted; 0 in the good one.
    stay: u32,
    bursts: RandomLane<1>,
    // The block that the last packet was in, and the random number of its burst.
    block: Option<(u64, u64)>,
    stays: Stays,
}

impl LossProcess {
    /// `rng` decides by packet, `more` about regular bursts and by time.
    pub(crate) fn new(rng: Rng, mut more: Rng) -> Self {
        let (bursts, stays) = (RandomLane::new(more.fork()), Stays::new(more.fork()));
        Self { lane: RandomLane::new(rng), stay: 0, bursts, block: None, stays }
    }

    /// Decides about packet `ordinal` at `place` in the process, which is the ordinal plus the packets
    /// of others that went by. The ordinal rises from call to call.
    pub(crate) fn chance(&mut self, loss: &LossModel, ordinal: u64, place: u64) -> PacketDecision {
        // After a change to fewer others, whom it has met it has met.
        let place = place.max(self.lane.next());
        match loss {
            LossModel::None => PacketDecision::Kept,
            LossModel::Independent(p) => hit(self.lane.at(place)[0], *p).into(),
            LossModel::Timed(_) => PacketDecision::Later(self.lane.at(place)[0]),
            LossModel::Burst(burst) => self.bursts(burst, ordinal).into(),
            LossModel::Listed(ordinals) => ordinals.contains(ordinal).into(),
            LossModel::Recorded(trace) => trace.loses(ordinal).into(),
            LossModel::GilbertElliott(ge) => {
                // Others that go by at once, each a step of the chain.
                while self.lane.next() < place {
                    self.advance(ge);
                }
                self.advance(ge).into()
            }
        }
    }

    /// Decides about a packet that leaves at `time`.
    pub(crate) fn loses(&mut self, loss: &LossModel, chance: PacketDecision, time: Time) -> bool {
        match (chance, loss) {
            (PacketDecision::Lost, _) => true,
            (PacketDecision::Later(bits), LossModel::Timed(chain)) if time < Time::MAX => {
                self.stays.loses(chain, time, bits)
            }
            (PacketDecision::Kept | PacketDecision::Later(_), _) => false,
        }
    }

    fn bursts(&mut self, burst: &Burst, ordinal: u64) -> bool {
        let every = burst.every.max(1);
        let (block, within) = (ordinal / every, ordinal % every);
        let bits = match self.block {
            Some((last, bits)) if last == block => bits,
            // After a change to longer blocks, their numbers begin again with those that are left.
            _ => self.bursts.at(block.max(self.bursts.next()))[0],
        };
        self.block = Some((block, bits));
        let end = every - below(bits, burst.jitter.saturating_add(1)).min(every);
        within < end && within.saturating_add(burst.length) >= end
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
        for text in [
            "none",
            "0.5%",
            "ge:0.5%,25%,95%,0.5%",
            "ge:1%,33%,100%,0%,5",
            "get:1s,50ms,95%,0.5%",
            "burst:100,5",
            "burst:100,5,20",
            "list:3,7,10-20",
            "list:",
        ] {
            assert_eq!(text.parse::<LossModel>().unwrap().to_string(), text);
        }
        assert_eq!("0.005".parse::<LossModel>(), Ok(LossModel::Independent(0.005)));
        assert_eq!("0".parse::<LossModel>(), Ok(LossModel::None));
        assert_eq!(
            "ge:1%,0.5".parse::<LossModel>(),
            Ok(LossModel::GilbertElliott(GilbertElliott::simple(0.01, 0.5)))
        );
        assert_eq!("gilbert:1%,25%,0.5".parse::<LossModel>().unwrap().to_string(), "ge:1%,25%,50%,0%");
        assert_eq!("list:5,4,3,9".parse::<LossModel>().unwrap().to_string(), "list:3-5,9");
    }

    #[test]
    fn slips_are_explained() {
        let says = |text: &str| text.parse::<LossModel>().unwrap_err().to_string();
        assert!(says("lots").starts_with("`lots` is not a loss: "));
        assert!(says("lots").contains("0.5%"));
        assert!(says("ge:1%").contains("two, four or five"));
        assert!(says("ge:1%,x,1,0").contains("`x` is not a share"));
        assert!(says("ge:1%,2%,1,0,0").contains("above 0"));
        assert!(says("list:7-3").contains("`7-3` is no ordinal"));
        assert!(says("120%").contains("not a loss"));
        assert!(says("gilbert:1%,2%").contains("three numbers"));
        assert!(says("gilbert:1%,2%,x").contains("are shares"));
        assert!(says("get:1s,0,1,0").contains("stay is zero"));
        assert!(says("get:1s,50ms").contains("two durations"));
        assert!(says("burst:10").contains("two or three"));
        assert!(says("burst:10,5,6").contains("longer than the block"));
        assert!(says("burst:0,0").contains("longer than the block"));
        assert!(says("bursts:3,1").contains("kind is not known"));
        assert!(says("recorded:/nowhere").contains("cannot be opened"));
    }

    #[test]
    fn lists_lose_exactly_what_they_list() {
        let loss: LossModel = "list:3,7,10-20".parse().unwrap();
        let mut process = LossProcess::new(Rng::new(1), Rng::new(2));
        let lost: Vec<u64> =
            (0..30).filter(|&n| process.chance(&loss, n, n) == PacketDecision::Lost).collect();
        assert_eq!(lost, [3, 7].into_iter().chain(10..=20).collect::<Vec<_>>());
    }

    #[test]
    fn regular_bursts_lie_at_the_end_of_their_blocks_or_a_little_before() {
        let lost = |text: &str| -> Vec<u64> {
            let loss: LossModel = text.parse().unwrap();
            let mut process = LossProcess::new(Rng::new(1), Rng::new(2));
            (0..10_000).filter(|&n| process.chance(&loss, n, n) == PacketDecision::Lost).collect()
        };
        assert!(lost("burst:10,3").into_iter().eq((0..10_000).filter(|n| n % 10 >= 7)));
        assert!(lost("burst:10,0").is_empty());
        assert_eq!(lost("burst:4,4").len(), 10_000);
        // Blocks of ten with three in a row, which begin at 2 to 7, 167 times each (standard deviation 12).
        let moved = lost("burst:10,3,5");
        let mut begins = [0u32; 10];
        for (i, burst) in moved.chunks_exact(3).enumerate() {
            assert_eq!((burst[1], burst[2]), (burst[0] + 1, burst[0] + 2));
            assert_eq!(burst[0] / 10, i as u64);
            begins[(burst[0] % 10) as usize] += 1;
        }
        assert_eq!(moved.len(), 3000);
        assert_eq!(begins.iter().sum::<u32>(), begins[2..=7].iter().sum());
        assert!(begins[2..=7].iter().all(|n| n.abs_diff(167) < 60), "{begins:?}");
    }

    #[test]
    fn a_bad_state_ends_at_its_longest() {
        let ge = GilbertElliott { longest: Some(5), ..GilbertElliott::simple(0.1, 0.0) };
        let mut process = LossProcess::new(Rng::new(1), Rng::new(2));
        let mut run = 0;
        let mut runs = Vec::new();
        for n in 0..10_000 {
            if process.chance(&LossModel::GilbertElliott(ge), n, n) == PacketDecision::Lost {
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
