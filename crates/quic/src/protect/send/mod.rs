//! The sending half of forward erasure correction: channels with their policies, and the lanes that carry
//! them.
//!
//! *In:* source symbols as they leave, what became of them, what the peer recovered; free slots of the
//! congestion window. *Out:* what a slot is for ([`WindowSlot`]), tokens that come back as lost or
//! acknowledged.
//!
//! Invariants: a symbol holds frames of one channel; without a free session a channel goes unprotected;
//! memory is what the peer's window allows, times the lanes in use.
//!
//! Sources: `spec/fec.md`; FlEC, algorithm 1.

mod coded;
mod flights;
mod kept;
mod lane;
mod outlook;
mod owed;
mod quiet;
mod span;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use quickset_base::Time;
use quickset_base::number::within_u32;
use quickset_wire::Schemes;
use quickset_wire::frame::RepairHeader;

use coded::{ChannelDecision, CodedChannel};
use kept::KeptSymbol;
use lane::Lane;
pub(crate) use lane::{LaneCounts, RecoveredTokens};
pub(crate) use outlook::Outlook;
use owed::MadeSymbol;
use quiet::QuietBudget;
pub(crate) use quiet::{Moment, QuietAnswer};

use super::policy::{self, Carried, Protection, RepairCode};
use crate::packet::{Channel, FrameToken, Packed, StreamFrame};

/// All channels and lanes of a connection's sending half.
#[derive(Debug, Default)]
pub(crate) struct ProtectSending {
    peer: Option<PeerDecoder>,
    channels: BTreeMap<Channel, CodedChannel>,
    /// Those that have lanes: as many as there are sessions at most.
    active: Vec<Channel>,
    lanes: Vec<Lane>,
    repair: Vec<u8>,
    /// The room that packets may come to have.
    growth: usize,
    /// Channels from which on it is worth to look for those that are no more.
    purge_at: usize,
    /// Of the latest FEC_WINDOW.
    epoch: u64,
    /// Nothing is due for some symbols more.
    quiet: QuietBudget,
    /// What the last packet joined.
    answer: Option<QuietAnswer>,
    /// First of a lane may move.
    untidy: bool,
}

/// What the peer can decode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerDecoder {
    /// Symbols that it keeps of each session.
    pub(crate) window: u64,
    pub(crate) sessions: u64,
    /// The largest symbol that it takes, in bytes.
    pub(crate) symbol: usize,
    pub(crate) schemes: Schemes,
    /// It keeps the data of packets below this number, which may be a symbol without saying so.
    pub(crate) unmarked: u64,
}

/// What a free slot of the congestion window is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowSlot {
    /// The oldest released symbol of a lane, again.
    Repeat(usize),
    /// A repair symbol of a lane.
    Repair(usize),
}

impl ProtectSending {
    /// The peer told what it can decode.
    pub(crate) fn set_peer(&mut self, peer: PeerDecoder) {
        self.peer = (peer.window > 0).then_some(PeerDecoder { window: peer.window.min(MAX_WINDOW), ..peer });
    }

    /// At most so many bytes are kept for repair.
    pub(crate) fn held(&self) -> u64 {
        self.lanes.iter().map(Lane::held).sum()
    }

    /// FEC_WINDOW.
    pub(crate) fn set_window(&mut self, epoch: u64, window: u64) {
        // FEC-46.
        if epoch <= self.epoch {
            return;
        }
        self.epoch = epoch;
        let Some(peer) = &mut self.peer else { return };
        peer.window = window.min(MAX_WINDOW);
        if window == 0 {
            // No symbol and no repair is of any use: all channels go on without.
            self.lanes.iter_mut().for_each(Lane::leave);
            self.channels.values_mut().for_each(|coded| coded.lanes = Default::default());
            self.active.clear();
        } else {
            self.lanes.iter_mut().for_each(|lane| lane.set_window(window.min(MAX_WINDOW)));
        }
    }

    /// Gives a channel a policy, or takes it away. What is protected already stays so.
    pub(crate) fn set_policy(&mut self, channel: Channel, protection: &Protection) {
        match (self.channels.get_mut(&channel), protection.policy()) {
            (Some(coded), Some(policy)) => coded.policy = policy,
            (Some(_), None) => self.forget(channel),
            (None, Some(policy)) => {
                self.channels.insert(channel, CodedChannel::new(policy));
            }
            (None, None) => {}
        }
    }

    /// Forgets channels that are no more; called now and then, since nobody tells when a stream is over.
    pub(crate) fn purge(&mut self, lives: impl Fn(Channel) -> bool) {
        if self.channels.len() < self.purge_at {
            return;
        }
        let gone: Vec<Channel> = self.channels.keys().copied().filter(|channel| !lives(*channel)).collect();
        for channel in gone {
            self.forget(channel);
        }
        self.purge_at = 2 * self.channels.len() + 16;
    }

    /// A channel is no more. What its lanes hold comes back; they are free for others once nothing is in
    /// flight.
    pub(crate) fn forget(&mut self, channel: Channel) {
        self.active.retain(|other| *other != channel);
        let Some(coded) = self.channels.remove(&channel) else { return };
        for lane in coded.lanes.into_iter().flatten() {
            self.lanes[lane].leave();
        }
    }

    /// Whether anything has to be done for any channel.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.peer.is_some() && !self.channels.is_empty()
    }

    /// A channel that has lanes, by its place among those.
    pub(crate) fn active(&self, at: usize) -> Option<Channel> {
        self.active.get(at).copied()
    }

    /// A batch begins: whatever happened since the last one, policies are asked afresh.
    pub(crate) fn stir(&mut self) {
        self.quiet = QuietBudget::default();
        self.answer = None;
    }

    /// For so many packets with data more nothing is due for any channel: all were asked, and said so.
    #[inline]
    pub(crate) fn quiet(&self, moment: Moment) -> u64 {
        self.quiet.left(moment)
    }

    /// All channels with lanes are about to be asked.
    pub(crate) fn ask(&mut self) {
        self.quiet.ask();
    }

    /// All of them were, at this moment, and nothing is due.
    pub(crate) fn rest(&mut self, moment: Moment) {
        self.quiet.begin(moment);
    }

    /// What a slot is for that `channel` has won, whatever its policy would say: what it said before is to be
    /// done first.
    pub(crate) fn owed(&self, channel: Channel) -> Option<WindowSlot> {
        let mut mine = self.channels.get(&channel)?.lanes.iter().flatten().copied();
        if let Some(at) = mine.clone().find(|at| self.lanes[*at].is_urgent()) {
            return Some(WindowSlot::Repeat(at));
        }
        mine.find(|at| self.lanes[*at].owes_repair()).map(WindowSlot::Repair)
    }

    /// What a slot is for that `channel` has won, before new data. `None`: new data, or nothing.
    pub(crate) fn slot(&mut self, channel: Channel, outlook: &Outlook<'_>) -> Option<WindowSlot> {
        if let Some(slot) = self.owed(channel) {
            return Some(slot);
        }
        let coded = self.channels.get_mut(&channel)?;
        if coded.lanes.iter().flatten().all(|at| self.lanes[*at].next() == 0) {
            self.quiet.limit(0);
            return None;
        }
        let ChannelDecision { slot, wake, quiet } = coded.decide(&mut self.lanes, outlook);
        coded.wake = wake;
        self.quiet.limit(quiet);
        slot
    }

    /// What a symbol of a protected channel may hold in any packet with this much room; `None` for other
    /// channels.
    pub(crate) fn symbol_room(&self, channel: Channel, packet: usize) -> Option<usize> {
        let peer = self.peer.filter(|peer| peer.window > 0)?;
        let coded = self.channels.get(&channel)?;
        let lanes = coded.lanes.iter().flatten().map(|lane| &self.lanes[*lane]);
        let (size, header) = lanes
            .map(|lane| (lane.size(), lane.repair_header()))
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
            .unwrap_or((peer.symbol, REPAIR_HEADER));
        Some(size.min(packet.saturating_sub(header.max(REPAIR_HEADER))))
    }

    /// The lane that the next packet of `channel` joins, and how many bytes its symbol may have. `margin` is
    /// what a packet has for a repair symbol with its header.
    pub(crate) fn join(
        &mut self,
        channel: Channel,
        carried: Carried,
        outlook: &Outlook<'_>,
        packet: usize,
    ) -> Option<(usize, usize)> {
        let joined = self.lane_for(channel, carried, outlook, packet);
        self.answer = Some(QuietAnswer { now: outlook.now, channel, carried, packet, joined });
        joined
    }

    fn lane_for(
        &mut self,
        channel: Channel,
        carried: Carried,
        outlook: &Outlook<'_>,
        packet: usize,
    ) -> Option<(usize, usize)> {
        let peer = self.peer.filter(|peer| peer.window > 0)?;
        let coded = self.channels.get_mut(&channel)?;
        let view = outlook.view(&coded.views(&self.lanes));
        let wanted = coded.policy.protect(&view, carried)?;
        let index = usize::from(wanted.index).min(policy::MAX_LANES - 1);
        // Of another policy before: a session has one code.
        let before = coded.lanes[index].filter(|lane| self.lanes[*lane].code() != wanted.code);
        if let Some(lane) = before {
            coded.lanes[index] = None;
            self.lanes[lane].leave();
        }
        let lane = if let Some(lane) = coded.lanes[index] {
            lane
        } else {
            let peer = PeerDecoder { symbol: peer.symbol.min(packet.max(self.growth)), ..peer };
            // Its policy has not been asked about it.
            self.stir();
            let lane = self.open(wanted.code, &peer)?;
            self.channels.get_mut(&channel)?.lanes[index] = Some(lane);
            if !self.active.contains(&channel) {
                self.active.push(channel);
            }
            lane
        };
        // FEC-16, FEC-17: no longer than the peer takes, and than leaves room for the header of a repair
        // symbol over it.
        let limit = self.lanes[lane].size().min(packet.checked_sub(self.lanes[lane].repair_header())?);
        // Datagrams are as long as they are.
        let share = if channel == Channel::Datagrams { policy::LaneConfig::WHOLE } else { wanted.share };
        let share = usize::from(share.clamp(policy::LaneConfig::LEAST_SHARE, policy::LaneConfig::WHOLE));
        let limit = limit.min(packet * share / usize::from(policy::LaneConfig::WHOLE));
        (limit >= MIN_SYMBOL).then_some((lane, limit))
    }

    /// The peer takes nothing larger than a fraction of a packet with this much room.
    #[inline]
    pub(crate) fn takes_fractions(&self, lane: usize, packet: usize) -> bool {
        2 * self.lanes[lane].size() <= packet
    }

    /// Whether packet `number` holds a symbol of a lane already (FEC-15).
    #[inline]
    pub(crate) fn is_in(&self, lane: usize, number: u64) -> bool {
        self.lanes[lane].is_in(number)
    }

    /// The session of a lane, and the SID of its next symbol.
    #[inline]
    pub(crate) fn head(&self, lane: usize) -> (u32, u64) {
        (self.lanes[lane].session(), self.lanes[lane].next())
    }

    /// `n` packets with data that is no symbol were written.
    #[inline]
    pub(crate) fn passed(&mut self, n: u64) {
        self.quiet.pass(n);
    }

    /// A symbol of `lane` was written; `piece` gives what it shares with its stream. Returns whether those
    /// that are like it may be told together ([`followed`](Self::followed)).
    #[inline]
    pub(crate) fn pushed(
        &mut self,
        lane: usize,
        packed: Packed<'_>,
        now: Time,
        piece: impl FnOnce(&StreamFrame) -> Option<Bytes>,
    ) -> bool {
        self.quiet.pass(1);
        self.lanes[lane].push(packed, now, piece)
    }

    /// `n` symbols of `lane` were written, `bytes` bytes in all: `frame` in packet `number`, and each in a
    /// packet more the frame that follows, as long, and in the same piece of the stream.
    pub(crate) fn followed(
        &mut self,
        lane: usize,
        frame: &StreamFrame,
        n: u64,
        bytes: u64,
        number: u64,
        now: Time,
    ) {
        self.quiet.pass(n);
        self.lanes[lane].follow(frame, n, bytes, number, now);
    }

    /// Symbols of a lane that may be told together: the one that they are like is to stay in the window.
    pub(crate) fn may_follow(&self, lane: usize) -> u64 {
        self.lanes[lane].window().saturating_sub(1)
    }

    /// The next symbol to be repeated of a lane; `wanted` says whether a token still stands for anything.
    pub(crate) fn repeat(
        &mut self,
        lane: usize,
        wanted: impl Fn(FrameToken) -> bool,
    ) -> Option<(u64, KeptSymbol<'_>)> {
        let lane = &mut self.lanes[lane];
        let sid = lane.repeat(wanted)?;
        Some((sid, lane.symbol(sid).expect("what is in the window is kept")))
    }

    /// It was written into packet `number`. Its tokens go there.
    pub(crate) fn repeated(&mut self, lane: usize, sid: u64, number: u64, now: Time) -> Vec<FrameToken> {
        self.lanes[lane].repeated(sid, number, now)
    }

    /// Packets may come to have this much room: lanes are opened for that, and their symbols are as long as
    /// fits.
    pub(crate) fn set_growth(&mut self, packet: usize) {
        self.growth = packet;
    }

    /// Packets have less room than they had: what was sent in longer ones is neither repaired nor repeated
    /// (FEC-18).
    pub(crate) fn shrink(&mut self) {
        for lane in &mut self.lanes {
            lane.cancel();
            // A repair symbol is as long as the longest that it is of: those to come are in blocks of their
            // own.
            lane.close();
            lane.give_up();
        }
        self.answer = None;
    }

    /// Symbols of a lane do not fit a packet any more.
    pub(crate) fn give_up(&mut self, lane: usize) {
        self.lanes[lane].give_up();
    }

    /// Nothing is waited for, and nothing is repeated.
    pub(crate) fn give_up_all(&mut self) {
        self.lanes.iter_mut().for_each(Lane::give_up);
    }

    /// Makes the next repair symbol of a lane and lets `write` put it into a packet, with the number that its
    /// token has and the packets of what is unmarked of it; false when that has no room. `None`: nothing is
    /// to be repaired any more.
    pub(crate) fn repair(
        &mut self,
        lane: usize,
        now: Time,
        write: impl FnOnce(&RepairHeader, &[u8], u64, u64) -> bool,
    ) -> Option<bool> {
        let mut data = std::mem::take(&mut self.repair);
        let of = &mut self.lanes[lane];
        let (session, serial) = (of.session().into(), of.next_repair());
        let unmarked = of.unmarked();
        let written = of.repair(&mut data).map(|(made, data)| {
            let MadeSymbol { first, count, parameter, index, .. } = made;
            let header = RepairHeader { session, first, count, parameter, index };
            (write(&header, data, serial, unmarked.told_with(first)), made, data.len())
        });
        match &written {
            Some((true, made, bytes)) => of.repair_sent(made, *bytes, now),
            Some(_) => {}
            None => of.cancel(),
        }
        self.repair = data;
        written.map(|(is_written, ..)| is_written)
    }

    /// Repair of a lane does not fit a packet any more.
    pub(crate) fn cancel(&mut self, lane: usize) {
        self.lanes[lane].cancel();
    }

    /// A repair symbol or a repeat is owed.
    pub(crate) fn owes(&self) -> bool {
        self.lanes.iter().any(|lane| lane.owes_repair() || lane.owes_repeat())
    }

    /// Symbols are on the way, or held: what is known of them decides on repair and repeats.
    pub(crate) fn waits(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.live().is_empty())
    }

    /// The packets with these symbols arrived.
    pub(crate) fn acked(&mut self, session: u32, sids: Range<u64>) {
        if sids.is_empty() {
            return;
        }
        if let Some(lane) = self.lane(session) {
            lane.acked(sids);
            self.untidy = true;
        }
    }

    /// The packet with symbol `sid` was lost, or is probed for. Gives back tokens that are not held.
    pub(crate) fn lost(
        &mut self,
        session: u32,
        sid: u64,
        tokens: Vec<FrameToken>,
        probe: bool,
    ) -> Option<Vec<FrameToken>> {
        match self.lane(session) {
            Some(lane) if probe => lane.probed(sid, tokens),
            Some(lane) => lane.lost(sid, tokens),
            None => Some(tokens),
        }
    }

    /// The packets of a batch of acknowledgements are through.
    #[inline]
    pub(crate) fn settled(&mut self) {
        if std::mem::take(&mut self.untidy) {
            self.lanes.iter_mut().for_each(Lane::tidy);
        }
    }

    /// A repair symbol arrived, or was lost.
    pub(crate) fn repair_settled(&mut self, session: u32, serial: u64, arrived: bool) {
        if let Some(lane) = self.lane(session) {
            lane.repair_settled(serial, arrived);
        }
    }

    /// The peer recovered a symbol.
    pub(crate) fn recovered(&mut self, session: u64, sid: u64) -> RecoveredTokens {
        let lane = u32::try_from(session).ok().and_then(|session| self.lane(session));
        lane.map_or(RecoveredTokens::Known, |lane| lane.recovered(sid))
    }

    /// SIDs of a session that are not settled: `None` when there is no such session.
    pub(crate) fn live(&mut self, session: u64) -> Option<Range<u64>> {
        self.lane(u32::try_from(session).ok()?).map(|lane| lane.live())
    }

    /// First of a lane may move: SYMBOL_ACKs of a batch are through.
    pub(crate) fn tidy(&mut self, session: u64) {
        if let Some(lane) = u32::try_from(session).ok().and_then(|session| self.lane(session)) {
            lane.tidy();
        }
    }

    /// A probe timeout: whatever is held goes first.
    pub(crate) fn release_all(&mut self) {
        self.lanes.iter_mut().for_each(Lane::release_all);
    }

    /// Tokens that their owners must take for lost.
    pub(crate) fn orphan(&mut self) -> Option<FrameToken> {
        self.lanes.iter_mut().find_map(Lane::orphan)
    }

    /// When to be asked again though nothing happens.
    pub(crate) fn wake(&self) -> Option<Time> {
        self.active.iter().filter_map(|channel| self.channels.get(channel)?.wake).min()
    }

    /// That time has come: channels are asked at the next free slot.
    pub(crate) fn woken(&mut self, now: Time) {
        for channel in &self.active {
            if let Some(coded) = self.channels.get_mut(channel) {
                coded.wake = coded.wake.filter(|at| *at > now);
            }
        }
    }

    /// Sums over the lanes.
    pub(crate) fn counts(&self) -> LaneCounts {
        self.lanes.iter().fold(LaneCounts::default(), |sum, lane| sum + lane.counts())
    }

    /// Debug invariants.
    pub(crate) fn check(&self) {
        self.lanes.iter().for_each(Lane::check);
    }

    fn lane(&mut self, session: u32) -> Option<&mut Lane> {
        self.lanes.get_mut(session as usize / SCHEMES).filter(|lane| lane.session() == session)
    }

    /// A lane for a channel: an idle one of the same code that nobody has, or a new session.
    fn open(&mut self, code: RepairCode, peer: &PeerDecoder) -> Option<usize> {
        // FEC-11, FEC-12: of those that the peer offered, and each n once.
        if !peer.schemes.has(code.scheme()) {
            return None;
        }
        let is_spare = |lane: &Lane| {
            !lane.is_taken() && lane.code() == code && lane.size() >= peer.symbol && lane.is_idle()
        };
        if let Some(spare) = self.lanes.iter().position(is_spare) {
            self.lanes[spare].take();
            return Some(spare);
        }
        let n = self.lanes.len();
        if n as u64 >= peer.sessions.min(MAX_SESSIONS) {
            return None;
        }
        let session = within_u32(code.scheme().session(n as u64));
        self.lanes.push(Lane::new(session, code, peer.window, peer.symbol, peer.unmarked));
        Some(n)
    }
}

/// Schemes have eight places in a session number.
const SCHEMES: usize = 8;

/// Symbols of a session that we keep at most, whatever the peer would: those of 2 Gbit/s for a tenth of a
/// second.
const MAX_WINDOW: u64 = 1 << 14;

/// Sessions of ours at most, whatever the peer offers.
const MAX_SESSIONS: u64 = 256;

/// More than the header of a repair symbol has, as long as there are not millions of symbols.
const REPAIR_HEADER: usize = 24;

/// A symbol of fewer bytes is not worth its header.
const MIN_SYMBOL: usize = 64;
