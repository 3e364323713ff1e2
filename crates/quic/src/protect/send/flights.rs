use std::collections::VecDeque;

use quickset_base::Time;
use quickset_base::number::index;

use super::span::{Cover, RepairFate, SpanRepair};

/// The repair symbols of a lane, in the order of sending, as long as they say something of what is missing.
#[derive(Debug, Default)]
pub(super) struct RepairFlights {
    repairs: VecDeque<SpanRepair>,
    /// The number of the first of them.
    base: u64,
    flying: u64,
}

impl RepairFlights {
    /// The number of the next repair symbol.
    pub(super) fn next(&self) -> u64 {
        self.base + self.repairs.len() as u64
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.flying
    }

    /// One was sent.
    pub(super) fn push(&mut self, cover: Cover, now: Time) {
        self.repairs.push_back(SpanRepair { cover, sent: now, fate: RepairFate::InFlight });
        self.flying += 1;
    }

    /// Number `serial` arrived, or was lost.
    pub(super) fn settled(&mut self, serial: u64, arrived: bool) {
        let Some(at) = serial.checked_sub(self.base) else { return };
        if let Some(repair) = self.repairs.get_mut(index(at)).filter(|r| r.fate == RepairFate::InFlight) {
            self.flying -= 1;
            repair.fate = if arrived { RepairFate::Acked } else { RepairFate::Lost };
        }
    }

    /// Those of this fate.
    pub(super) fn with(&self, fate: RepairFate) -> impl Iterator<Item = &SpanRepair> {
        self.repairs.iter().filter(move |repair| repair.fate == fate)
    }

    /// Forgets those that concern nothing from SID `first` on.
    pub(super) fn prune(&mut self, first: u64) {
        while let Some(front) = self.repairs.front() {
            if front.fate == RepairFate::InFlight
                || (front.cover.end() > first && front.fate == RepairFate::Acked)
            {
                break;
            }
            self.repairs.pop_front();
            self.base += 1;
        }
    }
}
