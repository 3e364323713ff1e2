//! What a page in a browser calls: both halves with plain values and a clock in milliseconds. The library in
//! `page/fences` drives them.
//!
//! Numbers of messages are exact up to 2^53. A panic becomes an exception that says what it was.

use bytes::Bytes;
use quickset_base::number::{Float as _, Unsigned as _};
use quickset_base::{Duration, Time};
use wasm_bindgen::prelude::*;

use crate::format::MOST_PAYLOAD;
use crate::{DatagramFault, FencedReceiver, FencedSender, SenderOptions};

/// The sending half, with the contract of [`FencedSender`].
#[wasm_bindgen]
#[derive(Debug)]
pub struct WasmFencedSender(FencedSender);

/// The receiving half, with the contract of [`FencedReceiver`].
#[wasm_bindgen]
#[derive(Debug)]
pub struct WasmFencedReceiver(FencedReceiver);

/// What became of a message.
#[wasm_bindgen]
#[derive(Clone, Copy, Debug)]
pub struct WasmOutcome {
    /// Of the message.
    #[wasm_bindgen(readonly)]
    pub number: f64,
    /// Whether it has arrived; otherwise it was given up.
    #[wasm_bindgen(readonly)]
    pub arrived: bool,
}

/// Panics become exceptions, with what they say.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| {
        wasm_bindgen::throw_str(&format!("a fault of this library: {panic}"))
    }));
}

#[wasm_bindgen]
impl WasmFencedSender {
    /// A sender on a path of this round trip, as far as one knows, in milliseconds.
    #[wasm_bindgen(constructor)]
    pub fn new(round_trip_ms: f64) -> Self {
        Self(FencedSender::new(SenderOptions { rtt: duration(round_trip_ms) }))
    }

    /// The longest message, in bytes, that fits datagrams of `datagram` bytes with its repair.
    pub fn longest(&self, datagram: u32) -> u32 {
        let longest = self.0.longest(usize::try_from(datagram).unwrap_or(usize::MAX)) as u64;
        longest.saturated()
    }

    /// Whether another message may be queued.
    pub fn has_room(&self) -> bool {
        self.0.has_room()
    }

    /// Queues a message and returns its number.
    ///
    /// # Errors
    /// When it is longer than any message may be, or there is no room.
    pub fn message(&mut self, payload: &[u8], keep: bool) -> Result<f64, JsError> {
        if payload.len() > MOST_PAYLOAD {
            return Err(JsError::new("a message is longer than 16384 bytes; cut it"));
        }
        if !self.0.has_room() {
            return Err(JsError::new("too many messages are under way; wait until there is room"));
        }
        Ok(self.0.message(Bytes::copy_from_slice(payload), keep).approx())
    }

    /// Nothing that is queued later is delivered before what was queued so far.
    pub fn fence(&mut self) {
        self.0.fence();
    }

    /// Queues `count` repair datagrams.
    pub fn repair(&mut self, count: u32) {
        self.0.repair(count);
    }

    /// How many repair datagrams are worth while now.
    pub fn repairs_due(&self) -> u32 {
        self.0.repairs_due()
    }

    /// Gives a message up.
    pub fn abandon(&mut self, number: f64) {
        self.0.abandon(number.whole());
    }

    /// The next datagram to send, if there is one.
    pub fn poll(&mut self, now_ms: f64) -> Option<Vec<u8>> {
        self.0.poll(time(now_ms))
    }

    /// Takes a datagram of the peer's receiver; others are passed over.
    ///
    /// # Errors
    /// What is wrong with it: the session is to be ended.
    pub fn report(&mut self, now_ms: f64, datagram: &[u8]) -> Result<(), JsError> {
        self.0.report(time(now_ms), datagram).map_err(broken)
    }

    /// What became of the next message of which it is known.
    pub fn next_outcome(&mut self) -> Option<WasmOutcome> {
        self.0.next_outcome().map(|(number, arrived)| WasmOutcome { number: number.approx(), arrived })
    }

    /// When to poll even if nothing happens, in milliseconds of the page's clock.
    pub fn next_deadline(&self) -> Option<f64> {
        self.0.next_deadline().map(milliseconds)
    }

    /// Messages sent, sent again, repair datagrams, messages computed from repair by the peer, and given up.
    pub fn figures(&self) -> Vec<f64> {
        let stats = self.0.stats();
        let counts = [stats.messages, stats.resent, stats.repairs, stats.recovered, stats.abandoned];
        counts.map(quickset_base::number::Unsigned::approx).to_vec()
    }
}

#[wasm_bindgen]
impl WasmFencedReceiver {
    /// A receiver that waits for the first sequence.
    #[wasm_bindgen(constructor)]
    #[expect(clippy::new_without_default, reason = "JavaScript has only the constructor")]
    pub fn new() -> Self {
        Self(FencedReceiver::new())
    }

    /// Takes a datagram of the peer's sender; others are passed over.
    ///
    /// # Errors
    /// What is wrong with it: the session is to be ended.
    pub fn receive(&mut self, now_ms: f64, datagram: &[u8]) -> Result<(), JsError> {
        self.0.receive(time(now_ms), datagram).map_err(broken)
    }

    /// The next message that is delivered.
    #[expect(clippy::should_implement_trait, reason = "there may be more after there was none")]
    pub fn next(&mut self) -> Option<Vec<u8>> {
        self.0.next().map(|message| message.to_vec())
    }

    /// A report for the sender, when one is due.
    pub fn report(&mut self, now_ms: f64) -> Option<Vec<u8>> {
        self.0.report(time(now_ms))
    }

    /// When to ask for a report even if nothing comes, in milliseconds of the page's clock.
    pub fn next_deadline(&self) -> Option<f64> {
        self.0.next_deadline().map(milliseconds)
    }

    /// Messages that came by themselves, that were computed, and that the peer gave up.
    pub fn figures(&self) -> Vec<f64> {
        let stats = self.0.stats();
        [stats.messages, stats.recovered, stats.gone].map(quickset_base::number::Unsigned::approx).to_vec()
    }
}

fn broken(fault: DatagramFault) -> JsError {
    JsError::new(&format!("the other end does not speak as it should: {fault}"))
}

fn time(ms: f64) -> Time {
    Time::from_micros((ms * 1000.0).whole())
}

fn duration(ms: f64) -> Duration {
    Duration::from_micros((ms * 1000.0).whole())
}

fn milliseconds(time: Time) -> f64 {
    time.as_nanos().approx() / 1e6
}
