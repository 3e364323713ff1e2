use std::collections::BTreeSet;

use quickset_base::Time;

/// The timers of all connections of an endpoint: one each.
///
/// Most timers move further away with every packet. Such a move costs a store: the entry fires at its old
/// time, is found to be early and goes back in. One that moves closer takes its entry along, so that a
/// connection has one, however often it falls idle and wakes.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    entries: BTreeSet<(Time, usize)>,
}

/// One connection's part of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timer {
    /// When it is due.
    due: Option<Time>,
    /// The time of its entry; never later than `due`.
    entry: Option<Time>,
}

impl Timers {
    /// Sets the timer of connection `index`.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, timer: &mut Timer, due: Option<Time>) {
        timer.due = due;
        let Some(due) = due else { return };
        if timer.entry.is_none_or(|entry| due < entry) {
            self.forget(index, timer);
            timer.entry = Some(due);
            self.entries.insert((due, index));
        }
    }

    /// The connection is no more, or has another entry.
    pub(crate) fn forget(&mut self, index: usize, timer: &mut Timer) {
        if let Some(entry) = timer.entry.take() {
            self.entries.remove(&(entry, index));
        }
    }

    /// The time of the next entry, which may prove to be early.
    #[inline]
    pub(crate) fn next(&self) -> Option<Time> {
        self.entries.first().map(|(time, _)| *time)
    }

    /// Takes an entry whose time has come. The caller asks [`Self::is_due`] what it is worth.
    pub(crate) fn pop(&mut self, now: Time) -> Option<(Time, usize)> {
        (self.next()? <= now).then(|| self.entries.pop_first())?
    }

    /// Whether the timer whose entry was popped is due. If it moved away meanwhile, it is entered again.
    pub(crate) fn is_due(&mut self, now: Time, popped: (Time, usize), timer: &mut Timer) -> bool {
        let (time, index) = popped;
        if timer.entry != Some(time) {
            // One of an earlier owner of the index.
            return false;
        }
        timer.entry = None;
        match timer.due {
            Some(due) if due <= now => {
                timer.due = None;
                true
            }
            due => {
                self.set(index, timer, due);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use quickset_base::{Rng, Seed, number};

    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn fire(timers: &mut Timers, all: &mut [Timer], now: Time) -> Vec<usize> {
        let mut due = Vec::new();
        while let Some(popped) = timers.pop(now) {
            if timers.is_due(now, popped, &mut all[popped.1]) {
                due.push(popped.1);
            }
        }
        due
    }

    #[test]
    fn each_fires_once_and_at_its_last_setting() {
        let mut timers = Timers::default();
        let mut all = [Timer::default(); 3];
        for (index, due) in [(0, 10), (1, 20), (2, 30), (0, 25), (1, 5)] {
            timers.set(index, &mut all[index], Some(at(due)));
        }
        assert!(fire(&mut timers, &mut all, at(4)).is_empty());
        assert_eq!(fire(&mut timers, &mut all, at(10)), [1]);
        assert!(fire(&mut timers, &mut all, at(24)).is_empty());
        assert_eq!(fire(&mut timers, &mut all, at(30)), [0, 2]);
        assert_eq!(timers.next(), None);
    }

    /// Connections that are idle, say something and are idle again, against a list that is searched.
    #[test]
    fn timers_that_move_to_and_fro_have_one_entry_each() {
        let mut rng = Rng::new(Seed([7; 32]));
        let mut timers = Timers::default();
        let mut all = [Timer::default(); 4];
        let mut expected = [None; 4];
        for ms in 0..20_000 {
            let index = number::index(rng.below(4));
            let due = match rng.below(4) {
                0 => None,
                1 => Some(at(ms + 30_000)),
                _ => Some(at(ms + rng.below(4))),
            };
            timers.set(index, &mut all[index], due);
            expected[index] = due;
            let mut due: Vec<_> = (0..4).filter(|index| expected[*index] <= Some(at(ms))).collect();
            due.retain(|index| expected[*index].take().is_some());
            let mut fired = fire(&mut timers, &mut all, at(ms));
            fired.sort_unstable();
            assert_eq!(fired, due, "at {ms} ms");
            assert!(timers.entries.len() <= all.len(), "{} entries at {ms} ms", timers.entries.len());
        }
    }

    #[test]
    fn a_timer_that_moves_away_costs_no_entries() {
        let mut timers = Timers::default();
        let mut timer = Timer::default();
        for ms in 0..1000 {
            timers.set(0, &mut timer, Some(at(1000 + ms)));
        }
        assert_eq!(timers.entries.len(), 1);
        timers.set(0, &mut timer, None);
        assert!(fire(&mut timers, &mut [timer], at(5000)).is_empty());
        assert_eq!(timers.entries.len(), 0);
    }
}
