use quickset_base::Duration;

use super::{Congestion, CongestionControl, Feedback, PacketState, PathView, TransmittedPacket};

/// A fixed rate, whatever happens. The window is only there so that a dead path does not collect packets
/// without end: twice what the rate puts in flight over the longest round trip seen.
#[derive(Debug)]
pub(crate) struct Fixed {
    bytes_per_second: u64,
    least_window: u64,
    longest_rtt: Duration,
}

impl Fixed {
    pub(crate) fn new(bits_per_second: u64, mtu: u64) -> Self {
        Self {
            bytes_per_second: (bits_per_second / 8).max(1),
            least_window: BATCH * mtu,
            // No path that anybody uses is longer; before a sample the window must not be what limits.
            longest_rtt: Duration::from_secs(1),
        }
    }
}

impl Congestion for Fixed {
    fn on_sent(&mut self, _sent: &TransmittedPacket) -> PacketState {
        PacketState::default()
    }

    fn on_feedback(&mut self, feedback: &Feedback<'_>) {
        if let Some(rtt) = feedback.rtt {
            self.longest_rtt = self.longest_rtt.max(rtt);
        }
    }

    fn set_mtu(&mut self, mtu: u64) {
        self.least_window = BATCH * mtu;
    }

    fn control(&self) -> CongestionControl {
        let longest = self.longest_rtt.as_nanos();
        let window = 2 * u128::from(self.bytes_per_second) * longest / 1_000_000_000;
        CongestionControl {
            window: u64::try_from(window).unwrap_or(u64::MAX).max(self.least_window),
            rate: Some(self.bytes_per_second),
            slow_start: false,
            prompt: false,
            view: PathView { state: "fixed", ..PathView::default() },
        }
    }
}

/// Packets: a whole batch must fit, or low rates on short paths would send packet by packet.
const BATCH: u64 = 64;
