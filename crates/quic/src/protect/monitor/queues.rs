use quickset_base::Time;
use quickset_base::number::Unsigned as _;

/// How many of the losses of the last second came with a full queue. It is that of the last 200 packets where
/// these took longer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queues {
    /// The present fifth of a second first.
    steps: [QueueStep; STEPS],
    ends: Time,
}

#[derive(Clone, Copy, Debug, Default)]
struct QueueStep {
    packets: u64,
    lost: u64,
    queued: u64,
}

impl Queues {
    /// What is pushed from now on happens then.
    #[inline]
    pub(super) fn set_time(&mut self, now: Time) {
        if now < self.ends {
            return;
        }
        let steps = 1 + (now.as_nanos() - self.ends.as_nanos()) / STEP_NS;
        self.ends = Time::from_nanos((now.as_nanos() / STEP_NS + 1).saturating_mul(STEP_NS));
        for _ in 0..steps.min(STEPS as u64) {
            let older: u64 = self.steps[..STEPS - 1].iter().map(|step| step.packets).sum();
            if older < LEAST {
                // The oldest is still needed: the step goes on.
                break;
            }
            self.steps.rotate_right(1);
            self.steps[0] = QueueStep::default();
        }
    }

    /// `packets` became events, of which `lost` were lost, with a full queue if it is `queued`.
    #[inline]
    pub(super) fn push(&mut self, packets: u64, lost: u64, queued: bool) {
        let step = &mut self.steps[0];
        step.packets += packets;
        step.lost += lost;
        step.queued += if queued { lost } else { 0 };
    }

    /// A loss of late was none.
    pub(super) fn forgive(&mut self) {
        if let Some(step) = self.steps.iter_mut().find(|step| step.lost > 0) {
            step.lost -= 1;
            step.queued = step.queued.min(step.lost);
        }
    }

    /// Of the losses, if there are any.
    pub(super) fn share(&self) -> f64 {
        let sum = |of: fn(&QueueStep) -> u64| self.steps.iter().map(of).sum::<u64>();
        match sum(|step| step.lost) {
            0 => 0.0,
            lost => sum(|step| step.queued).approx() / lost.approx(),
        }
    }
}

const STEPS: usize = 5;
const STEP_NS: u64 = 200_000_000;
/// Packets that are looked at, at least.
const LEAST: u64 = 200;
