//! When the driver has its next turn, at the latest.

use std::pin::Pin;
use std::task::Context;

use quickset_base::Time;

use crate::hub::Hub;
use crate::runtime::RuntimeTimer;

/// The runtime's timer, set to the next of ours.
pub(super) struct Alarm {
    timer: Pin<Box<dyn RuntimeTimer>>,
    at: Option<Time>,
}

impl Alarm {
    /// Not set.
    pub(super) fn new(hub: &Hub) -> Self {
        Self { timer: hub.runtime().timer(hub.instant(hub.now())), at: None }
    }

    /// Sets the alarm. True when it is time already.
    pub(super) fn set(&mut self, cx: &mut Context<'_>, hub: &Hub, next: Option<Time>) -> bool {
        let Some(next) = next else {
            return false;
        };
        // An alarm that is early is cheaper than one that is set again with every packet.
        if self.at.is_none_or(|at| next < at) {
            self.timer.as_mut().reset(hub.instant(next));
            self.at = Some(next);
        }
        let rings = self.timer.as_mut().poll(cx).is_ready();
        if rings {
            self.at = None;
        }
        rings
    }
}
