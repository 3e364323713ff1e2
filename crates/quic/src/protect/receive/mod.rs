//! The decoding half of forward erasure correction: sessions of the peer, what is missing of them, what was recovered.
//!
//! *In:* SOURCE_SYMBOL and REPAIR frames, packet by packet; news that a SYMBOL_ACK of ours arrived. *Out:* whether a
//! symbol's frames are to be dispatched, recovered symbols, SYMBOL_ACK and FEC_WINDOW frames.
//!
//! Invariants: each SID of the window is handed out once, received or recovered; sessions are made as they are used
//! and are fewer than we offered; what a packet makes us compute is at most [`BUDGET`] bytes at a time, the rest waits.
//!
//! Source: `spec/fec.md`, sections 5 to 13.

mod news;
mod window;

use bytes::{Bytes, BytesMut};
use quickset_base::{Duration, Time};
use quickset_fec::online::{self, Decoder, Limits};
use quickset_fec::{BadEquation, Equation};
use quickset_wire::frame::Frame;
use quickset_wire::{Scheme, Schemes, TransportErrorCode as Code};

use crate::error::TransportError;
use crate::room::Want;
use crate::token::Token;
use crate::tx::Writer;
use news::News;
use window::Window;

/// All sessions of the peer.
#[derive(Debug)]
pub(crate) struct Receiving {
    offer: Offer,
    /// By n; only as many as were used.
    sessions: Vec<Option<Box<Session>>>,
    window: Window,
    /// Packets taken so far, to tell the symbols of one from those of the next.
    packets: u64,
    last_ping: Option<Time>,
    counts: Counts,
}

/// What we announced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// Symbols kept of each session.
    pub(crate) window: u64,
    pub(crate) sessions: u64,
    /// Bytes of a symbol at most.
    pub(crate) symbol: usize,
    pub(crate) schemes: Schemes,
}

/// What becomes of the frames in a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dispatch {
    All,
    /// It is below the window: whether it came before is not known (FEC-21).
    WithoutDatagrams,
    /// They were dispatched before.
    No,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) sources: u64,
    pub(crate) repairs: u64,
    pub(crate) recovered: u64,
}

#[derive(Debug)]
struct Session {
    scheme: Scheme,
    decoder: Decoder,
    news: News,
    /// The packet that the last symbol came in.
    packet: u64,
    /// Bytes of the longest repair symbol.
    longest: usize,
}

impl Receiving {
    pub(crate) fn new(offer: Offer) -> Self {
        Self {
            offer,
            sessions: Vec::new(),
            window: Window::new(offer.window),
            packets: 1,
            last_ping: None,
            counts: Counts::default(),
        }
    }

    /// A SOURCE_SYMBOL.
    ///
    /// # Errors
    /// FEC_ERROR (FEC-61).
    pub(crate) fn on_source(
        &mut self,
        number: u64,
        sid: u64,
        data: &[u8],
    ) -> Result<Dispatch, TransportError> {
        let packet = self.packets;
        let session = self.session(number)?;
        // FEC-15.
        if session.packet == packet {
            return Err(error("two symbols of a session in a packet"));
        }
        session.packet = packet;
        let dispatch = match session.decoder.source(sid, data).map_err(fault)? {
            online::Source::New => Dispatch::All,
            online::Source::Below => Dispatch::WithoutDatagrams,
            online::Source::Duplicate | online::Source::Recovered => Dispatch::No,
        };
        session.news.forget_below(session.decoder.low());
        self.counts.sources += u64::from(dispatch != Dispatch::No);
        Ok(dispatch)
    }

    /// A REPAIR.
    ///
    /// # Errors
    /// FEC_ERROR (FEC-61).
    pub(crate) fn on_repair(&mut self, frame: &Frame<'_>) -> Result<(), TransportError> {
        let Frame::Repair { session, first, count, parameter, index, data } = *frame else { return Ok(()) };
        // FEC-48: what was within any window of ours is no error.
        if count > self.window.largest() {
            return Err(error("a repair over more symbols than were ever offered"));
        }
        let session = self.session(session)?;
        let equation = match session.scheme {
            Scheme::Xor => Equation::xor(first, count, parameter, index),
            Scheme::Grid => Equation::xor2d(first, count, parameter, index),
            Scheme::ReedSolomon => Equation::reed_solomon(first, count, parameter, index),
            Scheme::Rlc if parameter != 0 => return Err(error("a parameter where there is none")),
            Scheme::Rlc => {
                // FEC-38: the encoder goes on, so it knows or does not care.
                session.news.forget_below(first);
                Equation::rlc(first, count, index)
            }
            Scheme::Ldpc => return Ok(()),
        };
        let equation = equation.map_err(|bad: BadEquation| error_of(bad.to_string()))?;
        session.decoder.repair(&equation, data).map_err(fault)?;
        session.longest = session.longest.max(data.len());
        session.news.forget_below(session.decoder.low());
        self.counts.repairs += 1;
        Ok(())
    }

    /// The frames of a packet are through.
    pub(crate) fn end_packet(&mut self) {
        self.packets += 1;
    }

    /// Whether missing symbols can be computed.
    pub(crate) fn has_work(&self) -> bool {
        self.sessions.iter().flatten().any(|session| session.decoder.has_work())
    }

    /// Computes some of them: at most [`BUDGET`] bytes are multiplied and added (FEC-60), and what one symbol takes
    /// more. Returns how many it was.
    pub(crate) fn work(&mut self) -> usize {
        let mut spent = 0;
        for session in self.sessions.iter_mut().flatten() {
            while spent < BUDGET && session.decoder.has_work() {
                spent += session.decoder.work(BUDGET - spent).max(1);
            }
        }
        spent
    }

    /// The next symbol that was recovered, by session and SID; each once.
    pub(crate) fn next_recovered(&mut self) -> Option<(u64, u64, Bytes)> {
        for (n, session) in self.sessions.iter_mut().enumerate() {
            let Some(session) = session else { continue };
            if let Some((sid, data)) = session.decoder.next_recovered() {
                // How many zeros a symbol ends with is not coded, and those too many are PADDING.
                let mut symbol = BytesMut::with_capacity(session.longest.max(data.len()));
                symbol.extend_from_slice(data);
                symbol.resize(session.longest.max(data.len()), 0);
                session.news.recovered(sid);
                self.counts.recovered += 1;
                return Some((session.scheme.session(n as u64), sid, symbol.freeze()));
            }
        }
        None
    }

    /// Tells what was recovered and is news (FEC-38); called when an ACK was written. With a packet that nobody would
    /// acknowledge goes a PING, one in a round trip (FEC-41).
    pub(crate) fn write_acks(&mut self, w: &mut Writer<'_>, now: Time, rtt: Duration) {
        let mut any = false;
        for (n, session) in self.sessions.iter_mut().enumerate() {
            let Some(session) = session.as_deref_mut().filter(|session| !session.news.is_empty()) else {
                continue;
            };
            any |= session.news.write(w, session.scheme.session(n as u64));
        }
        let may_ask = self.last_ping.is_none_or(|at| now.since(at) >= rtt);
        if any && may_ask && !w.is_eliciting() && w.put(&Frame::Ping, Token::Nothing) {
            self.last_ping = Some(now);
        }
    }

    /// A SYMBOL_ACK of ours arrived.
    pub(crate) fn acked(&mut self, session: u32, epoch: u64) {
        if let Some(Some(session)) = self.sessions.get_mut(session as usize >> 3) {
            session.news.acked(epoch);
        }
    }

    /// From now on so many symbols of each session are kept.
    pub(crate) fn set_window(&mut self, window: u64) {
        if self.window.set(window) {
            let symbols = usize::try_from(window.max(1)).unwrap_or(usize::MAX);
            self.sessions.iter_mut().flatten().for_each(|session| session.decoder.set_window(symbols));
        }
    }

    /// Whether a FEC_WINDOW is to be sent.
    pub(crate) fn want(&self) -> Want {
        self.window.want()
    }

    /// Sends it (FEC-45).
    pub(crate) fn write(&mut self, w: &mut Writer<'_>) {
        self.window.write(w);
    }

    /// A FEC_WINDOW of ours arrived.
    pub(crate) fn window_acked(&mut self, epoch: u64) {
        self.window.acked(epoch);
    }

    /// A FEC_WINDOW of ours was lost.
    pub(crate) fn window_lost(&mut self, epoch: u64) {
        self.window.lost(epoch);
    }

    /// What was counted.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// The session of this number; made when it is used first.
    fn session(&mut self, number: u64) -> Result<&mut Session, TransportError> {
        let n = number >> 3;
        let scheme = Scheme::of(number).filter(|scheme| self.offer.schemes.has(*scheme));
        let Some(scheme) = scheme else { return Err(error("a scheme that was not offered")) };
        if n >= self.offer.sessions || self.offer.window == 0 {
            return Err(error("a session beyond those offered"));
        }
        let at = n as usize;
        if self.sessions.len() <= at {
            self.sessions.resize_with(at + 1, || None);
        }
        let (window, symbol_size) = (self.window.now(), self.offer.symbol);
        let session = self.sessions[at].get_or_insert_with(|| {
            let window = usize::try_from(window).unwrap_or(usize::MAX);
            let decoder = Decoder::new(Limits { window, symbol_size, max_unknowns: MAX_UNKNOWNS });
            Box::new(Session { scheme, decoder, news: News::default(), packet: 0, longest: 0 })
        });
        // FEC-12.
        if session.scheme != scheme {
            return Err(error("two schemes of one session"));
        }
        Ok(session)
    }
}

fn error(why: &'static str) -> TransportError {
    TransportError::new(Code::FEC_ERROR, why)
}

fn error_of(why: String) -> TransportError {
    TransportError::new(Code::FEC_ERROR, why)
}

fn fault(fault: online::Fault) -> TransportError {
    error_of(fault.to_string())
}

/// Bytes of payload that are computed for each received packet at most: 20 to 60 microseconds.
const BUDGET: usize = 512 << 10;

/// Missing symbols of a session that repair symbols may name. Elimination costs their square for each repair symbol.
const MAX_UNKNOWNS: usize = 64;
