//! How far the screen has been sent, for a client to compare.

use quickset_base::{Duration, Time};
use quickset_rfb::Framebuffer;

use crate::message::ScreenMark;

/// The last mark.
#[derive(Debug, Default)]
pub(super) struct ScreenMarks {
    last: Option<ScreenMark>,
    at: Time,
}

impl ScreenMarks {
    /// The mark that is due; with `rest` nothing is left to send.
    pub(super) fn due(
        &mut self,
        now: Time,
        epoch: u64,
        items: u64,
        rest: Option<&Framebuffer>,
    ) -> Option<ScreenMark> {
        let seen = self.last.filter(|last| (last.epoch, last.items) == (epoch, items));
        // DT-36.
        let due = match rest {
            Some(_) => seen.is_none_or(|last| last.sum.is_none()),
            None => epoch > 0 && seen.is_none() && now >= self.at + EVERY,
        };
        if !due {
            return None;
        }
        let mark = ScreenMark { epoch, items, sum: rest.map(Framebuffer::crc32) };
        (self.last, self.at) = (Some(mark), now);
        Some(mark)
    }

    /// When a mark will be due that is not now.
    pub(super) fn deadline(&self, epoch: u64, items: u64) -> Option<Time> {
        let seen = self.last.is_some_and(|last| (last.epoch, last.items) == (epoch, items));
        (epoch > 0 && !seen).then(|| self.at + EVERY)
    }
}

/// DT-36, with some margin.
const EVERY: Duration = Duration::from_millis(900);
