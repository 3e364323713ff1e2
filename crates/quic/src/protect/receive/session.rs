use bytes::{Bytes, BytesMut};
use quickset_fec::online::{self, DecoderLimits, RepairOutcome, SourceOutcome};
use quickset_fec::{BadEquation, Equation, ldpc};
use quickset_wire::frame::RepairHeader;
use quickset_wire::{Scheme, TransportErrorCode as Code};

use super::Dispatch;
use super::blocks::{BlockShape, Blocks};
use super::fresh::Fresh;
use super::news::RecoveryNews;
use crate::error::TransportError;

/// One coding context of the peer.
#[derive(Debug)]
pub(super) struct CodingSession {
    pub(super) scheme: Scheme,
    pub(super) news: RecoveryNews,
    decoder: SessionDecoder,
    fresh: Fresh,
    blocks: Blocks,
    /// The packet that the last symbol came in.
    packet: u64,
    /// Bytes of the longest repair symbol.
    longest: usize,
    /// What the decoder's work was before that which is still owed.
    paid: online::Cost,
    /// Steps that repair symbols are still owed for, beside those of the decoder.
    looks: u64,
}

/// What was computed, as an [`Allowance`](super::allowance::MemoryAllowance) has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Price {
    /// Row operations of LDPC, and what takes as long.
    pub(super) steps: u64,
    /// Bytes multiplied and added.
    pub(super) bytes: u64,
}

/// Two kinds with the same verbs.
#[derive(Debug)]
enum SessionDecoder {
    Linear(Box<online::Decoder>),
    Staircase(Box<ldpc::Decoder>),
}

impl CodingSession {
    pub(super) fn new(scheme: Scheme, window: u64, symbol_size: usize) -> Self {
        let window = usize::try_from(window).unwrap_or(usize::MAX);
        // FEC-56, FEC-57: a decoder keeps to the window and an eighth of it, and takes memory as symbols
        // come.
        let limits = DecoderLimits { window, symbol_size, max_unknowns: MAX_UNKNOWNS };
        let decoder = match scheme {
            Scheme::Ldpc => SessionDecoder::Staircase(Box::new(ldpc::Decoder::new(limits))),
            Scheme::Xor | Scheme::Grid | Scheme::ReedSolomon | Scheme::Rlc => {
                SessionDecoder::Linear(Box::new(online::Decoder::new(limits)))
            }
        };
        Self {
            scheme,
            news: RecoveryNews::default(),
            decoder,
            fresh: Fresh::new(symbol_size),
            blocks: Blocks::default(),
            packet: 0,
            longest: 0,
            paid: online::Cost::default(),
            looks: 0,
        }
    }

    /// What was computed and is not paid for: it is owed once.
    pub(super) fn owes(&mut self) -> Price {
        let cost = match &self.decoder {
            SessionDecoder::Linear(decoder) => decoder.cost(),
            SessionDecoder::Staircase(decoder) => decoder.cost(),
        };
        let before = std::mem::replace(&mut self.paid, cost);
        let each = if self.scheme == Scheme::Ldpc { 1 } else { ROW };
        let operations = cost.row_operations - before.row_operations;
        let looks = std::mem::take(&mut self.looks);
        Price { steps: looks + each * operations, bytes: cost.bytes - before.bytes }
    }

    /// A symbol, in this packet with this payload.
    #[inline]
    pub(super) fn source(
        &mut self,
        sid: u64,
        data: &[u8],
        packet: u64,
        payload: &Bytes,
    ) -> Result<Dispatch, TransportError> {
        // FEC-15.
        if self.packet == packet {
            return Err(error("two symbols of a session in a packet"));
        }
        self.packet = packet;
        if self.fresh.takes(sid, data.len(), packet) {
            self.fresh.push(payload.slice_ref(data), packet);
            return Ok(Dispatch::All);
        }
        Ok(match self.take(sid, data)? {
            // FEC-20.
            SourceOutcome::New => Dispatch::All,
            SourceOutcome::Below => Dispatch::WithoutDatagrams,
            SourceOutcome::Duplicate | SourceOutcome::Recovered => Dispatch::No,
        })
    }

    /// A symbol that came before it was known to be one. True when that is news.
    pub(super) fn unmarked(&mut self, sid: u64, data: &[u8]) -> Result<bool, TransportError> {
        Ok(self.take(sid, data)? == SourceOutcome::New)
    }

    fn take(&mut self, sid: u64, data: &[u8]) -> Result<SourceOutcome, TransportError> {
        self.flush();
        let outcome = match &mut self.decoder {
            SessionDecoder::Linear(decoder) => decoder.source(sid, data),
            SessionDecoder::Staircase(decoder) => decoder.source(sid, data),
        };
        self.moved();
        outcome.map_err(fault)
    }

    /// A repair symbol. `window` is the largest that was ever offered; one that is not affordable is dropped,
    /// once it is known not to be an error (FEC-60).
    pub(super) fn repair(
        &mut self,
        header: &RepairHeader,
        data: &[u8],
        window: u64,
        is_affordable: bool,
    ) -> Result<RepairOutcome, TransportError> {
        let RepairHeader { first, count, parameter, index, .. } = *header;
        let last = self.scheme.last_sid(first, count, parameter);
        let last = last.ok_or_else(|| error("a repair of no symbols, or beyond the last"))?;
        // FEC-48: what was within any window of ours is no error.
        if last - first >= window {
            return Err(error("a repair over more symbols than were ever offered"));
        }
        let outcome = match &mut self.decoder {
            SessionDecoder::Linear(decoder) => {
                let equation = equation(self.scheme, header).map_err(|bad| error_of(bad.to_string()))?;
                // FEC-58: all that it covers, though it may be the sum of fewer.
                if last - first >= decoder.window() {
                    return Ok(RepairOutcome::Old);
                }
                if !is_affordable {
                    return Ok(RepairOutcome::TooMany);
                }
                if parameter == 1 && self.fresh.are(first, count, data.len()) {
                    decoder.pass(first, self.fresh.whole()).map(|()| RepairOutcome::Redundant)
                } else {
                    give(decoder, &mut self.fresh);
                    decoder.seen(last);
                    if first < decoder.low() {
                        return Ok(RepairOutcome::Old);
                    }
                    let outcome = decoder.repair(&equation, data);
                    if outcome == Ok(RepairOutcome::TooMany) {
                        // FEC-59: what is missing below was not repaired when it could be, and is sent again,
                        // or of no use to anybody. New losses need its places.
                        decoder.give_up_below(first);
                        decoder.repair(&equation, data)
                    } else {
                        outcome
                    }
                }
            }
            SessionDecoder::Staircase(decoder) => {
                if parameter > window {
                    return Err(error("more repair symbols than a window has symbols"));
                }
                // FEC-32, of which the rest is checked by the decoder.
                let block =
                    ldpc::Block::new(first, count, parameter).map_err(|bad| error_of(bad.to_string()))?;
                // A matrix is made for a block, and eliminated with each of its repair symbols, however
                // short.
                if !is_affordable {
                    return Ok(RepairOutcome::TooMany);
                }
                decoder.repair(&block, index, data)
            }
        };
        self.looks += LOOK + (last - first) / LOOKS;
        let outcome = outcome.map_err(fault)?;
        self.longest = self.longest.max(data.len());
        self.moved();
        if outcome != RepairOutcome::Old {
            self.note(header)?;
        }
        self.spend(header);
        Ok(outcome)
    }

    /// FEC-25: blocks share no symbol, so that those of one that is complete are not needed any more; the
    /// decoder of LDPC knows its blocks itself.
    fn spend(&mut self, header: &RepairHeader) {
        let SessionDecoder::Linear(decoder) = &mut self.decoder else { return };
        let block = match self.scheme {
            // Most often complete when its first repair symbol comes.
            Scheme::ReedSolomon => equation(self.scheme, header).ok(),
            // One that may grow does not any more when another begins where it ends.
            Scheme::Xor | Scheme::Grid => self
                .blocks
                .ending_at(header.first)
                .and_then(|ended| Equation::xor(ended.first, ended.count, 1, 0).ok()),
            Scheme::Ldpc | Scheme::Rlc => None,
        };
        let Some(block) = block else { return };
        let is_spent = decoder.spend(&block);
        if is_spent && self.scheme == Scheme::ReedSolomon && !self.fresh.is_on() {
            // Nothing is missing, and the next symbol begins a block.
            let next = decoder.following().filter(|next| *next == header.first + header.count);
            if let Some(next) = next.filter(|_| header.parameter == 1 && self.news.is_empty()) {
                self.fresh.begin(next);
            }
        }
    }

    /// The decoder takes what it was spared.
    #[inline]
    pub(super) fn flush(&mut self) {
        if let SessionDecoder::Linear(decoder) = &mut self.decoder {
            give(decoder, &mut self.fresh);
        }
    }

    /// Whether it contradicts an earlier one (FEC-25, FEC-33); blocks of LDPC the decoder knows itself.
    fn note(&mut self, header: &RepairHeader) -> Result<(), TransportError> {
        let RepairHeader { first, count, parameter, index, .. } = *header;
        let shape = |stride| BlockShape { first, count, stride, parameter };
        self.blocks.move_to(self.low());
        let stands = match self.scheme {
            Scheme::Xor | Scheme::Grid => self.blocks.claim(shape(1), true),
            Scheme::ReedSolomon => self.blocks.claim(shape(parameter), false),
            Scheme::Ldpc => true,
            Scheme::Rlc => {
                // FEC-38: the encoder goes on, so it knows or does not care.
                self.news.forget_below(first);
                self.blocks.seed(index)
            }
        };
        if stands { Ok(()) } else { Err(error("repairs that contradict each other")) }
    }

    pub(super) fn has_work(&self) -> bool {
        match &self.decoder {
            SessionDecoder::Linear(decoder) => decoder.has_work(),
            SessionDecoder::Staircase(decoder) => decoder.has_work(),
        }
    }

    /// Multiplies and adds about `budget` bytes; returns how many it was.
    pub(super) fn work(&mut self, budget: usize) -> usize {
        match &mut self.decoder {
            SessionDecoder::Linear(decoder) => decoder.work(budget),
            SessionDecoder::Staircase(decoder) => decoder.work(budget),
        }
    }

    /// The next symbol that was recovered (FEC-36). How many zeros it ends with is not coded: it has as many
    /// as the longest repair symbol, and those too many are PADDING.
    pub(super) fn next_recovered(&mut self) -> Option<(u64, Bytes)> {
        let (sid, data) = match &mut self.decoder {
            SessionDecoder::Linear(decoder) => decoder.next_recovered(),
            SessionDecoder::Staircase(decoder) => decoder.next_recovered(),
        }?;
        let mut symbol = BytesMut::with_capacity(self.longest.max(data.len()));
        symbol.extend_from_slice(data);
        symbol.resize(self.longest.max(data.len()), 0);
        self.news.recovered(sid);
        Some((sid, symbol.freeze()))
    }

    pub(super) fn set_window(&mut self, window: u64) {
        self.flush();
        let window = usize::try_from(window.max(1)).unwrap_or(usize::MAX);
        match &mut self.decoder {
            SessionDecoder::Linear(decoder) => decoder.set_window(window),
            SessionDecoder::Staircase(decoder) => decoder.set_window(window),
        }
        self.moved();
    }

    /// Bytes of symbols and repair symbols.
    pub(super) fn memory(&self) -> usize {
        let fresh = self.fresh.memory();
        match &self.decoder {
            SessionDecoder::Linear(decoder) => decoder.memory() + fresh,
            SessionDecoder::Staircase(decoder) => decoder.memory() + fresh,
        }
    }

    /// What was computed so far.
    #[cfg(test)]
    pub(super) fn cost(&self) -> online::Cost {
        match &self.decoder {
            SessionDecoder::Linear(decoder) => decoder.cost(),
            SessionDecoder::Staircase(decoder) => decoder.cost(),
        }
    }

    /// The window may have moved.
    fn moved(&mut self) {
        self.news.forget_below(self.low());
    }

    /// The least SID in the window.
    fn low(&self) -> u64 {
        match &self.decoder {
            SessionDecoder::Linear(decoder) => decoder.low(),
            SessionDecoder::Staircase(decoder) => decoder.low(),
        }
    }
}

/// The decoder takes what it was spared, and what is to come.
#[inline]
fn give(decoder: &mut online::Decoder, fresh: &mut Fresh) {
    for (sid, symbol) in fresh.end() {
        let taken = decoder.source(sid, &symbol);
        debug_assert_eq!(taken, Ok(SourceOutcome::New), "it follows all others, and is short enough");
    }
}

/// FEC-29, FEC-30, FEC-31, FEC-33: the constructors check all numbers of a scheme.
fn equation(scheme: Scheme, header: &RepairHeader) -> Result<Equation, BadEquation> {
    let RepairHeader { first, count, parameter, index, .. } = *header;
    match scheme {
        Scheme::Xor => Equation::xor(first, count, parameter, index),
        Scheme::Grid => Equation::xor2d(first, count, parameter, index),
        Scheme::ReedSolomon => Equation::reed_solomon(first, count, parameter, index),
        Scheme::Rlc if parameter == 0 => Equation::rlc(first, count, index),
        Scheme::Rlc | Scheme::Ldpc => Err(BadEquation::Index),
    }
}

pub(super) fn error(why: &'static str) -> TransportError {
    TransportError::new(Code::FEC_ERROR, why)
}

fn error_of(why: String) -> TransportError {
    TransportError::new(Code::FEC_ERROR, why)
}

fn fault(fault: online::SenderFault) -> TransportError {
    error_of(fault.to_string())
}

/// FEC-59: missing symbols of a session that repair symbols may name. Elimination costs their square for each
/// repair symbol.
const MAX_UNKNOWNS: usize = 64;

/// Steps that an addition of a row of 64 unknowns and 128 repair symbols to another takes.
const ROW: u64 = 16;

/// Steps to look at a repair symbol and what is missing of it, however little comes of it.
const LOOK: u64 = 768;

/// Symbols that are looked at in a step.
const LOOKS: u64 = 8;
