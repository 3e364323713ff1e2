use quickset_wire::frame::Frame;

use crate::packet::{FrameToken, PacketWriter, Want};

/// How many symbols of a session are kept, and whether the encoder knows (FEC_WINDOW).
#[derive(Debug)]
pub(super) struct SymbolWindow {
    now: u64,
    /// The largest that was ever offered.
    largest: u64,
    /// The peer has made an offer, too.
    agreed: bool,
    /// Of the latest FEC_WINDOW; 0: there was none.
    epoch: u64,
    due: bool,
    lost: bool,
}

impl SymbolWindow {
    pub(super) fn new(window: u64) -> Self {
        Self { now: window, largest: window, agreed: false, epoch: 0, due: false, lost: false }
    }

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn largest(&self) -> u64 {
        self.largest
    }

    /// Changes it. False when that is no change, or not allowed: who offered to decode nothing has no window
    /// (FEC-45).
    pub(super) fn set(&mut self, window: u64) -> bool {
        if self.largest == 0 || window == self.now {
            return false;
        }
        self.now = window;
        self.largest = self.largest.max(window);
        self.epoch += 1;
        self.due = self.agreed;
        self.lost = false;
        true
    }

    /// FEC-1: from here on it may be told, and what was changed before is. A peer that offers nothing never
    /// hears of it, and early data is before that (FEC-2).
    pub(super) fn agree(&mut self) {
        self.agreed = true;
        self.due = self.epoch > 0;
    }

    pub(super) fn want(&self) -> Want {
        match (self.lost, self.due) {
            (true, _) => Want::Lost,
            (false, true) => Want::Data,
            (false, false) => Want::None,
        }
    }

    pub(super) fn write(&mut self, w: &mut PacketWriter<'_>) {
        let (epoch, window) = (self.epoch, self.now);
        if self.want() > Want::None
            && w.put(&Frame::FecWindow { epoch, window }, FrameToken::FecWindow { epoch })
        {
            self.due = false;
            self.lost = false;
        }
    }

    pub(super) fn acked(&mut self, epoch: u64) {
        self.lost &= epoch != self.epoch;
    }

    /// FEC-47: sent again, unless a later one was.
    pub(super) fn lost(&mut self, epoch: u64) {
        self.lost |= epoch == self.epoch;
    }
}
