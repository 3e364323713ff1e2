//! What a connection may hold of the memory that it shares with others ([`Budget`](crate::Budget)).
//!
//! What its peer and its application make it hold is taken from the budget a step at a time, before it is
//! held: the application's bytes are not taken without, and packets that bring some are dropped as if lost,
//! before they are acknowledged. A little each connection may hold in any case, which is paid for at its
//! beginning: so it goes on, if slowly, and whatever it holds makes room again by what it sends and reads. A
//! connection without a budget pays a comparison for it.

use std::net::IpAddr;
use std::task::Waker;

use quickset_wire::TransportErrorCode as Code;
use quickset_wire::frame::{Frame, Frames, SymbolFrames};

use super::Connection;
use crate::budget::Account;
use crate::error::TransportError;
use crate::protect::Protect;
use crate::protect::receive::ProtectReceiving;
use crate::streams::{STREAM_COST, Streams};
use crate::traffic::Traffic;

/// The room.
#[derive(Debug)]
pub(crate) struct MemoryAllowance {
    account: Option<Account>,
    /// Where the peer has proven to be.
    address: Option<IpAddr>,
    /// Bytes that it may hold, as of now.
    most: u64,
    /// Bytes that are held above the connection, for it.
    above: u64,
    /// At most so many bytes are held of which nobody keeps count: parts of messages, and symbols.
    uncounted: u64,
}

impl MemoryAllowance {
    /// Without an account, whatever the limits of the connection allow. One has [`CONNECTION_COST`] in it.
    pub(crate) fn new(account: Option<Account>) -> Self {
        let most = if account.is_some() { FREE } else { u64::MAX };
        Self { account, address: None, most, above: 0, uncounted: 0 }
    }

    #[inline]
    fn is_bounded(&self) -> bool {
        self.account.is_some()
    }

    /// Whether so many bytes may be held in all; takes them from the budget.
    #[inline]
    fn admits(&mut self, bytes: u64) -> bool {
        bytes <= self.most || self.grow(bytes)
    }

    #[cold]
    fn grow(&mut self, bytes: u64) -> bool {
        let Some(account) = &mut self.account else { return true };
        let more = bytes - self.most;
        let granted = [more.next_multiple_of(STEP), more].into_iter().find(|more| account.take(*more));
        self.most += granted.unwrap_or(0);
        granted.is_some()
    }

    /// It may have more than it needs, which [`settle_allowance`](Connection::settle_allowance) finds out.
    pub(crate) fn wants_settling(&self) -> bool {
        self.is_bounded() && self.most > FREE
    }

    /// More than is needed to hold so many bytes and to go on.
    fn is_ample(&self, held: u64) -> bool {
        self.most > (held + 2 * STEP).max(FREE)
    }

    /// So many bytes are held: what is not needed for that goes to others.
    fn settle(&mut self, held: u64) {
        if self.is_ample(held) {
            let keep = (held + STEP).max(FREE);
            if let Some(account) = &mut self.account {
                account.give(self.most - keep);
                self.most = keep;
            }
        }
    }

    /// The peer has proven that it is there.
    #[inline]
    fn move_to(&mut self, address: IpAddr) {
        if self.address != Some(address) {
            self.address = Some(address);
            if let Some(account) = &mut self.account {
                account.move_to(Some(address));
            }
        }
    }

    /// At most so many bytes are held.
    fn held(&self, traffic: &Traffic, protect: &Protect) -> u64 {
        let datagrams = traffic.datagrams.held() as u64;
        traffic.streams.held() + datagrams + protect.send.held() + self.above + self.uncounted
    }

    fn has_room(&mut self, traffic: &Traffic, protect: &Protect, payload: &[u8]) -> bool {
        let len = payload.len() as u64;
        // Whatever is in it fits, or what is in it has to be looked at.
        let most = len + traffic.streams.limits().openable() * OPENING;
        if self.held(traffic, protect) + most > self.most {
            let brings = Bringing::of(payload, &traffic.streams);
            if !brings.is_nothing() && !self.affords(traffic, protect, len + brings.streams() * OPENING) {
                return false;
            }
        }
        if traffic.streams.has_messages() || protect.receive.is_some() {
            self.uncounted += len;
        }
        true
    }

    /// Whether so many bytes more may be held.
    #[inline]
    fn affords(&mut self, traffic: &Traffic, protect: &Protect, more: u64) -> bool {
        if self.held(traffic, protect) + more > self.most {
            self.recount(traffic, protect);
        }
        self.admits(self.held(traffic, protect) + more)
    }

    /// The application hands over so many bytes, of which at most `buffer` may be unacknowledged.
    fn ration(&mut self, traffic: &mut Traffic, protect: &Protect, bytes: u64, buffer: u64) {
        let unacknowledged = traffic.streams.unacknowledged();
        let others = self.held(traffic, protect) - unacknowledged;
        // Not more than will be taken at a time, or one large piece would be refused where half of it is
        // taken.
        let more = bytes.min(buffer.saturating_sub(unacknowledged));
        if !self.affords(traffic, protect, more) {
            // A part of it may fit.
            self.affords(traffic, protect, more.min(STEP / 4));
        }
        traffic.streams.ration(self.most.saturating_sub(others).max(LEAST));
    }

    /// Counts what nobody keeps count of, when that may be much.
    fn recount(&mut self, traffic: &Traffic, protect: &Protect) {
        if self.uncounted >= STEP / 4 {
            let symbols = protect.receive.as_ref().map_or(0, ProtectReceiving::memory);
            self.uncounted = traffic.streams.held_in_messages() + symbols as u64;
        }
    }

    /// Others need what it holds.
    #[inline]
    pub(crate) fn is_recalled(&self) -> bool {
        self.account.as_ref().is_some_and(Account::is_recalled)
    }
}

impl Connection {
    /// Bytes held for the connection beside it, by whatever is on top of it, in place of what that was
    /// before. They count as its own against the [budget](crate::TransportConfig::budget); without one this
    /// changes nothing.
    pub fn hold_above(&mut self, bytes: u64) {
        self.allowance.above = bytes;
    }

    /// Whom to wake when others need the memory of this connection ([`Account::is_recalled`]): it is to be
    /// polled then, and ends.
    pub fn on_recall(&mut self, waker: Waker) {
        if let Some(account) = &self.allowance.account {
            account.on_recall(waker);
        }
    }

    /// Whether a packet may act: what it may bring is paid for, or it brings nothing that would be kept.
    #[inline]
    pub(crate) fn may_keep(&mut self, payload: &[u8]) -> bool {
        let Self { allowance, traffic, protect, common, .. } = self;
        if !allowance.is_bounded() || allowance.has_room(traffic, protect, payload) {
            return true;
        }
        common.stats.unpaid_packets += 1;
        false
    }

    /// Before the application hands over so many bytes: what of them is taken is paid for.
    #[inline]
    pub(crate) fn pay_for(&mut self, bytes: usize) {
        let Self { allowance, traffic, protect, common, .. } = self;
        if allowance.is_bounded() {
            allowance.ration(traffic, protect, bytes as u64, common.config.send_buffer);
        }
    }

    /// After each turn: gives back what is not needed, and has the account where the peer is.
    #[inline]
    pub(crate) fn settle_allowance(&mut self) {
        let Self { allowance, traffic, protect, link, .. } = self;
        if !allowance.is_bounded() {
            return;
        }
        if link.path.is_validated() {
            allowance.move_to(link.path.address.remote.ip());
        }
        if allowance.most > FREE {
            allowance.settle(allowance.held(traffic, protect));
        }
    }

    /// It ends, and what it holds is dropped at once.
    #[cold]
    pub(crate) fn give_way(&mut self) {
        if self.life.lifecycle.is_open() {
            self.fail(TransportError::new(Code::INTERNAL_ERROR, "others need the memory"));
            self.traffic.streams.let_go();
            let Self { allowance, traffic, protect, .. } = self;
            allowance.recount(traffic, protect);
            allowance.settle(allowance.held(traffic, protect));
        }
    }
}

/// What a packet has in it that would be kept; what it says of what was sent may well make room.
#[derive(Default)]
struct Bringing {
    data: bool,
    /// Streams that it opens, of each kind.
    opened: [u64; 2],
}

impl Bringing {
    fn of(payload: &[u8], streams: &Streams) -> Self {
        let mut brings = Self::default();
        for frame in Frames::new(payload).flatten() {
            brings.note(&frame, streams);
            if let Frame::SourceSymbol { data, .. } = frame {
                SymbolFrames::new(data).flatten().for_each(|inner| brings.note(&inner, streams));
            }
        }
        brings
    }

    fn note(&mut self, frame: &Frame<'_>, streams: &Streams) {
        use Frame::{Datagram, Fenced, Repair, SourceSymbol, Stream};
        self.data |= matches!(
            frame,
            Stream { .. } | Fenced { .. } | Datagram { .. } | SourceSymbol { .. } | Repair { .. }
        );
        // RFC 9000 §3.2: any frame about a stream opens it, and those of its kind below it.
        if let Some(id) = frame.stream() {
            let opened = &mut self.opened[id.dir() as usize];
            *opened = streams.limits().opens(id).max(*opened);
        }
    }

    fn streams(&self) -> u64 {
        self.opened.iter().sum()
    }

    fn is_nothing(&self) -> bool {
        !self.data && self.streams() == 0
    }
}

/// What a connection costs before it holds anything for anybody, in bytes: its keys and rooms, and what it
/// may hold in any case.
pub(crate) const CONNECTION_COST: u64 = (32 << 10) + FREE;

/// What each may hold in any case: a request, and a part of its answer.
const FREE: u64 = 2 * LEAST;

/// What the application may have unacknowledged in any case.
const LEAST: u64 = 16 << 10;

/// Bytes taken and given back at a time, so that the lock of the budget is not taken for each packet.
const STEP: u64 = 64 << 10;

/// What a stream that the peer opens costs, here and in what is kept of it above.
const OPENING: u64 = STREAM_COST + (4 << 10);

const _: () = assert!(OPENING < LEAST);
