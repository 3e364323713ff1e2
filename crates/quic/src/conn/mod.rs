//! The connection: has four owners of rooms and conducts them; the protocol's logic is in the rooms.
//!
//! *In:* batches of datagrams, timers, the application's verbs. *Out:* batches to send, events,
//! signals to the endpoint, the time of the next timer.
//!
//! The order of one turn: all frames of a received batch act as they are parsed, but acknowledgements,
//! which are merged and act last; what they settle goes back to the rooms that sent it; then packets
//! are built until nothing wants to be sent or nothing may be.
//!
//! Invariants: whatever a room sent comes back to it acknowledged or lost exactly once (until its
//! packet-number space is dropped); after the connection is closed no room is asked for anything.

mod allowance;
mod early;
mod handles;
mod handshake;
mod hasten;
mod liveness;
mod paths;
mod protection;
mod refused;
mod rest;
mod settle;
mod start;
#[cfg(test)]
mod tests;
mod trace;
mod verbs;
mod versions;
mod work;

use std::collections::VecDeque;

use quickset_base::{Batch, Datagram, Input, Machine, Poll, Reason, Time};
use quickset_wire::{ConnectionId, Side, Space, TransportErrorCode as Code};

use crate::ack::Acks;
use crate::cids::Cids;
use crate::common::Common;
use crate::error::{Closed, TransportError};
use crate::event::{Event, Signal};
use crate::keys::KeyRing;
use crate::life::{
    CloseFrame, Confirmation, Expired, HandshakeRole, HandshakeState, Life, Lifecycle, Liveness,
};
use crate::link::{Birth, PacketLink};
use crate::packet::{FrameToken, Phase};
use crate::path::LEAST;
use crate::protect::Protect;
use crate::received::{Authentic, EarlyPackets};
use crate::recovery::SettledPackets;
use crate::traffic::Traffic;
use crate::work::WorkAllowance as Work;

pub(crate) use allowance::{CONNECTION_COST, MemoryAllowance};
pub use handles::{Datagrams, Messages, RecvStream, SendStream, StreamSet, StreamView};
pub use start::ConnectionStart;
pub use verbs::Flight;
pub(crate) use versions::{Negotiated, wished};
pub use work::Carrier;
use work::pace;

/// One QUIC connection, without a socket or a clock.
///
/// 1. [`Endpoint`](crate::Endpoint) makes a [`ConnectionStart`], and [`new`](Self::new) a connection of it.
/// 2. Datagrams that the endpoint routes here are given to [`Machine::handle`], a batch at a time.
/// 3. After each `handle`, and after verbs, [`Machine::poll`] is called until it sleeps. On
///    [`Poll::Event`], [`poll_event`](Self::poll_event) is called until it is empty, and so is
///    [`poll_signal`](Self::poll_signal), whose signals go to [`Endpoint::signal`](crate::Endpoint::signal).
/// 4. What of a batch the system does not send is told by [`not_sent`](Self::not_sent) before the next
///    `poll`.
/// 5. After [`Signal::Drained`] the connection is dropped.
#[derive(Debug)]
pub struct Connection {
    pub(crate) common: Common,
    pub(crate) link: PacketLink,
    pub(crate) life: Life,
    pub(crate) traffic: Traffic,
    pub(crate) protect: Protect,
    pub(crate) allowance: MemoryAllowance,
    /// What packets have earned of the work that some frames are.
    pub(crate) work: Work,
    /// Datagrams of a batch that act one by one.
    pub(crate) unread: VecDeque<Datagram>,
    /// The handshake, or a timer, has left what is not needed when nothing moves.
    restless: bool,
    pub(crate) scratch: ScratchBuffers,
}

/// Buffers that are used again and again, so that a packet allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct ScratchBuffers {
    /// Packets of a received batch whose frames are yet to act.
    pub(crate) opened: Vec<Authentic>,
    pub(crate) settled: Option<Box<SettledPackets>>,
    /// What a SYMBOL_ACK settles, and the tokens of one lost symbol.
    pub(crate) recovered: Vec<FrameToken>,
    /// Packets that were built as those before them, and whether none is to be.
    #[cfg(test)]
    pub(crate) followed: u64,
    #[cfg(test)]
    pub(crate) apart: bool,
    /// A source of control frames more, and how many it owes.
    #[cfg(test)]
    pub(crate) another: Option<&'static crate::tx::ControlSource>,
    #[cfg(test)]
    pub(crate) owed: u32,
}

impl Connection {
    /// A connection that begins.
    ///
    /// # Errors
    /// When the handshake cannot even begin.
    pub fn new(start: ConnectionStart) -> Result<Self, TransportError> {
        let ConnectionStart {
            now,
            rng,
            path,
            version,
            config,
            session,
            initial,
            params,
            local_cid,
            remote_cid,
            account,
            trip,
            early,
            mut role,
        } = start;
        let side = if matches!(role, HandshakeRole::Client { .. }) { Side::Client } else { Side::Server };
        let protect = Protect::new(config.fec.as_ref(), path.remote.ip(), now);
        let traffic = Traffic::new(side, &config);
        let token = if let HandshakeRole::Client { token, .. } = &mut role {
            std::mem::take(token)
        } else {
            Vec::new()
        };
        let birth = Birth {
            side,
            path,
            trip,
            keys: KeyRing::new(side, session, initial),
            cids: Cids::new(local_cid, remote_cid),
            rng,
            version,
            token,
            now,
        };
        let mut link = PacketLink::new(birth, &config);
        if side.is_client() || matches!(role, HandshakeRole::Server { validated: true, .. }) {
            link.path.validate();
        }
        if let HandshakeRole::Server { second: Some(second), .. } = role {
            link.cids.add_told(second);
        }
        link.early = EarlyPackets::with(early);
        let life = Life {
            handshake: HandshakeState::new(role, remote_cid),
            confirmation: Confirmation::default(),
            lifecycle: Lifecycle::new(now, config.keep_alive, config.handshake_timeout),
            liveness: Liveness::new(config.ask_after.filter(|_| side.is_client())),
        };
        let mut this = Self {
            common: Common::new(side, version, config, Box::new(params), now),
            link,
            life,
            traffic,
            protect,
            allowance: MemoryAllowance::new(account),
            work: pace(),
            unread: VecDeque::new(),
            restless: true,
            scratch: ScratchBuffers::default(),
        };
        #[cfg(feature = "qlog")]
        this.common.begin_trace(&this.link.path, &this.link.cids, &this.link.path.recovery);
        this.trace_metrics(false);
        this.link.admit_early(&this.common);
        this.link.keys.drive()?;
        this.begin_early();
        Ok(this)
    }

    /// The connection cannot go on: the peer is told why, and so is the application.
    pub(crate) fn fail(&mut self, error: TransportError) {
        tracing::debug!(%error, "the connection fails");
        let farewell = CloseFrame::Transport(error.clone());
        let is_established = self.common.phase > Phase::Handshake;
        self.life.lifecycle.close(self.common.now, farewell, self.link.pto(), is_established);
        self.over(Closed::Failed(error));
    }

    /// Reports the end, once.
    pub(crate) fn over(&mut self, why: Closed) {
        if self.common.stats.closed.is_none() {
            self.traffic.collect(&mut self.common.events);
            self.trace_over(&why);
            self.common.stats.closed = Some(Box::new(why.clone()));
            self.common.events.push_back(Event::Closed(why));
            if let Some(trip) = self.link.path.recovery.sampled().filter(|_| self.link.path.is_validated()) {
                let peer = self.link.path.address.remote.ip();
                self.common.signals.push_back(Signal::Trip { peer, trip, at: self.common.now });
            }
        }
        let signal = if self.life.lifecycle.is_drained() { Signal::Drained } else { Signal::Over };
        self.common.signals.push_back(signal);
        self.let_go();
    }

    /// What only an open connection needs goes at its end, and not with the rest of it three probe timeouts
    /// later: a server whose clients come and go would hold a thousand such, each with its secrets.
    pub(crate) fn let_go(&mut self) {
        self.link.keys.end(self.life.lifecycle.listens());
        self.link.path.recovery.end();
        self.link.probes = [0; 3];
        self.link.early = EarlyPackets::default();
        self.unread = VecDeque::new();
    }

    fn on_time(&mut self) {
        let (now, pto) = (self.common.now, self.link.pto());
        match self.life.lifecycle.on_time(now, pto) {
            Expired::Silence => self.over(self.silence()),
            Expired::Drained => {
                self.common.qlog.drained(now);
                self.common.signals.push_back(Signal::Drained);
            }
            Expired::Nothing => {}
        }
        if !self.life.lifecycle.is_open() {
            return;
        }
        self.on_liveness();
        self.link.keys.on_time(now, pto);
        self.traffic.streams.on_time(&self.link.view(now, self.traffic.rate));
        self.traffic.expire_datagrams(now);
        self.protect.send.woken(now);
        if let Err(error) = self.recover() {
            self.fail(error);
            return;
        }
        self.on_loss_time();
    }

    /// Does what is due, tells what there is to tell, sends what may leave; `None` when all of that is
    /// nothing.
    fn act(&mut self, out: &mut Batch) -> Option<Poll> {
        if self.allowance.is_recalled() {
            self.give_way();
        }
        // A driver may be late; what is due is due.
        if self.deadline().is_some_and(|(t, reason)| {
            t <= self.common.now && reason != Reason::Pacing && reason != Reason::PathValidation
        }) {
            self.on_time();
        }
        let held = self.link.blockade.holds(self.common.now) && self.life.lifecycle.is_open();
        let probes = !held && self.link.candidates.is_due(self.common.now) && self.life.lifecycle.is_open();
        if probes {
            self.on_path_time();
        }
        self.traffic.collect(&mut self.common.events);
        if !self.common.events.is_empty() || !self.common.signals.is_empty() {
            return Some(Poll::Event);
        }
        if held {
            return None;
        }
        let acknowledged = self.link.acks.data.deadline().map(|(at, _)| at);
        self.traffic.time_piggyback(acknowledged, self.common.now + self.common.config.max_ack_delay);
        self.link.blockade.begin(Space::ALL.map(|space| self.link.path.recovery.next_number(space)));
        self.batch_out(out, probes).then(|| {
            self.link.blockade.handed_out();
            Poll::Send
        })
    }

    /// Makes a batch of what wants to leave and may. False when that is nothing.
    fn batch_out(&mut self, out: &mut Batch, probes: bool) -> bool {
        if probes
            && self.link.transmit_probe(&mut self.common, out).unwrap_or_else(|error| self.cannot(error))
        {
            return true;
        }
        if self.transmit_call(out) {
            return true;
        }
        if !self.life.lifecycle.is_drained() && self.transmit(out) {
            self.trace_metrics(false);
            return true;
        }
        // Behind all that somebody waits for.
        probes
            && self.life.lifecycle.is_open()
            && self.link.transmit_size(&mut self.common, out).unwrap_or_else(|error| self.cannot(error))
    }

    /// A packet that cannot be sealed is the end. False: there is none.
    #[cold]
    pub(crate) fn cannot(&mut self, error: TransportError) -> bool {
        self.fail(error);
        false
    }

    /// A call that is due: whether the path is there at all. False when none is.
    ///
    /// It is outside of congestion control, which has every reason to hold it back: few are sent, and they
    /// are small.
    fn transmit_call(&mut self, out: &mut Batch) -> bool {
        if !self.life.liveness.takes_call() || !self.life.lifecycle.is_open() {
            return false;
        }
        let called = self.link.ping_out(&mut self.common, out, LEAST, FrameToken::Nothing);
        called.map_or_else(|error| self.cannot(error), |()| true)
    }

    /// When something is due next, and what.
    fn deadline(&self) -> Option<(Time, Reason)> {
        let pto = self.link.pto();
        let ending = self.life.lifecycle.deadline(pto);
        if !self.life.lifecycle.is_open() {
            return ending;
        }
        let held = self.link.blockade.is_held();
        let rooms = [
            ending,
            self.link.blockade.deadline().map(|t| (t, Reason::Pacing)),
            self.link.path.recovery.deadline(self.link.may_probe()),
            // What may not be sent is not waited for: more has to come first.
            self.link.acks.data.deadline().filter(|_| self.link.may_probe()),
            self.link.held.paced_until.filter(|_| !held).map(|t| (t, Reason::Pacing)),
            // From then on it waits as all data does.
            self.traffic.piggyback_by.filter(|at| *at > self.common.now).map(|t| (t, Reason::AckDelay)),
            self.vigil_due().map(|t| (t, Reason::KeepAlive)),
            self.call_due().map(|t| (t, Reason::KeepAlive)),
            self.link.keys.deadline(pto),
            self.traffic.streams.deadline(),
            self.traffic.datagrams.deadline(),
            self.protect.deadline(),
            self.link.candidates.due().filter(|_| !held).map(|t| (t, Reason::PathValidation)),
        ];
        rooms.into_iter().flatten().min_by_key(|(t, _)| *t)
    }

    /// Invariants of all rooms.
    pub(crate) fn check(&self) {
        if !self.life.lifecycle.is_open() {
            return;
        }
        self.link.path.check();
        self.link.candidates.check();
        self.link.acks.iter().for_each(Acks::check);
        self.link.cids.check();
        self.traffic.check();
        self.protect.check();
        self.link.path.recovery.check();
    }

    /// The first of our connection ids, for logs and traces.
    pub fn id(&self) -> &ConnectionId {
        self.link.cids.first_local()
    }
}

impl Machine for Connection {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        self.common.now = now.max(self.common.now);
        match input {
            Input::Received(datagrams) => {
                self.link.come_home(datagrams);
                self.receive(datagrams);
            }
            Input::Timer => {
                self.restless = true;
                self.on_time();
            }
        }
    }

    fn poll(&mut self, now: Time, out: &mut Batch) -> Poll {
        self.common.now = now.max(self.common.now);
        loop {
            if let Some(poll) = self.act(out) {
                return poll;
            }
            if self.unread.is_empty() || !self.receive_next() {
                break;
            }
        }
        if cfg!(any(test, all(debug_assertions, feature = "null"))) {
            self.check();
        }
        self.settle_allowance();
        self.rest();
        let deadline = self.deadline();
        self.common.qlog.rest(self.common.now, deadline.map(|(t, _)| t));
        match deadline {
            Some((t, reason)) => Poll::Sleep(Some(t), reason),
            None => Poll::Sleep(None, Reason::Idle),
        }
    }
}

/// A violation of the protocol by the peer.
pub(crate) fn violation(reason: &'static str) -> TransportError {
    TransportError::new(Code::PROTOCOL_VIOLATION, reason)
}
