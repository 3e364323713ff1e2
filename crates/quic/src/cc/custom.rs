use std::fmt;
use std::sync::Arc;

use quickset_base::Time;

use super::{Congestion, CongestionControl, Feedback, PacketState, TransmittedPacket};

/// A congestion controller of the application's own: what
/// [`Algorithm::Custom`](super::Algorithm::Custom) holds.
///
/// What the controller allows is bounded where a mistake in it would stop a connection for good: the window
/// is no smaller than two packets (RFC 9002 §7.2), and the rate no smaller than a byte a second.
#[derive(Clone)]
pub struct CustomController {
    name: Arc<str>,
    make: Arc<MakeController>,
}

type MakeController = dyn Fn(u64, Time) -> Box<dyn Congestion> + Send + Sync;

impl CustomController {
    /// `make` builds the controller of one path, for UDP payloads of so many bytes, at this time. It is
    /// called for each path that a connection comes to use. `name` is what logs call it.
    pub fn new(name: &str, make: impl Fn(u64, Time) -> Box<dyn Congestion> + Send + Sync + 'static) -> Self {
        Self { name: name.into(), make: Arc::new(make) }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn build(&self, mtu: u64, now: Time) -> Box<dyn Congestion> {
        Box::new(Bounded { inner: (self.make)(mtu, now), least: LEAST_PACKETS * mtu })
    }
}

/// Clones of one are equal.
impl PartialEq for CustomController {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.make, &other.make)
    }
}

impl Eq for CustomController {}

impl fmt::Debug for CustomController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Custom").field(&self.name).finish()
    }
}

/// Another's controller, and what it allows at least.
#[derive(Debug)]
struct Bounded {
    inner: Box<dyn Congestion>,
    least: u64,
}

impl Congestion for Bounded {
    fn on_sent(&mut self, sent: &TransmittedPacket) -> PacketState {
        self.inner.on_sent(sent)
    }

    fn on_feedback(&mut self, feedback: &Feedback<'_>) {
        self.inner.on_feedback(feedback);
    }

    fn set_mtu(&mut self, mtu: u64) {
        self.least = LEAST_PACKETS * mtu;
        self.inner.set_mtu(mtu);
    }

    fn control(&self) -> CongestionControl {
        let control = self.inner.control();
        CongestionControl {
            window: control.window.max(self.least),
            rate: control.rate.map(|rate| rate.max(1)),
            ..control
        }
    }
}

/// RFC 9002 §7.2, kMinimumWindow.
const LEAST_PACKETS: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Nothing;

    impl Congestion for Nothing {
        fn on_sent(&mut self, _: &TransmittedPacket) -> PacketState {
            PacketState::default()
        }

        fn on_feedback(&mut self, _: &Feedback<'_>) {}

        fn set_mtu(&mut self, _: u64) {}

        fn control(&self) -> CongestionControl {
            CongestionControl { window: 0, rate: Some(0), ..CongestionControl::default() }
        }
    }

    #[test]
    fn two_packets_may_always_be_in_flight() {
        let mine = CustomController::new("nothing", |_, _| Box::new(Nothing));
        let mut controller = mine.build(1200, Time::ZERO);
        assert_eq!((controller.control().window, controller.control().rate), (2400, Some(1)));
        controller.set_mtu(1452);
        assert_eq!(controller.control().window, 2904);
    }
}
