use std::cmp::Reverse;
use std::collections::BinaryHeap;

use quickset_base::Time;

/// The timers of all connections of an endpoint: one each.
///
/// Most timers move further away with every packet. Such a move costs a store: the entry in the heap
/// fires at its old time, is found to be early and goes back in.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Time, usize)>>,
}

/// One connection's part of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timer {
    /// When it is due.
    due: Option<Time>,
    /// The time of its entry in the heap; never later than `due`.
    entry: Option<Time>,
}

impl Timers {
    /// Sets the timer of connection `index`.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, timer: &mut Timer, due: Option<Time>) {
        timer.due = due;
        let Some(due) = due else { return };
        if timer.entry.is_none_or(|entry| due < entry) {
            timer.entry = Some(due);
            self.heap.push(Reverse((due, index)));
        }
    }

    /// The time of the next entry, which may prove to be early.
    #[inline]
    pub(crate) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((time, _))| *time)
    }

    /// Takes an entry whose time has come. The caller asks [`Self::is_due`] what it is worth.
    pub(crate) fn pop(&mut self, now: Time) -> Option<(Time, usize)> {
        (self.next()? <= now).then(|| self.heap.pop().map(|Reverse(entry)| entry))?
    }

    /// Whether the timer whose entry was popped is due. If it moved away meanwhile, it is entered again.
    pub(crate) fn is_due(&mut self, now: Time, popped: (Time, usize), timer: &mut Timer) -> bool {
        let (time, index) = popped;
        if timer.entry != Some(time) {
            // A later entry than the one that counts, or one of an earlier owner of the index.
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

    #[test]
    fn a_timer_that_moves_away_costs_no_entries() {
        let mut timers = Timers::default();
        let mut timer = Timer::default();
        for ms in 0..1000 {
            timers.set(0, &mut timer, Some(at(1000 + ms)));
        }
        assert_eq!(timers.heap.len(), 1);
        timers.set(0, &mut timer, None);
        assert!(fire(&mut timers, &mut [timer], at(5000)).is_empty());
        assert_eq!(timers.heap.len(), 0);
    }
}
