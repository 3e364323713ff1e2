use std::collections::VecDeque;
use std::ops::Range;

use quickset_base::Time;
use quickset_base::number::{index, within_u16, wrapped_u32};

use crate::cc::{self, PacketState};
use crate::packet::FrameToken;

/// The sent packets of one packet number space that are not settled, with what they held.
///
/// A ring indexed by packet number, whose first packet is always outstanding, and beside it one ring of
/// tokens: a packet knows where its own begin. Nothing is allocated per packet. Runs of acknowledged packets
/// inside the ring know their length at both ends, so that nobody walks over them twice.
#[derive(Debug, Default)]
pub(crate) struct PacketRing {
    packets: VecDeque<UnsettledPacket>,
    // The number of the first packet of the ring; the next number to be sent when it is empty.
    base: u64,
    tokens: VecDeque<FrameToken>,
    // How many tokens were dropped off the front, modulo 2^32.
    token_base: u32,
    outstanding: usize,
    eliciting: usize,
    // Numbers that were left out and have left the ring, the last few: who acknowledges each packet as it
    // leaves would else never meet one in it. 0 stands for none, since the first packet is never left out.
    skipped: [u64; REMEMBERED],
    // The path in use: packets of others are settled like any, but count for no congestion control.
    path: u8,
    // Bytes in flight on it, and on others. A peer may come by another with each packet, and what is under
    // way is much.
    in_flight: u64,
    elsewhere: Vec<(u8, u64)>,
    #[cfg(test)]
    walked: std::cell::Cell<usize>,
}

#[derive(Debug)]
struct UnsettledPacket {
    sent: Time,
    state: PacketState,
    // Where its tokens begin, counted from the first token ever, modulo 2^32.
    tokens: u32,
    token_count: u16,
    bytes: u16,
    fate: UnsettledFate,
    eliciting: bool,
    in_flight: bool,
    marked: bool,
    path: u8,
    // If settled: this packet and at least so many above (below) it, itself included, are settled. Exact
    // at the lower (upper) end of a run; inside of it a bound that was exact once.
    run_up: u32,
    run_down: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnsettledFate {
    Outstanding,
    Settled,
    /// The number was left out: no honest peer acknowledges it (RFC 9000 §21.4).
    Skipped,
}

impl UnsettledPacket {
    /// A number that is left out before `sent`.
    #[inline]
    fn skipped(sent: &SentPacket, first_token: u32) -> Self {
        Self {
            sent: sent.now,
            state: sent.state,
            tokens: first_token,
            token_count: 0,
            bytes: sent.bytes,
            fate: UnsettledFate::Skipped,
            eliciting: false,
            in_flight: false,
            marked: false,
            path: ELSEWHERE,
            run_up: 0,
            run_down: 0,
        }
    }
}

/// A packet that just left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentPacket {
    pub(crate) number: u64,
    pub(crate) now: Time,
    /// The bytes that are its own of the UDP payload.
    pub(crate) bytes: u16,
    pub(crate) eliciting: bool,
    /// Whether it counts for congestion control: it elicits, or is padded (RFC 9002 §2).
    pub(crate) in_flight: bool,
    /// With ECT(0).
    pub(crate) marked: bool,
    pub(crate) state: PacketState,
}

/// What is known of a packet that leaves the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GonePacket {
    pub(crate) packet: cc::SettledPacket,
    pub(crate) eliciting: bool,
    /// On the path in use.
    pub(crate) in_flight: bool,
    /// It left on the path in use.
    pub(crate) is_own: bool,
    /// It left there, with an ECN mark.
    pub(crate) marked: bool,
}

/// What stands at a place of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingPlace {
    /// A packet in flight or, if it elicits nothing, on its way; sent then.
    Outstanding(Time),
    /// A run of settled packets that ends before this number.
    SettledUntil(u64),
    Skipped,
}

impl PacketRing {
    /// The first number that is outstanding, or the next to be sent.
    #[inline]
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// The least number not sent yet.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.base + self.packets.len() as u64
    }

    /// Packets that elicit an acknowledgement and wait for it.
    #[inline]
    pub(crate) fn eliciting(&self) -> usize {
        self.eliciting
    }

    /// Outstanding packets that elicit nothing.
    #[inline]
    pub(crate) fn unconfirmed(&self) -> usize {
        self.outstanding - self.eliciting
    }

    /// Numbers that were left out, and that are not in the ring any more.
    pub(crate) fn skipped(&self) -> impl Iterator<Item = u64> {
        self.skipped.into_iter().filter(|n| *n > 0)
    }

    /// Adds a packet with its tokens. Numbers between the last packet's and this one are skipped.
    ///
    /// # Panics
    /// When the number was used: that would reuse a nonce.
    pub(crate) fn push(&mut self, sent: &SentPacket, tokens: &mut Vec<FrameToken>) {
        assert!(sent.number >= self.next(), "packet number {} was used", sent.number);
        if self.packets.is_empty() {
            (self.base..sent.number).for_each(|n| self.remember(n));
            self.base = sent.number;
        }
        let first_token = self.token_base.wrapping_add(wrapped_u32(self.tokens.len() as u64));
        while self.next() < sent.number {
            self.packets.push_back(UnsettledPacket::skipped(sent, first_token));
        }
        self.packets.push_back(UnsettledPacket {
            fate: UnsettledFate::Outstanding,
            // A frame takes at least a byte.
            token_count: within_u16(tokens.len() as u64),
            eliciting: sent.eliciting,
            in_flight: sent.in_flight,
            marked: sent.marked,
            path: self.path,
            ..UnsettledPacket::skipped(sent, first_token)
        });
        // Two or three, for which `extend` is much ado.
        for token in tokens.drain(..) {
            self.tokens.push_back(token);
        }
        self.outstanding += 1;
        self.eliciting += usize::from(sent.eliciting);
        self.in_flight += if sent.in_flight { u64::from(sent.bytes) } else { 0 };
    }

    /// The packet that was added last left on a path that is not in use, and never will be as far as it is
    /// concerned.
    pub(crate) fn sent_elsewhere(&mut self) {
        if let Some(last) = self.packets.back_mut() {
            last.path = ELSEWHERE;
        }
    }

    /// From here on this path is in use. Returns the bytes in flight on it.
    pub(crate) fn change_path(&mut self, path: u8) -> u64 {
        let (before, bytes) = (std::mem::replace(&mut self.path, path), self.in_flight);
        if bytes > 0 {
            self.elsewhere.push((before, bytes));
        }
        let there = self.elsewhere.iter().position(|(other, _)| *other == path);
        self.in_flight = there.map_or(0, |at| self.elsewhere.swap_remove(at).1);
        self.in_flight
    }

    /// What stands at `number`, which is in the ring.
    #[inline]
    pub(crate) fn place(&self, number: u64) -> RingPlace {
        let packet = &self.packets[self.index(number)];
        match packet.fate {
            UnsettledFate::Outstanding => RingPlace::Outstanding(packet.sent),
            UnsettledFate::Settled => RingPlace::SettledUntil(number + u64::from(packet.run_up)),
            UnsettledFate::Skipped => RingPlace::Skipped,
        }
    }

    /// Settles an outstanding packet and hands out its tokens, [`FrameToken::Nothing`] in place of those that
    /// were taken.
    pub(crate) fn settle(&mut self, number: u64, tokens: &mut Vec<FrameToken>) -> GonePacket {
        let at = self.index(number);
        let below = at.checked_sub(1).map_or(0, |i| self.settled(i, |p| p.run_down));
        let above = if at + 1 < self.packets.len() { self.settled(at + 1, |p| p.run_up) } else { 0 };
        let range = self.take_range(at);
        let packet = &mut self.packets[at];
        debug_assert_eq!(packet.fate, UnsettledFate::Outstanding);
        packet.fate = UnsettledFate::Settled;
        if packet.in_flight {
            let bytes = u64::from(packet.bytes);
            if packet.path == self.path {
                self.in_flight -= bytes;
            } else if let Some(at) = self.elsewhere.iter().position(|(path, _)| *path == packet.path) {
                self.elsewhere[at].1 -= bytes;
                if self.elsewhere[at].1 == 0 {
                    self.elsewhere.swap_remove(at);
                }
            }
        }
        packet.run_up = 1 + above;
        packet.run_down = 1 + below;
        packet.token_count = 0;
        let gone = GonePacket {
            packet: cc::SettledPacket {
                number,
                sent: packet.sent,
                bytes: u64::from(packet.bytes),
                state: packet.state,
            },
            eliciting: packet.eliciting,
            in_flight: packet.in_flight && packet.path == self.path,
            is_own: packet.path == self.path,
            marked: packet.marked && packet.path == self.path,
        };
        let run = below + 1 + above;
        self.packets[at - below as usize].run_up = run;
        self.packets[at + above as usize].run_down = run;
        self.outstanding -= 1;
        self.eliciting -= usize::from(gone.eliciting);
        // As a whole: who looks at each token before it is copied waits for its parts to have been written.
        let (front, back) = self.tokens.as_slices();
        let split = range.end.min(front.len()).max(range.start);
        if range.start < split {
            tokens.extend_from_slice(&front[range.start..split]);
        }
        if split < range.end {
            tokens.extend_from_slice(&back[split - front.len()..range.end - front.len()]);
        }
        gone
    }

    /// Drops what is settled at the front, so that the first packet is outstanding again.
    pub(crate) fn trim(&mut self) {
        while let Some(front) = self.packets.front() {
            let n = match front.fate {
                UnsettledFate::Outstanding => break,
                UnsettledFate::Settled => front.run_up as usize,
                UnsettledFate::Skipped => {
                    self.remember(self.base);
                    1
                }
            };
            self.packets.drain(..n);
            self.base += n as u64;
        }
        let end = self.token_base.wrapping_add(wrapped_u32(self.tokens.len() as u64));
        let keep_from = self.packets.front().map_or(end, |front| front.tokens);
        self.tokens.drain(..keep_from.wrapping_sub(self.token_base) as usize);
        self.token_base = keep_from;
    }

    /// Gives back what more than `most` packets took.
    pub(crate) fn rest(&mut self, most: usize) {
        self.packets.shrink_to(most);
        self.tokens.shrink_to(most);
        self.elsewhere.shrink_to_fit();
    }

    /// Takes the tokens of the oldest packet that elicits and still has any; the packet stays. False if there
    /// is none. What is never sent again stays too: of a datagram it is not known yet whether it arrived.
    pub(crate) fn take_oldest(&mut self, tokens: &mut Vec<FrameToken>) -> bool {
        let has_more = |p: &UnsettledPacket| {
            let start = p.tokens.wrapping_sub(self.token_base) as usize;
            (start..start + p.token_count as usize).any(|i| !self.stays(i))
        };
        let oldest = self.packets.iter().position(|p| {
            p.fate == UnsettledFate::Outstanding && p.eliciting && p.token_count > 0 && has_more(p)
        });
        let Some(at) = oldest else { return false };
        let range = self.take_range(at);
        let mut any_stays = false;
        for i in range {
            if self.stays(i) {
                any_stays = true;
            } else {
                let token = std::mem::replace(&mut self.tokens[i], FrameToken::Nothing);
                tokens.extend((token != FrameToken::Nothing).then_some(token));
            }
        }
        if !any_stays {
            self.packets[at].token_count = 0;
        }
        true
    }

    /// Whether a probe leaves a token where it is: a datagram's, and that of a symbol of datagrams.
    fn stays(&self, at: usize) -> bool {
        let is_datagram = |at: usize| matches!(self.tokens.get(at), Some(FrameToken::Datagram { .. }));
        let holds = matches!(self.tokens[at], FrameToken::Symbol { n: 1.., .. }) && is_datagram(at + 1);
        holds || is_datagram(at)
    }

    /// Takes what a symbol, named by session and SID, in packet `number` held; its own token stays, and says
    /// that nothing is left.
    pub(crate) fn take_symbol(&mut self, number: u64, symbol: (u32, u64), tokens: &mut Vec<FrameToken>) {
        let at = number.checked_sub(self.base).and_then(|at| usize::try_from(at).ok());
        let Some(at) =
            at.filter(|at| self.packets.get(*at).is_some_and(|p| p.fate == UnsettledFate::Outstanding))
        else {
            return;
        };
        let mut range = self.take_range(at);
        let found = range.find(
            |i| matches!(self.tokens[*i], FrameToken::Symbol { session, sid, .. } if (session, sid) == symbol),
        );
        let Some(at) = found else { return };
        let FrameToken::Symbol { n, .. } = &mut self.tokens[at] else { return };
        let held = usize::from(std::mem::take(n));
        for token in self.tokens.range_mut(at + 1..at + 1 + held) {
            tokens.push(std::mem::replace(token, FrameToken::Nothing));
        }
    }

    /// Empties the ring and returns the bytes that were in flight. `tokens` takes what the packets held.
    pub(crate) fn clear(&mut self, tokens: Option<&mut Vec<FrameToken>>) -> u64 {
        let open = |p: &&UnsettledPacket| p.fate == UnsettledFate::Outstanding;
        let bytes = std::mem::take(&mut self.in_flight);
        self.elsewhere.clear();
        if let Some(out) = tokens {
            for packet in self.packets.iter().filter(open) {
                let start = packet.tokens.wrapping_sub(self.token_base) as usize;
                let range = start..start + packet.token_count as usize;
                out.extend(self.tokens.range(range).filter(|t| **t != FrameToken::Nothing));
            }
        }
        self.base = self.next();
        self.packets = VecDeque::new();
        self.token_base = self.token_base.wrapping_add(wrapped_u32(self.tokens.len() as u64));
        self.tokens = VecDeque::new();
        self.outstanding = 0;
        self.eliciting = 0;
        bytes
    }

    /// Bytes in flight on the path in use, counted anew.
    pub(crate) fn count_in_flight(&self) -> u64 {
        let is_open =
            |p: &&UnsettledPacket| p.fate == UnsettledFate::Outstanding && p.in_flight && p.path == self.path;
        let open = self.packets.iter().filter(is_open);
        #[cfg(test)]
        self.walked.set(self.walked.get() + self.packets.len());
        open.map(|p| u64::from(p.bytes)).sum()
    }

    /// Packets that were looked at to count anew.
    #[cfg(test)]
    pub(crate) fn walked(&self) -> usize {
        self.walked.get()
    }

    /// Debug invariants.
    pub(crate) fn check(&self) {
        debug_assert!(self.packets.front().is_none_or(|p| p.fate == UnsettledFate::Outstanding));
        let open = self.packets.iter().filter(|p| p.fate == UnsettledFate::Outstanding);
        debug_assert_eq!(open.clone().count(), self.outstanding);
        debug_assert_eq!(open.filter(|p| p.eliciting).count(), self.eliciting);
        debug_assert_eq!(self.count_in_flight(), self.in_flight, "bytes in flight here");
        let on = |path| {
            self.packets
                .iter()
                .filter(move |p| p.fate == UnsettledFate::Outstanding && p.in_flight && p.path == path)
        };
        debug_assert!(
            self.elsewhere
                .iter()
                .all(|(path, bytes)| on(*path).map(|p| u64::from(p.bytes)).sum::<u64>() == *bytes)
        );
        debug_assert!(self.packets.iter().is_sorted_by_key(|p| p.sent), "time went back");
    }

    #[cold]
    fn remember(&mut self, skipped: u64) {
        self.skipped.rotate_right(1);
        self.skipped[0] = skipped;
    }

    #[inline]
    fn index(&self, number: u64) -> usize {
        index(number - self.base)
    }

    fn settled(&self, at: usize, run: impl Fn(&UnsettledPacket) -> u32) -> u32 {
        let packet = &self.packets[at];
        if packet.fate == UnsettledFate::Settled { run(packet) } else { 0 }
    }

    fn take_range(&self, at: usize) -> Range<usize> {
        let packet = &self.packets[at];
        let start = packet.tokens.wrapping_sub(self.token_base) as usize;
        start..start + packet.token_count as usize
    }
}

impl super::Recovery {
    /// Packets that elicit nothing of which the peer told neither that they arrived nor that later ones did.
    #[inline]
    pub(crate) fn unconfirmed(&self) -> usize {
        self.spaces.iter().map(|numbers| numbers.sent.unconfirmed()).sum()
    }
}

/// The path of packets that are on none that counts: challenges and answers.
const ELSEWHERE: u8 = u8::MAX;

/// Numbers left out that are remembered behind the ring. They are a hundred apart and more, so that an
/// acknowledgement of an older one comes late by hundreds of packets.
const REMEMBERED: usize = 4;

const _: () = assert!(size_of::<UnsettledPacket>() <= 88, "a packet in flight");
