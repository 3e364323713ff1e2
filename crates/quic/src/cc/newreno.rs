use quickset_base::Duration;

use super::classic::{Acked, Avoidance};

/// NewReno (RFC 9002 §7.3.3, §B.5): a packet for each window that is acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NewReno {
    // Bytes acknowledged that made the window no whole byte larger: else one of a thousand packets would grow
    // a fifth too slowly.
    rest: u64,
}

impl Avoidance for NewReno {
    /// RFC 9002 §B.1, kLossReductionFactor.
    const KEPT: f64 = 0.5;

    fn begin(&mut self, _: Option<f64>) {
        self.rest = 0;
    }

    fn resize(&mut self, _: f64) {}

    fn idle(&mut self, _: Duration) {}

    fn advance(&mut self, acked: &Acked) -> u64 {
        if !acked.full {
            return acked.window;
        }
        let due = (self.rest + acked.bytes) * acked.mtu;
        self.rest = due % acked.window / acked.mtu;
        acked.window + due / acked.window
    }
}
