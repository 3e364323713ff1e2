//! The codes that are timed: what a repair symbol costs, what it takes to recover what was lost, and how many
//! more repair symbols than losses that takes.

use quickset_base::Rng;
use quickset_base::number::Unsigned as _;
use quickset_fec::online::{Decoder, DecoderLimits};
use quickset_fec::{Equation, Symbols, reed_solomon};
use raptorq::{
    EncodingPacket, ObjectTransmissionInformation, SourceBlockDecoder, SourceBlockEncoder,
    SourceBlockEncodingPlan,
};

use super::median_ms;
use crate::results::Timings;

/// A random linear code over one window of all symbols; every other one of the first is lost.
pub(super) fn window(symbols: &[Vec<u8>], losses: usize, rng: &mut Rng) -> Option<Timings> {
    let sent = CodeWindow::of(symbols)?;
    let mut out = Vec::new();
    let equation = Equation::rlc(0, symbols.len() as u64, 7).ok()?;
    let encode_ms = median_ms(|| (), |()| sent.symbols.combine(&equation, &mut out).is_ok())?;
    let repairs = sent.repairs(losses, 0)?;
    let lost = early(symbols.len(), losses);
    let received = || sent.received(&lost);
    let decode_ms = median_ms(received, |decoder| {
        decoder.is_some_and(|decoder| sent.needs(decoder, &repairs, losses).is_some())
    })?;
    let few = shortened(symbols);
    let sent = CodeWindow::of(&few)?;
    let excess = mean_excess(symbols.len(), losses, rng, |lost, trial| {
        sent.needs(sent.received(lost)?, &sent.repairs(losses, trial)?, losses)
    })?;
    Some(Timings {
        encode_ms: Some(encode_ms),
        decode_ms: Some(decode_ms),
        excess: Some(excess),
        ..Timings::default()
    })
}

/// What a random linear code goes over.
struct CodeWindow<'a> {
    sources: &'a [Vec<u8>],
    symbols: Symbols,
    size: usize,
}

impl<'a> CodeWindow<'a> {
    fn of(sources: &'a [Vec<u8>]) -> Option<Self> {
        let size = sources.first()?.len();
        let mut symbols = Symbols::new(sources.len(), size);
        for symbol in sources {
            symbols.push(symbol).ok()?;
        }
        Some(Self { sources, symbols, size })
    }

    /// One for each loss, and some more: one in 255 sets of as many as are lost does not do.
    fn repairs(&self, losses: usize, trial: u64) -> Option<Vec<(Equation, Vec<u8>)>> {
        let first = trial * (losses as u64 + SPARE);
        (first..first + losses as u64 + SPARE)
            .map(|seed| {
                let equation = Equation::rlc(0, self.sources.len() as u64, seed).ok()?;
                let mut data = Vec::new();
                self.symbols.combine(&equation, &mut data).ok()?;
                Some((equation, data))
            })
            .collect()
    }

    /// A decoder that has all but these.
    fn received(&self, lost: &[usize]) -> Option<Decoder> {
        // A decoder stores repair symbols up to an eighth of its window.
        let window = self.sources.len().max(1024);
        let mut decoder =
            Decoder::new(DecoderLimits { window, symbol_size: self.size, max_unknowns: lost.len().max(1) });
        let mut lost = lost.iter().peekable();
        for (sid, symbol) in self.sources.iter().enumerate() {
            if lost.next_if_eq(&&sid).is_none() {
                decoder.source(sid as u64, symbol).ok()?;
            }
        }
        Some(decoder)
    }

    /// How many repair symbols bring all that is missing back, as it was; `None` where all of them do not.
    fn needs(&self, mut decoder: Decoder, repairs: &[(Equation, Vec<u8>)], losses: usize) -> Option<usize> {
        let mut back = 0;
        for (n, (equation, data)) in repairs.iter().enumerate() {
            decoder.repair(equation, data).ok()?;
            while n + 1 >= losses && decoder.has_work() {
                decoder.work(usize::MAX);
            }
            while let Some((sid, data)) = decoder.next_recovered() {
                // Zeros at the end are not kept.
                let is_right =
                    self.sources.get(sid.saturated::<usize>()).is_some_and(|symbol| symbol.starts_with(data));
                back += usize::from(is_right);
            }
            if back == losses {
                return Some(n + 1);
            }
        }
        None
    }
}

/// RaptorQ (RFC 6330) over one block of all symbols, of which the same are lost. What depends on their number
/// alone was made beforehand, as a sender does that has many blocks of one size.
pub(super) fn fountain(symbols: &[Vec<u8>], losses: usize, rng: &mut Rng) -> Option<Timings> {
    let plan = SourceBlockEncodingPlan::generate(symbols.len().saturated::<u16>());
    let block = Fountain::of(symbols)?;
    let of_all = median_ms(
        || (),
        |()| block.encoder(&plan).repair_packets(0, losses.saturated::<u32>()).len() == losses,
    )?;
    let encoder = block.encoder(&plan);
    let lost = early(symbols.len(), losses);
    let decode_ms = median_ms(
        || {
            (
                all_but(&encoder, &lost),
                encoder.repair_packets(0, losses.saturated::<u32>() + SPARE.saturated::<u32>()),
            )
        },
        |(received, repairs)| block.needs(received, repairs, losses).is_some(),
    )?;
    let few = shortened(symbols);
    let block = Fountain::of(&few)?;
    let encoder = block.encoder(&plan);
    let excess = mean_excess(symbols.len(), losses, rng, |lost, trial| {
        let many = losses.saturated::<u32>() + SPARE.saturated::<u32>();
        let repairs = encoder.repair_packets(trial.saturated::<u32>() * many, many);
        block.needs(all_but(&encoder, lost), repairs, losses)
    })?;
    Some(Timings {
        encode_ms: Some(of_all / losses.approx()),
        decode_ms: Some(decode_ms),
        excess: Some(excess),
        ..Timings::default()
    })
}

/// A block of RaptorQ.
struct Fountain {
    config: ObjectTransmissionInformation,
    data: Vec<u8>,
}

impl Fountain {
    fn of(symbols: &[Vec<u8>]) -> Option<Self> {
        let size = symbols.first()?.len().saturated::<u16>();
        let data = symbols.concat();
        Some(Self { config: ObjectTransmissionInformation::new(data.len() as u64, size, 1, 1, 1), data })
    }

    fn encoder(&self, plan: &SourceBlockEncodingPlan) -> SourceBlockEncoder {
        SourceBlockEncoder::with_encoding_plan2(0, &self.config, &self.data, plan)
    }

    /// How many repair symbols bring the block back, as it was; `None` where all of them do not.
    fn needs(
        &self,
        received: Vec<EncodingPacket>,
        repairs: Vec<EncodingPacket>,
        losses: usize,
    ) -> Option<usize> {
        let mut decoder = SourceBlockDecoder::new2(0, &self.config, self.data.len() as u64);
        let mut repairs = repairs.into_iter();
        let mut used = losses;
        let mut block = decoder.decode(received.into_iter().chain(repairs.by_ref().take(losses)));
        while block.is_none() {
            block = decoder.decode([repairs.next()?]);
            used += 1;
        }
        (block.as_ref() == Some(&self.data)).then_some(used)
    }
}

/// The source packets but for these.
fn all_but(encoder: &SourceBlockEncoder, lost: &[usize]) -> Vec<EncodingPacket> {
    let mut lost = lost.iter().peekable();
    let all = encoder.source_packets().into_iter().enumerate();
    all.filter(|(n, _)| lost.next_if_eq(&n).is_none()).map(|(_, packet)| packet).collect()
}

/// Reed-Solomon over blocks of 100, five repair symbols each; losses are shared out evenly, five in a block
/// at most.
pub(super) fn blocks(symbols: &[Vec<u8>], losses: usize) -> Option<Timings> {
    let size = symbols.first()?.len();
    let blocks: Vec<Vec<&[u8]>> =
        symbols.chunks(BLOCK).map(|block| block.iter().map(Vec::as_slice).collect()).collect();
    let of_block =
        |n: usize| ((losses + blocks.len() - 1 - n) / blocks.len()).min(REPAIRS).min(blocks[n].len());
    let encode = |block: &[&[u8]]| -> Option<Vec<Vec<u8>>> {
        let mut repairs = vec![vec![0; size]; REPAIRS];
        let mut outs: Vec<&mut [u8]> = repairs.iter_mut().map(Vec::as_mut_slice).collect();
        reed_solomon::encode(block, &mut outs).ok()?;
        Some(repairs)
    };
    let of_five = median_ms(|| (), |()| encode(&blocks[0]).is_some())?;
    let repairs: Vec<Vec<Vec<u8>>> = blocks.iter().map(|block| encode(block)).collect::<Option<_>>()?;
    let decode_ms = median_ms(
        || (),
        |()| {
            blocks.iter().zip(&repairs).enumerate().all(|(n, (block, repairs))| {
                let lost = of_block(n);
                let received: Vec<Option<&[u8]>> =
                    block.iter().enumerate().map(|(j, symbol)| (j >= lost).then_some(*symbol)).collect();
                let needed = repairs.iter().take(lost).map(Vec::as_slice);
                let numbered: Vec<(u8, &[u8])> = (0..).zip(needed).collect();
                let mut back = vec![vec![0; size]; lost];
                let mut outs: Vec<&mut [u8]> = back.iter_mut().map(Vec::as_mut_slice).collect();
                reed_solomon::decode(&received, &numbered, &mut outs).is_ok()
                    && back.iter().zip(block).all(|(a, b)| a == b)
            })
        },
    )?;
    Some(Timings {
        encode_ms: Some(of_five / REPAIRS.approx()),
        decode_ms: Some(decode_ms),
        // Just now it had no more than were lost.
        excess: Some(0.0),
        ..Timings::default()
    })
}

/// Every other symbol from the first on; where more than half are lost, one after the other.
fn early(count: usize, losses: usize) -> Vec<usize> {
    let step = if 2 * losses <= count { 2 } else { 1 };
    (0..losses).map(|n| n * step).collect()
}

/// As many symbols, of a few bytes each: which of them bring back others does not go by their length.
fn shortened(symbols: &[Vec<u8>]) -> Vec<Vec<u8>> {
    symbols.iter().map(|symbol| symbol[..symbol.len().min(FEW)].to_vec()).collect()
}

/// How many repair symbols more than losses `needs` takes, on average over random losses; `needs` is told
/// which are lost, and which time it is, so that no repair symbols come twice.
fn mean_excess(
    count: usize,
    losses: usize,
    rng: &mut Rng,
    mut needs: impl FnMut(&[usize], u64) -> Option<usize>,
) -> Option<f64> {
    let mut excess = 0;
    for trial in 0..TRIALS {
        let mut left: Vec<usize> = (0..count).collect();
        let mut lost: Vec<usize> = (0..losses)
            .map(|_| left.swap_remove(rng.below(left.len() as u64).saturated::<usize>()))
            .collect();
        lost.sort_unstable();
        excess += needs(&lost, trial)? - losses;
    }
    Some(excess.approx() / TRIALS.approx())
}

/// 105/100.
const BLOCK: usize = 100;
const REPAIRS: usize = 5;
/// Repair symbols beyond the losses.
const SPARE: u64 = 4;
/// Random losses that an excess is the mean of.
const TRIALS: u64 = 200;
/// Bytes of symbols where only their number counts.
const FEW: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6330 §5.8: of K', K' + 1 and K' + 2 symbols that have come, at most one in 100, in 10,000 and in
    /// 1,000,000 blocks are not decoded. That some are not, as from 256 values of a coefficient, is what
    /// tells the code from an ideal one.
    #[test]
    fn raptorq_fails_as_rarely_as_its_specification_asks() {
        let (count, losses, trials) = (101, 5, 4_000);
        let symbols: Vec<Vec<u8>> = (0..count).map(|n| vec![n as u8; FEW]).collect();
        let block = Fountain::of(&symbols).unwrap();
        let encoder = block.encoder(&SourceBlockEncodingPlan::generate(count as u16));
        let (mut rng, mut more) = (Rng::new(1), [0_u32; 1 + SPARE as usize]);
        for round in 0..trials / TRIALS {
            let mean = mean_excess(count, losses, &mut rng, |lost, trial| {
                let many = losses as u32 + SPARE as u32;
                let repairs = encoder.repair_packets((round * TRIALS + trial) as u32 * many, many);
                let needs = block.needs(all_but(&encoder, lost), repairs, losses)?;
                more[needs - losses] += 1;
                Some(needs)
            });
            assert!(mean.is_some(), "not decoded");
        }
        let beyond = |n: usize| f64::from(more[n + 1..].iter().sum::<u32>()) / trials as f64;
        assert!((0.001..=0.01).contains(&beyond(0)), "{more:?}");
        // At one in 10,000 more than three of so many would come by chance in one of 1,200 runs.
        assert!(beyond(1) <= 3.0 / trials as f64, "{more:?}");
        assert_eq!(more[3..].iter().sum::<u32>(), 0, "{more:?}");
    }

    /// Of random coefficients out of 256, one square matrix in 255 is singular; Reed-Solomon's never is.
    #[test]
    fn a_window_needs_little_more_than_was_lost() {
        let symbols: Vec<Vec<u8>> = (0..100_u8).map(|n| vec![n; FEW]).collect();
        let (sent, mut rng) = (CodeWindow::of(&symbols).unwrap(), Rng::new(1));
        let rounds = 0..20;
        let mean = rounds.clone().map(|round| {
            let of_round = mean_excess(symbols.len(), 5, &mut rng, |lost, trial| {
                sent.needs(sent.received(lost)?, &sent.repairs(5, round * TRIALS + trial)?, 5)
            });
            of_round.unwrap() / rounds.end as f64
        });
        let mean: f64 = mean.sum();
        assert!((0.002..0.008).contains(&mean), "{mean}");
        assert_eq!(blocks(&symbols, 5).unwrap().excess, Some(0.0));
    }
}
