use std::collections::BTreeMap;

use quickset_base::number::Unsigned as _;
use quickset_quic::Protection;
use quickset_sim::{GilbertElliott, LossModel};

use crate::play::{MessageOrder, MessageStream, PlayFlow, RunSeen, Setting, Work};

/// How many blocks chance alone would leave undecoded: the number of blocks times the chance that more of a
/// block are lost than it has repair symbols. Of independent losses it is the binomial tail, of bursts the
/// tail of the chain over as many packets in a row.
///
/// `None` where a group of messages is not a block of known size: other codes, other orders, packets that
/// carry several messages or parts of one.
pub(super) fn failed_blocks(setting: &Setting, seen: &RunSeen) -> Option<f64> {
    expected(setting, seen, fails)
}

/// How many blocks chance would leave undecoded at most if each were one of RaptorQ, with as many repair
/// symbols as those of Reed-Solomon have.
///
/// `None` as for [`failed_blocks`], and for other codes: these are not blocks of so many repair symbols.
pub(super) fn failed_blocks_of_raptorq(setting: &Setting, seen: &RunSeen) -> Option<f64> {
    expected(setting, seen, raptorq_fails)
}

/// The chance that a block of so many cannot be decoded.
type BlockFailure = fn(&Protection, u64, LossChain) -> Option<f64>;

/// The sum over all flows.
fn expected(setting: &Setting, seen: &RunSeen, fails: BlockFailure) -> Option<f64> {
    let channel = LossChain::of(&setting.down.loss)?;
    let mut expected = None;
    for (flow, seen) in setting.flows.iter().zip(&seen.flows) {
        if flow.protection == Protection::None {
            continue;
        }
        let Work::Messages(messages) = &flow.work else { return None };
        let chance = mean_chance(flow, messages, channel, fails)?;
        *expected.get_or_insert(0.0) += chance * seen.server.fec.blocks.approx();
    }
    expected
}

/// The mean over groups of the chance that one fails.
fn mean_chance(
    flow: &PlayFlow,
    messages: &MessageStream,
    channel: LossChain,
    fails: BlockFailure,
) -> Option<f64> {
    let is_packet = |bytes: u32| bytes <= u32::from(flow.transport.mtu).saturating_sub(HEADERS);
    let is_alone = |bytes: u32| 2 * bytes > u32::from(flow.transport.mtu);
    let mut pieces = messages.groups.iter().flat_map(|group| &group.messages);
    if messages.order != MessageOrder::Partial
        || !pieces.all(|piece| is_packet(piece.bytes) && is_alone(piece.bytes))
    {
        return None;
    }
    let mut sizes = BTreeMap::new();
    for k in messages.groups.iter().map(|group| group.messages.len() as u64) {
        *sizes.entry(k).or_insert(0_u64) += 1;
    }
    let mut sum = 0.0;
    for (k, groups) in sizes {
        sum += fails(&flow.protection, k, channel)? * groups.approx();
    }
    Some(sum / messages.groups.len().max(1).approx())
}

/// The chance that a block of `k` cannot be decoded.
fn fails(protection: &Protection, k: u64, channel: LossChain) -> Option<f64> {
    let (parts, repairs) = match *protection {
        Protection::ReedSolomon { n0, k0, stride } => {
            let parts = u64::from(stride).max(k.div_ceil(MOST)).clamp(1, k.max(1));
            let share = repairs(n0, k0, k);
            (parts, if share == 0 { 0 } else { share.max(parts) })
        }
        Protection::Xor(depth) => {
            let parts = u64::from(depth).min(k).max(1);
            (parts, parts)
        }
        _ => return None,
    };
    if parts > 1 && !channel.is_independent() {
        return None;
    }
    // Each part by itself, as even as whole numbers allow.
    let of_part = |all: u64, part: u64| (all + parts - 1 - part) / parts;
    let all_decode = (0..parts).map(|part| {
        let (k, r) = (of_part(k, part), of_part(repairs, part));
        1.0 - channel.more_than(r, k + r)
    });
    Some(1.0 - all_decode.product::<f64>())
}

/// The chance that a block of `k` cannot be decoded at most, were it one of RaptorQ.
fn raptorq_fails(protection: &Protection, k: u64, channel: LossChain) -> Option<f64> {
    let Protection::ReedSolomon { n0, k0, .. } = *protection else { return None };
    let r = repairs(n0, k0, k);
    let lost = channel.losses(r, k + r);
    // Where nothing is lost all sources are there.
    let undecoded = |(lost, chance): (u64, f64)| if lost == 0 { 0.0 } else { chance * raptorq(r - lost) };
    Some((0..).zip(&lost).map(|(lost, chance)| undecoded((lost, *chance))).sum::<f64>() + rest(&lost))
}

/// In how many of all cases at most RaptorQ does not decode a block, of so many more symbols than it has
/// sources.
fn raptorq(more: u64) -> f64 {
    // RFC 6330 §5.8: 1 in 100, 10,000 and 1,000,000, of none, one and two more; of three and more than two it
    // says nothing.
    100_f64.powi(-1 - more.min(2) as i32)
}

/// Repair symbols of a block of `k`.
fn repairs(n0: u32, k0: u32, k: u64) -> u64 {
    (k * u64::from(n0 - k0)).div_ceil(u64::from(k0))
}

/// The chain by which packets are lost, of which independent losses are a case.
#[derive(Clone, Copy, Debug)]
struct LossChain {
    to_bad: f64,
    to_good: f64,
    /// Loss in the good state, and in the bad one.
    loss: [f64; 2],
}

impl LossChain {
    fn of(loss: &LossModel) -> Option<Self> {
        match loss {
            LossModel::None => Some(Self { to_bad: 0.0, to_good: 1.0, loss: [0.0; 2] }),
            LossModel::Independent(share) => Some(Self { to_bad: 0.0, to_good: 1.0, loss: [*share; 2] }),
            LossModel::GilbertElliott(GilbertElliott { to_bad, to_good, bad, good, longest: None }) => {
                Some(Self { to_bad: *to_bad, to_good: *to_good, loss: [*good, *bad] })
            }
            _ => None,
        }
    }

    fn is_independent(self) -> bool {
        self.to_bad == 0.0
    }

    /// The chance that more than `r` of `n` packets in a row are lost, somewhere in the long run.
    fn more_than(self, r: u64, n: u64) -> f64 {
        rest(&self.losses(r, n))
    }

    /// The chances that none, one, … and `r` of `n` packets in a row are lost, somewhere in the long run.
    fn losses(self, r: u64, n: u64) -> Vec<f64> {
        let r = r.saturated::<usize>();
        let in_bad = if self.is_independent() { 0.0 } else { self.to_bad / (self.to_bad + self.to_good) };
        // By losses so far, up to r: in the good state, and in the bad one.
        let mut states = [vec![0.0; r + 1], vec![0.0; r + 1]];
        (states[0][0], states[1][0]) = (1.0 - in_bad, in_bad);
        for _ in 0..n {
            for (state, loss) in states.iter_mut().zip(self.loss) {
                for lost in (0..=r).rev() {
                    let before = if lost > 0 { state[lost - 1] } else { 0.0 };
                    state[lost] = state[lost] * (1.0 - loss) + before * loss;
                }
            }
            let [good, bad] = &mut states;
            for (good, bad) in good.iter_mut().zip(bad) {
                let (stay, turn) = (*good * (1.0 - self.to_bad), *good * self.to_bad);
                (*good, *bad) = (stay + *bad * self.to_good, turn + *bad * (1.0 - self.to_good));
            }
        }
        let [good, bad] = states;
        good.into_iter().zip(bad).map(|(good, bad)| good + bad).collect()
    }
}

/// What these chances leave.
fn rest(chances: &[f64]) -> f64 {
    (1.0 - chances.iter().sum::<f64>()).max(0.0)
}

/// Symbols of a part of a Reed-Solomon block at most (`spec/fec.md`).
const MOST: u64 = 128;
/// More than the headers of packet, symbol and message take.
const HEADERS: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// The textbook's sum.
    fn binomial_tail(r: u64, n: u64, p: f64) -> f64 {
        let choose = |n: u64, k: u64| (1..=k).map(|i| (n - k + i) as f64 / i as f64).product::<f64>();
        (r + 1..=n).map(|k| choose(n, k) * p.powi(k as i32) * (1.0 - p).powi((n - k) as i32)).sum()
    }

    #[test]
    fn independent_losses_give_the_binomial_tail() {
        for (share, n0) in [(0.005, 105), (0.01, 105), (0.01, 110), (0.05, 103)] {
            let channel = LossChain::of(&LossModel::Independent(share)).unwrap();
            let block = Protection::ReedSolomon { n0, k0: 100, stride: 1 };
            let got = fails(&block, 100, channel).unwrap();
            let expected = binomial_tail(u64::from(n0 - 100), u64::from(n0), share);
            assert!((got / expected - 1.0).abs() < 1e-6, "{share}, {n0}: {got}, {expected}");
        }
        // Published for k = 100 at 0.5 %: five repair symbols leave 1.6e-5.
        let five = binomial_tail(5, 105, 0.005);
        assert!((five / 1.6e-5 - 1.0).abs() < 0.05, "{five}");
    }

    #[test]
    fn parts_fail_by_themselves() {
        let channel = LossChain::of(&LossModel::Independent(0.02)).unwrap();
        let part = binomial_tail(1, 26, 0.02);
        let expected = 1.0 - (1.0 - part).powi(4);
        for code in [Protection::ReedSolomon { n0: 104, k0: 100, stride: 4 }, Protection::Xor(4)] {
            let got = fails(&code, 100, channel).unwrap();
            assert!((got - expected).abs() < 1e-9, "{code}: {got}, {expected}");
        }
    }

    /// Whole bursts and whole gaps, counted in thought: three packets, one repair symbol.
    #[test]
    fn bursts_give_the_tail_of_their_chain() {
        let (p, r) = (0.1, 0.4);
        let channel = LossChain::of(&LossModel::GilbertElliott(GilbertElliott::simple(p, r))).unwrap();
        let (bad, good) = (p / (p + r), r / (p + r));
        let two_or_more = bad * (1.0 - r) * (1.0 - r)      // bad bad bad
            + bad * (1.0 - r) * r                          // bad bad good
            + bad * r * p                                  // bad good bad
            + good * p * (1.0 - r); //                        good bad bad
        assert!((channel.more_than(1, 3) - two_or_more).abs() < 1e-12);
        assert!(channel.more_than(3, 3).abs() < 1e-12);
    }

    /// Summed by hand: with one repair symbol for two sources, of which losses of one in ten leave P(1) = 3 ·
    /// 0.1 · 0.81 where one is lost, and P(2 or 3) = 0.028 where no code helps.
    #[test]
    fn raptorq_fails_a_little_more_often_than_an_ideal_code() {
        let code = Protection::ReedSolomon { n0: 3, k0: 2, stride: 1 };
        let channel = LossChain::of(&LossModel::Independent(0.1)).unwrap();
        let got = raptorq_fails(&code, 2, channel).unwrap();
        assert!((got - (0.028 + 0.243 * 0.01)).abs() < 1e-12, "{got}");
        // Cut into parts, Reed-Solomon is worse than one block of either.
        let cut = Protection::ReedSolomon { n0: 110, k0: 100, stride: 4 };
        let channel = LossChain::of(&LossModel::Independent(0.02)).unwrap();
        let [ideal, cut_fails] = [
            fails(&Protection::ReedSolomon { n0: 110, k0: 100, stride: 1 }, 100, channel).unwrap(),
            fails(&cut, 100, channel).unwrap(),
        ];
        let raptorq = raptorq_fails(&cut, 100, channel).unwrap();
        assert!(ideal < raptorq && raptorq < cut_fails, "{ideal}, {raptorq}, {cut_fails}");
        assert_eq!(raptorq_fails(&Protection::Xor(4), 100, channel), None);
    }
}
